#!/usr/bin/env bash
# Installs, builds, shows and checks berth on Debian 12. `./go help` lists the commands.
set -euo pipefail
from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
export LC_ALL=C.UTF-8
jobs=$(nproc)
test_jobs=$((3 * jobs)) # many tests wait for other processes most of the time

packages_run=(libllvm16 libdnnl2 libopenblas0-openmp libclblast1 libfftw3-single3 libfftw3-double3) # opened when needed; without them everything works, slower, but linear algebra and Fourier transforms
packages_build=("${packages_run[@]}" gcc libc6-dev cmake ninja-build pkg-config libbson-dev libjansson-dev libsleef-dev libuv1-dev libxxhash-dev zlib1g-dev opencl-c-headers)
packages_test=("${packages_build[@]}" libcmocka-dev ocl-icd-libopencl1 pocl-opencl-icd) # PoCL: devices of OpenCL without hardware
packages_valgrind=(valgrind libc6-dbg)
packages_check=("${packages_test[@]}" "${packages_valgrind[@]}" patch g++ clang libclang-rt-14-dev clang-format llvm-16 chromium groff-base python3-pip)

help() {
    cat <<'TEXT'
./go demo [ARGS]               install what is missing, build, run `berth demo`
./go check [--long] [--peers]  the demo, then every check; one table at the end. --long: every list of cases in full, long fuzz runs,
                               modules compiled for TPUs by libtpu, from PyPI;
                               --peers: also what needs other projects from PyPI (results compared with JAX, PyTorch, TensorFlow, NumPy, Ray)
./go part NAME                 one part of the check, by its name in the table
./go build [PRESET]            configure and build (release debug asan ubsan asan-ubsan tsan) into build/PRESET
./go test PRESET [CTEST-ARGS]  build, then run the tests: ./go test release -L unit -R shape
./go asan | ubsan | tsan       build with that sanitizer and run the tests; CTest arguments may follow
./go valgrind [CTEST-ARGS]     the tests labelled valgrind, under valgrind
./go golden [--emulated | --pjrt] FILE...  compare with reference files; --emulated: on an emulated GPU of NVIDIA's;
                               --pjrt: on XLA's CPU client from PyPI, taken for a TPU; BERTH_PJRT_PLUGIN
                               names another one: tensorflow-cpu (its XLA behind a shim), or a library's path
./go format                    format the sources (clang-format)
./go lint [FILE...]            clang-tidy over src
BERTH_CHECK_MINUTES limits `check` (75; no limit with --long or --peers). BERTH_TEST_DEVICES names the devices that tests run on.
BERTH_TEST_DRAW says which of the cases tests draw that run a part of them; it is the number of commits, so that each commit has its own.
TEXT
}

die() { echo "go: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
any() { compgen -G "$1" >/dev/null; }

# ---- packages

# install PACKAGE...: installs those that are missing; with all of them there it fetches nothing.
install() {
    if ! have dpkg-query; then
        echo "go: not a Debian system; these packages' counterparts are taken to be installed: $*" >&2
        return 0
    fi
    local installed missing=() package as=()
    installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
    for package; do
        [[ $'\n'$installed$'\n' == *$'\n'"$package installed"$'\n'* ]] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local line="apt-get install --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || die "missing packages; as root: $line"
        as=(sudo)
    fi
    echo "installing: ${missing[*]}"
    local log; log=$(mktemp)
    local apt=("${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0)
    if ! "${apt[@]}" install --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
        if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
            tail -n 5 "$log" >&2
            rm -f "$log"
            die "could not install; try: $line"
        fi
    fi
    rm -f "$log"
}

# find_nvrtc: where the system has no NVRTC, BERTH_NVRTC names a folder outside the tree with that of its wheel; tests that want
# it skip if it cannot be had. In a long check BERTH_NVRTC_OTHER is the folder of the other major version, 12 or 13.
nvrtc_folder=${XDG_CACHE_HOME:-$HOME/.cache}/berth-nvrtc

# fetch_nvrtc MAJOR: prints the folder of that wheel's library
fetch_nvrtc() {
    local folder=$nvrtc_folder/$1 wheel=nvidia-cuda-nvrtc
    [ "$1" != 12 ] || wheel=nvidia-cuda-nvrtc-cu12
    if ! any "$folder/nvidia/*/lib/libnvrtc.so.$1"; then
        echo "fetching NVRTC $1 into $folder" >&2
        timeout 300 python3 -m pip install -q --no-deps --disable-pip-version-check --target "$folder" "$wheel" >&2 ||
            { echo "NVRTC $1 could not be had" >&2; return 1; }
    fi
    dirname "$(compgen -G "$folder/nvidia/*/lib/libnvrtc.so.$1" | head -n 1)"
}
find_nvrtc() {
    local system other=13
    system=$({ PATH=$PATH:/sbin ldconfig -p || :; } | sed -n 's/.*libnvrtc\.so\.\(1[23]\) .*/\1/p' | head -n 1)
    [ -n "$system" ] || system=$({ compgen -G '/usr/local/cuda*/lib64/libnvrtc.so.1[23]' || :; } | sed -n 's/.*\.//p' | head -n 1)
    if [ -z "${BERTH_NVRTC:-}" ] && [ -z "$system" ]; then
        BERTH_NVRTC=$(fetch_nvrtc 12) && export BERTH_NVRTC || return 0
    fi
    [ -n "${BERTH_TEST_LONG:-}" ] || return 0
    [ "$system" != 13 ] && ! any "${BERTH_NVRTC:-/nowhere}/libnvrtc.so.13" || other=12
    BERTH_NVRTC_OTHER=$(fetch_nvrtc $other) && export BERTH_NVRTC_OTHER || return 0
}

# ---- building

# configure PRESET: with the tests, unless cmocka is not there (a demo does not need it).
configure() {
    [[ $1 =~ ^(release|debug|asan|ubsan|asan-ubsan|tsan)$ ]] || die "unknown preset: $1 (release debug asan ubsan asan-ubsan tsan)"
    local tests=ON log
    pkg-config --exists cmocka || tests=OFF
    log=$(mktemp)
    if ! cmake --preset "$1" -DBERTH_TESTS=$tests >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# build PRESET [TARGET...]
build() {
    local preset=$1 targets=()
    shift
    [ $# -eq 0 ] || targets=(--target "$@")
    configure "$preset" || return 1
    cmake --build "build/$preset" "${targets[@]}"
}

# noted RE COMMAND...: runs the command; its last line that matches RE goes into the table of the check.
noted() {
    local log rc=0
    log=$(mktemp)
    "${@:2}" 2>&1 | tee "$log" || rc=$?
    note "$(grep -E "$1" "$log" | tail -n 1)"
    rm -f "$log"
    return $rc
}

# run_tests PRESET CTEST-ARGS...
run_tests() {
    noted '^[0-9]+% tests passed' ctest --test-dir "build/$1" --output-on-failure --no-tests=error -j "$test_jobs" "${@:2}"
}

sources() { find include src tests examples bench -type f \( -name '*.c' -o -name '*.h' \) 2>/dev/null | LC_ALL=C sort; }

# ---- parts of the check; a part skips with `skip REASON` and adds to the table with `note TEXT`

note() { [ -z "${BERTH_PART_NOTE:-}" ] || echo "$*" >"$BERTH_PART_NOTE"; }
skip() { echo "skipped: $*"; note "$*"; exit 77; }

part_build() { build release; }
part_demo() {
    any 'src/cli/*.c' || skip "no command berth yet"
    build release berth && build/release/berth demo
}
part_layers() { bash tests/layers.sh; }
part_circles() {
    build release berth_objects berth || return 1
    noted '^circles:' bash tests/circles.sh build/release
}
part_names() { noted '^names:' bash tests/names.sh; }
part_format() {
    have clang-format || skip "no clang-format"
    local bad
    bad=$(sources | { xargs -r clang-format --style=file --dry-run -Werror 2>&1 || :; } | sed -n 's/^\([^:]*\):[0-9].*/\1/p' | sort -u)
    [ -n "$bad" ] || return 0
    note "$(wc -l <<<"$bad") files; ./go format mends them"
    printf 'not formatted: %s\n' $bad
    return 1
}
part_ctest() {
    local leave_out='^(long|cuda-emulated)$'
    [ -z "${BERTH_TEST_LONG:-}" ] || leave_out='^cuda-emulated$'
    build release && run_tests release -LE "$leave_out"
}
# On emulated GPUs of NVIDIA's: a draw; in a long check everything, by both versions of NVRTC where they can be had.
part_emulated() {
    local rc=0 args=(-L '^cuda-emulated$')
    build release || return 1
    if [ -z "${BERTH_TEST_LONG:-}" ]; then
        run_tests release "${args[@]}" -LE '^long$'
        return
    fi
    run_tests release "${args[@]}" || rc=1
    [ -z "${BERTH_NVRTC_OTHER:-}" ] || BERTH_NVRTC=$BERTH_NVRTC_OTHER run_tests release "${args[@]}" || rc=1
    return $rc
}
part_golden() {
    local files=()
    mapfile -t files < <(find tests/golden -maxdepth 1 -type f \( -name '*.safetensors' -o -name '*.json' \) 2>/dev/null | LC_ALL=C sort)
    any 'tests/golden/*.c' || skip "no runner of reference files yet"
    [ ${#files[@]} -gt 0 ] || skip "no reference files in tests/golden/"
    build release golden && noted 'passed, .* failed' build/release/golden "${files[@]}" &&
        BERTH_FLAGS=devices=sim:gpu*4 noted 'passed, .* failed' build/release/golden --mirrored "${files[@]}"
}
part_readme() {
    [ -f tests/readme_examples.sh ] || skip "no tests/readme_examples.sh yet"
    bash tests/readme_examples.sh
}
part_headers() {
    [ -f include/berth.h ] || skip "no include/berth.h yet"
    have g++ || skip "no g++"
    echo '#include <berth.h>' | g++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ - || return 1
    g++ -std=c++17 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only tests/headers.cc || return 1
    ! have clang++ || clang++ -std=c++17 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only tests/headers.cc || return 1
    local compiler
    for compiler in gcc clang; do
        ! have $compiler || $compiler -std=c17 -O1 -pedantic -Wall -Wextra -Wshadow -Werror -Wno-gnu-zero-variadic-macro-arguments \
            -Iinclude -c tests/headers.c -o /dev/null || return 1
    done
    # In C each header stands alone, in the plain standard.
    local header rc=0
    for header in include/berth.h include/berth/*.h; do
        [ -f "$header" ] || continue
        echo "#include <${header#include/}>" | gcc -std=c17 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c - || rc=1
    done
    return $rc
}
part_asan() {
    build asan-ubsan || return 1
    local args=(-LE '^slow$')
    [ -z "${BERTH_TEST_LONG:-}" ] || args=()
    run_tests asan-ubsan "${args[@]}"
}
part_tsan() {
    build tsan tests-threads || return 1
    local args=(-L '^threads$' -LE '^slow$')
    [ -z "${BERTH_TEST_LONG:-}" ] || args=(-L '^threads$')
    run_tests tsan "${args[@]}"
}
part_valgrind() {
    have valgrind || skip "no valgrind"
    build release || return 1
    run_tests release -C memcheck -L memcheck
}
part_fuzz() {
    [ -f tests/fuzz/run.sh ] || skip "no tests/fuzz/run.sh yet"
    bash tests/fuzz/run.sh ${BERTH_TEST_LONG:+--long}
}

# Results of every row of the benchmarks beside other projects', from environments outside the tree; speed is not judged.
part_peers() {
    build release || return 1
    python3 bench/peers.py --repetitions 1 --seconds 0 --shrink 4
}
# Files and memory that NumPy, PyTorch, JAX and safetensors wrote and read.
part_exchange() {
    build release libberth exchange_models || return 1
    noted '^exchange:' python3 tests/exchange/run.py
}
# Reference cases as functions, exported as StableHLO and run by JAX.
part_export() {
    build release golden || return 1
    noted '^stablehlo:' python3 tests/stablehlo/run.py
}
# On a real PJRT plugin, XLA's CPU client: the driver, reference files, conformance, training, examples, random programs. Some of them on a second one, a shim over tensorflow-cpu's XLA.
part_pjrt() {
    build release libberth berth golden drivers.pjrt.real_test drivers.pjrt.late_test tests.conformance_test tests.pad_sizes_test random_programs || return 1
    noted '^pjrt:' python3 tests/pjrt/run.py
}
# Modules of StableHLO compiled ahead of time by libtpu, without a TPU, and by XLA's compiler for GPUs.
part_tpu() {
    build release || return 1
    noted '^tpu:' python3 tests/pjrt/tpu.py
}
# The engine ray on a Ray cluster of two nodes, whose processes are the test's own.
part_cluster() {
    build release || return 1
    noted '^cluster:' python3 tests/cluster/run.py
}
part_ray() {
    build release || return 1
    python3 bench/tasks.py --repetitions 1 --shrink 10
}

parts=(build demo layers circles names format headers ctest emulated golden readme asan tsan valgrind fuzz)
long_parts=(tpu)
peer_parts=(peers exchange export pjrt ray cluster)
declare -A about=(
    [build]="release build" [demo]="berth demo" [layers]="includes point down" [circles]="files form no circle"
    [names]="a name has one meaning" [format]="clang-format"
    [headers]="headers in C and C++" [ctest]="all tests, release" [emulated]="on emulated GPUs" [golden]="reference files" [readme]="README examples"
    [asan]="tests under ASan and UBSan" [tsan]="tests of threads under TSan"
    [valgrind]="smoke run under valgrind" [fuzz]="short fuzz runs" [peers]="results beside JAX, PyTorch, TensorFlow and NumPy"
    [exchange]="files, DLPack and models beside NumPy, PyTorch, JAX" [export]="exported functions run by JAX" [pjrt]="on XLA's CPU client, from two sources" [tpu]="compiled for TPUs, without one" [ray]="tasks beside Ray" [cluster]="tasks on a Ray cluster of two nodes"
)

check() {
    local minutes=${BERTH_CHECK_MINUTES:-75} name rc started=$SECONDS begun left table='' passed=0 failed=0 skipped=0 word
    for word; do
        case $word in
        --long) export BERTH_TEST_LONG=1; parts+=("${long_parts[@]}") ;;
        --peers) parts+=("${peer_parts[@]}") ;;
        *) die "check takes --long and --peers" ;;
        esac
        minutes=${BERTH_CHECK_MINUTES:-1440}
    done
    install "${packages_check[@]}"
    find_nvrtc
    echo "set-up took $((SECONDS - started)) s; BERTH_TEST_DRAW=$BERTH_TEST_DRAW"
    notes=$(mktemp) running=
    trap 'rm -f "$notes"' EXIT
    trap '[ -z "$running" ] || kill "$running"; exit 130' INT TERM
    for name in "${parts[@]}"; do
        printf '\n==== %s: %s\n' "$name" "${about[$name]}"
        begun=$SECONDS rc=0
        : >"$notes"
        left=$((minutes * 60 - (SECONDS - started)))
        if [ $left -gt 0 ]; then
            BERTH_PART_NOTE=$notes timeout -k 10 $left ./go part "$name" &
            running=$!
            wait $running || rc=$?
            running=
        else
            rc=124
        fi
        case $rc in
        0) word=passed passed=$((passed + 1)) ;;
        77) word=skipped skipped=$((skipped + 1)) ;;
        124 | 137) word=FAILED failed=$((failed + 1)); echo "no time left of $minutes minutes" | tee "$notes" ;;
        *) word=FAILED failed=$((failed + 1)) ;;
        esac
        printf '==== %s: %s in %d s\n' "$name" "$word" $((SECONDS - begun))
        table+=$(printf '%-9s %-8s %5d s  %s' "$name" "$word" $((SECONDS - begun)) "$(head -n 1 "$notes")")$'\n'
    done
    printf '\n%s' "$table"
    printf 'total: %d s of %d allowed\n' $((SECONDS - started)) $((minutes * 60))
    printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
    [ $failed -eq 0 ]
}

# ---- commands

command=${1:-help}
[ $# -eq 0 ] || shift
export BERTH_TEST_DRAW=${BERTH_TEST_DRAW:-$(git rev-list --count HEAD 2>/dev/null || echo 0)}
case $command in
demo)
    install "${packages_build[@]}"
    any 'src/cli/*.c' || die "no command berth yet"
    build release berth
    program=$PWD/build/release/berth
    cd "$from"
    exec "$program" demo "$@"
    ;;
check) check "$@" ;;
part)
    [ $# -eq 1 ] && [ -n "${about[$1]:-}" ] || die "the parts are: ${parts[*]} ${long_parts[*]} ${peer_parts[*]}"
    "part_$1"
    ;;
build)
    install "${packages_test[@]}"
    build "${1:-release}" "${@:2}"
    ;;
test)
    [ $# -ge 1 ] || die "test needs a preset"
    install "${packages_test[@]}"
    build "$1"
    run_tests "$@"
    ;;
asan | ubsan | tsan)
    install "${packages_test[@]}"
    build "$command"
    run_tests "$command" "$@"
    ;;
valgrind)
    install "${packages_test[@]}" "${packages_valgrind[@]}"
    build release
    run_tests release -C memcheck -L memcheck "$@"
    ;;
golden)
    [ $# -ge 1 ] || die "golden needs files"
    any 'tests/golden/*.c' || die "no runner of reference files yet"
    program=("$PWD/build/release/golden")
    if [ "$1" = --emulated ]; then
        shift
        install "${packages_test[@]}" python3-pip
        find_nvrtc
        build release golden emulated >/dev/null
        program=("$PWD/build/release/tests/emulated" --gpus 4 "${program[@]}")
    elif [ "$1" = --pjrt ]; then
        shift
        install "${packages_build[@]}" python3-pip
        build release golden >/dev/null
        program=(python3 "$PWD/tests/pjrt/run.py" --golden)
    else
        install "${packages_build[@]}"
        build release golden >/dev/null
    fi
    cd "$from"
    exec "${program[@]}" "$@"
    ;;
format)
    install clang-format
    sources | xargs -r clang-format --style=file -i
    ;;
lint)
    install "${packages_build[@]}" clang-tidy
    configure release
    if [ $# -gt 0 ]; then printf '%s\n' "$@"; else find src -name '*.c' ! -name '*_test.c'; fi |
        xargs -r -n 4 -P "$jobs" clang-tidy -p build/release --quiet
    ;;
help | -h | --help) help ;;
*)
    help >&2
    exit 2
    ;;
esac
