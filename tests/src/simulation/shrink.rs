//! Reduces a failing schedule to the fewest faults and to the fewest steps out of order.

use super::Outcome;
use super::schedule::Schedule;

/// Returns the smallest schedule that breaks the same invariant. `run` executes a schedule.
pub fn shrink(schedule: &Schedule, outcome: &Outcome, run: impl Fn(&Schedule) -> Outcome) -> Schedule {
    let Some(first) = outcome.violations.first() else {
        return schedule.clone();
    };
    let fails = |candidate: &Schedule| {
        let violations = run(candidate).violations;
        violations.iter().any(|it| it.invariant == first.invariant)
    };
    let mut best = schedule.clone();
    let mut index = 0;
    while index < best.faults.len() {
        let mut fewer = best.clone();
        fewer.faults.remove(index);
        if fails(&fewer) {
            best = fewer;
        } else {
            index += 1;
        }
    }
    // By halves.
    let (mut low, mut high) = (0, outcome.counts.steps);
    while low < high {
        let middle = low.midpoint(high);
        let fewer = Schedule {
            permuted: middle,
            ..best.clone()
        };
        if fails(&fewer) {
            best = fewer;
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::fault::{Class, Fault};
    use super::super::record::Violation;
    use super::super::scenario::SCENARIOS;
    use super::*;

    #[test]
    fn smallest_schedule_has_the_needed_faults_and_steps() {
        let fault = |class| Fault {
            class,
            at: 3,
            variant: 0,
        };
        let schedule = Schedule {
            scenario: &SCENARIOS[0],
            seed: 1,
            processes: 1,
            permuted: usize::MAX,
            faults: vec![fault(Class::F04), fault(Class::F16), fault(Class::Crash)],
        };
        let run = |it: &Schedule| {
            let is_faulty = it.faults.contains(&fault(Class::F16)) && it.permuted >= 17;
            let violation = Violation {
                invariant: "S1",
                message: String::new(),
            };
            let mut outcome = Outcome::default();
            outcome.counts.steps = 100;
            outcome.violations.extend(is_faulty.then_some(violation));
            outcome
        };
        let smallest = shrink(&schedule, &run(&schedule), run);
        assert_eq!(
            (smallest.faults, smallest.permuted),
            (vec![fault(Class::F16)], 17)
        );
    }
}
