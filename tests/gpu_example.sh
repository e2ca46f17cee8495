#!/usr/bin/env bash
# Runs an example that is written for simulated GPUs on as many of another kind: PoCL's devices, which are the CPU, counted as
# GPUs (opencl), or emulated GPUs of NVIDIA's (cuda-emulated).
#   tests/gpu_example.sh opencl|cuda-emulated BUILD EXE X.expected
# Exits with 77 where there are none.
set -euo pipefail
[ $# -eq 4 ] || { sed -n 2,5p "$0"; exit 2; }
kind=$1 build=$2 exe=$3 stem=${4%.expected}
count=$(sed -n 's/.*devices=sim:gpu\(\*\([0-9]*\)\)\{0,1\}.*/\2/p' "$stem.env")
count=${count:-1}
if [ "$kind" = opencl ]; then
    printf -v POCL_DEVICES 'pthread %.0s' $(seq "$count")
    export POCL_DEVICES BERTH_TEST_FLAGS=devices=,opencl_cpu=gpu
    on=(env BERTH_FLAGS=opencl_cpu=gpu)
else
    export BERTH_TEST_FLAGS=devices=
    on=("$build/tests/emulated" --gpus "$count")
fi
line=$("${on[@]}" "$build/berth" doctor | sed -n 's/^ *GPU:0: \(.*\) (driver \(.*\))$/\1|\2/p' | head -n 1)
[ -n "$line" ] || { echo "skipped: no device of $kind"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for part in "$stem".{env,args,status}; do
    [ ! -f "$part" ] || cp "$part" "$work/"
done
sed -e "s|Simulated GPU|${line%%|*}|" -e "s|driver sim 1|driver ${line#*|}|" "$4" >"$work/$(basename "$4")"
"${on[@]}" bash "$(dirname "$0")/run_example.sh" "$exe" "$work/$(basename "$4")"
