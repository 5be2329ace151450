//! Why a node or a pod is turned down.

use std::borrow::Cow;

/// A reason as people read it. Most are constant texts.
pub type Reason = Cow<'static, str>;

/// Upstream's status codes of rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// Something went wrong; the attempt ends and is tried again after a backoff.
    Error,
    /// Removing pods could help.
    Unschedulable,
    /// Removing pods cannot help.
    UnschedulableAndUnresolvable,
    /// The plugin waits for something outside and will wake the pod at once.
    Pending,
}

impl Code {
    /// Upstream's name.
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
    /// Kind.
    pub code: Code,
    /// Reasons, in the plugin's order.
    pub reasons: Vec<Reason>,
}

impl Rejection {
    /// Removing pods could help.
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Self { code: Code::Unschedulable, reasons: vec![reason.into()] }
    }

    /// Removing pods cannot help.
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Self { code: Code::UnschedulableAndUnresolvable, reasons: vec![reason.into()] }
    }

    /// Something went wrong.
    pub fn error(reason: impl Into<Reason>) -> Self {
        Self { code: Code::Error, reasons: vec![reason.into()] }
    }

    /// The reasons joined as upstream joins them.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}
