//! What can be done with an object beside reading and writing it.

mod binding;
mod eviction;
mod scale;

pub(crate) use binding::{bind, set_condition};
pub(crate) use eviction::evict;
pub(crate) use scale::{scale_of, set_scale};
