//! Tests of the indexes.

use super::*;
use crate::state::resources::ResourceNames;

#[test]
fn none_is_the_only_index_that_is_not_some() {
    assert!(!PodIdx::NONE.is_some());
    for index in [0, 1, u32::MAX - 1] {
        let pod = PodIdx::from(index as usize);
        assert_eq!((pod.is_some(), pod.at(), pod), (true, index as usize, PodIdx(index)));
    }
    assert!(PodIdx(7) < PodIdx::NONE, "none comes last in order");
}

#[test]
fn basic_resources_have_fixed_indexes() {
    let names = ResourceNames::default();
    for (index, name) in [
        (ResourceIdx::CPU, "cpu"),
        (ResourceIdx::MEMORY, "memory"),
        (ResourceIdx::EPHEMERAL, "ephemeral-storage"),
    ] {
        assert_eq!((names.name(index), names.get(name)), (name, Some(index)));
    }
    assert_eq!(names.count(), 3);
}
