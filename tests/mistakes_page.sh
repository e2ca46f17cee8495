#!/usr/bin/env bash
# docs/likely-mistakes.md shows what the programs of tests/mistakes do and what berth says of it. A line `<!-- TEXT: SECTION -->` names a section of
# TEXT.expected; of the blocks behind it the ```text is that section, line by line, and each line of the ```c stands in the program, in that order,
# whatever its indentation. Each section of each text is on the page, but those that say no more than "no error".
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
page=$root/docs/likely-mistakes.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "mistakes: $*" >&2; failed=1; }

# section TEXT NAME: its lines
section() { awk -v name="--- $2" '/^--- / { on = $0 == name; next } on' "$root/tests/mistakes/$1.expected"; }

# WORK/TEXT@SECTION.c and .text
awk -v work="$work/" '
    match($0, /^<!-- [a-z_.]+: [a-z_]+ -->$/) { split($0, part, /[ :]+/); stem = work part[2] "@" part[3]; next }
    /^```(c|text)$/ && stem != "" { kind = substr($0, 4); printf "" > (stem "." kind); next }
    /^```$/ { if (kind != "") close(stem "." kind); kind = ""; next }
    kind != "" { print > (stem "." kind) }
' "$page"

shopt -s nullglob
for text in "$root"/tests/mistakes/*.expected; do
    name=$(basename "$text" .expected)
    while read -r head; do
        shown=$work/$name@$head
        if [ "$(section "$name" "$head" | sort -u)" = "no error" ]; then continue; fi
        if [ ! -f "$shown.text" ]; then
            complain "the page has no text for $name: $head"
        elif ! diff <(section "$name" "$head") "$shown.text" >&2; then
            complain "the page says something else than $name.expected: $head"
        fi
    done < <(sed -n 's/^--- //p' "$text")
done
for shown in "$work"/*.text; do
    name=$(basename "$shown" .text)
    section "${name%@*}" "${name#*@}" | grep -q . || complain "there is no section ${name#*@} in ${name%@*}.expected"
done
for code in "$work"/*.c; do
    name=$(basename "$code" .c)
    program=${name%@*}
    awk '
        { line = $0; sub(/^ +/, "", line); sub(/ +$/, "", line) }
        NR == FNR { if (line != "") want[++count] = line; next }
        next_one < count && line == want[next_one + 1] { next_one++ }
        END { if (next_one < count) { print "not in the program, or not in this order: " want[next_one + 1]; exit 1 } }
    ' "$code" "$root/tests/mistakes/${program%%.*}.c" >&2 || complain "the page shows other code than ${program%%.*}.c: ${name#*@}"
done
echo "mistakes: $(ls "$work"/*.text | wc -l) texts"
exit $failed
