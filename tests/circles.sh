#!/usr/bin/env bash
# Checks that the files of src/ form no circle. A unit is x.c with x.h; it depends on the units whose headers it includes and
# on those that define what its object uses. Prints each circle with its edges and exits with 1 if there is one.  tests/circles.sh [BUILD]
#
# BUILD: a build folder (build/release) with the library and the command.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}

# An object that is older than its source tells of calls that are no more.
find "$build/CMakeFiles" -path '*.dir/src/*' -name '*.c.o' 2>/dev/null | while IFS= read -r object; do
    source=${object#*.dir/} source=${source%.o}
    [ ! "$source" -nt "$object" ] || { echo "circles: $object is older than its source: build first"; exit 1; }
done

# "use UNIT SYMBOL" and "define UNIT SYMBOL" for each object whose source still exists, then "include UNIT UNIT" for each #include.
{
    if [ -d "$build/CMakeFiles" ]; then
        find "$build/CMakeFiles" -path '*/src/*' -name '*.c.o' ! -name '*_test.c.o' -exec nm -A -P {} + | awk '
            { unit = $1; sub(/^.*\.dir\//, "", unit); sub(/\.o:?$/, "", unit) }
            !(unit in exists) { exists[unit] = (getline line < unit) >= 0; close(unit) }
            exists[unit] { sub(/\.c$/, "", unit); print ($3 == "U" ? "use" : "define"), unit, $2, $3 }'
    fi
    find src -type f \( -name '*.c' -o -name '*.h' \) ! -name '*_test.*' | LC_ALL=C sort | while IFS= read -r file; do
        sed -n "s|^[ \t]*#[ \t]*include[ \t]*\"\([^\"]*\)\.h\".*|include ${file%.[ch]} src/\1|p" "$file"
    done
} | awk '
function add_edge(from, to, why) {
    if (from == to) return
    if (!((from, to) in reason)) { next_of[from, ++degree[from]] = to; reason[from, to] = why }
    else if (split(reason[from, to], words, " ") < 4) reason[from, to] = reason[from, to] " " why
}
# Tarjan: the strongly connected components of the graph; the locals of a function in awk are its extra parameters.
function visit(unit,    i, to, count, member) {
    index_of[unit] = low[unit] = ++visited
    stack[++depth] = unit; on_stack[unit] = 1
    for (i = 1; i <= degree[unit]; i++) {
        to = next_of[unit, i]
        if (!(to in index_of)) { visit(to); if (low[to] < low[unit]) low[unit] = low[to] }
        else if (on_stack[to] && index_of[to] < low[unit]) low[unit] = index_of[to]
    }
    if (low[unit] != index_of[unit]) return
    do { to = stack[depth--]; on_stack[to] = 0; member[++count] = to; component[to] = unit } while (to != unit)
    if (count > 1) report(unit, count, member)
}
# The folders of src/LAYERS and the symbols of src/exports.map.
function read_layers(    line, field, count, i, level, public) {
    while ((getline line < "src/LAYERS") > 0) {
        if (line ~ /^#/ || line ~ /^ *$/) continue
        count = split(line, field, " ")
        i = 1
        if (field[1] == "=") i = 2; else level++
        rank[field[i]] = level
        if (field[i + 1] == "public") public = 1
        is_public[field[i]] = public
        for (count = i + 1; field[count] ~ /^(public$|\+)/; count++) also[field[i], substr(field[count], 2)]
    }
    while ((getline line < "src/exports.map") > 0) if (line ~ /^ +bti?_[a-z_0-9]+;/) { gsub(/[ ;]/, "", line); exported[line] }
    if (!level) { print "src/LAYERS: missing or empty"; exit 2 }
}
function folder_of(unit) { sub(/^src\//, "", unit); sub(/\/.*/, "", unit); return unit }
function check_use(unit, symbol,    own, other) {
    own = folder_of(unit); other = folder_of(owner[symbol])
    if (own == other) return
    if (rank[other] == rank[own]) { printf "%s uses %s of %s: both stand on one level\n", unit, symbol, owner[symbol]; upward++ }
    else if (rank[other] > rank[own]) { printf "%s uses %s of %s: %s stands above\n", unit, symbol, owner[symbol], other; upward++ }
    else if (is_public[own] && !is_public[other] && other != "base" && !((own, other) in also) && !(symbol in exported)) {
        printf "%s uses %s of %s, which is not public\n", unit, symbol, owner[symbol]; upward++
    }
}
function report(name, count, member,    i, k, to) {
    circles++
    printf "a circle of %d files:\n", count
    for (i = 1; i <= count; i++)
        for (k = 1; k <= degree[member[i]]; k++) {
            to = next_of[member[i], k]
            if (component[to] == name) printf "  %s -> %s (%s)\n", member[i], to, reason[member[i], to]
        }
}
$1 == "define" && $4 ~ /^[TDBRVC]$/ { owner[$3] = $2; unit[$2] }
$1 == "use" { used[++uses] = $3; user[uses] = $2; unit[$2] }
$1 == "include" { unit[$2]; included[++includes] = $3; includer[includes] = $2 }
END {
    for (i = 1; i <= includes; i++) if (included[i] in unit) add_edge(includer[i], included[i], "#include")
    read_layers()
    for (i = 1; i <= uses; i++) if (used[i] in owner) { add_edge(user[i], owner[used[i]], used[i]); check_use(user[i], used[i]) }
    for (name in unit) { total++; if (!(name in index_of)) visit(name) }
    if (!uses) { print "circles: no objects in the build folder"; exit 2 }
    printf "circles: %d files, %d calls, %d circles, %d calls upward\n", total, uses, circles, upward
    exit circles + upward > 0
}'
