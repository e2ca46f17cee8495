/* The programs of a device, by what they were made from. */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/lock.h"
#include "base/alloc.h"
#include "base/libraries.h"
#include "base/trace.h"
#include "device/program.h"

#define MOST_KERNELS 4096     /* kept, unless more are in use */
#define MOST_BY_LIBRARY 64    /* likewise: they hold memory of the device or of the host */
#define MOST_SEGMENTS 512     /* likewise: sizes are part of them */
#define WORTH_A_NOTE_NS 20000 /* what loads faster was there already */

struct bti_programs {
    bti_lock lock;
    pthread_cond_t one_made;     /* or it has failed */
    bti_lru kernels, primitives; /* kernels: the program's too; primitives are few, and all stay */
    bti_lru by_library, segments;
};

static uint64_t hash_of_lines(const bti_fft_lines *lines) {
    const int64_t numbers[] = {lines->kind, lines->part, lines->outer, lines->n, lines->inner};
    return XXH3_64bits(numbers, sizeof numbers);
}

static bool is_equal_lines(const bti_fft_lines *a, const bti_fft_lines *b) {
    return a->kind == b->kind && a->part == b->part && a->outer == b->outer && a->n == b->n && a->inner == b->inner;
}

static uint64_t hash_of_factor(const bti_factor *f) {
    const int64_t numbers[] = {
        f->kind,         f->of.dtype, f->of.batch, f->of.m, f->of.n, f->triangle.upper, f->triangle.transposed,
        f->triangle.unit};
    return XXH3_64bits(numbers, sizeof numbers);
}

static bool is_equal_factor(const bti_factor *a, const bti_factor *b) {
    return a->kind == b->kind && a->of.dtype == b->of.dtype && a->of.batch == b->of.batch && a->of.m == b->of.m &&
           a->of.n == b->of.n && a->triangle.upper == b->triangle.upper &&
           a->triangle.transposed == b->triangle.transposed && a->triangle.unit == b->triangle.unit;
}

static bool is_by_library(const bti_program_source *source) { return source->fft.n || source->factor.of.n; }

static uint64_t hash_of(const bti_program_source *source) {
    if (source->segment) return source->segment->hash[0];
    if (source->custom) return XXH3_64bits(source->custom->text, strlen(source->custom->text));
    uint64_t hash = source->kernel ? bti_kernel_hash(source->kernel) : 0;
    hash += (uint64_t)source->op * BTI_KERNEL_OPERANDS + (uint64_t)source->made;
    for (int i = 0; i < source->dtype_count; i++) hash = hash * BT_DTYPE_COUNT + (uint64_t)source->dtypes[i];
    if (source->fft.n) hash += hash_of_lines(&source->fft);
    if (source->factor.of.n) hash += hash_of_factor(&source->factor);
    return hash * UINT64_C(0x9E3779B97F4A7C15);
}

static bool is_equal_custom(const bti_custom_source *a, const bti_custom_source *b) {
    return !strcmp(a->text, b->text) && !strcmp(a->entry, b->entry) && !strcmp(a->name, b->name) &&
           a->input_count == b->input_count && a->output_count == b->output_count && a->attr_count == b->attr_count &&
           !memcmp(a->dtypes, b->dtypes, sizeof a->dtypes) && !memcmp(a->ranks, b->ranks, sizeof a->ranks);
}

static bool is_equal(const bti_lru_entry *entry, const void *key) {
    const bti_program_source *a = &((const bti_program *)entry)->source, *b = key;
    if (!a->kernel != !b->kernel || (a->kernel && !bti_kernel_equal(a->kernel, b->kernel))) return false;
    if (!a->segment != !b->segment ||
        (a->segment && memcmp(a->segment->hash, b->segment->hash, sizeof a->segment->hash)))
        return false;
    if (!a->custom != !b->custom || (a->custom && !is_equal_custom(a->custom, b->custom))) return false;
    return a->op == b->op && a->made == b->made && a->dtype_count == b->dtype_count &&
           !memcmp(a->dtypes, b->dtypes, sizeof a->dtypes) && is_equal_lines(&a->fft, &b->fft) &&
           is_equal_factor(&a->factor, &b->factor);
}

static void free_program(bti_lru_entry *entry) {
    bti_program *program = (bti_program *)entry;
    if (program->state) program->driver->program_free(program->device, &program->source, program->state);
    bti_free((void *)program->source.kernel);
    bti_free((void *)program->source.custom);
    bti_free((void *)program->source.segment);
    bti_free(program);
}

static const bti_lru new_cache = {.equal = is_equal, .free = free_program};

struct bti_programs *bti_programs_new(void) {
    struct bti_programs *programs = bti_calloc(1, sizeof *programs);
    if (!programs) return NULL;
    bti_lock_init(&programs->lock, BTI_LOCK_programs);
    pthread_cond_init(&programs->one_made, NULL);
    programs->kernels = programs->primitives = programs->by_library = programs->segments = new_cache;
    programs->kernels.most_count = MOST_KERNELS;
    programs->by_library.most_count = MOST_BY_LIBRARY;
    programs->segments.most_count = MOST_SEGMENTS;
    return programs;
}

void bti_program_release(bti_program *program) {
    if (program) bti_lru_release(&new_cache, &program->entry);
}

bt_status bti_program_launch_boxes(const bti_program *program, const bti_box *boxes, int count) {
    if (program->driver->launch_boxes && count > 1)
        return program->driver->launch_boxes(program->device, program->state, boxes, count);
    for (int b = 0; b < count; b++) BTI_TRY(bti_program_launch_kernel(program, &boxes[b]));
    return BT_OK;
}

void bti_programs_delete(bt_device *device) {
    struct bti_programs *programs = device->programs;
    bti_lru_clear(&programs->kernels);
    bti_lru_clear(&programs->primitives);
    bti_lru_clear(&programs->by_library);
    bti_lru_clear(&programs->segments);
    bti_lock_destroy(&programs->lock);
    pthread_cond_destroy(&programs->one_made);
    bti_free(programs);
    device->programs = NULL;
}

/* What is compiled or read by it is noted on its own, within. */
static void note_loading(const bti_program_source *source, uint64_t start) {
    char of_kernel[48] = "", name[64];
    if (!start || bti_trace_now() - start < WORTH_A_NOTE_NS) return;
    if (source->kernel) bti_kernel_name(of_kernel, sizeof of_kernel, source->kernel);
    snprintf(name, sizeof name, "%s%s", bti_source_is_product(source) ? "matmul+" : "", of_kernel);
    bti_trace_end(BTI_TRACE_LOAD,
                  source->kernel        ? name
                  : source->custom      ? source->custom->name
                  : source->fft.n       ? "fft"
                  : source->factor.of.n ? "linear algebra"
                  : source->segment     ? "segment"
                                        : bti_op_info(source->op)->name,
                  start);
}

typedef struct loading {
    bti_program *program;
    const bti_program_source *source; /* whole: the program keeps of a segment what tells it from others */
} loading;

static bt_status load_state(void *loaded) {
    const loading *l = loaded;
    return l->program->driver->program_load(l->program->device, l->source, &l->program->state);
}

bool bti_program_text_wanted(const bti_program *program, const bti_box *box, int count, bti_text_wanted *wanted) {
    return program->driver->text_wanted &&
           program->driver->text_wanted(program->device, program->state, box, count, wanted);
}

bool bti_program_text_lacked(const bti_program *program, bti_text_wanted *wanted) {
    return program->driver->text_lacked && program->driver->text_lacked(program->device, program->state, wanted);
}

typedef struct given_text {
    const bti_program *program;
    const bti_text_wanted *wanted;
    const bti_str *text;
} given_text;

static bt_status give_text(void *given) {
    const given_text *g = given;
    return g->program->driver->text_give(g->program->device, g->program->state, g->wanted, g->text);
}

bt_status bti_program_text_give(const bti_program *program, const bti_text_wanted *wanted, const bti_str *text) {
    given_text given = {program, wanted, text};
    return program->driver->third_party ? bti_libraries_open(give_text, &given) : give_text(&given);
}

/* With its texts behind it. */
static bti_custom_source *copy_custom(const bti_custom_source *of) {
    size_t name = strlen(of->name) + 1, entry = strlen(of->entry) + 1, text = strlen(of->text) + 1;
    bti_custom_source *copy = bti_alloc(sizeof *copy + name + entry + text);
    if (!copy) return NULL;
    *copy = *of;
    char *at = (char *)(copy + 1);
    copy->name = memcpy(at, of->name, name);
    copy->entry = memcpy(at + name, of->entry, entry);
    copy->text = memcpy(at + name + entry, of->text, text);
    return copy;
}

static bti_segment_source *copy_segment(const bti_segment_source *of) {
    bti_segment_source *copy = bti_calloc(1, sizeof *copy);
    if (copy) memcpy(copy->hash, of->hash, sizeof copy->hash);
    return copy;
}

static bt_status copy_source(bti_program_source *copy, const bti_program_source *of) {
    *copy = *of;
    copy->kernel = NULL;
    copy->custom = NULL;
    copy->segment = NULL;
    if (of->segment) return (copy->segment = copy_segment(of->segment)) ? BT_OK : bti_no_memory();
    if (of->custom) return (copy->custom = copy_custom(of->custom)) ? BT_OK : bti_no_memory();
    if (!of->kernel) return BT_OK;
    bti_kernel *kernel = bti_alloc(sizeof *kernel);
    if (!kernel) return bti_no_memory();
    *kernel = *of->kernel;
    copy->kernel = kernel;
    return BT_OK;
}

static bt_status new_program(bt_device *device, const bti_program_source *source, bti_program **made) {
    bti_program *program = bti_calloc(1, sizeof *program);
    if (!program) return bti_no_memory();
    bti_lru_entry_init(&program->entry);
    program->driver = device->driver;
    program->device = device->state;
    program->among = device->programs;
    program->making = true;
    bt_status status = copy_source(&program->source, source);
    if (status == BT_OK)
        *made = program;
    else
        bti_program_release(program);
    return status;
}

static bti_lru *cache_of(struct bti_programs *programs, const bti_program_source *source) {
    if (is_by_library(source)) return &programs->by_library;
    if (source->segment) return &programs->segments;
    return source->kernel || source->custom ? &programs->kernels : &programs->primitives;
}

/* Under the lock. One that another thread makes is waited for; NULL: there is none that did not fail. *failed: what is to be released without the
 * lock. */
static bti_program *find_made(struct bti_programs *programs, uint64_t hash, const bti_program_source *source,
                              bti_program **failed) {
    bti_program *program = bti_lru_find(cache_of(programs, source), hash, source);
    while (program && program->making) bti_lock_wait(&programs->lock, &programs->one_made);
    if (!program || !program->failed) return program;
    *failed = program;
    return NULL;
}

/* The program, or a new one that the caller makes. */
static bt_status find_or_add(bt_device *device, const bti_program_source *source, bti_program **program, bool *made) {
    struct bti_programs *programs = device->programs;
    bti_lru *cache = cache_of(programs, source);
    uint64_t hash = hash_of(source);
    bti_lru_entry *evicted = NULL;
    bti_program *failed;
    bt_status status = BT_OK;
    do {
        failed = NULL;
        bti_lock_take(&programs->lock);
        *program = find_made(programs, hash, source, &failed);
        *made = *program != NULL;
        if (!*program && !failed) {
            status = new_program(device, source, program);
            if (status == BT_OK) evicted = bti_lru_add_evicting(cache, &(*program)->entry, hash, 0);
        }
        bti_lock_give(&programs->lock);
        bti_program_release(failed); /* the thread that made it tells; this one tries it again */
    } while (failed);
    bti_lru_free_evicted(cache, evicted);
    return status;
}

bt_status bti_programs_get(bt_device *device, const bti_program_source *source, bti_program **program, bool *made) {
    if (!source->kernel && !source->custom && !source->segment && (unsigned)source->op >= BTI_OP_COUNT)
        return bti_fail(BT_INTERNAL, "no such program: operation %d", (int)source->op);
    BTI_TRY(find_or_add(device, source, program, made));
    if (*made) return BT_OK;
    uint64_t start = bti_trace_begin();
    loading l = {*program, source};
    bt_status status = device->driver->third_party ? bti_libraries_open(load_state, &l) : load_state(&l);
    note_loading(source, start);
    if (status == BT_OK) return BT_OK;
    (*program)->state = NULL; /* nothing to free there */
    bti_program_made(*program, status);
    bti_program_release(*program);
    *program = NULL;
    return status;
}

void bti_program_made(bti_program *program, bt_status status) {
    struct bti_programs *programs = program->among;
    bti_lock_take(&programs->lock);
    program->making = false;
    program->failed = status != BT_OK;
    if (program->failed) bti_lru_remove(cache_of(programs, &program->source), &program->entry);
    pthread_cond_broadcast(&programs->one_made);
    bti_lock_give(&programs->lock);
}
