#!/usr/bin/env bash
# Compiles each ```c block of README.md, docs/tasks.md and the tutorials whose next block is ```text, runs it, and compares what it prints with that text (by
# tests/run_example.sh: a line `~ RE` is a pattern).   tests/readme_examples.sh [BUILD-DIR [REPO-DIR]]
# A block without main is the body of one, inside of a BT_SCOPE. Before a ```c block may stand, each on a line of its own,
#   <!-- env: NAME=value -->      in the environment of the program, such as BERTH_FLAGS=devices=sim:gpu*4
set -euo pipefail
repo=$(cd "${2:-$(dirname "$0")/..}" && pwd)
build=$(cd "${1:-$repo/build/release}" && pwd) || { echo "readme: no build; ./go build makes one" >&2; exit 1; }
pages=(README.md docs/tasks.md docs/tutorials/*.md)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# WORK/PAGE:LINE.c, .expected and .env for each pair; LINE is where the ```c stands.
for page in "${pages[@]}"; do awk -v work="$work/${page##*/}:" '
    /^```/ && inside == "" {
        inside = substr($0, 4)
        sub(/[ \t].*/, "", inside)
        if (inside == "") inside = "plain"
        if (inside == "c") { pending = NR; code = "" }
        else if (inside == "text" && pending) {
            stem = work pending
            printf "%s", code > (stem ".c"); close(stem ".c")
            printf "%s", env > (stem ".env"); close(stem ".env")
            printf "" > (stem ".expected")
        }
        else pending = 0
        next
    }
    /^```/ {
        if (inside == "text" && pending) { close(stem ".expected"); pending = 0 }
        if (inside != "c") env = ""
        inside = ""
        next
    }
    inside == "c" { code = code $0 "\n" }
    inside == "text" && pending { print > (stem ".expected") }
    inside == "" && match($0, /^<!-- env: .* -->$/) {
        if (pending) { pending = 0; env = "" }
        env = env substr($0, 11, length($0) - 14) "\n"
    }
    END { if (inside != "") { print "readme: a block is not closed" > "/dev/stderr"; exit 1 } }
' "$repo/$page"; done

passed=0 failed=0
shopt -s nullglob
for source in $(printf '%s\n' "$work"/*.c | sort -V); do
    line=$(basename "$source" .c)
    stem=$work/$line
    if ! grep -qE '\bmain *\(' "$source"; then
        { printf '#include <berth.h>\n\nint main(void) {\n    BT_SCOPE {\n'; cat "$source"; printf '    }\n    return 0;\n}\n'; } >"$stem.full.c"
        mv "$stem.full.c" "$source"
    fi
    mv "$source" "$work/main.c" # as the README calls it
    if ${CC:-cc} -std=c17 -Wall -Wextra -Werror -O1 -I"$repo/include" "$work/main.c" -o "$stem" -L"$build" -Wl,-rpath,"$build" \
        -lberth -lm -lpthread >"$stem.log" 2>&1 && bash "$repo/tests/run_example.sh" "$stem" "$stem.expected" >>"$stem.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "readme: FAILED: the example at $line"
        sed 's/^/    /' "$stem.log"
    fi
done
echo "readme: $passed passed, $failed failed"
[ $failed -eq 0 ] && [ $((passed + failed)) -gt 0 ]
