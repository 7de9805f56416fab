#!/usr/bin/env bash
# Removes each rule of the deployed roles in turn and prints the test that fails without it, or NO TEST FAILS.
#
#   tests/remove-rules.sh [TEXT]    only rules with an id that contains the text
#
# The most likely test runs first; the other tests of the deployment and the suite of the controllers run only if it passes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=$(tests/tools.sh KUBECTL)
export "${tools?}"

# The ids of the rules, as `Rule::id` in tests/harness/src/roles.rs. Roles for users and monitoring are not bound to an account.
rules() {
  awk '
    /^---/ || FNR == 1 { kind = ""; namespace = ""; name = ""; at = 0; section = "" }
    /^[a-z]/ { section = $1 }
    /^kind:/ { kind = $2 }
    section == "metadata:" && /^  name:/ { name = $2 }
    section == "metadata:" && /^  namespace:/ { namespace = $2 "/" }
    section == "rules:" && /^- apiGroups:/ { print kind "/" namespace name "/" at++ }
  ' deploy/base/roles/[!u]*.yaml
}

selected=$(rules | grep -F -- "${1:-}") || {
  printf 'No rule has an id that contains %s. The ids:\n' "$1" >&2
  rules >&2
  exit 1
}

executables=$(cargo test --workspace --test cluster --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
for it in $executables; do
  case $("$it" --list) in
    *deploy::roles::*) deploy=$it ;;
    *garbage_collector::*) controllers=$it ;;
  esac
done

# Runs tests without the rule, and prints those that fail.
failed() {
  { STEERSMAN_TEST_REMOVED_RULE=$rule "$@" 2>&1 || true; } | sed -n 's/^test *\(\S*\) *\.\.\. FAILED$/\1/p'
}

# The tests that fail first without a rule of this role.
likely() {
  case $1 in
    */steersman:garbage-collector-caches/* | */steersman:garbage-collector-token/*) printf 'deploy::roles::garbage_collector\n' ;;
    */steersman:*-caches/* | */steersman:*-token/*) sed 's|.*steersman:\(.*\)-[a-z]*/.*|deploy::roles::\1_controller|' <<<"$1" ;;
    */steersman:access/* | */steersman:lease/*) printf 'deploy::roles::access\n' ;;
    */steersman:webhook/*) printf 'deploy::roles::webhooks\n' ;;
    */steersman:yielding/*) printf 'deploy::roles::yielding\n' ;;
    *) printf 'deploy::standalone\n' ;;
  esac
}

for rule in $selected; do
  found=$(failed "$deploy" "$(likely "$rule")")
  [ -n "$found" ] || found=$(failed "$deploy" deploy::)
  [ -n "$found" ] || found=$(failed "$controllers")
  printf '%s: %s\n' "$rule" "$(head -1 <<<"${found:-NO TEST FAILS}")"
done
