/* The tokenizer of examples/models: the first byte chooses the files; vocab.json and merges.txt are divided by a NUL. What is accepted encodes the input itself, and back. */
#include <models/bpe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/berth-fuzz-bpe-XXXXXX";

static void write_part(const char *name, const uint8_t *data, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file)) abort();
}

static void clear_folder(void) {
    static const char *const names[] = {"tokenizer.json", "vocab.json", "merges.txt"};
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
}

static void leave(void) {
    clear_folder();
    rmdir(folder);
}

static void expect_back(const bpe *tokenizer, const uint8_t *data, size_t size) {
    int32_t *words;
    size_t count, at = 0, bytes;
    if (!bpe_encode(tokenizer, (const char *)data, size, &words, &count)) abort();
    for (size_t i = 0; i < count; i++, at += bytes) {
        const char *word = bpe_word(tokenizer, words[i], &bytes);
        if (!word || at + bytes > size || memcmp(word, data + at, bytes)) abort();
    }
    if (at != size) abort();
    free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool made;
    static bpe *good; /* of tests/models, which encodes whatever is not accepted */
    char why[BPE_WHY] = "";
    if (!made && (!mkdtemp(folder) || atexit(leave) || !(good = bpe_open("tests/models/gpt2", why)))) abort();
    made = true;
    if (!size) return 0;
    clear_folder();
    const uint8_t *rest = data + 1, *divided = memchr(rest, 0, size - 1);
    if (data[0] % 2)
        write_part("tokenizer.json", rest, size - 1);
    else {
        size_t first = divided ? (size_t)(divided - rest) : size - 1;
        write_part("vocab.json", rest, first);
        if (divided) write_part("merges.txt", divided + 1, size - 2 - first);
    }
    bpe *tokenizer = bpe_open(folder, why);
    if (!tokenizer && !*why) abort();
    expect_back(tokenizer ? tokenizer : good, data, size);
    bpe_free(tokenizer);
    return 0;
}
