/* Steps that fail: whatever command fails on whatever device, the variables of the step are all old, or all new, and the next step is right. */
#include <stdlib.h>
#include <string.h>

#include "random_programs/program.h"

enum { VARIABLES = 3, ELEMENTS = 40, BYTES = ELEMENTS * sizeof(float) };

typedef struct state {
    float of[VARIABLES][ELEMENTS];
} state;

/* One number of all values of a pure program. */
static bt_array *one_number(uint64_t seed) {
    leaves given = {0};
    bt_array *results[MOST_INSTRUCTIONS], *sum = bt_f32(0);
    bool exact[MOST_INSTRUCTIONS];
    int count = record_pure(seed, &given, results, exact);
    for (int i = 0; i < count; i++) {
        bt_array *flat = bt_tanh(bt_cast(bt_reshape(results[i], -1), BT_F32));
        if (bt_count(flat)) sum = bt_add(bt_tanh(sum), bt_mean(flat, BT_ALL, false));
    }
    return bt_where(bt_isnan(sum), bt_f32(1), sum);
}

static bt_array *next_value(bt_shared *w, bt_array *number) { return bt_add(bt_tanh(bt_value(w)), number); }

static void make_variables(bt_shared **w) {
    static const char *const devices[VARIABLES] = {"gpu:0", "gpu:1", "gpu:2"};
    for (int i = 0; i < VARIABLES; i++)
        w[i] = bt_shared_new(bt_div(bt_arange(0, ELEMENTS, 1, BT_F32), bt_num(i + 1)), devices[i]);
}

/* By a set of all, or by a function's updates. */
static bt_status step(bt_shared **w, uint64_t seed, bt_array *number) {
    if (seed % 2) {
        bt_array *values[VARIABLES];
        for (int i = 0; i < VARIABLES; i++) values[i] = next_value(w[i], number);
        return bt_set_all(w, values, VARIABLES);
    }
    bt_array *scalar = bt_input_shape(BT_F32, (bt_shape){0}), *output;
    bt_update updates[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) updates[i] = (bt_update){w[i], next_value(w[i], scalar)};
    bt_array *total = bt_add(scalar, bt_num(1));
    bt_function *f = bt_function_new(&scalar, 1, &total, 1, updates, VARIABLES);
    return bt_call(f, &number, 1, &output, 1);
}

static bool read_all(bt_shared **w, state *now) {
    bool read = true;
    for (int i = 0; i < VARIABLES; i++) read = bt_read(bt_value(w[i]), now->of[i], BYTES) == BT_OK && read;
    return read;
}

static bool take_step(bt_shared **w, uint64_t seed, state *after) {
    bool set = step(w, seed, one_number(seed)) == BT_OK;
    return read_all(w, after) && set;
}

static void draw_fault(uint64_t seed, char *text, size_t size) {
    static const char *const entries[] = {"launch", "launch", "launch", "copy",  "peer_copy", "upload",
                                          "alloc",  "record", "wait",   "query", "launch",    "peer_copy"};
    uint64_t z = seed * UINT64_C(0x9E3779B97F4A7C15) >> 17;
    snprintf(text, size, "%s:%d", entries[z % 12], 1 + (int)(z / 12 % (z & 64 ? 6 : 40)));
}

static const char *fail_and_go_on(uint64_t seed, const state *old, const state *new) {
    char fault[40];
    state now, after;
    bt_shared *w[VARIABLES];
    draw_fault(seed, fault, sizeof fault);
    make_variables(w);
    bt_array *number = one_number(seed); /* recorded, and its leaves are there */
    if (bt_set_flag("sim_fault", fault) != BT_OK) return "the fault is refused";
    bt_status status = step(w, seed, number);
    bt_synchronize();
    if (bt_set_flag("sim_fault", "") != BT_OK) return "the fault stays";
    if (!read_all(w, &now) && !read_all(w, &now)) return "a variable cannot be read after a failed step";
    bool is_old = !memcmp(&now, old, sizeof now), is_new = !memcmp(&now, new, sizeof now);
    if (!is_old && !is_new) return "after a failed step the variables are neither all old nor all new";
    if (is_new && status != BT_OK) return "a step that was refused has set its variables";
    if (!take_step(w, seed, &after) && !take_step(w, seed, &after)) return "the step after the failed one fails";
    if (is_old && memcmp(&after, new, sizeof after)) return "the step after the failed one gives other values";
    return NULL;
}

const char *check_faults(uint64_t seed) {
    const char *what = NULL;
    BT_SCOPE {
        state *old = malloc(sizeof *old), *new = malloc(sizeof *new);
        bt_shared *w[VARIABLES];
        make_variables(w);
        if (!read_all(w, old) || !take_step(w, seed, new))
            what = "a step fails without a fault";
        else
            what = fail_and_go_on(seed, old, new);
        free(old);
        free(new);
    }
    bt_error_clear();
    return what;
}
