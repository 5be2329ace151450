//! Tests of the slab.

use super::*;

#[test]
fn slots_are_used_again() {
    let mut slab = Slab::default();
    let slots: Vec<usize> = (0..PAGE + 2).map(|thing| slab.insert(thing)).collect();
    assert_eq!(slots, (0..PAGE + 2).collect::<Vec<_>>());
    assert_eq!(slab.remove(PAGE), Some(PAGE));
    assert_eq!(slab.remove(PAGE), None);
    assert_eq!(slab.remove(3), Some(3));
    assert_eq!((slab.len(), slab.slots()), (PAGE, PAGE + 2));
    assert_eq!(slab.get(3), None);
    assert_eq!(slab.get_mut(PAGE + 2), None);
    let around: Vec<_> = slab.iter_within(2..5).collect();
    assert_eq!(around, [(2, &2), (4, &4)]);
    assert_eq!([slab.insert(7), slab.insert(8), slab.insert(9)], [3, PAGE, PAGE + 2]);
    assert_eq!(slab.iter().count(), slab.len());
    assert_eq!(slab.get(PAGE), Some(&8));
}

mod properties {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::{PAGE, Slab};

    proptest! {
        /// Steps are many enough for several pages; a step removes a thing or inserts some.
        #[test]
        fn things_stay_in_their_slots_and_slots_never_outnumber_the_most_things(
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..PAGE / 2), 1..40),
        ) {
            let (mut slab, mut model) = (Slab::default(), BTreeMap::new());
            let mut most = 0;
            for (number, (slot, inserted)) in steps.into_iter().enumerate() {
                if !model.is_empty() {
                    let slot = *model.keys().nth(slot.index(model.len())).unwrap();
                    prop_assert_eq!(slab.remove(slot), model.remove(&slot));
                    prop_assert_eq!(slab.get(slot), None);
                }
                for thing in 0..inserted {
                    let slot = slab.insert((number, thing));
                    prop_assert!(model.insert(slot, (number, thing)).is_none(), "{} is taken", slot);
                }
                most = most.max(model.len());
                prop_assert_eq!((slab.len(), slab.slots()), (model.len(), most));
                prop_assert_eq!(slab.is_empty(), model.is_empty());
                prop_assert!(slab.iter().eq(model.iter().map(|(slot, thing)| (*slot, thing))));
            }
        }
    }
}
