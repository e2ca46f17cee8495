#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fakes/ptx/ptx.h"

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define BEGIN HEAD ".visible .entry k(\n.param .align 8 .b8 k_param_0[64],\n.param .u32 k_param_1\n)\n{\n"
#define REGISTERS \
    ".reg .pred %p<4>;\n.reg .b16 %rs<4>;\n.reg .f32 %f<8>;\n.reg .b32 %r<8>;\n.reg .f64 %fd<4>;\n.reg .b64 %rd<8>;\n"

/* Where the registers of REGISTERS begin. */
enum { P = 0, RS = 4, F = 8, R = 16, FD = 24, RD = 28, MORE = 36 };

static ptx_module *parsed(const char *text) {
    char *problem = NULL;
    ptx_module *module = ptx_parse(text, &problem);
    if (!module) fail_msg("%s", problem);
    assert_null(problem);
    return module;
}

/* The module of one entry with these instructions. */
static ptx_module *with_body(const char *body) {
    char text[8192];
    snprintf(text, sizeof text, "%s%s%s}\n", BEGIN, REGISTERS, body);
    return parsed(text);
}

static const ptx_instruction *at(const ptx_module *module, uint32_t index) {
    const ptx_function *k = ptx_find(module, "k");
    assert_non_null(k);
    assert_in_range(index, 0, k->count - 1);
    return &k->instructions[index];
}

static void check_operand(const ptx_operand *operand, ptx_kind kind, uint32_t number, uint64_t value) {
    assert_int_equal(operand->kind, kind);
    assert_int_equal(operand->number, number);
    assert_int_equal(operand->value, value);
}

/* --- operands --------------------------------------------------------------------------------------------------------- */

static void test_immediates(void **state) {
    ptx_module *m = with_body("mov.u32 %r1, 017;\n"
                              "add.s32 %r1, %r2, -5;\n"
                              "mov.u64 %rd1, 0xFFFFFFFF00000000;\n"
                              "and.b64 %rd1, %rd2, -4294967296;\n"
                              "mov.f32 %f1, 0fBF800000;\n"
                              "mov.f64 %fd1, 0d3FF0000000000000;\n"
                              "mov.f64 %fd1, 0f3F800000;\n"
                              "mov.f32 %f1, 0d3FF0000000000000;\n"
                              "mov.f32 %f1, 1.5;\n"
                              "mov.b32 %r1, 0f3F800000;\n"
                              "mov.b16 %rs1, 0x3C00;\n"
                              "mov.u32 %r1, WARP_SZ;\n"
                              "mov.u32 %r1, (1 + 2 * 3 << 2) - 1;\n"
                              "mov.pred %p1, 1;\n"
                              "mad.wide.s32 %rd1, %r1, -1, -1;\n"
                              "mov.u32 %r1, 7U;\n");
    static const uint64_t expected[] = {15,
                                        0xFFFFFFFB,
                                        0xFFFFFFFF00000000,
                                        0xFFFFFFFF00000000,
                                        0xBF800000,
                                        0x3FF0000000000000,
                                        0x3FF0000000000000,
                                        0x3F800000,
                                        0x3FC00000,
                                        0x3F800000,
                                        0x3C00,
                                        32,
                                        27,
                                        1,
                                        UINT64_MAX,
                                        7};
    for (uint32_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const ptx_instruction *in = at(m, i);
        assert_non_null(in->compute);
        check_operand(&in->from[in->from_count - 1], PTX_IMMEDIATE, 0, expected[i]);
    }
    assert_int_equal(at(m, 14)->from[1].value, 0xFFFFFFFF);
    assert_int_equal(at(m, 14)->mode, PTX_WIDE);
    assert_int_equal(at(m, 14)->to_bits, 64);
    ptx_free(m);
}

static void test_addresses(void **state) {
    ptx_module *m = with_body("ld.param.u64 %rd1, [k_param_0+8];\n"
                              "ld.param.u32 %r1, [k_param_1];\n"
                              "ld.global.f32 %f1, [%rd1+-4];\n"
                              "ld.global.nc.L1::no_allocate.L2::128B.v2.f32 {%f1, %f2}, [%rd1+16];\n"
                              "st.global.v4.u32 [%rd1], {%r1, %r2, 0, -1};\n"
                              "ld.volatile.shared.u8 %r1, [%rd2-2];\n"
                              "ld.acquire.gpu.global.u32 %r1, [64];\n"
                              "mov.b64 %rd3, k_param_0;\n");
    const ptx_instruction *in = at(m, 0);
    assert_int_equal(in->space, PTX_PARAM);
    check_operand(&in->from[0], PTX_PARAM_AT, 0, 8);
    check_operand(&at(m, 1)->from[0], PTX_PARAM_AT, 0, 64);
    check_operand(&at(m, 2)->from[0], PTX_REGISTER, RD + 1, (uint64_t)-4);
    in = at(m, 3);
    assert_true(in->nc);
    assert_int_equal(in->vector, 2);
    assert_int_equal(in->to_count, 2);
    assert_int_equal(in->to_bits, 32);
    check_operand(&in->to[1], PTX_REGISTER, F + 2, 0);
    in = at(m, 4);
    assert_int_equal(in->to_count, 0);
    assert_int_equal(in->from_count, 5);
    check_operand(&in->from[2], PTX_REGISTER, R + 2, 0);
    check_operand(&in->from[4], PTX_IMMEDIATE, 0, 0xFFFFFFFF);
    assert_int_equal(at(m, 5)->order, PTX_VOLATILE);
    assert_int_equal(at(m, 5)->from[0].value, (uint64_t)-2);
    assert_int_equal(at(m, 6)->scope, PTX_SCOPE_GPU);
    check_operand(&at(m, 6)->from[0], PTX_IMMEDIATE, 0, 64);
    check_operand(&at(m, 7)->from[0], PTX_PARAM_AT, 0, 0);
    assert_null(at(m, 7)->compute);
    ptx_free(m);
}

static void test_vectors_and_predicates(void **state) {
    ptx_module *m = with_body("mov.b64 {%r1, %r2}, %rd1;\n"
                              "mov.b64 %rd1, {0, %r2};\n"
                              "mov.b64 {_, %r3}, %rd1;\n"
                              "setp.lt.and.f32 %p1|%p2, %f1, %f2, !%p3;\n"
                              "@!%p1 selp.f32 %f1, 0f00000000, %f2, %p2;\n"
                              "mov.u32 %r1, %tid.x;\n"
                              "mov.u64 %rd1, %clock64;\n"
                              "shfl.sync.down.b32 %r1|%p1, %r2, 16, 31, -1;\n"
                              "shfl.sync.idx.b32 %r1, %r2, %r3, 31, -1;\n");
    const ptx_instruction *in = at(m, 0);
    assert_int_equal(in->to_count, 2);
    assert_int_equal(in->to_bits, 32);
    assert_null(in->compute);
    check_operand(&at(m, 1)->from[0], PTX_IMMEDIATE, 0, 0);
    check_operand(&at(m, 2)->to[0], PTX_NOTHING, 0, 0);
    in = at(m, 3);
    assert_int_equal(in->compare, PTX_LT);
    assert_int_equal(in->combine, PTX_DO_AND);
    assert_int_equal(in->to_count, 2);
    assert_int_equal(in->to_bits, 0);
    assert_true(in->from[2].negate);
    in = at(m, 4);
    assert_int_equal(in->guard, P + 1);
    assert_true(in->guard_not);
    check_operand(&at(m, 5)->from[0], PTX_SPECIAL, PTX_TID_X, 0);
    check_operand(&at(m, 6)->from[0], PTX_SPECIAL, PTX_CLOCK64, 0);
    in = at(m, 7);
    assert_int_equal(in->mode, PTX_SHFL_DOWN);
    check_operand(&in->to[1], PTX_REGISTER, P + 1, 0);
    check_operand(&in->from[3], PTX_IMMEDIATE, 0, 0xFFFFFFFF);
    assert_int_equal(at(m, 8)->to_count, 1);
    ptx_free(m);
}

static void test_modifiers(void **state) {
    ptx_module *m = with_body("cvt.rzi.s32.f32 %r1, %f1;\n"
                              "cvt.sat.f32.f32 %f1, %f2;\n"
                              "mul.hi.u32 %r1, %r2, %r3;\n"
                              "setp.lo.u32 %p1, %r1, %r2;\n"
                              "add.cc.u32 %r1, %r2, %r3;\n"
                              "shf.l.wrap.b32 %r1, %r2, %r3, 8;\n"
                              "prmt.b32 %r1, %r2, 0, 0x4140;\n"
                              "div.approx.ftz.f32 %f1, %f2, %f3;\n"
                              "atom.acq_rel.gpu.global.cas.b32 %r1, [%rd1], %r2, %r3;\n"
                              "red.global.add.f32 [%rd1+4], %f1;\n"
                              "cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16, %r2;\n"
                              "cp.async.commit_group;\n"
                              "cp.async.wait_group 2;\n"
                              "cp.async.wait_all;\n"
                              "bar.sync 0;\n"
                              "barrier.sync.aligned 1, 64;\n"
                              "barrier.sync 1, 64;\n"
                              "bar.red.and.pred %p1, 0, !%p2;\n"
                              "bar.warp.sync 0xffffffff;\n"
                              "membar.gl;\n"
                              "fence.acq_rel.cta;\n"
                              "vote.sync.ballot.b32 %r1, %p1, -1;\n"
                              "match.all.sync.b32 %r1|%p1, %r2, -1;\n"
                              "redux.sync.min.s32 %r1, %r2, -1;\n"
                              "cvta.to.global.u64 %rd1, %rd2;\n"
                              "cvta.shared.u64 %rd1, %rd2;\n");
    assert_int_equal(at(m, 0)->round, PTX_RZI);
    assert_int_equal(at(m, 0)->type, PTX_S32);
    assert_int_equal(at(m, 0)->type2, PTX_F32);
    assert_true(at(m, 1)->sat);
    assert_int_equal(at(m, 2)->mode, PTX_HI_HALF);
    assert_int_equal(at(m, 3)->compare, PTX_LO);
    assert_true(at(m, 4)->cc);
    assert_int_equal(at(m, 5)->mode, PTX_SHF_L);
    assert_int_equal(at(m, 5)->clamp, PTX_WRAP);
    assert_int_equal(at(m, 6)->from[2].value, 0x4140);
    assert_int_equal(at(m, 7)->round, PTX_APPROX);
    assert_true(at(m, 7)->ftz);
    assert_int_equal(at(m, 8)->mode, PTX_DO_CAS);
    assert_int_equal(at(m, 8)->order, PTX_ACQ_REL);
    assert_int_equal(at(m, 8)->from_count, 3);
    assert_int_equal(at(m, 9)->from_count, 2);
    assert_int_equal(at(m, 10)->bytes, 16);
    assert_int_equal(at(m, 10)->space, PTX_SHARED);
    assert_int_equal(at(m, 10)->space2, PTX_GLOBAL);
    assert_int_equal(at(m, 10)->from_count, 3);
    assert_int_equal(at(m, 12)->from[0].value, 2);
    assert_int_equal(at(m, 13)->from_count, 0);
    assert_true(at(m, 14)->aligned && at(m, 15)->aligned && !at(m, 16)->aligned);
    assert_int_equal(at(m, 17)->mode, PTX_DO_AND);
    assert_true(at(m, 17)->from[1].negate);
    assert_int_equal(at(m, 19)->order, PTX_SC);
    assert_int_equal(at(m, 20)->scope, PTX_SCOPE_CTA);
    assert_int_equal(at(m, 21)->mode, PTX_BALLOT);
    assert_int_equal(at(m, 22)->mode, PTX_ALL);
    assert_int_equal(at(m, 22)->to_count, 2);
    assert_int_equal(at(m, 23)->mode, PTX_DO_MIN);
    assert_true(at(m, 24)->to_flag && !at(m, 25)->to_flag);
    ptx_free(m);
}

/* --- places ----------------------------------------------------------------------------------------------------------- */

static void test_branches_and_scopes(void **state) {
    ptx_module *m = with_body("bra.uni $L__BB0_2;\n"
                              "$L__BB0_1:\n"
                              "ret;\n"
                              "{ .reg .pred p; .reg .b32 %temp; // inner names\n"
                              "LOOP:\n"
                              "setp.eq.s32 p, %r1, 0;\n"
                              "mov.u32 %temp, 1;\n"
                              "@p bra LOOP; }\n"
                              "{ .reg .b64 %temp;\n"
                              "mov.u64 %temp, 1;\n"
                              "LOOP: bra LOOP; }\n"
                              "$L__BB0_2:\n"
                              "@%p1 bra $L__BB0_1;\n"
                              "/* the end */ $L__func_end0:\n");
    assert_int_equal(at(m, 0)->target, 6 + 1);
    assert_true(at(m, 0)->uni);
    assert_int_equal(at(m, 4)->target, 2);
    check_operand(&at(m, 3)->to[0], PTX_REGISTER, MORE + 1, 0);
    check_operand(&at(m, 5)->to[0], PTX_REGISTER, MORE, 0); /* registers of a scope that has ended are used again */
    assert_int_equal(at(m, 6)->target, 6);
    assert_int_equal(at(m, 7)->target, 1);
    const ptx_function *k = ptx_find(m, "k");
    assert_int_equal(k->registers, MORE + 2);
    assert_int_equal(k->count, 9);
    assert_int_equal(k->instructions[8].opcode, PTX_RET);
    char text[12];
    ptx_text(m, at(m, 3), text, sizeof text);
    assert_string_equal(text, "mov.u32 %te");
    ptx_free(m);
}

static void test_calls(void **state) {
    ptx_module *m =
        parsed(HEAD ".func (.param .b64 func_retval0) f(.param .b64 f_param_0, .param .align 8 .b8 f_param_1[16]);\n"
                    ".extern .func (.param .b32 r) never(.param .b64 a) ;\n"
                    ".entry k(.param .u64 k_param_0) .maxntid 128, 2, 1 .minnctapersm 3 {\n"
                    ".local .align 4 .b8 depot[20];\n.reg .b64 %rd<3>;\n"
                    "mov.u64 %rd1, depot;\n"
                    "{ // callseq 0, 0\n.reg .b32 temp_param_reg;\n.param .b64 param0;\n"
                    "st.param.b64 [param0+0], %rd1;\n.param .align 8 .b8 param1[16];\n.param .b64 retval0;\n"
                    "call.uni (retval0), \nf, \n(\nparam0, \nparam1\n);\n"
                    "ld.param.b64 %rd2, [retval0+0];\n}\nret;\n}\n"
                    ".weak .func (.param .b64 func_retval0) f(.param .b64 f_param_0, .param .align 8 .b8 f_param_1[16])"
                    " .noreturn {\n.reg .b64 %rd<2>;\n.local .b32 x;\n"
                    "ld.param.b64 %rd1, [f_param_1+8];\nst.param.b64 [func_retval0], %rd1;\n}\n");
    const ptx_function *k = ptx_find(m, "k"), *f = ptx_find(m, "f");
    assert_non_null(k);
    assert_non_null(f);
    assert_null(ptx_find(m, "never"));
    assert_int_equal(k->max_threads, 256);
    assert_int_equal(k->min_blocks, 3);
    assert_int_equal(k->parameter_bytes, 8);
    assert_int_equal(k->frame_bytes, 24 + 8 + 16 + 8);
    check_operand(&k->instructions[0].from[0], PTX_LOCAL_AT, 0, 0);
    const ptx_instruction *store = &k->instructions[1], *call = &k->instructions[2], *load = &k->instructions[3];
    assert_int_equal(store->space, PTX_LOCAL);
    check_operand(&store->from[0], PTX_LOCAL_AT, 0, 24);
    assert_int_equal(call->call_argument_count, 2);
    assert_int_equal(call->call_arguments[0], 24);
    assert_int_equal(call->call_arguments[1], 32);
    assert_int_equal(call->call_result_count, 1);
    assert_int_equal(call->call_results[0], 48);
    assert_ptr_equal(&m->functions[call->target], f);
    check_operand(&load->from[0], PTX_LOCAL_AT, 0, 48);
    assert_false(f->entry);
    assert_int_equal(f->parameter_count, 2);
    assert_int_equal(f->parameters[1].offset, 16);
    assert_int_equal(f->parameters[1].bytes, 16);
    assert_int_equal(f->frame_bytes, 36);
    check_operand(&f->instructions[0].from[0], PTX_LOCAL_AT, 0, 24);
    ptx_free(m);
}

static void test_shared(void **state) {
    ptx_module *m = parsed(HEAD ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 8 .b8 all[8];\n"
                                ".entry a() {\n.shared .align 4 .b8 tile[100];\n.reg .b64 %rd<2>;\n"
                                "mov.u64 %rd1, tile;\nmov.u64 %rd1, dynamic;\nmov.u64 %rd1, all;\n}\n"
                                ".entry k {\n.reg .b64 %rd<2>;\nmov.u64 %rd1, dynamic+4;\n}\n");
    const ptx_function *a = ptx_find(m, "a");
    check_operand(&a->instructions[0].from[0], PTX_SHARED_AT, 0, 128);
    check_operand(&a->instructions[1].from[0], PTX_SHARED_AT, 0, 240);
    check_operand(&a->instructions[2].from[0], PTX_SHARED_AT, 0, 0);
    assert_int_equal(a->shared_bytes, 228);
    assert_int_equal(ptx_find(m, "k")->shared_bytes, 8);
    check_operand(&at(m, 0)->from[0], PTX_SHARED_AT, 0, 20);
    ptx_free(m);
}

static void test_variables(void **state) {
    ptx_module *m =
        parsed(HEAD ".global .align 4 .u32 counter;\n"
                    ".visible .global .align 8 .u64 mix[3] = {1, generic(counter)+4, 5};\n"
                    ".const .align 4 .f32 table[2][2] = {{0f3F800000}, {1.0, -2.0}};\n"
                    ".global .align 1 .b8 part[4] = {0xFF(counter), 0xFF00(generic(counter)), 3};\n"
                    ".entry k() {\n.reg .b64 %rd<2>;\nmov.u64 %rd1, mix+8;\nld.global.u64 %rd1, [counter+4];\n}\n");
    assert_int_equal(m->variable_count, 4);
    assert_null(m->variables[0].initial);
    assert_int_equal(m->variables[0].bytes, 4);
    assert_true(m->variables[2].constant && !m->variables[1].constant);
    static const float table[] = {1.0f, 0.0f, 1.0f, -2.0f};
    assert_memory_equal(m->variables[2].initial, table, sizeof table);
    m->variables[0].address = 0xcd00000000001234;
    m->variables[1].address = 0x5000;
    ptx_place_variables(m);
    static const uint64_t mix[] = {1, 0xcd00000000001238, 5};
    static const unsigned char part[] = {0x34, 0x12, 3, 0};
    assert_memory_equal(m->variables[1].initial, mix, sizeof mix);
    assert_memory_equal(m->variables[3].initial, part, sizeof part);
    check_operand(&at(m, 0)->from[0], PTX_IMMEDIATE, 0, 0x5008);
    assert_non_null(at(m, 0)->compute);
    check_operand(&at(m, 1)->from[0], PTX_IMMEDIATE, 0, 0xcd00000000001238);
    ptx_free(m);
}

static void test_lines(void **state) {
    ptx_module *m =
        parsed("// fake NVRTC: file mul+add.cu\n"
               "// fake NVRTC: function k_wide registers 99 spill 8 shared 0\n"
               "// fake NVRTC: function k registers 40 spill 16 shared 128\n" HEAD ".entry k() {\n.reg .b32 %r<2>;\n"
               "mov.u32 %r1, 1;\n.loc 2 17 3\nmov.u32 %r1, 2;\n"
               ".loc\t2 5 3, function_name $L__info_string0, inlined_at 2 17 9\nmov.u32 %r1, 3;\n"
               ".loc 1 900 1, function_name $L__info_string1, inlined_at 2 18 9\nmov.u32 %r1, 4;\n"
               ".loc 2 0 3\nmov.u32 %r1, 5;\n.pragma \"nounroll; \";\n}\n"
               "\t.file\t1 \"/usr/include/math.h\"\n\t.file\t2 \"/tmp/mul+add.cu\", 17, 4\n"
               "\t.section\t.debug_str\n{\n$L__info_string0:\n.b8 95,90\n}\n");
    static const uint32_t lines[] = {0, 17, 5, 18, 18};
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(at(m, i)->line, lines[i]);
    assert_string_equal(m->file, "mul+add.cu");
    assert_int_equal(ptx_find(m, "k")->hardware_registers, 40);
    assert_int_equal(ptx_find(m, "k")->spill_bytes, 16);
    assert_int_equal(m->architecture, 90);
    ptx_free(m);
}

/* --- what is not understood ------------------------------------------------------------------------------------------- */

static const struct {
    const char *body, *problem;
} wrong[] = {
    {"wgmma.fence.sync.aligned;\n", "line 15: unknown instruction wgmma.fence.sync.aligned: wgmma.fence.sync.aligned;"},
    {"add.rn.relu.f32 %f1, %f2, %f3;\n", "line 15: unknown modifier .relu"},
    {"ret;\n.branchtargets a, b;\n", "line 16: unknown directive .branchtargets"},
    {"mov.u32 %r9, 1;\n", "unknown name %r9"},
    {"mov.u32 %r1, %gridid;\n", "unknown name %gridid"},
    {"mov.u32 %r1, %tid;\n", "unknown name %tid"},
    {"bra NOWHERE;\n", "line 15: unknown label NOWHERE"},
    {"{ INNER: ret; }\nbra INNER;\n", "line 16: unknown label INNER"},
    {"add.f32 %f1, %f2, 1;\n", "an integer stands for a floating-point number"},
    {"add.s32 %r1, %r2;\n", "operands are missing"},
    {"add.s32 %r1, %r2, %r3, %r4;\n", "';' is missing"},
    {"ld.global.v2.f32 %f1, [%rd1];\n", "a vector is missing"},
    {"ld.global.v2.f32 {%f1}, [%rd1];\n", "a vector of 1"},
    {"ld.global.v4.f64 {%fd1, %fd1, %fd1, %fd1}, [%rd1];\n", "more than 16 bytes"},
    {"ld.global.pred %p1, [%rd1];\n", "memory has no predicates"},
    {"add.s32 %p1, %r2, %r3;\n", "a register is missing"},
    {"setp.eq.s32 %r1, %r2, %r3;\n", "a predicate is missing"},
    {"setp.s32 %p1, %r2, %r3;\n", "a modifier is missing"},
    {"@%r1 ret;\n", "unknown predicate"},
    {"mov.u32 1, %r1;\n", "a name is missing"},
    {"cp.async.ca.shared.global [%r1], [%rd1], 5;\n", "cp.async of 5 bytes"},
    {"call.uni f, (a);\n", "unknown function f"},
    {".reg .b32 %x<99999999>;\n", "out of range"},
    {".local .align 3 .b8 x[4];\n", "no power of two"},
    {".shared .b8 x[99999999999];\n", "out of range"},
    {"mov.u32 %r1, 1 / 0;\n", "division by zero"},
    {"bar.red.and.pred %p1, 0, %r1;\n", "a predicate is missing"},
    {"mov.u32 %r1, 12ab;\n", "not a number"},
    {"mov.f32 %f1, 0f12;\n", "too few digits"},
};

static void test_problems(void **state) {
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[2048], *problem = NULL;
        snprintf(text, sizeof text, "%s%s%s}\n", BEGIN, REGISTERS, wrong[i].body);
        assert_null(ptx_parse(text, &problem));
        if (!strstr(problem, wrong[i].problem)) fail_msg("%s: %s", wrong[i].body, problem);
        free(problem);
    }
    char *problem = NULL;
    assert_null(ptx_parse(HEAD ".func f(.param .b32 a);\n.entry k() {\n.param .b32 b;\ncall f, (b);\n}\n", &problem));
    assert_string_equal(problem, "line 7: function f has no body: call f, (b);");
    free(problem);
    assert_null(ptx_parse(".alias a, b;\n", &problem));
    assert_string_equal(problem, "line 1: unknown directive .alias: .alias a, b;");
    free(problem);
}

/* Texts that are cut off and changed are parsed or refused. */
static const char whole[] =
    "// fake NVRTC: file a.cu\n// fake NVRTC: function k registers 40 spill 0 shared 0\n" HEAD
    ".global .align 8 .u64 mix[2][2] = {{1, generic(mix)+4}, 0xFF(mix)};\n.extern .shared .align 16 .b8 dynamic[];\n"
    ".func (.param .b64 r) f(.param .b64 a);\n"
    ".visible .entry k(.param .align 8 .b8 k_param_0[64], .param .u64 .ptr .global .align 4 k_param_1)\n.maxntid 256, "
    "1, 1\n"
    "{\n.local .align 8 .b8 depot[40];\n.shared .align 4 .f32 tile[8][9];\n" REGISTERS
    "\t.loc\t1 7 3, function_name $L, inlined_at 1 9 9\n"
    "$L1:\n@!%p1 bra $L2;\nmov.b64 {%r1, %r2}, %rd1;\nld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+-16];\n"
    "setp.ltu.or.f32 %p1|%p2, %f1, 0f3F800000, !%p3;\nmov.u64 %rd2, dynamic;\nadd.s32 %r3, %r2, -(4 + 8);\n"
    "{ .reg .b32 t;\n.param .b64 p0;\n.param .b64 q;\nst.param.b64 [p0+0], %rd1;\ncall.uni (q), f, (p0);\n"
    "ld.param.b64 %rd1, [q];\nI: bra I; }\natom.global.cas.b32 %r1, [%rd1], %r2, %r3;\n"
    "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;\nbar.red.popc.u32 %r1, 0, 64, %p1;\n$L2:\nret;\n}\n"
    ".func (.param .b64 r) f(.param .b64 a) {\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [a];\nst.param.b64 [r], "
    "%rd1;\nret;\n}\n"
    "\t.file\t1 \"a.cu\"\n\t.section\t.debug_str\n{\n.b8 1\n}\n";

static void parse_hostile(const char *text) {
    char *problem = NULL;
    ptx_module *module = ptx_parse(text, &problem);
    assert_true(!module == !!problem);
    if (module) ptx_place_variables(module);
    ptx_free(module);
    free(problem);
}

static void test_hostile(void **state) {
    static char text[sizeof whole];
    ptx_module *module = parsed(whole);
    ptx_free(module);
    for (size_t i = 0; i < sizeof whole; i++) {
        memcpy(text, whole, i);
        text[i] = 0;
        parse_hostile(text);
    }
    static const char likely[] = "0123456789.,;:{}()[]<>@!|-+%_$abdfprsu \n\"";
    uint32_t random = 12345;
    for (int round = 0; round < 20000; round++) {
        memcpy(text, whole, sizeof whole);
        int changes = 1 + round % 3;
        for (int i = 0; i < changes; i++) {
            random = random * 1664525 + 1013904223;
            uint32_t where = (random >> 8) % (uint32_t)(sizeof whole - 1);
            random = random * 1664525 + 1013904223;
            text[where] = round % 8 ? likely[(random >> 8) % (sizeof likely - 1)] : (char)(random >> 24);
        }
        parse_hostile(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_immediates),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_vectors_and_predicates),
        cmocka_unit_test(test_modifiers),
        cmocka_unit_test(test_branches_and_scopes),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
