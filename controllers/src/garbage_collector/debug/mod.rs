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
/// More boxes than that show nothing any more.
const DRAWN: usize = 2_000;

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

fn look(floor: &Arc<Floor>, asked: &[Uid]) -> Picture {
    floor.look(|graph: &Graph| {
        if asked.is_empty() {
            return Picture::of(graph.nodes());
        }
        let component = graph.component(asked);
        Picture::of(graph.nodes().filter(|it| component.contains(&it.identity.uid)))
    })
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
