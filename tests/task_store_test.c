// labels: threads slow-tsan
// timeout: 300
/* Large values between processes: arrays that are not copied, more values than memory, processes that are killed meanwhile. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/support.h"

enum { LARGE = 25000000 /* floats: 100 MB */ };

/* Whether it lies in memory that processes share. */
static bool is_shared(const void *pointer) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    bool shared = false;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
        if ((uintptr_t)pointer >= from && (uintptr_t)pointer < to) shared = strstr(line, "memfd:berth") != NULL;
    }
    if (maps) fclose(maps);
    return shared;
}

/* --- functions ------------------------------------------------------------------------------------------------------------------ */

/* The bits of the array's elements, added up, in a way that tells their order; 0 when they were copied on their way. */
static int64_t checksum(bt_array *x, bool *in_place) {
    const uint32_t *words = bt_map(x);
    uint64_t sum = 14695981039346656037u;
    if (!words) return -1;
    *in_place = is_shared(words);
    for (int64_t i = 0, count = bt_count(x); i < count; i++) sum = (sum ^ words[i]) * 1099511628211u;
    return (int64_t)sum;
}

static bt_status sum_of(bt_task *task) {
    bt_array *x;
    bool in_place = false;
    if (bt_argument(task, 0, &x) != BT_OK) return bt_error_status();
    int64_t sum = checksum(x, &in_place);
    return in_place ? bt_return(task, sum) : bt_task_fail(task, BT_INTERNAL, "the array was copied");
}
BT_REMOTE(sum_of);

static bt_status twice(bt_task *task) {
    bt_array *x;
    if (bt_argument(task, 0, &x) != BT_OK) return bt_error_status();
    return bt_return(task, bt_add(x, x));
}
BT_REMOTE(twice);

static bt_status keeper_new(bt_task *task) {
    bt_array *x, **kept = calloc(1, sizeof(bt_array *));
    if (!kept) return bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "out of host memory");
    bt_set_state(task, kept, free);
    if (bt_argument(task, 0, &x) != BT_OK) return bt_error_status();
    bt_assign(kept, x);
    return BT_OK;
}
BT_REMOTE(keeper_new);

static bt_status keeper_get(bt_task *task) { return bt_return(task, *(bt_array **)bt_state(task)); }
BT_REMOTE(keeper_get);

static bt_status keeper_sum(bt_task *task) {
    bool in_place = false;
    int64_t sum = checksum(*(bt_array **)bt_state(task), &in_place);
    return in_place ? bt_return(task, sum) : bt_task_fail(task, BT_INTERNAL, "the array was copied");
}
BT_REMOTE(keeper_sum);

static bt_status first_of(bt_task *task) {
    bt_array *x;
    if (bt_argument(task, 0, &x) != BT_OK) return bt_error_status();
    const float *map = bt_map(x);
    if (!map) return bt_error_status();
    for (int64_t i = 1, count = bt_count(x); i < count; i++)
        if (map[i] != map[0]) return bt_task_fail(task, BT_INTERNAL, "element %lld is wrong", (long long)i);
    return bt_return(task, map[0]);
}
BT_REMOTE(first_of);

/* Puts and reads until it is killed. */
static bt_status churn(bt_task *task) {
    int64_t seed;
    bt_array *given;
    if (bt_argument(task, 0, &seed) != BT_OK || bt_argument(task, 1, &given) != BT_OK) return bt_error_status();
    bt_ref *refs[8] = {0};
    for (uint64_t random = (uint64_t)seed;; random = random * 6364136223846793005u + 1442695040888963407u) {
        BT_SCOPE {
            bt_ref **ref = &refs[random >> 33 & 7];
            float value = (float)(random >> 50);
            bt_array *x;
            bt_ref_release(*ref);
            *ref = bt_ref_retain(bt_put(bt_full(value, BT_F32, (int64_t)(random >> 40) % MIB + 1)));
            ref = &refs[random >> 37 & 7];
            if (*ref && bt_get(*ref, &x) == BT_OK) (void)bt_map(x);
        }
    }
}
BT_REMOTE(churn);

static bt_status churn_back(bt_task *task) {
    int64_t count;
    if (bt_argument(task, 0, &count) != BT_OK) return bt_error_status();
    for (int64_t i = 0;; i = (i + 1) % count)
        if (bt_return(task, bt_full((double)i, BT_F32, (i + 1) * MIB)) != BT_OK) return bt_error_status();
}
BT_REMOTE(churn_back);

/* --- without copies --------------------------------------------------------------------------------------------------------------- */

static bt_array *large_array(float **elements) {
    *elements = malloc(LARGE * sizeof **elements);
    assert_non_null(*elements);
    uint32_t random = 12345;
    for (int i = 0; i < LARGE; i++) {
        random = random * 1664525u + 1013904223u;
        uint32_t bits = random >> 9 | 0x3f000000u;
        memcpy(*elements + i, &bits, 4);
    }
    return bt_from(*elements, BT_F32, BT_SHAPE(LARGE));
}

static void arrays_are_where_they_were_put(void **state) {
    (void)state;
    float *elements;
    bool in_place = false;
    OK(bt_runtime_init(.num_cpus = 2, .store_bytes = (uint64_t)1 << 30));
    BT_SCOPE {
        bt_array *x = large_array(&elements), *a, *b;
        int64_t sum = checksum(x, &in_place), seen;
        assert_false(in_place);
        bt_ref *ref = bt_put(x);
        OK(bt_get(ref, &a));
        OK(bt_get(ref, &b));
        const float *map = bt_map(a);
        assert_ptr_equal(map, bt_map(b));
        assert_true(is_shared(map));
        assert_memory_equal(map, elements, LARGE * sizeof *elements);
        OK(bt_get(bt_remote(sum_of, ref), &seen));
        assert_true(seen == sum);
        OK(bt_get(bt_remote(sum_of, x), &seen)); /* as an argument of its own */
        assert_true(seen == sum);

        bt_array *doubled;
        OK(bt_get(bt_remote(twice, ref), &doubled));
        const float *twice_map = bt_map(doubled);
        assert_true(is_shared(twice_map));
        for (int i = 0; i < LARGE; i++) assert_true(twice_map[i] == elements[i] * 2);

        bt_actor *keeper = bt_actor_new(keeper_new, ref);
        OK(bt_get(bt_method(keeper, keeper_sum), &seen));
        assert_true(seen == sum);
        bt_ref_release(bt_ref_retain(ref));
        OK(bt_get(bt_method(keeper, keeper_get), &a));
        assert_memory_equal(bt_map(a), elements, LARGE * sizeof *elements);
        free(elements);
    }
}

static void what_is_computed_from_them_leaves_them_alone(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1, .store_bytes = 256 * MIB));
    BT_SCOPE {
        bt_ref *ref = bt_put(bt_full(3, BT_F32, MIB));
        bt_array *x, *y;
        float *other = calloc(MIB, sizeof *other);
        OK(bt_get(ref, &x));
        y = x;
        for (int i = 0; i < 10; i++) y = bt_add(bt_mul(y, bt_num(2)), bt_num(1));
        OK(bt_block(y));
        bt_shared *variable = bt_shared_new(x, NULL);
        OK(bt_set(variable, bt_add(bt_value(variable), bt_num(5))));
        OK(bt_block(bt_value(variable)));
        OK(bt_write(x, other, MIB * sizeof *other));
        free(other);
        double value;
        OK(bt_get(bt_remote(first_of, ref), &value));
        assert_true(value > 2.5 && value < 3.5);
        OK(bt_get(bt_remote(first_of, bt_value(variable)), &value));
        assert_true(value > 7.5 && value < 8.5);
    }
}

static void arrays_outlive_the_reference_and_the_runtime(void **state) {
    (void)state;
    bt_array *kept = NULL;
    OK(bt_runtime_init(.num_cpus = 1, .store_bytes = 128 * MIB));
    BT_SCOPE {
        bt_array *x;
        OK(bt_get(bt_remote(twice, bt_full(4, BT_F32, 4 * MIB)), &x));
        bt_assign(&kept, x);
    }
    BT_SCOPE
        for (int i = 0; i < 40; i++) OK(bt_get(bt_put(bt_full(i, BT_F32, 4 * MIB)), NULL));
    OK(bt_runtime_shutdown());
    const float *map = bt_map(kept);
    for (size_t i = 0; i < 4 * MIB; i++) assert_true(map[i] == 8);
    assert_true(is_shared(map));
    bt_assign(&kept, NULL);
}

/* --- more than memory --------------------------------------------------------------------------------------------------------------- */

static void values_that_do_not_fit_go_to_disk_and_come_back(void **state) {
    (void)state;
    enum { COUNT = 128, FLOATS = 2 * MIB /* 8 MiB each: 1 GiB */ };
    char folder[] = "/tmp/berth-store-XXXXXX";
    bt_ref *refs[COUNT];
    assert_non_null(mkdtemp(folder));
    OK(bt_runtime_init(.num_cpus = 2, .store_bytes = 64 * MIB, .spill_folder = folder,
                       .spill_bytes = (uint64_t)2 << 30));
    BT_SCOPE {
        for (int i = 0; i < COUNT; i++) {
            BT_SCOPE {
                refs[i] = bt_ref_retain(i % 2 ? bt_put(bt_full(i, BT_F32, FLOATS))
                                              : bt_remote(twice, bt_full(i / 2., BT_F32, FLOATS)));
                OK(bt_get(refs[i], NULL));
            }
        }
        char *text = bt_runtime_text(false); /* at most 7 fit */
        if (!strstr(text, ", 128 objects, 12")) fail_msg("%s", text);
        assert_non_null(strstr(text, "of them on disk (9")); /* MiB */
        bt_free(text);
        for (int k = 0; k < COUNT; k++) {
            int i = k * 37 % COUNT;
            BT_SCOPE {
                bt_array *x;
                double first;
                if (k % 3) {
                    OK(bt_get(refs[i], &x));
                    const float *map = bt_map(x);
                    for (int e = 0; e < FLOATS; e++) assert_true(map[e] == (float)i);
                } else {
                    OK(bt_get(bt_remote(first_of, refs[i]), &first));
                    assert_true((int)first == i);
                }
            }
        }
        for (int i = 0; i < COUNT; i++) bt_ref_release(refs[i]);
    }
    assert_int_equal(rmdir(folder), 0); /* while it runs: nothing stands there by a name */
}

static void arguments_of_tasks_that_wait_go_to_disk(void **state) {
    (void)state;
    enum { COUNT = 60 };
    OK(bt_runtime_init(.num_cpus = 1, .store_bytes = 32 * MIB));
    BT_SCOPE {
        bt_ref *refs[COUNT];
        for (int i = 0; i < COUNT; i++)
            BT_SCOPE
                refs[i] = bt_ref_retain(bt_remote(first_of, bt_full(i, BT_F32, MIB)));
        for (int i = 0; i < COUNT; i++) {
            double first;
            OK(bt_get(refs[i], &first));
            assert_true((int)first == i);
            bt_ref_release(refs[i]);
        }
    }
}

static void limits_are_named(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1, .store_bytes = 64 * MIB));
    BT_SCOPE {
        bt_array *x[4];
        FAILS(bt_get(bt_put(bt_full(1, BT_F32, 20 * MIB)), NULL), BT_RESOURCE_EXHAUSTED, "67108864");
        FAILS(bt_error_status(), BT_RESOURCE_EXHAUSTED, "83886"); /* 80 MiB and its head */
        for (int i = 0; i < 3; i++) OK(bt_get(bt_put(bt_full(i, BT_F32, 4 * MIB)), &x[i]));
        BT_SCOPE
            FAILS(bt_get(bt_put(bt_full(1, BT_F32, 5 * MIB)), NULL), BT_RESOURCE_EXHAUSTED, "held by the program");
        OK(bt_get(bt_put(bt_full(1, BT_F32, 3 * MIB)), NULL));
        FAILS(bt_get(bt_remote(twice, bt_full(1, BT_F32, 8 * MIB)), &x[3]), BT_RESOURCE_EXHAUSTED,
              "held by the program");
        const float *map = bt_map(x[2]);
        for (size_t i = 0; i < 4 * MIB; i++) assert_true(map[i] == 2);
    }
    BT_SCOPE
        OK(bt_get(bt_put(bt_full(1, BT_F32, 15 * MIB)), NULL)); /* all of it is free again */
}

static bt_status grow(bt_task *task) {
    bt_bytes bytes;
    bt_status status = bt_argument(task, 0, &bytes);
    char *grown = status == BT_OK ? malloc(bytes.size) : NULL;
    for (size_t i = 0; grown && i < bytes.size; i++) grown[i] = (char)(((const char *)bytes.data)[i] + 1);
    if (status == BT_OK) status = grown ? bt_return(task, ((bt_bytes){grown, bytes.size})) : BT_RESOURCE_EXHAUSTED;
    free(grown);
    return status;
}
BT_REMOTE(grow);

/* Values that together are 16 times what the store holds, with more calls at once than have room for their arguments: each waits for room. */
static void maps_are_larger_than_the_store(void **state) {
    enum { VALUES = 40, BYTES = 2 * MIB };
    static char bytes[BYTES];
    bt_ref *refs[VALUES];
    (void)state;
    OK(bt_runtime_init(.num_cpus = 8, .store_bytes = 10 * MIB));
    BT_SCOPE {
        for (int i = 0; i < VALUES; i++) {
            memset(bytes, i, sizeof bytes);
            BT_SCOPE
                refs[i] = bt_ref_retain(bt_remote(grow, bt_put(((bt_bytes){bytes, sizeof bytes}))));
        }
        for (int i = 0; i < VALUES; i++) {
            bt_bytes got = {0};
            OK(bt_get(refs[i], &got));
            assert_int_equal(((const char *)got.data)[BYTES - 1], i + 1);
            bt_ref_release(refs[i]);
        }
    }
}

/* Without disk the first values fill the store, and those who wait for room would wait for each other: they are told who holds what. */
static bt_status some_bytes(bt_task *task) {
    static char bytes[100000];
    return bt_return(task, ((bt_bytes){bytes, sizeof bytes}));
}
BT_REMOTE(some_bytes);

/* The memory of values is rounded up to pages: it reaches the limit before their bytes do. */
static void small_stores_are_filled(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .store_bytes = 5 << 20));
    BT_SCOPE {
        bt_ref *refs[100];
        for (int i = 0; i < 100; i++) refs[i] = bt_remote(some_bytes);
        for (int i = 0; i < 100; i++) OK(bt_get_within(refs[i], SOON, NULL));
    }
}

static void who_cannot_have_room_hears_who_has_it(void **state) {
    static char bytes[2 * MIB];
    bt_ref *refs[6];
    int failed = 0;
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .store_bytes = 10 * MIB, .spill_bytes = 4096));
    BT_SCOPE {
        bt_ref *value = bt_put(((bt_bytes){bytes, sizeof bytes}));
        for (int i = 0; i < 6; i++) refs[i] = bt_remote(grow, value);
        for (int i = 0; i < 6; i++) {
            bt_status status = bt_get(refs[i], NULL);
            if (status == BT_OK) continue;
            assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
            assert_non_null(strstr(bt_error_text(), "the program"));
            failed++;
        }
        assert_int_equal(failed, 3); /* the value and three results have room */
    }
}

/* Reads one value after the other, and lets go of none. */
static bt_status hold_all(bt_task *task) {
    bt_list list;
    bt_status status = bt_argument(task, 0, &list);
    for (int i = 0; status == BT_OK && i < bt_list_count(list); i++) {
        bt_ref *ref;
        bt_bytes bytes;
        status = bt_list_get(list, i, &ref);
        if (status == BT_OK) status = bt_get(ref, &bytes);
    }
    return status;
}
BT_REMOTE(hold_all);

/* What it waits for is on disk, and cannot come back: it is told, nobody else, and what comes after it goes on. */
static void who_holds_too_much_is_told(void **state) {
    static char bytes[2 * MIB];
    bt_ref *refs[10];
    (void)state;
    OK(bt_runtime_init(.num_cpus = 2, .store_bytes = 10 * MIB));
    for (int round = 0; round < 3; round++)
        BT_SCOPE {
            for (int i = 0; i < 10; i++) refs[i] = bt_put(((bt_bytes){bytes, sizeof bytes}));
            bt_ref *all = bt_remote(hold_all, bt_list_of(refs, 10));
            FAILS(bt_get(all, NULL), BT_RESOURCE_EXHAUSTED, "held by hold_all");
            OK(bt_get(bt_remote(grow, refs[0]), NULL));
        }
}

static void without_a_folder_what_fits_goes_on(void **state) {
    (void)state;
    OK(bt_runtime_init(.num_cpus = 1, .store_bytes = 16 * MIB, .spill_folder = "/nonexistent/place"));
    BT_SCOPE {
        bt_ref *first = bt_put(bt_full(1, BT_F32, 3 * MIB));
        FAILS(bt_get(bt_put(bt_full(2, BT_F32, 3 * MIB)), NULL), BT_RESOURCE_EXHAUSTED, "/nonexistent/place");
        double value;
        OK(bt_get(bt_remote(first_of, first), &value));
    }
    BT_SCOPE
        OK(bt_get(bt_put(bt_full(2, BT_F32, 3 * MIB)), NULL));
}

/* --- killed meanwhile ------------------------------------------------------------------------------------------------------------------ */

static void what_a_killed_process_had_is_free(void **state) {
    (void)state;
    enum { ROUNDS = 12 };
    OK(bt_runtime_init(.num_cpus = 3, .store_bytes = 64 * MIB));
    BT_SCOPE {
        bt_ref *given = bt_put(bt_full(7, BT_F32, MIB));
        for (int round = 0; round < ROUNDS; round++) {
            BT_SCOPE {
                bt_ref *refs[] = {bt_remote(churn, round, given), bt_remote(churn, round + 100, given),
                                  bt_remote(churn_back, 6)};
                nanosleep(&(struct timespec){.tv_nsec = 20000000 + round * 7919000}, NULL);
                for (int i = 0; i < 3; i++) OK(bt_cancel(refs[i], true));
                for (int i = 0; i < 3; i++) assert_int_equal(bt_get(refs[i], NULL), BT_CANCELLED);
            }
        }
        double value;
        OK(bt_get(bt_remote(first_of, given), &value)); /* after the last of them was told to be gone? */
        assert_true(value > 6.5 && value < 7.5);
    }
    bt_status status = BT_RESOURCE_EXHAUSTED;
    for (int i = 0; i < 500 && status != BT_OK; i++) { /* until the last of them is gone */
        BT_SCOPE
            status = bt_get(bt_put(bt_full(1, BT_F32, 15 * MIB + MIB / 2)), NULL);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    OK(status);
}

/* Each in a process of its own: a runtime is begun before the first device is asked for. */
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(arrays_are_where_they_were_put, end_runtime),
        cmocka_unit_test_teardown(what_is_computed_from_them_leaves_them_alone, end_runtime),
        cmocka_unit_test_teardown(arrays_outlive_the_reference_and_the_runtime, end_runtime),
        cmocka_unit_test_teardown(values_that_do_not_fit_go_to_disk_and_come_back, end_runtime),
        cmocka_unit_test_teardown(arguments_of_tasks_that_wait_go_to_disk, end_runtime),
        cmocka_unit_test_teardown(limits_are_named, end_runtime),
        cmocka_unit_test_teardown(maps_are_larger_than_the_store, end_runtime),
        cmocka_unit_test_teardown(small_stores_are_filled, end_runtime),
        cmocka_unit_test_teardown(who_cannot_have_room_hears_who_has_it, end_runtime),
        cmocka_unit_test_teardown(who_holds_too_much_is_told, end_runtime),
        cmocka_unit_test_teardown(without_a_folder_what_fits_goes_on, end_runtime),
        cmocka_unit_test_teardown(what_a_killed_process_had_is_free, end_runtime),
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        int status = -1;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            alarm(250); /* nothing hangs */
            exit(_cmocka_run_group_tests(tests[i].name, &tests[i], 1, NULL, NULL));
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) failed++;
    }
    return failed;
}
