/* Recordings of a device of a fake machine get other arguments: for later runs alone, and only where all launches are the same. */
#include "drivers/cuda/update.h"
#include "support/cuda_device.h"

enum { FLOATS = 64, SETS = 3, BYTES = FLOATS * sizeof(float) };

/* Sets of memory: what is added to, a copy of it, and what is filled. */
typedef struct bench {
    bti_cuda_device *device;
    void *module;
    bti_gpu_function add, more;
    uint64_t sums[SETS], copies[SETS], fills[SETS];
} bench;

static void open_bench_of(bench *b, const char *json) {
    const float zeros[FLOATS] = {0};
    machine(json, NULL);
    b->device = open_one(B);
    OK(build(b->device, add_text, &b->module));
    OK(bti_cuda_find_function(b->device, b->module, "fake_add", &b->add));
    OK(bti_cuda_find_function(b->device, b->module, "fake_add_more", &b->more));
    for (int i = 0; i < SETS; i++) {
        uint64_t *const made[] = {&b->sums[i], &b->copies[i], &b->fills[i]};
        for (int k = 0; k < 3; k++) {
            OK(bti_driver_cuda.alloc(b->device, BYTES, made[k]));
            OK(bti_driver_cuda.upload(b->device, *made[k], zeros, BYTES));
        }
    }
}

static void open_bench(bench *b) { open_bench_of(b, "{" TWO_CARDS "}"); }

static void close_bench(bench *b) {
    for (int i = 0; i < SETS; i++) {
        bti_driver_cuda.free(b->device, b->sums[i], BYTES);
        bti_driver_cuda.free(b->device, b->copies[i], BYTES);
        bti_driver_cuda.free(b->device, b->fills[i], BYTES);
    }
    bti_cuda_held_release(b->device, b->module);
    close_all(b->device, NULL);
}

static void launch_all(const bench *b, int set, uint64_t by) {
    OK(launch_add(b->device, &b->add, b->sums[set], FLOATS, by, true));
    OK(bti_driver_cuda.copy(b->device, b->copies[set], b->sums[set], BYTES));
    OK(bti_driver_cuda.fill(b->device, b->fills[set], 1, BYTES));
    OK(launch_add(b->device, &b->add, b->sums[set], FLOATS, 100, true));
}

static void *record_all(const bench *b, int set, uint64_t by, bool marked) {
    void *graph;
    bti_mark unset;
    OK(bti_driver_cuda.graph_begin(b->device));
    if (marked) OK(bti_driver_cuda.mark(b->device, true, &unset));
    launch_all(b, set, by);
    if (marked) OK(bti_driver_cuda.mark(b->device, false, &unset));
    OK(bti_driver_cuda.graph_end(b->device, &graph));
    assert_non_null(graph);
    return graph;
}

static void begin_update(const bench *b, void *graph) {
    bool can;
    OK(bti_driver_cuda.graph_update(b->device, graph, &can));
    assert_true(can);
}

static void update_all(const bench *b, void *graph, int set, uint64_t by) {
    void *updated;
    begin_update(b, graph);
    launch_all(b, set, by);
    OK(bti_driver_cuda.graph_end(b->device, &updated));
    assert_ptr_equal(updated, graph);
}

static void run_once(const bench *b, void *graph, bti_mark *marks) {
    bool stale;
    OK(bti_driver_cuda.graph_run(b->device, graph, marks, &stale));
    assert_false(stale);
}

static void expect_floats(const bench *b, uint64_t address, float want) {
    float got[FLOATS];
    OK(bti_driver_cuda.download(b->device, got, address, BYTES));
    for (int i = 0; i < FLOATS; i++) assert_true(got[i] == want);
}

static float filled(void) {
    float value;
    memset(&value, 1, sizeof value);
    return value;
}

/* Every run is in flight when the recording gets the next arguments. */
static void runs_in_flight_keep_theirs(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    for (int marked = 0; marked < 2; marked++) {
        bti_mark marks[SETS][2] = {{{0}}};
        void *graph = record_all(&b, 0, 2, marked);
        for (int i = 0; i < SETS; i++) {
            if (i) update_all(&b, graph, i, 2 + (uint64_t)i);
            run_once(&b, graph, marks[i]);
        }
        assert_int_equal(count_of("launch"), marked * SETS * 2);
        finish(b.device);
        for (int i = 0; i < SETS; i++) {
            expect_floats(&b, b.sums[i], (float)((marked + 1) * (102 + i)));
            expect_floats(&b, b.copies[i], (float)(marked * (102 + i) + 2 + i));
            expect_floats(&b, b.fills[i], filled());
            for (int m = 0; m < 2 * marked; m++) assert_true(bti_driver_cuda.read_mark(b.device, marks[i][m]));
        }
        bti_driver_cuda.graph_free(b.device, graph);
    }
    assert_int_equal(count_of("update kernel"), 2 * (SETS - 1) * 2);
    assert_int_equal(count_of("update copy"), (SETS - 1) * 2);
    assert_int_equal(count_of("update fill"), (SETS - 1) * 2);
    close_bench(&b);
}

/* Only what has other words. */
static void what_is_the_same_is_not_set(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    void *graph = record_all(&b, 0, 2, false);
    update_all(&b, graph, 0, 2);
    assert_int_equal(count_of("update"), 0);
    update_all(&b, graph, 0, 7);
    assert_int_equal(count_of("update"), 1);
    run_once(&b, graph, NULL);
    update_all(&b, graph, 0, 2); /* as it was recorded */
    assert_int_equal(count_of("update"), 2);
    run_once(&b, graph, NULL);
    finish(b.device);
    expect_floats(&b, b.sums[0], 209);
    bti_driver_cuda.graph_free(b.device, graph);
    close_bench(&b);
}

enum { LESS, MORE, OTHER_COUNT, OTHER_KIND, OTHER_SIZE, OTHER_BYTE, OTHER_BYTES, BY_POINTER, BY_LIBRARY, WAYS };

static void launch_otherwise(const bench *b, int way) {
    bti_words words = {.count = way == OTHER_COUNT ? 4 : 3, .word = {b->sums[1], FLOATS, 2}};
    const bti_gpu_launch wider = {&b->add, way == OTHER_SIZE ? 3 : 2, 64, true, 128, &words};
    if (way == OTHER_KIND)
        OK(bti_driver_cuda.fill(b->device, b->sums[1], 1, BYTES));
    else if (way == BY_POINTER)
        OK(launch_add(b->device, &b->more, b->sums[1], FLOATS, 2, false));
    else
        OK(bti_cuda_launch(b->device, &wider));
    OK(bti_driver_cuda.copy(b->device, b->copies[1], b->sums[1], BYTES));
    if (way == BY_LIBRARY) assert_true(bti_cuda_cannot_update(b->device));
    OK(bti_driver_cuda.fill(b->device, b->fills[1], way == OTHER_BYTE ? 3 : 1, way == OTHER_BYTES ? BYTES / 2 : BYTES));
    if (way != LESS) OK(launch_add(b->device, &b->add, b->sums[1], FLOATS, 100, true));
    if (way == MORE) OK(launch_add(b->device, &b->add, b->sums[1], FLOATS, 100, true));
}

/* Then nothing was launched, and the recording has what it had. */
static void another_launch_is_refused(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    void *graph = record_all(&b, 0, 2, false), *updated;
    for (int way = 0; way < WAYS; way++) {
        begin_update(&b, graph);
        expect_error(bti_driver_cuda.graph_begin(b.device), BT_FAILED_PRECONDITION, "recorded already");
        launch_otherwise(&b, way);
        OK(bti_driver_cuda.graph_end(b.device, &updated));
        assert_null(updated);
    }
    finish(b.device);
    assert_int_equal(count_of("launch") + count_of("update"), 0);
    run_once(&b, graph, NULL);
    finish(b.device);
    expect_floats(&b, b.sums[0], 102);
    expect_floats(&b, b.sums[1], 0);
    bti_driver_cuda.graph_free(b.device, graph);
    close_bench(&b);
}

/* What was recorded by a library is never updated. */
static void libraries_are_left_alone(void **state) {
    (void)state;
    bench b;
    bool can = true;
    void *graph;
    open_bench(&b);
    OK(bti_driver_cuda.graph_begin(b.device));
    OK(launch_add(b.device, &b.add, b.sums[0], FLOATS, 2, true));
    assert_false(bti_cuda_cannot_update(b.device));
    OK(bti_driver_cuda.graph_end(b.device, &graph));
    OK(bti_driver_cuda.graph_update(b.device, graph, &can));
    assert_false(can);
    run_once(&b, graph, NULL);
    finish(b.device);
    expect_floats(&b, b.sums[0], 2);
    bti_driver_cuda.graph_free(b.device, graph);
    close_bench(&b);
}

/* An update gives the present addresses of scratch memory too. */
static void an_update_mends_what_is_stale(void **state) {
    (void)state;
    bench b;
    bool stale;
    void *updated;
    open_bench(&b);
    void *graph = record_all(&b, 0, 2, false);
    b.device->gpu.scratch_moves++;
    OK(bti_driver_cuda.graph_run(b.device, graph, NULL, &stale));
    assert_true(stale);
    update_all(&b, graph, 1, 2);
    run_once(&b, graph, NULL);
    begin_update(&b, graph);
    launch_all(&b, 2, 2);
    b.device->gpu.scratch_moves++; /* what was compared already has the old address */
    OK(bti_driver_cuda.graph_end(b.device, &updated));
    assert_ptr_equal(updated, graph);
    OK(bti_driver_cuda.graph_run(b.device, graph, NULL, &stale));
    assert_true(stale);
    finish(b.device);
    expect_floats(&b, b.sums[1], 102);
    bti_driver_cuda.graph_free(b.device, graph);
    close_bench(&b);
}

/* A node that cannot be set: the recording is of no use, and can be freed. */
static void what_cannot_be_set_is_told(void **state) {
    static const char *const calls[] = {"cuGraphExecKernelNodeSetParams", "cuGraphExecMemcpyNodeSetParams",
                                        "cuGraphExecMemsetNodeSetParams"};
    (void)state;
    for (int c = 0; c < 3; c++) {
        bench b;
        char json[1200];
        void *updated;
        snprintf(json, sizeof json, "{\"fail\": {\"%s\": [1, 1]}, " TWO_CARDS "}", calls[c]);
        open_bench_of(&b, json);
        void *graph = record_all(&b, 0, 2, false);
        begin_update(&b, graph);
        launch_all(&b, 1, 2);
        expect_error(bti_driver_cuda.graph_end(b.device, &updated), BT_INTERNAL, calls[c]);
        assert_null(updated);
        bti_driver_cuda.graph_free(b.device, graph);
        close_bench(&b);
    }
}

/* The fake machine takes no more than CUDA does: nodes of the graph that was instantiated, which is still there, and the same launch. */
static void nodes_of_others_are_refused(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    bti_cuda_graph *graph = record_all(&b, 0, 2, false), *other = record_all(&b, 1, 2, false);
    const bti_cuda_node *at = graph->nodes.items.items, *copied = at + 1;
    uint64_t words[] = {b.sums[1], FLOATS, 2};
    void *parameters[] = {words};
    CUDA_KERNEL_NODE_PARAMS kernel = {b.add.handle, 2, 1, 1, 64, 1, 1, 128, parameters, NULL};
    assert_int_equal(bti_cu.cuCtxPushCurrent(b.device->context), 0);
    assert_int_equal(bti_cu.cuGraphExecKernelNodeSetParams(graph->executable, at->node, &kernel), 0);
    assert_int_not_equal(bti_cu.cuGraphExecKernelNodeSetParams(other->executable, at->node, &kernel), 0);
    assert_int_not_equal(bti_cu.cuGraphExecKernelNodeSetParams(graph->executable, copied->node, &kernel), 0);
    kernel.gridDimX = 3;
    assert_int_not_equal(bti_cu.cuGraphExecKernelNodeSetParams(graph->executable, at->node, &kernel), 0);
    kernel.gridDimX = 2, kernel.sharedMemBytes = 64;
    assert_int_not_equal(bti_cu.cuGraphExecKernelNodeSetParams(graph->executable, at->node, &kernel), 0);
    kernel.sharedMemBytes = 128, kernel.func = b.more.handle;
    assert_int_not_equal(bti_cu.cuGraphExecKernelNodeSetParams(graph->executable, at->node, &kernel), 0);
    kernel.func = b.add.handle;
    assert_int_equal(bti_cu.cuGraphDestroy(graph->recorded), 0);
    graph->recorded = NULL;
    assert_int_not_equal(bti_cu.cuGraphExecKernelNodeSetParams(graph->executable, at->node, &kernel), 0);
    CUcontext popped;
    assert_int_equal(bti_cu.cuCtxPopCurrent(&popped), 0);
    bti_driver_cuda.graph_free(b.device, graph);
    bti_driver_cuda.graph_free(b.device, other);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_in_flight_keep_theirs),    cmocka_unit_test(what_is_the_same_is_not_set),
        cmocka_unit_test(another_launch_is_refused),     cmocka_unit_test(libraries_are_left_alone),
        cmocka_unit_test(an_update_mends_what_is_stale), cmocka_unit_test(what_cannot_be_set_is_told),
        cmocka_unit_test(nodes_of_others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
