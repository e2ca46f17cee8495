/* Words and merges, and text to words; bpe_files.c reads them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "bpe_parts.h"

#include <stdlib.h>
#include <string.h>

#include "bpe_split.h"

/* --- the vocabulary ------------------------------------------------------------------------------------------------- */

void bpe_free(bpe *b) {
    if (!b) return;
    for (int32_t i = 0; b->words && i < b->count; i++) free(b->words[i].bytes);
    free(b->words);
    free(b->sorted);
    free(b->merges);
    free(b->specials);
    free(b);
}

int32_t bpe_count(const bpe *b) { return b->count; }

const char *bpe_word(const bpe *b, int32_t word, size_t *length) {
    if (word < 0 || word >= b->count) return NULL;
    *length = b->words[word].length;
    return b->words[word].bytes;
}

int bpe_compare(const char *a, size_t a_length, const char *b, size_t b_length) {
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

int32_t bpe_find(const bpe *b, const char *bytes, size_t length) {
    int32_t low = 0, high = b->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2, word = b->sorted[middle];
        int order = bpe_compare(bytes, length, b->words[word].bytes, b->words[word].length);
        if (!order) return word;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static const bpe_merge *find_merge(const bpe *b, int32_t left, int32_t right) {
    uint64_t pair = bpe_pair(left, right);
    size_t low = 0, high = b->merge_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->merges[middle].pair == pair) return &b->merges[middle];
        if (b->merges[middle].pair < pair)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* --- merging the bytes of a part ------------------------------------------------------------------------------------ */

/* A pair that could be merged, in a heap: the lowest rank first, then the leftmost. */
typedef struct candidate {
    const bpe_merge *merge;
    size_t at;
    int32_t left, right;
} candidate;

/* Words in a row: a merge puts one into the place of two. */
typedef struct row {
    int32_t *word;         /* -1: it is a part of the one before it */
    size_t *next, *before; /* length: none; SIZE_MAX: none */
    candidate *heap;
    size_t length, waiting;
} row;

static bool comes_before(const candidate *a, const candidate *b) {
    return a->merge->rank != b->merge->rank ? a->merge->rank < b->merge->rank : a->at < b->at;
}

static void push(const bpe *b, row *r, size_t at) {
    if (at == SIZE_MAX || r->next[at] == r->length) return;
    candidate new = {find_merge(b, r->word[at], r->word[r->next[at]]), at, r->word[at], r->word[r->next[at]]};
    if (!new.merge) return;
    size_t place = r->waiting++;
    for (; place && comes_before(&new, &r->heap[(place - 1) / 2]); place = (place - 1) / 2)
        r->heap[place] = r->heap[(place - 1) / 2];
    r->heap[place] = new;
}

static candidate pop(row *r) {
    candidate first = r->heap[0], moved = r->heap[--r->waiting];
    size_t place = 0;
    for (size_t child; (child = 2 * place + 1) < r->waiting; place = child) {
        if (child + 1 < r->waiting && comes_before(&r->heap[child + 1], &r->heap[child])) child++;
        if (!comes_before(&r->heap[child], &moved)) break;
        r->heap[place] = r->heap[child];
    }
    r->heap[place] = moved;
    return first;
}

static void merge_all(const bpe *b, row *r) {
    for (size_t i = 0; i + 1 < r->length; i++) push(b, r, i);
    while (r->waiting) {
        candidate c = pop(r);
        size_t next = r->next[c.at];
        if (r->word[c.at] != c.left || next == r->length || r->word[next] != c.right) continue; /* merged since */
        r->word[c.at] = c.merge->made;
        r->word[next] = -1;
        r->next[c.at] = r->next[next];
        if (r->next[next] < r->length) r->before[r->next[next]] = c.at;
        push(b, r, r->before[c.at]);
        push(b, r, c.at);
    }
}

static bool row_make(row *r, size_t length) {
    *r = (row){.length = length};
    r->word = malloc(length * sizeof *r->word);
    r->next = malloc(length * sizeof *r->next);
    r->before = malloc(length * sizeof *r->before);
    r->heap = malloc(3 * length * sizeof *r->heap); /* each byte's pair, and two for each merge */
    return r->word && r->next && r->before && r->heap;
}

static void row_free(row *r) {
    free(r->word);
    free(r->next);
    free(r->before);
    free(r->heap);
}

/* --- texts ---------------------------------------------------------------------------------------------------------- */

typedef struct encoding {
    int32_t *words;
    size_t count, room;
    bool failed;
} encoding;

static void add_word(encoding *e, int32_t word) {
    if (e->count == e->room) {
        size_t room = 2 * e->room + 64;
        int32_t *larger = realloc(e->words, room * sizeof *larger);
        e->failed |= !larger;
        if (!larger) return;
        e->words = larger;
        e->room = room;
    }
    e->words[e->count++] = word;
}

static void encode_part(const bpe *b, const char *text, size_t length, encoding *e) {
    row r;
    if (row_make(&r, length)) {
        for (size_t i = 0; i < length; i++) {
            r.word[i] = b->of_byte[(unsigned char)text[i]];
            r.next[i] = i + 1;
            r.before[i] = i ? i - 1 : SIZE_MAX;
        }
        merge_all(b, &r);
        for (size_t i = 0; i < length; i = r.next[i]) add_word(e, r.word[i]);
    } else
        e->failed = true;
    row_free(&r);
}

static void encode_plain(const bpe *b, const char *text, size_t length, encoding *e) {
    while (length && !e->failed) {
        size_t part = bpe_first_part(text, length);
        encode_part(b, text, part, e);
        text += part, length -= part;
    }
}

/* The first special word in a text, the longest one there; its place, or `length` when there is none. */
static size_t find_special(const bpe *b, const char *text, size_t length, int32_t *special) {
    size_t place = length, longest = 0;
    for (size_t i = 0; i < b->special_count; i++) {
        const bpe_bytes *word = &b->words[b->specials[i]];
        const char *found = memmem(text, length, word->bytes, word->length);
        if (!found || (size_t)(found - text) > place) continue;
        if ((size_t)(found - text) == place && word->length <= longest) continue;
        place = (size_t)(found - text), longest = word->length, *special = b->specials[i];
    }
    return place;
}

bool bpe_encode(const bpe *b, const char *text, size_t length, int32_t **words, size_t *count) {
    encoding e = {0};
    while (length && !e.failed) {
        int32_t special = -1;
        size_t plain = find_special(b, text, length, &special);
        encode_plain(b, text, plain, &e);
        if (special >= 0) add_word(&e, special), plain += b->words[special].length;
        text += plain, length -= plain;
    }
    if (e.failed) free(e.words), e.words = NULL, e.count = 0;
    *words = e.words;
    *count = e.count;
    return !e.failed;
}
