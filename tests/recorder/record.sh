#!/usr/bin/env bash
# Records the programs that the conformance suite and the examples ask devices for: tests/recorder/record.sh FOLDER OUTPUT CONFORMANCE EXAMPLES...
# FOLDER contains the recording libberth; EXAMPLES are pairs of a program and its expected text.
set -euo pipefail
export LD_LIBRARY_PATH=$1 BERTH_RECORDED=$2
conformance=$3
shift 3
rm -f "$BERTH_RECORDED"
BERTH_TEST_DEVICES=cpu "$conformance" >/dev/null
while [ $# -gt 1 ]; do
    bash "$(dirname "${BASH_SOURCE[0]}")/../run_example.sh" "$1" "$2" >/dev/null || [ $? -eq 77 ] || { echo "failed: $1"; exit 1; }
    shift 2
done
[ -s "$BERTH_RECORDED" ]
