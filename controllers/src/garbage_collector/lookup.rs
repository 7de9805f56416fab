//! Asks the API server whether an owner exists: one GET per identity at a time, however many ask.
//!
//! That there is none counts only if the server says so of that very name, or shows another object under it. Any other
//! answer proves nothing, and is an error. That it exists counts from when the request was sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use coxswain_manager::client::{Client, ClientError, View};
use coxswain_manager::object::{Key, Meta, MetaObject};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::floor::Floor;
use super::graph::{FOREGROUND, Identity, Live, Proof, Question};

type Flight = BoxFuture<'static, Result<(), Arc<ClientError>>>;

/// The questions that are under way.
#[derive(Debug, Default)]
pub(super) struct Lookups(Mutex<BTreeMap<Identity, WeakShared<Flight>>>);

/// Asks, or waits for the answer that somebody else has asked for, and tells the graph. `paid` is a client whose next request
/// is paid for; without it a token is waited for.
pub(super) async fn ask(
    floor: &Arc<Floor>,
    question: &Question,
    paid: Option<&Client>,
) -> Result<(), Arc<ClientError>> {
    let flight = floor.lookups.join(&question.identity, || {
        let (floor, question, paid) = (Arc::clone(floor), question.clone(), paid.cloned());
        let get = async move {
            let asked = get(&floor, &question, paid).await;
            floor.lookups.end(&question.identity);
            asked.map_err(Arc::new)
        };
        get.boxed()
    });
    flight.await
}

impl Lookups {
    fn join(&self, identity: &Identity, start: impl FnOnce() -> Flight) -> Shared<Flight> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.get(identity).and_then(WeakShared::upgrade) {
            return flight;
        }
        let flight = start().shared();
        if let Some(weak) = flight.downgrade() {
            flights.insert(identity.clone(), weak);
        }
        flight
    }

    fn end(&self, identity: &Identity) {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flights.remove(identity);
    }
}

async fn get(floor: &Floor, question: &Question, paid: Option<Client>) -> Result<(), ClientError> {
    let Question { kind, identity } = question;
    let key = Key::new(identity.namespace.clone(), identity.name.clone());
    let client = match paid {
        Some(client) => client,
        None => floor.client.paid("GET").await,
    };
    let at = floor.now();
    let shown = client.get_as::<MetaObject>(&kind.resource, &key, View::Metadata);
    let shown = shown.await;
    floor.came(&kind.resource, &shown);
    match shown {
        Ok(MetaObject { metadata }) => shown_as(floor, question, &metadata, at),
        Err(error) if error.is_not_found(&identity.name) => {
            floor.metrics.looked_up("not_found");
            floor.step(|graph| graph.absent(identity, Proof::NotFound));
            Ok(())
        }
        Err(error) => {
            floor.metrics.looked_up("error");
            Err(error)
        }
    }
}

fn shown_as(
    floor: &Floor,
    Question { kind, identity }: &Question,
    meta: &Meta,
    at: tokio::time::Instant,
) -> Result<(), ClientError> {
    // Nothing follows from an answer that shows something else than what was asked for.
    if meta.uid.is_empty() || meta.name != identity.name || meta.namespace != identity.namespace {
        floor.metrics.looked_up("error");
        return Err(ClientError::Decode {
            what: format!("GET {}", kind.resource.path(&meta.key())),
            reason: "it shows another object than the one that was asked for".to_owned(),
        });
    }
    if meta.uid != identity.uid {
        floor.metrics.looked_up("other_uid");
        let proof = Proof::OtherUid(meta.uid.clone());
        floor.step(|graph| graph.absent(identity, proof));
        return Ok(());
    }
    let live = if meta.is_deleting() && meta.has_finalizer(FOREGROUND) {
        floor.metrics.looked_up("waiting");
        Live::Waiting
    } else {
        floor.metrics.looked_up("solid");
        Live::Solid
    };
    floor.step(|graph| {
        let effects = graph.refresh(kind, meta);
        graph.exists(identity, live, at);
        effects
    });
    Ok(())
}
