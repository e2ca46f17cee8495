/* The 32-byte sectors of memory that kernels of large arrays request, counted on an emulated GPU (tests/fakes): at most 1.1 times those of
 * the inputs and the outputs, each once. An operation that reads its input twice says so here. 66 blocks of each launch run, and their
 * counts are scaled, so that results are not compared. And all that the fake driver reports of a launch, for bench/emulated.py. */
#include <limits.h>
#include <stdbool.h>
#include <unistd.h>

#include "support/support.h"

enum { BYTES = 16 << 20, SAMPLE = 64, MOST_NAME = 64 };
#define SECTOR 32.0
#define MOST_OVER_NEEDED 1.1
#define LEAST_OF_NEEDED 0.95 /* the last block may have less to do, and counts for more than its share */

typedef struct sector_case {
    const char *name;
    int64_t rows, columns; /* of x; 0: as many as BYTES of the dtype have */
    bt_array *(*run)(bt_array *x);
    double reads; /* how many times x is needed */
    double most;  /* a known exception: the bound in the place of MOST_OVER_NEEDED */
} sector_case;

static const bt_dtype dtypes[] = {BT_F32, BT_F16, BT_BF16};

static bt_array *run_map(bt_array *x) { return bt_mul(bt_exp(x), bt_num(0.5)); }
static bt_array *run_clip(bt_array *x) { return bt_maximum(x, bt_num(0)); }
static bt_array *sum_all(bt_array *x) { return bt_sum(x, BT_ALL, false); }
static bt_array *sum_rows(bt_array *x) { return bt_sum(x, BT_AXES(1), false); }
static bt_array *sum_columns(bt_array *x) { return bt_sum(x, BT_AXES(0), false); }
static bt_array *greatest_of_rows(bt_array *x) { return bt_max(x, BT_AXES(1), false); }
static bt_array *softmax(bt_array *x) { return bt_softmax(x, -1); }
static bt_array *layer_norm(bt_array *x) { return bt_layer_norm(x, NULL, NULL, 1e-5); }
static bt_array *transpose(bt_array *x) { return bt_neg(bt_transpose(x)); }
static bt_array *transpose_add(bt_array *x) { return bt_add(x, bt_transpose(x)); }

/* With another operand that is broadcast: row and column are set by make_input. */
static bt_array *row, *column;
static bt_array *layer_norm_scaled(bt_array *x) { return bt_layer_norm(x, row, row, 1e-5); }
static bt_array *broadcast(bt_array *x) { return bt_add(bt_mul(x, row), column); }

static const sector_case cases[] = {
    {"map", 0, 4096, run_map, .reads = 1},
    {"maximum with 0", 0, 4096, run_clip, .reads = 1},
    {"sum of all", 0, 4096, sum_all, .reads = 1},
    {"sum of rows of 16", 0, 16, sum_rows, .reads = 1},
    {"sum of rows of 64", 0, 64, sum_rows, .reads = 1},
    {"sum of rows of 512", 0, 512, sum_rows, .reads = 1},
    {"sum of rows of 2112", 0, 2112, sum_rows, .reads = 1},
    {"sum of rows of 16384", 0, 16384, sum_rows, .reads = 1},
    {"sum of 4 rows", 4, 0, sum_rows, .reads = 1},
    {"max of rows of 512", 0, 512, greatest_of_rows, .reads = 1},
    {"sum of columns of 16", 16, 0, sum_columns, .reads = 1},
    {"sum of columns of 2048", 2048, 0, sum_columns, .reads = 1},
    {"sum of 16 columns", 0, 16, sum_columns, .reads = 1},
    {"sum of 512 columns", 0, 512, sum_columns, .reads = 1},
    {"softmax of rows of 16", 0, 16, softmax, .reads = 1},
    {"softmax of rows of 64", 0, 64, softmax, .reads = 1},
    {"softmax of rows of 512", 0, 512, softmax, .reads = 1},
    {"softmax of rows of 2112", 0, 2112, softmax, .reads = 1},
    {"softmax of rows of 16384", 0, 16384, softmax, .reads = 1},
    {"layer norm of rows of 16", 0, 16, layer_norm, .reads = 1},
    {"layer norm of rows of 64", 0, 64, layer_norm, .reads = 1},
    {"layer norm of rows of 512", 0, 512, layer_norm, .reads = 1},
    {"layer norm of rows of 2112", 0, 2112, layer_norm, .reads = 1},
    {"layer norm of rows of 16384", 0, 16384, layer_norm, .reads = 1},
    {"transpose of rows of 2048", 0, 2048, transpose, .reads = 1},
    {"transpose of rows of 64", 0, 64, transpose, .reads = 1},
    {"transpose of 64 rows", 64, 0, transpose, .reads = 1},
    {"x + x.T", 4096, 4096, transpose_add, .reads = 2}, /* x once in its order, once transposed */
    /* An operand of one row is requested again for each row of x, or once for the rows of a warp: it stays in the caches, as
     * sectors_distinct shows. */
    {"scaled layer norm, rows of 512", 0, 512, layer_norm_scaled, .reads = 1, .most = 1.3},
    {"scaled layer norm, rows of 2112", 0, 2112, layer_norm_scaled, .reads = 1, .most = 2},
    {"x * row + column", 0, 1024, broadcast, .reads = 1, .most = 1.6},
};

/* --- counts ----------------------------------------------------------------------------------------------------------- */

typedef struct counted {
    double sectors, distinct; /* distinct: without those that a launch has requested already */
    int launches, resident;   /* resident: the least of all launches */
} counted;

static char counts_path[] = "/tmp/berth-sectors-XXXXXX";

/* The number after "key": in a line of JSON. */
static double number_of(const char *line, const char *key) {
    char text[MOST_NAME];
    snprintf(text, sizeof text, "\"%s\": ", key);
    const char *at = strstr(line, text);
    assert_non_null(at);
    return strtod(at + strlen(text), NULL);
}

/* What the fake driver wrote since the file was emptied. */
static counted read_counts(void) {
    counted c = {.resident = INT_MAX};
    char line[2048];
    FILE *file = fopen(counts_path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        int resident = (int)number_of(line, "resident_blocks");
        c.sectors += number_of(line, "sectors");
        c.distinct += number_of(line, "sectors_distinct");
        if (resident < c.resident) c.resident = resident;
        c.launches++;
    }
    fclose(file);
    return c;
}

static counted count_case(const sector_case *tested, bt_array *x, double *needed) {
    counted c;
    bt_array *result = tested->run(x);
    assert_int_equal(truncate(counts_path, 0), 0);
    OK(bt_block(result));
    bt_synchronize();
    c = read_counts();
    *needed = tested->reads * (double)bt_count(x) + (double)bt_count(result);
    *needed *= (double)bt_dtype_size(bt_dtype_of(x)) / SECTOR;
    return c;
}

static bt_array *zeros(bt_dtype dtype, int64_t rows, int64_t columns) {
    void *data = calloc(1, (size_t)(rows * columns) * bt_dtype_size(dtype));
    assert_non_null(data);
    bt_array *made = bt_from(data, dtype, BT_SHAPE(rows, columns));
    OK(bt_block(made));
    free(data);
    return made;
}

static bt_array *make_input(const sector_case *tested, bt_dtype dtype) {
    int64_t all = BYTES / (int64_t)bt_dtype_size(dtype), rows = tested->rows, columns = tested->columns;
    if (!rows) rows = all / columns;
    if (!columns) columns = all / rows;
    row = bt_reshape(zeros(dtype, 1, columns), columns);
    column = zeros(dtype, rows, 1);
    OK(bt_block(row));
    return zeros(dtype, rows, columns);
}

static const char *verdict(const sector_case *tested, const counted *c, double needed) {
    double most = tested->most > 0 ? tested->most : MOST_OVER_NEEDED;
    if (!c->launches) return "nothing was counted";
    if (c->sectors > most * needed) return "too many sectors";
    if (c->distinct > MOST_OVER_NEEDED * needed) return "too many distinct sectors";
    if (c->sectors < LEAST_OF_NEEDED * needed) return "not all sectors were counted";
    if (tested->most > 0 && c->sectors < MOST_OVER_NEEDED * needed) return "no exception any more";
    return c->resident < 2 ? "less than 2 resident blocks" : NULL;
}

static void sectors_and_residents(void **state) {
    const sector_case *tested = *state;
    const char *wrong = NULL;
    for (int d = 0; d < COUNT(dtypes); d++) {
        BT_SCOPE {
            double needed;
            bt_array *x = make_input(tested, dtypes[d]);
            counted c = count_case(tested, x, &needed);
            const char *found = verdict(tested, &c, needed);
            print_message("%-32s %-8s %d launches, sectors / needed %.3f, at least %d resident blocks%s%s\n",
                          tested->name, bt_dtype_name(dtypes[d]), c.launches, c.sectors / needed, c.resident,
                          found ? ": " : "", found ? found : "");
            if (found) wrong = found;
        }
    }
    if (wrong) fail_msg("%s: %s", tested->name, wrong);
}

/* --- all that is reported --------------------------------------------------------------------------------------------- */

/* The line of the only launch or product that x takes. */
static const char *line_of(bt_array *x) {
    static char line[2048];
    char more[2048];
    assert_int_equal(truncate(counts_path, 0), 0);
    OK(bt_block(x));
    bt_synchronize();
    FILE *file = fopen(counts_path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_null(fgets(more, sizeof more, file));
    fclose(file);
    return line;
}

static void expect_number(const char *line, const char *key, double least, double most) {
    double number = number_of(line, key);
    if (!(number >= least && number <= most))
        fail_msg("%s is %g, not from %g to %g: %s", key, number, least, most, line);
}

static void launches_are_reported(void **state) {
    enum { ROWS = 2048, MAP = ROWS * ROWS };
    BT_SCOPE {
        bt_array *x = zeros(BT_F32, ROWS, ROWS);
        const char *line = line_of(bt_neg(x));
        double warps = number_of(line, "blocks") * number_of(line, "threads") / 32, each = MAP / 4.0 / 32;
        expect_number(line, "registers", 8, 32); /* as many as 2,048 threads of a multiprocessor may have */
        expect_number(line, "spill_bytes", 0, 0);
        expect_number(line, "shared_bytes", 0, 0);
        expect_number(line, "resident_blocks", 2048 / number_of(line, "threads"), 2048 / number_of(line, "threads"));
        expect_number(line, "sectors_needed", MAP / 4 * 0.95,
                      MAP / 4 * 1.05); /* 8 numbers a sector, read and written */
        expect_number(line, "global_requests", 2 * each * 0.95, 2 * each * 1.05); /* of 4 numbers a lane */
        expect_number(line, "load_waits", each / 64, each * 1.05);
        expect_number(line, "instructions", 6 * each, 100 * each + 100 * warps);
        for (int i = 0; i < 4; i++)
            expect_number(line, ((const char *[]){"divergent", "bank_conflicts", "shared_requests", "atomics"})[i], 0,
                          0);
        line = line_of(bt_neg(bt_transpose(x)));
        expect_number(line, "shared_bytes", 32 * 32 * 4, 48 << 10);
        expect_number(line, "shared_requests", MAP / 32 * 0.95, 2 * MAP / 32 * 1.05);
        expect_number(line, "bank_conflicts", 0, 0);
        expect_number(line, "barriers", 1, MAP);
        line = line_of(bt_neg(zeros(BT_F32, 1, 33))); /* some threads have nothing to do */
        expect_number(line, "divergent", 1, 1e6);
    }
}

static void products_are_reported(void **state) {
    BT_SCOPE {
        const char *line = line_of(bt_matmul(zeros(BT_F32, 64, 128), zeros(BT_F32, 128, 256)));
        if (!strstr(line, "\"product\": \"f32\"")) fail_msg("no product of f32: %s", line);
        expect_number(line, "multiplications", 64 * 128 * 256, 64 * 128 * 256);
        expect_number(line, "bytes", (64 * 128 + 128 * 256 + 64 * 256) * 4, (64 * 128 + 128 * 256 + 64 * 256) * 4);
    }
}

/* A dense layer of integers, which no library multiplies: the product is written and read by nobody. */
static counted count_layer(bool fused) {
    enum { ROWS = 256, INNER = 64, COLUMNS = 256 };
    counted c;
    fresh(fused ? "default_device=gpu:0" : "default_device=gpu:0,fuse=off");
    BT_SCOPE {
        bt_array *in[3] = {bt_input(BT_I32, ROWS, INNER), bt_input(BT_I32, INNER, COLUMNS), bt_input(BT_I32, COLUMNS)};
        bt_array *y = bt_maximum(bt_add(bt_matmul(in[0], in[1]), in[2]), bt_num(0)), *got;
        bt_function *layer = bt_function_new(in, 3, &y, 1, NULL, 0);
        bt_array *given[3] = {zeros(BT_I32, ROWS, INNER), zeros(BT_I32, INNER, COLUMNS),
                              bt_reshape(zeros(BT_I32, 1, COLUMNS), COLUMNS)};
        OK(bt_block(given[2]));
        assert_int_equal(truncate(counts_path, 0), 0);
        OK(bt_call(layer, given, 3, &got, 1));
        OK(bt_block(got));
        bt_synchronize();
        c = read_counts();
    }
    return c;
}

static void epilogues_save_the_product(void **state) {
    enum { PRODUCT = 256 * 256 * 4 };
    counted fused = count_layer(true), apart = count_layer(false);
    print_message("a dense layer: %.0f sectors in %d launches, apart %.0f in %d\n", fused.sectors, fused.launches,
                  apart.sectors, apart.launches);
    assert_int_equal(fused.launches, 1);
    assert_true(apart.launches > 1);
    assert_true(fused.sectors <=
                apart.sectors - 2 * PRODUCT / SECTOR * LEAST_OF_NEEDED); /* written and read once less */
    assert_true(fused.distinct <= apart.distinct - 2 * PRODUCT / SECTOR * LEAST_OF_NEEDED);
}

static int start(void **state) {
    char sample[16];
    int file = mkstemp(counts_path);
    assert_true(file >= 0);
    close(file);
    snprintf(sample, sizeof sample, "%d", SAMPLE);
    setenv("BERTH_FAKE_COUNTS", counts_path, 1);
    setenv("BERTH_FAKE_SAMPLE", sample, 1);
    fresh("default_device=gpu:0");
    return 0;
}

static int end(void **state) {
    unlink(counts_path);
    return fresh_end(state);
}

int main(void) {
    struct CMUnitTest tests[COUNT(cases) + 3] = {[COUNT(cases)] = cmocka_unit_test(launches_are_reported),
                                                 [COUNT(cases) + 1] = cmocka_unit_test(products_are_reported),
                                                 [COUNT(cases) + 2] = cmocka_unit_test(epilogues_save_the_product)};
    setenv("BERTH_TEST_DEVICES", "cuda-emulated", 1);
    restart_emulated();
    for (int i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){cases[i].name, sectors_and_residents, NULL, NULL, (void *)(uintptr_t)&cases[i]};
    return _cmocka_run_group_tests("sectors", tests, COUNT(tests), start, end);
}
