//! `/metrics/slis`: the results of the health checks as metrics, for service level indicators.
//!
//! - `kubernetes_healthchecks_total{name,type,status}` counts every run of a check: by probes of `/healthz`, `/livez` and
//!   `/readyz`, as in kube-controller-manager, and by scrapes of this page.
//! - `kubernetes_healthcheck{name,type}` is the result at the time of the scrape. A scrape runs all checks, so the metrics are
//!   right without any probe, and a removed check has no gauge.
//!
//! DELETE resets both. The page has a registry of its own, because it is scraped more often than `/metrics`.

use std::sync::{Mutex, PoisonError};

use crate::metrics::Registry;
use http::StatusCode;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use super::connection::HttpResponse;
use super::endpoints::{metrics, text};
use crate::health::{Checks, Health, Probes};

/// The probes by their path and label value.
pub(super) const PROBES: [(&str, Probes); 3] = [
    ("healthz", Probes::HEALTHZ),
    ("livez", Probes::LIVEZ),
    ("readyz", Probes::READYZ),
];

const START_TIME: &str = "process_start_time_seconds";

/// The metrics of the health checks.
pub(super) struct Slis {
    registry: Registry,
    current: IntGaugeVec,
    total: IntCounterVec,
    /// Held while the gauges are rebuilt, so that concurrent scrapes do not see half of them.
    scrape: Mutex<()>,
}

impl Slis {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new("test");
        let current = IntGaugeVec::new(
            Opts::new(
                "kubernetes_healthcheck",
                "[STABLE] The result of a health check: 1 if it passes, 0 if it fails",
            ),
            &["name", "type"],
        )?;
        let total = IntCounterVec::new(
            Opts::new(
                "kubernetes_healthchecks_total",
                "[STABLE] The number of runs of a health check by result",
            ),
            &["name", "type", "status"],
        )?;
        registry.register(Box::new(current.clone()))?;
        registry.register(Box::new(total.clone()))?;
        Ok(Self {
            registry,
            current,
            total,
            scrape: Mutex::new(()),
        })
    }

    /// Counts the result of one run of a check.
    pub(super) fn observe(&self, name: &str, probe: &str, health: &Health) {
        let status = match health {
            Health::Ok | Health::Note(_) => "success",
            Health::Failed(_) => "error",
        };
        self.total.with_label_values(&[name, probe, status]).inc();
    }

    /// Runs all checks and returns the metrics.
    pub(super) fn page(&self, checks: &Checks) -> HttpResponse {
        let mut families = {
            let _scrape = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
            self.current.reset();
            for (probe, probes) in PROBES {
                for (name, health) in checks.run(probes) {
                    self.observe(&name, probe, &health);
                    let passes = i64::from(!matches!(health, Health::Failed(_)));
                    self.current
                        .with_label_values(&[name.as_str(), probe])
                        .set(passes);
                }
            }
            self.registry.gather()
        };
        families.extend(start_time());
        metrics(&families)
    }

    pub(super) fn reset(&self) -> HttpResponse {
        self.current.reset();
        self.total.reset();
        text(StatusCode::OK, "metrics reset\n")
    }
}

fn start_time() -> Option<MetricFamily> {
    let process = Registry::new("process");
    process.register_process().ok()?;
    process
        .gather()
        .into_iter()
        .find(|family| family.name() == START_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    use http_body_util::BodyExt as _;

    async fn lines(slis: &Slis, checks: &Checks) -> Vec<String> {
        let body = slis.page(checks).into_body().collect().await.expect("a body");
        let text = String::from_utf8(body.to_bytes().to_vec()).expect("text");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn scrape_runs_the_checks_of_each_type() {
        let (slis, checks) = (Slis::new().expect("metrics"), Checks::new());
        let caches = checks.add("caches", Probes::READYZ, || Health::Failed("no".to_owned()));
        let first = lines(&slis, &checks).await;
        let second = lines(&slis, &checks).await;
        for line in [
            r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
            r#"kubernetes_healthcheck{name="caches",type="readyz"} 0"#,
            r#"kubernetes_healthchecks_total{name="caches",status="error",type="readyz"} 1"#,
        ] {
            assert!(first.iter().any(|it| it == line), "{line}: {first:?}");
        }
        assert!(
            !first
                .iter()
                .any(|line| line.contains("caches") && line.contains("livez"))
        );
        assert!(first.iter().any(|line| line.starts_with(START_TIME)), "{first:?}");
        let counted = r#"kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2"#;
        assert!(second.iter().any(|it| it == counted), "{second:?}");

        drop(caches);
        let third = lines(&slis, &checks).await;
        assert!(
            !third
                .iter()
                .any(|line| line.starts_with("kubernetes_healthcheck{name=\"caches\""))
        );
    }

    #[tokio::test]
    async fn reset_restarts_the_counters() {
        let (slis, checks) = (Slis::new().expect("metrics"), Checks::new());
        slis.observe("gone", "livez", &Health::Ok);
        assert_eq!(slis.reset().status(), 200);
        let after = lines(&slis, &checks).await;
        assert!(!after.iter().any(|line| line.contains("gone")), "{after:?}");
    }
}
