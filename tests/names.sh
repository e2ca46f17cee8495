#!/usr/bin/env bash
# Checks the names in src/; prints each violation as file:line and exits with 1 if there is one.  tests/names.sh [ROOT]
#
# - A shared name has one meaning: what begins with bti_ or BTI_ is defined in one file (x.c with x.h), as one kind of thing (a function or a
#   macro that is called like one, a type, an object, a constant, another macro). Statics count too, since a reader's search finds them. The texts of kernels (src/render/c) count as one file: each target's
#   text defines the same functions.
# - A static function or variable has a name that a search finds: at most three files define one of the same name. The drivers count as one, since
#   each fills in the same table.
# - A function that no other file of src/, tests/, bench/, examples/ and include/ names is static. Rules (bti_gradient_x, bti_tangent_x, bti_batch_x) are named by ir/ops.def,
#   and src/exports.map names what is looked up by dlsym.
#
# The sources are formatted by clang-format, so a definition begins at the first column and a function's ends with "}" there.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# Macros of the rows of tables (.def) mean something else at each place that expands the table.
row_macros() {
    find src -name '*.def' -exec sed -n 's/^#[ \t]*undef[ \t]*\([A-Z_0-9]*\).*/\1/p; s/^\(BTI_[A-Z_0-9]*\)(.*/\1/p' {} + | sort -u
}

find src -mindepth 1 -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' \) ! -name '*_test.c' | LC_ALL=C sort | awk '
function complain(text) { printf "%s:%d: %s\n", file, line_number, text; violations++ }
function define(name, kind,    place) {
    place = file ~ /^src\/render\/c\// ? "src/render/c" : file
    sub(/\.[a-z]+$/, "", place)
    if (kind == "macro" && line ~ (name "\\(")) kind = "function"
    names++
    if (!(name in kind_of)) { kind_of[name] = kind; place_of[name] = place; first[name] = file ":" line_number; return }
    if (place_of[name] != place || kind_of[name] != kind) complain(name " is a " kind " here and a " kind_of[name] " in " first[name])
}
function define_static(name,    place) {
    place = file ~ /^src\/drivers\// ? "src/drivers" : file
    if ((name, place) in has_static) return
    has_static[name, place] = 1
    statics[name]++
    static_places[name] = static_places[name] " " place
}
function define_function(text, line,    name, keep) {
    name = function_name(text)
    keep = line_number; line_number = line
    if (name ~ /^bti_/) define(name, "function")
    else if (text ~ /^(static|BTI_[A-Z_]+ static)/ && name ~ /^[a-z]/) define_static(name)
    line_number = keep
}
function first_match(text, pattern) { return match(text, pattern) ? substr(text, RSTART, RLENGTH) : "" }
# The name before the first parenthesis, but for attributes.
function function_name(text,    name) {
    gsub(/__attribute__\(\([^)]*\)*\) /, "", text)
    gsub(/[A-Z_]+\([^()]*\) /, "", text)
    name = first_match(text, "[A-Za-z0-9_]+\\(")
    sub(/\($/, "", name)
    return name
}
# The name before the first "=", "[" or ";".
function object_name(text) {
    sub(/ *(=|\[|;).*/, "", text)
    return first_match(text, "(bti|BTI)_[A-Za-z0-9_]+$")
}
function read_line() { if ((getline line < file) <= 0) return 0; line_number++; return 1 }

# "static int a, b[2] = {0};": a and b.
function read_variables(text,    part, count, i) {
    sub(/ *=.*/, "", text); sub(/;.*/, "", text)
    gsub(/\[[^]]*\]/, "", text)
    count = split(text, part, ",")
    for (i = 1; i <= count; i++) { part[i] = first_match(part[i], "[a-z][a-z0-9_]*$"); if (part[i] != "") define_static(part[i]) }
}

function read_type(    tag, name) {
    tag = first_match(line, "(struct|union|enum) bti_[A-Za-z0-9_]+"); sub(/^[a-z]+ /, "", tag)
    is_enum = line ~ /enum/
    if (tag != "") define(tag, "type")
    while (line !~ /^}/ && line !~ /\{.*}.*;/) {
        if (!read_line()) return
        name = line; sub(/^[ \t]+/, "", name)
        if (is_enum && name ~ /^BTI_[A-Za-z0-9_]+( =|,|$| *\/\*)/) define(first_match(name, "^BTI_[A-Za-z0-9_]+"), "constant")
    }
    name = first_match(line, "} *bti_[A-Za-z0-9_]+;"); sub(/^} */, "", name); sub(/;/, "", name)
    if (name != "" && name != tag) define(name, "type")
}
function read_alias(    name) {
    if (line ~ /^typedef (struct|union|enum) bti_[a-z0-9_]+ bti_[a-z0-9_]+;/) return # declares a type that is defined elsewhere
    name = function_name(line)
    if (name !~ /^bti_/) name = object_name(line)
    if (name != "") define(name, "type")
}
# The head of a function runs to "{" (a definition) or ";" (a declaration).
function read_function(    text, start) {
    text = line; start = line_number
    while (text !~ /[{;]( *\/\*.*)?( *\\)?$/ && text !~ /\{.*}$/) { if (!read_line()) return; text = text " " line }
    if (text ~ /\{/) define_function(text, start)
}

FILENAME != "-" { row_macro[$0]; next }
{
    file = $0; line_number = 0; files++
    while (read_line()) {
        if (line ~ /^BTI_STATIC_LOCK(_RECURSIVE)?\(/) { name = line; sub(/^[A-Z_]*\(/, "", name); sub(/,.*/, "", name); define_static(name) }
        else if (line ~ /^[ \t]*#[ \t]*define[ \t]+(bti|BTI)_/) {
            name = first_match(line, "(bti|BTI)_[A-Za-z0-9_]+")
            if (!(name in row_macro)) define(name, "macro")
        } else if (line ~ /^(typedef )?(struct|union|enum)( bti_[A-Za-z0-9_]+)? \{/) read_type()
        else if (line ~ /^typedef .*;/) read_alias()
        else if (line ~ /^[A-Za-z_]/ && line !~ /^(extern|typedef|return|else|case|default)[ (]/) {
            if (line ~ /\(/ && line !~ /^[^(]*=/) read_function()
            else if (line ~ /( =|;|\])/ && line !~ /^(struct|union|enum) [a-z_0-9]+;/) {
                name = object_name(line)
                if (name != "") define(name, "object")
                else if (line ~ /^(__attribute__.* )?static /) read_variables(line)
            }
        }
    }
    close(file)
}
# What other files name, into `named`. A header that names a function twice declares it and has a macro that calls it.
function read_uses(    command, place, name, in_headers) {
    command = "grep -rowE --include=*.c --include=*.h --include=*.def --include=*.cpp \"bti_[A-Za-z0-9_]+\" src tests bench examples include"
    while ((command | getline line) > 0) {
        place = name = line
        sub(/:.*/, "", place); sub(/^[^:]*:/, "", name)
        if (place ~ /\.h$/ && place ~ /^src\// && ++in_headers[name] < 2) continue
        sub(/\.[a-z]+$/, "", place)
        if (name in place_of && (in_headers[name] > 1 || place_of[name] != place)) named[name]
    }
    close(command)
}
END {
    read_uses()
    while ((getline line < "src/exports.map") > 0) if (line ~ /^ +bti?_[a-z_0-9]+;/) { gsub(/[ ;]/, "", line); named[line] }
    for (name in kind_of)
        if (kind_of[name] == "function" && first[name] ~ /\.c:/ && name !~ /^bti_(gradient|tangent|batch)_/ && !(name in named)) {
            printf "%s: %s is named by no other file, and could be static\n", first[name], name; violations++
        }
    for (name in statics)
        if (statics[name] > 3) { printf "%s:%s define static functions or variables of this name\n", name, static_places[name]; violations++ }
    printf "names: %d files, %d shared names, %d violations\n", files, names, violations
    exit violations > 0
}' <(row_macros) -
