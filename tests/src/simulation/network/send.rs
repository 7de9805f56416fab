//! Requests enter the network: they are recorded, and the planned faults choose theirs.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Uri};
use tokio::sync::oneshot;

use super::super::coverage::{Site, site};
use super::super::fault::{Class, Fault, Target};
use super::super::record::{Fact, Request, Sender};
use super::{Answer, Content, Network, State, Wire};

/// Parts of the names of write sites: crashes aim at rare sites as often as at others.
pub(in super::super) const AIMS: [&str; 4] = ["", "generic-garbage-collector", "events", "patch"];

impl Network {
    /// Sends a request of a process.
    pub(in super::super) fn send(
        &self,
        sender: Sender,
        parts: Parts,
        body: Bytes,
        reply: oneshot::Sender<Answer>,
    ) {
        let mut state = self.state();
        if let Sender::Process(number) = sender
            && state.processes.get(number).is_none_or(|it| !it.running)
        {
            // The process has crashed. Its remaining tasks cannot send.
            return;
        }
        let request = state.record(sender, &parts, &body);
        let fault = state.fault_of(&request);
        state.log(|| format!("send {}", describe(&request)));
        state.observe(&Fact::Sent(request.clone()));
        if let Some(fault) = fault {
            state.count_fault(fault);
            if fault.class == Class::F01 {
                state.coverage.before(&request);
                state.crash(sender);
                return;
            }
        }
        let wire = Wire {
            request,
            parts,
            body,
            reply: Some(reply),
            fault,
        };
        state.transmit(Content::Request(Box::new(wire)));
    }
}

impl State {
    /// Returns the request as a fact.
    pub(super) fn record(&mut self, sender: Sender, parts: &Parts, body: &Bytes) -> Request {
        let number = self.numbers;
        self.numbers += 1;
        request(number, sender, self.at(), parts, body)
    }

    /// Returns the site of a request, if a fault counts sites and this is the first request of its site in the schedule.
    fn new_site(&mut self, request: &Request) -> Option<Site> {
        if !is_write(request) || self.faults.iter().all(|it| aim(*it).is_none()) {
            return None;
        }
        let site = site(request);
        self.sites.insert(site.clone()).then_some(site)
    }

    /// Returns the planned fault of a request: its position is reached, and its class applies.
    fn fault_of(&mut self, request: &Request) -> Option<Fault> {
        let number = self.counts.requests;
        self.counts.requests += 1;
        if is_write(request) {
            self.coverage.sent(request, number);
        }
        let new_site = self.new_site(request);
        let at = self.faults.iter().position(|it| {
            let is_reached = match aim(*it) {
                Some(aim) => {
                    let count = self.sites.iter().filter(|it| it.contains(aim)).count();
                    new_site.as_ref().is_some_and(|site| site.contains(aim)) && it.at < count
                }
                None => it.at <= number,
            };
            it.class.target() == Target::Request && is_reached && applies(it.class, request.verb)
        })?;
        Some(self.faults.remove(at))
    }
}

/// Returns a request as a fact.
pub(crate) fn request(number: usize, sender: Sender, at: Duration, parts: &Parts, body: &Bytes) -> Request {
    let agent = parts.headers.get(http::header::USER_AGENT);
    let agent = agent.and_then(|it| it.to_str().ok()).unwrap_or_default();
    let agent = agent.rsplit_once('/').map_or(agent, |(_, name)| name);
    let path = Path::of(&parts.method, &parts.uri);
    Request {
        number,
        sender,
        at,
        agent: agent.to_owned(),
        verb: path.verb,
        collection: path.collection,
        namespace: path.namespace.to_owned(),
        name: path.name.to_owned(),
        subresource: path.subresource.to_owned(),
        uri: parts
            .uri
            .path_and_query()
            .map_or_else(String::new, ToString::to_string),
        body: body.clone(),
    }
}

/// Returns the text of the write sites that the position of a crash counts; none if it counts the requests.
fn aim(fault: Fault) -> Option<&'static str> {
    let is_aimed = matches!(fault.class, Class::F01 | Class::F02) && !fault.variant.is_multiple_of(2);
    is_aimed.then(|| AIMS[fault.variant as usize / 2 % AIMS.len()])
}

/// Reports whether a class can happen to a request of a verb.
pub(crate) fn applies(class: Class, verb: &str) -> bool {
    let is_write = is_write_verb(verb);
    match class {
        Class::F01 | Class::F02 | Class::F03 | Class::F06 | Class::Late => is_write,
        Class::F07 => matches!(verb, "update" | "patch" | "delete"),
        Class::F08 => verb == "create",
        Class::F09 => matches!(verb, "update" | "patch" | "delete" | "create"),
        Class::F10 => is_write && verb != "delete",
        _ => verb != "watch" || class != Class::F14,
    }
}

/// Reports whether a request changes objects.
pub(in super::super) fn is_write(request: &Request) -> bool {
    is_write_verb(request.verb)
}

fn is_write_verb(verb: &str) -> bool {
    matches!(
        verb,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    )
}

/// Returns a request in one line.
pub(super) fn describe(request: &Request) -> String {
    let Request {
        number,
        sender,
        agent,
        verb,
        uri,
        body,
        ..
    } = request;
    let body = String::from_utf8_lossy(body);
    format!("#{number} {sender:?} {agent} {verb} {uri} {body}")
}

/// The parts of a path of the API.
struct Path<'a> {
    verb: &'static str,
    collection: String,
    namespace: &'a str,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Path<'a> {
    fn of(method: &Method, uri: &'a Uri) -> Self {
        let mut segments = uri.path().split('/').skip(1);
        let group = match segments.next() {
            Some("apis") => segments.next().unwrap_or_default(),
            _ => "",
        };
        // The version.
        segments.next();
        let mut rest: Vec<&str> = segments.collect();
        let mut namespace = "";
        if let ["namespaces", name, _, ..] = rest[..]
            && !matches!(rest[2], "status" | "finalize")
        {
            namespace = name;
            rest.drain(..2);
        }
        let resource = rest.first().copied().unwrap_or_default();
        let name = rest.get(1).copied().unwrap_or_default();
        let watches = uri
            .query()
            .is_some_and(|it| it.contains("watch=true") || it.contains("watch=1"));
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ if watches => "watch",
            _ if name.is_empty() && !resource.is_empty() => "list",
            _ => "get",
        };
        let collection = match (resource, group) {
            ("", _) | (_, "") => resource.to_owned(),
            _ => format!("{resource}.{group}"),
        };
        Self {
            verb,
            collection,
            namespace,
            name,
            subresource: rest.get(2).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_gives_verb_and_object() {
        let parsed = |method: Method, uri: &'static str| {
            let uri = Uri::from_static(uri);
            let path = Path::of(&method, &uri);
            let text = [
                path.verb,
                &path.collection,
                path.namespace,
                path.name,
                path.subresource,
            ];
            text.join("|")
        };
        let cases = [
            (Method::GET, "/api/v1/pods?watch=true&x=1", "watch|pods|||"),
            (Method::GET, "/api", "get||||"),
            (Method::GET, "/apis/apps/v1", "get||||"),
            (
                Method::GET,
                "/apis/apps/v1/namespaces/a/replicasets",
                "list|replicasets.apps|a||",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/a/pods/b/status",
                "patch|pods|a|b|status",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/status",
                "update|namespaces||a|status",
            ),
            (Method::DELETE, "/api/v1/namespaces/a", "delete|namespaces||a|"),
            (Method::POST, "/api/v1/namespaces/a/events", "create|events|a||"),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods",
                "deletecollection|pods|a||",
            ),
        ];
        for (method, uri, expected) in cases {
            assert_eq!(parsed(method, uri), expected);
        }
    }
}
