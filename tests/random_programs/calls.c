/* Functions whose plans are kept: what a call gives may not depend on the calls before it, nor on where its arguments lie, nor on whether they are donated. */
#include <stdlib.h>

#include "random_programs/program.h"

typedef struct pure {
    leaves given;
    int count;
    bt_array *results[MOST_INSTRUCTIONS];
    bool exact[MOST_INSTRUCTIONS];
} pure;

bt_array *move_in_memory(bt_array *leaf, int64_t offset) {
    bt_shape shape = {.rank = bt_rank(leaf)};
    for (int i = 0; i < shape.rank; i++) shape.size[i] = bt_size(leaf, i);
    int64_t count = bt_count(leaf), low[1] = {offset}, high[1] = {3};
    bt_array *longer = bt_pad(bt_reshape(leaf, -1), low, high, 1);
    (void)!bt_eval(longer);
    return bt_reshape_to(bt_slice_axis(longer, 0, offset, offset + count, 1), shape);
}

/* Other numbers of the same shape and dtype. */
static bt_array *other_numbers(bt_array *leaf) {
    return bt_dtype_of(leaf) == BT_BOOL ? bt_logical_not(leaf) : bt_cast(bt_add(leaf, bt_num(1)), bt_dtype_of(leaf));
}

static const char *call_and_compare(bt_function *f, bt_array *const *arguments, const pure *p, const outcomes *wanted) {
    bt_array *results[MOST_INSTRUCTIONS];
    outcomes out;
    if (bt_call(f, arguments, p->given.count, results, p->count) != BT_OK) return "a call failed";
    keep_results(results, p->exact, p->count, &out);
    const char *what = wanted ? differ(wanted, &out, true) : NULL;
    free_outcomes(&out);
    return what;
}

static const char *call_all_ways(uint64_t seed, const pure *p, const outcomes *wanted, const outcomes *shared) {
    bt_array *arguments[MOST_INSTRUCTIONS];
    int count = p->given.count;
    bt_function *f = bt_function_new(p->given.input, count, p->results, p->count, NULL, 0);
    const char *what = NULL;
    for (int round = 0; round < 2 && !what; round++) {
        what = call_and_compare(f, p->given.leaf, p, wanted);
        for (int i = 0; i < count; i++) arguments[i] = other_numbers(p->given.leaf[i]);
        if (!what) what = call_and_compare(f, arguments, p, NULL);
        for (int i = 0; i < count; i++)
            arguments[i] = move_in_memory(p->given.leaf[i], 1 + (int64_t)(seed + (uint64_t)i) % 64);
        if (!what) what = call_and_compare(f, arguments, p, wanted);
        for (int i = 0; i < count; i++) arguments[i] = p->given.leaf[p->given.alike[i]];
        if (!what) what = call_and_compare(f, arguments, p, shared);
    }
    return what;
}

/* In memory of its own. */
static bt_array *copy_of(bt_array *leaf) {
    bt_shape shape = {.rank = bt_rank(leaf)};
    for (int i = 0; i < shape.rank; i++) shape.size[i] = bt_size(leaf, i);
    size_t bytes = (size_t)bt_count(leaf) * bt_dtype_size(bt_dtype_of(leaf));
    char *data = malloc(bytes + 1);
    bt_array *copy = bt_read(leaf, data, bytes) == BT_OK ? bt_from(data, bt_dtype_of(leaf), shape) : NULL;
    free(data);
    if (copy) (void)!bt_eval(copy);
    return copy;
}

enum { READERS = 3 }; /* what besides the call reads an argument: nobody, a view, a recorded operation */

/* The same elements, with an axis more: another array, whatever the shape. */
static bt_array *new_reader(bt_array *x, bool view) {
    if (view || bt_rank(x) == 0) return bt_expand_dims(x, 0);
    bt_array *twice = bt_concat(((bt_array *[]){x, x}), 2, 0);
    return bt_expand_dims(bt_slice_axis(twice, 0, bt_size(x, 0), 2 * bt_size(x, 0), 1), 0);
}

/* What reads arguments later has the old values; who uses one of them is told. */
static const char *expect_donated(const pure *p, bt_array *const *arguments, bt_array *const *readers) {
    outcomes had, has;
    const char *what = NULL;
    for (int i = 0; i < p->given.count && !what; i++) {
        if (bt_peek_status(arguments[i]) != BT_INVALID_ARGUMENT) return "a donated argument can still be used";
        if (!readers[i]) continue;
        bt_array *whole = bt_expand_dims(p->given.leaf[i], 0);
        bool exact = true;
        keep_results(&whole, &exact, 1, &had);
        keep_results(&readers[i], &exact, 1, &has);
        if (differ(&had, &has, true)) what = "what reads a donated argument later has other bits";
        free_outcomes(&had);
        free_outcomes(&has);
    }
    return what;
}

/* Without the results that are inputs, which keep the memory. */
static void leave_inputs_out(const pure *all, const outcomes *wanted, pure *p, outcomes *of) {
    *p = *all;
    p->count = of->count = 0;
    for (int r = 0; r < all->count; r++) {
        bool is_input = false;
        for (int i = 0; i < all->given.count; i++) is_input = is_input || all->results[r] == all->given.input[i];
        if (is_input) continue;
        p->results[p->count] = all->results[r];
        p->exact[p->count++] = all->exact[r];
        of->of[of->count++] = wanted->of[r];
    }
}

static const char *call_donating(uint64_t seed, const pure *p, const outcomes *wanted) {
    bt_array *arguments[MOST_INSTRUCTIONS], *readers[MOST_INSTRUCTIONS];
    int count = p->given.count;
    if (!p->count) return NULL;
    bt_function *f = bt_function_new(p->given.input, count, p->results, p->count, NULL, 0);
    const char *what = NULL;
    for (int i = 0; i < count; i++)
        if (bt_function_donate(f, i) != BT_OK) return "an input cannot be donated";
    for (uint64_t round = 0; round < READERS && !what; round++)
        BT_SCOPE {
            for (int i = 0; i < count; i++) {
                uint64_t reader = (seed / 2 + round + (uint64_t)i) % READERS;
                arguments[i] = copy_of(p->given.leaf[i]);
                readers[i] = reader ? new_reader(arguments[i], reader == 1) : NULL;
            }
            what = call_and_compare(f, arguments, p, wanted);
            if (!what) what = expect_donated(p, arguments, readers);
        }
    return what;
}

const char *check_calls(uint64_t seed) {
    const char *what = NULL;
    BT_SCOPE {
        pure *all[4], *eager, *inputs, *alike, *rest;
        for (int i = 0; i < 4; i++) all[i] = calloc(1, sizeof **all);
        eager = all[0], inputs = all[1], alike = all[2], rest = all[3];
        outcomes *wanted = calloc(2, sizeof *wanted),
                 *part = calloc(1, sizeof *part); /* `part` holds no data of its own */
        inputs->given.how = LEAVES_ARE_INPUTS;
        alike->given.how = LEAVES_ARE_SHARED;
        for (int i = 0; i < 3; i++) all[i]->count = record_pure(seed, &all[i]->given, all[i]->results, all[i]->exact);
        keep_results(eager->results, eager->exact, eager->count, &wanted[0]);
        keep_results(alike->results, alike->exact, alike->count, &wanted[1]);
        if (eager->count != inputs->count || eager->count != alike->count)
            what = "the function has other values";
        else if (eager->count) {
            what = call_all_ways(seed, inputs, &wanted[0], &wanted[1]);
            if (!what) what = call_donating(seed, inputs, &wanted[0]);
            leave_inputs_out(inputs, &wanted[0], rest, part);
            if (!what) what = call_donating(seed, rest, part);
        }
        for (int i = 0; i < 2; i++) free_outcomes(&wanted[i]);
        free(wanted);
        free(part);
        for (int i = 0; i < 4; i++) free(all[i]);
    }
    bt_error_clear();
    return what;
}
