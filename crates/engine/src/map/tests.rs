//! Tests of the map.

use super::*;

#[test]
fn values_are_replaced_changed_and_removed() {
    let mut map: Map<String, u32> = Map::default();
    assert!(map.is_empty());
    assert_eq!(map.insert("a".to_owned(), 1), None);
    assert_eq!(map.insert("a".to_owned(), 2), Some(1));
    *map.get_mut("a").unwrap() += 5;
    assert_eq!((map.get("a"), map.get("b")), (Some(&7), None));
    assert_eq!((map.contains_key("a"), map.len()), (true, 1));
    assert_eq!((map.remove("a"), map.remove("a")), (Some(7), None));
    assert!(map.is_empty() && !map.contains_key("a"));
}

#[test]
fn a_value_is_made_only_for_an_absent_key() {
    let mut map = Map::default();
    let mut made = 0;
    for _ in 0..2 {
        *map.get_or_insert_with("a", || {
            made += 1;
            10
        }) += 1;
    }
    assert_eq!((made, map.get("a")), (1, Some(&12)));
}
