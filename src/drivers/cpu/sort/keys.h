/* Sorts on the cores work on *words*: unsigned numbers in the order of the elements. A word is a key, or a key in its upper half and the index of the
 * element in its lower half; then no two are equal, so any order of them is the stable one. */
#ifndef BTI_DRIVERS_CPU_SORT_KEYS_H
#define BTI_DRIVERS_CPU_SORT_KEYS_H

#include <string.h>

#include "drivers/cpu/vector/vector.h"

typedef struct bti_words_form {
    bti_key_form key;
    const bti_key_loops *loops;
    size_t element, key_bytes, bytes; /* of an element; of a key: 4 or 8; of a word */
    bool indexed;
} bti_words_form;

/* NaN comes first in a descending order. */
bti_words_form bti_words_form_of(bt_dtype dtype, bool indexed, bool descending);

/* The bytes of a word by which words of equal other bytes are sorted: from the lowest of the key on. */
static inline size_t bti_words_first_byte(const bti_words_form *form) { return form->indexed ? form->key_bytes : 0; }

/* The keys of zeros, and of NaN, where elements are floats. */
static inline uint64_t bti_words_zero(const bti_words_form *form) { return form->key.sign ^ form->key.flip; }
static inline uint64_t bti_words_nan(const bti_words_form *form) {
    return (form->key.sign | (form->key.sign - 1)) ^ form->key.flip;
}

/* `count` elements from `at`, `step` bytes from one to the next, as words one after the other. The first has the index `first`. */
void bti_words_read(const bti_words_form *form, char *words, const char *at, int64_t step, int64_t first,
                    int64_t count);
/* Keys alone. */
#define BTI_KEYS_AT_ONCE 256 /* they stay in the first cache */
void bti_keys_read(const bti_words_form *form, char *keys, const char *at, int64_t step, int64_t count);

/* The bits of elements, each as wide as a key, and back. Steps are in bytes. */
void bti_bits_read(const bti_words_form *form, char *to, int64_t to_step, const char *at, int64_t step, int64_t count);
void bti_bits_write(const bti_words_form *form, const char *x, int64_t x_step, char *to, int64_t step, int64_t count);

/* The elements of words; zeros and NaN are right after bti_words_mend only. `to` may be the words, if words are elements. */
void bti_words_write_elements(const bti_words_form *form, const char *words, char *to, int64_t step, int64_t count);
void bti_words_write_indices(const bti_words_form *form, const char *words, char *to, int64_t step, int64_t count);

/* -0 and 0 have one key, and all NaN. Where the first of each stands among sorted words (word_step bytes from one to the next); none: there is nothing to
 * mend. Asked before elements are written, which may be in the place of the words. */
typedef struct bti_words_alike {
    int64_t zeros, nans;
    bool none;
} bti_words_alike;
bti_words_alike bti_words_find_alike(const bti_words_form *form, const char *words, int64_t word_step, int64_t count);
/* Copies their bits, in their order, from the line that was sorted. */
void bti_words_mend(const bti_words_form *form, bti_words_alike alike, char *to, int64_t to_step, const char *from,
                    int64_t from_step, int64_t count);

/* The key of a word, and the index. */
static inline uint64_t bti_word_key(const bti_words_form *form, const char *word) {
    uint64_t wide;
    uint32_t narrow;
    if (form->key_bytes == 8) return memcpy(&wide, word + bti_words_first_byte(form), 8), wide;
    return memcpy(&narrow, word + bti_words_first_byte(form), 4), narrow;
}
static inline int32_t bti_word_index(const char *word) {
    int32_t index;
    return memcpy(&index, word, sizeof index), index;
}

#endif
