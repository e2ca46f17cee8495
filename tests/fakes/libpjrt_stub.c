/* The stub's table, settings, objects, client and compiler. */
#include "fakes/libpjrt_stub.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FAULTS = 16, UNAVAILABLE = 14 };

typedef struct fault {
    char name[64];
    int left, code;
} fault;

stub_settings stub;
stub_counts stub_counted;
stub_device stub_devices[STUB_DEVICES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fault faults[MOST_FAULTS];
static int fault_count;
static char hang[16], end_by[16], missing[MOST_FAULTS][64];
static int missing_count, entry_count, major, minor;
static stub_object *objects;
static const uint32_t magic = 0x50a7e57b;

/* --- settings ------------------------------------------------------------------------------------------------------------- */

static int number(json_t *from, const char *name, int otherwise) {
    json_t *value = json_object_get(from, name);
    return json_is_integer(value) ? (int)json_integer_value(value) : otherwise;
}
static void word(json_t *from, const char *name, const char *otherwise, char *to, size_t size) {
    const char *value = json_string_value(json_object_get(from, name));
    snprintf(to, size, "%s", value ? value : otherwise);
}
static void pair(json_t *from, const char *name, int to[2]) {
    json_t *value = json_object_get(from, name);
    for (int i = 0; i < 2; i++) to[i] = (int)json_integer_value(json_array_get(value, (size_t)i));
}

static void read_faults(json_t *from) {
    const char *name;
    json_t *value;
    fault_count = 0;
    json_object_foreach(json_object_get(from, "fail"), name, value) {
        if (fault_count == MOST_FAULTS) return;
        fault *one = &faults[fault_count++];
        snprintf(one->name, sizeof one->name, "%s", name);
        one->left = (int)json_integer_value(json_array_get(value, 0));
        one->code = (int)json_integer_value(json_array_get(value, 1));
    }
}

void pjrt_stub_set(const char *json) {
    char portable[16], copies[16];
    json_t *from = json_loads(json && *json ? json : "{}", 0, NULL);
    pthread_mutex_lock(&lock);
    if (!from) stub_misused("the settings of the stub are no JSON: %s", json);
    major = number(from, "major", 0);
    minor = number(from, "minor", 81);
    entry_count = number(from, "entries", 118);
    word(from, "platform", "stub", stub.platform, sizeof stub.platform);
    word(from, "kind", "Stub v1", stub.description, sizeof stub.description);
    word(from, "hang", "", hang, sizeof hang);
    word(from, "abort", "", end_by, sizeof end_by);
    word(from, "portable", "", portable, sizeof portable);
    word(from, "copies", "", copies, sizeof copies);
    stub.refuses_compile = !strcmp(portable, "compile");
    stub.refuses_run = !strcmp(portable, "run");
    stub.no_device_copy = copies[0];
    stub.no_memory_copy = !strcmp(copies, "none");
    stub.devices = number(from, "devices", 2);
    stub.listed = number(from, "listed", stub.devices);
    stub.results = number(from, "results", -1);
    stub.limit = json_integer_value(json_object_get(from, "limit"));
    stub.used = json_integer_value(json_object_get(from, "used"));
    stub.lost_after = number(from, "lost_after", 0);
    stub.uses_up = json_is_true(json_object_get(from, "uses_up"));
    stub.no_results = json_is_true(json_object_get(from, "no_results"));
    stub.seed = (unsigned)number(from, "seed", 0);
    pair(from, "fail_any", stub.fail_any);
    pair(from, "late", stub.late);
    pair(from, "late_upload", stub.late_upload);
    read_faults(from);
    missing_count = 0;
    json_t *names = json_object_get(from, "missing");
    for (size_t i = 0; i < json_array_size(names) && i < MOST_FAULTS; i++)
        snprintf(missing[missing_count++], sizeof missing[0], "%s", json_string_value(json_array_get(names, i)));
    json_decref(from);
    pthread_mutex_unlock(&lock);
}

/* --- objects and misuse ----------------------------------------------------------------------------------------------------- */

void stub_misused(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!stub_counted.misused++) vsnprintf(stub.misuse, sizeof stub.misuse, format, arguments);
    va_end(arguments);
}

void *stub_new(stub_kind kind, size_t bytes) {
    stub_object *object = calloc(1, bytes);
    if (!object) abort();
    *object = (stub_object){magic, kind, true, objects};
    objects = object;
    stub_counted.live[kind]++;
    return object;
}

bool stub_is(const void *object, stub_kind kind, const char *where) {
    static const char *const names[] = {"client", "buffer", "event", "program", "unloaded program", "error"};
    const stub_object *of = object;
    if (of && of->magic == magic && of->kind == kind && of->alive) return true;
    stub_misused("%s: its %s %s", where, names[kind],
                 !of                                      ? "is NULL"
                 : of->magic == magic && of->kind == kind ? "was destroyed"
                                                          : "is something else");
    return false;
}

void stub_end(void *object) {
    stub_object *of = object;
    of->alive = false;
    stub_counted.live[of->kind]--;
}

bti_pjrt_error *stub_fail(int code, const char *format, ...) {
    va_list arguments;
    stub_error *error = stub_new(STUB_ERROR, sizeof *error);
    error->code = code;
    va_start(arguments, format);
    if (vasprintf(&error->message, format, arguments) < 0) abort();
    va_end(arguments);
    return (bti_pjrt_error *)error;
}

static int drawn_fault(const char *name) {
    for (int i = 0; i < fault_count; i++)
        if (!strcmp(faults[i].name, name) && faults[i].left > 0 && --faults[i].left == 0) return faults[i].code;
    if (strstr(name, "Destroy")) return 0;
    if (stub.fail_any[0] > 0 && --stub.fail_any[0] == 0) return stub.fail_any[1];
    return stub.lost_after < 0 ? UNAVAILABLE : 0; /* set so by the run that loses it */
}

bti_pjrt_error *stub_enter(const char *name, size_t size, size_t least) {
    pthread_mutex_lock(&lock);
    stub_counted.calls++;
    if (size < least) {
        stub_misused("%s: its struct has %zu bytes of %zu", name, size, least);
        return stub_fail(3, "Unexpected %s_Args size: expected %zu, got %zu", name, least, size);
    }
    int code = drawn_fault(name);
    stub_draw();
    return code ? stub_fail(code, "the stub fails in %s", name) : NULL;
}

void stub_leave(void) {
    pthread_mutex_unlock(&lock);
    stub_call_back();
}

stub_counts pjrt_stub_counts(void) {
    pthread_mutex_lock(&lock);
    stub_counts counts = stub_counted;
    pthread_mutex_unlock(&lock);
    return counts;
}
const char *pjrt_stub_misuse(void) { return stub_counted.misused ? stub.misuse : ""; }

/* Begins a function and fails where that is set. */
#define ENTER(title, type, last)                                                        \
    bti_pjrt_error *failed_ = stub_enter(title, args->size, BTI_PJRT_SIZE(type, last)); \
    if (failed_) return stub_leave(), failed_
#define LEAVE(result) return stub_leave(), (result)

/* --- errors and the start --------------------------------------------------------------------------------------------------- */

static bti_pjrt_error *stub_error_destroy(bti_pjrt_one *args) {
    pthread_mutex_lock(&lock);
    if (stub_is(args->object, STUB_ERROR, "PJRT_Error_Destroy")) {
        free(((stub_error *)args->object)->message);
        stub_end(args->object);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}
static bti_pjrt_error *stub_error_message(bti_pjrt_text *args) {
    pthread_mutex_lock(&lock);
    if (stub_is(args->object, STUB_ERROR, "PJRT_Error_Message")) {
        args->text = ((stub_error *)args->object)->message;
        args->length = strlen(args->text);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}
static bti_pjrt_error *stub_error_code(bti_pjrt_int *args) {
    pthread_mutex_lock(&lock);
    if (stub_is(args->object, STUB_ERROR, "PJRT_Error_GetCode")) args->result = ((stub_error *)args->object)->code;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void misbehave(const char *when) {
    if (!strcmp(end_by, when)) {
        fprintf(stderr, "the stub aborts at its %s\n", when);
        signal(SIGABRT, SIG_DFL);
        raise(SIGABRT);
    }
    if (!strcmp(hang, when)) fprintf(stderr, "the stub hangs at its %s\n", when);
    while (!strcmp(hang, when)) pause();
}

static bti_pjrt_error *stub_plugin_initialize(bti_pjrt_none *args) {
    misbehave("start");
    ENTER("PJRT_Plugin_Initialize", bti_pjrt_none, extension);
    LEAVE(NULL);
}

/* --- clients and devices ------------------------------------------------------------------------------------------------------ */

static bti_pjrt_error *stub_client_create(bti_pjrt_client_options *args) {
    misbehave("client");
    ENTER("PJRT_Client_Create", bti_pjrt_client_options, try_get);
    if (stub_counted.live[STUB_CLIENT]) stub_misused("PJRT_Client_Create: there is a client already");
    args->client = stub_new(STUB_CLIENT, sizeof(stub_object));
    for (int i = 0; i < STUB_DEVICES; i++) stub_devices[i].index = i;
    LEAVE(NULL);
}
static bti_pjrt_error *stub_client_destroy(bti_pjrt_one *args) {
    ENTER("PJRT_Client_Destroy", bti_pjrt_one, object);
    if (stub_is(args->object, STUB_CLIENT, "PJRT_Client_Destroy")) stub_end(args->object);
    stub_finish_all();
    for (int kind = STUB_BUFFER; kind < STUB_ERROR; kind++)
        if (stub_counted.live[kind])
            stub_misused("PJRT_Client_Destroy: %d objects of kind %d are left", stub_counted.live[kind], kind);
    LEAVE(NULL);
}
static bti_pjrt_error *stub_client_platform(bti_pjrt_text *args) {
    ENTER("PJRT_Client_PlatformName", bti_pjrt_text, length);
    args->text = stub.platform;
    args->length = strlen(stub.platform);
    LEAVE(NULL);
}
static bti_pjrt_error *stub_client_version(bti_pjrt_text *args) {
    ENTER("PJRT_Client_PlatformVersion", bti_pjrt_text, length);
    args->text = "stub version 7\nof two lines";
    args->length = strlen(args->text);
    LEAVE(NULL);
}
static bti_pjrt_error *stub_client_devices(bti_pjrt_list *args) {
    static void *list[STUB_DEVICES];
    ENTER("PJRT_Client_AddressableDevices", bti_pjrt_list, count);
    for (int i = 0; i < STUB_DEVICES; i++) list[i] = &stub_devices[i];
    args->items = list;
    args->count = (size_t)(int64_t)stub.listed;
    LEAVE(NULL);
}
static bti_pjrt_error *stub_device_description(bti_pjrt_get *args) {
    ENTER("PJRT_Device_GetDescription", bti_pjrt_get, result);
    args->result = args->object;
    LEAVE(NULL);
}
static bti_pjrt_error *stub_device_memory(bti_pjrt_get *args) {
    ENTER("PJRT_Device_DefaultMemory", bti_pjrt_get, result);
    args->result = args->object;
    LEAVE(NULL);
}
/* Numbers are not positions, as on the second host of several. */
static bti_pjrt_error *stub_description_id(bti_pjrt_int *args) {
    ENTER("PJRT_DeviceDescription_Id", bti_pjrt_int, result);
    args->result = 300 + ((stub_device *)args->object)->index;
    LEAVE(NULL);
}
static bti_pjrt_error *stub_description_kind(bti_pjrt_text *args) {
    ENTER("PJRT_DeviceDescription_Kind", bti_pjrt_text, length);
    args->text = stub.description;
    args->length = strlen(stub.description);
    LEAVE(NULL);
}
static bti_pjrt_error *stub_device_memory_stats(bti_pjrt_memory_stats *args) {
    ENTER("PJRT_Device_MemoryStats", bti_pjrt_memory_stats, after);
    if (!stub.limit) LEAVE(stub_fail(12, "the stub has no statistics"));
    args->used_bytes = stub.used;
    args->limit_bytes = (bti_pjrt_stat){stub.limit, true};
    LEAVE(NULL);
}

/* --- programs ------------------------------------------------------------------------------------------------------------------ */

static bool read_option(const bti_pjrt_compile *args, stub_program *program) {
    const unsigned char *at = (const unsigned char *)args->options, *end = at + args->option_bytes;
    if (args->option_bytes < 6 || at[0] != 0x1a || at + 2 + at[1] > end) return false;
    const unsigned char *build = at + 2, *rest = build + at[1];
    if (at[1] < 4 || memcmp(build, "\x20\x01\x28\x01", 4) != 0) return false;
    program->portable = rest + 2 <= end && rest[0] == 0x20 && rest[1] == 1;
    const unsigned char *setting = rest + 2 * program->portable;
    while (setting + 2 <= end && setting[0] == 0x3a) setting += 2 + setting[1];
    if (setting != end) return false;
    if (at[1] == 4) return true;
    if (build[4] != 0x4a || memcmp(build + 6, "\x08\x01\x10\x01\x1a", 5) != 0 || build[12] != 0x0a) return false;
    unsigned id = 0;
    for (int i = 0; i < build[13]; i++) id |= (build[14 + i] & 127u) << 7 * i;
    program->device = (int)id - 300;
    return build + 14 + build[13] == rest && program->device >= 0 && program->device < stub.devices;
}

static int number_after(const char *text, const char *words, int otherwise) {
    const char *at = strstr(text, words);
    return at ? atoi(at + strlen(words)) : otherwise;
}

static bti_pjrt_error *stub_client_compile(bti_pjrt_compile *args) {
    ENTER("PJRT_Client_Compile", bti_pjrt_compile, executable);
    stub_program read = {.device = 0};
    if (!stub_is(args->client, STUB_CLIENT, "PJRT_Client_Compile")) LEAVE(stub_fail(3, "no client"));
    if (args->program->format_bytes != 4 || memcmp(args->program->format, "mlir", 4) != 0)
        stub_misused("PJRT_Client_Compile: the format is not mlir");
    if (!read_option(args, &read)) {
        stub_misused("PJRT_Client_Compile: %zu bytes of options that are not understood", args->option_bytes);
        LEAVE(stub_fail(3, "options that are not understood"));
    }
    if (read.portable && stub.refuses_compile) LEAVE(stub_fail(12, "the stub compiles for one device"));
    char *text = calloc(1, args->program->bytes + 1);
    memcpy(text, args->program->text, args->program->bytes);
    const char *rule = strstr(text, "// stub: ");
    if (rule) (void)!sscanf(rule + 9, "%15s", read.rule);
    read.results = number_after(text, "// results: ", 1);
    read.gives = number_after(text, "// gives: ", -1);
    bool is_known = !strcmp(read.rule, "add") || !strcmp(read.rule, "copy");
    bti_pjrt_error *refusal =
        is_known ? NULL : stub_fail(3, "in \"%s\": error: expected a rule of the stub\n  at line 1\n", text);
    free(text);
    if (refusal) LEAVE(refusal);
    stub_program *program = stub_new(STUB_PROGRAM, sizeof *program);
    read.object = program->object;
    *program = read;
    stub_counted.compilations++;
    args->executable = program;
    LEAVE(NULL);
}
static bti_pjrt_error *stub_loaded_destroy(bti_pjrt_one *args) {
    ENTER("PJRT_LoadedExecutable_Destroy", bti_pjrt_one, object);
    if (stub_is(args->object, STUB_PROGRAM, "PJRT_LoadedExecutable_Destroy")) stub_end(args->object);
    LEAVE(NULL);
}

typedef struct unloaded {
    stub_object object;
    int results;
} unloaded;

static bti_pjrt_error *stub_loaded_executable(bti_pjrt_get *args) {
    ENTER("PJRT_LoadedExecutable_GetExecutable", bti_pjrt_get, result);
    unloaded *of = stub_new(STUB_UNLOADED, sizeof *of);
    of->results = stub.results >= 0 ? stub.results : ((stub_program *)args->object)->results;
    args->result = of;
    LEAVE(NULL);
}
static bti_pjrt_error *stub_executable_outputs(bti_pjrt_size *args) {
    ENTER("PJRT_Executable_NumOutputs", bti_pjrt_size, result);
    if (stub_is(args->object, STUB_UNLOADED, "PJRT_Executable_NumOutputs"))
        args->result = (size_t)((unloaded *)args->object)->results;
    LEAVE(NULL);
}
static bti_pjrt_error *stub_executable_destroy(bti_pjrt_one *args) {
    ENTER("PJRT_Executable_Destroy", bti_pjrt_one, object);
    if (stub_is(args->object, STUB_UNLOADED, "PJRT_Executable_Destroy")) stub_end(args->object);
    LEAVE(NULL);
}

/* --- the table ------------------------------------------------------------------------------------------------------------------ */

STUB_API const bti_pjrt_table *GetPjrtApi(void) {
    static struct {
        size_t size;
        void *extension;
        struct {
            size_t size;
            void *extension;
            int major, minor;
        } version;
        void *entries[160];
    } table;
    pjrt_stub_set(getenv("BERTH_FAKE_PJRT"));
    table.size = 40 + 8 * (size_t)entry_count;
    table.version.size = 24;
    table.version.major = major;
    table.version.minor = minor;
#define BTI_PJRT(slot, name, title, arguments, need) \
    table.entries[slot] = (void *)stub_##name;       \
    for (int i = 0; i < missing_count; i++)          \
        if (!strcmp(missing[i], title)) table.entries[slot] = NULL;
#include "drivers/pjrt/entries.def"
    return (const bti_pjrt_table *)&table;
}
