//! The write sites of the product that were interrupted: a crash before the write, and one after it.

use std::collections::{BTreeMap, BTreeSet};

use super::fault::Class;
use super::record::Request;

/// A place in the product that writes: the controller, the verb and the resource.
pub type Site = String;

/// Counts over any number of runs.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The position of the first request of each site that had a response in a run, and was sent while faults could happen. Not
    /// kept over several runs.
    pub positions: BTreeMap<Site, usize>,
    /// The positions of the writes of a run until its faults end, by the number of the request.
    sent: BTreeMap<usize, usize>,
    have_faults_ended: bool,
    /// All sites that wrote.
    pub sites: BTreeSet<Site>,
    /// The sites at which a process crashed before the write was sent.
    pub before: BTreeSet<Site>,
    /// The sites at which a process crashed after the write was executed.
    pub after: BTreeSet<Site>,
    /// Injected faults by class.
    pub faults: BTreeMap<Class, usize>,
}

impl Coverage {
    pub(super) fn sent(&mut self, request: &Request, position: usize) {
        if !self.have_faults_ended {
            self.sent.insert(request.number, position);
        }
    }

    /// Records that no process crashes any more in this run.
    pub(super) fn end_faults(&mut self) {
        self.have_faults_ended = true;
    }

    pub(super) fn seen(&mut self, request: &Request) {
        let site = site(request);
        if self.sites.contains(&site) {
            return;
        }
        if let Some(position) = self.sent.get(&request.number) {
            self.positions.insert(site.clone(), *position);
        }
        self.sites.insert(site);
    }

    pub(super) fn before(&mut self, request: &Request) {
        self.before.insert(site(request));
    }

    pub(super) fn after(&mut self, request: &Request) {
        self.after.insert(site(request));
    }

    pub(super) fn fault(&mut self, class: Class) {
        *self.faults.entry(class).or_default() += 1;
    }

    /// Adds the counts of another run.
    pub fn extend(&mut self, other: &Self) {
        for (sites, others) in [
            (&mut self.sites, &other.sites),
            (&mut self.before, &other.before),
            (&mut self.after, &other.after),
        ] {
            let new: Vec<Site> = others.difference(sites).cloned().collect();
            sites.extend(new);
        }
        for (class, count) in &other.faults {
            *self.faults.entry(*class).or_default() += count;
        }
    }

    /// Returns the sites without a crash before or without one after the write.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        let is_missing = |it: &&Site| !(self.before.contains(*it) && self.after.contains(*it));
        self.sites.iter().filter(is_missing).map(String::as_str).collect()
    }

    /// Returns the number of sites with a crash before and one after the write.
    #[must_use]
    pub fn covered(&self) -> usize {
        self.sites.len() - self.missing().len()
    }
}

/// Returns the place that sends a write.
pub(super) fn site(request: &Request) -> Site {
    let Request {
        agent,
        verb,
        collection,
        subresource,
        ..
    } = request;
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{agent} {verb} {collection}{slash}{subresource}")
}
