#!/usr/bin/env bash
# tests/cxx_program.sh NAME BUILD-DIR: compiles tests/NAME.cc against the library and runs it, unoptimised and optimised.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
command -v g++ >/dev/null || { echo "no g++"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for options in -O0 -O2; do
    g++ -std=c++17 $options -Wall -Wextra -Werror -pedantic -I"$here/../include" "$here/$1.cc" -o "$work/$1" \
        -L"$2" -lberth -Wl,-rpath,"$2"
    BERTH_FLAGS=devices=sim:gpu*1 "$work/$1"
done
