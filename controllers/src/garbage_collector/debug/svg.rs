//! A picture as SVG, drawn without the help of another program: owners on top, each layer of dependents below.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use super::picture::{Picture, Vertex};

const WIDTH: usize = 260;
const HEIGHT: usize = 64;
const GAP: usize = 24;
/// Between two layers, where the edges are.
const FALL: usize = 56;
/// How many boxes are beside each other before a layer goes on below itself.
const ROW: usize = 40;

/// Where a box is: its left upper corner.
type Places<'a> = BTreeMap<&'a str, (usize, usize)>;

/// The picture; `left_out` says how many vertices it does not have.
pub fn svg(picture: &Picture, left_out: usize) -> String {
    let (places, width, height) = place(picture);
    let foot = if left_out > 0 { 2 * GAP } else { 0 };
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{}\" font-family=\"monospace\" \
         font-size=\"11\">\n<style>rect {{ fill: #fff; stroke: #333 }} .deleting {{ fill: #fdd }} .unseen {{ \
         stroke-dasharray: 4 }} line {{ stroke: #888 }}</style>\n",
        height + foot
    );
    for (from, to) in &picture.edges {
        let (Some(from), Some(to)) = (places.get(&**from), places.get(&**to)) else {
            continue;
        };
        let _ = writeln!(
            text,
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            from.0 + WIDTH / 2,
            from.1,
            to.0 + WIDTH / 2,
            to.1 + HEIGHT
        );
    }
    for (uid, vertex) in &picture.vertices {
        if let Some(place) = places.get(&**uid) {
            draw(&mut text, uid, vertex, *place);
        }
    }
    if left_out > 0 {
        let _ = writeln!(
            text,
            "<text x=\"{GAP}\" y=\"{}\">and {left_out} more: ask for some of them with ?uid=</text>",
            height + GAP
        );
    }
    text.push_str("</svg>\n");
    text
}

fn draw(text: &mut String, uid: &str, vertex: &Vertex, (x, y): (usize, usize)) {
    let mut class = String::new();
    if vertex.deleting {
        class.push_str("deleting ");
    }
    if vertex.unseen || vertex.missing {
        class.push_str("unseen");
    }
    let reference = vertex.reference();
    let _ = writeln!(
        text,
        "<g><title>{} {}</title><rect class=\"{}\" x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\"/>",
        escaped(&vertex.namespace),
        escaped(&reference),
        class.trim_end()
    );
    let lines = [&reference, &vertex.namespace, uid, &vertex.flags().join(", ")];
    for (at, line) in (0..).zip(lines) {
        let short: String = line.chars().take(WIDTH / 7).collect();
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            x + 6,
            y + 15 + at * 14,
            escaped(&short)
        );
    }
    text.push_str("</g>\n");
}

/// The places of all boxes, and the size of the whole.
fn place(picture: &Picture) -> (Places<'_>, usize, usize) {
    let layers = layers(picture);
    let (mut places, mut y, mut widest) = (Places::new(), GAP, 1);
    for layer in &layers {
        // Under its owners, as far as that goes.
        let mut layer = layer.clone();
        layer.sort_by_key(|uid| (above(picture, uid, &places), *uid));
        for row in layer.chunks(ROW) {
            for (at, uid) in (0..).zip(row) {
                places.insert(uid, (GAP + at * (WIDTH + GAP), y));
            }
            widest = widest.max(row.len());
            y += HEIGHT + GAP;
        }
        y += FALL - GAP;
    }
    (places, GAP + widest * (WIDTH + GAP), y)
}

/// Where the owners of a vertex are, that have a place, in the middle.
fn above(picture: &Picture, uid: &str, places: &Places<'_>) -> usize {
    let owners = owners(picture, uid).filter_map(|owner| places.get(owner));
    let (sum, count) = owners.fold((0_usize, 0), |(sum, count), place| (sum + place.0, count + 1));
    sum.checked_div(count).unwrap_or(0)
}

/// Each vertex once, as near to those without owners as its owners allow; a circle is entered at its smallest uid.
fn layers(picture: &Picture) -> Vec<Vec<&str>> {
    let mut dependents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in &picture.edges {
        dependents.entry(to).or_default().push(from);
    }
    let all = || picture.vertices.keys().map(String::as_str);
    let roots = all().filter(|uid| owners(picture, uid).next().is_none());
    let mut layers: Vec<Vec<&str>> = Vec::new();
    let mut seen = BTreeSet::new();
    for start in [roots.collect(), all().collect::<Vec<_>>()] {
        let mut next: VecDeque<_> = VecDeque::new();
        for root in start {
            // Of those in circles one begins, and what hangs on it follows before the next one begins.
            if seen.insert(root) {
                next.push_back((root, 0));
            }
            while let Some((uid, depth)) = next.pop_front() {
                if layers.len() == depth {
                    layers.push(Vec::new());
                }
                layers[depth].push(uid);
                for dependent in dependents.get(uid).into_iter().flatten() {
                    if seen.insert(dependent) {
                        next.push_back((dependent, depth + 1));
                    }
                }
            }
        }
    }
    layers
}

fn owners<'a>(picture: &'a Picture, uid: &str) -> impl Iterator<Item = &'a str> {
    let from = uid.to_owned();
    let edges = picture.edges.range((from.clone(), String::new())..);
    edges
        .take_while(move |(it, _)| *it == from)
        .map(|(_, to)| to.as_str())
}

/// As text in XML. Control characters have no place there, however they are written.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            char if char.is_control() => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}
