// labels: valgrind
/* .npy and CSV: what NumPy writes, what we write, and damage of every kind. */
#include "file_cases.h"

/* A version 1 file of this dict, and data that count 0, 1, 2... */
static void write_npy(const char *dict, size_t data_bytes) {
    unsigned char bytes[2048];
    size_t length = strlen(dict) + 1;
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (unsigned char)length;
    bytes[9] = (unsigned char)(length >> 8);
    memcpy(bytes + 10, dict, length - 1);
    bytes[9 + length] = '\n';
    for (size_t i = 0; i < data_bytes; i++) bytes[10 + length + i] = (unsigned char)i;
    write_bytes("x.npy", bytes, 10 + length + data_bytes);
}
#define DICT(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }"

static void every_dtype_and_shape_comes_back(void **state) {
    (void)state;
    static const bt_shape shapes[] = {{0, {0}}, {1, {5}}, {2, {2, 3}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 1}}};
    for (int dtype = 0; dtype <= BT_F64; dtype++) /* float8_test.c: what it has not */
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            BT_SCOPE {
                bt_array *x = numbered((bt_dtype)dtype, shapes[i]);
                OK(bt_save_npy(path_of("x.npy"), x));
                expect_same(bt_load_npy(path_of("x.npy")), x);
            }
    expect_files(1);
}

static void the_bytes_are_numpys(void **state) {
    (void)state;
    char expected[128 + 6];
    snprintf(expected, 129, "\x93NUMPY\1%c%c%c%-117s\n", 0, 118, 0, DICT("<i2", "False", "(3,)"));
    memcpy(expected + 128, "\1\0\2\0\3\0", 6);
    BT_SCOPE
        OK(bt_save_npy(path_of("x.npy"), BT_ARRAY(int16_t, (3), 1, 2, 3)));
    expect_bytes("x.npy", expected, sizeof expected);
}

static void other_orders_are_converted(void **state) {
    (void)state;
    BT_SCOPE {
        write_npy(DICT("|u1", "True", "(2, 3)"), 6);
        expect_same(bt_load_npy(path_of("x.npy")), BT_ARRAY(uint8_t, (2, 3), 0, 2, 4, 1, 3, 5));
        write_npy(DICT("|i1", "True", "(2, 1, 3)"), 6);
        expect_same(bt_load_npy(path_of("x.npy")), BT_ARRAY(int8_t, (2, 1, 3), 0, 2, 4, 1, 3, 5));
        write_npy(DICT(">i2", "False", "(2,)"), 4);
        expect_same(bt_load_npy(path_of("x.npy")), BT_ARRAY(int16_t, (2), 0x0001, 0x0203));
        write_npy(DICT(">u4", "True", "(1, 2)"), 8);
        expect_same(bt_load_npy(path_of("x.npy")), BT_ARRAY(uint32_t, (1, 2), 0x00010203, 0x04050607));
        write_npy("{\"shape\":(2L,),'fortran_order':False,  'descr':'=i2'}   ", 4);
        expect_same(bt_load_npy(path_of("x.npy")), BT_ARRAY(int16_t, (2), 0x0100, 0x0302));
        write_npy(DICT("<f4", "True", "(3, 0)"), 0);
        expect_same(bt_load_npy(path_of("x.npy")), bt_zeros(BT_F32, 3, 0));
    }
}

static void damaged_npy_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *dict;
        size_t data_bytes;
        bt_status status;
        const char *reason;
    } cases[] = {
        {"", 0, BT_DATA_LOSS, "no dict"},
        {"[]", 0, BT_DATA_LOSS, "no dict"},
        {"{}", 0, BT_DATA_LOSS, "lacks"},
        {"{'descr': '<f4', 'shape': ()}", 4, BT_DATA_LOSS, "lacks"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4, BT_DATA_LOSS, "twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}", 4, BT_DATA_LOSS, "unknown key"},
        {"{'descr' '<f4', 'fortran_order': False, 'shape': ()}", 4, BT_DATA_LOSS, "colon"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': ()}", 4, BT_DATA_LOSS, "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()", 4, BT_DATA_LOSS, "byte "},
        {DICT("<f4", "False", "()") "x", 4, BT_DATA_LOSS, "more after"},
        {DICT("<f3", "False", "()"), 4, BT_DATA_LOSS, "unknown dtype \"<f3\""},
        {DICT("<f16", "False", "()"), 16, BT_UNIMPLEMENTED, "dtype \"<f16\" (long doubles)"},
        {DICT("<c32", "False", "()"), 32, BT_UNIMPLEMENTED, "long doubles"},
        {DICT("|O", "False", "()"), 8, BT_UNIMPLEMENTED, "objects"},
        {DICT("<U2", "False", "()"), 8, BT_UNIMPLEMENTED, "texts"},
        {DICT("<M8[D]", "False", "()"), 8, BT_UNIMPLEMENTED, "times"},
        {DICT("|V3", "False", "()"), 3, BT_UNIMPLEMENTED, "without a meaning"},
        {DICT("|", "False", "()"), 8, BT_DATA_LOSS, "unknown dtype"},
        {DICT("<q8", "False", "()"), 8, BT_DATA_LOSS, "unknown dtype"},
        {DICT("", "False", "()"), 8, BT_DATA_LOSS, "unknown dtype"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", 4, BT_UNIMPLEMENTED, "records"},
        {DICT("<f4", "Maybe", "()"), 4, BT_DATA_LOSS, "neither True nor False"},
        {DICT("<f4", "False", "[1]"), 4, BT_DATA_LOSS, "no tuple"},
        {DICT("<f4", "False", "(1)"), 4, BT_DATA_LOSS, "no tuple"},
        {DICT("<f4", "False", "(1, 1"), 4, BT_DATA_LOSS, "byte "},
        {DICT("<f4", "False", "(-1,)"), 4, BT_DATA_LOSS, ">= 0"},
        {DICT("<f4", "False", "(1.0,)"), 4, BT_DATA_LOSS, ">= 0"},
        {DICT("<f4", "False", "(9223372036854775808,)"), 4, BT_DATA_LOSS, ">= 0"},
        {DICT("<f4", "False", "(4611686018427387904, 4)"), 0, BT_DATA_LOSS, "overflows"},
        {DICT("<f4", "False", "(9223372036854775807,)"), 4, BT_DATA_LOSS, "overflows"},
        {DICT("<f4", "False", "(2305843009213693952,)"), 4, BT_DATA_LOSS, "the file holds 4"},
        {DICT("<f4", "False", "(2,)"), 7, BT_DATA_LOSS, "take 8 bytes, the file holds 7"},
        {DICT("<f4", "False", "(2,)"), 9, BT_DATA_LOSS, "take 8 bytes, the file holds 9"},
        {DICT("|b1", "False", "(3,)"), 3, BT_DATA_LOSS, "a bool is 0 or 1, not 2"},
        {DICT("<f4", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 4, BT_UNIMPLEMENTED, "more than 8 dimensions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        BT_SCOPE {
            write_npy(cases[i].dict, cases[i].data_bytes);
            expect_poison(bt_load_npy(path_of("x.npy")), cases[i].status, cases[i].reason);
        }
}

static void damaged_beginnings_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *reason;
    } cases[] = {
        {"", 0, "does not begin"},
        {"\x93NUMPY\1", 7, "does not begin"},
        {"\x93NUMPX\1\0\2\0{}", 12, "does not begin"},
        {"\x93NUMPY\4\0\2\0\0\0{}", 14, "version 4.0"},
        {"\x93NUMPY\1\1\2\0{}", 12, "version 1.1"},
        {"\x93NUMPY\0\0\2\0{}", 12, "version 0.0"},
        {"\x93NUMPY\1\0\3\0{}", 12, "a header of 3 bytes in a file of 12"},
        {"\x93NUMPY\2\0\xff\xff\xff\xff{}", 14, "a header of 4294967295 bytes"},
        {"\x93NUMPY\2\0\1", 9, "does not begin"},
        {"\x93NUMPY\2\0\1\0", 10, "a header of 1 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        BT_SCOPE {
            write_bytes("x.npy", cases[i].bytes, cases[i].count);
            expect_poison(bt_load_npy(path_of("x.npy")), BT_DATA_LOSS, cases[i].reason);
        }
    BT_SCOPE {
        expect_poison(bt_load_npy(path_of("absent")), BT_NOT_FOUND, "absent");
        expect_poison(bt_load_npy(path_of("")), BT_FAILED_PRECONDITION, "not a regular file");
        expect_error(bt_save_npy(path_of("y.npy"), bt_reshape(bt_zeros(BT_F32, 2), 3)), BT_INVALID_ARGUMENT,
                     "bt_reshape");
        expect_error(bt_save_npy(path_of("y.npy"), NULL), BT_INVALID_ARGUMENT, "NULL");
    }
    expect_files(1);
}

/* --- CSV ------------------------------------------------------------------------------------------------------------ */

static void write_csv(const char *text) { write_bytes("x.csv", text, strlen(text)); }
static bt_array *load(const char *text, bt_dtype dtype) {
    write_csv(text);
    return bt_load_csv(path_of("x.csv"), dtype);
}

static void tables_are_read(void **state) {
    (void)state;
    BT_SCOPE {
        expect_same(load("1,2,3\n4,5,6\n", BT_I32), BT_ARRAY(int32_t, (2, 3), 1, 2, 3, 4, 5, 6));
        expect_same(load("1,2,3\r\n\r\n4,5,6", BT_F32), BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6));
        expect_same(load("\xef\xbb\xbfwidth,height\n 1.5 ,\t-2e3\n", BT_F64), BT_ARRAY(double, (1, 2), 1.5, -2000));
        expect_same(load("1\n-1\n", BT_F16), bt_cast(BT_ARRAY(float, (2, 1), 1, -1), BT_F16));
        expect_same(load("0,1\n", BT_BOOL), BT_ARRAY(bool, (1, 2), false, true));
        expect_same(load("0,18446744073709551615\n", BT_U64), BT_ARRAY(uint64_t, (1, 2), 0, UINT64_MAX));
        expect_same(load("-9223372036854775808,+9223372036854775807\n", BT_I64),
                    BT_ARRAY(int64_t, (1, 2), INT64_MIN, INT64_MAX));
        expect_same(load("-128,127\n", BT_I8), BT_ARRAY(int8_t, (1, 2), -128, 127));
        expect_same(load("a,b\n", BT_F32), bt_zeros(BT_F32, 0, 2));
        expect_same(load("", BT_F32), bt_zeros(BT_F32, 0, 0));
        expect_same(load("inf,-inf,1e999\n", BT_F64), BT_ARRAY(double, (1, 3), 1 / 0.0, -1 / 0.0, 1 / 0.0));
    }
}

static void damaged_tables_name_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bt_dtype dtype;
        const char *reason;
    } cases[] = {
        {"1,2\n3\n", BT_F32, "byte 4: line 2 has 1 columns, those before have 2"},
        {"1\n2,3\n", BT_F32, "line 2 has 2 columns"},
        {"a,b\n1\n", BT_F32, "line 2 has 1 columns, those before have 2"},
        {"1,x\n", BT_F32, "byte 2: line 1, column 2: \"x\" is no float32"},
        {"1,2\n3,four\n", BT_F32, "line 2, column 2: \"four\""},
        {"1,,2\n", BT_F32, "line 1, column 2: the field is empty; it must be a number (float32)"},
        {"1,2,\n", BT_F32, "line 1, column 3: the field is empty"},
        {"a\nb\n", BT_F32, "line 2, column 1"},
        {"1;2\n", BT_I32, "\"1;2\" is no int32"},
        {"0x10,1\n", BT_F64, "\"0x10\""},
        {"1 2\n3\n", BT_F64, "line 1, column 1: \"1 2\""},
        {"1,1.5\n", BT_I32, "\"1.5\" is no int32"},
        {"1,128\n", BT_I8, "\"128\" is no int8"},
        {"1,-129\n", BT_I8, "\"-129\" is no int8"},
        {"1,-1\n", BT_U16, "\"-1\" is no uint16"},
        {"1,18446744073709551616\n", BT_U64, "no uint64"},
        {"1,2\n", BT_BOOL, "\"2\" is no bool"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        BT_SCOPE
            expect_poison(load(cases[i].text, cases[i].dtype),
                          cases[i].dtype == BT_DTYPE_COUNT ? BT_INVALID_ARGUMENT : BT_DATA_LOSS, cases[i].reason);
    write_bytes("x.csv", "1,\0002\n", 5);
    BT_SCOPE {
        expect_poison(bt_load_csv(path_of("x.csv"), BT_F32), BT_DATA_LOSS, "line 1, column 2");
        expect_poison(bt_load_csv(path_of("x.csv"), BT_DTYPE_COUNT), BT_INVALID_ARGUMENT, "no dtype");
        expect_poison(bt_load_csv(path_of("absent"), BT_F32), BT_NOT_FOUND, "absent");
    }
}

static void the_digits_are_there(void **state) {
    (void)state;
    BT_SCOPE {
        bt_array *digits = bt_load_csv(BERTH_SOURCE_DIR "/examples/data/digits.csv", BT_U8);
        OK(bt_block(digits));
        assert_int_equal(bt_size(digits, 0), 1797);
        assert_int_equal(bt_size(digits, 1), 65);
        uint8_t first[65], all[1797][65];
        OK(bt_read(digits, all, sizeof all));
        memcpy(first, all[0], sizeof first);
        assert_int_equal(first[2], 5);
        assert_int_equal(first[64], 0);
        assert_int_equal(all[1796][64], 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(every_dtype_and_shape_comes_back),    FILE_TEST(the_bytes_are_numpys),
        FILE_TEST(other_orders_are_converted),          FILE_TEST(damaged_npy_is_refused),
        FILE_TEST(damaged_beginnings_are_refused),      FILE_TEST(tables_are_read),
        FILE_TEST(damaged_tables_name_line_and_column), FILE_TEST(the_digits_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
