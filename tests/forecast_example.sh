#!/usr/bin/env bash
# Runs an example by `berth fit` and compares, for each device, the memory foreseen with the most that was in use: within 5 %,
# or 4 KiB.
#   tests/forecast_example.sh BERTH EXE X.expected
# X.env and X.args beside X.expected are those of run_example.sh.
set -uo pipefail
export LC_ALL=C.UTF-8
[ $# -eq 3 ] || { sed -n 2,5p "$0"; exit 2; }
berth=$(realpath "$1") exe=$(realpath "$2") expected=$(realpath "$3")
stem=${expected%.expected}
dir=$(dirname "$expected")

lines() {
    read_lines=()
    [ -f "$1" ] || return 0
    mapfile -t read_lines < <(sed -e '/^#/d' -e '/^$/d' -e "s|@DIR@|$dir|g" "$1")
}
lines "$stem.env"; env=("${read_lines[@]}")
lines "$stem.args"; args=("${read_lines[@]}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/run"
# Its own output goes elsewhere, so that what is left is the JSON.
(cd "$work/run" && exec env "${env[@]}" "$berth" fit --json -- \
    sh -c 'exec "$0" "$@" >../said 2>&1' "$exe" "${args[@]}") >"$work/json" 2>"$work/err" </dev/null
status=$?
[ "$status" -ne 77 ] || exit 77
if grep -q 'reported nothing' "$work/err"; then
    echo "berth fit got no report:"; cat "$work/said"
    exit 1
fi
awk -F'[:,]' '
    function off(a, b) { return a > b ? a - b : b - a }
    /"device":/ { device = $0 }
    /"predicted_bytes"/ { predicted = $2 + 0 }
    /"measured_bytes"/ { measured = $2 + 0; rows++
        if (off(predicted, measured) >= 4096 && off(predicted, measured) > measured * 0.05) wrong = 1
        printf "%s predicted %d measured %d\n", device, predicted, measured }
    /"devices"/ { whole = 1 }
    END { if (!whole) print "no JSON"; exit wrong || !whole }' "$work/json" || { cat "$work/json" "$work/err"; exit 1; }
