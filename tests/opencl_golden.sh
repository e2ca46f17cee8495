#!/usr/bin/env bash
# Compares two devices of OpenCL, PoCL's for the CPU, with reference files: the second alone, and training over both.
#   tests/opencl_golden.sh BERTH GOLDEN FILE...
# One operation in 400 without BERTH_TEST_LONG: a kernel takes a second to compile. Exits with 77 where there is no PoCL.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 2,4p "$0"; exit 2; }
berth=$1 golden=$2
shift 2
export POCL_DEVICES="pthread pthread" BERTH_FLAGS=opencl_cpu=gpu
count=$("$berth" devices | grep -c '^. *GPU:[01] .* opencl ') || true
[ "$count" -eq 2 ] || { echo "skipped: no two devices of OpenCL's (package pocl-opencl-icd)"; exit 77; }

every=--every=400
[ -z "${BERTH_TEST_LONG:-}" ] || every=--every=1
BERTH_FLAGS=$BERTH_FLAGS,default_device=gpu:1 "$golden" --mirrored $every "$@"
