// labels: threads
/* What a program would take on cards that are not there: the summary of a run, and cards without data. */
#include <math.h>
#include <unistd.h>

#include <jansson.h>

#include "support/support.h"

enum { STEPS = 6 };

/* --- the summary ------------------------------------------------------------------------------------------------------ */

static double number(json_t *of, const char *key) {
    json_t *value = json_object_get(of, key);
    if (!json_is_number(value)) fail_msg("there is no number %s", key);
    return json_number_value(value);
}

static json_t *device_of(json_t *told, const char *name) {
    json_t *device;
    size_t i;
    json_array_foreach(json_object_get(told, "devices"), i, device) {
        if (!strcmp(json_string_value(json_object_get(device, "device")), name)) return device;
    }
    fail_msg("nothing is told of %s", name);
    return NULL;
}

static json_t *summary_of(bt_timed_fn *program) {
    char file[64];
    snprintf(file, sizeof file, "/tmp/berth-summary-%d.json", (int)getpid());
    (void)bt_device_count(BT_GPU); /* the clock is theirs from here on */
    OK(bt_set_flag("summary", file));
    program(NULL);
    OK(bt_set_flag("summary", ""));
    json_t *told = json_load_file(file, 0, NULL);
    unlink(file);
    assert_non_null(told);
    return told;
}

/* Products on one card; their results go to the other while the next are computed, or not. */
static bt_array *square;
static void multiply_steps(void *data) {
    (void)data;
    BT_SCOPE {
        for (int i = 0; i < STEPS; i++)
            BT_SCOPE
                OK(bt_block(bt_matmul(square, square)));
    }
}
static void copy_steps(void *data) {
    (void)data;
    for (int i = 0; i < STEPS; i++)
        BT_SCOPE
            OK(bt_block(bt_to(bt_matmul(square, square), "gpu:1")));
}

#define NEARLY(is, wanted, part)                                                                   \
    do {                                                                                           \
        double is_ = (is), wanted_ = (wanted);                                                     \
        if (fabs(is_ - wanted_) > (part)*wanted_) fail_msg("%s is %g, not %g", #is, is_, wanted_); \
    } while (0)

static void steps_and_devices_are_summed_up(void **state) {
    fresh("devices=sim:h200{f32=1/link=100}*2");
    BT_SCOPE {
        square = bt_normal(bt_key(1), BT_F32, 1024, 1024);
        OK(bt_block(square));
        const double product = 2.0 * 1024 * 1024 * 1024 / 1e12, copy = 4.0 * 1024 * 1024 / 100e9;
        json_t *told = summary_of(multiply_steps);
        assert_string_equal(json_string_value(json_object_get(told, "clock")), "virtual");
        json_t *steps = json_object_get(told, "steps"), *gpu = device_of(told, "GPU:0");
        assert_int_equal(number(steps, "count"), STEPS);
        NEARLY(number(steps, "seconds"), product, 0.05);
        assert_string_equal(json_string_value(json_object_get(steps, "file")), "simulate_test.c");
        NEARLY(number(gpu, "kernel_seconds"), product, 0.05);
        assert_true(number(gpu, "utilization") > 0.95 && number(gpu, "utilization") <= 1);
        assert_true(number(gpu, "exposed_copy_seconds") == 0 && number(gpu, "copied_bytes") == 0);
        assert_true(number(gpu, "peak_bytes") >= 8 << 20);
        assert_int_equal(number(json_object_get(told, "waits"), "count"), STEPS);
        assert_int_equal(json_array_size(json_object_get(told, "read_without_data")), 0);
        json_decref(told);

        told = summary_of(copy_steps);
        NEARLY(number(json_object_get(told, "steps"), "seconds"), product + copy, 0.05);
        NEARLY(number(device_of(told, "GPU:1"), "exposed_copy_seconds"), copy, 0.2);
        assert_int_equal(number(device_of(told, "GPU:1"), "copied_bytes"), STEPS * (4 << 20));
        assert_true(number(device_of(told, "GPU:1"), "utilization") == 0);
        json_decref(told);
    }
}

static void nothing(void *data) { (void)data; }

static void nothing_is_a_summary_too(void **state) {
    fresh("devices=sim:h200*1");
    json_t *told = summary_of(nothing);
    assert_int_equal(number(json_object_get(told, "steps"), "count"), 0);
    assert_int_equal(json_array_size(json_object_get(told, "devices")), 0);
    json_decref(told);
    fresh("devices=sim:h200*1,summary=/no/folder/summary.json");
    BT_SCOPE
        OK(bt_block(bt_ones(BT_F32, 3)));
    OK(bt_set_flag("summary", ""));
    SAYS(log_text(), "/no/folder/summary.json cannot be written");
}

/* --- without data ----------------------------------------------------------------------------------------------------- */

static void train(void *data) {
    (void)data;
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(1), BT_F32, 64, 96), *w = bt_normal(bt_key(2), BT_F32, 96, 32);
        for (int i = 0; i < STEPS; i++) {
            bt_array *loss = bt_mean(bt_square(bt_tanh(bt_matmul(x, w))), BT_ALL, false);
            w = bt_sub(w, bt_mul(bt_grad1(loss, w), bt_num(0.1)));
            (void)bt_item(loss);
        }
        OK(bt_block(w));
    }
}

static void the_time_is_that_with_data(void **state) {
    double with_data[2], without[2];
    fresh("devices=sim:h200*1");
    for (int i = 0; i < 2; i++) with_data[i] = bt_time(train, NULL);
    fresh("devices=sim:h200*1,sim_data=off");
    for (int i = 0; i < 2; i++) without[i] = bt_time(train, NULL);
    assert_true(with_data[0] > 0 && with_data[0] == without[0] && with_data[1] == without[1]);
}

static void more_than_this_machine_holds(void **state) {
    fresh("devices=sim:h200*1@8T,sim_data=off");
    BT_SCOPE {
        const int64_t rows = 1 << 20;
        bt_array *x = bt_zeros(BT_F32, rows, 1 << 19); /* 2 TiB */
        bt_array *y = bt_add(x, bt_num(1));
        OK(bt_block(y));
        assert_true(memory("gpu:0").peak >= (uint64_t)rows << 21);
        assert_true(bt_item(bt_sum(y, BT_ALL, false)) == 0);
        SAYS(log_text(), "flag sim_data is off: bt_item at ");
        bt_array *more[4];
        for (int i = 0; i < 4; i++) more[i] = bt_neg(y);
        assert_int_equal(bt_eval_all(more, 4), BT_RESOURCE_EXHAUSTED);
    }
}

static bt_array *total_of(bt_array *x) { return bt_sum(x, BT_ALL, false); }
static void decide(void *data) {
    (void)data;
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 8);
        if (bt_item(total_of(x)) > 0) fail_msg("there are no ones to add up");
        float host[8];
        OK(bt_read(x, host, sizeof host));
        for (int i = 0; i < 8; i++) assert_true(host[i] == 0);
        OK(bt_read(x, host, sizeof host));
    }
}

static void who_reads_zeros_is_told(void **state) {
    fresh("devices=sim:h200*1,sim_data=off");
    json_t *told = summary_of(decide), *readers = json_object_get(told, "read_without_data"), *reader;
    size_t i, reads = 0, items = 0;
    json_array_foreach(readers, i, reader) {
        const char *call = json_string_value(json_object_get(reader, "call"));
        assert_string_equal(json_string_value(json_object_get(reader, "file")), "simulate_test.c");
        if (!strcmp(call, "bt_read")) reads += (size_t)number(reader, "bytes");
        if (!strcmp(call, "bt_item")) items += (size_t)number(reader, "bytes");
    }
    assert_int_equal(reads, 2 * 8 * sizeof(float));
    assert_int_equal(items, sizeof(float));
    json_decref(told);
    fresh("devices=sim:gpu*1,sim_data=off"); /* without a model there is no time to ask for: they hold data */
    BT_SCOPE
        assert_true(bt_item(total_of(bt_ones(BT_F32, 8))) == 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_devices_are_summed_up), cmocka_unit_test(nothing_is_a_summary_too),
        cmocka_unit_test(the_time_is_that_with_data),      cmocka_unit_test(more_than_this_machine_holds),
        cmocka_unit_test(who_reads_zeros_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
