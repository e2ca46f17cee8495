// labels: valgrind
/* ResNet-18 and GPT-2 of examples/models with PyTorch's weights (tools/model_files.py): the logits and the words that PyTorch gives. */
#include <models/gpt2.h>
#include <models/resnet18.h>

#include "file_cases.h"

#define FOLDER BERTH_SOURCE_DIR "/tests/models"
enum { GIVEN = 5, PLACES = 24, WORDS = 300 };
static const double most = 1e-4; /* that logits may differ */

static bt_array *expected(const char *name) {
    bt_tensors *file;
    OK(bt_tensors_open(FOLDER "/expected.safetensors", &file));
    bt_array *x = bt_tensors_get(file, name);
    OK(bt_block(x));
    bt_tensors_close(file);
    return x;
}

static void expect_near(bt_array *x, bt_array *wanted) {
    double worst = bt_item(bt_max(bt_abs(bt_sub(x, wanted))));
    if (!(worst <= most)) fail_msg("it differs by %g: %s", worst, bt_error_text());
}

/* --- ResNet-18 -------------------------------------------------------------------------------------------------------- */

static void resnet18_gives_pytorchs_logits(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model;
        OK(resnet18_open(FOLDER "/resnet18.safetensors", &model));
        bt_array *logits = bt_apply(model, expected("images"));
        expect_near(logits, expected("classes"));
        expect_near(bt_apply(bt_fold_norms(model), expected("images")), expected("classes"));
        assert_true(bt_size(logits, 1) == 7);
    }
}

static void resnet18_is_saved_and_loaded(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model, *again;
        OK(resnet18_open(FOLDER "/resnet18.safetensors", &model));
        OK(resnet18_save(path_of("saved"), model));
        bt_tensors *saved, *original;
        OK(bt_tensors_open(path_of("saved"), &saved));
        OK(bt_tensors_open(FOLDER "/resnet18.safetensors", &original));
        assert_int_equal(bt_tensors_count(saved), bt_tensors_count(original));
        for (int i = 0; i < bt_tensors_count(original); i++) {
            const char *name = bt_tensors_name(original, i);
            assert_true(bt_item(bt_all(bt_eq(bt_tensors_get(saved, name), bt_tensors_get(original, name)))));
        }
        bt_tensors_close(saved);
        bt_tensors_close(original);
        OK(resnet18_open(path_of("saved"), &again));
        expect_near(bt_apply(again, expected("images")), expected("classes"));
    }
}

/* The loss of a new model falls, and its norms keep statistics. */
static void resnet18_learns(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = resnet18_new(2, 3, bt_key(0));
        bt_optimizer *optimizer = bt_sgd(0.05);
        bt_array *x = bt_normal(bt_key(1), BT_F32, 4, 3, 32, 32), *y = BT_ARRAY(int32_t, (4), 0, 1, 2, 0);
        double losses[2] = {0};
        bt_fit_report report;
        for (int i = 0; i < 2; i++) {
            bt_fit_options fit = {BT_FIT_INIT, .epochs = i ? 10 : 1, .batch = 4, .quiet = true};
            OK(bt_fit(model, optimizer, x, y, &fit, &report));
            losses[i] = report.last_loss;
        }
        assert_true(losses[1] < losses[0]);
    }
}

/* Writes the tensors of a file again, but the one named `leave`, which becomes `instead` or is left out, and `more` beside them. */
static const char *changed(const char *path, const char *leave, bt_array *instead, const char *more) {
    enum { MOST = 128 };
    const char *names[MOST];
    bt_array *arrays[MOST];
    int count = 0;
    bt_tensors *file;
    OK(bt_tensors_open(path, &file));
    for (int i = 0; i < bt_tensors_count(file); i++) {
        const char *name = bt_tensors_name(file, i);
        bool left = leave && !strcmp(name, leave);
        if (left && !instead) continue;
        names[count] = name;
        arrays[count++] = left ? instead : bt_tensors_get(file, name);
    }
    if (more) names[count] = more, arrays[count++] = bt_ones(BT_F32, 2);
    OK(bt_save(path_of("changed"), names, arrays, count, NULL));
    bt_tensors_close(file);
    return path_of("changed");
}

static void resnet18_refuses_other_files(void **state) {
    static const char path[] = FOLDER "/resnet18.safetensors", conv[] = "layer4.1.conv2.weight";
    (void)state;
    BT_SCOPE {
        bt_layer *model;
        expect_error(resnet18_open(changed(path, "layer1.0.bn1.running_var", NULL, NULL), &model), BT_INVALID_ARGUMENT,
                     "missing in the file: \"4.0.0.0.1.running_var\"");
        expect_error(resnet18_open(changed(path, NULL, NULL, "layer5.0.conv1.weight"), &model), BT_INVALID_ARGUMENT,
                     "not in the model: \"layer5.0.conv1.weight\"");
        expect_error(resnet18_open(changed(path, "conv1.weight", bt_ones(BT_F32, 2, 1, 7, 7), NULL), &model),
                     BT_INVALID_ARGUMENT, "F32[2, 1, 7, 7] in the file and F32[2, 3, 7, 7] in the model");
        expect_error(resnet18_open(changed(path, conv, bt_ones(BT_F32, 16, 16, 1, 1), NULL), &model),
                     BT_INVALID_ARGUMENT, "different");
        expect_error(resnet18_open(changed(path, conv, bt_ones(BT_F32, 0, 0, 3, 3), NULL), &model), BT_INVALID_ARGUMENT,
                     "different");
        expect_error(resnet18_open(FOLDER "/gpt2/model.safetensors", &model), BT_INVALID_ARGUMENT,
                     "not in the model: \"transformer.h.0.attn.c_attn.bias\"");
        expect_error(resnet18_open(path_of("absent"), &model), BT_NOT_FOUND, "absent");
        expect_error(resnet18_open(FOLDER "/texts.json", &model), BT_DATA_LOSS, "texts.json");
        OK(resnet18_open(changed(path, "bn1.num_batches_tracked", NULL, NULL), &model)); /* a count may be missing */
    }
}

/* --- GPT-2 ------------------------------------------------------------------------------------------------------------ */

static bt_layer *open_gpt2(gpt2_sizes *sizes) {
    bt_layer *model = NULL;
    OK(gpt2_sizes_in(FOLDER "/gpt2/model.safetensors", sizes));
    sizes->heads = 2; /* 16 / 64 would be 1 */
    OK(gpt2_open(FOLDER "/gpt2/model.safetensors", sizes, &model));
    return model;
}

static void gpt2_gives_pytorchs_logits(void **state) {
    (void)state;
    BT_SCOPE {
        gpt2_sizes sizes;
        bt_layer *model = open_gpt2(&sizes);
        assert_true(sizes.words == WORDS && sizes.places == PLACES && sizes.width == 16 && sizes.blocks == 2);
        expect_near(bt_apply(model, expected("words")), expected("logits"));
    }
}

static void gpt2_is_saved_and_loaded(void **state) {
    (void)state;
    BT_SCOPE {
        gpt2_sizes sizes;
        bt_layer *model = open_gpt2(&sizes), *again;
        OK(gpt2_save(path_of("saved"), model));
        bt_tensors *saved;
        OK(bt_tensors_open(path_of("saved"), &saved));
        OK(bt_block(bt_tensors_get(saved, "transformer.h.1.mlp.c_proj.weight")));
        bt_tensors_close(saved);
        OK(gpt2_open(path_of("saved"), &sizes, &again));
        expect_near(bt_apply(again, expected("words")), expected("logits"));
    }
}

/* In steps of all lengths, the cache gives what one pass over all words gives. */
static void the_cache_changes_nothing(void **state) {
    (void)state;
    BT_SCOPE {
        gpt2_sizes sizes;
        bt_layer *model = open_gpt2(&sizes);
        bt_array *all = bt_apply(model, expected("words"));
        int32_t words[12];
        OK(bt_read(expected("words"), words, sizeof words));
        for (int first = 1; first <= 12; first += 3) {
            gpt2_reader *reader = gpt2_reader_new(model, &sizes);
            assert_non_null(reader);
            for (int at = 0; at < 12;)
                BT_SCOPE {
                    bt_array *logits;
                    int count = !at ? first : at + 2 <= 12 && first == 4 ? 2 : 1;
                    OK(gpt2_read(reader, words + at, count, &logits));
                    at += count;
                    expect_near(logits, bt_flatten(bt_index(all, 1, at - 1), 0));
                }
            gpt2_reader_forget(reader, 99);
            gpt2_reader_forget(reader, -1);
            gpt2_reader_forget(reader, 2); /* and reads on from there */
            for (int at = 2; at < 4; at++)
                BT_SCOPE {
                    bt_array *logits;
                    OK(gpt2_read(reader, words + at, 1, &logits));
                    expect_near(logits, bt_flatten(bt_index(all, 1, at), 0));
                }
            gpt2_reader_free(reader);
        }
    }
}

static void write_words(const gpt2_choice *choice, int64_t end, int32_t words[PLACES]) {
    gpt2_sizes sizes;
    bt_layer *model = open_gpt2(&sizes);
    int64_t written = 0;
    OK(bt_read(bt_slice_axis(expected("words"), 1, 0, GIVEN, 1), words, GIVEN * sizeof *words));
    gpt2_reader *reader = gpt2_reader_new(model, &sizes);
    assert_non_null(reader);
    OK(gpt2_write(reader, choice, words, GIVEN, end, NULL, NULL, &written));
    assert_int_equal(written, end);
    gpt2_reader_free(reader);
}

static void the_likeliest_words_are_pytorchs(void **state) {
    (void)state;
    BT_SCOPE {
        int32_t words[PLACES], wanted[PLACES];
        gpt2_choice likely = {0};
        OK(bt_read(expected("written"), wanted, sizeof wanted));
        write_words(&likely, PLACES, words);
        assert_memory_equal(words, wanted, sizeof wanted);
    }
}

static void draws_depend_on_the_key(void **state) {
    (void)state;
    BT_SCOPE {
        int32_t one[PLACES], same[PLACES], other[PLACES], best[PLACES], likely[PLACES];
        write_words(&(gpt2_choice){.temperature = 2, .key = bt_key(1)}, PLACES, one);
        write_words(&(gpt2_choice){.temperature = 2, .key = bt_key(1)}, PLACES, same);
        write_words(&(gpt2_choice){.temperature = 2, .key = bt_key(2)}, PLACES, other);
        write_words(&(gpt2_choice){.temperature = 2, .best = 1, .key = bt_key(3)}, PLACES, best);
        write_words(&(gpt2_choice){0}, PLACES, likely);
        assert_memory_equal(one, same, sizeof one);
        assert_memory_not_equal(one, other, sizeof one);
        assert_memory_equal(best, likely, sizeof best);
    }
}

/* On a device that is not the default one, where all is computed. */
static void words_are_written_where_the_model_is(void **state) {
    (void)state;
    OK(bt_shutdown());
    OK(bt_set_devices("sim:gpu*2"));
    BT_SCOPE {
        int32_t words[PLACES], wanted[PLACES];
        bt_memory_info info = BT_MEMORY_INFO_INIT;
        bt_device *other;
        gpt2_sizes sizes;
        int64_t written;
        bt_layer *model = NULL;
        OK(bt_device_find("gpu:0", &other));
        BT_ON("cpu") OK(bt_read(expected("written"), wanted, sizeof wanted));
        memcpy(words, wanted, GIVEN * sizeof *words);
        BT_ON("gpu:1") model = open_gpt2(&sizes);
        gpt2_reader *reader = gpt2_reader_new(model, &sizes);
        assert_non_null(reader);
        OK(gpt2_write(reader, &(gpt2_choice){0}, words, GIVEN, PLACES, NULL, NULL, &written));
        gpt2_reader_free(reader);
        assert_memory_equal(words, wanted, sizeof wanted);
        OK(bt_memory(other, &info));
        assert_true(info.peak < 4096); /* words as they are given, and no weights or caches */
    }
    OK(bt_shutdown());
    OK(bt_set_devices(""));
}

static bool stop_at_third(int32_t word, void *data) { return ++*(int *)data < 3; }

static void a_reader_refuses_what_it_cannot_read(void **state) {
    (void)state;
    BT_SCOPE {
        gpt2_sizes sizes;
        bt_layer *model = open_gpt2(&sizes);
        int32_t words[PLACES + 1] = {0}, bad = WORDS, below = -1;
        bt_array *logits = NULL;
        int64_t written;
        int seen = 0;
        gpt2_reader *reader = gpt2_reader_new(model, &sizes);
        assert_int_equal(gpt2_read(reader, &bad, 1, &logits), BT_INVALID_ARGUMENT);
        assert_int_equal(gpt2_read(reader, &below, 1, &logits), BT_INVALID_ARGUMENT);
        assert_int_equal(gpt2_read(reader, words, 0, &logits), BT_OUT_OF_RANGE);
        assert_int_equal(gpt2_read(reader, words, PLACES + 1, &logits), BT_OUT_OF_RANGE);
        OK(gpt2_read(reader, words, PLACES - 1, &logits));
        assert_int_equal(gpt2_read(reader, words, 2, &logits), BT_OUT_OF_RANGE);
        OK(gpt2_read(reader, words, 1, &logits));
        gpt2_reader_free(reader);
        gpt2_reader_free(NULL);
        reader = gpt2_reader_new(model, &sizes);
        OK(gpt2_write(reader, &(gpt2_choice){0}, words, 1, PLACES, stop_at_third, &seen, &written));
        assert_int_equal(written, 4);
        gpt2_reader_free(reader);
        expect_poison(bt_apply(model, bt_zeros(BT_I32, 1, PLACES + 1)), BT_INVALID_ARGUMENT, "do not broadcast");
    }
}

static void gpt2_refuses_other_files(void **state) {
    static const char path[] = FOLDER "/gpt2/model.safetensors";
    (void)state;
    BT_SCOPE {
        gpt2_sizes sizes, other;
        bt_layer *model = open_gpt2(&sizes);
        expect_error(gpt2_open(changed(path, "transformer.h.1.ln_2.bias", NULL, NULL), &sizes, &model),
                     BT_INVALID_ARGUMENT, "missing in the file: \"h.1.ln_2.bias\"");
        expect_error(gpt2_open(changed(path, NULL, NULL, "transformer.h.2.ln_1.bias"), &sizes, &model),
                     BT_INVALID_ARGUMENT, "not in the model: \"h.2.ln_1.bias\"");
        expect_error(gpt2_open(changed(path, "transformer.wte.weight", bt_ones(BT_F32, 200, 16), NULL), &sizes, &model),
                     BT_INVALID_ARGUMENT, "F32[200, 16] in the file and F32[300, 16] in the model");
        expect_error(gpt2_open(changed(path, NULL, NULL, "lm_head.weight"), &sizes, &model), BT_INVALID_ARGUMENT,
                     "not in the model: \"lm_head.weight\"");
        expect_error(gpt2_open(changed(path, NULL, NULL, "wte.weight"), &sizes, &model), BT_INVALID_ARGUMENT,
                     "the same name");
        OK(gpt2_sizes_in(FOLDER "/resnet18.safetensors", &other));
        assert_true(!other.words && !other.places && !other.width && !other.blocks && other.heads == 1);
        expect_error(gpt2_open(FOLDER "/resnet18.safetensors", &other, &model), BT_INVALID_ARGUMENT,
                     "missing in the file: \"wte.weight\"");
        expect_error(gpt2_sizes_in(path_of("absent"), &sizes), BT_NOT_FOUND, "absent");
        OK(gpt2_open(changed(path, NULL, NULL, "transformer.h.0.attn.bias"), &sizes,
                     &model)); /* the mask of old files */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(resnet18_gives_pytorchs_logits),
        FILE_TEST(resnet18_is_saved_and_loaded),
        FILE_TEST(resnet18_learns),
        FILE_TEST(resnet18_refuses_other_files),
        FILE_TEST(gpt2_gives_pytorchs_logits),
        FILE_TEST(gpt2_is_saved_and_loaded),
        FILE_TEST(the_cache_changes_nothing),
        FILE_TEST(the_likeliest_words_are_pytorchs),
        FILE_TEST(draws_depend_on_the_key),
        FILE_TEST(words_are_written_where_the_model_is),
        FILE_TEST(a_reader_refuses_what_it_cannot_read),
        FILE_TEST(gpt2_refuses_other_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
