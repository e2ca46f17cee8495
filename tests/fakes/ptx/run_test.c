/* Launches: control flow, lanes that act together, barriers, seeds, and the mistakes that end a launch. */
#include "fakes/ptx/launch_text.h"

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
    assert_int_equal(seen.arrivals, 32);
    assert_int_equal(seen.barrier_threads, 64);
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
        cmocka_unit_test(seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
