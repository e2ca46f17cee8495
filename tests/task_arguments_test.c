// labels: threads
/* How many arguments a call takes, of which kinds, and how they are found. */
#include "support/support.h"

static void assert_ok(bt_status status) {
    if (status != BT_OK) fail_msg("%s", bt_error_text());
}

/* --- functions --------------------------------------------------------------------------------------------------------- */

/* Integers, in order: their count and sum; the last one is found alone as well. */
static bt_status add_all(bt_task *task) {
    int64_t sum = 0, last = 0;
    int count = bt_argument_count(task);
    for (int i = 0; i < count; i++) {
        int64_t x;
        bt_status status = bt_argument(task, i, &x);
        if (status != BT_OK) return status;
        sum += x;
    }
    bt_status status = bt_argument(task, count - 1, &last);
    char text[80];
    snprintf(text, sizeof text, "%d: %lld, %lld", count, (long long)sum, (long long)last);
    return status == BT_OK ? bt_return(task, text) : status;
}
BT_REMOTE(add_all);

/* Groups of five values of different kinds, read from the last one to the first. */
static bt_status check_mixed(bt_task *task) {
    int count = bt_argument_count(task);
    for (int i = count - 1; i >= 0; i--) {
        int64_t integer = 0;
        double real = 0;
        const char *text = "";
        bt_bytes bytes = {0};
        bt_array *array = NULL;
        bt_status status = BT_OK;
        bool right = false;
        switch (i % 5) {
        case 0: status = bt_argument(task, i, &integer), right = integer == i; break;
        case 1: status = bt_argument(task, i, &real), right = real == i + 0.5; break;
        case 2: status = bt_argument(task, i, &text), right = atoi(text) == i; break;
        case 3: status = bt_argument(task, i, &bytes), right = bytes.size == (size_t)i % 9; break;
        case 4: status = bt_argument(task, i, &array), right = status == BT_OK && bt_item(array) == i; break;
        }
        if (status != BT_OK) return status;
        if (!right) return bt_task_fail(task, BT_INTERNAL, "argument %d is another", i);
    }
    return bt_return(task, count);
}
BT_REMOTE(check_mixed);

static bt_status sixty_four(bt_task *task) {
    int x[64];
    bt_status status = bt_arguments(
        task, &x[0], &x[1], &x[2], &x[3], &x[4], &x[5], &x[6], &x[7], &x[8], &x[9], &x[10], &x[11], &x[12], &x[13],
        &x[14], &x[15], &x[16], &x[17], &x[18], &x[19], &x[20], &x[21], &x[22], &x[23], &x[24], &x[25], &x[26], &x[27],
        &x[28], &x[29], &x[30], &x[31], &x[32], &x[33], &x[34], &x[35], &x[36], &x[37], &x[38], &x[39], &x[40], &x[41],
        &x[42], &x[43], &x[44], &x[45], &x[46], &x[47], &x[48], &x[49], &x[50], &x[51], &x[52], &x[53], &x[54], &x[55],
        &x[56], &x[57], &x[58], &x[59], &x[60], &x[61], &x[62], &x[63]);
    if (status != BT_OK) return status;
    for (int i = 0; i < 64; i++)
        if (x[i] != i) return bt_task_fail(task, BT_INTERNAL, "argument %d is %d", i, x[i]);
    return bt_return(task, true);
}
BT_REMOTE(sixty_four);

static bt_status nothing_given(bt_task *task) {
    bt_status status = bt_arguments(task);
    return status == BT_OK ? bt_return(task, bt_argument_count(task)) : status;
}
BT_REMOTE(nothing_given);

static int start(void **unused) { return bt_runtime_init(.num_cpus = 2, .store_bytes = 128 << 20) != BT_OK; }
static int stop(void **unused) { return bt_runtime_shutdown() != BT_OK; }

/* --- counts ------------------------------------------------------------------------------------------------------------ */

static void a_call_takes_64_written_arguments(void **unused) {
    BT_SCOPE {
        bool right = false;
        int count = 1;
        assert_ok(
            bt_get(bt_remote(sixty_four, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                             22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44,
                             45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63),
                   &right));
        assert_true(right);
        assert_ok(bt_get(bt_remote(nothing_given), &count));
        assert_int_equal(count, 0);
    }
}

static void a_list_has_any_length(void **unused) {
    static const int counts[] = {1, 15, 16, 17, 18, 1000, 1000000};
    bt_item_value *values = calloc(1000000, sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < 1000000; i++) values[i] = BT_ITEM(i);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        BT_SCOPE {
            int64_t n = counts[c];
            const char *got;
            char expected[80];
            snprintf(expected, sizeof expected, "%lld: %lld, %lld", (long long)n, (long long)(n * (n - 1) / 2),
                     (long long)n - 1);
            assert_ok(bt_get(bt_remote_named(NULL, "add_all", NULL, values, counts[c]), &got));
            assert_string_equal(got, expected);
        }
    free(values);
}

static void long_lists_are_of_all_kinds(void **unused) {
    enum { COUNT = 500 };
    static char texts[COUNT][16];
    BT_SCOPE {
        bt_item_value values[COUNT];
        int count = 0;
        for (int i = 0; i < COUNT; i++) {
            snprintf(texts[i], sizeof texts[i], "%d", i);
            bt_bytes bytes = {"12345678", (size_t)i % 9};
            bt_item_value kinds[] = {BT_ITEM(i), BT_ITEM(i + 0.5), BT_ITEM(texts[i]), BT_ITEM(bytes),
                                     BT_ITEM(bt_full(i, BT_F32, 1))};
            values[i] = kinds[i % 5];
        }
        for (int some = 5; some <= COUNT; some += 165) {
            assert_ok(bt_get(bt_remote_named(NULL, "check_mixed", NULL, values, some), &count));
            assert_int_equal(count, some);
        }
    }
}

/* --- references -------------------------------------------------------------------------------------------------------- */

static bt_status one(bt_task *task) {
    int64_t n;
    bt_status status = bt_arguments(task, &n);
    if (status == BT_OK && n < 0) return bt_task_fail(task, BT_OUT_OF_RANGE, "%lld is negative", (long long)n);
    return status == BT_OK ? bt_return(task, n) : status;
}
BT_REMOTE(one);

/* Half a MB, which begins with its number. */
static bt_status large(bt_task *task) {
    static char data[1 << 19];
    int64_t n;
    bt_status status = bt_arguments(task, &n);
    bt_bytes bytes = {data, sizeof data};
    memcpy(data, &n, sizeof n);
    return status == BT_OK ? bt_return(task, bytes) : status;
}
BT_REMOTE(large);

static bt_status add_first_words(bt_task *task) {
    int64_t sum = 0;
    for (int i = 0; i < bt_argument_count(task); i++) {
        bt_bytes bytes;
        int64_t n;
        bt_status status = bt_argument(task, i, &bytes);
        if (status != BT_OK) return status;
        memcpy(&n, bytes.data, sizeof n);
        sum += n;
    }
    return bt_return(task, sum);
}
BT_REMOTE(add_first_words);

/* A call of that many references, which may wait for all of them. */
static bt_ref *call_with(bt_ref **refs, int count, const char *name) {
    bt_item_value *values = calloc((size_t)count, sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < count; i++) values[i] = BT_ITEM(refs[i]);
    bt_ref *result = bt_remote_named(NULL, name, NULL, values, count);
    free(values);
    return result;
}

static void many_references(void **unused) {
    static const int counts[] = {16, 17, 46, 47, 76, 1000, 10000};
    static bt_ref *refs[10000];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        BT_SCOPE {
            int64_t n = counts[c];
            const char *got;
            char expected[80];
            for (int i = 0; i < n; i++) refs[i] = i % 7 ? bt_put(i) : bt_remote(one, i);
            snprintf(expected, sizeof expected, "%lld: %lld, %lld", (long long)n, (long long)(n * (n - 1) / 2),
                     (long long)n - 1);
            assert_ok(bt_get(call_with(refs, counts[c], "add_all"), &got));
            assert_string_equal(got, expected);
        }
}

static void many_references_of_which_one_fails(void **unused) {
    BT_SCOPE {
        bt_ref *refs[100];
        for (int i = 0; i < 100; i++) refs[i] = bt_remote(one, i == 70 ? -5 : i);
        bt_ref *fails = call_with(refs, 100, "add_all");
        assert_int_equal(bt_get(fails, NULL), BT_OUT_OF_RANGE);
        if (!strstr(bt_error_text(), "-5 is negative")) fail_msg("%s", bt_error_text());
        for (int i = 0; i < 100; i++) refs[i] = bt_remote(one, i);
        bt_ref *cancelled = call_with(refs, 100, "add_all");
        assert_ok(bt_cancel(cancelled, false));
        bt_status status = bt_get(cancelled, NULL); /* it may have begun */
        assert_true(status == BT_CANCELLED || status == BT_OK);
    }
}

/* Of a store in which they fit with little else: some come back from disk for it. */
static void many_large_references(void **unused) {
    enum { COUNT = 200 };
    BT_SCOPE {
        bt_ref *refs[COUNT];
        int64_t sum = 0;
        for (int i = 0; i < COUNT; i++) refs[i] = bt_remote(large, i);
        for (int i = 0; i < 400; i++) /* others that need the store meanwhile */
            BT_SCOPE
                assert_ok(bt_get(bt_remote(large, i), NULL));
        assert_ok(bt_get(call_with(refs, COUNT, "add_first_words"), &sum));
        assert_int_equal(sum, COUNT * (COUNT - 1) / 2);
    }
}

/* --- misuse ------------------------------------------------------------------------------------------------------------ */

static void assert_refused(bt_ref *ref, const char *text) {
    assert_int_equal(bt_get(ref, NULL), BT_INVALID_ARGUMENT);
    if (!strstr(bt_error_text(), text)) fail_msg("%s", bt_error_text());
}

static void sizes_that_cannot_be_are_refused(void **unused) {
    BT_SCOPE {
        bt_bytes half = {"x", (SIZE_MAX >> 1) - 8}, all = {"x", SIZE_MAX - 8}, none = {NULL, 3};
        assert_refused(bt_remote(add_all, half, half), "more bytes than any memory");
        assert_refused(bt_remote(add_all, all), "more than any memory");
        assert_refused(bt_remote(add_all, 1, none), "value 2 is bytes at NULL");
        assert_refused(bt_put(all), "more than any memory");
        assert_refused(bt_remote_named(NULL, "add_all", NULL, NULL, 3), "NULL");
        assert_refused(bt_remote_named(NULL, "add_all", NULL, NULL, -1), "negative");
        static bt_item_value values[100001];
        bt_ref *same = bt_put(1);
        for (int i = 0; i < 100001; i++) values[i] = BT_ITEM(same);
        assert_refused(bt_remote_named(NULL, "add_all", NULL, values, 100001), "at most 100000");
        assert_ok(bt_get(bt_remote_named(NULL, "nothing_given", NULL, NULL, 0), NULL));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_takes_64_written_arguments),  cmocka_unit_test(a_list_has_any_length),
        cmocka_unit_test(long_lists_are_of_all_kinds),        cmocka_unit_test(many_references),
        cmocka_unit_test(many_references_of_which_one_fails), cmocka_unit_test(many_large_references),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
