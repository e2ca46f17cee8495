/* Byte-level byte pair encoding (Sennrich et al. 2016; Radford et al. 2019), GPT-2's tokenizer: text to words, numbers from 0, and back. To be read or copied into a program; it needs jansson. */
#ifndef MODELS_BPE_H
#define MODELS_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bpe bpe;

enum { BPE_WHY = 512 }; /* bytes of a reason */

/* The tokenizer in a folder: tokenizer.json, else vocab.json and merges.txt, as Hugging Face writes them. NULL: `why` says which file, where and what; the files are not trusted. */
bpe *bpe_open(const char *folder, char why[BPE_WHY]);
void bpe_free(bpe *tokenizer); /* NULL is accepted */
/* The size of the vocabulary. */
int32_t bpe_count(const bpe *tokenizer);
/* The words of a text of any bytes, `length` of them. *words: freed by the caller with free; *count: how many. Words such as <|endoftext|> are found in the text too. False: out of memory. */
bool bpe_encode(const bpe *tokenizer, const char *text, size_t length, int32_t **words, size_t *count);
/* The bytes of a word, maybe a part of a character; borrowed. NULL: there is no such word. */
const char *bpe_word(const bpe *tokenizer, int32_t word, size_t *length);
/* The word with these bytes; -1: none. */
int32_t bpe_find(const bpe *tokenizer, const char *bytes, size_t length);

#endif
