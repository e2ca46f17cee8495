#!/usr/bin/env bash
# tests/task_cxx.sh BUILD-DIR: compiles tests/task_cxx.cc outside of the tree, against a copy of the headers, with each C++ compiler that
# is there, without a warning; and runs it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$here/../include" "$work/include"
cp "$here/task_cxx.cc" "$work/"
cd "$work"
ran=0
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    $compiler -std=c++17 -O1 -Wall -Wextra -Wshadow -pedantic -Werror -Iinclude task_cxx.cc -o with_$compiler -L"$1" -lberth \
        -Wl,-rpath,"$1"
    ./with_$compiler
    ran=1
done
[ $ran = 1 ] || { echo "no C++ compiler"; exit 77; }
