// labels: valgrind
/* Data sets: what they are made of, what they refuse, and what is made of them. */
#include <math.h>
#include <unistd.h>

#include "support/support.h"

static char folder[] = "/tmp/berth-dataset-XXXXXX";
static const char *path_of(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}
static const char *write_text(const char *name, const char *text) {
    const char *path = path_of(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

/* All examples of a data set as one batch. */
#define WHOLE(data, got)                                      \
    bt_batch got = BT_BATCH_INIT;                             \
    bt_loader *got##_of = bt_loader_new(data, .batch = 1000); \
    assert_true(bt_loader_next(got##_of, &got))

/* [n, 2]: 0 1, 2 3, ... */
static bt_array *pairs(int64_t n) { return bt_reshape(bt_arange(0, (double)(2 * n), 1, BT_F32), n, 2); }

/* --- arrays ------------------------------------------------------------------------------------------------------------- */

static void of_arrays(void **state) {
    fresh("");
    BT_SCOPE {
        bt_dataset *data =
            bt_dataset_arrays((const char *[]){"x", "y"}, (bt_array *[]){pairs(3), BT_ARRAY(int32_t, (3), 7, 8, 9)}, 2);
        OK(bt_dataset_status(data));
        assert_int_equal(bt_dataset_rows(data), 3);
        assert_int_equal(bt_dataset_columns(data), 2);
        assert_string_equal(bt_dataset_column(data, 1)->name, "y");
        assert_int_equal(bt_dataset_column(data, 0)->shape.rank, 1);
        assert_int_equal(bt_dataset_column(data, 1)->dtype, BT_I32);
        assert_null(bt_dataset_column(data, 2));
        WHOLE(data, batch);
        assert_int_equal(batch.columns, 2);
        assert_null(batch.sizes[0]);
        READS(bt_batch_array(&batch, "x"), 0, 1, 2, 3, 4, 5);
        READS(bt_batch_array(&batch, "y"), 7, 8, 9);
        POISONED(bt_batch_array(&batch, "z"), BT_NOT_FOUND, HERE(0), "no array \"z\"");
        POISONED(bt_batch_array(NULL, "x"), BT_INVALID_ARGUMENT);
        bt_dataset *tuple = bt_dataset_arrays(NULL, (bt_array *[]){pairs(2), pairs(2)}, 2);
        assert_string_equal(bt_dataset_column(tuple, 1)->name, "1");
    }
    OK(bt_shutdown());
}

static void bad_arrays(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = pairs(3), *lists[] = {x, pairs(2)}, *twice[] = {x, x};
#define REFUSED(call, status, ...) FAILS(bt_dataset_status(call), status, ##__VA_ARGS__)
        REFUSED(bt_dataset_arrays(NULL, lists, 2), BT_INVALID_ARGUMENT, HERE(0),
                "array 1 has 2 rows and array 0 has 3");
        REFUSED(bt_dataset_arrays(NULL, NULL, 2), BT_INVALID_ARGUMENT, "the list of arrays is NULL");
        REFUSED(bt_dataset_arrays(NULL, lists, 0), BT_INVALID_ARGUMENT, "0 columns");
        REFUSED(bt_dataset_arrays(NULL, lists, 65), BT_INVALID_ARGUMENT, "65 columns");
        REFUSED(bt_dataset_arrays((const char *[]){"x", "x"}, twice, 2), BT_ALREADY_EXISTS, "\"x\"");
        REFUSED(bt_dataset_arrays((const char *[]){"x", ""}, twice, 2), BT_INVALID_ARGUMENT, "empty");
        REFUSED(bt_dataset_arrays(NULL, (bt_array *[]){x, NULL}, 2), BT_INVALID_ARGUMENT, "array 1 is NULL");
        REFUSED(bt_dataset_arrays(NULL, (bt_array *[]){bt_f32(1)}, 1), BT_INVALID_ARGUMENT, "scalar");
        REFUSED(bt_dataset_arrays(NULL, (bt_array *[]){bt_log(NULL)}, 1), BT_INVALID_ARGUMENT, "bt_log");
        REFUSED(bt_dataset_arrays(NULL, (bt_array *[]){bt_input(BT_F32, -1, 2)}, 1), BT_INVALID_ARGUMENT);
        bt_dataset *gone;
        BT_SCOPE
            gone = bt_dataset_arrays(NULL, &x, 1);
        REFUSED(gone, BT_INVALID_ARGUMENT, "data set", "was released at the end of its scope");
        assert_int_equal(bt_dataset_rows(gone), -1);
        bt_dataset *poisoned = bt_dataset_arrays(NULL, NULL, 1);
        REFUSED(bt_dataset_select(poisoned, NULL, 0), BT_INVALID_ARGUMENT, "the list of arrays is NULL");
        FAILS(bt_loader_status(bt_loader_new(poisoned)), BT_INVALID_ARGUMENT, "the list of arrays is NULL");
        FAILS(bt_loader_status(bt_loader_new(NULL)), BT_INVALID_ARGUMENT, HERE(0), "bt_loader_new");
        bt_dataset *instead = bt_dataset_retain(gone);
        FAILS(bt_error_status(), BT_INVALID_ARGUMENT, "bt_dataset_retain");
        bt_dataset_release(instead);
    }
    OK(bt_shutdown());
}

/* --- files -------------------------------------------------------------------------------------------------------------- */

static void of_npy_files(void **state) {
    fresh("");
    BT_SCOPE {
        OK(bt_save_npy(path_of("x.npy"), pairs(5)));
        OK(bt_save_npy(path_of("y.npy"), bt_gt(bt_arange(0, 5, 1, BT_I64), 2)));
        bt_dataset *data =
            bt_dataset_npy((const char *[]){"x", "y"}, (const char *[]){path_of("x.npy"), path_of("y.npy")}, 2);
        OK(bt_dataset_status(data));
        assert_int_equal(bt_dataset_rows(data), 5);
        for (int workers = 0; workers < 3; workers += 2) {
            bt_loader *loader = bt_loader_new(data, .batch = 2, .workers = workers);
            bt_batch batch = BT_BATCH_INIT;
            assert_true(bt_loader_next(loader, &batch));
            READS(batch.arrays[0], 0, 1, 2, 3);
            assert_true(bt_loader_next(loader, &batch));
            READS(batch.arrays[1], 0, 1);
            assert_true(bt_loader_next(loader, &batch));
            READS(batch.arrays[0], 8, 9);
            assert_false(bt_loader_next(loader, &batch));
            OK(bt_loader_status(loader));
        }
        /* the file becomes shorter while it is in use */
        bt_loader *loader = bt_loader_new(data, .batch = 2);
        assert_int_equal(truncate(path_of("x.npy"), 140), 0);
        bt_batch batch = BT_BATCH_INIT;
        assert_false(bt_loader_next(loader, &batch));
        FAILS(bt_loader_status(loader), BT_DATA_LOSS, "x.npy", "has fewer now");
    }
    OK(bt_shutdown());
}

static void bad_npy_files(void **state) {
    fresh("");
    BT_SCOPE {
        OK(bt_save_npy(path_of("three.npy"), pairs(3)));
        OK(bt_save_npy(path_of("two.npy"), pairs(2)));
        OK(bt_save_npy(path_of("scalar.npy"), bt_f32(1)));
        REFUSED(bt_dataset_npy(NULL, (const char *[]){path_of("three.npy"), path_of("two.npy")}, 2),
                BT_INVALID_ARGUMENT, "two.npy has 2 rows");
        REFUSED(bt_dataset_npy(NULL, (const char *[]){path_of("none.npy")}, 1), BT_NOT_FOUND, HERE(0), "none.npy");
        REFUSED(bt_dataset_npy(NULL, (const char *[]){NULL}, 1), BT_INVALID_ARGUMENT, "the path is NULL");
        REFUSED(bt_dataset_npy(NULL, NULL, 1), BT_INVALID_ARGUMENT, "the list of paths is NULL");
        REFUSED(bt_dataset_npy(NULL, (const char *[]){path_of("scalar.npy")}, 1), BT_INVALID_ARGUMENT, "scalar");
        REFUSED(bt_dataset_npy(NULL, (const char *[]){write_text("text.npy", "1,2\n")}, 1), BT_DATA_LOSS);
        assert_int_equal(truncate(path_of("three.npy"), 140), 0);
        REFUSED(bt_dataset_npy(NULL, (const char *[]){path_of("three.npy")}, 1), BT_DATA_LOSS, "the file holds 12");
    }
    OK(bt_shutdown());
}

#define HEADER_OF_NPY(descr, order) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': (2, 2), }      "

static const char *write_npy(const char *name, const char *header) {
    const char *path = path_of(name);
    FILE *file = fopen(path, "w");
    uint8_t start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)strlen(header), 0};
    fwrite(start, 1, sizeof start, file);
    fputs(header, file);
    fwrite((float[4]){1, 2, 3, 4}, sizeof(float), 4, file);
    fclose(file);
    return path;
}

static void npy_files_of_other_layouts(void **state) {
    fresh("");
    BT_SCOPE {
        const char *columns = write_npy("columns.npy", HEADER_OF_NPY("<f4", "True"));
        REFUSED(bt_dataset_npy(NULL, &columns, 1), BT_UNIMPLEMENTED, "column-major");
        const char *big = write_npy("big.npy", HEADER_OF_NPY(">f4", "False"));
        REFUSED(bt_dataset_npy(NULL, &big, 1), BT_UNIMPLEMENTED, "big-endian");
        const char *rows = write_npy("rows.npy", HEADER_OF_NPY("<f4", "False")); /* its elements are not aligned */
        WHOLE(bt_dataset_npy(NULL, &rows, 1), batch);
        READS(batch.arrays[0], 1, 2, 3, 4);
    }
    OK(bt_shutdown());
}

/* A column of a dtype takes the lines `good`, and not the line `bad` behind them. */
static void typed_numbers(bt_dtype dtype, const char *good, const char *bad) {
    char text[200];
    bt_column column = {.name = "n", .dtype = dtype};
    bt_dataset *taken = bt_dataset_csv(write_text("good.csv", good), &column, 1);
    OK(bt_dataset_status(taken));
    snprintf(text, sizeof text, "%s%s\n", good, bad);
    bt_dataset *refused = bt_dataset_csv(write_text("bad.csv", text), &column, 1);
    snprintf(text, sizeof text, "\"%s\" is no %s, as column \"n\" has", bad, bt_dtype_name(dtype));
    REFUSED(refused, BT_DATA_LOSS, text);
}

static void of_a_csv_file(void **state) {
    fresh("");
    BT_SCOPE {
        const char *path = write_text("table.csv", "a,b,label\n0.5,1.5,1\n2.5,3.5,0\n");
        bt_column columns[] = {BT_COLUMN("x", BT_F32, 2), BT_COLUMN("y", BT_I32, )};
        WHOLE(bt_dataset_csv(path, columns, 2), batch);
        READS(batch.arrays[0], 0.5, 1.5, 2.5, 3.5);
        READS(batch.arrays[1], 1, 0);
        assert_int_equal(bt_rank(batch.arrays[1]), 1);
        bt_column whole[] = {BT_COLUMN("x", BT_I32, 2), BT_COLUMN("y", BT_I32, )};
        REFUSED(bt_dataset_csv(path, whole, 2), BT_DATA_LOSS, HERE(0),
                "bt_dataset_csv: ", "line 2, column 1: \"0.5\" is no int32, as column \"x\" has");
        const char *late = write_text("late.csv", "\n0.5,1.5,1\n\n2.5,3.5,0\n1,2,1e3\n1,2, 1e10 \n1,2,-0.5\n");
        REFUSED(bt_dataset_csv(late, columns, 2), BT_DATA_LOSS, "line 6, column 3: \"1e10\" is no int32",
                "column \"y\"");
        typed_numbers(BT_I8, "-128\n127\n-0\n", "128");
        typed_numbers(BT_U8, "0\n255\n", "-1");
        typed_numbers(BT_BOOL, "0\n1\n", "2");
        typed_numbers(BT_I64, "-9223372036854775808\n9223372036854775807\n", "1e19");
        typed_numbers(BT_U64, "18446744073709551615\n", "nan");
        path = path_of("table.csv");
        REFUSED(bt_dataset_csv(path, columns, 1), BT_INVALID_ARGUMENT, "3 numbers in a line; the columns take 2");
        REFUSED(bt_dataset_csv(path, &whole[1], 1), BT_INVALID_ARGUMENT, "3 numbers in a line; the columns take 1");
        REFUSED(bt_dataset_csv(path_of("none.csv"), columns, 2), BT_NOT_FOUND, "none.csv");
        REFUSED(bt_dataset_csv(NULL, columns, 2), BT_INVALID_ARGUMENT);
        REFUSED(bt_dataset_csv(path, NULL, 2), BT_INVALID_ARGUMENT, "the list of columns is NULL");
        columns[0].shape.size[0] = BT_RAGGED;
        REFUSED(bt_dataset_csv(path, columns, 2), BT_INVALID_ARGUMENT, "ragged");
        columns[0].shape.size[0] = -7;
        REFUSED(bt_dataset_csv(path, columns, 2), BT_INVALID_ARGUMENT, "-7");
        columns[0].shape.size[0] = INT64_MAX / 2;
        REFUSED(bt_dataset_csv(path, columns, 2), BT_INVALID_ARGUMENT, "overflow");
        columns[0].dtype = BT_DTYPE_COUNT;
        REFUSED(bt_dataset_csv(path, columns, 2), BT_INVALID_ARGUMENT, "no dtype");
    }
    OK(bt_shutdown());
}

/* --- made of others ----------------------------------------------------------------------------------------------------- */

static bt_status halve(const bt_example *from, bt_example *made, void *data) {
    const float *x = from->data[0];
    *(float *)made->data[0] = (x[0] + x[1]) / 2;
    *(int64_t *)made->data[1] = made->index;
    ++*(int *)data;
    return BT_OK;
}

static void maps(void **state) {
    fresh("devices=sim:gpu*1,default_device=cpu");
    BT_SCOPE {
        int calls = 0;
        bt_column columns[] = {BT_COLUMN("mean", BT_F32, ), BT_COLUMN("number", BT_I64, )};
        for (int where = 0; where < 2; where++) {
            bt_array *x = where ? bt_gpu(pairs(4)) : bt_transpose(bt_transpose(pairs(4)));
            bt_dataset *data = bt_dataset_arrays(NULL, &x, 1);
            bt_dataset *some = bt_dataset_select(data, (int64_t[]){3, 0, 3}, 3);
            bt_dataset *mapped = bt_dataset_map(some, columns, 2, halve, &calls);
            OK(bt_dataset_status(mapped));
            calls = 0;
            WHOLE(mapped, batch);
            READS(batch.arrays[0], 6.5, 0.5, 6.5);
            READS(batch.arrays[1], 0, 1, 2);
            assert_int_equal(calls, 3);
            WHOLE(bt_dataset_select(mapped, (int64_t[]){1}, 1), one);
            READS(one.arrays[1], 1);
        }
        bt_array *x = pairs(4);
        bt_dataset *data = bt_dataset_arrays(NULL, &x, 1);
        REFUSED(bt_dataset_map(data, columns, 2, NULL, NULL), BT_INVALID_ARGUMENT, "the function is NULL");
        REFUSED(bt_dataset_map(NULL, columns, 2, halve, NULL), BT_INVALID_ARGUMENT, "bt_dataset_map");
        REFUSED(bt_dataset_map(data, columns, 0, halve, NULL), BT_INVALID_ARGUMENT, "0 columns");
        for (int i = 0; i < 80; i++) data = bt_dataset_map(data, columns, 1, halve, NULL);
        REFUSED(data, BT_INVALID_ARGUMENT, "more than 64 data sets");
    }
    OK(bt_shutdown());
}

static void selections(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_arange(0, 6, 1, BT_I32);
        bt_dataset *data = bt_dataset_arrays(NULL, &x, 1);
        bt_dataset *odd = bt_dataset_select(data, (int64_t[]){1, 3, 5}, 3);
        WHOLE(odd, batch);
        READS(batch.arrays[0], 1, 3, 5);
        WHOLE(bt_dataset_select(odd, (int64_t[]){2, 0, 2}, 3), again);
        READS(again.arrays[0], 5, 1, 5);
        bt_loader *shuffled = bt_loader_new(odd, .batch = 3, .shuffle = bt_key(1), .workers = 1);
        bt_loader *recorded = bt_loader_new(odd, .batch = 3, .shuffle = bt_key(1));
        bt_batch a = BT_BATCH_INIT, b = BT_BATCH_INIT;
        assert_true(bt_loader_next(shuffled, &a) && bt_loader_next(recorded, &b));
        assert_true(bt_item(bt_all(bt_eq(a.arrays[0], b.arrays[0]))) > 0);
        REFUSED(bt_dataset_select(data, (int64_t[]){6}, 1), BT_OUT_OF_RANGE, "entry 0 is example 6; there are 6");
        REFUSED(bt_dataset_select(data, (int64_t[]){0, -1}, 2), BT_OUT_OF_RANGE, "entry 1");
        REFUSED(bt_dataset_select(data, NULL, 2), BT_INVALID_ARGUMENT, "NULL");
        REFUSED(bt_dataset_select(data, NULL, -2), BT_INVALID_ARGUMENT, "-2");
        bt_dataset *none = bt_dataset_select(data, NULL, 0);
        OK(bt_dataset_status(none));
        FAILS(bt_loader_status(bt_loader_new(none)), BT_INVALID_ARGUMENT, HERE(0), "no examples");
    }
    OK(bt_shutdown());
}

static int64_t count_label(bt_dataset *data, double label) {
    WHOLE(data, batch);
    return (int64_t)bt_item(bt_sum(bt_cast(bt_eq(batch.arrays[1], label), BT_F32)));
}

static void splits(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *y = bt_cast(bt_ge(bt_arange(0, 100, 1, BT_I32), 80), BT_I32); /* 80 of 0, 20 of 1 */
        bt_dataset *data =
            bt_dataset_arrays((const char *[]){"x", "y"}, (bt_array *[]){bt_arange(0, 100, 1, BT_I32), y}, 2);
        bt_dataset *first, *second;
        OK(bt_dataset_split(data, 0.75, NULL, NULL, &first, &second));
        assert_int_equal(bt_dataset_rows(first), 75);
        assert_int_equal(bt_dataset_rows(second), 25);
        WHOLE(second, tail);
        assert_true(bt_item(bt_min(tail.arrays[0])) == 75);
        OK(bt_dataset_split(data, 0.75, bt_key(3), "y", &first, &second));
        assert_int_equal(count_label(first, 0), 60);
        assert_int_equal(count_label(first, 1), 15);
        assert_int_equal(count_label(second, 1), 5);
        WHOLE(first, a);
        WHOLE(second, b);
        bt_array *all = bt_concat((bt_array *[]){a.arrays[0], b.arrays[0]}, 2, 0);
        assert_true(bt_item(bt_all(bt_eq(bt_sort(all, 0), bt_arange(0, 100, 1, BT_I32)))) > 0);
        assert_false(bt_item(bt_all(bt_eq(bt_sort(a.arrays[0], 0), a.arrays[0]))) > 0); /* shuffled */
        OK(bt_dataset_split(first, 1, NULL, NULL, &first, &second));
        assert_int_equal(bt_dataset_rows(second), 0);

        FAILS(bt_dataset_split(data, 1.5, NULL, NULL, &first, &second), BT_INVALID_ARGUMENT, HERE(0), "1.5");
        REFUSED(first, BT_INVALID_ARGUMENT, "1.5");
        FAILS(bt_dataset_split(data, NAN, NULL, NULL, &first, &second), BT_INVALID_ARGUMENT);
        FAILS(bt_dataset_split(data, 0.5, NULL, "z", &first, &second), BT_NOT_FOUND, "no column \"z\"");
        FAILS(bt_dataset_split(data, 0.5, y, NULL, &first, &second), BT_INVALID_ARGUMENT, "key");
        FAILS(bt_dataset_split(data, 0.5, NULL, NULL, NULL, &second), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_dataset_split(NULL, 0.5, NULL, NULL, &first, &second), BT_INVALID_ARGUMENT);
        bt_array *floats = pairs(2);
        FAILS(bt_dataset_split(bt_dataset_arrays(NULL, &floats, 1), 0.5, NULL, "0", &first, &second),
              BT_INVALID_ARGUMENT, "no label");
    }
    OK(bt_shutdown());
}

static bt_status letters(bt_example *example, void *data) {
    int64_t size = example->index;
    char *text = bt_example_resize(example, 0, size);
    if (!text) return bt_error_status();
    memset(text, 'a' + (int)example->index, (size_t)size);
    return BT_OK;
}

static void all_on_a_device(void **state) {
    fresh("devices=sim:gpu*2,default_device=cpu");
    BT_SCOPE {
        bt_dataset *data =
            bt_dataset_arrays(NULL, (bt_array *[]){pairs(3), bt_to(bt_arange(0, 3, 1, BT_I32), "gpu:1")}, 2);
        bt_dataset *there = bt_dataset_to(bt_dataset_select(data, (int64_t[]){2, 1}, 2), "gpu:0");
        OK(bt_dataset_status(there));
        WHOLE(there, batch);
        assert_string_equal(bt_device_name(bt_device_of(batch.arrays[1])), "GPU:0");
        READS(batch.arrays[1], 2, 1);
        bt_column text = BT_COLUMN("text", BT_U8, BT_RAGGED);
        WHOLE(bt_dataset_to(bt_dataset_callback(3, &text, 1, letters, NULL), device("gpu:1")), texts);
        READS(bt_batch_array(&texts, "text"), 0, 0, 'b', 0, 'c', 'c');
        READS(bt_batch_array(&texts, "text.size"), 0, 1, 2);
        REFUSED(bt_dataset_to(data, "gpu:9"), BT_NOT_FOUND, HERE(0), "gpu:9");
        REFUSED(bt_dataset_to(data, (const char *)NULL), BT_INVALID_ARGUMENT, "NULL");
        REFUSED(bt_dataset_to(NULL, "cpu"), BT_INVALID_ARGUMENT);
    }
    OK(bt_shutdown());
}

static int make_folder(void **state) { return mkdtemp(folder) ? 0 : -1; }
static int remove_folder(void **state) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) | fresh_end(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_arrays),
        cmocka_unit_test(bad_arrays),
        cmocka_unit_test(of_npy_files),
        cmocka_unit_test(bad_npy_files),
        cmocka_unit_test(npy_files_of_other_layouts),
        cmocka_unit_test(of_a_csv_file),
        cmocka_unit_test(maps),
        cmocka_unit_test(selections),
        cmocka_unit_test(splits),
        cmocka_unit_test(all_on_a_device),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
