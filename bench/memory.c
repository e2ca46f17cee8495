/* How much memory loops take that run ahead of a device: memory KIND [DEVICE] [STEPS]. Writes a line of JSON: the most bytes of the device's arrays, and of the process
 * (resident, less what it had before the loop). Kinds: calls (each makes 128 MB, and nobody reads them), state (a step that replaces variables of 120 MB, whose loss nobody
 * reads), state_read (the loss is read), carried (the same state as arguments that are donated). */
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MILLION = 1000000, PARTS = 3 };

static long resident_peak(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024L;
}

static bt_array *filled(int64_t count) {
    bt_array *x = bt_uniform(bt_key(1), BT_F32, count);
    if (bt_block(x) != BT_OK) exit(1);
    return x;
}

/* --- calls ---------------------------------------------------------------------------------------------------------- */

static bool run_calls(int steps, bool read) {
    (void)read;
    bt_array *x = bt_input(BT_F32, 32 * MILLION), *y = bt_add(bt_mul(x, bt_num(0.5)), bt_num(1));
    bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
    bt_array *given = filled(32 * MILLION);
    for (int i = 0; i < steps; i++)
        BT_SCOPE
            if (bt_peek_status(bt_call1(f, &given, 1)) != BT_OK) return false;
    bt_synchronize();
    return true;
}

/* --- steps of a state of weights and two moments ------------------------------------------------------------------------ */

/* What becomes of the state, and the loss. */
static void record_step(bt_array *const *state, bt_array **next, bt_array **loss) {
    bt_array *gradient = bt_mul(state[0], bt_num(0.01));
    next[1] = bt_add(bt_mul(state[1], bt_num(0.9)), bt_mul(gradient, bt_num(0.1)));
    next[2] = bt_add(bt_mul(state[2], bt_num(0.99)), bt_mul(bt_square(gradient), bt_num(0.01)));
    next[0] = bt_sub(state[0], bt_div(next[1], bt_add(bt_sqrt(next[2]), bt_num(1))));
    *loss = bt_sum(bt_square(state[0]), BT_ALL, false);
}

static bool read_loss(bt_array *loss, bool read) {
    float value;
    return read ? bt_read(loss, &value, sizeof value) == BT_OK : bt_peek_status(loss) == BT_OK;
}

static bt_function *state_function(void) {
    bt_shared *shared[PARTS];
    bt_array *state[PARTS], *next[PARTS], *loss;
    bt_update updates[PARTS];
    bt_function *f = NULL;
    BT_SCOPE { /* what is recorded holds the values of now */
        for (int i = 0; i < PARTS; i++) {
            shared[i] = bt_shared_new(filled(10 * MILLION), NULL);
            state[i] = bt_value(shared[i]);
        }
        record_step(state, next, &loss);
        for (int i = 0; i < PARTS; i++) updates[i] = (bt_update){shared[i], next[i]};
        f = bt_function_retain(bt_function_new(NULL, 0, &loss, 1, updates, PARTS));
    }
    return f;
}

static bool run_state(int steps, bool read) {
    bt_function *f = state_function();
    bool good = f;
    for (int i = 0; i < steps && good; i++)
        BT_SCOPE
            good = read_loss(bt_call1(f, NULL, 0), read);
    bt_synchronize();
    bt_function_release(f);
    return good;
}

static bool run_carried(int steps, bool read) {
    bt_array *in[PARTS], *out[PARTS + 1], *state[PARTS];
    for (int i = 0; i < PARTS; i++) in[i] = bt_input(BT_F32, 10 * MILLION);
    record_step(in, out, &out[PARTS]);
    bt_function *f = bt_function_new(in, PARTS, out, PARTS + 1, NULL, 0);
    for (int i = 0; i < PARTS; i++) {
        if (bt_function_donate(f, i) != BT_OK) return false;
        state[i] = filled(10 * MILLION);
    }
    for (int i = 0; i < steps; i++) {
        bt_array *made[PARTS + 1];
        if (bt_call(f, state, PARTS, made, PARTS + 1) != BT_OK || !read_loss(made[PARTS], read)) return false;
        for (int k = 0; k < PARTS; k++) {
            bt_release(state[k]);
            state[k] = made[k];
        }
        bt_release(made[PARTS]);
    }
    bt_synchronize();
    return true;
}

typedef struct kind {
    const char *name;
    bool (*run)(int steps, bool read);
    bool read;
} kind;
static const kind kinds[] = {{"calls", run_calls, false},
                             {"state", run_state, false},
                             {"state_read", run_state, true},
                             {"carried", run_carried, false}};

int main(int argc, char **argv) {
    const kind *chosen = NULL;
    const char *device = argc > 2 ? argv[2] : "cpu";
    int steps = argc > 3 ? atoi(argv[3]) : 60;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (argc > 1 && !strcmp(argv[1], kinds[k].name)) chosen = &kinds[k];
    if (!chosen || steps < 1) {
        fprintf(stderr, "usage: memory calls|state|state_read|carried [DEVICE] [STEPS]\n");
        return 2;
    }
    bool good = false;
    long before = 0;
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    BT_ON(device)
        BT_SCOPE {
            if (bt_block(bt_full(1, BT_F32, 1)) != BT_OK) break; /* the device is open */
            before = resident_peak();
            good = chosen->run(steps, chosen->read);
        }
    bt_device *used = NULL;
    if (!good || bt_device_find(device, &used) != BT_OK || bt_memory(used, &info) != BT_OK) {
        fprintf(stderr, "%s\n", bt_error_text());
        return 1;
    }
    printf("{\"kind\": \"%s\", \"device\": \"%s\", \"steps\": %d, \"arrays_bytes\": %llu, \"process_bytes\": %ld}\n",
           chosen->name, device, steps, (unsigned long long)info.peak, resident_peak() - before);
    return 0;
}
