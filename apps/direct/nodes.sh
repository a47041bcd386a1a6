#!/bin/sh
# Starts a program of several nodes on this machine:
#     nodes.sh NODES PROGRAM [ARGUMENT ...]
# runs PROGRAM -n NODES -i K -m FOLDER ARGUMENT ... for each K, in a new folder,
# and ends with 0 if all of them do. What one of them says, all say.
set -eu
[ $# -ge 2 ] || { echo "usage: nodes.sh NODES PROGRAM [ARGUMENT ...]" >&2; exit 2; }
nodes=$1 program=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pids=
node=0
while [ "$node" -lt "$nodes" ]; do
    "$program" -n "$nodes" -i "$node" -m "$folder" "$@" &
    pids="$pids $!"
    node=$((node + 1))
done
code=0
for pid in $pids; do
    wait "$pid" || code=1
done
exit "$code"
