// labels: threads
/* Plans that are run again: what finds a plan and what does not, bounds, threads, memory that is short, and the places in errors. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "array/plan_test.h"

enum { THREADS = 8, ROUNDS = 200 };

static uint64_t found(void) { return bti_plan_cache_count().found; }

/* --- keys ------------------------------------------------------------------------------------------------------------ */

typedef struct variant {
    double scalar;
    int rows, offset;
    bt_dtype dtype;
    const char *device;
    bool subtract, folds_rows, transposed, same_array, two_wanted, held;
} variant;

#define PLAIN \
    { .scalar = 2, .rows = 3, .dtype = BT_F32, .device = "gpu:0" }
static const variant plain = PLAIN;

static bt_array *leaf(const variant *v, double first) {
    bt_array *x = bt_add(bt_arange(0, v->rows * v->rows + v->offset, 1, v->dtype), bt_num(first));
    assert_int_equal(bt_eval(x), BT_OK);
    int64_t end = v->offset + v->rows * v->rows;
    x = bt_reshape(bt_slice_axis(x, 0, v->offset, end, 1), v->rows, v->rows);
    x = v->transposed ? bt_transpose(x) : x;
    assert_int_equal(bt_eval(x), BT_OK); /* so its layout is that of the view */
    return x;
}

/* (x * scalar + y) summed, of two leaves; whether its plan was found, and its elements are right. */
static bool evaluate(const variant *v) {
    double sums[8] = {0};
    bool again = false;
    BT_SCOPE {
        BT_ON(v->device) {
            bt_array *x = leaf(v, 0), *y = v->same_array ? x : leaf(v, 1);
            bt_array *scaled = bt_mul(x, bt_num(v->scalar));
            bt_array *all = v->subtract ? bt_sub(scaled, y) : bt_add(scaled, y);
            bt_array *sum = bt_sum(all, BT_AXES(v->folds_rows ? 0 : 1), false);
            if (v->held) (void)bt_retain(all);
            uint64_t before = found();
            bt_array *wanted[] = {sum, v->two_wanted ? scaled : NULL};
            assert_int_equal(bt_eval_all(wanted, 2), BT_OK);
            again = found() > before;
            bt_array *wide = bt_cast(sum, BT_F64);
            assert_int_equal(bt_read(wide, sums, (size_t)v->rows * sizeof *sums), BT_OK);
            if (v->held) bt_release(all);
        }
    }
    for (int i = 0; i < v->rows; i++) {
        double wanted = 0;
        for (int k = 0; k < v->rows; k++) {
            int row = v->folds_rows ? k : i, column = v->folds_rows ? i : k;
            double x = v->offset + (v->transposed ? column * v->rows + row : row * v->rows + column);
            double y = v->same_array ? x : x + 1;
            wanted += v->subtract ? x * v->scalar - y : x * v->scalar + y;
        }
        assert_true(sums[i] == wanted);
    }
    return again;
}

static void test_found_when_it_comes_again(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    assert_false(evaluate(&plain));
    assert_false(evaluate(&plain)); /* the second one is kept */
    for (int i = 0; i < 5; i++) assert_true(evaluate(&plain));
    variant elsewhere = plain;
    for (elsewhere.offset = 1; elsewhere.offset < 70; elsewhere.offset += 17) assert_true(evaluate(&elsewhere));
}

static void test_each_part_of_the_key(void **state) {
    (void)state;
    static const variant others[] = {
        {.scalar = 3, .rows = 3, .dtype = BT_F32, .device = "gpu:0"},
        {.scalar = 2, .rows = 4, .dtype = BT_F32, .device = "gpu:0"},
        {.scalar = 2, .rows = 3, .dtype = BT_F64, .device = "gpu:0"},
        {.scalar = 2, .rows = 3, .dtype = BT_F32, .device = "gpu:1"},
        {.scalar = 2, .rows = 3, .dtype = BT_F32, .device = "gpu:0", .subtract = true},
        {.scalar = 2, .rows = 3, .dtype = BT_F32, .device = "gpu:0", .folds_rows = true},
        {.scalar = 2, .rows = 3, .dtype = BT_F32, .device = "gpu:0", .transposed = true},
        {.scalar = 2, .rows = 3, .dtype = BT_F32, .device = "gpu:0", .same_array = true},
        {.scalar = 2, .rows = 3, .dtype = BT_F32, .device = "gpu:0", .two_wanted = true},
        {.scalar = 2, .rows = 3, .dtype = BT_F32, .device = "gpu:0", .held = true},
    };
    restart("devices=sim:gpu*2@64M");
    for (int i = 0; i < 3; i++) (void)evaluate(&plain);
    for (size_t o = 0; o < sizeof others / sizeof *others; o++) {
        if (evaluate(&others[o])) fail_msg("variant %zu finds the plan of another", o);
        (void)evaluate(&others[o]);
        assert_true(evaluate(&others[o]));
        assert_true(evaluate(&plain));
    }
}

static void test_flags_are_in_the_key(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    for (int i = 0; i < 3; i++) (void)evaluate(&plain);
    assert_int_equal(bt_set_flag("fuse", "off"), BT_OK);
    assert_false(evaluate(&plain));
    assert_int_equal(bt_set_flag("plan_cache", "0"), BT_OK);
    for (int i = 0; i < 4; i++) assert_false(evaluate(&plain));
    assert_int_equal(bt_set_flag("plan_cache", "1M"), BT_OK);
    assert_int_equal(bt_set_flag("explain", "json"), BT_OK);
    for (int i = 0; i < 4; i++) assert_false(evaluate(&plain));
}

static void test_bound_by_bytes(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M,plan_cache=100K");
    variant v = plain;
    for (int round = 0; round < 3; round++)
        for (v.scalar = 1; v.scalar < 40; v.scalar++) {
            for (int i = 0; i < 3; i++) (void)evaluate(&v);
            assert_true(bti_plan_cache_count().bytes <= 100 << 10);
        }
    assert_in_range(bti_plan_cache_count().plans, 1, 60);
    assert_int_equal(bt_set_flag("plan_cache", "10"), BT_OK); /* less than any plan */
    for (int i = 0; i < 3; i++) assert_false(evaluate(&v));
    assert_int_equal(bt_shutdown(), BT_OK);
    assert_int_equal(bti_plan_cache_count().plans, 0);
}

/* Some of their hashes fall into one set of those that are remembered, also where they come again and again after each other. */
static void test_many_take_turns(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    int kept = 0;
    for (int round = 0; round < 3; round++)
        for (int rows = 2; rows < 200; rows++) {
            variant v = plain;
            v.rows = 2, v.scalar = rows;
            kept += evaluate(&v) && round == 2;
        }
    assert_int_equal(kept, 198);
}

/* --- a graph that is used again in other ways -------------------------------------------------------------------------- */

static void test_tuples_and_views(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    uint64_t before = found();
    for (int i = 0; i < 6; i++) {
        BT_SCOPE {
            float data[] = {3, (float)i, 2, 9}, sorted[4], row[2];
            int32_t order[4];
            bt_array *x = bt_from(data, BT_F32, BT_SHAPE(4)), *places = bt_argsort(bt_mul(x, bt_num(2)), 0);
            bt_array *s = bt_sort(bt_mul(x, bt_num(2)), 0);
            assert_int_equal(bt_read(s, sorted, sizeof sorted), BT_OK);
            places = bt_cast(places, BT_I32);
            assert_int_equal(bt_read(places, order, sizeof order), BT_OK);
            for (int k = 0; k < 4; k++) assert_true(sorted[k] == 2 * data[order[k]]);
            bt_array *view = bt_slice_axis(x, 0, 1, 3, 1); /* the result lies in what is given */
            assert_int_equal(bt_eval(view), BT_OK);
            bt_array *moved = bt_slice_axis(view, 0, i % 2, 1 + i % 2, 1);
            assert_int_equal(bt_read(moved, row, sizeof *row), BT_OK);
            assert_true(row[0] == data[1 + i % 2]);
        }
    }
    assert_true(found() > before);
}

static void test_slices_as_arguments(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    bt_array *in = bt_input(BT_F32, 3), *out[2] = {bt_mul(in, bt_num(2)), bt_slice_axis(in, 0, 1, 3, 1)};
    bt_function *f = bt_function_new(&in, 1, out, 2, NULL, 0);
    bt_array *all = bt_arange(0, 100, 1, BT_F32);
    assert_int_equal(bt_eval(all), BT_OK);
    for (int64_t i = 0; i < 90; i++) {
        BT_SCOPE {
            bt_array *slice = bt_slice_axis(all, 0, i, i + 3, 1), *got[2];
            float twice[3], tail[2];
            assert_int_equal(bt_call(f, &slice, 1, got, 2), BT_OK);
            assert_int_equal(bt_read(got[0], twice, sizeof twice), BT_OK);
            assert_int_equal(bt_read(got[1], tail, sizeof tail), BT_OK);
            for (int k = 0; k < 3; k++) assert_true(twice[k] == 2 * (float)(i + k));
            for (int k = 0; k < 2; k++) assert_true(tail[k] == (float)(i + 1 + k));
        }
    }
    bt_function_release(f);
}

/* --- places ------------------------------------------------------------------------------------------------------------ */

static int failing_line;
static bt_status negate_and_read(bool fails) {
    bt_status status = BT_OK;
    float got[3];
    BT_SCOPE {
        bt_array *x = bt_from(((float[]){1, 2, 3}), BT_F32, BT_SHAPE(3)), *y;
        if (fails)
            y = bt_neg(x), failing_line = __LINE__;
        else
            y = bt_neg(x);
        status = bt_read(y, got, sizeof got);
    }
    return status;
}

static void test_errors_name_the_run(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M,sim_fault=launch:5");
    uint64_t before = found();
    for (int i = 0; i < 4; i++) assert_int_equal(negate_and_read(false), BT_OK);
    assert_int_equal(found(), before + 2);
    assert_int_equal(negate_and_read(true), BT_INTERNAL);
    assert_int_equal(found(), before + 3);
    char place[80];
    snprintf(place, sizeof place, "plan_cache_test.c:%d: bt_neg: injected fault", failing_line);
    if (!strstr(bt_error_text(), place)) fail_msg("%s is not in: %s", place, bt_error_text());
    for (int i = 0; i < 4; i++) assert_int_equal(negate_and_read(false), BT_OK);
}

static bt_status fill_memory(int64_t count, int *line) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *x = bt_add(bt_zeros(BT_F32, count), bt_num(1));
        *line = __LINE__ - 1;
        status = bt_eval(x);
    }
    return status;
}

static void test_reports_of_memory_name_the_run(void **state) {
    (void)state;
    restart("devices=sim:gpu*1@4M");
    int line;
    for (int i = 0; i < 4; i++) assert_int_equal(fill_memory(600000, &line), BT_OK);
    BT_SCOPE {
        assert_int_equal(bt_eval(bt_add(bt_zeros(BT_F32, 600000), bt_num(2))), BT_OK);
        assert_int_equal(fill_memory(600000, &line), BT_RESOURCE_EXHAUSTED);
        char place[80];
        snprintf(place, sizeof place, "plan_cache_test.c:%d: bt_add: out of memory", line);
        if (!strstr(bt_error_text(), place)) fail_msg("%s is not in: %s", place, bt_error_text());
    }
    assert_int_equal(fill_memory(600000, &line), BT_OK);
}

/* --- threads, and memory that is short ------------------------------------------------------------------------------- */

static void *run_alike(void *argument) {
    float own = (float)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        BT_SCOPE {
            float data[16], got[16];
            for (int i = 0; i < 16; i++) data[i] = own + (float)(round + i);
            bt_array *x = bt_from(data, BT_F32, BT_SHAPE(4, 4)), *y = bt_tanh(bt_mul(x, bt_num(0)));
            bt_array *z = bt_add(bt_matmul(x, y), bt_mul(x, bt_num(2)));
            if (bt_read(z, got, sizeof got) != BT_OK) return "a read failed";
            for (int i = 0; i < 16; i++)
                if (got[i] != 2 * data[i]) return "wrong elements";
        }
    }
    return NULL;
}

static void test_threads_share_plans(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    pthread_t threads[THREADS];
    uint64_t before = found();
    for (intptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, run_alike, (void *)(t * 1000)), 0);
    for (int t = 0; t < THREADS; t++) {
        void *what;
        pthread_join(threads[t], &what);
        if (what) fail_msg("%s", (const char *)what);
    }
    assert_true(found() - before > THREADS * ROUNDS / 2);
    assert_in_range(bti_plan_cache_count().plans, 1, 4);
}

static bt_status add_three_times(void) {
    bt_status status = BT_OK;
    for (int i = 0; i < 3 && status == BT_OK; i++) {
        BT_SCOPE {
            float data[] = {1, 2, (float)i}, got[3];
            bt_array *x = bt_from(data, BT_F32, BT_SHAPE(3));
            status = bt_read(bt_add(bt_mul(x, bt_num(3)), x), got, sizeof got);
            for (int k = 0; k < 3 && status == BT_OK; k++)
                if (got[k] != 4 * data[k]) fail_msg("element %d is %g", k, (double)got[k]);
        }
    }
    return status;
}

static void test_memory_is_short(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    assert_int_equal(add_three_times(), BT_OK); /* devices are open */
    for (unsigned n = 1; n <= 150; n++) {
        assert_int_equal(bt_set_flag("threads", n % 2 ? "1" : "2"), BT_OK); /* all keys are new */
        bti_alloc_fail_at(n, false);
        bt_status status = add_three_times();
        bti_alloc_fail_at(0, false);
        if (status != BT_OK) assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
        if (add_three_times() != BT_OK) fail_msg("%u: %s", n, bt_error_text());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_found_when_it_comes_again, finish),
        cmocka_unit_test_teardown(test_each_part_of_the_key, finish),
        cmocka_unit_test_teardown(test_flags_are_in_the_key, finish),
        cmocka_unit_test_teardown(test_bound_by_bytes, finish),
        cmocka_unit_test_teardown(test_many_take_turns, finish),
        cmocka_unit_test_teardown(test_tuples_and_views, finish),
        cmocka_unit_test_teardown(test_slices_as_arguments, finish),
        cmocka_unit_test_teardown(test_errors_name_the_run, finish),
        cmocka_unit_test_teardown(test_reports_of_memory_name_the_run, finish),
        cmocka_unit_test_teardown(test_threads_share_plans, finish),
        cmocka_unit_test_teardown(test_memory_is_short, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
