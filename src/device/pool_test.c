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
        void *memory = aligned_alloc(BTI_POOL_ALIGN, bytes);
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

static bti_pool *new_pool_of(source_state *source, size_t capacity, size_t limit, bool caches) {
    *source = (source_state){.capacity = capacity};
    bti_pool *pool = bti_pool_new(3, "GPU:3", (bti_pool_source){source, source_alloc, source_free}, limit, caches);
    assert_non_null(pool);
    return pool;
}

static bti_pool *new_pool(source_state *source, size_t capacity, size_t limit) {
    return new_pool_of(source, capacity, limit, true);
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
    bti_block *a = take(pool, 1), *b = take(pool, 257), *c = take(pool, 0);
    assert_int_equal(a->bytes, 1);
    assert_int_equal(a->capacity, 256);
    assert_int_equal(b->capacity, 512);
    assert_int_equal(c->capacity, 256);
    assert_int_equal(a->device, 3);
    assert_int_equal((a->address | b->address | c->address) % 256, 0);
    assert_int_equal(bti_pool_count(pool).used, 1024);
    assert_int_equal(source.given, 2 * MIB);
    uint64_t address = b->address;
    bti_pool_give(pool, b, 0);
    b = take(pool, 400);
    assert_int_equal(b->address, address);
    check(pool);
    bti_pool_give(pool, a, 0);
    bti_pool_give(pool, b, 0);
    bti_pool_give(pool, c, 0);
    assert_int_equal(bti_pool_count(pool).peak, 1024);
    assert_int_equal(bti_pool_count(pool).largest_free, 2 * MIB); /* joined again */
    check(pool);
    bti_pool_delete(pool);
    assert_int_equal(source.given, 0);
}

static void the_best_fit_is_taken(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    static const size_t sizes[] = {8 * 256, 256, 3 * 256, 256, 4 * 256, 256, 6 * 256, 256};
    bti_block *blocks[8];
    for (int i = 0; i < 8; i++) blocks[i] = take(pool, sizes[i]);
    uint64_t four = blocks[4]->address;
    for (int i = 0; i < 8; i += 2) bti_pool_give(pool, blocks[i], 0);
    bti_block *got = take(pool, 4 * 256 - 3);
    assert_int_equal(got->address, four);
    got = take(pool, 5 * 256); /* from the six, whose rest stays free */
    assert_int_equal(got->address, blocks[5]->address + 256);
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
    bti_block *a = take(pool, 64), *b = take(pool, 500), *c;
    assert_int_equal(bti_pool_take(pool, 300, 0, BTI_ANY_BLOCK, &c), BT_RESOURCE_EXHAUSTED);
    assert_true(source.most <= 1000);
    bti_pool_give(pool, a, 0);
    bti_pool_give(pool, b, 0);
    c = take(pool, 700);
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
    assert_non_null(strstr(bt_error_text(), "the device reports: the source is empty"));
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
    assert_int_equal(bti_pool_release(pool, 7), 2 * MIB);
    assert_int_equal(source.given, 0);
    check(pool);
    bti_pool_delete(pool);
}

static bti_block *take_at(bti_pool *pool, size_t bytes, uint64_t at) {
    bti_block *block;
    if (bti_pool_take_at(pool, bytes, UINT64_MAX, at, &block) != BT_OK) fail_msg("%s", bt_error_text());
    check(pool);
    return block;
}

static void an_address_is_taken_again(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    bti_block *all[8];
    for (int i = 0; i < 8; i++) all[i] = take(pool, 1000);
    uint64_t third = all[3]->address, fifth = all[5]->address;
    for (int i = 1; i < 7; i++) bti_pool_give(pool, all[i], 0); /* one block now, of six */
    all[5] = take_at(pool, 1000, fifth);
    all[3] = take_at(pool, 500, third);
    assert_true(all[5]->address == fifth && all[3]->address == third);
    assert_true(take_at(pool, 1000, fifth)->address != fifth);             /* in use */
    assert_true(take_at(pool, 2000, third + 512)->address != third + 512); /* longer than what is free there */
    assert_true(take_at(pool, 1000, 256)->address != 256);                 /* nowhere */
    bti_block *large = take(pool, 4 * MIB);
    uint64_t first = large->address;
    bti_pool_give(pool, large, 0);
    assert_true(take_at(pool, 1000, first)->address != first); /* small ones keep to themselves */
    large = take_at(pool, 4 * MIB, first);
    assert_true(large->address == first);
    bti_pool_give(pool, large, 0);
    bti_block *middle = take_at(pool, 2 * MIB, first + MIB);
    assert_true(middle->address == first + MIB);
    bti_pool_give(pool, middle, 0);
    assert_true(take_at(pool, 4 * MIB, first)->address == first); /* joined again */
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

/* --- against a model ---------------------------------------------------------------------------------------------- */

#define LIMIT (48 * MIB)

/* The blocks in use, by address, with the bytes that they take. */
typedef struct {
    bti_block *blocks[400];
    int count;
    size_t used, peak, refused, again;
    uint64_t given; /* an address that was */
} model;

static void model_add(model *m, bti_block *block) {
    int at = m->count;
    while (at > 0 && m->blocks[at - 1]->address > block->address) at--;
    const bti_block *left = at > 0 ? m->blocks[at - 1] : NULL, *right = at < m->count ? m->blocks[at] : NULL;
    if (left) assert_true(left->address + left->capacity <= block->address);
    if (right) assert_true(block->address + block->capacity <= right->address);
    memmove(m->blocks + at + 1, m->blocks + at, (size_t)(m->count - at) * sizeof *m->blocks);
    m->blocks[at] = block;
    m->count++;
    m->used += block->capacity;
    if (m->used > m->peak) m->peak = m->used;
}

static bti_block *model_remove(model *m, int at) {
    bti_block *block = m->blocks[at];
    m->used -= block->capacity;
    memmove(m->blocks + at, m->blocks + at + 1, (size_t)(--m->count - at) * sizeof *m->blocks);
    return block;
}

/* Small ones, some of them large, few very large. */
static size_t random_bytes(uint64_t *seed) {
    uint64_t kind = next_random(seed) % 16, number = next_random(seed);
    return kind < 11 ? number % 5000 : kind < 14 ? number % MIB : kind < 15 ? number % (6 * MIB) : number % (20 * MIB);
}

static void random_step(bti_pool *pool, model *m, uint64_t *seed, uint64_t completed) {
    bti_block *block;
    if (m->count == 400 || (m->count && next_random(seed) % 9 < 4)) {
        block = model_remove(m, (int)(next_random(seed) % (uint64_t)m->count));
        if (next_random(seed) % 4 == 0) m->given = block->address + next_random(seed) % 2 * BTI_POOL_ALIGN;
        bti_pool_give(pool, block, completed + next_random(seed) % 8);
        return;
    }
    size_t bytes = random_bytes(seed);
    bti_pool_wish wish = (bti_pool_wish)(next_random(seed) % 3);
    bool at = wish == BTI_ANY_BLOCK && m->given;
    if ((at ? bti_pool_take_at(pool, bytes, completed, m->given, &block)
            : bti_pool_take(pool, bytes, completed, wish, &block)) != BT_OK) {
        m->refused++;
        return;
    }
    m->again += at && block->address == m->given;
    assert_true(block->capacity >= bytes && block->bytes == bytes && block->address % BTI_POOL_ALIGN == 0);
    assert_int_equal(block->capacity, bti_pool_block_bytes(bytes, LIMIT));
    if (wish == BTI_LAUNCHED_ONLY) assert_true(block->busy_until <= completed);
    model_add(m, block);
}

/* All is free: nothing stays when it is trimmed, and then the largest block that there can be is there again. */
static void expect_empty(bti_pool *pool, const source_state *source) {
    bti_block *all;
    assert_int_equal(bti_pool_count(pool).used, 0);
    bti_pool_release(pool, UINT64_MAX);
    assert_int_equal(bti_pool_count(pool).cached, 0);
    assert_int_equal(bti_pool_count(pool).largest_free, 0);
    assert_int_equal(bti_pool_count(pool).segments, 0);
    assert_int_equal(source->given, 0);
    assert_int_equal(bti_pool_take(pool, LIMIT, UINT64_MAX, BTI_ANY_BLOCK, &all), BT_OK);
    bti_pool_give(pool, all, 0);
    check(pool);
}

static void any_order_of_blocks_keeps_the_books(void **state) {
    (void)state;
    for (uint64_t run = 1; run <= 12; run++) {
        source_state source;
        bti_pool *pool = new_pool(&source, SIZE_MAX, LIMIT);
        model m = {0};
        uint64_t seed = run * UINT64_C(88172645463325252);
        for (int step = 0; step < 4000; step++) {
            random_step(pool, &m, &seed, (uint64_t)step / 4);
            bti_pool_counters count = bti_pool_count(pool);
            assert_int_equal(count.used, m.used);
            assert_int_equal(count.peak, m.peak);
            assert_int_equal(count.used + count.cached, source.given);
            assert_true(count.largest_free <= count.cached);
            if (step % 16 == 0) check(pool);
            if (step % 1000 == 999) bti_pool_release(pool, (uint64_t)step / 4);
        }
        assert_true(source.most <= LIMIT);
        assert_true(m.refused > 10 && m.refused < 3000);
        assert_true(m.again > 50);
        while (m.count) bti_pool_give(pool, model_remove(&m, m.count - 1), next_random(&seed) % 2000);
        check(pool);
        expect_empty(pool, &source);
        bti_pool_delete(pool);
        bt_error_clear();
    }
}

/* A request that finds nothing under the limit gets what is free and idle, in whatever pieces it lies. */
static void what_is_free_can_be_had(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 16 * MIB);
    bti_block *small[14], *large[12], *all;
    for (int i = 0; i < 14; i++) assert_int_equal(bti_pool_take(pool, 8, 0, BTI_IDLE_IF_CHEAP, &small[i]), BT_OK);
    assert_int_equal(source.given, 2 * MIB); /* they share it */
    for (int i = 0; i < 12; i++) large[i] = take(pool, MIB);
    for (int i = 0; i < 12; i++) bti_pool_give(pool, large[i], (uint64_t)(i * 7 % 12));
    assert_int_equal(bti_pool_count(pool).used, 14 * 256);
    take(pool, 14 * MIB);
    check(pool);
    bti_pool_delete(pool);
    /* joined in one segment, and split again */
    pool = new_pool(&source, SIZE_MAX, 0);
    all = take(pool, 12 * MIB);
    bti_pool_give(pool, all, 1);
    for (int i = 0; i < 12; i++) large[i] = take(pool, MIB);
    assert_int_equal(source.calls, 1);
    for (int i = 0; i < 12; i++) bti_pool_give(pool, large[i], (uint64_t)(i * 7 % 12 + 2));
    assert_int_equal(bti_pool_count(pool).largest_free, 12 * MIB);
    all = take(pool, 12 * MIB);
    assert_int_equal(source.calls, 1);
    assert_int_equal(all->busy_until, 13);
    check(pool);
    bti_pool_delete(pool);
}

/* What is idle is not joined with what is not, as long as there is another way. */
static void idle_blocks_stay_idle(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    bti_block *whole = take(pool, 4 * MIB), *a, *b, *got;
    bti_pool_give(pool, whole, 0);
    a = take(pool, 2 * MIB), b = take(pool, 2 * MIB);
    uint64_t idle = b->address;
    bti_pool_give(pool, a, 9);
    bti_pool_give(pool, b, 3);
    assert_int_equal(bti_pool_take(pool, 2 * MIB, 5, BTI_IDLE_IF_CHEAP, &got), BT_OK);
    assert_int_equal(got->address, idle);
    assert_int_equal(got->busy_until, 3);
    check(pool);
    bti_pool_delete(pool);
}

/* Small blocks do not keep large segments. */
static void small_blocks_keep_to_themselves(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    bti_block *large = take(pool, 8 * MIB), *small;
    bti_pool_give(pool, large, 0);
    small = take(pool, 100);
    assert_int_equal(source.given, 10 * MIB);
    assert_int_equal(bti_pool_release(pool, UINT64_MAX), 8 * MIB);
    bti_pool_give(pool, small, 0);
    assert_int_equal(bti_pool_release(pool, UINT64_MAX), 2 * MIB);
    /* at the limit they lie anywhere rather than fail */
    bti_pool_set_limit(pool, 8 * MIB);
    large = take(pool, 8 * MIB);
    bti_pool_give(pool, large, 0);
    large = take(pool, 7 * MIB);
    small = take(pool, 100);
    assert_true(source.given <= 8 * MIB);
    bti_pool_give(pool, large, 0);
    bti_pool_give(pool, small, 0);
    check(pool);
    bti_pool_delete(pool);
}

/* Each thread marks what it holds from end to end; nobody else writes there. */
static void *hammer(void *data) {
    bti_pool *pool = data;
    bti_block *blocks[16] = {0};
    uint64_t seed = (uint64_t)(uintptr_t)&blocks | 1;
    for (int i = 0; i < 3000; i++) {
        int slot = (int)(next_random(&seed) % 16);
        bti_block *b = blocks[slot];
        if (b) {
            const volatile bti_block **first = (void *)(uintptr_t)b->address,
                                     **last = (void *)(uintptr_t)(b->address + b->capacity - 8);
            assert_true(*first == b && *last == b);
            bti_pool_give(pool, b, next_random(&seed) % 50);
            blocks[slot] = NULL;
            if (i % 100 == 0) bti_pool_release(pool, next_random(&seed) % 50);
            continue;
        }
        size_t bytes = random_bytes(&seed) / 4;
        if (bti_pool_take(pool, bytes, 25, (bti_pool_wish)(next_random(&seed) % 3), &b) != BT_OK) continue;
        blocks[slot] = b;
        *(bti_block **)(uintptr_t)b->address = b;
        *(bti_block **)(uintptr_t)(b->address + b->capacity - 8) = b;
        assert_true(bti_pool_count(pool).used >= b->capacity);
    }
    for (int i = 0; i < 16; i++)
        if (blocks[i]) bti_pool_give(pool, blocks[i], 0);
    bt_error_clear();
    return NULL;
}

static void without_a_cache_blocks_stand_alone(void **state) {
    (void)state;
    source_state source;
    bti_block *a, *b, *c;
    bti_pool *pool = new_pool_of(&source, SIZE_MAX, 5 * MIB, false);
    assert_int_equal(bti_pool_take(pool, 1001, 0, BTI_ANY_BLOCK, &a), BT_OK);
    assert_int_equal(bti_pool_take(pool, 3 * MIB + 1, 0, BTI_ANY_BLOCK, &b), BT_OK);
    assert_int_equal(source.given, 1001 + 3 * MIB + 1); /* exactly */
    assert_int_equal(bti_pool_count(pool).used, 1024 + 3 * MIB + 4096);
    bti_pool_give(pool, b, 5);
    check(pool);
    assert_int_equal(bti_pool_take(pool, 3 * MIB, 4, BTI_ANY_BLOCK, &c), BT_RESOURCE_EXHAUSTED); /* b is still used */
    assert_int_equal(bti_pool_take(pool, 3 * MIB, 5, BTI_LAUNCHED_ONLY, &c), BT_RESOURCE_EXHAUSTED);
    assert_int_equal(source.given, 1001 + 3 * MIB + 1);
    assert_int_equal(bti_pool_take(pool, 0, 5, BTI_IDLE_IF_CHEAP, &c), BT_OK);
    assert_int_equal(source.given, 1001 + 1);
    assert_int_equal(bti_pool_scattered(pool), 0);
    bti_pool_give(pool, a, 6);
    bti_pool_give(pool, c, 0);
    assert_int_equal(bti_pool_release(pool, 5), 256);
    assert_int_equal(bti_pool_release(pool, 6), 1024);
    check(pool);
    assert_int_equal(source.given + bti_pool_count(pool).segments, 0);
    bti_pool_delete(pool);
    bt_error_clear();
}

static void many_threads(void **state) {
    (void)state;
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, LIMIT);
    source.real = true;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, hammer, pool), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    check(pool);
    assert_true(source.most <= LIMIT);
    expect_empty(pool, &source);
    bti_pool_delete(pool);
}

static void host_memory_may_fail_at_any_point(void **state) {
    (void)state;
    for (uint64_t nth = 1; nth < 30; nth++) {
        source_state source;
        bti_pool *pool = new_pool(&source, SIZE_MAX, 64 * MIB);
        bti_block *blocks[8] = {0};
        bti_alloc_fail_at(nth, false);
        for (int i = 0; i < 8; i++)
            (void)!bti_pool_take(pool, MIB - 256 + 256 * (size_t)i, 0, BTI_ANY_BLOCK, &blocks[i]);
        check(pool);
        for (int i = 0; i < 8; i++)
            if (blocks[i]) bti_pool_give(pool, blocks[i], 0);
        check(pool);
        bti_alloc_fail_at(0, false);
        bti_pool_delete(pool);
    }
    bt_error_clear();
}

/* Steps that each take one large block, of another size each time, and now and then one that stays; the device is some steps behind. What is held is close
 * to what was ever in use, and memory is seldom asked for. */
static void sizes_that_change_leave_nothing_behind(void **state) {
    (void)state;
    enum { STEPS = 10000, BEHIND = 8, KEPT_BLOCKS = 16 };
    source_state source;
    bti_pool *pool = new_pool(&source, SIZE_MAX, 0);
    bti_block *kept[KEPT_BLOCKS] = {0}, *block;
    size_t held = 0;
    srand(1);
    for (uint64_t step = 1; step <= STEPS; step++) {
        uint64_t done = step > BEHIND ? step - BEHIND : 0;
        if (bti_pool_take(pool, (100 + (size_t)rand() % 500) * MIB + 4096, done, BTI_ANY_BLOCK, &block) != BT_OK)
            fail_msg("%s", bt_error_text());
        if (step % 7 == 0) {
            bti_block **slot = &kept[rand() % KEPT_BLOCKS];
            if (*slot) bti_pool_give(pool, *slot, step);
            if (bti_pool_take(pool, (size_t)(rand() % 12000 + 1) << 10, done, BTI_ANY_BLOCK, slot) != BT_OK)
                fail_msg("%s", bt_error_text());
        }
        bti_pool_give(pool, block, step);
        if (step % 500 == 0) check(pool);
        if (step > STEPS / 2) held += source.given / (STEPS / 2);
    }
    bti_pool_counters count = bti_pool_count(pool);
    if (held > count.peak + count.peak / 7)
        fail_msg("%zu MiB are held on average; the most in use was %zu MiB", held / MIB, count.peak / MIB);

    if (source.calls >= STEPS / 20) fail_msg("%zu allocations", source.calls);
    for (int i = 0; i < KEPT_BLOCKS; i++)
        if (kept[i]) bti_pool_give(pool, kept[i], STEPS);
    assert_true(bti_pool_release(pool, STEPS) > 0);
    check(pool);
    assert_int_equal(source.given, 0);
    bti_pool_delete(pool);
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
        cmocka_unit_test(an_address_is_taken_again),
        cmocka_unit_test(reserved_memory_stays),
        cmocka_unit_test(any_order_of_blocks_keeps_the_books),
        cmocka_unit_test(what_is_free_can_be_had),
        cmocka_unit_test(idle_blocks_stay_idle),
        cmocka_unit_test(small_blocks_keep_to_themselves),
        cmocka_unit_test(without_a_cache_blocks_stand_alone),
        cmocka_unit_test(sizes_that_change_leave_nothing_behind),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(host_memory_may_fail_at_any_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
