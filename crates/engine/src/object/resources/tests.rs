//! Tests of resource amounts and of the names of resources and labels.

use super::*;

#[test]
fn extended_resources_have_a_domain_of_their_own() {
    for name in ["nvidia.com/gpu", "example.com/a_b.c"] {
        assert!(is_extended_resource(name) && is_scalar_resource(name), "{name}");
    }
    for name in [
        "gpu",
        "requests.nvidia.com/gpu",
        "nvidia.com/",
        "/gpu",
        "Nvidia.com/gpu",
        "a.com/b/c",
        "a.com/-b",
    ] {
        assert!(!is_extended_resource(name) && !is_scalar_resource(name), "{name}");
    }
    for name in ["hugepages-2Mi", "attachable-volumes-aws", "kubernetes.io/x", "a.kubernetes.io/x"]
    {
        assert!(!is_extended_resource(name) && is_scalar_resource(name), "{name}");
    }
    let long_domain = format!("{}.com/x", "a".repeat(241));
    assert!(is_qualified_name(&long_domain) && !is_extended_resource(&long_domain));
}

#[test]
fn an_amount_is_found_by_the_name_that_kubernetes_uses() {
    let resources = Resources {
        cpu: 1,
        memory: 2,
        ephemeral: 3,
        scalars: [("a.com/x".into(), 4), ("a.com/y".into(), 0), ("hugepages-2Mi".into(), 5)].into(),
    };
    for (name, amount, scalar) in [
        ("cpu", 1, None),
        ("memory", 2, None),
        ("ephemeral-storage", 3, None),
        ("a.com/x", 4, Some(4)),
        ("a.com/y", 0, Some(0)),
        ("hugepages-2Mi", 5, Some(5)),
        ("a.com/z", 0, None),
        ("", 0, None),
    ] {
        assert_eq!((resources.amount(name), resources.scalar(name)), (amount, scalar), "{name}");
    }
}

#[test]
fn label_values_have_63_characters_at_most_and_alphanumeric_ends() {
    let long = "a".repeat(64);
    let inner_only = format!("a{}z", "-_.".repeat(20));
    for (value, valid) in [
        ("", true),
        ("a", true),
        ("Z9", true),
        ("a-b_c.d", true),
        (&long[..63], true),
        (&long, false),
        (&inner_only, true),
        ("-a", false),
        ("a-", false),
        (".a", false),
        ("a_", false),
        ("a b", false),
        ("a/b", false),
        ("a:b", false),
        ("ä", false),
        ("a\n", false),
    ] {
        assert_eq!(is_label_value(value), valid, "{value:?}");
    }
}

#[test]
fn qualified_names_have_an_optional_domain_and_a_name() {
    let name = "n".repeat(63);
    let domain = format!("{}com", "abcdefghi.".repeat(25));
    assert_eq!(domain.len(), 253);
    let longest = format!("{domain}/{name}");
    let too_long_name = format!("{name}n");
    let too_long_domain = format!("a{domain}/{name}");
    for (text, valid) in [
        ("app", true),
        ("App_1.x-y", true),
        ("example.com/app", true),
        ("1.2/x", true),
        (&*longest, true),
        (&*too_long_name, false),
        (&*too_long_domain, false),
        ("", false),
        ("/app", false),
        ("example.com/", false),
        ("example..com/app", false),
        (".example/app", false),
        ("example./app", false),
        ("-example.com/app", false),
        ("example-.com/app", false),
        ("exa_mple.com/app", false),
        ("Example.com/app", false),
        ("a.com/b/c", false),
        ("a.com/-b", false),
    ] {
        assert_eq!(is_qualified_name(text), valid, "{text:?}");
    }
}
