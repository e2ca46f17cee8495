#!/usr/bin/env bash
# Runs an example that is written for simulated GPUs on as many devices of OpenCL's: PoCL's for the CPU, counted as GPUs.
#   tests/opencl_example.sh BERTH EXE X.expected
# Exits with 77 where there is no PoCL.
set -euo pipefail
[ $# -eq 3 ] || { sed -n 2,4p "$0"; exit 2; }
berth=$1 exe=$2 stem=${3%.expected}
count=$(sed -n 's/.*devices=sim:gpu\(\*\([0-9]*\)\)\{0,1\}.*/\2/p' "$stem.env")
printf -v POCL_DEVICES 'pthread %.0s' $(seq "${count:-1}")
export POCL_DEVICES BERTH_TEST_FLAGS=devices=,opencl_cpu=gpu
line=$(BERTH_FLAGS=opencl_cpu=gpu "$berth" doctor | sed -n 's/^ *GPU:0: \(.*\) (driver \(opencl .*\))$/\1|\2/p' | head -n 1)
[ -n "$line" ] || { echo "skipped: no device of OpenCL's (package pocl-opencl-icd)"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for part in "$stem".{env,args,status}; do
    [ ! -f "$part" ] || cp "$part" "$work/"
done
sed -e "s|Simulated GPU|${line%%|*}|" -e "s|driver sim 1|driver ${line#*|}|" "$3" >"$work/$(basename "$3")"
bash "$(dirname "$0")/run_example.sh" "$exe" "$work/$(basename "$3")"
