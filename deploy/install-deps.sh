#!/bin/sh
# Installs what mltune needs on Debian 12; says nothing when nothing is missing.
#
#   deploy/install-deps.sh          to build and run
#   deploy/install-deps.sh --test   besides, what tests, lint and fuzzing use
#
# Idempotent. Needs root or sudo only when something is missing.
set -eu

build="gcc g++ make pkg-config libc6-dev libmicrohttpd-dev libgnutls28-dev libjansson-dev
    libzmq3-dev libsqlite3-dev zlib1g-dev liblzma-dev libgsl-dev libnlopt-dev
    libopenblas-serial-dev debhelper"
test="libcmocka-dev clang clang-format clang-tidy libclang-rt-14-dev python3
    python3-numpy python3-zmq python3-optuna python3-torch python3-sklearn
    python3-xgboost python3-cloudpickle python3-nbclient python3-ipykernel python3-skorch
    python3-pip systemd git procps iproute2 openssh-client openssh-server
    slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge openmpi-bin curl nodejs chromium prometheus
    lintian mmdebstrap buildah zsh fish groff man-db"

wanted=$build
[ "${1:-}" = --test ] && wanted="$build $test"

missing=
# Node.js of other sources brings its npm along; Debian's is a package of its own.
if [ "${1:-}" = --test ] && ! command -v npm >/dev/null 2>&1; then
    wanted="$wanted npm"
fi

for p in $wanted; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null |
        grep -q 'install ok installed' || missing="$missing $p"
done

# Playwright, with which the tests look at the page, runs on Node.js 20 and later;
# Debian 12 has 18. There the npm registry's goes beside the tests, for them alone.
own=$(dirname "$0")/../tests/node
is_new() {
    major=$("$1" --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')
    [ "${major:-0}" -ge 20 ]
}
check_node() {
    is_new node && return
    is_new "$own/node_modules/.bin/node" && return
    echo "installing: Node.js for tests (the machine's is $(node --version 2>/dev/null || echo none))" >&2
    npm ci --prefix "$own" --ignore-scripts --loglevel=error >&2 || :
    # Debian's npm makes no link of a package that is optional.
    for built in "$own"/node_modules/node-linux-*/bin/node; do
        [ ! -x "$built" ] || ln -sf "../${built#"$own"/node_modules/}" "$own/node_modules/.bin/node"
    done
    is_new "$own/node_modules/.bin/node" && return
    echo "tests of the page need Node.js 20 or later, and the npm registry gave none:" >&2
    echo "install it from nodesource.com or nodejs.org, and try again (make demo needs none)" >&2
    exit 1
}

if [ -z "$missing" ]; then
    [ "${1:-}" != --test ] || check_node
    exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing packages:$missing" >&2
    echo "this script knows Debian's apt-get only; install them by hand" >&2
    exit 1
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "missing packages:$missing" >&2
        echo "run as root: apt-get install$missing" >&2
        exit 1
    fi
    as_root=sudo
fi

echo "installing:$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the lists are words on purpose
if ! { $as_root apt-get -qq update &&
    $as_root apt-get -qq install -y --no-install-recommends $missing; } \
    >"$log" 2>&1; then
    cat "$log" >&2
    echo "installing failed; the packages are:$missing" >&2
    exit 1
fi
[ "${1:-}" != --test ] || check_node
