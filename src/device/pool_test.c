// labels: threads
#include "device/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"

#define MIB ((size_t)1 << 20)

/* A source that counts what it gave; real memory behind it when `real`, so that overlaps show. */
typedef struct {
    size_t given, most, capacity, calls;
    bool real;
    uint64_t next;
} source_state;

static bt_status source_alloc(void *context, size_t bytes, uint64_t *address) {
    source_state *s = context;
    if (bytes > s->capacity - s->given) return bti_fail(BT_RESOURCE_EXHAUSTED, "the source is empty");
    s->calls++;
    if (s->real) {
        void *memory = aligned_alloc(64, bytes);
        assert_non_null(memory);
        *address = (uint64_t)(uintptr_t)memory;
    } else {
        *address = s->next += 4096;
        s->next += bytes;
    }
    s->given += bytes;
    if (s->given > s->most) s->most = s->given;
    return BT_OK;
}

static void source_free(void *context, uint64_t address, size_t bytes) {
    source_state *s = context;
    if (s->real) free((void *)(uintptr_t)address);
    s->given -= bytes;
}

static bti_pool *new_pool(source_state *source, size_t capacity, size_t limit) {
    *source = (source_state){.capacity = capacity};
    bti_pool *pool = bti_pool_new(3, "GPU:3", (bti_pool_source){source, source_alloc, source_free}, limit);
    assert_non_null(pool);
    return pool;
}

static bti_block *take(bti_pool *pool, size_t bytes) {
    bti_block *block;
    if (bti_pool_take(pool, bytes, UINT64_MAX, BTI_ANY_BLOCK, &block) != BT_OK) fail_msg("%s", bt_error_text());
    return block;
}

static void check(bti_pool *pool) {
    const char *wrong = bti_pool_verify(pool);
    if (wrong) fail_msg("%s", wrong);
}

static void blocks_are_aligned_rounded_and_reused(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    bti_block *a = take(pool, 1), *b = take(pool, 65), *c = take(pool, 0);
    assert_int_equal(a->bytes, 1);
    assert_int_equal(a->capacity, 64);
    assert_int_equal(b->capacity, 128);
    assert_int_equal(c->capacity, 64);
    assert_int_equal(a->device, 3);
    assert_int_equal((a->address | b->address | c->address) % 64, 0);
    assert_int_equal(bti_pool_count(pool).used, 256);
    assert_int_equal(source.given, MIB);
    uint64_t address = b->address;
    bti_pool_give(pool, b, 0);
    b = take(pool, 100);
    assert_int_equal(b->address, address);
    check(pool);
    bti_pool_give(pool, a, 0);
    bti_pool_give(pool, b, 0);
    bti_pool_give(pool, c, 0);
    assert_int_equal(bti_pool_count(pool).peak, 256);
    assert_int_equal(bti_pool_count(pool).largest_free, MIB); /* merged again */
    check(pool);
    bti_pool_delete(pool);
    assert_int_equal(source.given, 0);
}

static void the_best_fit_is_taken(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    static const size_t sizes[] = {8 * 64, 64, 3 * 64, 64, 4 * 64, 64, 6 * 64, 64};
    bti_block *blocks[8];
    for (int i = 0; i < 8; i++) blocks[i] = take(pool, sizes[i]);
    uint64_t four = blocks[4]->address;
    for (int i = 0; i < 8; i += 2) bti_pool_give(pool, blocks[i], 0);
    bti_block *got = take(pool, 4 * 64 - 3);
    assert_int_equal(got->address, four);
    got = take(pool, 5 * 64); /* from the six, whose rest stays free */
    assert_int_equal(got->address, blocks[5]->address + 64);
    check(pool);
    bti_pool_delete(pool);
}

static void the_limit_binds(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 10 * MIB);
    bti_block *blocks[10], *more;
    for (int i = 0; i < 10; i++) blocks[i] = take(pool, MIB);
    assert_int_equal(source.given, 10 * MIB);
    assert_int_equal(bti_pool_take(pool, 1, 0, BTI_ANY_BLOCK, &more), BT_RESOURCE_EXHAUSTED);
    assert_null(more);
    assert_non_null(strstr(bt_error_text(), "GPU:3: out of memory: 1 bytes asked for; in use 10 MiB"));
    assert_non_null(strstr(bt_error_text(), "limit 10 MiB"));
    bti_pool_give(pool, blocks[0], 5);
    /* the free one is too small, the others are in use; it is given back only when it is idle */
    assert_int_equal(bti_pool_take(pool, 2 * MIB, 4, BTI_ANY_BLOCK, &more), BT_RESOURCE_EXHAUSTED);
    bti_pool_give(pool, blocks[1], 5);
    assert_int_equal(bti_pool_take(pool, 2 * MIB, 4, BTI_ANY_BLOCK, &more), BT_RESOURCE_EXHAUSTED);
    bt_error_clear();
    assert_int_equal(bti_pool_take(pool, 2 * MIB, 5, BTI_ANY_BLOCK, &more), BT_OK);
    assert_int_equal(bt_error_status(), BT_OK); /* what failed on the way is forgotten */
    assert_int_equal(source.given, 10 * MIB);
    assert_int_equal(source.most, 10 * MIB);
    assert_int_equal(bti_pool_take(pool, SIZE_MAX, 5, BTI_ANY_BLOCK, &more), BT_RESOURCE_EXHAUSTED);
    assert_int_equal(bti_pool_take(pool, SIZE_MAX - 100, 5, BTI_ANY_BLOCK, &more), BT_RESOURCE_EXHAUSTED);
    check(pool);
    bti_pool_delete(pool);
    bt_error_clear();
}

static void small_limits_work(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 1000); /* below the size of a shared segment */
    bti_block *a = take(pool, 64), *b = take(pool, 800), *c;
    assert_int_equal(bti_pool_take(pool, 200, 0, BTI_ANY_BLOCK, &c), BT_RESOURCE_EXHAUSTED);
    assert_true(source.most <= 1000);
    bti_pool_give(pool, a, 0);
    bti_pool_give(pool, b, 0);
    c = take(pool, 900);
    assert_true(source.most <= 1000);
    check(pool);
    bti_pool_delete(pool);
    bt_error_clear();
}

static void an_empty_device_is_trimmed_for(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, 8 * MIB, 0);
    bti_block *a = take(pool, 4 * MIB), *b = take(pool, 4 * MIB);
    bti_pool_give(pool, a, 1);
    bti_pool_give(pool, b, 1);
    assert_int_equal(bti_pool_take(pool, 8 * MIB, 0, BTI_ANY_BLOCK, &a), BT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(bt_error_text(), "the device said: the source is empty"));
    assert_non_null(strstr(bt_error_text(), "cached 8 MiB (largest free block 4 MiB)"));
    bt_error_clear();
    assert_int_equal(bti_pool_take(pool, 8 * MIB, 1, BTI_ANY_BLOCK, &a), BT_OK);
    bti_pool_delete(pool);
}

static void idle_blocks_are_preferred(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    bti_block *a = take(pool, 4096), *wall = take(pool, 64), *b = take(pool, 4096), *wall2 = take(pool, 64), *got;
    uint64_t busy = a->address, idle = b->address;
    bti_pool_give(pool, b, 3);
    bti_pool_give(pool, a, 9);
    assert_int_equal(bti_pool_take(pool, 4096, 5, BTI_IDLE_IF_CHEAP, &got), BT_OK);
    assert_int_equal(got->address, idle);
    bti_pool_give(pool, got, 3);
    assert_int_equal(bti_pool_take(pool, 4096, 5, BTI_ANY_BLOCK, &got), BT_OK); /* in queue order, any will do */
    bti_pool_give(pool, got, 3);
    bti_pool_give(pool, wall, 0);
    bti_pool_give(pool, wall2, 0);
    assert_true(busy != idle);
    /* nothing is idle and there is a limit: a busy one rather than none */
    bti_pool_delete(pool);
    pool = new_pool(&source, SIZE_MAX, 4 * MIB);
    a = take(pool, 4 * MIB);
    bti_pool_give(pool, a, 9);
    assert_int_equal(bti_pool_take(pool, 4 * MIB, 5, BTI_IDLE_IF_CHEAP, &got), BT_OK);
    assert_int_equal(got->busy_until, 9);
    bti_pool_delete(pool);
}

static void merged_blocks_keep_the_later_number(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    bti_block *a = take(pool, MIB / 2), *b = take(pool, MIB / 2);
    bti_pool_give(pool, b, 7);
    bti_pool_give(pool, a, 2);
    assert_int_equal(bti_pool_release(pool, 6), 0);
    assert_int_equal(bti_pool_release(pool, 7), MIB);
    assert_int_equal(source.given, 0);
    check(pool);
    bti_pool_delete(pool);
}

static void reserved_memory_stays(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 8 * MIB);
    assert_int_equal(bti_pool_reserve(pool, 8 * MIB), BT_OK);
    assert_int_equal(bti_pool_reserve(pool, MIB), BT_RESOURCE_EXHAUSTED);
    assert_int_equal(bti_pool_count(pool).cached, 8 * MIB);
    bti_block *a = take(pool, 3 * MIB);
    assert_int_equal(source.calls, 1);
    assert_int_equal(bti_pool_count(pool).largest_free, 5 * MIB);
    bti_pool_give(pool, a, 0);
    assert_int_equal(bti_pool_release(pool, UINT64_MAX), 0);
    assert_int_equal(source.given, 8 * MIB);
    bti_pool_delete(pool);
    bt_error_clear();
}

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Against a shadow: every live block holds its own pattern to the end. */
static void random_stress(void **state) {
    (void)state;
    enum { LIVE = 300, STEPS = 60000 };
    static struct {
        bti_block *block;
        unsigned char pattern;
    } live[LIVE];
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 24 * MIB);
    source.real = true;
    uint64_t seed = 88172645463325252;
    size_t used = 0, refused = 0;
    for (int step = 0; step < STEPS; step++) {
        int slot = (int)(next_random(&seed) % LIVE);
        uint64_t completed = next_random(&seed) % 100;
        if (live[slot].block) {
            bti_block *b = live[slot].block;
            const unsigned char *memory = (const unsigned char *)(uintptr_t)b->address;
            if (b->bytes) {
                assert_int_equal(memory[0], live[slot].pattern);
                assert_int_equal(memory[b->bytes - 1], live[slot].pattern);
                assert_int_equal(memory[b->bytes / 2], live[slot].pattern);
            }
            used -= b->capacity;
            bti_pool_give(pool, b, completed);
            live[slot].block = NULL;
        } else {
            int power = (int)(next_random(&seed) % 21);
            size_t bytes = next_random(&seed) % ((size_t)2 << power);
            bti_block *b;
            if (bti_pool_take(pool, bytes, completed, next_random(&seed) & 1, &b) == BT_OK) {
                assert_true(b->capacity >= bytes && b->bytes == bytes && b->address % 64 == 0);
                live[slot].block = b;
                live[slot].pattern = (unsigned char)next_random(&seed);
                memset((void *)(uintptr_t)b->address, live[slot].pattern, b->capacity);
                used += b->capacity;
            } else {
                refused++;
            }
        }
        assert_int_equal(bti_pool_count(pool).used, used);
        if (step % 64 == 0) check(pool);
        if (step % 1000 == 0) bti_pool_release(pool, completed);
    }
    assert_true(source.most <= 24 * MIB);
    assert_true(refused > 10 && refused < STEPS / 4);
    for (int i = 0; i < LIVE; i++)
        if (live[i].block) bti_pool_give(pool, live[i].block, 0);
    check(pool);
    size_t given = source.given;
    assert_int_equal(bti_pool_release(pool, UINT64_MAX), given);
    assert_int_equal(source.given, 0);
    bti_pool_delete(pool);
    bt_error_clear();
}

static void *hammer(void *data) {
    bti_pool *pool = data;
    bti_block *blocks[16] = {0};
    uint64_t seed = (uint64_t)(uintptr_t)&blocks | 1;
    for (int i = 0; i < 5000; i++) {
        int slot = (int)(next_random(&seed) % 16);
        if (blocks[slot]) {
            bti_pool_give(pool, blocks[slot], 0);
            blocks[slot] = NULL;
        } else {
            (void)!bti_pool_take(pool, next_random(&seed) % 100000, 0, BTI_ANY_BLOCK, &blocks[slot]);
        }
    }
    for (int i = 0; i < 16; i++)
        if (blocks[i]) bti_pool_give(pool, blocks[i], 0);
    return NULL;
}

static void many_threads(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 4 * MIB);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, hammer, pool), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(bti_pool_count(pool).used, 0);
    check(pool);
    bti_pool_delete(pool);
}

static void host_memory_may_fail_at_any_point(void **state) {
    (void)state;
    for (uint64_t nth = 1; nth < 30; nth++) {
        source_state source;
        bti_pool *pool = new_pool(&source, SIZE_MAX, 64 * MIB);
        bti_block *blocks[8] = {0};
        bti_alloc_fail_at(nth, false);
        for (int i = 0; i < 8; i++) (void)!bti_pool_take(pool, MIB - 64 + 64 * (size_t)i, 0, BTI_ANY_BLOCK, &blocks[i]);
        check(pool);
        for (int i = 0; i < 8; i++)
            if (blocks[i]) bti_pool_give(pool, blocks[i], 0);
        check(pool);
        bti_alloc_fail_at(0, false);
        bti_pool_delete(pool);
    }
    bt_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_rounded_and_reused),
        cmocka_unit_test(the_best_fit_is_taken),
        cmocka_unit_test(the_limit_binds),
        cmocka_unit_test(small_limits_work),
        cmocka_unit_test(an_empty_device_is_trimmed_for),
        cmocka_unit_test(idle_blocks_are_preferred),
        cmocka_unit_test(merged_blocks_keep_the_later_number),
        cmocka_unit_test(reserved_memory_stays),
        cmocka_unit_test(random_stress),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(host_memory_may_fail_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
