//! Committed cases: Jindou's answers must equal those that upstream's scheduler gave. No Go is needed.

#[test]
fn committed_cases_are_answered_as_upstream_answers_them() {
    let (mut count, mut wrong) = (0, Vec::new());
    for plugin in conformance::golden::plugins() {
        let (cases, differences) =
            conformance::golden::check(plugin).expect("the files are committed");
        count += cases;
        wrong.extend(differences.into_iter().map(|text| format!("{plugin} {text}")));
    }
    assert!(
        wrong.is_empty(),
        "{} differences in {count} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
