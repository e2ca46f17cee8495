#!/usr/bin/env bash
# Runs an example and compares what it prints (stdout and stderr, merged, line by line) with the expected text.
#   tests/run_example.sh EXE X.expected
# Beside X.expected may stand, with @DIR@ replaced by their folder (a comment begins with #):
#   X.env     one assignment a line, NAME=value, nothing quoted
#   X.args    one argument a line
#   X.status  the expected exit status (0 without it)
# A line `~ RE` of the expected text is an extended regular expression for a whole line; other lines are literal.
# The flags of BERTH_TEST_FLAGS are set as well. The example runs in an empty folder, which is removed afterwards.
set -uo pipefail
export LC_ALL=C.UTF-8
[ $# -eq 2 ] || { sed -n 2,9p "$0"; exit 2; }
exe=$(realpath "$1") expected=$(realpath "$2")
stem=${expected%.expected}
dir=$(dirname "$expected")

# lines FILE: its lines without comments and empty ones, into the array `read_lines`
lines() {
    read_lines=()
    [ -f "$1" ] || return 0
    local line
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in '' | '#'*) ;; *) read_lines+=("${line//@DIR@/"$dir"}") ;; esac
    done <"$1"
}
lines "$stem.env"; env=("${read_lines[@]}")
tested=log_waits=off${BERTH_TEST_FLAGS:+,$BERTH_TEST_FLAGS} # a wait is logged after a second, which a busy machine may take
flags=$tested
for setting in "${env[@]}"; do # after those of X.env
    case $setting in BERTH_FLAGS=?*) flags=${setting#BERTH_FLAGS=},$tested ;; esac
done
env+=("BERTH_FLAGS=$flags")
lines "$stem.args"; args=("${read_lines[@]}")
status=0
[ ! -f "$stem.status" ] || read -r status <"$stem.status"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/run"
(cd "$work/run" && exec env "${env[@]}" stdbuf -oL "$exe" "${args[@]}") >"$work/out" 2>&1 </dev/null
got_status=$?
[ "$got_status" -ne 77 ] || [ "$status" -eq 77 ] || { cat "$work/out"; exit 77; }

mapfile -t got <"$work/out"
mapfile -t want <"$expected"
failed=0
for ((i = 0; i < ${#got[@]} || i < ${#want[@]}; i++)); do
    if ((i >= ${#want[@]})); then
        echo "line $((i + 1)): not expected: ${got[i]}"
    elif ((i >= ${#got[@]})); then
        echo "line $((i + 1)): missing: ${want[i]}"
    elif [[ ${want[i]} == '~ '* ]]; then
        pattern="^(${want[i]#'~ '})\$"
        [[ ${got[i]} =~ $pattern ]] && continue
        printf 'line %d:\n  expected to match: %s\n  got:               %s\n' $((i + 1)) "${want[i]#'~ '}" "${got[i]}"
    else
        [ "${got[i]}" != "${want[i]}" ] || continue
        printf 'line %d:\n  expected: %s\n  got:      %s\n' $((i + 1)) "${want[i]}" "${got[i]}"
    fi
    failed=1
    break
done
if [ "$got_status" -ne "$status" ]; then
    echo "exit status $got_status, expected $status"
    failed=1
fi
[ "$failed" -eq 0 ] || { echo "--- all that $(basename "$exe") printed:"; cat "$work/out"; }
exit "$failed"
