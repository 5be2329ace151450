//! Cache keys: the bytes of all fields that a cached value is lowered from.

use crate::protobuf::wire::{Payload, next_field};
use crate::protobuf::{Error, Message};

/// Number of levels that includes all nested messages.
pub(super) const ALL_LEVELS: u32 = u32::MAX;

/// Concatenates fields into a key. Equal keys mean equal fields; the reverse need not hold.
#[derive(Default)]
pub(super) struct CacheKeyBuilder {
    bytes: Vec<u8>,
}

impl CacheKeyBuilder {
    /// Empties the key, keeping its memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Returns the key.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a field, if the schema reads it. In messages nested up to `levels` deep, fields that
    /// the schema does not read are left out. Deeper messages are copied whole, which is faster and
    /// at worst yields different keys for objects that are lowered alike.
    pub(super) fn add(
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
                self.begin_message(number);
                while let Some((number, payload)) = next_field(&mut bytes)? {
                    self.add(inner, number, payload, levels - 1)?;
                }
                self.end_message();
            }
            Payload::Number(value) => {
                self.add_head(number, 1, 0);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
            Payload::Bytes(bytes) => {
                self.add_head(number, 2, bytes.len());
                self.bytes.extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Begins a nested message, whose fields follow.
    pub(super) fn begin_message(&mut self, number: u32) {
        self.add_head(number, 0, 0);
    }

    /// Ends a nested message.
    pub(super) fn end_message(&mut self) {
        // No field has the number zero.
        self.add_head(0, 0, 0);
    }

    /// Adds number, type and length, so that keys are equal only if they have the same fields.
    fn add_head(&mut self, number: u32, kind: u64, length: usize) {
        debug_assert!(length < 1 << 30, "objects are limited to `OBJECT_BYTES_MAX`");
        let head = u64::from(number) << 32 | kind << 30 | length as u64;
        self.bytes.extend_from_slice(&head.to_le_bytes());
    }
}
