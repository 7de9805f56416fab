//! The CAs of client certificates and of authenticating proxies.
//!
//! Each comes from a file, which is polled for changes, or from the `ConfigMap` that API servers publish for aggregated
//! servers. An invalid file or `ConfigMap` is logged, and the previous CA stays in use. Without a CA, certificates are ignored.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::authority::Authority;
use super::request_header::RequestHeaderNames;
use crate::client::{ObjectEvent, ObjectState, ObjectWatch, Reader, View, WatchReport};
use crate::env::Env;
use crate::object::{Key, Resource};
use crate::serve::files;

const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// Exceeds the duration of any watch: the `ConfigMap` rarely changes.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_mins(11);

/// A file of CAs cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("invalid CA file {path}: {reason}", path = .path.display())]
#[expect(missing_docs, reason = "plain data")]
pub struct AuthorityError {
    pub path: PathBuf,
    pub option: AuthorityOption,
    pub reason: String,
}

/// The option that names a file of CAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorityOption {
    /// `client_ca` of [`AuthenticationOptions`](super::AuthenticationOptions).
    Clients,
    /// `client_ca` of [`RequestHeaderOptions`](super::RequestHeaderOptions).
    RequestHeader,
}

/// The current CAs.
#[derive(Debug, Default)]
pub(super) struct Trust(Mutex<Authorities>);

#[derive(Clone, Debug, Default)]
pub(super) struct Authorities {
    pub(super) client: Option<Arc<Authority>>,
    pub(super) proxies: Option<Proxies>,
}

/// The authenticating proxies.
#[derive(Clone, Debug)]
pub(super) struct Proxies {
    pub(super) authority: Arc<Authority>,
    pub(super) names: Arc<RequestHeaderNames>,
}

/// The data of the `ConfigMap`. Lists are JSON.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Published {
    client_ca_file: String,
    requestheader_client_ca_file: String,
    requestheader_allowed_names: String,
    requestheader_username_headers: String,
    requestheader_uid_headers: String,
    requestheader_group_headers: String,
    requestheader_extra_headers_prefix: String,
}

impl Trust {
    pub(super) fn current(&self) -> Authorities {
        self.state().clone()
    }

    /// Loads the CAs of clients from a file, and keeps polling it.
    pub(super) fn watch_client_file(self: &Arc<Self>, env: &Env, path: &Path) -> Result<(), AuthorityError> {
        let trust = self.clone();
        let set = move |authority| trust.state().client = Some(authority);
        watch_file(env, path, AuthorityOption::Clients, set)
    }

    /// Loads the CAs of proxies from a file, and keeps polling it.
    pub(super) fn watch_request_header_file(
        self: &Arc<Self>,
        env: &Env,
        path: &Path,
        names: RequestHeaderNames,
    ) -> Result<(), AuthorityError> {
        let (trust, names) = (self.clone(), Arc::new(names));
        let set = move |authority| {
            let names = names.clone();
            trust.state().proxies = Some(Proxies { authority, names });
        };
        watch_file(env, path, AuthorityOption::RequestHeader, set)
    }

    /// Follows the `ConfigMap` for the CAs that no file provides.
    pub(super) async fn watch_config_map(self: Arc<Self>, env: Env, client: Reader) -> Infallible {
        let (send, mut reports) = mpsc::channel(4);
        let (files, resource, key) = (self.current(), CONFIG_MAPS, Key::new(NAMESPACE, NAME));
        let watch = ObjectWatch {
            env,
            client,
            resource: resource.clone(),
            key: key.clone(),
            view: View::Full,
            idle_timeout: WATCH_IDLE_TIMEOUT,
        };
        let follow = async {
            let mut problem = None;
            loop {
                let loaded = match reports.recv().await {
                    Some(
                        WatchReport::Opened(ObjectState {
                            object: Some(map), ..
                        })
                        | WatchReport::Event(ObjectEvent::Updated(map)),
                    ) => self.load(&files, &map),
                    Some(WatchReport::Opened(_)) => Err("the ConfigMap does not exist".to_owned()),
                    // A failed watch is logged and reopened.
                    Some(WatchReport::Event(_) | WatchReport::Ended(_)) => continue,
                    None => std::future::pending().await,
                };
                match loaded {
                    Ok(()) => problem = None,
                    Err(reason) if problem.as_ref() == Some(&reason) => {}
                    Err(reason) => {
                        let object = resource.logged(&key);
                        tracing::warn!(%object, reason, "Failed to load client CAs");
                        problem = Some(reason);
                    }
                }
            }
        };
        tokio::select! {
            biased;
            never = watch.run(send) => match never {},
            never = follow => never,
        }
    }

    fn load(&self, files: &Authorities, map: &Value) -> Result<(), String> {
        let data = map.get("data").cloned().unwrap_or_default();
        let published = Option::<Published>::deserialize(data)
            .map_err(|_| "its data is not a map of text".to_owned())?
            .unwrap_or_default();
        let client = if files.client.is_none() && !published.client_ca_file.is_empty() {
            Some(parse("client-ca-file", &published.client_ca_file)?)
        } else {
            None
        };
        let proxies = if files.proxies.is_none() {
            published.proxies()?
        } else {
            None
        };
        let mut state = self.state();
        state.client = client.or(state.client.take());
        state.proxies = proxies.or(state.proxies.take());
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, Authorities> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Published {
    fn proxies(&self) -> Result<Option<Proxies>, String> {
        if self.requestheader_client_ca_file.is_empty() {
            return Ok(None);
        }
        let names = RequestHeaderNames {
            allowed_names: list("requestheader-allowed-names", &self.requestheader_allowed_names)?,
            username_headers: list(
                "requestheader-username-headers",
                &self.requestheader_username_headers,
            )?,
            uid_headers: list("requestheader-uid-headers", &self.requestheader_uid_headers)?,
            group_headers: list("requestheader-group-headers", &self.requestheader_group_headers)?,
            extra_headers_prefixes: list(
                "requestheader-extra-headers-prefix",
                &self.requestheader_extra_headers_prefix,
            )?,
        };
        let bundle = &self.requestheader_client_ca_file;
        let authority = parse("requestheader-client-ca-file", bundle)?;
        let names = Arc::new(names);
        Ok(Some(Proxies { authority, names }))
    }
}

fn parse(key: &str, bundle: &str) -> Result<Arc<Authority>, String> {
    let parsed = Authority::parse(bundle.as_bytes());
    parsed.map(Arc::new).map_err(|reason| format!("{key}: {reason}"))
}

fn list(key: &str, json: &str) -> Result<Vec<String>, String> {
    if json.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(json).map_err(|error| format!("{key} is not a JSON list of text: {error}"))
}

/// Loads a bundle of CAs, and keeps polling it.
fn watch_file(
    env: &Env,
    path: &Path,
    option: AuthorityOption,
    set: impl Fn(Arc<Authority>) + Send + Sync + 'static,
) -> Result<(), AuthorityError> {
    let invalid = |reason| AuthorityError {
        path: path.to_owned(),
        option,
        reason,
    };
    let mut current = std::fs::read(path).map_err(|error| invalid(error.to_string()))?;
    set(Arc::new(Authority::parse(&current).map_err(invalid)?));
    let (clock, path) = (env.clock.clone(), path.to_owned());
    env.tasks.spawn(async move {
        let mut problem = None;
        let on_read = |read: Result<[Vec<u8>; 1], String>| {
            let loaded = match read {
                Ok([bundle]) if bundle == current => Ok(None),
                Ok([bundle]) => Authority::parse(&bundle).map(|authority| Some((bundle, authority))),
                Err(reason) => Err(reason),
            };
            match loaded {
                Ok(None) => problem = None,
                Ok(Some((bundle, authority))) => {
                    set(Arc::new(authority));
                    (current, problem) = (bundle, None);
                    tracing::info!(file = %path.display(), "Reloaded client CAs");
                }
                Err(reason) if problem.as_ref() == Some(&reason) => {}
                Err(reason) => {
                    tracing::warn!(
                        file = %path.display(),
                        reason,
                        "Failed to reload client CAs, using the previous ones"
                    );
                    problem = Some(reason);
                }
            }
        };
        files::poll(&clock, [path.clone()], on_read).await
    });
    Ok(())
}
