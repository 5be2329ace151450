//! The checker: cached decisions must equal decisions from scratch.

use api::answer::explain;
use engine::object::Pod;
use engine::queue::QueueStage;

use super::TestScheduler;

impl TestScheduler {
    /// Compares everything that is cached with results from scratch: the feasible nodes and the scores
    /// of every class, the decision on every waiting pod, and whether a pod waits that could be placed.
    /// Asks plugins twice about every pod. Runs before every attempt and after every step.
    ///
    /// A difference means that a custom plugin breaks its contract; the error says which part, and the
    /// plugins that it can be.
    pub fn check(&mut self) -> Result<(), String> {
        let cached = self.engine.audit().and_then(|()| self.engine.audit_decisions());
        cached.map_err(|found| self.blame(&found))?;
        self.check_repeated()?;
        self.check_waiting()
    }

    /// Checks that plugins give the same answers about every pod when they are asked twice.
    fn check_repeated(&mut self) -> Result<(), String> {
        let pods: Vec<_> =
            self.world.pods.iter().map(|(name, pod)| (name.clone(), pod.clone())).collect();
        for (pod, stored) in pods {
            // Without its node, so that all nodes are filtered and scored.
            let stored = Pod { node: "".into(), ..stored };
            let mut ask = || explain(&mut self.engine, stored.clone(), self.now);
            let (Some(first), Some(second)) = (ask(), ask()) else { continue };
            for (node, one) in &first.nodes {
                let two = second.nodes.get(node).cloned().unwrap_or_default();
                if *one == two {
                    continue;
                }
                let differs =
                    |(plugin, score): &(&String, &i64)| two.scores.get(*plugin) != Some(*score);
                let scorer = one.scores.iter().find(differs).map(|(plugin, _)| plugin);
                let filter = Some(&one.plugin).filter(|plugin| !plugin.is_empty());
                let plugin = filter.or(scorer).unwrap_or(&two.plugin);
                return Err(format!(
                    "{plugin} answers differently about {pod} on {node} when it is asked twice: \
                     {one:?}, then {two:?}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that no pod waits for an event although it could be placed, or be admitted to the queue.
    fn check_waiting(&mut self) -> Result<(), String> {
        let waits = |stage| matches!(stage, QueueStage::Unschedulable | QueueStage::Gated);
        let queued = self.engine.queue().iter().filter(|(_, stage)| waits(*stage));
        let queued: Vec<_> = queued.map(|(queued, _)| *queued).collect();
        for queued in queued {
            let state = self.engine.state();
            let name = state.full_name(queued.pod);
            let profile = &self.engine.profiles()[queued.profile()];
            if let Some(plugin) = queued.gating() {
                if profile.plugins[plugin].pre_enqueue(state, queued.pod).is_ok() {
                    let plugin = profile.plugin_name(plugin);
                    return Err(format!(
                        "{plugin} keeps {name} out of the queue, but admits it when asked again: \
                         `subscriptions`, the hint or `Rejection::until` must name what changed"
                    ));
                }
                continue;
            }
            let blockers: Vec<_> = queued.blockers().iter().collect();
            let blockers: Vec<_> =
                blockers.into_iter().map(|plugin| profile.plugin_name(plugin).to_owned()).collect();
            let answer = self.explain(&name);
            if !answer.selected.is_empty() && answer.objections.is_empty() {
                return Err(format!(
                    "{} rejected {name}, which fits on {} now: the events of the plugin, its hint, \
                     `valid_until` or `Rejection::until` must name what changed",
                    blockers.join(" and "),
                    answer.selected
                ));
            }
        }
        Ok(())
    }

    /// Returns the contract that a difference breaks, and the custom plugins that it can be.
    fn blame(&self, found: &str) -> String {
        let custom = self.custom.concat();
        let suspects = if custom.is_empty() {
            "no custom plugin is enabled, so this is a defect of Jindou".to_owned()
        } else {
            format!("one of the custom plugins breaks it: {}", custom.join(", "))
        };
        format!(
            "a cached result differs from one from scratch: {found}\n\
             Results may depend on the arguments, the class of the pod, the node and its pods \
             (`reads_pods`), declared states (`initial_state`, `depends_on_state`), declared areas \
             (`depends_on`) and the time if `valid_until` or `Rejection::until` names its end; {suspects}"
        )
    }
}
