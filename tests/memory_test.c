// labels: valgrind
/* Limits hold, counters are right, and running out of memory is an error that says everything and harms nothing. */
#include "support/support.h"

#define ELEMENTS (int64_t)(MIB / sizeof(float))

/* A computed megabyte of a value, on the block's device. */
static bt_array *megabytes(double value, int64_t n) {
    bt_array *x = NULL;
    BT_SCOPE
        x = bt_keep(bt_add(bt_full(value, BT_F32, n * ELEMENTS), bt_num(0)));
    (void)!bt_block(x);
    return x;
}

static void all_are(bt_array *x, double value) {
    BT_SCOPE {
        READS(bt_min(x, BT_ALL, false), value);
        READS(bt_max(x, BT_ALL, false), value);
    }
}

/* --- settings ------------------------------------------------------------------------------------------------------------- */

static void an_unopened_device_holds_nothing(void **state) {
    fresh("devices=sim:gpu*2@64M,memory_limit=8M");
    bt_memory_info info = memory("gpu:0");
    assert_int_equal(info.total, 64 * MIB);
    assert_int_equal(info.limit, 8 * MIB);
    assert_int_equal(info.used + info.peak + info.cached + info.live_arrays, 0);
    bt_device_info about = BT_DEVICE_INFO_INIT;
    OK(bt_device_describe(device("gpu:0"), &about));
    assert_false(about.opened);
    FAILS(bt_memory(NULL, &info), BT_INVALID_ARGUMENT);
    FAILS(bt_memory(device("cpu"), NULL), BT_INVALID_ARGUMENT);
    bt_memory_info no_size = {0};
    FAILS(bt_memory(device("cpu"), &no_size), BT_INVALID_ARGUMENT);
}

static void nothing_is_allocated_past_the_limit(void **state) {
    fresh("devices=sim:gpu*2@64M,memory_limit=8M");
    BT_SCOPE {
        bt_array *x[7]; /* the eighth part is for what is small */
        for (int i = 0; i < 7; i++) all_are(x[i] = megabytes(i, 1), i);
        assert_int_equal(memory("gpu:0").used, 7 * MIB);
        POISONED(megabytes(9, 2), BT_RESOURCE_EXHAUSTED, "limit 8 MiB");
        static const float host[2 * MIB / sizeof(float)];
        POISONED(bt_from(host, BT_F32, BT_SHAPE(2 * ELEMENTS)), BT_RESOURCE_EXHAUSTED, HERE(0), "asked for 2 MiB");
        for (int i = 0; i < 7; i++) READS(bt_slice_axis(x[i], 0, 0, 2, 1), i, i);
        bt_memory_info info = memory("gpu:0");
        assert_true(info.used + info.cached <= 8 * MIB);
        BT_ON("gpu:1") all_are(megabytes(3, 7), 3); /* each device has its own */
    }
}

static void one_device_can_have_a_limit_of_its_own(void **state) {
    fresh("devices=sim:gpu*2@64M,memory_limit=8M");
    OK(bt_set_memory_limit(device("gpu:1"), 2 * MIB));
    assert_int_equal(memory("gpu:0").limit, 8 * MIB);
    assert_int_equal(memory("gpu:1").limit, 2 * MIB);
    BT_SCOPE {
        BT_ON("gpu:0") OK(bt_block(megabytes(1, 4)));
        BT_ON("gpu:1") FAILS(bt_block(megabytes(1, 4)), BT_RESOURCE_EXHAUSTED, "out of memory on GPU:1", "limit 2 MiB");
    }
}

static void a_fraction_of_the_total_is_a_limit(void **state) {
    fresh("devices=sim:gpu@64M,memory_fraction=0.125");
    assert_int_equal(memory("gpu:0").limit, 8 * MIB);
    BT_SCOPE
        FAILS(bt_block(megabytes(1, 9)), BT_RESOURCE_EXHAUSTED, "limit 8 MiB");
    fresh("devices=sim:gpu@64M");
    OK(bt_set_memory_fraction(device("gpu"), 0.25));
    OK(bt_set_memory_limit(device("gpu"), 4 * MIB)); /* the smaller holds */
    assert_int_equal(memory("gpu:0").limit, 4 * MIB);
    FAILS(bt_set_memory_fraction(device("gpu"), 0), BT_INVALID_ARGUMENT, "memory_fraction");
    FAILS(bt_set_memory_fraction(NULL, 1.5), BT_INVALID_ARGUMENT, "memory_fraction");
}

static void without_growth_all_is_taken_at_once(void **state) {
    fresh("devices=sim:gpu@16M,memory_growth=off,memory_limit=8M");
    BT_SCOPE {
        OK(bt_block(megabytes(1, 1)));
        bt_memory_info info = memory("gpu:0");
        assert_int_equal(info.used, MIB);
        assert_int_equal(info.used + info.cached, 8 * MIB);
        assert_int_equal(info.device_free, 8 * MIB);
        OK(bt_block(megabytes(2, 6)));
    }
    bt_memory_trim(device("gpu"));
    assert_int_equal(memory("gpu:0").cached, 8 * MIB); /* and kept */
    fresh("devices=sim:gpu@16M,memory_growth=off");    /* no limit: all that the device has */
    BT_SCOPE {
        OK(bt_block(megabytes(1, 1)));
        assert_int_equal(memory("gpu:0").cached, 15 * MIB);
        assert_int_equal(memory("gpu:0").device_free, 0);
    }
}

static void preallocated_memory_stays(void **state) {
    fresh("devices=sim:gpu@64M,memory_preallocate=4M");
    BT_SCOPE
        OK(bt_block(bt_add(bt_ones(BT_F32, 16), bt_num(1))));
    assert_int_equal(memory("gpu:0").used, 0);
    assert_int_equal(memory("gpu:0").cached, 4 * MIB);
    assert_int_equal(bt_memory_trim(device("gpu")), 0);
    BT_SCOPE
        OK(bt_block(megabytes(1, 8))); /* more is taken when it is needed, and given back */
    assert_int_equal(bt_memory_trim(device("gpu")), 8 * MIB);
    fresh("devices=sim:gpu@64M,memory_preallocate=4M,memory_limit=2M");
    BT_SCOPE
        FAILS(bt_block(bt_add(bt_ones(BT_F32, 16), bt_num(1))), BT_INVALID_ARGUMENT, "GPU:0", "preallocate", "limit");
}

static void settings_come_before_the_first_use(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE
        OK(bt_block(megabytes(1, 1)));
    bt_device *gpu = device("gpu:0");
    FAILS(bt_set_memory_limit(gpu, MIB), BT_FAILED_PRECONDITION, "GPU:0", "before the device is opened");
    FAILS(bt_set_memory_fraction(gpu, 0.5), BT_FAILED_PRECONDITION);
    FAILS(bt_set_memory_growth(gpu, false), BT_FAILED_PRECONDITION);
    FAILS(bt_set_memory_preallocate(gpu, MIB), BT_FAILED_PRECONDITION);
    FAILS(bt_set_memory_limit(NULL, MIB), BT_FAILED_PRECONDITION);
    FAILS(bt_set_flag("memory_fraction", "0.5"), BT_FAILED_PRECONDITION);
    assert_int_equal(memory("gpu:0").limit, 0);
    OK(bt_set_memory_limit(device("gpu:1"), MIB)); /* this one is not open yet */
}

/* --- counters ------------------------------------------------------------------------------------------------------------- */

static void counters_follow_the_arrays(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *x = megabytes(1, 2);
        assert_int_equal(memory("gpu:0").used, 2 * MIB);
        assert_int_equal(memory("gpu:0").live_arrays, 1);
        BT_SCOPE {
            bt_array *y = bt_add(x, x);
            OK(bt_block(y));
            assert_int_equal(memory("gpu:0").used, 4 * MIB);
            assert_int_equal(memory("gpu:0").live_arrays, 2);
            OK(bt_block(bt_transpose(bt_reshape(y, 512, -1)))); /* a view: no memory */
            assert_int_equal(memory("gpu:0").used, 4 * MIB);
        }
        bt_memory_info info = memory("gpu:0");
        assert_int_equal(info.used, 2 * MIB);
        assert_int_equal(info.peak, 4 * MIB);
        assert_true(info.cached >= 2 * MIB && info.largest_free >= 2 * MIB);
        assert_int_equal(info.live_arrays, 1);
        bt_memory_reset_peak(device("gpu"));
        assert_int_equal(memory("gpu:0").peak, 2 * MIB);
        size_t cached = info.cached;
        assert_int_equal(bt_memory_trim(device("gpu")), cached);
        assert_int_equal(memory("gpu:0").cached, 0);
        assert_int_equal(memory("gpu:0").device_free, 62 * MIB);
        all_are(x, 1);
    }
    assert_int_equal(memory("gpu:0").live_arrays, 0);
    assert_int_equal(memory("gpu:0").used, 0);
}

static void copies_are_counted(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        static const float ones[16] = {1};
        bt_array *x = bt_from(ones, BT_F32, BT_SHAPE(16)), *y = bt_to(x, "gpu:1");
        assert_int_equal(memory("gpu:0").copied_in, 64);
        OK(bt_block(y));
        assert_int_equal(memory("gpu:0").copied_out, 64);
        assert_int_equal(memory("gpu:1").copied_in, 64);
        float host[16];
        OK(bt_read(y, host, sizeof host)); /* reads by the host count too */
        assert_int_equal(memory("gpu:1").copied_out, 64);
        OK(bt_block(bt_to(bt_broadcast_to(bt_slice_axis(x, 0, 0, 1, 1), 1000), "gpu:1"))); /* one element travels */
        assert_int_equal(memory("gpu:1").copied_in, 68);
    }
}

/* --- temporaries ---------------------------------------------------------------------------------------------------------- */

static void temporaries_are_used_again(void **state) {
    fresh("devices=sim:gpu@256M");
    bt_array *x = NULL;
    BT_SCOPE {
        bt_assign(&x, bt_full(0, BT_F32, ELEMENTS));
        for (int i = 0; i < 100; i++)
            BT_SCOPE
                bt_assign(&x, bt_add(x, bt_num(1)));
        assert_true(memory("gpu:0").peak == 0);
        OK(bt_block(x));
        all_are(x, 100);
    }
    bt_assign(&x, NULL);
    assert_true(memory("gpu:0").peak <= 4 * MIB);
}

static void wide_graphs_free_what_is_read(void **state) {
    fresh("devices=sim:gpu@256M");
    BT_SCOPE {
        bt_array *sum = NULL;
        BT_SCOPE { /* a tree of 64 leaves, one after the other */
            bt_array *total = bt_zeros(BT_F32, ELEMENTS);
            for (int i = 0; i < 64; i++) total = bt_add(total, bt_full(i, BT_F32, ELEMENTS));
            sum = bt_keep(total);
        }
        all_are(sum, 2016);
    }
    assert_true(memory("gpu:0").peak <= 4 * MIB);
}

/* --- out of memory -------------------------------------------------------------------------------------------------------- */

static void the_report_says_everything(void **state) {
    fresh("devices=sim:gpu*2@64M,memory_limit=8M");
    BT_SCOPE {
        const char *place[12];
        bt_array *x[12];
        for (int i = 0; i < 12; i++) {
            x[i] = bt_add(bt_full(i, BT_F32, 1 + i, 128, 128), bt_num(0)), place[i] = HERE(0);
            OK(bt_block(x[i]));
        }
        bt_array *big = bt_mul(bt_ones(BT_F64, 1024, 1024), bt_num(2));
        const char *at = HERE(-1);
        FAILS(bt_block(big), BT_RESOURCE_EXHAUSTED, at, "bt_mul", "out of memory on GPU:0: asked for 8 MiB",
              "float64 (1024, 1024)", "limit 8 MiB", "in use ", "cached ", "largest free block",
              "largest live arrays:", "768 KiB  float32 (12, 128, 128), bt_add", place[11]);
        char once[2048];
        snprintf(once, sizeof once, "%s", bt_error_text());
        for (int i = 2; i < 12; i++) { /* the ten largest, with shape and line */
            char line[64];
            snprintf(line, sizeof line, "float32 (%d, 128, 128)", 1 + i);
            SAYS(once, line);
        }
        assert_null(strstr(once, "float32 (2, 128, 128)"));
        assert_null(strstr(once, "GPU:1"));
        POISONED(bt_sum(big, BT_ALL, false), BT_RESOURCE_EXHAUSTED, "asked for 8 MiB"); /* as often as it is tried */
        for (int i = 0; i < 12; i++) all_are(x[i], i);                                  /* every array is intact */
    }
}

/* Part of a plan had its memory already when the rest did not get any: nothing of it remains, and nothing waits for it. */
static void a_plan_that_does_not_fit_leaves_no_trace(void **state) {
    fresh("devices=sim:gpu@64M,memory_limit=8M");
    BT_SCOPE {
        bt_array *x = megabytes(1, 1), *y = NULL;
        BT_SCOPE {
            bt_array *chain = x;
            for (int i = 0; i < 10; i++) chain = bt_add(chain, bt_num(1));
            y = bt_keep(bt_concat(((bt_array *[]){chain, chain, chain, chain, chain, chain, chain, chain}), 8, 0));
        }
        for (int i = 0; i < 3; i++) {
            size_t used = memory("gpu:0").used;
            POISONED(y, BT_RESOURCE_EXHAUSTED, "asked for 8 MiB");
            assert_int_equal(memory("gpu:0").used, used);
            BT_SCOPE {
                static float host[5 * ELEMENTS];
                bt_array *uploaded = bt_from(host, BT_F32, BT_SHAPE(5 * ELEMENTS)); /* into that very memory */
                READS(bt_slice_axis(uploaded, 0, 0, 1, 1), 0);
                all_are(x, 1);
                all_are(bt_add(x, bt_num(1)), 2);
            }
        }
        bt_memory_trim(device("gpu"));
        assert_true(memory("gpu:0").cached <= 5 * MIB);
    }
    assert_int_equal(memory("gpu:0").used, 0);
    bt_memory_trim(device("gpu"));
    assert_int_equal(memory("gpu:0").cached, 0);
}

static void count_errors(bt_status status, const char *text, void *count) { ++*(int *)count; }

static void the_cache_is_given_up_before_failing(void **state) {
    fresh("devices=sim:gpu@64M,memory_limit=8M");
    BT_SCOPE {
        for (int i = 0; i < 7; i++) OK(bt_block(megabytes(i, 1)));
    }
    assert_int_equal(memory("gpu:0").cached, 7 * MIB); /* in pieces of one */
    BT_SCOPE
        OK(bt_block(megabytes(1, 7)));
    fresh("devices=sim:gpu@8M"); /* the same when the device itself has no more */
    BT_SCOPE {
        for (int i = 0; i < 7; i++) OK(bt_block(megabytes(i, 1)));
    }
    int heard = 0; /* nor does anybody hear of what was put right */
    bt_set_error_handler(count_errors, &heard);
    OK(bt_set_flag("strict", "on"));
    BT_SCOPE {
        OK(bt_block(megabytes(1, 7)));
    }
    assert_int_equal(heard, 0);
    assert_int_equal(bt_error_status(), BT_OK);
    BT_SCOPE {
        FAILS(bt_block(megabytes(1, 9)), BT_RESOURCE_EXHAUSTED);
    }
    assert_int_equal(heard, 2); /* once for each of two tries */
    bt_set_error_handler(NULL, NULL);
}

static void a_copy_that_does_not_fit_leaves_both_sides_intact(void **state) {
    fresh("devices=sim:gpu*2@64M");
    OK(bt_set_memory_limit(device("gpu:1"), 2 * MIB));
    BT_SCOPE {
        bt_array *x = megabytes(1, 4), *there = bt_to(bt_ones(BT_F32, 8), "gpu:1");
        POISONED(bt_to(x, "gpu:1"), BT_RESOURCE_EXHAUSTED, "out of memory on GPU:1", "asked for 4 MiB");
        all_are(x, 1);
        all_are(there, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unopened_device_holds_nothing),
        cmocka_unit_test(nothing_is_allocated_past_the_limit),
        cmocka_unit_test(one_device_can_have_a_limit_of_its_own),
        cmocka_unit_test(a_fraction_of_the_total_is_a_limit),
        cmocka_unit_test(without_growth_all_is_taken_at_once),
        cmocka_unit_test(preallocated_memory_stays),
        cmocka_unit_test(settings_come_before_the_first_use),
        cmocka_unit_test(counters_follow_the_arrays),
        cmocka_unit_test(copies_are_counted),
        cmocka_unit_test(temporaries_are_used_again),
        cmocka_unit_test(wide_graphs_free_what_is_read),
        cmocka_unit_test(the_report_says_everything),
        cmocka_unit_test(a_plan_that_does_not_fit_leaves_no_trace),
        cmocka_unit_test(the_cache_is_given_up_before_failing),
        cmocka_unit_test(a_copy_that_does_not_fit_leaves_both_sides_intact),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
