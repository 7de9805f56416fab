//! Serves the certificate in the Secret, on every replica.
//!
//! An invalid certificate is not loaded, and the previous one stays in use: clients keep trusting its CA until it expires.
//! If the Secret is deleted, the health check reports it until a new one exists.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use super::secret::{CertificateSecret, RawSecret, Slot};
use super::serving::ServingCertificate;
use super::{SECRETS, ServiceCertificate};
use crate::client::{ObjectEvent, ObjectState, ObjectWatch, Reader, View, WatchEnd, WatchReport};
use crate::env::Env;

/// Exceeds the duration of any watch: a Secret rarely changes.
pub(super) const WATCH_IDLE_TIMEOUT: Duration = Duration::from_mins(11);

pub(crate) struct SecretWatcher {
    pub(crate) env: Env,
    pub(crate) client: Reader,
    pub(crate) certificate: ServiceCertificate,
    pub(crate) serving: Arc<ServingCertificate>,
}

impl SecretWatcher {
    pub(crate) async fn run(self) -> Infallible {
        let (send, mut reports) = mpsc::channel(4);
        let watch = ObjectWatch {
            env: self.env.clone(),
            client: self.client.clone(),
            resource: SECRETS,
            key: self.certificate.secret(),
            view: View::Full,
            idle_timeout: WATCH_IDLE_TIMEOUT,
        };
        let follow = async {
            loop {
                match reports.recv().await {
                    Some(report) => self.on_event(report),
                    None => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            biased;
            never = watch.run(send) => match never {},
            never = follow => never,
        }
    }

    fn on_event(&self, report: WatchReport) {
        match report {
            WatchReport::Event(ObjectEvent::Updated(secret))
            | WatchReport::Opened(ObjectState {
                object: Some(secret), ..
            }) => self.load(secret),
            WatchReport::Opened(ObjectState { object: None, .. }) => {
                self.set_unavailable(&format!(
                    "Secret {} does not exist yet",
                    self.certificate.secret()
                ));
            }
            WatchReport::Event(ObjectEvent::Deleted(_)) => {
                self.set_missing(&format!("Secret {} was deleted", self.certificate.secret()));
            }
            WatchReport::Ended(WatchEnd::Closed | WatchEnd::Idle(_)) => {}
            WatchReport::Ended(end) => self.set_unavailable(&end.to_string()),
        }
    }

    fn load(&self, secret: Value) {
        let Ok(raw) = serde_json::from_value::<RawSecret>(secret) else {
            // The parser's error may quote the private key.
            self.reject(None, "the Secret is malformed");
            return;
        };
        let secret = CertificateSecret::from(raw);
        match secret.to_serve(&self.certificate.service.host(), self.env.clock.wall()) {
            Ok(Some(pair)) => {
                if self.serving.set(pair.certified()) {
                    tracing::info!(object = %self.certificate.logged_secret(), "Reloaded webhook certificate");
                }
            }
            Ok(None) => self.set_missing(&format!(
                "Secret {} has no certificate yet",
                self.certificate.secret()
            )),
            Err(reason) => self.reject(Some(&secret), &reason),
        }
    }

    fn set_unavailable(&self, reason: &str) {
        if self.serving.set_unavailable(reason) {
            tracing::info!(object = %self.certificate.logged_secret(), reason, "Waiting for webhook certificate");
        }
    }

    fn set_missing(&self, reason: &str) {
        if self.serving.set_missing(reason) {
            tracing::warn!(object = %self.certificate.logged_secret(), reason, "Webhook certificate is missing, serving the previous one");
        }
    }

    fn reject(&self, secret: Option<&CertificateSecret>, reason: &str) {
        let pair = match secret.map(|it| &it.current) {
            Some(Slot::Filled(pair)) => Some(pair.certified()),
            _ => None,
        };
        if self.serving.reject(pair, reason) {
            tracing::warn!(object = %self.certificate.logged_secret(), reason, "Failed to load webhook certificate");
        }
    }
}
