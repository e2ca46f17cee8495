// labels: valgrind threads
/* Loaders: which examples come in which batch and epoch, whoever makes the batches; where they lie; a state saved and restored. */
#include <math.h>

#include "support/support.h"

enum { N = 10 };

/* x [10, 3] with x[i][k] = 3 i + k, y [10] with y[i] = i. */
static bt_dataset *numbers(void) {
    bt_array *x = bt_reshape(bt_arange(0, 3 * N, 1, BT_F32), N, 3), *y = bt_arange(0, N, 1, BT_I32);
    return bt_dataset_arrays((const char *[]){"x", "y"}, (bt_array *[]){x, y}, 2);
}

static bt_status make_number(bt_example *example, void *data) {
    for (int k = 0; k < 3; k++) ((float *)example->data[0])[k] = (float)(3 * example->index + k);
    *(int32_t *)example->data[1] = (int32_t)example->index;
    return BT_OK;
}
static bt_dataset *called_numbers(void) {
    bt_column columns[] = {BT_COLUMN("x", BT_F32, 3), BT_COLUMN("y", BT_I32, )};
    return bt_dataset_callback(N, columns, 2, make_number, NULL);
}

/* The labels of the epoch's batches, batches separated by -1, which returns how many; checks that x belongs to y. */
static int read_epoch(bt_loader *loader, int *got) {
    int count = 0;
    bt_batch batch = BT_BATCH_INIT;
    while (bt_loader_next(loader, &batch)) {
        int32_t y[N];
        float x[3 * N];
        assert_int_equal(bt_size(batch.arrays[0], 0), batch.rows);
        OK(bt_read(batch.arrays[1], y, (size_t)batch.rows * sizeof *y));
        OK(bt_read(batch.arrays[0], x, 3 * (size_t)batch.rows * sizeof *x));
        for (int64_t i = 0; i < batch.rows; i++) {
            assert_true(x[3 * i + 2] == (float)(3 * y[i] + 2));
            got[count++] = y[i];
        }
        got[count++] = -1;
    }
    OK(bt_loader_status(loader));
    return count;
}

#define EPOCH(loader, ...)                                            \
    do {                                                              \
        int got_[2 * N], expected_[] = {__VA_ARGS__};                 \
        assert_int_equal(read_epoch(loader, got_), COUNT(expected_)); \
        assert_memory_equal(got_, expected_, sizeof expected_);       \
    } while (0)

/* --- the order ---------------------------------------------------------------------------------------------------------- */

/* What decides nothing about the batches. */
static const bt_loader_options ways[] = {
    {.size = sizeof(bt_loader_options)},
    {.size = sizeof(bt_loader_options), .workers = 1},
    {.size = sizeof(bt_loader_options), .workers = 3},
    {.size = sizeof(bt_loader_options), .workers = 2, .ahead_bytes = 1},
    {.size = sizeof(bt_loader_options), .device = "gpu:1"},
    {.size = sizeof(bt_loader_options), .device = "gpu:0", .workers = 2},
    {.size = sizeof(bt_loader_options), .device = "cpu", .workers = 1},
};

static bt_loader *by_way(bt_dataset *data, const bt_loader_options *way, int64_t batch, bt_array *key, bool drop_last) {
    bt_loader_options options = *way;
    options.batch = batch;
    options.shuffle = key;
    options.drop_last = drop_last;
    bt_loader *loader = (bt_loader_new)(data, &options);
    OK(bt_loader_status(loader));
    return loader;
}

static void in_order(void **state) {
    fresh("devices=sim:gpu*2,default_device=cpu");
    for (int w = 0; w < COUNT(ways); w++)
        for (int called = 0; called < 2; called++)
            BT_SCOPE {
                bt_dataset *data = called ? called_numbers() : numbers();
                bt_loader *loader = by_way(data, &ways[w], 4, NULL, false);
                assert_int_equal(bt_loader_batches(loader), 3);
                EPOCH(loader, 0, 1, 2, 3, -1, 4, 5, 6, 7, -1, 8, 9, -1);
                EPOCH(loader, 0, 1, 2, 3, -1, 4, 5, 6, 7, -1, 8, 9, -1);
                EPOCH(by_way(data, &ways[w], 4, NULL, true), 0, 1, 2, 3, -1, 4, 5, 6, 7, -1);
                EPOCH(by_way(data, &ways[w], 50, NULL, false), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1);
                EPOCH(by_way(data, &ways[w], 10, NULL, true), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1);
            }
    OK(bt_shutdown());
}

/* jax.random.permutation(jax.random.fold_in(jax.random.key(7), epoch), 10) is what bt_permutation gives; its own tests compare them. */
static void shuffled(void **state) {
    fresh("devices=sim:gpu*2,default_device=cpu");
    for (int w = 0; w < COUNT(ways); w++)
        for (int called = 0; called < 2; called++)
            BT_SCOPE {
                bt_loader *loader = by_way(called ? called_numbers() : numbers(), &ways[w], 5, bt_key(7), false);
                for (int epoch = 0; epoch < 3; epoch++) {
                    int32_t order[N];
                    int got[2 * N];
                    OK(bt_read(bt_permutation(bt_fold_in(bt_key(7), (uint32_t)epoch), N), order, sizeof order));
                    assert_int_equal(read_epoch(loader, got), N + 2);
                    for (int i = 0; i < N; i++) assert_int_equal(got[i + i / 5], order[i]);
                }
            }
    OK(bt_shutdown());
}

static void batches_tell_where_they_are(void **state) {
    fresh("");
    BT_SCOPE {
        bt_loader *loader = bt_loader_new(numbers(), .batch = 4);
        bt_batch batch = BT_BATCH_INIT;
        for (int epoch = 0; epoch < 2; epoch++)
            for (int number = 0; number < 4; number++) {
                assert_int_equal(bt_loader_next(loader, &batch), number < 3);
                assert_int_equal(batch.epoch, epoch);
                assert_int_equal(batch.number, number < 3 ? number : 2);
                assert_int_equal(batch.rows, number < 2 ? 4 : 2);
                assert_string_equal(batch.column[0].name, "x");
            }
        OK(bt_loader_start(loader, 5));
        assert_true(bt_loader_next(loader, &batch));
        assert_int_equal(batch.epoch, 5);
        FAILS(bt_loader_start(loader, -1), BT_INVALID_ARGUMENT, HERE(0), "-1");
        FAILS(bt_loader_start(loader, INT64_C(1) << 32), BT_INVALID_ARGUMENT, "4294967296");
        assert_true(bt_loader_next(loader, &batch)); /* a refused call changed nothing */
        assert_int_equal(batch.number, 1);
    }
    OK(bt_shutdown());
}

/* A batch is the loader's until the next one; what is retained stays. */
static void batches_are_borrowed(void **state) {
    fresh("");
    BT_SCOPE {
        bt_loader *loader = bt_loader_new(called_numbers(), .batch = 4, .workers = 2);
        bt_batch batch = BT_BATCH_INIT;
        bt_array *kept[3] = {0};
        int count = 0;
        while (bt_loader_next(loader, &batch)) bt_assign(&kept[count++], batch.arrays[1]);
        READS(kept[0], 0, 1, 2, 3);
        READS(kept[2], 8, 9);
        bt_loader_release(bt_loader_retain(loader));
        for (int i = 0; i < 3; i++) bt_assign(&kept[i], NULL);
        assert_true(bt_loader_next(loader, &batch));
        bt_array *first = batch.arrays[1];
        assert_true(bt_loader_next(loader, &batch));
        if (first != batch.arrays[1]) POISONED(first, BT_INVALID_ARGUMENT, "was released");
        while (bt_loader_next(loader, &batch)) {
        }
        POISONED(batch.arrays[0], BT_INVALID_ARGUMENT, "was released"); /* the epoch is over */
    }
    OK(bt_shutdown());
}

/* --- where batches lie -------------------------------------------------------------------------------------------------- */

static void on_devices(void **state) {
    fresh("devices=sim:gpu*2,default_device=gpu:0");
    BT_SCOPE {
        bt_dataset *there = bt_dataset_to(numbers(), "gpu:1");
        const struct {
            bt_loader *loader;
            const char *device;
        } cases[] = {
            {bt_loader_new(called_numbers()), "CPU:0"},
            {bt_loader_new(called_numbers(), .workers = 1), "CPU:0"},
            {bt_loader_new(called_numbers(), .device = "gpu:1"), "GPU:1"},
            {bt_loader_new(called_numbers(), .device = "gpu:1", .workers = 1), "GPU:1"},
            {bt_loader_new(there), "GPU:1"},
            {bt_loader_new(there, .shuffle = bt_key(0), .workers = 2), "GPU:1"},
            {bt_loader_new(there, .device = "gpu:0"), "GPU:0"},
        };
        for (int i = 0; i < COUNT(cases); i++) {
            bt_batch batch = BT_BATCH_INIT;
            assert_true(bt_loader_next(cases[i].loader, &batch));
            for (int c = 0; c < 2; c++)
                assert_string_equal(bt_device_name(bt_device_of(batch.arrays[c])), cases[i].device);
            assert_true(bt_item(bt_sum(batch.arrays[1])) == 45);
        }
        FAILS(bt_loader_status(bt_loader_new(numbers(), .device = "gpu:5")), BT_NOT_FOUND, HERE(0), "gpu:5");
    }
    OK(bt_shutdown());
}

/* The next batches come to the GPU while this one is held, without a call; not more than fit into the bytes. The memory of batches that were handed out is
 * given back. */
static void batches_move_meanwhile(void **state) {
    enum { ROW = 1024 * sizeof(float), BATCH_BYTES = 16 * ROW };
    fresh("devices=sim:gpu*1,default_device=cpu");
    for (int called = 0; called < 2; called++)
        BT_SCOPE {
            bt_array *x = bt_uniform(bt_key(0), BT_F32, 256, 1024);
            OK(bt_block(x));
            bt_dataset *data = bt_dataset_arrays(NULL, &x, 1);
            size_t before = memory("gpu").used;
            bt_loader *loader = bt_loader_new(data, .batch = 16, .shuffle = called ? bt_key(1) : NULL, .device = "gpu",
                                              .ahead_bytes = 2 * BATCH_BYTES + BATCH_BYTES / 2);
            bt_batch batch = BT_BATCH_INIT;
            for (int i = 0; i < 5; i++) {
                assert_true(bt_loader_next(loader, &batch));
                for (int k = 0; k < SOON * 1000 && memory("gpu").used - before < 3 * BATCH_BYTES; k++) sleep_ms(1);
                sleep_ms(5); /* no more than this one and two come */
                assert_int_equal(memory("gpu").used - before, 3 * BATCH_BYTES);
            }
            bt_loader_release(bt_loader_retain(loader));
        }
    assert_int_equal(memory("gpu").used, 0);
    OK(bt_shutdown());
}

/* --- options ------------------------------------------------------------------------------------------------------------ */

static void bad_options(void **state) {
    fresh("");
    BT_SCOPE {
        bt_dataset *data = numbers();
        bt_loader *loader = bt_loader_new(data, .batch = 11, .drop_last = true);
        FAILS(bt_loader_status(loader), BT_INVALID_ARGUMENT, HERE(-1), "no batch would come: batch is 11",
              "10 examples");
        FAILS(bt_loader_status(bt_loader_new(data, .batch = -1)), BT_INVALID_ARGUMENT, "batch is -1");
        FAILS(bt_loader_status(bt_loader_new(data, .workers = -1)), BT_INVALID_ARGUMENT, "workers is -1");
        FAILS(bt_loader_status(bt_loader_new(data, .workers = 1000)), BT_INVALID_ARGUMENT, "workers is 1000");
        FAILS(bt_loader_status(bt_loader_new(data, .shuffle = bt_f32(1))), BT_INVALID_ARGUMENT, "no key");
        FAILS(bt_loader_status(bt_loader_new(data, .shuffle = bt_log(NULL))), BT_INVALID_ARGUMENT, "bt_log");
        bt_loader_options without_size = {.batch = 3};
        FAILS(bt_loader_status((bt_loader_new)(data, &without_size)), BT_INVALID_ARGUMENT, "BT_LOADER(");
        OK(bt_loader_status((bt_loader_new)(data, NULL)));
        bt_batch batch = BT_BATCH_INIT, no_size = {0};
        assert_false(bt_loader_next(loader, &batch));
        FAILS(bt_error_status(), BT_INVALID_ARGUMENT, "no batch would come");
        assert_int_equal(bt_loader_batches(loader), -1);
        assert_null(bt_loader_state(loader));
        bt_loader *fine = bt_loader_new(data);
        assert_false(bt_loader_next(fine, &no_size));
        FAILS(bt_error_status(), BT_INVALID_ARGUMENT, HERE(-1), "BT_BATCH_INIT");
        assert_false(bt_loader_next(fine, NULL));
        assert_false(bt_loader_next(NULL, &batch));
        FAILS(bt_loader_status(NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_loader_status(fine), BT_INVALID_ARGUMENT,
              "BT_BATCH_INIT"); /* else a loop over no batches seems to be a good one */
        OK(bt_loader_start(fine, 0));
        OK(bt_loader_status(fine));
        assert_true(bt_loader_next(fine, &batch));
        bt_loader_release(NULL);
    }
    OK(bt_shutdown());
}

/* --- the state ---------------------------------------------------------------------------------------------------------- */

static void the_state_of_a_loader(void **state) {
    fresh("devices=sim:gpu*2,default_device=cpu");
    for (int w = 0; w < COUNT(ways); w++)
        BT_SCOPE {
            bt_batch batch = BT_BATCH_INIT;
            bt_loader *loader = by_way(numbers(), &ways[w], 3, bt_key(1), false);
            int whole[2 * N], rest[2 * N], epoch_1[2 * N];
            (void)read_epoch(loader, whole);
            int count = read_epoch(loader, epoch_1);
            OK(bt_loader_start(loader, 1));
            assert_true(bt_loader_next(loader, &batch) && bt_loader_next(loader, &batch));
            BT_TEXT saved = bt_loader_state(loader);
            SAYS(saved, "epoch=1 next=2 batch=3 examples=10");
            bt_loader *other = by_way(called_numbers(), &ways[(w + 1) % COUNT(ways)], 3, bt_key(1), false);
            OK(bt_loader_restore(other, saved));
            assert_int_equal(read_epoch(other, rest), count - 8);
            assert_memory_equal(rest, epoch_1 + 8, (size_t)(count - 8) * sizeof *rest);
            BT_TEXT after = bt_loader_state(other);
            SAYS(after, "epoch=2 next=0");
            OK(bt_loader_restore(other, saved)); /* once more, also back in time */
            assert_int_equal(read_epoch(other, rest), count - 8);
        }
    OK(bt_shutdown());
}

static void states_that_do_not_fit(void **state) {
    fresh("");
    BT_SCOPE {
        bt_loader *loader = bt_loader_new(numbers(), .batch = 3, .shuffle = bt_key(1));
        bt_batch batch = BT_BATCH_INIT;
        assert_true(bt_loader_next(loader, &batch));
        BT_TEXT saved = bt_loader_state(loader);
        FAILS(bt_loader_restore(bt_loader_new(numbers(), .batch = 4, .shuffle = bt_key(1)), saved),
              BT_FAILED_PRECONDITION, "loader_test.c:", "batches of 3", "of 4");
        FAILS(bt_loader_restore(bt_loader_new(numbers(), .batch = 3, .shuffle = bt_key(2)), saved),
              BT_FAILED_PRECONDITION, "another key");
        FAILS(bt_loader_restore(bt_loader_new(numbers(), .batch = 3), saved), BT_FAILED_PRECONDITION, "not at all");
        FAILS(bt_loader_restore(bt_loader_new(numbers(), .batch = 3, .shuffle = bt_key(1), .drop_last = true), saved),
              BT_FAILED_PRECONDITION, "drop_last");
        bt_dataset *fewer = bt_dataset_select(numbers(), (int64_t[]){0, 1, 2, 3}, 4);
        FAILS(bt_loader_restore(bt_loader_new(fewer, .batch = 3, .shuffle = bt_key(1)), saved), BT_FAILED_PRECONDITION,
              "10 examples, this one has 4");
        static const char *const nonsense[] = {
            NULL,
            "",
            "berth-loader-1",
            "epoch=1",
            "berth-loader-1 epoch=1 next=9999999999999999999 batch=3",
            "berth-loader-1 epoch=-1 next=0 batch=3 examples=10 shuffle=0000000000000001 drop_last=0",
            "berth-loader-1 epoch=0 next=-1 batch=3 examples=10 shuffle=0000000000000001 drop_last=0",
            "berth-loader-1 epoch=0 next=9 batch=3 examples=10 shuffle=0000000000000001 drop_last=0",
            "berth-loader-1 epoch=0 next=1 batch=3 examples=10 shuffle=0000000000000001 drop_last=0 and more"};
        for (int i = 0; i < COUNT(nonsense); i++) FAILS(bt_loader_restore(loader, nonsense[i]), BT_INVALID_ARGUMENT);
        assert_true(bt_loader_next(loader, &batch)); /* nothing changed */
        assert_int_equal(batch.number, 1);
        FAILS(bt_loader_restore(NULL, saved), BT_INVALID_ARGUMENT);
    }
    OK(bt_shutdown());
}

/* --- training ----------------------------------------------------------------------------------------------------------- */

static bt_layer *small_model(void) {
    return bt_chain(bt_dense(3, 8, bt_relu, bt_key(0)), bt_dense(8, 10, NULL, bt_key(1)));
}

static void expect_same_parameters(bt_layer *a, bt_layer *b) {
    bt_shared *of_a[4], *of_b[4];
    assert_int_equal(bt_parameters(a, of_a, 4), 4);
    assert_int_equal(bt_parameters(b, of_b, 4), 4);
    for (int i = 0; i < 4; i++) assert_true(bt_item(bt_all(bt_eq(bt_value(of_a[i]), bt_value(of_b[i])))) > 0);
}

static void training_by_a_loader(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_reshape(bt_arange(0, 3 * N, 1, BT_F32), N, 3), *y = bt_arange(0, N, 1, BT_I32);
        bt_layer *by_arrays = small_model(), *by_loader = small_model();
        bt_fit_report report, same;
        OK(bt_fit(by_arrays, bt_sgd(0.01), x, y, BT_FIT_OPTIONS(.epochs = 3, .batch = 4, .seed = 5, .quiet = true),
                  &report));
        bt_loader *loader = bt_loader_new(called_numbers(), .batch = 4, .shuffle = bt_key(5), .workers = 2);
        OK(bt_fit_loader(by_loader, bt_sgd(0.01), loader, BT_FIT_OPTIONS(.epochs = 3, .quiet = true), &same));
        assert_int_equal(same.steps, 9);
        assert_true(report.last_loss == same.last_loss && report.first_loss == same.first_loss);
        expect_same_parameters(by_arrays, by_loader);
    }
    OK(bt_shutdown());
}

static void training_goes_on_in_an_epoch(void **state) {
    fresh("");
    BT_SCOPE {
        bt_layer *whole = small_model(), *parts = small_model();
        bt_loader *loader = bt_loader_new(numbers(), .batch = 4, .shuffle = bt_key(5));
        OK(bt_fit_loader(whole, bt_sgd(0.01), loader, BT_FIT_OPTIONS(.epochs = 2, .quiet = true), NULL));
        bt_loader *first = bt_loader_new(numbers(), .batch = 4, .shuffle = bt_key(5));
        OK(bt_fit_loader(parts, bt_sgd(0.01), first, BT_FIT_OPTIONS(.quiet = true), NULL));
        bt_batch batch = BT_BATCH_INIT;
        BT_TEXT saved = bt_loader_state(first);
        bt_loader *second = bt_loader_new(numbers(), .batch = 4, .shuffle = bt_key(5));
        OK(bt_loader_restore(second, saved));
        bt_fit_report report;
        OK(bt_fit_loader(parts, bt_sgd(0.01), second, BT_FIT_OPTIONS(.quiet = true), &report));
        assert_int_equal(report.steps, 3);
        expect_same_parameters(whole, parts);
        OK(bt_loader_start(second, 4));
        assert_true(bt_loader_next(second, &batch));
        OK(bt_fit_loader(parts, bt_sgd(0.01), second, BT_FIT_OPTIONS(.quiet = true), &report));
        assert_int_equal(report.steps, 2); /* the rest of the epoch */
    }
    OK(bt_shutdown());
}

static void bad_training(void **state) {
    fresh("");
    BT_SCOPE {
        bt_layer *model = small_model();
        bt_loader *loader = bt_loader_new(numbers());
        bt_array *alone = bt_arange(0, 4, 1, BT_F32);
        bt_loader *one = bt_loader_new(bt_dataset_arrays(NULL, &alone, 1));
        FAILS(bt_fit_loader(model, bt_sgd(1), NULL, NULL, NULL), BT_INVALID_ARGUMENT, HERE(0),
              "bt_fit_loader: the loader is NULL");
        FAILS(bt_fit_loader(NULL, bt_sgd(1), loader, NULL, NULL), BT_INVALID_ARGUMENT, "the model is NULL");
        FAILS(bt_fit_loader(model, NULL, loader, NULL, NULL), BT_INVALID_ARGUMENT, "the optimiser is NULL");
        FAILS(bt_fit_loader(model, bt_sgd(1), one, NULL, NULL), BT_INVALID_ARGUMENT, "1 columns");
        FAILS(bt_fit_loader(model, bt_sgd(1), loader, BT_FIT_OPTIONS(.batch = 3), NULL), BT_INVALID_ARGUMENT,
              "not options here");
        FAILS(bt_fit_loader(model, bt_sgd(1), bt_loader_new(NULL), NULL, NULL), BT_INVALID_ARGUMENT, "bt_loader_new");
    }
    OK(bt_shutdown());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(shuffled),
        cmocka_unit_test(batches_tell_where_they_are),
        cmocka_unit_test(batches_are_borrowed),
        cmocka_unit_test(on_devices),
        cmocka_unit_test(batches_move_meanwhile),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(the_state_of_a_loader),
        cmocka_unit_test(states_that_do_not_fit),
        cmocka_unit_test(training_by_a_loader),
        cmocka_unit_test(training_goes_on_in_an_epoch),
        cmocka_unit_test(bad_training),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
