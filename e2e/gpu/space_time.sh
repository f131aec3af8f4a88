#!/bin/sh
# Measures an inference job with an SLO beside one training job on a GPU, under each way to share it, in under 8 minutes.
# usage: space_time.sh rnnlm|vgg16|resnet50|gpt2 [OUTPUT]     OUTPUT: a folder (default: e2e/gpu/results/space-time)
# Changes no setting of the GPU. With nvidia-cuda-mps-control a daemon of our own is started, and ended with the stage.
# PYTHON: one with torch (default: python3). SPACE_TIME: more arguments, as --quick.
# Tables: python -m cotenant_e2e space-time --from OUTPUT/rnnlm.json, where the package is installed.
set -eu
cd "$(dirname "$0")/../.."
training=${1:?usage: space_time.sh rnnlm|vgg16|resnet50|gpt2 [OUTPUT]}
output=${2:-e2e/gpu/results/space-time}
python=${PYTHON:-python3}
# predictor holds the code that starts an MPS daemon; nothing of it is measured
PYTHONPATH=$PWD/e2e:$PWD/runtime:$PWD/predictor:$PWD/api${PYTHONPATH:+:$PYTHONPATH}
PYTHONUNBUFFERED=1
export PYTHONPATH PYTHONUNBUFFERED
gpu=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -n 1)
if ! command -v nvidia-cuda-mps-control >/dev/null; then
    echo "space_time.sh: no nvidia-cuda-mps-control: thread percentages are left out" >&2
    gpu=
fi
# shellcheck disable=SC2086  # several arguments, or none
exec timeout --kill-after=15 475 "$python" -m cotenant_e2e.space_time --device cuda --python "$python" \
    --training "$training" --cell-seconds 12 ${gpu:+--mps "$gpu"} --output "$output/$training.json" ${SPACE_TIME:-}
