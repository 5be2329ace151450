//! Tests of storage objects.

use super::*;

#[test]
fn access_modes_are_a_set() {
    let all = [
        AccessModes::READ_WRITE_ONCE,
        AccessModes::READ_ONLY_MANY,
        AccessModes::READ_WRITE_MANY,
        AccessModes::READ_WRITE_ONCE_POD,
    ];
    for (position, one) in all.iter().enumerate() {
        for (other_position, other) in all.iter().enumerate() {
            let both = one.with(*other);
            assert!(both.contains(*one) && both.contains(*other) && both == other.with(*one));
            assert_eq!(one.contains(*other), position == other_position);
            assert_eq!(one.contains(both), position == other_position);
        }
        assert!(one.contains(AccessModes::NONE) && !AccessModes::NONE.contains(*one));
    }
}

#[test]
fn a_claim_is_bound_once_it_names_a_volume_and_binding_is_complete() {
    for (volume, completed, bound) in
        [("", false, false), ("", true, false), ("pv", false, false), ("pv", true, true)]
    {
        let claim = PersistentVolumeClaim {
            volume_name: volume.into(),
            bind_completed: completed,
            ..PersistentVolumeClaim::default()
        };
        assert_eq!(claim.is_bound(), bound, "{volume:?} {completed}");
    }
}

#[test]
fn a_claim_without_a_class_has_the_empty_name_of_one() {
    for (class, name) in [(None, ""), (Some(""), ""), (Some("fast"), "fast")] {
        let claim = PersistentVolumeClaim {
            storage_class: class.map(Text::from),
            ..PersistentVolumeClaim::default()
        };
        assert_eq!(claim.class(), name);
    }
}
