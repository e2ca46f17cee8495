/* GPT-2 (Radford et al. 2019), which takes the weights of Hugging Face's: layers of the program's own with their names (gpt2.c), and reading word by word with a cache of keys and values (gpt2_reader.c). To be
 * read or copied into a program. A word is what the tokenizer makes of text (bpe.h), a number from 0. */
#ifndef MODELS_GPT2_H
#define MODELS_GPT2_H

#include <berth.h>

typedef struct gpt2_sizes {
    int64_t words;  /* in the vocabulary; GPT-2: 50257 */
    int64_t places; /* the longest text, in words; 1024 */
    int64_t width;  /* 768; 1024; 1280; 1600 */
    int64_t heads;  /* 12; 16; 20; 25: a divisor of the width */
    int64_t blocks; /* 12; 24; 36; 48 */
} gpt2_sizes;

/* Words [B, T], integers -> logits of the next ones [B, T, words], which share the embedding of the words. Weights are drawn as GPT-2's. */
bt_layer *gpt2_new(const gpt2_sizes *sizes, bt_array *key);

/* The sizes that a file's tensors have; heads: width / 64, at least 1, which all of GPT-2 have. What the file has not is 0. */
BT_MUST_USE bt_status gpt2_sizes_in(const char *path, gpt2_sizes *sizes);
/* *model: the one that a file has weights of, on the device of the BT_ON block or the default device. The file is what Hugging Face's GPT2LMHeadModel or GPT2Model saves, with names that begin with "transformer." or
 * without that, as safetensors (also in shards) or .pt. The sizes are those of gpt2_sizes_in, maybe with another number of heads, which no tensor tells. float16 and bfloat16 become float32. Masks of old files
 * (attn.bias, attn.masked_bias) are left out, and lm_head.weight if it is the embedding of the words. Errors are those of bt_load_model, which lists all tensors that are missing, too many, or of another shape;
 * the error record has the text. */
BT_MUST_USE bt_status gpt2_open(const char *path, const gpt2_sizes *sizes, bt_layer **model);
/* Writes what GPT2LMHeadModel.from_pretrained loads, but for its config.json. */
BT_MUST_USE bt_status gpt2_save(const char *path, const bt_layer *model);

/* --- word by word: gpt2_reader.c ------------------------------------------------------------------------------------ */

/* Reads a text from its beginning and keeps the keys and values of what it read: a word costs as much as one place. Of one thread at a time. */
typedef struct gpt2_reader gpt2_reader;
/* Of a model of these sizes, of gpt2_new or a copy of it (bt_fmap, bt_layer_to), on its device. NULL: out of memory, or the error record has the cause. */
gpt2_reader *gpt2_reader_new(bt_layer *model, const gpt2_sizes *sizes);
void gpt2_reader_free(gpt2_reader *reader); /* NULL is accepted */
/* Reads `count` words more, one or more. *logits [words]: of the one behind them, of the innermost scope. INVALID_ARGUMENT: a word that the vocabulary has not; OUT_OF_RANGE: there are not so many places left;
 * nothing was read then. */
BT_MUST_USE bt_status gpt2_read(gpt2_reader *reader, const int32_t *words, int64_t count, bt_array **logits);

/* Forgets the words from place `from` on, so that others can be read there; nothing happens where there are not so many. */
void gpt2_reader_forget(gpt2_reader *reader, int64_t from);

/* How the next word is chosen. Of zeros: the most likely one. */
typedef struct gpt2_choice {
    double temperature; /* above 0: drawn, by logits divided by it */
    int64_t best;       /* drawn from so many of the most likely ones; 0: from all */
    bt_array *key;      /* of draws; each place has its own numbers */
} gpt2_choice;
/* Reads words[0] to words[count - 1] and writes behind them until there are `end` words, or until `seen` (NULL: none), which is told each new one, returns false. *written: how many there are then. */
BT_MUST_USE bt_status gpt2_write(gpt2_reader *reader, const gpt2_choice *choice, int32_t *words, int64_t count,
                                 int64_t end, bool (*seen)(int32_t word, void *data), void *data, int64_t *written);

#endif
