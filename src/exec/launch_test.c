/* What is noted of a step: its name, who asked for it, its bytes, its elements. */
#include "exec/launch_step.h"
#include "exec/prepared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static bti_node node = {.place = {{"main.c", 3}, "bt_sum"}};

static bti_trace_event note(const bti_plan *plan, const bti_step *step) {
    bti_trace_log log;
    bti_trace_asked asked = bti_trace_asked_of(plan, step);
    bti_trace_start();
    bti_trace_step_end(&(bti_timing_start){0}, plan, step, &asked, asked.place);
    bti_trace_step_end(&(bti_timing_start){.ns = bti_trace_begin()}, plan, step, &asked, asked.place);
    assert_true(bti_trace_collect(0, &log));
    assert_int_equal(log.events.count, 1);
    bti_trace_event event = log.events.items[0];
    bti_trace_log_free(&log);
    bti_trace_stop();
    assert_int_equal(event.kind, BTI_TRACE_KERNEL);
    assert_int_equal(event.device, 1);
    assert_string_equal(event.file, "main.c");
    assert_int_equal(event.line, 3);
    return event;
}

/* [8, 16] + a row, broadcast */
static void test_a_primitive(void **state) {
    bti_value values[2] = {{.dtype = BT_F32, .rank = 2, .shape = {8, 16}, .layout.stride = {16, 1}},
                           {.dtype = BT_F32, .rank = 2, .shape = {8, 16}, .layout.stride = {0, 1}}};
    int32_t operands[] = {0, 1, 0};
    bti_plan plan = {.values = {values, 2, 2}, .operands = {operands, 3, 3}};
    bti_step step = {
        .kind = BTI_STEP_WORK, .op = BTI_OP_add, .device = 1, .node = &node, .input_count = 2, .output_count = 1};
    bti_trace_event event = note(&plan, &step);
    assert_string_equal(event.name, "add");
    assert_string_equal(event.operations[0], "bt_sum");
    assert_null(event.operations[1]);
    assert_int_equal(event.elements, 128);
    assert_int_equal(event.read_bytes, 128 * 4 + 16 * 4);
    assert_int_equal(event.written_bytes, 128 * 4);
}

/* Sum over the rows of x * 2 + x: [8, 100] -> [8] */
static bti_kernel kernel = {
    .outer = 1,
    .reduced = 1,
    .input_count = 1,
    .output_count = 1,
    .scalar_count = 1,
    .instr_count = 5,
    .operands = {{.dtype = BT_F32, .moves = 3, .unit = 1}, {.dtype = BT_F32, .moves = 1, .value = 4}},
    .instrs = {{.op = BTI_OP_leaf, .dtype = BT_F32},
               {.op = BTI_OP_const, .dtype = BT_F32},
               {.op = BTI_OP_mul, .dtype = BT_F32, .arg = {0, 1}},
               {.op = BTI_OP_add, .dtype = BT_F32, .arg = {2, 0}},
               {.op = BTI_OP_sum, .dtype = BT_F32, .arg = {3}}}};

static void test_a_fused_kernel(void **state) {
    bti_kernel *kernels[] = {&kernel};
    int64_t numbers[] = {8, 100};
    bti_node mul = {.place.name = "bt_mul"}, add = {.place.name = "bt_add"};
    const bti_node *members[] = {&mul, &add, &mul, &node};
    bti_plan plan = {.kernels = {kernels, 1, 1}, .numbers = {numbers, 2, 2}, .members = {members, 4, 4}};
    bti_step step = {.kind = BTI_STEP_KERNEL, .device = 1, .node = &node, .box_count = 1, .member_count = 4};
    bti_trace_event event = note(&plan, &step);
    assert_string_equal(event.name, "mul+add+sum");
    assert_string_equal(event.operations[0], "bt_mul");
    assert_string_equal(event.operations[1], "bt_add");
    assert_string_equal(event.operations[2], "bt_sum");
    assert_null(event.operations[3]);
    assert_int_equal(event.elements, 800);
    assert_int_equal(event.read_bytes, 800 * 4);
    assert_int_equal(event.written_bytes, 8 * 4);
}

static void test_of_many_operations_the_last_stays(void **state) {
    static const char *const names[] = {"bt_abs", "bt_add", "bt_sum", "bt_exp", "bt_log", "bt_sub"};
    bti_node nodes[6] = {0};
    const bti_node *members[6];
    for (int i = 0; i < 6; i++) nodes[i].place.name = names[i], members[i] = &nodes[i];
    nodes[2].place.name = node.place.name;
    bti_plan plan = {.members = {members, 6, 6}};
    bti_step step = {.kind = BTI_STEP_KERNEL, .node = &node, .member_count = 6};
    bti_trace_asked asked = bti_trace_asked_of(&plan, &step);
    assert_string_equal(asked.operations[0], "bt_abs");
    assert_string_equal(asked.operations[1], "bt_add");
    assert_string_equal(asked.operations[2], "bt_exp");
    assert_string_equal(asked.operations[3], "bt_sum");
}

static void test_names_of_kernels(void **state) {
    char name[24], all[200];
    bti_kernel empty = {.inner = 1, .instr_count = 1};
    bti_kernel_name(name, sizeof name, &empty);
    assert_string_equal(name, "fill");
    empty.input_count = 1;
    empty.instrs[0].op = BTI_OP_leaf;
    bti_kernel_name(name, sizeof name, &empty);
    assert_string_equal(name, "move");
    for (int i = 0; i < 10; i++) empty.instrs[i].op = i < 2 ? BTI_OP_maximum : i % 2 ? BTI_OP_minimum : BTI_OP_exp;
    empty.instr_count = 10;
    bti_kernel_name(name, sizeof name, &empty);
    assert_string_equal(name, "maximum+exp+minimum...");
    bti_kernel_name(all, sizeof all, &empty);
    assert_string_equal(all, "maximum+exp+minimum+exp+minimum+exp+minimum+exp+minimum");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_primitive),
        cmocka_unit_test(test_a_fused_kernel),
        cmocka_unit_test(test_of_many_operations_the_last_stays),
        cmocka_unit_test(test_names_of_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
