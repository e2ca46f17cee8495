// `berth bench`: what it prints and refuses; no times are judged.
// labels: slow
// timeout: 300
#include <berth.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "command.h"

#define COMMAND BERTH_BUILD_DIR "/berth bench "

/* `berth bench ARGUMENTS`. */
static int run(const char *arguments) {
    return run_line("unset BERTH_FLAGS BERTH_SYNC CUDA_VISIBLE_DEVICES; " COMMAND "%s", arguments);
}

static json_t *parse(const char *text) {
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    if (!value) fail_msg("%s in:\n%s", error.text, text);
    return value;
}

static double number(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number %s in:\n%s", key, output);
    return json_number_value(value);
}

static void rows_are_timed(void **state) {
    static const char *const rows[] = {"dependent_adds", "matmul_small", "startup", "compile"};
    assert_int_equal(run("--json --repetitions 3 dependent_adds matmul_small startup compile"), 0);
    json_t *list = parse(output);
    assert_int_equal(json_array_size(list), 4);
    for (size_t i = 0; i < 4; i++) {
        json_t *row = json_array_get(list, i);
        assert_string_equal(json_string_value(json_object_get(row, "row")), rows[i]);
        assert_int_equal((int)number(row, "repetitions"), 3);
        assert_true(number(row, "min_s") > 0 && number(row, "median_s") >= number(row, "min_s"));
        assert_true(number(row, "kernels_compiled") >= 0);
    }
    assert_true(number(json_array_get(list, 1), "flop_per_s") > 0);
    json_decref(list);
}

static void a_table_is_printed(void **state) {
    assert_int_equal(run("--repetitions 1 dependent_adds startup"), 0);
    assert_says("ROW ");
    assert_says("\ndependent_adds ");
    assert_says("a process that adds two arrays\n");
}

static void at_least_five_repetitions(void **state) {
    assert_int_equal(run("--json dependent_adds"), 0);
    json_t *list = parse(output);
    assert_true(number(json_array_get(list, 0), "repetitions") >= 5);
    json_decref(list);
}

static void wrong_usage_is_refused(void **state) {
    assert_int_equal(run("softmx 2>&1"), 2);
    assert_says("unknown row \"softmx\"; did you mean \"softmax\"?");
    assert_int_equal(run("dependent_adds something 2>&1"), 2);
    assert_says("unknown row \"something\"; \"berth bench --help\" lists them");
    assert_int_equal(run("--repetitions 0 2>&1"), 2);
    assert_int_equal(run("--interactive sum 2>&1"), 2);
    assert_int_equal(run("--nonsense 2>&1"), 2);
}

/* The rows of devices, small, on a simulated one. */
static void rows_run_on_a_device(void **state) {
    static const char flags[] = "BERTH_FLAGS=devices=sim:gpu*1@1G ";
    assert_int_equal(run_line("%s" COMMAND
                              "--device gpu:0 --json --shrink 64 --repetitions 1 large_elementwise large_sum "
                              "large_softmax large_layer_norm large_transpose_add large_gather matmul_f32_4096 "
                              "matmul_tf32_1024 matmul_fast_bf16_1024 matmul_bf16_2048 launch launch_100 launch_graph "
                              "upload download upload_pinned download_pinned",
                              flags),
                     0);
    json_t *list = parse(output);
    assert_int_equal(json_array_size(list), 17);
    for (size_t i = 0; i < 17; i++) {
        json_t *row = json_array_get(list, i);
        assert_string_equal(json_string_value(json_object_get(row, "device")), "GPU:0");
        assert_true(number(row, "median_s") > 0);
        if (i < 6 || i > 12) assert_true(number(row, "copy_bytes_per_s") > 0);
    }
    json_t *product = json_array_get(list, 6); /* its sides are 64 times shorter */
    double flops = number(product, "flop_per_s") * number(product, "median_s");
    assert_true(flops > 2.0 * 64 * 64 * 63 && flops < 2.0 * 64 * 64 * 65);
    json_decref(list);
    assert_int_equal(run("--device gpu:7 launch 2>&1"), 1);
}

static void the_first_result_is_told_step_by_step(void **state) {
    static const char *const steps[] = {"process_s", "probe_s", "open_s", "first_s", "again_s", "other_s", "close_s"};
    assert_int_equal(run("--first-result --device cpu"), 0);
    json_t *ledger = parse(output);
    assert_true(number(ledger, "first_result_s") > 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) assert_true(number(ledger, steps[i]) >= 0);
    json_decref(ledger);
}

/* They are what the flag devices takes: the row runs on that model. */
static void figures_are_a_device(void **state) {
    char figures[1000];
    assert_int_equal(run("--figures"), 0);
    output[strcspn(output, "\n")] = '\0';
    if (strncmp(output, "zen3{units=", strlen("zen3{units="))) fail_msg("%s", output);
    snprintf(figures, sizeof figures, "%.900s", output);
    assert_int_equal(run_line("BERTH_FLAGS='devices=sim:%s' " COMMAND "--json --device cpu launch", figures), 0);
    json_t *list = parse(output);
    assert_true(number(json_array_get(list, 0), "median_s") > 0);
    assert_true(number(json_array_get(list, 0), "median_s") == number(json_array_get(list, 0), "min_s"));
    json_decref(list);
}

static void help_names_every_row(void **state) {
    static const char *const rows[] = {"elementwise",
                                       "elementwise_compiled",
                                       "linspace",
                                       "random100m",
                                       "random100m_mixed",
                                       "permutation",
                                       "normal",
                                       "matmul1024",
                                       "matmul2048",
                                       "matmul4096",
                                       "matmul_small",
                                       "thin_product",
                                       "cholesky",
                                       "softmax",
                                       "layer_norm",
                                       "sum",
                                       "sum_axis0",
                                       "sum_axis1",
                                       "transpose_add",
                                       "broadcast",
                                       "gather",
                                       "dependent_adds",
                                       "cumsum",
                                       "cumsum_short",
                                       "cumsum_axis0",
                                       "sort",
                                       "sort_short",
                                       "sort4m",
                                       "sort_rows",
                                       "sort_indices",
                                       "topk",
                                       "argmax",
                                       "scatter_add",
                                       "scatter_add_one",
                                       "scatter_rows",
                                       "embedding_grad",
                                       "scatter_axis",
                                       "take_gradient",
                                       "layer_norm_gradient",
                                       "softmax_gradient",
                                       "matmul_vmap",
                                       "softmax_vmap",
                                       "gather_vmap",
                                       "example_gradients",
                                       "example_gradients_by_hand",
                                       "hvp",
                                       "compile",
                                       "startup",
                                       "step_small",
                                       "step_medium",
                                       "step_large",
                                       "gru_forward",
                                       "gru_step",
                                       "scan_steps",
                                       "while_steps"};
    assert_int_equal(run("--help"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_says(rows[i]);
}

/* --- in turn with another process ---------------------------------------------------------------------------------------- */

static void rows_are_run_one_by_one(void **state) {
    char folder[] = "/tmp/berth-bench-test-XXXXXX", file[64], lines[400];
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/sum.npy", folder);
    snprintf(lines, sizeof lines,
             "--interactive 2> /dev/null <<END\ndependent_adds 1\ndependent_adds 2 %s\nnonsense 1\n\nstartup 1\nEND\n",
             file);
    assert_int_equal(run(lines), 1); /* for the row that is not there */
    char *rest = output;
    for (int i = 0; i < 4; i++) {
        json_t *answer = parse(strtok_r(rest, "\n", &rest));
        if (i == 2)
            assert_string_equal(json_string_value(json_object_get(answer, "error")), "unknown row");
        else
            assert_true(json_number_value(json_object_get(answer, "seconds")) > 0);
        json_decref(answer);
    }
    assert_null(strtok_r(rest, "\n", &rest));
    BT_SCOPE {
        bt_array *sum = bt_load_npy(file);
        assert_int_equal(bt_peek_status(sum), BT_OK);
        assert_int_equal(bt_count(sum), 4);
    }
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* --- the cost of nodes --------------------------------------------------------------------------------------------------- */

static void graphs_are_measured_on_a_small_stack(void **state) {
    static const char *const shapes[] = {"chain", "tree", "mesh", "results"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        assert_int_equal(run_line("ulimit -s 2048; BERTH_FLAGS=flush_nodes=1000000,scope_notice=0 " BERTH_BUILD_DIR
                                  "/bench/scaling %s 100000",
                                  shapes[i]),
                         0);
        json_t *figures = parse(output);
        assert_true(number(figures, "record_ns") > 0 && number(figures, "evaluate_ns") > 0);
        assert_true(number(figures, "recorded_bytes") >= 0 && number(figures, "peak_bytes") > 0);
        json_decref(figures);
    }
    assert_int_equal(run_line(BERTH_BUILD_DIR "/bench/scaling %s 50000", "loop"), 0);
    assert_int_equal(run_line(BERTH_BUILD_DIR "/bench/scaling %s 50000 2>&1", "nonsense"), 2);
}

/* --- tasks --------------------------------------------------------------------------------------------------------------- */

static void rows_of_tasks_are_run(void **state) {
    static const char *const rows[] = {"first_task",  "task_round_trip",  "task_batch",  "queue_10000",
                                       "first_actor", "actor_round_trip", "actor_batch", "actor_batch_4_threads",
                                       "actors_1000", "put_100mb",        "ref_100mb",   "copy"};
    char lines[300] = "", *end = lines;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) end += sprintf(end, "%s\\n", rows[i]);
    snprintf(end, sizeof lines - (size_t)(end - lines), "' | " BERTH_BUILD_DIR "/bench/tasks 1000");
    assert_int_equal(run_line("printf '%s", lines), 0);
    char *rest = output;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *answer = parse(strtok_r(rest, "\n", &rest));
        assert_string_equal(json_string_value(json_object_get(answer, "row")), rows[i]);
        assert_true(number(answer, "seconds") > 0);
        json_decref(answer);
    }
    assert_int_equal(run_line("echo %s | " BERTH_BUILD_DIR "/bench/tasks", "nonsense"), 1);
    assert_says("\"error\": \"unknown row\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_timed),
        cmocka_unit_test(a_table_is_printed),
        cmocka_unit_test(at_least_five_repetitions),
        cmocka_unit_test(wrong_usage_is_refused),
        cmocka_unit_test(rows_run_on_a_device),
        cmocka_unit_test(the_first_result_is_told_step_by_step),
        cmocka_unit_test(figures_are_a_device),
        cmocka_unit_test(help_names_every_row),
        cmocka_unit_test(rows_are_run_one_by_one),
        cmocka_unit_test(graphs_are_measured_on_a_small_stack),
        cmocka_unit_test(rows_of_tasks_are_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
