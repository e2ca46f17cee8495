/* Reads vocab.json and merges.txt, or tokenizer.json. Nothing in them is trusted. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* qsort_r */
#endif
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bpe_parts.h"
#include "bpe_split.h"

enum { MOST_BYTES = 256 << 20, MOST_OF_WORD = 4096 };

typedef struct opening {
    bpe *b;
    char path[4096]; /* of the file that is read */
    char *why;
} opening;

static bool refuse(opening *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(opening *o, const char *format, ...) {
    char text[BPE_WHY / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?';
    snprintf(o->why, BPE_WHY, "%.200s: %s", o->path, text);
    return false;
}

static bool no_memory(opening *o) { return refuse(o, "out of memory"); }

/* The bytes of a file and a NUL; freed by the caller. NULL: refused. */
static char *read_file(opening *o, size_t *length) {
    struct stat about;
    char *bytes = NULL;
    FILE *file = fopen(o->path, "rb");
    if (!file || fstat(fileno(file), &about))
        refuse(o, "%s", strerror(errno));
    else if (!S_ISREG(about.st_mode) || about.st_size > MOST_BYTES)
        refuse(o, "it is no file, or has more than %d bytes", MOST_BYTES);
    else if (!(bytes = malloc((size_t)about.st_size + 1)))
        no_memory(o);
    else {
        *length = fread(bytes, 1, (size_t)about.st_size, file);
        bytes[*length] = '\0';
        if (ferror(file)) refuse(o, "%s", strerror(errno)), free(bytes), bytes = NULL;
    }
    if (file) fclose(file);
    return bytes;
}

static json_t *read_json(opening *o) {
    size_t length = 0;
    json_error_t error;
    char *bytes = read_file(o, &length);
    if (!bytes) return NULL;
    json_t *value = json_loadb(bytes, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!value) refuse(o, "line %d, column %d: %s", error.line, error.column, error.text);
    free(bytes);
    return value;
}

/* --- bytes as characters -------------------------------------------------------------------------------------------- */

static bool stands_for_itself(int byte) {
    return (byte > 32 && byte < 127) || (byte > 160 && byte != 173 && byte < 256);
}

/* In these files a byte is a character that can be seen: those that cannot have the code points from 256 on, in order. -1: no byte. */
static int byte_of(int32_t code) {
    if (code < 0 || code < 256) return code >= 0 && stands_for_itself(code) ? code : -1;
    for (int byte = 0, next = 256; byte < 256; byte++)
        if (!stands_for_itself(byte) && next++ == code) return byte;
    return -1;
}

/* The bytes that a text of the file stands for, in `bytes` [MOST_OF_WORD]. Texts of other characters (<|endoftext|> has none) are taken as they are. */
static size_t take_bytes(const char *text, size_t length, char *bytes) {
    size_t count = 0;
    for (size_t at = 0, step; at < length; at += step) {
        int byte = byte_of(bpe_code_point(text + at, length - at, &step));
        if (byte < 0) return memcpy(bytes, text, length), length;
        bytes[count++] = (char)byte;
    }
    return count;
}

/* --- the vocabulary ------------------------------------------------------------------------------------------------- */

static bool put_word(opening *o, const char *text, size_t length, const json_t *number, bool plain) {
    json_int_t id = json_is_integer(number) ? json_integer_value(number) : -1;
    char bytes[MOST_OF_WORD];
    if (id < 0 || id >= o->b->count)
        return refuse(o, "the number of \"%.60s\" is not one of 0 to %d", text, o->b->count - 1);
    if (!length || length > MOST_OF_WORD) return refuse(o, "a word of %zu bytes; 1 to %d", length, MOST_OF_WORD);
    bpe_bytes *word = &o->b->words[id];
    size_t count = plain ? length : take_bytes(text, length, bytes);
    if (word->bytes && plain && word->length == length && !memcmp(word->bytes, text, length)) return true;
    if (word->bytes) return refuse(o, "two words have the number %lld", (long long)id);
    word->bytes = malloc(count);
    if (!word->bytes) return no_memory(o);
    memcpy(word->bytes, plain ? text : bytes, count);
    word->length = count;
    return true;
}

static int compare_words(const void *a, const void *b, void *words) {
    const bpe_bytes *left = (const bpe_bytes *)words + *(const int32_t *)a,
                    *right = (const bpe_bytes *)words + *(const int32_t *)b;
    return bpe_compare(left->bytes, left->length, right->bytes, right->length);
}

static bool sort_words(opening *o) {
    bpe *b = o->b;
    b->sorted = malloc(((size_t)b->count + 1) * sizeof *b->sorted);
    if (!b->sorted) return no_memory(o);
    for (int32_t i = 0; i < b->count; i++) {
        if (!b->words[i].bytes) return refuse(o, "no word has the number %d, of %d", i, b->count);
        b->sorted[i] = i;
    }
    qsort_r(b->sorted, (size_t)b->count, sizeof *b->sorted, compare_words, b->words);
    for (int32_t i = 1; i < b->count; i++)
        if (!compare_words(&b->sorted[i - 1], &b->sorted[i], b->words))
            return refuse(o, "the words %d and %d are the same bytes", b->sorted[i - 1], b->sorted[i]);
    for (int byte = 0; byte < 256; byte++) {
        char one = (char)byte;
        b->of_byte[byte] = bpe_find(b, &one, 1);
        if (b->of_byte[byte] < 0) return refuse(o, "no word is the byte %d", byte);
    }
    return true;
}

/* added: a list of words with numbers, or NULL; those that the vocabulary has not yet are counted. */
static bool count_words(opening *o, const json_t *vocabulary, const json_t *added) {
    size_t count = json_object_size(vocabulary), extra = json_array_size(added), index;
    const json_t *word;
    json_array_foreach(added, index, word) {
        const json_t *content = json_object_get(word, "content");
        if (!json_is_string(content)) return refuse(o, "an added word without content");
        extra -= json_object_get(vocabulary, json_string_value(content)) != NULL;
    }
    if (!count || count + extra > INT32_MAX) return refuse(o, "a vocabulary of %zu words", count + extra);
    o->b->count = (int32_t)(count + extra);
    o->b->words = calloc(count + extra, sizeof *o->b->words);
    o->b->specials = calloc(json_array_size(added) + 1, sizeof *o->b->specials);
    return (o->b->words && o->b->specials) || no_memory(o);
}

static bool take_vocabulary(opening *o, json_t *vocabulary, const json_t *added) {
    const char *text;
    json_t *number;
    const json_t *word;
    size_t length, index;
    if (!json_is_object(vocabulary)) return refuse(o, "there is no object of words and their numbers");
    if (!count_words(o, vocabulary, added)) return false;
    json_object_keylen_foreach(vocabulary, text, length, number) {
        if (!put_word(o, text, length, number, false)) return false;
    }
    json_array_foreach(added, index, word) {
        const json_t *content = json_object_get(word, "content"), *id = json_object_get(word, "id");
        if (!put_word(o, json_string_value(content), json_string_length(content), id, true)) return false;
        o->b->specials[o->b->special_count++] = (int32_t)json_integer_value(id);
    }
    return sort_words(o);
}

/* --- merges --------------------------------------------------------------------------------------------------------- */

static int compare_merges(const void *a, const void *b) {
    const bpe_merge *left = a, *right = b;
    return left->pair != right->pair ? (left->pair > right->pair ? 1 : -1)
                                     : (left->rank > right->rank) - (left->rank < right->rank);
}

static bool put_merge(opening *o, size_t rank, const char *left, size_t left_length, const char *right,
                      size_t right_length) {
    bpe *b = o->b;
    char bytes[2 * MOST_OF_WORD];
    int32_t words[2] = {-1, -1}, made = -1;
    size_t lengths[2] = {0};
    if (left_length && left_length <= MOST_OF_WORD && right_length && right_length <= MOST_OF_WORD) {
        lengths[0] = take_bytes(left, left_length, bytes);
        lengths[1] = take_bytes(right, right_length, bytes + lengths[0]);
        words[0] = bpe_find(b, bytes, lengths[0]);
        words[1] = bpe_find(b, bytes + lengths[0], lengths[1]);
        made = bpe_find(b, bytes, lengths[0] + lengths[1]);
    }
    if (words[0] < 0 || words[1] < 0 || made < 0)
        return refuse(o, "merge %zu: \"%.*s\" and \"%.*s\", or what they make, are not in the vocabulary", rank + 1,
                      (int)(left_length < 40 ? left_length : 40), left, (int)(right_length < 40 ? right_length : 40),
                      right);
    b->merges[rank] = (bpe_merge){bpe_pair(words[0], words[1]), (int32_t)rank, made};
    return true;
}

/* "a b" */
static bool put_line(opening *o, size_t rank, const char *line, size_t length) {
    const char *space = memchr(line, ' ', length);
    if (!space) return refuse(o, "merge %zu has no space", rank + 1);
    return put_merge(o, rank, line, (size_t)(space - line), space + 1, length - (size_t)(space - line) - 1);
}

/* Of equal pairs the first one counts. */
static bool sort_merges(opening *o, size_t count) {
    bpe *b = o->b;
    qsort(b->merges, count, sizeof *b->merges, compare_merges);
    for (size_t i = 0; i < count; i++)
        if (!b->merge_count || b->merges[b->merge_count - 1].pair != b->merges[i].pair)
            b->merges[b->merge_count++] = b->merges[i];
    return true;
}

static bool make_merges(opening *o, size_t most) {
    if (most >= INT32_MAX) return refuse(o, "%zu merges", most);
    o->b->merges = calloc(most + 1, sizeof *o->b->merges);
    return o->b->merges || no_memory(o);
}

static bool take_merges_text(opening *o) {
    size_t length = 0, count = 0, lines = 1;
    char *text = read_file(o, &length);
    if (!text) return false;
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
    bool good = make_merges(o, lines);
    for (const char *line = text, *end; good && line < text + length; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + length - line));
        if (!end) end = text + length;
        size_t bytes = (size_t)(end - line);
        if (bytes && line[bytes - 1] == '\r') bytes--;
        if (!bytes || (line == text && !strncmp(line, "#version", 8))) continue;
        good = put_line(o, count++, line, bytes);
    }
    free(text);
    return good && sort_merges(o, count);
}

static bool take_merges(opening *o, const json_t *merges) {
    size_t index;
    const json_t *merge;
    if (!json_is_array(merges)) return refuse(o, "there is no list of merges");
    if (!make_merges(o, json_array_size(merges))) return false;
    json_array_foreach(merges, index, merge) {
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        bool pair = json_is_string(left) && json_is_string(right);
        if (pair ? !put_merge(o, index, json_string_value(left), json_string_length(left), json_string_value(right),
                              json_string_length(right))
            : json_is_string(merge) ? !put_line(o, index, json_string_value(merge), json_string_length(merge))
                                    : !refuse(o, "merge %zu is neither a text nor a pair", index + 1))
            return false;
    }
    return sort_merges(o, json_array_size(merges));
}

/* --- the files ------------------------------------------------------------------------------------------------------ */

static bool name_file(opening *o, const char *folder, const char *name) {
    int length = snprintf(o->path, sizeof o->path, "%s/%s", folder, name);
    return length >= 0 && (size_t)length < sizeof o->path;
}

static bool is_of_type(const json_t *object, const char *type) {
    const char *text = json_string_value(json_object_get(object, "type"));
    return text && !strcmp(text, type);
}

/* What would make other words of a text than GPT-2's tokenizer does; NULL: nothing. */
static const char *unknown_part(const json_t *all, const json_t *model, const json_t *before) {
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    const json_t *normalizer = json_object_get(all, "normalizer"), *word;
    size_t i;
    if (normalizer && !json_is_null(normalizer)) return "normalizer";
    if (json_is_true(json_object_get(before, "add_prefix_space"))) return "add_prefix_space";
    if (json_is_false(json_object_get(before, "use_regex"))) return "use_regex without the expression";
    if (json_is_true(json_object_get(model, "ignore_merges"))) return "ignore_merges";
    json_array_foreach(json_object_get(all, "added_tokens"), i, word) {
        for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
            if (json_is_true(json_object_get(word, flags[f]))) return flags[f];
    }
    return NULL;
}

static bool take_tokenizer(opening *o) {
    json_t *all = read_json(o), *model = json_object_get(all, "model"), *before = json_object_get(all, "pre_tokenizer");
    const char *unknown;
    bool good = false;
    if (!all)
        good = false;
    else if (!is_of_type(model, "BPE") || !is_of_type(before, "ByteLevel"))
        refuse(o, "it is no byte-level BPE (model BPE, pre_tokenizer ByteLevel)");
    else if ((unknown = unknown_part(all, model, before)))
        refuse(o, "%s is not known here", unknown);
    else
        good = take_vocabulary(o, json_object_get(model, "vocab"), json_object_get(all, "added_tokens")) &&
               take_merges(o, json_object_get(model, "merges"));
    json_decref(all);
    return good;
}

/* GPT-2's vocabulary has one word that is no text. */
static bool find_end_of_text(bpe *b) {
    static const char end[] = "<|endoftext|>";
    int32_t word = bpe_find(b, end, sizeof end - 1);
    if (word >= 0) b->specials[b->special_count++] = word;
    return true;
}

bpe *bpe_open(const char *folder, char why[BPE_WHY]) {
    struct stat about;
    opening o = {.b = calloc(1, sizeof(bpe)), .why = why};
    json_t *vocabulary = NULL;
    bool good = false;
    if (!o.b)
        no_memory(&o);
    else if (!name_file(&o, folder, "tokenizer.json"))
        refuse(&o, "the path is too long");
    else if (!stat(o.path, &about))
        good = take_tokenizer(&o);
    else if (name_file(&o, folder, "vocab.json") && (vocabulary = read_json(&o)))
        good = take_vocabulary(&o, vocabulary, NULL) && find_end_of_text(o.b) && name_file(&o, folder, "merges.txt") &&
               take_merges_text(&o);
    json_decref(vocabulary);
    if (good) return o.b;
    bpe_free(o.b);
    return NULL;
}
