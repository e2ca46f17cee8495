#!/usr/bin/env bash
# tests/install.sh BUILD-DIR: installs the build, moves the installation, and builds programs with it outside of the tree: in C and C++, by CMake
# and by pkg-config, with the shared and with the static library; and what README.md says about it. The components of the installation, absolute
# folders, and the build folder as a CMake package are tested too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "install: $*"; exit 1; }
# quietly COMMAND...: what it prints is shown when it fails
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "$*"; }; }

DESTDIR=$work/stage quietly cmake --install "$1" --prefix /opt/berth
mv "$work/stage/opt/berth" "$work/berth"
lib=$(dirname "$(find "$work/berth" -name libberth.a)")
! grep -rlE "/opt/berth|$1" "$lib/pkgconfig" "$lib/cmake" || fail "these name a folder of the build or of the first installation"
"$work/berth/bin/berth" --help >/dev/null || fail "the command does not run where it was moved to"
unset LD_LIBRARY_PATH

# Component `runtime` runs programs; with component `development` it is everything.
installed() { (cd "$1" && find . ! -type d | LC_ALL=C sort); } # FOLDER
DESTDIR=$work/parts quietly cmake --install "$1" --prefix /opt/berth --component runtime
[ -f "$(find "$work/parts" -name berth-ray)/bridge.py" ] || fail "component runtime lacks the Python of the engine ray"
kinds=$(installed "$work/parts" | grep -v '/berth-ray/[a-z_]*\.py$' | sed 's|.*/||; s|\.so\..*|.so.VERSION|' | sort -u | xargs)
[ "$kinds" = "berth berth.1 libberth-nest.so libberth.so.VERSION" ] || fail "component runtime has $kinds"
"$work/parts/opt/berth/bin/berth" --help >/dev/null || fail "component runtime: the command does not run"
DESTDIR=$work/parts quietly cmake --install "$1" --prefix /opt/berth --component development
diff <(installed "$work/parts/opt/berth") <(installed "$work/berth") || fail "the components are not the whole installation"
rm -r "$work/parts"
if [ -d "$1/reference" ]; then
    [ -s "$work/berth/share/man/man3/bt_conv2d.3" ] && [ -s "$work/berth/share/doc/berth/html/index.html" ] || fail "the pages of the reference are not installed"
fi

# Absolute folders are written as they are.
quietly cmake -G Ninja -S "$here/.." -B "$work/absolute" -DBERTH_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/opt/berth -DCMAKE_INSTALL_LIBDIR=/opt/lib/berth \
    -DCMAKE_INSTALL_INCLUDEDIR=/opt/headers
for variable in libdir=/opt/lib/berth includedir=/opt/headers prefix=/opt/berth; do
    for package in berth berth-static; do
        [ "$(pkg-config --variable="${variable%%=*}" "$work/absolute/$package.pc")" = "${variable#*=}" ] || fail "$package.pc with absolute folders: not $variable"
    done
done
grep -q '"/opt/lib/berth/libberth.so"' "$work/absolute/generated/berth-config.cmake" || fail "berth-config.cmake with an absolute folder"
export PKG_CONFIG_PATH=$lib/pkgconfig CMAKE_PREFIX_PATH=$work/berth

sum='bt_array([2. 4.], shape=(2,), dtype=float32)'
# check PROGRAM [ARGUMENT]: it prints the sum and the result of its task
check() {
    local printed
    printed=$("$@" 2>&1 | sort) || fail "$*: $printed"
    [ "$printed" = "$sum"$'\n'"twice 21 is 42" ] || fail "$* prints: $printed"
}
check_c() { # SHARED-PROGRAM STATIC-PROGRAM
    local printed
    ldd "$2" | grep -q libberth && fail "$2 needs libberth.so"
    check "$1"
    check "$1" late # by libberth-nest.so beside libberth.so
    check "$2"
    printed=$("$2" late 2>&1) && fail "$2 late: no error"
    [[ $printed == *"libberth is linked into it, not shared"* ]] || fail "$2 late prints: $printed"
}

# cmake_project NAME FOLDER OPTION...
cmake_project() {
    quietly cmake -G Ninja -S "$2" -B "$work/$1" "${@:3}"
    quietly cmake --build "$work/$1"
}
cmake_project c "$here/install" -DLANGUAGE=C -DSOURCE="$here/install/use.c"
check_c "$work/c/use_berth" "$work/c/use_berth_static"
CMAKE_PREFIX_PATH= cmake_project from_build "$here/install" -DLANGUAGE=C -DSOURCE="$here/install/use.c" -Dberth_ROOT="$1"
check_c "$work/from_build/use_berth" "$work/from_build/use_berth_static"
if PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=/none cmake -G Ninja -S "$here/install" -B "$work/none" -DLANGUAGE=C -DSOURCE=use.c >"$work/log" 2>&1; then
    fail "component static is found without its packages"
fi
grep -q 'needs pkg-config and the packages' "$work/log" || { cat "$work/log"; fail "not said what component static needs"; }

warnings=(-Wall -Wextra -Werror)
shared=$(PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=$lib/pkgconfig pkg-config --cflags --libs berth) # without the packages of the static one
static=$(pkg-config --cflags --libs berth-static)
quietly cc -std=c17 "${warnings[@]}" "$here/install/use.c" -o "$work/shared" $shared -Wl,-rpath,"$lib"
quietly cc -std=c17 "${warnings[@]}" "$here/install/use.c" -o "$work/static" $static
check_c "$work/shared" "$work/static"
quietly cc -std=c17 -shared -fPIC "$here/modules/task_module.c" -o "$work/module.so" $shared -Wl,-rpath,"$lib"
quietly "$work/shared" "$work/module.so"
printed=$("$work/static" "$work/module.so") && fail "the static program loads a module of the shared library"
[[ $printed == *"is linked with another libberth than the program"* ]] || fail "the static program says of a module: $printed"

# What registers itself before main is in a static program too.
BERTH_FLAGS=trace=$work/trace.json,memory_forecast=$work/forecast.json check "$work/static"
[ -s "$work/trace.json" ] && [ -s "$work/forecast.json" ] || fail "the static program writes no trace or no memory forecast"

if command -v g++ >/dev/null; then
    for libraries in "$shared -Wl,-rpath,$lib" "$static"; do
        quietly g++ -std=c++17 "${warnings[@]}" "$here/task_cxx.cc" -o "$work/cxx_program" $libraries
        quietly "$work/cxx_program"
    done
    cmake_project cxx "$here/install" -DLANGUAGE=CXX -DSOURCE="$here/task_cxx.cc"
    quietly "$work/cxx/use_berth"
    quietly "$work/cxx/use_berth_static"
else
    echo "install: no g++, so nothing in C++"
fi

# README.md: its first program, by its CMake project and by its lines for pkg-config.
mkdir "$work/readme"
awk -v out="$work/readme" '/^```/ { kind = kind == "" ? substr($0, 4) : ""; seen[kind]++; next }
    kind == "c" && seen["c"] == 1 { print > (out "/main.c") }
    kind == "cmake" { print > (out "/CMakeLists.txt") }
    kind == "sh" && /^cc main\.c/ { print > (out "/lines") }' "$here/../README.md"
PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=/none cmake_project readme_build "$work/readme"
[[ $("$work/readme_build/main" 2>&1) == *'22. 28.'* ]] || fail "README.md: the CMake project"
cd "$work/readme"
while read -r line; do
    rm -f main
    bash -euc "${line//\/opt\/berth\/lib/"$lib"}" && [[ $(./main 2>&1) == *'22. 28.'* ]] || fail "README.md: $line"
done <lines
[ "$(wc -l <lines)" = 2 ] || fail "README.md: $(wc -l <lines) lines begin with cc main.c"

# Where no shared library is installed, berth.pc and the CMake package serve the static one; and the other way round.
mkdir "$work/away"
mv "$lib"/libberth.so* "$work/away"
cmake_project static_alone "$here/install" -DLANGUAGE=C -DSOURCE="$here/install/use.c" -DKINDS=static
check "$work/static_alone/use_berth_static"
quietly cc -std=c17 "${warnings[@]}" "$here/install/use.c" -o "$work/static" $(pkg-config --static --cflags --libs berth)
check "$work/static"
mv "$work/away"/libberth.so* "$lib"
rm "$lib/libberth.a"
cmake_project shared_alone "$here/install" -DLANGUAGE=C -DSOURCE="$here/install/use.c" -DKINDS=shared
check "$work/shared_alone/use_berth"
