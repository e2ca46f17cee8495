/* What bt_peak_all and bt_peak_call foresee is what is measured; bt_largest_batch is the largest that runs. */
#include "support/support.h"

static size_t used(bt_device *device) {
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    OK(bt_memory(device, &memory));
    return memory.used;
}

static void begin_measuring(void) {
    bt_synchronize();
    for (int i = 0; i < 2; i++) bt_memory_reset_peak(bt_device_get(BT_GPU, i));
    bt_memory_reset_peak(bt_device_get(BT_CPU, 0));
}

/* What was foreseen then has come. */
static void assert_came(const bt_peak *peaks, int count) {
    for (int i = 0; i < count; i++) {
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        OK(bt_memory(peaks[i].device, &memory));
        if (memory.peak != peaks[i].peak)
            fail_msg("%s: %zu foreseen, %zu measured", bt_device_name(peaks[i].device), peaks[i].peak, memory.peak);
    }
}

static void of_arrays(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_peak peaks[4];
        int count = COUNT(peaks);
        bt_array *x = bt_ones(BT_F32, 300, 500), *there = NULL;
        OK(bt_block(x));
        bt_array *y = bt_softmax(bt_matmul(x, bt_transpose(x)), 1);
        BT_ON("gpu:1") there = bt_add(bt_matmul(y, x), bt_num(1));
        OK(bt_peak_all(&there, 1, peaks, &count));
        assert_int_equal(count, 2);
        assert_ptr_equal(peaks[0].device, bt_device_get(BT_GPU, 0));
        assert_int_equal(peaks[0].in_use, used(peaks[0].device));
        assert_int_equal(peaks[1].in_use, 0);
        assert_true(peaks[1].peak >= 300 * 500 * sizeof(float));
        assert_int_equal(used(bt_device_get(BT_GPU, 1)), 0); /* nothing ran */
        begin_measuring();
        OK(bt_block(there));
        assert_came(peaks, count);
        BT_TEXT text = bt_peak_text(peaks, count);
        assert_non_null(strstr(text, "GPU:1: "));
        count = 1; /* room for one: the second is counted */
        OK(bt_peak_all(&there, 1, peaks, &count));
        assert_int_equal(count, 2);
        assert_int_equal(peaks[0].peak, peaks[0].in_use); /* there is nothing to compute */
    }
}

static void pending_sets_are_foreseen(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_peak peaks[4];
        int count = COUNT(peaks);
        bt_shared *w = bt_shared_new(bt_ones(BT_F32, 1000), NULL);
        bt_array *x = bt_full(2, BT_F32, 10), *y = bt_add(x, bt_num(1));
        OK(bt_set(w, bt_mul(bt_value(w), bt_num(3))));
        OK(bt_peak_all(&y, 1, peaks, &count));
        begin_measuring();
        OK(bt_block(y));
        assert_came(peaks, count);
    }
}

enum { PIXELS = 784, HIDDEN = 256 };

/* A step of training: a loss, and updates of two weights. */
static bt_function *training_step(void) {
    bt_shared *w[2] = {bt_shared_new(bt_uniform(bt_key(1), BT_F32, PIXELS, HIDDEN), NULL),
                       bt_shared_new(bt_uniform(bt_key(2), BT_F32, HIDDEN, 10), NULL)};
    bt_array *x = bt_input(BT_F32, -1, PIXELS), *gradients[2];
    bt_array *hidden = bt_relu(bt_matmul(x, bt_value(w[0])));
    bt_array *loss = bt_mean(bt_square(bt_matmul(hidden, bt_value(w[1]))), BT_ALL, false);
    OK(bt_grad_shared(loss, w, 2, gradients));
    bt_update updates[2];
    for (int i = 0; i < 2; i++)
        updates[i] = (bt_update){w[i], bt_sub(bt_value(w[i]), bt_mul(gradients[i], bt_num(0.01)))};
    return bt_function_new(&x, 1, &loss, 1, updates, 2);
}

static void of_calls(void **state) {
    fresh("devices=sim:gpu*2");
    BT_SCOPE {
        bt_peak peaks[4], shaped[4];
        int count = COUNT(peaks), shaped_count = COUNT(shaped);
        bt_function *step = training_step();
        bt_synchronize();
        bt_shape shape = BT_SHAPE(500, PIXELS);
        OK(bt_peak_call(step, NULL, &shape, 1, shaped, &shaped_count));
        bt_array *x = bt_uniform(bt_key(3), BT_F32, 500, PIXELS), *loss;
        int pending_count = COUNT(peaks);
        OK(bt_peak_call(step, &x, NULL, 1, peaks, &pending_count));           /* x is still to be computed: counted */
        assert_in_range(peaks[0].peak, shaped[0].peak, shaped[0].peak + 256); /* ... with its key */
        OK(bt_block(x));
        OK(bt_peak_call(step, &x, NULL, 1, peaks, &count));
        assert_int_equal(count, shaped_count);
        assert_in_range(peaks[0].peak, shaped[0].peak, shaped[0].peak + 256); /* the shape's array is in use now */
        assert_true(peaks[0].in_use > shaped[0].in_use);
        begin_measuring();
        OK(bt_call(step, &x, 1, &loss, 1));
        OK(bt_block(loss));
        assert_came(peaks, count);
        bt_array *ones = bt_ones(BT_F32, 700, PIXELS); /* one number in memory, before it is copied */
        bt_synchronize();
        OK(bt_peak_call(step, &ones, NULL, 1, peaks, &count));
        begin_measuring();
        OK(bt_call(step, &ones, 1, &loss, 1));
        OK(bt_block(loss));
        assert_came(peaks, count);
        bt_shape wrong = BT_SHAPE(500, 3);
        FAILS(bt_peak_call(step, NULL, &wrong, 1, peaks, &count), BT_INVALID_ARGUMENT, "bt_peak_call", "(500, 3)");
        wrong = BT_SHAPE(5);
        FAILS(bt_peak_call(step, NULL, &wrong, 1, peaks, &count), BT_INVALID_ARGUMENT, "shape 1");
    }
}

/* Whether a call with so many rows has the memory it needs, in a library that has done nothing else. */
static bool runs(int64_t batch) {
    bool done = false;
    fresh("devices=sim:gpu*2,memory_limit=48M");
    BT_SCOPE {
        bt_function *step = training_step();
        bt_array *x = bt_uniform(bt_key(3), BT_F32, batch, PIXELS), *loss;
        done = bt_block(x) == BT_OK && bt_call(step, &x, 1, &loss, 1) == BT_OK && bt_block(loss) == BT_OK;
        bt_synchronize();
    }
    return done;
}

static void largest_batch(void **state) {
    int64_t batch = 0, half = 0, one = 0;
    fresh("devices=sim:gpu*2,memory_limit=48M");
    BT_SCOPE {
        bt_device *gpu = bt_device_get(BT_GPU, 0);
        bt_function *step = training_step();
        OK(bt_largest_batch(step, NULL, 1, NULL, 0, &batch));
        OK(bt_largest_batch(step, NULL, 1, gpu, 24 * MIB, &half));
        OK(bt_largest_batch(step, NULL, 1, gpu, 1, &one));
        assert_int_equal(one, 0);
        assert_true(half > 0 && half < batch);
        bt_peak peaks[4];
        bt_shape shape = BT_SHAPE(half, PIXELS);
        int count = COUNT(peaks);
        OK(bt_peak_call(step, NULL, &shape, 1, peaks, &count));
        assert_true(peaks[0].peak <= 24 * MIB);
        assert_true(peaks[0].peak > 24 * MIB - 3 * MIB); /* some is left */
        bt_array *x = bt_ones(BT_F32, 5, PIXELS);
        FAILS(bt_largest_batch(step, &x, 1, NULL, 0, &batch), BT_INVALID_ARGUMENT, "no argument is NULL");
        bt_array *open = bt_input(BT_F32, -1, -1), *sum = bt_sum(open, BT_ALL, false);
        int64_t none;
        FAILS(bt_largest_batch(bt_function_new(&open, 1, &sum, 1, NULL, 0), NULL, 1, NULL, 0, &none),
              BT_INVALID_ARGUMENT, "leading size");
        OK(bt_largest_batch(step, NULL, 1, NULL, 0, &batch));
    }
    assert_true(runs(batch));
    assert_false(runs(batch + batch / 16));
}

/* Counted by hand. */
static void cost_of_a_function(void **state) {
    fresh("devices=sim:gpu*1");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_uniform(bt_key(2), BT_F32, 20, 30), NULL);
        bt_array *x = bt_input(BT_F32, -1, 20), *y = bt_tanh(bt_matmul(x, bt_value(w)));
        bt_array *outputs[2] = {bt_sum(y, BT_AXES(1), false), bt_cast(y, BT_F64)};
        bt_update update = {w, bt_mul(bt_value(w), bt_num(0.5))};
        bt_function *f = bt_function_new(&x, 1, outputs, 2, &update, 1);
        bt_cost cost = BT_COST_INIT, again = BT_COST_INIT;
        OK(bt_function_cost(f, NULL, (bt_shape[]){BT_SHAPE(10, 20)}, 1, &cost));
        assert_true(cost.operations == 2.0 * 10 * 20 * 30 + 2 * 10 * 30 + 20 * 30); /* product; tanh, sum; mul */
        assert_int_equal(cost.bytes_least, 4 * (10 * 20 + 2 * 20 * 30 + 10) + 8 * 10 * 30);
        assert_true(cost.bytes_read + cost.bytes_written > cost.bytes_least);
        assert_true(cost.memory_bytes >= 4 * (20 * 30 + 10) + 8 * 10 * 30);
        assert_true(cost.kernels >= 3);
        assert_int_equal(cost.copies, 0);
        bt_array *argument = bt_uniform(bt_key(1), BT_F32, 10, 20), *there[2];
        OK(bt_block(argument));
        OK(bt_function_cost(f, &argument, NULL, 1, &again));
        assert_memory_equal(&cost, &again, sizeof cost);
        BT_ON("cpu")
            argument =
                bt_uniform(bt_key(1), BT_F32, 10, 20); /* committed to the other device: what it meets is copied */
        OK(bt_block(argument));
        OK(bt_function_cost(f, &argument, NULL, 1, &again));
        assert_true(again.copies > 0 && again.bytes_copied >= 4 * 10 * 20);
        OK(bt_call(f, &argument, 1, there, 2)); /* nothing was changed by asking */
        OK(bt_block(there[0]));
        FAILS(bt_function_cost(f, &argument, NULL, 2, &cost), BT_INVALID_ARGUMENT, "takes 1 arguments, not 2");
        FAILS(bt_function_cost(f, NULL, NULL, 1, &cost), BT_INVALID_ARGUMENT, "argument 1 is NULL");
        FAILS(bt_function_cost(f, &argument, NULL, 1, NULL), BT_INVALID_ARGUMENT, "BT_COST_INIT");
        BT_TEXT text = bt_explain_function(f, &argument, 1);
        SAYS(text, "computes 12600 operations, reads ");
    }
}

/* Kernels are counted as what they compute, however they are cut. */
static void ignore(const bt_elements *elements, void *data) { (void)elements, (void)data; }

/* Of an argument of which a part is read, or one element again and again; of the whole by two kernels; by a scan. */
static void least_is_at_most_what_is_moved(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 1000), *part = bt_neg(bt_slice_axis(x, 0, 0, 10, 1)), *one = bt_input(BT_F32, 1);
        bt_array *sums[] = {bt_cumsum(x, 0, false), bt_sort(x, 0)}, *told = bt_neg(bt_debug_callback(ignore, NULL, x));
        bt_array *wide = bt_neg(bt_broadcast_to(one, 1000));
        const struct {
            bt_array *input, **outputs;
            int output_count;
            int64_t written, least; /* written -1: it does not matter */
        } cases[] = {
            {x, &part, 1, 40, 80}, {one, &wide, 1, 4000, 4004}, {x, sums, 2, -1, 12000}, {x, &told, 1, 4000, 8000}};
        for (int i = 0; i < COUNT(cases); i++) {
            bt_shape shape = bt_shape_of(cases[i].input);
            bt_function *f = bt_function_new(&cases[i].input, 1, cases[i].outputs, cases[i].output_count, NULL, 0);
            bt_cost cost = BT_COST_INIT;
            OK(bt_function_cost(f, NULL, &shape, 1, &cost));
            assert_int_equal(cost.bytes_least, cases[i].least);
            assert_true(cost.bytes_read + cost.bytes_written >= cost.bytes_least);
            if (cases[i].written >= 0) assert_int_equal(cost.bytes_written, cases[i].written);
        }
    }
}

static void cost_does_not_depend_on_fusing(void **state) {
    static const char *const settings[] = {"", "fuse=0", "kernels=interpreter"};
    double operations[3];
    for (int i = 0; i < 3; i++) {
        fresh(settings[i]);
        BT_SCOPE {
            bt_array *x = bt_input(BT_F32, 8, 16), *y = bt_softmax(x, 1);
            bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
            bt_cost cost = BT_COST_INIT;
            OK(bt_function_cost(f, NULL, (bt_shape[]){BT_SHAPE(8, 16)}, 1, &cost));
            operations[i] = cost.operations;
        }
    }
    assert_true(operations[0] == 5 * 8 * 16); /* max, sub, exp, sum, div */
    assert_true(operations[1] == operations[0] && operations[2] == operations[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_of_a_function),
        cmocka_unit_test(least_is_at_most_what_is_moved),
        cmocka_unit_test(cost_does_not_depend_on_fusing),
        cmocka_unit_test(of_arrays),
        cmocka_unit_test(pending_sets_are_foreseen),
        cmocka_unit_test(of_calls),
        cmocka_unit_test(largest_batch),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
