#include "drivers/cpu/sort/radix.h"

#include "base/alloc.h"
#include "base/cores.h"

#define DIGITS 256
#define FEW_WORDS 48

typedef struct radix_pass {
    const char *from;
    char *to;
    int64_t count, chunk;
    size_t bytes, byte;         /* of a word; which of them */
    uint32_t (*places)[DIGITS]; /* by chunk: how often each digit occurs, then where its next word goes */
} radix_pass;

#define INLINED static inline __attribute__((always_inline))

INLINED void count_digits_of(const radix_pass *p, int64_t begin, int64_t end, uint32_t *counts, size_t bytes) {
    const uint8_t *digit = (const uint8_t *)p->from + p->byte;
    for (int64_t i = begin; i < end; i++) counts[digit[i * (int64_t)bytes]]++;
}

INLINED void move_words_of(const radix_pass *p, int64_t begin, int64_t end, uint32_t *places, size_t bytes) {
    const char *from = p->from;
    const uint8_t *digit = (const uint8_t *)from + p->byte;
    char *to = p->to;
    for (int64_t i = begin; i < end; i++)
        memcpy(to + (size_t)places[digit[i * (int64_t)bytes]]++ * bytes, from + i * (int64_t)bytes, bytes);
}

#define BY_BYTES(call, ...)                \
    switch (p->bytes) {                    \
    case 4: call(__VA_ARGS__, 4); break;   \
    case 8: call(__VA_ARGS__, 8); break;   \
    default: call(__VA_ARGS__, 16); break; \
    }

static int64_t end_of_chunk(const radix_pass *p, int64_t c) {
    return (c + 1) * p->chunk < p->count ? (c + 1) * p->chunk : p->count;
}

static void count_chunks(void *context, int64_t begin, int64_t end) {
    const radix_pass *p = context;
    for (int64_t c = begin; c < end; c++) {
        memset(p->places[c], 0, sizeof p->places[c]);
        BY_BYTES(count_digits_of, p, c * p->chunk, end_of_chunk(p, c), p->places[c])
    }
}

static void move_chunks(void *context, int64_t begin, int64_t end) {
    const radix_pass *p = context;
    for (int64_t c = begin; c < end; c++) BY_BYTES(move_words_of, p, c * p->chunk, end_of_chunk(p, c), p->places[c])
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

static char *sort_by_radix(const bti_words_form *form, char *words, char *spare, int64_t count, uint64_t differ) {
    uint32_t few[1][DIGITS];
    radix_pass p = {.from = words, .to = spare, .count = count, .chunk = bti_radix_chunk(count), .bytes = form->bytes};
    int64_t chunks = (count + p.chunk - 1) / p.chunk;
    p.places = chunks > 1 ? bti_alloc((size_t)chunks * sizeof *p.places) : few;
    if (!p.places) return NULL;
    for (size_t byte = 0; byte < form->element; byte++) {
        if (!(differ >> byte * 8 & 255)) continue;
        p.byte = bti_words_first_byte(form) + byte;
        bti_parallel(chunks, 1, count_chunks, &p);
        sum_counts(&p, chunks);
        bti_parallel(chunks, 1, move_chunks, &p);
        char *moved = p.to;
        p.to = (char *)(uintptr_t)p.from;
        p.from = moved;
    }
    if (p.places != few) bti_free(p.places);
    return (char *)(uintptr_t)p.from;
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

char *bti_words_sort(const bti_words_form *form, char *words, char *spare, int64_t count, uint64_t differ) {
    if (count > FEW_WORDS) return sort_by_radix(form, words, spare, count, differ);
    sort_few(form, words, count);
    return words;
}
