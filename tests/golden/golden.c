/* golden [--mirrored] [--every=N] [--verbose] FILE...: compares berth with reference files of three forms, told apart by
 * their content:
 *   operations  safetensors whose metadata have `cases`; --every=N takes one in N of them, BERTH_TEST_DRAW=0, 1... which
 *   training    safetensors whose metadata have `runs`; --mirrored runs each once more over 4 simulated GPUs
 *   printing    JSON whose cases have `text` and `repr`
 * Everything goes through the public API on the default device; BERTH_FLAGS chooses it. Exit codes: 0 all agree, 1 some do
 * not, 2 a file cannot be read or has another form. */
#include "golden/export.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool verbose;

static void say(const char *word, const char *name, const char *format, va_list arguments) {
    printf("%s %s: ", word, name);
    vprintf(format, arguments);
    putchar('\n');
}

void golden_failed(tally *t, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("FAILED", name, format, arguments);
    va_end(arguments);
    t->failed++;
}

void golden_skipped(tally *t, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("SKIPPED", name, format, arguments);
    va_end(arguments);
    t->skipped++;
}

void golden_passed(tally *t, const char *name) {
    if (verbose) printf("passed %s\n", name);
    t->passed++;
}

bool golden_unusable(const char *path, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "golden: %s: ", path);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

/* --- JSON ----------------------------------------------------------------------------------------------------------- */

/* Copies the text with quotes around bare NaN, Infinity and -Infinity; a quote each side, so at most twice as long. */
static char *quote_bare_words(const char *text, size_t length, size_t *new_length) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    char *copy = malloc(2 * length + 1), *to = copy;
    bool in_string = false;
    for (size_t i = 0; copy && i < length;) {
        size_t word = 0;
        for (int w = 0; w < 3 && !in_string && !word; w++)
            if (length - i >= strlen(words[w]) && !memcmp(text + i, words[w], strlen(words[w])))
                word = strlen(words[w]);
        if (word) {
            *to++ = '"';
            memcpy(to, text + i, word);
            to += word;
            *to++ = '"';
            i += word;
            continue;
        }
        if (text[i] == '"') in_string = !in_string;
        if (in_string && text[i] == '\\' && i + 1 < length) *to++ = text[i++];
        *to++ = text[i++];
    }
    *new_length = (size_t)(to - copy);
    return copy;
}

json_t *golden_json(const char *text, size_t length, char *why, size_t why_size) {
    size_t copied;
    char *copy = quote_bare_words(text, length, &copied);
    json_error_t error = {.text = "out of memory"};
    json_t *root = copy ? json_loadb(copy, copied, 0, &error) : NULL;
    if (!root) snprintf(why, why_size, "no JSON: line %d: %s", error.line, error.text);
    free(copy);
    return root;
}

/* --- files ---------------------------------------------------------------------------------------------------------- */

static char *read_text(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    size_t capacity = 1 << 16, size = 0;
    char *text = malloc(capacity);
    while (text) {
        size_t got = fread(text + size, 1, capacity - size, file);
        size += got;
        if (got == 0) break;
        if (size < capacity) continue;
        char *grown = realloc(text, capacity *= 2);
        if (!grown) free(text);
        text = grown;
    }
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed || !text) {
        free(text);
        return NULL;
    }
    *length = size;
    return text;
}

static bool run_json(const char *path, const char *text, size_t length, tally *t) {
    char why[256];
    json_t *root = golden_json(text, length, why, sizeof why);
    if (!root) return golden_unusable(path, "%s", why);
    bool usable = golden_printing(path, root, t);
    json_decref(root);
    return usable;
}

static bool run_safetensors(const char *path, bool mirrored, golden_draw draw, tally *t) {
    bt_tensors *tensors;
    if (bt_tensors_open(path, &tensors) != BT_OK) return golden_unusable(path, "%s", bt_error_text());
    bool cases = bt_tensors_metadata(tensors, "cases"), runs = bt_tensors_metadata(tensors, "runs"), usable;
    if (cases || runs)
        usable = (!cases || golden_operations(path, tensors, draw, t)) &&
                 (!runs || golden_training(path, tensors, mirrored, t));
    else
        usable = golden_unusable(path, "its metadata have neither `cases` (operations) nor `runs` (training)");
    bt_tensors_close(tensors);
    return usable;
}

/* A safetensors file has its header's first { at byte 8; the first bytes of a JSON file may be { too. */
static bool run_file(const char *path, bool mirrored, golden_draw draw, tally *t) {
    size_t length = 0, first = 0;
    char *text = read_text(path, &length);
    if (!text) return golden_unusable(path, "cannot be read: %s", strerror(errno));
    while (first < length && strchr(" \t\r\n", text[first])) first++;
    bool safetensors = length > 8 && text[8] == '{' && memchr(text, '\0', 8), usable;
    if (safetensors || (first < length && text[first] != '{' && text[first] != '['))
        usable = run_safetensors(path, mirrored, draw, t);
    else
        usable = run_json(path, text, length, t);
    free(text);
    return usable;
}

/* Four simulated GPUs unless BERTH_FLAGS names the devices or the default one; what is not mirrored stays on the CPU then. */
static bool prepare_mirrored(void) {
    char devices[256], default_device[64];
    if (bt_get_flag("devices", devices, sizeof devices) != BT_OK) return false;
    if (bt_get_flag("default_device", default_device, sizeof default_device) != BT_OK) return false;
    return *devices || *default_device ||
           (bt_set_devices("sim:gpu*4") == BT_OK && bt_set_default_device("cpu") == BT_OK);
}

const char *golden_export_folder;

int main(int argc, char **argv) {
    tally t = {0};
    bool mirrored = false, usable = true;
    int files = 0, every = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--mirrored"))
            mirrored = true;
        else if (!strcmp(argv[i], "--verbose"))
            verbose = true;
        else if (!strncmp(argv[i], "--every=", 8))
            every = atoi(argv[i] + 8);
        else if (!strncmp(argv[i], "--export=", 9))
            golden_export_folder = argv[i] + 9;
        else
            files++;
    }
    const char *number = getenv("BERTH_TEST_DRAW");
    const golden_draw draw = {every, number && every > 0 ? atoi(number) % every : 0};
    if (!files || every < 1) {
        fputs("usage: golden [--mirrored] [--every=N] [--export=FOLDER] [--verbose] FILE...\n", stderr);
        return 2;
    }
    if (bt_check_flags() != BT_OK || (mirrored && !prepare_mirrored())) {
        fprintf(stderr, "golden: %s\n", bt_error_text());
        return 2;
    }
    if (getenv("BERTH_EMULATED")) printf("on cuda-emulated, compiled by NVRTC %s\n", getenv("BERTH_EMULATED"));
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--", 2)) continue;
        if (golden_export_folder && !strcmp(argv[i], "programs")) {
            golden_export_programs(&t);
            continue;
        }
        if (!run_file(argv[i], mirrored, draw, &t)) usable = false;
    }
    if (every > 1) printf("BERTH_TEST_DRAW=%d of %d draws of operations\n", draw.number, every);
    printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
    fflush(stdout);
    if (bt_shutdown() != BT_OK) usable = golden_unusable("the end", "%s", bt_error_text());
    return !usable ? 2 : t.failed ? 1 : 0;
}
