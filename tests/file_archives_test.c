// labels: threads valgrind
/* .npz, .pt and safetensors in shards: files of the real NumPy and PyTorch (tests/fuzz/corpus/zip, by tools/archive_files.py), what we write,
 * and damage. tests/exchange compares with the programs themselves. */
#include "file_cases.h"

#include <complex.h>
#include <pthread.h>

static const char *corpus_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", BERTH_SOURCE_DIR, name);
    return path;
}

static bt_tensors *open_corpus(const char *name) {
    bt_tensors *tensors;
    OK(bt_tensors_open(corpus_path(name), &tensors));
    return tensors;
}

static void expect_metadata(const bt_tensors *tensors, const char *key, const char *value) {
    const char *text = bt_tensors_metadata(tensors, key);
    if ((text == NULL) != (value == NULL) || (text && strcmp(text, value)))
        fail_msg("%s: %s", key, text ? text : "absent");
}

/* --- .npz ----------------------------------------------------------------------------------------------------------- */

static void npz_of_numpy_is_read(void **state) {
    (void)state;
    static const char *const files[] = {"zip/stored.npz", "zip/deflated.npz"};
    for (int i = 0; i < 2; i++)
        BT_SCOPE {
            bt_tensors *tensors = open_corpus(files[i]);
            assert_int_equal(bt_tensors_count(tensors), 5);
            assert_string_equal(bt_tensors_name(tensors, 1), "b/c");
            assert_null(bt_tensors_name(tensors, 5));
            expect_same(bt_tensors_get(tensors, "a"), BT_ARRAY(float, (2, 3), 0, 1, 2, 3, 4, 5));
            expect_same(bt_tensors_get(tensors, "b/c"), BT_ARRAY(int16_t, (4), 0, 1, 2, 3));
            expect_same(bt_tensors_get(tensors, "turned"), BT_ARRAY(int32_t, (3, 2), 0, 3, 1, 4, 2, 5));
            expect_same(bt_tensors_get(tensors, "one"), bt_full(0.5, BT_F64));
            expect_same(bt_tensors_get(tensors, "none"), bt_zeros(BT_BOOL, 2, 0));
            expect_poison(bt_tensors_get(tensors, "a.npy"), BT_NOT_FOUND, "no tensor \"a.npy\"");
            expect_metadata(tensors, "a", NULL);
            bt_tensors_close(tensors);
        }
}

static void odd_zips_are_read(void **state) {
    (void)state;
    static const char *const files[] = {"zip/comment.npz", "zip/zip64.npz"};
    for (int i = 0; i < 2; i++)
        BT_SCOPE {
            bt_tensors *tensors = open_corpus(files[i]);
            expect_same(bt_tensors_get(tensors, "x"), BT_ARRAY(uint8_t, (3), 0, 1, 2));
            bt_tensors_close(tensors);
        }
    bt_tensors *tensors = open_corpus("zip/empty.npz");
    assert_int_equal(bt_tensors_count(tensors), 0);
    bt_tensors_close(tensors);
}

static void other_zips_are_refused(void **state) {
    (void)state;
    bt_tensors *tensors;
    expect_error(bt_tensors_open(corpus_path("zip/other.zip"), &tensors), BT_DATA_LOSS, "member \"readme.txt\"");
    BT_SCOPE {
        tensors = open_corpus("zip/bzip2.npz");
        expect_poison(bt_tensors_get(tensors, "x"), BT_UNIMPLEMENTED, "method 12");
        bt_tensors_close(tensors);
        tensors = open_corpus("zip/objects.npz");
        expect_poison(bt_tensors_get(tensors, "a"), BT_UNIMPLEMENTED, "objects.npz: a.npy: byte ");
        expect_poison(bt_tensors_get(tensors, "a"), BT_UNIMPLEMENTED, "dtype \"|O\" (Python objects");
        bt_tensors_close(tensors);
    }
}

static void unreadable_members_are_described(void **state) {
    (void)state;
    static const char *const dtypes[] = {"|O", "[('?', '<f4'), ('b', '|i1', (2,))]", "I8", "<U2", "U8"};
    BT_SCOPE {
        bt_tensors *tensors = open_corpus("zip/odd.npz");
        assert_int_equal(bt_tensors_count(tensors), 5);
        for (int i = 0; i < 5; i++) {
            bt_tensor_info info = BT_TENSOR_INFO_INIT, again = BT_TENSOR_INFO_INIT;
            OK(bt_tensors_describe(tensors, i, &info));
            assert_string_equal(info.dtype_name, dtypes[i]);
            assert_int_equal(info.dtype, i == 2 ? BT_I8 : i == 4 ? BT_U8 : BT_DTYPE_COUNT);
            assert_int_equal(info.rank, i == 2 ? 9 : 1);
            OK(bt_tensors_describe(tensors, i, &again));
            assert_ptr_equal(again.dtype_name, info.dtype_name);
            if (i != 4)
                expect_poison(bt_tensors_get(tensors, info.name), BT_UNIMPLEMENTED,
                              i == 2 ? "more than 8 dimensions" : dtypes[i]);
        }
        expect_same(bt_tensors_get(tensors, "x"), BT_ARRAY(uint8_t, (3), 0, 1, 2));
        bt_tensors_close(tensors);
    }
}

static void every_dtype_and_shape_comes_back(void **state) {
    (void)state;
    static const bt_shape shapes[] = {{0, {0}}, {1, {5}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 1}}};
    enum {
        SHAPES = sizeof shapes / sizeof *shapes,
        DTYPES = BT_F64 + 1,
        COUNT = SHAPES * DTYPES
    }; /* float8_test.c: what it has not */
    char names[COUNT][64];
    const char *pointers[COUNT];
    for (int compressed = 0; compressed < 2; compressed++)
        BT_SCOPE {
            bt_array *arrays[COUNT];
            bt_tensors *tensors;
            for (int i = 0; i < COUNT; i++) {
                snprintf(names[i], sizeof names[i], "%s/%d \xc3\xa9", bt_dtype_name(i % DTYPES), i / DTYPES);
                pointers[i] = names[i];
                arrays[i] = numbered((bt_dtype)(i % DTYPES), shapes[i / DTYPES]);
            }
            OK(bt_save_npz(path_of("all.npz"), pointers, arrays, COUNT, compressed));
            OK(bt_tensors_open(path_of("all.npz"), &tensors));
            assert_int_equal(bt_tensors_count(tensors), COUNT);
            for (int i = 0; i < COUNT; i++) {
                assert_string_equal(bt_tensors_name(tensors, i), names[i]);
                expect_same(bt_tensors_get(tensors, names[i]), arrays[i]);
            }
            bt_tensors_close(tensors);
        }
    expect_files(1);
}

/* More than the buffers of the zip reader and writer hold, and a whole that deflates to less than a tenth. */
static void large_arrays_are_deflated_in_parts(void **state) {
    (void)state;
    static const char *const names[] = {"noise", "same"};
    BT_SCOPE {
        bt_array *arrays[] = {bt_uniform(bt_key(1), BT_F32, 300, 500), bt_full(7, BT_I64, 100000)};
        bt_tensors *tensors;
        OK(bt_save_npz(path_of("x.npz"), names, arrays, 2, true));
        OK(bt_tensors_open(path_of("x.npz"), &tensors));
        for (int i = 0; i < 2; i++) expect_same(bt_tensors_get(tensors, names[i]), arrays[i]);
        bt_tensors_close(tensors);
        struct stat stat_;
        assert_int_equal(stat(path_of("x.npz"), &stat_), 0);
        assert_in_range(stat_.st_size, 100000, 680000);
    }
}

static void bad_npz_arguments_write_nothing(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 2), *two[] = {x, x}, *missing[] = {x, NULL};
        bt_array *bad[] = {bt_reshape(bt_zeros(BT_F32, 2), 3)};
        static const char *const same[] = {"a", "a"}, *const lacks[] = {"a", NULL}, *const fine[] = {"a", "b"};
        expect_error(bt_save_npz(path_of("x"), same, two, 2, false), BT_INVALID_ARGUMENT, "\"a\" is given twice");
        expect_error(bt_save_npz(path_of("x"), lacks, two, 2, false), BT_INVALID_ARGUMENT, "name 2 of 2 is NULL");
        expect_error(bt_save_npz(path_of("x"), fine, missing, 2, false), BT_INVALID_ARGUMENT, "array of \"b\" is NULL");
        expect_error(bt_save_npz(path_of("x"), fine, bad, 1, false), BT_INVALID_ARGUMENT, "reshape");
        expect_error(bt_save_npz(path_of("x"), fine, (bt_array *[]){bt_input(BT_F32, -1)}, 1, false),
                     BT_FAILED_PRECONDITION, "function's input");
        expect_error(bt_save_npz(path_of("x"), NULL, two, 2, false), BT_INVALID_ARGUMENT, "names NULL");
        expect_error(bt_save_npz(path_of("x"), fine, two, -1, false), BT_INVALID_ARGUMENT, "-1 arrays");
        expect_error(bt_save_npz(NULL, fine, two, 2, false), BT_INVALID_ARGUMENT, "path is NULL");
        expect_error(bt_save_npz(path_of("none/x"), fine, two, 2, false), BT_NOT_FOUND, "there is no folder");
    }
    expect_files(0);
}

/* Every cut and every flipped bit is read or refused; what is read has the elements that were written. */
static void damaged_archives_are_refused(void **state) {
    (void)state;
    static const char *const files[] = {"zip/deflated.npz", "zip/zip64.npz", "zip/views.pt"};
    for (int f = 0; f < 3; f++) {
        unsigned char bytes[4096];
        FILE *file = fopen(corpus_path(files[f]), "rb");
        assert_non_null(file);
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        bt_tensors *tensors;
        for (size_t cut = 0; cut < size; cut++) {
            write_bytes("bad", bytes, cut);
            assert_int_equal(bt_tensors_open(path_of("bad"), &tensors), BT_DATA_LOSS);
        }
        for (size_t bit = 0; bit < size * 8; bit += 7)
            BT_SCOPE {
                bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
                write_bytes("bad", bytes, size);
                bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
                bt_status status = bt_tensors_open(path_of("bad"), &tensors);
                if (status != BT_OK && status != BT_DATA_LOSS && status != BT_UNIMPLEMENTED)
                    fail_msg("%s, bit %zu: %s", files[f], bit, bt_error_text());
                for (int i = 0; status == BT_OK && i < bt_tensors_count(tensors); i++)
                    (void)!bt_block(bt_tensors_get(tensors, bt_tensors_name(tensors, i)));
                bt_tensors_close(tensors);
            }
    }
}

/* --- .pt ------------------------------------------------------------------------------------------------------------ */

static void checkpoints_of_pytorch_are_read(void **state) {
    (void)state;
    static const char *const names[] = {"model.weight", "model.bias", "optimizer.state.0.step"};
    BT_SCOPE {
        bt_tensors *tensors = open_corpus("zip/checkpoint.pt");
        assert_int_equal(bt_tensors_count(tensors), 3);
        for (int i = 0; i < 3; i++) assert_string_equal(bt_tensors_name(tensors, i), names[i]);
        expect_same(bt_tensors_get(tensors, "model.weight"), BT_ARRAY(float, (1, 2), 1, 2));
        expect_same(bt_tensors_get(tensors, "optimizer.state.0.step"), bt_full(1, BT_F32));
        expect_metadata(tensors, "epoch", "3");
        expect_metadata(tensors, "note", "text");
        expect_metadata(tensors, "done", "true");
        expect_metadata(tensors, "none", NULL);
        expect_metadata(tensors, "big", NULL);
        expect_metadata(tensors, "below", "-1099511627776");
        expect_metadata(tensors, "optimizer.param_groups.0.lr", "0.1");
        expect_metadata(tensors, "optimizer.param_groups.0.betas.1", "1e-30");
        expect_metadata(tensors, "model.weight", NULL);
        bt_tensors_close(tensors);
    }
}

static void strides_and_views_of_pytorch_are_read(void **state) {
    (void)state;
    BT_SCOPE {
        bt_tensors *tensors = open_corpus("zip/views.pt");
        expect_same(bt_tensors_get(tensors, "base"), BT_ARRAY(float, (12), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
        expect_same(bt_tensors_get(tensors, "part"), BT_ARRAY(float, (6), 3, 4, 5, 6, 7, 8));
        expect_same(bt_tensors_get(tensors, "turned"), BT_ARRAY(float, (4, 3), 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
        expect_same(bt_tensors_get(tensors, "repeated"), BT_ARRAY(float, (2, 3), 0, 0, 0, 1, 1, 1));
        bt_tensors_close(tensors);
        tensors = open_corpus("zip/windows.pt");
        expect_poison(bt_tensors_get(tensors, "a"), BT_UNIMPLEMENTED, "overlap");
        bt_tensors_close(tensors);
        tensors = open_corpus("zip/rank9.pt");
        expect_poison(bt_tensors_get(tensors, "a"), BT_UNIMPLEMENTED, "9 dimensions");
        bt_tensors_close(tensors);
    }
}

static void dtypes_and_containers_of_pytorch_are_read(void **state) {
    (void)state;
    BT_SCOPE {
        bt_tensors *tensors = open_corpus("zip/dtypes.pt");
        assert_int_equal(bt_tensors_count(tensors), BT_F64 + 1);
        for (int dtype = 0; dtype <= BT_F64; dtype++)
            expect_same(bt_tensors_get(tensors, bt_dtype_name(dtype)),
                        bt_cast(BT_ARRAY(int32_t, (2), 0, 1), (bt_dtype)dtype));
        bt_tensors_close(tensors);
        tensors = open_corpus("zip/lone.pt");
        assert_int_equal(bt_tensors_count(tensors), 1);
        expect_same(bt_tensors_get(tensors, ""), BT_ARRAY(int8_t, (1, 1), 7));
        bt_tensors_close(tensors);
        tensors = open_corpus("zip/parameters.pt");
        expect_same(bt_tensors_get(tensors, "0"), bt_ones(BT_F32, 2));
        expect_same(bt_tensors_get(tensors, "1.0"), bt_zeros(BT_F32, 0, 3));
        bt_tensors_close(tensors);
    }
}

/* PyTorch does not compute conjugates, and negatives of imaginary parts: bits say that they are due. */
static void lazy_conjugates_and_negatives_of_pytorch_are_read(void **state) {
    (void)state;
    BT_SCOPE {
        bt_tensors *tensors = open_corpus("zip/lazy.pt");
        expect_same(bt_tensors_get(tensors, "conj"), BT_ARRAY(float _Complex, (2), 1 - 2 * I, 3 + 4 * I));
        expect_same(bt_tensors_get(tensors, "neg"), BT_ARRAY(float, (2), -2, 4));
        expect_same(bt_tensors_get(tensors, "both"), BT_ARRAY(float _Complex, (2), -1 + 2 * I, -3 - 4 * I));
        expect_same(bt_tensors_get(tensors, "repeated"), BT_ARRAY(float _Complex, (2), 3 + 4 * I, 3 + 4 * I));
        bt_tensors_close(tensors);
        expect_error(bt_tensors_open(corpus_path("zip/other_bits.pt"), &tensors), BT_UNIMPLEMENTED,
                     "a tensor with the metadata \"odds\"");
    }
}

static void float8_of_pytorch_is_read(void **state) {
    (void)state;
    BT_SCOPE {
        static const bt_dtype dtypes[] = {BT_F8E4M3, BT_F8E5M2};
        bt_tensors *tensors = open_corpus("zip/float8.pt");
        for (int i = 0; i < 2; i++)
            expect_same(bt_tensors_get(tensors, bt_dtype_name(dtypes[i])),
                        bt_cast(BT_ARRAY(float, (2), 0.5f, -2), dtypes[i]));
        bt_tensors_close(tensors);
    }
}

static void other_pickles_are_refused_by_name(void **state) {
    (void)state;
    bt_tensors *tensors;
    expect_error(bt_tensors_open(corpus_path("zip/own.pt"), &tensors), BT_UNIMPLEMENTED,
                 "it needs \"numpy._core.multiarray._reconstruct\"");
    expect_error(bt_tensors_open(corpus_path("zip/protocol4.pt"), &tensors), BT_UNIMPLEMENTED, "protocol 4");
    expect_error(bt_tensors_open(corpus_path("zip/legacy.pt"), &tensors), BT_DATA_LOSS, "before version 1.6");
    expect_error(bt_tensors_open(corpus_path("zip/big_endian.pt"), &tensors), BT_UNIMPLEMENTED, "big-endian");
    assert_null(tensors);
}

static void models_are_loaded_from_every_archive(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = bt_dense_from(bt_zeros(BT_F32, 2, 3), bt_zeros(BT_F32, 3), NULL);
        bt_shared *parameters[2];
        assert_int_equal(bt_parameters(model, parameters, 2), 2);
        const char *names[] = {bt_shared_name(parameters[0]), bt_shared_name(parameters[1])};
        bt_array *arrays[] = {bt_ones(BT_F32, 2, 3), bt_full(2, BT_F32, 3)};
        OK(bt_save_npz(path_of("m.npz"), names, arrays, 2, true));
        OK(bt_load_model(path_of("m.npz"), model));
        expect_same(bt_value(parameters[0]), arrays[0]);
        arrays[1] = bt_full(3, BT_F32, 3);
        OK(bt_save_shards(path_of("m.safetensors.index.json"), names, arrays, 2, NULL, 1));
        OK(bt_load_model(path_of("m.safetensors.index.json"), model));
        expect_same(bt_value(parameters[1]), arrays[1]);
        arrays[0] = bt_ones(BT_I8, 3, 2);
        OK(bt_save_npz(path_of("m.npz"), names, arrays, 2, false));
        expect_error(bt_load_model(path_of("m.npz"), model), BT_INVALID_ARGUMENT,
                     "is I8[3, 2] in the file and F32[2, 3]");
        expect_error(bt_load_model(corpus_path("zip/checkpoint.pt"), model), BT_INVALID_ARGUMENT, "\"model.weight\"");
    }
}

/* --- shards --------------------------------------------------------------------------------------------------------- */

static void shards_come_back(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d"}, *const metadata[] = {"format", "pt", NULL};
    BT_SCOPE {
        bt_array *arrays[] = {bt_ones(BT_F32, 2), bt_full(2, BT_I8, 9), bt_zeros(BT_F64, 0), bt_full(3, BT_U8, 8)};
        const char *path = path_of("m.safetensors.index.json");
        OK(bt_save_shards(path, names, arrays, 4, metadata, 8));
        expect_files(4);
        static const char index[] =
            "{\n  \"metadata\": {\n    \"format\": \"pt\",\n    \"total_size\": 25\n  },\n  \"weight_map\": {\n"
            "    \"a\": \"m-00001-of-00003.safetensors\",\n    \"b\": \"m-00002-of-00003.safetensors\",\n"
            "    \"c\": \"m-00003-of-00003.safetensors\",\n    \"d\": \"m-00003-of-00003.safetensors\"\n  }\n}\n";
        expect_bytes("m.safetensors.index.json", index, sizeof index - 1);
        bt_tensors *tensors;
        OK(bt_tensors_open(path, &tensors));
        assert_int_equal(bt_tensors_count(tensors), 4);
        for (int i = 3; i >= 0; i--) expect_same(bt_tensors_get(tensors, names[i]), arrays[i]);
        expect_metadata(tensors, "format", "pt");
        expect_metadata(tensors, "total_size", NULL);
        assert_string_equal(bt_tensors_metadata_name(tensors, 0), "format");
        assert_null(bt_tensors_metadata_name(tensors, 1));
        bt_tensors_close(tensors);
        OK(bt_tensors_open(path_of("m-00003-of-00003.safetensors"), &tensors));
        expect_metadata(tensors, "format", "pt");
        bt_tensors_close(tensors);
    }
}

static void shards_are_opened_when_asked_for(void **state) {
    (void)state;
    BT_SCOPE {
        static const char *const names[] = {"a", "b"};
        bt_array *arrays[] = {bt_ones(BT_F32, 2), bt_ones(BT_F32, 3)};
        bt_tensors *tensors;
        OK(bt_save_shards(path_of("m.safetensors.index.json"), names, arrays, 2, NULL, 1));
        assert_int_equal(unlink(path_of("m-00002-of-00002.safetensors")), 0);
        OK(bt_tensors_open(path_of("m.safetensors.index.json"), &tensors));
        expect_same(bt_tensors_get(tensors, "a"), arrays[0]);
        expect_poison(bt_tensors_get(tensors, "b"), BT_NOT_FOUND, "m-00002-of-00002.safetensors: cannot be opened");
        write_tensors("m-00002-of-00002.safetensors", "{}", 2, 0);
        expect_poison(bt_tensors_get(tensors, "b"), BT_DATA_LOSS,
                      "m-00002-of-00002.safetensors holds no tensor \"b\", which");
        bt_tensors_close(tensors);
    }
}

typedef struct reader {
    bt_tensors *tensors;
    int first, wrong;
} reader;

static void *read_in_a_thread(void *argument) {
    reader *r = argument;
    for (int i = 0; i < 24; i++)
        BT_SCOPE {
            int index = (r->first + i) % bt_tensors_count(r->tensors);
            float elements[4];
            bt_array *x = bt_tensors_get(r->tensors, bt_tensors_name(r->tensors, index));
            r->wrong += bt_read(x, elements, sizeof elements) != BT_OK || elements[3] != (float)index;
        }
    return NULL;
}

/* All begin with different shards, which are not open yet. */
static void threads_read_one_archive(void **state) {
    (void)state;
    enum { COUNT = 8, THREADS = 4 };
    static const char *const names[COUNT] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    BT_SCOPE {
        bt_array *arrays[COUNT];
        for (int i = 0; i < COUNT; i++) arrays[i] = bt_full(i, BT_F32, 4);
        OK(bt_save_shards(path_of("m.safetensors.index.json"), names, arrays, COUNT, NULL, 32));
        OK(bt_save_npz(path_of("m.npz"), names, arrays, COUNT, true));
    }
    for (int a = 0; a < 2; a++) {
        bt_tensors *tensors;
        pthread_t threads[THREADS];
        reader readers[THREADS];
        OK(bt_tensors_open(path_of(a ? "m.npz" : "m.safetensors.index.json"), &tensors));
        for (int i = 0; i < THREADS; i++) {
            readers[i] = (reader){tensors, 2 * i, 0};
            assert_int_equal(pthread_create(&threads[i], NULL, read_in_a_thread, &readers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(readers[i].wrong, 0);
        }
        bt_tensors_close(tensors);
    }
}

static void bad_indices_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"{\"weight_map\": {}", "no JSON"},
        {"{\"a\": 1}   ", "without a weight_map"},
        {"{\"weight_map\": []}", "without a weight_map"},
        {"{\"weight_map\": {\"a\": 1}}", "for tensor \"a\" no file"},
        {"{\"weight_map\": {\"a\": \"../x\"}}", "for tensor \"a\" no file"},
        {"{\"weight_map\": {\"a\": \"..\"}}", "for tensor \"a\" no file"},
        {" {\"weight_map\": {\"a\": \"\"}}", "for tensor \"a\" no file"},
        {"{\"weight_map\": {\"a\": \"x\", \"a\": \"y\"}}", "byte "},
    };
    bt_tensors *tensors;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes("index", cases[i].text, strlen(cases[i].text));
        expect_error(bt_tensors_open(path_of("index"), &tensors), BT_DATA_LOSS, cases[i].reason);
    }
}

static void bad_shard_arguments_write_nothing(void **state) {
    (void)state;
    BT_SCOPE {
        static const char *const names[] = {"a", "a"};
        bt_array *x = bt_ones(BT_F32, 2), *two[] = {x, x};
        const char *path = path_of("m.safetensors.index.json");
        expect_error(bt_save_shards(path, names, two, 2, NULL, 1), BT_INVALID_ARGUMENT, "given twice");
        expect_error(bt_save_shards(path, names, two, 1, NULL, 0), BT_INVALID_ARGUMENT, "0 bytes");
        expect_error(bt_save_shards(path, names, two, 1, (const char *[]){"total_size", "8", NULL}, 1),
                     BT_INVALID_ARGUMENT, "\"total_size\" belongs to the format");
        expect_error(bt_save_shards(path, names, two, 1, (const char *[]){"k", NULL}, 1), BT_INVALID_ARGUMENT, "pairs");
        expect_error(bt_save_shards(path, names, (bt_array *[]){bt_input(BT_F32, -1)}, 1, NULL, 1),
                     BT_FAILED_PRECONDITION, "function's input");
        expect_error(bt_save_shards(path_of("m.safetensors"), names, two, 1, NULL, 1), BT_INVALID_ARGUMENT, "ends in");
        expect_error(bt_save_shards(NULL, names, two, 1, NULL, 1), BT_INVALID_ARGUMENT, "ends in");
        expect_error(bt_save_shards(path_of("none/m.safetensors.index.json"), names, two, 1, NULL, 1), BT_NOT_FOUND,
                     "no folder");
    }
    expect_files(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(npz_of_numpy_is_read),
        FILE_TEST(odd_zips_are_read),
        FILE_TEST(other_zips_are_refused),
        FILE_TEST(unreadable_members_are_described),
        FILE_TEST(every_dtype_and_shape_comes_back),
        FILE_TEST(large_arrays_are_deflated_in_parts),
        FILE_TEST(bad_npz_arguments_write_nothing),
        FILE_TEST(damaged_archives_are_refused),
        FILE_TEST(checkpoints_of_pytorch_are_read),
        FILE_TEST(strides_and_views_of_pytorch_are_read),
        FILE_TEST(dtypes_and_containers_of_pytorch_are_read),
        FILE_TEST(lazy_conjugates_and_negatives_of_pytorch_are_read),
        FILE_TEST(float8_of_pytorch_is_read),
        FILE_TEST(other_pickles_are_refused_by_name),
        FILE_TEST(models_are_loaded_from_every_archive),
        FILE_TEST(shards_come_back),
        FILE_TEST(shards_are_opened_when_asked_for),
        FILE_TEST(threads_read_one_archive),
        FILE_TEST(bad_indices_are_refused),
        FILE_TEST(bad_shard_arguments_write_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
