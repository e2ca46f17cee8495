// timeout: 600
/* Every row of ops.def on every device of BERTH_TEST_DEVICES (default "cpu,sim,timed,timed_cpu", and "opencl" where it has a device), by one
 * list of cases. "cuda-emulated" are the GPUs of
 * tests/fakes/emulated.c. Per device a file tests/skips/DEVICE.txt lists what it does not do, each with a reason; what is listed as
 * failing must fail. Where kernels are slow to compile one case in so many is run, unless BERTH_TEST_LONG is set;
 * BERTH_TEST_ONE_IN=N says in how many, BERTH_TEST_DRAW=0, 1... which of them: N draws are all cases. BERTH_TEST_PART=I/N runs the Ith
 * of N parts of the rows, I from 0; BERTH_TEST_ROWS=sort,take runs these rows. */
#include "support/conformance.h"
#include "support/support.h"

#define BTI_OP(name, class, arity, attr, rule, shape_rule, gradient, tangent, batch, low, high, tolerance, doc) \
    {#name, #class, #rule, arity, low, high, tolerance},
static const row rows[] = {
#include "../src/ir/ops.def"
};
#undef BTI_OP

const bt_shape edge_shapes[] = {
    {0}, {1, {0}}, {1, {5}}, {2, {2, 3}}, {2, {0, 3}}, {3, {2, 1, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 2}}};
const int edge_shape_count = COUNT(edge_shapes);

const char *shape_text(bt_shape shape) {
    static char texts[4][96];
    static int next;
    char *text = texts[next++ % 4];
    int length = snprintf(text, sizeof texts[0], "(");
    for (int i = 0; i < shape.rank; i++)
        length += snprintf(text + length, sizeof texts[0] - (size_t)length, "%s%lld", i ? ", " : "",
                           (long long)shape.size[i]);
    snprintf(text + length, sizeof texts[0] - (size_t)length, ")");
    return text;
}

int dtypes_of(const row *of, bt_dtype dtypes[BT_DTYPE_COUNT]) {
    int count = 0;
    for (bt_dtype dtype = BT_BOOL; dtype < COMPUTED_DTYPES; dtype++) {
        if (!strcmp(of->rule, "BTI_NUMBER") && dtype == BT_BOOL) continue;
        if (!strcmp(of->rule, "BTI_BITS") && dtype_is_float(dtype)) continue;
        if (!strcmp(of->rule, "BTI_FLOAT") && of->arity == 2 && dtype == BT_BOOL) continue; /* bool by bool: 0 / 0 */
        dtypes[count++] = dtype;
    }
    return count;
}

/* --- devices and their lists ---------------------------------------------------------------------------------------------- */

typedef struct entry {
    bool fails; /* else: unsupported */
    bool seen;  /* a case of it failed, as it must */
    char name[80];
} entry;

static struct {
    char label[32];           /* "sim" */
    const char *name, *other; /* "gpu:0", "gpu:1" */
    entry entries[256];
    int entry_count;
    unsigned one_in, draw; /* of so many cases one is run; which */
    int passed, failed, skipped, expected, left_out, of_row;
    char running[200], first_failure[600];
    entry *expected_to_fail;
} now;

static bool is_cuda(const char *label) { return !strncmp(label, "cuda", strlen("cuda")); } /* or cuda-emulated */

/* Devices of the plugin that BERTH_PJRT_PLUGIN names, as TPUs or as others. */
static bool is_pjrt(const char *label) { return !strcmp(label, "tpu") || !strcmp(label, "acc"); }

static void read_list(void) {
    char path[256], line[256];
    snprintf(path, sizeof path, "%s/tests/skips/%s.txt", BERTH_SOURCE_DIR,
             is_cuda(now.label)   ? "cuda"
             : is_pjrt(now.label) ? "pjrt"
                                  : now.label);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        entry *e = &now.entries[now.entry_count];
        char word[16], *reason = strchr(line, ':');
        if (line[0] == '#' || line[0] == '\n') continue;
        if (!reason || strlen(reason) < 4 || sscanf(line, "%15s %79[^:]", word, e->name) != 2)
            fail_msg("%s: no reason in: %s", path, line);
        e->fails = !strcmp(word, "fails");
        if (!e->fails && strcmp(word, "unsupported")) fail_msg("%s: neither unsupported nor fails: %s", path, line);
        now.entry_count++;
        if (!e->fails) print_message("%s: unsupported: %s", now.label, strchr(line, ' ') + 1);
    }
    if (file) fclose(file);
}

/* A GPU of NVIDIA's is no simulated one; with one of them alone the other device is the CPU. */
static void use_flags(const char *label) {
    if (!strcmp(label, "timed_cpu")) return fresh("devices=sim:zen3*2@256M");
    if (is_pjrt(label)) {
        char flags[400];
        const char *path = getenv("BERTH_PJRT_PLUGIN");
        if (!path) fail_msg("BERTH_PJRT_PLUGIN names no plugin");
        snprintf(flags, sizeof flags, "pjrt_plugins=%s:%s,opencl_cpu=gpu", label, path); /* acc:0 is the plugin's */
        return fresh(flags);
    }
    if (!is_cuda(label)) return fresh(strcmp(label, "timed") ? "devices=sim:gpu*2@256M" : "devices=sim:h200*2@256M");
    fresh("");
    now.other = bt_device_count(BT_GPU) > 1 ? "gpu:1" : "cpu";
}

/* `usual`: without BERTH_TEST_LONG. */
static void set_draw(int usual) {
    const char *told = getenv("BERTH_TEST_ONE_IN"), *draw = getenv("BERTH_TEST_DRAW");
    int count = told ? atoi(told) : getenv("BERTH_TEST_LONG") ? 1 : usual;
    now.one_in = count > 1 ? (unsigned)count : 1;
    now.draw = (draw ? (unsigned)atoi(draw) : 0) % now.one_in;
}

static void use_device(const char *label) {
    memset(&now, 0, sizeof now);
    snprintf(now.label, sizeof now.label, "%s", label);
    const bool timed = !strcmp(label, "timed"), sim = timed || !strcmp(label, "sim"), opencl = !strcmp(label, "opencl"),
               timed_cpu = !strcmp(label, "timed_cpu");
    now.name = sim                          ? "gpu:0"
               : timed_cpu                  ? "cpu:0"
               : opencl                     ? "opencl0:0"
               : !strcmp(label, "template") ? "acc:0"
               : is_cuda(label)             ? "cuda"
               : !strcmp(label, "tpu")      ? "tpu:0"
               : !strcmp(label, "acc")      ? "acc:0"
                                            : now.label;
    now.other = sim                     ? "gpu:1"
                : timed_cpu             ? "cpu:1"
                : opencl                ? "opencl0:1"
                : !strcmp(label, "tpu") ? "tpu:1"
                : !strcmp(label, "acc") ? "acc:1"
                                        : "gpu:0";
    set_draw(is_cuda(label) ? 500
             : opencl       ? 1000
             : timed        ? 20
             : timed_cpu    ? 20
                            : 1); /* a draw compiles about as many texts as there are rows */
    use_flags(label);
    read_list();
    OK(bt_set_default_device(now.name));
}

const char *case_other_device(void) { return now.other; }

static entry *listed(const char *name) {
    for (int i = 0; i < now.entry_count; i++) {
        size_t length = strlen(now.entries[i].name);
        if (!strncmp(name, now.entries[i].name, length) && strchr("/ ", name[length])) return &now.entries[i];
    }
    return NULL;
}

/* --- cases ---------------------------------------------------------------------------------------------------------------- */

/* By its name; the first case of each row always. */
static bool is_drawn(const char *name) {
    unsigned hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return now.of_row++ < 1 || (hash ^ hash >> 16) % now.one_in == now.draw;
}

bool case_begin(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(now.running, sizeof now.running, format, arguments);
    va_end(arguments);
    entry *e = listed(now.running);
    now.expected_to_fail = e && e->fails ? e : NULL;
    if (e && !e->fails) return now.skipped++, false;
    if (!is_drawn(now.running)) return now.left_out++, false;
    return true;
}

void case_end(bt_array *got, const host *want, double tolerance) {
    char why[300];
    bool same = host_same(got, want, tolerance, why, sizeof why);
    if (now.expected_to_fail) {
        now.expected_to_fail->seen = now.expected_to_fail->seen || !same;
        now.expected++;
    } else if (same)
        now.passed++;
    else if (now.failed++, !*now.first_failure)
        snprintf(now.first_failure, sizeof now.first_failure, "%s: %s: %s", now.label, now.running, why);
}

static const cases *cases_of(const char *name) {
    const cases *const lists[] = {elementwise_cases, structured_cases, conv_cases,
                                  attention_cases,   source_cases,     control_cases};
    for (int i = 0; i < COUNT(lists); i++)
        for (const cases *c = lists[i]; c->name; c++)
            if (!strcmp(c->name, name)) return c;
    return NULL;
}

typedef struct task {
    char label[32];
    const row *of; /* NULL: the end of a device */
} task;

static void one_row(void **state) {
    const task *t = *state;
    if (strcmp(now.label, t->label)) use_device(t->label);
    const cases *c = cases_of(t->of->name);
    if (!c) fail_msg("no cases for \"%s\" of ops.def: add some to tests/support/*_cases.c", t->of->name);
    now.first_failure[0] = '\0';
    now.of_row = 0;
    int before = now.failed, ran = now.passed + now.failed + now.skipped + now.expected;
    BT_SCOPE
        c->run(t->of);
    assert_int_equal(bt_live_arrays(), 0);
    if (now.failed > before) fail_msg("%d cases failed, the first: %s", now.failed - before, now.first_failure);
    assert_true(now.passed + now.failed + now.skipped + now.expected > ran);
}

static void all_rows(void **state) {
    for (int i = 0; i < now.entry_count; i++)
        if (now.entries[i].fails && !now.entries[i].seen)
            fail_msg("%s: \"%s\" passes, but is listed as failing", now.label, now.entries[i].name);
    print_message("%s: %d cases passed, %d failed, %d skipped, %d expected to fail\n", now.label, now.passed,
                  now.failed, now.skipped, now.expected);
    if (now.left_out)
        print_message("%s: %d cases left out by BERTH_TEST_DRAW=%u of %u draws; BERTH_TEST_LONG=1 runs them\n",
                      now.label, now.left_out, now.draw, now.one_in);
}

/* --- all devices ---------------------------------------------------------------------------------------------------------- */

/* PoCL has two devices when it is told so before it is asked for them. */
static const char *devices(void) {
    const char *told = getenv("BERTH_TEST_DEVICES");
    setenv("POCL_DEVICES", "pthread pthread", 0);
    if (told && *told) return told;
    if (bt_device_find("opencl0:1", &(bt_device *){NULL}) == BT_OK) return "cpu,sim,timed,timed_cpu,opencl";
    print_message("opencl: skipped: %s\n", bt_error_text());
    return "cpu,sim,timed,timed_cpu";
}

static bool is_named(const char *row_name) {
    const char *told = getenv("BERTH_TEST_ROWS");
    char list[512], *rest = list;
    snprintf(list, sizeof list, "%s", told ? told : row_name);
    for (char *word; (word = strsep(&rest, ","));)
        if (!strcmp(word, row_name)) return true;
    return false;
}

/* Whether BERTH_TEST_PART and BERTH_TEST_ROWS want it; the last one is the end of a device. */
static bool is_of_part(int r) {
    int part = 0, parts = 1;
    const char *told = getenv("BERTH_TEST_PART");
    if (told && (sscanf(told, "%d/%d", &part, &parts) != 2 || parts < 1))
        fail_msg("BERTH_TEST_PART is no I/N: %s", told);
    return r == COUNT(rows) || (r % parts == part && is_named(rows[r].name));
}

int main(void) {
    static task tasks[8 * (COUNT(rows) + 1)];
    static struct CMUnitTest tests[COUNT(tasks)];
    static char names[COUNT(tasks)][64];
    char copy[256], *rest = copy;
    restart_emulated();
    snprintf(copy, sizeof copy, "%s", devices());
    int count = 0;
    for (char *one; (one = strsep(&rest, ",")) && count + COUNT(rows) < COUNT(tasks);) {
        for (int r = 0; r <= COUNT(rows); r++) {
            if (!is_of_part(r)) continue;
            tasks[count].of = r < COUNT(rows) ? &rows[r] : NULL;
            snprintf(tasks[count].label, sizeof tasks[count].label, "%s", one);
            snprintf(names[count], sizeof names[count], "%s: %s", one, r < COUNT(rows) ? rows[r].name : "all");
            tests[count] =
                (struct CMUnitTest){names[count], r < COUNT(rows) ? one_row : all_rows, NULL, NULL, &tasks[count]};
            count++;
        }
    }
    return _cmocka_run_group_tests("conformance", tests, (size_t)count, NULL, fresh_end);
}
