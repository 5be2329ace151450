//! `jindou explain`: the answer, suggestions for pods without a feasible node, and the table of both.

mod suggest;
pub mod table;

use api::answer::{Answer, explain};
use engine::engine::Engine;
use engine::object::Pod;

/// Explains a pod with suggestions, and with an error as its message.
///
/// Returns `None` if no profile has the pod's scheduler name.
pub fn explain_with_suggestions(engine: &mut Engine, pod: &Pod, now: i64) -> Option<Answer> {
    let mut answer = explain(engine, pod.clone(), now)?;
    if let Some(error) = &answer.error {
        answer.message.clone_from(error);
    } else if answer.selected.is_empty() {
        answer.suggestions = suggest::suggest(engine, pod);
    }
    if !pod.gates.is_empty() {
        let gates = pod.gates.join(", ");
        let text =
            format!("remove the scheduling gates ({gates}): the pod is not scheduled before");
        answer.suggestions.insert(0, text);
    }
    Some(answer)
}
