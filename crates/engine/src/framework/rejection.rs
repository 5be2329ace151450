//! Rejections of nodes and pods, with upstream's codes and reasons.

use std::borrow::Cow;

/// Reason text shown to users. Most are constants.
pub type Reason = Cow<'static, str>;

/// Upstream's status code of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// A plugin failed; the attempt ends and is retried after backoff.
    Error,
    /// Evicting pods could help.
    Unschedulable,
    /// Evicting pods cannot help.
    UnschedulableAndUnresolvable,
    /// The plugin waits for something external and will activate the pod itself.
    Pending,
}

impl Code {
    /// Returns upstream's name of the code.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Self::Pending => "Pending",
        }
    }
}

/// A rejection with its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rejection {
    /// Status code.
    pub code: Code,
    /// Reasons, in the order the plugin gives them.
    pub reasons: Vec<Reason>,
    /// Time at which the rejection ends without an event, in nanoseconds since the epoch.
    pub until: Option<i64>,
}

impl Rejection {
    /// Creates a rejection.
    pub fn new(code: Code, reasons: Vec<Reason>) -> Self {
        Self { code, reasons, until: None }
    }

    /// Creates a rejection that evicting pods could resolve.
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Self::new(Code::Unschedulable, vec![reason.into()])
    }

    /// Creates a rejection that evicting pods cannot resolve.
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, vec![reason.into()])
    }

    /// Creates a plugin failure.
    pub fn error(reason: impl Into<Reason>) -> Self {
        Self::new(Code::Error, vec![reason.into()])
    }

    /// Returns the rejection with the time at which it ends without an event, in nanoseconds since
    /// the epoch. From then on cached verdicts are discarded, and the pod is retried at once.
    ///
    /// For verdicts on nodes this takes [`Filter::valid_until`](super::Filter::valid_until), too,
    /// since rejections are made only when no node fits. The short form of plugins has it.
    #[must_use]
    pub fn until(self, time: i64) -> Self {
        Self { until: Some(time), ..self }
    }

    /// Returns the reasons joined as in upstream.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}
