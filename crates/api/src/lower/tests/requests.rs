//! Tests of the resource requests and limits of pods.

use serde_json::json;

use super::*;

const MI: i64 = 1 << 20;

/// Checks the requests of a pod in all variants as (cpu, memory): filter, score, on the node,
/// non-zero.
#[track_caller]
fn check_requests(name: &str, pod: &Value, want: [(i64, i64); 4]) {
    let spec = lowered(pod).spec;
    let pair = |resources: &Resources| (resources.cpu, resources.memory);
    let got = [
        pair(&spec.requests),
        pair(&spec.requests_for_score),
        pair(&spec.requests_on_node),
        (spec.non_zero_cpu, spec.non_zero_memory),
    ];
    assert_eq!(got, want, "{name}");
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

fn sidecar(cpu: &str, memory: &str) -> Value {
    let mut container = container(cpu, memory);
    container["name"] = json!("sidecar");
    container["restartPolicy"] = json!("Always");
    container
}

#[test]
fn limits_are_summed_like_requests_with_overhead_only_for_limited_resources() {
    let limited = |limits: &Value| json!({"resources": {"limits": limits}});
    let mut sidecar = limited(&json!({"cpu": "100m"}));
    sidecar["restartPolicy"] = json!("Always");
    let pod = a_pod(&json!({
        "containers": [limited(&json!({"cpu": "1", "example.com/gpu": "1"})), limited(&json!({"cpu": "500m"})), {}],
        "initContainers": [sidecar, limited(&json!({"cpu": "2", "memory": "0"}))],
        "overhead": {"cpu": "10m", "memory": "1Mi"},
    }));
    let limits = lowered(&pod).spec.limits.clone();
    assert_eq!((limits.cpu, limits.memory, limits.amount("example.com/gpu")), (2110, 0, 1));
    let pod = a_pod(&json!({
        "containers": [limited(&json!({"cpu": "1", "ephemeral-storage": "1"}))],
        "resources": {"limits": {"cpu": "3", "memory": "4Mi", "ephemeral-storage": "9"}},
        "overhead": {"memory": "1Mi"},
    }));
    let limits = lowered(&pod).spec.limits.clone();
    assert_eq!((limits.cpu, limits.memory, limits.ephemeral), (3000, 5 * MI, 1));
}

#[test]
fn requests_are_summed_as_upstream_does() {
    let all_equal = |cpu, memory| [(cpu, memory); 4];
    check_requests(
        "containers run together",
        &a_pod(&json!({"containers": [container("1", "10Mi"), container("500m", "5Mi")]})),
        all_equal(1500, 15 * MI),
    );
    check_requests(
        "fractions are rounded after summing",
        &a_pod(&json!({"containers": [container("0.4m", "0.5"), container("0.4m", "0.5")]})),
        all_equal(1, 1),
    );
    check_requests(
        "no requests",
        &a_pod(&json!({"containers": [{}, {}]})),
        [(0, 0), (200, 400 * MI), (0, 0), (200, 400 * MI)],
    );
    check_requests(
        "an explicit zero is not replaced by a default",
        &a_pod(&json!({"containers": [container("0", "0")]})),
        all_equal(0, 0),
    );
    check_requests(
        "limits do not count as requests",
        &a_pod(&json!({"containers": [{"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}]})),
        [(0, 0), (100, 200 * MI), (0, 0), (100, 200 * MI)],
    );
    check_requests(
        "an init container counts for the resources it requests more of",
        &a_pod(&json!({
            "containers": [container("1", "10Mi"), container("1", "10Mi")],
            "initContainers": [container("3", "5Mi"), container("1", "1Mi")],
        })),
        all_equal(3000, 20 * MI),
    );
    check_requests(
        "sidecars before an init container run beside it, and beside containers",
        &a_pod(&json!({
            "containers": [container("1", "1Mi")],
            "initContainers": [
                container("3", "1Mi"), sidecar("1", "1Mi"), container("3", "1Mi"), sidecar("500m", "1Mi"),
            ],
        })),
        all_equal(4000, 3 * MI),
    );
    check_requests(
        "overhead is added",
        &a_pod(
            &json!({"containers": [container("1", "1Mi")], "overhead": {"cpu": "250m", "memory": "1Mi"}}),
        ),
        all_equal(1250, 2 * MI),
    );
    check_requests(
        "a negative request counts as zero",
        &{
            let (object, problems) = pod(&a_pod(&json!({"containers": [container("-1", "1Mi")]})));
            assert_eq!(problems.len(), 1);
            assert_eq!(object.unwrap().spec.requests.cpu, 0);
            a_pod(&json!({"containers": [container("0", "1Mi")]}))
        },
        all_equal(0, MI),
    );
}

#[test]
fn pod_level_requests_replace_those_of_containers() {
    check_requests(
        "cpu and memory at pod level",
        &a_pod(&json!({
            "containers": [container("1", "1Mi"), {}],
            "resources": {"requests": {"cpu": "2", "memory": "4Mi"}},
            "overhead": {"cpu": "1"},
        })),
        [(3000, 4 * MI), (2100, 201 * MI), (3000, 4 * MI), (3000, 4 * MI)],
    );
    check_requests(
        "cpu at pod level, memory in a container",
        &a_pod(&json!({
            "containers": [container("1", "1Mi"), {}],
            "resources": {"requests": {"cpu": "2"}},
        })),
        [(2000, MI), (1100, 201 * MI), (2000, MI), (2000, MI)],
    );
    check_requests(
        "cpu at pod level, no memory",
        &a_pod(&json!({"containers": [{}, {}], "resources": {"requests": {"cpu": "2"}}})),
        [(2000, 0), (200, 400 * MI), (2000, 0), (2000, 400 * MI)],
    );
    check_requests(
        "only resources that cannot be requested at pod level",
        &a_pod(&json!({"containers": [{}], "resources": {"requests": {"example.com/x": "2"}}})),
        [(0, 0), (100, 200 * MI), (0, 0), (100, 200 * MI)],
    );
    check_requests(
        "limits only",
        &a_pod(&json!({"containers": [{}], "resources": {"limits": {"cpu": "2"}}})),
        [(0, 0), (100, 200 * MI), (0, 0), (100, 200 * MI)],
    );
    let spec = lowered(&a_pod(&json!({
        "containers": [{"resources": {"requests": {"hugepages-2Mi": "2Mi", "example.com/x": 1}}}],
        "resources": {"requests": {"hugepages-2Mi": "8Mi", "example.com/x": 5}},
    })))
    .spec;
    assert_eq!(scalars(&spec.requests), [("example.com/x", 1), ("hugepages-2Mi", 8 * MI)]);
    assert_eq!(
        scalars(&spec.requests_for_score),
        [("example.com/x", 1), ("hugepages-2Mi", 2 * MI)]
    );
}

#[test]
fn a_resize_counts_on_the_node_only() {
    let pod = |spec_cpu: &str, status: Value| {
        let mut pod = a_pod(&json!({
            "containers": [container(spec_cpu, "1Mi")],
            "initContainers": [sidecar("1", "1Mi"), container("1", "1Mi")],
        }));
        pod["status"] = status;
        pod
    };
    let statuses = |actuated: &str, allocated: &str| {
        json!([{
            "name": "c",
            "resources": {"requests": {"cpu": actuated, "memory": "1Mi"}},
            "allocatedResources": {"cpu": allocated},
        }])
    };
    let check = |name: &str, pod: &Value, spec: i64, node: i64| {
        let (memory, spec, node) = (2 * MI, spec + 1000, node + 1000);
        let want = [(spec, memory), (spec, memory), (node, memory), (node, memory)];
        check_requests(name, pod, want);
    };
    check("resize up", &pod("3", json!({"containerStatuses": statuses("1", "2")})), 3000, 3000);
    check("resize down", &pod("1", json!({"containerStatuses": statuses("3", "2")})), 1000, 3000);
    check(
        "allocated more than actuated",
        &pod("1", json!({"containerStatuses": statuses("2", "4")})),
        1000,
        4000,
    );
    check(
        "infeasible",
        &pod(
            "9",
            json!({
                "containerStatuses": statuses("1", "2"),
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            }),
        ),
        9000,
        2000,
    );
    check(
        "deferred",
        &pod(
            "9",
            json!({
                "containerStatuses": statuses("1", "2"),
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
            }),
        ),
        9000,
        9000,
    );
    check(
        "a status without resources is ignored",
        &pod(
            "1",
            json!({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "4"}}]}),
        ),
        1000,
        1000,
    );
    check(
        "the status of an init container with the name of a main container",
        &pod("1", json!({"initContainerStatuses": statuses("9", "9")})),
        1000,
        // Statuses are looked up by name alone.
        9000,
    );
    let mut sidecar_status = statuses("2", "2");
    sidecar_status[0]["name"] = json!("sidecar");
    check("a sidecar", &pod("1", json!({"initContainerStatuses": sidecar_status})), 1000, 2000);
    let mut whole = a_pod(&json!({
        "containers": [container("1", "1Mi")],
        "resources": {"requests": {"cpu": "2"}},
    }));
    whole["status"] = json!({
        "resources": {"requests": {"cpu": "3"}},
        "allocatedResources": {"cpu": "4"},
    });
    check_requests("resize at pod level", &whole, [(2000, MI), (1000, MI), (4000, MI), (4000, MI)]);
}
