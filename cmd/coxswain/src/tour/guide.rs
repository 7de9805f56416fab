//! Says what is expected, looks for it, and says what was seen.

use std::io::{self, Write as _};
use std::time::Duration;

use coxswain_manager::client::Client;
use coxswain_manager::env::Clock;

use super::TourError;
use super::crew::Crew;
use crate::show::{NAMESPACE, World};

/// How long a step may take. Each takes a few seconds; a machine that is busy with other things may need more.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// How many looks it takes to say that something does not come: a machine that slept has waited, but not looked.
const LOOKS: usize = 100;
/// How often it is looked.
pub(super) const LOOK: Duration = Duration::from_millis(25);

/// What a look came to.
#[derive(Debug, PartialEq)]
pub(super) enum Look {
    /// It is as expected: this was seen.
    Seen(String),
    /// It may still come: this is there instead.
    NotYet(String),
    /// Something was seen that must not be.
    Wrong(String),
}

/// Prints a line. Nobody reads it (a closed pipe): the exit code says the same.
pub(super) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Who shows around.
pub(super) struct Guide {
    pub(super) client: Client,
    clock: Clock,
    step: usize,
}

impl Guide {
    pub(super) fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            step: 0,
        }
    }

    /// One step: says what will be done and what is expected, does it, and looks at the application until that is seen.
    pub(super) async fn step(
        &mut self,
        title: &str,
        expected: &str,
        act: impl Future<Output = Result<(), TourError>>,
        mut look: impl FnMut(&World) -> Look,
    ) -> Result<(), TourError> {
        let client = self.client.clone();
        let looked = async || Ok(look(&World::read(&client, NAMESPACE).await?));
        self.take(title, expected, act, looked).await
    }

    /// One step, after which another one than `former` leads.
    pub(super) async fn other_leads(
        &mut self,
        title: &str,
        expected: &str,
        former: &str,
        act: impl Future<Output = Result<(), TourError>>,
    ) -> Result<(), TourError> {
        let client = self.client.clone();
        let looked = async || {
            let leader = Crew::leader(&client).await?;
            Ok(match leader.as_str() {
                "" => Look::NotYet("nobody leads".to_owned()),
                leader if leader == former => Look::NotYet("the former leader holds the lease".to_owned()),
                _ => Look::Seen("the other manager leads".to_owned()),
            })
        };
        self.take(title, expected, act, looked).await
    }

    async fn take(
        &mut self,
        title: &str,
        expected: &str,
        act: impl Future<Output = Result<(), TourError>>,
        mut look: impl AsyncFnMut() -> Result<Look, TourError>,
    ) -> Result<(), TourError> {
        self.step += 1;
        say(&format!("{:>2}. {title}\n    expected: {expected}", self.step));
        let start = self.clock.now();
        act.await?;
        let mut looks = 0;
        loop {
            looks += 1;
            let looked = look().await?;
            let waited = self.clock.now().duration_since(start);
            let instead = match looked {
                Look::Seen(seen) => {
                    let seen = seen.replace('\n', "\n    ");
                    say(&format!(
                        "    seen:     after {:.1} s, {seen}\n",
                        waited.as_secs_f64()
                    ));
                    return Ok(());
                }
                Look::NotYet(_) if waited < PATIENCE || looks < LOOKS => {
                    self.clock.sleep(LOOK).await;
                    continue;
                }
                Look::NotYet(instead) | Look::Wrong(instead) => instead,
            };
            return Err(TourError::NotSeen {
                step: self.step,
                expected: expected.to_owned(),
                waited: waited.as_secs_f64(),
                instead,
            });
        }
    }
}
