#include "launch/entry.h"

#include <string.h>

#include "ir/dtype.h"
#include "ir/half.h"

static size_t element_bytes(const bti_kernel_operand *operand) { return bt_dtype_size((bt_dtype)operand->dtype); }

const char *bti_entry_name(bti_entry entry) {
    static const char *const names[] = {[BTI_ENTRY_RUN] = "bti_run",
                                        [BTI_ENTRY_WIDE] = "bti_run_wide",
                                        [BTI_ENTRY_TILED] = "bti_run_tiled",
                                        [BTI_ENTRY_KEPT] = "bti_run_kept",
                                        [BTI_ENTRY_ROWS] = "bti_run_rows",
                                        [BTI_ENTRY_PART] = "bti_part",
                                        [BTI_ENTRY_PART_WIDE] = "bti_part_wide",
                                        [BTI_ENTRY_FINISH] = "bti_finish",
                                        [BTI_ENTRY_BOXES] = "bti_run_boxes",
                                        [BTI_ENTRY_BOXES_WIDE] = "bti_run_boxes_wide"};
    return names[entry];
}

/* --- which there are ----------------------------------------------------------------------------------------------- */

int bti_entry_reductions(const bti_kernel *kernel) {
    int count = 0;
    for (int i = 0; i < kernel->instr_count; i++) count += bti_instr_reduces(&kernel->instrs[i]);
    return count;
}

/* Whether each operand is contiguous along the line or does not move along it; indices may do anything. */
static bool all_unit(const bti_kernel *kernel) {
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        if (!operand->index && !operand->unit && (operand->moves >> bti_kernel_line(kernel) & 1)) return false;
    }
    return true;
}

#define LEAST_LOCAL 32768 /* bytes that every device has */

static int tile_pitch(const bti_kernel *kernel, int operand, int tile) {
    size_t size = element_bytes(&kernel->operands[operand]);
    return tile + (size < 4 ? 4 / (int)size : 1);
}

static size_t tile_bytes(const bti_kernel *kernel, int tile) {
    size_t bytes = 0;
    for (int o = 0; o < bti_kernel_operands(kernel); o++)
        if (bti_kernel_may_cross(kernel, o))
            bytes += element_bytes(&kernel->operands[o]) * (size_t)(tile * tile_pitch(kernel, o, tile));
    return bytes;
}

int bti_entry_tile(const bti_kernel *kernel) { return tile_bytes(kernel, 64) <= LEAST_LOCAL ? 64 : 32; }

int bti_entry_tile_pitch(const bti_kernel *kernel, int operand) {
    return tile_pitch(kernel, operand, bti_entry_tile(kernel));
}

/* Whether there are operands to tile, and all their tiles fit. Elements of 16 bytes (complex128) are not tiled. */
static bool has_tiles(const bti_kernel *kernel) {
    if (bti_entry_width(kernel) == 1) return false;
    size_t bytes = tile_bytes(kernel, bti_entry_tile(kernel));
    return bytes > 0 && bytes <= LEAST_LOCAL;
}

static bool keeps_any(const bti_kernel *kernel) {
    for (int i = 0; i < kernel->instr_count; i++)
        if (bti_entry_keeps(kernel, i)) return true;
    return false;
}

/* Rows with something to load 16 bytes at a time. */
static bool has_wide_rows(const bti_kernel *kernel) {
    bool any = false;
    for (int o = 0; o < kernel->input_count; o++) any = any || (kernel->operands[o].unit && !kernel->operands[o].index);
    return any && kernel->reduced && !kernel->inner && all_unit(kernel) && bti_entry_width(kernel) > 1;
}

bool bti_entry_exists(const bti_kernel *kernel, bti_entry entry) {
    bool map = !kernel->reduced;
    switch (entry) {
    case BTI_ENTRY_RUN: return true;
    case BTI_ENTRY_WIDE: return map && all_unit(kernel) && bti_entry_width(kernel) > 1;
    case BTI_ENTRY_TILED: return has_tiles(kernel);
    case BTI_ENTRY_KEPT: return !map && !kernel->inner && keeps_any(kernel);
    case BTI_ENTRY_ROWS: return has_wide_rows(kernel);
    case BTI_ENTRY_PART:
    case BTI_ENTRY_FINISH: return bti_entry_reductions(kernel) > 0 && bti_kernel_sweeps(kernel) == 1;
    case BTI_ENTRY_PART_WIDE: return has_wide_rows(kernel) && bti_entry_exists(kernel, BTI_ENTRY_PART);
    default: return false;
    }
}

bool bti_entry_is_written(const bti_kernel *kernel, bti_entry entry, bti_target target) {
    if (bti_entry_is_wide_rows(entry) && target != BTI_CUDA_C && bti_entry_width(kernel) > 4) return false;
    return bti_entry_exists(kernel, entry);
}

int bti_entry_width(const bti_kernel *kernel) {
    size_t largest = 1;
    for (int o = 0; o < bti_kernel_operands(kernel); o++)
        if (!kernel->operands[o].index && element_bytes(&kernel->operands[o]) > largest)
            largest = element_bytes(&kernel->operands[o]);
    return (int)(16 / largest);
}

static bool is_aligned(const bti_kernel *kernel, const bti_box *box) {
    int line = bti_kernel_line(kernel);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        const bti_kernel_operand *operand = &kernel->operands[o];
        if (operand->index || !operand->unit) continue;
        uint64_t bytes = element_bytes(operand) * (size_t)bti_entry_width(kernel), bits = box->address[o];
        bits |= (uint64_t)bti_kernel_row_bytes(kernel, box, o);
        for (int axis = 0; axis < line; axis++)
            if (box->extent[axis] > 1) bits |= (uint64_t)box->stride[o][axis];
        if (bits & (bytes - 1)) return false;
    }
    return true;
}

/* An operand that is strided on the innermost axis must be contiguous on the axis before it. */
static bool is_crossed(const bti_kernel *kernel, const bti_box *box) {
    int line = bti_kernel_line(kernel);
    bool any = false;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        int64_t size = (int64_t)element_bytes(&kernel->operands[o]);
        if (!bti_kernel_may_cross(kernel, o) || box->stride[o][line] == size) continue;
        if (box->stride[o][line - 1] != size) return false;
        any = true;
    }
    return any && box->extent[line] > 1 && box->extent[line - 1] > 1;
}

static int last_reduced(const bti_kernel *kernel) { return kernel->outer + kernel->reduced - 1; }

int64_t bti_entry_chunk(const bti_kernel *kernel, bti_target target, const bti_box *box) {
    if (target != BTI_CUDA_C) return bti_kernel_chunk(kernel);
    int64_t chunk = kernel->inner ? BTI_SHORT_COLUMN_CHUNK : BTI_SHORT_ROW_CHUNK;
    int64_t extent = box->extent[last_reduced(kernel)], points = bti_entry_points(kernel, box);
    chunk *= bti_pieces_of(extent, chunk * BTI_MOST_CHUNKS);
    if (!kernel->inner || extent <= BTI_WHOLE_COLUMN) return chunk;
    while (chunk > BTI_LEAST_COLUMN_CHUNK && bti_entry_sets(kernel, box, chunk) * points < BTI_BUSY_PARTS) chunk /= 2;
    return chunk;
}

bool bti_entry_has_long_rows(const bti_kernel *kernel, const bti_box *box) {
    return !kernel->inner && bti_box_points(box, kernel->outer, bti_kernel_axes(kernel)) > BTI_LONG_ROW;
}

int64_t bti_entry_across(const bti_kernel *kernel, bti_target target, const bti_box *box) {
    int64_t points = bti_entry_points(kernel, box);
    if (target != BTI_CUDA_C) return 1;
    if (!kernel->inner && !bti_entry_has_long_rows(kernel, box)) return BTI_ACROSS_ROWS;
    if (points < BTI_ACROSS_SECTOR) return 1;
    return points < BTI_ACROSS_MANY ? BTI_ACROSS_SECTOR : BTI_LANES;
}

int64_t bti_entry_sets(const bti_kernel *kernel, const bti_box *box, int64_t chunk) {
    int last = last_reduced(kernel);
    return bti_box_points(box, kernel->outer, last) * bti_pieces_of(box->extent[last], chunk);
}

static int64_t sets_of_target(const bti_kernel *kernel, bti_target target, const bti_box *box) {
    return bti_entry_sets(kernel, box, bti_entry_chunk(kernel, target, box));
}

bool bti_entry_fits(const bti_kernel *kernel, bti_entry entry, bti_target target, const bti_box *box) {
    if (!bti_entry_exists(kernel, entry)) return false;
    switch (entry) {
    case BTI_ENTRY_RUN: return !kernel->inner || !kernel->reduced || sets_of_target(kernel, target, box) == 1;
    case BTI_ENTRY_WIDE: return is_aligned(kernel, box);
    case BTI_ENTRY_ROWS:
    case BTI_ENTRY_PART_WIDE:
        return box->extent[bti_kernel_line(kernel)] % bti_entry_width(kernel) == 0 && is_aligned(kernel, box);
    case BTI_ENTRY_TILED: return is_crossed(kernel, box);
    default: return true;
    }
}

/* --- how much there is --------------------------------------------------------------------------------------------- */

int bti_entry_unit_threads(const bti_kernel *kernel, bti_entry entry) {
    if (entry == BTI_ENTRY_TILED) return BTI_GROUP;
    if (bti_entry_is_wide_rows(entry)) return BTI_LANES / bti_entry_width(kernel);
    return (kernel->reduced && !kernel->inner) || entry == BTI_ENTRY_FINISH ? BTI_LANES : 1;
}

int bti_entry_threads(const bti_kernel *kernel, bti_entry entry, bti_target target) {
    int unit = bti_entry_unit_threads(kernel, entry);
    return unit > 1 && unit <= BTI_LANES && target != BTI_CUDA_C ? BTI_LANES : BTI_GROUP;
}

int64_t bti_entry_points(const bti_kernel *kernel, const bti_box *box) {
    return bti_box_points(box, 0, kernel->outer) * (kernel->inner ? box->extent[bti_kernel_line(kernel)] : 1);
}

int64_t bti_entry_units(const bti_kernel *kernel, bti_entry entry, bti_target target, const bti_box *box) {
    int axes = bti_kernel_axes(kernel), line = bti_kernel_line(kernel);
    switch (entry) {
    case BTI_ENTRY_WIDE:
        return bti_box_points(box, 0, line) * bti_pieces_of(box->extent[line], bti_entry_width(kernel));
    case BTI_ENTRY_TILED:
        return bti_box_points(box, 0, line - 1) * bti_pieces_of(box->extent[line - 1], bti_entry_tile(kernel)) *
               bti_pieces_of(box->extent[line], bti_entry_tile(kernel));
    case BTI_ENTRY_PART:
    case BTI_ENTRY_PART_WIDE: return sets_of_target(kernel, target, box) * bti_entry_points(kernel, box);
    default: return kernel->reduced ? bti_entry_points(kernel, box) : bti_box_points(box, 0, axes);
    }
}

bool bti_entry_keeps(const bti_kernel *kernel, int number) {
    const bti_instr *instr = &kernel->instrs[number];
    if (instr->op != BTI_OP_leaf || instr->level != BTI_POINT || !kernel->reduced || kernel->inner) return false;
    bool needed[BTI_KERNEL_INSTRS];
    bti_kernel_needs(kernel, 0, NULL, needed);
    if (!needed[number]) return false;
    for (int sweep = bti_kernel_sweeps(kernel) - 1; sweep > 0; sweep--) {
        bti_kernel_needs(kernel, sweep, NULL, needed);
        if (needed[number]) return true;
    }
    return false;
}

size_t bti_entry_local(const bti_kernel *kernel, const bti_box *box) {
    size_t bytes = 0, points = (size_t)bti_box_points(box, kernel->outer, kernel->outer + kernel->reduced);
    for (int i = 0; i < kernel->instr_count; i++)
        if (bti_entry_keeps(kernel, i))
            bytes += (points * element_bytes(&kernel->operands[kernel->instrs[i].arg[0]]) + 15) & ~(size_t)15;
    return bytes;
}

/* --- words --------------------------------------------------------------------------------------------------------- */

static bool has_parts(bti_entry entry) {
    return entry == BTI_ENTRY_PART || entry == BTI_ENTRY_PART_WIDE || entry == BTI_ENTRY_FINISH;
}

void bti_word_places_of(const bti_kernel *kernel, bti_entry entry, bti_word_places *places) {
    int axes = bti_kernel_axes(kernel), next = axes;
    *places = (bti_word_places){.more = -1};
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        places->address[o] = next++;
        places->address_count += !kernel->operands[o].index;
        for (int axis = 0; axis < axes; axis++)
            places->stride[o][axis] = kernel->operands[o].moves >> axis & 1 ? next++ : -1;
    }
    for (int i = 0; i < kernel->instr_count; i++)
        places->constant[i] = kernel->instrs[i].op == BTI_OP_const ? next++ : -1;
    if (has_parts(entry)) places->more = next++;
    places->address_count += has_parts(entry);
    places->count = next;
}

int bti_entry_boxes(const bti_kernel *kernel) {
    bti_word_places places;
    if (kernel->reduced) return 0;
    bti_word_places_of(kernel, BTI_ENTRY_BOXES, &places);
    int boxes = BTI_BOXES_WORDS / (places.count + 1);
    return boxes > 1 ? boxes : 0;
}

/* A scalar's 64 bits (int64, uint64 or double by dtype) as those of the dtype. */
static uint64_t scalar_bits(bt_dtype dtype, uint64_t scalar) {
    double real = bti_f64_of_bits(scalar);
    switch (dtype) {
    case BT_F16: return bti_f16_from_f64(real);
    case BT_BF16: return bti_bf16_from_f64(real);
    case BT_F32: return bti_f32_bits((float)real);
    case BT_BOOL: return scalar != 0;
    default: return scalar;
    }
}

void bti_words_of(const bti_kernel *kernel, bti_entry entry, const bti_box *box, uint64_t more, bti_words *words) {
    int axes = bti_kernel_axes(kernel);
    words->count = words->address_count = 0;
    for (int axis = 0; axis < axes; axis++) bti_words_add(words, (uint64_t)box->extent[axis]);
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        if (kernel->operands[o].index)
            bti_words_add(words, box->address[o]);
        else
            bti_words_add_address(words, box->address[o]);
        for (int axis = 0; axis < axes; axis++)
            if (kernel->operands[o].moves >> axis & 1) bti_words_add(words, (uint64_t)box->stride[o][axis]);
    }
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        if (instr->op == BTI_OP_const)
            bti_words_add(words, scalar_bits((bt_dtype)instr->dtype, box->scalars[instr->arg[0]]));
    }
    if (has_parts(entry)) bti_words_add_address(words, more);
}

void bti_epilogue_without_memory(const bti_kernel *kernel, int made, bti_kernel *epilogue) {
    *epilogue = *kernel;
    epilogue->operands[made].index = 1;
}

void bti_words_append(bti_words *words, const bti_words *more) {
    for (int i = 0, next = 0; i < more->count; i++)
        if (next < more->address_count && more->address[next] == i) {
            bti_words_add_address(words, more->word[i]);
            next++;
        } else
            bti_words_add(words, more->word[i]);
}
