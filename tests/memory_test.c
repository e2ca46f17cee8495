// labels: valgrind threads
// timeout: 600
/* Settings of memory bind, limits hold, counters are right, temporaries are used again: on each kind of device. */
#include <pthread.h>
#include <unistd.h>

#include "memory_kinds.h"

/* --- settings ------------------------------------------------------------------------------------------------------------- */

static void an_unopened_device_holds_nothing(void **state) {
    begin(state, "memory_limit=8M");
    bt_memory_info info = memory(one);
    if (kind_now->sized) assert_int_equal(info.total, 64 * MIB);
    assert_true(info.total >= 64 * MIB);
    assert_int_equal(info.limit, 8 * MIB);
    assert_int_equal(info.used + info.peak + info.cached + info.live_arrays, 0);
    bt_device_info about = BT_DEVICE_INFO_INIT;
    OK(bt_device_describe(device(one), &about));
    assert_false(about.opened);
    FAILS(bt_memory(NULL, &info), BT_INVALID_ARGUMENT);
    FAILS(bt_memory(device("cpu"), NULL), BT_INVALID_ARGUMENT);
    bt_memory_info no_size = {0};
    FAILS(bt_memory(device("cpu"), &no_size), BT_INVALID_ARGUMENT);
}

static void nothing_is_allocated_past_the_limit(void **state) {
    begin(state, "memory_limit=8M");
    BT_SCOPE {
        bt_array *x[7]; /* the eighth part is for what is small */
        for (int i = 0; i < 7; i++) all_are(x[i] = megabytes(i, 1), i);
        assert_int_equal(used_on(one), 7 * MIB);
        POISONED(megabytes(9, 2), BT_RESOURCE_EXHAUSTED, "limit 8 MiB");
        static const float host[2 * MIB / sizeof(float)];
        POISONED(bt_from(host, BT_F32, BT_SHAPE(2 * ELEMENTS)), BT_RESOURCE_EXHAUSTED, HERE(0), "asked for 2 MiB");
        for (int i = 0; i < 7; i++) READS(bt_slice_axis(x[i], 0, 0, 2, 1), i, i);
        bt_memory_info info = memory(one);
        assert_true(info.used + info.cached <= 8 * MIB);
        BT_ON(two) all_are(megabytes(3, 7), 3); /* each device has its own */
    }
}

static void one_device_can_have_a_limit_of_its_own(void **state) {
    begin(state, "memory_limit=8M");
    OK(bt_set_memory_limit(device(two), 2 * MIB));
    assert_int_equal(memory(one).limit, 8 * MIB);
    assert_int_equal(memory(two).limit, 2 * MIB);
    BT_SCOPE {
        BT_ON(one) OK(bt_block(megabytes(1, 4)));
        BT_ON(two)
            FAILS(bt_block(megabytes(1, 4)), BT_RESOURCE_EXHAUSTED, with_name("out of memory on %s", two_name),
                  "limit 2 MiB");
    }
}

static void a_fraction_of_the_total_is_a_limit(void **state) {
    char setting[64];
    begin(state, "");
    double total = (double)memory(one).total, fraction = 8.5 * (double)MIB / total;
    snprintf(setting, sizeof setting, "memory_fraction=%.17g", fraction);
    begin(state, setting);
    assert_int_equal(memory(one).limit, (size_t)(total * fraction));
    BT_SCOPE {
        OK(bt_block(megabytes(1, 7)));
        FAILS(bt_block(megabytes(1, 9)), BT_RESOURCE_EXHAUSTED, "limit 8.5 MiB");
    }
    begin(state, "");
    OK(bt_set_memory_fraction(device(one), 2 * fraction));
    OK(bt_set_memory_limit(device(one), 4 * MIB)); /* the smaller holds */
    assert_int_equal(memory(one).limit, 4 * MIB);
    FAILS(bt_set_memory_fraction(device(one), 0), BT_INVALID_ARGUMENT, "memory_fraction");
    FAILS(bt_set_memory_fraction(NULL, 1.5), BT_INVALID_ARGUMENT, "memory_fraction");
    begin(state, "");
    OK(bt_set_memory_fraction(device(one), 1e-300)); /* of any memory not a byte: and not "no limit" */
    BT_SCOPE
        FAILS(bt_block(megabytes(1, 1)), BT_RESOURCE_EXHAUSTED, "limit 1 bytes");
}

static void without_growth_all_is_taken_at_once(void **state) {
    begin(state, "memory_growth=off,memory_limit=8M");
    BT_SCOPE {
        OK(bt_block(megabytes(1, 1)));
        bt_memory_info info = memory(one);
        assert_int_equal(info.used, MIB);
        assert_int_equal(info.used + info.cached, 8 * MIB);
        if (kind_now->sized) assert_int_equal(info.device_free, info.total - 8 * MIB);
        if (!info.device_free) lacks("how much memory is free is not told");
        OK(bt_block(megabytes(2, 6)));
    }
    bt_memory_trim(device(one));
    assert_int_equal(memory(one).cached, 8 * MIB); /* and kept */
}

static void without_growth_and_limit_all_is_taken(void **state) {
    begin(state, "memory_growth=off");
    BT_SCOPE {
        OK(bt_block(megabytes(1, 1)));
        bt_memory_info info = memory(one);
        if (bt_device_kind(device(one)) == BT_CPU) {
            lacks("without a limit it grows in any case");
            assert_int_equal(info.limit, info.total);
            assert_true(info.cached < 64 * MIB);
        } else {
            assert_true(info.used + info.cached >= info.total / 2);
            assert_int_equal(info.limit, info.used + info.cached);
            assert_int_equal(bt_memory_trim(device(one)), 0);
        }
        if (kind_now->sized) {
            assert_int_equal(info.cached, 63 * MIB);
            assert_int_equal(info.device_free, 0);
        }
    }
}

static void preallocated_memory_stays(void **state) {
    begin(state, "memory_preallocate=4M");
    BT_SCOPE
        OK(bt_block(bt_add(bt_ones(BT_F32, 16), bt_num(1))));
    assert_int_equal(used_on(one), 0);
    assert_int_equal(memory(one).cached, 4 * MIB);
    assert_int_equal(bt_memory_trim(device(one)), 0);
    BT_SCOPE
        OK(bt_block(megabytes(1, 8))); /* more is taken when it is needed, and given back */
    assert_int_equal(bt_memory_trim(device(one)), 8 * MIB);
    begin(state, "memory_preallocate=4M,memory_limit=2M");
    BT_SCOPE
        FAILS(bt_block(bt_add(bt_ones(BT_F32, 16), bt_num(1))), BT_INVALID_ARGUMENT, one_name, "preallocate", "limit");
}

static void settings_come_before_the_first_use(void **state) {
    begin(state, "");
    BT_SCOPE
        OK(bt_block(megabytes(1, 1)));
    bt_device *gpu = device(one);
    FAILS(bt_set_memory_limit(gpu, MIB), BT_FAILED_PRECONDITION, one_name, "before the device is opened");
    FAILS(bt_set_memory_fraction(gpu, 0.5), BT_FAILED_PRECONDITION);
    FAILS(bt_set_memory_growth(gpu, false), BT_FAILED_PRECONDITION);
    FAILS(bt_set_memory_preallocate(gpu, MIB), BT_FAILED_PRECONDITION);
    FAILS(bt_set_memory_limit(NULL, MIB), BT_FAILED_PRECONDITION);
    FAILS(bt_set_flag("memory_fraction", "0.5"), BT_FAILED_PRECONDITION);
    bt_memory_info info = memory(one);
    assert_int_equal(info.limit, bt_device_kind(gpu) == BT_CPU ? info.total : 0);
    OK(bt_set_memory_limit(device(two), MIB)); /* this one is not open yet */
}

/* --- counters ------------------------------------------------------------------------------------------------------------- */

static void counters_follow_the_arrays(void **state) {
    begin(state, "");
    BT_SCOPE {
        bt_array *x = megabytes(1, 2);
        assert_int_equal(used_on(one), 2 * MIB);
        assert_int_equal(memory(one).live_arrays, 1);
        BT_SCOPE {
            bt_array *y = bt_add(x, x);
            OK(bt_block(y));
            assert_int_equal(used_on(one), 4 * MIB);
            assert_int_equal(memory(one).live_arrays, 2);
            OK(bt_block(bt_transpose(bt_reshape(y, 512, -1)))); /* a view: no memory */
            assert_int_equal(used_on(one), 4 * MIB);
        }
        bt_memory_info info = memory(one);
        assert_int_equal(info.used - info.scratch, 2 * MIB);
        assert_int_equal(info.peak, 4 * MIB);
        assert_true(info.cached >= 2 * MIB && info.largest_free >= 2 * MIB);
        assert_int_equal(info.live_arrays, 1);
        bt_memory_reset_peak(device(one));
        assert_int_equal(memory(one).peak, 2 * MIB);
        size_t cached = info.cached + info.scratch;
        assert_int_equal(bt_memory_trim(device(one)), cached);
        assert_int_equal(memory(one).cached, 0);
        if (kind_now->sized) assert_int_equal(memory(one).device_free, 62 * MIB);
        all_are(x, 1);
    }
    assert_int_equal(memory(one).live_arrays, 0);
    assert_int_equal(used_on(one), 0);
    bt_memory_trim(device(one));
    bt_memory_info info = memory(one);
    assert_int_equal(info.used + info.scratch + info.cached, 0);
}

static void copies_are_counted(void **state) {
    begin(state, "");
    BT_SCOPE {
        static const float ones[16] = {1};
        bt_array *x = bt_from(ones, BT_F32, BT_SHAPE(16)), *y = bt_to(x, two);
        assert_int_equal(memory(one).copied_in, 64);
        OK(bt_block(y));
        assert_int_equal(memory(one).copied_out, 64);
        assert_int_equal(memory(two).copied_in, 64);
        float host[16];
        OK(bt_read(y, host, sizeof host)); /* reads by the host count too */
        assert_int_equal(memory(two).copied_out, 64);
        OK(bt_block(bt_to(bt_broadcast_to(bt_slice_axis(x, 0, 0, 1, 1), 1000), two))); /* one element travels */
        assert_int_equal(memory(two).copied_in, 68);
    }
}

/* --- temporaries ---------------------------------------------------------------------------------------------------------- */

static void temporaries_are_used_again(void **state) {
    begin(state, "");
    bt_array *x = NULL;
    BT_SCOPE {
        bt_assign(&x, bt_full(0, BT_F32, ELEMENTS));
        for (int i = 0; i < 100; i++)
            BT_SCOPE
                bt_assign(&x, bt_add(x, bt_num(1)));
        assert_true(memory(one).peak == 0);
        OK(bt_block(x));
        all_are(x, 100);
    }
    bt_assign(&x, NULL);
    assert_true(memory(one).peak <= 4 * MIB);
}

static void wide_graphs_free_what_is_read(void **state) {
    begin(state, "");
    BT_SCOPE {
        bt_array *sum = NULL;
        BT_SCOPE { /* a tree of 64 leaves, one after the other */
            bt_array *total = bt_zeros(BT_F32, ELEMENTS);
            for (int i = 0; i < 64; i++) total = bt_add(total, bt_full(i, BT_F32, ELEMENTS));
            sum = bt_keep(total);
        }
        all_are(sum, 2016);
    }
    assert_true(memory(one).peak <= 4 * MIB);
}

/* Small arrays share a segment, so that what is free under the limit can be had in one piece. */
static void small_arrays_leave_room_for_large_ones(void **state) {
    begin(state, "memory_limit=16M");
    BT_SCOPE {
        bt_array *small[14];
        const float host[2] = {1, 2};
        small[0] = bt_from(host, BT_F32, BT_SHAPE(2));
        READS(small[0], 1, 2);
        bt_memory_info info = memory(one);
        assert_true(info.used + info.cached <= 2 * MIB);
        for (int i = 1; i < 14; i++) small[i] = bt_from(host, BT_F32, BT_SHAPE(2));
        all_are(megabytes(3, 4), 3);
        all_are(megabytes(5, 9), 5);
        for (int i = 0; i < 14; i++) READS(small[i], 1, 2);
    }
}

/* What was used and freed serves as scratch, where nothing else is left. */
static void scratch_comes_from_what_was_used(void **state) {
    begin(state, "memory_growth=off,memory_limit=9M");
    BT_SCOPE {
        for (int i = 0; i < 3; i++) OK(bt_block(megabytes(i, 1 + i)));
        bt_array *x = bt_full(1, BT_F32, 512, 512);
        READS(bt_sum(bt_softmax(bt_add(x, bt_num(0)), 0), BT_ALL, false), 512);
        READS(bt_sum(megabytes(2, 2), BT_ALL, false), 4.0 * (double)ELEMENTS);
    }
}

/* --- work that nobody waits for ------------------------------------------------------------------------------------------ */

/* Its arrays are released while it is in flight: their memory comes back when it is complete. */
static void memory_of_work_that_nobody_waits_for_comes_back(void **state) {
    setenv("BERTH_FAKE_PROGRESS", "on", 1);
    begin(state, "");
    size_t before = used_on(one);
    for (int i = 0; i < 3; i++) {
        BT_SCOPE {
            bt_array *x = bt_normal(bt_key(i), BT_F32, ELEMENTS), *both[] = {bt_exp(x), bt_sum(x, BT_ALL, false)};
            OK(bt_eval_all(both, 2));
        }
        for (int ms = 0; used_on(one) != before; ms++) {
            if (ms == 10000) fail_msg("%zu bytes are in use after 10 s, %zu before", used_on(one), before);
            usleep(1000);
        }
    }
    unsetenv("BERTH_FAKE_PROGRESS");
}

/* --- trims beside work ------------------------------------------------------------------------------------------------ */

static void *trim_and_ask(void *asked) {
    static char wrong[] = "a counter is wrong";
    for (int i = 0; i < 40; i++) {
        bt_memory_info info = BT_MEMORY_INFO_INIT;
        if (bt_memory(asked, &info) != BT_OK || info.scratch > info.used) return wrong;
        bt_memory_trim(asked);
        bt_device_process processes[2];
        int count;
        (void)!bt_device_processes(asked, processes, 2, &count);
    }
    return NULL;
}

/* Sums in parts and sorts, which take scratch on devices that have it, while another thread gives it back. */
static void trims_go_beside_work(void **state) {
    pthread_t thread;
    begin(state, "");
    BT_SCOPE
        all_are(megabytes(3, 1), 3);
    assert_int_equal(pthread_create(&thread, NULL, trim_and_ask, device(one)), 0);
    for (int i = 0; i < 20; i++)
        BT_SCOPE {
            bt_array *x = megabytes(i, 1);
            READS(bt_sum(x, BT_ALL, false), (double)i * (double)ELEMENTS);
            READS(bt_slice_axis(bt_sort(bt_slice_axis(x, 0, 0, 5000, 1), 0), 0, 4998, 5000, 1), i, i);
        }
    void *wrong;
    pthread_join(thread, &wrong);
    assert_null(wrong);
    bt_memory_trim(device(one));
    bt_memory_info info = memory(one);
    assert_int_equal(info.used + info.scratch + info.cached, 0);
}

int main(void) {
    static const memory_case each[] = {
        CASE(an_unopened_device_holds_nothing),
        CASE(nothing_is_allocated_past_the_limit),
        CASE(one_device_can_have_a_limit_of_its_own),
        CASE(a_fraction_of_the_total_is_a_limit),
        CASE(without_growth_all_is_taken_at_once),
        CASE(without_growth_and_limit_all_is_taken),
        CASE(preallocated_memory_stays),
        CASE(settings_come_before_the_first_use),
        CASE(counters_follow_the_arrays),
        CASE(copies_are_counted),
        CASE(temporaries_are_used_again),
        CASE(wide_graphs_free_what_is_read),
        CASE(small_arrays_leave_room_for_large_ones),
        CASE(scratch_comes_from_what_was_used),
        CASE(memory_of_work_that_nobody_waits_for_comes_back),
        CASE(trims_go_beside_work),
    };
    return run_on_each_kind(each, COUNT(each));
}
