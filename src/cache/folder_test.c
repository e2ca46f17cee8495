#include "cache/folder.h"

#include "support/cache_folder.h"

static void folders_of_others_are_not_used(void **state) {
    const mode_t modes[] = {0720, 0702, 0777, 01777};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        mkdir(folder, 0700);
        assert_int_equal(chmod(folder, modes[i]), 0);
        expect_useless("others may write to it");
    }
    assert_int_equal(chmod(folder, 0755), 0);
    store(1, 100);
    assert_int_equal(found(1, 100), 1);
    if (geteuid()) return;
    bti_cache_reset();
    assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
    expect_useless("it is another user's");
}

static void paths_that_are_no_folders_are_told(void **state) {
    write_bytes(folder, "x", 1);
    expect_useless("Not a directory");
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(symlink(root, folder), 0);
    expect_useless(folder);
    set("cache", "off");
    expect_useless("the flag cache is off");
    set("cache", "kernels");
    expect_useless("takes a path from the root on");
    set("cache", "/proc/self/no/such");
    expect_useless("No such file or directory");
    assert_int_equal(look(false).refused, 0);
}

static void the_environment_names_the_folder(void **state) {
    char home[100];
    snprintf(home, sizeof home, "%s/home", root);
    set("cache", "");
    setenv("HOME", home, 1);
    unsetenv("XDG_CACHE_HOME");
    bti_cache_reset();
    expect_useless("No such file or directory"); /* a home is not made */
    assert_false(there(home));
    assert_int_equal(mkdir(home, 0700), 0);
    store(1, 100);
    assert_int_equal(found(1, 100), 1);
    strcat(home, "/.cache/berth");
    assert_true(there(home));
    assert_string_equal(look(false).folder, home);
    setenv("XDG_CACHE_HOME", root, 1);
    bti_cache_reset();
    assert_int_equal(found(1, 100), 0);
    store(1, 100);
    snprintf(home, sizeof home, "%s/berth", root);
    assert_true(there(home));
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "", 1);
    bti_cache_reset();
    expect_useless("neither XDG_CACHE_HOME nor HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    bti_cache_reset();
    expect_useless("neither XDG_CACHE_HOME nor HOME");
}

static bool reads_only(void) {
    if (!geteuid() && (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))) return false;
    bool hit = found(1, 100) == 1;
    store(2, 100);
    bool told = strstr(look(false).reason, "could not be written: Permission denied") != NULL;
    told = told && strstr(look(true).reason, "it is read, but not written: Permission denied");
    return hit && told && found(2, 100) == 0 && look(true).files == 1;
}
static void a_folder_that_is_read_only_is_read(void **state) {
    store(1, 100);
    if (!geteuid()) run("chown -R %d:%d %s", NOBODY, NOBODY, folder);
    assert_int_equal(chmod(folder, 0500), 0);
    in_child(reads_only);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(folders_of_others_are_not_used),
        CASE(paths_that_are_no_folders_are_told),
        CASE(the_environment_names_the_folder),
        CASE(a_folder_that_is_read_only_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
