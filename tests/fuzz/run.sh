#!/usr/bin/env bash
# Builds every tests/fuzz/fuzz_*.c with all of the library's sources, and runs each over tests/fuzz/corpus/NAME.
#   tests/fuzz/run.sh [SECONDS | --long] [NAME...]     6 seconds each; --long 600; CC chooses the clang
# New inputs go to build/fuzz/found/NAME; an input that breaks something is left in build/fuzz/NAME-crash-*. Exits with 77
# where there is no clang with libFuzzer.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=6
case ${1:-} in
--long) seconds=600; shift ;;
[0-9]*) seconds=$1; shift ;;
esac
cc=${CC:-clang} out=build/fuzz
mkdir -p "$out/generated"
cmake -DPAGE=src/view/page/page.html -DOUTPUT="$out/generated/page.inc" -P src/view/page/embed.cmake # as CMakeLists.txt does
for words in src/render/c/*.h; do
    cmake -DINPUT="$words" -DOUTPUT="$out/generated/c_$(basename "$words" .h).inc" -P cmake/bytes.cmake
done
flags=(-std=gnu17 -gline-tables-only -D_GNU_SOURCE -DBERTH_BUILDING=1 -DBTI_DEBUG=1 -DBERTH_VERSION='"fuzz"' -ffp-contract=off -fno-omit-frame-pointer
    -Iinclude -Isrc -I"$out/generated")
packages=$(sed -n 's/^set(BERTH_PACKAGES \([^)]*\)).*/\1/p' CMakeLists.txt)
# shellcheck disable=SC2086,SC2207
flags+=($(pkg-config --cflags $packages))
checks=(-O1 -fsanitize=address,undefined -fno-sanitize-recover=all)
if ! echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 9; }' |
    "$cc" -x c - -fsanitize=fuzzer,address,undefined -o "$out/probe" 2>/dev/null; then
    echo "fuzz: skipped: $cc with libFuzzer is not installed (clang, libclang-rt-14-dev)"
    exit 77
fi
depends=()
read -ra depends < <(echo "$packages" | xargs pkg-config --libs)

# The library once; objects are made again when any header is newer. The folders that inputs reach are instrumented (with --long all are).
watched='^src/(array|base|cache|device|drivers/(cpu/compiled|sim)|file|ir|nn|task/value)' objects_in=$out/objects
[ "$seconds" -lt 600 ] || watched=. objects_in=$out/objects-all
mkdir -p "$objects_in"
compile() {
    local object="$objects_in/${1//\//_}.o"
    [ -f "$object" ] && [ -z "$(find "$1" src include \( -name '*.h' -o -name '*.def' -o -path "$1" \) -newer "$object" -print -quit)" ] && return
    local vectors=() # as CMakeLists.txt has them
    case $1 in
    */vector_avx2.c) vectors=(-mavx2 -mfma -mf16c) ;;
    */vector_avx512.c) vectors=(-mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c) ;;
    esac
    local kind=(-O0)
    [[ ! $1 =~ $watched ]] || kind=("${checks[@]}" -fsanitize=fuzzer-no-link)
    "$cc" "${flags[@]}" "${kind[@]}" "${vectors[@]}" -c "$1" -o "$object"
}
export -f compile
mapfile -t sources < <(find src -name '*.c' ! -name '*_test.c' ! -path 'src/cli/*' | LC_ALL=C sort)
objects=()
pids=()
for source in "${sources[@]}"; do
    objects+=("$objects_in/${source//\//_}.o")
    compile "$source" &
    pids+=($!)
    if [ ${#pids[@]} -ge "$(nproc)" ]; then
        wait "${pids[0]}"
        pids=("${pids[@]:1}")
    fi
done
for pid in "${pids[@]}"; do wait "$pid"; done

# fuzz NAME: builds its harness and runs it; prints what came of it.
fuzz() {
    local name=$1 corpus found inputs dictionary log sources
    corpus=tests/fuzz/corpus/$name found=$out/found/$name
    mkdir -p "$found"
    sources=("tests/fuzz/fuzz_$name.c")
    # The parser of the emulated GPUs.
    [ "$name" != ptx ] || sources+=(tests/fakes/ptx/{scan,opcodes,operands,body,variables,parse,finish,module,problem}.c)
    # The tokenizer of the examples.
    [ "$name" != bpe ] || sources+=(examples/models/bpe{,_files,_split}.c)
    "$cc" "${flags[@]}" "${checks[@]}" -Itests -Iexamples -fsanitize=fuzzer "${sources[@]}" "${objects[@]}" -o "$out/$name" "${depends[@]}" -ldl -lpthread -lm
    inputs=("$found")
    [ -d "$corpus" ] && inputs+=("$corpus")
    dictionary=()
    [ -f "tests/fuzz/$name.dict" ] && dictionary=(-dict="tests/fuzz/$name.dict")
    log=$out/$name.log
    if "$out/$name" -max_total_time="$seconds" -timeout=120 -rss_limit_mb=3000 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$out/$name-" "${dictionary[@]}" "${inputs[@]}" >"$log" 2>&1; then
        echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, no fault"
    else
        echo "fuzz: $name: FAILED, see $log"
        tail -n 40 "$log"
        return 1
    fi
}

failed=0 ran=0
pids=()
for harness in tests/fuzz/fuzz_*.c; do
    name=$(basename "$harness" .c)
    name=${name#fuzz_}
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    fuzz "$name" &
    pids+=($!) ran=$((ran + 1))
    if [ ${#pids[@]} -ge "$(nproc)" ]; then
        wait "${pids[0]}" || failed=$((failed + 1))
        pids=("${pids[@]:1}")
    fi
done
for pid in "${pids[@]}"; do wait "$pid" || failed=$((failed + 1)); done
echo "fuzz: $ran harnesses, $failed failed"
[ $failed -eq 0 ]
