//! Synchronization of tasks, in an order that is the same in every run.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use steersman_manager::sync::watch;
//!
//! let (replicas, mut observer) = watch::channel(1);
//! replicas.send_replace(3);
//! observer.changed().await?;
//! assert_eq!(*observer.borrow_and_update(), 3);
//! drop(replicas);
//! assert!(observer.changed().await.is_err());
//! # Ok(())
//! # }
//! ```

pub mod watch;

// The mutex of the work queue. `tests/shuttle` compiles the queue with the mutex of shuttle instead.
pub(crate) use std::sync::Mutex;
