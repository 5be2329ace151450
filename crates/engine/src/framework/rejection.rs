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
}

impl Rejection {
    /// Creates a rejection that evicting pods could resolve.
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Self { code: Code::Unschedulable, reasons: vec![reason.into()] }
    }

    /// Creates a rejection that evicting pods cannot resolve.
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Self { code: Code::UnschedulableAndUnresolvable, reasons: vec![reason.into()] }
    }

    /// Creates a plugin failure.
    pub fn error(reason: impl Into<Reason>) -> Self {
        Self { code: Code::Error, reasons: vec![reason.into()] }
    }

    /// Returns the reasons joined as in upstream.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}
