#!/bin/sh
# The main job on generated data: train, tune, save, evaluate.
#   demo.sh PATH_OF_MLTUNE
set -eu
mltune=$1
here=$(cd "$(dirname "$0")/.." && pwd)
state=build/demo

rm -rf "$state"
mkdir -p "$state"
echo "\$ mltune run docs/examples/demo.json --state $state --out $state/model"
"$mltune" run "$here/docs/examples/demo.json" --state "$state" \
    --out "$state/model"
echo
echo "The model on digits that it has never seen:"
echo "\$ mltune eval $state/model 'gen:digits?samples=5000&size=28&seed=2'"
"$mltune" eval "$state/model" 'gen:digits?samples=5000&size=28&seed=2'
echo
echo "What the tuner did:"
echo "\$ mltune show demo --state $state"
"$mltune" show demo --state "$state"
echo
echo "The model is in $state/model (NumPy files and model.json)."
echo "Next: put your own data into docs/examples/mnist.json or movielens.json,"
echo "or read README.md for the five-minute tour."
