//! Tests of the change log.

use super::*;

#[test]
fn a_reader_gets_all_entries_since_its_position_or_none() {
    let mut log = ChangeLog::new(3);
    assert_eq!(log.since(0), Some(&[][..]));
    for entry in 0..6 {
        log.push(entry);
    }
    assert_eq!((log.end(), log.since(0)), (6, Some(&[0, 1, 2, 3, 4, 5][..])));
    // The seventh entry drops the first three.
    log.push(6);
    for (position, entries) in [
        (0, None),
        (2, None),
        (3, Some(&[3, 4, 5, 6][..])),
        (6, Some(&[6][..])),
        (7, Some(&[][..])),
        (8, None),
    ] {
        assert_eq!(log.since(position), entries, "{position}");
    }
    assert_eq!(log.end(), 7);
}

mod properties {
    use proptest::prelude::*;

    use super::super::ChangeLog;

    proptest! {
        /// Readers fall behind by different numbers of entries; each must see every entry once or
        /// learn that it missed some.
        #[test]
        fn readers_see_every_entry_once_or_start_from_scratch(
            limit in 1_usize..8,
            reads in prop::collection::vec((0_usize..3, 0_u64..12), 1..80),
        ) {
            let mut log = ChangeLog::new(limit);
            let mut positions = [0_u64; 3];
            for (reader, pushes) in reads {
                for _ in 0..pushes {
                    let entry = log.end();
                    log.push(entry);
                }
                let behind = log.end() - positions[reader];
                match log.since(positions[reader]) {
                    Some(entries) => {
                        let expected = positions[reader]..log.end();
                        prop_assert_eq!(entries.to_vec(), expected.collect::<Vec<_>>());
                    }
                    None => prop_assert!(behind > limit as u64, "only {} behind", behind),
                }
                prop_assert!(behind <= 2 * limit as u64 || log.since(positions[reader]).is_none());
                positions[reader] = log.end();
            }
        }
    }
}
