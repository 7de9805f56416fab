//! The tree of an application while it comes alive: drawn again and again on a terminal that can do that, elsewhere a line for
//! each change.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use coxswain_manager::client::Client;
use coxswain_manager::env::Clock;

use super::tree::{self, Line};
use super::world::World;
use crate::log::Output;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);
/// How long it is followed: it has been ready long before, or something holds it that the last picture shows.
const LONGEST: Duration = Duration::from_secs(30);
/// The width of a terminal that does not say.
const WIDTH: u16 = 80;
/// On a narrower one the states of objects would be cut off.
const NARROWEST: u16 = 74;

/// Shows the tree below the `AppService` of that name until all of it is ready. Nothing here fails: what cannot be read is
/// read again.
pub(crate) async fn follow(client: &Client, namespace: &str, name: &str, clock: &Clock, log: &Output) {
    let mut picture = if can_be_drawn(
        io::stdout().is_terminal(),
        env::var_os("TERM").as_deref(),
        width(),
    ) {
        Picture::Drawn { rows: 0 }
    } else {
        Picture::Told(BTreeMap::new())
    };
    // Lines of the log would tear the drawing.
    let _held = (matches!(picture, Picture::Drawn { .. }) && io::stderr().is_terminal()).then(|| log.hold());
    let end = clock.after(LONGEST);
    while clock.now() < end {
        if let Ok(world) = World::read(client, namespace).await
            && let Some(root) = world.get("AppService", name)
        {
            let lines = tree::below(&world, root);
            picture.show(&lines, &mut io::stdout().lock());
            if lines.len() > 1 && lines.iter().all(|it| it.object.is_ready()) {
                return;
            }
        }
        clock.sleep(LOOK).await;
    }
}

/// What was shown last.
enum Picture {
    /// On a terminal: so many rows, which are drawn over.
    Drawn { rows: usize },
    /// Elsewhere: how each object was.
    Told(BTreeMap<String, String>),
}

impl Picture {
    fn show(&mut self, lines: &[Line<'_>], out: &mut impl Write) {
        let mut text = String::new();
        match self {
            Self::Drawn { rows } => {
                if *rows > 0 {
                    // To the first row of the last picture, and all below it away.
                    let _ = write!(text, "\x1b[{rows}A\x1b[J");
                }
                let width = usize::from(width());
                for line in lines {
                    // A row that is too long would become two.
                    text.extend(line.text().chars().take(width.saturating_sub(1)));
                    text.push('\n');
                }
                *rows = lines.len();
            }
            Self::Told(told) => {
                for Line { object, .. } in lines {
                    let state = object.state();
                    if told.get(object.uid()) != Some(&state) {
                        let _ = writeln!(text, "{} {}: {state}", object.kind, object.name());
                        told.insert(object.uid().to_owned(), state);
                    }
                }
            }
        }
        // Nobody reads it (a closed pipe): the application comes alive all the same.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Whether lines can be drawn over, and are wide enough.
fn can_be_drawn(is_terminal: bool, term: Option<&OsStr>, width: u16) -> bool {
    is_terminal && term.is_none_or(|it| it != "dumb") && width >= NARROWEST
}

fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.map(|it| it.ws_col)
        .ok()
        .filter(|it| *it > 0)
        .unwrap_or(WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    use crate::show::Object;

    fn pod(name: &str, phase: &str) -> Object {
        let value = json!({"metadata": {"name": name, "uid": name}, "status": {"phase": phase}});
        Object { kind: "Pod", value }
    }

    fn shown(picture: &mut Picture, objects: &[Object]) -> String {
        let line = |object| Line {
            branch: String::new(),
            object,
        };
        let lines: Vec<Line<'_>> = objects.iter().map(line).collect();
        let mut out = Vec::new();
        picture.show(&lines, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn where_it_cannot_be_drawn_over_only_changes_are_told() {
        let mut picture = Picture::Told(BTreeMap::new());
        let first = shown(&mut picture, &[pod("a", "Pending"), pod("b", "Pending")]);
        assert_eq!(first, "Pod a: Pending\nPod b: Pending\n");
        let second = shown(&mut picture, &[pod("a", "Running"), pod("b", "Pending")]);
        assert_eq!(second, "Pod a: Running\n");
    }

    #[test]
    fn it_is_drawn_only_where_that_can_be_seen() {
        let xterm = Some(OsStr::new("xterm"));
        assert!(can_be_drawn(true, xterm, 80) && can_be_drawn(true, None, 80));
        assert!(!can_be_drawn(false, xterm, 80));
        assert!(!can_be_drawn(true, Some(OsStr::new("dumb")), 80));
        assert!(!can_be_drawn(true, xterm, 40));
    }

    #[test]
    fn a_drawing_covers_the_one_before() {
        let mut picture = Picture::Drawn { rows: 0 };
        let first = shown(&mut picture, &[pod("a", "Pending"), pod("b", "Pending")]);
        assert!(!first.contains('\x1b') && first.lines().count() == 2, "{first:?}");
        let second = shown(&mut picture, &[pod("a", "Running")]);
        assert!(second.starts_with("\x1b[2A\x1b[J"), "{second:?}");
    }
}
