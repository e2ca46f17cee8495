/* What cgroups allow, of a machine whose files are made here, and what is asked of the system before it is taken. */
#include "base/host_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/cgroup.h"

#define MIB ((size_t)1 << 20)

static char root[64], groups[80];

static void write_file(const char *folder, const char *name, const char *text) {
    char path[400];
    snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const char *folder) {
    char path[400];
    snprintf(path, sizeof path, "%s%s", root, folder);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* A machine with these lines of /proc/self/cgroup. */
static void machine(const char *lines) {
    snprintf(root, sizeof root, "/tmp/berth-cgroup-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(groups, sizeof groups, "%s/groups", root);
    write_file("", "groups", lines);
    bti_cgroup_look_at(groups, root);
}

static int end(void **state) {
    (void)state;
    char command[100];
    bti_cgroup_look_at(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return *root ? system(command) : 0;
}

static void expect_group(size_t bytes, size_t left, const char *file) {
    bti_cgroup group;
    bti_cgroup_read(&group);
    assert_int_equal(group.memory_bytes, bytes);
    assert_int_equal(group.memory_free_bytes, left);
    if (file && !strstr(group.memory_file, file)) fail_msg("\"%s\" is not %s", group.memory_file, file);
    if (!file) assert_string_equal(group.memory_file, "");
}

static void the_tightest_of_nested_groups_binds(void **state) {
    (void)state;
    machine("0::/a/b\n");
    make_folder("/a");
    make_folder("/a/b");
    write_file("/a/b", "memory.max", "max\n");
    write_file("/a/b", "memory.current", "1000\n");
    expect_group(SIZE_MAX, SIZE_MAX, NULL);
    write_file("/a", "memory.max", "104857600\n");
    write_file("/a", "memory.current", "4194304\n");
    expect_group(100 * MIB, 96 * MIB, "/a/memory.max");
    write_file("/a/b", "memory.max", "209715200\n");
    expect_group(100 * MIB, 96 * MIB, "/a/memory.max");
    write_file("/a/b", "memory.high", "52428800\n");
    expect_group(50 * MIB, 50 * MIB - 1000, "/a/b/memory.high");
    write_file("/a", "memory.current", "104857600\n");
    expect_group(50 * MIB, 0, "/a/b/memory.high");
}

/* The system takes the page cache back before it ends anybody. */
static void the_page_cache_is_no_use_of_memory(void **state) {
    (void)state;
    machine("0::/\n");
    write_file("", "memory.max", "104857600\n");
    write_file("", "memory.current", "104857600\n");
    write_file("", "memory.stat", "anon 8388608\ninactive_file 31457280\nactive_file 20971520\n");
    expect_group(100 * MIB, 50 * MIB, "/memory.max");
}

static void version_1_has_files_of_its_own(void **state) {
    (void)state;
    machine("12:cpu,cpuacct:/x\n5:memory:/x/y\n0::/z\n");
    make_folder("/memory");
    make_folder("/memory/x");
    make_folder("/memory/x/y");
    write_file("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    write_file("/memory/x", "memory.limit_in_bytes", "33554432\n");
    write_file("/memory/x", "memory.usage_in_bytes", "16777216\n");
    write_file("/memory/x", "memory.stat", "inactive_file 1\ntotal_inactive_file 4194304\n");
    write_file("/memory/x/y", "memory.limit_in_bytes", "9223372036854771712\n");
    expect_group(32 * MIB, 20 * MIB, "/memory/x/memory.limit_in_bytes");
}

/* A container whose group has another path outside: the files lie at the root. */
static void a_path_that_is_not_there_leads_to_the_root(void **state) {
    (void)state;
    machine("0::/docker/1234\n");
    write_file("", "memory.max", "67108864\n");
    write_file("", "memory.current", "0\n");
    expect_group(64 * MIB, 64 * MIB, "/memory.max");
}

static void a_group_is_the_limit_of_the_process(void **state) {
    (void)state;
    bti_host_memory memory;
    bti_host_memory_read(&memory);
    assert_true(memory.total > 0 && memory.left <= memory.total);
    assert_true(*memory.source);
    machine("0::/\n");
    write_file("", "memory.max", "209715200\n");
    write_file("", "memory.current", "52428800\n");
    bti_host_memory_read(&memory);
    assert_int_equal(memory.total, 200 * MIB);
    assert_int_equal(memory.left, 150 * MIB);
    assert_non_null(strstr(memory.source, "/memory.max"));
    assert_true(bti_host_memory_has(100 * MIB));
    assert_false(bti_host_memory_has(149 * MIB)); /* a part is kept for the process itself */
    assert_false(bti_host_memory_has(151 * MIB));
    assert_null(bti_alloc(160 * MIB));
    assert_null(bti_calloc(160, MIB));
    void *small = bti_alloc(1000);
    assert_null(bti_realloc(small, 160 * MIB));
    bti_free(small);
}

/* Memory that was taken and is not used yet counts. */
static void what_was_promised_is_not_promised_again(void **state) {
    (void)state;
    void *pieces[64];
    int count = 0;
    bti_host_memory memory;
    machine("0::/\n");
    bti_host_memory_read(&memory);
    if (memory.left < 4096 * MIB) skip(); /* the machine's memory would be the limit */
    write_file("", "memory.max", "1073741824\n");
    write_file("", "memory.current", "0\n");
    while (count < 64 && (pieces[count] = bti_alloc_claimed(256, 70 * MIB))) count++;
    assert_in_range(count, 10, 15); /* of 14, less what is kept, more what this process has in memory */
    for (int i = 0; i < count; i++) bti_free_claimed(pieces[i], 70 * MIB);
    for (count = 0; count < 64 && (pieces[count] = bti_alloc_claimed(256, 30 * MIB));) count++;
    assert_in_range(count, 25, 38);
    while (count) bti_free_claimed(pieces[--count], 30 * MIB);
    bti_host_shortage shortage = bti_host_memory_shortage(5);
    assert_non_null(strstr(shortage.text, "5 bytes asked for, 1073741824 of 1073741824 are free ("));
}

/* In a child, which keeps the limit. */
static void limits_of_resources_bind(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their shadows take all address space */
#endif
    *root = '\0';
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const struct rlimit limit = {512 * MIB, 512 * MIB};
        bti_host_memory memory;
        bool good = !setrlimit(RLIMIT_AS, &limit);
        bti_host_memory_read(&memory);
        good = good && memory.total == 512 * MIB && memory.left < 512 * MIB && !strcmp(memory.source, "RLIMIT_AS");
        good = good && !bti_host_memory_has(512 * MIB);
        const struct rlimit data = {256 * MIB, 256 * MIB};
        good = good && !setrlimit(RLIMIT_DATA, &data);
        bti_host_memory_read(&memory);
        good = good && memory.total == 256 * MIB && !strcmp(memory.source, "RLIMIT_DATA");
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_tightest_of_nested_groups_binds),
        TEST(the_page_cache_is_no_use_of_memory),
        TEST(version_1_has_files_of_its_own),
        TEST(a_path_that_is_not_there_leads_to_the_root),
        TEST(a_group_is_the_limit_of_the_process),
        TEST(what_was_promised_is_not_promised_again),
        TEST(limits_of_resources_bind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
