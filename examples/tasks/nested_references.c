// A reference that is an argument itself stands for its value: the call waits for it. One in a list is passed as it is: the call begins at once, and
// waits itself, or hands it on.
#include <berth.h>
#include <stdio.h>

static bt_status add_one(bt_task *task) {
    int x;
    bt_status status = bt_arguments(task, &x);
    return status == BT_OK ? bt_return(task, x + 1) : status;
}
BT_REMOTE(add_one);

static bt_status describe(bt_task *task) {
    static const char *const names[] = {
        [BT_INTEGER] = "an integer", [BT_REFERENCE] = "a reference", [BT_LIST_VALUE] = "a list"};
    const char *name = names[bt_argument_type(task, 0)];
    bt_list list;
    if (bt_argument_type(task, 0) != BT_LIST_VALUE) return bt_return(task, name);
    if (bt_argument(task, 0, &list) != BT_OK) return bt_error_status();
    char text[100];
    snprintf(text, sizeof text, "%s of %s", name, names[bt_list_type(list, 0)]);
    return bt_return(task, text);
}
BT_REMOTE(describe);

// Adds up what the references of a list stand for.
static bt_status sum(bt_task *task) {
    bt_list refs;
    int total = 0, x;
    bt_status status = bt_arguments(task, &refs);
    for (int i = 0; i < bt_list_count(refs) && status == BT_OK; i++) {
        bt_ref *ref;
        status = bt_list_get(refs, i, &ref);
        if (status == BT_OK) status = bt_get(ref, &x);
        if (status == BT_OK) total += x;
    }
    return status == BT_OK ? bt_return(task, total) : status;
}
BT_REMOTE(sum);

// Gives the reference of a call that goes on after this one.
static bt_status begin(bt_task *task) {
    int x;
    bt_status status = bt_arguments(task, &x);
    return status == BT_OK ? bt_return(task, bt_remote(add_one, x)) : status;
}
BT_REMOTE(begin);

static bool describe_to_user(const char *what, bt_ref *described) {
    const char *text;
    if (bt_get(described, &text) != BT_OK) return puts(bt_error_text()), false;
    return printf("%s: %s\n", what, text) > 0;
}

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *one = bt_remote(add_one, 0), *refs[] = {one, bt_remote(add_one, one), bt_put(3)}, *inner;
        int total, seven;
        if (!describe_to_user("passed itself", bt_remote(describe, one))) return 1;
        if (!describe_to_user("passed in a list", bt_remote(describe, BT_LIST(one)))) return 1;
        if (!describe_to_user("put and passed", bt_remote(describe, bt_put(one)))) return 1;
        bt_ref *outer = bt_remote(begin, 6);
        if (bt_get(bt_remote(sum, bt_list_of(refs, 3)), &total) != BT_OK || bt_get(outer, &inner) != BT_OK ||
            bt_get(inner, &seven) != BT_OK)
            return puts(bt_error_text()), 1;
        printf("1 + 2 + 3 is %d\n6 + 1 is %d\n", total, seven);
    }
    return bt_runtime_shutdown();
}
