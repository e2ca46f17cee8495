#include "cli/demo_data.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* The file is part of the command, so that `berth demo` works wherever it is installed. The path is relative to src/. */
__asm__(".pushsection .rodata\n"
        ".globl demo_csv, demo_csv_end\n"
        "demo_csv: .incbin \"../examples/data/digits.csv\"\n"
        "demo_csv_end: .byte 0\n"
        ".popsection\n");
extern const char demo_csv[] __attribute__((visibility("hidden")));
extern const char demo_csv_end[] __attribute__((visibility("hidden")));

enum { PIXELS = 64, COLUMNS = PIXELS + 1 };

/* [rows, 65] */
static bt_array *parse_embedded_table(void) {
    int64_t rows = 0, count = 0;
    for (const char *c = demo_csv; c < demo_csv_end; c++) rows += *c == '\n';
    float *numbers = malloc((size_t)rows * COLUMNS * sizeof *numbers);
    char *at = (char *)demo_csv;
    for (; numbers && count < rows * COLUMNS; count++) numbers[count] = (float)strtol(at, &at, 10), at++;
    bt_array *table = bt_from(numbers, BT_F32, BT_SHAPE(rows, COLUMNS));
    free(numbers);
    return table;
}

/* All examples of a data set: its columns, which belong to the innermost scope's loader. */
static bt_status all_rows(bt_dataset *data, bt_array **x, bt_array **y, int64_t *count) {
    *count = bt_dataset_rows(data);
    bt_batch batch = BT_BATCH_INIT;
    bt_loader *loader = bt_loader_new(data, .batch = *count);
    if (!bt_loader_next(loader, &batch)) return bt_loader_status(loader);
    *x = batch.arrays[0];
    *y = batch.arrays[1];
    return bt_eval_all(batch.arrays, 2);
}

static bt_status split_table(bt_array *table, demo_digits *digits) {
    bt_array *columns[] = {bt_div(bt_slice_axis(table, 1, 0, PIXELS, 1), 16),
                           bt_cast(bt_squeeze(bt_slice_axis(table, 1, PIXELS, COLUMNS, 1), 1), BT_I32)};
    bt_dataset *all = bt_dataset_arrays((const char *[]){"x", "y"}, columns, 2), *train, *test;
    bt_status status = bt_dataset_split(all, 0.8, bt_key(0), "y", &train, &test);
    if (status == BT_OK) status = all_rows(train, &digits->train_x, &digits->train_y, &digits->train_count);
    return status == BT_OK ? all_rows(test, &digits->test_x, &digits->test_y, &digits->test_count) : status;
}

bool demo_load_digits(char **argv, const char *path, demo_digits *digits) {
    bt_array *table = path ? bt_load_csv(path, BT_F32) : parse_embedded_table();
    if (bt_block(table) != BT_OK) return cli_error(argv, "the digits cannot be read"), false;
    int64_t rows = bt_size(table, 0);
    if (bt_size(table, 1) != COLUMNS || rows < 5) {
        fprintf(stderr, "%s: the file has %lld rows of %lld numbers; it needs at least 5 rows of %d\n", argv[0],
                (long long)rows, (long long)bt_size(table, 1), COLUMNS);
        return false;
    }
    if (split_table(table, digits) != BT_OK) return cli_error(argv, "the digits cannot be prepared"), false;
    return true;
}
