/* The programs of a device, by what they were made from. */
#include <string.h>

#include "base/alloc.h"
#include "base/libraries.h"
#include "base/trace.h"
#include "device/program.h"

#define MOST_KERNELS 4096     /* kept when nobody holds them */
#define WORTH_A_NOTE_NS 20000 /* what loads faster was there already */

struct bti_program {
    atomic_uint refs;
    bt_device *device;
    void *state; /* the driver's */
    uint64_t hash;
    bti_program_source source; /* its kernel is a copy */
};

struct bti_programs {
    pthread_mutex_t lock;
    bti_program **table; /* open addressing; capacity a power of two; each entry is a reference */
    size_t capacity, count;
    uint64_t loaded, dropped;
};

static uint64_t hash_of(const bti_program_source *source) {
    if (source->kernel) return bti_kernel_hash(source->kernel) | 1;
    uint64_t hash = (uint64_t)source->op;
    for (int i = 0; i < source->dtype_count; i++) hash = hash * BT_DTYPE_COUNT + (uint64_t)source->dtypes[i];
    return (hash * UINT64_C(0x9E3779B97F4A7C15)) | 1;
}

static bool same(const bti_program_source *a, const bti_program_source *b) {
    if (a->kernel && b->kernel) return bti_kernel_equal(a->kernel, b->kernel);
    return !a->kernel && !b->kernel && a->op == b->op && a->dtype_count == b->dtype_count &&
           !memcmp(a->dtypes, b->dtypes, sizeof a->dtypes);
}

struct bti_programs *bti_programs_new(void) {
    struct bti_programs *programs = bti_calloc(1, sizeof *programs);
    if (programs) pthread_mutex_init(&programs->lock, NULL);
    return programs;
}

bti_program *bti_program_retain(bti_program *program) {
    if (program) atomic_fetch_add_explicit(&program->refs, 1, memory_order_relaxed);
    return program;
}

void bti_program_release(bti_program *program) {
    if (!program || atomic_fetch_sub_explicit(&program->refs, 1, memory_order_acq_rel) != 1) return;
    bt_device *device = program->device;
    if (program->state) device->driver->program_free(device->state, &program->source, program->state);
    bti_free((void *)program->source.kernel);
    bti_free(program);
}

void bti_programs_delete(bt_device *device) {
    struct bti_programs *programs = device->programs;
    for (size_t i = 0; i < programs->capacity; i++) bti_program_release(programs->table[i]);
    bti_free((void *)programs->table);
    pthread_mutex_destroy(&programs->lock);
    bti_free(programs);
    device->programs = NULL;
}

static void place(bti_program **table, size_t capacity, bti_program *program) {
    size_t i = program->hash;
    while (table[i & (capacity - 1)]) i++;
    table[i & (capacity - 1)] = program;
}

/* A table of that capacity with the entries that stay: all, or those that somebody holds. */
static bool rebuild(struct bti_programs *programs, size_t capacity, bool only_held) {
    bti_program **table = bti_calloc(capacity, sizeof *table);
    if (!table) return false;
    programs->count = 0;
    for (size_t i = 0; i < programs->capacity; i++) {
        bti_program *program = programs->table[i];
        if (!program) continue;
        if (only_held && program->source.kernel && atomic_load(&program->refs) == 1) {
            bti_program_release(program);
            programs->dropped++;
            continue;
        }
        place(table, capacity, program);
        programs->count++;
    }
    bti_free((void *)programs->table);
    programs->table = table;
    programs->capacity = capacity;
    return true;
}

static bool make_room(struct bti_programs *programs) {
    if (programs->count >= MOST_KERNELS && !rebuild(programs, programs->capacity, true)) return false;
    if ((programs->count + 1) * 2 <= programs->capacity) return true;
    return rebuild(programs, programs->capacity ? programs->capacity * 2 : 64, false);
}

/* What is compiled or read by it is noted on its own, within. */
static void note_loading(const bti_program_source *source, uint64_t start) {
    char name[48];
    if (!start || bti_trace_now() - start < WORTH_A_NOTE_NS) return;
    if (source->kernel) bti_kernel_name(name, sizeof name, source->kernel);
    bti_trace_end(BTI_TRACE_LOAD, source->kernel ? name : bti_op_info(source->op)->name, start);
}

static bt_status load_state(void *loaded) {
    bti_program *program = loaded;
    bt_device *device = program->device;
    return device->driver->program_load(device->state, &program->source, &program->state);
}

static bt_status load(bt_device *device, const bti_program_source *source, uint64_t hash, bti_program **loaded) {
    bti_program *program = bti_calloc(1, sizeof *program);
    if (!program) return bti_no_memory();
    atomic_init(&program->refs, 1);
    program->device = device;
    program->hash = hash;
    program->source = *source;
    bt_status status = BT_OK;
    if (source->kernel) {
        bti_kernel *kernel = bti_alloc(sizeof *kernel);
        program->source.kernel = kernel;
        if (kernel)
            *kernel = *source->kernel;
        else
            status = bti_no_memory();
    }
    if (status == BT_OK) {
        uint64_t start = bti_trace_begin();
        status = device->driver->third_party ? bti_libraries_open(load_state, program) : load_state(program);
        note_loading(source, start);
    }
    if (status == BT_OK) {
        *loaded = program;
        return BT_OK;
    }
    program->state = NULL; /* nothing to free there */
    bti_program_release(program);
    return status;
}

static bt_status find_or_load(bt_device *device, const bti_program_source *source, bti_program **program) {
    struct bti_programs *programs = device->programs;
    uint64_t hash = hash_of(source);
    for (size_t i = hash; programs->capacity; i++) {
        bti_program *known = programs->table[i & (programs->capacity - 1)];
        if (!known) break;
        if (known->hash != hash || !same(&known->source, source)) continue;
        *program = bti_program_retain(known);
        return BT_OK;
    }
    if (!make_room(programs)) return bti_no_memory();
    BTI_TRY(load(device, source, hash, program));
    place(programs->table, programs->capacity, bti_program_retain(*program));
    programs->count++;
    programs->loaded += source->kernel != NULL;
    return BT_OK;
}

bt_status bti_programs_get(bt_device *device, const bti_program_source *source, bti_program **program) {
    if (!source->kernel && (unsigned)source->op >= BTI_OP_COUNT)
        return bti_fail(BT_INTERNAL, "no such program: operation %d", (int)source->op);
    pthread_mutex_lock(&device->programs->lock);
    bt_status status = find_or_load(device, source, program);
    pthread_mutex_unlock(&device->programs->lock);
    return status;
}

void bti_device_count_programs(int id, uint64_t *loaded, uint64_t *dropped) {
    bt_device *device = bti_registry_at(id);
    *loaded = *dropped = 0;
    if (!device || !atomic_load(&device->opened)) return;
    pthread_mutex_lock(&device->programs->lock);
    *loaded = device->programs->loaded;
    *dropped = device->programs->dropped;
    pthread_mutex_unlock(&device->programs->lock);
}

bt_status bti_program_launch(const bti_program *program, const bti_work *work) {
    return program->device->driver->launch(program->device->state, program->state, work);
}

bt_status bti_program_launch_kernel(const bti_program *program, const bti_box *box) {
    return program->device->driver->launch_kernel(program->device->state, program->state, box);
}
