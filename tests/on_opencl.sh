#!/usr/bin/env bash
# Runs a command with OpenCL's device for the CPU as GPU:0, the default device; exits with 77 where there is none.
#   tests/on_opencl.sh BERTH COMMAND...
set -euo pipefail
export BERTH_FLAGS=opencl_cpu=gpu
"$1" devices | grep -q 'GPU:0.* opencl ' || { echo "skipped: no device of OpenCL's (package pocl-opencl-icd)"; exit 77; }
exec "${@:2}"
