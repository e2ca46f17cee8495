// labels: valgrind
// timeout: 300
/* Data sets and loaders while the nth allocation fails, on the program's thread or a worker's: an error with a text or the right batches; never a crash,
 * a leak or a wait without an end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <berth.h>

#include "base/alloc.h"
#include "base/error.h"

enum { N = 12 };
static char path[] = "/tmp/berth-data-faults-XXXXXX";

/* Goes through an epoch whose column `c` holds the numbers 0 to 11, each once. */
static bt_status take_epoch(bt_loader *loader, int c) {
    int seen = 0;
    bt_batch batch = BT_BATCH_INIT;
    BTI_TRY(bt_loader_status(loader));
    while (bt_loader_next(loader, &batch)) {
        int32_t numbers[N];
        BTI_TRY(bt_read(batch.arrays[c], numbers, (size_t)batch.rows * sizeof *numbers));
        for (int64_t i = 0; i < batch.rows; i++) seen |= 1 << numbers[i];
    }
    BTI_TRY(bt_loader_status(loader));
    assert_int_equal(seen, (1 << N) - 1);
    return BT_OK;
}

static bt_array *numbers(void) {
    int32_t elements[N];
    for (int i = 0; i < N; i++) elements[i] = i;
    return bt_from(elements, BT_I32, BT_SHAPE(N));
}

static bt_status of_arrays(void) {
    bt_array *x = numbers();
    bt_dataset *data = bt_dataset_arrays(NULL, &x, 1);
    BTI_TRY(bt_dataset_status(data));
    BTI_TRY(take_epoch(bt_loader_new(data, .batch = 5), 0));
    bt_loader *loader = bt_loader_new(data, .batch = 5, .shuffle = bt_key(1));
    BTI_TRY(take_epoch(loader, 0));
    char *state = bt_loader_state(loader);
    bt_status status = state ? bt_loader_restore(loader, state) : bt_error_status();
    bt_free(state);
    return status;
}

static bt_status of_a_file(void) {
    const char *file = path;
    BTI_TRY(bt_save_npy(path, numbers()));
    return take_epoch(bt_loader_new(bt_dataset_npy(NULL, &file, 1), .batch = 7, .device = "gpu"), 0);
}

static bt_status make_ragged(bt_example *example, void *unused) {
    (void)unused;
    char *text = bt_example_resize(example, 0, example->index % 4);
    if (!text) return bt_error_status();
    memset(text, 1, (size_t)(example->index % 4));
    *(int32_t *)example->data[1] = (int32_t)example->index;
    return BT_OK;
}
static bt_status pass_number(const bt_example *from, bt_example *made, void *unused) {
    (void)unused;
    memcpy(made->data[0], from->data[1], sizeof(int32_t));
    return BT_OK;
}

static bt_status of_functions(void) {
    bt_column columns[] = {BT_COLUMN("text", BT_U8, BT_RAGGED), BT_COLUMN("number", BT_I32, )};
    bt_dataset *data = bt_dataset_callback(N, columns, 2, make_ragged, NULL);
    BTI_TRY(take_epoch(bt_loader_new(data, .batch = 5, .workers = 2, .shuffle = bt_key(1)), 1));
    bt_dataset *mapped = bt_dataset_map(data, &columns[1], 1, pass_number, NULL);
    return take_epoch(bt_loader_new(mapped, .batch = 5, .workers = 1), 0);
}

static bt_status of_parts(void) {
    bt_array *arrays[] = {numbers(), bt_ge(numbers(), 6)};
    bt_dataset *data = bt_dataset_arrays(NULL, arrays, 2), *first, *second;
    BTI_TRY(bt_dataset_split(data, 0.5, bt_key(3), "1", &first, &second));
    BTI_TRY(bt_dataset_status(bt_dataset_select(second, (const int64_t[]){2, 0}, 2)));
    return bt_dataset_status(bt_dataset_to(first, "gpu"));
}

static bt_status run(bt_status (*program)(void), uint64_t fail_at) {
    bt_status status = BT_OK;
    bti_alloc_fail_at(fail_at, false);
    BT_SCOPE
        status = program();
    bti_alloc_fail_at(0, false);
    return status;
}

static void the_nth_allocation_fails(void **state) {
    bt_status (*program)(void) = *(bt_status(**)(void)) * state;
    assert_int_equal(run(program, 0), BT_OK);
    (void)bti_alloc_count();
    assert_int_equal(run(program, 0), BT_OK);
    uint64_t count = bti_alloc_count(), live = bt_live_arrays();
    for (uint64_t n = 1; n <= count + 1; n++) {
        bt_error_clear();
        bt_status status = run(program, n);
        if (status != BT_OK && (status != BT_RESOURCE_EXHAUSTED || !*bt_error_text()))
            fail_msg("allocation %d: %s: %s", (int)n, bt_status_name(status), bt_error_text());
        bt_synchronize();
        assert_int_equal(bt_live_arrays(), live);
    }
}

static int begin(void **state) {
    (void)state;
    return close(mkstemp(path)) | (bt_set_flag("devices", "sim:gpu*1") != BT_OK) |
           (bt_set_flag("default_device", "cpu") != BT_OK);
}
static int end(void **state) {
    (void)state;
    return unlink(path) | (bt_shutdown() != BT_OK);
}

int main(void) {
    static bt_status (*const programs[])(void) = {of_arrays, of_a_file, of_functions, of_parts};
    const struct CMUnitTest tests[] = {
        {"arrays", the_nth_allocation_fails, NULL, NULL, (void *)&programs[0]},
        {"a file", the_nth_allocation_fails, NULL, NULL, (void *)&programs[1]},
        {"functions", the_nth_allocation_fails, NULL, NULL, (void *)&programs[2]},
        {"parts", the_nth_allocation_fails, NULL, NULL, (void *)&programs[3]},
    };
    return cmocka_run_group_tests(tests, begin, end);
}
