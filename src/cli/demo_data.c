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

/* Splits rows [from, to) of the table into pixels and classes. */
static void split_rows(bt_array *table, int64_t from, int64_t to, bt_array **pixels, bt_array **classes) {
    bt_array *rows = bt_slice_axis(table, 0, from, to, 1);
    *pixels = bt_div(bt_slice_axis(rows, 1, 0, PIXELS, 1), bt_num(16));
    *classes = bt_cast(bt_squeeze(bt_slice_axis(rows, 1, PIXELS, COLUMNS, 1), 1), BT_I32);
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
    digits->train_count = rows * 4 / 5;
    digits->test_count = rows - digits->train_count;
    split_rows(table, 0, digits->train_count, &digits->train_x, &digits->train_y);
    split_rows(table, digits->train_count, rows, &digits->test_x, &digits->test_y);
    bt_array *parts[] = {digits->train_x, digits->train_y, digits->test_x, digits->test_y};
    if (bt_eval_all(parts, 4) != BT_OK) return cli_error(argv, "the digits cannot be prepared"), false;
    return true;
}
