/* Evaluations that come again: with plans kept by their keys, in turns with others that differ in scalars, in where arrays lie, in which are one
 * and in what is held, each gives the bits that it gives when everything is planned anew. */
#include <stdlib.h>

#include "array/plan_cache.h"
#include "random_programs/program.h"

static bt_array *scaled(bt_array *leaf, double by) {
    return bt_dtype_of(leaf) == BT_BOOL ? leaf : bt_cast(bt_mul(leaf, bt_num(by)), bt_dtype_of(leaf));
}
static bt_array *doubled(bt_array *leaf, int index) { return index % 2 ? scaled(leaf, 2) : leaf; }
static bt_array *tripled(bt_array *leaf, int index) { return index % 2 ? scaled(leaf, 3) : leaf; }
static bt_array *moved(bt_array *leaf, int index) { return move_in_memory(leaf, 1 + index % 7); }
static bt_array *moved_far(bt_array *leaf, int index) { return move_in_memory(leaf, 64 + index % 5); }

/* What differs from run to run. */
static const struct {
    bt_array *(*change)(bt_array *leaf, int index);
    leaves_are how;
    bool held; /* every third result is retained before any is read */
} variants[VARIANTS] = {
    {NULL, LEAVES_AS_THEY_ARE, false},  {doubled, LEAVES_AS_THEY_ARE, false},   {tripled, LEAVES_AS_THEY_ARE, true},
    {moved, LEAVES_AS_THEY_ARE, false}, {moved_far, LEAVES_AS_THEY_ARE, false}, {NULL, LEAVES_ARE_SHARED, false},
    {NULL, LEAVES_AS_THEY_ARE, true},
};
enum { ROUNDS = 3 };

void run_variant(uint64_t seed, int v, bt_array *const *leaf, outcomes *out) {
    bt_array *results[MOST_INSTRUCTIONS];
    bool exact[MOST_INSTRUCTIONS];
    leaves *given = calloc(1, sizeof *given);
    given->how = variants[v].how;
    given->change = variants[v].change;
    given->stand_in = leaf;
    BT_SCOPE {
        int count = record_pure(seed, given, results, exact);
        for (int i = 0; i < count && variants[v].held; i += 3) (void)bt_retain(results[i]);
        keep_results(results, exact, count, out);
        for (int i = 0; i < count && variants[v].held; i += 3) bt_release(results[i]);
    }
    bt_error_clear();
    free(given);
}

static uint64_t never_found, seeds; /* in which no plan was found again */

const char *check_plans(uint64_t seed) {
    outcomes *kept = calloc((size_t)ROUNDS * VARIANTS, sizeof *kept), *wanted = calloc(1, sizeof *wanted);
    const char *what = NULL;
    uint64_t before = bti_plan_cache_count().found;
    for (int i = 0; i < ROUNDS * VARIANTS; i++) run_variant(seed, i % VARIANTS, NULL, &kept[i]);
    seeds++;
    never_found += bti_plan_cache_count().found == before;
    if (bt_set_flag("plan_cache", "0") != BT_OK) what = "the flag plan_cache is refused";
    for (int v = 0; v < VARIANTS; v++) {
        run_variant(seed, v, NULL, wanted);
        for (int r = 0; r < ROUNDS && !what; r++) what = differ(wanted, &kept[r * VARIANTS + v], true);
        free_outcomes(wanted);
    }
    for (int i = 0; i < ROUNDS * VARIANTS; i++) free_outcomes(&kept[i]);
    if (bt_set_flag("plan_cache", "64M") != BT_OK) what = "the flag plan_cache is refused";
    if (seeds >= 10 && never_found * 2 > seeds) what = "in most programs no plan is found again";
    free(kept);
    free(wanted);
    return what;
}
