//! Server-side apply: merges a configuration into an object, and makes its manager the owner of the applied fields.
//!
//! Fields that the manager owned and no longer applies are removed, unless another manager owns them too. Changing a field
//! that another manager owns is a conflict. A forced apply takes the ownership instead.

use crate::fieldmanager::entries::Entry;
use crate::fieldmanager::fields::Fields;
use crate::fieldmanager::merge::{merge, reconciled, remove, with_named};
use crate::fieldmanager::shape::Shape;
use crate::fieldmanager::validate::Repeated;
use crate::fieldmanager::{
    Writer, compare, element, entries, fields, last_applied, reset, shape, updated, validate,
};
use crate::json::{Text, Value};
use crate::meta;
use crate::resource::Resource;

/// The manager of all fields of an object that had no managers before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// A field that is owned by another manager.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The owner, formatted for messages.
    pub manager: String,
    /// The path of the field, formatted for messages.
    pub field: String,
    pub(super) path: Vec<Text>,
}

/// The reason why a configuration was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that the configuration changes.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The configuration is not a valid configuration of this kind.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not match the schema. The API server answers with 500.
    #[error("{0}")]
    Untyped(String),
}

/// Applies a configuration to an object, or creates the object if `live` is `None`. The result contains its managers in
/// `metadata.managedFields`; it is neither defaulted nor validated.
pub fn apply(
    res: &Resource,
    writer: &Writer,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    let shape = shape::of(res);
    // A value that is not a list fails the type check below.
    if config["metadata"]["managedFields"].is_array() {
        let message = "metadata.managedFields must be nil";
        return Err(ApplyError::BadRequest(message.to_owned()));
    }
    if let Some(wrong) = validate::check(shape, config, Repeated::Wrong) {
        let what = described(config);
        return Err(ApplyError::Untyped(format!(
            "failed to create typed patch object ({what}): {wrong}"
        )));
    }
    let blank = shape::blank(res);
    let live = live.unwrap_or(&blank);
    let managed = managers(res, writer, live, &blank);
    let state = State {
        res,
        shape,
        writer,
        live,
        config,
    };
    let mut applied = state.apply(managed.clone(), force);
    if let (Err(conflicts), "kubectl") = (&applied, writer.manager.as_str()) {
        match last_applied::remaining(res, shape, live, conflicts) {
            Some(remaining) if remaining.is_empty() => applied = state.apply(managed, true),
            Some(remaining) => applied = Err(remaining),
            None => {}
        }
    }
    let (mut next, managed) = applied.map_err(ApplyError::Conflicts)?;
    if res.custom.is_some() && entries::are_too_deep(&managed) {
        return Err(ApplyError::Untyped(
            "failed to encode managed fields: too deep".to_owned(),
        ));
    }
    meta::set(&mut next, "managedFields", entries::write(managed));
    if writer.manager == "kubectl" {
        last_applied::update(&mut next, config);
    }
    Ok(next)
}

/// Returns the entries of an object. If it has none, one manager owns all its fields.
fn managers(res: &Resource, writer: &Writer, live: &Value, blank: &Value) -> Vec<Entry> {
    let managed = entries::read(&live["metadata"]["managedFields"]).unwrap_or_default();
    if managed.is_empty() {
        let before = Writer {
            manager: BEFORE_FIRST_APPLY.to_owned(),
            ..writer.clone()
        };
        return updated(res, &before, blank, live, managed);
    }
    managed
}

struct State<'a> {
    res: &'a Resource,
    shape: Shape<'a>,
    writer: &'a Writer,
    live: &'a Value,
    config: &'a Value,
}

impl State<'_> {
    fn apply(&self, mut managed: Vec<Entry>, force: bool) -> Result<(Value, Vec<Entry>), Vec<Conflict>> {
        if self.res.custom.is_some() {
            for entry in &mut managed {
                entry.fields = reconciled(self.shape, &entry.fields);
            }
        }
        let reset = reset::fields(self.res, self.writer.subresource);
        let mut own = compare::fields_of(self.shape, self.config);
        fields::subtract_trees(&mut own, &reset);
        let mine = Entry {
            fields: own,
            ..self.writer.entry(self.res, true)
        };
        let mut last = Fields::new();
        let mut time = None;
        managed.retain_mut(|entry| {
            let same = entry.is_of(&mine);
            if same {
                last = std::mem::take(&mut entry.fields);
                time = entry.time.take();
            }
            !same
        });
        let merged = merge(self.shape, self.live, self.config);
        let next = self.prune(merged, &managed, &mine, &last);
        let mut diff = compare::compare(self.shape, Some(self.live), Some(&next));
        for set in [&mut diff.removed, &mut diff.modified, &mut diff.added] {
            fields::subtract_trees(set, &reset);
        }
        let mut changed = diff.modified;
        fields::add(&mut changed, diff.added);
        let conflicts = conflicts(&managed, &changed);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        for entry in &mut managed {
            fields::subtract(&mut entry.fields, &changed);
            fields::subtract(&mut entry.fields, &diff.removed);
        }
        managed.retain(|entry| !entry.fields.is_empty());
        let mut mine = mine;
        reset::strip(&mut mine.fields);
        mine.time = if *self.live == next {
            time
        } else {
            Some(self.writer.time.clone())
        };
        if !mine.fields.is_empty() {
            managed.push(mine);
        }
        Ok((next, managed))
    }

    /// Removes fields that the manager owned and no longer applies, unless another manager owns them.
    fn prune(&self, merged: Value, others: &[Entry], mine: &Entry, last: &Fields) -> Value {
        if last.is_empty() {
            return merged;
        }
        let shape = self.shape;
        let named = |set: &Fields| with_named(shape, set);
        let of = |value: &Value| named(&compare::fields_of(shape, value));
        let last = named(last);
        let all = of(&merged);
        // Keeps all fields outside of the last applied set, all fields with a manager, and their parents.
        let mut kept = of(&remove(shape, &merged, &last));
        for entry in others.iter().chain([mine]) {
            fields::add(&mut kept, named(&entry.fields));
        }
        let mut gone = all.clone();
        fields::subtract(&mut gone, &kept);
        let pruned = of(&remove(shape, &merged, &gone));
        let mut gone = all;
        fields::subtract(&mut gone, &pruned);
        remove(shape, &merged, &fields::common(&gone, &last))
    }
}

/// Returns the changed fields that other managers own.
fn conflicts(managed: &[Entry], changed: &Fields) -> Vec<Conflict> {
    let mut managed: Vec<&Entry> = managed.iter().collect();
    managed.sort_by_cached_key(|entry| entry.identity());
    let mut conflicts = Vec::new();
    for entry in managed {
        for path in fields::paths(&fields::common(&entry.fields, changed)) {
            conflicts.push(Conflict {
                manager: entry.shown(),
                field: element::shown(&path),
                path,
            });
        }
    }
    conflicts
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            one.manager, one.field
        );
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}

/// Formats a configuration as `namespace/name; group/version, Kind=Kind`.
fn described(config: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&config["apiVersion"]);
    let version = if version.contains('/') {
        version
    } else {
        format!("/{version}")
    };
    format!(
        "{}/{}; {version}, Kind={}",
        meta::namespace(config),
        meta::name(config),
        text(&config["kind"])
    )
}
