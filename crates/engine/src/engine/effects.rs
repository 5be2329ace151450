//! Effects of plugins, carried out at the end of the change during which they were requested.

use crate::command::Command;
use crate::framework::effects::{Effect, Effects};
use crate::framework::profile::PluginPosition;
use crate::index::PodIdx;
use crate::object::Text;

use super::Engine;
use super::binding::BindingStage;
use super::core::Core;

/// An effect with the plugin that requested it.
pub(super) struct PluginEffect {
    profile: usize,
    plugin: PluginPosition,
    effect: Effect,
}

impl Core {
    /// Adds the effects of a plugin's call.
    pub(super) fn request(&self, profile: usize, plugin: PluginPosition, effects: Effects) {
        if !effects.is_empty() {
            let effects = effects.0.into_iter();
            let effects = effects.map(|effect| PluginEffect { profile, plugin, effect });
            self.effects.borrow_mut().extend(effects);
        }
    }
}

impl Engine {
    /// Carries out the requested effects, and those that they request in turn. This ends, since
    /// only pods that stop to wait on a permit call further plugins.
    pub(super) fn apply_effects(&mut self) {
        loop {
            let Some(effect) = self.core.effects.get_mut().pop_front() else { return };
            let PluginEffect { profile, plugin, effect } = effect;
            self.apply_effect(profile, plugin, effect);
        }
    }

    fn apply_effect(&mut self, profile: usize, plugin: PluginPosition, effect: Effect) {
        let now = self.core.state.now();
        match effect {
            Effect::Allow(pod) => {
                if let Some(awaited) = self.awaited(pod, profile, plugin) {
                    self.allow_permit(pod, awaited);
                }
            }
            Effect::Reject(pod, rejection) => {
                if let Some(awaited) = self.awaited(pod, profile, plugin) {
                    self.reject_permit(pod, awaited, &rejection);
                }
            }
            Effect::Activate(pod) => self.queue.activate(&self.core, &[pod], now),
            Effect::WakeAt(pod, time) => self.queue.wake_at(pod, time, now),
            Effect::Report(pod, report) => {
                if self.core.state.pods.exists(pod) {
                    let plugin = Text::from(self.core.profiles[profile].plugin_name(plugin));
                    self.commands.push(Command::Report { pod: self.pod_ref(pod), plugin, report });
                }
            }
        }
    }

    /// Returns the position, in the profile of a waiting pod, of the plugin of this name if the pod
    /// waits on its permit.
    fn awaited(
        &self,
        pod: PodIdx,
        profile: usize,
        plugin: PluginPosition,
    ) -> Option<PluginPosition> {
        let name = self.core.profiles[profile].plugin_name(plugin);
        let binding = self.bindings.get(&pod)?;
        let BindingStage::Permit { waits } = &binding.stage else { return None };
        let own = &self.core.profiles[binding.profile];
        waits.iter().map(|(plugin, _)| *plugin).find(|plugin| own.plugin_name(*plugin) == name)
    }
}
