// labels: threads
/* Numbers rise within a thread, no two are the same, and what is made of another thread's has a greater one. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ir/node.h"
#include "ir/sequence.h"

enum { THREADS = 4, EACH = 5000 };

static void *take_many(void *argument) {
    uint64_t *taken = argument, last = 0;
    for (int i = 0; i < EACH; i++) {
        taken[i] = bti_sequence_take(1, 0).sequence;
        if (taken[i] <= last) return "a number is not greater than the one before";
        last = taken[i];
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void numbers_are_given_once(void **state) {
    (void)state;
    static uint64_t taken[THREADS * EACH];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, take_many, taken + t * EACH), 0);
    for (int t = 0; t < THREADS; t++) {
        void *wrong;
        pthread_join(threads[t], &wrong);
        if (wrong) fail_msg("%s", (const char *)wrong);
    }
    qsort(taken, THREADS * EACH, sizeof *taken, by_value);
    for (int i = 1; i < THREADS * EACH; i++) assert_true(taken[i] > taken[i - 1]);
}

static void *make_leaf(void *unused) {
    (void)unused;
    return bti_node_new(BTI_OP_leaf, BT_F32, 0, NULL, 0, NULL, NULL);
}

static bti_node *leaf_of_another_thread(void) {
    pthread_t thread;
    void *leaf;
    assert_int_equal(pthread_create(&thread, NULL, make_leaf, NULL), 0);
    pthread_join(thread, &leaf);
    assert_non_null(leaf);
    return leaf;
}

static void users_are_greater(void **state) {
    (void)state;
    bti_node *own = make_leaf(NULL), *other = leaf_of_another_thread();
    bti_recorded before;
    bti_sequence_last(&before);
    bti_node *user = bti_node_new(BTI_OP_add, BT_F32, 0, NULL, 2, (bti_node *[]){own, other}, NULL);
    assert_true(user->sequence > own->sequence && user->sequence > other->sequence);
    assert_true(bti_node_is_since(user, &before));
    assert_false(bti_node_is_since(own, &before));
    assert_false(bti_node_is_since(other, &before)); /* whatever its number */
    bti_node_release(user);
    bti_node_release(other);
    bti_node_release(own);
}

/* What was there before a mark is not greater, whoever made it; what the thread makes afterwards is. */
static void marks_part_old_from_new(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        bti_node *other = leaf_of_another_thread();
        uint64_t mark = bti_sequence_mark();
        bti_node *own = make_leaf(NULL);
        assert_true(other->sequence <= mark && own->sequence > mark);
        assert_true(bti_sequence_take(3000, 0).sequence > own->sequence); /* more than a block */
        bti_node_release(own);
        bti_node_release(other);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_given_once), cmocka_unit_test(users_are_greater),
                                       cmocka_unit_test(marks_part_old_from_new)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
