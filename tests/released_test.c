// labels: threads valgrind
/* What was released is not another: every use of a released array fails, and tells who made it and what released it. */
#include <math.h>
#include <pthread.h>

#include "support/support.h"

/* Released by the scope of that line, made on the next one. */
static bt_array *left_behind(const char **line) {
    bt_array *x = NULL;
    *line = HERE(1);
    BT_SCOPE
        x = bt_ones(BT_F32, 3);
    return x;
}

static void a_scope_ends_its_arrays(void **state) {
    fresh("");
    const char *scope, *made = HERE(-6);
    bt_array *x = left_behind(&scope);
    char text[256];
    snprintf(text, sizeof text, "the array made at %s was released at the end of its scope at %s", made, scope);
    BT_SCOPE {
        double item;
        float values[3];
        bt_array *others[64];
        for (int i = 0; i < 64; i++) others[i] = bt_full(7, BT_F32, 3);
        FAILS(bt_read(x, values, sizeof values), BT_INVALID_ARGUMENT, HERE(0), "bt_read", text, "bt_keep");
        FAILS(bt_write(x, values, sizeof values), BT_INVALID_ARGUMENT, HERE(0), text);
        FAILS(bt_eval(x), BT_INVALID_ARGUMENT, text);
        FAILS(bt_block(x), BT_INVALID_ARGUMENT, text);
        FAILS(bt_item_at(x, (const int64_t[]){0}, &item), BT_INVALID_ARGUMENT, text);
        POISONED(bt_add(others[0], x), BT_INVALID_ARGUMENT, text, "bt_add");
        POISONED(bt_sum(x, BT_ALL, false), BT_INVALID_ARGUMENT, text);
        POISONED(bt_to(x, "cpu"), BT_INVALID_ARGUMENT, text);
        POISONED(bt_concat(((bt_array *[]){others[0], x}), 2, 0), BT_INVALID_ARGUMENT, text);
        assert_true(isnan(bt_item(x)));
        SAYS(bt_error_text(), text);
        assert_null(bt_map(x));
        assert_null(bt_to_text(x));
        bt_error_clear();
        bt_print(x);
        SAYS(bt_error_text(), text);
        assert_int_equal(bt_peek_status(x), BT_INVALID_ARGUMENT);
        READS(others[63], 7, 7, 7);
    }
}

#define ASKED(call)                        \
    do {                                   \
        bt_error_clear();                  \
        assert_true(call);                 \
        SAYS(bt_error_text(), "released"); \
    } while (0)

static void questions_are_refused(void **state) {
    fresh("");
    const char *made;
    bt_array *x = left_behind(&made);
    ASKED(bt_rank(x) == -1);
    ASKED(bt_dtype_of(x) == BT_DTYPE_COUNT);
    ASKED(bt_shape_of(x).rank == 0);
    ASKED(bt_size(x, 0) == -1);
    ASKED(bt_count(x) == -1);
    ASKED(bt_device_of(x) == NULL);
    ASKED(bt_keep(x) == x);
}

static void a_release_by_hand_is_named(void **state) {
    fresh("");
    char text[256];
    const char *made, *released;
    bt_array *x = NULL, *y = NULL;
    BT_SCOPE {
        made = HERE(1);
        x = bt_retain(bt_ones(BT_F32, 3));
    }
    released = HERE(1);
    bt_release(x);
    snprintf(text, sizeof text, "the array made at %s was released by bt_release at %s", made, released);
    FAILS(bt_eval(x), BT_INVALID_ARGUMENT, text);
    bt_error_clear();
    bt_release(x); /* once more */
    SAYS(bt_error_text(), HERE(-1));
    SAYS(bt_error_text(), "bt_release: the array made at ");
    BT_SCOPE
        bt_assign(&y, bt_ones(BT_F32, 3));
    x = y;
    bt_assign(&y, NULL);
    snprintf(text, sizeof text, "was released by bt_assign at %s", HERE(-1));
    FAILS(bt_eval(x), BT_INVALID_ARGUMENT, text);
    assert_int_equal(bt_live_arrays(), 0);
}

static void the_scope_bears_a_release_too_many(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 3);
        bt_release(x);
        FAILS(bt_eval(x), BT_INVALID_ARGUMENT, "released by bt_release");
        bt_array *y = bt_ones(BT_F32, 3);
        READS(y, 1, 1, 1);
        bt_release(x);
    }
    assert_int_equal(bt_live_arrays(), 0);
}

/* What bt_retain and bt_assign give instead carries the cause for as long as it is held. */
static void a_released_array_cannot_be_retained(void **state) {
    fresh("");
    const char *made;
    bt_array *x = left_behind(&made), *slot = NULL;
    bt_array *y = bt_retain(x);
    SAYS(bt_error_text(), "bt_retain: the array made at");
    assert_ptr_not_equal(x, y);
    bt_assign(&slot, x);
    for (int i = 0; i < 200000; i++)
        BT_SCOPE(void) bt_num(i);
    POISONED(y, BT_INVALID_ARGUMENT, made, "released");
    POISONED(slot, BT_INVALID_ARGUMENT, made, "released");
    bt_release(y);
    bt_assign(&slot, NULL);
    assert_int_equal(bt_live_arrays(), 0);
}

static void the_last_65536_are_told_apart(void **state) {
    fresh("");
    const char *made;
    bt_array *x = left_behind(&made);
    for (int i = 0; i < 65536; i++)
        BT_SCOPE(void) bt_num(i);
    FAILS(bt_eval(x), BT_INVALID_ARGUMENT, made);
}

/* --- threads -------------------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, ARRAYS = 2000 };
static bt_array *raced[ARRAYS];
static pthread_barrier_t start;

static void *release_all(void *refused) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < ARRAYS; i++) {
        bt_error_clear();
        bt_release(raced[i]);
        *(int *)refused += bt_error_status() == BT_INVALID_ARGUMENT;
    }
    return NULL;
}

static void of_several_threads_one_releases(void **state) {
    fresh("");
    pthread_t threads[THREADS];
    int refused[THREADS] = {0}, all = 0;
    BT_SCOPE
        for (int i = 0; i < ARRAYS; i++) raced[i] = bt_retain(bt_num(i)); /* with one owner more: the scope */
    for (int i = 0; i < ARRAYS; i++) assert_non_null(raced[i]);
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, release_all, &refused[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all += refused[i];
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(all, (THREADS - 1) * ARRAYS);
    assert_int_equal(bt_live_arrays(), 0);
}

/* Others release what this thread's scope ends. */
static void a_scope_and_threads_release_the_same(void **state) {
    fresh("");
    pthread_t threads[THREADS - 1];
    int refused[THREADS - 1] = {0}, all = 0;
    pthread_barrier_init(&start, NULL, THREADS);
    BT_SCOPE {
        for (int i = 0; i < ARRAYS; i++) raced[i] = bt_num(i);
        for (int i = 0; i < THREADS - 1; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, release_all, &refused[i]), 0);
        pthread_barrier_wait(&start);
    }
    for (int i = 0; i < THREADS - 1; i++) {
        pthread_join(threads[i], NULL);
        all += refused[i];
    }
    pthread_barrier_destroy(&start);
    assert_true(all >= (THREADS - 2) * ARRAYS);
    assert_int_equal(bt_live_arrays(), 0);
}

static void *leave(void *x) {
    *(bt_array **)x = bt_ones(BT_F32, 3);
    return NULL;
}

static void a_thread_ends_its_arrays(void **state) {
    fresh("");
    pthread_t thread;
    bt_array *x = NULL;
    assert_int_equal(pthread_create(&thread, NULL, leave, &x), 0);
    pthread_join(thread, NULL);
    FAILS(bt_eval(x), BT_INVALID_ARGUMENT, "released at the end of its thread");
    x = bt_ones(BT_F32, 3);
    OK(bt_shutdown());
    FAILS(bt_eval(x), BT_INVALID_ARGUMENT, "released by bt_shutdown at ", HERE(-1));
}

/* --- strict mode ----------------------------------------------------------------------------------------------------------- */

static int heard;
static char heard_text[512];
static void hear(bt_status status, const char *text, void *data) {
    (void)status;
    (void)data;
    heard++;
    snprintf(heard_text, sizeof heard_text, "%s", text);
}

#define HEARD_ONCE(call)            \
    do {                            \
        heard = 0;                  \
        (void)(call);               \
        assert_int_equal(heard, 1); \
        SAYS(heard_text, HERE(0));  \
    } while (0)

static void a_mistake_is_heard_of_once(void **state) {
    fresh("strict=on");
    bt_set_error_handler(hear, NULL);
    const char *made;
    bt_array *x = left_behind(&made);
    float values[3];
    BT_SCOPE {
        bt_array *y = bt_ones(BT_F32, 3);
        HEARD_ONCE(bt_to(y, "gpu:77"));
        HEARD_ONCE(!bt_read(x, values, sizeof values));
        HEARD_ONCE(bt_add(x, y));
        HEARD_ONCE(bt_matmul(y, x));
        HEARD_ONCE(bt_gelu(x));
        HEARD_ONCE(bt_softmax(x, -1));
        HEARD_ONCE(bt_mean(x, BT_ALL, false));
        HEARD_ONCE(bt_add(NULL, y));
        HEARD_ONCE(bt_add(x, x));
        HEARD_ONCE(bt_softmax(NULL, -1));
        HEARD_ONCE(bt_gelu(NULL));
        HEARD_ONCE(bt_cross_entropy(NULL, y));
        HEARD_ONCE(bt_mse(y, x));
    }
    bt_set_error_handler(NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scope_ends_its_arrays),
        cmocka_unit_test(questions_are_refused),
        cmocka_unit_test(a_release_by_hand_is_named),
        cmocka_unit_test(the_scope_bears_a_release_too_many),
        cmocka_unit_test(a_released_array_cannot_be_retained),
        cmocka_unit_test(the_last_65536_are_told_apart),
        cmocka_unit_test(of_several_threads_one_releases),
        cmocka_unit_test(a_scope_and_threads_release_the_same),
        cmocka_unit_test(a_thread_ends_its_arrays),
        cmocka_unit_test(a_mistake_is_heard_of_once),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
