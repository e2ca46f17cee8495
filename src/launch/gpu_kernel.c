/* Fused kernels: chooses the entry that computes a box, and the grid. */
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "launch/gpu_engine.h"

#define WARPS_TO_FILL 16   /* per multiprocessor: with fewer rows than that, rows are cut into parts */
#define LOCAL_SHARED 49152 /* bytes of local memory that a group of several rows may take: two groups have room */
/* Points; longer rows of 4 bytes a point and more have 32 threads each: softmax of rows of 1,024 took 160 us so, and 198 with 8 (H200, 256 MiB of
 * float32). */
#define SHORT_ROW 512

/* The kernel with one axis exchanged with the second to last, and its texts. */
typedef struct kernel_variant {
    bti_kernel kernel;
    int axis; /* the one that was exchanged; -1: none */
    bti_gpu_module
        modules[BTI_ENTRY_COUNT + 1]; /* by the entry that their text is for; built before its first launch */
    struct kernel_variant *next;
} kernel_variant;

struct bti_gpu_kernel {
    kernel_variant own;
};

/* --- loading ------------------------------------------------------------------------------------------------------ */

static bt_status build_module(bti_gpu *gpu, const bti_kernel *kernel, const bti_str *text, bti_gpu_module *module) {
    char name[48];
    bti_kernel_name(name, sizeof name, kernel);
    return bti_gpu_module_build(gpu, name, text, module);
}

static bt_status find_module(bti_gpu *gpu, kernel_variant *v, bti_entry entry) {
    const bti_str *text;
    if (v->modules[entry].handle) return BT_OK;
    BTI_TRY(bti_gpu_text_of(gpu, &v->kernel, entry, &text));
    return build_module(gpu, &v->kernel, text, &v->modules[entry]);
}

bti_gpu_kernel *bti_gpu_kernel_new(const bti_kernel *kernel) {
    bti_gpu_kernel *new = bti_calloc(1, sizeof *new);
    if (!new) return NULL;
    new->own.kernel = *kernel;
    new->own.axis = -1;
    return new;
}

const bti_kernel *bti_gpu_kernel_of(const bti_gpu_kernel *kernel) { return &kernel->own.kernel; }

/* Compiled without the lock, so that others launch meanwhile; if several threads do, the first one's stays. */
bt_status bti_gpu_kernel_give(bti_gpu *gpu, bti_gpu_kernel *kernel, bti_entry entry, const bti_str *text) {
    bti_gpu_module module = {0}, *at = &kernel->own.modules[entry];
    BTI_TRY(build_module(gpu, &kernel->own.kernel, text, &module));
    bti_lock_take(&gpu->lock);
    bool first = !at->handle;
    if (first) *at = module;
    bti_lock_give(&gpu->lock);
    if (!first) bti_gpu_module_free(gpu, &module);
    return BT_OK;
}

static void free_modules(bti_gpu *gpu, kernel_variant *v) {
    for (size_t i = 0; i < sizeof v->modules / sizeof *v->modules; i++) bti_gpu_module_free(gpu, &v->modules[i]);
}

void bti_gpu_kernel_free(bti_gpu *gpu, bti_gpu_kernel *kernel) {
    free_modules(gpu, &kernel->own);
    while (kernel->own.next) {
        kernel_variant *v = kernel->own.next;
        kernel->own.next = v->next;
        free_modules(gpu, v);
        bti_free(v);
    }
    bti_free(kernel);
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

/* Groups may be smaller where lanes fold, so that all multiprocessors have one. */
static int spread_threads(const bti_gpu *gpu, int64_t units, int unit_threads, int threads) {
    if (gpu->target != BTI_CUDA_C || unit_threads == 1) return threads;
    while (threads > 32 && units < (int64_t)gpu->units * (threads / unit_threads)) threads /= 2;
    return threads;
}

/* How many units a group of so many threads takes at once. */
static int64_t units_at_once(const bti_gpu *gpu, const bti_kernel *kernel, bti_entry entry, const bti_box *box,
                             int threads) {
    if (entry == BTI_ENTRY_FINISH) return bti_entry_across(kernel, gpu->target, box);
    return threads / bti_entry_unit_threads(kernel, entry);
}

/* How a box is launched; of parts, which bti_finish follows, what writes them. */
typedef struct choice {
    bti_entry entry;
    int threads; /* 0: as many as usual */
    size_t local_bytes;
} choice;

static bool is_of_parts(bti_entry entry) { return entry == BTI_ENTRY_PART || entry == BTI_ENTRY_PART_WIDE; }

/* An entry of a text that is there. */
static bt_status launch_entry_of(bti_gpu *gpu, kernel_variant *v, bti_entry text, bti_entry entry, const bti_box *box,
                                 uint64_t more, int threads, size_t local_bytes) {
    bti_words words;
    bti_words_of(&v->kernel, entry, box, more, &words);
    bti_gpu_grid grid = {.number = entry,
                         .name = bti_entry_name(entry),
                         .units = bti_entry_units(&v->kernel, entry, gpu->target, box),
                         .at_once = units_at_once(gpu, &v->kernel, entry, box, threads),
                         .threads = threads,
                         .local = local_bytes > 0,
                         .local_bytes = local_bytes};
    return bti_gpu_module_launch(gpu, &v->modules[text], &grid, &words);
}

static bt_status launch_entry(bti_gpu *gpu, kernel_variant *v, const choice *chosen, const bti_box *box,
                              uint64_t more) {
    bti_entry entry = chosen->entry;
    int threads = chosen->threads ? chosen->threads : bti_entry_threads(&v->kernel, entry, gpu->target);
    if (!chosen->threads && entry != BTI_ENTRY_TILED)
        threads = spread_threads(gpu, bti_entry_units(&v->kernel, entry, gpu->target, box),
                                 bti_entry_unit_threads(&v->kernel, entry), threads);
    return launch_entry_of(gpu, v, entry, entry, box, more, threads, chosen->local_bytes);
}

/* Whether the kernel has the entry, and the entry does the box. */
static bool can_launch(const bti_gpu *gpu, const kernel_variant *v, bti_entry entry, const bti_box *box) {
    return bti_entry_is_written(&v->kernel, entry, gpu->target) && bti_entry_fits(&v->kernel, entry, gpu->target, box);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

static void exchange_axes(bti_kernel *kernel, int a, int b) {
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        unsigned moves = kernel->operands[o].moves, differ = (moves >> a ^ moves >> b) & 1;
        kernel->operands[o].moves = (uint8_t)(moves ^ (differ << a | differ << b));
    }
}

static void exchange_box(const bti_kernel *kernel, bti_box *box, int a, int b) {
    int64_t extent = box->extent[a];
    box->extent[a] = box->extent[b];
    box->extent[b] = extent;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        int64_t stride = box->stride[o][a];
        box->stride[o][a] = box->stride[o][b];
        box->stride[o][b] = stride;
    }
}

/* The variant with `axis` exchanged, made at first use. */
static bt_status find_variant(bti_gpu_kernel *kernel, const bti_kernel *exchanged, int axis, kernel_variant **found) {
    *found = &kernel->own;
    if (axis == bti_kernel_axes(exchanged) - 2) return BT_OK;
    for (kernel_variant *v = kernel->own.next; v; v = v->next)
        if (v->axis == axis) return *found = v, BT_OK;
    kernel_variant *v = bti_calloc(1, sizeof *v);
    if (!v) return bti_no_memory();
    v->kernel = *exchanged;
    v->axis = axis;
    v->next = kernel->own.next;
    kernel->own.next = v;
    *found = v;
    return BT_OK;
}

/* The variant and the box with which it is launched in tiles; NULL: it is not. */
static bt_status find_tiled(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box, kernel_variant **v,
                            bti_box *exchanged_box) {
    int axis = bti_kernel_crossing_axis(&kernel->own.kernel, box), second = bti_kernel_axes(&kernel->own.kernel) - 2;
    *v = NULL;
    if (axis < 0) return BT_OK;
    bti_kernel exchanged = kernel->own.kernel;
    *exchanged_box = *box;
    if (axis != second) {
        exchange_axes(&exchanged, axis, second);
        exchange_box(&exchanged, exchanged_box, axis, second);
    }
    if (!bti_entry_fits(&exchanged, BTI_ENTRY_TILED, gpu->target, exchanged_box)) return BT_OK;
    return find_variant(kernel, &exchanged, axis, v);
}

static bt_status choose_for_map(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box **box, bti_box *exchanged,
                                kernel_variant **v, choice *chosen) {
    *v = &kernel->own;
    *chosen = (choice){.entry = BTI_ENTRY_WIDE};
    if (bti_entry_fits(&kernel->own.kernel, BTI_ENTRY_WIDE, gpu->target, *box)) return BT_OK;
    BTI_TRY(find_tiled(gpu, kernel, *box, v, exchanged));
    chosen->entry = *v ? BTI_ENTRY_TILED : BTI_ENTRY_RUN;
    if (*v)
        *box = exchanged;
    else
        *v = &kernel->own;
    return BT_OK;
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

static bt_status launch_in_parts(bti_gpu *gpu, kernel_variant *v, const choice *chosen, const bti_box *box) {
    uint64_t parts;
    double bytes = (double)bti_entry_sets(&v->kernel, box, bti_entry_chunk(&v->kernel, gpu->target, box)) *
                   (double)bti_entry_points(&v->kernel, box) * bti_entry_reductions(&v->kernel) * 8;
    if (bytes > 1e15) return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: parts of a reduction of %g bytes", gpu->name, bytes);
    BTI_TRY(bti_gpu_scratch(gpu, BTI_GPU_PARTS, (size_t)bytes, &parts));
    BTI_TRY(launch_entry(gpu, v, chosen, box, parts));
    return launch_entry_of(gpu, v, chosen->entry, BTI_ENTRY_FINISH, box, parts,
                           bti_entry_threads(&v->kernel, BTI_ENTRY_FINISH, gpu->target), 0);
}

static size_t local_room(const bti_gpu *gpu) { return (size_t)bti_smaller_of((int64_t)gpu->local_bytes, LOCAL_SHARED); }

static bool choose_rows_in_local(const bti_gpu *gpu, const kernel_variant *v, const bti_box *box, choice *chosen) {
    size_t row = bti_entry_exists(&v->kernel, BTI_ENTRY_KEPT) ? bti_entry_local(&v->kernel, box) : 0;
    int threads = bti_entry_threads(&v->kernel, BTI_ENTRY_KEPT, gpu->target);
    if (!row || row > gpu->local_bytes) return false;
    while (threads > 32 && row * (size_t)(threads / 32) > local_room(gpu)) threads /= 2;
    *chosen = (choice){BTI_ENTRY_KEPT, threads, row * (size_t)(threads / 32)};
    return true;
}

/* Of several sweeps short rows only, so that many have room in local memory at once: in groups of two warps at least, two groups for
 * each multiprocessor. */
static bool choose_wide_rows(const bti_gpu *gpu, const kernel_variant *v, const bti_box *box, choice *chosen) {
    if (!can_launch(gpu, v, BTI_ENTRY_ROWS, box)) return false;
    *chosen = (choice){.entry = BTI_ENTRY_ROWS};
    if (!bti_entry_exists(&v->kernel, BTI_ENTRY_KEPT)) return true;
    if (bti_entry_width(&v->kernel) <= 4 &&
        bti_box_points(box, v->kernel.outer, bti_kernel_axes(&v->kernel)) > SHORT_ROW)
        return false;
    int threads = bti_entry_threads(&v->kernel, BTI_ENTRY_ROWS, gpu->target);
    int of_row = bti_entry_unit_threads(&v->kernel, BTI_ENTRY_ROWS);
    size_t row = bti_entry_local(&v->kernel, box);
    const int most = threads;
    while (threads > 64 && row * (size_t)(threads / of_row) > local_room(gpu)) threads /= 2;
    *chosen = (choice){BTI_ENTRY_ROWS, threads, row * (size_t)(threads / of_row)};
    bool many = bti_entry_points(&v->kernel, box) >= 2 * (int64_t)gpu->units * (threads / of_row);
    return chosen->local_bytes && chosen->local_bytes <= local_room(gpu) && (threads == most || many);
}

static choice choose_for_reduction(const bti_gpu *gpu, const kernel_variant *v, const bti_box *box) {
    bool few = bti_entry_points(&v->kernel, box) < (int64_t)gpu->units * WARPS_TO_FILL;
    choice chosen;
    if (bti_entry_exists(&v->kernel, BTI_ENTRY_PART) &&
        bti_entry_sets(&v->kernel, box, bti_entry_chunk(&v->kernel, gpu->target, box)) > 1 &&
        (few || bti_entry_has_long_rows(&v->kernel, box) ||
         !bti_entry_fits(&v->kernel, BTI_ENTRY_RUN, gpu->target, box)))
        return (choice){.entry = can_launch(gpu, v, BTI_ENTRY_PART_WIDE, box) ? BTI_ENTRY_PART_WIDE : BTI_ENTRY_PART};
    if (choose_wide_rows(gpu, v, box, &chosen) || choose_rows_in_local(gpu, v, box, &chosen)) return chosen;
    return (choice){.entry = BTI_ENTRY_RUN};
}

/* --- one box ------------------------------------------------------------------------------------------------------- */

/* *box becomes that of the variant, which may be *exchanged. */
static bt_status choose(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box **box, bti_box *exchanged,
                        kernel_variant **v, choice *chosen) {
    if (!kernel->own.kernel.reduced) return choose_for_map(gpu, kernel, box, exchanged, v, chosen);
    *v = &kernel->own;
    *chosen = choose_for_reduction(gpu, *v, *box);
    return BT_OK;
}

bt_status bti_gpu_kernel_find_text(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box) {
    kernel_variant *v;
    choice chosen;
    bti_box exchanged;
    BTI_TRY(choose(gpu, kernel, &box, &exchanged, &v, &chosen));
    return find_module(gpu, v, chosen.entry);
}

bt_status bti_gpu_kernel_launch(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box) {
    kernel_variant *v;
    choice chosen;
    bti_box exchanged;
    BTI_TRY(choose(gpu, kernel, &box, &exchanged, &v, &chosen));
    BTI_TRY(find_module(gpu, v, chosen.entry));
    return is_of_parts(chosen.entry) ? launch_in_parts(gpu, v, &chosen, box) : launch_entry(gpu, v, &chosen, box, 0);
}

/* --- several boxes -------------------------------------------------------------------------------------------------- */

#define GROUPS_OF_UNIT 64 /* groups of a launch for each multiprocessor, at most, but one for each box */

typedef struct box_list {
    const bti_box *boxes[BTI_BOXES_WORDS];
    int64_t groups[BTI_BOXES_WORDS]; /* that its units fill */
    int count;
} box_list;

static int64_t fewer_groups(const bti_gpu *gpu, const box_list *list, int64_t groups) {
    int64_t all = 0, most = (int64_t)gpu->units * GROUPS_OF_UNIT;
    for (int b = 0; b < list->count; b++) all += list->groups[b];
    return all <= most ? groups : bti_larger_of(1, (int64_t)((double)groups * (double)most / (double)all));
}

static bt_status launch_list(bti_gpu *gpu, bti_gpu_kernel *kernel, bool wide, const box_list *list) {
    const bti_kernel *of = &kernel->own.kernel;
    bti_entry entry = wide ? BTI_ENTRY_BOXES_WIDE : BTI_ENTRY_BOXES;
    int most = bti_entry_boxes(of);
    bti_words words = {.count = 0}, box;
    int64_t end = 0;

    for (int b = 0; b < most; b++) {
        if (b < list->count) end += fewer_groups(gpu, list, list->groups[b]);
        bti_words_add(&words, (uint64_t)end);
    }
    for (int b = 0; b < list->count; b++) {
        bti_words_of(of, entry, list->boxes[b], 0, &box);
        memcpy(words.word + words.count, box.word, (size_t)box.count * sizeof *box.word);
        words.count += box.count;
    }
    while (words.count < BTI_BOXES_WORDS) bti_words_add(&words, 0);
    bti_gpu_grid grid = {.number = entry,
                         .name = bti_entry_name(entry),
                         .units = end,
                         .at_once = 1,
                         .groups = end,
                         .threads = bti_entry_threads(of, entry, gpu->target)};
    return bti_gpu_module_launch(gpu, &kernel->own.modules[BTI_ENTRY_BOXES], &grid, &words);
}

/* FIND comes first, for all: a box that works in place must not run twice for want of the text of another. */
typedef enum box_pass { FIND, LAUNCH } box_pass;

static bt_status pass_box(bti_gpu *gpu, bti_gpu_kernel *kernel, box_pass pass, const bti_box *box) {
    return (pass == FIND ? bti_gpu_kernel_find_text : bti_gpu_kernel_launch)(gpu, kernel, box);
}

static bt_status pass_list(bti_gpu *gpu, bti_gpu_kernel *kernel, box_pass pass, bool wide, const box_list *list) {
    if (!list->count) return BT_OK;
    if (list->count == 1) return pass_box(gpu, kernel, pass, list->boxes[0]);
    return pass == FIND ? find_module(gpu, &kernel->own, BTI_ENTRY_BOXES) : launch_list(gpu, kernel, wide, list);
}

/* Those that bti_run_wide does (or that it does not) together; those that have an entry of their own alone. */
static bt_status pass_like(bti_gpu *gpu, bti_gpu_kernel *kernel, box_pass pass, bool wide, const bti_box *boxes,
                           int count) {
    const bti_kernel *of = &kernel->own.kernel;
    const bti_entry alone = wide ? BTI_ENTRY_WIDE : BTI_ENTRY_RUN;
    box_list list = {.count = 0};
    for (int b = 0; b < count; b++) {
        const bti_box *box = &boxes[b];
        if (bti_entry_fits(of, BTI_ENTRY_WIDE, gpu->target, box) != wide) continue;
        if (!wide && bti_kernel_crossing_axis(of, box) >= 0) {
            BTI_TRY(pass_box(gpu, kernel, pass, box));
            continue;
        }
        list.boxes[list.count] = box;
        list.groups[list.count++] =
            bti_pieces_of(bti_entry_units(of, alone, gpu->target, box), bti_entry_threads(of, alone, gpu->target));
        if (list.count < bti_entry_boxes(of)) continue;
        BTI_TRY(pass_list(gpu, kernel, pass, wide, &list));
        list.count = 0;
    }
    return pass_list(gpu, kernel, pass, wide, &list);
}

static bt_status pass_boxes(bti_gpu *gpu, bti_gpu_kernel *kernel, box_pass pass, const bti_box *boxes, int count) {
    if (bti_entry_boxes(&kernel->own.kernel)) {
        BTI_TRY(pass_like(gpu, kernel, pass, true, boxes, count));
        return pass_like(gpu, kernel, pass, false, boxes, count);
    }
    for (int b = 0; b < count; b++) BTI_TRY(pass_box(gpu, kernel, pass, &boxes[b]));
    return BT_OK;
}

bt_status bti_gpu_kernel_launch_boxes(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *boxes, int count) {
    BTI_TRY(pass_boxes(gpu, kernel, FIND, boxes, count));
    return pass_boxes(gpu, kernel, LAUNCH, boxes, count);
}

/* --- before the first launch ----------------------------------------------------------------------------------------- */

bool bti_gpu_kernel_lacks_text(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box, int count, bti_entry *entry) {
    kernel_variant *v = &kernel->own;
    choice chosen = {.entry = BTI_ENTRY_BOXES};
    bti_box exchanged;
    bool together = count > 1 && bti_entry_boxes(&v->kernel);
    if (!together && choose(gpu, kernel, &box, &exchanged, &v, &chosen) != BT_OK) return false; /* the launch says so */
    *entry = chosen.entry;
    return v == &kernel->own && !v->modules[*entry].handle;
}
