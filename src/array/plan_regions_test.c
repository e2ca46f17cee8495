// labels: threads
/* Plans of loops, branches and functions of the program's that are run again: each call records its bodies anew; what finds a plan, what does not, and what a
 * run shows. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "array/plan_test.h"
#include "base/trace.h"

enum { WIDTH = 4, STEPS = 3, ROUNDS = 6, THREADS = 8 };

/* --- what is in a key ------------------------------------------------------------------------------------------------- */

typedef struct variant {
    double scalar;
    bt_dtype dtype;
    int steps, axis, width;
    bool reverse, subtracts, swaps, hands_back_other, folds_outside, branches, other_branch, loops_inside;
} variant;

#define PLAIN .scalar = 2, .dtype = BT_F32, .steps = STEPS, .axis = 0, .width = WIDTH
static const variant plain = {PLAIN};

static void add_one(bt_array *const *args, bt_array **results, void *data) {
    const variant *v = data;
    results[0] = v->other_branch ? bt_sub(args[0], bt_num(1)) : bt_add(args[0], bt_num(1));
}
static void leave(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_mul(args[0], bt_num(1.5));
}
static void inner_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const variant *v = data;
    (void)x, (void)y;
    carry[0] = bt_mul(carry[0], bt_num(v->scalar / 4));
}

typedef struct outside {
    const variant *v;
    bt_array *matrix; /* read from outside */
} outside;

static void step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const outside *o = data;
    const variant *v = o->v;
    bt_array *folded = bt_sum(o->matrix, BT_AXES(v->axis), false);
    bt_array *h = bt_mul(v->swaps ? x[0] : carry[0], bt_num(v->scalar));
    h = v->subtracts ? bt_sub(h, x[0]) : bt_add(h, x[0]);
    if (v->branches) OK(bt_cond(bt_gt(bt_sum(h, BT_ALL, false), bt_num(0)), add_one, leave, (void *)v, &h, 1, &h, 1));
    if (v->loops_inside) OK(bt_scan(inner_step, (void *)v, 2, &h, 1, NULL, 0, NULL, 0));
    carry[0] = bt_add(h, folded);
    y[0] = v->hands_back_other ? h : carry[0];
}

/* What the loop gives, from the host; and how many plans were made for it. */
static uint64_t evaluate(const variant *v, double *got) {
    uint64_t before = 0, planned = 0;
    BT_SCOPE {
        int n = v->width;
        bt_array *x = bt_reshape(bt_arange(0, v->steps * n, 1, v->dtype), v->steps, n), *h = bt_ones(v->dtype, n);
        bt_array *matrix = bt_reshape(bt_arange(0, n * n, 1, v->dtype), n, n), *rows;
        bt_array *leaves[] = {x, h, matrix};
        OK(bt_eval_all(leaves, 3));
        outside o = {v, matrix};
        before = made();
        OK((v->reverse ? bt_scan_reverse : bt_scan)(step, &o, BT_ALL_ROWS, &h, 1, &x, 1, &rows, 1));
        bt_array *all = bt_add(bt_cast(h, BT_F64), bt_sum(bt_cast(rows, BT_F64), BT_AXES(0), false));
        OK(bt_eval(all));
        planned = made() - before;
        OK(bt_read(all, got, (size_t)n * sizeof *got));
    }
    return planned;
}

static void found_when_it_comes_again(void **state) {
    (void)state;
    double first[WIDTH], got[WIDTH];
    restart("devices=sim:gpu*2@64M");
    assert_true(evaluate(&plain, first) > 0);
    assert_true(evaluate(&plain, got) > 0); /* the second one is kept */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(evaluate(&plain, got), 0);
        assert_memory_equal(first, got, sizeof got);
    }
}

static void each_part_of_a_region(void **state) {
    (void)state;
    static const variant others[] = {
        {PLAIN, .subtracts = true},
        {PLAIN, .swaps = true},
        {PLAIN, .reverse = true},
        {PLAIN, .hands_back_other = true},
        {PLAIN, .branches = true},
        {PLAIN, .branches = true, .other_branch = true},
        {PLAIN, .loops_inside = true},
        {.scalar = 3, .dtype = BT_F32, .steps = STEPS, .axis = 0, .width = WIDTH},
        {.scalar = 2, .dtype = BT_F64, .steps = STEPS, .axis = 0, .width = WIDTH},
        {.scalar = 2, .dtype = BT_F32, .steps = STEPS + 1, .axis = 0, .width = WIDTH},
        {.scalar = 2, .dtype = BT_F32, .steps = STEPS, .axis = 1, .width = WIDTH},
        {.scalar = 2, .dtype = BT_F32, .steps = STEPS, .axis = 0, .width = WIDTH - 1},
        {.scalar = 3, .dtype = BT_F32, .steps = STEPS, .axis = 0, .width = WIDTH, .loops_inside = true},
    };
    double first[WIDTH], got[WIDTH], alike[WIDTH];
    restart("devices=sim:gpu*2@64M");
    for (int i = 0; i < 3; i++) (void)evaluate(&plain, alike);
    for (size_t o = 0; o < sizeof others / sizeof *others; o++) {
        if (!evaluate(&others[o], first)) fail_msg("variant %zu finds the plan of another", o);
        (void)evaluate(&others[o], got);
        assert_int_equal(evaluate(&others[o], got), 0);
        assert_memory_equal(first, got, (size_t)others[o].width * sizeof *got);
        assert_int_equal(evaluate(&plain, got), 0);
        assert_memory_equal(alike, got, sizeof got);
        OK(bt_set_flag("plan_cache", "0"));
        (void)evaluate(&others[o], got);
        assert_memory_equal(first, got, (size_t)others[o].width * sizeof *got);
        OK(bt_set_flag("plan_cache", "64M"));
        for (int i = 0; i < 2; i++) (void)evaluate(&plain, got); /* a flag was set: all is planned anew */
    }
}

/* --- loops around loops ------------------------------------------------------------------------------------------------ */

static void decay(bt_array **carry, bt_array *const *x, bt_array **y, void *weights) {
    carry[0] = y[0] = bt_tanh(bt_add(bt_mul(carry[0], weights), x[0]));
}
static bt_array *is_small(bt_array *const *carry, void *limit) { return bt_lt(bt_sum(carry[0], BT_ALL, false), limit); }
static void grow(bt_array **carry, void *unused) {
    (void)unused;
    carry[0] = bt_add(bt_mul(carry[0], bt_num(2)), bt_num(1));
}
static void add_gated(bt_array *const *args, bt_array **results, void *weights) {
    results[0] = bt_mul(args[0], weights);
}

static bt_array *ramp(double from) { return bt_add(bt_arange(0, WIDTH, 1, BT_F32), bt_num(from)); }

/* One step of training through a loop: the loss, and new weights. */
static double train(bt_array **weights, bool checkpointed, int round) {
    double loss = 0;
    BT_SCOPE {
        bt_array *x = bt_reshape(bt_arange(0, STEPS * WIDTH, 1, BT_F32), STEPS, WIDTH), *h = ramp(0.1), *rows, *g;
        OK(bt_scan(decay, *weights, BT_ALL_ROWS, &h, 1, &x, 1, &rows, 1));
        bt_array *other = bt_mul(h, *weights);
        OK(bt_cond(bt_gt(bt_sum(h, BT_ALL, false), bt_num(round % 2 ? 0 : 100)), add_gated, add_gated, *weights, &other,
                   1, &other, 1));
        if (checkpointed) BT_CHECKPOINT
        other = bt_exp(bt_mul(other, bt_num(0.1)));
        bt_array *total = bt_add(bt_mean(rows, BT_ALL, false), bt_mean(other, BT_ALL, false));
        OK(bt_grad(total, weights, 1, &g));
        bt_array *next = bt_sub(*weights, bt_mul(g, bt_num(0.05)));
        OK(bt_eval_all(((bt_array *[]){next, total}), 2));
        loss = bt_item(bt_cast(total, BT_F64));
        bt_assign(weights, bt_stop_gradient(next));
    }
    return loss;
}

static void nothing_is_made_from_the_third_on(void **state) {
    (void)state;
    restart("devices=sim:h200*2@64M");
    for (int checkpointed = 0; checkpointed < 2; checkpointed++) {
        double losses[2][ROUNDS];
        for (int pass = 0; pass < 2; pass++) { /* kept, and planned anew */
            OK(bt_set_flag("plan_cache", pass ? "0" : "64M"));
            bt_array *weights = NULL;
            BT_SCOPE
                bt_assign(&weights, ramp(0.5));
            bti_trace_start();
            for (int i = 0; i < ROUNDS; i++) {
                uint64_t before = made(), since = bti_trace_now();
                losses[pass][i] = train(&weights, checkpointed, 1);
                if (pass || i < 3) continue;
                assert_int_equal(made(), before);
                bti_trace_log log;
                assert_true(bti_trace_collect(since, &log));
                for (size_t e = 0; e < log.events.count; e++) {
                    bti_trace_kind kind = (bti_trace_kind)log.events.items[e].kind;
                    if (kind == BTI_TRACE_PLAN || kind == BTI_TRACE_PREPARE || bti_trace_is_first(kind))
                        fail_msg("round %d: event of kind %d", i, (int)kind);
                }
                bti_trace_log_free(&log);
            }
            bti_trace_stop();
            bt_release(weights);
        }
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    }
}

static void loops_that_test(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = made();
        BT_SCOPE {
            float most = (float)(100 * (i % 3)), first = (float)i, data[] = {first, first, first, first};
            bt_array *h = bt_from(data, BT_F32, BT_SHAPE(WIDTH)), *limit = bt_from(&most, BT_F32, BT_SHAPE());
            OK(bt_while(is_small, grow, limit, 50, &h, 1));
            float got[WIDTH], wanted = first;
            while (WIDTH * wanted < most) wanted = 2 * wanted + 1;
            OK(bt_read(h, got, sizeof got));
            for (int k = 0; k < WIDTH; k++) assert_true(got[k] == wanted);
        }
        if (i >= 2) assert_int_equal(made(), before);
    }
}

/* Results that were computed and not asked for are read later. */
static void results_one_by_one(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = made();
        BT_SCOPE {
            float got[WIDTH], row[STEPS * WIDTH], data[WIDTH] = {0, 1, 2, (float)i};
            bt_array *h = bt_from(data, BT_F32, BT_SHAPE(WIDTH)), *rows, *weights = h, *x;
            x = bt_stack(((bt_array *[]){h, h, h}), 3, 0);
            OK(bt_scan(decay, weights, BT_ALL_ROWS, &h, 1, &x, 1, &rows, 1));
            OK(bt_read(h, got, sizeof got));
            OK(bt_read(bt_neg(rows), row, sizeof row));
            for (int k = 0; k < WIDTH; k++) assert_true(got[k] == -row[(STEPS - 1) * WIDTH + k]);
        }
        if (i >= 2) assert_int_equal(made(), before);
    }
}

static void *run_alike(void *argument) {
    for (int round = 0; round < 60; round++) {
        BT_SCOPE {
            float data[WIDTH], got[WIDTH];
            for (int i = 0; i < WIDTH; i++) data[i] = (float)((intptr_t)argument + round + i);
            bt_array *h = bt_from(data, BT_F32, BT_SHAPE(WIDTH));
            variant v = {.scalar = 2};
            if (bt_scan(inner_step, &v, 3, &h, 1, NULL, 0, NULL, 0) != BT_OK) return "a scan fails";
            if (bt_read(h, got, sizeof got) != BT_OK) return "a read failed";
            for (int i = 0; i < WIDTH; i++)
                if (got[i] != data[i] / 8) return "wrong elements";
        }
    }
    return NULL;
}

static void threads_share_plans(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M");
    pthread_t threads[THREADS];
    uint64_t before = bti_plan_cache_count().found;
    for (intptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, run_alike, (void *)(t * 1000)), 0);
    for (int t = 0; t < THREADS; t++) {
        void *what;
        pthread_join(threads[t], &what);
        if (what) fail_msg("%s", (const char *)what);
    }
    assert_true(bti_plan_cache_count().found - before > THREADS * 60 / 2);
}

static void memory_is_short(void **state) {
    (void)state;
    double wanted[WIDTH], got[WIDTH];
    variant v = {PLAIN, .branches = true, .loops_inside = true};
    restart("devices=sim:gpu*2@64M");
    (void)evaluate(&v, wanted);
    for (unsigned n = 1; n <= 900; n += 7) {
        OK(bt_set_flag("threads", n % 2 ? "1" : "2")); /* all keys are new */
        for (int i = 0; i < 3; i++) {
            bt_status status = BT_OK;
            bti_alloc_fail_at(n, false);
            BT_SCOPE {
                bt_array *h = bt_ones(BT_F32, WIDTH);
                status = bt_scan(inner_step, &v, 3, &h, 1, NULL, 0, NULL, 0);
                if (status == BT_OK) status = bt_eval(h);
            }
            bti_alloc_fail_at(0, false);
            if (status != BT_OK) assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
            bt_error_clear();
        }
        (void)evaluate(&v, got);
        assert_memory_equal(wanted, got, sizeof got);
    }
}

/* --- what is shown ----------------------------------------------------------------------------------------------------- */

static int body_line;
static void fails_late(bt_array **carry, bt_array *const *x, bt_array **y, void *unused) {
    (void)unused, (void)x, (void)y;
    body_line = __LINE__ + 1;
    carry[0] = bt_matmul(carry[0], carry[0]);
}

static bt_status square_again(void) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *h = bt_from(((float[]){1, 0, 0, 1}), BT_F32, BT_SHAPE(2, 2));
        OK(bt_scan(fails_late, NULL, 2, &h, 1, NULL, 0, NULL, 0));
        status = bt_block(h);
    }
    return status;
}

static void errors_name_the_body(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M,sim_fault=launch:10");
    for (int i = 0; i < 4; i++) OK(square_again());
    uint64_t before = made();
    assert_int_equal(square_again(), BT_INTERNAL);
    assert_int_equal(made(), before);
    char place[80];
    snprintf(place, sizeof place, "plan_regions_test.c:%d: bt_matmul: injected fault", body_line);
    if (!strstr(bt_error_text(), place)) fail_msg("%s is not in: %s", place, bt_error_text());
    bt_error_clear();
    OK(square_again());
}

static int logged;
static char last_logged[300];
static void note_line(const char *line, void *unused) {
    (void)unused;
    if (!strstr(line, "Copying")) return;
    logged++;
    snprintf(last_logged, sizeof last_logged, "%s", line);
}

static void copies_are_logged_for_each_run(void **state) {
    (void)state;
    restart("devices=sim:gpu*2@64M,transfers=log");
    bt_set_log_sink(note_line, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = made();
        int line = 0;
        BT_SCOPE {
            bt_array *x = bt_from(((float[]){1, 2}), BT_F32, BT_SHAPE(2)), *y = NULL;
            logged = 0;
            BT_ON("gpu:0") x = bt_mul(x, x);
            BT_ON("gpu:1") {
                if (i == ROUNDS - 1)
                    y = bt_neg(x), line = __LINE__;
                else
                    y = bt_neg(x), line = __LINE__;
            }
            OK(bt_block(y));
        }
        char place[60];
        snprintf(place, sizeof place, "plan_regions_test.c:%d", line);
        assert_int_equal(logged, 1);
        if (!strstr(last_logged, place)) fail_msg("%s is not in: %s", place, last_logged);
        if (i >= 2) assert_int_equal(made(), before);
    }
    bt_set_log_sink(NULL, NULL);
}

/* What is explained is planned anew: it is the plan that ran before, and that runs. */
static void the_plan_that_is_shown_is_the_one_that_runs(void **state) {
    (void)state;
    double got[WIDTH];
    uint64_t plans[3] = {0};
    variant v = {PLAIN, .branches = true};
    restart("devices=sim:gpu*2@64M");
    bt_set_log_sink(note_line, NULL);
    for (int i = 0; i < 2; i++) (void)evaluate(&v, got);
    bti_trace_start();
    for (int i = 0; i < 3; i++) {
        uint64_t since = bti_trace_now();
        if (i == 2) OK(bt_set_flag("explain", "json"));
        assert_int_equal(evaluate(&v, got) > 0, i == 2);
        bti_trace_log log;
        assert_true(bti_trace_collect(since, &log));
        for (size_t e = 0; e < log.events.count; e++)
            if (log.events.items[e].kind == BTI_TRACE_SUBMIT) plans[i] = plans[i] * 31 + log.events.items[e].plan;
        bti_trace_log_free(&log);
    }
    bti_trace_stop();
    bt_set_log_sink(NULL, NULL);
    assert_true(plans[0] != 0);
    assert_true(plans[1] == plans[0]);
    assert_true(plans[2] == plans[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(found_when_it_comes_again, finish),
        cmocka_unit_test_teardown(each_part_of_a_region, finish),
        cmocka_unit_test_teardown(nothing_is_made_from_the_third_on, finish),
        cmocka_unit_test_teardown(loops_that_test, finish),
        cmocka_unit_test_teardown(results_one_by_one, finish),
        cmocka_unit_test_teardown(threads_share_plans, finish),
        cmocka_unit_test_teardown(memory_is_short, finish),
        cmocka_unit_test_teardown(errors_name_the_body, finish),
        cmocka_unit_test_teardown(copies_are_logged_for_each_run, finish),
        cmocka_unit_test_teardown(the_plan_that_is_shown_is_the_one_that_runs, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
