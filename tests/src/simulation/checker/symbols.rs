//! Interned text: uids, names, resources and kinds are compared and stored as numbers.

use std::collections::BTreeMap;

/// An interned text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol(u32);

/// Declares the symbols that every table has from the start.
macro_rules! known {
    ($($name:ident $text:literal)*) => {
        const KNOWN: &[&str] = &[$($text),*];

        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "the positions of the constants")]
        enum Position { $($name),* }

        $(pub(super) const $name: Symbol = Symbol(Position::$name as u32);)*
    };
}

known! {
    EMPTY ""
    PODS "pods"
    REPLICA_SETS "replicasets.apps"
    REPLICATION_CONTROLLERS "replicationcontrollers"
    APP_REPLICA_SETS "appreplicasets.appcontroller.k8s.io"
    DEPLOYMENTS "deployments.apps"
    APP_SERVICES "appservices.appcontroller.k8s.io"
    LEASES "leases.coordination.k8s.io"
    EVENTS "events"
    NEW_EVENTS "events.events.k8s.io"
    CRDS "customresourcedefinitions.apiextensions.k8s.io"
    NAMESPACES "namespaces"
    COLLECTOR "generic-garbage-collector"
    REPLICA_SET_AGENT "replicaset-controller"
    REPLICATION_AGENT "replication-controller"
    APP_REPLICA_SET_AGENT "appreplicaset-controller"
    DEPLOYMENT_AGENT "deployment-controller"
    KUBELET "hollow-kubelet"
    INFORMERS "shared-informers"
    REPLICA_SET "ReplicaSet"
    REPLICATION_CONTROLLER "ReplicationController"
    APP_REPLICA_SET "AppReplicaSet"
    DEPLOYMENT "Deployment"
}

/// The table of all symbols of a run.
#[derive(Clone, Debug)]
pub(super) struct Symbols {
    /// By hash: numbers are compared faster than texts. A text whose hash is taken has one of the next.
    by_hash: BTreeMap<u64, Symbol>,
    texts: Vec<Box<str>>,
}

impl Default for Symbols {
    fn default() -> Self {
        let mut symbols = Self {
            by_hash: BTreeMap::new(),
            texts: Vec::new(),
        };
        for text in KNOWN {
            symbols.intern(text);
        }
        symbols
    }
}

impl Symbols {
    /// Returns the symbol of a text, which is new if the text is.
    pub(super) fn intern(&mut self, text: &str) -> Symbol {
        match self.find(text) {
            Ok(known) => known,
            Err(hash) => {
                let symbol = Symbol(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
                self.texts.push(text.into());
                self.by_hash.insert(hash, symbol);
                symbol
            }
        }
    }

    /// Returns the symbol of a text that was interned before.
    pub(super) fn get(&self, text: &str) -> Option<Symbol> {
        self.find(text).ok()
    }

    pub(super) fn text(&self, symbol: Symbol) -> &str {
        self.texts.get(symbol.0 as usize).map_or("", |it| it)
    }

    /// Returns the symbol of a text, or the hash that is free for it.
    fn find(&self, text: &str) -> Result<Symbol, u64> {
        let mut hash = hash(text);
        loop {
            match self.by_hash.get(&hash) {
                None => return Err(hash),
                Some(symbol) if self.text(*symbol) == text => return Ok(*symbol),
                Some(_) => hash = hash.wrapping_add(1),
            }
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hash = text.len() as u64;
    for chunk in text.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    hash
}

impl Symbol {
    /// Reports whether the symbol is empty text.
    pub(super) fn is_empty(self) -> bool {
        self == EMPTY
    }

    /// The largest symbol, for ranges.
    pub(super) const MAX: Self = Self(u32::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_symbol() {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.intern("pods"), PODS);
        assert_eq!(symbols.text(DEPLOYMENT), "Deployment");
        let new = symbols.intern("a");
        assert_eq!((symbols.intern("a"), symbols.text(new)), (new, "a"));
        assert_eq!((symbols.get("a"), symbols.get("b")), (Some(new), None));
    }
}
