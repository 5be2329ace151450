//! One document of any format, taken apart while it is parsed.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{Inherited, Position, Reader};

/// Passes the objects of a document to the reader as soon as they are complete.
pub(super) struct Document<'r>(pub(super) &'r mut Reader);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
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
                let inherited = inherited(&head);
                items = Some(map.next_value_seed(Items { reader: &mut *reader, inherited })?);
            } else {
                head.insert(key, map.next_value()?);
            }
        }
        let Some(items) = items else {
            reader.take(&Value::Object(head), &Inherited::default(), 0, Position::default());
            return Ok(());
        };
        let inherited = inherited(&head);
        for (index, item) in items.waiting {
            reader.take(&item, &inherited, 1, Position { item: Some(index) });
        }
        if !head.contains_key("kind") {
            let message = "found none, expected List: the file seems to be cut off";
            reader.problem(Position::default(), "kind", message);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let reader = self.0;
        let inherited = Inherited::default();
        let taken = Items { reader: &mut *reader, inherited: inherited.clone() }.visit_seq(seq)?;
        for (index, item) in taken.waiting {
            reader.take(&item, &inherited, 1, Position { item: Some(index) });
        }
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The items of a list.
struct Items<'r> {
    reader: &'r mut Reader,
    /// What the part of the list before its items says.
    inherited: Inherited,
}

/// What came of the items.
struct TakenItems {
    /// Those that cannot be taken before the end of the list says their kind, with their number.
    waiting: Vec<(usize, Value)>,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = TakenItems;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TakenItems, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = TakenItems;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TakenItems, A::Error> {
        let mut waiting = Vec::new();
        let mut index = 0;
        while let Some(item) = seq.next_element::<Value>()? {
            if item.get("kind").is_some() || self.inherited.kind.is_some() {
                self.reader.take(&item, &self.inherited, 1, Position { item: Some(index) });
            } else {
                waiting.push((index, item));
            }
            index += 1;
        }
        Ok(TakenItems { waiting })
    }

    fn visit_unit<E: Error>(self) -> Result<TakenItems, E> {
        Ok(TakenItems { waiting: Vec::new() })
    }
}

fn inherited(head: &Map<String, Value>) -> Inherited {
    let text = |field| head.get(field).and_then(Value::as_str);
    Inherited::from_list(text("apiVersion"), text("kind"))
}
