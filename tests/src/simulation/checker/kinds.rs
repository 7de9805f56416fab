//! The kinds that the API serves: the built-in ones, and those of the definitions in the store.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::rules::Kind;
use super::symbols::{Symbol, Symbols};
use super::view::DefinitionSpec;

/// The resource of a served kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) collection: Symbol,
    pub(super) namespaced: bool,
}

/// The kinds by apiVersion and kind.
#[derive(Clone, Debug)]
pub(super) struct Kinds {
    built_in: Cow<'static, [Kind]>,
    /// The kinds that were looked up among the built-in ones.
    known: BTreeSet<(Symbol, Symbol)>,
    served: BTreeMap<(Symbol, Symbol), Served>,
    /// The kinds that are no longer served, with the position in the run.
    removed: BTreeMap<(Symbol, Symbol), u64>,
    /// The kinds of each definition.
    definitions: BTreeMap<Symbol, Vec<(Symbol, Symbol)>>,
    /// The position from which the resource of a definition is served.
    since: BTreeMap<Symbol, u64>,
}

impl Kinds {
    pub(super) fn new(built_in: Cow<'static, [Kind]>) -> Self {
        Self {
            built_in,
            known: BTreeSet::new(),
            served: BTreeMap::new(),
            removed: BTreeMap::new(),
            definitions: BTreeMap::new(),
            since: BTreeMap::new(),
        }
    }

    /// Looks a kind up among the built-in ones when a reference names it first.
    pub(super) fn learn(&mut self, api_version: Symbol, kind: Symbol, symbols: &mut Symbols) {
        if !self.known.insert((api_version, kind)) {
            return;
        }
        let texts = (symbols.text(api_version), symbols.text(kind));
        let found = self.built_in.iter().find(|it| (it.api_version, it.kind) == texts);
        if let Some(found) = found {
            let served = Served {
                collection: symbols.intern(found.collection),
                namespaced: found.namespaced,
            };
            self.served.insert((api_version, kind), served);
        }
    }

    /// Returns the resource of a kind, if it is served.
    pub(super) fn resolve(&self, api_version: Symbol, kind: Symbol) -> Option<Served> {
        self.served.get(&(api_version, kind)).copied()
    }

    /// Returns the position at which a kind was removed.
    pub(super) fn removed(&self, api_version: Symbol, kind: Symbol) -> Option<u64> {
        self.removed.get(&(api_version, kind)).copied()
    }

    /// Reports whether a resource is always served.
    pub(super) fn is_built_in(&self, collection: &str) -> bool {
        self.built_in.iter().any(|it| it.collection == collection)
    }

    /// Returns the position from which a resource is served.
    pub(super) fn since(&self, collection: Symbol) -> u64 {
        self.since.get(&collection).copied().unwrap_or(0)
    }

    /// Replaces the kinds of a definition; none if it was removed. The kinds are served as soon as the definition exists.
    pub(super) fn define(
        &mut self,
        definition: Symbol,
        spec: Option<&DefinitionSpec>,
        position: u64,
        symbols: &mut Symbols,
    ) {
        let before = self.definitions.remove(&definition).unwrap_or_default();
        let mut now = Vec::new();
        if let Some(DefinitionSpec {
            group,
            names,
            scope,
            versions,
        }) = spec
        {
            let collection = symbols.intern(&format!("{}.{group}", names.plural));
            self.since.entry(collection).or_insert(position);
            for version in versions.iter().filter(|it| it.served) {
                let api_version = symbols.intern(&format!("{group}/{}", version.name));
                let key = (api_version, symbols.intern(&names.kind));
                let served = Served {
                    collection,
                    namespaced: scope == "Namespaced",
                };
                self.served.insert(key, served);
                self.removed.remove(&key);
                now.push(key);
            }
        }
        for key in before {
            if !now.contains(&key) {
                let removed = self.served.remove(&key);
                self.removed.insert(key, position);
                if spec.is_none()
                    && let Some(removed) = removed
                {
                    self.since.remove(&removed.collection);
                }
            }
        }
        if !now.is_empty() {
            self.definitions.insert(definition, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::BUILT_IN;
    use super::*;

    #[test]
    fn definition_adds_and_removes_kinds() {
        let mut symbols = Symbols::default();
        let mut kinds = Kinds::new(Cow::Borrowed(BUILT_IN));
        let definition = symbols.intern("uid");
        let spec = |served: bool| -> DefinitionSpec {
            serde_json::from_value(serde_json::json!({
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true}, {"name": "v2", "served": served}],
            }))
            .expect("a definition")
        };
        kinds.define(definition, Some(&spec(true)), 5, &mut symbols);
        let key = |version: &str, symbols: &mut Symbols| {
            (
                symbols.intern(&format!("example.com/{version}")),
                symbols.intern("Widget"),
            )
        };
        let (v1, v2) = (key("v1", &mut symbols), key("v2", &mut symbols));
        let widgets = kinds.resolve(v2.0, v2.1).expect("served");
        assert_eq!(symbols.text(widgets.collection), "widgets.example.com");
        assert_eq!((widgets.namespaced, kinds.since(widgets.collection)), (true, 5));
        kinds.define(definition, Some(&spec(false)), 6, &mut symbols);
        assert_eq!(
            (kinds.resolve(v2.0, v2.1), kinds.removed(v2.0, v2.1)),
            (None, Some(6))
        );
        assert!(kinds.resolve(v1.0, v1.1).is_some());
        let (v1beta1, deployment) = (symbols.intern("extensions/v1beta1"), symbols.intern("Deployment"));
        let apps = symbols.intern("apps/v1");
        for version in [v1beta1, apps] {
            kinds.learn(version, deployment, &mut symbols);
        }
        assert_eq!(kinds.resolve(v1beta1, deployment), None);
        assert!(kinds.resolve(apps, deployment).is_some_and(|it| it.namespaced));
        kinds.define(definition, None, 7, &mut symbols);
        assert_eq!(
            (kinds.resolve(v1.0, v1.1), kinds.removed(v1.0, v1.1)),
            (None, Some(7))
        );
    }
}
