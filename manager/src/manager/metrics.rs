//! Metrics of the controllers' states.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::metrics::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};

use crate::controller::Runnable;

/// The states of the controllers of one manager. The metrics are updated when they are scraped.
#[derive(Clone)]
pub(super) struct ControllerStates(Arc<Inner>);

struct Inner {
    registry: Registry,
    series: Series,
    controllers: Arc<Mutex<BTreeMap<String, Entry>>>,
}

struct Entry {
    controller: Arc<dyn Runnable>,
    state: State,
}

#[derive(Clone, Debug, Default)]
pub(super) struct State(Arc<AtomicBool>);

/// Marks a controller as running until dropped.
pub(super) struct Running(State);

#[derive(Clone)]
struct Series {
    manager: &'static str,
    running: IntGaugeVec,
    waiting: IntGaugeVec,
    yielding: IntGaugeVec,
    max_per_object: IntGaugeVec,
}

/// The collector that the registry calls.
struct Scrape {
    series: Series,
    controllers: Arc<Mutex<BTreeMap<String, Entry>>>,
}

impl ControllerStates {
    pub(super) fn register(manager: &'static str, registry: &Registry) -> prometheus::Result<Self> {
        let series = Series {
            manager,
            running: IntGaugeVec::new(
                Opts::new(
                    "running_managed_controllers",
                    "[ALPHA] Indicates where instances of a controller are currently running",
                ),
                &["name", "manager"],
            )?,
            waiting: IntGaugeVec::new(
                Opts::new(
                    registry.prefixed("controller_waiting"),
                    "[ALPHA] 1 while a controller waits for the caches it needs",
                ),
                &["name"],
            )?,
            yielding: IntGaugeVec::new(
                Opts::new(
                    registry.prefixed("controller_yielding"),
                    "[ALPHA] 1 while a controller yields to another controller manager",
                ),
                &["name"],
            )?,
            max_per_object: IntGaugeVec::new(
                Opts::new(
                    registry.prefixed("controller_max_reconciles_per_object"),
                    "[ALPHA] Number of reconciles of the most reconciled object in the last full minute.",
                ),
                &["name"],
            )?,
        };
        let controllers = Arc::default();
        registry.register(Box::new(Scrape {
            series: series.clone(),
            controllers: Arc::clone(&controllers),
        }))?;
        Ok(Self(Arc::new(Inner {
            registry: registry.clone(),
            series,
            controllers,
        })))
    }

    pub(super) fn add(&self, controller: &Arc<dyn Runnable>) {
        let entry = Entry {
            controller: controller.clone(),
            state: State::default(),
        };
        lock(&self.0.controllers).insert(controller.name().to_owned(), entry);
    }

    /// Returns the state of a controller.
    pub(super) fn of(&self, name: &str) -> State {
        let controllers = lock(&self.0.controllers);
        controllers
            .get(name)
            .map(|entry| entry.state.clone())
            .unwrap_or_default()
    }
}

impl State {
    pub(super) fn running(&self) -> Running {
        self.0.store(true, Ordering::Relaxed);
        Running(self.clone())
    }

    pub(super) fn is_running(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let scrape = Scrape {
            series: self.series.clone(),
            controllers: Arc::default(),
        };
        // Fails only if the collector is not registered.
        let _ = self.registry.unregister(Box::new(scrape));
    }
}

impl Collector for Scrape {
    fn desc(&self) -> Vec<&Desc> {
        let Series {
            manager: _,
            running,
            waiting,
            yielding,
            max_per_object,
        } = &self.series;
        [
            running.desc(),
            waiting.desc(),
            yielding.desc(),
            max_per_object.desc(),
        ]
        .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Series {
            manager,
            running,
            waiting,
            yielding,
            max_per_object,
        } = &self.series;
        for (name, Entry { controller, state }) in &*lock(&self.controllers) {
            let yields = controller.yields().is_some();
            let runs = state.is_running() && !yields;
            let waits = runs && !controller.unsynced().is_empty();
            running
                .with_label_values(&[name.as_str(), manager])
                .set(runs.into());
            waiting.with_label_values(&[name]).set(waits.into());
            yielding.with_label_values(&[name]).set(yields.into());
            let max = controller.activity().max_per_item;
            max_per_object
                .with_label_values(&[name])
                .set(i64::try_from(max).unwrap_or(i64::MAX));
        }
        [
            running.collect(),
            waiting.collect(),
            yielding.collect(),
            max_per_object.collect(),
        ]
        .concat()
    }
}

fn lock(controllers: &Mutex<BTreeMap<String, Entry>>) -> std::sync::MutexGuard<'_, BTreeMap<String, Entry>> {
    controllers.lock().unwrap_or_else(PoisonError::into_inner)
}
