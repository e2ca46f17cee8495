#!/usr/bin/env bash
# orders.sh SEED... -- COMMAND...: the command with each seed of the emulated GPUs (BERTH_FAKE_SEED), which draws the order of streams.
set -euo pipefail
seeds=()
while [ "$1" != -- ]; do seeds+=("$1"); shift; done
shift
for seed in "${seeds[@]}"; do
    BERTH_FAKE_SEED=$seed "$@" || { rc=$?; echo "BERTH_FAKE_SEED=$seed: exit code $rc"; exit "$rc"; }
done
