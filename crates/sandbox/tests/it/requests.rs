//! Random requests get proper responses and leave the store consistent.

use proptest::prelude::*;

use crate::exercise::exercise;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_request_gets_a_proper_response(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        exercise(&bytes);
    }
}
