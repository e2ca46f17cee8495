/* A child of a process with open devices gets errors from them, never a hang; one that is forked before is like any other. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"
#include "support/support.h"

/* Runs fn in a child; its return value, or -1 when it was ended by a signal (an alarm among them). */
static int in_child(int (*fn)(void *data), void *data) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(SOON);
        _exit(fn(data));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int refused(bt_status status) {
    CHECK(status == BT_UNAVAILABLE);
    CHECK(strstr(bt_error_text(), "forked after a device was opened"));
    CHECK(strstr(bt_error_text(), "fork before the first use"));
    return 0;
}

static int touches_devices(void *data) {
    bt_array *parents = data;
    float value;
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    CHECK(!refused(bt_read(parents, &value, sizeof value)));
    BT_SCOPE {
        CHECK(!refused(bt_read(bt_add(parents, parents), &value, sizeof value)));
        CHECK(!refused(bt_read(BT_ARRAY(float, (1), 1), &value, sizeof value)));
        CHECK(!refused(bt_read(bt_to(parents, "gpu:1"), &value, sizeof value)));
        CHECK(!refused(bt_eval(bt_ones(BT_F32, 1))));
        CHECK(!refused(bt_memory(bt_device_of(parents), &info)));
        CHECK(!bt_map(parents) && !refused(bt_error_status()));
        CHECK(!bt_to_text(parents) && !refused(bt_error_status()));
    }
    CHECK(!refused(bt_shutdown()));
    bt_memory_trim(bt_device_of(parents));
    bt_synchronize();
    bt_release(parents);
    return 0;
}

static int touches_none(void *data) {
    bt_array *parents = data;
    bt_device *gpu;
    CHECK(bt_device_find("gpu:1", &gpu) == BT_OK); /* asking opens nothing */
    CHECK(bt_device_count(BT_GPU) == 2);
    CHECK(bt_size(parents, 0) == 1 && bt_dtype_of(parents) == BT_F32);
    char text[32];
    CHECK(bt_get_flag("transfers", text, sizeof text) == BT_OK);
    return 0;
}

static int computes(void *data) {
    float value;
    BT_SCOPE {
        CHECK(bt_read(bt_add(bt_ones(BT_F32, 1), bt_num(1)), &value, sizeof value) == BT_OK);
        CHECK(value == 2);
    }
    CHECK(bt_shutdown() == BT_OK);
    return 0;
}

static void a_child_forked_before_any_device_is_like_any_process(void **state) {
    fresh("devices=sim:gpu*2@64M");
    assert_int_equal(bt_device_count(BT_GPU), 2); /* the devices are listed, none is open */
    assert_int_equal(in_child(computes, NULL), 0);
    computes(NULL); /* and so is the parent */
}

static void a_child_that_touches_a_device_gets_an_error(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_array *x = bt_add(bt_ones(BT_F32, 1), bt_num(1));
        OK(bt_block(x));
        assert_int_equal(in_child(touches_devices, bt_retain(x)), 0);
        bt_release(x);
        assert_int_equal(in_child(touches_none, x), 0);
        READS(x, 2); /* the parent goes on */
    }
}

static void after_a_shutdown_children_are_free_again(void **state) {
    fresh("devices=sim:gpu*2@64M");
    assert_int_equal(computes(NULL), 0);
    assert_int_equal(in_child(computes, NULL), 0);
}

static atomic_bool stop;
static void *busy(void *unused) {
    while (!atomic_load(&stop)) {
        BT_SCOPE {
            bt_array *x = bt_ones(BT_F32, 64);
            for (int i = 0; i < 8; i++) x = bt_to(bt_add(x, x), i % 2 ? "gpu:0" : "gpu:1");
            (void)!bt_eval(x);
        }
    }
    return NULL;
}

static int touches_and_releases(void *data) {
    bt_array *parents = data;
    float value;
    CHECK(!refused(bt_read(parents, &value, sizeof value)));
    BT_SCOPE
        CHECK(!refused(bt_read(bt_add(parents, parents), &value, sizeof value)));
    bt_release(parents);
    return 0;
}

static void a_fork_in_the_midst_of_work_does_not_hang_the_child(void **state) {
    fresh("devices=sim:gpu*2@64M");
    pthread_t threads[2];
    bt_array *x = NULL;
    BT_SCOPE
        bt_assign(&x, bt_add(bt_ones(BT_F32, 1), bt_num(1)));
    OK(bt_block(x));
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, busy, NULL);
    for (int i = 0; i < 100; i++) assert_int_equal(in_child(touches_and_releases, x), 0);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    READS(x, 2);
    bt_release(x);
}

static void ignore(void *data) { *(bool *)data = true; }

/* What waits for work says that it cannot; what does not wait works. */
static int waits_for_nothing(void *data) {
    bt_array *pending = data;
    bt_profile *profile = bt_profile_start();
    bool called = false;
    double seconds;
    char text[32];
    CHECK(!profile && !refused(bt_error_status()));
    bt_error_clear();
    bt_synchronize();
    CHECK(!refused(bt_error_status()) && strstr(bt_error_text(), "bt_synchronize"));
    bt_error_clear();
    seconds = bt_time(ignore, &called);
    CHECK(seconds != seconds && !called && !refused(bt_error_status()) && strstr(bt_error_text(), "bt_time"));
    bt_error_clear();
    CHECK(!bt_timeit(ignore, &called, 2, 1, &seconds) && !called && !refused(bt_error_status()));
    CHECK(!refused(bt_block(pending)) && (bt_eval(pending) == BT_OK || !refused(bt_error_status())));
    bt_error_clear();
    seconds = bt_item(pending);
    CHECK(seconds != seconds && !refused(bt_error_status()));
    BT_SCOPE {
        bt_shared *shared = bt_shared_new(bt_ones(BT_F32, 2), NULL);
        CHECK(!shared || !refused(bt_read(bt_value(shared), text, 2 * sizeof(float))));
        CHECK(bt_save("/dev/null", (const char *const[]){"x"}, &pending, 1, NULL) != BT_OK);
        bt_array *y = bt_mul(pending, pending), *gradient = bt_grad1(y, pending);
        CHECK(!refused(bt_eval(gradient)));
    }
    bt_memory_trim(bt_device_of(pending));
    bt_print(pending);
    CHECK(!refused(bt_shutdown()));
    bt_release(pending);
    return 0;
}

static bt_array *much_work(void) {
    bt_array *x = bt_ones(BT_F32, 600, 600);
    for (int i = 0; i < 12; i++) x = bt_mul(bt_matmul(x, x), bt_num(1.0 / 600));
    return bt_max(x, BT_ALL, false);
}

static void a_child_does_not_wait_for_its_parents_work(void **state) {
    fresh("");
    for (int i = 0; i < 3; i++) {
        bt_array *x = NULL;
        BT_SCOPE
            bt_assign(&x, much_work());
        if (i < 2) OK(bt_eval(x)); /* queued and running; then only recorded */
        assert_int_equal(in_child(waits_for_nothing, x), 0);
        READS(x, 1);
        bt_release(x);
    }
}

#define MODULE(name) BERTH_BUILD_DIR "/modules/" name "_module.so"

static void *load_slow_module(void *unused) {
    return bt_module_load(MODULE("slow")) == BT_OK ? NULL : (void *)MODULE("slow");
}

static int loads_a_module(void *unused) {
    CHECK(bt_module_load(MODULE("task")) == BT_OK);
    return 0;
}

static void a_fork_while_a_module_is_loaded_does_not_hang_the_child(void **state) {
    fresh("");
    int tells[2], asks[2];
    char number[16], byte = 0;
    assert_int_equal(pipe(tells) | pipe(asks), 0);
    snprintf(number, sizeof number, "%d", tells[1]);
    setenv("SLOW_MODULE_TELLS", number, 1);
    snprintf(number, sizeof number, "%d", asks[0]);
    setenv("SLOW_MODULE_ASKS", number, 1);
    OK(bt_module_load(MODULE("task")));
    pthread_t thread;
    void *failed;
    pthread_create(&thread, NULL, load_slow_module, NULL);
    assert_int_equal(read(tells[0], &byte, 1), 1);
    int result = in_child(loads_a_module, NULL);
    assert_int_equal(write(asks[1], &byte, 1), 1);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(result, 0);
    for (int i = 0; i < 2; i++) {
        close(tells[i]);
        close(asks[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_forked_before_any_device_is_like_any_process),
        cmocka_unit_test(a_child_that_touches_a_device_gets_an_error),
        cmocka_unit_test(after_a_shutdown_children_are_free_again),
        cmocka_unit_test(a_fork_in_the_midst_of_work_does_not_hang_the_child),
        cmocka_unit_test(a_child_does_not_wait_for_its_parents_work),
        cmocka_unit_test(a_fork_while_a_module_is_loaded_does_not_hang_the_child),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
