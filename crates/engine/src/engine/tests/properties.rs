//! Any sequence of changes and answers keeps the invariants of the engine, and ends with every pod placed or
//! rejected.

mod world;

use proptest::prelude::*;

use world::World;

/// One step of a scenario. Numbers that name objects are taken modulo the number of such objects.
#[derive(Clone, Debug)]
enum Step {
    AddPod {
        cpu: i64,
        priority: i32,
        traits: u8,
    },
    /// The watch shows the pod as the API server has it.
    Show {
        pod: usize,
    },
    Ungate {
        pod: usize,
    },
    Relabel {
        pod: usize,
    },
    Terminate {
        pod: usize,
    },
    Delete {
        pod: usize,
    },
    /// Another scheduler binds the pod.
    BindElsewhere {
        pod: usize,
        node: usize,
    },
    SetNode {
        node: usize,
        cpu: i64,
        cordoned: bool,
    },
    RemoveNode {
        node: usize,
    },
    Schedule {
        limit: usize,
    },
    Wait {
        seconds: i64,
    },
    Permit {
        pod: usize,
        allow: bool,
    },
    /// Answers a command.
    Answer {
        command: usize,
        outcome: u8,
    },
    /// Gives an earlier answer again.
    Repeat {
        answer: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..100_usize;
    prop_oneof![
        6 => (1..4_i64, 0..3, any::<u8>())
            .prop_map(|(cores, priority, traits)| Step::AddPod { cpu: cores * 1000, priority, traits }),
        3 => which.clone().prop_map(|pod| Step::Show { pod }),
        1 => which.clone().prop_map(|pod| Step::Ungate { pod }),
        1 => which.clone().prop_map(|pod| Step::Relabel { pod }),
        1 => which.clone().prop_map(|pod| Step::Terminate { pod }),
        2 => which.clone().prop_map(|pod| Step::Delete { pod }),
        1 => (which.clone(), which.clone()).prop_map(|(pod, node)| Step::BindElsewhere { pod, node }),
        3 => (which.clone(), 1..5_i64, prop::bool::weighted(0.2)).prop_map(|(node, cores, cordoned)| {
            Step::SetNode { node, cpu: cores * 1000, cordoned }
        }),
        1 => which.clone().prop_map(|node| Step::RemoveNode { node }),
        8 => (1..4_usize).prop_map(|limit| Step::Schedule { limit }),
        3 => (0..400_i64).prop_map(|seconds| Step::Wait { seconds }),
        2 => (which.clone(), any::<bool>()).prop_map(|(pod, allow)| Step::Permit { pod, allow }),
        10 => (which.clone(), any::<u8>())
            .prop_map(|(command, outcome)| Step::Answer { command, outcome }),
        1 => which.prop_map(|answer| Step::Repeat { answer }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_pod_is_in_one_place_and_placed_or_rejected_in_the_end(
        steps in prop::collection::vec(step(), 1..80),
        seed in prop::option::of(0..4_u64),
    ) {
        let mut world = World::new(seed);
        // The harness checks the invariants after every change.
        for step in &steps {
            world.make(step);
        }
        world.settle();
    }

    #[test]
    fn equal_changes_and_seeds_give_equal_commands(
        steps in prop::collection::vec(step(), 1..60),
        seed in prop::option::of(0..4_u64),
    ) {
        let run = || {
            let mut world = World::new(seed);
            for step in &steps {
                world.make(step);
            }
            world.issued
        };
        prop_assert_eq!(run(), run());
    }
}
