//! The graph in the DOT language of Graphviz, as kube-controller-manager serves it:
//! `/debug/controllers/garbage-collector-controller/graph`.
//!
//! `?uid=`, which may be repeated, selects all objects that these objects own or depend on, directly or not. Objects without
//! owners and dependents are left out. The size of a page is bounded.
//!
//! `?format=json` returns one object with its owners and dependents (`&uid=`), or the objects that match a search
//! (`&search=`), as the status page needs them.

mod dot;
mod json;
mod search;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use steersman_manager::object::Uid;
use steersman_manager::serve::HttpResponse;

use self::dot::Drawing;
use self::json::{Lineage, Matches};
use self::search::Search;
use super::term::GcRuntime;
use super::term::GcTerm;

/// The page of the graph, to be [mounted](steersman_manager::serve::Endpoints::mount).
#[derive(Clone)]
pub struct GraphPage(pub(super) Arc<GcRuntime>);

/// The number of nodes that are copied under the lock at once.
const SLICE: usize = 1_000;

impl GraphPage {
    /// The path of the page.
    pub const PATH: &str = "/debug/controllers/garbage-collector-controller/graph";

    /// Renders the current graph.
    #[must_use]
    pub fn answer(&self, request: &Request<Bytes>) -> HttpResponse {
        let query = |key: &str| value(request, key);
        let (status, content_type, text) = match self.0.state() {
            Some(term) if query("format").as_deref() == Some("json") => json(&term, query("uid").as_deref(), query("search").as_deref()),
            Some(term) => {
                let text = draw(&term, &selected(request)).text();
                (StatusCode::OK, "text/vnd.graphviz", text)
            }
            None => (
                StatusCode::SERVICE_UNAVAILABLE,
                "text/plain; charset=utf-8",
                "the garbage collector is not active in this process: another process is the leader, or it yields\n"
                    .to_owned(),
            ),
        };
        let mut answer = Response::new(Full::new(Bytes::from(text)));
        *answer.status_mut() = status;
        let content_type = HeaderValue::from_static(content_type);
        answer.headers_mut().insert(CONTENT_TYPE, content_type);
        answer
    }
}

/// Copies the graph in slices, so that a page does not block the workers. Slices may show different states.
fn draw(term: &GcTerm, selected: &[Uid]) -> Drawing {
    let mut drawing = Drawing::default();
    let component = (!selected.is_empty()).then(|| term.read(|graph| graph.component(selected)));
    let is_selected = |uid: &Uid| component.as_ref().is_none_or(|it| it.contains(uid));
    let mut from = None;
    loop {
        let last = from.take();
        from = term.read(|graph| {
            let mut nodes = graph.nodes(last.as_ref());
            let slice = nodes.by_ref().take(SLICE);
            slice
                .filter(|it| is_selected(&it.identity.uid))
                .for_each(|it| drawing.add(it));
            nodes.next().map(|node| node.identity)
        });
        if from.is_none() {
            return drawing;
        }
    }
}

/// The JSON of one object or of a search.
fn json(term: &GcTerm, uid: Option<&str>, search: Option<&str>) -> (StatusCode, &'static str, String) {
    let search = search.and_then(Search::parse);
    let json = match (uid, search) {
        (Some(uid), _) => term.read(|graph| serde_json::to_string(&Lineage::of(graph, &Uid::from(uid)))),
        (None, Some(search)) => serde_json::to_string(&Matches::of(term, &search)),
        (None, None) => {
            let usage = "use uid=<uid>, or search=<kind>/<namespace>/<name>\n".to_owned();
            return (StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", usage);
        }
    };
    match json {
        Ok(json) => (StatusCode::OK, "application/json", json),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            format!("cannot encode the graph: {error}\n"),
        ),
    }
}

/// The first value of a query parameter.
fn value(request: &Request<Bytes>, wanted: &str) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let mut values = form_urlencoded::parse(query.as_bytes());
    values.find_map(|(key, value)| (key == wanted).then(|| value.into_owned()))
}

/// The uids that the request selects. Empty selects all objects.
fn selected(request: &Request<Bytes>) -> Vec<Uid> {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .filter(|(key, _)| key == "uid")
        .map(|(_, uid)| Uid::from(&*uid))
        .collect()
}
