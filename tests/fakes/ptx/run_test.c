/* Launches of PTX that is written by hand: control flow, barriers, memory, atomics, copies, counts, and the mistakes that end a launch.
 * Memory is watched for its bounds only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fakes/ptx/ptx.h"
#include "fakes/ptx/watch.h"

/* --- what watches ---------------------------------------------------------------------------------------------------- */

#define MEMORY UINT64_C(0x10000000)
#define MEMORY_BYTES ((size_t)4 << 20)

static unsigned char *memory;
static struct {
    uint32_t blocks, barriers, barrier_threads, warp_syncs, fences, atomics, commits, waits, non_coherent;
} seen;

struct watch_launch {
    int unused;
};
static watch_launch the_launch;

watch_launch *watch_launch_begin(const ptx_launch *launch) {
    memset(&seen, 0, sizeof seen);
    return &the_launch;
}
void watch_launch_end(watch_launch *watched) {}
void watch_block_begin(watch_launch *watched, uint32_t block, uint32_t threads, uint32_t shared_bytes) {
    seen.blocks++;
}
void watch_block_end(watch_launch *watched, uint32_t block) {}

bool watch_global(watch_launch *watched, const watch_request *request, unsigned char **host, int *lane,
                  char **problem) {
    for (int i = 0; i < PTX_WARP; i++) {
        if (!(request->mask >> i & 1)) continue;
        uint64_t at = request->address[i] - MEMORY;
        if (at > MEMORY_BYTES || request->bytes > MEMORY_BYTES - at) {
            *lane = i;
            *problem = strdup("outside of every allocation");
            return false;
        }
        host[i] = memory + at;
    }
    if (request->access == PTX_READ_NC) seen.non_coherent++;
    return true;
}

bool watch_shared(watch_launch *watched, const watch_request *request, int *lane, char **problem) { return true; }
void watch_barrier(watch_launch *watched, uint32_t block, const uint32_t *threads, uint32_t count) {
    seen.barriers++;
    seen.barrier_threads += count;
}
void watch_warp_sync(watch_launch *watched, uint32_t block, uint32_t first_thread, uint32_t mask) { seen.warp_syncs++; }
void watch_fence(watch_launch *watched, const watch_place *place, ptx_scope scope) { seen.fences++; }
void watch_atomic(watch_launch *watched, const watch_place *place, bool shared, uint64_t address, ptx_order order,
                  ptx_scope scope) {
    seen.atomics++;
}
void watch_async_commit(watch_launch *watched, const watch_place *place) { seen.commits++; }
void watch_async_wait(watch_launch *watched, const watch_place *place, uint32_t pending_groups) { seen.waits++; }

/* --- launches -------------------------------------------------------------------------------------------------------- */

/* The kernel `k` has one argument, the address of `memory`; %rd1 is that address, %r1 the thread's number, %rd2 the place of the
 * thread's 4-byte result. */
#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n\n"
#define ENTRY                                                                                        \
    ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n"                                            \
    "\t.reg .pred \t%p<20>;\n\t.reg .b16 \t%rs<20>;\n\t.reg .b32 \t%r<40>;\n\t.reg .f32 \t%f<20>;\n" \
    "\t.reg .f64 \t%fd<20>;\n\t.reg .b64 \t%rd<40>;\n"
#define START                                                                                         \
    "\tld.param.u64 \t%rd1, [k_param_0];\n\tmov.u32 \t%r1, %tid.x;\n\tmul.wide.u32 \t%rd3, %r1, 4;\n" \
    "\tadd.s64 \t%rd2, %rd1, %rd3;\n"
#define KERNEL(body) HEAD ENTRY START body "\tret;\n}\n"
#define RESULT(reg) "\tst.global.u32 \t[%rd2], " reg ";\n"

typedef struct shape {
    uint32_t grid, block, dynamic;
    uint64_t seed, most;
    int sample;
} shape;

static ptx_counts counts;
static bool three_axes; /* a grid of 3 x 2 x 2 blocks of 2 x 3 x 4 threads */

/* NULL, or the problem: of the caller to free. */
static char *launch_text(const char *text, shape s) {
    char *problem = NULL;
    ptx_module *module = ptx_parse(text, &problem);
    if (!module) fail_msg("%s in\n%s", problem, text);
    for (int i = 0; i < module->variable_count; i++) { /* constants and globals behind the results */
        ptx_variable *v = &module->variables[i];
        v->address = MEMORY + MEMORY_BYTES / 2 + (uint64_t)i * 4096;
        if (v->initial) memcpy(memory + (v->address - MEMORY), v->initial, v->bytes);
    }
    ptx_place_variables(module);
    uint64_t argument = MEMORY;
    ptx_launch launch = {.module = module,
                         .function = ptx_find(module, "k"),
                         .grid = {s.grid ? s.grid : 1, 1, 1},
                         .block = {s.block ? s.block : 32, 1, 1},
                         .dynamic_bytes = s.dynamic,
                         .arguments = (const unsigned char *)&argument,
                         .seed = s.seed,
                         .most_steps = s.most,
                         .sample = s.sample};
    if (three_axes) {
        memcpy(launch.grid, (uint32_t[]){3, 2, 2}, sizeof launch.grid);
        memcpy(launch.block, (uint32_t[]){2, 3, 4}, sizeof launch.block);
    }
    assert_non_null(launch.function);
    bool fine = ptx_run(&launch, &counts, &problem);
    assert_true(fine == !problem);
    ptx_free(module);
    return problem;
}

/* Runs a text that is right, with 20 seeds; after each the results of the threads are looked at. */
typedef void look(const uint32_t *result, uint32_t threads);
static void expect_results(const char *text, shape s, look *check) {
    for (s.seed = 0; s.seed < 20; s.seed++) {
        memset(memory, 0, 65536);
        char *problem = launch_text(text, s);
        if (problem) fail_msg("seed %llu: %s", (unsigned long long)s.seed, problem);
        check((const uint32_t *)(const void *)memory, s.block ? s.block : 32);
    }
}

/* Runs a text with a mistake: the message has all these words, for each seed. */
static void expect_problem(const char *text, shape s, const char *words) {
    for (s.seed = 0; s.seed < 8; s.seed++) {
        char *problem = launch_text(text, s), *copy = strdup(words), *rest = NULL;
        if (!problem) fail_msg("no problem, though \"%s\" was expected", words);
        for (char *word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest)) {
            if (!strstr(problem, word)) fail_msg("\"%s\" is not in \"%s\"", word, problem);
        }
        free(copy);
        free(problem);
    }
}

/* --- control flow ---------------------------------------------------------------------------------------------------- */

static void sums_to_thread(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < threads; t++) assert_int_equal(result[t], t * (t + 1) / 2);
}

static void loops(void **state) {
    expect_results(KERNEL("\tmov.u32 \t%r2, 0;\n\tmov.u32 \t%r3, 0;\n"
                          "$L__BB0_1:\n\tadd.s32 \t%r2, %r2, %r3;\n\tadd.s32 \t%r3, %r3, 1;\n"
                          "\tsetp.le.u32 \t%p1, %r3, %r1;\n\t@%p1 bra \t$L__BB0_1;\n\n" RESULT("%r2")),
                   (shape){.block = 100}, sums_to_thread);
    assert_true(counts.divergent > 100);
}

static void three_ways(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < threads; t++)
        assert_int_equal(result[t], (t % 2 ? (t % 4 == 1 ? 10u : 20u) : (t < 8 ? 30u : 40u)) + t);
}

/* Branches within branches that meet again; a guarded instruction; a ret in the middle. */
static void nested_branches(void **state) {
    expect_results(
        KERNEL("\tand.b32 \t%r2, %r1, 1;\n\tsetp.eq.s32 \t%p1, %r2, 0;\n\t@%p1 bra \t$L__BB0_3;\n\n"
               "\tand.b32 \t%r3, %r1, 3;\n\tsetp.ne.s32 \t%p2, %r3, 1;\n\t@%p2 bra \t$L__BB0_2;\n\n"
               "\tmov.u32 \t%r4, 10;\n\tbra.uni \t$L__BB0_6;\n\n"
               "$L__BB0_2:\n\tmov.u32 \t%r4, 20;\n\tbra.uni \t$L__BB0_6;\n\n"
               "$L__BB0_3:\n\tmov.u32 \t%r4, 40;\n\tsetp.lt.u32 \t%p3, %r1, 8;\n"
               "\t@%p3 mov.u32 \t%r4, 30;\n"
               "$L__BB0_6:\n\tadd.s32 \t%r4, %r4, %r1;\n" RESULT("%r4") "\t@!%p1 ret;\n\tmov.u32 \t%r4, %r4;\n"),
        (shape){.block = 64}, three_ways);
}

static void factorials(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < threads; t++) {
        uint32_t n = t % 9, product = 1;
        while (n) product *= n--;
        assert_int_equal(result[t], product + (t & 1));
    }
}

#define FACTORIAL                                                                                                  \
    ".func  (.param .b32 func_retval0) fact(\n\t.param .b32 fact_param_0\n)\n;\n"                                  \
    ".func  (.param .b32 func_retval0) fact(\n\t.param .b32 fact_param_0\n)\n{\n"                                  \
    "\t.reg .pred \t%p<3>;\n\t.reg .b32 \t%r<6>;\n\n"                                                              \
    "\tld.param.u32 \t%r1, [fact_param_0];\n\tmov.u32 \t%r5, 1;\n\tsetp.eq.s32 \t%p1, %r1, 0;\n"                   \
    "\t@%p1 bra \t$L__BB0_2;\n\n\tadd.s32 \t%r2, %r1, -1;\n"                                                       \
    "\t{ // callseq 0, 0\n\t.reg .b32 temp_param_reg;\n\t.param .b32 param0;\n\tst.param.b32 \t[param0+0], %r2;\n" \
    "\t.param .b32 retval0;\n\tcall.uni (retval0), \n\tfact, \n\t(\n\tparam0\n\t);\n"                              \
    "\tld.param.b32 \t%r3, [retval0+0];\n\t} // callseq 0\n\tmul.lo.s32 \t%r5, %r3, %r1;\n\n"                      \
    "$L__BB0_2:\n\tst.param.b32 \t[func_retval0+0], %r5;\n\tret;\n}\n"
#define CALL(to, from)                                                                                            \
    "\t{ // callseq 1, 0\n\t.reg .b32 temp_param_reg;\n\t.param .b32 param0;\n\tst.param.b32 \t[param0+0], " from \
    ";\n\t.param .b32 retval0;\n\tcall.uni (retval0), \n\tfact, \n\t(\n\tparam0\n\t);\n"                          \
    "\tld.param.b32 \t" to ", [retval0+0];\n\t} // callseq 1\n"

/* Recursion of a depth that differs from lane to lane, called from two places. */
static void calls(void **state) {
    expect_results(HEAD FACTORIAL ENTRY START
                   "\trem.u32 \t%r2, %r1, 9;\n\tand.b32 \t%r3, %r1, 1;\n\tsetp.eq.s32 \t%p1, %r3, 0;\n"
                   "\t@%p1 bra \t$L__BB1_2;\n\n" CALL(
                       "%r4", "%r2") "\tadd.s32 \t%r4, %r4, 1;\n\tbra.uni \t$L__BB1_3;\n\n"
                                     "$L__BB1_2:\n" CALL("%r4", "%r2") "\n$L__BB1_3:\n" RESULT("%r4") "\tret;\n}\n",
                   (shape){.block = 64}, factorials);
    expect_problem(HEAD FACTORIAL ENTRY START "\tmov.u32 \t%r2, 1000;\n" CALL("%r4", "%r2") RESULT("%r4") "\tret;\n}\n",
                   (shape){0}, "deep|call.uni|thread 0");
}

static void endless_loops(void **state) {
    expect_problem(KERNEL("$L__BB0_1:\n\tadd.s32 \t%r1, %r1, 1;\n\tbra.uni \t$L__BB0_1;\n\n"), (shape){.most = 10000},
                   "k|endless loop|10000|block 0, thread 0");
    expect_problem(KERNEL("\ttrap;\n"), (shape){0}, "stops itself|trap|thread 0");
}

/* --- lanes together -------------------------------------------------------------------------------------------------- */

static void shuffled(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) {
        uint32_t down = t + 3 < 32 ? t + 3 : t, up = t % 8 >= 2 ? t - 2 : t;
        assert_int_equal(result[t], down + 100 * up + 10000 * (t ^ 5) + 1000000 * (t / 16 * 16 + 7));
    }
}

/* The lanes come to the shuffles from two branches. c of shfl: 31 for down, bfly, idx of whole warps; the segment in bits 8 to 12. */
static void shuffles(void **state) {
    expect_results(KERNEL("\tmov.u32 \t%r2, %r1;\n\tsetp.lt.u32 \t%p1, %r1, 13;\n\t@%p1 bra \t$L__BB0_1;\n\n"
                          "\tadd.s32 \t%r2, %r2, 5;\n\tsub.s32 \t%r2, %r2, 5;\n"
                          "$L__BB0_1:\n\tshfl.sync.down.b32 \t%r3|%p2, %r2, 3, 31, -1;\n"
                          "\tshfl.sync.up.b32 \t%r4|%p3, %r2, 2, 6144, -1;\n"
                          "\tshfl.sync.bfly.b32 \t%r5|%p4, %r2, 5, 31, -1;\n"
                          "\tshfl.sync.idx.b32 \t%r6|%p5, %r2, 7, 4127, -1;\n"
                          "\tmad.lo.s32 \t%r3, %r4, 100, %r3;\n\tmad.lo.s32 \t%r3, %r5, 10000, %r3;\n"
                          "\tmad.lo.s32 \t%r3, %r6, 1000000, %r3;\n" RESULT("%r3")),
                   (shape){0}, shuffled);
}

static void inside_flags(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) assert_int_equal(result[t], t < 16);
}

static void shuffle_predicates(void **state) {
    expect_results(
        KERNEL("\tshfl.sync.down.b32 \t%r3|%p2, %r1, 16, 31, -1;\n\tselp.u32 \t%r4, 1, 0, %p2;\n" RESULT("%r4")),
        (shape){0}, inside_flags);
}

static void votes_counted(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) {
        uint32_t members = t < 20 ? 0xFFFFF : 0xFFF00000, yes = members & 0x3FFFF;
        assert_int_equal(result[t], yes + (t < 20 ? 2u : 0) * 0x10000000u);
    }
}

/* Two sets of members at one instruction. */
static void votes(void **state) {
    expect_results(
        KERNEL("\tsetp.lt.u32 \t%p1, %r1, 20;\n\tselp.b32 \t%r2, 1048575, -1048576, %p1;\n"
               "\tsetp.lt.u32 \t%p2, %r1, 18;\n\tvote.sync.ballot.b32 \t%r3, %p2, %r2;\n"
               "\tvote.sync.any.pred \t%p3, %p2, %r2;\n\tvote.sync.all.pred \t%p4, %p2, %r2;\n"
               "\tvote.sync.uni.pred \t%p5, %p1, %r2;\n"
               "\tselp.u32 \t%r4, 268435456, 0, %p3;\n\tadd.s32 \t%r3, %r3, %r4;\n"
               "\tselp.u32 \t%r4, 1, 0, %p4;\n\tadd.s32 \t%r3, %r3, %r4;\n"
               "\tand.pred \t%p5, %p5, %p3;\n\tselp.u32 \t%r4, 268435456, 0, %p5;\n\tadd.s32 \t%r3, %r3, %r4;\n" RESULT(
                   "%r3")),
        (shape){0}, votes_counted);
}

static void matched(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) {
        uint32_t same = 0x11111111u << t % 4;
        assert_int_equal(result[t], same ^ 496 ^ (t == 0));
    }
}

static void other_votes(void **state) {
    expect_results(KERNEL("\tand.b32 \t%r2, %r1, 3;\n\tmatch.any.sync.b32 \t%r3, %r2, -1;\n"
                          "\tredux.sync.add.u32 \t%r4, %r1, -1;\n\txor.b32 \t%r3, %r3, %r4;\n"
                          "\tmatch.all.sync.b32 \t%r5|%p1, %r2, -1;\n\txor.b32 \t%r3, %r3, %r5;\n"
                          "\telect.sync \t%r6|%p2, -1;\n\tselp.u32 \t%r7, 1, 0, %p2;\n\txor.b32 \t%r3, %r3, %r7;\n"
                          "\txor.b32 \t%r3, %r3, %r6;\n" RESULT("%r3")),
                   (shape){0}, matched);
}

static void reduced(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) assert_int_equal(result[t], (uint32_t)-16 + 15 + 31 * 256 + 0);
}

static void reductions(void **state) {
    expect_results(
        KERNEL(
            "\tadd.s32 \t%r2, %r1, -16;\n\tredux.sync.min.s32 \t%r3, %r2, -1;\n\tredux.sync.max.s32 \t%r4, %r2, -1;\n"
            "\tredux.sync.or.b32 \t%r5, %r1, -1;\n\tredux.sync.and.b32 \t%r6, %r1, -1;\n"
            "\tadd.s32 \t%r3, %r3, %r4;\n\tmad.lo.s32 \t%r3, %r5, 256, %r3;\n\tadd.s32 \t%r3, %r3, %r6;\n" RESULT(
                "%r3")),
        (shape){0}, reduced);
}

static void wrong_members(void **state) {
    expect_problem(KERNEL("\tshfl.sync.idx.b32 \t%r3|%p2, %r1, 0, 31, 15;\n"), (shape){0},
                   "not in its member mask 0xf|thread 4");
    expect_problem(
        KERNEL("\tsetp.lt.u32 \t%p1, %r1, 16;\n\tselp.b32 \t%r2, -1, -65536, %p1;\n\tbar.warp.sync \t%r2;\n"),
        (shape){0}, "differ|thread");
    expect_problem(KERNEL("\tsetp.lt.u32 \t%p1, %r1, 16;\n\t@%p1 ret;\n\tbar.warp.sync \t-1;\n"), (shape){0},
                   "names threads that have ended|0xffff)|bar.warp.sync");
    expect_problem(KERNEL("\tsetp.lt.u32 \t%p1, %r1, 16;\n\t@%p1 bra \t$L__BB0_1;\n\n\tbar.warp.sync \t-1;\n\tbra.uni "
                          "\t$L__BB0_2;\n\n"
                          "$L__BB0_1:\n\tshfl.sync.idx.b32 \t%r3|%p2, %r1, 0, 31, -1;\n$L__BB0_2:\n" RESULT("%r3")),
                   (shape){0}, "wait for ever|threads 0-15|threads 16-31|bar.warp.sync|shfl.sync.idx");
}

/* --- barriers -------------------------------------------------------------------------------------------------------- */

static void sums_of_block(const uint32_t *result, uint32_t threads) {
    assert_int_equal(result[0], threads * (threads - 1) / 2);
}

#define TREE                                                                                                          \
    "\t.shared .align 4 .b8 tile[1024];\n" START                                                                      \
    "\tshl.b32 \t%r2, %r1, 2;\n\tmov.u32 \t%r3, tile;\n\tadd.s32 \t%r4, %r3, %r2;\n\tst.shared.u32 \t[%r4], %r1;\n"   \
    "\tmov.u32 \t%r5, 128;\n$L__BB0_1:\n\tbar.sync \t0;\n\tsetp.ge.u32 \t%p1, %r1, %r5;\n\t@%p1 bra \t$L__BB0_2;\n\n" \
    "\tshl.b32 \t%r6, %r5, 2;\n\tadd.s32 \t%r7, %r4, %r6;\n\tld.shared.u32 \t%r8, [%r7];\n"                           \
    "\tld.shared.u32 \t%r9, [%r4];\n\tadd.s32 \t%r9, %r9, %r8;\n\tst.shared.u32 \t[%r4], %r9;\n"                      \
    "$L__BB0_2:\n\tshr.u32 \t%r5, %r5, 1;\n\tsetp.ne.s32 \t%p2, %r5, 0;\n\t@%p2 bra \t$L__BB0_1;\n\n"                 \
    "\tbar.sync \t0;\n\tld.shared.u32 \t%r9, [tile];\n" RESULT("%r9")

static void block_sums(void **state) {
    expect_results(HEAD ENTRY TREE "\tret;\n}\n", (shape){.block = 256}, sums_of_block);
    assert_int_equal(seen.barriers, 9);
    assert_int_equal(seen.barrier_threads, 9 * 256);
    assert_int_equal(counts.barriers, 9 * 8);
}

static void handed_over(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) assert_int_equal(result[t], 0);
    for (uint32_t t = 32; t < 64; t++) assert_int_equal(result[t], t - 32);
    for (uint32_t t = 64; t < 96; t++) assert_int_equal(result[t], 4);
}

/* The first warp writes and arrives; the second waits for it; the third takes no part in this barrier. */
static void named_barriers(void **state) {
    expect_results(
        HEAD ENTRY
        "\t.shared .align 4 .b8 tile[128];\n" START
        "\tmov.u32 \t%r9, 0;\n\tshr.u32 \t%r2, %r1, 5;\n\tand.b32 \t%r3, %r1, 31;\n\tshl.b32 \t%r3, %r3, 2;\n"
        "\tmov.u32 \t%r4, tile;\n\tadd.s32 \t%r4, %r4, %r3;\n\tmov.u32 \t%r10, 2;\n"
        "\tsetp.eq.s32 \t%p1, %r2, 1;\n\t@%p1 bra \t$L__BB0_1;\n\n\tsetp.eq.s32 \t%p1, %r2, 2;\n\t@%p1 bra "
        "\t$L__BB0_2;\n\n"
        "\tst.shared.u32 \t[%r4], %r1;\n\tbar.arrive \t%r10, 64;\n\tbra.uni \t$L__BB0_3;\n\n"
        "$L__BB0_1:\n\tbar.sync \t%r10, 64;\n\tld.shared.u32 \t%r9, [%r4];\n\tbra.uni \t$L__BB0_3;\n\n"
        "$L__BB0_2:\n\tsetp.lt.u32 \t%p2, %r1, 68;\n\tbar.red.popc.u32 \t%r9, 1, 32, %p2;\n"
        "$L__BB0_3:\n" RESULT("%r9") "\tret;\n}\n",
        (shape){.block = 96}, handed_over);
}

static void agreed(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < threads; t++) assert_int_equal(result[t], 2);
}

static void barrier_reductions(void **state) {
    expect_results(
        KERNEL(
            "\tsetp.lt.u32 \t%p1, %r1, 68;\n\tbar.red.and.pred \t%p2, 0, %p1;\n\tbar.red.or.pred \t%p3, 0, %p1;\n"
            "\tselp.u32 \t%r2, 1, 0, %p2;\n\tselp.u32 \t%r3, 2, 0, %p3;\n\tadd.s32 \t%r2, %r2, %r3;\n" RESULT("%r2")),
        (shape){.block = 96}, agreed);
}

static void wrong_barriers(void **state) {
    expect_problem(
        KERNEL("\tsetp.lt.u32 \t%p1, %r1, 16;\n\t@%p1 bra \t$L__BB0_1;\n\n\tbar.sync \t0;\n$L__BB0_1:\n" RESULT("%r1")),
        (shape){.block = 64}, "not all threads reach a barrier|threads 16-|bar.sync|threads 0-15 have ended");
    expect_problem(KERNEL("\tsetp.lt.u32 \t%p1, %r1, 32;\n\t@%p1 ret;\n\tbar.sync \t0;\n"), (shape){.block = 64},
                   "threads 32-63 wait for ever|threads 0-31 have ended");
    expect_problem(KERNEL("\tsetp.lt.u32 \t%p1, %r1, 32;\n\t@%p1 bra \t$L__BB0_1;\n\n\tbar.sync \t1;\n\tret;\n"
                          "$L__BB0_1:\n\tbar.sync \t2;\n"),
                   (shape){.block = 64}, "threads 0-31 wait for ever|threads 32-63 wait for ever");
    expect_problem(KERNEL("\tbar.sync \t0, 48;\n"), (shape){.block = 64}, "multiple of 32");
    expect_problem(KERNEL("\tsetp.lt.u32 \t%p1, %r1, 32;\n\t@%p1 bra \t$L__BB0_1;\n\n\tbar.sync \t1, 64;\n\tret;\n"
                          "$L__BB0_1:\n\tbar.sync \t1, 96;\n"),
                   (shape){.block = 64}, "elsewhere|barrier 1");
    expect_problem(KERNEL("\tbar.arrive \t1, 64;\n\tbar.arrive \t1, 64;\n"), (shape){0}, "twice|barrier 1");
}

/* --- memory ---------------------------------------------------------------------------------------------------------- */

static void loaded(const uint32_t *result, uint32_t threads) {
    const unsigned char *bytes = memory + 4096;
    for (uint32_t t = 0; t < 32; t++) {
        const unsigned char *at = bytes + t * 16;
        uint32_t sum = (uint32_t)(int8_t)at[1] + at[2] + (uint32_t)(int16_t)(at[4] | at[5] << 8);
        assert_int_equal(result[t], sum);
        assert_memory_equal(memory + 8192 + t * 16, at, 16);
    }
}

static void loads_and_stores(void **state) {
    for (uint32_t i = 0; i < 512; i++) memory[4096 + i] = (unsigned char)(i * 37 + 100);
    const char *text = KERNEL(
        "\tmul.wide.u32 \t%rd4, %r1, 16;\n\tadd.s64 \t%rd5, %rd1, %rd4;\n"
        "\tld.global.s8 \t%r2, [%rd5+4097];\n\tld.global.nc.u8 \t%r3, [%rd5+4098];\n\tld.global.s16 \t%r4, "
        "[%rd5+4100];\n"
        "\tadd.s32 \t%r2, %r2, %r3;\n\tadd.s32 \t%r2, %r2, %r4;\n" RESULT(
            "%r2") "\tld.global.v4.u32 \t{%r5, %r6, %r7, %r8}, [%rd5+4096];\n"
                   "\tst.global.v2.u32 \t[%rd5+8192], {%r5, %r6};\n\tmov.b64 \t%rd6, {%r7, %r8};\n"
                   "\tst.global.v2.u16 \t[%rd5+8200], {%rs1, %rs2};\n\tst.volatile.global.u64 \t[%rd5+8200], %rd6;\n");
    for (uint64_t seed = 0; seed < 3; seed++) {
        char *problem = launch_text(text, (shape){.seed = seed});
        if (problem) fail_msg("%s", problem);
        loaded((const uint32_t *)(const void *)memory, 32);
    }
    assert_int_equal(seen.non_coherent, 1);
}

static void by_generic_address(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) assert_int_equal(result[t], t + 5 + (t % 2) * 2);
}

/* One instruction reaches shared memory in some lanes and local memory in others. */
static void generic_addresses(void **state) {
    expect_results(
        HEAD ENTRY
        "\t.local .align 8 .b8 \t__local_depot0[16];\n\t.reg .b64 \t%SP;\n\t.reg .b64 \t%SPL;\n"
        "\t.shared .align 4 .b8 tile[128];\n\tmov.u64 \t%SPL, __local_depot0;\n\tcvta.local.u64 \t%SP, %SPL;\n" START
        "\tmov.u64 \t%rd4, tile;\n\tcvta.shared.u64 \t%rd5, %rd4;\n\tadd.s64 \t%rd5, %rd5, %rd3;\n\tadd.u64 \t%rd6, "
        "%SP, 8;\n"
        "\tand.b32 \t%r2, %r1, 1;\n\tsetp.eq.s32 \t%p1, %r2, 0;\n\tselp.b64 \t%rd7, %rd5, %rd6, %p1;\n"
        "\tadd.s32 \t%r3, %r1, 5;\n\tst.u32 \t[%rd7], %r3;\n\tld.u32 \t%r4, [%rd7];\n"
        "\tisspacep.local \t%p2, %rd7;\n\tselp.u32 \t%r5, 1, 0, %p2;\n\tadd.s32 \t%r4, %r4, %r5;\n"
        "\t@!%p1 ld.local.u32 \t%r6, [%SPL+8];\n\t@!%p1 sub.s32 \t%r6, %r6, %r3;\n\t@!%p1 add.s32 \t%r4, %r4, %r6;\n"
        "\tisspacep.shared \t%p3, %rd7;\n\tselp.u32 \t%r5, 0, 1, %p3;\n\tadd.s32 \t%r4, %r4, %r5;\n" RESULT(
            "%r4") "\tret;\n}\n",
        (shape){0}, by_generic_address);
    assert_true(counts.local_bytes > 0);
}

static void places(const uint32_t *result, uint32_t threads) {
    for (uint32_t block = 0; block < 12; block++) {
        for (uint32_t t = 0; t < 24; t++) {
            const uint32_t *at = result + (block * 24 + t) * 4;
            assert_int_equal(at[0], t % 2 + 10 * (t / 2 % 3) + 100 * (t / 6));
            assert_int_equal(at[1], block % 3 + 10 * (block / 3 % 2) + 100 * (block / 6));
            assert_int_equal(at[2], 234 + 322000);
            assert_int_equal(at[3], t + 2 * (1u << t));
        }
    }
}

/* Blocks and grids of three axes. */
static void special_registers(void **state) {
    static const char *text = HEAD ENTRY
        "\tld.param.u64 \t%rd1, [k_param_0];\n"
        "\tmov.u32 \t%r1, %tid.x;\n\tmov.u32 \t%r2, %tid.y;\n\tmov.u32 \t%r3, %tid.z;\n\tmad.lo.s32 \t%r4, %r2, 10, "
        "%r1;\n\tmad.lo.s32 \t%r4, %r3, 100, %r4;\n"
        "\tmov.u32 \t%r5, %ctaid.x;\n\tmov.u32 \t%r6, %ctaid.y;\n\tmov.u32 \t%r7, %ctaid.z;\n\tmad.lo.s32 \t%r8, %r6, "
        "10, %r5;\n\tmad.lo.s32 \t%r8, %r7, 100, %r8;\n"
        "\tmov.u32 \t%r9, %ntid.x;\n\tmov.u32 \t%r10, %ntid.y;\n\tmov.u32 \t%r11, %ntid.z;\n\tmul.lo.s32 \t%r12, %r9, "
        "100;\n\tmad.lo.s32 \t%r12, %r10, 10, %r12;\n\tadd.s32 \t%r12, %r12, %r11;\n"
        "\tmov.u32 \t%r13, %nctaid.x;\n\tmov.u32 \t%r14, %nctaid.y;\n\tmov.u32 \t%r15, %nctaid.z;\n"
        "\tmad.lo.s32 \t%r12, %r13, 100000, %r12;\n\tmad.lo.s32 \t%r12, %r14, 10000, %r12;\n\tmad.lo.s32 \t%r12, %r15, "
        "1000, %r12;\n"
        "\tmov.u32 \t%r16, %laneid;\n\tmov.u32 \t%r17, %lanemask_lt;\n\tmov.u32 \t%r18, %lanemask_ge;\n\tnot.b32 "
        "\t%r18, %r18;\n"
        "\tadd.s32 \t%r19, %r17, %r18;\n\tadd.s32 \t%r19, %r19, 2;\n\tadd.s32 \t%r19, %r19, %r16;\n"
        "\tmad.lo.s32 \t%r20, %r7, 2, %r6;\n\tmad.lo.s32 \t%r20, %r20, 3, %r5;\n\tmad.lo.s32 \t%r20, %r20, 24, %r16;\n"
        "\tmul.wide.u32 \t%rd3, %r20, 16;\n\tadd.s64 \t%rd2, %rd1, %rd3;\n\tst.global.v4.u32 \t[%rd2], {%r4, %r8, "
        "%r12, %r19};\n"
        "\tprefetch.global.L2 \t[%rd2];\n\tmov.u64 \t%rd4, %clock64;\n\tret;\n}\n";
    three_axes = true;
    expect_results(text, (shape){0}, places);
    three_axes = false;
}

static void from_table(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) assert_int_equal(result[t], 11 * (t % 4 + 1) + 7);
}

static void variables(void **state) {
    expect_results(
        HEAD ".const .align 4 .b8 table[16] = {11, 0, 0, 0, 22, 0, 0, 0, 33, 0, 0, 0, 44};\n"
             ".global .align 4 .b8 seven[4] = {7};\n" ENTRY START
             "\tand.b32 \t%r2, %r1, 3;\n\tmul.wide.u32 \t%rd4, %r2, 4;\n\tmov.u64 \t%rd5, table;\n\tadd.s64 \t%rd5, "
             "%rd5, %rd4;\n"
             "\tld.const.u32 \t%r3, [%rd5];\n\tld.global.u32 \t%r4, [seven];\n\tadd.s32 \t%r3, %r3, %r4;\n" RESULT(
                 "%r3") "\tret;\n}\n",
        (shape){0}, from_table);
}

static void wrong_addresses(void **state) {
    expect_problem(KERNEL("\tld.global.u32 \t%r2, [%rd2+2];\n"), (shape){0},
                   "not a multiple of 4|ld.global.u32|block 0, thread 0");
    expect_problem(KERNEL("\tld.global.v2.u32 \t{%r2, %r3}, [%rd2];\n"), (shape){0},
                   "8 bytes|not a multiple of 8|thread 1");
    expect_problem(KERNEL("\tsetp.eq.s32 \t%p1, %r1, 40;\n\t@%p1 ld.global.u32 \t%r2, [%rd2+8388608];\n"),
                   (shape){.block = 64}, "outside of every allocation|thread 40");
    const char *shared = HEAD ENTRY "\t.shared .align 4 .b8 tile[128];\n" START
                                    "\tmov.u32 \t%r2, tile;\n\tshl.b32 \t%r3, %r1, 2;\n\tadd.s32 \t%r2, %r2, %r3;\n"
                                    "\tst.shared.u32 \t[%r2], %r1;\n\tret;\n}\n";
    expect_problem(shared, (shape){.block = 64},
                   "offset 128 of shared memory, which has 128 bytes|thread 32|st.shared.u32");
    char *problem = launch_text(shared, (shape){.block = 64, .dynamic = 128});
    assert_null(problem);
    expect_problem(
        HEAD ENTRY
        "\t.local .align 8 .b8 \t__local_depot0[16];\n\t.reg .b64 \t%SPL;\n\tmov.u64 \t%SPL, __local_depot0;\n" START
        "\tld.local.u32 \t%r2, [%SPL+16];\n\tret;\n}\n",
        (shape){0}, "local memory|16 bytes");
    expect_problem(KERNEL("\tld.param.u32 \t%r2, [k_param_0+8];\n"), (shape){0}, "the arguments, which have 8 bytes");
}

/* --- atomics --------------------------------------------------------------------------------------------------------- */

static void tickets(const uint32_t *result, uint32_t threads) {
    uint64_t taken[2] = {0};
    for (uint32_t t = 0; t < threads; t++) taken[result[t] / 64] |= UINT64_C(1) << result[t] % 64;
    assert_true(taken[0] == UINT64_MAX && taken[1] == UINT64_MAX);
}

static void all_operations(const uint32_t *result, uint32_t threads) {
    const uint32_t *word = (const uint32_t *)(const void *)(memory + 8192);
    static const uint32_t expected[] = {496, 0, 31, 0, 31, 0, 32 % 10, 1, 0};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (word[i * 4] != expected[i]) fail_msg("operation %zu gives %u instead of %u", i, word[i * 4], expected[i]);
    float sum;
    double wide;
    memcpy(&sum, memory + 8192 + 160, sizeof sum);
    memcpy(&wide, memory + 8192 + 176, sizeof wide);
    assert_true(sum == 32 && wide == 48);
    memset(memory + 8192, 0, 256);
}

static void atomics(void **state) {
    expect_results(KERNEL("\tatom.global.add.u32 \t%r2, [%rd1+16384], 1;\n" RESULT("%r2")), (shape){.block = 128},
                   tickets);
    assert_int_equal(counts.atomics, 128);
    assert_int_equal(seen.atomics, 128);
    memset(memory + 8192, 0, 256);
    expect_results(
        KERNEL("\tred.global.add.u32 \t[%rd1+8192], %r1;\n\tadd.s32 \t%r2, %r1, -31;\n\tred.global.min.u32 "
               "\t[%rd1+8208], %r1;\n"
               "\tred.global.max.s32 \t[%rd1+8224], %r1;\n\tred.global.and.b32 \t[%rd1+8240], %r1;\n"
               "\tred.global.or.b32 \t[%rd1+8256], %r1;\n\tred.global.xor.b32 \t[%rd1+8272], %r1;\n"
               "\tatom.global.inc.u32 \t%r3, [%rd1+8288], 9;\n\tatom.global.cas.b32 \t%r3, [%rd1+8304], 0, 1;\n"
               "\tatom.global.exch.b32 \t%r3, [%rd1+8320], 0;\n"
               "\tmov.f32 \t%f1, 0f3F800000;\n\tatom.global.add.f32 \t%f2, [%rd1+8352], %f1;\n"
               "\tmov.f64 \t%fd1, 0d3FF8000000000000;\n\tatom.global.add.f64 \t%fd2, [%rd1+8368], %fd1;\n"),
        (shape){0}, all_operations);
}

static void counted_under_lock(const uint32_t *result, uint32_t threads) { assert_int_equal(result[2048], 64); }

static void wide_operations(const uint32_t *result, uint32_t threads) {
    uint64_t word[4];
    uint32_t halves;
    memcpy(word, memory + 8192, sizeof word);
    memcpy(&halves, memory + 8192 + 32, sizeof halves);
    assert_int_equal(word[0], UINT64_C(32) << 32);
    assert_int_equal(word[1], (uint64_t)-31);
    assert_int_equal(word[2], 31);
    assert_int_equal(word[3], 7 + (UINT64_C(1) << 40));
    assert_int_equal(halves, 0x50004C00); /* 32 and 16 */
    assert_int_equal(result[0], 0x3F800000 + 0);
}

/* 64 bits, halves, and shared memory by a generic address; add.f32 keeps subnormal numbers there and flushes them in global memory. */
static void wide_atomics(void **state) {
    memset(memory + 8192, 0, 256);
    expect_results(HEAD ENTRY
                   "\t.shared .align 4 .b8 tile[128];\n" START
                   "\tmov.u64 \t%rd4, tile;\n\tcvta.shared.u64 \t%rd5, %rd4;\n\tmov.u32 \t%r2, 0;\n\tst.shared.u32 "
                   "\t[tile], %r2;\n"
                   "\tbar.warp.sync \t-1;\n\tmov.u64 \t%rd6, 4294967296;\n\tred.global.add.u64 \t[%rd1+8192], %rd6;\n"
                   "\tcvt.s64.s32 \t%rd7, %r1;\n\tneg.s64 \t%rd7, %rd7;\n\tred.global.min.s64 \t[%rd1+8200], %rd7;\n"
                   "\tcvt.u64.u32 \t%rd8, %r1;\n\tred.global.max.u64 \t[%rd1+8208], %rd8;\n"
                   "\tadd.s64 \t%rd9, %rd6, 0;\n\tmov.u64 \t%rd10, 1099511627783;\n\tatom.global.exch.b64 \t%rd11, "
                   "[%rd1+8216], %rd10;\n"
                   "\tmov.u32 \t%r3, 1006647296;\n\tred.global.add.noftz.f16x2 \t[%rd1+8224], %r3;\n"
                   "\tmov.u32 \t%r4, 1;\n\tmov.b32 \t%f1, %r4;\n\tred.add.f32 \t[%rd5], %f1;\n\tred.global.add.f32 "
                   "\t[%rd1+8240], %f1;\n"
                   "\tbar.warp.sync \t-1;\n\tld.shared.u32 \t%r5, [tile];\n\tld.global.u32 \t%r6, [%rd1+8240];\n"
                   "\tsetp.eq.s32 \t%p1, %r5, 32;\n\tsetp.eq.s32 \t%p2, %r6, 0;\n\tand.pred \t%p1, %p1, %p2;\n"
                   "\tselp.b32 \t%r7, 1065353216, 0, %p1;\n" RESULT("%r7") "\tret;\n}\n",
                   (shape){0}, wide_operations);
}

/* A lock that the lanes of one warp take one after another: lanes that spin do not hold up the owner. */
static void locks(void **state) {
    expect_results(
        KERNEL(
            "$L__BB0_1:\n\tatom.global.acquire.gpu.cas.b32 \t%r2, [%rd1+12288], 0, 1;\n\tsetp.ne.s32 \t%p1, %r2, 0;\n"
            "\t@%p1 bra \t$L__BB0_1;\n\n\tld.volatile.global.u32 \t%r3, [%rd1+8192];\n\tadd.s32 \t%r3, %r3, 1;\n"
            "\tst.volatile.global.u32 \t[%rd1+8192], %r3;\n\tmembar.gl;\n\tatom.global.exch.b32 \t%r4, [%rd1+12288], "
            "0;\n"),
        (shape){.block = 64, .most = 10000000}, counted_under_lock);
    assert_int_equal(seen.fences, 64);
}

/* --- cp.async -------------------------------------------------------------------------------------------------------- */

#define COPY_HEAD                                                                                                 \
    HEAD ENTRY "\t.shared .align 16 .b8 tile[1024];\n" START "\tmov.u32 \t%r2, tile;\n\tshl.b32 \t%r3, %r1, 4;\n" \
               "\tadd.s32 \t%r2, %r2, %r3;\n\tcvt.u64.u32 \t%rd4, %r3;\n\tadd.s64 \t%rd5, %rd1, %rd4;\n"

static void arrived(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) assert_int_equal(result[t], 3);
}

/* Before the wait there is poison; wait_group 1 brings the first of two batches; a source size is filled up with zeros. */
static void asynchronous_copies(void **state) {
    for (uint32_t i = 0; i < 512; i++) memory[131072 + i] = (unsigned char)(i + 1);
    expect_results(COPY_HEAD
                   "\tcp.async.cg.shared.global [%r2], [%rd5+131072], 16;\n\tcp.async.commit_group;\n"
                   "\tcp.async.ca.shared.global [%r2+512], [%rd5+131072], 8, 4;\n\tcp.async.commit_group;\n"
                   "\tld.shared.u32 \t%r4, [%r2];\n\tcp.async.wait_group 1;\n"
                   "\tld.shared.u32 \t%r5, [%r2];\n\tld.shared.u32 \t%r6, [%r2+512];\n\tcp.async.wait_all;\n"
                   "\tld.shared.u32 \t%r7, [%r2+512];\n\tld.shared.u32 \t%r8, [%r2+516];\n"
                   "\tsetp.eq.s32 \t%p1, %r4, %r6;\n\tsetp.ne.s32 \t%p2, %r4, %r5;\n\tsetp.eq.s32 \t%p3, %r5, %r7;\n"
                   "\tsetp.eq.s32 \t%p4, %r8, 0;\n\tand.pred \t%p1, %p1, %p2;\n\tand.pred \t%p3, %p3, %p4;\n"
                   "\tselp.u32 \t%r9, 1, 0, %p1;\n\tselp.u32 \t%r10, 2, 0, %p3;\n\tadd.s32 \t%r9, %r9, %r10;\n" RESULT(
                       "%r9") "\tret;\n}\n",
                   (shape){0}, arrived);
    assert_int_equal(seen.commits, 64);
    assert_int_equal(seen.waits, 64);
    expect_problem(COPY_HEAD "\tcp.async.cg.shared.global [%r2+4], [%rd5+131072], 16;\n\tret;\n}\n", (shape){0},
                   "not a multiple of 16|cp.async|thread 0");
}

/* --- seeds ----------------------------------------------------------------------------------------------------------- */

/* How many of 64 seeds give other results than the first, of 4 blocks of 64 threads. */
static int results_that_differ(const char *text) {
    static unsigned char first[1024];
    int differ = 0;
    for (uint64_t seed = 0; seed < 64; seed++) {
        memset(memory, 0, 65536);
        char *problem = launch_text(text, (shape){.block = 64, .seed = seed});
        if (problem) fail_msg("%s", problem);
        if (!seed) memcpy(first, memory, 256);
        differ += memcmp(first, memory, 256) != 0;
    }
    return differ;
}

#define EXCHANGE(sync)                                                                                              \
    HEAD ENTRY                                                                                                      \
        "\t.shared .align 4 .b8 tile[256];\n" START                                                                 \
        "\tmov.u32 \t%r2, tile;\n\tshl.b32 \t%r3, %r1, 2;\n\tadd.s32 \t%r3, %r2, %r3;\n\txor.b32 \t%r4, %r1, 16;\n" \
        "\tshl.b32 \t%r4, %r4, 2;\n\tadd.s32 \t%r4, %r2, %r4;\n\tand.b32 \t%r5, %r1, 16;\n"                         \
        "\tsetp.eq.s32 \t%p1, %r5, 0;\n\t@%p1 bra \t$L__BB0_1;\n\n\tadd.s32 \t%r6, %r1, 1;\n\tbra.uni "             \
        "\t$L__BB0_2;\n\n"                                                                                          \
        "$L__BB0_1:\n\tadd.s32 \t%r6, %r1, 2;\n$L__BB0_2:\n\tst.shared.u32 \t[%r3], %r6;\n" sync                    \
        "\tld.shared.u32 \t%r7, [%r4];\n" RESULT("%r7") "\tret;\n}\n"

/* Code that relies on lanes in step, and on an order of warps, shows it. */
static void seeds(void **state) {
    assert_true(results_that_differ(EXCHANGE("")) > 0);
    assert_int_equal(results_that_differ(EXCHANGE("\tbar.warp.sync \t-1;\n")), 0);
    assert_true(results_that_differ(KERNEL("\tatom.global.add.u32 \t%r2, [%rd1+16384], 1;\n" RESULT("%r2"))) > 32);
    memset(memory, 0, 65536);
    const char *text = KERNEL("\tatom.global.add.u32 \t%r2, [%rd1+16384], 1;\n" RESULT("%r2"));
    unsigned char once[256];
    for (int i = 0; i < 2; i++) {
        memset(memory, 0, 65536);
        char *problem = launch_text(text, (shape){.block = 64, .seed = 5});
        assert_null(problem);
        if (!i) memcpy(once, memory, sizeof once);
    }
    assert_memory_equal(once, memory, sizeof once);
}

/* --- counts ---------------------------------------------------------------------------------------------------------- */

static void count_text(const char *text, shape s) {
    char *problem = launch_text(text, s);
    if (problem) fail_msg("%s", problem);
}

static void sectors(void **state) {
    count_text(KERNEL("\tld.global.u32 \t%r2, [%rd2];\n"), (shape){0});
    assert_int_equal(counts.global_requests, 1);
    assert_int_equal(counts.sectors, 4);
    assert_int_equal(counts.sectors_needed, 4);
    count_text(KERNEL("\tld.global.u32 \t%r2, [%rd2+4];\n"), (shape){0});
    assert_int_equal(counts.sectors, 5);
    count_text(KERNEL("\tmul.wide.u32 \t%rd4, %r1, 32;\n\tadd.s64 \t%rd4, %rd1, %rd4;\n\tld.global.u32 \t%r2, [%rd4];\n"
                      "\tld.global.u32 \t%r2, [%rd4];\n"),
               (shape){0});
    assert_int_equal(counts.sectors, 64);
    assert_int_equal(counts.sectors_needed, 8);
    assert_int_equal(counts.sectors_distinct, 32);
    count_text(KERNEL("\txor.b32 \t%r3, %r1, 7;\n\tmul.wide.u32 \t%rd4, %r3, 4;\n\tadd.s64 \t%rd4, %rd1, "
                      "%rd4;\n\tld.global.u32 \t%r2, [%rd4];\n"),
               (shape){0});
    assert_int_equal(counts.sectors, 4);
    assert_int_equal(counts.sectors_needed, 4);
}

#define BANKS_HEAD HEAD ENTRY "\t.shared .align 16 .b8 tile[4224];\n" START "\tmov.u32 \t%r2, tile;\n"

static void banks(void **state) {
    count_text(BANKS_HEAD "\tmad.lo.s32 \t%r3, %r1, 128, %r2;\n\tst.shared.u32 \t[%r3], %r1;\n\tret;\n}\n", (shape){0});
    assert_int_equal(counts.bank_conflicts, 31);
    count_text(BANKS_HEAD "\tmad.lo.s32 \t%r3, %r1, 132, %r2;\n\tst.shared.u32 \t[%r3], %r1;\n\tret;\n}\n", (shape){0});
    assert_int_equal(counts.bank_conflicts, 0);
    count_text(BANKS_HEAD
               "\tmad.lo.s32 \t%r3, %r1, 8, %r2;\n\tst.shared.u32 \t[%r3], %r1;\n\tld.shared.u64 \t%rd4, [%r3];\n"
               "\tld.shared.u32 \t%r4, [tile];\n\tret;\n}\n",
               (shape){0});
    assert_int_equal(counts.shared_requests, 3);
    assert_int_equal(counts.bank_conflicts, 1);
}

static void samples(void **state) {
    const char *text =
        KERNEL("\tmov.u32 \t%r5, %ctaid.x;\n\tmul.wide.u32 \t%rd4, %r5, 128;\n\tadd.s64 \t%rd4, %rd2, %rd4;\n"
               "\tst.global.u32 \t[%rd4], %r5;\n");
    count_text(text, (shape){.grid = 1000});
    assert_int_equal(seen.blocks, 1000);
    for (uint32_t b = 0; b < 1000; b++) assert_int_equal(((const uint32_t *)(const void *)memory)[b * 32 + 5], b);
    ptx_counts all = counts;
    count_text(text, (shape){.grid = 1000, .sample = 8});
    assert_int_equal(seen.blocks, 10);
    assert_memory_equal(&all, &counts, sizeof all);
}

static void wrong_launches(void **state) { expect_problem(KERNEL(""), (shape){.block = 2000}, "2000 x 1 x 1 threads"); }

/* The nanoseconds per instruction of a lane. */
static void speed(void **state) {
    const char *text =
        KERNEL("\tmov.u32 \t%r2, %ctaid.x;\n\tmov.u32 \t%r3, %ntid.x;\n\tmad.lo.s32 \t%r4, %r2, %r3, %r1;\n"
               "\tmul.wide.u32 \t%rd4, %r4, 4;\n\tadd.s64 \t%rd5, %rd1, %rd4;\n\tld.global.f32 \t%f1, [%rd5];\n"
               "\tadd.f32 \t%f2, %f1, %f1;\n\tst.global.f32 \t[%rd5+1048576], %f2;\n");
    struct timespec from, to;
    memset(memory, 0, MEMORY_BYTES);
    clock_gettime(CLOCK_MONOTONIC, &from);
    count_text(text, (shape){.grid = 1024, .block = 256});
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    print_message("%.2f ns per instruction of a lane\n", ns / (double)counts.instructions / PTX_WARP);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops),
        cmocka_unit_test(nested_branches),
        cmocka_unit_test(calls),
        cmocka_unit_test(endless_loops),
        cmocka_unit_test(shuffles),
        cmocka_unit_test(shuffle_predicates),
        cmocka_unit_test(votes),
        cmocka_unit_test(other_votes),
        cmocka_unit_test(reductions),
        cmocka_unit_test(wrong_members),
        cmocka_unit_test(block_sums),
        cmocka_unit_test(named_barriers),
        cmocka_unit_test(barrier_reductions),
        cmocka_unit_test(wrong_barriers),
        cmocka_unit_test(loads_and_stores),
        cmocka_unit_test(generic_addresses),
        cmocka_unit_test(variables),
        cmocka_unit_test(wrong_addresses),
        cmocka_unit_test(atomics),
        cmocka_unit_test(locks),
        cmocka_unit_test(asynchronous_copies),
        cmocka_unit_test(sectors),
        cmocka_unit_test(banks),
        cmocka_unit_test(samples),
        cmocka_unit_test(wrong_launches),
        cmocka_unit_test(speed),
        cmocka_unit_test(seeds),
        cmocka_unit_test(wide_atomics),
        cmocka_unit_test(special_registers),
    };
    memory = calloc(MEMORY_BYTES, 1);
    if (!memory) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(memory);
    return failed;
}
