/* The cache: what leaves, what stays, and that nothing is freed while it is in use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/lru.h"

typedef struct object {
    bti_lru_entry entry;
    int key;
} object;

static int freed[64], freed_count;

static bool is_equal(const bti_lru_entry *entry, const void *key) {
    return ((const object *)entry)->key == *(const int *)key;
}
static void free_object(bti_lru_entry *entry) {
    freed[freed_count++ % 64] = ((object *)entry)->key;
    free(entry);
}
static bti_lru new_cache(size_t most_count, size_t most_bytes) {
    freed_count = 0;
    return (bti_lru){.equal = is_equal, .free = free_object, .most_count = most_count, .most_bytes = most_bytes};
}

/* Held by the caller. */
static object *add_held(bti_lru *lru, int key, uint64_t hash, size_t bytes) {
    object *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->key = key;
    bti_lru_entry_init(&o->entry);
    bti_lru_add(lru, &o->entry, hash, bytes);
    return o;
}
static void add(bti_lru *lru, int key, uint64_t hash, size_t bytes) {
    bti_lru_release(lru, &add_held(lru, key, hash, bytes)->entry);
}
static bool has(bti_lru *lru, int key, uint64_t hash) {
    object *o = bti_lru_find(lru, hash, &key);
    if (!o) return false;
    assert_int_equal(o->key, key);
    bti_lru_release(lru, &o->entry);
    return true;
}

static void the_one_used_longest_ago_leaves(void **state) {
    (void)state;
    bti_lru lru = new_cache(3, 0);
    for (int key = 0; key < 3; key++) add(&lru, key, (uint64_t)key, 0);
    assert_true(has(&lru, 0, 0));
    add(&lru, 3, 3, 0);
    assert_int_equal(freed_count, 1);
    assert_int_equal(freed[0], 1);
    assert_true(has(&lru, 0, 0) && !has(&lru, 1, 1) && has(&lru, 2, 2) && has(&lru, 3, 3));
    assert_int_equal(lru.count, 3);
    assert_int_equal(lru.evicted, 1);
    bti_lru_clear(&lru);
    assert_int_equal(freed_count, 4);
    assert_int_equal(lru.count, 0);
    add(&lru, 7, 7, 0); /* it can be used again */
    assert_true(has(&lru, 7, 7));
    bti_lru_clear(&lru);
}

static void bytes_bound_it_too(void **state) {
    (void)state;
    bti_lru lru = new_cache(0, 100);
    for (int key = 0; key < 10; key++) add(&lru, key, 5, 10);
    assert_int_equal(lru.bytes, 100);
    add(&lru, 10, 5, 35);
    assert_int_equal(lru.bytes, 95);
    assert_int_equal(freed_count, 4);
    add(&lru, 11, 5, 1000); /* larger than all room: the others leave for nothing, and it leaves at the next */
    assert_int_equal(lru.bytes, 1000);
    assert_int_equal(lru.count, 1);
    add(&lru, 12, 5, 1);
    assert_int_equal(lru.bytes, 1);
    bti_lru_clear(&lru);
    assert_int_equal(lru.bytes, 0);
    assert_int_equal(freed_count, 13);
}

static void equal_hashes_are_told_apart(void **state) {
    (void)state;
    bti_lru lru = new_cache(0, 0);
    for (int key = 0; key < 500; key++) add(&lru, key, (uint64_t)(key % 3), 0);
    for (int key = 0; key < 500; key++) assert_true(has(&lru, key, (uint64_t)(key % 3)));
    assert_false(has(&lru, 1, 2));
    assert_false(has(&lru, 500, 2));
    bti_lru_clear(&lru);
    assert_int_equal(freed_count, 500);
    for (int key = 0; key < 50; key++) assert_false(has(&lru, key, (uint64_t)(key % 3))); /* it begins anew */
    for (int key = 0; key < 50; key++) add(&lru, key, (uint64_t)(key % 3), 0);
    for (int key = 0; key < 50; key++) assert_true(has(&lru, key, (uint64_t)(key % 3)));
    bti_lru_clear(&lru);
    assert_int_equal(freed_count, 550);
}

static void what_is_in_use_is_not_evicted(void **state) {
    (void)state;
    bti_lru lru = new_cache(2, 0);
    object *held[3];
    for (int key = 0; key < 3; key++) held[key] = add_held(&lru, key, (uint64_t)key, 0);
    assert_int_equal(lru.count, 3); /* all are in use: too many stay */
    assert_int_equal(freed_count, 0);
    bti_lru_release(&lru, &held[1]->entry);
    assert_int_equal(freed_count, 0);
    add(&lru, 3, 3, 0); /* only number 1 can leave; it is not the oldest; 3 is held while it is added */
    assert_int_equal(freed_count, 1);
    assert_int_equal(freed[0], 1);
    bti_lru_release(&lru, &held[0]->entry);
    bti_lru_release(&lru, &held[2]->entry);
    add(&lru, 4, 4, 0);
    assert_int_equal(lru.count, 2);
    assert_true(has(&lru, 3, 3) && has(&lru, 4, 4));
    bti_lru_clear(&lru);
}

static void what_leaves_while_in_use_is_freed_by_the_last_user(void **state) {
    (void)state;
    bti_lru lru = new_cache(2, 0);
    object *removed = add_held(&lru, 1, 1, 8), *cleared = add_held(&lru, 2, 2, 8);
    bti_lru_retain(&cleared->entry);
    bti_lru_remove(&lru, &removed->entry);
    assert_false(has(&lru, 1, 1));
    assert_int_equal(lru.bytes, 8);
    add(&lru, 1, 1, 8); /* another of that key */
    bti_lru_clear(&lru);
    assert_int_equal(freed_count, 1);
    assert_int_equal(removed->key, 1);
    bti_lru_release(&lru, &removed->entry);
    bti_lru_release(&lru, &cleared->entry);
    assert_int_equal(freed_count, 2);
    bti_lru_release(&lru, &cleared->entry);
    assert_int_equal(freed_count, 3);
}

/* Without memory for buckets everything is found all the same. */
static void memory_that_is_short_costs_time_alone(void **state) {
    (void)state;
    bti_lru lru = new_cache(100, 0);
    bti_alloc_fail_at(1, true);
    for (int key = 0; key < 200; key++) add(&lru, key, (uint64_t)key, 0);
    bti_alloc_fail_at(0, false);
    assert_null(lru.buckets);
    assert_int_equal(lru.count, 100);
    for (int key = 0; key < 200; key++) assert_int_equal(has(&lru, key, (uint64_t)key), key >= 100);
    add(&lru, 200, 200, 0);
    assert_non_null(lru.buckets);
    for (int key = 101; key < 201; key++) assert_true(has(&lru, key, (uint64_t)key));
    bti_lru_clear(&lru);
    assert_int_equal(freed_count, 201);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_used_longest_ago_leaves),
        cmocka_unit_test(bytes_bound_it_too),
        cmocka_unit_test(equal_hashes_are_told_apart),
        cmocka_unit_test(what_is_in_use_is_not_evicted),
        cmocka_unit_test(what_leaves_while_in_use_is_freed_by_the_last_user),
        cmocka_unit_test(memory_that_is_short_costs_time_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
