// labels: threads
/* Structures that begin with their size, and options of tasks: what was set is told by values, not by how it is spelt. */
#include <string.h>
#include <unistd.h>

#include "support/support.h"

#define HIDE .num_gpus = 0
#define TWO_OF(what) .num_##what = 2

/* --- functions of workers ------------------------------------------------------------------------------------------------ */

static bt_status mask(bt_task *task) {
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    return bt_return(task, text ? text : "unset");
}
BT_REMOTE(mask);

static bt_status hidden(bt_task *task) { return mask(task); }
BT_REMOTE(hidden, HIDE);

static bt_status gpus(bt_task *task) {
    int count = bt_get_gpu_ids(NULL, 0);
    return bt_return(task, count);
}
BT_REMOTE(gpus, TWO_OF(gpus), .num_cpus = 0, .name = "named", .max_retries = 3);

static bt_status die(bt_task *task) {
    (void)task;
    _exit(3);
}
BT_REMOTE(die, .deadline_seconds = 1e-9);

/* --- sizes --------------------------------------------------------------------------------------------------------------- */

static bt_status fit(const bt_fit_options *options) {
    bt_status status = BT_OK;
    BT_SCOPE {
        bt_layer *model = bt_dense(3, 2, NULL, bt_key(1));
        bt_array *x = bt_ones(BT_F32, 8, 3), *y = bt_zeros(BT_I32, 8);
        bt_fit_report report;
        status = bt_fit(model, bt_sgd(0.1), x, y, options, &report);
        if (status == BT_OK) assert_int_equal(report.steps, options ? options->epochs : 1);
    }
    return status;
}

static void options_without_their_size(void **state) {
    (void)state;
    FAILS(fit(&(bt_fit_options){.epochs = 5}), BT_INVALID_ARGUMENT,
          "bt_fit: the options have no size: use BT_FIT_OPTIONS(");
    FAILS(fit(&(bt_fit_options){.size = offsetof(bt_fit_options, batch) + 4, .epochs = 5}), BT_INVALID_ARGUMENT,
          "ends inside of a member: use BT_FIT_OPTIONS(");
    FAILS(fit(&(bt_fit_options){.size = 4}), BT_INVALID_ARGUMENT, "is 4, which ends inside of a member");
    OK(fit(NULL));
    OK(fit(BT_FIT_OPTIONS(.epochs = 2, .quiet = true)));
    OK(fit(&(bt_fit_options){BT_FIT_INIT, .epochs = 2, .quiet = true}));
}

static void options_of_other_headers(void **state) {
    (void)state;
    struct {
        bt_fit_options known;
        int64_t later;
    } newer = {{.size = sizeof newer, .epochs = 2, .quiet = true}, 0};
    OK(fit(&newer.known));
    newer.later = 7;
    FAILS(fit(&newer.known), BT_INVALID_ARGUMENT, "set something that this version of berth does not have");
    bt_fit_options older = {.size = offsetof(bt_fit_options, batch), .epochs = 2, .batch = -1};
    OK(fit(&older)); /* the batch is not part of it */
}

static void information(void **state) {
    (void)state;
    bt_device *cpu = NULL;
    OK(bt_device_find("cpu", &cpu));
    bt_memory_info none = {0}, part = {.size = offsetof(bt_memory_info, limit), .limit = 77};
    FAILS(bt_memory(cpu, &none), BT_INVALID_ARGUMENT, "no size: use bt_memory_info info = BT_MEMORY_INFO_INIT");
    FAILS(bt_memory(cpu, NULL), BT_INVALID_ARGUMENT, "are NULL: use bt_memory_info info = BT_MEMORY_INFO_INIT");
    OK(bt_memory(cpu, &part));
    assert_int_equal(part.limit, 77);
    assert_int_equal(part.size, offsetof(bt_memory_info, limit));
    struct {
        bt_device_info known;
        int64_t later;
    } newer = {{.size = sizeof newer}, 7};
    OK(bt_device_describe(cpu, &newer.known));
    assert_string_equal(newer.known.name, "CPU:0");
    assert_int_equal(newer.known.size, sizeof newer);
    assert_int_equal(newer.later, 0);
    FAILS(bt_device_describe(cpu, &(bt_device_info){0}), BT_INVALID_ARGUMENT, "BT_DEVICE_INFO_INIT");
    FAILS(bt_flag_describe(0, &(bt_flag_info){0}), BT_INVALID_ARGUMENT, "BT_FLAG_INFO_INIT");
    FAILS(bt_compiler(false, &(bt_compiler_info){0}), BT_INVALID_ARGUMENT, "BT_COMPILER_INFO_INIT");
    FAILS(bt_library_describe(0, false, &(bt_library_info){0}), BT_INVALID_ARGUMENT, "BT_LIBRARY_INFO_INIT");
    FAILS(bt_primitive_describe(0, &(bt_primitive_info){0}), BT_INVALID_ARGUMENT, "BT_PRIMITIVE_INFO_INIT");
    assert_null(bt_lease_take(&(bt_lease_options){.num_gpus = 1}));
    assert_non_null(strstr(bt_error_text(), "bt_lease_take: the options have no size: use BT_LEASE("));
}

/* --- tasks --------------------------------------------------------------------------------------------------------------- */

static const char *text_of(bt_ref *ref) {
    const char *text = NULL;
    OK(bt_get(ref, &text));
    return text;
}

static void a_runtime(const char *visible) {
    if (visible)
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
    OK(bt_runtime_init(.num_cpus = 2, TWO_OF(gpus)));
}

static void hiding_is_told_by_values(void **state) {
    (void)state;
    a_runtime("0,1");
    BT_SCOPE {
        bt_task_options by_hand = {.size = sizeof by_hand, .num_gpus = 0};
        bt_task_options variable = *BT_OPTIONS();
        int none = 0;
        assert_string_equal(text_of(bt_remote(mask)), "0,1");
        assert_string_equal(text_of(bt_remote_with(BT_OPTIONS(), mask)), "0,1");
        assert_string_equal(text_of(bt_remote_with(BT_OPTIONS(.priority = 1), mask)), "0,1");
        assert_string_equal(text_of(bt_remote_with(&by_hand, mask)), "0,1");
        assert_string_equal(text_of(bt_remote_with(&variable, mask)), "0,1");
        const char *nothing = text_of(bt_remote_with(BT_OPTIONS(.num_gpus = 0), mask));
        assert_string_not_equal(nothing, "0,1");
        assert_string_equal(text_of(bt_remote_with(BT_OPTIONS(HIDE), mask)), nothing);
        assert_string_equal(text_of(bt_remote_with(BT_OPTIONS(.num_gpus = none), mask)), nothing);
        variable.num_gpus = 0;
        assert_string_equal(text_of(bt_remote_with(&variable, mask)), nothing);
        assert_string_equal(text_of(bt_remote(hidden)), nothing);
    }
    OK(bt_runtime_shutdown());
}

static void options_are_merged_with_the_declared_ones(void **state) {
    (void)state;
    a_runtime(NULL);
    BT_SCOPE {
        int64_t n = -1;
        OK(bt_get(bt_remote(gpus), &n));
        assert_int_equal(n, 2);
        OK(bt_get(bt_remote_with(BT_OPTIONS(.priority = 5), gpus), &n));
        assert_int_equal(n, 2);
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 1), gpus), &n));
        assert_int_equal(n, 1);
        OK(bt_get(bt_remote_with(BT_OPTIONS(.num_gpus = 0), gpus), &n));
        assert_int_equal(n, 0);
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.num_cpus = 3), gpus), NULL), BT_RESOURCE_EXHAUSTED, "asks for 3 CPU");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.priority = 1), die), NULL), BT_DEADLINE_EXCEEDED, "");
        FAILS(bt_get(bt_remote_with(BT_OPTIONS(.deadline_seconds = 0), die), NULL), BT_ABORTED, "3");
        assert_string_not_equal(text_of(bt_remote_with(BT_OPTIONS(.num_cpus = 1), hidden)), "unset");
    }
    OK(bt_runtime_shutdown());
}

static void sizes_of_task_options(void **state) {
    (void)state;
    a_runtime(NULL);
    BT_SCOPE {
        bt_task_options unsized = {.num_gpus = 1}, cut = {.size = 4};
        FAILS(bt_get(bt_remote_with(&unsized, mask), NULL), BT_INVALID_ARGUMENT,
              "bt_remote_with: the options have no size: use BT_OPTIONS(");
        FAILS(bt_actor_status(bt_actor_new_with(&cut, mask)), BT_INVALID_ARGUMENT, "ends inside of a member");
        FAILS(bt_group_wait(bt_group_new(&unsized, 1), 1), BT_INVALID_ARGUMENT, "no size: use BT_BUNDLE(");
        bt_task_options bundles[] = {BT_BUNDLE(.num_gpus = 1), {.num_gpus = 1}};
        FAILS(bt_group_wait(bt_group_new(bundles, 2), 1), BT_INVALID_ARGUMENT, "no size: use BT_BUNDLE(");
        BT_SCOPE {
            bt_task_options all[] = {BT_BUNDLE(TWO_OF(gpus)), BT_BUNDLE(TWO_OF(cpus))};
            OK(bt_group_wait(bt_group_new(all, 2), 60));
        }
        struct {
            bt_task_options known;
            int64_t later;
        } newer = {BT_BUNDLE(.priority = 1), 0};
        newer.known.size = sizeof newer;
        assert_string_equal(text_of(bt_remote_with(&newer.known, mask)), "unset");
        newer.later = 1;
        FAILS(bt_get(bt_remote_with(&newer.known, mask), NULL), BT_INVALID_ARGUMENT, "does not have");
    }
    OK(bt_runtime_shutdown());
    FAILS(bt_runtime_start(&(bt_runtime_options){.num_cpus = 1}), BT_INVALID_ARGUMENT,
          "the options have no size: use bt_runtime_init(");
    FAILS(bt_runtime_start(NULL), BT_INVALID_ARGUMENT, "bt_runtime_init(");
}

static void a_runtime_without_cpus(void **state) {
    (void)state;
    unsetenv("CUDA_VISIBLE_DEVICES");
    OK(bt_runtime_init(.num_cpus = 0));
    BT_SCOPE {
        assert_true(bt_resource_total("CPU") == 0);
        FAILS(bt_get(bt_remote(mask), NULL), BT_RESOURCE_EXHAUSTED, "asks for 1 CPU; the runtime has 0");
        assert_string_equal(text_of(bt_remote_with(BT_OPTIONS(.num_cpus = 0), mask)), "unset");
    }
    OK(bt_runtime_shutdown());
    OK(bt_runtime_start(&(bt_runtime_options){.size = sizeof(bt_runtime_options)}));
    assert_true(bt_resource_total("CPU") >= 1);
    OK(bt_runtime_shutdown());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hiding_is_told_by_values), /* tasks first: they want a process without devices */
        cmocka_unit_test(options_are_merged_with_the_declared_ones),
        cmocka_unit_test(sizes_of_task_options),
        cmocka_unit_test(a_runtime_without_cpus),
        cmocka_unit_test(options_without_their_size),
        cmocka_unit_test(options_of_other_headers),
        cmocka_unit_test(information),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
