//! Tasks of a manager that are not controllers.

use std::fmt;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{AuthenticatedController, Definition, Fatal, Runnable, Unhealthy};
use crate::cache::Caches;
use crate::client::{Client, Fence, Reader, Term};
use crate::env::Env;
use crate::object::Key;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The context of a task that runs while this process is the leader.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "plain data")]
pub struct TaskContext {
    /// Its writes fail once the term is over.
    pub client: Client,
    pub caches: Caches,
    pub env: Env,
    /// Cancelled at a stop or the end of the term. The task has to return then.
    pub stop: CancellationToken,
}

/// A task that runs while this process is the leader.
struct LeaderTask<F> {
    name: String,
    client: Reader,
    caches: Caches,
    env: Env,
    run: F,
}

impl Definition {
    /// Returns a task that runs once per term, while this process is the leader. It may end early. An error ends the manager.
    pub fn task<F, R>(name: impl Into<String>, run: F) -> Self
    where
        F: Fn(TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let name = name.into();
        Self {
            name: name.clone(),
            add: Box::new(move |manager| {
                let account = manager.service_account(&name);
                let task = LeaderTask {
                    client: manager.reader(&name).authenticated_as(account.as_ref()),
                    caches: manager.caches().clone(),
                    env: manager.env().clone(),
                    name,
                    run,
                };
                manager.add(AuthenticatedController::new(task, account));
                Ok(())
            }),
        }
    }
}

impl<F, R> Runnable for LeaderTask<F>
where
    F: Fn(TaskContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn unsynced(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let (fence, stop) = (fence.clone(), stop.child_token());
        let task = (self.run)(TaskContext {
            client: self.client.in_term(&fence, term),
            caches: self.caches.clone(),
            env: self.env.clone(),
            stop: stop.clone(),
        });
        Box::pin(async move {
            let mut task = std::pin::pin!(task);
            let ended = tokio::select! {
                biased;
                ended = &mut task => ended,
                () = fence.closed(term) => {
                    stop.cancel();
                    task.await
                }
            };
            // At the end of its term, a task fails because it may no longer write.
            match ended {
                Err(error) if !stop.is_cancelled() => Err(Fatal::Failed {
                    controller: self.name.clone(),
                    reason: error.to_string(),
                }),
                _ => Ok(()),
            }
        })
    }

    fn running(&self) -> Vec<Key> {
        Vec::new()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        Ok(())
    }
}

impl<F> fmt::Debug for LeaderTask<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderTask")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
