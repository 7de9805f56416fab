//! Leader election of a manager: its terms, and the release of the Lease.

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::{Manager, ManagerBuilder, ManagerError};
use crate::client::{Fence, Takeover, Term};
use crate::election::{self, Elector, Leadership, Release};
use crate::health::{Health, Probes};
use crate::sync::watch;

impl Manager {
    /// Runs the controllers only while `elector` leads: it must control the [fence](Self::fence) of this manager. Call it before
    /// `status` and [`Manager::run`]; a manager without an elector always leads. The health check `leaderElection` fails if this
    /// process believes that it is the leader but has stopped renewing.
    pub fn elect(&mut self, elector: Elector) {
        let health = elector.health();
        let check = self.checks.add(
            "leaderElection",
            Probes::LIVEZ | Probes::HEALTHZ,
            move || match health.check() {
                Ok(()) => Health::Ok,
                Err(stalled) => Health::Failed(stalled.to_string()),
            },
        );
        self.registrations.push(check);
        self.elector = Some(elector);
    }

    /// Leads whenever `elector` does, until `stop`, and releases the Lease.
    pub(super) async fn lead_while_elected(
        &self,
        elector: Elector,
        stop: CancellationToken,
    ) -> Result<(), ManagerError> {
        let (leadership, tasks) = (elector.leadership(), elector.tasks().clone());
        let (finish, finished) = oneshot::channel();
        // In a task of the elector: a reconcile that blocks its thread does not delay a renewal on another runtime.
        let mut election = tasks.spawn(elector.run(stop.clone(), async { finished.await.ok().flatten() }));
        let _aborted = AbortOnDrop(election.abort_handle(), self.fence.clone());
        let released = tokio::select! {
            biased;
            // The election must not end before the terms.
            ended = &mut election => ended,
            release = self.lead_terms(leadership, &stop) => {
                let (release, failure) = match release {
                    Ok(release) => (release, None),
                    Err(error) => (None, Some(error)),
                };
                // Fails only if the election has just failed, which is handled next.
                let _ = finish.send(release);
                let ended = election.await;
                if let Some(error) = failure {
                    return Err(error);
                }
                ended
            }
        };
        match released {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::warn!(%error, "Failed to release lease");
                Ok(())
            }
            Err(error) => Err(ManagerError::Failed {
                what: "leader election".to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    /// Leads whenever this process is elected, until `stop`. Returns whether the Lease can be released.
    async fn lead_terms(
        &self,
        mut leadership: watch::Receiver<Leadership>,
        stop: &CancellationToken,
    ) -> Result<Option<Release>, ManagerError> {
        let mut last = None;
        loop {
            let (term, takeover) = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                elected = elected(&mut leadership, last) => elected,
            };
            last = Some(term);
            let versions = self.lead(term, &takeover, stop).await?;
            if stop.is_cancelled() {
                let Some(versions) = versions else {
                    tracing::warn!("Not releasing lease, writes of the previous leader are unknown");
                    return Ok(None);
                };
                if !self.transport.write_tracker().is_settled() {
                    tracing::warn!("Not releasing lease, the outcome of a write is unknown");
                    return Ok(None);
                }
                return Ok(Some(Release { term, versions }));
            }
            tracing::warn!("Lost lease, continuing as standby");
        }
    }
}

impl ManagerBuilder {
    /// Runs the controllers only while this process holds a Lease. Without it, every process that is started acts: writes
    /// that carry a resourceVersion conflict, others are sent several times.
    pub fn leader_election(self, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        // The identity is set when the process starts.
        self.leader_election_with(election::Config::new(namespace, name, ""))
    }

    /// [`ManagerBuilder::leader_election`] with other times. An empty identity is replaced by that of the process.
    pub fn leader_election_with(self, config: election::Config) -> Self {
        Self {
            election: Some(config),
            ..self
        }
    }
}

/// Aborts the election and closes the fence when dropped.
struct AbortOnDrop(AbortHandle, Fence);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        // The abort takes effect later.
        self.1.close();
        self.0.abort();
    }
}

/// Waits for the next term after `last`.
async fn elected(leadership: &mut watch::Receiver<Leadership>, last: Option<Term>) -> (Term, Takeover) {
    let new = |leadership: &Leadership| match leadership {
        Leadership::Leading { term, .. } => Some(*term) != last,
        Leadership::Standby => false,
    };
    let leadership = leadership.wait_for(new).await.ok().map(|it| it.clone());
    match leadership {
        Some(Leadership::Leading { term, takeover }) => (term, takeover),
        // The elector has failed, which ends the manager.
        _ => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::Timestamp;
    use steersman_sandbox::Sandbox;

    use crate::client::Transport;
    use crate::election::Config;
    use crate::env::{Env, TaskSet};
    use crate::health::Checks;
    use crate::manager::Options;
    use crate::metrics::Registry;

    #[tokio::test(start_paused = true)]
    async fn election_check_is_removed_with_the_manager() {
        let tasks = TaskSet::new();
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
        let (registry, checks) = (Registry::new("test"), Checks::new());
        let sandbox = Sandbox::builder().start().expect("a sandbox");
        let transport = Transport::from_service(sandbox.service(), "sandbox", "test", &env.clock, &registry);
        let transport = transport.expect("a transport");
        let client = transport.unfenced("leader-election", None);
        let options = Options::new("test");
        let mut manager = Manager::new(&env, &registry, &checks, transport, options).expect("a manager");
        let (fence, config) = (manager.fence().clone(), Config::new("default", "test", "a"));
        let elector = Elector::new(&env, client, fence, config, &registry).expect("an elector");
        let is_checked = |probe| checks.run(probe).iter().any(|(name, _)| name == "leaderElection");
        assert!(!is_checked(Probes::HEALTHZ));
        manager.elect(elector);
        assert!(is_checked(Probes::HEALTHZ) && is_checked(Probes::LIVEZ));
        assert!(!is_checked(Probes::READYZ), "a standby is ready");
        drop(manager);
        assert!(!is_checked(Probes::HEALTHZ));
    }
}
