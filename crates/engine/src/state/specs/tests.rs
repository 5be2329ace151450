//! Tests of the specs in use.

use super::*;

fn spec(cpu: i64) -> Arc<PodSpec> {
    Arc::new(PodSpec { non_zero_cpu: cpu, ..PodSpec::default() })
}

fn add(specs: &mut Specs, spec: &Arc<PodSpec>) -> SpecIdx {
    match specs.acquire(spec) {
        Some(found) => found,
        None => specs.insert(Arc::clone(spec), Box::default(), Box::default()),
    }
}

#[test]
fn equal_specs_are_stored_once_wherever_they_are() {
    let mut specs = Specs::default();
    let (one, equal, other) = (spec(1), spec(1), spec(2));
    let first = add(&mut specs, &one);
    assert_eq!(add(&mut specs, &one), first);
    assert_eq!(add(&mut specs, &equal), first);
    assert_ne!(add(&mut specs, &other), first);
    assert!(Arc::ptr_eq(&specs.get(first).spec, &one));
}

#[test]
fn the_last_user_takes_the_spec_along() {
    let mut specs = Specs::default();
    let one = spec(1);
    let index = add(&mut specs, &one);
    specs.hold(index);
    assert!(specs.release(index).is_none());
    let record = specs.release(index).unwrap();
    assert!(Arc::ptr_eq(&record.spec, &one));
    assert!(specs.by_spec.is_empty() && specs.by_address.is_empty());
    assert_eq!(specs.acquire(&one), None);
    assert_eq!(add(&mut specs, &spec(2)), index, "the slot is used again");
}

#[test]
fn an_address_used_again_does_not_stand_for_the_old_spec() {
    let mut specs = Specs::default();
    for cpu in 0..100 {
        // Each one is likely to be allocated where the one before was.
        let one = spec(cpu);
        let index = add(&mut specs, &one);
        assert_eq!(specs.get(index).spec.non_zero_cpu, cpu);
        drop(one);
        drop(specs.release(index));
    }
}
