/* Modules by content: a worker finds one wherever a file with its bytes is. */
#include <unistd.h>

#include "support/modules.h"
#include "task/modules.h"

static const bt_item_value five = {.type = BT_INTEGER, .as = {.integer = 5}};

static bt_status provide(bt_task *task) {
    const char *path;
    bt_bytes content;
    bt_status status = bt_arguments(task, &content, &path);
    uint64_t number;
    if (status != BT_OK) return status;
    memcpy(&number, content.data, sizeof number);
    return bti_module_provide(number, path);
}
BT_REMOTE(provide);

static bt_status provided(uint64_t content, const char *path) {
    bt_status status;
    BT_SCOPE
        status = bt_get(bt_remote(provide, ((bt_bytes){&content, sizeof content}), path), NULL);
    return status;
}

static bt_status thrice(int64_t *n) {
    bt_status status;
    BT_SCOPE
        status = bt_get(bt_remote_named("./first.so", "thrice", NULL, &five, 1), n);
    return status;
}

static int files_are_found_by_content(void) {
    const bt_remote_entry *entry;
    uint64_t content = 0;
    int64_t n = 0;
    CHECK(chdir(getenv("TMPDIR")) == 0);
    CHECK(copy_module("first.so", false) == 0 && copy_module("same.so", false) == 0 &&
          copy_module("other.so", true) == 0);
    CHECK(bt_runtime_init(.num_cpus = 1) == BT_OK); /* one worker, which is forked from what the program was before */
    CHECK(bt_module_load("./first.so") == BT_OK);
    CHECK(bti_module_find("./first.so", "thrice", &entry) == BT_OK);
    CHECK(bti_module_content(entry->module, &content) && content != 0);
    CHECK(!bti_module_content("", &content));
    CHECK(unlink("first.so") == 0);
    CHECK_FAILS(thrice(&n), BT_NOT_FOUND, "first.so cannot be opened");
    CHECK_FAILS(provided(content, "none.so"), BT_NOT_FOUND, "none.so cannot be opened");
    CHECK_FAILS(provided(content, "other.so"), BT_FAILED_PRECONDITION, "other.so has other bytes than the module");
    CHECK(provided(content, "same.so") == BT_OK);
    CHECK(thrice(&n) == BT_OK && n == 15);
    CHECK(unlink("same.so") == 0 && unlink("other.so") == 0);
    return bt_runtime_shutdown() != BT_OK;
}

static const test_program programs[] = {{"files_are_found_by_content", files_are_found_by_content, .seconds = 60}};

int main(int argc, char **argv) { return run_test_programs(argc, argv, programs, 1); }
