//! L2 and S4 at rest: no object without an owner is left, no reference to an absent owner, and no terminating object, unless a
//! blocked finalizer or an owner of an unknown kind keeps it.

use std::collections::BTreeSet;

use super::context::{Context, Found};
use super::model::{Object, Target};
use super::symbols::{CRDS, NAMESPACES, Symbol};

/// Checks the store of a run at rest.
pub(super) fn at_rest(context: &Context, found: &mut Found) {
    let kept = kept(context);
    for object in context.model.all().filter(|it| !kept.contains(&it.uid)) {
        if object.terminating {
            check_terminating(context, object, found);
        } else if !object.references.is_empty() {
            check_references(context, object, found);
        }
    }
}

/// Returns the objects that stay: those that are blocked, those with an owner that cannot be resolved, and the foreground
/// deletions that they block.
fn kept(context: &Context) -> BTreeSet<Symbol> {
    let rules = &context.rules;
    let is_blocked = |object: &Object| {
        let finalizers = &mut object.finalizers.iter().map(|it| context.text(*it));
        finalizers.any(|it| rules.blocked_finalizers.contains(it))
            || context.is_in(&rules.blocked_objects, object)
            // The API itself completes their deletion.
            || matches!(object.collection, CRDS | NAMESPACES)
    };
    // Without faults, the collector has observed the deletion of the owner.
    let is_known = |owner: Symbol| {
        rules.collects_removed_kinds && context.faults == 0 && context.model.was_removed(owner)
    };
    let is_unresolvable = |object: &Object| {
        object
            .references
            .iter()
            .any(|it| match context.resolve(object, it) {
                Target::Unserved => !is_known(it.uid),
                target => matches!(target, Target::Ambiguous),
            })
    };
    let mut new: Vec<&Object> = context
        .model
        .all()
        .filter(|it| it.terminating && is_blocked(it) || is_unresolvable(it))
        .collect();
    let mut kept: BTreeSet<Symbol> = new.iter().map(|it| it.uid).collect();
    while let Some(object) = new.pop() {
        for reference in &object.references {
            if let Target::Live(owner) = context.resolve(object, reference)
                && owner.is_waiting()
                && object.blocks(&context.kinds, owner)
                && kept.insert(owner.uid)
            {
                new.push(owner);
            }
        }
    }
    kept
}

fn check_terminating(context: &Context, object: &Object, found: &mut Found) {
    let leaked = [
        (object.foreground, "foregroundDeletion"),
        (object.orphan, "orphan"),
    ];
    let leaked = leaked.iter().find(|it| it.0).map(|it| it.1);
    if let Some(finalizer) = leaked {
        let mut blocking = context.model.dependents(object.uid);
        let blocking = blocking.find(|it| it.blocks(&context.kinds, object));
        found.add(
            "S4",
            format!(
                "{} is at rest with the finalizer {finalizer}; {}",
                context.name(object),
                blocking.map_or("no dependent blocks its deletion".to_owned(), |it| format!(
                    "{} blocks its deletion",
                    context.name(it)
                )),
            ),
        );
        return;
    }
    let finalizers: Vec<&str> = object.finalizers.iter().map(|it| context.text(*it)).collect();
    found.add(
        "L2",
        format!(
            "{} is at rest and terminating, with the finalizers {finalizers:?}",
            context.name(object)
        ),
    );
}

fn check_references(context: &Context, object: &Object, found: &mut Found) {
    let is_solid = |target: &Target<'_>| matches!(target, Target::Live(owner) if !owner.is_waiting());
    let solid: BTreeSet<Symbol> = object
        .references
        .iter()
        .filter(|it| is_solid(&context.resolve(object, it)))
        .map(|it| it.uid)
        .collect();
    let Some(dangling) = object.references.iter().find(|it| !solid.contains(&it.uid)) else {
        return;
    };
    let state = match context.resolve(object, dangling) {
        Target::Live(_) => "is in foreground deletion",
        _ => "does not exist",
    };
    let rest = if solid.is_empty() {
        "and no other owner keeps the object"
    } else {
        "and the reference was not removed"
    };
    found.add(
        "L2",
        format!(
            "the owner {} of {} {state}, {rest}",
            context.reference(dangling),
            context.name(object)
        ),
    );
}
