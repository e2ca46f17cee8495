/* What recording and computing cost per node of a graph: scaling SHAPE NODES [REPETITIONS]. Writes a line of JSON: the
 * least of the repetitions in nanoseconds per node, bytes per node. Shapes: chain, tree, mesh, results, loop. */
#include <berth.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ELEMENTS = 4, MOST_REPETITIONS = 1000 };

typedef struct graph {
    bt_array **wanted; /* what is computed; room for as many as there are nodes */
    int count;
    double truth; /* the first element of the last of them */
} graph;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static size_t heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* "VmHWM", the most that was resident so far, or "VmRSS", what is; in bytes. */
static size_t resident_bytes(const char *which) {
    char line[256];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, which, strlen(which))) kib = (size_t)atoll(line + strlen(which) + 1);
    if (status) fclose(status);
    return kib << 10;
}

static bt_array *ready(double value) {
    bt_array *x = bt_full(value, BT_F32, ELEMENTS);
    if (bt_block(x) != BT_OK) fprintf(stderr, "%s\n", bt_error_text()), exit(1);
    return x;
}

/* --- shapes: about `nodes` nodes ------------------------------------------------------------------------------------ */

/* x + 1 + 1 ... */
static void chain(graph *g, bt_array *x, int nodes) {
    bt_array *one = ready(1);
    for (int i = 0; i < nodes; i++) x = bt_add(x, one);
    g->wanted[0] = x;
    g->count = 1;
    g->truth = 1 + fmin(nodes, (1 << 24) - 1);
}

/* A third of them numbers, a third leaves x + number, a third adds above them, in pairs. */
static void tree(graph *g, bt_array *x, int nodes) {
    int width = nodes / 3;
    for (int i = 0; i < width; i++) g->wanted[i] = bt_add(x, bt_num(i));
    g->truth = width + 0.5 * width * (width - 1);
    for (; width > 1; width = (width + 1) / 2)
        for (int i = 0; i < (width + 1) / 2; i++)
            g->wanted[i] = 2 * i + 1 < width ? bt_add(g->wanted[2 * i], g->wanted[2 * i + 1]) : g->wanted[2 * i];
    g->count = 1;
}

/* Layers of two, each made of both before it. */
static void mesh(graph *g, bt_array *x, int nodes) {
    bt_array *a = x, *b = ready(2);
    for (int i = 0; i < nodes / 2; i++) {
        bt_array *greater = bt_maximum(a, b), *lesser = bt_minimum(a, b);
        a = lesser, b = greater;
    }
    g->wanted[0] = bt_sub(b, a);
    g->count = 1;
    g->truth = 1;
}

/* Many small results, none of the others: x + i. */
static void results(graph *g, bt_array *x, int nodes) {
    g->count = nodes / 2; /* the number is a node too */
    for (int i = 0; i < g->count; i++) g->wanted[i] = bt_add(x, bt_num(i));
    g->truth = g->count;
}

/* --- measuring ------------------------------------------------------------------------------------------------------ */

typedef struct phases {
    double record, evaluate, release; /* seconds */
    size_t recorded_bytes;
} phases;

/* Planning and running are one figure: small work is run while it is planned. False: wrong or failed. */
static bool measure(void (*shape)(graph *g, bt_array *x, int nodes), int nodes, graph *g, phases *p) {
    bool good = false;
    double recorded, done;
    BT_SCOPE {
        bt_array *x = ready(1);
        size_t before = heap_bytes();
        double start = now();
        shape(g, x, nodes);
        recorded = now();
        p->recorded_bytes = heap_bytes() - before;
        double asked = now();
        good = bt_eval_all(g->wanted, g->count) == BT_OK;
        bt_synchronize();
        done = now();
        p->record = recorded - start;
        p->evaluate = done - asked;
        float value[ELEMENTS];
        good = good && bt_read(g->wanted[g->count - 1], value, sizeof value) == BT_OK &&
               fabs((double)value[0] - g->truth) <= 1e-5 * g->truth;
        done = now();
    }
    p->release = now() - done;
    return good;
}

/* Of one member, per node, in nanoseconds: what else the machine does only adds to it. */
static double least(const phases *all, int count, size_t member, int nodes) {
    double value, found = INFINITY;
    for (int i = 0; i < count; i++) {
        memcpy(&value, (const char *)&all[i] + member, sizeof value);
        found = fmin(found, value);
    }
    return found / nodes * 1e9;
}

static int measure_shape(const char *name, void (*shape)(graph *g, bt_array *x, int nodes), int nodes,
                         int repetitions) {
    static phases all[MOST_REPETITIONS];
    graph g = {.wanted = calloc((size_t)nodes, sizeof(bt_array *))};
    phases small;
    if (!g.wanted || !measure(shape, 16, &g, &small)) return 1;
    size_t resident = resident_bytes("VmRSS:");
    for (int i = 0; i < repetitions; i++)
        if (!measure(shape, nodes, &g, &all[i])) return 1;
    size_t peak = resident_bytes("VmHWM:");
    printf("{\"shape\": \"%s\", \"nodes\": %d, \"repetitions\": %d, \"record_ns\": %.1f, \"evaluate_ns\": %.1f, "
           "\"release_ns\": %.1f, \"recorded_bytes\": %.1f, \"peak_bytes\": %.1f}\n",
           name, nodes, repetitions, least(all, repetitions, offsetof(phases, record), nodes),
           least(all, repetitions, offsetof(phases, evaluate), nodes),
           least(all, repetitions, offsetof(phases, release), nodes), (double)all[0].recorded_bytes / nodes,
           (double)(peak > resident ? peak - resident : 0) / nodes);
    free(g.wanted);
    return 0;
}

/* Steps of x = x + 1 that nobody waits for; what is resident after a tenth of them, and at the end. */
static int loop(int steps) {
    bt_array *one = ready(1), *x = NULL;
    size_t early = 0;
    bt_assign(&x, ready(0));
    double start = now();
    for (int i = 0; i < steps; i++) {
        BT_SCOPE
            bt_assign(&x, bt_add(x, one));
        if (i == steps / 10) early = resident_bytes("VmRSS:");
    }
    double value = 0, truth = fmin(steps, 1 << 24);
    if (bt_item_at(x, (int64_t[]){0}, &value) != BT_OK || fabs(value - truth) > 0) return 1;
    printf("{\"shape\": \"loop\", \"nodes\": %d, \"step_ns\": %.1f, \"early_bytes\": %zu, \"late_bytes\": %zu, "
           "\"peak_bytes\": %zu}\n",
           steps, (now() - start) / steps * 1e9, early, resident_bytes("VmRSS:"), resident_bytes("VmHWM:"));
    bt_assign(&x, NULL);
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*shape)(graph *g, bt_array *x, int nodes);
    } shapes[] = {{"chain", chain}, {"tree", tree}, {"mesh", mesh}, {"results", results}};
    const char *name = argc > 1 ? argv[1] : "";
    int nodes = argc > 2 ? atoi(argv[2]) : 0, repetitions = argc > 3 ? atoi(argv[3]) : 1, code = 2;
    if (nodes >= 16 && repetitions >= 1 && repetitions <= MOST_REPETITIONS) {
        if (!strcmp(name, "loop")) code = loop(nodes);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            if (!strcmp(name, shapes[i].name)) code = measure_shape(name, shapes[i].shape, nodes, repetitions);
    }
    if (code == 1) fprintf(stderr, "scaling %s %d: wrong or failed: %s\n", name, nodes, bt_error_text());
    if (code == 2) fprintf(stderr, "usage: scaling chain|tree|mesh|results|loop NODES [REPETITIONS]; NODES from 16\n");
    return code;
}
