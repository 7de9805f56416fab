#!/bin/sh
# Provides kube-apiserver, kube-controller-manager and etcd on a Debian machine, and prints the directory for
# KUBEBUILDER_ASSETS to stdout. It builds the servers from the source package of Debian, once per machine, into a cache outside
# the work tree, and installs etcd and the Go tool chain with apt-get. If this is not possible, it prints the reason in one line
# and exits with 3.
#
#   KUBEBUILDER_ASSETS=$(tests/real-apiserver.sh) cargo test -p steersman-tests
set -eu

VERSION=1.20.2
REVISION=2    # of this script: a new revision builds again
REFLECT=/usr/share/gocode/src/github.com/modern-go/reflect2
NEED_MIB=3000 # for the source, the compiler cache and the binaries

say() { echo "real-apiserver: $*" >&2; }
give_up() {
    say "no real API server: $*"
    exit 3
}

if [ -x "${KUBEBUILDER_ASSETS:-}/kube-apiserver" ]; then
    echo "$KUBEBUILDER_ASSETS"
    exit 0
fi

home=${STEERSMAN_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/steersman}
mkdir -p "$home" 2>/dev/null || give_up "cannot create the cache directory $home"
home=$(cd "$home" && pwd) # the build changes directory
assets=$home/kube-$VERSION-$REVISION
work=$assets.building
log=$assets.log

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Prints the missing packages.
missing_packages() {
    for pair in go:golang-go make:make rsync:rsync dpkg-source:dpkg-dev etcd:etcd-server; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || echo "${pair#*:}"
    done
    [ -d "$REFLECT" ] || echo golang-github-modern-go-reflect2-dev
}

install_packages() {
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    say "installing" $missing
    # The first attempt skips `update`, which is slow. Children must not inherit the lock (fd 9), because the etcd package may
    # start a daemon.
    for try in first second; do
        if as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >>"$log" 2>&1 9>&-; then
            return 0
        fi
        [ "$try" = second ] || as_root apt-get update >>"$log" 2>&1 9>&- || break
    done
    give_up "apt-get could not install" $missing "(needs root or sudo without a password; see $log)"
}

# Fetches the source package from the mirrors of the system. apt prints their addresses, so that both formats of its source
# files work.
fetch_source() {
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    option=
    [ ! -r $keyring ] || option="[signed-by=$keyring] "
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/source"
    apt-get update --print-uris 2>>"$log" |
        sed -n "s|^'\(.*\)/dists/\([^/]*\)/main/binary-.*|deb-src $option\1 \2 main|p" | sort -u >"$work/apt/sources.list"
    [ -s "$work/apt/sources.list" ] || give_up "the system's apt sources name no Debian mirror"
    cat >"$work/apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/apt/lists";
Dir::Cache "$work/apt/cache";
CONF
    export APT_CONFIG="$work/apt/apt.conf"
    say "fetching Debian's source package kubernetes"
    # A mirror without sources makes `update` fail. The next command fails if the package is missing.
    apt-get update >>"$log" 2>&1 || true
    (cd "$work/source" && apt-get source --only-source kubernetes >>"$log" 2>&1) ||
        give_up "apt-get could not fetch the source package kubernetes (see $log)"
    unset APT_CONFIG
    # A Debian version can contain an older one: 1.20.5+really1.20.2.
    found=$(cd "$work/source" && echo kubernetes-*/)
    found=${found%/}
    [ "${found##*[-y]}" = "$VERSION" ] || give_up "this release of Debian has $found, not $VERSION"
    mv "$work/source/$found" "$work/source/kubernetes"
}

build() {
    tree=$work/go/src/k8s.io/kubernetes
    mkdir -p "$work/go/src/k8s.io" "$work/tmp"
    mv "$work/source/kubernetes" "$tree"
    # The vendored reflect2 crashes the server on the first custom resource if it is built with Go 1.18 or later. The package
    # of Debian does not.
    rm -f "$tree"/vendor/github.com/modern-go/reflect2/*.go "$tree"/vendor/github.com/modern-go/reflect2/*.s
    cp "$REFLECT"/*.go "$REFLECT"/*.s "$tree/vendor/github.com/modern-go/reflect2/" || give_up "$REFLECT has no sources"
    say "building kube-apiserver and kube-controller-manager $VERSION (about 10 minutes; log: $log)"
    # Static binaries need no C compiler. The version is set, because the source has no git history.
    (
        cd "$tree"
        env -u GOFLAGS -u GOROOT GOPATH="$work/go" GOCACHE="$work/gocache" TMPDIR="$work/tmp" GO111MODULE=off CGO_ENABLED=0 \
            KUBE_GIT_VERSION="v$VERSION" KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20 \
            make WHAT="cmd/kube-apiserver cmd/kube-controller-manager" >>"$log" 2>&1
    ) || give_up "the build failed (see the end of $log)"
    mkdir "$work/bin"
    for server in kube-apiserver kube-controller-manager; do
        cp -L "$tree/_output/bin/$server" "$work/bin/" || give_up "the build left no $server (see $log)"
        [ "$("$work/bin/$server" --version)" = "Kubernetes v$VERSION" ] || give_up "the $server that was built does not say v$VERSION"
    done
}

if [ ! -x "$assets/kube-apiserver" ]; then
    command -v apt-get >/dev/null 2>&1 || give_up "this is not a Debian machine (no apt-get)"
    command -v flock >/dev/null 2>&1 || give_up "flock is not installed"
fi
exec 9>"$assets.lock" || give_up "cannot write to $home"
if ! flock -n 9; then
    say "waiting for a concurrent build"
    flock 9
fi
if [ ! -x "$assets/kube-apiserver" ]; then
    : >"$log"
    # The lock is held, so that existing files are from a killed run.
    rm -rf "$work"
    trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
    trap 'exit 130' HUP INT TERM
    free=$(df -Pm "$home" | awk 'NR == 2 { print $4 }')
    [ "$free" -ge "$NEED_MIB" ] || give_up "$home has $free MiB free, the build needs $NEED_MIB"
    install_packages
    fetch_source
    build
    rm -rf "$assets"
    mv "$work/bin" "$assets"
    say "built $assets"
fi
command -v etcd >/dev/null 2>&1 || [ -x "$assets/etcd" ] || install_packages
echo "$assets"
