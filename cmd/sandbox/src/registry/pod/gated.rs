//! Updates of a pod with scheduling gates: its node affinity may become narrower, never wider.

use crate::field::{FieldError, Report as _};
use crate::json::Value;
use crate::registry::json::{entries, keep, list, remove, section};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Validates changes of the node selector and node affinity of a gated pod. Reverts valid changes in `rest`, so that the
/// comparison with the old spec ignores them.
pub(crate) fn validate_narrowing(old: &Value, new: &Value, rest: &mut Value, errors: &mut Vec<FieldError>) {
    if list(&old["schedulingGates"]).is_empty() {
        return;
    }
    let selector = &new["nodeSelector"];
    if entries(&old["nodeSelector"]).any(|(key, value)| selector[key] != *value) {
        errors.invalid(
            "spec.nodeSelector",
            selector.clone(),
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        );
    }
    keep(old, rest, "nodeSelector");
    let (before, after) = (&old["affinity"], &new["affinity"]);
    if before["nodeAffinity"] == after["nodeAffinity"] {
        return;
    }
    terms(
        &before["nodeAffinity"][REQUIRED],
        &after["nodeAffinity"][REQUIRED],
        errors,
    );
    let only_nodes = after["podAffinity"].is_null() && after["podAntiAffinity"].is_null();
    if before.is_null() && only_nodes {
        remove(rest, "affinity");
    } else if let Some(affinity) = section(rest, "affinity") {
        keep(before, affinity, "nodeAffinity");
    }
}

/// Validates node selector terms. Terms are alternatives, so each may become narrower, but their number is fixed.
fn terms(old: &Value, new: &Value, errors: &mut Vec<FieldError>) {
    let path = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let (before, after) = (list(&old["nodeSelectorTerms"]), list(&new["nodeSelectorTerms"]));
    if before.is_empty() {
        return;
    }
    if before.len() != after.len() {
        errors.invalid(
            path,
            new["nodeSelectorTerms"].clone(),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
        return;
    }
    for (i, (before, after)) in before.iter().zip(after).enumerate() {
        if !is_narrower(before, after) {
            errors.invalid(
                format!("{path}[{i}]"),
                after.clone(),
                "only additions are allowed (no mutations or deletions)",
            );
        }
    }
}

fn is_narrower(before: &Value, after: &Value) -> bool {
    let parts = ["matchExpressions", "matchFields"];
    let empty = |term: &Value| parts.iter().all(|part| list(&term[*part]).is_empty());
    // An empty term matches no node.
    if empty(before) {
        return empty(after);
    }
    parts
        .iter()
        .all(|part| list(&after[*part]).starts_with(list(&before[*part])))
}
