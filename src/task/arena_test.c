// labels: threads
/* Records between processes, which are killed while they change them. */
#include "task/arena.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { COINS, MOST = 64, PURSES = 5, KILLS = 300 };

typedef struct coin {
    bti_free_record record;
    struct coin *next, *before;
    uint64_t value;
} coin;

/* Coins wander between purses; a purse knows their number and their sum. */
typedef struct purse {
    coin *first;
    uint32_t count;
    uint64_t sum;
} purse;

static bti_arena *arena;
static purse *purses;

static void add(purse *p, coin *c) {
    BTI_SET(arena, c->next, p->first);
    BTI_SET(arena, c->before, NULL);
    if (p->first) BTI_SET(arena, p->first->before, c);
    BTI_SET(arena, p->first, c);
    BTI_SET(arena, p->count, p->count + 1);
    BTI_SET(arena, p->sum, p->sum + c->value);
}

static coin *take(purse *p, uint32_t which) {
    coin *c = p->first;
    for (uint32_t i = 0; i < which; i++) c = c->next;
    if (c->next) BTI_SET(arena, c->next->before, c->before);
    if (c->before)
        BTI_SET(arena, c->before->next, c->next);
    else
        BTI_SET(arena, p->first, c->next);
    BTI_SET(arena, p->count, p->count - 1);
    BTI_SET(arena, p->sum, p->sum - c->value);
    return c;
}

static void wander(uint64_t random) {
    for (;;) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        purse *from = &purses[(random >> 33) % PURSES], *to = &purses[(random >> 40) % PURSES];
        bti_arena_lock(arena);
        if (from->count) {
            coin *c = take(from, (uint32_t)(random >> 48) % from->count);
            uint64_t value = c->value;
            if ((random >> 20) % 3 == 0) { /* the coin is another, of the same worth */
                bti_record_free(arena, COINS, c);
                c = bti_record_new(arena, COINS);
                c->value = value;
            }
            add(to, c);
        }
        bti_arena_unlock(arena);
    }
}

static void check(void) {
    uint64_t sum = 0;
    uint32_t count = 0, idle = 0;
    bti_arena_lock(arena);
    for (int p = 0; p < PURSES; p++) {
        uint64_t own = 0;
        uint32_t coins = 0;
        const coin *before = NULL;
        for (coin *c = purses[p].first; c; before = c, c = c->next) {
            assert_ptr_equal(c->before, before);
            own += c->value;
            assert_true(++coins <= MOST);
        }
        assert_int_equal(coins, purses[p].count);
        assert_int_equal(own, purses[p].sum);
        count += coins;
        sum += own;
    }
    const bti_records *r = &arena->records[COINS];
    for (bti_free_record *f = r->free; f; f = f->next) assert_true(++idle <= r->most);
    assert_int_equal(r->live, count);
    assert_int_equal(r->used, count + idle);
    bti_arena_unlock(arena);
    assert_int_equal(count, MOST);
    assert_int_equal(sum, MOST * (MOST - 1) / 2);
}

static void what_a_killed_process_began_is_taken_back(void **state) {
    for (int kill_number = 0; kill_number < KILLS; kill_number++) {
        pid_t children[2];
        fflush(NULL);
        for (int i = 0; i < 2; i++) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (!children[i]) wander((uint64_t)kill_number * 2 + (uint64_t)i);
        }
        usleep((useconds_t)(kill_number * 37 % 900));
        for (int i = 0; i < 2; i++) assert_int_equal(kill(children[i], SIGKILL), 0);
        for (int i = 0; i < 2; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
        check();
    }
    assert_true(arena->recoveries > 0); /* some died with the lock */
}

static void records_run_out(void **state) {
    bti_arena_lock(arena);
    void *last = NULL, *record;
    while ((record = bti_record_new(arena, 1)) != NULL) last = record;
    assert_int_equal(arena->records[1].live, 10);
    bti_record_free(arena, 1, last);
    assert_null(bti_record_new(arena, 1)); /* not before the end of what freed it */
    bti_arena_commit(arena);
    assert_ptr_equal(bti_record_new(arena, 1), last);
    bti_arena_unlock(arena);
    void *room;
    assert_int_equal(bti_arena_room(arena, (uint64_t)1 << 62, &room), BT_RESOURCE_EXHAUSTED);
}

static int begin(void **state) {
    if (bti_arena_open((uint64_t)1 << 30, &arena) != BT_OK) return -1;
    if (bti_arena_room(arena, PURSES * sizeof *purses, (void **)&purses) != BT_OK) return -1;
    if (bti_arena_reserve(arena, COINS, sizeof(coin), 4 * MOST) != BT_OK) return -1;
    if (bti_arena_reserve(arena, 1, 64, 10) != BT_OK) return -1;
    for (int i = 0; i < MOST; i++) {
        bti_arena_lock(arena);
        coin *c = bti_record_new(arena, COINS);
        c->value = (uint64_t)i;
        add(&purses[i % PURSES], c);
        bti_arena_unlock(arena);
    }
    return 0;
}

static int end(void **state) {
    bti_arena_close(arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_killed_process_began_is_taken_back),
                                       cmocka_unit_test(records_run_out)};
    return cmocka_run_group_tests(tests, begin, end);
}
