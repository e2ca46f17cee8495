#!/usr/bin/env bash
# bench/gpu.sh where there is no GPU: every part that wants one is skipped, which is told, and the exit code is 77.
#   tests/gpu_script.sh BUILD
set -uo pipefail
[ $# -eq 1 ] || { sed -n 3p "$0"; exit 2; }
if [ -e /dev/nvidiactl ]; then echo "skipped: there may be a GPU"; exit 77; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rc=0
bash "$(dirname "${BASH_SOURCE[0]}")/../bench/gpu.sh" --build "$1" "$work" || rc=$?
[ $rc -eq 77 ] || { echo "exit code $rc, not 77"; exit 1; }
for part in conformance golden tests examples contexts sanitizer first bench peers; do
    grep -q "^| $part | skipped | [0-9]* | no device cuda" "$work/table.md" || { echo "$part is not told to be skipped"; exit 1; }
    grep -q "\"part\": \"$part\", \"result\": \"skipped\"" "$work/figures.json" || { echo "no figure of $part"; exit 1; }
done
grep -q '^| build | passed |' "$work/table.md" && [ -s "$work/log.txt" ] || exit 1

# Resumed: what has passed stays, the rest is done again.
echo passed >"$work/parts/first.result"
echo "of an earlier call" >"$work/parts/first.log"
bash "$(dirname "${BASH_SOURCE[0]}")/../bench/gpu.sh" --resume --build "$1" "$work" || [ $? -eq 77 ] || exit 1
grep -q '^| first | passed | [0-9]* | of an earlier call' "$work/table.md" || { echo "what had passed is lost"; exit 1; }
grep -q '^| bench | skipped | [0-9]* | no device cuda' "$work/table.md"
