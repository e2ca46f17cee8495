#include "support/support.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static char lines[1 << 16];
static size_t length;

static void keep_line(const char *line, void *data) {
    size_t bytes = strlen(line);
    if (length + bytes + 2 > sizeof lines) return;
    memcpy(lines + length, line, bytes);
    memcpy(lines + length + bytes, "\n", 2);
    length += bytes + 1;
}

const char *log_text(void) { return lines; }
void log_forget(void) { lines[length = 0] = '\0'; }

int log_count(const char *text) {
    int count = 0;
    for (const char *line = lines; *line; line = strchr(line, '\n') + 1) {
        const char *found = strstr(line, text);
        count += found && found < strchr(line, '\n');
    }
    return count;
}

static void set(char *setting) {
    char *value = strchr(setting, '=');
    assert_non_null(value);
    *value++ = '\0';
    OK(bt_set_flag(setting, value));
}

void fresh(const char *settings) {
    OK(bt_shutdown());
    for (int i = 0; i < bt_flag_count(); i++) {
        bt_flag_info info = BT_FLAG_INFO_INIT;
        OK(bt_flag_describe(i, &info));
        OK(bt_set_flag(info.name, info.default_value));
    }
    const char *more = getenv("BERTH_TEST_FLAGS");
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s,%s", settings, more ? more : "");
    for (char *one; (one = strsep(&rest, ","));)
        if (*one) set(one);
    bt_set_log_sink(keep_line, NULL);
    log_forget();
    bt_error_clear();
}

int fresh_end(void **state) {
    fresh("");
    bt_set_log_sink(NULL, NULL);
    return 0;
}

int end_runtime(void **state) { return bt_runtime_shutdown() == BT_OK ? 0 : -1; }

bool on_cuda(void) {
    const char *told = getenv("BERTH_TEST_DEVICES");
    return told && !strncmp(told, "cuda", strlen("cuda"));
}

void restart_emulated(void) {
    const char *told = getenv("BERTH_TEST_DEVICES");
    char self[1024];
    if (!told || !strstr(told, "cuda-emulated") || getenv("BERTH_EMULATED")) return;
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(bytes > 0);
    self[bytes] = '\0';
    execl(BERTH_BUILD_DIR "/tests/emulated", "emulated", self, (char *)NULL);
    fail_msg("%s/tests/emulated cannot be run", BERTH_BUILD_DIR);
}

void sleep_ms(int64_t milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

void expect_ok(bt_status status, const char *what, const char *file, int line) {
    if (status == BT_OK) return;
    print_error("%s is %s: %s\n", what, bt_status_name(status), bt_error_text());
    _fail(file, line);
}

void expect_failure(bt_status got, bt_status status, const char *const *texts, const char *what, const char *file,
                    int line) {
    if (got != status || bt_error_status() != status) {
        print_error("%s is %s, not %s: %s\n", what, bt_status_name(got), bt_status_name(status), bt_error_text());
        _fail(file, line);
    }
    for (; *texts; texts++) expect_part(bt_error_text(), *texts, file, line);
}

bt_status try_read(bt_array *x) {
    int64_t count = bt_count(x);
    size_t size = count < 0 ? 0 : (size_t)count * bt_dtype_size(bt_dtype_of(x));
    void *data = malloc(size + 1);
    bt_status status = bt_read(x, data, size);
    free(data);
    return status;
}

void expect_elements(bt_array *x, int count, const double *elements, const char *what, const char *file, int line) {
    if (bt_count(x) != count) {
        print_error("%s has %lld elements, not %d: %s\n", what, (long long)bt_count(x), count, bt_error_text());
        _fail(file, line);
    }
    BT_SCOPE {
        double *got = test_malloc((size_t)count * sizeof *got);
        expect_ok(bt_read(bt_cast(x, BT_F64), got, (size_t)count * sizeof *got), what, file, line);
        for (int i = 0; i < count; i++) {
            if (got[i] == elements[i] || (got[i] != got[i] && elements[i] != elements[i])) continue;
            print_error("%s: element %d is %.9g, not %.9g\n", what, i, got[i], elements[i]);
            _fail(file, line);
        }
        test_free(got);
    }
}

void expect_part(const char *text, const char *part, const char *file, int line) {
    if (text && strstr(text, part)) return;
    print_error("\"%s\"\n  does not say \"%s\"\n", text ? text : "(null)", part);
    _fail(file, line);
}

bt_device *device(const char *name) {
    bt_device *found;
    OK(bt_device_find(name, &found));
    return found;
}

bt_memory_info memory(const char *device_name) {
    bt_memory_info info = BT_MEMORY_INFO_INIT;
    OK(bt_memory(device(device_name), &info));
    return info;
}

const char *place_text(const char *file, int line) {
    static char
        texts[256]
             [128]; /* no variables of threads: workers of Ray could not open the program (src/task/ray/program.py) */
    static atomic_uint next;
    char *text = texts[atomic_fetch_add(&next, 1) % 256];
    const char *slash = strrchr(file, '/');
    snprintf(text, sizeof texts[0], "%s:%d", slash ? slash + 1 : file, line);
    return text;
}
