// timeout: 300
/* The driver on a real plugin, XLA's CPU client or another one, whose path is the environment's BERTH_PJRT_PLUGIN: segments written by hand. */
#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/pjrt.h"

static bti_pjrt_device *devices[BTI_PJRT_DEVICES];
static int device_count;

static const char add_text[] = "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "  %0 = stablehlo.add %a, %b : tensor<4xf32>\n"
                               "  return %0 : tensor<4xf32>\n"
                               "}\n";
static const char add_in_place_text[] =
    "func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> tensor<4xf32> {\n"
    "  %0 = stablehlo.add %a, %b : tensor<4xf32>\n"
    "  return %0 : tensor<4xf32>\n"
    "}\n";

static void sums(void **state) {
    (void)state;
    const float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40}, sum[] = {11, 22, 33, 44}, twice[] = {21, 42, 63, 84};
    const bti_type types[] = {FLOATS(4), FLOATS(4), FLOATS(4)};
    void *program;
    for (int d = 0; d < device_count; d++) {
        bti_pjrt_device *device = devices[d];
        OK(load_segment(device, add_text, 2, 1, types, NULL, &program));
        uint64_t at[] = {new_array(device, a, sizeof a), new_array(device, b, sizeof b), new_memory(device, sizeof a)};
        OK(pjrt->launch_segment(device, program, at, NULL));
        expect_floats(device, at[2], sum, 4);
        OK(pjrt->launch_segment(device, program, (uint64_t[]){at[2], at[1], at[2]},
                                NULL)); /* no alias: the old one lives until the run is over */
        expect_floats(device, at[2], twice, 4);
        expect_floats(device, at[0], a, 4);
        finish(device);
        for (int i = 0; i < 3; i++) pjrt->free(device, at[i], sizeof a);
        pjrt->program_free(device, NULL, program);
    }
    if (device_count > 1) assert_true(atomic_load(&devices[0]->client->shared) == 0); /* each was freed before */
}

static void devices_share_a_program(void **state) {
    (void)state;
    const bti_type types[] = {FLOATS(4), FLOATS(4), FLOATS(4)};
    const float a[] = {1, 2, 3, 4}, sum[] = {2, 4, 6, 8};
    void *programs[BTI_PJRT_DEVICES];
    unsigned before = atomic_load(&devices[0]->client->compiled);
    for (int d = 0; d < device_count; d++) OK(load_segment(devices[d], add_text, 2, 1, types, NULL, &programs[d]));
    assert_int_equal(atomic_load(&devices[0]->client->compiled), before + 1);
    for (int d = 0; d < device_count; d++) {
        uint64_t x = new_array(devices[d], a, sizeof a), y = new_memory(devices[d], sizeof a);
        OK(pjrt->launch_segment(devices[d], programs[d], (uint64_t[]){x, x, y}, NULL));
        expect_floats(devices[d], y, sum, 4);
        finish(devices[d]);
        pjrt->free(devices[d], x, sizeof a);
        pjrt->free(devices[d], y, sizeof a);
        pjrt->program_free(devices[d], NULL, programs[d]);
    }
}

static void a_program_for_one_device(void **state) {
    (void)state;
    const bti_type types[] = {FLOATS(4), FLOATS(4), FLOATS(4)};
    const float a[] = {1, 2, 3, 4}, sum[] = {2, 4, 6, 8};
    bti_pjrt_client *client = devices[0]->client;
    int before = atomic_exchange(&client->portable, -1);
    for (int d = 0; d < device_count; d++) {
        void *program;
        OK(load_segment(devices[d], add_text, 2, 1, types, NULL, &program));
        uint64_t x = new_array(devices[d], a, sizeof a), y = new_memory(devices[d], sizeof a);
        OK(pjrt->launch_segment(devices[d], program, (uint64_t[]){x, x, y}, NULL));
        expect_floats(devices[d], y, sum, 4);
        finish(devices[d]);
        pjrt->free(devices[d], x, sizeof a);
        pjrt->free(devices[d], y, sizeof a);
        pjrt->program_free(devices[d], NULL, program);
    }
    atomic_store(&client->portable, before);
}

static void products(void **state) {
    (void)state;
    enum { M = 96, K = 64, N = 80 };
    char text[600];
    snprintf(text, sizeof text,
             "func.func @main(%%a: tensor<%dx%dxf32>, %%b: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n"
             "  %%0 = stablehlo.dot_general %%a, %%b, contracting_dims = [1] x [0] : "
             "(tensor<%dx%dxf32>, tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\n"
             "  return %%0 : tensor<%dx%dxf32>\n}\n",
             M, K, K, N, M, N, M, K, K, N, M, N, M, N);
    static float a[M][K], b[K][N], product[M][N];
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++) a[i][k] = (float)((i * 7 + k * 3) % 11 - 5);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++) b[k][j] = (float)((k * 5 + j) % 9 - 4);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++) product[i][j] += a[i][k] * b[k][j];
    const bti_type types[] = {FLOATS(M, K), FLOATS(K, N), FLOATS(M, N)};
    void *program;
    bti_pjrt_device *device = devices[0];
    OK(load_segment(device, text, 2, 1, types, NULL, &program));
    uint64_t at[] = {new_array(device, a, sizeof a), new_array(device, b, sizeof b),
                     new_memory(device, sizeof product)};
    OK(pjrt->launch_segment(device, program, at, NULL));
    expect_floats(device, at[2], &product[0][0], M * N);
    finish(device);
    const size_t bytes[] = {sizeof a, sizeof b, sizeof product};
    for (int i = 0; i < 3; i++) pjrt->free(device, at[i], bytes[i]);
    pjrt->program_free(device, NULL, program);
}

/* The right factor is doubled in its own memory. */
static void a_product_reads_what_is_there_now(void **state) {
    (void)state;
    enum { M = 128, K = 784, N = 512 };
    static const char product_text[] =
        "func.func @main(%a: tensor<128x784xf32>, %b: tensor<784x512xf32>) -> tensor<128x512xf32> {\n"
        "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : "
        "(tensor<128x784xf32>, tensor<784x512xf32>) -> tensor<128x512xf32>\n"
        "  %1 = stablehlo.add %0, %0 : tensor<128x512xf32>\n"
        "  return %1 : tensor<128x512xf32>\n}\n";
    static const char double_text[] =
        "func.func @main(%b: tensor<784x512xf32> {tf.aliasing_output = 0 : i32}) -> tensor<784x512xf32> {\n"
        "  %0 = stablehlo.add %b, %b : tensor<784x512xf32>\n"
        "  return %0 : tensor<784x512xf32>\n}\n";
    static float a[M * K], b[K * N], expected[M * N];
    const bti_type types[] = {FLOATS(M, K), FLOATS(K, N), FLOATS(M, N)}, doubled[] = {FLOATS(K, N), FLOATS(K, N)};
    void *product, *twice;
    bti_pjrt_device *device = devices[0];
    for (int i = 0; i < M * K; i++) a[i] = 1;
    for (int i = 0; i < K * N; i++) b[i] = 1;
    OK(load_segment(device, product_text, 2, 1, types, NULL, &product));
    OK(load_segment(device, double_text, 1, 1, doubled, (int[]){0}, &twice));
    uint64_t at[] = {new_array(device, a, sizeof a), new_array(device, b, sizeof b),
                     new_memory(device, sizeof expected)};
    OK(pjrt->launch_segment(device, twice, (uint64_t[]){at[1], at[1]},
                            NULL)); /* from here on in memory of the plugin's */
    for (int i = 0; i < 3; i++) {
        OK(pjrt->launch_segment(device, product, at, NULL));
        for (int j = 0; j < M * N; j++) expected[j] = (float)(2 * K * (2 << i));
        expect_floats(device, at[2], expected, M * N);
        OK(pjrt->launch_segment(device, twice, (uint64_t[]){at[1], at[1]}, NULL));
    }
    finish(device);
    pjrt->free(device, at[0], sizeof a);
    pjrt->free(device, at[1], sizeof b);
    pjrt->free(device, at[2], sizeof expected);
    pjrt->program_free(device, NULL, product);
    pjrt->program_free(device, NULL, twice);
}

/* On either side, in vectors and behind them. */
static void extremes_keep_nan(void **state) {
    (void)state;
    enum { COUNT = 67 };
    static const char text[] =
        "func.func @main(%a: tensor<67xf32>, %b: tensor<67xf32>) -> (tensor<67xf32>, tensor<67xf32>) {\n"
        "  %0 = stablehlo.maximum %a, %b : tensor<67xf32>\n"
        "  %1 = stablehlo.minimum %a, %b : tensor<67xf32>\n"
        "  return %0, %1 : tensor<67xf32>, tensor<67xf32>\n}\n";
    float a[COUNT], b[COUNT], got[COUNT];
    const bti_type types[] = {FLOATS(COUNT), FLOATS(COUNT), FLOATS(COUNT), FLOATS(COUNT)};
    void *program;
    bti_pjrt_device *device = devices[0];
    for (int i = 0; i < COUNT; i++) a[i] = i % 3 == 1 ? NAN : (float)i, b[i] = i % 3 == 2 ? NAN : 30;
    OK(load_segment(device, text, 2, 2, types, NULL, &program));
    uint64_t at[4] = {new_array(device, a, sizeof a), new_array(device, b, sizeof b)};
    for (int i = 2; i < 4; i++) at[i] = new_memory(device, sizeof a);
    OK(pjrt->launch_segment(device, program, at, NULL));
    for (int k = 0; k < 2; k++) {
        OK(pjrt->download(device, got, at[2 + k], sizeof got));
        for (int i = 0; i < COUNT; i++) {
            float expected = (k == 0) == (a[i] > 30) ? a[i] : 30;
            if (i % 3 ? !isnan(got[i]) : got[i] != expected)
                fail_msg("%s of %g and %g is %g", k ? "minimum" : "maximum", a[i], b[i], got[i]);
        }
    }
    finish(device);
    for (int i = 0; i < 4; i++) pjrt->free(device, at[i], sizeof a);
    pjrt->program_free(device, NULL, program);
}

/* With the same address an input gives its memory; with another one, or while a copy holds it, it keeps its elements. */
static void memory_is_given(void **state) {
    (void)state;
    const float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40}, sum[] = {11, 22, 33, 44}, twice[] = {21, 42, 63, 84};
    const bti_type types[] = {FLOATS(4), FLOATS(4), FLOATS(4)};
    void *program;
    bti_pjrt_device *device = devices[0];
    OK(load_segment(device, add_in_place_text, 2, 1, types, (int[]){0, -1}, &program));
    uint64_t x = new_array(device, a, sizeof a), y = new_array(device, b, sizeof b), z = new_memory(device, sizeof a);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, z}, NULL));
    expect_floats(device, z, sum, 4);
    expect_floats(device, x, a, 4);
    OK(pjrt->copy(device, x, z, sizeof a)); /* shares the buffer */
    OK(pjrt->launch_segment(device, program, (uint64_t[]){z, y, z}, NULL));
    expect_floats(device, z, twice, 4);
    expect_floats(device, x, sum, 4);
    for (int i = 0; i < 100; i++) OK(pjrt->launch_segment(device, program, (uint64_t[]){z, y, z}, NULL));
    const float many[] = {1021, 2042, 3063, 4084};
    expect_floats(device, z, many, 4);
    expect_floats(device, y, b, 4);
    finish(device);
    pjrt->free(device, x, sizeof a);
    pjrt->free(device, y, sizeof a);
    pjrt->free(device, z, sizeof a);
    pjrt->program_free(device, NULL, program);
}

/* Through a program that returns its argument, and back as bytes. */
static void dtypes_go_there_and_back(void **state) {
    (void)state;
    static const char *const words[BT_DTYPE_COUNT] = {
        [BT_BOOL] = "i1",          [BT_U8] = "ui8",          [BT_U16] = "ui16",      [BT_U32] = "ui32",
        [BT_U64] = "ui64",         [BT_I8] = "i8",           [BT_I16] = "i16",       [BT_I32] = "i32",
        [BT_I64] = "i64",          [BT_F16] = "f16",         [BT_BF16] = "bf16",     [BT_F32] = "f32",
        [BT_F64] = "f64",          [BT_F8E4M3] = "f8E4M3FN", [BT_F8E5M2] = "f8E5M2", [BT_C64] = "complex<f32>",
        [BT_C128] = "complex<f64>"};
    enum { COUNT = 6 };
    for (int dtype = 0; dtype < BT_DTYPE_COUNT; dtype++) {
        char text[300];
        unsigned char sent[COUNT * 16], got[COUNT * 16];
        size_t bytes = COUNT * bt_dtype_size((bt_dtype)dtype);
        const bti_type type = type_of((bt_dtype)dtype, 2, (int64_t[]){2, 3}), types[] = {type, type};
        void *program;
        for (size_t i = 0; i < bytes; i++)
            sent[i] = dtype == BT_BOOL ? (unsigned char)(i & 1) : (unsigned char)(i * 5 + 17);
        snprintf(text, sizeof text,
                 "func.func @main(%%a: tensor<2x3x%s>) -> tensor<2x3x%s> {\n  return %%a : tensor<2x3x%s>\n}\n",
                 words[dtype], words[dtype], words[dtype]);
        OK(load_segment(devices[0], text, 1, 1, types, NULL, &program));
        uint64_t at[] = {new_array(devices[0], sent, bytes), new_memory(devices[0], bytes)};
        OK(pjrt->launch_segment(devices[0], program, at, NULL));
        OK(pjrt->download(devices[0], got, at[1], bytes));
        assert_memory_equal(got, sent, bytes);
        memset(got, 0, bytes);
        for (size_t i = 0; i < bytes; i++) OK(pjrt->download(devices[0], got + i, at[1] + i, 1)); /* in parts */
        assert_memory_equal(got, sent, bytes);
        finish(devices[0]);
        pjrt->free(devices[0], at[0], bytes);
        pjrt->free(devices[0], at[1], bytes);
        pjrt->program_free(devices[0], NULL, program);
    }
}

/* Three axes, whose bytes come row-major whatever the device's layout; and another type of the same bytes. */
static void layouts_and_other_types(void **state) {
    (void)state;
    const char text[] = "func.func @main(%a: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {\n"
                        "  %0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>\n"
                        "  return %0 : tensor<4x2x3xf32>\n}\n";
    float a[24], turned[24];
    for (int i = 0; i < 24; i++) a[i] = (float)i;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 6; i++) turned[k * 6 + i] = a[i * 4 + k];
    const bti_type types[] = {FLOATS(2, 3, 4), FLOATS(4, 2, 3)}, sum_types[] = {FLOATS(4), FLOATS(4), FLOATS(4)};
    void *program, *sum;
    bti_pjrt_device *device = devices[device_count - 1];
    OK(load_segment(device, text, 1, 1, types, NULL, &program));
    OK(load_segment(device, add_text, 2, 1, sum_types, NULL, &sum));
    uint64_t x = new_array(device, a, sizeof a), y = new_memory(device, sizeof a), z = new_memory(device, 16);
    OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y}, NULL));
    expect_floats(device, y, turned, 24);
    unsigned before = atomic_load(&device->retyped);
    OK(pjrt->launch_segment(device, sum, (uint64_t[]){y, y, z}, NULL));
    const float sums4[] = {0, 8, 16, 24};
    expect_floats(device, z, sums4, 4);
    assert_int_equal(atomic_load(&device->retyped), before + 1);
    finish(device);
    pjrt->free(device, x, sizeof a);
    pjrt->free(device, y, sizeof a);
    pjrt->free(device, z, 16);
    pjrt->program_free(device, NULL, program);
    pjrt->program_free(device, NULL, sum);
}

static void copies_between_devices(void **state) {
    (void)state;
    if (device_count < 2) {
        print_message("skipped: the plugin has one device\n");
        skip();
    }
    const float a[] = {1, 2, 3, 4}, sum[] = {2, 4, 6, 8};
    const bti_type types[] = {FLOATS(4), FLOATS(4), FLOATS(4)};
    void *program;
    OK(load_segment(devices[0], add_text, 2, 1, types, NULL, &program));
    uint64_t x = new_array(devices[0], a, sizeof a), y = new_memory(devices[0], sizeof a);
    uint64_t there = new_memory(devices[1], sizeof a), again = new_memory(devices[1], sizeof a);
    OK(pjrt->launch_segment(devices[0], program, (uint64_t[]){x, x, y}, NULL));
    finish(devices[0]);
    OK(pjrt->peer_copy(devices[1], there, devices[0], y, sizeof a));
    expect_floats(devices[1], there, sum, 4);
    OK(pjrt->peer_copy(devices[1], again + 4, devices[0], y + 4, 8)); /* a part: over the host */
    const float part[] = {0, 4, 6, 0};
    expect_floats(devices[1], again, part, 4);
    pjrt->free(devices[0], x, sizeof a);
    pjrt->free(devices[0], y, sizeof a);
    pjrt->free(devices[1], there, sizeof a);
    pjrt->free(devices[1], again, sizeof a);
    pjrt->program_free(devices[0], NULL, program);
}

static void errors_are_told(void **state) {
    (void)state;
    const bti_type types[] = {FLOATS(4), FLOATS(4), FLOATS(4), FLOATS(4)};
    void *program;
    FAILS(load_segment(devices[0], "this is no module", 2, 1, types, NULL, &program), BT_UNKNOWN,
          "compiling a segment: ");
    FAILS(load_segment(devices[0], add_text, 2, 2, types, NULL, &program), BT_INTERNAL,
          "the compiled segment has 1 results; the plan has 2");
    /* the text wants other types than the source says */
    const bti_type wrong[] = {FLOATS(5), FLOATS(4), FLOATS(4)};
    const float a[5] = {1};
    OK(load_segment(devices[0], add_text, 2, 1, wrong, NULL, &program));
    uint64_t at[] = {new_array(devices[0], a, 20), new_array(devices[0], a, 16), new_memory(devices[0], 16)};
    bti_event event;
    bt_status status = pjrt->launch_segment(devices[0], program, at, NULL);
    if (status == BT_OK) {
        OK(pjrt->record(devices[0], &event));
        status = pjrt->wait(devices[0], event);
    }
    if (status == BT_OK) fail_msg("it ran");
    print_message("%s\n", bt_error_text());
    for (int i = 0; i < 3; i++) pjrt->free(devices[0], at[i], 16);
    pjrt->program_free(devices[0], NULL, program);
}

/* The first input gives its memory to a run that is refused for the second one: its elements are there, or said to be lost. */
static void a_refused_run_keeps_its_inputs(void **state) {
    (void)state;
    const bti_type types[] = {FLOATS(4), FLOATS(5), FLOATS(4)};
    const float a[5] = {1, 2, 3, 4, 5};
    float got[4];
    void *program;
    bti_pjrt_device *device = devices[0];
    OK(load_segment(device, add_in_place_text, 2, 1, types, (int[]){0, -1}, &program));
    uint64_t x = new_array(device, a, 16), y = new_array(device, a, 20);
    assert_int_not_equal(pjrt->launch_segment(device, program, (uint64_t[]){x, y, x}, NULL), BT_OK);
    bt_status status = pjrt->download(device, got, x, sizeof got);
    if (status == BT_OK)
        assert_memory_equal(got, a, sizeof got);
    else
        FAILS(status, BT_INTERNAL, "these elements are lost");
    print_message("after a refused run its input %s\n", status == BT_OK ? "is as before" : "is lost");
    OK(pjrt->upload(device, x, a, 16));
    expect_floats(device, x, a, 4);
    pjrt->free(device, x, 16);
    pjrt->free(device, y, 20);
    pjrt->program_free(device, NULL, program);
}

static void many_launches(void **state) {
    (void)state;
    enum { LAUNCHES = 2000, EVENTS = 16 };
    const float a[] = {1, 2, 3, 4}, b[] = {1, 1, 1, 1};
    const bti_type types[] = {FLOATS(4), FLOATS(4), FLOATS(4)};
    void *program;
    bti_pjrt_device *device = devices[0];
    OK(load_segment(device, add_in_place_text, 2, 1, types, (int[]){0, -1}, &program));
    uint64_t x = new_array(device, a, sizeof a), y = new_array(device, b, sizeof b);
    bti_event events[EVENTS];
    uint64_t start = bti_now_ns();
    for (int i = 0; i < LAUNCHES; i++) {
        if (i >= EVENTS) OK(pjrt->wait(device, events[i % EVENTS]));
        OK(pjrt->launch_segment(device, program, (uint64_t[]){x, y, x}, NULL));
        OK(pjrt->record(device, &events[i % EVENTS]));
    }
    finish(device);
    print_message("%d launches: %.2f us each\n", LAUNCHES, (double)(bti_now_ns() - start) * 1e-3 / LAUNCHES);
    const float got[] = {2001, 2002, 2003, 2004};
    expect_floats(device, x, got, 4);
    assert_true(bti_pjrt_is_idle(device));
    pjrt->free(device, x, sizeof a);
    pjrt->free(device, y, sizeof b);
    pjrt->program_free(device, NULL, program);
}

static void it_is_described(void **state) {
    (void)state;
    bti_str text = {0};
    pjrt->describe(devices[0], &text);
    print_message("%s", bti_str_text(&text));
    assert_non_null(strstr(bti_str_text(&text), "of the PJRT C API"));
    bti_str_free(&text);
}

int main(void) {
    const char *path = getenv("BERTH_PJRT_PLUGIN");
    static probed found;
    char flag[BTI_PJRT_PATH];
    if (!path || !*path) {
        printf("skipped: the environment's BERTH_PJRT_PLUGIN names no plugin\n");
        return 77;
    }
    snprintf(flag, sizeof flag, "acc:%s", path);
    set_plugins(flag);
    device_count = probe_devices(&found);
    printf("%s", bti_str_text(&found.reason));
    if (!device_count) return 1;
    bti_str_free(&found.reason);
    for (int d = 0; d < device_count; d++) devices[d] = open_device(found.facts[d].ordinal);
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums),
                                       cmocka_unit_test(devices_share_a_program),
                                       cmocka_unit_test(a_program_for_one_device),
                                       cmocka_unit_test(products),
                                       cmocka_unit_test(a_product_reads_what_is_there_now),
                                       cmocka_unit_test(extremes_keep_nan),
                                       cmocka_unit_test(memory_is_given),
                                       cmocka_unit_test(dtypes_go_there_and_back),
                                       cmocka_unit_test(layouts_and_other_types),
                                       cmocka_unit_test(copies_between_devices),
                                       cmocka_unit_test(errors_are_told),
                                       cmocka_unit_test(a_refused_run_keeps_its_inputs),
                                       cmocka_unit_test(many_launches),
                                       cmocka_unit_test(it_is_described)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (int d = 0; d < device_count; d++) pjrt->close(devices[d]);
    return rc;
}
