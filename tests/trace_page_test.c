// labels: slow
// timeout: 300
/* The page of `berth trace`, opened in a browser without a screen: what it shows against the trace that it was made from. */
#include <berth.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RUN(...)                                          \
    do {                                                  \
        char line_[1000];                                 \
        snprintf(line_, sizeof line_, __VA_ARGS__);       \
        if (system(line_)) fail_msg("failed: %s", line_); \
    } while (0)

static char folder[] = "/tmp/berth-page-XXXXXX";
static const char *browser;

static int begin(void **state) { return mkdtemp(folder) ? 0 : 1; }
static int end(void **state) {
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

/* All that a command prints; yours to free. */
static char *output_of(const char *command) {
    FILE *pipe = popen(command, "r");
    size_t length = 0, room = 1 << 20;
    char *text = malloc(room);
    assert_true(pipe && text);
    for (size_t got; (got = fread(text + length, 1, room - length - 1, pipe));) {
        length += got;
        if (room - length < 2) assert_non_null(text = realloc(text, room *= 2));
    }
    pclose(pipe);
    text[length] = '\0';
    return text;
}

static void replace(char *text, const char *from, char to) {
    for (char *at = text; (at = strstr(at, from));) {
        *at++ = to;
        memmove(at, at + strlen(from) - 1, strlen(at + strlen(from) - 1) + 1);
    }
}

/* What the page says of itself. */
static json_t *open_page(const char *name) {
    char command[500];
    snprintf(command, sizeof command,
             "cd %s && HOME=%s timeout 200 %s --headless=new --no-sandbox --disable-gpu --user-data-dir=%s/profile "
             "--window-size=1400,900 --dump-dom 'file://%s/%s.html#selftest' 2>/dev/null",
             folder, folder, browser, folder, folder, name);
    char *page = output_of(command), *begins = strstr(page, "<pre id=\"selftest\">");
    if (!begins) fail_msg("the page did not come to its end; %zu bytes of it", strlen(page));
    begins = strchr(begins, '>') + 1;
    char *ends = strstr(begins, "</pre>");
    assert_non_null(ends);
    *ends = '\0';
    replace(begins, "&lt;", '<');
    replace(begins, "&gt;", '>');
    replace(begins, "&amp;", '&');
    json_t *said = json_loads(begins, 0, NULL);
    assert_non_null(said);
    free(page);
    return said;
}

static json_t *load(const char *name) {
    char path[100];
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    json_t *trace = json_load_file(path, 0, NULL);
    assert_non_null(trace);
    return trace;
}

static const char *text_of(json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}
static double number_of(json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

/* --- counts --------------------------------------------------------------------------------------------------------- */

enum { PROCESSES = 80, THREADS = 64 };

static void compare_counts(json_t *events, json_t *said) {
    int bars = 0, copies = 0, points = 0, groups = 0, lanes = 0, first = 0;
    bool queues[PROCESSES] = {0}, reduced[PROCESSES] = {0}, copied[PROCESSES] = {0}, memory[PROCESSES] = {0},
         threads[THREADS] = {0};
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        const char *phase = text_of(event, "ph"), *category = text_of(event, "cat");
        int process = (int)number_of(event, "pid"), lane = (int)number_of(event, "tid");
        assert_in_range(process, 0, PROCESSES - 1);
        groups += !strcmp(text_of(event, "name"), "process_name");
        if (process && !strcmp(text_of(event, "name"), "process_name")) queues[process] = true;
        if (*phase == 'C') memory[process] = true;
        points += *phase == 'C';
        if (*phase != 'X') continue;
        bars++;
        copies += !strcmp(category, "copy");
        first += !strcmp(category, "first");
        if (!process) threads[lane % THREADS] = true;
        if (process && !strcmp(category, "collective"))
            reduced[process] = true;
        else if (process && strcmp(category, "kernel"))
            copied[process] = true;
    }
    for (int i = 0; i < PROCESSES; i++) lanes += queues[i] + reduced[i] + copied[i] + memory[i];
    for (int i = 0; i < THREADS; i++) lanes += threads[i];
    assert_int_equal(number_of(said, "bars"), bars);
    assert_int_equal(number_of(said, "copies"), copies);
    assert_int_equal(number_of(said, "memory_points"), points);
    assert_int_equal(number_of(said, "first_calls"), first);
    assert_int_equal(json_array_size(json_object_get(said, "groups")), groups);
    assert_int_equal(json_array_size(json_object_get(said, "lanes")), lanes);
    assert_int_equal(json_array_size(json_object_get(said, "errors")), 0);
    assert_true(bars > 5 && copies > 2 && points > 4 && first > 0);
    assert_true(number_of(said, "arrows") > 0);
}

/* --- what hovering says --------------------------------------------------------------------------------------------- */

/* The microseconds in "took4.25 µs". */
static double time_after(const char *text, const char *word) {
    const char *at = strstr(text, word);
    if (!at) fail_msg("no \"%s\" in: %s", word, text);
    char *unit;
    double value = strtod(at + strlen(word), &unit);
    return value * (!strncmp(unit, " ns", 3)   ? 1e-3
                    : !strncmp(unit, " ms", 3) ? 1e3
                    : !strncmp(unit, " s", 2)  ? 1e6
                                               : 1);
}

/* Parts of a collective begin together: the one that took as long. */
static json_t *find(json_t *events, double start, const char *kind, double took) {
    json_t *found = NULL;
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        const char *category = text_of(event, "cat"),
                   *own = strcmp(category, "host") ? category : text_of(event, "name");
        if (*text_of(event, "ph") == 'X' && number_of(event, "ts") == start && !strcmp(own, kind) &&
            (!found || fabs(number_of(event, "dur") - took) < fabs(number_of(found, "dur") - took)))
            found = event;
    }
    return found;
}

static void assert_holds(const char *text, const char *word) {
    if (!strstr(text, word)) fail_msg("no \"%s\" in: %s", word, text);
}

static void compare_hover(json_t *events, json_t *hover) {
    const char *text = text_of(hover, "text"), *kind = text_of(hover, "kind");
    json_t *event = find(events, number_of(hover, "start"), kind, time_after(text, "took")),
           *arguments = json_object_get(event, "args");
    assert_non_null(event);
    if (!json_is_true(json_object_get(hover, "found"))) fail_msg("pointed at a %s, found: %s", kind, text);
    double took = number_of(event, "dur");
    assert_true(fabs(time_after(text, "took") - took) <= 0.01 * took + 1e-3);
    if (!strcmp(kind, "copy") || !strcmp(kind, "arrival")) {
        assert_holds(text, text_of(arguments, "from"));
        assert_holds(text, text_of(arguments, "to"));
    } else
        assert_holds(text, text_of(event, "name"));
    assert_holds(text, text_of(arguments, "operation"));
    if (!*text_of(arguments, "file")) return;
    char place[200];
    snprintf(place, sizeof place, "%s:%d", text_of(arguments, "file"), (int)number_of(arguments, "line"));
    assert_holds(text, place);
}

static void compare(const char *name) {
    json_t *trace = load(name), *said = open_page(name), *events = json_object_get(trace, "traceEvents");
    json_t *hovers = json_object_get(said, "hovers");
    compare_counts(events, said);
    assert_true(json_array_size(hovers) > 5);
    for (size_t i = 0; i < json_array_size(hovers); i++) compare_hover(events, json_array_get(hovers, i));
    json_decref(said);
    json_decref(trace);
}

/* --- programs ------------------------------------------------------------------------------------------------------- */

static void test_copies_by_hand(void **state) {
    RUN("cd %s && BERTH_FLAGS='devices=sim:gpu*4' %s/berth trace -o hand.html -- %s/examples/manual_replication "
        ">/dev/null",
        folder, BERTH_BUILD_DIR, BERTH_BUILD_DIR);
    compare("hand");
}

static void test_one_function_on_two_devices(void **state) {
    RUN("cd %s && BERTH_FLAGS='devices=sim:gpu*2,contexts=dev0->cuda0;dev1->cuda1' %s/berth trace -o two.html -- "
        "%s/examples/two_contexts 64 >/dev/null 2>&1",
        folder, BERTH_BUILD_DIR, BERTH_BUILD_DIR);
    compare("two");
}

/* Short of the accuracy that the demo wants, which makes its exit code 1. */
static void test_training(void **state) {
    RUN("cd %s && BERTH_FLAGS='devices=sim:gpu*4' %s/berth trace -- %s/berth demo --epochs 1 --quiet >/dev/null 2>&1; "
        "test -f "
        "trace.html",
        folder, BERTH_BUILD_DIR, BERTH_BUILD_DIR);
    compare("trace");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_by_hand),
        cmocka_unit_test(test_one_function_on_two_devices),
        cmocka_unit_test(test_training),
    };
    browser = !system("command -v chromium >/dev/null")           ? "chromium"
              : !system("command -v google-chrome >/dev/null")    ? "google-chrome"
              : !system("command -v chromium-browser >/dev/null") ? "chromium-browser"
                                                                  : NULL;
    if (!browser) {
        puts("skipped: no chromium to open pages with");
        return 77;
    }
    return cmocka_run_group_tests(tests, begin, end);
}
