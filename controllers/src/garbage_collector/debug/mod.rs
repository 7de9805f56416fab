//! The graph, for people to look at: `/debug/controllers/garbage-collector-controller/graph`.
//!
//! In the language of Graphviz, or as SVG for whoever accepts that. `?uid=`, which may come several times, picks all that
//! hangs together with these objects. Nodes without owners and dependents are left out.

mod dot;
mod picture;
mod svg;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use coxswain_manager::object::Uid;
use coxswain_manager::serve::Answer;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;

use self::picture::Picture;
use super::floor::Floor;
use super::graph::Graph;

/// The page of the graph, to be [mounted](coxswain_manager::serve::Endpoints::mount).
#[derive(Clone)]
pub struct GraphPage(pub(super) super::collector::Current);

const PLAIN: &str = "text/plain; charset=utf-8";
const DOT: &str = "text/vnd.graphviz";
const SVG: &str = "image/svg+xml";
/// The maximum number of vertices in an SVG: more are not readable.
const DRAWN: usize = 2_000;
/// The number of nodes that are copied under the lock at once.
const SLICE: usize = 1_000;

impl GraphPage {
    /// Where it is.
    pub const PATH: &str = "/debug/controllers/garbage-collector-controller/graph";

    /// The graph as it is now.
    #[must_use]
    pub fn answer(&self, request: &Request<()>) -> Answer {
        let Some(floor) = self.0.get() else {
            let why = "the garbage collector does not work in this process now: it leads only in one, and may yield\n";
            return page(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why.to_owned());
        };
        draw(request, look(&floor, &asked(request)))
    }
}

/// Copies the graph in slices, so that a page does not block the workers. It shows each slice at another time.
fn look(floor: &Arc<Floor>, asked: &[Uid]) -> Picture {
    let mut picture = Picture::default();
    let component = (!asked.is_empty()).then(|| floor.look(|graph: &Graph| graph.component(asked)));
    let mut from = None;
    loop {
        let last = from.take();
        from = floor.look(|graph: &Graph| {
            let mut nodes = graph.nodes(last.as_ref());
            for node in nodes.by_ref().take(SLICE) {
                if component
                    .as_ref()
                    .is_none_or(|it| it.contains(&node.identity.uid))
                {
                    picture.add(&node);
                }
            }
            nodes.next().map(|node| node.identity.uid)
        });
        // A slice that ends where it began holds one uid in more identities than fit.
        if from.is_none() || from == last {
            return picture.finish();
        }
    }
}

/// The objects that are asked for; none is all.
fn asked(request: &Request<()>) -> Vec<Uid> {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .filter(|(key, _)| key == "uid")
        .map(|(_, uid)| Uid::from(&*uid))
        .collect()
}

/// The picture in the form that is asked for.
fn draw(request: &Request<()>, picture: Picture) -> Answer {
    let accepts = request.headers().get_all(ACCEPT).iter();
    let wants_svg = accepts
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .any(|it| it.split(';').next().is_some_and(|it| it.trim() == SVG));
    let (content_type, text) = if wants_svg {
        let (picture, left_out) = picture.cut(DRAWN);
        (SVG, svg::svg(&picture, left_out))
    } else {
        (DOT, dot::dot(&picture))
    };
    page(StatusCode::OK, content_type, text)
}

fn page(status: StatusCode, content_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
