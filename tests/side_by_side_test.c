// labels: threads
// timeout: 120
/* Work on the CPU that waits for nothing is done by the thread that wants it, beside what is ahead of it on the queue; and what that still reads stays as
 * it is meanwhile. */
#include <pthread.h>
#include <semaphore.h>

#include "support/support.h"

enum { ELEMENTS = 1 << 16 };

/* --- work that does not end before it is told ------------------------------------------------------------------------------ */

static struct { sem_t begun, open; } gate;

static bt_status copy_when_open(const bt_elements *inputs, int count, const bt_elements *outputs,
                                const bt_custom_args *args) {
    (void)count, (void)args;
    sem_post(&gate.begun);
    sem_wait(&gate.open);
    memcpy(outputs->data, inputs->data, (size_t)outputs->shape.size[0] * sizeof(float));
    return BT_OK;
}

static bt_status same_shape(const bt_elements *inputs, int count, bt_elements *outputs, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)outputs, (void)args;
    return BT_OK;
}

/* The queue of the CPU is at it from here on until it is opened. The result is a copy of x. */
static bt_array *begin_behind(bt_array *x) {
    sem_init(&gate.begun, 0, 0);
    sem_init(&gate.open, 0, 0);
    bt_custom *when_open = bt_custom_new(BT_CUSTOM(.name = "when_open", .run = copy_when_open, .shape = same_shape));
    bt_array *copy = bt_custom_call(when_open, &x, 1, NULL, 0);
    OK(bt_eval(copy));
    sem_wait(&gate.begun);
    return copy;
}

static void open_gate(void) { sem_post(&gate.open); }
/* Also where a test fails, so that the next one does not wait for its end. */
static int end_test(void **state) {
    (void)state;
    open_gate();
    return 0;
}

static bt_array *filled(double value) {
    bt_array *x = bt_full(value, BT_F32, ELEMENTS);
    OK(bt_block(x));
    return x;
}

static double sum_of(bt_array *x) { return bt_item(bt_sum(x, BT_ALL, false)); }

/* --- tests ------------------------------------------------------------------------------------------------------------------- */

static void results_come_before_what_is_ahead(void **state) {
    (void)state;
    fresh("default_device=cpu");
    BT_SCOPE {
        bt_array *x = filled(2), *in = bt_input(BT_F32, ELEMENTS), *out = bt_add(bt_mul(in, in), bt_num(1));
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
        bt_array *small = bt_from((float[]){1, 2, 3}, BT_F32, BT_SHAPE(3));
        bt_array *behind = begin_behind(x);
        READS(bt_add(small, small), 2, 4, 6);
        assert_true(sum_of(bt_mul(x, bt_num(3))) == 6.0 * ELEMENTS);
        assert_true(bt_item(bt_matmul(small, small)) == 14);
        assert_true(sum_of(bt_call1(f, &x, 1)) == 5.0 * ELEMENTS);
        open_gate();
        assert_true(sum_of(behind) == 2.0 * ELEMENTS);
    }
}

/* A result of what is ahead is waited for, in any number of steps. */
static void readers_of_what_is_ahead_wait(void **state) {
    (void)state;
    fresh("default_device=cpu");
    BT_SCOPE {
        bt_array *x = filled(2), *one = filled(1), *behind = begin_behind(x);
        bt_array *more = bt_mul(bt_add(behind, one), bt_add(x, one));
        OK(bt_eval(more));
        open_gate();
        assert_true(sum_of(more) == 9.0 * ELEMENTS);
    }
}

/* On the queue, as it waits for what is behind. No history is left, which would hold x. */
static bt_array *add_twice(bt_array *behind, bt_array *x) {
    bt_array *sum = NULL;
    BT_SCOPE {
        sum = bt_retain(bt_add(bt_add(x, behind), x));
        OK(bt_eval(sum));
    }
    return sum;
}

/* What an argument that is given up lies in is read by work ahead: it is not written over. */
static void donated_memory_stays_while_it_is_read(void **state) {
    (void)state;
    static const float twos[16] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    fresh("default_device=cpu");
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, 16), *out = bt_mul(in, bt_num(100));
        bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
        OK(bt_function_donate(f, 0));
        bt_array *warm = bt_call1(f, (bt_array *[]){bt_from(twos, BT_F32, BT_SHAPE(16))}, 1);
        assert_true(sum_of(warm) == 3200);
        for (int i = 0; i < 3; i++)
            BT_SCOPE {
                bt_array *x = bt_from(twos, BT_F32, BT_SHAPE(16)), *from = bt_full(1, BT_F32, 16);
                OK(bt_block(x));
                OK(bt_block(from));
                bt_array *behind = begin_behind(from);
                bt_array *reads = add_twice(behind, x);
                bt_array *made = bt_call1(f, &x, 1);
                assert_true(sum_of(made) == 3200);
                open_gate();
                assert_true(sum_of(reads) == 5 * 16);
                bt_release(reads);
            }
    }
}

/* Memory that runs on the queue gave back when they were submitted is theirs until they are over. */
static void memory_of_what_is_ahead_is_not_taken(void **state) {
    (void)state;
    fresh("default_device=cpu");
    BT_SCOPE {
        bt_array *x = filled(2), *behind = begin_behind(x), *pending[8];
        for (int i = 0; i < COUNT(pending); i++) {
            /* with temporaries: a sum is no part of one kernel with what reads it */
            bt_array *y = bt_add(behind, bt_num(i));
            pending[i] = bt_sub(y, bt_mean(y, BT_ALL, true));
            pending[i] = bt_add(pending[i], bt_sum(bt_square(y), BT_ALL, true));
            OK(bt_eval(pending[i]));
        }
        for (int i = 0; i < 50; i++)
            BT_SCOPE {
                bt_array *z = bt_add(x, bt_num(i));
                z = bt_sub(z, bt_mean(z, BT_ALL, true));
                assert_true(bt_item(bt_max(bt_abs(z), BT_ALL, false)) == 0);
            }
        open_gate();
        for (int i = 0; i < COUNT(pending); i++) {
            double expected = (2.0 + i) * (2.0 + i) * ELEMENTS;
            assert_true(bt_item(bt_min(pending[i], BT_ALL, false)) == expected);
            assert_true(bt_item(bt_max(pending[i], BT_ALL, false)) == expected);
        }
    }
}

/* A function that sets a variable runs beside the queue too; its results and the variable are there when it returns. */
static void variables_are_set_beside_what_is_ahead(void **state) {
    (void)state;
    fresh("default_device=cpu");
    BT_SCOPE {
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 4), NULL);
        bt_array *in = bt_input(BT_F32, 4), *next = bt_add(bt_value(w), in);
        bt_function *f = bt_function_new(&in, 1, &next, 1, (bt_update[]){{w, next}}, 1);
        bt_array *one = bt_ones(BT_F32, 4), *x = filled(1);
        OK(bt_block(one));
        for (int i = 0; i < 4; i++) READS(bt_call1(f, &one, 1), i + 1, i + 1, i + 1, i + 1);
        bt_array *behind = begin_behind(x);
        for (int i = 4; i < 8; i++) READS(bt_call1(f, &one, 1), i + 1, i + 1, i + 1, i + 1);
        READS(bt_value(w), 8, 8, 8, 8);
        open_gate();
        assert_true(sum_of(behind) == 1.0 * ELEMENTS);
    }
}

/* --- many threads ------------------------------------------------------------------------------------------------------------ */

enum { THREADS = 8, ROUNDS = 200, SIDE = 24 };

typedef struct shared_work {
    bt_function *f;
    bt_array *left, *from;
} shared_work;

static void *work(void *argument) {
    const shared_work *of = argument;
    for (int i = 0; i < ROUNDS; i++)
        BT_SCOPE {
            bt_array *x = bt_full(i % 7, BT_F32, SIDE, SIDE);
            bt_array *y = bt_call1(of->f, (bt_array *[]){bt_add(x, of->from)}, 1);
            double expected = (double)SIDE * SIDE * SIDE * (i % 7 + 1) * 2;
            if (sum_of(bt_matmul(of->left, y)) != expected) return "a wrong sum";
        }
    return NULL;
}

/* The same plans by all of them at once, and one array that all read. */
static void threads_share_plans(void **state) {
    (void)state;
    fresh("default_device=cpu");
    BT_SCOPE {
        bt_array *in = bt_input(BT_F32, SIDE, SIDE), *out = bt_mul(in, bt_num(2));
        shared_work of = {bt_function_new(&in, 1, &out, 1, NULL, 0), bt_ones(BT_F32, SIDE, SIDE),
                          bt_ones(BT_F32, SIDE, SIDE)};
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_create(&threads[t], NULL, work, &of), 0);
        for (int t = 0; t < THREADS; t++) {
            void *wrong;
            pthread_join(threads[t], &wrong);
            if (wrong) fail_msg("%s", (const char *)wrong);
        }
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, end_test)
    const struct CMUnitTest tests[] = {
        TEST(results_come_before_what_is_ahead),      TEST(readers_of_what_is_ahead_wait),
        TEST(donated_memory_stays_while_it_is_read),  TEST(memory_of_what_is_ahead_is_not_taken),
        TEST(variables_are_set_beside_what_is_ahead), TEST(threads_share_plans),
    };
#undef TEST
    return cmocka_run_group_tests_name("side_by_side", tests, NULL, fresh_end);
}
