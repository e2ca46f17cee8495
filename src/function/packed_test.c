// labels: threads valgrind
/* Kernels of convolutions that are given again and again: brought into the library's layout once, for each version of a variable, in memory that is counted, limited and freed. */
#include <pthread.h>
#include <string.h>

#include "array/handle.h"
#include "exec/exec.h"
#include "function/versions.h"
#include "support/settings.h"

enum { CHANNELS = 64, SIDE = 8, KERNEL_BYTES = CHANNELS * CHANNELS * 9 * 4, PIXELS = CHANNELS * SIDE * SIDE };

static const char *const settings[] = {"",         "threads=1",      "memory_fill=on", "memory_pool=off",
                                       "fuse=off", "devices=sim:gpu"};
#define EACH_SETTING(s) for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)

static bt_array *image(void) { return bt_ones(BT_F32, 1, CHANNELS, SIDE, SIDE); }
static bt_array *kernel(double value) {
    static _Thread_local float elements[KERNEL_BYTES / 4];
    for (int i = 0; i < KERNEL_BYTES / 4; i++) elements[i] = (float)value;
    return bt_from(elements, BT_F32, BT_SHAPE(CHANNELS, CHANNELS, 3, 3));
}

/* relu(conv(x, w)), which ends at a second convolution; with an update of w: w + 1. */
static bt_function *network(bt_shared *w, bool updates) {
    bt_array *x = bt_input(BT_F32, 1, CHANNELS, SIDE, SIDE);
    bt_array *y = bt_conv(bt_relu(bt_conv(x, bt_value(w))), bt_value(w));
    bt_array *next = bt_add(bt_value(w), bt_num(1));
    bt_update update = {w, next};
    bt_function *f = bt_function_new(&x, 1, &y, 1, updates ? &update : NULL, updates);
    OK(bt_function_status(f));
    return f;
}

/* Of kernels that are `value` everywhere. */
static void expect_of(bt_array *y, double value, int line) {
    static _Thread_local float got[PIXELS];
    double each = CHANNELS * 9 * value, wanted = each > 0 ? each * CHANNELS * 9 * value : 0;
    if (bt_read(y, got, (size_t)bt_count(y) * sizeof *got) != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
    for (int64_t i = 0; i < bt_count(y); i++)
        if ((double)got[i] != wanted) fail_msg("line %d: [%d] is %g, not %g", line, (int)i, (double)got[i], wanted);
}
#define CALL(f, value)                                       \
    do {                                                     \
        bt_array *given_ = image();                          \
        expect_of(bt_call1(f, &given_, 1), value, __LINE__); \
    } while (0)

static size_t used(void) {
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    bt_synchronize();
    OK(bt_memory(bt_device_get(BT_CPU, 0), &info));
    return info.used;
}

/* --- values --------------------------------------------------------------------------------------------------------------- */

static void each_version_is_seen(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_shared *w = bt_shared_new(kernel(1), NULL);
            bt_function *f = network(w, false), *g = network(w, true);
            for (int i = 0; i < 4; i++) CALL(f, 1);
            OK(bt_set(w, kernel(2)));
            for (int i = 0; i < 4; i++) CALL(f, 2);
            for (int i = 2; i < 6; i++) CALL(g, i); /* each call makes the next version */
            for (int i = 0; i < 4; i++) CALL(f, 6);
            OK(bt_set(w, kernel(-1)));
            CALL(f, -1);
        }
    }
}

/* Arguments are what they are in each call; a donated one is gone. */
static void arguments(void **state) {
    (void)state;
    EACH_SETTING(s) {
        begin(settings[s]);
        BT_SCOPE {
            bt_array *in[2] = {bt_input(BT_F32, 1, CHANNELS, SIDE, SIDE), bt_input(BT_F32, CHANNELS, CHANNELS, 3, 3)};
            bt_array *out[2] = {bt_conv(bt_relu(bt_conv(in[0], in[1])), in[1]), bt_add(in[1], bt_num(1))};
            bt_function *f = bt_function_new(in, 2, out, 2, NULL, 0);
            bt_function *g = bt_function_new(in, 2, out, 2, NULL, 0);
            OK(bt_function_donate(g, 1));
            bt_array *x = image(), *some = kernel(1), *others = kernel(2), *made[2];
            for (int i = 0; i < 8; i++) {
                bool odd = i & 1;
                OK(bt_call(f, (bt_array *[]){x, odd ? others : some}, 2, made, 2));
                expect_of(made[0], odd ? 2 : 1, __LINE__);
            }
            for (int i = 1; i < 5; i++) { /* the memory of w goes from one to the next */
                OK(bt_call(g, (bt_array *[]){x, some}, 2, made, 2));
                expect_of(made[0], i, __LINE__);
                some = made[1];
            }
        }
    }
}

/* --- memory --------------------------------------------------------------------------------------------------------------- */

static void memory_goes_with_the_variable(void **state) {
    (void)state;
    begin("");
    size_t before = used(), plain = 0;
    bt_shared *w;
    bt_function *f;
    BT_SCOPE {
        w = bt_shared_retain(bt_shared_new(kernel(1), NULL));
        f = bt_function_retain(network(w, false));
        CALL(f, 1);
    }
    plain = used();
    BT_SCOPE
        for (int i = 0; i < 5; i++) CALL(f, 1);
    size_t packed = used() - plain; /* both convolutions have one layout for other sizes each */
    assert_in_range(packed, KERNEL_BYTES, 2 * KERNEL_BYTES + 4096);
    BT_SCOPE {
        OK(bt_set(w, kernel(2)));
        CALL(f, 2);
    }
    assert_int_equal(used(), plain); /* the version before is gone */
    BT_SCOPE
        for (int i = 0; i < 5; i++) CALL(f, 2);
    assert_int_equal(used() - plain, packed);
    bt_shared_release(w);
    bt_function_release(f);
    assert_int_equal(used(), before);
}

/* Where memory is short it goes, and calls do without. */
static void memory_is_limited(void **state) {
    (void)state;
    enum { LIMIT = 4 << 20 };
    begin("memory_pool=off,memory_limit=4M");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(kernel(1), NULL);
        bt_function *f = network(w, false);
        size_t packed = used();
        for (int i = 0; i < 4; i++) CALL(f, 1);
        packed = used() - packed;
        assert_true(packed > KERNEL_BYTES);
        bt_array *large = bt_add(bt_ones(BT_F32, (int64_t)(LIMIT - used() + KERNEL_BYTES / 2) / 4), bt_num(1));
        OK(bt_block(large));
        assert_true(used() <= LIMIT);
        bt_release(large);
        for (int i = 0; i < 4; i++) CALL(f, 1);
        assert_true(bt_memory_trim(bt_device_get(BT_CPU, 0)) < LIMIT);
        CALL(f, 1);
    }
}

/* --- threads ---------------------------------------------------------------------------------------------------------------- */

static bt_function *shared_function;
static void *call_often(void *unused) {
    for (int i = 0; i < 20; i++)
        BT_SCOPE
            CALL(shared_function, 1);
    return unused;
}

static void by_several_threads(void **state) {
    (void)state;
    begin("");
    pthread_t threads[4];
    bt_shared *w = bt_shared_new(kernel(1), NULL);
    BT_SCOPE
        shared_function = bt_function_retain(network(w, false));
    for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&threads[t], NULL, call_often, NULL), 0);
    for (int t = 0; t < 4; t++) pthread_join(threads[t], NULL);
    bt_shared_release(w);
    bt_function_release(shared_function);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(each_version_is_seen, end),
        cmocka_unit_test_teardown(arguments, end),
        cmocka_unit_test_teardown(memory_goes_with_the_variable, end),
        cmocka_unit_test_teardown(memory_is_limited, end),
        cmocka_unit_test_teardown(by_several_threads, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
