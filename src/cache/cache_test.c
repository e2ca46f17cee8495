// timeout: 300
#include "cache/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>

#include "base/alloc.h"
#include "support/cache_folder.h"

/* --- finding what was stored -------------------------------------------------------------------------------------- */

static void what_is_stored_is_found(void **state) {
    assert_int_equal(found(1, 5000), 0);
    assert_false(there(folder)); /* looking makes nothing */
    store(1, 5000);
    store(2, 1);
    assert_int_equal(found(1, 5000), 1);
    assert_int_equal(found(2, 1), 1);
    assert_int_equal(found(3, 1), 0);
    struct stat facts;
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    assert_int_equal(stat(path_of(1), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    bti_cache_state now = look(true);
    assert_string_equal(now.folder, folder);
    assert_string_equal(now.reason, "");
    assert_int_equal(now.hits, 2);
    assert_int_equal(now.misses, 2);
    assert_int_equal(now.stores, 2);
    assert_int_equal(now.refused, 0);
    assert_int_equal(now.files, 2);
    assert_true(now.bytes > 5001 && now.bytes < 5001 + 2 * 100);
}

static void keys_tell_texts_and_targets_apart(void **state) {
    bti_str text = {0}, other = {0};
    bti_str_add(&text, "define void @bti_run()");
    bti_str_add(&other, "define void @bti_run( )");
    bti_cache_key a = bti_cache_key_of(&text, BTI_LLVM_AVX2, ""), b = bti_cache_key_of(&text, BTI_LLVM_AVX512, ""),
                  c = bti_cache_key_of(&other, BTI_LLVM_AVX2, ""), again = bti_cache_key_of(&text, BTI_LLVM_AVX2, "");
    assert_memory_equal(&a, &again, sizeof a);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_memory_not_equal(&a, &c, sizeof a);
    bti_str_free(&text);
    bti_str_free(&other);
}

static void a_refused_object_goes(void **state) {
    store(1, 100);
    bti_cache_refuse(key_of(1));
    assert_false(there(path_of(1)));
    assert_int_equal(look(false).refused, 1);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

static void damaged_files_are_deleted_and_written_again(void **state) {
    enum { BYTES = 200 };
    char whole[1000];
    store(1, BYTES);
    FILE *file = fopen(path_of(1), "re");
    assert_non_null(file);
    size_t size = fread(whole, 1, sizeof whole, file);
    fclose(file);
    assert_true(size > BYTES);
    uint64_t refused = 0;
    for (size_t at = 0; at < size; at++) {
        whole[at] ^= 4;
        write_bytes(path_of(1), whole, size);
        whole[at] ^= 4;
        if (found(1, BYTES)) fail_msg("byte %zu", at);
        assert_false(there(path_of(1)));
        assert_int_equal(look(false).refused, ++refused);
    }
    for (size_t length = 0; length <= size + 1; length++) {
        if (length == size) continue;
        write_bytes(path_of(1), whole, length);
        if (found(1, BYTES)) fail_msg("length %zu", length);
        assert_false(there(path_of(1)));
    }
    store(1, BYTES);
    assert_int_equal(found(1, BYTES), 1);
}

static void another_kernels_file_is_refused(void **state) {
    char other[200];
    store(1, 100);
    store(2, 100);
    snprintf(other, sizeof other, "%s", path_of(2));
    assert_int_equal(rename(other, path_of(1)), 0);
    assert_int_equal(found(1, 100), 0);
    assert_false(there(path_of(1)));
}

static void links_pipes_and_folders_are_refused(void **state) {
    char target[200];
    store(1, 100);
    snprintf(target, sizeof target, "%s/aside", root);
    assert_int_equal(rename(path_of(1), target), 0);
    assert_int_equal(symlink(target, path_of(1)), 0);
    assert_int_equal(found(1, 100), 0);
    assert_false(there(path_of(1)));
    assert_true(there(target));
    assert_int_equal(mkfifo(path_of(1), 0600), 0);
    assert_int_equal(found(1, 100), 0); /* and does not wait */
    assert_false(there(path_of(1)));
    assert_int_equal(mkdir(path_of(1), 0700), 0);
    assert_int_equal(found(1, 100), 0);
    store(1, 100);
    assert_int_equal(found(1, 100), 0);
    expect_reason("could not be written");
    assert_int_equal(rmdir(path_of(1)), 0);
    assert_int_equal(symlink(target, path_of(1)), 0); /* is replaced, not followed */
    store(1, 3000);
    assert_int_equal(found(1, 3000), 1);
    struct stat facts;
    assert_int_equal(stat(target, &facts), 0);
    assert_true(facts.st_size < 3000);
}

/* --- room --------------------------------------------------------------------------------------------------------- */

static bool stays_below_file_limit(void) {
    struct rlimit limit = {1000, 1000};
    if (setrlimit(RLIMIT_FSIZE, &limit)) return false;
    store(1, 5000);
    bool told = strstr(look(false).reason, "File too large") != NULL;
    store(2, 500);
    return told && found(1, 5000) == 0 && found(2, 500) == 1 && look(true).files == 1;
}
static void a_limit_of_file_sizes_is_heeded(void **state) { in_child(stays_below_file_limit); }

static bool fills_a_disk(void) {
    errno = 0;
    if (mkdir(folder, 0700) || unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("berth", folder, "tmpfs", 0, "size=64k,mode=700")) {
        errno = ENOTSUP;
        return false;
    }
    int kept = 0;
    for (int i = 0; i < 40; i++) store(i, 6000);
    for (int i = 0; i < 40; i++) {
        int one = found(i, 6000);
        if (one < 0) return false;
        kept += one;
    }
    bti_cache_state now = look(true);
    bool all_there = (int)now.files == kept && (int)now.stores == kept && !now.refused; /* nothing half written */
    for (int i = 0; i < 40 && kept; i++) unlink(path_of(i));
    store(99, 6000);
    return kept >= 4 && kept < 40 && all_there && found(99, 6000) == 1 && !*look(false).reason;
}
static void a_full_disk_keeps_what_it_has(void **state) { in_child(fills_a_disk); }

static void age(const char *path, int64_t seconds) {
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec -= seconds;
    times[0] = times[1] = now;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}
static int64_t age_of(const char *path) {
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    int64_t age = time(NULL) - facts.st_mtime;
    return age < 0 ? 0 : age; /* time() may be a tick late */
}

static void what_was_used_longest_ago_goes_first(void **state) {
    enum { EACH = 1000, COUNT = 10 };
    set("cache_bytes", "16K");
    for (int i = 0; i < COUNT; i++) {
        store(i, EACH);
        age(path_of(i), 100 * 24 * 60 * 60 - 60 * i);
    }
    assert_int_equal(found(0, EACH), 1); /* the oldest, used now */
    assert_in_range(age_of(path_of(0)), 0, 60);
    for (int i = COUNT; i < COUNT + 8; i++) store(i, EACH);
    bti_cache_state now = look(true);
    assert_true(now.bytes <= 16 * 1024);
    assert_true(now.evictions > 0);
    assert_int_equal(now.files + now.evictions, COUNT + 8);
    assert_int_equal(found(0, EACH), 1);
    assert_int_equal(found(1, EACH), 0);
    assert_int_equal(found(2, EACH), 0);
    assert_int_equal(found(COUNT - 1, EACH), 1);
    for (int i = COUNT; i < COUNT + 8; i++) assert_int_equal(found(i, EACH), 1);
}

static void a_hit_refreshes_once_a_day(void **state) {
    store(1, 100);
    age(path_of(1), 23 * 60 * 60);
    assert_int_equal(found(1, 100), 1);
    assert_in_range(age_of(path_of(1)), 22 * 60 * 60, 24 * 60 * 60);
    age(path_of(1), 25 * 60 * 60);
    assert_int_equal(found(1, 100), 1);
    assert_in_range(age_of(path_of(1)), 0, 60);
}

static void only_our_files_go(void **state) {
    char foreign[200], abandoned[200], begun[200];
    store(1, 1000);
    snprintf(foreign, sizeof foreign, "%s/README", folder);
    snprintf(abandoned, sizeof abandoned, "%s/.new-1-2-3", folder);
    snprintf(begun, sizeof begun, "%s/.new-4-5-6", folder);
    write_bytes(foreign, "x", 1);
    write_bytes(abandoned, "x", 1);
    write_bytes(begun, "x", 1);
    age(foreign, 7200);
    age(abandoned, 7200);
    set("cache_bytes", "500");
    assert_int_equal(look(true).files, 0);
    assert_true(there(foreign) && there(begun));
    assert_false(there(abandoned) || there(path_of(1)));
    store(1, 1000); /* larger than all that may be there */
    assert_int_equal(found(1, 1000), 0);
    set("cache_bytes", "0");
    store(2, 1);
    assert_int_equal(found(2, 1), 0);
    assert_string_equal(look(false).reason, "the flag cache_bytes is 0: no kernel is kept");
    assert_string_equal(look(true).reason, "the flag cache_bytes is 0: no kernel is kept");
}

/* --- several processes -------------------------------------------------------------------------------------------- */

static bool store_and_find_many(unsigned seed) {
    for (int i = 0; i < 400; i++) {
        int number = (int)(rand_r(&seed) % 60);
        size_t bytes = 500 + (size_t)number * 37;
        int one = found(number, bytes);
        if (one < 0) return false;
        if (!one) store(number, bytes);
    }
    bti_cache_state now = look(false);
    return now.refused == 0 && now.hits > 0 && now.stores > 0 && !*now.reason;
}

static void processes_share_a_folder(void **state) {
    enum { PROCESSES = 4 };
    pid_t children[PROCESSES];
    set("cache_bytes", "40K"); /* about half of all */
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (!children[i]) _exit(store_and_find_many((unsigned)i + 1) ? 0 : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    int temporaries = 0, kernels = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *row; (row = readdir(listing));) {
        if (strlen(row->d_name) == 32) kernels++;
        temporaries += !strncmp(row->d_name, ".new", 4);
    }
    closedir(listing);
    assert_int_equal(temporaries, 0);
    assert_true(kernels > 5);
    assert_true(look(true).bytes <= 40 * 1024);
}

static void short_memory_only_loses(void **state) {
    store(1, 100);
    for (uint64_t n = 1; n < 30; n++) {
        bti_str object = {0};
        bti_cache_key key = key_of(1);
        bti_alloc_fail_at(n, true);
        (void)bti_cache_find(key, &object);
        bti_alloc_fail_at(0, false);
        bti_str_free(&object);
        object = object_of(2, 100);
        bti_alloc_fail_at(n, true);
        bti_cache_store(key_of(2), &object, compiler);
        bti_alloc_fail_at(0, false);
        bti_str_free(&object);
    }
    assert_int_equal(found(1, 100), 1);
    assert_int_equal(found(2, 100), 1);
    assert_int_equal(look(false).refused, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(what_is_stored_is_found),
        CASE(keys_tell_texts_and_targets_apart),
        CASE(a_refused_object_goes),
        CASE(damaged_files_are_deleted_and_written_again),
        CASE(another_kernels_file_is_refused),
        CASE(links_pipes_and_folders_are_refused),
        CASE(a_limit_of_file_sizes_is_heeded),
        CASE(a_full_disk_keeps_what_it_has),
        CASE(what_was_used_longest_ago_goes_first),
        CASE(a_hit_refreshes_once_a_day),
        CASE(only_our_files_go),
        CASE(processes_share_a_folder),
        CASE(short_memory_only_loses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
