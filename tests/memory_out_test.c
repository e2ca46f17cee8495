// labels: valgrind
// timeout: 600
/* Running out of memory is an error that says everything and harms nothing, and so are sizes at the limits: on each kind of device. */
#include "memory_kinds.h"

/* The system gives more than it has, and ends the process that uses it. Nothing of this may be used, then. */
static void the_machines_memory_is_a_limit(void **state) {
    begin(state, "flush_bytes=1000000000000000"); /* no part of it begins before all is asked for */
    size_t machine = memory("cpu").total;
    bool shares = kind_now->sized; /* simulated devices have their memory from the same machine */
    if (bt_device_kind(device(one)) != BT_CPU && !shares) {
        lacks("its memory is not the machine's");
        return;
    }
    if (shares) {
        fresh("devices=sim:gpu*2@8T,default_device=gpu:0,flush_bytes=1000000000000000");
    } else {
        bt_memory_info info = memory(one);
        assert_int_equal(info.limit, machine);
        assert_true(*info.limit_source);
        assert_string_not_equal(info.limit_source, "flag memory_limit");
    }
    int64_t more = (int64_t)((machine + 1024 * MIB) / sizeof(float)), part = (int64_t)(machine / 8 / sizeof(float));
    BT_SCOPE {
        FAILS(bt_block(bt_add(bt_full(1, BT_F32, more), bt_num(1))), BT_RESOURCE_EXHAUSTED,
              with_name("out of memory on %s: asked for ", one_name), HERE(0));
        bt_array *parts[12];
        for (int i = 0; i < 12; i++) parts[i] = bt_add(bt_full(i, BT_F32, part), bt_num(1));
        FAILS(bt_eval_all(parts, 12), BT_RESOURCE_EXHAUSTED, "out of memory on ");
        READS(bt_add(BT_ARRAY(float, (2), 1, 2), bt_num(1)), 2, 3);
    }
}

/* --- out of memory -------------------------------------------------------------------------------------------------------- */

static void long_row(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    carry[0] = bt_add(carry[0], bt_num(1));
    y[0] = bt_broadcast_to(carry[0], 1024);
}

/* A loop has several results: the one that there was no memory for is named. */
static void the_report_names_the_result_of_a_loop(void **state) {
    begin(state, "memory_limit=8M");
    BT_SCOPE {
        bt_array *carry = bt_f32(0), *ys;
        OK(bt_scan(long_row, NULL, 2048, &carry, 1, NULL, 0, &ys, 1));
        FAILS(bt_block(ys), BT_RESOURCE_EXHAUSTED, "bt_scan", "asked for 8 MiB for float32 (2048, 1024)");
    }
}

static void the_report_says_everything(void **state) {
    begin(state, "memory_limit=8M");
    BT_SCOPE {
        const char *place[12];
        bt_array *x[12];
        for (int i = 0; i < 12; i++) {
            x[i] = bt_add(bt_full(i, BT_F32, 1 + i, 128, 128), bt_num(0)), place[i] = HERE(0);
            OK(bt_block(x[i]));
        }
        bt_array *big = bt_mul(bt_full(3, BT_F32, 2048, 1024), bt_num(2));
        const char *at = HERE(-1);
        FAILS(bt_block(big), BT_RESOURCE_EXHAUSTED, at, "bt_mul",
              with_name("out of memory on %s: asked for 8 MiB", one_name), "float32 (2048, 1024)", "limit 8 MiB",
              "in use ", "cached ", "largest free block",
              "largest live arrays:", "768 KiB  float32 (12, 128, 128), bt_add", place[11]);
        char once[2048];
        snprintf(once, sizeof once, "%s", bt_error_text());
        for (int i = 2; i < 12; i++) { /* the ten largest, with shape and line */
            char line[64];
            snprintf(line, sizeof line, "float32 (%d, 128, 128)", 1 + i);
            SAYS(once, line);
        }
        assert_null(strstr(once, "float32 (2, 128, 128)"));
        assert_null(strstr(once, two_name));
        POISONED(bt_sum(big, BT_ALL, false), BT_RESOURCE_EXHAUSTED, "asked for 8 MiB"); /* as often as it is tried */
        for (int i = 0; i < 12; i++) all_are(x[i], i);                                  /* every array is intact */
    }
}

/* Part of a plan had its memory already when the rest did not get any: nothing of it remains, and nothing waits for it. */
static void a_plan_that_does_not_fit_leaves_no_trace(void **state) {
    begin(state, "memory_limit=8M");
    BT_SCOPE {
        bt_array *x = megabytes(1, 1), *y = NULL;
        BT_SCOPE {
            bt_array *chain = x;
            for (int i = 0; i < 10; i++) chain = bt_add(chain, bt_num(1));
            y = bt_keep(bt_concat(((bt_array *[]){chain, chain, chain, chain, chain, chain, chain, chain}), 8, 0));
        }
        for (int i = 0; i < 3; i++) {
            size_t used = used_on(one);
            POISONED(y, BT_RESOURCE_EXHAUSTED, "asked for 8 MiB");
            assert_int_equal(used_on(one), used);
            BT_SCOPE {
                static float host[5 * ELEMENTS];
                bt_array *uploaded = bt_from(host, BT_F32, BT_SHAPE(5 * ELEMENTS)); /* into that very memory */
                READS(bt_slice_axis(uploaded, 0, 0, 1, 1), 0);
                all_are(x, 1);
                all_are(bt_add(x, bt_num(1)), 2);
            }
        }
        bt_memory_trim(device(one));
        assert_true(memory(one).cached <= 5 * MIB);
    }
    assert_int_equal(used_on(one), 0);
    bt_memory_trim(device(one));
    assert_int_equal(memory(one).cached, 0);
}

static void count_errors(bt_status status, const char *text, void *count) { ++*(int *)count; }

static void the_cache_is_given_up_before_failing(void **state) {
    int heard = 0;
    begin(state, "memory_limit=8M");
    bt_set_error_handler(count_errors, &heard);
    OK(bt_set_flag("strict", "on"));
    BT_SCOPE {
        for (int i = 0; i < 7; i++) OK(bt_block(megabytes(i, 1)));
    }
    assert_int_equal(memory(one).cached, 7 * MIB); /* in pieces of one */
    BT_SCOPE
        OK(bt_block(megabytes(1, 7)));
    assert_int_equal(heard, 0); /* nor does anybody hear of what was put right */
    assert_int_equal(bt_error_status(), BT_OK);
    BT_SCOPE {
        FAILS(bt_block(megabytes(1, 9)), BT_RESOURCE_EXHAUSTED);
    }
    assert_int_equal(heard, 2); /* once for each of two tries */
    bt_set_error_handler(NULL, NULL);
}

/* The same when no limit says it but the device itself. */
static void the_cache_is_given_up_when_the_device_is_full(void **state) {
    int heard = 0;
    begin(state, "");
    if (!kind_now->sized) {
        lacks("its memory is too large to fill: the cache is tested under a limit only");
        return;
    }
    bt_set_error_handler(count_errors, &heard);
    OK(bt_set_flag("strict", "on"));
    BT_SCOPE {
        for (int i = 0; i < 7; i++) OK(bt_block(megabytes(i, 8)));
    }
    assert_int_equal(memory(one).cached, 56 * MIB);
    BT_SCOPE
        OK(bt_block(megabytes(1, 60)));
    assert_int_equal(heard, 0);
    BT_SCOPE
        FAILS(bt_block(megabytes(1, 65)), BT_RESOURCE_EXHAUSTED, "the device: ");
    bt_set_error_handler(NULL, NULL);
}

/* --- sizes at the limits ---------------------------------------------------------------------------------------------- */

static void nothing_takes_nothing(void **state) {
    begin(state, "memory_limit=1M");
    BT_SCOPE {
        bt_array *x = bt_add(bt_zeros(BT_F32, 0, 3), bt_num(1)), *there = bt_to(x, two);
        OK(bt_block(x));
        OK(bt_block(there));
        OK(bt_read(there, NULL, 0));
        READS(bt_sum(x, BT_ALL, false), 0);
        assert_int_equal(bt_count(bt_from(NULL, BT_F32, BT_SHAPE(0))), 0);
    }
    assert_int_equal(used_on(one), 0);
    assert_int_equal(memory(one).copied_out, 8); /* the sum, as float64 */
}

static void more_than_there_is_is_refused(void **state) {
    begin(state, "");
    int64_t total = (int64_t)memory(one).total;
    static const int64_t sizes[] = {INT64_MAX / 8, INT64_MAX / 4, INT64_MAX / 4 - 15, INT64_MAX / 16, (int64_t)1 << 60};
    BT_SCOPE {
        bt_array *x = megabytes(1, 1);
        for (int i = -1; i < COUNT(sizes); i++)
            BT_SCOPE
                FAILS(bt_block(bt_add(bt_full(1, BT_F32, i < 0 ? total / 4 + 1 : sizes[i]), bt_num(0))),
                      BT_RESOURCE_EXHAUSTED, with_name("out of memory on %s", one_name));
        BT_SCOPE {
            FAILS(bt_block(bt_neg(bt_full(1, BT_I8, INT64_MAX - 1))), BT_RESOURCE_EXHAUSTED);
            FAILS(bt_block(bt_full(1, BT_F32, INT64_MAX)), BT_INVALID_ARGUMENT); /* of 2^65 bytes */
            FAILS(bt_block(bt_full(1, BT_F32, (int64_t)1 << 32, (int64_t)1 << 32)), BT_INVALID_ARGUMENT);
        }
        all_are(x, 1);
        assert_int_equal(used_on(one), MIB);
    }
}

static void settings_at_their_limits(void **state) {
    begin(state, "");
    OK(bt_set_memory_limit(device(one), SIZE_MAX));
    assert_int_equal(memory(one).limit, SIZE_MAX);
    BT_SCOPE
        all_are(megabytes(1, 1), 1);
    static const size_t refused[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 63};
    for (int i = 0; i <= COUNT(refused); i++) {
        begin(state, "");
        OK(bt_set_memory_preallocate(device(one), i < COUNT(refused) ? refused[i] : memory(one).total + 1));
        BT_SCOPE
            FAILS(bt_block(megabytes(1, 1)), BT_INVALID_ARGUMENT, one_name, "to preallocate are more than its");
    }
    static const char *const small[] = {"memory_limit=1", "memory_limit=63,memory_growth=off",
                                        "memory_limit=64,memory_preallocate=64"};
    for (int i = 0; i < COUNT(small); i++) {
        begin(state, small[i]);
        BT_SCOPE
            FAILS(bt_block(megabytes(1, 1)), BT_RESOURCE_EXHAUSTED, "asked for 1 MiB");
        assert_int_equal(used_on(one), 0);
    }
    begin(state, "memory_preallocate=1"); /* less than a block */
    BT_SCOPE
        all_are(megabytes(1, 1), 1);
}

/* Asking is never an error that others hear of, whatever a driver cannot tell. */
static void asking_is_silent(void **state) {
    int heard = 0;
    begin(state, "");
    bt_set_error_handler(count_errors, &heard);
    OK(bt_set_flag("strict", "on"));
    BT_SCOPE
        OK(bt_block(megabytes(1, 1)));
    (void)memory(one);
    assert_int_equal(heard, 0);
    bt_set_error_handler(NULL, NULL);
    bt_device_process processes[4];
    int count;
    bt_status status = bt_device_processes(device(one), processes, 4, &count);
    if (status == BT_OK) {
        assert_true(count >= 1); /* this one */
        return;
    }
    assert_int_equal(status, BT_UNIMPLEMENTED);
    lacks("which processes hold its memory is not told");
}

static void expect_beginning(const char *line, const char *then) {
    char head[128];
    snprintf(head, sizeof head, "%s%s", line, then);
    if (strncmp(bt_error_text(), head, strlen(head))) fail_msg("%s does not begin \"%s\"", head, bt_error_text());
}

static void a_copy_that_does_not_fit_leaves_both_sides_intact(void **state) {
    begin(state, "");
    OK(bt_set_memory_limit(device(two), 2 * MIB));
    BT_SCOPE {
        bt_array *x = megabytes(1, 4), *there = bt_to(bt_ones(BT_F32, 8), two);
        POISONED(bt_to(x, two), BT_RESOURCE_EXHAUSTED, with_name("out of memory on %s", two_name), "asked for 4 MiB");
        expect_beginning(HERE(-1), ": bt_to: "); /* who wanted it, not who made it */
        SAYS(bt_error_text(), with_name(", a copy from %s (made by bt_add at memory_kinds.h:", one_name));
        BT_ON(two) POISONED(bt_add(x, x), BT_RESOURCE_EXHAUSTED, "asked for 4 MiB");
        expect_beginning(HERE(-1), ": bt_add: ");
        all_are(x, 1);
        all_are(there, 1);
    }
}

int main(void) {
    static const memory_case each[] = {
        CASE(the_machines_memory_is_a_limit),
        CASE(the_report_says_everything),
        CASE(the_report_names_the_result_of_a_loop),
        CASE(a_plan_that_does_not_fit_leaves_no_trace),
        CASE(the_cache_is_given_up_before_failing),
        CASE(the_cache_is_given_up_when_the_device_is_full),
        CASE(nothing_takes_nothing),
        CASE(more_than_there_is_is_refused),
        CASE(settings_at_their_limits),
        CASE(asking_is_silent),
        CASE(a_copy_that_does_not_fit_leaves_both_sides_intact),
    };
    return run_on_each_kind(each, COUNT(each));
}
