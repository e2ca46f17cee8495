// timeout: 300
/* Endless loops run in bounded memory, each in its way; long chains overflow no stack. */
#include <unistd.h>

#include "support/support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ITERATIONS = 20000, WARM = 5000 };
#else
enum { ITERATIONS = 100000, WARM = 25000 };
#endif

static size_t resident_bytes(void) {
    long pages = 0, unused;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &unused, &pages), 2);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* What a process holds: measured once a loop is warm, and at its end. */
typedef struct holding {
    size_t resident, used, cached;
    uint64_t arrays;
} holding;

static holding now(void) {
    bt_synchronize();
    bt_memory_info info = memory("gpu:0");
    return (holding){resident_bytes(), info.used, info.cached, bt_live_arrays()};
}

static void expect_no_more(holding before, holding after) {
    assert_int_equal(after.arrays, before.arrays);
    assert_true(after.used <= before.used + 4096); /* a variable keeps some versions, by the moment */
    assert_true(after.cached <= before.cached + 4 * MIB);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* those keep what was freed */
    if (after.resident > before.resident + 8 * MIB)
        fail_msg("%zu MiB more are resident", (after.resident - before.resident) / MIB);
#endif
}

/* `body` for i from 0 on; a tenth of a second per pattern or two. */
#define LOOP(...)                              \
    do {                                       \
        holding before_ = {0};                 \
        for (int i = 0; i < ITERATIONS; i++) { \
            if (i == WARM) before_ = now();    \
            __VA_ARGS__;                       \
        }                                      \
        expect_no_more(before_, now());        \
    } while (0)

static void add_in_a_scope(int i) {
    BT_SCOPE {
        bt_array *x = bt_add(bt_full(i, BT_F32, 4), bt_num(1));
        if (i % 1000 == 0) READS(x, i + 1, i + 1, i + 1, i + 1);
    }
}

static void a_scope_around_the_body(void **state) {
    fresh("devices=sim:gpu*2@64M");
    LOOP(add_in_a_scope(i));
}

static void an_assigned_variable(void **state) {
    fresh("devices=sim:gpu*2@64M");
    bt_array *x = NULL;
    BT_SCOPE
        bt_assign(&x, bt_zeros(BT_F64, 4));
    LOOP({
        BT_SCOPE
            bt_assign(&x, bt_add(x, bt_num(1)));
    });
    READS(x, ITERATIONS, ITERATIONS, ITERATIONS, ITERATIONS);
    bt_assign(&x, NULL);
}

static void an_array_that_travels(void **state) {
    fresh("devices=sim:gpu*2@64M");
    bt_array *x = NULL;
    BT_SCOPE
        bt_assign(&x, BT_ARRAY(float, (2), 1, 2));
    LOOP({
        BT_SCOPE
            bt_assign(&x, bt_to(x, i % 2 ? "gpu:0" : "gpu:1"));
    });
    READS(x, 1, 2);
    bt_assign(&x, NULL);
}

static void a_shared_variable_that_is_set(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_zeros(BT_F64, 4), "gpu:0");
        LOOP({
            BT_SCOPE
                OK(bt_set(w, bt_add(bt_value(w), bt_num(1))));
        });
        READS(bt_value(w), ITERATIONS, ITERATIONS, ITERATIONS, ITERATIONS);
    }
}

static void call_with_updates(bt_function *f, bt_array *one, int i) {
    BT_SCOPE {
        bt_array *out = bt_call1(f, &one, 1);
        if (i % 5000 == 0) READS(out, i, i, i, i);
    }
}

static void a_function_with_updates(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_zeros(BT_F64, 4), "gpu:0");
        bt_array *x = bt_input(BT_F64, 4), *y = bt_mul(x, bt_value(w));
        bt_function *f = bt_function_new(&x, 1, &y, 1, &(bt_update){w, bt_add(bt_value(w), x)}, 1);
        bt_array *one = bt_ones(BT_F64, 4);
        OK(bt_block(one));
        LOOP(call_with_updates(f, one, i));
        READS(bt_value(w), ITERATIONS, ITERATIONS, ITERATIONS, ITERATIONS);
    }
}

static void a_function_of_its_own_result(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F64, -1), *y = bt_add(x, bt_num(1)), *state_now = NULL;
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        BT_SCOPE
            bt_assign(&state_now, bt_zeros(BT_F64, 4));
        LOOP({
            BT_SCOPE
                bt_assign(&state_now, bt_call1(f, &state_now, 1));
        });
        READS(state_now, ITERATIONS, ITERATIONS, ITERATIONS, ITERATIONS);
        bt_assign(&state_now, NULL);
    }
}

static void writes_to_one_array(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *x = bt_from(((const float[]){0, 0}), BT_F32, BT_SHAPE(2));
        LOOP({
            const float values[] = {(float)i, 1};
            OK(bt_write(x, values, sizeof values));
            if (i % 1000 == 0)
                BT_SCOPE
                    READS(bt_add(x, x), 2 * i, 2);
        });
    }
}

static void add_what_does_not_fit(bt_array *two, bt_array *three) {
    BT_SCOPE {
        bt_array *bad = bt_add(two, three);
        if (bt_eval(bad) != BT_INVALID_ARGUMENT) fail();
    }
}

static void errors_in_a_loop(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *two = bt_ones(BT_F32, 2), *three = bt_ones(BT_F32, 3);
        LOOP(add_what_does_not_fit(two, three));
    }
}

/* --- one scope ------------------------------------------------------------------------------------------------------------ */

static void a_long_chain_overflows_no_stack(void **state) {
    fresh("devices=sim:gpu*2@64M,flush_nodes=1000000000,flush_bytes=1000G,scope_notice=0");
    BT_SCOPE {
        bt_array *x = bt_zeros(BT_F64, 1), *one = bt_ones(BT_F64, 1);
        for (int i = 0; i < 100000; i++) x = bt_add(x, one);
        READS(x, 100000);
    }
    BT_SCOPE { /* and one that is never computed */
        bt_array *x = bt_zeros(BT_F64, 1);
        for (int i = 0; i < 100000; i++) x = bt_add(x, x);
    }
    bt_array *x = NULL; /* and one that only its end holds */
    BT_SCOPE
        bt_assign(&x, bt_zeros(BT_F64, 1));
    for (int i = 0; i < 100000; i++)
        BT_SCOPE
            bt_assign(&x, bt_add(x, bt_num(1)));
    bt_assign(&x, NULL);
    assert_int_equal(bt_live_arrays(), 0);
    assert_int_equal(memory("gpu:0").used, 0);
}

static void much_recorded_work_starts_by_itself(void **state) {
    fresh("devices=sim:gpu@64M,flush_nodes=100");
    BT_SCOPE {
        bt_array *x = bt_zeros(BT_F64, 4);
        for (int i = 0; i < 150; i++) x = bt_add(x, bt_num(1));
        assert_true(memory("gpu:0").used > 0); /* nobody asked for it */
        READS(x, 150, 150, 150, 150);
    }
    fresh("devices=sim:gpu@64M,flush_bytes=1M");
    BT_SCOPE {
        bt_array *x = bt_zeros(BT_F32, 16 * 1024); /* what is fused counts for a sixteenth */
        for (int i = 0; i < 300; i++) x = bt_add(x, bt_num(1));
        assert_true(memory("gpu:0").used > 0);
        READS(bt_max(x, BT_ALL, false), 300);
    }
}

/* A compiler that is opened when a loop is warm would count against it. */
static int open_compiler(void **state) {
    bt_compiler_info info = BT_COMPILER_INFO_INIT;
    return bt_compiler(true, &info) == BT_OK ? 0 : 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scope_around_the_body),
        cmocka_unit_test(an_assigned_variable),
        cmocka_unit_test(an_array_that_travels),
        cmocka_unit_test(a_shared_variable_that_is_set),
        cmocka_unit_test(a_function_with_updates),
        cmocka_unit_test(a_function_of_its_own_result),
        cmocka_unit_test(writes_to_one_array),
        cmocka_unit_test(errors_in_a_loop),
        cmocka_unit_test(a_long_chain_overflows_no_stack),
        cmocka_unit_test(much_recorded_work_starts_by_itself),
    };
    return cmocka_run_group_tests(tests, open_compiler, fresh_end);
}
