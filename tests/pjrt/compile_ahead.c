/* Compiles StableHLO modules by a PJRT plugin for chips that are described and not there: compile_ahead PLUGIN [OPTION=TEXT | OPTION=@FILE]... TOPOLOGY...
 *
 * Each line of standard input is the number of a topology, from 0, and the path of a module. The answer is one line, with tabs between its words: milliseconds, and "ok",
 * or "refused", the code and the message. The first line of all is "ready", or why the plugin or a topology is not there. OPTION is one of topologies. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "drivers/pjrt/api.h"

/* Entries of the table that no device needs. */
enum { TOPOLOGY_CREATE = 82, COMPILE = 89, OPTIONS = 4, TOPOLOGIES = 16 };

typedef struct named_value {
    size_t size;
    void *extension;
    const char *name;
    size_t name_length;
    int type; /* 0: text */
    const char *text;
    size_t text_length;
} named_value;
_Static_assert(BTI_PJRT_SIZE(named_value, text_length) == 56, "of PJRT_NamedValue");

typedef struct topology_create {
    size_t size;
    void *extension;
    const char *name;
    size_t name_length;
    const named_value *options;
    size_t option_count;
    void *topology; /* result */
} topology_create;

typedef struct compile_ahead {
    size_t size;
    void *extension;
    void *topology;
    const bti_pjrt_program_text *program;
    const char *options;
    size_t option_bytes;
    void *client;     /* NULL: none */
    void *executable; /* result */
} compile_ahead;

static bti_pjrt_calls calls;
static bti_pjrt_error *(*create_topology)(topology_create *);
static bti_pjrt_error *(*compile)(compile_ahead *);

/* --- the plugin ---------------------------------------------------------------------------------------------------------- */

static void refuse(const char *what, const char *why) {
    printf("%s: %s\n", what, why);
    fflush(stdout);
    exit(1);
}

/* The error on one line; it is destroyed. */
static void print_error(bti_pjrt_error *error) {
    bti_pjrt_int code = {.size = BTI_PJRT_SIZE(bti_pjrt_int, result), .object = error};
    bti_pjrt_text text = {.size = BTI_PJRT_SIZE(bti_pjrt_text, length), .object = error};
    bti_pjrt_one destroyed = {.size = BTI_PJRT_SIZE(bti_pjrt_one, object), .object = error};
    calls.error_code(&code);
    calls.error_message(&text);
    printf("%d\t", code.result);
    for (size_t i = 0; i < text.length && i < 2000; i++)
        putchar((unsigned char)text.text[i] < ' ' ? ' ' : text.text[i]);
    putchar('\n');
    calls.error_destroy(&destroyed);
}

static void open_plugin(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) refuse("the plugin cannot be opened", dlerror());
    const bti_pjrt_table *(*get)(void);
    *(void **)&get = dlsym(library, "GetPjrtApi");
    if (!get) refuse(path, "it has no GetPjrtApi");
    const bti_pjrt_table *table = get();
    if (table->version.major != BTI_PJRT_MAJOR || table->size < offsetof(bti_pjrt_table, entries[COMPILE + 1]))
        refuse(path, "its version of the PJRT C API is not known");
#define BTI_PJRT(slot, name, title, arguments, need) *(void **)&calls.name = table->entries[slot];
#include "drivers/pjrt/entries.def"
    *(void **)&create_topology = table->entries[TOPOLOGY_CREATE];
    *(void **)&compile = table->entries[COMPILE];
    bti_pjrt_none args = {.size = BTI_PJRT_SIZE(bti_pjrt_none, extension)};
    bti_pjrt_error *error = calls.plugin_initialize(&args);
    if (!error) return;
    printf("the plugin does not start: ");
    print_error(error);
    exit(1);
}

static void *open_topology(const char *name, const named_value *options, size_t count) {
    topology_create args = {.size = BTI_PJRT_SIZE(topology_create, topology),
                            .name = name,
                            .name_length = strlen(name),
                            .options = options,
                            .option_count = count};
    bti_pjrt_error *error = create_topology(&args);
    if (!error) return args.topology;
    printf("%s: ", name);
    print_error(error);
    exit(1);
}

/* --- modules ------------------------------------------------------------------------------------------------------------- */

/* The caller's to free, with a NUL behind it. */
static char *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) refuse(path, "it cannot be read");
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(1, *bytes + 1);
    if (!text || fread(text, 1, *bytes, file) != *bytes) refuse(path, "it cannot be read");
    fclose(file);
    return text;
}

static named_value read_option(const char *name, const char *text) {
    named_value option = {.size = BTI_PJRT_SIZE(named_value, text_length),
                          .name = name,
                          .name_length = strlen(name),
                          .text = text,
                          .text_length = strlen(text)};
    if (*text == '@') option.text = read_file(text + 1, &option.text_length);
    return option;
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void compile_module(void *topology, char *text, size_t bytes) {
    static const char options[] = {0x1a, 4, 0x20, 1, 0x28, 1}; /* one replica, one partition (program.c) */
    const bti_pjrt_program_text program = {.size = BTI_PJRT_SIZE(bti_pjrt_program_text, format_bytes),
                                           .text = text,
                                           .bytes = bytes,
                                           .format = "mlir",
                                           .format_bytes = 4};
    compile_ahead args = {.size = BTI_PJRT_SIZE(compile_ahead, executable),
                          .topology = topology,
                          .program = &program,
                          .options = options,
                          .option_bytes = sizeof options};
    double start = now_ms();
    bti_pjrt_error *error = compile(&args);
    printf("%.0f\t%s", now_ms() - start, error ? "refused\t" : "ok\n");
    if (error)
        print_error(error);
    else
        calls.executable_destroy(
            &(bti_pjrt_one){.size = BTI_PJRT_SIZE(bti_pjrt_one, object), .object = args.executable});
    fflush(stdout);
}

int main(int count, char **words) {
    void *topologies[TOPOLOGIES];
    named_value options[OPTIONS];
    size_t option_count = 0, topology_count = 0;
    char line[4096];
    if (count < 3) refuse("usage", "compile_ahead PLUGIN [OPTION=TEXT | OPTION=@FILE]... TOPOLOGY...");
    open_plugin(words[1]);
    for (int i = 2; i < count; i++) {
        char *text = strchr(words[i], '=');
        if (text && option_count < OPTIONS) {
            *text++ = '\0';
            options[option_count++] = read_option(words[i], text);
        } else if (topology_count < TOPOLOGIES) {
            topologies[topology_count++] = open_topology(words[i], options, option_count);
        }
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char *path;
        size_t bytes, topology = strtoul(line, &path, 10);
        path[strcspn(path, "\n")] = '\0';
        if (*path++ != ' ' || topology >= topology_count) refuse(line, "not the number of a topology and a path");
        char *text = read_file(path, &bytes);
        compile_module(topologies[topology], text, bytes);
        free(text);
    }
    return 0;
}
