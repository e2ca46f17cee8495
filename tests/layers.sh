#!/usr/bin/env bash
# Checks that every #include in src/ points to its own folder or down, by the order in src/LAYERS.
# Prints each violation as file:line and exits with 1 if there is one.  tests/layers.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

find src -mindepth 1 -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' \) | LC_ALL=C sort | awk '
function complain(text) { printf "%s:%d: %s\n", file, line_number, text; violations++ }
function folder_of(path) { sub(/\/.*/, "", path); return path }
function exists(path,    one, found) { found = (getline one < path) >= 0; close(path); return found }

function read_layers(    line, field, count, i, name, public) {
    while ((getline line < "src/LAYERS") > 0) {
        if (line ~ /^#/ || line ~ /^ *$/) continue
        count = split(line, field, " ")
        i = 1
        if (field[1] == "=") i = 2; else level++
        name = field[i]
        rank[name] = level
        if (field[i + 1] == "public") { public = 1; i++ }
        is_public[name] = public
        for (; field[i + 1] ~ /^\+/; i++) also[name, substr(field[i + 1], 2)] = 1
    }
    if (!level) { print "src/LAYERS: missing or empty"; exit 2 }
}

function check(own, target, quoted,    other) {
    if (target ~ /(^|\/)\.\.?\//) { complain("\"" target "\" is not written from src/ on"); return }
    other = folder_of(target)
    if (target !~ /\// || other == "berth") return
    if ((other == "support" || other == "fakes") && file ~ /test(_support)?\.[ch]$/) return # of tests/
    if (!(other in rank)) {
        if (!quoted) return # a header of the system
        if (!exists(substr(file, 1, match(file, /\/[^\/]*$/)) target)) complain(own " includes \"" target "\": " other " is not in src/LAYERS")
        return
    }
    if (other == own) return
    if (rank[other] == rank[own]) complain(own " includes \"" target "\": both stand on one level")
    else if (rank[other] > rank[own]) complain(own " includes \"" target "\": " other " stands above")
    else if (is_public[own] && !is_public[other] && other != "base" && !((own, other) in also))
        complain(own " includes \"" target "\": from here up, other folders are reached through <berth.h>")
}

BEGIN { read_layers() }
{
    file = $0; line_number = 0; files++
    own = folder_of(substr(file, 5))
    if (file !~ /^src\/.*\//) { complain("stands in no folder of src/LAYERS"); next }
    if (!(own in rank)) { complain("the folder " own " is not in src/LAYERS"); next }
    while ((getline line < file) > 0) {
        line_number++
        if (line !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) continue
        quoted = line ~ /^[ \t]*#[ \t]*include[ \t]*"/
        sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", line)
        sub(/[">].*/, "", line)
        check(own, line, quoted)
    }
    close(file)
}
END {
    printf "layers: %d files, %d violations\n", files, violations
    exit violations > 0
}'
