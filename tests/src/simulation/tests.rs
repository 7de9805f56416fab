//! One seed gives one run, and no schedule breaks an invariant.

use super::fault::{Class, Fault, Target};
use super::schedule::{CHAIN, Schedule, chain_to};
use super::{run, run_chain, scenario};

fn schedule(scenario: &str, seed: u64, processes: usize, faults: &[&str]) -> Schedule {
    let fault = |text: &&str| text.parse::<Fault>().expect("a fault");
    Schedule {
        scenario: scenario::find(scenario).expect("a scenario"),
        seed,
        processes,
        permuted: usize::MAX,
        faults: faults.iter().map(fault).collect(),
    }
}

/// Runs a schedule without a violation.
fn check(schedule: &Schedule) -> super::Outcome {
    let outcome = run(schedule, false);
    assert!(
        outcome.violations.is_empty(),
        "{:#?}\ncargo run -p steersman-tests --bin simulate -- {schedule}",
        outcome.violations,
    );
    outcome
}

/// Runs the schedules of a chain up to this seed.
fn check_chain(seed: u64) {
    let chain = chain_to(seed);
    for (schedule, outcome) in chain.iter().zip(run_chain(&chain, false)) {
        assert!(
            outcome.violations.is_empty(),
            "{:#?} in {schedule}",
            outcome.violations
        );
    }
}

#[test]
fn equal_schedules_give_equal_runs() {
    let full = |seed| schedule("appservice", seed, 2, &["F04@40:0", "F16@4:0", "Crash@150:0"]);
    let (mut faults, mut writes) = (0, 0);
    for seed in 0..6 {
        let (first, second) = (run(&full(seed), true), run(&full(seed), true));
        let differs = first.trace.iter().zip(&second.trace).position(|(a, b)| a != b);
        if let Some(at) = differs {
            let before = first.trace[at.saturating_sub(5)..at].join("\n");
            panic!(
                "line {at} differs, after\n{before}\n{}\n{}",
                first.trace[at], second.trace[at]
            );
        }
        assert_eq!(first.trace.len(), second.trace.len());
        writes += first.counts.writes;
        faults += first.counts.faults;
        assert_ne!(first.trace, run(&full(seed + 100), true).trace);
    }
    assert!(
        faults > 12 && writes > 30,
        "only {faults} faults and {writes} writes"
    );
}

#[test]
fn equal_chains_give_equal_runs() {
    let all = |seed| {
        let outcomes = run_chain(&chain_to(seed), true);
        outcomes.into_iter().flat_map(|it| it.trace).collect::<Vec<_>>()
    };
    assert_eq!(all(6), all(6));
}

#[test]
fn no_fault_of_any_class_breaks_an_invariant() {
    let mut classes = Class::ALL.iter().cycle();
    for chain in 0..12 {
        let mut schedules = chain_to(chain * CHAIN + CHAIN - 1);
        for schedule in &mut schedules {
            let class = *classes.next().expect("a cycle");
            let number = usize::try_from(schedule.seed).expect("a small seed");
            let at = match class.target() {
                Target::Request | Target::Event => number % 30,
                Target::Step => number % 150,
            };
            let variant = u32::try_from(number % 9973).expect("a small number");
            schedule.faults = vec![Fault { class, at, variant }];
        }
        let outcomes = run_chain(&schedules, false);
        for (schedule, outcome) in schedules.iter().zip(&outcomes) {
            assert!(
                outcome.violations.is_empty(),
                "{:#?} in {schedule} after {} others",
                outcome.violations,
                schedule.seed % CHAIN
            );
        }
        assert_eq!(outcomes.len(), schedules.len());
    }
}

/// A webhook can answer 404 to a write: it is not a proof of absence. The collector deleted dependents of a live owner.
#[test]
fn not_found_as_the_response_to_a_write_does_not_prove_absence() {
    for position in 30..60 {
        let fault = format!("F09@{position}:0");
        check(&schedule("gc-orphan", 456, 1, &[&fault]));
        check(&schedule("gc-fg", 456, 1, &[&fault]));
    }
}

/// A `ReplicaSet` counted a pod that was gone before its adoption, and deleted another one.
#[test]
fn pod_that_is_gone_before_its_adoption_is_not_counted() {
    for position in 20..50 {
        let fault = format!("F09@{position}:0");
        check(&schedule("rs-adopt", 6380, 1, &[&fault]));
    }
}

/// The deletion of a pod did not reach its `ReplicaSet` if the name in the owner reference was wrong.
#[test]
fn pod_whose_reference_has_another_name_is_replaced() {
    for position in (30..120).step_by(5) {
        let fault = format!("F28@{position}:15");
        check(&schedule("rs-adopt", 1, 1, &[&fault]));
    }
}

/// A Deployment counted pods above the size of a `ReplicaSet` as available, when a rollback grew the `ReplicaSet` again before its
/// status was written.
#[test]
fn pods_that_are_being_deleted_are_not_available() {
    for position in 50..80 {
        let fault = format!("F12@{position}:9");
        check(&schedule("deploy-rollback", 1, 1, &[&fault]));
    }
}

/// The status of a Deployment was not written again after a response of 404, if no other event followed.
#[test]
fn status_of_a_deployment_is_written_again_after_not_found() {
    for position in 60..68 {
        let fault = format!("F09@{position}:0");
        check(&schedule("deploy-create", 1, 1, &[&fault]));
        check(&schedule("deploy-rollback", 5, 1, &[&fault]));
    }
}

/// A delete on the way was executed on the restored objects, whose versions are those of the backup.
#[test]
fn restore_loses_the_requests_on_the_way() {
    for position in 90..110 {
        let fault = format!("Late@{position}:6430");
        check(&schedule("gc-restore", 16_014_834, 3, &["F07@35:8972", &fault]));
    }
}

/// A delete that had failed with its connection was retried on the restored objects, although their owner existed again.
#[test]
fn owner_is_read_again_before_a_delete_is_retried_on_a_restored_storage() {
    for position in 66..76 {
        let (pause, cut) = (format!("F24@{position}:2539"), format!("F31@{position}:7593"));
        check(&schedule("gc-restore", 26_534_548, 1, &[&pause]));
        check(&schedule("gc-restore", 86_909_125, 1, &[&cut]));
    }
}

/// A delete that waited while the API servers did not run was sent with a proof from before the restore.
#[test]
fn owner_is_read_again_after_the_watch_of_its_kind_failed() {
    for position in 70..80 {
        let cut = format!("F31@{position}:7593");
        for seed in [0, 6, 11] {
            check(&schedule("gc-restore-offline", seed, 1, &[&cut]));
        }
    }
}

/// A wall clock was set forward, so that a sync ended with its term, and back, so that the term went on without the sync.
#[test]
fn term_does_not_continue_after_its_work_was_dropped() {
    for position in 84..100 {
        let forward = format!("F24@{position}:5100");
        let back = format!("F24@{}:3352", position + 4);
        check(&schedule("rs-adopt", 1, 1, &[&forward, &back]));
    }
}

/// A new leader started its controllers after 30 s, although a cache had not caught up with the previous leader.
#[test]
fn controller_waits_until_its_caches_include_the_writes_of_the_previous_leader() {
    for position in 20..30 {
        let fault = format!("F23@{position}:9598");
        check(&schedule("hand-over", 115_194_873_398_168, 3, &[&fault]));
    }
}

/// The list of dependents from before a restore counted, and those that the graph showed without their reference.
#[test]
fn dependents_that_a_restore_attaches_again_are_orphaned() {
    for seed in [1, 3, 5, 10, 23] {
        check(&schedule("gc-restore", seed, 1, &[]));
    }
}

/// The owner existed again at the version whose removal had been accepted, so that no event showed it.
#[test]
fn finalizer_that_a_restore_sets_again_is_removed() {
    check(&schedule("gc-restore", 1_600_039_935, 1, &["F18@41:2822"]));
}

/// A `ReplicaSet` forgot the name of a create without response when it needed no pod, and the request arrived later.
#[test]
fn create_that_arrives_late_makes_no_surplus_pod() {
    check_chain(1_300_221_423);
    check_chain(1_300_288_569);
}

/// The checker counted the pod of a late create before it was delivered.
#[test]
fn pod_of_a_late_create_is_unknown_until_it_is_delivered() {
    check_chain(1_700_039_530);
}

/// The checker reported correct steps of rollouts, after changes that had not been delivered.
#[test]
fn steps_on_undelivered_changes_of_replica_sets_are_correct() {
    let faults = ["F01@76:8635", "F28@465:1651", "F06@79:3351"];
    check(&schedule("deploy-roll", 1_200_265_280, 1, &faults));
    let faults = ["F28@55:91", "F20@27:4963"];
    check(&schedule("deploy-rollback", 1_300_246_233, 1, &faults));
    check(&schedule("generated", 1_300_256_467, 3, &["F02@2:3"]));
}
