//! Progress of an application until it is ready: a redrawn tree on a terminal, otherwise one line per change.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use steersman_manager::client::Client;
use steersman_manager::env::Clock;

use super::snapshot::Snapshot;
use super::tree::{self, Line};
use crate::log::Output;

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The application is ready long before, or the last output shows what blocks it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Used if the terminal does not report its width.
const DEFAULT_WIDTH: u16 = 80;
/// A narrower terminal would cut off the second column.
const MIN_WIDTH: u16 = 74;

/// Prints the tree below an `AppService` until all of it is ready. Failed reads are retried.
pub(super) async fn follow(client: &Client, name: &str, clock: &Clock, log: &Output) {
    let mut display = if can_redraw(
        io::stdout().is_terminal(),
        env::var_os("TERM").as_deref(),
        width(),
    ) {
        Display::Tree { rows: 0 }
    } else {
        Display::Changes(BTreeMap::new())
    };
    // Log lines would garble the tree.
    let _hold = (matches!(display, Display::Tree { .. }) && io::stderr().is_terminal()).then(|| log.hold());
    let end = clock.after(TIMEOUT);
    while clock.now() < end {
        if let Ok(snapshot) = Snapshot::read(client).await
            && let Some(root) = snapshot.get("AppService", name)
        {
            let lines = tree::dependents(&snapshot, root);
            display.update(&lines, &mut io::stdout().lock());
            if lines.len() > 1 && lines.iter().all(|it| it.object.is_ready()) {
                return;
            }
        }
        clock.sleep(POLL_INTERVAL).await;
    }
}

/// The previous output.
enum Display {
    /// On a terminal: the number of rows to overwrite.
    Tree { rows: usize },
    /// Elsewhere: the summary of each object by uid.
    Changes(BTreeMap<String, String>),
}

impl Display {
    fn update(&mut self, lines: &[Line<'_>], out: &mut impl Write) {
        let mut text = String::new();
        match self {
            Self::Tree { rows } => {
                if *rows > 0 {
                    // Moves to the first row of the previous tree and clears everything below.
                    let _ = write!(text, "\x1b[{rows}A\x1b[J");
                }
                let width = usize::from(width());
                for line in lines {
                    // A longer line would wrap and take two rows.
                    text.extend(line.text().chars().take(width.saturating_sub(1)));
                    text.push('\n');
                }
                *rows = lines.len();
            }
            Self::Changes(last) => {
                for Line { object, .. } in lines {
                    let state = object.summary();
                    if last.get(object.uid()) != Some(&state) {
                        let _ = writeln!(text, "{} {}: {state}", object.kind, object.name());
                        last.insert(object.uid().to_owned(), state);
                    }
                }
            }
        }
        // A closed pipe does not stop the sandbox.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Whether the output is a terminal that supports cursor movement and is wide enough.
fn can_redraw(is_terminal: bool, term: Option<&OsStr>, width: u16) -> bool {
    is_terminal && term.is_none_or(|it| it != "dumb") && width >= MIN_WIDTH
}

fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    size.map(|it| it.ws_col)
        .ok()
        .filter(|it| *it > 0)
        .unwrap_or(DEFAULT_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    use crate::demo::snapshot::Object;

    fn pod(name: &str, phase: &str) -> Object {
        let value = json!({"metadata": {"name": name, "uid": name}, "status": {"phase": phase}});
        Object { kind: "Pod", value }
    }

    fn output(display: &mut Display, objects: &[Object]) -> String {
        let line = |object| Line {
            branch: String::new(),
            object,
        };
        let lines: Vec<Line<'_>> = objects.iter().map(line).collect();
        let mut out = Vec::new();
        display.update(&lines, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn without_redrawing_only_changes_are_printed() {
        let mut display = Display::Changes(BTreeMap::new());
        let first = output(&mut display, &[pod("a", "Pending"), pod("b", "Pending")]);
        assert_eq!(first, "Pod a: Pending\nPod b: Pending\n");
        let second = output(&mut display, &[pod("a", "Running"), pod("b", "Pending")]);
        assert_eq!(second, "Pod a: Running\n");
    }

    #[test]
    fn tree_needs_a_capable_and_wide_terminal() {
        let xterm = Some(OsStr::new("xterm"));
        assert!(can_redraw(true, xterm, 80) && can_redraw(true, None, 80));
        assert!(!can_redraw(false, xterm, 80));
        assert!(!can_redraw(true, Some(OsStr::new("dumb")), 80));
        assert!(!can_redraw(true, xterm, 40));
    }

    #[test]
    fn tree_overwrites_the_previous_tree() {
        let mut display = Display::Tree { rows: 0 };
        let first = output(&mut display, &[pod("a", "Pending"), pod("b", "Pending")]);
        assert!(!first.contains('\x1b') && first.lines().count() == 2, "{first:?}");
        let second = output(&mut display, &[pod("a", "Running")]);
        assert!(second.starts_with("\x1b[2A\x1b[J"), "{second:?}");
    }
}
