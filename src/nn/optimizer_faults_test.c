// labels: valgrind
// timeout: 300
/* Steps of an optimiser with every part while the nth allocation of the host or the nth call of a device fails: the parameters and all
 * states change together or not at all, and nothing leaks. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "array/plan_test.h"

enum { PARAMETERS = 2, MOST_VARIABLES = 24, CALLS = 10 };

typedef struct world {
    bt_shared *p[PARAMETERS];
    bt_optimizer *o;
} world;

static char note[80];

static bt_status make_world(world *w) {
    BT_SCOPE {
        w->p[0] = bt_shared_retain(bt_shared_new(bt_full(1, BT_F32, 3), "gpu:0"));
        w->p[1] = bt_shared_retain(bt_shared_new(bt_full(1, BT_F16, 2), "gpu:1"));
        w->o = bt_optimizer_retain(
            bt_adamw(0.125, .clip_norm = 100, .loss_scale = 4, .scale_interval = 1, .average = 0.5, .accumulate = 2));
    }
    bt_status status = bt_shared_status(w->p[0]) ? bt_shared_status(w->p[0]) : bt_shared_status(w->p[1]);
    if (status == BT_OK) status = bt_optimizer_status(w->o);
    return status ? status : bt_optimizer_schedule(w->o, BT_SCHEDULE_LINEAR, .steps = 10, .warmup = 1, .first = 0.5);
}

static void free_world(world *w) {
    for (int i = 0; i < PARAMETERS; i++) bt_shared_release(w->p[i]);
    bt_optimizer_release(w->o);
}

/* The second of two steps updates; gradients are twice the scale, 4. */
static bt_status make_step(const world *w) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_array *grads[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++) {
            grads[i] = bt_mul(bt_ones_like(bt_value(w->p[i])), 2);
            grads[i] = bt_mul(grads[i], bt_num(4));
        }
        status = bt_optimizer_step(w->o, w->p, grads, PARAMETERS);
        for (int i = 0; i < PARAMETERS && status == BT_OK; i++) status = bt_block(bt_value(w->p[i]));
    }
    return status;
}

/* All first elements: parameters, then states. */
static int read_variables(const world *w, double *values) {
    bt_shared *all[MOST_VARIABLES] = {w->p[0], w->p[1]};
    int count = PARAMETERS + bt_optimizer_states(w->o, all + PARAMETERS, MOST_VARIABLES - PARAMETERS);
    assert_true(count <= MOST_VARIABLES);
    for (int i = 0; i < count; i++)
        BT_SCOPE {
            bt_array *x = bt_flatten(bt_value(all[i]), 0);
            values[i] = bt_item(bt_cast(bt_index(x, 0, 0), BT_F64));
            if (isnan(values[i])) fail_msg("%s: %s: %s", note, bt_shared_name(all[i]), bt_error_text());
        }
    return count;
}

/* Before, or as after a step without a fault. */
static void expect_together(const world *w, const double *before, const double *after, int count, bool changed) {
    double now[MOST_VARIABLES];
    assert_int_equal(read_variables(w, now), count);
    const double *expected = now[0] == after[0] ? after : before;
    if (changed && expected == before) fail_msg("%s: the step was lost", note);
    for (int i = 0; i < count; i++)
        if (now[i] != expected[i])
            fail_msg("%s: variable %d is %g; before the step %g, after it %g, the first %g", note, i, now[i], before[i],
                     after[i], now[0]);
}

static int lost_steps;
static void count_lost_steps(const char *line, void *data) {
    (void)data;
    lost_steps += strstr(line, "the step that set it failed") != NULL;
}

static void start_afresh(void) {
    restart("devices=sim:gpu*2");
    bt_set_log_sink(count_lost_steps, NULL);
    lost_steps = 0;
}

/* What one step makes of everything, without a fault; `steps` of it come before. */
static int reference(int steps, double *before, double *after) {
    world w = {0};
    start_afresh();
    OK(make_world(&w));
    for (int i = 0; i < steps; i++) OK(make_step(&w));
    int count = read_variables(&w, before);
    OK(make_step(&w));
    assert_int_equal(read_variables(&w, after), count);
    assert_true(after[0] < before[0] && after[1] < before[1]);
    free_world(&w);
    return count;
}

/* How many allocations a step makes when none fails. */
static uint64_t count_allocations(int steps) {
    world w = {0};
    start_afresh();
    OK(make_world(&w));
    for (int i = 0; i < steps; i++) OK(make_step(&w));
    bti_alloc_fail_at(0, false);
    (void)bti_alloc_count();
    OK(make_step(&w));
    uint64_t count = bti_alloc_count();
    free_world(&w);
    return count;
}

static void a_step_without_memory(void **state) {
    (void)state;
    double before[MOST_VARIABLES], after[MOST_VARIABLES];
    int count = reference(1, before, after);
    assert_int_equal(count, PARAMETERS + 2 * 5 + 2 * 4);
    uint64_t allocations = count_allocations(1);
    assert_true(allocations > 50);
    for (uint64_t n = 1; n <= allocations; n += n < 200 ? 1 : 1 + allocations / 100) {
        snprintf(note, sizeof note, "allocation %d of %d", (int)n, (int)allocations);
        start_afresh();
        world w = {0};
        OK(make_world(&w));
        OK(make_step(&w));
        bti_alloc_fail_at(n, false);
        bt_status status = make_step(&w);
        bti_alloc_fail_at(0, false);
        if (status != BT_OK && (status != BT_RESOURCE_EXHAUSTED || !*bt_error_text()))
            fail_msg("%s: %s: %s", note, bt_status_name(status), bt_error_text());
        expect_together(&w, before, after, count, status == BT_OK && !lost_steps);
        free_world(&w);
    }
}

/* Making everything, and the first step. Afterwards the same optimiser works. */
static void beginnings_without_memory(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 400; n += n < 150 ? 1 : 9) {
        snprintf(note, sizeof note, "the beginning, allocation %d", (int)n);
        start_afresh();
        world w = {0};
        bti_alloc_fail_at(n, false);
        bt_status status = make_world(&w);
        bool whole = status == BT_OK;
        if (whole) status = make_step(&w);
        bti_alloc_fail_at(0, false);
        if (status != BT_OK && (status != BT_RESOURCE_EXHAUSTED || !*bt_error_text()))
            fail_msg("%s: %s: %s", note, bt_status_name(status), bt_error_text());
        if (whole && make_step(&w) != BT_OK) OK(make_step(&w)); /* the first may tell of a step before that failed */
        free_world(&w);
    }
}

/* Calls of a device fail: that of one device takes back what was set on both. */
static void a_step_on_failing_devices(void **state) {
    (void)state;
    static const char *const entries[] = {"alloc", "launch", "peer_copy", "record", "wait"};
    double before[MOST_VARIABLES], after[MOST_VARIABLES];
    int count = reference(1, before, after);
    for (int i = 0; i < (int)(sizeof entries / sizeof *entries) * CALLS; i++) {
        char fault[64];
        snprintf(fault, sizeof fault, "%s:%d", entries[i / CALLS], i % CALLS + 1);
        snprintf(note, sizeof note, "%s", fault);
        start_afresh();
        world w = {0};
        OK(make_world(&w));
        OK(make_step(&w));
        OK(bt_set_flag("sim_fault", fault));
        bt_status status = make_step(&w);
        OK(bt_set_flag("sim_fault", ""));
        expect_together(&w, before, after, count, status == BT_OK && !lost_steps);
        free_world(&w);
    }
}

/* Loading fails at any allocation: all states are those of the file, or none is. */
static void loads_without_memory(void **state) {
    (void)state;
    char path[] = "/tmp/berth-optimizer-XXXXXX";
    close(mkstemp(path));
    double before[MOST_VARIABLES], after[MOST_VARIABLES];
    int count = reference(1, before, after);
    start_afresh();
    world w = {0};
    OK(make_world(&w));
    OK(make_step(&w));
    OK(make_step(&w));
    OK(bt_save_optimizer(path, w.o));
    free_world(&w);
    for (uint64_t n = 1; n <= 900; n += n < 100 ? 1 : 13) {
        snprintf(note, sizeof note, "loading, allocation %d", (int)n);
        start_afresh();
        OK(make_world(&w));
        OK(make_step(&w));
        bti_alloc_fail_at(n, false);
        bt_status status = bt_load_optimizer(path, w.o, w.p, PARAMETERS);
        bti_alloc_fail_at(0, false);
        if (status != BT_OK && (status != BT_RESOURCE_EXHAUSTED || !*bt_error_text()))
            fail_msg("%s: %s: %s", note, bt_status_name(status), bt_error_text());
        double now[MOST_VARIABLES];
        assert_int_equal(read_variables(&w, now), count);
        for (int i = PARAMETERS; i < count; i++)
            if (now[i] != (status == BT_OK ? after : before)[i])
                fail_msg("%s: variable %d is %g; before %g, in the file %g", note, i, now[i], before[i], after[i]);
        free_world(&w);
    }
    unlink(path);
}

static int end(void **state) {
    bt_set_log_sink(NULL, NULL);
    return finish(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_step_without_memory, end),
        cmocka_unit_test_teardown(beginnings_without_memory, end),
        cmocka_unit_test_teardown(a_step_on_failing_devices, end),
        cmocka_unit_test_teardown(loads_without_memory, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
