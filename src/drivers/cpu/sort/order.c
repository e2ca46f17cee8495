/* sort, in one of three ways. Many short lines lie side by side and go through a sorting network, whose exchanges are vectors; other lines are
 * sorted by radix: short ones a line per core, a long one by all cores. */
#include "drivers/cpu/sort/order.h"

#include "base/alloc.h"
#include "base/compare.h"
#include "base/cores.h"
#include "drivers/cpu/copy.h"
#include "drivers/cpu/sort/radix.h"
#include "drivers/cpu/sort/select.h"
#include "drivers/cpu/target.h"

/* --- side by side ----------------------------------------------------------------------------------------------------- */

/* The longest lines that a network sorts in less time than radix passes: with the vectors of the target. */
static int64_t longest_by_network(const bti_words_form *form) {
    bti_target target = bti_cpu_target();
    int64_t longest = target == BTI_LLVM_AVX512 ? 1024 : target == BTI_LLVM_AVX2 ? 512 : 64;
    return form->bytes == 4 ? longest : form->bytes == 8 ? longest / 4 : 0;
}

#define ROW_BLOCK 16 /* rows that are read, or written, line by line: they stay in the first cache */

/* Words of up to BTI_SIDE_BY_SIDE lines as rows; the first of them in the place of those that are missing. Whether there are zeros or NaN, whose bits
 * their keys do not tell. */
static bool read_side_by_side(const bti_order_lines *lines, char *rows, char *(*at)[BTI_ORDER_OPERANDS], int count) {
    const bti_words_form *form = &lines->form;
    int64_t key = (int64_t)form->key_bytes, step = lines->step[BTI_ORDER_INPUT];
    uint32_t few[ROW_BLOCK * BTI_SIDE_BY_SIDE];
    bool found = false;
    for (int64_t i = 0; i < lines->length; i += ROW_BLOCK) {
        int64_t n = bti_smaller_of(lines->length - i, ROW_BLOCK);
        char *to = rows + i * BTI_SIDE_BY_SIDE * (int64_t)form->bytes, *keys = form->indexed ? (char *)few : to;
        for (int l = 0; l < BTI_SIDE_BY_SIDE; l++)
            bti_bits_read(form, keys + l * key, BTI_SIDE_BY_SIDE * key,
                          at[l < count ? l : 0][BTI_ORDER_INPUT] + i * step, step, n);
        form->loops->keys(keys, n * BTI_SIDE_BY_SIDE, &form->key);
        found = found || form->loops->finds(keys, n * BTI_SIDE_BY_SIDE, bti_words_zero(form), bti_words_nan(form));
        for (int64_t k = 0; k < n * BTI_SIDE_BY_SIDE && form->indexed; k++)
            ((uint64_t *)(void *)to)[k] = (uint64_t)few[k] << 32 | (uint64_t)(i + k / BTI_SIDE_BY_SIDE);
    }
    return found;
}

static void write_values(const bti_order_lines *lines, const char *rows, char *(*at)[BTI_ORDER_OPERANDS], int count,
                         int64_t from, int64_t n) {
    const bti_words_form *form = &lines->form;
    int64_t key = (int64_t)form->key_bytes, step = lines->step[BTI_ORDER_VALUES];
    uint64_t keys[ROW_BLOCK * BTI_SIDE_BY_SIDE];
    if (!form->indexed) memcpy(keys, rows, (size_t)(n * BTI_SIDE_BY_SIDE * key));
    for (int64_t k = 0; k < n * BTI_SIDE_BY_SIDE && form->indexed; k++)
        ((uint32_t *)(void *)keys)[k] = (uint32_t)(((const uint64_t *)(const void *)rows)[k] >> 32);
    form->loops->elements(keys, n * BTI_SIDE_BY_SIDE, &form->key);
    for (int l = 0; l < count; l++)
        bti_bits_write(form, (const char *)keys + l * key, BTI_SIDE_BY_SIDE * key,
                       at[l][BTI_ORDER_VALUES] + from * step, step, n);
}

static void write_side_by_side(const bti_order_lines *lines, const char *rows, char *(*at)[BTI_ORDER_OPERANDS],
                               int count) {
    const bti_words_form *form = &lines->form;
    int64_t row = BTI_SIDE_BY_SIDE * (int64_t)form->bytes;
    const int64_t *step = lines->step;
    for (int64_t i = 0; i < lines->length; i += ROW_BLOCK) {
        int64_t n = bti_smaller_of(lines->length - i, ROW_BLOCK);
        if (lines->wants[BTI_ORDER_VALUES]) write_values(lines, rows + i * row, at, count, i, n);
        for (int l = 0; l < count && lines->wants[BTI_ORDER_INDICES]; l++)
            for (int64_t k = 0; k < n; k++)
                memcpy(at[l][BTI_ORDER_INDICES] + (i + k) * step[BTI_ORDER_INDICES],
                       rows + (i + k) * row + l * (int64_t)form->bytes, sizeof(int32_t));
    }
}

static void sort_side_by_side(void *context, int64_t begin, int64_t end) {
    bti_order_lines *lines = context;
    char *rows = bti_alloc_aligned(64, (size_t)lines->length * BTI_SIDE_BY_SIDE * lines->form.bytes);
    if (!rows) {
        atomic_store(&lines->out_of_memory, true);
        return;
    }
    const bti_key_loops *network = &bti_vector_code_of(bti_cpu_target())->keys[lines->form.bytes == 8];
    for (int64_t set = begin; set < end; set++) {
        char *at[BTI_SIDE_BY_SIDE][BTI_ORDER_OPERANDS];
        int count = (int)bti_smaller_of(lines->count - set * BTI_SIDE_BY_SIDE, BTI_SIDE_BY_SIDE);
        for (int l = 0; l < count; l++) bti_order_line_at(lines, set * BTI_SIDE_BY_SIDE + l, at[l]);
        bool mends = read_side_by_side(lines, rows, at, count) && lines->wants[BTI_ORDER_VALUES];
        network->network(rows, lines->length);
        write_side_by_side(lines, rows, at, count);
        for (int l = 0; l < count && mends; l++) {
            int64_t bytes = (int64_t)lines->form.bytes;
            bti_words_alike alike =
                bti_words_find_alike(&lines->form, rows + l * bytes, BTI_SIDE_BY_SIDE * bytes, lines->length);
            bti_words_mend(&lines->form, alike, at[l][BTI_ORDER_VALUES], lines->step[BTI_ORDER_VALUES],
                           at[l][BTI_ORDER_INPUT], lines->step[BTI_ORDER_INPUT], lines->length);
        }
    }
    bti_free(rows);
}

/* --- by radix --------------------------------------------------------------------------------------------------------- */

typedef struct line_sort {
    const bti_order_lines *lines;
    char **at, *words;
    int64_t chunk;
    atomic_uint_fast64_t one, all; /* bits that some key has, that all keys have */
} line_sort;

static void read_chunks(void *context, int64_t begin, int64_t end) {
    line_sort *s = context;
    const bti_words_form *form = &s->lines->form;
    int64_t step = s->lines->step[BTI_ORDER_INPUT], bytes = (int64_t)form->bytes, key = (int64_t)form->key_bytes;
    for (int64_t c = begin; c < end; c++) {
        uint64_t one = 0, all = UINT64_MAX;
        int64_t last = bti_smaller_of((c + 1) * s->chunk, s->lines->length);
        for (int64_t i = c * s->chunk; i < last; i += BTI_KEYS_AT_ONCE) {
            int64_t n = bti_smaller_of(last - i, BTI_KEYS_AT_ONCE);
            const char *words = s->words + i * bytes + (int64_t)bti_words_first_byte(form);
            bti_words_read(form, s->words + i * bytes, s->at[BTI_ORDER_INPUT] + i * step, step, i, n);
            for (int64_t k = 0; k < n && key == 4; k++) {
                uint32_t x = *(const uint32_t *)(const void *)(words + k * bytes);
                one |= x, all &= x;
            }
            for (int64_t k = 0; k < n && key == 8; k++) {
                uint64_t x = *(const uint64_t *)(const void *)(words + k * bytes);
                one |= x, all &= x;
            }
        }
        atomic_fetch_or(&s->one, one);
        atomic_fetch_and(&s->all, all);
    }
}

static void write_chunks(void *context, int64_t begin, int64_t end) {
    line_sort *s = context;
    const bti_order_lines *lines = s->lines;
    for (int64_t c = begin; c < end; c++) {
        int64_t i = c * s->chunk, n = bti_smaller_of(s->chunk, lines->length - i);
        const char *words = s->words + i * (int64_t)lines->form.bytes;
        int64_t to_value = lines->step[BTI_ORDER_VALUES], to_index = lines->step[BTI_ORDER_INDICES];
        if (lines->wants[BTI_ORDER_VALUES])
            bti_words_write_elements(&lines->form, words, s->at[BTI_ORDER_VALUES] + i * to_value, to_value, n);
        if (lines->wants[BTI_ORDER_INDICES])
            bti_words_write_indices(&lines->form, words, s->at[BTI_ORDER_INDICES] + i * to_index, to_index, n);
    }
}

/* `words` and `spare`: room for as many words as a line has elements. */
static bool sort_line(const bti_order_lines *lines, char *at[BTI_ORDER_OPERANDS], char *words, char *spare) {
    int64_t length = lines->length;
    line_sort s = {.lines = lines, .at = at, .words = words, .chunk = bti_radix_chunk(length), .all = UINT64_MAX};
    int64_t chunks = (length + s.chunk - 1) / s.chunk;
    bti_parallel(chunks, 1, read_chunks, &s);
    s.words = bti_words_sort(&lines->form, words, spare, length, s.one & ~s.all);
    if (!s.words) return false;
    bti_words_alike alike = bti_words_find_alike(&lines->form, s.words, (int64_t)lines->form.bytes, length);
    bti_parallel(chunks, 1, write_chunks, &s);
    if (lines->wants[BTI_ORDER_VALUES])
        bti_words_mend(&lines->form, alike, at[BTI_ORDER_VALUES], lines->step[BTI_ORDER_VALUES], at[BTI_ORDER_INPUT],
                       lines->step[BTI_ORDER_INPUT], length);
    return true;
}

/* Where values are dense and as wide as words, they are one of the two rooms. */
static void sort_lines(void *context, int64_t begin, int64_t end) {
    bti_order_lines *lines = context;
    size_t bytes = lines->form.bytes, room = (size_t)lines->length * bytes;
    bool in_place = lines->wants[BTI_ORDER_VALUES] && bytes == lines->form.element &&
                    lines->step[BTI_ORDER_VALUES] == (int64_t)bytes;
    char *scratch = bti_alloc_large(in_place ? room : 2 * room);
    bool done = scratch != NULL;
    for (int64_t line = begin; line < end && done; line++) {
        char *at[BTI_ORDER_OPERANDS];
        bti_order_line_at(lines, line, at);
        done = sort_line(lines, at, in_place ? at[BTI_ORDER_VALUES] : scratch + room, scratch);
    }
    bti_free(scratch);
    if (!done) atomic_store(&lines->out_of_memory, true);
}

static void sort_all(bti_order_lines *lines) {
    int64_t sets = (lines->count + BTI_SIDE_BY_SIDE - 1) / BTI_SIDE_BY_SIDE;
    int64_t each = lines->length * (int64_t)lines->form.bytes;
    if (lines->count >= BTI_SIDE_BY_SIDE / 2 && lines->length <= longest_by_network(&lines->form))
        bti_parallel(sets, bti_copy_grain(each * BTI_SIDE_BY_SIDE), sort_side_by_side, lines);
    else if (lines->length <= BTI_RADIX_CHUNK)
        bti_parallel(lines->count, bti_copy_grain(each * 4), sort_lines, lines);
    else
        sort_lines(lines, 0, lines->count);
}

/* --- both operations -------------------------------------------------------------------------------------------------- */

bt_status bti_cpu_order(const bti_work *work) {
    bti_order_lines lines;
    bti_order_lines_begin(&lines, work);
    if (!lines.count || !lines.kept || (!lines.wants[BTI_ORDER_VALUES] && !lines.wants[BTI_ORDER_INDICES]))
        return BT_OK;
    if (work->op == BTI_OP_sort)
        sort_all(&lines);
    else
        bti_order_select(&lines);
    return atomic_load(&lines.out_of_memory) ? bti_no_memory() : BT_OK;
}
