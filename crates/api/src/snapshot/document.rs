//! A serde visitor that splits one document into objects while it is parsed.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{ListDefaults, Position, SnapshotReader};

/// Passes each object of a document to the reader as soon as it is complete.
pub(super) struct DocumentVisitor<'r>(pub(super) &'r mut SnapshotReader);

impl<'de> DeserializeSeed<'de> for DocumentVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object or a list of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reader = self.0;
        let mut head = Map::new();
        let mut items = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                let list_defaults = list_defaults(&head);
                items = Some(
                    map.next_value_seed(ItemsVisitor { reader: &mut *reader, list_defaults })?,
                );
            } else {
                head.insert(key, map.next_value()?);
            }
        }
        let Some(items) = items else {
            reader.take(&Value::Object(head), &ListDefaults::default(), 0, Position::default());
            return Ok(());
        };
        let list_defaults = list_defaults(&head);
        for (index, item) in items.waiting {
            reader.take(&item, &list_defaults, 1, Position { item: Some(index) });
        }
        if !head.contains_key("kind") {
            let message = "found none, expected List: the file seems to be cut off";
            reader.problem(Position::default(), "kind", message);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let reader = self.0;
        let list_defaults = ListDefaults::default();
        let taken = ItemsVisitor { reader: &mut *reader, list_defaults: list_defaults.clone() }
            .visit_seq(seq)?;
        for (index, item) in taken.waiting {
            reader.take(&item, &list_defaults, 1, Position { item: Some(index) });
        }
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The items of a list.
struct ItemsVisitor<'r> {
    reader: &'r mut SnapshotReader,
    /// Type fields read from the part of the list before its items.
    list_defaults: ListDefaults,
}

/// The items whose kind is not yet known.
struct UnknownItems {
    /// Items that wait for the end of the list, which names their kind, with their index.
    waiting: Vec<(usize, Value)>,
}

impl<'de> DeserializeSeed<'de> for ItemsVisitor<'_> {
    type Value = UnknownItems;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<UnknownItems, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsVisitor<'_> {
    type Value = UnknownItems;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<UnknownItems, A::Error> {
        let mut waiting = Vec::new();
        let mut index = 0;
        while let Some(item) = seq.next_element::<Value>()? {
            if item.get("kind").is_some() || self.list_defaults.kind.is_some() {
                self.reader.take(&item, &self.list_defaults, 1, Position { item: Some(index) });
            } else {
                waiting.push((index, item));
            }
            index += 1;
        }
        Ok(UnknownItems { waiting })
    }

    fn visit_unit<E: Error>(self) -> Result<UnknownItems, E> {
        Ok(UnknownItems { waiting: Vec::new() })
    }
}

fn list_defaults(head: &Map<String, Value>) -> ListDefaults {
    let text = |field| head.get(field).and_then(Value::as_str);
    ListDefaults::from_list(text("apiVersion"), text("kind"))
}
