/* The rules of the table of operations: which dtypes and shapes go in and come out, of every row, for known and unknown sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/op_rules.h"
#include "support/attr.h"

/* Sizes that are not known: n, m, and n + 3. */
enum { N = -1, M = -2, N_AND_3 = -3 };

typedef struct sizes {
    int rank;
    int64_t size[4];
} sizes;

/* result: the shape that is made, or what is asked for. why: NULL, or how it is refused. */
typedef struct shape_case {
    bti_op op;
    int count;
    sizes input[6];
    int number_count; /* of its attributes, as attr_of takes them */
    int64_t number[4];
    sizes result;
    const char *why;
    bool asked; /* the shape is the caller's to choose */
    bt_dtype dtype;
} shape_case;

#define MADE(name, ...) \
    { BTI_OP_##name, __VA_ARGS__, .asked = false }
#define ASKED(name, ...) \
    { BTI_OP_##name, __VA_ARGS__, .asked = true }
#define IOTA(n, type, ...) \
    { BTI_OP_iota, .result = {1, {n}}, .asked = true, .dtype = type, __VA_ARGS__ }
#define INT32_AXIS "2147483648 elements; their indices are int32, so it can have 2147483647"

static const shape_case cases[] = {
    ASKED(leaf, .result = {2, {N, 3}}),
    MADE(const, .result = {0}),
    MADE(size, .result = {0}),
    IOTA(INT32_MAX, BT_I32),
    IOTA(INT64_C(1) << 31, BT_I64),
    IOTA(INT64_C(1) << 31, BT_I32, .why = INT32_AXIS),
    IOTA(N, BT_I32),

    MADE(sum, 1, {{2, {0, 3}}}, 2, {1, 0}, {2, {1, 3}}),
    MADE(sum, 1, {{3, {N, 2, M}}}, 2, {5, 0}, {3, {1, 2, 1}}),
    MADE(prod, 1, {{2, {0, 3}}}, 2, {3, 0}, {2, {1, 1}}),
    MADE(max, 1, {{2, {0, 3}}}, 2, {1, 0}, .why = "no elements along axis 0 to take the max of"),
    MADE(max, 1, {{2, {0, 3}}}, 2, {1, 1}, {2, {1, 3}}),
    MADE(max, 1, {{2, {0, 3}}}, 2, {2, 0}, {2, {0, 1}}),
    MADE(min, 1, {{2, {N, 3}}}, 2, {1, 0}, {2, {1, 3}}),
    MADE(min, 1, {{2, {N, 0}}}, 2, {2, 0}, .why = "no elements along axis 1 to take the min of"),
    MADE(cumsum, 1, {{2, {N, 3}}}, 2, {1, 1}, {2, {N, 3}}),

    MADE(cumprod, 1, {{2, {N, 3}}}, 2, {1, 1}, {2, {N, 3}}),
    MADE(cummax, 1, {{2, {N, 3}}}, 2, {0, 0}, {2, {N, 3}}),
    MADE(cummin, 1, {{1, {3}}}, 2, {0, 1}, {1, {3}}),

    ASKED(reshape, 1, {{2, {2, 3}}}, .result = {1, {6}}),
    ASKED(reshape, 1, {{2, {2, 3}}}, .result = {1, {7}}, .why = "(2, 3) has another number of elements than (7,)"),
    ASKED(reshape, 1, {{2, {N, 3}}}, .result = {1, {12}}),
    MADE(permute, 1, {{3, {2, N, 4}}}, 3, {2, 0, 1}, {3, {4, 2, N}}),
    ASKED(expand, 1, {{1, {3}}}, .result = {2, {4, 3}}),
    ASKED(expand, 1, {{2, {2, 3}}}, .result = {2, {4, 3}}, .why = "(2, 3) cannot be broadcast to (4, 3)"),
    ASKED(expand, 1, {{2, {2, 3}}}, .result = {1, {3}},
          .why = "(2, 3) cannot be broadcast to the smaller rank of (3,)"),
    ASKED(expand, 1, {{2, {4, 3}}}, .result = {2, {N, 3}}),
    ASKED(slice, 1, {{2, {5, 3}}}, 4, {4, 0, -2, 1}, {2, {3, 3}}),
    ASKED(slice, 1, {{2, {5, 3}}}, 4, {3, 0, -2, 1}, {2, {3, 3}}, "(5, 3) has no such part as the slice (3, 3)"),
    ASKED(slice, 1, {{2, {5, 3}}}, 4, {9, 3, 1, 1}, {2, {0, 0}}),
    ASKED(slice, 1, {{2, {N, 3}}}, 4, {0, 0, 1, 1}, {2, {9, 3}}),
    ASKED(pad, 2, {{2, {2, N}}, {0}}, 2, {1, 5}, {2, {3, 4}}),
    ASKED(pad, 2, {{2, {2, 3}}, {0}}, 2, {1, 1}, {2, {3, 3}}, "(2, 3) does not fit with its padding into (3, 3)"),
    ASKED(pad, 2, {{1, {2}}, {0}}, 1, {-1}, {1, {3}}, "(2,) does not fit with its padding into (3,)"),
    MADE(concat, 2, {{2, {2, 3}}, {2, {5, 3}}}, 1, {0}, {2, {7, 3}}),
    MADE(concat, 2, {{2, {N, 3}}, {2, {3, M}}}, 1, {0}, {2, {N_AND_3, 3}}),
    MADE(concat, 2, {{2, {2, 3}}, {2, {3, 4}}}, 1, {0}, .why = "(3, 4) does not fit beside the first array, (2, 3)"),
    MADE(concat, 2, {{2, {2, 3}}, {1, {3}}}, 1, {0}, .why = "(3,) does not fit beside the first array, (2, 3)"),

    MADE(take, 2, {{2, {5, 3}}, {1, {N}}}, 1, {1}, {2, {5, N}}),
    MADE(scatter_add, 3, {{2, {5, N}}, {1, {2}}, {2, {2, 3}}}, 1, {0}, {2, {5, N}}),
    MADE(scatter_add, 3, {{2, {5, 3}}, {1, {3}}, {2, {2, 3}}}, 1, {0},
         .why = "(2, 3) are the updates; their shape must be (3, 3)"),
    MADE(update_slice, 3, {{2, {5, 3}}, {1, {1}}, {2, {5, 3}}}, 1, {0}, {2, {5, 3}}),
    MADE(update_slice, 3, {{2, {5, 3}}, {1, {1}}, {2, {N, M}}}, 1, {0}, {2, {5, 3}}),
    MADE(update_slice, 3, {{2, {5, 3}}, {1, {1}}, {2, {6, 3}}}, 1, {0},
         .why = "(6, 3) is the update; it does not fit into (5, 3)"),
    MADE(update_slice, 3, {{2, {5, 3}}, {1, {1}}, {2, {5, 2}}}, 1, {0},
         .why = "(5, 2) is the update; it does not fit into (5, 3)"),
    MADE(gather_axis, 2, {{2, {5, 3}}, {2, {N, 3}}}, 1, {0}, {2, {N, 3}}),
    MADE(gather_axis, 2, {{2, {5, 3}}, {2, {3, 4}}}, 1, {0},
         .why = "(3, 4) are the indices; but for the axis they must have the shape of x, (5, 3)"),
    MADE(scatter_axis, 3, {{2, {5, 3}}, {2, {2, 3}}, {2, {N, 3}}}, 1, {0}, {2, {5, 3}}),
    MADE(scatter_set, 3, {{2, {5, 3}}, {2, {2, 3}}, {2, {N, 3}}}, 1, {0}, {2, {5, 3}}),
    MADE(scatter_max, 3, {{2, {5, 3}}, {2, {2, 3}}, {2, {3, 3}}}, 1, {0},
         .why = "(3, 3) are the updates; their shape must be the indices', (2, 3)"),
    MADE(scatter_min, 3, {{2, {5, N}}, {2, {5, 7}}, {2, {5, 7}}}, 1, {1}, {2, {5, N}}),
    MADE(scatter_axis, 3, {{2, {5, 3}}, {2, {2, 4}}, {2, {2, 4}}}, 1, {0},
         .why = "(2, 4) are the indices; but for the axis they must have the shape of x, (5, 3)"),
    MADE(scatter_axis, 3, {{2, {5, 3}}, {2, {2, 3}}, {2, {3, 3}}}, 1, {0},
         .why = "(3, 3) are the updates; their shape must be the indices', (2, 3)"),

    MADE(sort, 1, {{2, {N, INT32_MAX}}}, 1, {1}, {2, {N, INT32_MAX}}),
    MADE(sort, 1, {{2, {2, INT64_C(1) << 31}}}, 1, {1}, .why = "axis 1 has " INT32_AXIS),
    MADE(top_k, 1, {{2, {2, 5}}}, 2, {1, 5}, {2, {2, 5}}),
    MADE(top_k, 1, {{2, {2, N}}}, 2, {1, 7}, {2, {2, 7}}),
    MADE(top_k, 1, {{2, {2, 5}}}, 2, {1, 6}, .why = "k is 6; axis 1 of shape (2, 5) allows 0 to 5"),
    MADE(matmul, 2, {{2, {2, 3}}, {2, {3, 4}}}, .result = {2, {2, 4}}),
    MADE(matmul, 2, {{3, {N, 2, 3}}, {3, {7, M, N}}}, .result = {3, {N, 2, N}}),
    MADE(matmul, 2, {{2, {3, 4}}, {2, {2, 3}}}, .why = "(3, 4) cannot be multiplied with (2, 3)"),
    MADE(matmul, 2, {{3, {2, 3, 4}}, {3, {5, 4, 3}}}, .why = "(2, 3, 4) cannot be multiplied with (5, 4, 3)"),
    MADE(matmul, 2, {{1, {3}}, {1, {3}}}, .why = "(3,) cannot be multiplied with (3,)"),
    MADE(matmul, 2, {{2, {N, 3}}, {2, {4, 3}}}, .why = "(?1, 3) cannot be multiplied with (4, 3)"),

    ASKED(conv, 2, {{3, {N, 4, 9}}, {3, {6, 2, 3}}}, 4, {2, 2, 1, 1}, {3, {N, 6, 5}}),
    ASKED(conv, 2, {{3, {5, 4, 9}}, {3, {6, 2, 3}}}, 1, {1}, {3, {5, 6, 7}},
          "(5, 4, 9) and (6, 2, 3) are not of a convolution that has (5, 6, 7)"),
    ASKED(conv, 2, {{3, {5, 6, 9}}, {3, {5, 2, 3}}}, 1, {3}, {3, {5, 5, 7}},
          "(5, 6, 9) and (5, 2, 3) are not of a convolution that has (5, 5, 7)"),
    ASKED(conv, 2, {{2, {4, 9}}, {2, {4, 3}}}, 1, {1}, {2, {4, 4}},
          "(4, 9) and (4, 3) are not of a convolution that has (4, 4)"),
    ASKED(conv_data, 2, {{3, {N, 6, 5}}, {3, {6, 2, 3}}}, 4, {2, 2, 1, 1}, {3, {7, 4, 9}}),
    ASKED(conv_data, 2, {{3, {3, 6, 5}}, {3, {6, 2, 3}}}, 1, {1}, {3, {2, 2, 9}},
          "(3, 6, 5) and (6, 2, 3) are not of a convolution that has (2, 2, 9)"),
    ASKED(conv_weights, 2, {{3, {N, 4, 9}}, {3, {N, 6, 5}}}, 4, {2, 2, 1, 1}, {3, {6, 2, 3}}),
    ASKED(conv_weights, 2, {{3, {2, 4, 9}}, {3, {2, 6, 5}}}, 1, {1}, {3, {6, 2, 3}},
          "(2, 4, 9) and (2, 6, 5) are not of a convolution that has (6, 2, 3)"),

#define HEADS(heads, rows, depth)    \
    {                                \
        4, { N, heads, rows, depth } \
    }
    MADE(attention, 3, {HEADS(6, M, 4), HEADS(3, 7, 4), HEADS(3, 7, 5)}, 1, {0}, HEADS(6, M, 5)),
    MADE(attention, 4, {HEADS(2, 3, 4), HEADS(2, 7, 4), HEADS(2, 7, 5), HEADS(2, 3, 7)}, 1, {1}, HEADS(2, 3, 5)),
    MADE(attention, 4, {{4, {1, 2, 3, 4}}, {4, {1, 2, 7, 4}}, {4, {1, 2, 7, 5}}, {4, {1, 2, 3, 6}}}, 1, {1},
         .why = "(1, 2, 3, 4) cannot be given a mask or lengths of (1, 2, 3, 6)"),
    MADE(attention, 3, {{4, {1, 5, 3, 4}}, {4, {1, 2, 7, 4}}, {4, {1, 2, 7, 5}}}, 1, {0},
         .why = "(1, 5, 3, 4) cannot read keys of (1, 2, 7, 4)"),
    MADE(attention, 3, {{4, {1, 2, 3, 4}}, {4, {1, 2, 7, 4}}, {4, {1, 2, 6, 4}}}, 1, {0},
         .why = "(1, 2, 7, 4) cannot be keys of (1, 2, 6, 4)"),
    MADE(attention_gradient, 6,
         {HEADS(6, M, 4), HEADS(3, 7, 4), HEADS(3, 7, 5), HEADS(6, M, 5), {3, {N, 6, M}}, HEADS(6, M, 5)}, 1, {2},
         HEADS(6, M, 4)),

    ASKED(scan, 1, {{1, {3}}},
          .result = {2, {N, 3}}), /* of these tuples bti_node_fits looks at the regions, or asks the program */
    ASKED(while, 1, {{1, {3}}}, .result = {1, {3}}),
    ASKED(cond, 1, {{0}}, .result = {1, {3}}),
    ASKED(custom, 1, {{1, {3}}}, .result = {1, {7}}),
    ASKED(result, 1, {{0}}, .result = {1, {3}}),
    ASKED(value, 1, {{0}}, .result = {1, {3}}),
    ASKED(call, .result = {1, {3}}),
    MADE(callback, 1, {{2, {N, 3}}}, .result = {2, {N, 3}}),
    MADE(copy, 1, {{2, {N, 3}}}, .result = {2, {N, 3}}),
    MADE(barrier, 2, {{2, {N, 3}}, {1, {7}}}, .result = {2, {N, 3}}),
    MADE(stop, 1, {{2, {N, 3}}}, .result = {2, {N, 3}}),
    MADE(all_reduce, 2, {{2, {N, 3}}, {2, {4, 3}}}, .result = {2, {4, 3}}),
    MADE(all_reduce, 2, {{2, {2, 3}}, {2, {4, 3}}}, .why = "(4, 3) is not the shape of the result, (2, 3)"),
};
enum { CASES = sizeof cases / sizeof *cases };

static int64_t unknown[4]; /* by what stands for it, negated */

static void shape_of(const sizes *of, int64_t *shape) {
    for (int i = 0; i < of->rank; i++) shape[i] = of->size[i] < 0 ? unknown[-of->size[i]] : of->size[i];
}

static void expect_shape(const shape_case *c) {
    bti_node nodes[6], *inputs[6]; /* nodes that have nothing but a shape */
    for (int i = 0; i < c->count; i++) {
        nodes[i] = (bti_node){.rank = (uint8_t)c->input[i].rank};
        shape_of(&c->input[i], nodes[i].shape);
        inputs[i] = &nodes[i];
    }
    int64_t wanted[BTI_MAX_RANK];
    shape_of(&c->result, wanted);
    bti_attr attr = attr_of(c->op, c->number_count, c->number);
    bti_type made = {.dtype = c->dtype, .rank = c->asked ? c->result.rank : BTI_MAX_RANK};
    for (int i = 0; i < made.rank; i++) made.shape[i] = c->asked ? wanted[i] : -7;
    bti_type quiet = made;
    bti_str text = {0};
    bool fits = bti_op_shape(c->op, c->count, inputs, &attr, &made, &text);
    if (fits != !c->why || (c->why && strcmp(bti_str_text(&text), c->why)))
        fail_msg("%s: \"%s\", not \"%s\"", bti_op_info(c->op)->name, bti_str_text(&text), c->why ? c->why : "");
    bti_str_free(&text);
    if (fits && !bti_shape_equal(made.rank, made.shape, c->result.rank, wanted)) {
        bti_shape_text(&text, made.rank, made.shape);
        bti_str_add(&text, ", not ");
        bti_shape_text(&text, c->result.rank, wanted);
        fail_msg("%s: %s", bti_op_info(c->op)->name, bti_str_text(&text));
    }
    assert_int_equal(bti_op_shape(c->op, c->count, inputs, &attr, &quiet, NULL), fits);
}

static void elementwise(bti_op op) {
    shape_case c = {op, bti_op_info(op)->arity, .result = {2, {2, 3}}};
    int last = c.count - 1;
    if (c.count > 3) return; /* the words of random numbers */
    for (int i = 0; i < c.count; i++) c.input[i] = c.result;
    expect_shape(&c);
    if (!last) return;
    c.input[0].size[0] = c.input[last].size[1] = N; /* what one input knows, the result has */
    expect_shape(&c);
    c.input[last].size[0] = 5;
    c.input[0] = c.result;
    c.why = "(5, ?1) is not the shape of the result, (2, 3)";
    expect_shape(&c);
}

static void shapes(void **state) {
    (void)state;
    for (int i = 1; i <= 2; i++) bti_symbol_hold(unknown[i] = bti_symbol_new());
    unknown[-N_AND_3] = bti_size_add(unknown[-N], 3);
    bool seen[BTI_OP_COUNT] = {false};
    for (int i = 0; i < CASES; i++) {
        expect_shape(&cases[i]);
        seen[cases[i].op] = true;
    }
    for (bti_op op = 0; op < BTI_OP_COUNT; op++) {
        if (bti_op_info(op)->class == BTI_ELEMENTWISE)
            elementwise(op);
        else if (!seen[op])
            fail_msg("the row %s of ops.def has no case here", bti_op_info(op)->name);
    }
    for (int i = 1; i <= 2; i++) bti_symbol_let_go(unknown[i]);
}

static void dtypes(void **state) {
    (void)state;
    bt_dtype in, out;
    bti_str why = {0};
    assert_true(bti_op_dtypes(BTI_OP_exp, BT_I64, &in, &out, &why));
    assert_true(in == BT_F64 && out == BT_F64);
    assert_true(bti_op_dtypes(BTI_OP_lt, BT_F16, &in, &out, &why));
    assert_true(in == BT_F16 && out == BT_BOOL);
    assert_false(bti_op_dtypes(BTI_OP_sub, BT_BOOL, &in, &out, &why));
    assert_string_equal(bti_str_text(&why), "takes numbers, not bool; bt_cast it first");
    bti_str_free(&why);
    assert_false(bti_op_dtypes(BTI_OP_and, BT_F32, &in, &out, &why));
    assert_string_equal(bti_str_text(&why), "takes integers and bool, not float32");
    bti_str_free(&why);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(dtypes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
