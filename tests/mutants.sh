#!/usr/bin/env bash
# Mutation tests of the files that decide: cargo-mutants changes one expression at a time in a copy of the tree, and runs the
# unit tests of the crate. A mutant that no test detects is "missed": a test is missing, or the expression is redundant.
#
#   tests/mutants.sh                                        # all files below, in hours
#   tests/mutants.sh controllers/src/deployment/scale.rs    # one file
#
# The output is in target/mutants.out, or in the directory that STEERSMAN_MUTANTS names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Pure functions only: their unit tests are fast, and a mutant that waits forever is rare.
FILES=(
  controllers/src/appservice/{deletion_policy,desired,drift,history,managed_fields,ownership,plan,status}.rs
  controllers/src/deployment/{bounds,cleanup,new_replica_set,plan,progress,recreate,replica_sets,revision,rollback,rolling,scale,status}.rs
  controllers/src/garbage_collector/breaker.rs
  controllers/src/garbage_collector/graph/{evaluate,identity,links,node,observe,orphan,sync,tombstones}.rs
  controllers/src/hollow_kubelet/{condition,node,plan,pod,status}.rs
  controllers/src/replicaset/{backoff,deletion_order,plan,status,template}.rs
  controllers/src/support/{deployment,naming,owner,pod,pod_template,quantity,template_hash}.rs
  controllers/src/yielding/observed_lease.rs
  manager/src/{backoff,conditions,expectations,selector}.rs
  manager/src/cache/store.rs
  manager/src/client/merge_patch.rs
  manager/src/election/{lease_state,record}.rs
  manager/src/object/{meta,uid,version}.rs
  manager/src/queue/state_machine.rs
  manager/src/webhook/certificates/plan.rs
  manager/src/webhook/typed/patch.rs
)
[ $# -eq 0 ] || FILES=("$@")

: "${CARGO_MUTANTS:=$(tests/tools.sh CARGO_MUTANTS | cut -d = -f 2)}"
output=${STEERSMAN_MUTANTS:-${CARGO_TARGET_DIR:-target}}
mkdir -p "$output"
missed=0
for crate in controllers manager; do
  arguments=()
  for file in "${FILES[@]}"; do
    [ -e "$file" ] || { printf '%s does not exist\n' "$file" >&2; exit 1; }
    [ "${file%%/*}" != "$crate" ] || arguments+=(--file "$file")
  done
  [ ${#arguments[@]} -gt 0 ] || continue
  # Exit code 2: a mutant is missed. 3: one timed out, which a test has detected in its own way.
  "$CARGO_MUTANTS" mutants --package "steersman-$crate" "${arguments[@]}" --output "$output/$crate" --timeout 120 --colors never \
    -- --lib || case $? in
    2) missed=1 ;;
    3) ;;
    *) exit 1 ;;
  esac
done
exit "$missed"
