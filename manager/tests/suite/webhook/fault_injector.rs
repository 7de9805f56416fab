//! Faults at a planned write of a replica, and the log of its requests.

use std::sync::{Arc, Mutex};

use steersman_sandbox::faults::{Effect, FaultService, Faults, Matcher, RuleHandle};

/// The fault layer of one replica. Requests for Leases are not affected.
#[derive(Clone, Default)]
pub struct PlannedFaults {
    faults: Faults,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    stop: Option<RuleHandle>,
    /// The number of requests that were taken from the log.
    taken: usize,
}

impl PlannedFaults {
    pub fn wrap<S>(&self, service: S) -> FaultService<S> {
        self.faults.wrap(service)
    }

    /// Plans a fault for one write, by its number from 0.
    pub fn plan(&self, number: usize, fault: Effect) {
        let writes = self.faults.on(writes()).after(self.left_until(number));
        writes.times(1).effect(fault);
    }

    /// Loses all writes from this number on.
    pub fn stop_at(&self, number: usize) {
        let writes = self.faults.on(writes()).after(self.left_until(number));
        self.state.lock().expect("no panic").stop = Some(writes.lose_request());
    }

    /// Reports whether `stop_at` has lost a write.
    pub fn is_stopped(&self) -> bool {
        let state = self.state.lock().expect("no panic");
        state.stop.as_ref().is_some_and(|it| it.applied() > 0)
    }

    /// Takes the log: methods and paths of requests other than watches and requests for Leases.
    pub fn take(&self) -> Vec<String> {
        let logged = Matcher::any().when(|it| it.verb != "watch" && it.resource != "leases");
        let mut requests = self.faults.requests(&logged);
        let mut state = self.state.lock().expect("no panic");
        let new = requests.split_off(state.taken);
        state.taken += new.len();
        new.iter()
            .map(|it| format!("{} {}", it.method, it.path))
            .collect()
    }

    /// Takes the log without reads.
    pub fn take_writes(&self) -> Vec<String> {
        let mut log = self.take();
        log.retain(|it| !it.starts_with("GET"));
        log
    }

    /// Returns the number of writes that precede the write with this number.
    fn left_until(&self, number: usize) -> usize {
        number.saturating_sub(self.faults.count(&writes()))
    }
}

fn writes() -> Matcher {
    Matcher::writes().when(|it| it.resource != "leases")
}
