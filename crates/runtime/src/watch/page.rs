//! Decoding of the pages of a list.

use api::lower::Source;
use api::protobuf::{schema, wire};
use serde::Deserialize;
use serde_json::Value;

use super::decoder::{DecodeError, RawObject};
use crate::api_error::Encoding;

/// One page of a list.
pub(super) struct ListPage<'a> {
    /// resourceVersion of the list.
    pub(super) version: u64,
    pub(super) objects: Vec<RawObject<'a>>,
    /// Continue token of the next page; empty on the last page.
    pub(super) next: String,
}

/// `metadata` of a list.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

impl<'a> ListPage<'a> {
    pub(super) fn read(encoding: Encoding, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (meta, objects) = match encoding {
            Encoding::Json => read_json(bytes)?,
            Encoding::Protobuf => read_protobuf(bytes)?,
        };
        let version = meta.resource_version.unwrap_or_default();
        let version = version.parse().map_err(|_| DecodeError::Version(version))?;
        Ok(Self { version, objects, next: meta.r#continue.unwrap_or_default() })
    }
}

fn read_json<'a>(bytes: &[u8]) -> Result<(ListMeta, Vec<RawObject<'a>>), DecodeError> {
    #[derive(Deserialize)]
    struct List {
        metadata: ListMeta,
        items: Option<Vec<Value>>,
    }
    let List { metadata, items } = serde_json::from_slice(bytes)?;
    Ok((metadata, items.unwrap_or_default().into_iter().map(RawObject::Json).collect()))
}

fn read_protobuf(bytes: &[u8]) -> Result<(ListMeta, Vec<RawObject<'_>>), DecodeError> {
    let (mut meta, mut objects) = (None, Vec::new());
    let mut rest = wire::strip_envelope(bytes)?;
    while let Some((number, payload)) = wire::next_field(&mut rest)? {
        match number {
            1 => meta = Some(payload.bytes()?),
            2 => objects.push(RawObject::Protobuf(payload.bytes()?)),
            _ => {}
        }
    }
    let meta = Source::Protobuf(&schema::LIST_META, meta.ok_or(DecodeError::NoListMetadata)?);
    Ok((meta.read().map_err(DecodeError::Fields)?, objects))
}
