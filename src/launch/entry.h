/* The functions ("entries") that the text of a fused kernel defines for devices that load C: their names, their
 * arguments, their units of work. Written by render/c*.c, launched by gpu_kernel.c.
 *
 * An entry runs in groups of bti_entry_threads() threads, in any number of groups: they take units of work in turn, so that
 * the number of groups changes no result. Chunks of bti_entry_chunk() points are folded as ir/kernel.h says: thread k of 32 is lane k. The
 * parts are then folded in lanes too, where one core would fold them one by one: part j into lane j % lanes, in order, and the lanes by
 * halving. There are 32 lanes; in bti_finish, whose group takes bti_entry_across() points at once, as many as leave each thread busy.
 *
 *     bti_run        the whole box. A unit: a point of a map, a row, a kept point of columns (these only if they have one chunk)
 *     bti_run_wide   maps in which each operand is contiguous along the line or does not move along it: as bti_run, with loads and
 *                    stores of 16 bytes. A unit: bti_entry_width() points of the line (its end may be shorter)
 *     bti_run_tiled  maps of at least two axes with an operand that is strided along the line: as bti_run, for boxes where such
 *                    operands are contiguous along the second to last axis; tiles of the last two axes go through local
 *                    memory that the text declares. A unit: a tile of bti_entry_tile() x bti_entry_tile() points, for a group
 *     bti_run_rows   rows in which each operand is contiguous along the line or does not move along it: as bti_run, with loads and stores of
 *                    16 bytes, several rows per 32 threads. Of several sweeps, what the first one loaded stays in local memory, as in
 *                    bti_run_kept. Thread t of a row's is lanes t * width up to (t + 1) * width - 1. A unit: a row
 *     bti_run_kept   rows of several sweeps: what the first sweep loaded stays in local memory, of bti_entry_local bytes a row
 *     bti_part       kernels of one sweep with reductions: writes the parts of each chunk, as in launch/functions.h, for the whole
 *                    box: chunk c of line l is set l * chunks + c. A unit: a chunk of a row; a chunk of a kept point. One memory
 *                    more: the parts, [set][reduction][kept point], 8 bytes each
 *     bti_part_wide  as bti_part, of rows as in bti_run_rows
 *     bti_finish     the totals of the parts, the ROW values and outputs. A unit: a kept point. One memory more: the parts. They are
 *                    read by threads of bti_entry_across() points side by side, so that each sector is read once
 *
 * Each entry is a text of its own, since compilers take their time for each; bti_finish is in the texts of bti_part and bti_part_wide. A map has one more text, for
 * several boxes at once (CUDA C alone):
 *     bti_run_boxes       as bti_run for each box: the groups below end 0 take the units of box 0, those below end 1 of box 1...
 *     bti_run_boxes_wide  as bti_run_wide for each
 * Their words: the ends, bti_entry_boxes() of them, the last one repeated, then the words of each box, in BTI_BOXES_WORDS in all.
 *
 * Arguments: 64-bit words (bti_words), in this order: extents of the axes; per operand its address (OpenCL: its offset in the
 * memory that is passed; an index: the number there), then its strides in bytes along the axes that it moves along (bits of
 * `moves`, outermost first); per const instruction its value in the dtype's bits; the further argument of the entry. Where
 * bti_words_by_value() they are one struct argument, `struct { i64 at[N]; }`, after the memories; else the last argument is a
 * pointer to them in constant memory. OpenCL passes a `__global` pointer for each word that is an address, in their order,
 * first, and then, if the entry has local memory, that; CUDA passes none. */
#ifndef BTI_LAUNCH_ENTRY_H
#define BTI_LAUNCH_ENTRY_H

#include "launch/functions.h"
#include "ir/work.h"

#define BTI_GROUP 256 /* threads of a group; where lanes fold in OpenCL: 32 */

typedef enum bti_entry {
    BTI_ENTRY_RUN,
    BTI_ENTRY_WIDE,
    BTI_ENTRY_TILED,
    BTI_ENTRY_KEPT,
    BTI_ENTRY_ROWS,
    BTI_ENTRY_PART,
    BTI_ENTRY_PART_WIDE,
    BTI_ENTRY_FINISH,
    BTI_ENTRY_COUNT,                   /* of the kernel's own text; behind it those of the text for several boxes */
    BTI_ENTRY_BOXES = BTI_ENTRY_COUNT, /* the text of both is that of BTI_ENTRY_BOXES */
    BTI_ENTRY_BOXES_WIDE,
    BTI_ENTRY_END
} bti_entry;
static inline bool bti_entry_is_of_boxes(bti_entry entry) { return entry >= BTI_ENTRY_COUNT; }

/* "bti_run", "bti_run_wide"... */
const char *bti_entry_name(bti_entry entry);
/* Whether the kernel has the entry; and whether it does a box: alignment of bti_run_wide, bti_run_rows and bti_part_wide, the crossing axis of
 * bti_run_tiled, the one chunk of columns of bti_run. Local memory is not looked at. */
bool bti_entry_exists(const bti_kernel *kernel, bti_entry entry);
bool bti_entry_fits(const bti_kernel *kernel, bti_entry entry, bti_target target, const bti_box *box);
/* Whether texts for the target have the entry: OpenCL's compilers take minutes for wide rows of small elements. */
bool bti_entry_is_written(const bti_kernel *kernel, bti_entry entry, bti_target target);
/* Threads of a group; of a unit: 1, 32, those of a row of bti_run_rows and bti_part_wide (of bti_run_tiled: the group's). */
int bti_entry_threads(const bti_kernel *kernel, bti_entry entry, bti_target target);
int bti_entry_unit_threads(const bti_kernel *kernel, bti_entry entry);
static inline bool bti_entry_is_wide_rows(bti_entry entry) {
    return entry == BTI_ENTRY_ROWS || entry == BTI_ENTRY_PART_WIDE;
}
/* The number of units. */
int64_t bti_entry_units(const bti_kernel *kernel, bti_entry entry, bti_target target, const bti_box *box);
/* Points that a thread loads at once in the wide entries: 16 bytes of the largest elements. */
int bti_entry_width(const bti_kernel *kernel);
/* Points of a side of a tile; elements from a line of an operand's tile to the next, so that threads meet in no bank. */
int bti_entry_tile(const bti_kernel *kernel);
int bti_entry_tile_pitch(const bti_kernel *kernel, int operand);
/* Points of a chunk: of a target whose groups run together short ones of long lines too, so that all of the device is busy, but at
 * most BTI_MOST_CHUNKS of a line. Few columns of more than BTI_WHOLE_COLUMN points have shorter ones, down to BTI_LEAST_COLUMN_CHUNK, until there are BTI_BUSY_PARTS parts: a
 * thread walks down a chunk, and waits for memory at each point. */
#define BTI_SHORT_ROW_CHUNK 2048
#define BTI_SHORT_COLUMN_CHUNK 128
#define BTI_LEAST_COLUMN_CHUNK 16
#define BTI_WHOLE_COLUMN 64
#define BTI_BUSY_PARTS 65536
#define BTI_MOST_CHUNKS 8192
int64_t bti_entry_chunk(const bti_kernel *kernel, bti_target target, const bti_box *box);
/* Rows that are always folded in parts. The parts of shorter ones are folded by 32 lanes wherever that happens, so that a sum has the same
 * bits alone and fused with others, and on cards with few multiprocessors and with many. */
bool bti_entry_has_long_rows(const bti_kernel *kernel, const bti_box *box);
/* Kept points that a group of bti_finish takes at once: its other threads are lanes of the same point. */
#define BTI_ACROSS_ROWS (BTI_GROUP / BTI_LANES) /* of rows that are not long */
#define BTI_ACROSS_SECTOR 4                     /* whose parts fill 32 bytes; 1 where there are fewer points */
#define BTI_ACROSS_MANY 4096                    /* with so many points, 32 at once */
int64_t bti_entry_across(const bti_kernel *kernel, bti_target target, const bti_box *box);
/* Chunks, of so many points, of the whole box's lines (sets of parts), kept points, reductions. */
int64_t bti_entry_sets(const bti_kernel *kernel, const bti_box *box, int64_t chunk);
int64_t bti_entry_points(const bti_kernel *kernel, const bti_box *box);
int bti_entry_reductions(const bti_kernel *kernel);
/* Of bti_run_kept and bti_run_rows: whether an instruction is a load that is kept, and the local memory of one row; 0 without any. */
bool bti_entry_keeps(const bti_kernel *kernel, int instr);
size_t bti_entry_local(const bti_kernel *kernel, const bti_box *box);

/* The numbers of the words; -1: there is none. */
typedef struct bti_word_places {
    int address[BTI_KERNEL_OPERANDS], stride[BTI_KERNEL_OPERANDS][BTI_MAX_RANK], constant[BTI_KERNEL_INSTRS];
    int more; /* of the parts */
    int count, address_count;
} bti_word_places;
void bti_word_places_of(const bti_kernel *kernel, bti_entry entry, bti_word_places *places);

#define BTI_WORDS 1024 /* more than any kernel has */
typedef struct bti_words {
    int count;         /* of words */
    int address_count; /* of words that are addresses */
    uint64_t word[BTI_WORDS];
    uint16_t address[BTI_KERNEL_OPERANDS + 4]; /* which words are addresses, ascending */
} bti_words;

/* How many boxes a launch of the text for several can take; 0: there is no such text. */
#define BTI_BOXES_WORDS 500
int bti_entry_boxes(const bti_kernel *kernel);

/* Filled in for a box; `more`: the address of the parts. */
void bti_words_of(const bti_kernel *kernel, bti_entry entry, const bti_box *box, uint64_t more, bti_words *words);
static inline void bti_words_add(bti_words *words, uint64_t word) { words->word[words->count++] = word; }
static inline void bti_words_add_address(bti_words *words, uint64_t address) {
    words->address[words->address_count++] = (uint16_t)words->count;
    bti_words_add(words, address);
}
/* Parameters of 4096 bytes (CUDA) or 1024 (OpenCL's least) are sure; memories are pointers in OpenCL. */
static inline bool bti_words_by_value(int words, int addresses, bti_target target) {
    return target == BTI_CUDA_C ? words * 8 <= 4000 : (words + addresses) * 8 <= 1000;
}

/* A product and its epilogue: the words of the text (render/c/matmul.h) are those of the two matrices, then the epilogue's as those of bti_run. For both
 * the operand that is the product is an index, which has no memory. */
#define BTI_PRODUCT_WORDS 13
#define BTI_CONV_WORDS 28 /* of a convolution (render/c/conv.h) */
#define BTI_PRODUCT_MEMORIES 2
void bti_epilogue_without_memory(const bti_kernel *kernel, int made, bti_kernel *epilogue);
void bti_words_append(bti_words *words, const bti_words *more);

/* A primitive as a kernel of one instruction and its box: elementwise operations, sum, prod, max, min, and what moves elements
 * without indices (copies, permute, expand...: the input's strides say it). The box's scalars are `scalar` (const). False for
 * what is none: those have texts of their own. */
bool bti_kernel_of_work(const bti_work *work, bti_kernel *kernel, bti_box *box, uint64_t *scalar);

#endif
