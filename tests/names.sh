#!/usr/bin/env bash
# Checks that a shared name has one meaning in src/: a name that begins with bti_ or BTI_ is defined once, as one kind of thing (a function, a
# type, an object, a constant, a macro). Statics count, since a reader's search finds them too. Prints each violation as
# file:line and exits with 1 if there is one.  tests/names.sh [ROOT]
#
# The sources are formatted by clang-format, so a definition begins at the first column. Within one file alternatives (#if) may define a name twice, and
# the texts of kernels (src/render/c) are one world: each target's text defines the same functions.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

rows=$(find src -name '*.def' -exec sed -n 's/^#[ \t]*undef[ \t]*\([A-Z_0-9]*\).*/\1/p; s/^\(BTI_[A-Z_0-9]*\)(.*/\1/p' {} + | sort -u)
find src -mindepth 1 -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' \) ! -name '*_test.c' | LC_ALL=C sort | awk '
function world(path) { return path ~ /^src\/render\/c\// ? "src/render/c" : path }
function define(name, kind,    place) {
    place = world(file)
    names++
    if (!(name in kind_of)) { kind_of[name] = kind; place_of[name] = place; at[name] = file ":" line_number; return }
    if (place_of[name] == place && kind_of[name] == kind) return
    printf "%s:%d: %s is a %s here and a %s in %s\n", file, line_number, name, kind, kind_of[name], at[name]
    violations++
}
function first_name(text, pattern) {
    if (!match(text, pattern)) return ""
    return substr(text, RSTART, RLENGTH)
}
# The name of the function that a line begins to define or declare: the one before the first parenthesis, attributes in capitals aside.
function function_name(text,    name) {
    gsub(/__attribute__\(\(.*\)\) /, "", text)
    gsub(/[A-Z_]+\([^()]*\) /, "", text)
    name = first_name(text, "[A-Za-z0-9_]+\\(")
    sub(/\($/, "", name)
    return name
}
function object_name(text,    name) {
    sub(/ *(=|\[|;).*/, "", text)
    name = first_name(text, "(bti|BTI)_[A-Za-z0-9_]+$")
    return name
}

# Macros of the rows of tables (.def) mean something else at each place that expands the table.
FNR == NR { row[$0]; next }
{
    file = $0; line_number = 0; files++; in_enum = 0; header = ""
    while ((getline line < file) > 0) {
        line_number++
        if (line ~ /^[ \t]*#[ \t]*define[ \t]+(bti|BTI)_/) {
            name = first_name(line, "(bti|BTI)_[A-Za-z0-9_]+")
            if (!(name in row)) define(name, "macro")
            continue
        }
        if (in_enum) {
            if (line ~ /^}/) { in_enum = 0; sub(/^} */, "", line); sub(/;.*/, "", line); if (line ~ /^bti_/ && line != tag) define(line, "type"); continue }
            text = line
            sub(/^[ \t]+/, "", text)
            if (text ~ /^BTI_[A-Za-z0-9_]+( =|,| *\/\*|$)/) define(first_name(text, "^BTI_[A-Za-z0-9_]+"), "constant")
            continue
        }
        if (line ~ /^(typedef )?(struct|union|enum)( bti_[A-Za-z0-9_]+)? \{/) {
            tag = first_name(line, "bti_[A-Za-z0-9_]+")
            if (tag != "") define(tag, "type")
            if (line ~ /enum/) {
                if (line !~ /}/) { in_enum = 1; continue }
            }
            if (line ~ /}/ && line ~ /} *bti_[A-Za-z0-9_]+;/) {
                name = first_name(line, "bti_[A-Za-z0-9_]+;"); sub(/;/, "", name)
                if (name != tag) define(name, "type")
            }
            continue
        }
        if (line ~ /^} bti_[A-Za-z0-9_]+;/) {
            name = first_name(line, "bti_[A-Za-z0-9_]+")
            if (name != tag) define(name, "type")
            continue
        }
        if (line ~ /^typedef .*;/) {
            if (line ~ /^typedef (struct|union|enum) (bti_[A-Za-z0-9_]+) bti_[A-Za-z0-9_]+;/) continue # a forward declaration of a type
            name = function_name(line)
            if (name !~ /^bti_/) name = object_name(line)
            if (name != "") define(name, "type")
            continue
        }
        if (line ~ /^[A-Za-z_]/ && line !~ /^(extern|typedef|return|else|case|default)/ && line ~ /(bti|BTI)_/) {
            # A definition of a function: its head ends with "{", perhaps lines further down; a declaration ends with ";".
            text = line; start = line_number
            if (function_name(line) != "" && line !~ /^[^(]*=/) {
                while (text !~ /[{;]( *\/\*.*)?( *\\)?$/ && text !~ /\{.*}$/ && (getline line < file) > 0) { line_number++; text = text " " line }
                if (text ~ /\{/) { name = function_name(text); if (name ~ /^bti_/) { keep = line_number; line_number = start; define(name, "function"); line_number = keep } }
            } else if (line ~ /( =|;|\])/) {
                name = object_name(line)
                if (name != "" && line !~ /^struct|^union|^enum/) define(name, "object")
            }
        }
    }
    close(file)
}
END {
    printf "names: %d files, %d names, %d violations\n", files, names, violations
    exit violations > 0
}' <(echo "$rows") -
