//! Answers a case with Jindou's engine and plugins, in the form of the oracle's answers.

use std::panic::catch_unwind;

use api::config::{self, Configuration, Gates};
use plugins::registry::Registry;
use serde_json::{Value, json};

/// Returns Jindou's answer to a case; a panic becomes the answer `{"id", "panic"}`.
pub(crate) fn answer(case: &Value) -> Value {
    catch_unwind(|| answer_or_panic(case)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        json!({"id": case["id"], "panic": text.unwrap_or("panicked")})
    })
}

fn answer_or_panic(case: &Value) -> Value {
    let configured = read_config(&case["config"])
        .and_then(|config| Registry::default().profiles(&config).map_err(|all| texts(&all)));
    let profiles = match configured {
        Ok(profiles) => profiles,
        Err(problems) => return json!({"id": case["id"], "configErrors": problems}),
    };
    let objects = case["objects"].as_array().cloned().unwrap_or_default();
    let snapshot = api::snapshot::from_values(objects);
    let subject = api::snapshot::from_values([case["pod"].clone()]);
    let Some(pod) = subject.objects.pods.into_iter().next() else {
        let mut problems = texts(&snapshot.problems);
        problems.extend(texts(&subject.problems));
        problems.push("the case has no pod".to_owned());
        return json!({"id": case["id"], "error": problems.join("; ")});
    };
    // Problems of objects are no error: upstream's scheduler also accepts objects that the API server would refuse.
    let mut engine = snapshot.objects.into_engine(profiles);
    let Some(answer) = api::answer::explain(&mut engine, pod, 0) else {
        return json!({"id": case["id"], "error": "no profile has this scheduler name"});
    };
    let mut value = json!(answer);
    value["id"] = case["id"].clone();
    if let Some(error) = answer.error {
        value["error"] = error.into();
    }
    value
}

/// Returns the configuration of a case, the default one for null, or its problems.
fn read_config(config: &Value) -> Result<Configuration, Vec<String>> {
    if config.is_null() {
        return Ok(config::defaults(Gates::default()));
    }
    let read = config::read(&config.to_string());
    read.config.ok_or_else(|| texts(&read.problems))
}

fn texts<T: ToString>(problems: &[T]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(config: &Value, pod: &Value) -> Value {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
        });
        json!({"id": 7, "config": config, "objects": [node], "pod": pod})
    }

    #[test]
    fn the_answer_has_the_id_of_the_case_and_the_selected_node() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "subject", "namespace": "default"},
            "spec": {"containers": [{"name": "app"}], "schedulerName": "default-scheduler"},
        });
        let answer = answer(&case(&Value::Null, &pod));
        assert_eq!((&answer["id"], &answer["selected"]), (&json!(7), &json!("n1")), "{answer}");
        assert!(answer["error"].is_null(), "{answer}");
    }

    #[test]
    fn a_wrong_configuration_is_answered_with_its_problems() {
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "unknownField": 1,
        });
        let answer = answer(&case(&config, &Value::Null));
        assert!(
            answer["configErrors"][0].as_str().is_some_and(|text| text.contains("unknownField")),
            "{answer}"
        );
    }

    #[test]
    fn a_case_without_a_pod_is_an_error() {
        let answer = answer(&case(&Value::Null, &json!({})));
        assert!(answer["error"].as_str().is_some_and(|text| text.contains("no pod")), "{answer}");
    }
}
