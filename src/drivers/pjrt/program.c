/* Programs: StableHLO modules that the plugin has compiled. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/quote.h"
#include "drivers/pjrt/device.h"

/* --- options of the compiler, a serialized CompileOptionsProto ----------------------------------------------------------- */

typedef struct options {
    unsigned char bytes[192];
    size_t count;
} options;

static void add_byte(options *to, unsigned byte) { to->bytes[to->count++] = (unsigned char)byte; }
static void add_message(options *to, unsigned tag, const options *message) {
    add_byte(to, tag);
    add_byte(to, (unsigned)message->count);
    for (size_t i = 0; i < message->count; i++) add_byte(to, message->bytes[i]);
}

static void add_text(options *to, unsigned tag, const char *text) {
    add_byte(to, tag);
    add_byte(to, (unsigned)strlen(text));
    for (; *text; text++) add_byte(to, (unsigned char)*text);
}

static void turn_off(options *to, const char *flag) {
    options setting = {0}, off = {0};
    add_byte(&off, 0x10), add_byte(&off, 0); /* bool_field */
    add_text(&setting, 0x0a, flag);
    add_message(&setting, 0x12, &off);
    add_message(to, 0x3a, &setting); /* env_option_overrides */
}

/* XLA's compiler for CPUs gives the other one of two numbers of which the second is NaN, unless it is told not to. Its products by XNNPACK keep the right factor packed and know
 * it by its address alone, so that other numbers in the same memory, as donation and allocators bring about, count for nothing. */
static void keep_numbers(options *to) {
    turn_off(to, "xla_cpu_enable_fast_min_max");
    turn_off(to, "xla_cpu_use_xnnpack");
}

/* One replica, one partition; for one device, or, where `id` is negative, for any. Without counts the compiler of XLA's CPU client ends the process. */
static options make_options(const bti_pjrt_client *client, int id, bool portable) {
    options all = {0}, build = {0}, assignment = {0}, devices = {0}, ids = {0};
    add_byte(&build, 0x20), add_byte(&build, 1); /* num_replicas */
    add_byte(&build, 0x28), add_byte(&build, 1); /* num_partitions */
    if (id >= 0) {
        for (unsigned rest = (unsigned)id;; rest >>= 7) { /* a number in groups of 7 bits */
            add_byte(&ids, rest > 127 ? (rest & 127) | 128 : rest);
            if (rest <= 127) break;
        }
        add_message(&devices, 0x0a, &ids);                     /* replica_device_ids */
        add_byte(&assignment, 0x08), add_byte(&assignment, 1); /* replica_count */
        add_byte(&assignment, 0x10), add_byte(&assignment, 1); /* computation_count */
        add_message(&assignment, 0x1a, &devices);
        add_message(&build, 0x4a, &assignment); /* device_assignment */
    }
    add_message(&all, 0x1a, &build);                       /* executable_build_options */
    if (portable) add_byte(&all, 0x20), add_byte(&all, 1); /* compile_portable_executable */
    if (client->is_cpu) keep_numbers(&all);
    return all;
}

/* --- compiling ----------------------------------------------------------------------------------------------------------- */

/* It is the caller's to destroy. */
static bt_status compile(bti_pjrt_device *device, const char *text, size_t bytes, const options *how,
                         void **executable) {
    const bti_pjrt_program_text program = {.size = BTI_PJRT_SIZE(bti_pjrt_program_text, format_bytes),
                                           .text = (char *)text,
                                           .bytes = bytes,
                                           .format = "mlir",
                                           .format_bytes = 4};
    bti_pjrt_compile args = {.size = BTI_PJRT_SIZE(bti_pjrt_compile, executable),
                             .client = device->client->handle,
                             .program = &program,
                             .options = (const char *)how->bytes,
                             .option_bytes = how->count};
    uint64_t start = bti_now_ns();
    bt_status status = bti_pjrt_try(device, "compiling a segment", device->calls->client_compile(&args));
    atomic_fetch_add(&device->client->compile_ns, bti_now_ns() - start);
    if (status == BT_OK && !args.executable)
        status = bti_fail(BT_INTERNAL, "%s: compiling a segment gave no program", device->name);
    if (status != BT_OK) return status;
    atomic_fetch_add(&device->client->compiled, 1);
    *executable = args.executable;
    return BT_OK;
}

static bt_status compile_for(bti_pjrt_device *device, const bti_pjrt_program *program, void **executable) {
    int id;
    BTI_TRY(bti_pjrt_client_id(device->client, device->index, &id));
    options how = make_options(device->client, id, false);
    return compile(device, program->text, program->bytes, &how, executable);
}

static bt_status compile_program(bti_pjrt_device *device, bti_pjrt_program *program) {
    bti_pjrt_client *client = device->client;
    options alone = make_options(client, -1, false), portable = make_options(client, -1, true);
    if (client->device_count == 1) return compile(device, program->text, program->bytes, &alone, &program->executable);
    if (atomic_load(&client->portable) >= 0) {
        bt_status status = compile(device, program->text, program->bytes, &portable, &program->executable);
        program->is_portable = status == BT_OK;
        if (status == BT_OK || atomic_load(&client->portable) > 0) return status;
        if (status != BT_UNIMPLEMENTED && status != BT_INVALID_ARGUMENT) return status;
    }
    int unknown = 0;
    BTI_TRY(compile_for(device, program, &program->executable));
    atomic_compare_exchange_strong(&client->portable, &unknown, -1); /* it refuses such programs */
    return BT_OK;
}

/* The program has so many results as the source says. */
static bt_status check_outputs(bti_pjrt_device *device, void *executable, int outputs) {
    const bti_pjrt_calls *calls = device->calls;
    bti_pjrt_get unloaded = {.size = BTI_PJRT_SIZE(bti_pjrt_get, result), .object = executable};
    BTI_TRY(bti_pjrt_try(device, "a program's results", calls->loaded_executable(&unloaded)));
    if (!unloaded.result) return bti_fail(BT_INTERNAL, "%s: a compiled segment is no program", device->name);
    bti_pjrt_size count = {.size = BTI_PJRT_SIZE(bti_pjrt_size, result), .object = unloaded.result};
    bt_status status = bti_pjrt_try(device, "a program's results", calls->executable_outputs(&count));
    bti_pjrt_drop(calls, calls->executable_destroy, unloaded.result);
    if (status != BT_OK || count.result == (size_t)outputs) return status;
    return bti_fail(BT_INTERNAL, "%s: the compiled segment has %zu results; the plan has %d", device->name,
                    count.result, outputs);
}

bt_status bti_pjrt_compile_own(bti_pjrt_device *device, bti_pjrt_program *program) {
    void **own = &program->own[device->index];
    BTI_TRY(compile_for(device, program, own));
    bt_status status = check_outputs(device, *own, program->output_count);
    if (status == BT_OK) return BT_OK;
    bti_pjrt_drop(device->calls, device->calls->loaded_destroy, *own);
    *own = NULL;
    return status;
}

/* --- modules as files: the flag pjrt_dump -------------------------------------------------------------------------------- */

/* All of the text or no file. 0, or the error's number. A file that is there already has the same text. */
static int write_dump(const char *path, const bti_segment_source *source) {
    BTI_WRITES;
    char temporary[BTI_PJRT_PATH + 64];
    size_t written = 0;
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    if (access(path, F_OK) == 0) return 0;
    int file = bti_file_above_standard(open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file < 0) return errno == EEXIST ? 0 : errno; /* another thread is writing it */
    while (written < source->bytes) {
        ssize_t count = write(file, source->text + written, source->bytes - written);
        if (count > 0) written += (size_t)count;
        if (count < 0 && errno != EINTR) break;
    }
    int error = written < source->bytes ? errno : 0;
    if (close(file) != 0 && !error) error = errno;
    if (!error && rename(temporary, path) != 0) error = errno;
    if (error) unlink(temporary);
    return error;
}

/* A folder that cannot be written to is reported once and stops nothing. */
static void dump(const bti_segment_source *source) {
    static atomic_bool is_reported;
    if (!bti_flag_int(BTI_FLAG_pjrt_dump)) return;
    char *folder = bti_flag_text(BTI_FLAG_pjrt_dump), path[BTI_PJRT_PATH];
    if (!folder) return;
    int length =
        snprintf(path, sizeof path, "%s/%016" PRIx64 "%016" PRIx64 ".mlir", folder, source->hash[0], source->hash[1]);
    mkdir(folder, 0777);
    int error = length < (int)sizeof path ? write_dump(path, source) : ENAMETOOLONG;
    if (error && !atomic_exchange(&is_reported, true))
        bti_log("pjrt: flag pjrt_dump=\"%s\": a module was not written: %s (reported once)", bti_quote(folder).text,
                strerror(error));
    bti_free(folder);
}

/* --- programs ------------------------------------------------------------------------------------------------------------ */

static void delete_program(bti_pjrt_program *program) {
    const bti_pjrt_calls *calls = program->client->calls;
    bti_pjrt_drop(calls, calls->loaded_destroy, program->executable);
    for (int d = 0; d < BTI_PJRT_DEVICES; d++) bti_pjrt_drop(calls, calls->loaded_destroy, program->own[d]);
    bti_free(program->text);
    bti_free(program->types);
    bti_free(program->aliases);
    bti_free(program);
}

static bool copy_source(bti_pjrt_program *program, const bti_segment_source *source) {
    size_t type_count = (size_t)(source->input_count + source->output_count);
    program->hash = source->hash[0];
    program->bytes = source->bytes;
    program->input_count = source->input_count;
    program->output_count = source->output_count;
    program->text = bti_alloc(source->bytes + 1);
    program->types = bti_alloc(type_count * sizeof *program->types);
    program->aliases = bti_alloc((size_t)source->input_count * sizeof *program->aliases);
    if (!program->text || !program->types || !program->aliases) return false;
    memcpy(program->text, source->text, source->bytes);
    program->text[source->bytes] = '\0';
    if (type_count) memcpy(program->types, source->types, type_count * sizeof *program->types);
    if (source->input_count)
        memcpy(program->aliases, source->aliases, (size_t)source->input_count * sizeof *program->aliases);
    return true;
}

static bt_status make_program(bti_pjrt_device *device, const bti_segment_source *source, bti_pjrt_program **made) {
    bti_pjrt_program *program = bti_calloc(1, sizeof *program);
    if (!program) return bti_no_memory();
    program->client = device->client;
    dump(source);
    bt_status status = copy_source(program, source) ? compile_program(device, program) : bti_no_memory();
    if (status == BT_OK) status = check_outputs(device, program->executable, program->output_count);
    if (status == BT_OK)
        *made = program;
    else
        delete_program(program);
    return status;
}

/* One of the client's that was made of the same text, with one user more; NULL: there is none. Under the client's lock. */
static bti_pjrt_program *find_shared(bti_pjrt_client *client, const bti_segment_source *source) {
    for (bti_pjrt_program *program = client->programs; program; program = program->next)
        if (program->hash == source->hash[0] && program->bytes == source->bytes &&
            !memcmp(program->text, source->text, source->bytes)) {
            program->users++;
            return program;
        }
    return NULL;
}

static bt_status check_source(const bti_pjrt_device *device, const bti_program_source *source) {
    int type;
    if (!source->segment) return bti_fail(BT_UNIMPLEMENTED, "%s runs segments of plans and nothing else", device->name);
    for (int i = 0; i < source->segment->input_count + source->segment->output_count; i++)
        BTI_TRY(bti_pjrt_type(source->segment->types[i].dtype, &type));
    return BT_OK;
}

bt_status bti_pjrt_program_load(void *opened, const bti_program_source *source, void **loaded) {
    bti_pjrt_device *device = opened;
    bti_pjrt_client *client = device->client;
    bti_pjrt_program *program = NULL, *other;
    BTI_TRY(bti_pjrt_check_lost(device));
    BTI_TRY(check_source(device, source));
    bti_lock_take(&client->lock);
    *loaded = find_shared(client, source->segment);
    bti_lock_give(&client->lock);
    if (*loaded) {
        atomic_fetch_add(&client->shared, 1);
        return BT_OK;
    }
    BTI_TRY(make_program(device, source->segment, &program));
    *loaded = program;
    program->users = 1;
    if (!program->is_portable) return BT_OK;
    bti_lock_take(&client->lock);
    other = find_shared(client, source->segment); /* made by another device meanwhile */
    if (!other) program->next = client->programs, client->programs = program;
    bti_lock_give(&client->lock);
    if (!other) return BT_OK;
    delete_program(program);
    *loaded = other;
    return BT_OK;
}

void bti_pjrt_program_free(void *opened, const bti_program_source *source, void *loaded) {
    (void)source;
    bti_pjrt_client *client = ((bti_pjrt_device *)opened)->client;
    bti_pjrt_program *program = loaded;
    bti_lock_take(&client->lock);
    bool last = --program->users == 0;
    for (bti_pjrt_program **at = &client->programs; last && *at; at = &(*at)->next)
        if (*at == program) {
            *at = program->next;
            break;
        }
    bti_lock_give(&client->lock);
    if (last) delete_program(program);
}
