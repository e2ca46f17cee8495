/* Launches: memory, atomics, copies, and what requests cost. */
#include <time.h>

#include "fakes/ptx/launch_text.h"

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

static void argument_by_register(const uint32_t *result, uint32_t threads) {
    for (uint32_t t = 0; t < 32; t++) assert_int_equal(result[t], t % 2 ? MEMORY >> 32 : (uint32_t)MEMORY);
}

static void arguments(void **state) {
    expect_results(KERNEL("\tmov.b64 \t%rd4, k_param_0;\n\tand.b32 \t%r2, %r1, 1;\n\tmul.wide.u32 \t%rd5, %r2, 4;\n"
                          "\tadd.s64 \t%rd4, %rd4, %rd5;\n\tld.param.u32 \t%r3, [%rd4];\n" RESULT("%r3")),
                   (shape){0}, argument_by_register);
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
                   "misaligned|not a multiple of 4|ld.global.u32|block 0, thread 0");
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

/* Two loads, of which both are under way when the first is read, then one more after a branch. */
static void waits(void **state) {
    count_text(KERNEL("\tld.global.u32 \t%r2, [%rd2];\n\tld.global.u32 \t%r3, [%rd2+128];\n"
                      "\tadd.s32 \t%r4, %r2, %r2;\n\tadd.s32 \t%r4, %r3, %r4;\n"
                      "\tbra.uni \t$after;\n$after:\n"
                      "\tld.global.u32 \t%r5, [%rd2+256];\n\tadd.s32 \t%r4, %r4, %r5;\n"),
               (shape){0});
    assert_int_equal(counts.load_waits, 2);
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
        cmocka_unit_test(loads_and_stores),
        cmocka_unit_test(generic_addresses),
        cmocka_unit_test(special_registers),
        cmocka_unit_test(arguments),
        cmocka_unit_test(variables),
        cmocka_unit_test(wrong_addresses),
        cmocka_unit_test(atomics),
        cmocka_unit_test(wide_atomics),
        cmocka_unit_test(locks),
        cmocka_unit_test(asynchronous_copies),
        cmocka_unit_test(sectors),
        cmocka_unit_test(banks),
        cmocka_unit_test(waits),
        cmocka_unit_test(samples),
        cmocka_unit_test(wrong_launches),
        cmocka_unit_test(speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
