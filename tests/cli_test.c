// The command `berth`, run as a user runs it.
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

#include <cmocka.h>
#include <jansson.h>

#include "command.h"

#define COMMAND BERTH_BUILD_DIR "/berth"

/* Runs `berth ARGUMENTS` in the shell, after `before` (settings, cd); its output, errors among it, is in `output`. The exit
 * code. */
static int run(const char *before, const char *arguments) {
    return run_line("unset BERTH_FLAGS BERTH_SYNC CUDA_VISIBLE_DEVICES; %s " COMMAND " %s 2>&1", before, arguments);
}

/* --- the command itself --------------------------------------------------------------------------------------------- */

static void test_help(void **state) {
    assert_int_equal(run("", "--help"), 0);
    assert_says("exit codes: 0 done, 1 failed, 2 wrong usage");
    const char *const commands[] = {"bench",   "demo", "devices", "doctor", "config", "ops",
                                    "explain", "fit",  "ps",      "top",    "trace",  "show"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char arguments[64], usage[64];
        assert_int_equal(run("", "--help"), 0);
        assert_says(commands[i]);
        snprintf(arguments, sizeof arguments, "%s --help", commands[i]);
        snprintf(usage, sizeof usage, "usage: berth %s", commands[i]);
        assert_int_equal(run("", arguments), 0);
        assert_says(usage);
        assert_says("exit codes: 0 done, 1 failed, 2 wrong usage");
    }
    assert_int_equal(run("", "run --help"), 0);
    assert_says("usage: berth run --gpus N");
    assert_says("exit codes: that of the program; 75 not free");
    assert_int_equal(run("", "--version"), 0);
    assert_says("berth ");
}

static void test_show(void **state) {
    const char *flux = BERTH_SOURCE_DIR "/tests/golden/flux/chain.bson",
               *corpus = BERTH_SOURCE_DIR "/tests/fuzz/corpus/";
    char line[512], folder[] = "/tmp/berth-show-XXXXXX";
    assert_non_null(mkdtemp(folder));
    snprintf(line, sizeof line, "show %s", flux);
    assert_int_equal(run("", line), 0);
    assert_says(": BSON, 4 tensors, 67 elements, 268 B");
    assert_says("model.layers.0.weight  F32    (5, 10)        50  200 B");
    assert_says("model.layers.1.σ: NNlib.#relu");
    assert_says("  Dense(10 => 5),               # 55 parameters");
    snprintf(line, sizeof line, "show --json %s", flux);
    assert_int_equal(run("", line), 0);
    json_t *shown = json_loads(output, 0, NULL), *tensors = json_object_get(shown, "tensors");
    assert_string_equal(json_string_value(json_object_get(shown, "format")), "BSON");
    assert_int_equal(json_integer_value(json_object_get(shown, "elements")), 67);
    assert_int_equal(json_array_size(tensors), 4);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(tensors, 0), "shape"), 1)), 10);
    json_decref(shown);
    BT_SCOPE {
        snprintf(line, sizeof line, "%s/m", folder);
        bt_layer *dense = bt_dense(4, 3, bt_relu, bt_key(1));
        assert_int_equal(bt_save_model(line, bt_chain(dense, bt_chain(bt_dropout_layer(0.5, bt_key(2)), dense))),
                         BT_OK);
        snprintf(line, sizeof line, "%s/a.npy", folder);
        assert_int_equal(bt_save_npy(line, bt_ones(BT_I16, 2, 0)), BT_OK);
    }
    snprintf(line, sizeof line, "show %s/m", folder);
    assert_int_equal(run("", line), 0);
    assert_says(": safetensors, 4 tensors, ");
    assert_says("Chain(\n  Dense(4 => 3, relu)\n  Chain(\n    Dropout(0.5)\n    layer 1 again\n  )\n)\n");
    snprintf(line, sizeof line, "show %s/a.npy", folder);
    assert_int_equal(run("", line), 0);
    assert_says(": NumPy .npy, 1 tensor, 0 elements, 0 B");
    assert_says("(the array)  I16    (2, 0)");
    snprintf(line, sizeof line, "show %szip/checkpoint.pt", corpus);
    assert_int_equal(run("", line), 0);
    assert_says("PyTorch .pt");
    snprintf(line, sizeof line, "show %szip/odd.npz", corpus);
    assert_int_equal(run("", line), 0);
    assert_says("4 of dtypes or ranks that berth has not");
    assert_says("text     <U2 ");
    assert_says("x        U8 ");
    snprintf(line, sizeof line, "head -c 500 %s > %s/cut", flux, folder);
    assert_int_equal(system(line), 0);
    snprintf(line, sizeof line, "show %s/cut", folder);
    assert_int_equal(run("", line), 1);
    assert_says("byte 0: a document of 3286 bytes in a file of 500");
    assert_int_equal(run("", "show /nowhere"), 1);
    assert_int_equal(run("", "show"), 2);
    assert_says("give a file");
    assert_int_equal(run("", "show a b"), 2);
    snprintf(line, sizeof line, "rm -r %s", folder);
    assert_int_equal(system(line), 0);
}

/* A run that was stopped in its second epoch, with names of which one ends like another. */
static void test_show_of_checkpoints(void **state) {
    char line[512], folder[] = "/tmp/berth-show-XXXXXX";
    assert_non_null(mkdtemp(folder));
    BT_SCOPE {
        bt_layer *inner = bt_chain(bt_dense(4, 4, bt_relu, bt_key(1)), bt_batch_norm_layer(4));
        bt_layer *model = bt_chain(bt_dense(6, 4, bt_relu, bt_key(2)), inner, bt_dense(4, 3, NULL, bt_key(3)));
        bt_array *x = bt_normal(bt_key(4), BT_F32, 96, 6), *y = bt_zeros(BT_I32, 96);
        bt_metric metric = bt_metric_accuracy();
        assert_int_equal(
            bt_fit(model, bt_adamw(0.01), x, y,
                   BT_FIT_OPTIONS(.epochs = 2, .batch = 16, .quiet = true, .checkpoints = folder, .checkpoint_steps = 4,
                                  .validation_x = x, .validation_y = y, .metrics = &metric, .metric_count = 1),
                   NULL),
            BT_OK);
    }
    snprintf(line, sizeof line, "show %s/step-0000000008.safetensors", folder);
    assert_int_equal(run("", line), 0);
    assert_says(": a checkpoint of bt_fit, ");
    assert_says("step       8, 1 epoch complete, 32 rows into the next\n");
    assert_says("optimiser  adamw, rate 0.01\n");
    assert_says("loader     epoch 2, batch 3 is next; 16 of 96 rows each\n");
    assert_says("\n0.weight                 F32    (6, 4)        24   96 B  mean, square, step\n");
    assert_says("\n1.0.weight               F32    (4, 4)        16   64 B  mean, square, step\n");
    assert_says("  validation loss    accuracy\n         1           6  ");
    snprintf(line, sizeof line, "show --json %s/step-0000000008.safetensors", folder);
    assert_int_equal(run("", line), 0);
    json_t *shown = json_loads(output, 0, NULL), *checkpoint = json_object_get(shown, "checkpoint");
    assert_int_equal(json_integer_value(json_object_get(checkpoint, "steps")), 8);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(checkpoint, "loader"), "next")), 2);
    json_t *variables = json_object_get(checkpoint, "variables"), *one;
    size_t i, states = 0;
    json_array_foreach(variables, i, one) states += json_object_size(json_object_get(one, "states"));
    assert_int_equal(json_array_size(variables), 11); /* three of them states of the model */
    assert_int_equal(states, 8 * 3);
    assert_int_equal(json_array_size(json_object_get(checkpoint, "optimizer_states")), 0);
    one = json_array_get(json_object_get(checkpoint, "history"), 0);
    assert_int_equal(json_integer_value(json_object_get(one, "steps")), 6);
    assert_true(json_is_number(json_object_get(one, "validation loss")) &&
                json_is_number(json_object_get(one, "accuracy")));
    json_decref(shown);
    snprintf(line, sizeof line, "show --json %s/best.safetensors", folder); /* a model, which is no checkpoint */
    assert_int_equal(run("", line), 0);
    assert_says("\"checkpoint\": null");
    snprintf(line, sizeof line, "rm -r %s", folder);
    assert_int_equal(system(line), 0);
}

static void test_wrong_usage(void **state) {
    assert_int_equal(run("", ""), 2);
    assert_int_equal(run("", "nonsense"), 2);
    assert_says("there is no command \"nonsense\"");
    assert_int_equal(run("", "--nonsense"), 2);
    assert_int_equal(run("", "devices --nonsense"), 2);
    assert_says("berth devices --help");
    assert_int_equal(run("", "devices nonsense"), 2);
    assert_int_equal(run("", "ops nonsense"), 2);
    assert_int_equal(run("", "doctor nonsense"), 2);
    assert_int_equal(run("", "demo --epochs 0"), 2);
    assert_int_equal(run("", "demo --epochs 1x"), 2);
    assert_int_equal(run("", "demo --devices"), 2);
    assert_int_equal(run("", "demo --devices 33"), 2);
    assert_says("1 to 32");
    assert_int_equal(run("", "demo --help"), 0);
    assert_says("uses N devices, 1 to 32;");
    assert_says("is below 90 %, with conv 98.5 %, with\nlstm 95 %");
    assert_int_equal(run("", "explain"), 2);
    assert_int_equal(run("", "explain true"), 2);
    assert_int_equal(run("", "explain --"), 2);
    assert_int_equal(run("", "fit"), 2);
    assert_int_equal(run("", "fit --xml -- true"), 2);
    assert_int_equal(run("", "fit --json --"), 2);
    assert_int_equal(run("", "trace"), 2);
    assert_int_equal(run("", "trace --"), 2);
    assert_int_equal(run("", "trace -o"), 2);
    assert_int_equal(run("", "trace one.json two.json"), 2);
}

static void test_full_disk_fails(void **state) {
    assert_int_equal(run("", "devices > /dev/full"), 1);
    assert_int_equal(run("", "ops --json > /dev/full"), 1);
}

/* --- devices -------------------------------------------------------------------------------------------------------- */

static void test_devices_text(void **state) {
    assert_int_equal(run("BERTH_FLAGS='devices=sim:gpu*4'", "devices"), 0);
    assert_says("CPU:0");
    assert_says("/job:localhost/replica:0/task:0/device:GPU:3");
    assert_says("Simulated GPU");
    assert_says("*  GPU:0");
    assert_says("1.0 GiB");
    assert_silent_on("GPU:4");
    assert_silent_on("\033");
}

static void test_devices_json(void **state) {
    assert_int_equal(run("BERTH_FLAGS='devices=sim:gpu*4@512M'", "devices --json"), 0);
    assert_int_equal(output[0], '[');
    assert_int_equal(count_said("\"kind\": \"GPU\""), 4);
    assert_int_equal(count_said("\"driver\": \"sim\""), 4);
    assert_int_equal(count_said("\"total_bytes\": 536870912"), 4);
    assert_int_equal(count_said("\"default\": true"), 1);
    assert_says("\"long_name\": \"/job:localhost/replica:0/task:0/device:GPU:3\"");
}

static void test_devices_masked(void **state) {
    assert_int_equal(run("BERTH_FLAGS='devices=sim:gpu*4' CUDA_VISIBLE_DEVICES=2,0", "devices --json"), 0);
    assert_int_equal(count_said("\"kind\": \"GPU\""), 2);
    const char *first = strstr(output, "-000000000002\""), *second = strstr(output, "-000000000000\"");
    assert_true(first && second && first < second);
    assert_int_equal(run("BERTH_FLAGS='devices=sim:gpu*4' CUDA_VISIBLE_DEVICES=-1", "devices"), 0);
    assert_says("*  CPU:0");
    assert_silent_on("GPU:");
}

/* Before the command: a machine of NVIDIA's that is not there (fakes/machine.h). */
static const char *on_machine(const char *json) {
    static char before[500];
    FILE *file = fopen(BERTH_BUILD_DIR "/cli_machine.json", "w");
    assert_non_null(file);
    fputs(json, file);
    fclose(file);
    snprintf(before, sizeof before,
             "export BERTH_FAKE_MACHINE=" BERTH_BUILD_DIR
             "/cli_machine.json BERTH_FLAGS='probe=direct,cache=off,cuda_path=" BERTH_BUILD_DIR "/fakes';");
    return before;
}

static json_t *processes_of(json_t *devices, const char *name) {
    size_t i;
    json_t *one;
    json_array_foreach(devices, i, one) {
        if (!strcmp(json_string_value(json_object_get(one, "name")), name)) return json_object_get(one, "processes");
    }
    fail_msg("no %s in:\n%s", name, output);
    return NULL;
}

static void test_processes_of_a_device(void **state) {
    const char *before =
        on_machine("{\"no_context\": true, \"devices\": [{\"memory\": 134217728, \"processes\": [{\"pid\": 7}, "
                   "{\"pid\": 4711, \"bytes\": 3145728}]}, {\"memory\": 134217728, \"pci\": \"0000:02:00.0\", "
                   "\"uuid\": \"GPU-00000000-0000-0000-0000-000000000002\"}]}");
    assert_int_equal(run(before, "devices"), 0);
    assert_says("GPU:0: memory held by process 4711: 3.0 MiB, process 7: unknown\n");
    assert_int_equal(count_said("memory held by"), 1);
    assert_int_equal(run(before, "doctor"), 0);
    assert_says("held by process 4711: 3.0 MiB, process 7: unknown\n");
    assert_says("held by no process\n");
    assert_int_equal(run(before, "devices --json"), 0);
    json_t *devices = json_loads(output, 0, NULL);
    json_t *list = processes_of(devices, "GPU:0");
    assert_true(json_is_null(processes_of(devices, "CPU:0")));
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "pid")), 4711);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "bytes")), 3145728);
    assert_true(json_is_null(json_object_get(json_array_get(list, 1), "bytes")));
    assert_true(json_is_array(processes_of(devices, "GPU:1")));
    assert_int_equal(json_array_size(processes_of(devices, "GPU:1")), 0);
    json_decref(devices);
}

static void test_energy_of_a_device(void **state) {
    const char *before =
        on_machine("{\"no_context\": true, \"devices\": [{\"memory\": 134217728, \"millijoules\": [5000, 1]}, "
                   "{\"memory\": 134217728, \"pci\": \"0000:02:00.0\"}]}");
    char settings[700];
    snprintf(settings, sizeof settings, "%s export BERTH_FLAGS=\"$BERTH_FLAGS,powercap=/nonexistent\";", before);
    assert_int_equal(run(settings, "doctor"), 0);
    assert_says("\nenergy\n  CPU:0        unknown: /nonexistent cannot be read");
    assert_says("  GPU:0        can be read\n");
    assert_says("  GPU:1        unknown: NVML does not report the energy of NVIDIA Fake");
    assert_int_equal(run(settings, "doctor --json"), 0);
    assert_int_equal(count_said("\"why\": \"/nonexistent cannot be read"), 1);
    assert_int_equal(count_said("\"why\": null"), 1);
}

/* --- settings ------------------------------------------------------------------------------------------------------- */

static void test_config(void **state) {
    assert_int_equal(run("BERTH_FLAGS=soft_placement=on", "config"), 0);
    assert_says("soft_placement = on\n    set by BERTH_FLAGS (default off); bool, on or off");
    assert_says("placement = berth\n    set by default");
    assert_int_equal(run("BERTH_SYNC=1", "config --json"), 0);
    assert_int_equal(count_said("\"doc\": \""), bt_flag_count());
    assert_int_equal(count_said("\"origin\": \"default\""), bt_flag_count() - 1);
    assert_says("\"name\": \"sync\",\n    \"value\": \"on\",\n    \"origin\": \"BERTH_SYNC\"");
}

static void test_bad_flags(void **state) {
    const char *const commands[] = {"config", "devices", "demo"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_int_equal(run("BERTH_FLAGS=soft_placment=on", commands[i]), 1);
        assert_says("unknown flag \"soft_placment\"; did you mean \"soft_placement\"?");
    }
    assert_int_equal(run("BERTH_FLAGS=soft_placement=perhaps", "config"), 1);
    assert_says("it takes on or off");
    assert_int_equal(run("BERTH_FLAGS=soft_placment=on", "doctor"), 1);
    assert_says("error");
}

static void test_doctor(void **state) {
    assert_int_equal(
        run("BERTH_FLAGS='devices=sim:gpu*4;sim:tpu*0,memory_limit=100M' CUDA_VISIBLE_DEVICES=1,3", "doctor"), 0);
    assert_says("memory_limit=100M");
    assert_says("CUDA_VISIBLE_DEVICES=\"1,3\": 2 visible GPUs");
    assert_says("shows 2 of 4 GPUs");
    assert_says("GPU  works");
    assert_says("TPU  none");
    assert_says("limit 100 MiB");
    assert_says("affinity");
    assert_says("cgroup");
}

static void test_doctor_tries_the_compiler(void **state) {
    char folder[] = "/tmp/berth-cli-test-XXXXXX", settings[200];
    assert_non_null(mkdtemp(folder));
    snprintf(settings, sizeof settings, "BERTH_FLAGS=vector=sse2,cache=%s/kernels", folder);
    assert_int_equal(run(settings, "doctor"), 0);
    assert_says("compiler");
    assert_says("vectors");
    assert_says("LLVM");
    assert_says("/kernels: 0 kernels, nothing");
    assert_says("0 kernels compiled in 0.0 ms, 0 found in the cache");
    bt_compiler_info info = BT_COMPILER_INFO_INIT;
    assert_int_equal(bt_compiler(true, &info), BT_OK);
    if (info.trial_ns) {
        assert_says(info.library);
        assert_says("a small function compiled in");
        assert_true(*info.library && !*info.library_reason);
    } else {
        assert_says("libllvm16");
        assert_non_null(strstr(info.library_reason, "libllvm16"));
    }
    assert_int_equal(run("BERTH_FLAGS=cache=off", "doctor"), 0);
    assert_says("unused: the flag cache is off");
    snprintf(settings, sizeof settings, "chmod 777 %s/kernels; BERTH_FLAGS=cache=%s/kernels", folder, folder);
    assert_int_equal(run(settings, "doctor"), 0);
    assert_says("others may write to it");
    snprintf(settings, sizeof settings, "rm -rf %s", folder);
    assert_int_equal(system(settings), 0);
    assert_int_equal(bt_compiler(false, NULL), BT_INVALID_ARGUMENT);
    bt_library_info library = BT_LIBRARY_INFO_INIT;
    for (int i = 0; i < bt_library_count(); i++) {
        assert_int_equal(bt_library_describe(i, true, &library), BT_OK);
        assert_true(!*library.library == !!*library.reason); /* there, or the reason why not */
    }
    assert_int_equal(bt_library_describe(bt_library_count(), false, &library), BT_OUT_OF_RANGE);
    assert_int_equal(bt_library_describe(0, false, NULL), BT_INVALID_ARGUMENT);
}

/* --- operations, plans ---------------------------------------------------------------------------------------------- */

static void test_ops(void **state) {
    assert_int_equal(run("", "ops --json"), 0);
    assert_int_equal(count_said("\"class\": \""), bt_primitive_count());
    assert_int_equal(count_said("\"log_name\": \""), bt_operation_count());
    assert_int_equal(run("", "ops"), 0);
    for (int i = 0; i < bt_primitive_count(); i++) {
        bt_primitive_info info = BT_PRIMITIVE_INFO_INIT;
        assert_int_equal(bt_primitive_describe(i, &info), BT_OK);
        assert_says(info.name);
        assert_says(info.doc);
    }
    for (int i = 0; i < bt_operation_count(); i++) {
        const char *log_name, *name = bt_operation_name(i, &log_name);
        assert_says(name);
        assert_says(log_name);
        if (!strcmp(name, "bt_matmul")) assert_string_equal(log_name, "MatMul");
    }
    assert_null(bt_operation_name(bt_operation_count(), NULL));
    assert_null(bt_operation_name(-1, NULL));
    bt_primitive_info info = BT_PRIMITIVE_INFO_INIT;
    assert_int_equal(bt_primitive_describe(bt_primitive_count(), &info), BT_OUT_OF_RANGE);
    assert_int_equal(bt_primitive_describe(0, NULL), BT_INVALID_ARGUMENT);
}

/* What was printed has these parts, one behind the other. */
static void assert_in_order(const char *const *parts, int count) {
    const char *at = output;
    for (int i = 0; i < count; i++) {
        at = strstr(at, parts[i]);
        if (!at)
            fail_msg("\"%s\" is missing, or is not behind \"%s\", in: %s", parts[i], i ? parts[i - 1] : "", output);
    }
}

static void test_pages_of_operations(void **state) {
    static const char *const of_conv2d[] = {
        "bt_conv2d",   "Cross-correlation", "berth/windows.h",      "SYNOPSIS", "bt_array *bt_conv2d(",
        "DESCRIPTION", "EXAMPLE",           "bt_print(bt_conv2d(x", "PRINTS",   "shape=(1, 1, 2, 2)",
        "Conv2D",      "SEE ALSO"};
    for (int i = 0; i < 2; i++) { /* with and without the prefix */
        assert_int_equal(run("", i ? "ops conv2d" : "ops bt_conv2d"), 0);
        assert_in_order(of_conv2d, sizeof of_conv2d / sizeof *of_conv2d);
        assert_silent_on("PRIMITIVE"); /* there is none of this name */
    }
    for (int i = 0; i < bt_operation_count(); i++) {
        char arguments[80];
        const char *log_name, *name = bt_operation_name(i, &log_name);
        const char *const parts[] = {name, "SYNOPSIS", name, "DESCRIPTION", "EXAMPLE", name, "PRINTS", log_name};
        snprintf(arguments, sizeof arguments, "ops %s", name);
        assert_int_equal(run("", arguments), 0);
        assert_in_order(parts, sizeof parts / sizeof *parts);
    }
}

static void test_pages_of_primitives(void **state) {
    static const char *const of_add[] = {"bt_add", "may be numbers", "PRIMITIVE", "class elementwise", "gradient: add"};
    assert_int_equal(run("", "ops add"), 0); /* the operation, with the primitive of its name */
    assert_in_order(of_add, sizeof of_add / sizeof *of_add);
    static const char *const of_options[] = {"bt_conv(x, w, .option = value...)", "OPTIONS", "dilation", "PRIMITIVE"};
    assert_int_equal(run("", "ops conv"), 0);
    assert_in_order(of_options, sizeof of_options / sizeof *of_options);
    assert_int_equal(run("", "ops random_word"), 0); /* a primitive without an operation */
    assert_says("4 inputs, no gradient");
    assert_silent_on("SYNOPSIS");
    assert_int_equal(run("", "ops --json bt_sum"), 0);
    assert_says("\"see_also\": \"bt_max");
    assert_says("\"class\": \"reduce\"");
    assert_int_equal(run("", "ops random_word --json"), 0);
    assert_says("\"operation\": null");
    assert_int_equal(run("", "ops reshape > /dev/full"), 1);
}

static void test_unknown_operations(void **state) {
    assert_int_equal(run("", "ops bt_convv2d"), 2);
    assert_says("there is no operation or primitive \"bt_convv2d\"; did you mean bt_conv2d?");
    assert_int_equal(run("", "ops pool2"), 2);
    assert_says("did you mean bt_avg_pool2d, bt_max_pool2d?");
    assert_int_equal(run("", "ops qqqqqqqq"), 2);
    assert_silent_on("did you mean");
    assert_int_equal(run("", "ops ''"), 2);
    assert_int_equal(run("", "ops bt_"), 2);
    assert_int_equal(run("", "ops add sub"), 2);
    assert_says("unexpected argument \"sub\"");
    assert_int_equal(run("", "ops --nonsense add"), 2);
}

static void test_explain_hands_on(void **state) {
    assert_int_equal(run("", "explain -- sh -c 'echo \"<$BERTH_FLAGS>\"; exit 7'"), 7);
    assert_says("<explain=on>");
    assert_int_equal(run("BERTH_FLAGS=sync=on", "explain -- sh -c 'echo \"<$BERTH_FLAGS>\"' x --help"), 0);
    assert_says("<sync=on,explain=on>");
    assert_int_equal(run("", "explain --passes -- sh -c 'echo \"<$BERTH_FLAGS>\"'"), 0);
    assert_says("<explain=passes>");
    assert_int_equal(run("", "explain --dot -- sh -c 'echo \"<$BERTH_FLAGS>\"'"), 0);
    assert_says("<explain=dot>");
    assert_int_equal(run("", "explain --xml -- true"), 2);
    assert_int_equal(run("", "explain -- /no/such/program"), 1);
    assert_says("No such file");
}

static void test_fit(void **state) {
    assert_int_equal(run("BERTH_FLAGS='devices=sim:gpu*2'",
                         "fit -- " COMMAND " demo --devices 2 --quiet --save " BERTH_BUILD_DIR "/fit.safetensors"),
                     0);
    assert_says("PREDICTED");
    assert_says("GPU:0");
    assert_says("GPU:1");
    assert_says("+0.0 %");
    assert_int_equal(run("", "fit -- sh -c 'exit 7'"), 7);
    assert_says("reported nothing");
    assert_int_equal(run("", "fit -- true"), 1);
    assert_int_equal(run("", "fit -- /no/such/program"), 1);
    assert_int_equal(run("", "fit --json -- " COMMAND " bench --repetitions 1 matmul_small > /dev/null"), 0);
    assert_int_equal(run("", "fit --json -- " COMMAND " bench --repetitions 1 matmul_small"), 0);
    assert_says("\"measured_bytes\"");
}

/* --- the demonstration ---------------------------------------------------------------------------------------------- */

/* The percentage in "digits: 93.1 %". */
static double accuracy(void) {
    const char *at = strstr(output, "digits: ");
    if (!at) fail_msg("no accuracy in:\n%s", output);
    return atof(at + strlen("digits: "));
}

static int enter_folder(void **state) {
    static char folder[32];
    strcpy(folder, "/tmp/berth-cli-test-XXXXXX");
    *state = mkdtemp(folder);
    return *state ? 0 : -1;
}

static int remove_folder(void **state) {
    char line[200];
    snprintf(line, sizeof line, "rm -rf '%s'", (char *)*state);
    return system(line);
}

static const char *inside(void **state, const char *settings) {
    static char line[300];
    snprintf(line, sizeof line, "cd '%s' && %s", (char *)*state, settings);
    return line;
}

static void test_demo(void **state) {
    assert_int_equal(run(inside(state, "BERTH_FLAGS='devices=sim:gpu*4'"), "demo --epochs 12"), 0);
    assert_true(accuracy() >= 90);
    assert_says("GPU:3");
    assert_says("saved in digits.safetensors");
    assert_says("predicted ");
    assert_silent_on("\033");
    for (char *line = output, *end; (end = strchr(line, '\n')); line = end + 1)
        if (end - line > 80) fail_msg("wider than 80: %.*s", (int)(end - line), line);
    char path[200];
    bt_tensors *tensors;
    snprintf(path, sizeof path, "%s/digits.safetensors", (char *)*state);
    assert_int_equal(bt_tensors_open(path, &tensors), BT_OK);
    assert_int_equal(bt_tensors_count(tensors), 4);
    bt_tensors_close(tensors);
}

static void test_demo_quiet_elsewhere(void **state) {
    const char *before = inside(state, "TMPDIR=$PWD CUDA_VISIBLE_DEVICES=-1");
    assert_int_equal(run(before, "demo --quiet --epochs 12 --devices 2 --save here.st --data " BERTH_SOURCE_DIR
                                 "/examples/data/digits.csv"),
                     0);
    assert_true(accuracy() >= 90);
    assert_says("saved in here.st");
    assert_silent_on("predicted");
    assert_int_equal(run(before, "demo --quiet --epochs 12 --save /proc/nothing.st"), 1);
    assert_says("could not be saved");
    assert_int_equal(run(before, "demo --data /no/such.csv"), 1);
    assert_says("the digits cannot be read");
    assert_int_equal(run(inside(state, "printf '1,2,3\\n4,5,6\\n' > three.csv;"), "demo --data three.csv"), 1);
    assert_says("2 rows of 3 numbers; it needs at least 5 rows of 65");
}

static void test_demo_of_models(void **state) {
    assert_int_equal(run(inside(state, ""), "demo conv --epochs 10 --save conv.st --report conv.html"), 0);
    assert_true(accuracy() >= 98.5);
    assert_says("BatchNorm(32)");
    assert_says("saved in conv.st");
    assert_int_equal(run(inside(state, ""), "show conv.st"), 0);
    assert_says("Conv");
    assert_int_equal(run(inside(state, "grep -c '<polyline' conv.html &&"), "demo lstm --quiet --epochs 10"), 0);
    assert_true(accuracy() >= 95);
    assert_int_equal(run(inside(state, ""), "demo vae --epochs 3"), 0);
    assert_says("digits that nobody wrote");
    assert_int_equal(run(inside(state, ""), "demo gpt --quiet --epochs 1 --save gpt.st"), 0);
    assert_says("it writes, ");
    assert_says("bt_array *");
    assert_int_equal(run("", "demo gan"), 2);
    assert_int_equal(run("", "demo conv --devices 2"), 2);
    assert_int_equal(run("", "demo --report x.html"), 2);
}

#define MODELS BERTH_SOURCE_DIR "/tests/models/"

static void test_demo_of_resnet18(void **state) {
    static const char weights[] = "demo resnet18 --weights " MODELS "resnet18.safetensors ";
    char line[600];
    assert_int_equal(run(inside(state, "TMPDIR=$PWD"), "demo resnet18"), 0);
    assert_says("a ResNet-18 of random weights");
    assert_says("logits of two random images differ by 0\n");
    assert_int_equal(run(inside(state, ""), "demo resnet18 --quiet --save small.st"), 0);
    assert_int_equal(run(inside(state, "test \"$(ls)\" = small.st &&"), "show small.st"),
                     0); /* and no folder is left */
    assert_says("layer4.1.bn2.running_var");
    assert_int_equal(run(inside(state, ""), weights), 0);
    assert_says("no --image: random numbers of 224 x 224 pixels");
    /* Of one colour, so that it stays as it is when it is resized; of seven classes. */
    snprintf(line, sizeof line, "%s--image grey.ppm --labels names", weights);
    const char *make = inside(
        state, "{ printf 'P6 # grey\\n300 260 255\\n'; head -c 234000 /dev/zero | tr '\\0' '\\200'; } > grey.ppm;"
               "printf 'one\\ntwo\\nthree\\r\\nfour\\n' > names;");
    assert_int_equal(run(make, line), 0);
    assert_says("grey.ppm of 224 x 224 pixels");
    assert_says(" 94.50 %  three\n");
    assert_says(" %  class 4\n");
    snprintf(line, sizeof line, "%s--image short.ppm", weights);
    assert_int_equal(run(inside(state, "printf 'P6 300 260 255\\n123' > short.ppm;"), line), 1);
    assert_says("short.ppm: it is shorter than its head says");
    assert_int_equal(run(inside(state, "printf 'P6 300 260 65535\\n123' > short.ppm;"), line), 1);
    assert_says("its head is not P6, a width and a height up to 30000, and 255");
    assert_int_equal(run(inside(state, "echo text > short.ppm;"), line), 1);
    assert_says("neither .npy nor a binary .ppm");
    assert_int_equal(run(inside(state, "rm short.ppm;"), line), 1);
    assert_says("short.ppm: No such file");
    snprintf(line, sizeof line, "%s--labels none", weights);
    assert_int_equal(run(inside(state, ""), line), 1);
    assert_says("none: No such file");
    assert_int_equal(run("", "demo resnet18 --weights " MODELS "gpt2/model.safetensors"), 1);
    assert_says("the weights cannot be loaded: ");
    assert_says("not in the model: \"transformer.h.0.attn.c_attn.bias\"");
    assert_int_equal(run("", "demo resnet18 --image x.ppm"), 2);
    assert_says("--image and --labels need --weights");
    assert_int_equal(run("", "demo resnet18 --tokens 3"), 2);
    assert_says("--tokens is for the demonstrations: gpt2");
}

static void test_demo_of_gpt2(void **state) {
    static const char weights[] = "demo gpt2 --weights " MODELS "gpt2/model.safetensors --heads 2 ";
    char line[600];
    assert_int_equal(run("", "demo gpt2"), 0);
    assert_says("logits of 16 words differ by 0\n");
    assert_says("the 12 words that it writes are the same with a cache");
    snprintf(line, sizeof line, "%s--prompt bt_ --tokens 8 --save all.st", weights);
    assert_int_equal(run(inside(state, ""), line), 0);
    assert_says("GPT-2 of 2 blocks of width 16, 2 heads");
    assert_says("\nbt_");
    assert_says(" tokens read and the first one written in ");
    assert_int_equal(run(inside(state, ""), "show all.st"), 0);
    assert_says("transformer.h.1.attn.c_proj.bias");
    /* A draw depends on the seed alone. */
    snprintf(line, sizeof line, "%s--quiet --temperature 2 --seed 1", weights);
    assert_int_equal(run("", line), 0);
    char *text = strdup(output);
    assert_int_equal(run("", line), 0);
    assert_string_equal(output, text);
    snprintf(line, sizeof line, "%s--quiet --temperature 2 --seed 2", weights);
    assert_int_equal(run("", line), 0);
    assert_true(strcmp(output, text));
    free(text);
    snprintf(line, sizeof line, "%s--prompt '123456789 123456789 123456789 123456789'", weights);
    assert_int_equal(run("", line), 1);
    assert_says("tokens; the model has 24 places, one of which is to be written");
    snprintf(line, sizeof line, "%s--heads 3", weights);
    assert_int_equal(run("", line), 1);
    assert_says("3 heads do not divide the width, 16");
    const char *alone = inside(state, "cp " MODELS "gpt2/model.safetensors .;");
    assert_int_equal(run(alone, "demo gpt2 --weights model.safetensors"), 1);
    assert_says("the tokenizer beside the weights");
    assert_says("vocab.json: No such file");
    snprintf(line, sizeof line, "demo gpt2 --weights %s/vocab.json", MODELS "gpt2");
    assert_int_equal(run("", line), 1);
    assert_says("the weights cannot be loaded: ");
    assert_int_equal(run("", "demo gpt2 --prompt x"), 2);
    assert_int_equal(run("", "demo gpt2 --temperature cold"), 2);
    assert_says("--temperature takes a number from 0 to 1000");
}

/* /proc can be written by nobody, not even by root. */
static void test_demo_in_a_folder_that_cannot_be_written(void **state) {
    char before[300];
    snprintf(before, sizeof before, "cd /proc && TMPDIR='%s' BERTH_FLAGS='devices=sim:gpu*1'", (char *)*state);
    assert_int_equal(run(before, "demo --epochs 12"), 0);
    assert_says("not saved here");
    char line[300];
    snprintf(line, sizeof line, "saved in %s/berth-", (char *)*state);
    assert_says(line);
}

/* --- traces --------------------------------------------------------------------------------------------------------- */

#define EXAMPLE BERTH_BUILD_DIR "/examples/manual_replication"

static void test_trace(void **state) {
    const char *before = inside(state, "export BERTH_FLAGS='devices=sim:gpu*4';");
    assert_int_equal(run(before, "trace -- " EXAMPLE), 0);
    assert_says("berth trace: wrote trace.html");
    assert_says("shape=(2, 2)"); /* of the program itself */
    assert_int_equal(run(before, "trace -o page.html trace.json"), 0);
    assert_int_equal(run(before, "trace --output other.html -- sh -c 'cd / && " EXAMPLE "; exit 3'"), 3);
    assert_int_equal(
        run(inside(state, "cmp page.html trace.html && grep -q GPU:3 other.html && cp other.json copy.json;"),
            "trace copy.json"),
        0);
    assert_says("wrote copy.html");
    assert_silent_on("differ");
}

static void test_trace_of_what_does_not_record(void **state) {
    const char *before = inside(state, "echo old > trace.json;");
    assert_int_equal(run(before, "trace -- true"), 1);
    assert_says("true recorded nothing");
    assert_int_equal(run(before, "trace -- sh -c 'exit 5'"), 5);
    assert_int_equal(run(before, "trace -- sh -c 'kill -9 $$'"), 128 + 9);
    assert_int_equal(run(before, "trace -- /no/such/program"), 1);
    assert_says("/no/such/program: No such file");
    assert_int_equal(run(before, "trace trace.json"), 1);
    assert_says("trace.json: line 1:");
    assert_int_equal(run(before, "trace missing.json"), 1);
    assert_int_equal(run(before, "trace -o a,b.html -- true"), 2);
    assert_int_equal(run("BERTH_FLAGS=trace=/no/folder/t.json", "demo --quiet --epochs 1 --save /proc/nothing.st"), 1);
    assert_says("flag \"trace\": ");
    assert_says("/no/folder/t.json cannot be written");
}

/* --- simulation ----------------------------------------------------------------------------------------------------- */

static void test_simulate(void **state) {
    const char *before = inside(state, "");
    assert_int_equal(run(before, "simulate --devices h200*4 -o page.html -- " EXAMPLE), 0);
    assert_says("shape=(2, 2)"); /* of the program itself */
    assert_says("step");
    assert_says("GPU:2 ");
    assert_says("MOST MEMORY");
    assert_says("wrote page.html");
    assert_int_equal(run(inside(state, "grep -q GPU:3 page.html;"), "simulate --devices sim:a100*4 --json -- " EXAMPLE),
                     0);
    assert_says("\"clock\": \"virtual\"");
    assert_says("\"utilization\": ");
    assert_int_equal(run(before, "simulate --devices 'h200*4;sim:zen3' -- " EXAMPLE), 0);
    assert_says("GPU:3 ");
    assert_says("CPU:0 ");
    assert_int_equal(run(before, "simulate --no-data -- " EXAMPLE), 0);
    assert_says("The host was given zeros");
    assert_says("bt_print at manual_replication.c:");
    assert_int_equal(run(before, "simulate -- sh -c 'exit 5'"), 5);
    assert_says("reported nothing");
    assert_int_equal(run(before, "simulate -- true"), 1);
    assert_int_equal(run(before, "simulate -- /no/such/program"), 1);
    assert_says("/no/such/program: No such file");
    assert_int_equal(run(before, "simulate --devices h200,a100 -- true"), 2);
    assert_int_equal(run(before, "simulate -o a,b.html -- true"), 2);
    assert_int_equal(run(before, "simulate --nonsense -- true"), 2);
    assert_int_equal(run(before, "simulate true"), 2);
    assert_says("give a program");
    assert_int_equal(run(before, "simulate --devices h100*4 -- " EXAMPLE), 2);
    assert_says("sim:h100*4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_show_of_checkpoints),
        cmocka_unit_test(test_wrong_usage),
        cmocka_unit_test(test_full_disk_fails),
        cmocka_unit_test(test_devices_text),
        cmocka_unit_test(test_devices_json),
        cmocka_unit_test(test_devices_masked),
        cmocka_unit_test(test_processes_of_a_device),
        cmocka_unit_test(test_energy_of_a_device),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_bad_flags),
        cmocka_unit_test(test_doctor),
        cmocka_unit_test(test_doctor_tries_the_compiler),
        cmocka_unit_test(test_ops),
        cmocka_unit_test(test_pages_of_operations),
        cmocka_unit_test(test_pages_of_primitives),
        cmocka_unit_test(test_unknown_operations),
        cmocka_unit_test(test_explain_hands_on),
        cmocka_unit_test(test_fit),
        cmocka_unit_test_setup_teardown(test_trace, enter_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_trace_of_what_does_not_record, enter_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_simulate, enter_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_demo, enter_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_demo_quiet_elsewhere, enter_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_demo_of_models, enter_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_demo_of_resnet18, enter_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_demo_of_gpt2, enter_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_demo_in_a_folder_that_cannot_be_written, enter_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
