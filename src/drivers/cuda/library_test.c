/* Products by a fake cuBLASLt and sums by a fake NCCL: how the driver calls them. */
#include "support/cuda_library.h"

#define MACHINE "{\"devices\": [" CARD_A "," CARD_B "]}"
#define MOST 4096

/* --- products ----------------------------------------------------------------------------------------------------- */

/* An operand [batch..., rows, columns] in memory of `elements` elements; strides as given. */
typedef struct layout {
    int64_t stride[4];
} layout;

static void set_operand(bti_operand *o, uint64_t address, bt_dtype dtype, int rank, const int64_t *shape, layout l) {
    *o = (bti_operand){.address = address, .dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
        o->shape[i] = shape[i];
        o->stride[i] = l.stride[i];
    }
}

static double value_of(const void *memory, bt_dtype dtype, int64_t at) {
    return dtype == BT_F64 ? ((const double *)memory)[at] : (double)((const float *)memory)[at];
}

static int64_t place(const bti_operand *o, const int64_t *at, int64_t row, int64_t column) {
    int64_t sum = row * o->stride[o->rank - 2] + column * o->stride[o->rank - 1];
    for (int i = 0; i < o->rank - 2; i++) sum += at[i] * o->stride[i];
    return sum;
}

static void check(const bti_work *work, const void *a, const void *b, const void *c) {
    const bti_operand *x = &work->inputs[0], *y = &work->inputs[1], *out = &work->output;
    int64_t at[4] = {0}, depth = x->shape[x->rank - 1];
    for (bool more = true; more;) {
        for (int64_t row = 0; row < out->shape[out->rank - 2]; row++)
            for (int64_t column = 0; column < out->shape[out->rank - 1]; column++) {
                double sum = 0;
                for (int64_t k = 0; k < depth; k++)
                    sum += value_of(a, x->dtype, place(x, at, row, k)) * value_of(b, x->dtype, place(y, at, k, column));
                double got = value_of(c, x->dtype, place(out, at, row, column));
                if (got != sum) fail_msg("[%d %d]: %g, not %g", (int)row, (int)column, got, sum);
            }
        more = false;
        for (int i = out->rank - 3; i >= 0 && !more; i--) {
            more = ++at[i] < out->shape[i];
            if (!more) at[i] = 0;
        }
    }
}

/* Whole numbers, small enough to be exact. */
static void product(bti_cuda_device *device, bt_dtype dtype, int rank, const int64_t *a_shape, layout a,
                    const int64_t *b_shape, layout b, const int64_t *c_shape, layout c, bool expect_done) {
    char host[3][MOST * 8];
    size_t size = bt_dtype_size(dtype), bytes = MOST * size;
    uint64_t address[3];
    bti_operand inputs[2];
    bti_work work = {.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs};
    bool done;
    for (int i = 0; i < 3; i++) {
        for (int e = 0; e < MOST; e++)
            if (dtype == BT_F64)
                ((double *)(void *)host[i])[e] = (e * 7 + i) % 13;
            else
                ((float *)(void *)host[i])[e] = (float)((e * 7 + i) % 13);
        OK(bti_driver_cuda.alloc(device, bytes, &address[i]));
        OK(bti_driver_cuda.upload(device, address[i], host[i], bytes));
    }
    set_operand(&inputs[0], address[0], dtype, rank, a_shape, a);
    set_operand(&inputs[1], address[1], dtype, rank, b_shape, b);
    set_operand(&work.output, address[2], dtype, rank, c_shape, c);
    OK(bti_cuda_product(device, &work, &done));
    assert_int_equal(done, expect_done);
    OK(bti_driver_cuda.sync(device));
    OK(bti_driver_cuda.download(device, host[2], address[2], bytes));
    if (done) check(&work, host[0], host[1], host[2]);
    for (int i = 0; i < 3; i++) bti_driver_cuda.free(device, address[i], bytes);
}

#define PRODUCT(device, dtype, rank, a_shape, a, b_shape, b, c_shape, c, done)                                 \
    product(device, dtype, rank, (const int64_t[])a_shape, (layout){a}, (const int64_t[])b_shape, (layout){b}, \
            (const int64_t[])c_shape, (layout){c}, done)
#define L(...) \
    { __VA_ARGS__ }

static void products_in_every_layout(void **state) {
    (void)state;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    for (int dtype = 0; dtype < 2; dtype++) {
        bt_dtype t = dtype ? BT_F64 : BT_F32;
        PRODUCT(d, t, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), true);
        PRODUCT(d, t, 2, L(3, 5), L(1, 3), L(5, 4), L(4, 1), L(3, 4), L(4, 1), true);
        PRODUCT(d, t, 2, L(3, 5), L(5, 1), L(5, 4), L(1, 5), L(3, 4), L(4, 1), true);
        PRODUCT(d, t, 2, L(3, 5), L(1, 3), L(5, 4), L(1, 5), L(3, 4), L(4, 1), true);
        PRODUCT(d, t, 2, L(3, 5), L(11, 1), L(5, 4), L(1, 9), L(3, 4), L(17, 1), true); /* parts of larger ones */
        PRODUCT(d, t, 2, L(1, 5), L(77, 1), L(5, 4), L(4, 1), L(1, 4), L(99, 1), true); /* a row */
        PRODUCT(d, t, 2, L(1, 5), L(1, 3), L(5, 4), L(4, 1), L(1, 4), L(99, 1), true);  /* a row with steps */
        PRODUCT(d, t, 2, L(3, 5), L(5, 1), L(5, 1), L(3, 1), L(3, 1), L(1, 1), true);   /* a column with steps */
        PRODUCT(d, t, 2, L(3, 1), L(1, 9), L(1, 4), L(4, 1), L(3, 4), L(4, 1), true);   /* one deep */
        PRODUCT(d, t, 2, L(1, 1), L(1, 1), L(1, 1), L(1, 1), L(1, 1), L(1, 1), true);
        PRODUCT(d, t, 3, L(2, 3, 5), L(15, 5, 1), L(2, 5, 4), L(20, 4, 1), L(2, 3, 4), L(12, 4, 1), true);
        PRODUCT(d, t, 3, L(2, 3, 5), L(0, 5, 1), L(2, 5, 4), L(20, 1, 5), L(2, 3, 4), L(12, 4, 1),
                true); /* a for all */
        PRODUCT(d, t, 4, L(2, 3, 3, 5), L(45, 15, 5, 1), L(2, 3, 5, 4), L(60, 20, 4, 1), L(2, 3, 3, 4), L(36, 12, 4, 1),
                true);
        PRODUCT(d, t, 4, L(2, 3, 3, 5), L(15, 30, 5, 1), L(2, 3, 5, 4), L(0, 20, 4, 1), L(2, 3, 3, 4), L(36, 12, 4, 1),
                true);
        PRODUCT(d, t, 4, L(2, 2, 3, 5), L(30, 15, 1, 3), L(2, 2, 5, 4), L(0, 20, 1, 5), L(2, 2, 3, 4), L(12, 24, 4, 1),
                true);
    }
    expect_text(fake.log(), "heuristic 68 00 4 3 5 1\n"); /* columns first */
    expect_text(fake.log(), "heuristic 68 01 4 3 5 1\n");
    expect_text(fake.log(), "heuristic 68 10 4 3 5 1\n");
    expect_text(fake.log(), "heuristic 70 00 4 3 5 6\n"); /* two axes as one batch */
    close_one(d);
}

static void what_the_library_has_not_is_ours(void **state) {
    (void)state;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    PRODUCT(d, BT_F32, 2, L(3, 5), L(10, 2), L(5, 4), L(4, 1), L(3, 4), L(4, 1), false); /* steps both ways */
    PRODUCT(d, BT_F32, 2, L(3, 5), L(0, 0), L(5, 4), L(4, 1), L(3, 4), L(4, 1), false);
    PRODUCT(d, BT_I32, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), false);
    PRODUCT(d, BT_I8, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), false);
    close_one(d);
    machine(MACHINE, "cublasLt");
    d = open_one(0);
    PRODUCT(d, BT_F32, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), false);
    close_one(d);
}

static void shapes_are_asked_for_once(void **state) {
    (void)state;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    for (int i = 0; i < 5; i++) PRODUCT(d, BT_F32, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), true);
    assert_int_equal(count_of("heuristic"), 1);
    assert_int_equal(count_of("product"), 5);
    for (int64_t n = 1; n <= 300; n++) /* more than are kept */
        product(d, BT_F32, 2, (int64_t[]){1, 1}, (layout){{1, 1}}, (int64_t[]){1, n}, (layout){{n, 1}},
                (int64_t[]){1, n}, (layout){{n, 1}}, true);
    assert_int_equal(count_of("heuristic"), 301);
    PRODUCT(d, BT_F32, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), true);
    assert_int_equal(count_of("heuristic"), 302);
    OK(bt_set_flag("matmul_precision", "tf32"));
    PRODUCT(d, BT_F32, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), true);
    OK(bt_set_flag("matmul_precision", "bf16"));
    PRODUCT(d, BT_F32, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), true);
    PRODUCT(d, BT_F64, 2, L(3, 5), L(5, 1), L(5, 4), L(4, 1), L(3, 4), L(4, 1), true);
    expect_text(fake.log(), "heuristic 77 00 4 3 5 1\n");
    expect_text(fake.log(), "heuristic 75 00 4 3 5 1\n");
    expect_text(fake.log(), "heuristic 70 00 4 3 5 1\n");
    close_one(d);
}

static bool repeated; /* the rows of the first matrix */
static bt_dtype dtype_for(bt_dtype dtype, int64_t rows, int64_t inner, int64_t columns) {
    bti_operand inputs[] = {{.dtype = dtype, .rank = 2, .shape = {rows, inner}, .stride = {repeated ? 0 : inner, 1}},
                            {.dtype = dtype, .rank = 2, .shape = {inner, columns}, .stride = {columns, 1}}};
    bti_work work = {.op = BTI_OP_matmul,
                     .input_count = 2,
                     .inputs = inputs,
                     .output = {.dtype = dtype, .rank = 2, .shape = {rows, columns}}};
    return bti_cuda_product_dtype(NULL, &work);
}

static void large_products_take_rounded_inputs(void **state) {
    (void)state;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    assert_int_equal(dtype_for(BT_F32, 1600, 256, 1600), BT_F32);
    OK(bt_set_flag("matmul_precision", "tf32"));
    assert_int_equal(dtype_for(BT_F32, 1600, 256, 1600), BT_F32);
    OK(bt_set_flag("matmul_precision", "bf16"));
    assert_int_equal(dtype_for(BT_F32, 1600, 256, 1600), BT_BF16);
    assert_int_equal(dtype_for(BT_F32, 1000, 256, 8000), BT_BF16);
    assert_int_equal(dtype_for(BT_F32, 1600, 255, 1600), BT_F32);
    repeated = true;
    assert_int_equal(dtype_for(BT_F32, 1600, 256, 1600), BT_F32);
    repeated = false;
    assert_int_equal(dtype_for(BT_F32, 800, 4096, 80000), BT_F32);
    assert_int_equal(dtype_for(BT_F16, 1600, 256, 1600), BT_F16);
    assert_int_equal(dtype_for(BT_F64, 1600, 256, 1600), BT_F64);
    close_one(d);
}

static void every_call_of_the_library_may_fail(void **state) {
    static const char *const calls[] = {"cublasLtCreate",
                                        "cublasLtMatmulDescCreate",
                                        "cublasLtMatmulDescSetAttribute",
                                        "cublasLtMatrixLayoutCreate",
                                        "cublasLtMatrixLayoutSetAttribute",
                                        "cublasLtMatmulPreferenceCreate",
                                        "cublasLtMatmulPreferenceSetAttribute",
                                        "cublasLtMatmulAlgoGetHeuristic",
                                        "cublasLtMatmul"};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int n = 1; n < 8; n++) {
            char json[1200];
            uint64_t address;
            bool done = false;
            snprintf(json, sizeof json, "{\"fail\": {\"%s\": [%d, 3]}, \"devices\": [" CARD_A "," CARD_B "]}", calls[i],
                     n);
            machine(json, NULL);
            bti_cuda_device *d = open_one(0);
            OK(bti_driver_cuda.alloc(d, 4000, &address));
            OK(bti_driver_cuda.fill(d, address, 0, 4000));
            const bti_operand o = {address, BT_F32, 3, {2, 4, 4}, {16, 4, 1}};
            bti_operand out = o;
            out.address += 2048;
            const bti_operand inputs[2] = {o, o};
            const bti_work work = {.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = out};
            bt_status status = bti_cuda_product(d, &work, &done);
            assert_true(done == (status == BT_OK));
            if (n == 1) expect_error(status, BT_RESOURCE_EXHAUSTED, calls[i]);
            if (status != BT_OK) OK(bti_cuda_product(d, &work, &done)); /* nothing of the failure is kept */
            assert_true(done);
            OK(bti_driver_cuda.sync(d));
            bti_driver_cuda.free(d, address, 4000);
            close_one(d);
        }
}

/* --- sums over devices -------------------------------------------------------------------------------------------- */

/* Of one array in each device's memory, in place, after what was launched there; what is launched later comes after it. */
static bt_status reduce(void *const *devices, int count, const uint64_t *addresses, bt_dtype dtype, bti_op op,
                        size_t elements) {
    bti_event after[2] = {{0}};
    bti_work_end ends[2];
    bti_reduction what = {dtype, op, 1, &elements, addresses, addresses};
    for (int d = 0; d < count; d++) BTI_TRY(bti_driver_cuda.record(devices[d], &after[d]));
    BTI_TRY(bti_cuda_all_reduce(devices, count, &what, after, ends));
    for (int d = 0; d < count; d++) BTI_TRY(bti_driver_cuda.wait(devices[d], ends[d].event));
    return BT_OK;
}

static void sums_over_devices(void **state) {
    (void)state;
    float values[2][100];
    uint64_t addresses[2];
    machine(MACHINE, NULL);
    void *devices[2] = {open_one(0), open_one(1)};
    for (int d = 0; d < 2; d++) {
        for (int i = 0; i < 100; i++) values[d][i] = (float)(i * (d + 1));
        OK(bti_driver_cuda.alloc(devices[d], sizeof values[d], &addresses[d]));
        OK(bti_driver_cuda.upload(devices[d], addresses[d], values[d], sizeof values[d]));
    }
    for (int round = 0; round < 3; round++) OK(reduce(devices, 2, addresses, BT_F32, BTI_OP_sum, 100));
    OK(bti_driver_cuda.fill(devices[0], addresses[0] + 396, 0, 4)); /* after the sum, there alone */
    for (int d = 0; d < 2; d++) {
        OK(bti_driver_cuda.sync(devices[d]));
        OK(bti_driver_cuda.download(devices[d], values[d], addresses[d], sizeof values[d]));
        for (int i = 0; i < 99; i++) assert_true(values[d][i] == (float)(12 * i));
        assert_true(values[d][99] == (d ? 12 * 99 : 0));
    }
    assert_int_equal(count_of("communicators 2"), 1);
    OK(reduce(devices, 1, addresses, BT_F32, BTI_OP_max, 100));
    assert_int_equal(count_of("communicators"), 2);
    expect_error(reduce(devices, 2, addresses, BT_BOOL, BTI_OP_sum, 100), BT_UNIMPLEMENTED, "NCCL does not fold bool");
    expect_error(reduce(devices, 2, addresses, BT_F32, BTI_OP_add, 100), BT_UNIMPLEMENTED, "by add");
    for (int d = 0; d < 2; d++) OK(bti_driver_cuda.sync(devices[d]));
    for (int d = 0; d < 2; d++) bti_driver_cuda.free(devices[d], addresses[d], sizeof values[d]);
    bti_driver_cuda.close(devices[0]);
    close_one(devices[1]);
}

static void sums_may_fail(void **state) {
    static const char *const calls[] = {"ncclCommInitAll", "ncclGroupStart", "ncclAllReduce", "ncclGroupEnd"};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char json[1200];
        uint64_t addresses[2];
        snprintf(json, sizeof json, "{\"fail\": {\"%s\": [1, 1]}, \"devices\": [" CARD_A "," CARD_B "]}", calls[i]);
        machine(json, NULL);
        void *devices[2] = {open_one(0), open_one(1)};
        for (int d = 0; d < 2; d++) {
            OK(bti_driver_cuda.alloc(devices[d], 400, &addresses[d]));
            OK(bti_driver_cuda.fill(devices[d], addresses[d], 0, 400));
        }
        expect_error(reduce(devices, 2, addresses, BT_F32, BTI_OP_sum, 100), BT_INTERNAL, calls[i]);
        OK(reduce(devices, 2, addresses, BT_F32, BTI_OP_sum, 100));
        for (int d = 0; d < 2; d++) OK(bti_driver_cuda.sync(devices[d]));
        for (int d = 0; d < 2; d++) bti_driver_cuda.free(devices[d], addresses[d], 400);
        bti_driver_cuda.close(devices[0]);
        close_one(devices[1]);
    }
    machine(MACHINE, "nccl");
    void *device = open_one(0);
    uint64_t address = 0;
    expect_error(reduce(&device, 1, &address, BT_F32, BTI_OP_sum, 1), BT_UNIMPLEMENTED, "libnccl2");
    close_one(device);
}

static void a_library_without_its_functions_is_none(void **state) {
    (void)state;
    char link[300];
    machine(MACHINE, "nccl");
    snprintf(link, sizeof link, "%s/libnccl.so.2", machine_folder);
    assert_int_equal(symlink("../libnvidia-ml.so.1", link), 0);
    void *device = open_one(0);
    uint64_t address = 0;
    expect_error(reduce(&device, 1, &address, BT_F32, BTI_OP_sum, 1), BT_UNIMPLEMENTED,
                 "libnccl.so.2 has no ncclGetVersion: it is too old");
    close_one(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_every_layout),
        cmocka_unit_test(what_the_library_has_not_is_ours),
        cmocka_unit_test(shapes_are_asked_for_once),
        cmocka_unit_test(large_products_take_rounded_inputs),
        cmocka_unit_test(every_call_of_the_library_may_fail),
        cmocka_unit_test(sums_over_devices),
        cmocka_unit_test(sums_may_fail),
        cmocka_unit_test(a_library_without_its_functions_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
