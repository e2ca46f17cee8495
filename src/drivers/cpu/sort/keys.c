/* Elements to words and back. Words are little-endian, as all memory is here. */
#include "drivers/cpu/sort/keys.h"

#include "drivers/cpu/target.h"
#include "ir/dtype.h"

bti_words_form bti_words_form_of(bt_dtype dtype, bool indexed, bool descending) {
    size_t size = bt_dtype_size(dtype), key = size == 8 ? 8 : 4;
    uint64_t sign = UINT64_C(1) << (size * 8 - 1), all = sign | (sign - 1);
    bti_key_form form = {.is_float = bti_dtype_is_float(dtype), .sign = sign};
    form.infinity = dtype == BT_F16    ? 0x7c00
                    : dtype == BT_BF16 ? 0x7f80
                    : size == 4        ? 0x7f800000
                                       : UINT64_C(0x7ff0000000000000);
    form.flip = (descending ? all : 0) ^ (!form.is_float && bti_dtype_is_signed(dtype) ? sign : 0);
    return (bti_words_form){.key = form,
                            .loops = &bti_vector_code_of(bti_cpu_target())->keys[key == 8],
                            .element = size,
                            .key_bytes = key,
                            .bytes = indexed ? 2 * key : key,
                            .indexed = indexed};
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

#define LOAD(type, word)                            \
    for (int64_t i = 0; i < count; i++) {           \
        type bits;                                  \
        memcpy(&bits, at + i * step, sizeof bits);  \
        *(word *)(void *)(to + i * to_step) = bits; \
    }                                               \
    break

void bti_bits_read(const bti_words_form *form, char *to, int64_t to_step, const char *at, int64_t step, int64_t count) {
    bool dense = step == (int64_t)form->element && to_step == step;
    if (dense) {
        memcpy(to, at, (size_t)count * form->element);
        return;
    }
    switch (form->element) {
    case 1: LOAD(uint8_t, uint32_t);
    case 2: LOAD(uint16_t, uint32_t);
    case 4: LOAD(uint32_t, uint32_t);
    default: LOAD(uint64_t, uint64_t);
    }
}

void bti_keys_read(const bti_words_form *form, char *keys, const char *at, int64_t step, int64_t count) {
    bti_bits_read(form, keys, (int64_t)form->key_bytes, at, step, count);
    form->loops->keys(keys, count, &form->key);
}

static void add_indices(const bti_words_form *form, char *words, const char *keys, int64_t first, int64_t count) {
    if (form->key_bytes == 4) {
        for (int64_t i = 0; i < count; i++)
            ((uint64_t *)(void *)words)[i] =
                (uint64_t)((const uint32_t *)(const void *)keys)[i] << 32 | (uint64_t)(first + i);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint64_t *word = (uint64_t *)(void *)words + 2 * i;
        word[0] = (uint64_t)(first + i);
        word[1] = ((const uint64_t *)(const void *)keys)[i];
    }
}

void bti_words_read(const bti_words_form *form, char *words, const char *at, int64_t step, int64_t first,
                    int64_t count) {
    uint64_t keys[BTI_KEYS_AT_ONCE];
    for (int64_t i = 0; i < count; i += BTI_KEYS_AT_ONCE) {
        int64_t n = count - i < BTI_KEYS_AT_ONCE ? count - i : BTI_KEYS_AT_ONCE;
        char *to = words + i * (int64_t)form->bytes;
        bti_keys_read(form, form->indexed ? (char *)keys : to, at + i * step, step, n);
        if (form->indexed) add_indices(form, to, (const char *)keys, first + i, n);
    }
}

/* --- writing -------------------------------------------------------------------------------------------------------- */

#define STORE(type, word)                                                  \
    for (int64_t i = 0; i < count; i++) {                                  \
        type bits = (type) * (const word *)(const void *)(x + i * x_step); \
        memcpy(to + i * step, &bits, sizeof bits);                         \
    }                                                                      \
    break

void bti_bits_write(const bti_words_form *form, const char *x, int64_t x_step, char *to, int64_t step, int64_t count) {
    if (step == (int64_t)form->element && x_step == step) {
        memcpy(to, x, (size_t)count * form->element);
        return;
    }
    switch (form->element) {
    case 1: STORE(uint8_t, uint32_t);
    case 2: STORE(uint16_t, uint32_t);
    case 4: STORE(uint32_t, uint32_t);
    default: STORE(uint64_t, uint64_t);
    }
}

static void take_keys(const bti_words_form *form, const char *words, char *keys, int64_t count) {
    if (!form->indexed)
        memcpy(keys, words, (size_t)count * form->key_bytes);
    else if (form->key_bytes == 4)
        for (int64_t i = 0; i < count; i++)
            ((uint32_t *)(void *)keys)[i] = (uint32_t)(((const uint64_t *)(const void *)words)[i] >> 32);
    else
        for (int64_t i = 0; i < count; i++)
            ((uint64_t *)(void *)keys)[i] = ((const uint64_t *)(const void *)words)[2 * i + 1];
}

void bti_words_write_elements(const bti_words_form *form, const char *words, char *to, int64_t step, int64_t count) {
    uint64_t keys[BTI_KEYS_AT_ONCE];
    for (int64_t i = 0; i < count; i += BTI_KEYS_AT_ONCE) {
        int64_t n = count - i < BTI_KEYS_AT_ONCE ? count - i : BTI_KEYS_AT_ONCE;
        take_keys(form, words + i * (int64_t)form->bytes, (char *)keys, n);
        form->loops->elements(keys, n, &form->key);
        bti_bits_write(form, (const char *)keys, (int64_t)form->key_bytes, to + i * step, step, n);
    }
}

void bti_words_write_indices(const bti_words_form *form, const char *words, char *to, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; i++) memcpy(to + i * step, words + i * (int64_t)form->bytes, sizeof(int32_t));
}

/* --- zeros and NaN -------------------------------------------------------------------------------------------------- */

/* The first word whose key is not smaller. */
static int64_t find_key(const bti_words_form *form, const char *words, int64_t step, int64_t count, uint64_t key) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (bti_word_key(form, words + middle * step) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_key(const bti_words_form *form, const char *words, int64_t step, int64_t count, int64_t at,
                    uint64_t key) {
    return at < count && bti_word_key(form, words + at * step) == key;
}

bti_words_alike bti_words_find_alike(const bti_words_form *form, const char *words, int64_t step, int64_t count) {
    if (!form->key.is_float) return (bti_words_alike){.none = true};
    uint64_t zero = bti_words_zero(form), nan = bti_words_nan(form);
    bti_words_alike alike = {find_key(form, words, step, count, zero), find_key(form, words, step, count, nan), false};
    alike.none =
        !has_key(form, words, step, count, alike.zeros, zero) && !has_key(form, words, step, count, alike.nans, nan);
    return alike;
}

static void mend_block(const bti_words_form *form, bti_words_alike *alike, char *to, int64_t to_step, const char *bits,
                       int64_t count) {
    for (int64_t i = 0; i < count; i++, bits += form->key_bytes) {
        uint64_t own = 0;
        memcpy(&own, bits, form->key_bytes);
        uint64_t magnitude = own & ~form->key.sign;
        if (magnitude && magnitude <= form->key.infinity) continue;
        memcpy(to + (magnitude ? alike->nans++ : alike->zeros++) * to_step, &own, form->element);
    }
}

void bti_words_mend(const bti_words_form *form, bti_words_alike alike, char *to, int64_t to_step, const char *from,
                    int64_t from_step, int64_t count) {
    uint64_t bits[BTI_KEYS_AT_ONCE];
    for (int64_t i = 0; i < count && !alike.none; i += BTI_KEYS_AT_ONCE) {
        int64_t n = count - i < BTI_KEYS_AT_ONCE ? count - i : BTI_KEYS_AT_ONCE;
        bti_bits_read(form, (char *)bits, (int64_t)form->key_bytes, from + i * from_step, from_step, n);
        if (form->loops->alike(bits, n, &form->key)) mend_block(form, &alike, to, to_step, (const char *)bits, n);
    }
}
