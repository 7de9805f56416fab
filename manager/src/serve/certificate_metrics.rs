//! Metrics with the names of controller-runtime's certwatcher.

use prometheus::{IntCounter, Registry};

/// Counters of certificate reads.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    pub(crate) total: IntCounter,
    pub(crate) errors: IntCounter,
}

impl CertificateMetrics {
    /// Registers the counters.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(format!("certwatcher_{name}"), format!("[ALPHA] {help}"))?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            total: counter("read_certificate_total", "Total number of certificate reads")?,
            errors: counter(
                "read_certificate_errors_total",
                "Total number of certificate read errors",
            )?,
        })
    }
}
