// labels: threads
// timeout: 120
/* Lists as values, and references and actors in them, as results and as values of their own. */
#include <unistd.h>

#include "support/programs.h"
#include <berth.h>

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

/* Waits for a file that the test makes. */
static bt_status wait_for_file(bt_task *task) {
    const char *path;
    bt_status status = bt_argument(task, 0, &path);
    while (status == BT_OK && access(path, F_OK) != 0) usleep(1000);
    return status == BT_OK ? bt_return(task, 21) : status;
}
BT_REMOTE(wait_for_file);

static bt_status fails(bt_task *task) { return bt_task_fail(task, BT_DATA_LOSS, "it fails"); }
BT_REMOTE(fails);

/* `1 two 3.5 <bytes> [4 5] <reference> [ ] ` of a list, and what is in it. */
static bt_status describe_list(bt_list list, char *text, size_t size) {
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < bt_list_count(list); i++) {
        at = strlen(text);
        int64_t integer;
        double real;
        const char *string;
        bt_bytes bytes;
        bt_array *array;
        bt_ref *ref;
        bt_list inner;
        bt_status status = BT_OK;
        switch (bt_list_type(list, i)) {
        case BT_INTEGER:
            status = bt_list_get(list, i, &integer);
            snprintf(text + at, size - at, "%lld ", (long long)integer);
            break;
        case BT_REAL:
            status = bt_list_get(list, i, &real);
            snprintf(text + at, size - at, "%g ", real);
            break;
        case BT_TEXT_VALUE:
            status = bt_list_get(list, i, &string);
            snprintf(text + at, size - at, "%s ", string);
            break;
        case BT_BYTES:
            status = bt_list_get(list, i, &bytes);
            snprintf(text + at, size - at, "b%zu ", bytes.size);
            break;
        case BT_ARRAY_VALUE:
            status = bt_list_get(list, i, &array);
            snprintf(text + at, size - at, "a%g ", bt_item(bt_sum(array, BT_ALL, false)));
            break;
        case BT_REFERENCE:
            status = bt_list_get(list, i, &ref);
            if (status == BT_OK) status = bt_get(ref, &integer);
            snprintf(text + at, size - at, "r%lld ", (long long)integer);
            break;
        case BT_LIST_VALUE:
            status = bt_list_get(list, i, &inner);
            snprintf(text + at, size - at, "[");
            if (status == BT_OK) status = describe_list(inner, text + at + 1, size - at - 1);
            at = strlen(text);
            snprintf(text + at, size - at, "] ");
            break;
        default: snprintf(text + at, size - at, "? "); break;
        }
        if (status != BT_OK) return status;
    }
    return BT_OK;
}

static bt_status describe(bt_task *task) {
    char text[4000];
    bt_list list;
    bt_status status = bt_arguments(task, &list);
    if (status == BT_OK && bt_argument_type(task, 0) != BT_LIST_VALUE)
        return bt_task_fail(task, BT_INTERNAL, "its type is %d", (int)bt_argument_type(task, 0));
    if (status == BT_OK) status = describe_list(list, text, sizeof text);
    return status == BT_OK ? bt_return(task, text) : status;
}
BT_REMOTE(describe);

/* Gives the list back as it came, beside its length. */
static bt_status pass_on(bt_task *task) {
    bt_list list;
    bt_status status = bt_arguments(task, &list);
    return status == BT_OK ? bt_return(task, BT_LIST(bt_list_count(list), list)) : status;
}
BT_REMOTE(pass_on);

/* Hands it to another call, and gives that one's reference. */
static bt_status delegate(bt_task *task);
BT_REMOTE(delegate);
static bt_status delegate(bt_task *task) {
    bt_list list;
    int depth;
    bt_status status = bt_arguments(task, &list, &depth);
    if (status != BT_OK) return status;
    return bt_return(task, depth ? bt_remote(delegate, list, depth - 1) : bt_remote(describe, list));
}

static bt_status count_of(bt_task *task) {
    bt_list list;
    bt_status status = bt_arguments(task, &list);
    return status == BT_OK ? bt_return(task, bt_list_count(list)) : status;
}
BT_REMOTE(count_of);

static bt_status errors_in(bt_task *task) {
    bt_list list, other;
    int64_t n = 0;
    signed char byte;
    const char *text;
    bt_ref *ref;
    if (bt_arguments(task, &list) != BT_OK) return bt_error_status();
    if (bt_list_get(list, 3, &n) != BT_OUT_OF_RANGE || !strstr(bt_error_text(), "no index 3 in a list of 3"))
        return bt_task_fail(task, BT_INTERNAL, "past its end: %s", bt_error_text());
    if (bt_list_get(list, -1, &n) != BT_OUT_OF_RANGE) return bt_task_fail(task, BT_INTERNAL, "before its beginning");
    if (bt_list_get(list, 1, &n) != BT_INVALID_ARGUMENT ||
        !strstr(bt_error_text(), "value 2 of the list is a text, not an integer"))
        return bt_task_fail(task, BT_INTERNAL, "another type: %s", bt_error_text());
    if (bt_list_get(list, 0, &byte) != BT_OUT_OF_RANGE) return bt_task_fail(task, BT_INTERNAL, "too large");
    if (bt_list_get(list, 0, &ref) != BT_INVALID_ARGUMENT) return bt_task_fail(task, BT_INTERNAL, "no reference");
    if (bt_list_get(list, 0, &other) != BT_INVALID_ARGUMENT) return bt_task_fail(task, BT_INTERNAL, "no list");
    if (bt_list_get(list, 1, (const char **)NULL) != BT_INVALID_ARGUMENT)
        return bt_task_fail(task, BT_INTERNAL, "no variable");
    if (bt_list_get(list, 1, &text) != BT_OK || strcmp(text, "text") != 0) return bt_error_status();
    return bt_return(task, 1);
}
BT_REMOTE(errors_in);

/* --- lists of values ---------------------------------------------------------------------------------------------------- */

static int is_described(bt_ref *ref, const char *right) {
    const char *text;
    if (bt_get_within(ref, SOON, &text) != BT_OK) return fprintf(stderr, "%s: %s\n", right, bt_error_text()), 0;
    if (strcmp(text, right) != 0) fprintf(stderr, "'%s' is not '%s'\n", text, right);
    return strcmp(text, right) == 0;
}

static int lists(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        bt_bytes bytes = {"abc", 3};
        bt_array *large = bt_full(2.0, BT_F32, 100000);
        bt_ref *four = bt_put(4);
        bt_list made = BT_LIST(1, "two", 3.5, bytes, large, four, BT_LIST(), BT_LIST(BT_LIST("x"), 5));
        const char *right = "1 two 3.5 b3 a200000 r4 [] [[x ] 5 ] ";
        if (!is_described(bt_remote(describe, made), right)) return 2;
        if (!is_described(bt_remote(describe, bt_put(made)), right)) return 3; /* resolved, and then a list */
        if (!is_described(bt_remote(describe, BT_LIST()), "")) return 4;
        bt_list back, inner;
        char text[500];
        int count;
        bt_ref *passed = bt_remote(pass_on, made);
        if (bt_get(passed, &back) != BT_OK || bt_list_count(back) != 2) return 5;
        if (bt_list_get(back, 0, &count) != BT_OK || count != 8 || bt_list_get(back, 1, &inner) != BT_OK) return 6;
        if (describe_list(inner, text, sizeof text) != BT_OK || strcmp(text, right) != 0) return 7;
        if (!is_described(bt_remote(describe, inner), right)) return 8; /* what was read is passed on */
        if (!is_described(bt_remote(describe, BT_LIST(inner, 1)), "[1 two 3.5 b3 a200000 r4 [] [[x ] 5 ] ] 1 "))
            return 9;
        if (bt_get(bt_remote(errors_in, BT_LIST(1000, "text", 3)), NULL) != BT_OK) return puts(bt_error_text()), 10;
    }
    return bt_runtime_shutdown() != BT_OK;
}

static int lists_of_arrays(void) {
    enum { MANY = 3000 };
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *refs[40];
        bt_item_value items[MANY];
        bt_list list;
        for (int i = 0; i < 40; i++) refs[i] = bt_put(i);
        for (int i = 0; i < MANY; i++) items[i] = BT_ITEM(i);
        int count = 0;
        if (bt_get(bt_remote(count_of, bt_list_of(refs, 40)), &count) != BT_OK || count != 40) return 2;
        if (bt_get(bt_remote(count_of, bt_list_of(items, MANY)), &count) != BT_OK || count != MANY) return 3;
        bt_ref *put = bt_put(bt_list_of(items, MANY));
        if (bt_get(put, &list) != BT_OK) return 4;
        for (int i = 0; i < MANY; i++)
            if (bt_list_get(list, i, &count) != BT_OK || count != i) return 5;
    }
    return bt_runtime_shutdown() != BT_OK;
}

static int wrong_lists(void) {
    if (bt_runtime_init(.num_cpus = 1) != BT_OK) return 1;
    BT_SCOPE {
        bt_item_value deep[33];
        deep[0] = BT_ITEM(7);
        for (int i = 1; i < 33; i++) deep[i] = BT_ITEM(bt_list_of(&deep[i - 1], 1));
        if (bt_get(bt_put(bt_list_of(&deep[31], 1)), NULL) != BT_OK) return puts(bt_error_text()), 2;
        CHECK_FAILS(bt_get(bt_put(bt_list_of(&deep[32], 1)), NULL), BT_INVALID_ARGUMENT, "in more than 31 lists");
        bt_list read;
        bt_ref *most = bt_put(bt_list_of(&deep[31], 1));
        if (bt_get(most, &read) != BT_OK) return 3;
        CHECK_FAILS(bt_get(bt_put(BT_LIST(read)), NULL), BT_INVALID_ARGUMENT, "in more than 31 lists");
        bt_item_value wide[33], two[33][2];
        wide[0] = BT_ITEM(1);
        for (int i = 1; i < 33; i++) {
            two[i][0] = two[i][1] = wide[i - 1];
            wide[i] = BT_ITEM(bt_list_of(two[i], 2));
        }
        CHECK_FAILS(bt_get(bt_put(bt_list_of(&wide[31], 1)), NULL), BT_INVALID_ARGUMENT, "values in lists");
        const char *none = NULL;
        CHECK_FAILS(bt_get(bt_remote(count_of, 1, BT_LIST(1, BT_LIST(2, none))), NULL), BT_INVALID_ARGUMENT,
                    "value 2.2.2 is a text that is NULL");
        CHECK_FAILS(bt_get(bt_put(BT_LIST((bt_ref *)NULL)), NULL), BT_INVALID_ARGUMENT, "the reference is NULL");
        CHECK_FAILS(bt_get(bt_put(bt_list_of((bt_ref **)NULL, 2)), NULL), BT_INVALID_ARGUMENT, "at NULL");
        CHECK_FAILS(bt_get(bt_put(bt_list_of(wide, -1)), NULL), BT_INVALID_ARGUMENT, "a list of -1 values");
        int x;
        bt_list made = BT_LIST(1, 2);
        CHECK_FAILS(bt_list_get(made, 0, &x), BT_FAILED_PRECONDITION, "made here");
        bt_ref *number = bt_put(5);
        CHECK_FAILS(bt_get(number, &read), BT_INVALID_ARGUMENT, "the result is an integer, not a list");
    }
    return bt_runtime_shutdown() != BT_OK;
}

/* --- references in them --------------------------------------------------------------------------------------------------- */

/* Not waited for; the caller lets go of all of them. */
static int references_in_lists(void) {
    char path[] = "/tmp/berth-lists-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || unlink(path) != 0 || bt_runtime_init(.num_cpus = 3) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *pending, *failed, *described, *through;
        int count = 0;
        BT_SCOPE {
            pending = bt_remote(wait_for_file, path);
            failed = bt_remote(fails);
            if (bt_get_within(bt_remote(count_of, BT_LIST(pending, failed)), SOON, &count) != BT_OK || count != 2)
                return fprintf(stderr, "%s\n", bt_error_text()), 2;
            described =
                bt_ref_retain(bt_remote(describe, BT_LIST(bt_put(1), BT_LIST(pending, bt_remote(twice, pending)))));
            through = bt_ref_retain(bt_remote(delegate, BT_LIST(BT_LIST(pending)), 3));
        }
        if (bt_get_within(described, 0.05, NULL) != BT_DEADLINE_EXCEEDED) return 3;
        FILE *made = fopen(path, "w");
        if (!made || fclose(made) != 0) return 4;
        if (!is_described(described, "r1 [r21 r42 ] ")) return 5;
        for (int i = 0; i < 4; i++) { /* each gives the next one's reference */
            bt_ref *next;
            if (bt_get_within(through, SOON, &next) != BT_OK) return fprintf(stderr, "%s\n", bt_error_text()), 6;
            bt_ref_release(through);
            through = bt_ref_retain(next);
        }
        if (!is_described(through, "[r21 ] ")) return 7;
        bt_ref_release(described);
        bt_ref_release(through);
    }
    unlink(path);
    return bt_runtime_shutdown() != BT_OK;
}

/* --- references and actors as values ---------------------------------------------------------------------------------------- */

static bt_status counter_new(bt_task *task) {
    int64_t *count = calloc(1, sizeof *count);
    bt_set_state(task, count, free);
    return count ? BT_OK : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
}
BT_REMOTE(counter_new);

static bt_status counter_add(bt_task *task) {
    int64_t by = 0, *count = bt_state(task);
    bt_status status = bt_arguments(task, &by);
    return status == BT_OK ? bt_return(task, *count += by) : status;
}
BT_REMOTE(counter_add);

static bt_status make_actor(bt_task *task) {
    bt_actor *actor = bt_actor_new(counter_new);
    int64_t five;
    bt_status status = bt_get(bt_method(actor, counter_add, 5), &five);
    return status == BT_OK ? bt_return(task, actor) : status;
}
BT_REMOTE(make_actor);

static bt_status make_reference(bt_task *task) { return bt_return(task, bt_remote(twice, 4)); }
BT_REMOTE(make_reference);

static bt_status make_many(bt_task *task) {
    enum { MANY = 1500 };
    bt_ref *refs[MANY];
    for (int i = 0; i < MANY; i++) refs[i] = bt_put(i);
    bt_actor *actor = bt_actor_new(counter_new);
    return bt_return(task, BT_LIST(bt_list_of(refs, MANY), actor));
}
BT_REMOTE(make_many);

/* An argument that is a reference to a reference is the inner one. */
static bt_status inner_of(bt_task *task) {
    bt_ref *inner;
    int64_t x;
    bt_status status = bt_arguments(task, &inner);
    if (status == BT_OK && bt_argument_type(task, 0) != BT_REFERENCE) status = bt_task_fail(task, BT_INTERNAL, "type");
    if (status == BT_OK) status = bt_get(inner, &x);
    return status == BT_OK ? bt_return(task, x + 100) : status;
}
BT_REMOTE(inner_of);

static int as_values(void) {
    if (bt_runtime_init(.num_cpus = 3) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *outer, *inner;
        bt_actor *actor;
        int64_t x;
        BT_SCOPE
            outer = bt_ref_retain(bt_put(bt_put(bt_put(3))));
        if (bt_get(outer, &inner) != BT_OK || bt_get(inner, &inner) != BT_OK || bt_get(inner, &x) != BT_OK || x != 3)
            return fprintf(stderr, "%s\n", bt_error_text()), 2;
        CHECK_FAILS(bt_get(outer, &x), BT_INVALID_ARGUMENT, "the result is a reference, not an integer");
        bt_ref_release(outer);
        outer = bt_remote(make_reference);
        if (bt_get(bt_remote(inner_of, outer), &x) != BT_OK || x != 108)
            return fprintf(stderr, "%s\n", bt_error_text()), 3;
        if (bt_get(outer, &inner) != BT_OK || bt_get(inner, &x) != BT_OK || x != 8) return 4;
        bt_ref *made = bt_remote(make_actor), *kept = bt_put(BT_LIST(made));
        if (bt_get(made, &actor) != BT_OK || bt_get(bt_method(actor, counter_add, 2), &x) != BT_OK || x != 7) return 5;
        bt_actor_release(actor);
        if (bt_get(made, &actor) != BT_OK || bt_get(bt_method(actor, counter_add, 2), &x) != BT_OK || x != 9) return 6;
        (void)kept;
        bt_list all, refs;
        bt_ref *many = bt_remote(make_many);
        if (bt_get(many, &all) != BT_OK || bt_list_get(all, 0, &refs) != BT_OK)
            return fprintf(stderr, "%s\n", bt_error_text()), 7;
        for (int i = 0; i < bt_list_count(refs); i += 7) {
            if (bt_list_get(refs, i, &inner) != BT_OK || bt_get(inner, &x) != BT_OK || x != i)
                return fprintf(stderr, "%d: %s\n", i, bt_error_text()), 8;
        }
        if (bt_list_get(all, 1, &actor) != BT_OK || bt_get(bt_method(actor, counter_add, 1), &x) != BT_OK || x != 1)
            return 9;
    }
    return bt_runtime_shutdown() != BT_OK;
}

/* Containers go to disk; what they refer to is there all the same. */
static int spilled(void) {
    enum { VALUES = 30, BYTES = 1 << 20 };
    static char large[BYTES];
    if (bt_runtime_init(.num_cpus = 2, .store_bytes = 8 << 20) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *kept[VALUES];
        for (int i = 0; i < VALUES; i++)
            BT_SCOPE {
                bt_bytes bytes = {large, sizeof large};
                memset(large, i, sizeof large);
                kept[i] = bt_ref_retain(bt_put(BT_LIST(bytes, bt_put(i), bt_remote(twice, i))));
            }
        for (int i = 0; i < VALUES; i++)
            BT_SCOPE {
                bt_list list;
                bt_bytes bytes;
                bt_ref *first, *second;
                int64_t x, y;
                if (bt_get(kept[i], &list) != BT_OK || bt_list_get(list, 0, &bytes) != BT_OK ||
                    bt_list_get(list, 1, &first) != BT_OK || bt_list_get(list, 2, &second) != BT_OK ||
                    bt_get(first, &x) != BT_OK || bt_get(second, &y) != BT_OK)
                    return fprintf(stderr, "%d: %s\n", i, bt_error_text()), 2;
                if (x != i || y != 2 * i || ((const char *)bytes.data)[BYTES - 1] != i) return 3;
                bt_ref_release(kept[i]);
            }
    }
    return bt_runtime_shutdown() != BT_OK;
}

/* A chain of values, each of which refers to the one before, of any length. */
static int long_chain(void) {
    if (bt_runtime_init(.num_cpus = 1) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *chain = bt_ref_retain(bt_put(1));
        for (int i = 0; i < 200000; i++)
            BT_SCOPE {
                bt_ref *next = bt_ref_retain(bt_put(chain));
                bt_ref_release(chain);
                chain = next;
            }
        bt_ref_release(chain);
        int64_t x = 0;
        if (bt_get(bt_remote(twice, 2), &x) != BT_OK || x != 4) return 2;
    }
    return bt_runtime_shutdown() != BT_OK;
}

static const test_program programs[] = {
    {.name = "lists", .run = lists},
    {.name = "lists_of_arrays", .run = lists_of_arrays},
    {.name = "wrong_lists", .run = wrong_lists},
    {.name = "references_in_lists", .run = references_in_lists},
    {.name = "as_values", .run = as_values},
    {.name = "spilled", .run = spilled},
    {.name = "long_chain", .run = long_chain},
};

int main(int argc, char **argv) {
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}
