/* What the fake cuBLASLt and NCCL compute for every type that the driver asks for, and what they refuse: tests on emulated GPUs rely on
 * both. */
#include <math.h>

#include "fakes/ptx/lanes.h"
#include "support/cuda_library.h"

#define CARD_C                                                                                                     \
    "{\"name\": \"NVIDIA C\", \"uuid\": \"GPU-cccccccc-0000-0000-0000-000000000003\", \"pci\": \"0000:91:00.0\", " \
    "\"memory\": 67108864, \"capability\": [9, 0]}"
#define MACHINE "{\"devices\": [" CARD_A "," CARD_B "," CARD_C "]}"
#define MOST 8192

/* --- numbers ------------------------------------------------------------------------------------------------------------ */

static uint64_t random_state;
static double draw(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)random_state * 0x1p-63;
}
static double value_at(bt_dtype dtype, const char *memory, int64_t i) {
    uint16_t half = 0;
    if (dtype == BT_F64) return ((const double *)(const void *)memory)[i];
    if (dtype == BT_F32) return (double)((const float *)(const void *)memory)[i];
    memcpy(&half, memory + 2 * i, 2);
    return dtype == BT_F16 ? (double)ptx_f16(half) : (double)ptx_bf16(half);
}
static void put_at(bt_dtype dtype, char *memory, int64_t i, double value) {
    float single = (float)value;
    uint16_t half = dtype == BT_F16 ? ptx_round_f16(value, PTX_RN) : ptx_round_bf16(value, PTX_RN);
    size_t size = bt_dtype_size(dtype);
    memcpy(memory + (size_t)i * size, size == 8 ? (void *)&value : size == 4 ? (void *)&single : &half, size);
}

/* --- products ----------------------------------------------------------------------------------------------------------- */

enum { BATCH = 3, ROWS = 13, INNER = 41, COLUMNS = 17 };

static char host[3][MOST * 8];

/* a is the same for the whole batch. */
static void multiply(bt_dtype dtype) {
    bti_cuda_device *d = open_one(0);
    const size_t bytes = MOST * bt_dtype_size(dtype);
    uint64_t address[3];
    bool done;
    for (int i = 0; i < 3; i++) {
        OK(bti_driver_cuda.alloc(d, bytes, &address[i]));
        OK(bti_driver_cuda.upload(d, address[i], host[i], bytes));
    }
    const bti_operand inputs[2] = {{address[0], dtype, 3, {BATCH, ROWS, INNER}, {0, INNER, 1}},
                                   {address[1], dtype, 3, {BATCH, INNER, COLUMNS}, {INNER * COLUMNS, 1, INNER}}};
    const bti_operand out = {address[2], dtype, 3, {BATCH, ROWS, COLUMNS}, {ROWS * COLUMNS, COLUMNS, 1}};
    const bti_work work = {.op = BTI_OP_matmul, .input_count = 2, .inputs = inputs, .output = out};
    OK(bti_cuda_product(d, &work, &done));
    assert_true(done);
    OK(bti_driver_cuda.sync(d));
    OK(bti_driver_cuda.download(d, host[2], address[2], bytes));
    for (int i = 0; i < 3; i++) bti_driver_cuda.free(d, address[i], bytes);
    close_one(d);
}
/* Rounds to so many digits of the fraction. */
static double with_digits(double x, int digits) {
    int exponent;
    double fraction = frexp(x, &exponent);
    return ldexp(rint(ldexp(fraction, digits + 1)), exponent - digits - 1);
}

/* Compares with sums in double of numbers with so many digits; the largest difference in units of the allowed one. */
static double compare(bt_dtype dtype, int digits, double sum_error, double result_error) {
    double most = 0;
    for (int64_t batch = 0; batch < BATCH; batch++)
        for (int64_t row = 0; row < ROWS; row++)
            for (int64_t column = 0; column < COLUMNS; column++) {
                double sum = 0, size = 0;
                for (int64_t i = 0; i < INNER; i++) {
                    double x = with_digits(value_at(dtype, host[0], row * INNER + i), digits);
                    double y = with_digits(value_at(dtype, host[1], (batch * COLUMNS + column) * INNER + i), digits);
                    sum += x * y, size += fabs(x * y);
                }
                double got = value_at(dtype, host[2], (batch * ROWS + row) * COLUMNS + column);
                most = fmax(most, fabs(got - sum) / (size * sum_error + fabs(sum) * result_error));
            }
    return most;
}

static void products_of_every_type(void **state) {
    (void)state;
    static const struct {
        bt_dtype dtype;
        const char *precision;
        int digits;
        double sum_error, result_error;
    } rows[] = {
        {BT_F64, "highest", 52, INNER * 0x1p-53, 0},       {BT_F32, "highest", 23, INNER * 0x1p-24, 0},
        {BT_F32, "tf32", 10, INNER * 0x1p-24, 0},          {BT_F32, "bf16", 7, INNER * 0x1p-24, 0},
        {BT_F16, "highest", 10, INNER * 0x1p-24, 0x1p-11}, {BT_BF16, "highest", 7, INNER * 0x1p-24, 0x1p-8},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        static char first[MOST * 8];
        int differ = 0;
        machine(MACHINE, NULL);
        OK(bt_set_flag("matmul_precision", rows[r].precision));
        for (int seed = 1; seed < 9; seed++) {
            char text[16];
            snprintf(text, sizeof text, "%d", seed);
            setenv("BERTH_FAKE_SEED", text, 1);
            random_state = 7;
            for (int i = 0; i < 2; i++)
                for (int64_t e = 0; e < MOST; e++) put_at(rows[r].dtype, host[i], e, draw());
            multiply(rows[r].dtype);
            double error = compare(rows[r].dtype, rows[r].digits, rows[r].sum_error, rows[r].result_error);
            if (error > 1) fail_msg("row %d, seed %d: %g of the allowed error", (int)r, seed, error);
            if (rows[r].dtype == BT_F32 && rows[r].digits < 23)
                assert_true(compare(BT_F32, 23, rows[r].sum_error, 0) > 1); /* the operands were rounded */
            if (seed > 1) differ += memcmp(first, host[2], sizeof first) != 0;
            memcpy(first, host[2], sizeof first);
        }
        if (rows[r].dtype == BT_F32 || rows[r].dtype == BT_F64) assert_true(differ > 0);
    }
    unsetenv("BERTH_FAKE_SEED");
}

/* --- what cuBLASLt refuses ------------------------------------------------------------------------------------------------ */

typedef struct call {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c; /* 4 x 4, of floats */
    cublasLtMatmulHeuristicResult_t found;
    uint64_t memory; /* a at 0, b at 256, c at 512, a workspace at 4096 */
} call;
#define LT(function, ...) assert_int_equal(bti_cublaslt.function(__VA_ARGS__), 0)
enum { WORKSPACE = 4096, BYTES = 1 << 18 };

static int ask(call *p, int64_t leading, uint64_t columns_of_b) {
    cublasLtMatmulPreference_t preference;
    const uint64_t workspace = 1 << 17;
    int count;
    if (p->a) LT(cublasLtMatrixLayoutDestroy, p->a);
    if (p->b) LT(cublasLtMatrixLayoutDestroy, p->b);
    LT(cublasLtMatrixLayoutCreate, &p->a, CUDA_R_32F, 4, 4, leading);
    LT(cublasLtMatrixLayoutCreate, &p->b, CUDA_R_32F, 4, columns_of_b, 4);
    LT(cublasLtMatmulPreferenceCreate, &preference);
    LT(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8);
    int status = bti_cublaslt.cublasLtMatmulAlgoGetHeuristic(p->handle, p->product, p->a, p->b, p->c, p->c, preference,
                                                             1, &p->found, &count);
    LT(cublasLtMatmulPreferenceDestroy, preference);
    assert_int_equal(count, status ? 0 : 1);
    return status;
}
static void begin(bti_cuda_device *d, call *p) {
    static float ones[BYTES / 4];
    *p = (call){0};
    for (int i = 0; i < BYTES / 4; i++) ones[i] = 1;
    OK(bti_driver_cuda.alloc(d, BYTES, &p->memory));
    OK(bti_driver_cuda.upload(d, p->memory, ones, BYTES));
    OK(bti_driver_cuda.sync(d));
    assert_true(bti_cuda_has(BTI_CUDA_CUBLASLT));
    LT(cublasLtCreate, &p->handle);
    LT(cublasLtMatmulDescCreate, &p->product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    LT(cublasLtMatrixLayoutCreate, &p->c, CUDA_R_32F, 4, 4, 4);
    assert_int_equal(ask(p, 4, 4), 0);
}
static void end(bti_cuda_device *d, call *p) {
    LT(cublasLtMatrixLayoutDestroy, p->a);
    LT(cublasLtMatrixLayoutDestroy, p->b);
    LT(cublasLtMatrixLayoutDestroy, p->c);
    LT(cublasLtMatmulDescDestroy, p->product);
    LT(cublasLtDestroy, p->handle);
    bti_driver_cuda.free(d, p->memory, BYTES);
}
static int run(const call *p, CUstream stream, float alpha, float beta, uint64_t to, uint64_t workspace, size_t bytes) {
    char *memory = (char *)(uintptr_t)p->memory;
    return bti_cublaslt.cublasLtMatmul(p->handle, p->product, &alpha, memory, p->a, memory + 256, p->b, &beta,
                                       memory + to, p->c, memory + to, p->c, &p->found.algo, memory + workspace, bytes,
                                       stream);
}

static void misuse_of_cublas_is_refused(void **state) {
    (void)state;
    float values[16];
    call p;
    machine(MACHINE, NULL);
    bti_cuda_device *d = open_one(0);
    begin(d, &p);
    assert_int_equal(run(&p, d->compute, 2, 3, 512, WORKSPACE, p.found.workspaceSize), 0);
    OK(bti_driver_cuda.sync(d));
    OK(bti_driver_cuda.download(d, values, p.memory + 512, sizeof values));
    for (int i = 0; i < 16; i++) assert_true(values[i] == 2 * 4 + 3 * 1);
    assert_int_equal(run(&p, d->compute, 1, 0, 512, WORKSPACE + 128, p.found.workspaceSize), 7);
    assert_int_equal(run(&p, d->compute, 1, 0, 520, WORKSPACE, p.found.workspaceSize), 7); /* 16 bytes were promised */
    assert_int_equal(run(&p, d->compute, 1, 0, 512, BYTES, 1 << 16), p.found.workspaceSize ? 7 : 0);
    for (int64_t leading = 4; leading < 12; leading++) { /* one that takes a workspace */
        assert_int_equal(ask(&p, leading, 4), 0);
        if (p.found.workspaceSize) break;
    }
    assert_true(p.found.workspaceSize > 0);
    assert_int_equal(run(&p, d->compute, 1, 0, 512, WORKSPACE, p.found.workspaceSize), 0);
    OK(bti_driver_cuda.sync(d));
    unsigned char last;
    OK(bti_driver_cuda.download(d, &last, p.memory + WORKSPACE + p.found.workspaceSize - 1, 1));
    assert_int_equal(last, 0xa5); /* nobody may rely on what was there */
    assert_int_equal(run(&p, d->compute, 1, 0, 512, WORKSPACE, p.found.workspaceSize - 1), 7);
    LT(cublasLtMatrixLayoutDestroy, p.a); /* the algorithm of another shape */
    LT(cublasLtMatrixLayoutCreate, &p.a, CUDA_R_32F, 4, 4, 100);
    assert_int_equal(run(&p, d->compute, 1, 0, 512, WORKSPACE, p.found.workspaceSize), 15);
    assert_int_equal(ask(&p, 3, 4), 7);
    assert_int_equal(ask(&p, 4, 5), 7);
    cublasLtMatmulDesc_t none;
    assert_int_equal(bti_cublaslt.cublasLtMatmulDescCreate(&none, CUBLAS_COMPUTE_64F, CUDA_R_32F), 7);
    const int transposed = 9;
    assert_int_equal(
        bti_cublaslt.cublasLtMatmulDescSetAttribute(p.product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 4), 7);
    end(d, &p);
    close_one(d);
}

static void products_without_an_order_are_races(void **state) {
    (void)state;
    for (int share = 0; share < 3; share++) { /* the result, the workspace, nothing */
        call p;
        machine(MACHINE, NULL);
        bti_cuda_device *d = open_one(0);
        begin(d, &p);
        for (int64_t leading = 4; leading < 12 && !p.found.workspaceSize; leading++)
            assert_int_equal(ask(&p, leading, 4), 0);
        uint64_t other = share == 1 ? WORKSPACE : WORKSPACE + (1 << 17);
        assert_int_equal(run(&p, d->compute, 1, 0, 1024, WORKSPACE, p.found.workspaceSize), 0);
        assert_int_equal(run(&p, d->down.stream, 1, 0, share == 0 ? 1024 : 2048, other, p.found.workspaceSize), 0);
        OK(bti_cuda_enter(d));
        int code = bti_cu.cuStreamSynchronize(d->compute);
        if (!code) code = bti_cu.cuStreamSynchronize(d->down.stream);
        assert_int_equal(code, share == 2 ? 0 : 719);
        bt_status status = bti_cuda_leave(bti_cuda_check(d, "cuStreamSynchronize", code));
        if (share < 2) expect_error(status, BT_INTERNAL, "race: cublasLtMatmul of 4 x 4 x 4");
        end(d, &p);
        bti_driver_cuda.close(d);
    }
}

/* --- reductions ----------------------------------------------------------------------------------------------------------- */

static const bt_dtype dtypes[] = {
    [ncclInt8] = BT_I8,     [ncclUint8] = BT_U8,     [ncclInt32] = BT_I32,   [ncclUint32] = BT_U32,
    [ncclInt64] = BT_I64,   [ncclUint64] = BT_U64,   [ncclFloat16] = BT_F16, [ncclFloat32] = BT_F32,
    [ncclFloat64] = BT_F64, [ncclBfloat16] = BT_BF16};
enum { ELEMENTS = 200, RANKS = 3 };

static uint64_t word_at(int type, const char *memory, int i) {
    uint64_t word = 0;
    size_t size = bt_dtype_size(dtypes[type]);
    memcpy(&word, memory + (size_t)i * size, size);
    return word;
}
static double step(int operation, double x, double y) {
    return operation == ncclSum    ? x + y
           : operation == ncclProd ? x * y
           : operation == ncclMax  ? fmax(x, y)
                                   : fmin(x, y);
}
/* One step in the element's type. */
static uint64_t fold(int type, int operation, uint64_t x, uint64_t y) {
    bt_dtype dtype = dtypes[type];
    int unused = 64 - 8 * (int)bt_dtype_size(dtype);
    char result[8] = {0};
    if (type >= ncclFloat16) {
        put_at(dtype, result, 0, step(operation, value_at(dtype, (char *)&x, 0), value_at(dtype, (char *)&y, 0)));
        return word_at(type, result, 0);
    }
    bool is_signed = type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
    int64_t p = (int64_t)(x << unused) >> unused, q = (int64_t)(y << unused) >> unused;
    bool less = is_signed ? p < q : x < y;
    uint64_t z = operation == ncclSum ? x + y : operation == ncclProd ? x * y : less == (operation == ncclMax) ? y : x;
    return z << unused >> unused;
}

typedef struct ranks {
    void *devices[RANKS];
    ncclComm_t communicators[RANKS];
    uint64_t from[RANKS], to[RANKS];
} ranks;

static void open_ranks(ranks *r) {
    const int ordinals[RANKS] = {0, 1, 2};
    machine(MACHINE, NULL);
    for (int i = 0; i < RANKS; i++) {
        bti_cuda_device *device = open_one(i);
        r->devices[device->cuda_ordinal] = device;
    }
    for (int i = 0; i < RANKS; i++) {
        OK(bti_driver_cuda.alloc(r->devices[i], ELEMENTS * 8, &r->from[i]));
        OK(bti_driver_cuda.alloc(r->devices[i], ELEMENTS * 8, &r->to[i]));
        OK(bti_driver_cuda.fill(r->devices[i], r->from[i], 0, ELEMENTS * 8));
        OK(bti_driver_cuda.sync(r->devices[i]));
    }
    assert_true(bti_cuda_has(BTI_CUDA_NCCL));
    assert_int_equal(bti_nccl.ncclCommInitAll(r->communicators, RANKS, ordinals), 0);
}
static void close_ranks(ranks *r) {
    for (int i = 0; i < RANKS; i++) (void)bti_driver_cuda.sync(r->devices[i]); /* an error where the ranks disagree */
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(bti_nccl.ncclCommDestroy(r->communicators[i]), 0);
        bti_driver_cuda.free(r->devices[i], r->from[i], ELEMENTS * 8);
        bti_driver_cuda.free(r->devices[i], r->to[i], ELEMENTS * 8);
    }
    for (int i = 0; i < RANKS; i++) bti_driver_cuda.close(r->devices[i]);
}
static int reduce(const ranks *r, int rank, size_t count, int type, int operation, bool in_place) {
    const bti_cuda_device *d = r->devices[rank];
    void *from = (void *)(uintptr_t)r->from[rank], *to = (void *)(uintptr_t)r->to[rank];
    return bti_nccl.ncclAllReduce(from, in_place ? from : to, count, type, operation, r->communicators[rank],
                                  d->compute);
}

static void check_reduction(const ranks *r, int type, int operation, bool in_place) {
    char values[RANKS][ELEMENTS * 8], results[ELEMENTS * 8];
    size_t bytes = ELEMENTS * bt_dtype_size(dtypes[type]);
    for (int i = 0; i < RANKS; i++) {
        for (int e = 0; e < ELEMENTS * 8; e++) values[i][e] = (char)(draw() * 128);
        for (int e = 0; e < ELEMENTS && type >= ncclFloat16; e++) put_at(dtypes[type], values[i], e, 2 * draw());
        OK(bti_driver_cuda.upload(r->devices[i], r->from[i], values[i], bytes));
    }
    assert_int_equal(bti_nccl.ncclGroupStart(), 0);
    for (int i = 0; i < RANKS; i++) assert_int_equal(reduce(r, i, ELEMENTS, type, operation, in_place), 0);
    assert_int_equal(bti_nccl.ncclGroupEnd(), 0);
    for (int i = 0; i < RANKS; i++) {
        OK(bti_driver_cuda.sync(r->devices[i]));
        OK(bti_driver_cuda.download(r->devices[i], results, in_place ? r->from[i] : r->to[i], bytes));
        for (int e = 0; e < ELEMENTS; e++) {
            bool found = false;
            for (int first = 0; first < RANKS; first++) { /* the ring may begin anywhere */
                uint64_t want = word_at(type, values[first], e);
                for (int s = 1; s < RANKS; s++)
                    want = fold(type, operation, want, word_at(type, values[(first + s) % RANKS], e));
                found = found || want == word_at(type, results, e);
            }
            if (!found) fail_msg("type %d operation %d rank %d element %d", type, operation, i, e);
        }
    }
}
static void reductions_of_every_type(void **state) {
    (void)state;
    ranks r;
    open_ranks(&r);
    for (int type = ncclInt8; type <= ncclBfloat16; type++)
        for (int operation = ncclSum; operation <= ncclMin; operation++)
            for (int in_place = 0; in_place < 2; in_place++) check_reduction(&r, type, operation, in_place);
    close_ranks(&r);
    assert_int_equal(fake.alive(), 0);
}

static void misuse_of_nccl_is_refused(void **state) {
    (void)state;
    ranks r;
    open_ranks(&r);
    assert_int_equal(bti_nccl.ncclGroupEnd(), 5);
    assert_int_equal(bti_nccl.ncclGroupStart(), 0);
    assert_int_equal(reduce(&r, 0, 1, 77, ncclSum, true), 4);
    assert_int_equal(reduce(&r, 0, 1, ncclFloat32, 9, true), 4);
    assert_int_equal(reduce(&r, 0, 1, ncclFloat32, ncclSum, true), 0);
    assert_int_equal(reduce(&r, 0, 1, ncclFloat32, ncclSum, true), 5); /* twice */
    assert_int_equal(reduce(&r, 1, 1, ncclFloat32, ncclSum, true), 0);
    assert_int_equal(reduce(&r, 2, 1, ncclFloat32, ncclSum, true), 0);
    assert_int_equal(bti_nccl.ncclGroupEnd(), 0);
    const int twice[] = {1, 1};
    ncclComm_t none[2];
    assert_int_equal(bti_nccl.ncclCommInitAll(none, 2, twice), 5);
    close_ranks(&r);
    assert_int_equal(fake.alive(), 0);
}

/* What would make NCCL hang is an error of the device whose call was the last. */
static void ranks_that_disagree_are_found(void **state) {
    (void)state;
    for (int wrong = 0; wrong < 3; wrong++) { /* a count, an operation, a rank that is missing */
        ranks r;
        bt_status status = BT_OK;
        open_ranks(&r);
        assert_int_equal(bti_nccl.ncclGroupStart(), 0);
        for (int i = 0; i < (wrong == 2 ? 2 : 3); i++)
            assert_int_equal(reduce(&r, i, wrong == 0 && i == 1 ? 7 : 8, ncclFloat32,
                                    wrong == 1 && i == 1 ? ncclMax : ncclSum, true),
                             0);
        assert_int_equal(bti_nccl.ncclGroupEnd(), 0);
        for (int i = 0; i < RANKS && status == BT_OK; i++) status = bti_driver_cuda.sync(r.devices[i]);
        expect_error(status, BT_INTERNAL,
                     wrong == 2 ? "ncclAllReduce never ends: rank 2 of 3 does not call it"
                                : "ncclAllReduce never ends: rank 0 reduces 8 elements");
        close_ranks(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_every_type),
        cmocka_unit_test(misuse_of_cublas_is_refused),
        cmocka_unit_test(products_without_an_order_are_races),
        cmocka_unit_test(reductions_of_every_type),
        cmocka_unit_test(misuse_of_nccl_is_refused),
        cmocka_unit_test(ranks_that_disagree_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, no_machine);
}
