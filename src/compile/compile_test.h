/* Graphs made by hand, and what their plans hold: for the tests of this folder. */
#ifndef BTI_COMPILE_COMPILE_TEST_H
#define BTI_COMPILE_COMPILE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "ir/print.h"
#include "support/attr.h"

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define ATTR(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define SCALAR 0, NULL
#define NO_ATTR 0, NULL

/* --- graphs by hand ------------------------------------------------------------------------------------------------------- */

static bti_node *made[2048];
static int made_count;
static bti_plan plan;
static bti_order order = {.claim = 1};
static bti_fusing fusing = BTI_PRIMITIVES;
static bool arenas = true;

static inline bti_node *remember(bti_node *node, int device) {
    assert_non_null(node);
    node->device = (int16_t)device;
    node->place = (bti_place){.site = {"graph.c", made_count + 1}, .name = "bt_made"};
    return made[made_count++] = node;
}

static inline bti_node *op(bti_op o, int device, int rank, const int64_t *shape, int attr_count, const int64_t *attr,
                           int inputs, bti_node *const *input) {
    bti_attr its = attr_of(o, attr_count, attr);
    return remember(bti_node_new(o, BT_F32, rank, shape, inputs, input, &its), device);
}
#define OP(name, device, shape, attr, ...)                                                                  \
    op(BTI_OP_##name, device, shape, attr, (int)(sizeof((bti_node *[]){__VA_ARGS__}) / sizeof(bti_node *)), \
       (bti_node *[]){__VA_ARGS__})

/* An array whose elements are there: in memory that only has to have an address. */
static inline bti_node *leaf(int device, int rank, const int64_t *shape) {
    static char memory[2048];
    bti_node *node = remember(bti_node_new(BTI_OP_leaf, BT_F32, rank, shape, 0, NULL, NULL), device);
    bti_layout_dense(rank, shape, &node->layout);
    node->buffer = (bti_buffer *)&memory[made_count];
    atomic_store(&node->state, BTI_DONE);
    return node;
}

static inline bti_node *constant(int device, int64_t value) {
    return remember(bti_node_new(BTI_OP_const, BT_F32, 0, NULL, 0, NULL, &(bti_attr){.constant = {(uint64_t)value}}),
                    device);
}

static inline void forget_plan(void) {
    bti_plan_free(&plan);
    bti_unclaim(&order);
    plan = (bti_plan){0};
}

static bti_target_facts facts = {.units = 16, .local_bytes = 64 << 10, .cache_bytes = 1 << 20, .launch_boxes = 1};
static bti_target_facts graph_facts = {.graphs = true};
static unsigned graph_devices; /* a mask: those that load graphs */
static inline const bti_target_facts *target_of(int device) {
    return graph_devices >> device & 1 ? &graph_facts : &facts;
}

static inline void make_plan(bti_node *const *wanted, int count) {
    forget_plan();
    bti_node *busy;
    assert_int_equal(bti_reach(wanted, (size_t)count, &order, &busy), BT_OK);
    assert_null(busy);
    bti_planning how = {.fusing = fusing, .share = arenas, .target = target_of};
    assert_int_equal(bti_compile(&order, wanted, (size_t)count, &how, &plan), BT_OK);
}
#define PLAN(...) make_plan((bti_node *[]){__VA_ARGS__}, COUNT(((bti_node *[]){__VA_ARGS__})))

static inline int end(void **state) {
    forget_plan();
    for (int i = 0; i < made_count; i++)
        if (made[i]->op == BTI_OP_leaf) made[i]->buffer = NULL;
    while (made_count) bti_node_release(made[--made_count]);
    return 0;
}

/* --- what a plan holds ---------------------------------------------------------------------------------------------------- */

static inline int kernels(bti_op o, int device) {
    int count = 0;
    for (size_t s = 0; s < plan.steps.count; s++)
        count += plan.steps.items[s].kind != BTI_STEP_COPY && plan.steps.items[s].op == o &&
                 plan.steps.items[s].device == device;
    return count;
}

static int64_t copies __attribute__((unused)), copied_bytes __attribute__((unused));
static inline void count_copies(void) {
    copies = copied_bytes = 0;
    for (size_t s = 0; s < plan.steps.count; s++) {
        if (plan.steps.items[s].kind != BTI_STEP_COPY) continue;
        copies++;
        copied_bytes += plan.storages.items[bti_plan_output(&plan, &plan.steps.items[s], 0)->storage].bytes;
    }
}
#define EXPECT_COPIES(number, bytes)           \
    do {                                       \
        count_copies();                        \
        assert_int_equal(copies, number);      \
        assert_int_equal(copied_bytes, bytes); \
    } while (0)

static inline const bti_value *value_of(const bti_node *node) {
    for (size_t r = 0; r < plan.results.count; r++)
        if (plan.results.items[r].node == node) return &plan.values.items[plan.results.items[r].value];
    fail_msg("no result");
    return NULL;
}

static inline const bti_storage *storage_of(const bti_node *node) {
    return &plan.storages.items[value_of(node)->storage];
}

static inline const char *name(int device) {
    static const char *const names[] = {"GPU:0", "GPU:1", "CPU:0"};
    return names[device];
}

static inline void expect_text(const char *expected) {
    bti_str text = {0};
    bti_plan_text(&text, &plan, name);
    assert_string_equal(bti_str_text(&text), expected);
    bti_str_free(&text);
}

#define TEST(name) cmocka_unit_test_teardown(name, end)

#endif
