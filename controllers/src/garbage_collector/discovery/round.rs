//! One round of discovery: reads all documents with few concurrent requests, each bounded in time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use steersman_manager::client::{RawResponse, Reader};
use steersman_manager::env::{Clock, Env};
use tokio::time::Instant;

use super::decode::{self, Listed};
use super::documents::{Documents, Root, group_version};

/// The maximum number of concurrent requests.
const CONCURRENT_REQUESTS_MAX: usize = 4;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Round {
    client: Reader,
    clock: Clock,
    started: Instant,
    running: FuturesUnordered<BoxFuture<'static, (Part, Result<RawResponse, String>)>>,
    waiting: VecDeque<Part>,
    /// The names of the parts that were sent and not answered.
    open: BTreeSet<String>,
    /// The parts that failed in the last round. They are read last, so that a request that hangs does not delay the others.
    suspects: BTreeSet<String>,
    decoded: DecodedRoots,
    answers: Answers,
}

/// The last decoded document of each root with its content: most rounds read the same documents again.
pub(super) type DecodedRoots = BTreeMap<Root, (RawResponse, Listed)>;

/// The answers so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    pub(super) documents: Documents,
    /// The roots and versions that could not be read, with the reason.
    pub(super) failed: BTreeMap<String, String>,
    /// Entries that are malformed and would not change in another attempt, with the reason.
    pub(super) skipped: BTreeMap<String, String>,
}

/// A document.
#[derive(Debug)]
enum Part {
    Root(Root),
    Version(String, String),
}

impl Round {
    pub(super) fn start(
        env: &Env,
        client: &Reader,
        suspects: BTreeSet<String>,
        decoded: DecodedRoots,
    ) -> Self {
        let mut round = Self {
            client: client.clone(),
            clock: env.clock.clone(),
            started: env.clock.now(),
            running: FuturesUnordered::new(),
            waiting: Root::ALL.map(Part::Root).into(),
            open: BTreeSet::new(),
            suspects,
            decoded,
            answers: Answers::default(),
        };
        round.send();
        round
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    pub(super) fn answers(&self) -> &Answers {
        &self.answers
    }

    pub(super) fn into_decoded(self) -> DecodedRoots {
        self.decoded
    }

    /// The parts that failed or were not answered so far, and why.
    pub(super) fn failed(&self) -> BTreeMap<String, String> {
        let open = self.open.iter().cloned();
        let open = open.chain(self.waiting.iter().map(Part::name));
        let mut failed: BTreeMap<_, _> = open.map(|name| (name, "no answer yet".to_owned())).collect();
        failed.extend(self.answers.failed.clone());
        failed
    }

    /// Waits for one more answer. Returns false if all parts were answered. Cancel safe.
    pub(super) async fn step(&mut self) -> bool {
        let Some((part, answer)) = self.running.next().await else {
            return false;
        };
        self.open.remove(&part.name());
        if let Err(why) = self.apply(&part, answer) {
            self.answers.failed.insert(part.name(), why);
        }
        self.send();
        true
    }

    fn send(&mut self) {
        while self.running.len() < CONCURRENT_REQUESTS_MAX
            && let Some(part) = self.waiting.pop_front()
        {
            self.open.insert(part.name());
            let (client, clock) = (self.client.clone(), self.clock.clone());
            self.running.push(Box::pin(async move {
                let path = part.path();
                let answer = clock
                    .timeout(REQUEST_TIMEOUT, client.get_raw(&path, part.accept()))
                    .await;
                let answer = match answer {
                    Some(answer) => answer.map_err(|error| error.to_string()),
                    None => Err(format!(
                        "GET {path}: no answer within {} s",
                        REQUEST_TIMEOUT.as_secs()
                    )),
                };
                (part, answer)
            }));
        }
    }

    /// Returns the content of a root. An equal document is not decoded again.
    fn listed(&mut self, root: Root, raw: RawResponse) -> Result<Listed, String> {
        if let Some((last, listed)) = self.decoded.get(&root)
            && *last == raw
        {
            return Ok(listed.clone());
        }
        let listed = decode::root(root, &raw).map_err(|unusable| unusable.to_string())?;
        self.decoded.insert(root, (raw, listed.clone()));
        Ok(listed)
    }

    fn apply(&mut self, part: &Part, answer: Result<RawResponse, String>) -> Result<(), String> {
        let raw = answer?;
        match part {
            Part::Root(root) => {
                let mut listed = self.listed(*root, raw)?;
                let versions = listed.groups.iter().flat_map(|group| {
                    let versions = group.versions.iter();
                    versions.map(|version| Part::Version(group.name.clone(), version.name.clone()))
                });
                if listed.plain {
                    self.waiting.extend(versions);
                    let waiting = self.waiting.make_contiguous();
                    waiting.sort_by_key(|it| self.suspects.contains(&it.name()));
                }
                self.answers.failed.append(&mut listed.stale);
                self.answers.skipped.append(&mut listed.skipped);
                self.answers.documents.set(*root, listed.groups);
            }
            Part::Version(group, version) => {
                let resources = decode::version(group, version, &raw);
                let resources = resources.map_err(|unusable| unusable.to_string())?;
                self.answers.documents.fill(group, version, resources);
            }
        }
        Ok(())
    }
}

impl Part {
    fn name(&self) -> String {
        match self {
            Self::Root(root) => root.path().to_owned(),
            Self::Version(group, version) => group_version(group, version),
        }
    }

    fn path(&self) -> String {
        match self {
            Self::Root(root) => root.path().to_owned(),
            Self::Version(group, _) if group.is_empty() => format!("/api/{}", self.name()),
            Self::Version(..) => format!("/apis/{}", self.name()),
        }
    }

    fn accept(&self) -> &'static str {
        match self {
            Self::Root(_) => decode::ROOT,
            Self::Version(..) => decode::VERSION,
        }
    }
}
