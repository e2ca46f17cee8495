/* A text is cut before its parts are encoded: words with the space before them, numbers, other characters, spaces. */
#ifndef MODELS_BPE_SPLIT_H
#define MODELS_BPE_SPLIT_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes the first part of a text of one byte or more has: what GPT-2's expression 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ matches at its beginning. */
size_t bpe_first_part(const char *text, size_t length);
/* The code point at the beginning of a text, and its bytes. Bytes that are no UTF-8 stand alone, as -1. */
int32_t bpe_code_point(const char *text, size_t length, size_t *bytes);

#endif
