// labels: valgrind
/* Who owns an object and when it ends; what checkers may see of it afterwards; when its memory is used again. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/owned.h"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_CHECK_MEM_IS_ADDRESSABLE(address, bytes) 0
#define VALGRIND_DISABLE_ERROR_REPORTING
#define VALGRIND_ENABLE_ERROR_REPORTING
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

typedef struct thing {
    bti_owned head;
    char body[64];
} thing;

static thing *make(void) {
    bti_enter("made.c", 7);
    thing *made = bti_owned_new(BTI_OWNED_LAYER, sizeof *made);
    (void)bti_leave(NULL);
    assert_non_null(made);
    return made;
}

static void end(thing *x, bti_end how) { bti_owned_end(&x->head, sizeof x->head, how, (bti_site){"/a/b/ended.c", 9}); }

static void refuses(const thing *x, const char *text) {
    const bti_error *error = bti_owned_error(&x->head, BTI_OWNED_LAYER);
    assert_int_equal(bti_error_code(error), BT_INVALID_ARGUMENT);
    if (!strstr(bti_error_message(error), text)) fail_msg("\"%s\" does not say \"%s\"", bti_error_message(error), text);
}

static void the_last_owner_ends_it(void **state) {
    (void)state;
    thing *x = make();
    assert_null(bti_owned_error(&x->head, BTI_OWNED_LAYER));
    assert_true(bti_owned_retain(&x->head));
    assert_int_equal(bti_owned_drop(&x->head), BTI_DROPPED_ONE);
    assert_int_equal(bti_owned_drop(&x->head), BTI_DROPPED_LAST);
    refuses(x, "the layer made at made.c:7 is being released by another thread");
    end(x, BTI_END_RELEASE);
    bti_enter("user.c", 1);
    refuses(x, "user.c:1: the layer made at made.c:7 was released by bt_layer_release at ended.c:9");
    (void)bti_leave(NULL);
    assert_false(bti_owned_retain(&x->head));
    assert_int_equal(bti_owned_drop(&x->head), BTI_DROPPED_NONE);
    assert_int_equal(bti_error_code(bti_owned_error(NULL, BTI_OWNED_LAYER)), BT_INVALID_ARGUMENT);
}

static thing *make_held(void) {
    thing *x = make();
    atomic_fetch_or(&x->head.word, BTI_WORD_HELD);
    return x;
}

/* Whoever comes last, the scope or who releases by hand, hands it on: once. */
static void a_scope_and_a_hand(void **state) {
    (void)state;
    thing *x = make_held();
    assert_int_equal(bti_owned_drop_held(&x->head), BTI_DROPPED_LAST);
    end(x, BTI_END_SCOPE);
    refuses(x, "was released at the end of its scope at ended.c:9; bt_layer_retain keeps it longer");

    x = make_held();
    assert_true(bti_owned_retain(&x->head));
    assert_int_equal(bti_owned_drop_held(&x->head), BTI_DROPPED_ONE);
    assert_int_equal(bti_owned_drop(&x->head), BTI_DROPPED_LAST);
    end(x, BTI_END_RELEASE);

    x = make_held(); /* by hand first: the scope ends before, and after, it is marked */
    assert_int_equal(bti_owned_drop(&x->head), BTI_DROPPED_LAST);
    assert_int_equal(bti_owned_drop_held(&x->head), BTI_DROPPED_NONE);
    assert_int_equal(atomic_load(&x->head.word), BTI_WORD_BUSY);
    end(x, BTI_END_RELEASE);
    assert_int_equal(atomic_load(&x->head.word), 0);
    x = make_held();
    assert_int_equal(bti_owned_drop(&x->head), BTI_DROPPED_LAST);
    end(x, BTI_END_RELEASE);
    assert_int_equal(atomic_load(&x->head.word), BTI_WORD_HELD);
    assert_int_equal(bti_owned_drop_held(&x->head), BTI_DROPPED_NONE);
    assert_int_equal(atomic_load(&x->head.word), 0);
    refuses(x, "released by bt_layer_release");
}

static void checkers_see_the_head_only(void **state) {
    (void)state;
    thing *x = make();
    x->body[5] = 1;
    assert_int_equal(bti_owned_drop(&x->head), BTI_DROPPED_LAST);
    end(x, BTI_END_SCOPE);
#if defined(__SANITIZE_ADDRESS__)
    assert_null(__asan_region_is_poisoned(&x->head, sizeof x->head));
    assert_true(__asan_address_is_poisoned(&x->body[5]));
#endif
    if (RUNNING_ON_VALGRIND) {
        assert_int_equal(VALGRIND_CHECK_MEM_IS_ADDRESSABLE(&x->head, sizeof x->head), 0);
        VALGRIND_DISABLE_ERROR_REPORTING;
        bool is_open = VALGRIND_CHECK_MEM_IS_ADDRESSABLE(&x->body[5], 1) == 0;
        VALGRIND_ENABLE_ERROR_REPORTING;
        assert_false(is_open);
    }
}

/* Objects of the kind whose memory is used again. */
static void memory_waits_for_65536_others(void **state) {
    (void)state;
    enum { KEPT = 65536, MOST = 100000 };
    static const void *seen[MOST];
    int count = 0, again = -1;
    for (; count < MOST && again < 0; count++) {
        bti_owned *x = bti_owned_new(BTI_OWNED_ARRAY, 56);
        assert_non_null(x);
        for (int i = 0; i < 64 && i < count && again < 0; i++) /* the first ones are the first to be used again */
            if (seen[i] == x) again = i;
        seen[count] = x;
        assert_int_equal(bti_owned_drop(x), BTI_DROPPED_LAST);
        bti_owned_end(x, sizeof *x, BTI_END_SCOPE, (bti_site){0});
        assert_true(again < 0 || count - again > KEPT);
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (!RUNNING_ON_VALGRIND) assert_true(again >= 0);
#endif
}

/* What this thread has released, in order. */
typedef struct releases {
    const void *seen[70000];
    int count;
} releases;

static void *release_many(void *argument) {
    releases *to = argument;
    for (to->count = 0; to->count < (int)(sizeof to->seen / sizeof *to->seen); to->count++) {
        bti_owned *x = bti_owned_new(BTI_OWNED_ARRAY, 48);
        if (!x || bti_owned_drop(x) != BTI_DROPPED_LAST) return "no object";
        to->seen[to->count] = x;
        bti_owned_end(x, sizeof *x, BTI_END_SCOPE, (bti_site){0});
    }
    return NULL;
}

static void release_on_another_thread(releases *to) {
    pthread_t thread;
    void *wrong;
    assert_int_equal(pthread_create(&thread, NULL, release_many, to), 0);
    pthread_join(thread, &wrong);
    assert_null(wrong);
}

/* Those of a thread that has ended are used again by others, as late. */
static void memory_of_other_threads_waits_too(void **state) {
    (void)state;
    static releases first, second;
    release_on_another_thread(&first);
    release_on_another_thread(&second);
    bool again = false;
    for (int i = 0; i < second.count && !again; i++)
        for (int k = 0; k < 64 && !again; k++) {
            again = second.seen[i] == first.seen[first.count - 5000 + k]; /* the first thread used older ones itself */
            if (again) assert_true(5000 - k - 1 + i >= 65536);
        }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (!RUNNING_ON_VALGRIND) assert_true(again);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_owner_ends_it),
        cmocka_unit_test(a_scope_and_a_hand),
        cmocka_unit_test(checkers_see_the_head_only),
        cmocka_unit_test(memory_waits_for_65536_others),
        cmocka_unit_test(memory_of_other_threads_waits_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
