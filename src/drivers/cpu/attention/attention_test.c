// labels: threads
// env: BERTH_FLAGS=threads=2,kernels=auto
// timeout: 300
/* Attention on the cores compared with the interpreter: with and without libraries, blocks of all kinds, any strides, results that nobody reads, memory that is short. The same
 * bits for any number of cores. */
#include "drivers/cpu/attention/attention.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <berth/flags.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "drivers/cpu/product/product.h"
#include "drivers/cpu/target.h"
#include "drivers/cpu/vector/vector.h"
#include "ir/attention.h"
#include "ir/dtype.h"
#include "reference/interp.h"
#include "reference/operand.h"
#include "support/operands.h"

/* mask: 0 none, 1 bool, 2 added. */
typedef struct attention {
    const char *name;
    int64_t batch, heads, shared, rows, keys, depth, value_depth, reads;
    int mask;
    bool lengths;
    double scale;
} attention;

static const attention attentions[] = {
    {"one block", 2, 2, 1, 60, 100, 16, 24, BTI_READS_ALL, 0, false, 0.25},
    {"blocks of keys", 1, 1, 2, 70, 1100, 8, 8, BTI_READS_ALL, 0, false, 0.25},
    {"blocks of queries", 1, 2, 1, 800, 40, 8, 8, BTI_READS_FROM_START, 0, false, -0.25},
    {"causal", 1, 1, 2, 260, 260, 8, 16, BTI_READS_FROM_START, 0, false, 0.3},
    {"from the end", 1, 1, 2, 70, 1200, 8, 8, BTI_READS_FROM_END, 1, true, 0.3},
    {"nothing at first", 1, 2, 1, 90, 20, 8, 8, BTI_READS_FROM_END, 0, false, 0.3},
    {"one query", 3, 2, 4, 1, 900, 64, 64, BTI_READS_FROM_END, 0, true, 0.125},
    {"one query, masked", 1, 2, 3, 1, 600, 8, 5, BTI_READS_ALL, 2, false, -0.3},
    {"few", 2, 2, 1, 3, 5, 1, 1, BTI_READS_ALL, 2, true, 1},
    {"no keys", 2, 1, 1, 4, 0, 3, 2, BTI_READS_ALL, 0, false, 1},
    {"no queries", 2, 1, 1, 0, 4, 3, 2, BTI_READS_ALL, 0, false, 1},
};
enum { ATTENTIONS = sizeof attentions / sizeof *attentions, RESULTS = 3 };
static const char *const nothing[] = {NULL};

static double number_of(bt_dtype dtype) {
    return dtype == BT_BOOL ? chance() < 0.5 : dtype == BT_I32 ? floor((chance() + 1) * 500) : chance() * 2;
}
static bti_operand make(bt_dtype dtype, int rank, const int64_t *shape, bool apart) {
    return make_operand(dtype, rank, shape, apart, number_of);
}

typedef struct task {
    bti_operand in[BTI_ATTENTION_INPUTS], made[RESULTS];
    int count, results;
    bti_attr attr;
    bti_op op;
} task;

static task new_task(const attention *of, bti_op op, bt_dtype dtype, bool apart) {
    const int64_t heads = of->heads * of->shared;
    const int64_t q[] = {of->batch, heads, of->rows, of->depth}, k[] = {of->batch, of->heads, of->keys, of->depth},
                  v[] = {of->batch, of->heads, of->keys, of->value_depth},
                  out[] = {of->batch, heads, of->rows, of->value_depth},
                  mask[] = {of->batch, heads, of->rows, of->keys};
    const int64_t *shapes[] = {q, k, v, out, out, out}, *of_results[] = {out, out, NULL}, *of_gradients[] = {q, k, v};
    task t = {.op = op, .count = bti_attention_needed(op), .results = op == BTI_OP_attention ? 2 : 3};
    t.attr.attention.scale = of->scale, t.attr.attention.reads = of->reads;
    for (int i = 0; i < t.count; i++) t.in[i] = make(dtype, i == BTI_ATTENTION_LSE ? 3 : 4, shapes[i], apart);
    if (of->lengths) t.in[t.count++] = make(BT_I32, 1, &of->batch, false);
    if (of->mask) t.in[t.count++] = make(of->mask == 1 ? BT_BOOL : dtype, 4, mask, apart);
    for (int i = 0; i < t.results; i++)
        t.made[i] = make(dtype, op == BTI_OP_attention && i == 1 ? 3 : 4,
                         op == BTI_OP_attention ? of_results[i] : of_gradients[i], apart);
    return t;
}

static void drop_task(const task *t) {
    for (int i = 0; i < t->count; i++) drop(&t->in[i]);
    for (int i = 0; i < t->results; i++) drop(&t->made[i]);
}

static bti_work work_of(const task *t, const bti_operand *made) {
    return (bti_work){.op = t->op,
                      .input_count = t->count,
                      .inputs = t->in,
                      .output = made[0],
                      .others = made + 1,
                      .other_count = t->results - 1,
                      .attr = &t->attr};
}

/* What attention makes of the inputs, for its gradient. */
static void forward(const task *t) {
    task f = *t;
    int optional = bti_attention_needed(t->op);
    if (t->op == BTI_OP_attention) return;
    f.op = BTI_OP_attention, f.count = 3, f.results = 2;
    for (int i = optional; i < t->count; i++) f.in[f.count++] = t->in[i];
    f.made[0] = t->in[BTI_ATTENTION_OUT], f.made[1] = t->in[BTI_ATTENTION_LSE];
    bti_work work = work_of(&f, f.made);
    assert_int_equal(bti_interpret(&work), BT_OK);
}

static void expect_near(const task *t, const bti_operand *got, const bti_operand *want, const char *name,
                        double tolerance) {
    for (int r = 0; r < t->results; r++) {
        bti_walk walk;
        if (!bti_operand_count(&got[r])) continue;
        bti_walk_start(&walk, want[r].rank, want[r].shape, 2, (const bti_operand *[]){&got[r], &want[r]});
        for (; walk.more; bti_walk_next(&walk))
            for (int64_t i = 0; i < walk.length; i++) {
                const void *x = walk.at[0] + i * walk.step[0], *y = walk.at[1] + i * walk.step[1];
                bool f32 = want[r].dtype == BT_F32;
                double a = f32 ? (double)*(const float *)x : *(const double *)x,
                       b = f32 ? (double)*(const float *)y : *(const double *)y;
                if (!(fabs(a - b) <= tolerance * (1 + fabs(b)))) fail_msg("%s: result %d is %g, not %g", name, r, a, b);
            }
    }
}

/* By all cores, by one, and with a result that nobody reads: the same bits. */
static void check(const attention *of, bti_op op, bt_dtype dtype, bool apart) {
    task t = new_task(of, op, dtype, apart);
    bti_operand want[RESULTS] = {{0}}, alone[RESULTS] = {{0}};
    forward(&t);
    for (int i = 0; i < t.results; i++) {
        want[i] = make(dtype, t.made[i].rank, t.made[i].shape, false);
        alone[i] = make(dtype, t.made[i].rank, t.made[i].shape, false);
    }
    bti_work work = work_of(&t, t.made), reference = work_of(&t, want), by_one = work_of(&t, alone);
    assert_int_equal(bti_interpret(&reference), BT_OK);
    assert_int_equal(bti_cpu_attention(&work), BT_OK);
    expect_near(&t, t.made, want, of->name, dtype == BT_F32 ? 3e-5 : 1e-12);
    int before = bti_cores_limit(1);
    assert_int_equal(bti_cpu_attention(&by_one), BT_OK);
    bti_cores_limit(before);
    expect_near(&t, t.made, alone, of->name, 0);
    for (int r = 0; r < t.results; r++) {
        bti_operand made[RESULTS] = {alone[0], alone[1], alone[2]};
        made[r] = (bti_operand){.dtype = BT_U8, .rank = 1, .shape = {0}, .stride = {1}};
        bti_work partly = work_of(&t, made);
        assert_int_equal(bti_cpu_attention(&partly), BT_OK);
        expect_near(&t, t.made, alone, of->name, 0);
    }
    for (int i = 0; i < t.results; i++) drop(&want[i]), drop(&alone[i]);
    drop_task(&t);
}

static void check_all(void) {
    for (int i = 0; i < ATTENTIONS; i++)
        for (int c = 0; c < 8; c++)
            check(&attentions[i], c & 1 ? BTI_OP_attention_gradient : BTI_OP_attention, c & 2 ? BT_F64 : BT_F32, c & 4);
}

static void by_libraries(void **state) { check_all(); }

static void without_libraries(void **state) {
    bti_product_use(nothing, nothing);
    check_all();
    bti_product_use(NULL, NULL);
}

/* What lies behind the keys that are there is not read. */
static void keys_that_are_not_there(void **state) {
    const attention of = {"lengths", 1, 1, 2, 70, 600, 8, 8, BTI_READS_FROM_END, 0, true, 0.3};
    for (int c = 0; c < 2; c++) {
        bti_op op = c ? BTI_OP_attention_gradient : BTI_OP_attention;
        task t = new_task(&of, op, BT_F32, false);
        *(int32_t *)(void *)bti_address(&t.in[t.count - 1]) = 517;
        forward(&t);
        for (int i = BTI_ATTENTION_K; i <= BTI_ATTENTION_V; i++)
            for (int64_t j = 517 * 8; j < 600 * 8; j++) ((float *)(void *)bti_address(&t.in[i]))[j] = NAN;
        bti_work work = work_of(&t, t.made);
        assert_int_equal(bti_cpu_attention(&work), BT_OK);
        for (int r = 0; r < t.results; r++)
            for (int64_t j = 0; j < bti_operand_count(&t.made[r]); j++)
                assert_true(isfinite(((const float *)(const void *)bti_address(&t.made[r]))[j]));
        drop_task(&t);
    }
}

/* Weights of float32 are what exp gives, and the same on all targets; of what is far below nothing is left. */
static void weights_of_rows(void **state) {
    enum { MOST = 40 };
    static const double tops[] = {0, -3.5, 90, 1e4};
    for (int t = 0; t < 4; t++)
        for (int64_t count = 0; count <= MOST; count++) {
            float x[MOST], base[MOST];
            double sum = 0;
            for (int i = 0; i < MOST; i++) base[i] = i % 7 == 6 ? -INFINITY : (float)(tops[t] - 60 + chance() * 60);
            memcpy(x, base, sizeof x);
            double made = bti_vector_base.rows[0].weigh(x, count, 1, tops[t]);
            for (int64_t i = 0; i < count; i++) {
                double want = exp((double)base[i] - tops[t]), most = 2e-6 * (1 + (60 + fabs(tops[t])) / 5);
                sum += want;
                assert_true(fabs((double)x[i] - want) <= want * most + 1e-37);
            }
            assert_true(fabs(made - sum) <= sum * 2e-3 + 1e-37);
            for (bti_target target = BTI_LLVM_SSE2; target <= BTI_LLVM_AVX512; target++) {
                float y[MOST];
                if (!bti_cpu_has(target)) continue;
                memcpy(y, base, sizeof y);
                double other = bti_vector_code_of(target)->rows[0].weigh(y, count, 1, tops[t]);
                assert_memory_equal(x, y, sizeof x);
                assert_memory_equal(&made, &other, sizeof made);
            }
        }
}

/* NaN in a query makes what it reads NaN, and nothing else. */
static void nan_stays(void **state) {
    const attention of = {"NaN", 1, 1, 1, 6, 600, 8, 8, BTI_READS_ALL, 0, false, 0.3};
    task t = new_task(&of, BTI_OP_attention, BT_F32, false);
    ((float *)(void *)bti_address(&t.in[0]))[2 * 8 + 3] = NAN;
    bti_work work = work_of(&t, t.made);
    assert_int_equal(bti_cpu_attention(&work), BT_OK);
    for (int64_t j = 0; j < 6 * 8; j++)
        assert_int_equal(isnan(((const float *)(const void *)bti_address(&t.made[0]))[j]) != 0, j / 8 == 2);
    drop_task(&t);
}

static void memory_is_short(void **state) {
    for (int c = 0; c < 2; c++) {
        task t = new_task(&attentions[0], c ? BTI_OP_attention_gradient : BTI_OP_attention, BT_F32, true);
        bti_work work = work_of(&t, t.made);
        forward(&t);
        bt_status status = BT_RESOURCE_EXHAUSTED;
        for (uint64_t nth = 1; status != BT_OK; nth++) {
            bti_alloc_fail_at(nth, false);
            status = bti_cpu_attention(&work);
            bti_alloc_fail_at(0, false);
            if (status != BT_OK) assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
        }
        drop_task(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_libraries),
        cmocka_unit_test(without_libraries),
        cmocka_unit_test(keys_that_are_not_there),
        cmocka_unit_test(weights_of_rows),
        cmocka_unit_test(nan_stays),
        cmocka_unit_test(memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
