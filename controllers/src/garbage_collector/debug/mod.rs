//! The graph, for people to look at: `/debug/controllers/garbage-collector-controller/graph`.
//!
//! In the language of Graphviz, or as SVG for whoever accepts that. `?uid=`, which may come several times, picks all that
//! hangs together with these objects. Nodes without owners and dependents are left out.

mod dot;
mod picture;
mod svg;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use coxswain_manager::object::Uid;
use coxswain_manager::serve::Answer;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use http_body_util::Full;

pub use self::picture::{Picture, Shown};

/// Below this path the collector shows itself.
pub const PATH: &str = "/debug/controllers/garbage-collector-controller/graph";

const DOT: &str = "text/vnd.graphviz";
const SVG: &str = "image/svg+xml";
/// More boxes than that show nothing any more.
const DRAWN: usize = 2_000;

/// The objects that are asked for; none is all.
pub fn asked(request: &Request<()>) -> Vec<Uid> {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .filter(|(key, _)| key == "uid")
        .map(|(_, uid)| Uid::from(&*uid))
        .collect()
}

/// The picture in the form that is asked for.
pub fn answer(request: &Request<()>, picture: Picture) -> Answer {
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
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
