//! S9: the resource version of a cache never goes back. S10: queues are not longer than the number of objects. B5: caches do not
//! keep removed objects.

use std::collections::BTreeMap;
use std::time::Duration;

use super::context::{Context, Found};
use super::symbols::{DEPLOYMENTS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Symbol};

/// The largest number of caches that one process has of a resource: one projection per controller.
const PROJECTIONS_MAX: usize = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    processes: BTreeMap<usize, Scrape>,
}

/// The last figures of a process, by the labels `group`, `version` and `resource`.
#[derive(Clone, Debug, Default)]
struct Scrape {
    at: Duration,
    versions: BTreeMap<String, u64>,
    restarts: BTreeMap<String, u64>,
    objects: BTreeMap<String, u64>,
}

/// One line of the text format.
struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    value: u64,
}

impl Figures {
    pub(super) fn observe(
        &mut self,
        context: &Context,
        process: usize,
        at: Duration,
        metrics: &str,
        found: &mut Found,
    ) {
        let mut scrape = Scrape {
            at,
            ..Scrape::default()
        };
        let most = context.model.peak + context.rules.queue_slack;
        for sample in metrics.lines().filter_map(Sample::parse) {
            let key = || sample.resource();
            match sample.name {
                "workqueue_depth" | "informer_queued_items" => {
                    let too_long = usize::try_from(sample.value).map_or(true, |it| it > most);
                    if too_long {
                        found.add(
                            "S10",
                            format!(
                                "{}{{{}}} of process {process} is {}, with at most {} objects",
                                sample.name, sample.labels, sample.value, context.model.peak
                            ),
                        );
                    }
                }
                "informer_store_resource_version" if sample.value > 0 => {
                    scrape.versions.insert(key(), sample.value);
                }
                name if name.ends_with("_cache_restarts_total") => {
                    scrape.restarts.insert(key(), sample.value);
                }
                name if name.ends_with("_cache_objects") => {
                    scrape.objects.insert(key(), sample.value);
                }
                _ => {}
            }
        }
        if let Some(before) = self.processes.get(&process) {
            check_versions(process, before, &scrape, found);
        }
        self.processes.insert(process, scrape);
    }

    /// Checks the number of cached objects at rest: none was removed that a cache still has.
    pub(super) fn at_rest(&self, context: &Context, found: &mut Found) {
        let rest = context.quiet.unwrap_or_default() + context.rules.converges_within;
        for (process, scrape) in self.processes.iter().filter(|(_, it)| it.at >= rest) {
            for (resource, count) in &scrape.objects {
                let mut parts = resource.split(' ');
                let (group, plural) = (parts.next().unwrap_or_default(), parts.next_back());
                let plural = plural.unwrap_or_default();
                let collection = match group {
                    "" => plural.to_owned(),
                    _ => format!("{plural}.{group}"),
                };
                let Some(symbol) = context
                    .symbols
                    .get(&collection)
                    .filter(|it| is_complete(context, *it))
                else {
                    continue;
                };
                let objects = context.model.of(symbol).count();
                if usize::try_from(*count).map_or(true, |it| it > PROJECTIONS_MAX * objects) {
                    found.add(
                        "B5",
                        format!(
                            "the caches of {collection} in process {process} have {count} objects, the store has \
                             {objects}"
                        ),
                    );
                }
            }
        }
    }
}

/// Reports whether all objects of a resource are part of the record: the API creates none of them itself.
fn is_complete(context: &Context, collection: Symbol) -> bool {
    matches!(
        collection,
        PODS | REPLICA_SETS | REPLICATION_CONTROLLERS | DEPLOYMENTS
    ) || context.kinds.since(collection) > 0
}

fn check_versions(process: usize, before: &Scrape, after: &Scrape, found: &mut Found) {
    for (resource, version) in &after.versions {
        let restarts = |scrape: &Scrape| scrape.restarts.get(resource).copied().unwrap_or(0);
        let last = before.versions.get(resource).copied().unwrap_or(0);
        if *version < last && restarts(after) == restarts(before) {
            found.add(
                "S9",
                format!(
                    "the cache of {resource:?} in process {process} went back from version {last} to {version} between \
                     {:?} and {:?}",
                    before.at, after.at
                ),
            );
        }
    }
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (name, rest) = line.split_once('{')?;
        let (labels, value) = rest.rsplit_once("} ")?;
        Some(Self {
            name,
            labels,
            value: value.trim().parse().ok()?,
        })
    }

    /// Returns the labels of a resource, in the order group, version, resource.
    fn resource(&self) -> String {
        let label = |name: &str| {
            let mut labels = self.labels.split("\",");
            let found = labels.find_map(|it| it.trim_start_matches(',').strip_prefix(name));
            found.map_or("", |it| it.trim_start_matches("=\"").trim_end_matches('"'))
        };
        format!("{} {} {}", label("group"), label("version"), label("resource"))
    }
}
