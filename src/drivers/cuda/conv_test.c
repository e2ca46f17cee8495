/* Convolutions by a fake cuDNN: how the driver calls it, and what is left to kernels of ours. */
#include <math.h>

#include "ir/conv.h"
#include "reference/classes.h"
#include "reference/operand.h"
#include "support/cuda_library.h"

#define MACHINE "{\"devices\": [" CARD_A "," CARD_B "]}"
#define MOST 4096 /* elements of an array */

/* --- one convolution ---------------------------------------------------------------------------------------------- */

typedef struct window {
    int axes;
    int64_t images, channels, outputs, groups; /* channels and outputs: of a group */
    int64_t x[3], w[3], stride[3], before[3], after[3], dilation[3];
} window;

static const window windows[] = {
    {1, 2, 3, 4, 1, {19}, {5}, {1}, {2}, {2}, {1}},
    {1, 2, 1, 1, 6, {12}, {3}, {2}, {1}, {1}, {2}}, /* depthwise, with something left over */
    {2, 2, 3, 4, 1, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 2, 2, 3, {8, 7}, {3, 2}, {2, 1}, {2, 0}, {2, 0}, {1, 2}},
    {2, 3, 5, 4, 1, {6, 6}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {2, 2, 4, 4, 1, {9, 9}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}},
    {3, 1, 2, 2, 2, {4, 5, 6}, {2, 3, 3}, {1, 2, 1}, {1, 1, 0}, {1, 1, 0}, {1, 1, 2}},
    {3, 1, 2, 3, 1, {1, 5, 6}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}, {1, 1, 1}}, /* two axes are enough */
};
enum { WINDOWS = sizeof windows / sizeof *windows };

typedef struct problem {
    bti_operand array[BTI_CONV_ARRAYS], inputs[2];
    bti_attr attr;
    bti_work work;
    char *host[BTI_CONV_ARRAYS]; /* what is on the device, whole */
    uint64_t memory[BTI_CONV_ARRAYS];
} problem;

static const bti_op makers[BTI_CONV_ARRAYS] = {BTI_OP_conv_data, BTI_OP_conv_weights, BTI_OP_conv};

static void set_shapes(problem *p, const window *of, bt_dtype dtype) {
    const int64_t first[] = {of->images, of->groups * of->outputs, of->images};
    const int64_t second[] = {of->groups * of->channels, of->channels, of->groups * of->outputs};
    p->attr.window.groups = of->groups;
    for (int i = 0; i < BTI_CONV_AXES; i++) p->attr.window.stride[i] = p->attr.window.dilation[i] = 1;
    for (int a = 0; a < BTI_CONV_ARRAYS; a++)
        p->array[a] = (bti_operand){.dtype = dtype, .rank = 2 + of->axes, .shape = {first[a], second[a]}};
    for (int i = 0; i < of->axes; i++) {
        p->attr.window.stride[i] = of->stride[i];
        p->attr.window.before[i] = of->before[i];
        p->attr.window.dilation[i] = of->dilation[i];
        p->array[BTI_CONV_X].shape[2 + i] = of->x[i];
        p->array[BTI_CONV_W].shape[2 + i] = of->w[i];
        p->array[BTI_CONV_Y].shape[2 + i] =
            (of->x[i] + of->before[i] + of->after[i] - (of->w[i] - 1) * of->dilation[i] - 1) / of->stride[i] + 1;
    }
    for (int a = 0; a < BTI_CONV_ARRAYS; a++) bti_operand_make_dense(&p->array[a]);
}

static void make(problem *p, bti_cuda_device *device, const window *of, bt_dtype dtype, bti_op op) {
    *p = (problem){.work = {.op = op, .input_count = 2}};
    set_shapes(p, of, dtype);
    size_t bytes = MOST * bt_dtype_size(dtype);
    for (int a = 0; a < BTI_CONV_ARRAYS; a++) {
        assert_true(bti_operand_count(&p->array[a]) <= MOST);
        p->host[a] = malloc(bytes);
        for (int i = 0; i < MOST; i++) {
            double value = sin(1 + i * 0.37 + a); /* of all digits */
            if (dtype == BT_F64)
                ((double *)(void *)p->host[a])[i] = value;
            else
                ((float *)(void *)p->host[a])[i] = (float)value;
        }
        OK(bti_driver_cuda.alloc(device, bytes, &p->memory[a]));
        OK(bti_driver_cuda.upload(device, p->memory[a], p->host[a], bytes));
        p->array[a].address = p->memory[a];
    }
    for (int i = 0; i < 2; i++) p->inputs[i] = p->array[bti_conv_input(op, i)];
    p->work.inputs = p->inputs;
    p->work.output = p->array[bti_conv_made(op)];
    p->work.attr = &p->attr;
}

static void drop(problem *p, bti_cuda_device *device) {
    for (int a = 0; a < BTI_CONV_ARRAYS; a++) {
        bti_driver_cuda.free(device, p->memory[a], MOST * bt_dtype_size(p->array[a].dtype));
        free(p->host[a]);
    }
}

static bool run(problem *p, bti_cuda_device *device) {
    bool done;
    OK(bti_cuda_conv(device, &p->work, &done));
    OK(bti_driver_cuda.sync(device));
    return done;
}

/* The largest difference from the interpreter's. */
static double difference(problem *p, bti_cuda_device *device) {
    bti_conv_array made = bti_conv_made(p->work.op);
    bt_dtype dtype = p->array[made].dtype;
    size_t count = (size_t)bti_operand_count(&p->array[made]), bytes = count * bt_dtype_size(dtype);
    double most = 0;
    char *got = malloc(bytes);
    bti_work on_host = p->work;
    bti_operand inputs[2];
    OK(bti_driver_cuda.download(device, got, p->memory[made], bytes));
    for (int i = 0; i < 2; i++) {
        inputs[i] = p->inputs[i];
        inputs[i].address = (uint64_t)(uintptr_t)p->host[bti_conv_input(p->work.op, i)];
    }
    on_host.inputs = inputs;
    on_host.output.address = (uint64_t)(uintptr_t)p->host[made];
    bti_interpret_conv(&on_host);
    for (size_t i = 0; i < count; i++) {
        double x = dtype == BT_F64 ? ((double *)(void *)got)[i] : (double)((float *)(void *)got)[i];
        double y = dtype == BT_F64 ? ((double *)(void *)p->host[made])[i] : (double)((float *)(void *)p->host[made])[i];
        most = fmax(most, fabs(x - y));
    }
    free(got);
    return most;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static void convolutions_of_every_kind(void **state) {
    (void)state;
    int done = 0, all = 0;
    for (int seed = 1; seed < 6; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("BERTH_FAKE_SEED", text, 1);
        machine(MACHINE, NULL);
        bti_cuda_device *d = open_one(0);
        for (int which = 0; which < 2 * 3 * WINDOWS; which++) {
            problem p;
            bt_dtype dtype = which % 2 ? BT_F64 : BT_F32;
            make(&p, d, &windows[which / 6], dtype, makers[which / 2 % 3]);
            bool is_done = run(&p, d);
            double most = is_done ? difference(&p, d) : 0;
            if (most > (dtype == BT_F64 ? 1e-13 : 5e-5)) fail_msg("seed %d, number %d: %g", seed, which, most);
            done += is_done, all++;
            drop(&p, d);
        }
        close_one(d);
    }
    unsetenv("BERTH_FAKE_SEED");
    assert_true(done > all * 3 / 4); /* the fake refuses some */
    assert_true(done < all);
}

/* TF32 has ten digits, and no flag takes fewer. As many shapes have an algorithm, whose kind of products is not always the one that was asked for. */
static void flags_choose_the_products(void **state) {
    static const char *const precisions[] = {"highest", "tf32", "bf16"};
    static const char *const asked[] = {"algorithms 2 0 3\n", "algorithms 2 0 0\n", "algorithms 2 0 0\n"};
    (void)state;
    int done[3] = {0};
    for (int i = 0; i < 3; i++) {
        problem p;
        double most = 0;
        machine(MACHINE, NULL);
        bti_cuda_device *d = open_one(0);
        OK(bt_set_flag("matmul_precision", precisions[i]));
        for (int w = 0; w < 3 * WINDOWS; w++) {
            make(&p, d, &windows[w / 3], BT_F32, makers[w % 3]);
            bool is_done = run(&p, d);
            if (is_done) most = fmax(most, difference(&p, d));
            done[i] += is_done;
            drop(&p, d);
        }
        assert_int_equal(done[i], done[0]);
        make(&p, d, &windows[1], BT_F32, BTI_OP_conv_data); /* small floats, whatever the flag says */
        int before = count_of("algorithms 0 0 0");
        p.attr.window.narrow = 1;
        (void)run(&p, d);
        assert_int_equal(count_of("algorithms 0 0 0"), before + (i == 0));
        drop(&p, d);
        assert_true(i ? most > 2e-4 && most < 1e-2 : most <= 5e-5);
        make(&p, d, &windows[0], BT_F64, BTI_OP_conv);
        assert_true(!run(&p, d) || difference(&p, d) < 1e-13);
        expect_text(fake.log(), asked[i]);
        expect_text(fake.log(), "algorithms 2 1 0\n");
        drop(&p, d);
        close_one(d);
    }
}

/* --- what is asked for -------------------------------------------------------------------------------------------- */

static void shapes_are_asked_for_once(void **state) {
    (void)state;
    problem p;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    make(&p, d, &windows[2], BT_F32, BTI_OP_conv);
    assert_true(run(&p, d));
    for (int i = 0; i < 4; i++) assert_true(run(&p, d));
    assert_int_equal(count_of("algorithms"), 1);
    assert_int_equal(count_of("conv "), 5);
    drop(&p, d);
    int refused = -1;
    for (int w = 0; w < 3 * WINDOWS && refused < 0; w++) { /* a refusal is known too */
        make(&p, d, &windows[w / 3], BT_F64, makers[w % 3]);
        int before = count_of("algorithms");
        if (!run(&p, d)) {
            assert_false(run(&p, d));
            assert_int_equal(count_of("algorithms"), before + 1);
            refused = w;
        }
        drop(&p, d);
    }
    assert_true(refused >= 0);
    for (int64_t n = 1; n <= 300; n++) { /* more than are kept */
        window of = {1, 1, 1, 1, 1, {n}, {1}, {1}, {0}, {0}, {1}};
        make(&p, d, &of, BT_F32, BTI_OP_conv);
        (void)run(&p, d);
        drop(&p, d);
    }
    make(&p, d, &windows[2], BT_F32, BTI_OP_conv);
    int before = count_of("algorithms");
    assert_true(run(&p, d));
    assert_int_equal(count_of("algorithms"), before + 1);
    drop(&p, d);
    close_one(d);
}

static void what_the_library_has_not_is_ours(void **state) {
    static const window others[] = {
        {2, 1, 2, 2, 1, {8, 8}, {3, 3}, {2, 2}, {0, 0}, {1, 1}, {1, 1}}, /* more zeros behind */
        {2, 1, 2, 2, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, /* fewer */
        {2, 1, 2, 2, 1, {8, 8}, {3, 3}, {1, 1}, {3, 3}, {3, 3}, {1, 1}}, /* places that meet nothing */
        {2, 0, 2, 2, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* no images */
        {2, 1, 0, 2, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, /* no channels */
    };
    (void)state;
    problem p;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    for (size_t i = 0; i < 3 * sizeof others / sizeof *others; i++) {
        make(&p, d, &others[i / 3], BT_F32, makers[i % 3]);
        assert_false(run(&p, d));
        drop(&p, d);
    }
    make(&p, d, &windows[2], BT_I32, BTI_OP_conv);
    assert_false(run(&p, d));
    drop(&p, d);
    make(&p, d, &windows[2], BT_F32, BTI_OP_conv);
    p.inputs[0].address += 4; /* not aligned */
    assert_false(run(&p, d));
    p.inputs[0].address -= 4;
    p.inputs[0].stride[1] *= 2; /* not dense */
    assert_false(run(&p, d));
    drop(&p, d);
    assert_int_equal(count_of("algorithms"), 0);
    close_one(d);
    machine(MACHINE, "cudnn");
    d = open_one(0);
    make(&p, d, &windows[2], BT_F32, BTI_OP_conv);
    assert_false(run(&p, d));
    drop(&p, d);
    close_one(d);
}

/* --- recordings --------------------------------------------------------------------------------------------------- */

/* The first convolution of all is recorded; later ones go to the stream of launches, though that of the recording is gone. */
static void convolutions_are_recorded(void **state) {
    (void)state;
    problem p;
    void *graph;
    bool done, stale;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    make(&p, d, &windows[2], BT_F32, BTI_OP_conv);
    OK(bti_driver_cuda.graph_begin(d));
    OK(bti_cuda_conv(d, &p.work, &done));
    assert_true(done);
    OK(bti_driver_cuda.graph_end(d, &graph));
    assert_non_null(graph);
    OK(bti_driver_cuda.sync(d));
    assert_int_equal(count_of("conv "), 0);
    assert_true(run(&p, d));
    assert_true(difference(&p, d) <= 1e-5);
    OK(bti_driver_cuda.fill(d, p.memory[BTI_CONV_Y], 0, MOST * 4));
    OK(bti_driver_cuda.graph_run(d, graph, NULL, &stale));
    OK(bti_driver_cuda.sync(d));
    assert_true(difference(&p, d) <= 1e-5);
    assert_int_equal(count_of("conv "), 2);
    bti_driver_cuda.graph_free(d, graph);
    drop(&p, d);
    close_one(d);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static void json_with_fault(char *json, size_t size, const char *call, int n, int code) {
    snprintf(json, size, "{\"fail\": {\"%s\": [%d, %d]}, \"devices\": [" CARD_A "," CARD_B "]}", call, n, code);
}

/* For want of memory, by a failure inside, as what is not supported, and for want of a part of the library. */
static void every_call_of_the_library_may_fail(void **state) {
    static const int codes[] = {4003, 4000, 3000, 1008};
    static const char *const calls[] = {"cudnnCreate",
                                        "cudnnSetStream",
                                        "cudnnCreateTensorDescriptor",
                                        "cudnnSetTensorNdDescriptor",
                                        "cudnnCreateFilterDescriptor",
                                        "cudnnSetFilterNdDescriptor",
                                        "cudnnCreateConvolutionDescriptor",
                                        "cudnnSetConvolutionNdDescriptor",
                                        "cudnnSetConvolutionGroupCount",
                                        "cudnnSetConvolutionMathType",
                                        "cudnnGetConvolutionForwardAlgorithm_v7",
                                        "cudnnGetConvolutionForwardWorkspaceSize",
                                        "cudnnConvolutionForward"};
    (void)state;
    for (size_t i = 0; i < 4 * sizeof calls / sizeof *calls; i++)
        for (int n = 1; n < 4; n++) {
            const char *call = calls[i / 4];
            int code = codes[i % 4];
            char json[1200];
            bool done;
            problem p;
            json_with_fault(json, sizeof json, call, n, code);
            machine(json, NULL);
            bti_cuda_device *d = open_one(0);
            make(&p, d, &windows[2], BT_F32, BTI_OP_conv);
            bt_status status = bti_cuda_conv(d, &p.work, &done);
            if (status != BT_OK) {
                assert_false(done);
                expect_error(status, code == 4003 ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL, call);
                OK(bti_cuda_conv(d, &p.work, &done)); /* nothing of the failure is kept */
                assert_true(done);
            } else if (n == 1 && code >= 4000)
                assert_string_equal(call, "cudnnCreate"); /* a library that does not start is done without */
            OK(bti_driver_cuda.sync(d));
            drop(&p, d);
            close_one(d);
        }
}

/* The stream of a recording is set anew, and so is that of launches after it. */
static void what_fails_in_a_recording_leaves_no_stream(void **state) {
    (void)state;
    for (int n = 1; n < 4; n++) {
        char json[1200];
        void *graph;
        bool done;
        problem p;
        json_with_fault(json, sizeof json, "cudnnSetStream", n, 4000);
        machine(json, NULL);
        bti_cuda_device *d = open_one(0);
        make(&p, d, &windows[2], BT_F32, BTI_OP_conv);
        OK(bti_driver_cuda.graph_begin(d));
        assert_true((bti_cuda_conv(d, &p.work, &done) == BT_OK) == (n > 1));
        OK(bti_driver_cuda.graph_end(d, &graph));
        if (n == 2) expect_error(bti_cuda_conv(d, &p.work, &done), BT_INTERNAL, "cudnnSetStream");
        assert_true(run(&p, d));
        assert_true(difference(&p, d) <= 1e-5);
        if (graph) bti_driver_cuda.graph_free(d, graph);
        drop(&p, d);
        close_one(d);
    }
}

static void a_library_that_does_not_start_is_named(void **state) {
    (void)state;
    char json[1200];
    problem p;
    bti_str text = {0};
    json_with_fault(json, sizeof json, "cudnnCreate", 1, 1008);
    machine(json, NULL);
    bti_cuda_device *d = open_one(0);
    make(&p, d, &windows[2], BT_F32, BTI_OP_conv);
    assert_false(run(&p, d));
    assert_false(run(&p, d));
    bti_driver_cuda.describe(d, &text);
    expect_text(text.text, "cuDNN 9.13.2 (convolutions): ");
    expect_text(text.text, "cuDNN does not work, and convolutions run on kernels of ours: cudnnCreate: status 1008");
    bti_str_free(&text);
    drop(&p, d);
    close_one(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_every_kind),
        cmocka_unit_test(flags_choose_the_products),
        cmocka_unit_test(shapes_are_asked_for_once),
        cmocka_unit_test(what_the_library_has_not_is_ours),
        cmocka_unit_test(convolutions_are_recorded),
        cmocka_unit_test(every_call_of_the_library_may_fail),
        cmocka_unit_test(what_fails_in_a_recording_leaves_no_stream),
        cmocka_unit_test(a_library_that_does_not_start_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
