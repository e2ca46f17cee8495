/* A line's words go through a buffer of the best so far and candidates behind them: only those that beat the last of the best are
 * added, and a full buffer is sorted and cut to the best. So a line is gone over once, and never costs more than sorting it. Where few are wanted, the
 * first keys of a line are gone over twice: the best of groups of them tell what cannot be among the best. A long line is cut in pieces, whose best are
 * sorted together. */
#include "drivers/cpu/sort/select.h"

#include "base/alloc.h"
#include "base/compare.h"
#include "base/cores.h"
#include "drivers/cpu/copy.h"
#include "drivers/cpu/sort/radix.h"

#define LEAST_CANDIDATES 24 /* few words, with few of the best */
#define COMPARED 32         /* keys that are compared with the last of the best at once */
#define PIECE ((int64_t)1 << 17)
#define BLOCK ((int64_t)8 * BTI_KEYS_AT_ONCE) /* keys that are gone over at once */
#define MOST_GROUPED 12                       /* of the best; the groups are 32 */

typedef struct candidates {
    const bti_words_form *form;
    char *words, *spare, *keys;
    int64_t kept, count, room;
    int64_t ordered; /* so many of the first are in order */
    bool limited;    /* keys that are not below `limit` do not count */
    uint64_t limit;
} candidates;

static int64_t room_of(int64_t kept, int64_t length) {
    return bti_smaller_of(kept + bti_larger_of(4 * kept, LEAST_CANDIDATES), length);
}

/* The best are in order then. */
static bool cut_candidates(candidates *c) {
    if (c->count == c->ordered) return true;
    char *sorted = bti_words_sort(c->form, c->words, c->spare, c->count, UINT64_MAX);
    if (!sorted) return false;
    if (sorted != c->words) c->spare = c->words;
    c->words = sorted;
    c->ordered = c->count = bti_smaller_of(c->count, c->kept);
    c->limited = true;
    c->limit = bti_word_key(c->form, sorted + (c->count - 1) * (int64_t)c->form->bytes);
    return true;
}

static void add_candidate(candidates *c, const char *key, int64_t index) {
    char *to = c->words + c->count++ * (int64_t)c->form->bytes;
    uint64_t wide = (uint64_t)index;
    memcpy(to, &wide, c->form->key_bytes);
    memcpy(to + c->form->key_bytes, key, c->form->key_bytes);
}

static uint64_t key_at(const char *keys, int64_t width) {
    return width == 8 ? *(const uint64_t *)(const void *)keys : *(const uint32_t *)(const void *)keys;
}

/* Elements with the indices from `index` on, by their keys. Of equal keys the first are there already. */
static bool add_candidates(candidates *c, const char *keys, int64_t index, int64_t count) {
    int64_t width = (int64_t)c->form->key_bytes;
    if (c->limited && !c->form->loops->below(keys, count, c->limit)) return true;
    for (int64_t i = 0; i < count; i++, keys += width) {
        uint64_t key = key_at(keys, width);
        if (c->limited && key >= c->limit) continue;
        if (c->count == c->room) {
            if (!cut_candidates(c)) return false;
            if (key >= c->limit) continue;
        }
        add_candidate(c, keys, index + i);
    }
    return true;
}

/* No best one is behind the last of as many best groups' best. */
static void limit_by_groups(candidates *c, int64_t count) {
    uint64_t groups[BTI_KEY_GROUPS], best[MOST_GROUPED];
    int64_t width = (int64_t)c->form->key_bytes, n = 0;
    c->form->loops->least(c->keys, count, groups);
    for (int g = 0; g < BTI_KEY_GROUPS; g++) {
        uint64_t key = key_at((const char *)groups + g * width, width);
        if (n == c->kept && key >= best[n - 1]) continue;
        int64_t to = n < c->kept ? n++ : n - 1;
        for (; to > 0 && key < best[to - 1]; to--) best[to] = best[to - 1];
        best[to] = key;
    }
    c->limited = best[n - 1] < UINT64_MAX >> (64 - 8 * width);
    c->limit = best[n - 1] + 1;
}

/* The elements from `first` up to, not including, `end`. */
static bool select_from(candidates *c, const char *line, int64_t step, int64_t first, int64_t end) {
    int64_t width = (int64_t)c->form->key_bytes;
    c->count = c->ordered = 0;
    c->limited = false;
    for (int64_t i = first; i < end; i += BLOCK) {
        int64_t n = bti_smaller_of(end - i, BLOCK);
        for (int64_t k = 0; k < n; k += BTI_KEYS_AT_ONCE)
            bti_keys_read(c->form, c->keys + k * width, line + (i + k) * step, step,
                          bti_smaller_of(n - k, BTI_KEYS_AT_ONCE));
        if (!c->limited && c->kept <= MOST_GROUPED && n >= 8 * BTI_KEY_GROUPS) limit_by_groups(c, n);
        for (int64_t k = 0; k < n; k += COMPARED)
            if (!add_candidates(c, c->keys + k * width, i + k, bti_smaller_of(n - k, COMPARED))) return false;
    }
    return cut_candidates(c);
}

/* --- lines ---------------------------------------------------------------------------------------------------------- */

static void write_best(const bti_order_lines *lines, char *const *at, const char *words) {
    for (int64_t i = 0; i < lines->kept; i++) {
        const char *word = words + i * (int64_t)lines->form.bytes;
        if (lines->wants[BTI_ORDER_VALUES])
            memcpy(at[BTI_ORDER_VALUES] + i * lines->step[BTI_ORDER_VALUES],
                   at[BTI_ORDER_INPUT] + bti_word_index(word) * lines->step[BTI_ORDER_INPUT], lines->form.element);
        if (lines->wants[BTI_ORDER_INDICES])
            memcpy(at[BTI_ORDER_INDICES] + i * lines->step[BTI_ORDER_INDICES], word, sizeof(int32_t));
    }
}

static bool begin_candidates(candidates *c, const bti_order_lines *lines, int64_t length) {
    *c = (candidates){.form = &lines->form, .kept = lines->kept, .room = room_of(lines->kept, length)};
    size_t words = (size_t)c->room * lines->form.bytes,
           keys = (size_t)bti_smaller_of(BLOCK, length) * lines->form.key_bytes;
    c->words = bti_alloc_aligned(64, 2 * words + keys);
    if (!c->words) return false;
    c->spare = c->words + words;
    c->keys = c->spare + words;
    return true;
}

static void select_lines(void *context, int64_t begin, int64_t end) {
    bti_order_lines *lines = context;
    candidates c;
    bool done = begin_candidates(&c, lines, lines->length);
    char *scratch = c.words, *at[BTI_ORDER_OPERANDS];
    for (int64_t line = begin; line < end && done; line++) {
        bti_order_line_at(lines, line, at);
        done = select_from(&c, at[BTI_ORDER_INPUT], lines->step[BTI_ORDER_INPUT], 0, lines->length);
        if (done) write_best(lines, at, c.words);
    }
    bti_free(scratch);
    if (!done) atomic_store(&lines->out_of_memory, true);
}

/* --- a long line ---------------------------------------------------------------------------------------------------- */

typedef struct long_line {
    bti_order_lines *lines;
    char **at, *best; /* best: those of each piece */
    int64_t piece;
} long_line;

static void select_pieces(void *context, int64_t begin, int64_t end) {
    const long_line *l = context;
    const bti_order_lines *lines = l->lines;
    candidates c;
    bool done = begin_candidates(&c, lines, l->piece);
    char *scratch = c.words;
    for (int64_t p = begin; p < end && done; p++) {
        int64_t last = bti_smaller_of((p + 1) * l->piece, lines->length);
        size_t bytes = (size_t)lines->kept * lines->form.bytes;
        done = select_from(&c, l->at[BTI_ORDER_INPUT], lines->step[BTI_ORDER_INPUT], p * l->piece, last);
        if (done) memcpy(l->best + (size_t)p * bytes, c.words, (size_t)c.count * lines->form.bytes);
    }
    bti_free(scratch);
    if (!done) atomic_store(&l->lines->out_of_memory, true);
}

/* The last piece may have fewer than are kept; it is the last, so that no gap is in between. */
static void select_long_line(bti_order_lines *lines, int64_t line, int64_t piece) {
    int64_t pieces = (lines->length + piece - 1) / piece, last = lines->length - (pieces - 1) * piece;
    int64_t count = (pieces - 1) * lines->kept + bti_smaller_of(last, lines->kept);
    size_t room = (size_t)(pieces * lines->kept) * lines->form.bytes;
    char *at[BTI_ORDER_OPERANDS], *scratch = bti_alloc_aligned(64, 2 * room), *sorted = NULL;
    long_line l = {lines, at, scratch, piece};
    bti_order_line_at(lines, line, at);
    if (scratch) {
        bti_parallel(pieces, 1, select_pieces, &l);
        if (!atomic_load(&lines->out_of_memory))
            sorted = bti_words_sort(&lines->form, scratch, scratch + room, count, UINT64_MAX);
    }
    if (sorted) write_best(lines, at, sorted);
    bti_free(scratch);
    if (!sorted) atomic_store(&lines->out_of_memory, true);
}

void bti_order_select(bti_order_lines *lines) {
    int64_t piece = bti_larger_of(PIECE, 8 * lines->kept), each = lines->length * (int64_t)lines->form.element;
    if (lines->length < 2 * piece)
        bti_parallel(lines->count, bti_copy_grain(each), select_lines, lines);
    else
        for (int64_t line = 0; line < lines->count; line++) select_long_line(lines, line, piece);
}
