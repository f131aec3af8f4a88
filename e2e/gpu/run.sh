#!/bin/sh
# Measures what is left of a campaign, in less than 8 minutes; call it again to go on. Changes no setting of the GPU.
# usage: run.sh SET [STAGES [OUTPUT]]     SET: behaviour, horus81, kace21, smoke, ten     STAGES: alone,pairs,.. (default: all)
# Earlier results are read from, and all are written to, OUTPUT/campaign-N.tar.gz (default: e2e/gpu/results/SET).
# KEPT: one more folder with results to go on from, as on a fresh machine (default: none).
# PYTHON: one with torch, numpy and nvidia-ml-py (default: python3). PROFILE: more arguments of `cotenant profile run`.
set -eu
cd "$(dirname "$0")/../.."
set_name=${1:?usage: run.sh SET [STAGES [OUTPUT]]}
stages=${2:-all}
output=${3:-e2e/gpu/results/$set_name}
python=${PYTHON:-python3}
# predictor is all that measuring needs; the other two hold the node agent's code, which one stage tries out
PYTHONPATH=$PWD/predictor:$PWD/deviceplugin:$PWD/api${PYTHONPATH:+:$PYTHONPATH}
PYTHONUNBUFFERED=1
export PYTHONPATH PYTHONUNBUFFERED
campaign=$(mktemp -d)

pack() {
    "$python" -m cotenant_predictor.profiling pack "$campaign" "$output"
    rm -rf "$campaign"
}
trap pack EXIT
trap 'kill "$measuring" && wait "$measuring"; exit 143' TERM INT

earlier=$(find "$output" "${KEPT:-$output}" -name 'campaign-*.tar.gz' 2>/dev/null || true)
# shellcheck disable=SC2086  # several archives, several arguments
timeout --kill-after=10 465 "$python" -m cotenant_predictor.profiling run --set "$set_name" --stages "$stages" \
    --output "$campaign" --input $earlier --budget-seconds 450 --product e2e/gpu/product.py ${PROFILE:-} &
measuring=$!
wait "$measuring"
