/* Modules are the files that the program loaded, wherever it or a worker is, and whatever becomes of their names. */
#include <sys/stat.h>
#include <unistd.h>

#include "support/modules.h"

static bt_status nothing(bt_task *task) {
    (void)task;
    return BT_OK;
}
BT_REMOTE(nothing);

static const bt_item_value five = {.type = BT_INTEGER, .as = {.integer = 5}};
static char folder[200];

static int begin(void) {
    snprintf(folder, sizeof folder, "%s/modules", getenv("TMPDIR"));
    CHECK(mkdir(folder, 0700) == 0 && chdir(folder) == 0);
    CHECK(copy_module("work.so", false) == 0);
    return 0;
}

static int end(void) {
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(chdir(folder) == 0);
    unlink("work.so");
    unlink("other.so");
    CHECK(chdir("/") == 0 && rmdir(folder) == 0);
    return 0;
}

/* In a worker. */
static bt_status thrice(const char *module) {
    int64_t n = 0;
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_ref *ref = bt_remote_named(module, "thrice", BT_OPTIONS(.num_cpus = 0), &five, 1);
        status = bt_get(ref, &n);
    }
    return status == BT_OK && n != 15 ? BT_INTERNAL : status;
}

static int relative_paths(void) {
    CHECK(begin() == 0);
    CHECK(bt_module_load("./work.so") == BT_OK);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(chdir("/") == 0);
    CHECK(thrice("./work.so") == BT_OK);
    return end();
}

static int relative_paths_later(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    BT_SCOPE
        CHECK(bt_get(bt_remote(nothing), NULL) == BT_OK);
    CHECK(begin() == 0);                       /* workers are in another folder */
    CHECK(bt_module_load("work.so") != BT_OK); /* the loader does not search there */
    CHECK(bt_module_load("./work.so") == BT_OK);
    CHECK(thrice("./work.so") == BT_OK);
    CHECK(chdir("/") == 0);
    CHECK(thrice("./work.so") == BT_OK);
    CHECK(bt_module_load("./work.so") != BT_OK); /* another file, which is not there */
    return end();
}

/* Other bytes under the same name are refused; the same bytes in another file are fine. */
static int replaced_files(void) {
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(begin() == 0);
    CHECK(bt_module_load("./work.so") == BT_OK);
    CHECK(copy_module("same.so", false) == 0 && rename("same.so", "work.so") == 0);
    CHECK(thrice("./work.so") == BT_OK);
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(copy_module("other.so", false) == 0 && bt_module_load("./other.so") == BT_OK);
    CHECK(copy_module("new.so", true) == 0 && rename("new.so", "other.so") == 0);
    CHECK_FAILS(thrice("./other.so"), BT_FAILED_PRECONDITION, "has changed since the program loaded it");
    CHECK_FAILS(bt_module_load("./other.so"), BT_FAILED_PRECONDITION, "the loader keeps the old one");
    return end();
}

/* A name that the loader searches: here by LD_LIBRARY_PATH, which it reads when a program begins. */
static int searched_names(void) {
    const char *path = getenv("LD_LIBRARY_PATH");
    if (!path || !strstr(path, "/modules")) {
        char whole[1000];
        CHECK(begin() == 0);
        snprintf(whole, sizeof whole, "%s:%s", folder, path ? path : "");
        setenv("LD_LIBRARY_PATH", whole, 1);
        execl("/proc/self/exe", "test", "searched_names", (char *)NULL);
        return 1;
    }
    CHECK(bt_runtime_init(.num_cpus = 2) == BT_OK);
    CHECK(bt_module_load("work.so") == BT_OK);
    CHECK(thrice("work.so") == BT_OK);
    CHECK_FAILS(bt_module_load("libm.so.6"), BT_INVALID_ARGUMENT, "declares no function");
    snprintf(folder, sizeof folder, "%s/modules", getenv("TMPDIR"));
    return end();
}

int main(int argc, char **argv) {
    static const test_program programs[] = {
        {.name = "relative_paths", .run = relative_paths},
        {.name = "relative_paths_later", .run = relative_paths_later},
        {.name = "replaced_files", .run = replaced_files},
        {.name = "searched_names", .run = searched_names},
    };
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}
