// labels: valgrind
// timeout: 300
/* Saving and loading while the nth allocation fails: an error with a text or the right result; never a crash or a leak, and never a
 * file that is neither the old one nor the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth.h>

#include "base/alloc.h"
#include "base/error.h"

static char folder[] = "/tmp/berth-faults-XXXXXX";
enum { FILES = 9 };
static char path[FILES][96];

/* One element's sum tells the file: what the first save wrote, or the second. */
static bt_status save(float value) {
    static const char *const names[] = {"a", "b"}, *const metadata[] = {"key", "value", NULL};
    bt_array *arrays[] = {bt_full(value, BT_F32, 2, 2), bt_full(value, BT_I8, 3)};
    return bt_save(path[0], names, arrays, 2, metadata);
}

static bt_status load(float *value) {
    bt_tensors *tensors;
    BTI_TRY(bt_tensors_open(path[0], &tensors));
    float a[4];
    int8_t b[3];
    bt_status status = bt_read(bt_tensors_get(tensors, "a"), a, sizeof a);
    if (status == BT_OK) status = bt_read(bt_tensors_get(tensors, "b"), b, sizeof b);
    bt_tensors_close(tensors);
    if (status != BT_OK) return status;
    assert_true(a[0] == a[3] && (float)b[0] == a[0] && b[2] == b[0]);
    *value = a[0];
    return BT_OK;
}

static bt_status tensors(void) {
    float value;
    BTI_TRY(save(2));
    BTI_TRY(load(&value));
    assert_true(value == 2);
    return BT_OK;
}

static bt_status numbers(void) {
    uint16_t elements[6];
    BTI_TRY(bt_save_npy(path[1], BT_ARRAY(uint16_t, (2, 3), 1, 2, 3, 4, 5, 6)));
    BTI_TRY(bt_read(bt_load_npy(path[1]), elements, sizeof elements));
    assert_int_equal(elements[5], 6);
    BTI_TRY(bt_read(bt_load_csv(path[2], BT_U16), elements, sizeof elements));
    assert_int_equal(elements[5], 16);
    return BT_OK;
}

static bt_status model(void) {
    bt_layer *one = bt_dense_from(bt_ones(BT_F32, 2, 3), bt_ones(BT_F32, 3), NULL);
    bt_layer *two = bt_dense_from(bt_zeros(BT_F32, 2, 3), bt_zeros(BT_F32, 3), NULL);
    BTI_TRY(bt_layer_status(one));
    BTI_TRY(bt_layer_status(two));
    BTI_TRY(bt_save_model(path[1], one, .rename = "*=net.*", .torch = true));
    BTI_TRY(bt_load_model(path[1], one, .rename = "net.*=*", .torch = true));
    BTI_TRY(bt_save_model(path[1], one));
    bt_status status = bt_load_model(path[1], two);
    bt_shared *parameters[2];
    assert_int_equal(bt_parameters(two, parameters, 2), 2);
    float weight[6], bias[3];
    BTI_TRY(bt_read(bt_value(parameters[0]), weight, sizeof weight));
    BTI_TRY(bt_read(bt_value(parameters[1]), bias, sizeof bias));
    assert_true(weight[0] == bias[0] && bias[2] == (status == BT_OK ? 1.0f : 0.0f)); /* all or none */
    return status;
}

/* Elements of the archive's tensor of this name. */
static bt_status expect_element(const char *of, const char *name, size_t bytes, size_t index, float expected) {
    bt_tensors *archive;
    float elements[12];
    BTI_TRY(bt_tensors_open(of, &archive));
    bt_status status = bt_read(bt_tensors_get(archive, name), elements, bytes);
    bt_tensors_close(archive);
    assert_true(status != BT_OK || elements[index] == expected);
    return status;
}

static bt_status archives(void) {
    static const char *const names[] = {"a", "b"};
    bt_array *arrays[] = {bt_full(3, BT_F32, 4), bt_full(5, BT_F32, 2)};
    for (int compressed = 0; compressed < 2; compressed++) {
        BTI_TRY(bt_save_npz(path[3], names, arrays, 2, compressed));
        BTI_TRY(expect_element(path[3], "b", 8, 1, 5));
    }
    return BT_OK;
}

static bt_status shards(void) {
    static const char *const names[] = {"a", "b"};
    bt_array *arrays[] = {bt_full(3, BT_F32, 4), bt_full(5, BT_F32, 2)};
    BTI_TRY(bt_save_shards(path[4], names, arrays, 2, NULL, 16));
    return expect_element(path[4], "b", 8, 1, 5);
}

static bt_status pickles(void) {
    static const char views[] = BERTH_SOURCE_DIR "/tests/fuzz/corpus/zip/views.pt";
    BTI_TRY(expect_element(views, "turned", 48, 1, 4));
    return expect_element(views, "repeated", 24, 5, 1);
}

/* The model of a file, with its first weight: that of the model which was saved. */
static bt_status expect_model(const char *of) {
    bt_layer *model = bt_model_open(of);
    bt_shared *parameters[4];
    float weight[6];
    BTI_TRY(bt_layer_status(model));
    assert_int_equal(bt_parameters(model, parameters, 4), 3);
    BTI_TRY(bt_read(bt_value(parameters[0]), weight, sizeof weight));
    assert_true(weight[5] == 1);
    return BT_OK;
}

static bt_layer *tied_model(void) {
    bt_layer *one = bt_dense_from(bt_ones(BT_F32, 2, 3), bt_ones(BT_F32, 3), bt_relu);
    return bt_chain(one, bt_dense_from(bt_ones(BT_F32, 3, 2), NULL, NULL), one, bt_flatten_layer());
}

static bt_status modules(void) {
    bt_shared *w = bt_shared_new(bt_ones(BT_F32, 2), NULL);
    bt_array *x = bt_input(BT_F32, 2),
             *y = bt_mul(bt_add(x, bt_from((float[]){1, 2}, BT_F32, BT_SHAPE(2))), bt_value(w));
    bt_update update = {w, bt_sort(y, 0)};
    bt_function *function = bt_function_new(&x, 1, &y, 1, &update, 1);
    BTI_TRY(bt_function_status(function));
    return bt_function_export(function, path[8]);
}

static bt_status structures(void) {
    BTI_TRY(bt_save_model(path[1], tied_model()));
    BTI_TRY(expect_model(path[1]));
    bt_layer *model = tied_model();
    BTI_TRY(bt_layer_status(model));
    return bt_load_model(path[1], model, .rename = "none.*=*");
}

static bt_status flux(void) {
    BTI_TRY(bt_save_bson(path[7], "model", tied_model()));
    BTI_TRY(expect_model(path[7]));
    return expect_element(path[7], "model.layers.1.weight", 24, 5, 1);
}

static uint64_t asked; /* allocations of the last run */

/* The program's status with the nth allocation failing. */
static bt_status run(bt_status (*program)(void), uint64_t n) {
    bt_status status = BT_OK;
    bti_alloc_fail_at(n, false);
    BT_SCOPE
        status = program();
    asked = bti_alloc_count();
    bti_alloc_fail_at(0, false);
    return status;
}

static void the_nth_allocation_fails(void **state) {
    bt_status (*program)(void) = *(bt_status(**)(void)) * state;
    assert_int_equal(run(program, 0), BT_OK);
    assert_int_equal(run(program, 0), BT_OK);
    assert_true(asked > 10);
    uint64_t count = asked, live = bt_live_arrays();
    uint64_t step = getenv("BERTH_TEST_SHORT") ? 1 + count / 25 : 1;
    for (uint64_t n = 1; n <= count + 1; n += step) {
        BT_SCOPE
            assert_int_equal(save(1), BT_OK);
        bt_error_clear();
        bt_status status = run(program, n);
        if (status != BT_OK && (status != BT_RESOURCE_EXHAUSTED || !*bt_error_text()))
            fail_msg("allocation %d: %s: %s", (int)n, bt_status_name(status), bt_error_text());
        float value = 0;
        BT_SCOPE
            assert_int_equal(load(&value), BT_OK);
        assert_true(value == 1 || value == 2);
        bt_synchronize();
        assert_int_equal(bt_live_arrays(), live);
    }
    char command[128];
    snprintf(command, sizeof command, "ls -A %s | grep -c tmp >/dev/null", folder);
    assert_int_not_equal(system(command), 0);
}

static int begin(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    static const char *const names[FILES] = {"a.safetensors",
                                             "b",
                                             "c.csv",
                                             "d.npz",
                                             "e.safetensors.index.json",
                                             "e-00001-of-00002.safetensors",
                                             "e-00002-of-00002.safetensors",
                                             "f.bson",
                                             "g.mlir"};
    for (int i = 0; i < FILES; i++) snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
    FILE *csv = fopen(path[2], "w");
    if (!csv) return -1;
    fputs("x,y,z\n11,12,13\n14,15,16\n", csv);
    return fclose(csv);
}
static int end(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++) unlink(path[i]);
    return rmdir(folder) || bt_shutdown() != BT_OK;
}

int main(void) {
    static bt_status (*const programs[])(void) = {tensors, numbers,    model, archives, shards,
                                                  pickles, structures, flux,  modules};
    const struct CMUnitTest tests[] = {
        {"tensors", the_nth_allocation_fails, NULL, NULL, (void *)&programs[0]},
        {"numbers", the_nth_allocation_fails, NULL, NULL, (void *)&programs[1]},
        {"model", the_nth_allocation_fails, NULL, NULL, (void *)&programs[2]},
        {"archives", the_nth_allocation_fails, NULL, NULL, (void *)&programs[3]},
        {"shards", the_nth_allocation_fails, NULL, NULL, (void *)&programs[4]},
        {"pickles", the_nth_allocation_fails, NULL, NULL, (void *)&programs[5]},
        {"structures", the_nth_allocation_fails, NULL, NULL, (void *)&programs[6]},
        {"flux", the_nth_allocation_fails, NULL, NULL, (void *)&programs[7]},
        {"modules", the_nth_allocation_fails, NULL, NULL, (void *)&programs[8]},
    };
    return cmocka_run_group_tests(tests, begin, end);
}
