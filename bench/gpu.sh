#!/usr/bin/env bash
# All figures of a GPU in calls of under ten minutes: builds, tests, measures, writes a folder.
#   bench/gpu.sh [OPTIONS] [OUT]     OUT: the folder of results (bench/results/gpu-DATE)
#   --resume         parts that passed in OUT are not run again; what else OUT has stays until its part has run
#   --device NAME    where (cuda); with opencl0:0, say, the script itself can be tried without a GPU
#   --build DIR      a build that is there (build/release, or what --pack made) instead of building
#   --pack DIR       makes such a folder of build/release, with the libraries that it needs, for a machine that has not
#   --shrink N       large rows N times smaller, fewer rows (1)
#   --one-in N       of N conformance cases one is run (8), BERTH_TEST_DRAW=0, 1... says which; 1: all
#   --rows A,B       parts bench and peers measure these rows
#   --seconds N      time for all parts (585)
#   --parts A,B      only these parts (build conformance golden tests examples training contexts sanitizer first bench peers)
# Each part has a time limit of its own; one that fails does not stop the others. Written are table.md, figures.json and log.txt.
# Exit code: 0, 1 when a part failed, 77 when there is no such device.
set -uo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
names=(build conformance golden tests examples training contexts sanitizer first bench peers)
# Tests that say the same on any device.
device_tests="array.plan_cache function.call function.donate function.fill function.large function.sizes function.steps function.updating
    grad.rules ops.control ops.ops tests.ahead tests.boxes tests.call tests.custom_kernel tests.custom_results tests.epilogues"
root=$PWD device=cuda build='' out='' rows='' shrink=1 one_in=8 resume=no parts=$(IFS=,; echo "${names[*]}")
jobs=$(nproc) seconds_in_all=585

die() { echo "bench/gpu.sh: $*" >&2; exit 2; }
have() { command -v "$1" >/dev/null 2>&1; }

# pack DIR: what the parts need of build/release, without symbols, and its libraries but those of the C library.
pack() {
    local tests=(build/release/tests/{tests.conformance_test,random_programs} $(printf 'build/release/tests/%s_test ' $device_tests))
    mkdir -p "$1/tests" "$1/examples" "$1/libraries" || exit 1
    cp -L build/release/berth build/release/golden build/release/libberth.so.1 "$1/" && cp "${tests[@]}" "$1/tests/" &&
        cp build/release/examples/* "$1/examples/" || die "build it first: ./go build release"
    ldd "$1/berth" "$1/golden" "$1"/tests/* | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' | sort -u |
        grep -Ev '/lib(berth|c|m|dl|rt|pthread)\.so' | xargs -r cp -L -t "$1/libraries"
    strip --strip-unneeded "$1"/berth "$1"/golden "$1"/lib*.so* "$1"/tests/* "$1"/examples/* 2>/dev/null
    du -sh "$1"
    exit 0
}

while [ $# -gt 0 ]; do
    case $1 in
    --device | --build | --pack | --shrink | --one-in | --rows | --seconds | --parts)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --device) device=$2 ;;
        --build) build=$(realpath -m "$2") ;;
        --pack) pack "$2" ;;
        --shrink) shrink=$2 ;;
        --one-in) one_in=$2 ;;
        --rows) rows=${2//,/ } ;;
        --seconds) seconds_in_all=$2 ;;
        --parts) parts=$2 ;;
        esac
        shift 2
        ;;
    --resume) resume=yes; shift ;;
    -h | --help) sed -n '2,15s/^# \{0,1\}//p' "bench/gpu.sh"; exit 0 ;;
    -*) die "unknown option: $1" ;;
    *) out=$1; shift ;;
    esac
done
out=$(realpath -m "${out:-bench/results/gpu-$(date +%F)}")
work=$out/parts # what each part wrote
[ $resume = yes ] || rm -rf "$work"
mkdir -p "$work" || exit 1
: >"$out/log.txt"
: >"$work/facts"

# ---- what is here

fact() { printf '%-12s %s\n' "$1" "${2:-none}" >>"$work/facts"; }
path_of() { compgen -G "$1" 2>/dev/null | sort -V | tail -n 1; }

# find_cuda: where one of CUDA's libraries is only in a Python's wheels, berth is told; PATH gets the toolkit's tools.
find_cuda() {
    local wheels='' tools library
    tools=$(path_of '/usr/local/cuda*/bin')
    [ -z "$tools" ] || PATH=$PATH:$tools
    have python3 && wheels=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)
    [ -n "$wheels" ] || return
    for library in libnvrtc.so.1[23] libcublasLt.so.1[23] libcudnn.so.9 libcufft.so.1[12] libcusolver.so.1[12]; do
        [ -n "$(path_of "/usr/local/cuda*/lib64/$library")" ] || cuda_flags="cuda_path=/usr/local/cuda:$wheels"
    done
}

find_facts() {
    local card='' library
    have nvidia-smi && card=$(nvidia-smi --query-gpu=name,driver_version,memory.total,pstate,clocks.max.sm --format=csv,noheader 2>/dev/null | head -n 1)
    fact date "$(date '+%F %H:%M')"
    fact card "$card"
    fact CPU "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $jobs cores"
    fact commit "$(git log -1 --format=%h 2>/dev/null)$(git diff --quiet HEAD 2>/dev/null || echo ', changed')"
    fact nvcc "$(have nvcc && nvcc --version | sed -n 's/.*release \([^,]*\),.*/\1/p')"
    fact sanitizer "$(command -v compute-sanitizer)"
    fact cuda_path "${cuda_flags#cuda_path=}"
    for library in jax torch; do
        fact "$library" "$(have python3 && python3 -c "import importlib.metadata as m; print(m.version('$library'))" 2>/dev/null)"
    done
    for library in gcc cmake ninja pkg-config; do have "$library" || fact "$library" "missing: needed to build"; done
    if have pkg-config; then
        for library in jansson libxxhash sleef libuv zlib; do pkg-config --exists "$library" || fact "$library" "missing: needed to build"; done
        pkg-config --exists cmocka || fact cmocka "missing: no conformance"
    fi
}

# ---- parts: each writes to standard output; its last line goes into the table. 77: skipped, that line says why.

wanted() { [[ ,$parts, == *,$1,* ]]; }
left() { echo $((seconds_in_all - SECONDS)); }

# part NAME LIMIT: runs part_NAME; results lie in $work/NAME.*
part() {
    local name=$1 limit=$2 begun=$SECONDS rc=0
    [ "$(left)" -ge "$limit" ] || limit=$(left)
    if [ "$name" != build ] && [ -s "$work/$name.result" ] && { ! wanted "$name" || [ "$(cat "$work/$name.result")" = passed ]; }; then
        return # in an earlier call
    fi
    rm -f "$work/$name".*
    if ! wanted "$name"; then
        rc=77; echo "not asked for" >"$work/$name.log"
    elif [ "$limit" -le 0 ]; then
        rc=124; echo "no time left" >"$work/$name.log"
    elif [ "$name" != build ] && [ -n "$absent" ]; then
        rc=77; echo "$absent" >"$work/$name.log"
    else
        timeout -k 5 "$limit" env part_seconds="$limit" bash -c "part_$name" >"$work/$name.log" 2>&1 || rc=$?
    fi
    case $rc in 0) echo passed ;; 77) echo skipped ;; 124 | 137) echo "FAILED: $limit s over" ;; *) echo FAILED ;; esac >"$work/$name.result"
    echo $((SECONDS - begun)) >"$work/$name.seconds"
    printf '%-12s %-10s %4d s  %s\n' "$name" "$(cat "$work/$name.result")" $((SECONDS - begun)) "$(tail -n 1 "$work/$name.log" | cut -c1-150)"
}

part_build() {
    if [ "$given" = yes ]; then
        [ -x "$build/berth" ] || { echo "no berth in $build"; return 1; }
        echo "not built: $build is used"
        return 0
    fi
    local tests=ON generator=()
    pkg-config --exists cmocka || tests=OFF
    ! have ninja || generator=(-G Ninja)
    cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBERTH_TESTS=$tests || return 1
    cmake --build "$build" -j "$jobs" --target berth || return 1
    [ $tests = OFF ] || cmake --build "$build" -j "$jobs" --target tests.conformance_test golden random_programs \
        $(printf '%s_test ' $device_tests) || return 1
    cmake --build "$build" -j "$jobs" --target $(find examples -name '*.c' -printf 'example.%f\n' | sed 's/\.c$//') || return 1
    echo "built, tests $tests"
}

# The rows in as many processes as there are cores, for kernels take long to compile: eight at most.
part_conformance() {
    local test=$build/tests/tests.conformance_test count=$((jobs < 8 ? jobs : 8)) i passed=0 failed=0 name=$device
    [ -x "$test" ] || { echo "no conformance test in $build"; return 77; }
    case $device in opencl*) name=opencl ;; esac
    for ((i = 0; i < count; i++)); do
        BERTH_TEST_DEVICES=$name BERTH_TEST_ONE_IN=$one_in BERTH_TEST_PART=$i/$count \
            "$test" >"$work/conformance.$i" 2>&1 &
    done
    wait
    for ((i = 0; i < count; i++)); do
        cat "$work/conformance.$i"
        passed=$((passed + $(sed -n 's/.*: \([0-9]*\) cases passed.*/\1/p' "$work/conformance.$i" | head -n 1 | grep . || echo 0)))
        failed=$((failed + $(sed -n 's/.*passed, \([0-9]*\) failed.*/\1/p' "$work/conformance.$i" | head -n 1 | grep . || echo 1)))
    done
    ! grep -l 'FAILED' "$work"/conformance.? >/dev/null || [ $failed -gt 0 ] || failed=1
    echo "$passed cases passed, $failed failed, of $one_in one was run, $count processes"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
}

# The reference files; each of the processes takes its draw of the operations, the first one training too.
part_golden() {
    local program=$build/golden count=$((jobs < 8 ? jobs : 8)) i file files rc=0 processes=()
    [ -x "$program" ] || { echo "no golden in $build"; return 77; }
    for ((i = 0; i < count; i++)); do
        files=()
        for file in tests/golden/*.safetensors; do [[ $file == */training.* ]] || files+=("$file"); done
        [ $i -gt 0 ] || files+=(tests/golden/training.safetensors tests/golden/printing.json)
        BERTH_FLAGS=$BERTH_FLAGS,default_device=$device BERTH_TEST_DRAW=$i "$program" --mirrored --every="$count" "${files[@]}" \
            >"$work/golden.$i" 2>&1 & processes+=($!)
    done
    for ((i = 0; i < count; i++)); do
        wait "${processes[i]}" || rc=1
        cat "$work/golden.$i"
    done
    sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, .*/\1 \2/p' "$work"/golden.[0-9]* | awk '{p += $1; f += $2} END {print p + 0 " passed, " f + 0 " failed"}'
    return $rc
}

# test_on_device NAME [ARGS]: one of the tests, or random programs.
test_on_device() {
    local name=$1
    shift
    timeout -k 5 110 "$build/tests/$name" "$@" >"$work/test.$name$*" 2>&1 && echo "$name $* passed" || echo "$name $* FAILED: exit code $?"
}

# Those on any device in turn, several at once, and random programs and loops in each of four processes.
part_tests() {
    local first name
    [ -x "$build/tests/random_programs" ] || { echo "no tests in $build"; return 77; }
    [[ $device == cuda* ]] || { echo "of CUDA only"; return 77; }
    export BERTH_TEST_DEVICES=cuda BERTH_FLAGS=${BERTH_FLAGS:+$BERTH_FLAGS,}default_device=$device
    export BERTH_TEST_FLAGS=${BERTH_TEST_FLAGS:+$BERTH_TEST_FLAGS,}default_device=$device
    for first in 0 1 2 3; do
        first=$((first * 1000 + 10 * ${BERTH_TEST_DRAW:-0} + 1))
        echo "random_programs --gpus --seeds $first..$((first + programs - 1))"
        echo "random_programs --loops --gpus --seeds $first..$((first + programs / 2))"
    done >"$work/tests.list"
    for name in $device_tests; do echo "${name}_test"; done >>"$work/tests.list"
    xargs -P "$jobs" -a "$work/tests.list" -I{} bash -c 'test_on_device {}' >"$work/tests.said"
    for name in $(sed -n 's/ .*FAILED.*//p' "$work/tests.said" | sort -u); do tail -n 40 "$work/test.$name"*; done
    cat "$work/tests.said"
    echo "$(grep -c passed "$work/tests.said") passed, $(grep -c FAILED "$work/tests.said") failed"
    ! grep -q FAILED "$work/tests.said"
}

# Examples that ask for simulated GPUs run on real ones where there are enough of them.
part_examples() {
    local gpus expected stem name flags wants more passed=0 failed=0 skipped=0
    gpus=$("$build/berth" devices --json | grep -c '"driver": "cuda"')
    for expected in examples/*.expected examples/*/*.expected; do
        stem=${expected%.expected} name=$(basename "$stem")
        flags=$(sed -n 's/^BERTH_FLAGS=//p' "$stem.env" 2>/dev/null)
        wants=0 more=$BERTH_TEST_FLAGS
        case ,$flags, in
        *,devices=sim:gpu\**) wants=${flags#*sim:gpu\*}; wants=${wants%%[!0-9]*} ;;
        *,devices=sim:gpu,*) wants=1 ;;
        *,devices=*) wants=99 ;;
        esac
        if [ $wants -gt "$gpus" ] || grep -qE 'Simulated|[0-9] [KM]iB' "$expected" || grep -qs CUDA_VISIBLE_DEVICES "$stem.env"; then
            skipped=$((skipped + 1)) # one of those that print sizes takes all memory of the card, which other parts use at the same time
            echo "$name: left out, for it asks for simulated devices, or for more than there are, or prints sizes of their memory"
            continue
        fi
        [ $wants -eq 0 ] && more=$more,default_device=$device || more=$more,devices=
        if BERTH_TEST_FLAGS=${more#,} bash tests/run_example.sh "$build/examples/${name%%.*}" "$expected"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "$name: failed"
        fi
    done
    echo "$passed passed, $failed failed, $skipped left out that ask for simulated devices"
    [ $failed -eq 0 ]
}

# The demonstrations, each a process; their own checks say whether what they learned, or loaded, is right.
part_training() {
    local name passed=0 failed=0
    local -A processes=()
    for name in '' conv lstm vae gpt resnet18 gpt2; do
        BERTH_FLAGS=$BERTH_FLAGS,default_device=$device timeout -k 5 110 "$build/berth" demo $name \
            --save "$work/demo.${name:-digits}.safetensors" >"$work/demo.${name:-digits}" 2>&1 </dev/null & processes[${name:-digits}]=$!
    done
    for name in "${!processes[@]}"; do
        wait "${processes[$name]}" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "$name failed"; }
        printf '\n%s:\n' "$name"
        tail -n 25 "$work/demo.$name"
    done
    rm -f "$work"/demo.*.safetensors
    echo "$passed demonstrations passed, $failed failed"
    [ $failed -eq 0 ]
}

# Two names for one card in one program, then two programs that use the card at once.
part_contexts() {
    local first second rc=0
    if [[ $device == cuda* ]]; then
        BERTH_FLAGS="$BERTH_FLAGS,contexts=dev0->cuda0;dev1->cuda0" "$build/examples/two_contexts" || rc=1
    fi
    measure bench --device "$device" --shrink "$((shrink * 4))" --repetitions 5 matmul_f32_4096 large_sum launch & first=$!
    measure bench --device "$device" --shrink "$((shrink * 4))" --repetitions 5 matmul_f32_4096 large_sum launch & second=$!
    wait $first || rc=1
    wait $second || rc=1
    [ $rc -eq 0 ] && echo "two names and two programs on one card"
    return $rc
}

# Each tool over one case of each row and one in a thousand of the others, in two processes. Where blocks of memory are allocations of
# their own, their ends are seen.
part_sanitizer() {
    local test=$build/tests/tests.conformance_test tool half log rc=0 skipped=0 flags=probe=direct${BERTH_TEST_FLAGS:+,$BERTH_TEST_FLAGS}
    local -A pids=()
    have compute-sanitizer || { echo "no compute-sanitizer"; return 77; }
    [[ $device == cuda* ]] || { echo "of CUDA only"; return 77; }
    [ -x "$test" ] || { echo "no conformance test in $build"; return 77; }
    for tool in memcheck racecheck synccheck initcheck; do
        for half in 0 1; do
            BERTH_TEST_DEVICES=cuda BERTH_TEST_FLAGS=$flags,memory_pool=off BERTH_TEST_ONE_IN=1000 BERTH_TEST_PART=$half/2 \
                compute-sanitizer --tool $tool --error-exitcode 99 "$test" >"$work/sanitizer.$tool.$half" 2>&1 & pids[$tool.$half]=$!
        done
    done
    for log in "${!pids[@]}"; do
        wait "${pids[$log]}" || rc=1
        printf '\n%s:\n' "$log"
        tail -n 60 "$work/sanitizer.$log"
        ! grep -q 'Device not supported' "$work/sanitizer.$log" || skipped=1
    done
    [ $skipped -eq 0 ] || { echo "compute-sanitizer does not support this device"; return 77; }
    for log in "${!pids[@]}"; do
        printf '%s: %s; ' "$log" "$(grep -oE '(ERROR|RACECHECK) SUMMARY: .*' "$work/sanitizer.$log" | tail -n 1 || echo 'no summary')"
    done
    echo
    return $rc
}

measure() { "$build/berth" "$@"; }

# In groups, so that one that takes too long leaves the others' figures.
part_bench() {
    local group rc=0
    while read -r group; do
        measure bench --json --device "$device" --shrink "$shrink" --repetitions 10 $group </dev/null >"$work/bench.part" || rc=1
        [ ! -s "$work/bench.part" ] || mv "$work/bench.part" "$work/bench.$(printf %s "$group" | tr -c 'a-z0-9_\n' . | cut -c1-100).json"
    done <<<"$bench_groups"
    cat "$work"/bench.*.json
    echo "$(cat "$work"/bench.*.json | grep -c '"row"') rows"
    return $rc
}

part_peers() {
    have python3 || { echo "no python3"; return 77; }
    local rc=0
    export PIP_RETRIES=0 PIP_DEFAULT_TIMEOUT=10 # there may be no network
    python3 bench/peers.py --berth "$build/berth" --device "$device" --shrink "$shrink" --limit $((part_seconds - 45)) --seconds 0.4 --json \
        --write "$work/peers.md" $peer_rows >"$work/peers.json" || rc=$?
    cat "$work/peers.md" 2>/dev/null
    [ -s "$work/peers.md" ] || { echo "no figures of peers"; return 1; }
    echo "$(grep -c '"row"' "$work/peers.json") rows; exit code $rc"
    return $rc
}

# The first result with kernels that are to be compiled, then with those that the disk keeps.
part_first() {
    local cache i
    cache=$(mktemp -d "$work/cache.XXXX")
    for i in 1 2 3 4 5 6; do
        BERTH_FLAGS=$BERTH_FLAGS,cache=$cache measure bench --first-result --device "$device" >"$work/first.$i.json" || return 1
        cat "$work/first.$i.json"
    done
    rm -rf "$cache"
    echo "first result: cold $(sed -n 's/.*"first_result_s": \([0-9.e-]*\).*/\1/p' "$work/first.1.json" | cut -c1-6) s," \
        "again $(sed -n 's/.*"first_result_s": \([0-9.e-]*\).*/\1/p' "$work/first.6.json" | cut -c1-6) s"
}

# ---- results

list_of() { # FILE...: a JSON list of what they hold, or null
    local file text=''
    for file; do [ ! -s "$file" ] || text+="${text:+, }$(cat "$file")"; done
    [ -z "$text" ] && echo null || echo "[$text]"
}
quoted() { sed 's/\\/\\\\/g; s/"/\\"/g; s/[[:cntrl:]]/ /g; s/^/"/; s/$/"/' <<<"$1"; }
one_of() { [ -s "$1" ] && cat "$1" || echo null; }

write_figures() {
    local name comma='' key value
    echo '{'
    while read -r key value; do echo "\"$key\": $(quoted "$value"),"; done <"$work/facts"
    echo "\"device\": $(quoted "$device"), \"shrink\": $shrink, \"parts\": ["
    for name in "${names[@]}"; do
        printf '%s{"part": "%s", "result": %s, "seconds": %s, "says": %s}\n' "$comma" "$name" "$(quoted "$(cat "$work/$name.result")")" \
            "$(cat "$work/$name.seconds")" "$(quoted "$(tail -n 1 "$work/$name.log" | cut -c1-300)")"
        comma=,
    done
    echo "], \"bench\": $(list_of "$work"/bench.*.json), \"peers\": $(one_of "$work/peers.json"), \"first\": $(list_of "$work"/first.?.json)}"
}

write_table() {
    local name
    echo "# berth on $device, $(date +%F)"
    echo
    sed 's/^/    /' "$work/facts"
    printf '\n| part | result | seconds | what it says |\n| --- | --- | ---: | --- |\n'
    for name in "${names[@]}"; do
        printf '| %s | %s | %s | %s |\n' "$name" "$(cat "$work/$name.result")" "$(cat "$work/$name.seconds")" \
            "$(tail -n 1 "$work/$name.log" | tr '|' '/' | cut -c1-200)"
    done
    if compgen -G "$work/bench.*.json" >/dev/null && have python3; then
        printf '\n## Rows\n\n'
        python3 "$root/bench/libraries/rows_table.py" "$work"/bench.*.json
    fi
    [ ! -s "$work/peers.md" ] || { printf '\n#'; cat "$work/peers.md"; }
}

finish() {
    local name
    for name in "${names[@]}"; do printf '\n==== %s\n' "$name"; tail -c 400000 "$work/$name.log"; done >>"$out/log.txt"
    write_figures >"$out/figures.json"
    write_table >"$out/table.md"
    echo "written: $out/table.md, figures.json, log.txt"
}

# ---- all parts: what is right first, many at once; then what is timed, alone

absent='' cuda_flags='' given=no
[ -z "$build" ] && build=$root/build/gpu || given=yes
find_cuda
find_facts
export BERTH_FLAGS=${BERTH_FLAGS:-}${cuda_flags:+,$cuda_flags}
BERTH_FLAGS=${BERTH_FLAGS#,}
export BERTH_TEST_FLAGS=${BERTH_TEST_FLAGS:-}${cuda_flags:+,$cuda_flags}
export LD_LIBRARY_PATH=$build:$build/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
large="large_elementwise large_sum large_softmax large_layer_norm large_transpose_add large_gather"
copies="upload download upload_pinned download_pinned"
if [ "$shrink" = 1 ]; then
    programs=6
    bench_groups="$large"$'\n'"$copies"$'\nattention attention_causal attention_grad kv_cache conv_step vae_step gpt_step gpt_step_bf16 gpt2_prompt gpt2_token'
    for side in 1024 2048 4096 8192 16384; do
        bench_groups+=$'\n'"matmul_f32_$side matmul_tf32_$side matmul_fast_bf16_$side matmul_bf16_$side"
    done
    bench_groups+=$'\nlaunch launch_100 launch_graph startup compile dependent_adds\nstep_small step_medium step_large'
    bench_groups+=$'\nrandom100m random100m_mixed elementwise elementwise_compiled linspace softmax layer_norm sum sum_axis0 sum_axis1'
    bench_groups+=$'\ntranspose_add broadcast gather matmul1024 matmul2048 matmul4096 matmul_small argmax cumsum cumsum_short cumsum_axis0'
    bench_groups+=$'\nsort sort_short sort4m sort_rows topk permutation normal scatter_add scatter_add_one scatter_axis scatter_rows embedding_grad take_gradient'
    bench_groups+=$'\nconv3x3 conv7x7s2 conv1x1 conv_depthwise conv_grad resnet18 resnet18_one\nscan_steps while_steps gru_forward gru_step'
    linear=inv_many
    for side in 512 1024 2048; do linear+=" cholesky_$side solve_$side inv_$side qr_$side eigh_$side svd_$side"; done
    bench_groups+=$'\n'"$linear"
    bench_groups+=$'\nfft fft_lines cholesky short_rows narrow_sums nbody softmax_gradient layer_norm_gradient hvp'
    peer_rows="$large $copies"
    for side in 4096 8192 1024 2048 16384; do
        for kind in f32 tf32 fast_bf16 bf16; do peer_rows+=" matmul_${kind}_$side"; done
        [ $side != 8192 ] || peer_rows+=" step_small step_medium step_large random100m launch launch_100 launch_graph"
    done
    peer_rows+=" conv3x3 conv7x7s2 conv1x1 conv_depthwise conv_grad resnet18 resnet18_one sort4m sort_rows topk permutation normal scatter_rows embedding_grad"
    peer_rows+=" attention attention_causal attention_grad kv_cache conv_step vae_step gpt_step gpt_step_bf16 gpt2_prompt gpt2_token fft fft_lines $linear"
    peer_rows+=" elementwise_compiled softmax layer_norm gru_forward gru_step random100m_mixed compile startup"
else
    programs=1
    bench_groups="$large"$'\n'"$copies"$'\nmatmul_f32_1024 matmul_tf32_1024 matmul_bf16_1024\nstep_small launch launch_100 launch_graph'
    peer_rows="large_sum $copies matmul_f32_1024 launch"
fi
[ -z "$rows" ] || { bench_groups=$rows; peer_rows=$rows; }
export root device build work shrink one_in jobs given cuda_flags device_tests programs bench_groups peer_rows
export -f $(compgen -A function)

part build 170
if [ ! -x "$build/berth" ]; then
    absent="no berth to run"
elif ! timeout 60 "$build/berth" bench --first-result --device "$device" >"$work/look" 2>&1; then
    absent="no device $device: $(tail -n 1 "$work/look" | sed 's/.*: //')"
fi
if [ -n "$absent" ]; then
    for name in "${names[@]:1}"; do part "$name" 10; done
    finish
    echo "$absent"
    ! grep -q FAILED "$work/build.result" && exit 77
    exit 1
fi
part conformance 150 &
part golden 150 &
part examples 120 &
part training 120 &
part contexts 60 &
wait
part tests 120 &
part sanitizer 130 &
wait
part first 40
part bench 170
part peers 200
finish
! grep -q FAILED "$work"/*.result
