//! Tests of resource names.

use super::*;

#[test]
fn a_name_keeps_its_index() {
    let mut names = ResourceNames::default();
    assert_eq!(names.get("a.com/gpu"), None);
    let gpu = names.intern("a.com/gpu");
    let other = names.intern("a.com/npu");
    assert_eq!((gpu, other), (ResourceIdx(3), ResourceIdx(4)));
    assert_eq!((names.intern("a.com/gpu"), names.get("a.com/npu")), (gpu, Some(other)));
    assert_eq!(names.intern("cpu"), ResourceIdx::CPU);
    assert_eq!((names.name(other), names.count()), ("a.com/npu", 5));
}

#[test]
fn a_vector_leaves_out_zero_amounts_of_basic_resources_only() {
    let mut names = ResourceNames::default();
    let scalars = [("a.com/gpu".into(), 2), ("a.com/npu".into(), 0)].into();
    let resources = Resources { cpu: 0, memory: 7, ephemeral: -1, scalars };
    assert_eq!(
        *names.vector(&resources),
        [
            (ResourceIdx::MEMORY, 7),
            (ResourceIdx::EPHEMERAL, -1),
            (ResourceIdx(3), 2),
            (ResourceIdx(4), 0),
        ]
    );
    assert_eq!(*names.vector(&Resources::default()), []);
}
