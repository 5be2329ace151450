//! Subresources that do more than read or write an object.

mod binding;
mod eviction;
mod scale;

pub(crate) use binding::{bind, set_condition};
pub(crate) use eviction::evict;
pub(crate) use scale::{scale_of, set_scale};
