// labels: valgrind
/* Models: saved from one device, loaded on any; a file that does not fit changes nothing and the error lists why. */
#include "file_cases.h"

static bt_layer *make_model(int seed, int64_t hidden) {
    return bt_chain(bt_dense(4, hidden, bt_relu, bt_key(seed)), bt_dense(hidden, 2, NULL, bt_key(seed + 1)));
}

static void expect_equal_models(bt_layer *a, bt_layer *b) {
    bt_shared *x[8], *y[8];
    int count = bt_parameters(a, x, 8);
    assert_int_equal(bt_parameters(b, y, 8), count);
    for (int i = 0; i < count; i++) expect_same(bt_value(x[i]), bt_value(y[i]));
}

static void a_model_comes_back(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = make_model(1, 3), *other = make_model(7, 3);
        OK(bt_save_model(path_of("model"), model));
        OK(bt_load_model(path_of("model"), other));
        expect_equal_models(model, other);
        bt_tensors *tensors;
        OK(bt_tensors_open(path_of("model"), &tensors));
        assert_int_equal(bt_tensors_count(tensors), 4);
        assert_string_equal(bt_tensors_name(tensors, 0), "0.bias");
        assert_string_equal(bt_tensors_name(tensors, 3), "1.weight");
        bt_tensors_close(tensors);
    }
    expect_files(1);
}

static void differences_are_listed_and_nothing_changes(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = make_model(1, 3), *before = make_model(1, 3);
        static const char *const names[] = {"0.weight", "0.bias", "1.weight", "2.weight"};
        bt_array *arrays[] = {bt_zeros(BT_F32, 4, 3), bt_zeros(BT_F64, 3), bt_zeros(BT_F32, 2, 3), bt_zeros(BT_F32, 1)};
        OK(bt_save(path_of("other"), names, arrays, 4, NULL));
        expect_error(bt_load_model(path_of("other"), model), BT_INVALID_ARGUMENT, "missing in the file: \"1.bias\"");
        assert_non_null(strstr(bt_error_text(), "not in the model: \"2.weight\""));
        assert_non_null(strstr(bt_error_text(), "\"0.bias\" is F64[3] in the file and F32[3] in the model"));
        assert_non_null(strstr(bt_error_text(), "\"1.weight\" is F32[2, 3] in the file and F32[3, 2] in the model"));
        assert_null(strstr(bt_error_text(), "0.weight"));
        expect_equal_models(model, before);
    }
}

static void damage_changes_nothing(void **state) {
    (void)state;
    unsigned char bytes[4096];
    BT_SCOPE {
        bt_layer *model = make_model(1, 3), *other = make_model(7, 3), *before = make_model(7, 3);
        OK(bt_save_model(path_of("model"), model));
        size_t size = read_bytes("model", bytes, sizeof bytes);
        for (size_t cut = 0; cut < size; cut += 13) {
            write_bytes("model", bytes, cut);
            assert_int_equal(bt_load_model(path_of("model"), other), BT_DATA_LOSS);
        }
        expect_equal_models(other, before);
        expect_error(bt_load_model(path_of("absent"), other), BT_NOT_FOUND, "absent");
        expect_error(bt_load_model(path_of("model"), NULL), BT_INVALID_ARGUMENT, "the layer is NULL");
        expect_error(bt_save_model(path_of("model"), NULL), BT_INVALID_ARGUMENT, "the layer is NULL");
    }
}

/* Names, and the order of axes, of another program: there and back. */
static void a_model_goes_to_others(void **state) {
    (void)state;
    BT_SCOPE {
        bt_layer *model = make_model(1, 3), *other = make_model(7, 3);
        OK(bt_save_model(path_of("pt"), model, .rename = "1.bias=;*.*=net.*.*", .torch = true));
        bt_tensors *tensors;
        bt_tensor_info info = BT_TENSOR_INFO_INIT;
        OK(bt_tensors_open(path_of("pt"), &tensors));
        assert_int_equal(bt_tensors_count(tensors), 3);
        assert_string_equal(bt_tensors_metadata(tensors, "format"), "pt");
        assert_null(bt_tensors_metadata(tensors, "berth.model"));
        OK(bt_tensors_describe(tensors, 1, &info));
        assert_string_equal(info.name, "net.0.weight");
        assert_true(info.shape.size[0] == 3 && info.shape.size[1] == 4);
        bt_tensors_close(tensors);
        expect_error(bt_load_model(path_of("pt"), other, .rename = "net.*=*", .torch = true), BT_INVALID_ARGUMENT,
                     "missing in the file: \"1.bias\"");
        OK(bt_save_model(path_of("pt"), model, .rename = "*=net.*", .transpose = "*.weight"));
        OK(bt_load_model(path_of("pt"), other, .rename = "net.*=*", .torch = true));
        expect_equal_models(model, other);
        expect_error(bt_save_model(path_of("twice"), model, .rename = "*.bias=b"), BT_INVALID_ARGUMENT, "twice");
        expect_error(bt_save_model(path_of("twice"), model, .rename = "b"), BT_INVALID_ARGUMENT, "has no '='");
        expect_error(bt_save_model(path_of("twice"), model, .rename = "7.*=*"), BT_INVALID_ARGUMENT,
                     "rule \"7.*=*\" of `rename` matches no name of the model");
        expect_error(bt_save_model(path_of("twice"), model, .transpose = "7.weight"), BT_INVALID_ARGUMENT,
                     "rule \"7.weight\" of `transpose` matches no name of the model");
    }
    expect_files(1);
}

static bt_array *to_dtype(bt_array *x, void *dtype) { return bt_cast(x, *(bt_dtype *)dtype); }

static void floats_of_another_dtype_are_cast_when_asked(void **state) {
    (void)state;
    static const bt_dtype dtypes[] = {BT_F16, BT_BF16, BT_F64};
    BT_SCOPE
        for (int i = 0; i < 3; i++) {
            bt_layer *other = make_model(7, 3), *model = bt_fmap(to_dtype, (void *)&dtypes[i], make_model(1, 3));
            OK(bt_save_model(path_of("cast"), model));
            expect_error(bt_load_model(path_of("cast"), other), BT_INVALID_ARGUMENT, "F32[3] in the model");
            OK(bt_load_model(path_of("cast"), other, .cast = true));
            bt_dtype dtype = BT_F32;
            expect_equal_models(bt_fmap(to_dtype, &dtype, model), other);
        }
    BT_SCOPE {
        static const char *const names[] = {"0.weight"};
        bt_array *whole = bt_ones(BT_I32, 1, 1);
        OK(bt_save(path_of("cast"), names, &whole, 1, NULL));
        bt_layer *small = bt_chain(bt_dense(1, 1, NULL, bt_key(1), .no_bias = true));
        expect_error(bt_load_model(path_of("cast"), small, .cast = true), BT_INVALID_ARGUMENT, "I32[1, 1] in the file");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_model_comes_back),
        FILE_TEST(differences_are_listed_and_nothing_changes),
        FILE_TEST(damage_changes_nothing),
        FILE_TEST(a_model_goes_to_others),
        FILE_TEST(floats_of_another_dtype_are_cast_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
