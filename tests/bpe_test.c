// labels: valgrind
/* The tokenizer of examples/models: the words that Hugging Face's tokenizers give (tools/model_files.py), and files that are not to be trusted. */
#include <jansson.h>
#include <models/bpe.h>

#include "file_cases.h"

#define FOLDER BERTH_SOURCE_DIR "/tests/models"

static bpe *open_good(const char *folder) {
    char why[BPE_WHY] = "";
    bpe *tokenizer = bpe_open(folder, why);
    if (!tokenizer) fail_msg("%s", why);
    return tokenizer;
}

static void expect_tokens(const bpe *tokenizer, const char *text, const char *wanted) {
    char found[1024] = "", back[1024];
    size_t count, used = 0, at = 0, bytes;
    int32_t *words;
    assert_true(bpe_encode(tokenizer, text, strlen(text), &words, &count));
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(found + used, sizeof found - used, "%s%d", i ? " " : "", words[i]);
        const char *word = bpe_word(tokenizer, words[i], &bytes);
        assert_true(word && at + bytes < sizeof back);
        memcpy(back + at, word, bytes);
        at += bytes;
    }
    back[at] = '\0';
    free(words);
    assert_string_equal(found, wanted);
    assert_string_equal(back, text);
}

static void texts_become_the_words_of_hugging_face(void **state) {
    (void)state;
    json_t *texts = json_load_file(FOLDER "/texts.json", 0, NULL), *text;
    size_t i;
    char copy[4096];
    FILE *file = fopen(FOLDER "/tokenizer.json", "rb");
    assert_true(texts && file);
    write_bytes("tokenizer.json", copy, fread(copy, 1, sizeof copy, file));
    fclose(file);
    bpe *of_two = open_good(FOLDER "/gpt2"), *of_one = open_good(file_folder);
    assert_int_equal(bpe_count(of_two), 300);
    assert_int_equal(bpe_count(of_one), 300);
    assert_int_equal(bpe_find(of_one, "<|endoftext|>", 13), 0);
    json_array_foreach(texts, i, text) {
        const char *tokens = json_string_value(json_object_get(text, "tokens"));
        expect_tokens(of_two, json_string_value(json_object_get(text, "text")), tokens);
        expect_tokens(of_one, json_string_value(json_object_get(text, "text")), tokens);
    }
    expect_tokens(of_one, "", "");
    bpe_free(of_one);
    bpe_free(of_two);
    bpe_free(NULL);
    json_decref(texts);
}

/* A long word takes no longer than its bytes: in the square of them this would take hours. Bytes that are no UTF-8 are kept. */
static void any_bytes_are_encoded(void **state) {
    (void)state;
    enum { LENGTH = 1 << 20 };
    bpe *tokenizer = open_good(FOLDER "/gpt2");
    char *text = malloc(LENGTH);
    int32_t *words;
    size_t count, at = 0, bytes;
    assert_non_null(text);
    for (size_t i = 0; i < LENGTH; i++) text[i] = i < LENGTH / 2 ? "the"[i % 3] : (char)(i * 2654435761u >> 24);
    assert_true(bpe_encode(tokenizer, text, LENGTH, &words, &count));
    for (size_t i = 0; i < count; i++, at += bytes) {
        const char *word = bpe_word(tokenizer, words[i], &bytes);
        assert_memory_equal(word, text + at, bytes);
    }
    assert_int_equal(at, LENGTH);
    assert_null(bpe_word(tokenizer, -1, &bytes));
    assert_null(bpe_word(tokenizer, 300, &bytes));
    assert_int_equal(bpe_find(tokenizer, "no such word", 12), -1);
    free(words);
    free(text);
    bpe_free(tokenizer);
}

static void expect_refused(const char *vocabulary, const char *merges, const char *reason) {
    char why[BPE_WHY] = "";
    if (vocabulary) write_bytes("vocab.json", vocabulary, strlen(vocabulary));
    if (merges) write_bytes("merges.txt", merges, strlen(merges));
    bpe *tokenizer = bpe_open(file_folder, why);
    if (tokenizer) fail_msg("it was not refused: %s", reason);
    if (!strstr(why, reason)) fail_msg("\"%s\" does not say \"%s\"", why, reason);
}

/* The 256 bytes' words, and `more` behind them: `"ab": 256`. */
static const char *bytes_and(const char *more) {
    static char text[8192];
    json_t *all = json_load_file(FOLDER "/gpt2/vocab.json", 0, NULL), *kept = json_object(), *number;
    const char *word;
    size_t length;
    json_object_keylen_foreach(all, word, length, number) {
        json_int_t n = json_integer_value(number);
        if (n > 0 && n <= 256) json_object_setn_new(kept, word, length, json_integer(n - 1)); /* 0: <|endoftext|> */
    }
    char *dumped = json_dumps(kept, 0);
    snprintf(text, sizeof text, "%.*s%s%s}", (int)strlen(dumped) - 1, dumped, more ? ", " : "", more ? more : "");
    free(dumped);
    json_decref(kept);
    json_decref(all);
    return text;
}

static void bad_files_are_refused(void **state) {
    (void)state;
    expect_refused(NULL, NULL, "vocab.json: No such file");
    expect_refused("{\"a\": 0", NULL, "vocab.json: line 1, column");
    expect_refused("[]", NULL, "no object of words");
    expect_refused("{}", NULL, "a vocabulary of 0 words");
    expect_refused("{\"a\": 1}", NULL, "the number of \"a\" is not one of 0 to 0");
    expect_refused("{\"a\": -1}", NULL, "the number of \"a\"");
    expect_refused("{\"a\": 4000000000}", NULL, "the number of \"a\"");
    expect_refused("{\"a\": \"0\"}", NULL, "the number of \"a\"");
    expect_refused("{\"a\": 0, \"b\": 0}", NULL, "two words have the number 0");
    expect_refused("{\"a\": 0, \"a\": 1}", NULL, "duplicate object key");
    expect_refused("{\"\": 0}", NULL, "a word of 0 bytes");
    expect_refused("{\"a\": 0}", NULL, "no word is the byte 0");
    expect_refused("{\"\\u0120\": 0, \" \": 1}", NULL,
                   "are the same bytes"); /* a space, as it is and as it is written here */
    remove(path_of("merges.txt"));
    expect_refused(bytes_and(NULL), NULL, "merges.txt: No such file");
    expect_refused(bytes_and("\"ab\": 256"), "ab\n", "merge 1 has no space");
    expect_refused(bytes_and("\"ab\": 256"), "#version: 0.2\na b\nb c\n", "merge 2: \"b\" and \"c\"");
    expect_refused(bytes_and("\"ab\": 256"), "a  b\n", "merge 1: \"a\" and \" b\"");
    expect_refused(bytes_and("\"ab\": 256"), " b\n", "merge 1: \"\" and \"b\"");
    write_bytes("tokenizer.json", "{\"model\": {\"type\": \"WordPiece\"}}", 32);
    expect_refused(NULL, NULL, "no byte-level BPE");
    static const char *const unknown[][2] = {
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": true}", "add_prefix_space is not known"},
        {"{\"type\": \"ByteLevel\", \"use_regex\": false}", "use_regex"},
        {"{\"type\": \"ByteLevel\"}, \"normalizer\": {\"type\": \"NFC\"}", "normalizer is not known"},
        {"{\"type\": \"ByteLevel\"}, \"added_tokens\": [{\"content\": \"x\", \"lstrip\": true}]",
         "lstrip is not known"},
        {"{\"type\": \"Sequence\"}", "no byte-level BPE"}};
    char text[512];
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "{\"model\": {\"type\": \"BPE\"}, \"pre_tokenizer\": %s}", unknown[i][0]);
        write_bytes("tokenizer.json", text, strlen(text));
        expect_refused(NULL, NULL, unknown[i][1]);
    }
    static const char head[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": 1}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"";
    snprintf(text, sizeof text, "%s}, \"added_tokens\": [{}]}", head);
    write_bytes("tokenizer.json", text, strlen(text));
    expect_refused(NULL, NULL, "an added word without content");
    snprintf(text, sizeof text, "%s}, \"added_tokens\": [{\"content\": \"x\", \"id\": 9}]}", head);
    write_bytes("tokenizer.json", text, strlen(text));
    expect_refused(NULL, NULL, "tokenizer.json: a vocabulary of 1 words");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(texts_become_the_words_of_hugging_face),
        FILE_TEST(any_bytes_are_encoded),
        FILE_TEST(bad_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
