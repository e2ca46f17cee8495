#include "drivers/cpu/sort/radix.h"

#include "base/alloc.h"
#include "base/compare.h"
#include "base/cores.h"

#define DIGITS 256
#define FEW_WORDS 48
#define TABLES 4 /* counts of the same digit one after the other do not wait for each other */
#define LEAST_FOR_TABLES 1024
/* Words that are read, with their places, before the first of them is written: a CPU's loads wait for the addresses of stores. More do not stay in
 * registers; nor do they where the loop shares these with its caller. */
#define GROUP 4

typedef struct radix_pass {
    const char *from;
    char *to;
    int64_t count, chunk;
    size_t bytes;               /* of a word */
    int shift;                  /* of its key, to the digit */
    uint32_t (*places)[DIGITS]; /* by chunk: how often each digit occurs, then where its next word goes */
} radix_pass;

typedef uint32_t word_4;
typedef uint64_t word_8, word_16 __attribute__((vector_size(16)));
#define DIGIT_4(x) (uint8_t)((x) >> shift)
#define DIGIT_8(x) (uint8_t)((x) >> shift)
#define DIGIT_16(x) (uint8_t)((x)[1] >> shift)

#define BY_DIGIT(bytes)                                                                                         \
    static void count_digits_##bytes(const void *words, int64_t count, int shift, uint32_t counts[DIGITS]) {    \
        const word_##bytes *x = words;                                                                          \
        uint32_t apart[TABLES][DIGITS] = {{0}};                                                                 \
        int64_t i = 0;                                                                                          \
        for (; i + TABLES <= count && count >= LEAST_FOR_TABLES; i += TABLES)                                   \
            _Pragma("GCC unroll 4") for (int t = 0; t < TABLES; t++) apart[t][DIGIT_##bytes(x[i + t])]++;       \
        for (; i < count; i++) apart[0][DIGIT_##bytes(x[i])]++;                                                 \
        for (int d = 0; d < DIGITS; d++) counts[d] = apart[0][d] + apart[1][d] + apart[2][d] + apart[3][d];     \
    }                                                                                                           \
    __attribute__((noinline)) static void move_words_##bytes(const void *words, int64_t count, int shift,       \
                                                             uint32_t *places, void *moved) {                   \
        const word_##bytes *x = words;                                                                          \
        word_##bytes *to = moved, own[GROUP];                                                                   \
        int64_t i = 0;                                                                                          \
        for (; i + GROUP <= count; i += GROUP) {                                                                \
            uint32_t place[GROUP];                                                                              \
            _Pragma("GCC unroll 4") for (int k = 0; k < GROUP; k++) own[k] = x[i + k];                          \
            _Pragma("GCC unroll 4") for (int k = 0; k < GROUP; k++) place[k] = places[DIGIT_##bytes(own[k])]++; \
            _Pragma("GCC unroll 4") for (int k = 0; k < GROUP; k++) to[place[k]] = own[k];                      \
        }                                                                                                       \
        for (; i < count; i++) to[places[DIGIT_##bytes(x[i])]++] = x[i];                                        \
    }
BY_DIGIT(4)
BY_DIGIT(8)
BY_DIGIT(16)

static int64_t count_of_chunk(const radix_pass *p, int64_t c) {
    return (c + 1) * p->chunk < p->count ? p->chunk : p->count - c * p->chunk;
}

static void count_chunks(void *context, int64_t begin, int64_t end) {
    const radix_pass *p = context;
    for (int64_t c = begin; c < end; c++) {
        const char *from = p->from + c * p->chunk * (int64_t)p->bytes;
        switch (p->bytes) {
        case 4: count_digits_4(from, count_of_chunk(p, c), p->shift, p->places[c]); break;
        case 8: count_digits_8(from, count_of_chunk(p, c), p->shift, p->places[c]); break;
        default: count_digits_16(from, count_of_chunk(p, c), p->shift, p->places[c]); break;
        }
    }
}

static void move_chunks(void *context, int64_t begin, int64_t end) {
    const radix_pass *p = context;
    for (int64_t c = begin; c < end; c++) {
        const char *from = p->from + c * p->chunk * (int64_t)p->bytes;
        switch (p->bytes) {
        case 4: move_words_4(from, count_of_chunk(p, c), p->shift, p->places[c], p->to); break;
        case 8: move_words_8(from, count_of_chunk(p, c), p->shift, p->places[c], p->to); break;
        default: move_words_16(from, count_of_chunk(p, c), p->shift, p->places[c], p->to); break;
        }
    }
}

static void sum_counts(const radix_pass *p, int64_t chunks) {
    uint32_t sum = 0;
    for (int d = 0; d < DIGITS; d++)
        for (int64_t c = 0; c < chunks; c++) {
            uint32_t own = p->places[c][d];
            p->places[c][d] = sum;
            sum += own;
        }
}

/* --- few words ------------------------------------------------------------------------------------------------------ */

#define INSERT(word)                                               \
    for (int64_t i = 1; i < count; i++) {                          \
        word *x = (word *)(void *)words, own = x[i];               \
        int64_t to = i;                                            \
        for (; to > 0 && own < x[to - 1]; to--) x[to] = x[to - 1]; \
        x[to] = own;                                               \
    }                                                              \
    break

__extension__ typedef unsigned __int128 wide_word;

static void sort_few(const bti_words_form *form, char *words, int64_t count) {
    switch (form->bytes) {
    case 4: INSERT(uint32_t);
    case 8: INSERT(uint64_t);
    default: INSERT(wide_word);
    }
}

/* --- many ----------------------------------------------------------------------------------------------------------- */

/* Of the keys of words, to a byte of theirs. */
static int shift_of(const bti_words_form *form, int byte) {
    return 8 * (byte + (form->bytes == 8 ? (int)bti_words_first_byte(form) : 0));
}

static void move_by_digit(radix_pass *p, int64_t chunks) {
    sum_counts(p, chunks);
    bti_parallel(chunks, 1, move_chunks, p);
    char *moved = p->to;
    p->to = (char *)(uintptr_t)p->from;
    p->from = moved;
}

/* Passes over the bytes from `first` to `end` in which keys differ. Which room has the words then. */
static char *sort_by_bytes(const bti_words_form *form, radix_pass *p, int first, int end, uint64_t differ) {
    int64_t chunks = (p->count + p->chunk - 1) / p->chunk;
    for (int byte = first; byte < end; byte++) {
        if (!(differ >> byte * 8 & 255)) continue;
        p->shift = shift_of(form, byte);
        bti_parallel(chunks, 1, count_chunks, p);
        move_by_digit(p, chunks);
    }
    return (char *)(uintptr_t)p->from;
}

/* --- in parts ------------------------------------------------------------------------------------------------------- */

/* Passes over a long line go over all of memory. Where the highest byte cuts it into parts that fit into a core's cache, as random numbers do and floats do not, the first pass
 * goes by that byte, and the others over one part after the other. */
#define LEAST_FOR_PARTS (16 << 20) /* bytes of the line: shorter ones lie in a shared cache */
#define PART_BYTES (256 << 10)

typedef struct part_sort {
    const bti_words_form *form;
    char *words, *spare;
    uint32_t begin[DIGITS + 1]; /* of each part */
    int first, end;             /* bytes that are to be gone over */
    uint64_t differ;
} part_sort;

static void sort_parts(void *context, int64_t begin, int64_t end) {
    const part_sort *s = context;
    uint32_t places[1][DIGITS];
    for (int64_t d = begin; d < end; d++) {
        size_t at = s->begin[d] * s->form->bytes;
        int64_t count = s->begin[d + 1] - s->begin[d];
        radix_pass p = {s->words + at, s->spare + at, count, count, s->form->bytes, 0, places};
        if (count) (void)sort_by_bytes(s->form, &p, s->first, s->end, s->differ);
    }
}

/* Where each part of a line begins; false: one is too large. */
static bool cut_into_parts(const radix_pass *p, int64_t chunks, uint32_t begin[DIGITS + 1]) {
    begin[0] = 0;
    for (int d = 0; d < DIGITS; d++) {
        uint32_t count = 0;
        for (int64_t c = 0; c < chunks; c++) count += p->places[c][d];
        if (count * p->bytes > PART_BYTES) return false;
        begin[d + 1] = begin[d] + count;
    }
    return true;
}

/* As sort_by_bytes. */
static char *sort_by_parts(const bti_words_form *form, radix_pass *p, int first, int end, uint64_t differ) {
    part_sort s = {.form = form, .first = first, .end = end - 1, .differ = differ};
    int64_t chunks = (p->count + p->chunk - 1) / p->chunk;
    int passes = 0;
    while (s.end > first && !(differ >> s.end * 8 & 255)) s.end--;
    p->shift = shift_of(form, s.end);
    if (p->count * (int64_t)p->bytes < LEAST_FOR_PARTS) return sort_by_bytes(form, p, first, end, differ);
    bti_parallel(chunks, 1, count_chunks, p);
    if (!cut_into_parts(p, chunks, s.begin)) return sort_by_bytes(form, p, first, end, differ);
    move_by_digit(p, chunks);
    s.words = (char *)(uintptr_t)p->from;
    s.spare = p->to;
    bti_parallel(DIGITS, 1, sort_parts, &s);
    for (int byte = first; byte < s.end; byte++) passes += (differ >> byte * 8 & 255) != 0;
    return passes % 2 ? s.spare : s.words;
}

/* Words in the order of their upper bytes: equal ones are runs, which are sorted by the lower bytes. */
typedef struct run_sort {
    const bti_words_form *form;
    char *words, *spare;
    uint64_t differ;                          /* in bytes below `upper` */
    int upper;                                /* the lowest of the upper bytes */
    int64_t first[BTI_RADIX_MOST_CHUNKS + 1]; /* of each chunk: a run's */
} run_sort;

static uint64_t upper_of(const run_sort *r, int64_t i) {
    return bti_word_key(r->form, r->words + i * (int64_t)r->form->bytes) >> 8 * r->upper;
}

static void sort_run(const run_sort *r, int64_t begin, int64_t end) {
    size_t bytes = r->form->bytes;
    char *words = r->words + begin * (int64_t)bytes, *spare = r->spare + begin * (int64_t)bytes;
    if (end - begin <= FEW_WORDS) {
        sort_few(r->form, words, end - begin);
        return;
    }
    uint32_t places[1][DIGITS];
    radix_pass p = {words, spare, end - begin, end - begin, bytes, 0, places};
    if (sort_by_bytes(r->form, &p, 0, r->upper, r->differ) != words)
        memcpy(words, spare, (size_t)(end - begin) * bytes);
}

static void sort_runs(void *context, int64_t begin, int64_t end) {
    const run_sort *r = context;
    int64_t i = r->first[begin], last = r->first[end];
    while (i < last) {
        int64_t run = i;
        uint64_t upper = upper_of(r, run);
        for (i++; i < last && upper_of(r, i) == upper;) i++;
        if (i - run > 1) sort_run(r, run, i);
    }
}

/* The upper bytes leave few words equal, where keys are spread. */
#define UPPER_BYTES 4

static char *sort_by_radix(const bti_words_form *form, char *words, char *spare, int64_t count, uint64_t differ) {
    uint32_t few[1][DIGITS];
    radix_pass p = {words, spare, count, bti_radix_chunk(count), form->bytes, 0, few};
    int64_t chunks = (count + p.chunk - 1) / p.chunk;
    int first = (int)form->element, upper = 0;
    while (first > 0 && upper < UPPER_BYTES) upper += (differ >> --first * 8 & 255) != 0;
    bool lower = first > 0 && differ & ((UINT64_C(1) << first * 8) - 1);
    if (chunks > 1 && !(p.places = bti_alloc((size_t)chunks * sizeof *p.places))) return NULL;
    char *sorted = sort_by_parts(form, &p, first, (int)form->element, differ);
    if (p.places != few) bti_free(p.places);
    if (!lower) return sorted;
    run_sort r = {form, sorted, sorted == words ? spare : words, differ, first, {0}};
    for (int64_t c = 1; c <= chunks; c++) {
        int64_t at = bti_larger_of(r.first[c - 1], bti_smaller_of(c * p.chunk, count));
        while (at < count && upper_of(&r, at) == upper_of(&r, at - 1)) at++;
        r.first[c] = at;
    }
    bti_parallel(chunks, 1, sort_runs, &r);
    return sorted;
}

char *bti_words_sort(const bti_words_form *form, char *words, char *spare, int64_t count, uint64_t differ) {
    if (count > FEW_WORDS) return sort_by_radix(form, words, spare, count, differ);
    sort_few(form, words, count);
    return words;
}
