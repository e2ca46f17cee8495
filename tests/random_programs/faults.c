/* Steps that fail: whatever command fails on whatever device, the variables of the step are all old, or all new, on all replicas, and the next step is right. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "random_programs/program.h"

enum { VARIABLES = 3, ELEMENTS = 40, BYTES = ELEMENTS * sizeof(float), IN = 5, OUT = 4 };
static const char *const devices[VARIABLES] = {"gpu:0", "gpu:1", "gpu:2"};

/* Of each variable; or of each replica of a model, its weights and biases. */
typedef struct state {
    float of[VARIABLES][ELEMENTS];
} state;

typedef enum way { BY_FUNCTION, BY_SET, MIRRORED, WAYS } way;

typedef struct subject {
    uint64_t seed;
    way way;
    bt_shared *w[VARIABLES]; /* one on each device */
    bt_strategy *strategy;   /* MIRRORED: a model with a replica on each */
    bt_layer *model;
    bt_optimizer *optimizer;
} subject;

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

static subject new_subject(uint64_t seed) {
    subject s = {.seed = seed, .way = (way)(seed / 2 % WAYS)};
    if (s.way == MIRRORED) {
        s.strategy = bt_mirrored(devices, VARIABLES);
        s.optimizer = bt_momentum(0.1, 0.9);
        BT_STRATEGY(s.strategy) s.model = bt_dense(IN, OUT, NULL, bt_key((int64_t)seed));
    }
    for (int i = 0; i < VARIABLES && s.way != MIRRORED; i++)
        s.w[i] = bt_shared_new(bt_div(bt_arange(0, ELEMENTS, 1, BT_F32), bt_num(i + 1)), devices[i]);
    return s;
}

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *number) {
    return bt_mul(bt_mse(bt_apply(model, x), y), (bt_array *)number);
}

static bt_status step(const subject *s, bt_array *number) {
    bt_array *values[VARIABLES], *output;
    if (s->way == MIRRORED) {
        bt_array *x = bt_uniform(bt_key(7), BT_F32, 6, IN), *y = bt_ones(BT_F32, 6, OUT);
        return bt_block(bt_train_step(s->strategy, s->model, s->optimizer, loss_of, number, x, y));
    }
    if (s->way == BY_SET) {
        for (int i = 0; i < VARIABLES; i++) values[i] = next_value(s->w[i], number);
        return bt_set_all((bt_shared **)s->w, values, VARIABLES);
    }
    bt_array *scalar = bt_input_shape(BT_F32, (bt_shape){0});
    bt_update updates[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) updates[i] = (bt_update){s->w[i], next_value(s->w[i], scalar)};
    bt_array *total = bt_add(scalar, bt_num(1));
    bt_function *f = bt_function_new(&scalar, 1, &total, 1, updates, VARIABLES);
    return bt_call(f, &number, 1, &output, 1);
}

static bool read_replica(const subject *s, int replica, float *to) {
    bt_shared *parameters[2];
    bool read = bt_parameters(s->model, parameters, 2) == 2;
    BT_REPLICA(s->strategy, replica)
        for (int i = 0; i < 2 && read; i++) {
            bt_array *value = bt_value(parameters[i]);
            read = bt_read(value, to, (size_t)bt_count(value) * sizeof *to) == BT_OK;
            to += bt_count(value);
        }
    return read;
}

static bool read_all(const subject *s, state *now) {
    bool read = true;
    memset(now, 0, sizeof *now);
    for (int i = 0; i < VARIABLES; i++) {
        bool one = s->way == MIRRORED ? read_replica(s, i, now->of[i])
                                      : bt_read(bt_value(s->w[i]), now->of[i], BYTES) == BT_OK;
        read = read && one;
    }
    return read;
}

static bool take_step(const subject *s, state *after) {
    bool set = step(s, one_number(s->seed)) == BT_OK;
    return read_all(s, after) && set;
}

/* --- commands that fail ----------------------------------------------------------------------------------------------- */

/* On simulated devices, or calls of CUDA on emulated ones; some kinds more often than others. */
static const char *const simulated_kinds[] = {"launch", "launch", "launch", "launch", "copy",  "fill",      "peer_copy",
                                              "follow", "upload", "alloc",  "record", "query", "wait",      "download",
                                              "launch", "record", "alloc",  "upload", "sync",  "all_reduce"};
static const char *const emulated_kinds[] = {"cuLaunchKernel",       "cuLaunchKernel",    "cuLaunchKernel",
                                             "cuMemcpyHtoDAsync_v2", "cuMemAlloc_v2",     "cuEventRecord",
                                             "cuStreamWaitEvent",    "cuMemcpyPeerAsync", "cuMemcpyDtoHAsync_v2"};
enum {
    KINDS_SIMULATED = sizeof simulated_kinds / sizeof *simulated_kinds,
    KINDS_EMULATED = sizeof emulated_kinds / sizeof *emulated_kinds
};

/* Of the fake machine (tests/fakes); NULL: the devices are simulated, or real. */
static void (*set_emulated_fault)(const char *name, int device, long nth, int code);
static bool find_emulated_fault(void) {
    void *machine = bti_flag_bool(BTI_FLAG_devices) ? NULL : dlopen("libfake_machine.so", RTLD_NOW | RTLD_NOLOAD);
    set_emulated_fault = NULL;
    if (machine) *(void **)(void *)&set_emulated_fault = dlsym(machine, "fake_set_fault");
    return set_emulated_fault || bti_flag_bool(BTI_FLAG_devices);
}

/* The nth call of this kind from now on fails; kind "": none does. */
static bool set_fault(const char *kind, int nth) {
    char text[40] = "";
    if (set_emulated_fault) {
        set_emulated_fault(kind, -1, nth, !strcmp(kind, "cuMemAlloc_v2") ? 2 : 1);
        return true;
    }
    if (*kind) snprintf(text, sizeof text, "%s:%d", kind, nth);
    return bt_set_flag("sim_fault", text) == BT_OK;
}

static uint64_t steps, undone; /* with a fault, and those that changed nothing */

static const char *fail_and_go_on(uint64_t seed, const char *kind, int nth, const state *old, const state *new) {
    state now, after;
    subject s = new_subject(seed);
    bt_array *number = one_number(seed); /* recorded, and its leaves are there */
    if (!set_fault(kind, nth)) return "the fault is refused";
    bt_status status = step(&s, number);
    bool read = false;
    if (nth % 2)
        bt_synchronize();
    else
        read = read_all(&s, &now); /* reads go on with the step, and may fail themselves */
    if (!set_fault("", 0)) return "the fault stays";
    if (!read && !read_all(&s, &now) && !read_all(&s, &now)) return "a variable cannot be read after a failed step";
    bool is_old = !memcmp(&now, old, sizeof now), is_new = !memcmp(&now, new, sizeof now);
    steps++;
    undone += is_old;
    if (!is_old && !is_new) return "after a failed step the variables are neither all old nor all new";
    if (is_new && status != BT_OK && s.way != MIRRORED) return "a step that was refused has set its variables";
    if (!take_step(&s, &after) && !take_step(&s, &after)) return "the step after the failed one fails";
    if (is_old && memcmp(&after, new, sizeof after)) return "the step after the failed one gives other values";
    return NULL;
}

static int told;
static void count_errors(bt_status status, const char *text, void *data) {
    (void)status, (void)text, (void)data;
    told++;
}

/* A check takes some commands of one kind; a long one all of them, until none fails any more (errors of some are not told). */
enum { DRAWN = 3, MOST = 200, UNTOLD = 5 };

static const char *fail_each(uint64_t seed, const state *old, const state *new) {
    uint64_t z = seed * UINT64_C(0x9E3779B97F4A7C15) >> 17;
    const char *kind = set_emulated_fault ? emulated_kinds[z % KINDS_EMULATED] : simulated_kinds[z % KINDS_SIMULATED];
    const char *what = NULL;
    bool all = getenv("BERTH_TEST_LONG");
    int untold = 0;
    bt_set_error_handler(count_errors, NULL); /* strict=on */
    for (int i = 1; !what && (all ? i <= MOST && untold < UNTOLD : i <= DRAWN); i++) {
        uint64_t drawn = z / 32 * (uint64_t)i;
        int nth = all ? i : 1 + (int)(drawn % (drawn & 1024 ? 6 : 40));
        told = 0;
        BT_SCOPE
            what = fail_and_go_on(seed, kind, nth, old, new);
        untold = told ? 0 : untold + 1;
        bt_error_clear();
        if (what) printf("seed %llu: %s:%d:\n", (unsigned long long)seed, kind, nth);
    }
    bt_set_error_handler(NULL, NULL);
    if (!what && steps >= 600 && undone * 8 < steps) what = "hardly a fault makes a step fail";
    return what;
}

const char *check_faults(uint64_t seed) {
    if (!find_emulated_fault() || bt_device_count(BT_GPU) < VARIABLES) return NULL; /* real devices, or too few */
    const char *what = NULL;
    state *old = malloc(sizeof *old), *new = malloc(sizeof *new);
    BT_SCOPE {
        subject s = new_subject(seed);
        if (!read_all(&s, old) || !take_step(&s, new)) what = "a step fails without a fault";
    }
    if (!what) what = fail_each(seed, old, new);
    free(old);
    free(new);
    bt_error_clear();
    return what;
}
