#!/usr/bin/env bash
# tests/exports.sh BUILD-DIR: the functions that the headers declare, the rows of src/exports.map, and the symbols that libberth.so and
# libberth.a have are the same. Prints each difference.
set -euo pipefail
export LC_ALL=C
repo=$(cd "$(dirname "$0")/.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The name of a function stands before the first parenthesis that follows a name of ours.
echo '#include <berth.h>' | ${CC:-cc} -std=c17 -E -P -I"$repo/include" - | tr '\n' ' ' |
    sed 's/__attribute__((visibility("default")))/\n&/g' |
    awk 'NR > 1 && match($0, /[ *]bti?_[a-z0-9_]+ ?\(/) { name = substr($0, RSTART + 1, RLENGTH - 2); sub(" ", "", name); print name }' |
    sort >"$work/declared"
# NAME@NODE
awk '/^[A-Z]/ { node = $1 } /^ *bti?_.*;/ { sub(";", ""); print $1 "@" node }' "$repo/src/exports.map" | sort >"$work/rows"
sed -n 's/@BERTH_[0-9.]*$//p' "$work/rows" | sort >"$work/public"
nm -D --defined-only --with-symbol-versions "$build/libberth.so" | awk '$2 != "A" { sub("@@", "@", $3); print $3 }' | sort >"$work/shared"
nm -g --defined-only "$build/libberth.a" | awk 'NF == 3 && $3 !~ /^__odr_asan/ { print $3 }' | sort >"$work/static"
sed 's/@.*//' "$work/rows" | sort >"$work/names"

failed=0
[ -s "$work/declared" ] && [ -s "$work/shared" ] && [ -s "$work/static" ] || { echo "exports: no symbols found"; exit 1; }
# differences TEXT FILE OTHER: lines of FILE that OTHER lacks
differences() {
    local lines
    lines=$(comm -23 "$2" "$3")
    [ -n "$lines" ] || return 0
    failed=1
    sed "s|^|exports: $1: |" <<<"$lines"
}
[ -z "$(uniq -d "$work/names")" ] || { failed=1; echo "exports: twice in src/exports.map:" $(uniq -d "$work/names"); }
differences "declared in include/, without a row in src/exports.map" "$work/declared" "$work/public"
differences "a row in src/exports.map, not declared in include/" "$work/public" "$work/declared"
differences "a row in src/exports.map, not exported by libberth.so" "$work/rows" "$work/shared"
differences "exported by libberth.so, without a row in src/exports.map" "$work/shared" "$work/rows"
differences "a row in src/exports.map, not in libberth.a" "$work/names" "$work/static"
differences "a global symbol of libberth.a, without a row in src/exports.map" "$work/static" "$work/names"
echo "exports: $(wc -l <"$work/declared") functions declared, $(wc -l <"$work/shared") symbols exported"
exit $failed
