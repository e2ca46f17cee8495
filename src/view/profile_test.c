// labels: threads
// env: BERTH_FLAGS=devices=sim:gpu*3
/* Profiles: tables that say what ran, and a trace that JSON readers take. */
#include <berth.h>
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/trace.h"
#include "support/powercap.h"
#include "view/trace.h"

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != BT_OK) fail_msg("%s: %s", #call, bt_error_text()); \
    } while (0)

static char folder[] = "/tmp/berth-profile-XXXXXX";
static char path[2][64]; /* a trace, a page */

static int begin(void **state) {
    if (!mkdtemp(folder)) return 1;
    snprintf(path[0], sizeof path[0], "%s/trace.json", folder);
    snprintf(path[1], sizeof path[1], "%s/trace.html", folder);
    return 0;
}

static int end(void **state) {
    for (int i = 0; i < 2; i++) unlink(path[i]);
    return rmdir(folder);
}

/* Two products and a sum on GPU:0 and GPU:1, with copies between all. */
static void work(void) {
    BT_SCOPE {
        bt_array *x = NULL, *y = NULL;
        BT_ON("GPU:0") x = bt_matmul(bt_ones(BT_F32, 32, 32), bt_ones(BT_F32, 32, 32));
        BT_ON("GPU:1") y = bt_matmul(bt_ones(BT_F32, 32, 32), bt_ones(BT_F32, 32, 32));
        assert_true(bt_item(bt_sum(bt_add(bt_to(x, "GPU:2"), bt_to(y, "GPU:2")), BT_ALL, false)) == 65536);
    }
}

static char *profile_work(const char *file) {
    char *text;
    bt_profile *profile = bt_profile_start();
    assert_non_null(profile);
    work();
    OK(bt_profile_stop(profile, file, &text));
    assert_non_null(text);
    return text;
}

static void assert_says(const char *text, const char *word) {
    if (!strstr(text, word)) fail_msg("no \"%s\" in:\n%s", word, text);
}

static void test_tables(void **state) {
    char *text = profile_work(NULL);
    assert_says(text, "profile of ");
    assert_says(text, "matmul ");
    assert_says(text, "bt_matmul profile_test.c:");
    assert_says(text, "\ndevices ");
    assert_says(text, "GPU:2 ");
    assert_says(text, "GPU:0 -> GPU:2 ");
    assert_says(text, "GPU:2 -> host ");
    assert_says(text, "    4 KiB");
    assert_says(text, "planning ");
    assert_says(text, "submitting ");
    assert_says(text, "waiting ");
    assert_says(text, "opening GPU:1 ");
    bt_free(text);
    text = profile_work(NULL);
    assert_null(strstr(text, "opening")); /* is done once */
    bt_free(text);
}

static int count_of(json_t *events, const char *key, const char *value) {
    int count = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *found = json_string_value(json_object_get(json_array_get(events, i), key));
        count += found && !strcmp(found, value);
    }
    return count;
}

static void test_trace_is_json(void **state) {
    json_error_t fault;
    bt_free(profile_work(path[0]));
    json_t *trace = json_load_file(path[0], JSON_REJECT_DUPLICATES, &fault);
    if (!trace) fail_msg("line %d: %s", fault.line, fault.text);
    json_t *events = json_object_get(trace, "traceEvents");
    assert_true(count_of(events, "name", "matmul") == 2);
    assert_int_equal(count_of(events, "cat", "copy"), 3 * 3); /* a bar and the two ends of an arrow each */
    assert_int_equal(count_of(events, "cat", "arrival"), 3);
    assert_true(count_of(events, "ph", "C") >= 6);
    double length = json_number_value(json_object_get(json_object_get(trace, "otherData"), "length_us"));
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i), *ts = json_object_get(event, "ts");
        assert_true(json_is_integer(json_object_get(event, "pid")));
        if (ts) assert_true(json_number_value(ts) >= 0 && json_number_value(ts) <= length);
    }
    json_decref(trace);
}

static void test_strange_texts(void **state) {
    bti_trace_log log = {.begun_ns = 1, .ended_ns = 100};
    bti_trace_event event = {
        .kind = BTI_TRACE_KERNEL, .start_ns = 2, .end_ns = 3, .file = "a\"b\\<script>\n.c", .line = 1};
    event.operations[0] = "\xff\xfe no UTF-8";
    snprintf(event.name, sizeof event.name, "</script><b>");
    assert_true(bti_vec_push(&log.events, event));
    OK(bti_trace_write(&log, path[0]));
    bti_trace_log_free(&log);
    OK(bt_trace_page(path[0], path[1]));
    FILE *file = fopen(path[1], "r");
    assert_non_null(file);
    static char page[1 << 18];
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    assert_null(strstr(page, "</script><b>"));
    assert_says(page, "\\u003c/script>\\u003cb>");
    assert_says(page, "\\u003cscript>\\n.c");
    assert_null(strstr(page, "{trace}"));
    assert_null(strstr(page, ".js}*/"));
}

static void test_pages_of_what_is_no_trace(void **state) {
    static const char *const texts[] = {
        "",
        "[]",
        "{\"traceEvents\":[]}",
        "{\"otherData\":{\"producer\":\"else\"},\"traceEvents\":[]}",
#define HEAD                                                                                                     \
    "{\"otherData\":{\"producer\":\"berth\",\"program\":\"p\",\"version\":\"1\",\"dropped\":0,\"length_us\":5}," \
    "\"traceEvents\":["
#define HOST "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"host\"}},"
        HEAD "7]}",
        HEAD "{}]}",
        HEAD "{\"ph\":\"X\",\"pid\":0,\"ts\":1,\"dur\":1,\"name\":\"n\",\"cat\":\"kernel\"}]}",
        HEAD HOST "{\"ph\":\"X\",\"pid\":0,\"ts\":1,\"dur\":1,\"name\":\"n\",\"cat\":\"kernel\",\"args\":{}}]}",
        HEAD HOST "{\"ph\":\"C\",\"pid\":0,\"ts\":1,\"args\":{\"in use\":\"many\"}}]}",
        HEAD HOST "{\"ph\":\"X\",\"pid\":300,\"ts\":1}]}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen(path[0], "w");
        fputs(texts[i], file);
        fclose(file);
        assert_int_equal(bt_trace_page(path[0], path[1]), BT_DATA_LOSS);
    }
    assert_int_equal(bt_trace_page("/nonexistent/trace.json", path[1]), BT_NOT_FOUND);
    assert_int_equal(bt_trace_page(NULL, path[1]), BT_INVALID_ARGUMENT);
    bt_free(profile_work(path[0]));
    assert_int_equal(bt_trace_page(path[0], "/nonexistent/trace.html"), BT_NOT_FOUND);
}

static void test_wrong_use(void **state) {
    char *text = (char *)"untouched";
    assert_int_equal(bt_profile_stop(NULL, NULL, &text), BT_INVALID_ARGUMENT);
    assert_null(text);
    bt_profile *profile = bt_profile_start();
    assert_int_equal(bt_profile_stop(profile, "/nonexistent/trace.json", &text), BT_NOT_FOUND);
    assert_non_null(text); /* the tables come all the same */
    bt_free(text);
    OK(bt_profile_stop(bt_profile_start(), NULL, NULL));
    assert_false(bti_trace_on());
}

static void test_flag(void **state) {
    OK(bt_set_flag("trace", path[0]));
    work();
    char *text = profile_work(NULL); /* a profile within */
    bt_free(text);
    unlink(path[0]);
    OK(bt_set_flag("trace", ""));
    json_t *trace = json_load_file(path[0], 0, NULL);
    assert_int_equal(count_of(json_object_get(trace, "traceEvents"), "name", "matmul"), 4);
    json_decref(trace);
}

/* --- energy ------------------------------------------------------------------------------------------------------- */

/* The rest of the line of the table of energies that begins with the device's name. */
static const char *energy_of(const char *text, const char *device) {
    const char *line = strstr(text, "\nenergy, with other programs'");
    assert_non_null(line);
    line = strstr(line, device);
    assert_non_null(line);
    line += strlen(device);
    return line + strspn(line, " ");
}

static char *profile_energy(double joules) {
    char *text;
    bt_profile *profile = bt_profile_start();
    work();
    put_joules("intel-rapl:0", joules);
    OK(bt_profile_stop(profile, NULL, &text));
    return text;
}

static void test_energy(void **state) {
    new_powercap();
    put_zone("intel-rapl:0", "package-0", 262143, 100);
    OK(bt_set_flag("powercap", powercap));
    char *text = profile_energy(125.5);
    assert_false(strncmp(energy_of(text, "CPU:0"), "25.5 J ", 7));
    assert_non_null(strstr(energy_of(text, "CPU:0"), " W\n"));
    assert_false(strncmp(energy_of(text, "GPU:1"), "unknown: GPU:1 is simulated", 27));
    bt_free(text);
    text = profile_energy(12125.5);
    assert_false(strncmp(energy_of(text, "CPU:0"), "12 kJ ", 6));
    bt_free(text);
    text = profile_energy(1e9); /* above the greatest value */
    assert_false(strncmp(energy_of(text, "CPU:0"), "unknown: ", 9));
    bt_free(text);
    bt_profile *profile = bt_profile_start(); /* cannot be read yet */
    put_joules("intel-rapl:0", 1);
    work();
    OK(bt_profile_stop(profile, NULL, &text));
    assert_non_null(strstr(energy_of(text, "CPU:0"), "could not be read when the profile began"));
    bt_free(text);
    OK(bt_set_flag("powercap", ""));
    drop_powercap();
}

/* --- threads -------------------------------------------------------------------------------------------------------- */

static void *profile_in_thread(void *failed) {
    for (int i = 0; i < 5; i++) {
        char *text = NULL;
        bt_profile *profile = bt_profile_start();
        BT_SCOPE {
            bt_array *x = bt_ones(BT_F32, 16, 16);
            if (bt_item(bt_sum(bt_matmul(x, x), BT_ALL, false)) != 4096) return failed;
        }
        if (bt_profile_stop(profile, NULL, &text) != BT_OK || !strstr(text, "matmul")) return failed;
        bt_free(text);
    }
    return NULL;
}

static void test_profiles_at_once(void **state) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, profile_in_thread, folder);
    for (int i = 0; i < 4; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        assert_null(failure);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),        cmocka_unit_test(test_trace_is_json),
        cmocka_unit_test(test_strange_texts), cmocka_unit_test(test_pages_of_what_is_no_trace),
        cmocka_unit_test(test_wrong_use),     cmocka_unit_test(test_flag),
        cmocka_unit_test(test_energy),        cmocka_unit_test(test_profiles_at_once),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
