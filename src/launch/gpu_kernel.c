/* Fused kernels: chooses the entry that computes a box, and the grid. */
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "launch/gpu_engine.h"

#define WARPS_TO_FILL 16   /* per multiprocessor: with fewer rows than that, rows are cut into parts */
#define LOCAL_SHARED 49152 /* bytes of local memory that a group of several rows may take: two groups have room */

/* The kernel with one axis exchanged with the second to last, and its text. */
typedef struct kernel_variant {
    bti_kernel kernel;
    int axis; /* the one that was exchanged; -1: none */
    bti_gpu_module module;
    struct kernel_variant *next;
} kernel_variant;

struct bti_gpu_kernel {
    kernel_variant own;
    bti_gpu_module boxes; /* the text for several boxes, built when it is first launched */
};

/* --- loading ------------------------------------------------------------------------------------------------------ */

static bt_status build_module(bti_gpu *gpu, const bti_kernel *kernel, const bti_str *text, bti_gpu_module *module) {
    char name[48];
    bti_kernel_name(name, sizeof name, kernel);
    return bti_gpu_module_build(gpu, name, text, module);
}

static bt_status build_text(bti_gpu *gpu, const bti_kernel *kernel, bool boxes, bti_gpu_module *module) {
    const bti_str *text;
    BTI_TRY(bti_gpu_text_of(gpu, kernel, boxes, &text));
    return build_module(gpu, kernel, text, module);
}

bti_gpu_kernel *bti_gpu_kernel_new(const bti_kernel *kernel) {
    bti_gpu_kernel *new = bti_calloc(1, sizeof *new);
    if (!new) return NULL;
    new->own.kernel = *kernel;
    new->own.axis = -1;
    return new;
}

const bti_kernel *bti_gpu_kernel_of(const bti_gpu_kernel *kernel) { return &kernel->own.kernel; }

bool bti_gpu_kernel_lacks_text(const bti_gpu_kernel *kernel) { return !kernel->own.module.handle; }

/* Compiled without the lock, so that others launch meanwhile; if several threads do, the first one's stays. */
bt_status bti_gpu_kernel_give(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_str *text) {
    bti_gpu_module module = {0};
    BTI_TRY(build_module(gpu, &kernel->own.kernel, text, &module));
    bti_lock_take(&gpu->lock);
    bool first = bti_gpu_kernel_lacks_text(kernel);
    if (first) kernel->own.module = module;
    bti_lock_give(&gpu->lock);
    if (!first) bti_gpu_module_free(gpu, &module);
    return BT_OK;
}

bt_status bti_gpu_kernel_build(bti_gpu *gpu, bti_gpu_kernel *kernel) {
    return build_text(gpu, &kernel->own.kernel, false, &kernel->own.module);
}

void bti_gpu_kernel_free(bti_gpu *gpu, bti_gpu_kernel *kernel) {
    bti_gpu_module_free(gpu, &kernel->own.module);
    bti_gpu_module_free(gpu, &kernel->boxes);
    while (kernel->own.next) {
        kernel_variant *v = kernel->own.next;
        kernel->own.next = v->next;
        bti_gpu_module_free(gpu, &v->module);
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

static bt_status launch_entry_with(bti_gpu *gpu, kernel_variant *v, bti_entry entry, const bti_box *box, uint64_t more,
                                   int threads, size_t local_bytes) {
    bti_words words;
    bti_words_of(&v->kernel, entry, box, more, &words);
    bti_gpu_grid grid = {.number = entry,
                         .name = bti_entry_name(entry),
                         .units = bti_entry_units(&v->kernel, entry, gpu->target, box),
                         .at_once = units_at_once(gpu, &v->kernel, entry, box, threads),
                         .threads = threads,
                         .local = local_bytes > 0,
                         .local_bytes = local_bytes};
    return bti_gpu_module_launch(gpu, &v->module, &grid, &words);
}

static bt_status launch_entry(bti_gpu *gpu, kernel_variant *v, bti_entry entry, const bti_box *box, uint64_t more) {
    int threads = bti_entry_threads(&v->kernel, entry, gpu->target);
    if (entry != BTI_ENTRY_TILED && entry != BTI_ENTRY_FINISH)
        threads = spread_threads(gpu, bti_entry_units(&v->kernel, entry, gpu->target, box),
                                 bti_entry_unit_threads(&v->kernel, entry), threads);
    return launch_entry_with(gpu, v, entry, box, more, threads, 0);
}

/* Whether the text has the entry, and the entry does the box. */
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

/* The variant with `axis` exchanged, built at first use. */
static bt_status find_variant(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_kernel *exchanged, int axis,
                              kernel_variant **found) {
    *found = &kernel->own;
    if (axis == bti_kernel_axes(exchanged) - 2) return BT_OK;
    for (kernel_variant *v = kernel->own.next; v; v = v->next)
        if (v->axis == axis) return *found = v, BT_OK;
    kernel_variant *v = bti_calloc(1, sizeof *v);
    if (!v) return bti_no_memory();
    v->kernel = *exchanged;
    v->axis = axis;
    bt_status status = build_text(gpu, &v->kernel, false, &v->module);
    if (status != BT_OK) return bti_free(v), status;
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
    return find_variant(gpu, kernel, &exchanged, axis, v);
}

bt_status bti_gpu_kernel_find_texts(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box) {
    kernel_variant *v;
    bti_box exchanged_box;
    if (bti_gpu_kernel_lacks_text(kernel)) BTI_TRY(bti_gpu_kernel_build(gpu, kernel));
    if (bti_entry_fits(&kernel->own.kernel, BTI_ENTRY_WIDE, gpu->target, box)) return BT_OK;
    return find_tiled(gpu, kernel, box, &v, &exchanged_box);
}

static bt_status launch_map(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box) {
    kernel_variant *v = &kernel->own;
    if (bti_entry_fits(&v->kernel, BTI_ENTRY_WIDE, gpu->target, box))
        return launch_entry(gpu, v, BTI_ENTRY_WIDE, box, 0);
    bti_box exchanged_box;
    BTI_TRY(find_tiled(gpu, kernel, box, &v, &exchanged_box));
    return v ? launch_entry(gpu, v, BTI_ENTRY_TILED, &exchanged_box, 0)
             : launch_entry(gpu, &kernel->own, BTI_ENTRY_RUN, box, 0);
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

static bt_status launch_in_parts(bti_gpu *gpu, kernel_variant *v, const bti_box *box) {
    uint64_t parts;
    double bytes = (double)bti_entry_sets(&v->kernel, box, bti_entry_chunk(&v->kernel, gpu->target, box)) *
                   (double)bti_entry_points(&v->kernel, box) * bti_entry_reductions(&v->kernel) * 8;
    if (bytes > 1e15) return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: parts of a reduction of %g bytes", gpu->name, bytes);
    BTI_TRY(bti_gpu_scratch(gpu, BTI_GPU_PARTS, (size_t)bytes, &parts));
    bool wide = can_launch(gpu, v, BTI_ENTRY_PART_WIDE, box);
    BTI_TRY(launch_entry(gpu, v, wide ? BTI_ENTRY_PART_WIDE : BTI_ENTRY_PART, box, parts));
    return launch_entry(gpu, v, BTI_ENTRY_FINISH, box, parts);
}

static size_t local_room(const bti_gpu *gpu) { return (size_t)bti_smaller_of((int64_t)gpu->local_bytes, LOCAL_SHARED); }

static bt_status launch_rows_in_local(bti_gpu *gpu, kernel_variant *v, const bti_box *box, bool *launched) {
    size_t row = bti_entry_exists(&v->kernel, BTI_ENTRY_KEPT) ? bti_entry_local(&v->kernel, box) : 0;
    int threads = bti_entry_threads(&v->kernel, BTI_ENTRY_KEPT, gpu->target);
    *launched = row && row <= gpu->local_bytes;
    if (!*launched) return BT_OK;
    while (threads > 32 && row * (size_t)(threads / 32) > local_room(gpu)) threads /= 2;
    return launch_entry_with(gpu, v, BTI_ENTRY_KEPT, box, 0, threads, row * (size_t)(threads / 32));
}

/* Of several sweeps short rows only, so that many have room in local memory at once: in groups of two warps at least, two groups for
 * each multiprocessor. */
static bt_status launch_wide_rows(bti_gpu *gpu, kernel_variant *v, const bti_box *box, bool *launched) {
    *launched = can_launch(gpu, v, BTI_ENTRY_ROWS, box);
    if (!*launched) return BT_OK;
    if (!bti_entry_exists(&v->kernel, BTI_ENTRY_KEPT)) return launch_entry(gpu, v, BTI_ENTRY_ROWS, box, 0);
    int threads = bti_entry_threads(&v->kernel, BTI_ENTRY_ROWS, gpu->target);
    int of_row = bti_entry_unit_threads(&v->kernel, BTI_ENTRY_ROWS);
    size_t row = bti_entry_local(&v->kernel, box);
    const int most = threads;
    while (threads > 64 && row * (size_t)(threads / of_row) > local_room(gpu)) threads /= 2;
    size_t bytes = row * (size_t)(threads / of_row);
    bool many = bti_entry_points(&v->kernel, box) >= 2 * (int64_t)gpu->units * (threads / of_row);
    *launched = bytes && bytes <= local_room(gpu) && (threads == most || many);
    return *launched ? launch_entry_with(gpu, v, BTI_ENTRY_ROWS, box, 0, threads, bytes) : BT_OK;
}

static bt_status launch_reduction(bti_gpu *gpu, kernel_variant *v, const bti_box *box) {
    bool launched, few = bti_entry_points(&v->kernel, box) < (int64_t)gpu->units * WARPS_TO_FILL;
    if (bti_entry_exists(&v->kernel, BTI_ENTRY_PART) &&
        bti_entry_sets(&v->kernel, box, bti_entry_chunk(&v->kernel, gpu->target, box)) > 1 &&
        (few || bti_entry_has_long_rows(&v->kernel, box) ||
         !bti_entry_fits(&v->kernel, BTI_ENTRY_RUN, gpu->target, box)))
        return launch_in_parts(gpu, v, box);
    BTI_TRY(launch_wide_rows(gpu, v, box, &launched));
    if (!launched) BTI_TRY(launch_rows_in_local(gpu, v, box, &launched));
    return launched ? BT_OK : launch_entry(gpu, v, BTI_ENTRY_RUN, box, 0);
}

bt_status bti_gpu_kernel_launch(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *box) {
    if (kernel->own.kernel.reduced) return launch_reduction(gpu, &kernel->own, box);
    return launch_map(gpu, kernel, box);
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
    if (list->count == 1) return bti_gpu_kernel_launch(gpu, kernel, list->boxes[0]);

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
    return bti_gpu_module_launch(gpu, &kernel->boxes, &grid, &words);
}

/* Those that bti_run_wide does (or that it does not) together; those that have an entry of their own are launched alone. */
static bt_status launch_like(bti_gpu *gpu, bti_gpu_kernel *kernel, bool wide, const bti_box *boxes, int count) {
    const bti_kernel *of = &kernel->own.kernel;
    const bti_entry alone = wide ? BTI_ENTRY_WIDE : BTI_ENTRY_RUN;
    box_list list = {.count = 0};
    for (int b = 0; b < count; b++) {
        const bti_box *box = &boxes[b];
        if (bti_entry_fits(of, BTI_ENTRY_WIDE, gpu->target, box) != wide) continue;
        if (!wide && bti_kernel_crossing_axis(of, box) >= 0) {
            BTI_TRY(bti_gpu_kernel_launch(gpu, kernel, box));
            continue;
        }
        list.boxes[list.count] = box;
        list.groups[list.count++] =
            bti_pieces_of(bti_entry_units(of, alone, gpu->target, box), bti_entry_threads(of, alone, gpu->target));
        if (list.count < bti_entry_boxes(of)) continue;
        BTI_TRY(launch_list(gpu, kernel, wide, &list));
        list.count = 0;
    }
    return list.count ? launch_list(gpu, kernel, wide, &list) : BT_OK;
}

/* All texts, before the first launch: a box that works in place must not run twice. */
static bt_status find_texts(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *boxes, int count) {
    for (int b = 0; b < count; b++) BTI_TRY(bti_gpu_kernel_find_texts(gpu, kernel, &boxes[b]));
    return kernel->boxes.handle ? BT_OK : build_text(gpu, &kernel->own.kernel, true, &kernel->boxes);
}

bt_status bti_gpu_kernel_launch_boxes(bti_gpu *gpu, bti_gpu_kernel *kernel, const bti_box *boxes, int count) {
    bool together = count > 1 && bti_entry_boxes(&kernel->own.kernel) > 0;
    if (together) BTI_TRY(find_texts(gpu, kernel, boxes, count));
    for (int b = 0; b < count && !together; b++) BTI_TRY(bti_gpu_kernel_launch(gpu, kernel, &boxes[b]));
    if (!together) return BT_OK;
    BTI_TRY(launch_like(gpu, kernel, true, boxes, count));
    return launch_like(gpu, kernel, false, boxes, count);
}
