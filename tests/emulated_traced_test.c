// timeout: 600
/* Programs on emulated GPUs while a profile is recorded: kernels, copies between cards and sums over cards have the times of the cards, each of which takes WORK_US in the
 * model of the fake machine; also kernels of calls that are launched as recordings. */
#include <jansson.h>
#include <unistd.h>

#include "support/emulated_programs.h"

#define WORK_US 10.0

static char path[64];

static json_t *stop(bt_profile *profile) {
    char *text;
    json_error_t fault;
    OK(bt_profile_stop(profile, path, &text));
    bt_free(text);
    json_t *trace = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
    if (!trace) fail_msg("line %d: %s", fault.line, fault.text);
    unlink(path);
    return trace;
}

typedef struct slice {
    double begin, length;
    int line;
} slice;

static json_int_t process_of(json_t *trace, int card) {
    json_t *event;
    size_t i;
    char name[24];
    snprintf(name, sizeof name, "GPU:%d", card);
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        const char *own = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
        if (own && !strcmp(own, name)) return json_integer_value(json_object_get(event, "pid"));
    }
    fail_msg("no %s in the trace", name);
    return 0;
}

/* Those of a category on a card, in the order of the trace, which is that of time; the number of them. */
static int find_slices(json_t *trace, const char *category, int card, slice *found, int most) {
    json_t *event;
    size_t i;
    int count = 0;
    json_int_t process = process_of(trace, card);
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        const char *own = json_string_value(json_object_get(event, "cat"));
        const char *phase = json_string_value(json_object_get(event, "ph"));
        if (!own || strcmp(own, category) || strcmp(phase, "X")) continue;
        if (json_integer_value(json_object_get(event, "pid")) != process) continue;
        assert_true(count < most);
        found[count++] =
            (slice){json_number_value(json_object_get(event, "ts")), json_number_value(json_object_get(event, "dur")),
                    (int)json_integer_value(json_object_get(json_object_get(event, "args"), "line"))};
    }
    return count;
}

static bool is_near(double us, double want) { return fabs(us - want) < 0.0015; }

/* --- kernels ---------------------------------------------------------------------------------------------------------- */

enum { STEPS = 3, KERNELS = 2 * STEPS, CALLS = 12 };

static bt_function *new_steps(void) {
    bt_array *in = bt_input(BT_F32, 500), *out = in;
    for (int i = 0; i < STEPS; i++) out = bt_add(bt_mul(out, bt_num(2)), bt_num(1));
    bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
    OK(bt_function_status(f));
    return f;
}

/* Several are in flight at a time. */
static void call(bt_function *f, int times) {
    for (int i = 0; i < times; i++)
        BT_SCOPE {
            float *data = numbers(500, (float)i);
            bt_array *x = bt_from(data, BT_F32, (bt_shape){1, {500}}), *y;
            test_free(data);
            OK(bt_eval(y = bt_call1(f, &x, 1)));
            if (i % 3 == 2) expect_line(y, 500, (float)i, 8, 7);
        }
}

static void expect_kernels(json_t *trace, int calls) {
    slice slices[CALLS * KERNELS];
    int count = find_slices(trace, "kernel", 0, slices, COUNT(slices));
    assert_int_equal(count, calls * KERNELS);
    for (int i = 0; i < count; i++) {
        if (!is_near(slices[i].length, WORK_US)) fail_msg("kernel %d took %g us", i, slices[i].length);
        assert_true(slices[i].line > 0);
        double gap = i % KERNELS ? slices[i].begin - slices[i - 1].begin - WORK_US : 0;
        if (!is_near(gap, 0)) fail_msg("kernel %d begins %g us after the one before", i, gap);
    }
}

/* Marks are recorded with the launches: the second profile finds them recorded. */
static void calls_have_the_times_of_the_card(void **state) {
    static const char *const flags[] = {"fuse=off", "fuse=off,graphs=off"};
    for (int way = 0; way < 2; way++) {
        begin_with(flags[way]);
        BT_SCOPE {
            bt_function *f = new_steps();
            call(f, 6);
            for (int round = 0; round < 2; round++) {
                bt_profile *profile = bt_profile_start();
                call(f, CALLS);
                json_t *trace = stop(profile);
                expect_kernels(trace, CALLS);
                json_decref(trace);
                call(f, 3);
            }
            bt_function_release(f);
        }
    }
}

/* --- beside kernels --------------------------------------------------------------------------------------------------- */

static void expect_one(json_t *trace, const char *category, int card) {
    slice one;
    assert_int_equal(find_slices(trace, category, card, &one, 1), 1);
    if (!is_near(one.length, WORK_US)) fail_msg("the %s took %g us", category, one.length);
}

static void copies_between_cards_have_times(void **state) {
    begin();
    BT_SCOPE {
        bt_array *here = bt_ones(BT_F32, 500);
        OK(bt_block(here));
        bt_profile *profile = bt_profile_start();
        bt_array *there = bt_neg(bt_to(bt_neg(here), "gpu:1"));
        OK(bt_block(there));
        json_t *trace = stop(profile);
        expect_one(trace, "arrival", 1);
        expect_one(trace, "kernel", 0);
        expect_one(trace, "kernel", 1);
        json_decref(trace);
    }
}

static void sums_over_cards_have_times(void **state) {
    begin();
    bt_strategy *gpus = bt_mirrored(NULL, 0);
    BT_SCOPE {
        int count = bt_strategy_count(gpus);
        bt_array *each[8] = {NULL};
        for (int r = 0; r < count; r++)
            BT_REPLICA(gpus, r) OK(bt_block(each[r] = bt_full(r, BT_F32, 500)));
        bt_profile *profile = bt_profile_start();
        bt_all_reduce(gpus, each);
        for (int r = 0; r < count; r++) OK(bt_block(each[r]));
        json_t *trace = stop(profile);
        for (int r = 0; r < count; r++) expect_one(trace, "collective", r);
        json_decref(trace);
        for (int r = 0; r < count; r++) assert_true(bt_item(bt_max(each[r], BT_ALL, false)) == count * (count - 1) / 2);
    }
    bt_strategy_release(gpus);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_have_the_times_of_the_card),
        cmocka_unit_test(copies_between_cards_have_times),
        cmocka_unit_test(sums_over_cards_have_times),
    };
    snprintf(path, sizeof path, "/tmp/berth-traced-%d.json", (int)getpid());
    return RUN_EMULATED(tests);
}
