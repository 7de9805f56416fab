//! The requests of the product's service accounts, as the sandbox has authorized them.
//!
//! If [`DIRECTORY`] is set, each sandbox writes its records there when it stops; `tests/tests/roles` compares them with the rules of
//! `deploy/`.

use std::{
    collections::BTreeSet,
    env, fs, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use steersman_sandbox::{Audit, AuditRecord};

use crate::roles::NAMESPACE;

/// The environment variable with the directory of the records. Without it, no file is written.
pub const DIRECTORY: &str = "STEERSMAN_TEST_AUDIT";

/// A request of a service account. Fields that do not apply are empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "plain data")]
pub struct Request {
    pub allowed: bool,
    /// The service account, without its namespace.
    pub account: String,
    pub verb: String,
    pub group: String,
    /// With the subresource: `deployments/status`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// The path of a request that is not for a resource.
    pub path: String,
}

/// The distinct requests of one sandbox. Clones share them.
#[derive(Clone, Default)]
pub struct AuditLog(Arc<Mutex<Records>>);

#[derive(Default)]
struct Records {
    requests: BTreeSet<Request>,
    ignored: bool,
}

impl AuditLog {
    /// Returns the function that a sandbox calls.
    pub fn hook(&self) -> Audit {
        let log = self.clone();
        let prefix = format!("system:serviceaccount:{NAMESPACE}:");
        Box::new(move |record| {
            if let Some(account) = record.user.strip_prefix(&prefix) {
                let mut records = log.lock();
                if !records.ignored {
                    records.requests.insert(Request::new(account, record));
                }
            }
        })
    }

    /// Drops the requests so far and ignores later ones, for a test that removes permissions.
    pub fn ignore(&self) {
        *self.lock() = Records {
            requests: BTreeSet::new(),
            ignored: true,
        };
    }

    /// The requests so far.
    pub fn requests(&self) -> BTreeSet<Request> {
        self.lock().requests.clone()
    }

    /// The requests that were answered with 403, one per line. Empty if there are none.
    pub fn forbidden(&self) -> String {
        let lines: Vec<String> = self
            .lock()
            .requests
            .iter()
            .filter(|it| !it.allowed)
            .map(Request::to_string)
            .collect();
        lines.join("\n")
    }

    /// Writes one JSON object per line to a new file in [`DIRECTORY`], if it is set.
    pub(crate) fn write(&self) -> io::Result<()> {
        let Some(directory) = env::var_os(DIRECTORY) else {
            return Ok(());
        };
        let requests = self.requests();
        let lines: Vec<String> = requests
            .iter()
            .map(serde_json::to_string)
            .collect::<Result<_, _>>()?;
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile_in(directory)?;
        fs::write(file.path(), lines.join("\n"))?;
        file.keep()?;
        Ok(())
    }

    /// Reads the files of a directory.
    pub fn read(directory: &Path) -> io::Result<BTreeSet<Request>> {
        let mut all = BTreeSet::new();
        for entry in fs::read_dir(directory)? {
            let text = fs::read_to_string(entry?.path())?;
            for line in text.lines() {
                all.insert(serde_json::from_str(line)?);
            }
        }
        Ok(all)
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    fn new(account: &str, record: &AuditRecord<'_>) -> Self {
        let resource = match record.subresource {
            "" => record.resource.to_owned(),
            subresource => format!("{}/{subresource}", record.resource),
        };
        Self {
            allowed: record.allowed,
            account: account.to_owned(),
            verb: record.verb.to_owned(),
            group: record.group.to_owned(),
            resource,
            namespace: record.namespace.to_owned(),
            name: record.name.to_owned(),
            path: record.path.to_owned(),
        }
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let decision = if self.allowed { "" } else { "FORBIDDEN " };
        write!(f, "{decision}{}: {} ", self.account, self.verb)?;
        if self.resource.is_empty() {
            return f.write_str(&self.path);
        }
        write!(
            f,
            "{}.{}, namespace {:?}, name {:?}",
            self.resource, self.group, self.namespace, self.name
        )
    }
}
