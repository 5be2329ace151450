//! What siblings share, put together so that it can be compared.

use crate::protobuf::wire::{Payload, next_field};
use crate::protobuf::{Error, Message};

/// Levels of all messages.
pub(super) const ALL: u32 = u32::MAX;

/// Fields that are read, one after the other. Two piles of the same bytes have the same fields.
#[derive(Default)]
pub(super) struct CacheKeyBuilder {
    bytes: Vec<u8>,
}

impl CacheKeyBuilder {
    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes a field, if it is read. Of messages, so many levels down, only what is read is taken.
    /// What lies deeper is taken as it stands there, which is faster: at worst, siblings look like
    /// strangers.
    pub(super) fn take(
        &mut self,
        of: &Message,
        number: u32,
        payload: Payload<'_>,
        levels: u32,
    ) -> Result<(), Error> {
        if !of.reads(number) {
            return Ok(());
        }
        match payload {
            Payload::Bytes(mut bytes)
                if levels > 0
                    && let Some(inner) = of.nested(number) =>
            {
                self.head(number, 0, 0);
                while let Some((number, payload)) = next_field(&mut bytes)? {
                    self.take(inner, number, payload, levels - 1)?;
                }
                // There is no field with this number.
                self.head(0, 0, 0);
            }
            Payload::Number(value) => {
                self.head(number, 1, 0);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
            Payload::Bytes(bytes) => {
                self.head(number, 2, bytes.len());
                self.bytes.extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Takes what tells a field from others.
    fn head(&mut self, number: u32, kind: u64, length: usize) {
        debug_assert!(length < 1 << 30, "the object is not that large");
        let head = u64::from(number) << 32 | kind << 30 | length as u64;
        self.bytes.extend_from_slice(&head.to_le_bytes());
    }
}
