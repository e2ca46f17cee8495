// timeout: 300
/* Small programs in which one thing goes wrong: the nth allocation of the host, or the nth call of a driver entry. Never a
 * crash, a hang or a leak: the status is an error with a text, or the result is right; and nothing else was touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth/control.h>
#include <berth/custom.h>
#include <berth/file.h>
#include <berth/grad.h>
#include <berth/matrices.h>
#include <berth/linalg.h>
#include <berth/ops.h>
#include <berth/random.h>
#include <berth/view.h>

#include "base/alloc.h"
#include "base/test_depth.h"
#include "base/flags.h"
#include "device/device.h"
#include "exec/exec.h"

#define ALL_UP_TO (test_is_short() ? 4u : 200u) /* allocations that are all made to fail; of the rest some */
#define SAMPLES (test_is_short() ? 3u : 50u)
#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* --- programs: BT_OK says that everything came out right ----------------------------------------------------------------- */

static bool with_faults;

/* Its status; values that are wrong end the test. */
static bt_status expect(bt_array *x, int count, const float *values) {
    float got[64];
    BTI_TRY(bt_read(x, got, (size_t)count * sizeof *got));
    for (int i = 0; i < count; i++)
        if (got[i] != values[i]) fail_msg("element %d is %g, not %g", i, (double)got[i], (double)values[i]);
    return BT_OK;
}
#define EXPECT(x, ...) expect(x, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (const float[]){__VA_ARGS__})

static bt_status create(void) {
    BT_SCOPE {
        bt_array *a = BT_ARRAY(float, (2, 2), 1, 2, 3, 4);
        bt_array *b = bt_from(((const float[]){4, 3, 2, 1}), BT_F32, BT_SHAPE(2, 2));
        BTI_TRY(EXPECT(bt_add(bt_mul(a, b), bt_ones(BT_F32, 2, 2)), 5, 7, 7, 5));
        BTI_TRY(EXPECT(bt_cast(bt_arange(0, 3, 1, BT_I32), BT_F32), 0, 1, 2));
        BTI_TRY(EXPECT(bt_keep(bt_eye(2, 2, BT_F32)), 1, 0, 0, 1));
    }
    return BT_OK;
}

static bt_status products(void) {
    BT_SCOPE {
        bt_array *a = BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6), *b = BT_ARRAY(float, (3, 2), 1, 2, 3, 4, 5, 6);
        BTI_TRY(EXPECT(bt_matmul(a, b), 22, 28, 49, 64));
        BTI_TRY(EXPECT(bt_einsum("ij,jk->ik", ((bt_array *[]){bt_transpose(b), bt_transpose(a)}), 2), 22, 49, 28, 64));
        BTI_TRY(EXPECT(bt_softmax(bt_zeros(BT_F32, 2, 2), -1), .5f, .5f, .5f, .5f));
        BTI_TRY(EXPECT(bt_einsum("...ij,jk,kk->...i", ((bt_array *[]){a, b, bt_matmul(a, b)}), 3), 2276, 5174));
    }
    return BT_OK;
}

static bt_status linear_algebra(void) {
    BT_SCOPE {
        bt_array *a = BT_ARRAY(float, (2, 2), 4, 0, 0, 16), *parts[3], *slope = NULL;
        BTI_TRY(EXPECT(bt_cholesky(a), 2, 0, 0, 4));
        BTI_TRY(bt_svd(a, parts));
        BTI_TRY(EXPECT(parts[1], 16, 4));
        BTI_TRY(bt_grad(bt_det(a), &a, 1, &slope));
        BTI_TRY(EXPECT(slope, 16, 0, 0, 4));
    }
    return BT_OK;
}

static bt_status indices(void) {
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (4), 3, 1, 2, 0), *i = BT_ARRAY(int32_t, (2), 3, 0);
        BTI_TRY(EXPECT(bt_sort(x, 0), 0, 1, 2, 3));
        BTI_TRY(EXPECT(bt_take(x, i, 0), 0, 3));
        BTI_TRY(EXPECT(bt_concat(((bt_array *[]){x, x}), 2, 0), 3, 1, 2, 0, 3, 1, 2, 0));
        BTI_TRY(EXPECT(bt_scatter_add(x, i, bt_ones(BT_F32, 2), 0), 4, 1, 2, 1));
        BTI_TRY(EXPECT(bt_scatter_set(x, i, bt_ones(BT_F32, 2), 0), 1, 1, 2, 1));
        BTI_TRY(EXPECT(bt_boolean_mask(x, bt_lt(bt_f32(1), x), 0), 3, 2));
        BTI_TRY(EXPECT(bt_cast(bt_nonzero(bt_reshape(x, 2, 2)), BT_F32), 0, 0, 0, 1, 1, 0));
        BTI_TRY(EXPECT(bt_uniform(bt_key(0), BT_F32, 2, 3), 0.57450044f, 0.09968603f, 0.7419659f, 0.8941783f,
                       0.59656656f, 0.45325184f));
    }
    return BT_OK;
}

static bt_status copies(void) {
    BT_SCOPE {
        bt_array *c[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++)
            BT_ON(i ? "gpu:0" : "gpu:1") c[i] = bt_add(BT_ARRAY(float, (2), 1, 2), bt_f32((float)i));
        bt_array *sum = NULL;
        BT_ON("cpu") sum = bt_add_n(c, 2);
        BTI_TRY(EXPECT(sum, 3, 5));
        BTI_TRY(EXPECT(bt_transpose(bt_to(bt_reshape(bt_to(sum, "gpu:1"), 2, 1), "gpu:0")), 3, 5));
    }
    return BT_OK;
}

/* After a call whose updates failed later on (its output did not), the variables are as before it: both. */
static void check_steps(const float *y1, const float *y2, const float *w, const float *v) {
    int steps = (int)w[0] - 1;
    assert_true(steps == 2 || (with_faults && steps >= 0 && steps < 2));
    assert_true(w[1] == w[0] + 1);
    assert_true(v[0] == (float)(-steps * (steps + 1) / 2) && v[1] == v[0] - (float)steps);
    assert_true(y1[0] == 10 && y1[1] == 40);
    assert_true((y2[0] == 20 && y2[1] == 60) || (with_faults && y2[0] == 10 && y2[1] == 40));
}

static bt_status function_with_update(void) {
    BT_SCOPE {
        bt_shared *w = bt_shared_new(BT_ARRAY(float, (2), 1, 2), "gpu:0");
        bt_shared *v = bt_shared_new(bt_zeros(BT_F32, 2), "gpu:1");
        BTI_TRY(bt_shared_status(w));
        BTI_TRY(bt_shared_status(v));
        bt_array *x = bt_input(BT_F32, -1), *y = bt_mul(x, bt_value(w)), *argument = BT_ARRAY(float, (2), 10, 20);
        bt_update updates[] = {{w, bt_add(bt_value(w), bt_num(1))}, {v, bt_sub(bt_value(v), bt_value(w))}};
        bt_function *f = bt_function_new(&x, 1, &y, 1, updates, 2);
        BTI_TRY(bt_function_status(f));
        float y1[2], y2[2], w_now[2], v_now[2];
        BTI_TRY(bt_read(bt_call1(f, &argument, 1), y1, sizeof y1));
        BTI_TRY(bt_read(bt_call1(f, &argument, 1), y2, sizeof y2));
        bt_synchronize();
        BTI_TRY(bt_read(bt_value(w), w_now, sizeof w_now));
        BTI_TRY(bt_read(bt_value(v), v_now, sizeof v_now));
        check_steps(y1, y2, w_now, v_now);
        bt_shared_set_name(w, "w");
    }
    return BT_OK;
}

/* A state that each call takes and gives, beside a variable on the other device. */
static bt_status donation(void) {
    BT_SCOPE {
        bt_shared *w = bt_shared_new(BT_ARRAY(float, (2), 1, 2), "gpu:1");
        BTI_TRY(bt_shared_status(w));
        bt_array *in = bt_input(BT_F32, 2), *out = bt_add(bt_mul(in, bt_num(2)), bt_value(w));
        bt_function *f = bt_function_new(&in, 1, &out, 1, &(bt_update){w, bt_add(bt_value(w), bt_num(1))}, 1);
        BTI_TRY(bt_function_status(f));
        BTI_TRY(bt_function_donate(f, 0));
        bt_array *x = BT_ARRAY(float, (2), 10, 20), *next;
        float before[2], now[2];
        for (int i = 0; i < 3; i++) {
            BTI_TRY(bt_read(x, before, sizeof before));
            bt_status status = bt_call(f, &x, 1, &next, 1);
            if (status != BT_OK) { /* then it has its value still, unless no memory is left to read it */
                if (bt_read(x, now, sizeof now) == BT_OK) assert_memory_equal(now, before, sizeof now);
                return status;
            }
            x = next;
        }
        BTI_TRY(bt_read(x, now, sizeof now));
        assert_true(now[0] == 80 + 4 + 2 * 2 + 3 && now[1] == 160 + 8 + 2 * 3 + 4);
    }
    return BT_OK;
}

static bt_status host_access(void) {
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (3), 1, 2, 3), *twice = bt_add(x, x);
        BTI_TRY(bt_write(x, ((const float[]){7, 8, 9}), 3 * sizeof(float)));
        BTI_TRY(EXPECT(twice, 2, 4, 6));
        BTI_TRY(EXPECT(x, 7, 8, 9));
        const float *mapped = bt_map(bt_flip(x, BT_ALL));
        if (!mapped) return bt_error_status();
        assert_true(mapped[0] == 9 && mapped[2] == 7);
        double item;
        BTI_TRY(bt_item_at(bt_cpu(x), (const int64_t[]){-1}, &item));
        assert_true(item == 9);
        BTI_TRY(bt_block(bt_sum(x, BT_ALL, false)));
        BTI_TRY(bt_eval(bt_sqrt(x)));
        bt_array *kept = NULL;
        bt_assign(&kept, bt_neg(x));
        bt_status status = EXPECT(kept, -7, -8, -9);
        bt_assign(&kept, NULL);
        BTI_TRY(status);
    }
    return BT_OK;
}

static bt_status text_is(char *text, const char *expected) {
    if (!text) return bt_error_status();
    if (expected) assert_string_equal(text, expected);
    bt_free(text);
    return BT_OK;
}

static bt_status print(void) {
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2), 1, 2), *y = bt_add(x, x);
        BTI_TRY(text_is(bt_explain(y), NULL));
        BTI_TRY(text_is(bt_to_text(y), "[2. 4.]"));
        BTI_TRY(text_is(bt_repr(bt_cast(x, BT_BF16)), "array([1., 2.], dtype=bfloat16)"));
        BTI_TRY(text_is(bt_devices_text(x), "{GpuDevice(id=0)}"));
        bt_error_clear();
        bt_print(y);
        BTI_TRY(bt_error_status());
    }
    return BT_OK;
}

static bt_status gradient(void) {
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2, 2), 1, 2, 3, 4), *w = BT_ARRAY(float, (2, 1), 1, 1);
        bt_array *loss = bt_sum(bt_square(bt_matmul(x, bt_to(w, "gpu:1"))), BT_ALL, false);
        BTI_TRY(EXPECT(bt_grad1(loss, w), 48, 68));
        bt_shared *v = bt_shared_new(w, "gpu:1");
        if (!v) return bt_error_status();
        BTI_TRY(EXPECT(bt_grad1(bt_sum(bt_relu(bt_matmul(x, bt_value(v))), BT_ALL, false), v), 4, 6));
    }
    return BT_OK;
}

static bt_status save(void) {
    static const char path[] = "faults_test.safetensors";
    bt_tensors *tensors = NULL;
    BT_SCOPE {
        bt_array *x = bt_to(BT_ARRAY(float, (2), 1, 2), "gpu:1");
        BTI_TRY(bt_save(path, (const char *const[]){"x"}, &x, 1, (const char *const[]){"kind", "test", NULL}));
        BTI_TRY(bt_tensors_open(path, &tensors));
        bt_status status = EXPECT(bt_tensors_get(tensors, "x"), 1, 2);
        bt_tensors_close(tensors);
        BTI_TRY(status);
    }
    unlink(path);
    return BT_OK;
}

/* x = 2 x while the sum is below 100, three times; negated if it is above. */
static bt_array *is_small(bt_array *const *carry, void *data) {
    return bt_lt(bt_sum(carry[0], BT_ALL, false), bt_num(100));
}
static void grow(bt_array **carry, void *data) { carry[0] = bt_mul(carry[0], data); }
static void grow_and_stop(bt_array *const *args, bt_array **results, void *data) {
    results[0] = args[0];
    (void)bt_while(is_small, grow, data, 8, results, 1);
}
static void negate(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_neg(args[0]); }
static void control_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *sum = bt_add(carry[0], x[0]);
    (void)bt_cond(is_small(&sum, NULL), grow_and_stop, negate, data, &sum, 1, carry, 1);
    y[0] = bt_tanh(bt_mul(sum, bt_num(0)));
}

static bt_status control(void) {
    BT_SCOPE {
        bt_array *two = NULL, *xs = NULL, *carry = NULL, *rows, *grads[2];
        BT_ON("gpu:1") two = BT_ARRAY(float, (2), 2, 2);
        BT_ON("gpu:0") xs = BT_ARRAY(float, (2, 2), 1, 2, 3, 4);
        BT_ON("gpu:0") carry = bt_zeros(BT_F32, 2);
        BTI_TRY(bt_scan(control_step, two, BT_ALL_ROWS, &carry, 1, &xs, 1, &rows, 1));
        bt_array *by[] = {xs, two};
        BTI_TRY(bt_grad(bt_sum(carry, BT_ALL, false), by, 2, grads));
        BTI_TRY(EXPECT(carry, -67, -132));
        BTI_TRY(EXPECT(rows, 0, 0, 0, 0));
        BTI_TRY(EXPECT(grads[0], -64, -64, -1, -1));
        BTI_TRY(EXPECT(grads[1], -192, -384));
    }
    return BT_OK;
}

static void multiply_step(bt_array **carry, bt_array *const *x, bt_array **y, void *two) {
    BT_CHECKPOINT carry[0] = bt_mul(carry[0], two);
}
static void inner_scan_step(bt_array **carry, bt_array *const *x, bt_array **y, void *two) {
    (void)bt_scan(multiply_step, two, 2, carry, 1, NULL, 0, NULL, 0); /* carry is poisoned if it fails */
}
static void middle_scan_step(bt_array **carry, bt_array *const *x, bt_array **y, void *two) {
    (void)bt_scan(inner_scan_step, two, 2, carry, 1, NULL, 0, NULL, 0);
}

/* The gradient has the scan in the block store what those in its steps store. */
static bt_status nested_scans(void) {
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (2), 1, 2), *two = BT_ARRAY(float, (2), 2, 2), *y = x, *grads[2];
        BT_CHECKPOINT BTI_TRY(bt_scan(middle_scan_step, two, 2, &y, 1, NULL, 0, NULL, 0));
        bt_array *by[] = {x, two};
        BTI_TRY(bt_grad(bt_sum(y, BT_ALL, false), by, 2, grads));
        BTI_TRY(EXPECT(y, 256, 512));
        BTI_TRY(EXPECT(grads[0], 256, 256));
        BTI_TRY(EXPECT(grads[1], 1024, 2048));
    }
    return BT_OK;
}

typedef struct program {
    const char *name;
    bt_status (*run)(void);
} program;
static bt_status double_elements(const bt_elements *inputs, int count, const bt_elements *output,
                                 const bt_custom_args *args) {
    for (int64_t i = 0; i < output->shape.size[0]; i++)
        ((float *)output->data)[i] = 2 * ((const float *)inputs[0].data)[i];
    return BT_OK;
}
static bt_status double_shape(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    return BT_OK;
}
static void double_gradient(bt_array *const *inputs, int count, bt_array *const *outputs, bt_array *const *cotangents,
                            bt_array **gradients, const bt_custom_args *args) {
    gradients[0] = bt_mul(cotangents[0], bt_num(2));
}
static void count_released(void *made) { --*(int *)made; }

static bt_status own_operation(void) {
    int made = 1;
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "double", .run = double_elements, .shape = double_shape,
                                                .gradient = double_gradient, .data = &made, .release = count_released));
        bt_array *x = BT_ARRAY(float, (3), 1, 2, 3), *y = bt_custom_call(op, &x, 1, NULL, 0), *gradient;
        status = EXPECT(bt_add(y, x), 3, 6, 9);
        if (status == BT_OK) status = bt_grad(bt_sum(bt_mul(y, y), BT_ALL, false), &x, 1, &gradient);
        if (status == BT_OK) status = EXPECT(gradient, 8, 16, 24);
    }
    bt_synchronize();
    if (made) fail_msg("the data of the operation were released %d times", 1 - made);
    return status;
}

static const program programs[] = {
    {"create", create},
    {"products", products},
    {"indices", indices},
    {"linear_algebra", linear_algebra},
    {"copies", copies},
    {"function_with_update", function_with_update},
    {"donation", donation},
    {"host_access", host_access},
    {"print", print},
    {"gradient", gradient},
    {"control", control},
    {"nested_scans", nested_scans},
    {"own_operation", own_operation},
    {"save", save},
};

/* --- running them --------------------------------------------------------------------------------------------------------- */

static const char *now_running;
static char note[200];

static void set_note(const char *name, const char *what, uint64_t n) {
    snprintf(note, sizeof note, "%s with %s %llu", name, what, (unsigned long long)n);
    now_running = note;
}

static int stdout_before;
static void ignore_line(const char *line, void *data) {}

static int silence(void **state) { /* bt_print writes to standard output */
    bt_set_log_sink(ignore_line, NULL);
    fflush(stdout);
    stdout_before = dup(1);
    FILE *null = fopen("/dev/null", "w");
    dup2(fileno(null), 1);
    fclose(null);
    return 0;
}
static int speak(void **state) {
    bt_set_log_sink(NULL, NULL);
    fflush(stdout);
    dup2(stdout_before, 1);
    close(stdout_before);
    bti_alloc_fail_at(0, false);
    return 0;
}

/* Everything as in a new process. */
static void start_afresh(void) {
    bt_status status = bt_shutdown();
    if (status != BT_OK) fail_msg("after %s: %s", now_running ? now_running : "the start", bt_error_text());
    setenv("BERTH_FLAGS", "devices=sim:gpu*2@64M", 1);
    bti_flags_reset();
    bt_error_clear();
}

static void check_status(bt_status status, bt_status wanted) {
    if (status == BT_OK) return;
    if (!*bt_error_text()) fail_msg("%s: %s without a text", note, bt_status_name(status));
    if (status != bt_error_status())
        fail_msg("%s: %s, but the record says %s", note, bt_status_name(status), bt_error_text());
    if (status != wanted) fail_msg("%s: %s: %s", note, bt_status_name(status), bt_error_text());
}

/* An array on each device that lives through the fault, and what its device holds then. */
typedef struct bystanders {
    bt_array *arrays[3];
    size_t used[3];
    uint64_t live, buffers;
} bystanders;
static const char *const devices[] = {"cpu", "gpu:0", "gpu:1"};

static size_t used_on(const char *name) {
    bt_device *device;
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    assert_int_equal(bt_device_find(name, &device), BT_OK);
    assert_int_equal(bt_memory(device, &info), BT_OK);
    return info.used;
}

static bystanders place_bystanders(void) {
    bystanders by = {0};
    for (int i = 0; i < 3; i++) {
        BT_SCOPE
            BT_ON(devices[i]) by.arrays[i] = bt_retain(BT_ARRAY(float, (2), 5, 6));
        assert_int_equal(EXPECT(by.arrays[i], 5, 6), BT_OK);
    }
    for (int i = 0; i < 3; i++) by.used[i] = used_on(devices[i]);
    by.live = bt_live_arrays();
    by.buffers = bti_buffers_alive();
    return by;
}

static void check_bystanders(bystanders *by) {
    bt_synchronize();
    if (bt_live_arrays() != by->live || bti_buffers_alive() != by->buffers)
        fail_msg("%s: %d arrays and %d buffers more than before", note, (int)(bt_live_arrays() - by->live),
                 (int)(bti_buffers_alive() - by->buffers));
    for (int i = 0; i < 3; i++) {
        if (used_on(devices[i]) != by->used[i])
            fail_msg("%s: %s uses %zu bytes, before %zu", note, devices[i], used_on(devices[i]), by->used[i]);
        if (EXPECT(by->arrays[i], 5, 6) != BT_OK) fail_msg("%s: %s", note, bt_error_text());
        bt_release(by->arrays[i]);
    }
}

static bt_status run(const program *p) {
    bt_status status = BT_OK;
    BT_SCOPE
        status = p->run();
    return status;
}

static uint64_t step_after(uint64_t n, uint64_t count) {
    if (n < ALL_UP_TO) return n + 1;
    return n + 1 + (count > ALL_UP_TO ? (count - ALL_UP_TO) / SAMPLES : 0);
}

static uint64_t allocations_of(const program *p) {
    start_afresh();
    bti_alloc_fail_at(0, false);
    bt_status status = run(p);
    if (status != BT_OK) fail_msg("%s: %s", p->name, bt_error_text());
    return bti_alloc_count();
}

static void one_allocation_fails(const program *p, uint64_t n, bool and_after) {
    set_note(p->name, and_after ? "no allocation from" : "allocation", n);
    start_afresh();
    bti_alloc_fail_at(n, and_after);
    bt_status status = run(p);
    bti_alloc_fail_at(0, false);
    check_status(status, BT_RESOURCE_EXHAUSTED);
    set_note(p->name, "open devices and allocation", n);
    start_afresh();
    bystanders by = place_bystanders();
    bti_alloc_fail_at(n, and_after);
    status = run(p);
    bti_alloc_fail_at(0, false);
    check_status(status, BT_RESOURCE_EXHAUSTED);
    check_bystanders(&by);
    status = run(p); /* as if nothing had been */
    if (status != BT_OK) fail_msg("%s, then again: %s", note, bt_error_text());
}

static void the_nth_allocation_fails(void **state) {
    const program *p = *state;
    uint64_t count = allocations_of(p);
    for (uint64_t n = 1; n <= count + 1; n = step_after(n, count)) one_allocation_fails(p, n, false);
}

static void all_allocations_from_the_nth_on_fail(void **state) {
    const program *p = *state;
    uint64_t count = allocations_of(p), step = 1 + count / SAMPLES;
    for (uint64_t n = 1; n <= count; n += step) one_allocation_fails(p, n, true);
}

static void driver_call_fails(const program *p, const char *entry, int n, const char *more) {
    char fault[64];
    snprintf(fault, sizeof fault, "%s:%d%s", entry, n, more);
    set_note(p->name, fault, (uint64_t)n);
    bool alloc = !strcmp(entry, "alloc");
    for (int open = 0; open < 2; open++) {
        start_afresh();
        bystanders by;
        if (open) by = place_bystanders();
        assert_int_equal(bt_set_flag("sim_fault", fault), BT_OK);
        with_faults = true;
        bt_status status = run(p);
        with_faults = false;
        assert_int_equal(bt_set_flag("sim_fault", ""), BT_OK);
        check_status(status, alloc ? BT_RESOURCE_EXHAUSTED : BT_INTERNAL);
        if (open) check_bystanders(&by);
        status = run(p);
        if (status != BT_OK) fail_msg("%s, then again: %s", note, bt_error_text());
    }
}

static void the_nth_driver_call_fails(void **state) {
    static const char *const entries[] = {"open",   "alloc",  "upload", "download", "copy", "fill",   "program_load",
                                          "launch", "record", "wait",   "query",    "sync", "memory", "peer_copy"};
    for (int e = 0; e < COUNT(entries); e++)
        for (int n = 1; n <= 12; n++) driver_call_fails(*state, entries[e], n, n % 4 ? "" : "+");
}

/* --- variables of one step ------------------------------------------------------------------------------------------------ */

typedef struct pair {
    bt_shared *w, *v; /* one on each device; both 1, then both 2 */
} pair;

static pair pair_new(void) {
    pair p;
    BT_SCOPE {
        p.w = bt_shared_retain(bt_shared_new(bt_ones(BT_F32, 2), "gpu:0"));
        p.v = bt_shared_retain(bt_shared_new(bt_ones(BT_F32, 2), "gpu:1"));
        assert_int_equal(EXPECT(bt_value(p.w), 1, 1), BT_OK);
        assert_int_equal(EXPECT(bt_value(p.v), 1, 1), BT_OK);
    }
    return p;
}

static bt_status step_both(pair p) {
    BT_SCOPE {
        bt_shared *shared[] = {p.w, p.v};
        bt_array *both = bt_add(bt_value(p.w), bt_value(p.v));
        bt_array *values[] = {both, bt_sqrt(bt_mul(both, both))};
        BTI_TRY(bt_set_all(shared, values, 2));
        BTI_TRY(bt_block(bt_value(p.w)));
        BTI_TRY(bt_block(bt_value(p.v)));
    }
    return BT_OK;
}

/* A step that fails behind the caller is taken back, and a log line says so: its status is known to nobody yet. */
static int lost_steps;
static void count_lost_steps(const char *line, void *data) {
    lost_steps += !!strstr(line, "the step that set it failed");
}

static void check_pair(pair p, bt_status status) {
    float w[2], v[2];
    BT_SCOPE {
        if (bt_read(bt_value(p.w), w, sizeof w) != BT_OK) fail_msg("%s: %s", note, bt_error_text());
        if (bt_read(bt_value(p.v), v, sizeof v) != BT_OK) fail_msg("%s: %s", note, bt_error_text());
    }
    if (w[0] != v[0]) fail_msg("%s: one variable is %g, the other %g", note, (double)w[0], (double)v[0]);
    if (status == BT_OK && w[0] != 2 && !lost_steps) fail_msg("%s: the step was lost", note);
    bt_shared_release(p.w);
    bt_shared_release(p.v);
}

static void variables_of_a_step_change_together(void **state) {
    static const char *const entries[] = {"alloc", "launch", "peer_copy", "record", "wait"};
    for (uint64_t n = 1; n <= 120; n++) {
        set_note("a step", "allocation", n);
        start_afresh();
        pair p = pair_new();
        bti_alloc_fail_at(n, false);
        bt_status status = step_both(p);
        bti_alloc_fail_at(0, false);
        check_status(status, BT_RESOURCE_EXHAUSTED);
        check_pair(p, status);
    }
    bt_set_log_sink(count_lost_steps, NULL);
    for (int i = 0; i < COUNT(entries) * 12; i++) {
        char fault[64];
        snprintf(fault, sizeof fault, "%s:%d", entries[i / 12], i % 12 + 1);
        set_note("a step", fault, 0);
        start_afresh();
        pair p = pair_new();
        lost_steps = 0;
        assert_int_equal(bt_set_flag("sim_fault", fault), BT_OK);
        bt_status status = step_both(p);
        assert_int_equal(bt_set_flag("sim_fault", ""), BT_OK);
        check_pair(p, status);
    }
    bt_set_log_sink(NULL, NULL);
}

static int end(void **state) {
    start_afresh();
    unsetenv("BERTH_FLAGS");
    return 0;
}

int main(void) {
    struct CMUnitTest tests[3 * COUNT(programs) + 1];
    static char names[3 * COUNT(programs)][80];
    int count = 0;
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } kinds[] = {{"the nth allocation fails", the_nth_allocation_fails},
                 {"all allocations from the nth on fail", all_allocations_from_the_nth_on_fail},
                 {"the nth driver call fails", the_nth_driver_call_fails}};
    for (int k = 0; k < 3; k++)
        for (int p = 0; p < COUNT(programs); p++, count++) {
            snprintf(names[count], sizeof names[count], "%s: %s", kinds[k].name, programs[p].name);
            tests[count] = (struct CMUnitTest){names[count], kinds[k].run, silence, speak, (void *)&programs[p]};
        }
    tests[count] = (struct CMUnitTest)cmocka_unit_test(variables_of_a_step_change_together);
    return cmocka_run_group_tests(tests, NULL, end);
}
