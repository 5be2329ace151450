//! Amounts in Kubernetes' notation.

/// Returns an amount of a resource, rounded down to a binary unit if its exact form has none.
pub(super) fn short(resource: &str, amount: i64) -> String {
    match kind(resource) {
        Kind::Cores => cores(amount),
        Kind::Count => amount.to_string(),
        Kind::Bytes => {
            let exact = bytes(amount);
            let (mebi, kibi) = (amount >> 20, amount >> 10);
            match (exact.ends_with('i'), mebi, kibi) {
                (true, ..) => exact,
                (false, 1.., _) => format!("{mebi}Mi"),
                (false, _, 1..) => format!("{kibi}Ki"),
                (false, ..) => exact,
            }
        }
    }
}

/// Returns the exact amount of a resource.
pub(super) fn exact(resource: &str, amount: i64) -> String {
    match kind(resource) {
        Kind::Cores => cores(amount),
        Kind::Bytes => bytes(amount),
        Kind::Count => amount.to_string(),
    }
}

enum Kind {
    Cores,
    Bytes,
    Count,
}

fn kind(resource: &str) -> Kind {
    match resource {
        "cpu" => Kind::Cores,
        "memory" | "ephemeral-storage" => Kind::Bytes,
        _ if resource.starts_with("hugepages-") => Kind::Bytes,
        _ => Kind::Count,
    }
}

fn cores(milli: i64) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// Returns the shortest exact form.
fn bytes(amount: i64) -> String {
    const UNITS: [(&str, i64); 11] = [
        ("Ei", 1 << 60),
        ("Pi", 1 << 50),
        ("Ti", 1 << 40),
        ("Gi", 1 << 30),
        ("Mi", 1 << 20),
        ("Ki", 1 << 10),
        ("T", 1_000_000_000_000),
        ("G", 1_000_000_000),
        ("M", 1_000_000),
        ("k", 1000),
        ("", 1),
    ];
    let whole = UNITS.iter().filter(|(_, size)| amount % size == 0 && amount / size != 0);
    let forms = whole.map(|(name, size)| format!("{}{name}", amount / size));
    forms.min_by_key(String::len).unwrap_or_else(|| amount.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_their_usual_form() {
        for (resource, amount, expected_exact, expected_short) in [
            ("cpu", 1500, "1500m", "1500m"),
            ("cpu", 16_000, "16", "16"),
            ("cpu", 0, "0", "0"),
            ("memory", 3 << 30, "3Gi", "3Gi"),
            ("memory", 1_500_000_000, "1500M", "1430Mi"),
            ("memory", 100_000_000_000, "100G", "95367Mi"),
            ("memory", 7_893_127_169, "7893127169", "7527Mi"),
            ("memory", 2047, "2047", "1Ki"),
            ("memory", 1000, "1k", "1k"),
            ("memory", 0, "0", "0"),
            ("ephemeral-storage", 1 << 40, "1Ti", "1Ti"),
            ("hugepages-2Mi", 4 << 20, "4Mi", "4Mi"),
            ("nvidia.com/gpu", 2048, "2048", "2048"),
            ("memory", i64::MAX, "9223372036854775807", "8796093022207Mi"),
        ] {
            assert_eq!(exact(resource, amount), expected_exact);
            assert_eq!(short(resource, amount), expected_short);
        }
    }
}
