/* What the tests of memory share: the kinds of devices that they run on, BERTH_TEST_DEVICES (default "cpu,sim", and "opencl"
 * where it has a device; "cuda" and "cuda-emulated" when asked for), and the same assertions for all of them. What a kind lacks is printed.
 * Included once by each. */
#ifndef BERTH_TESTS_MEMORY_KINDS_H
#define BERTH_TESTS_MEMORY_KINDS_H

#include "support/support.h"

#define ELEMENTS (int64_t)(MIB / sizeof(float))

/* --- kinds of devices ------------------------------------------------------------------------------------------------- */

typedef struct kind {
    const char *label, *settings, *one, *two; /* two: another device, the CPU where there is none */
    bool sized;                               /* a setting says how much memory it has */
} kind;
static const kind kinds[] = {
    {"cpu", "devices=sim:gpu*1@64M", "cpu", "gpu:0", false}, {"sim", "devices=sim:gpu*2@64M", "gpu:0", "gpu:1", true},
    {"opencl", "", "opencl0:0", "opencl0:1", false},         {"cuda", "", "cuda:0", "cuda:1", false},
    {"cuda-emulated", "", "cuda:0", "cuda:1", false},
};
static const kind *kind_now;
static const char *one, *two;           /* names to find them by */
static char one_name[32], two_name[32]; /* names in reports */

static void lacks(const char *what) {
    static const char *told[32];
    static int count;
    for (int i = 0; i < count; i += 2)
        if (told[i] == kind_now->label && !strcmp(told[i + 1], what)) return;
    print_message("%s: %s\n", kind_now->label, what);
    if (count + 2 <= COUNT(told)) told[count++] = kind_now->label, told[count++] = what;
}

/* In arrays and temporaries. */
static size_t used_on(const char *name) {
    bt_memory_info info = memory(name);
    return info.used - info.scratch;
}

/* Settings as in a new process, and operations go to the first device of the kind. */
static void begin(void **state, const char *settings) {
    char all[300];
    kind_now = *state;
    fresh(kind_now->settings);
    one = kind_now->one;
    two = kind_now->two;
    if (bt_device_find(two, &(bt_device *){NULL}) != BT_OK)
        two = "cpu", lacks("no second device: the CPU takes its place");
    snprintf(all, sizeof all, "%s,default_device=%s,%s", kind_now->settings, one, settings);
    fresh(all);
    snprintf(one_name, sizeof one_name, "%s", bt_device_name(device(one)));
    snprintf(two_name, sizeof two_name, "%s", bt_device_name(device(two)));
}

/* A text with the name of the first device. */
static const char *with_name(const char *format, const char *name) {
    static char texts[4][128];
    static int next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], format, name);
    return text;
}

/* A computed megabyte of a value, on the block's device. */
static bt_array *megabytes(double value, int64_t n) {
    bt_array *x = NULL;
    BT_SCOPE
        x = bt_keep(bt_add(bt_full(value, BT_F32, n * ELEMENTS), bt_num(0)));
    (void)!bt_block(x);
    return x;
}

static void all_are(bt_array *x, double value) {
    BT_SCOPE {
        READS(bt_min(x, BT_ALL, false), value);
        READS(bt_max(x, BT_ALL, false), value);
    }
}

/* --- running ---------------------------------------------------------------------------------------------------------- */

typedef struct memory_case {
    const char *name;
    CMUnitTestFunction run;
} memory_case;
#define CASE(name) \
    { #name, name }

/* In place of each test of a kind that is not there. */
static void not_there(void **state) {
    kind_now = *state;
    fresh(kind_now->settings);
    if (bt_device_find(kind_now->one, &(bt_device *){NULL}) == BT_OK) return;
    print_message("%s: skipped: %s\n", kind_now->label, bt_error_text());
    skip();
}

static bool asked_for(const char *label) {
    const char *told = getenv("BERTH_TEST_DEVICES");
    char list[128], *rest = list;
    snprintf(list, sizeof list, "%s", told && *told ? told : "cpu,sim,opencl");
    for (char *word; (word = strsep(&rest, ","));)
        if (!strcmp(word, label)) return true;
    return false;
}

/* Every test of a list on each kind that is asked for; what main returns. */
static int run_on_each_kind(const memory_case *each, int each_count) {
    static struct CMUnitTest tests[COUNT(kinds) * 32];
    static char names[COUNT(tests)][80];
    int count = 0;
    restart_emulated();
    setenv("POCL_DEVICES", "pthread pthread", 0); /* two of one platform, where PoCL is OpenCL's, with a gigabyte */
    setenv("POCL_MEMORY_LIMIT", "1", 0);
    for (int k = 0; k < COUNT(kinds); k++) {
        if (!asked_for(kinds[k].label)) continue;
        fresh(kinds[k].settings);
        bool there = bt_device_find(kinds[k].one, &(bt_device *){NULL}) == BT_OK;
        for (int t = -1; t < (there ? each_count : 0); t++, count++) {
            snprintf(names[count], sizeof names[0], "%s: %s", kinds[k].label, t < 0 ? "is there" : each[t].name);
            tests[count] = (struct CMUnitTest){names[count], t < 0 ? not_there : each[t].run, NULL, NULL,
                                               (void *)(uintptr_t)&kinds[k]};
        }
    }
    return _cmocka_run_group_tests("memory", tests, (size_t)count, NULL, fresh_end);
}

#endif
