/* Compiled by tests/install.sh against an installed berth: arrays and a task. With the argument `late` the arrays come first, so that the process has
 * threads when the runtime begins; another argument is a module to load. */
#include <berth.h>
#include <stdio.h>
#include <string.h>

static bt_status twice(bt_task *task) {
    int n;
    bt_status status = bt_arguments(task, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

static void add_arrays(void) {
    BT_SCOPE {
        bt_array *a = BT_ARRAY(float, (2), 1, 2);
        bt_print(bt_add(a, a));
    }
}

static bt_status load_module(const char *path) {
    bt_status status = bt_module_load(path);
    printf("%s\n", status == BT_OK ? "loaded" : bt_error_text());
    return status;
}

static bt_status run_task(void) {
    int n = 0;
    bt_status status = bt_runtime_init(.num_cpus = 1);
    if (status == BT_OK) {
        BT_SCOPE
            status = bt_get(bt_remote(twice, 21), &n);
    }
    if (status == BT_OK) status = bt_runtime_shutdown();
    if (status == BT_OK)
        printf("twice 21 is %d\n", n);
    else
        printf("%s\n", bt_error_text());
    return status;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "late") != 0) return load_module(argv[1]) != BT_OK;
    if (argc > 1) add_arrays();
    bt_status status = run_task();
    if (argc == 1) add_arrays();
    return status != BT_OK;
}
