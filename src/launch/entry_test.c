/* What there is to launch of a kernel, for which boxes, and how much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "launch/entry.h"

static int add(bti_kernel *kernel, bti_op op, bt_dtype dtype, int a, int b) {
    kernel->instrs[kernel->instr_count] =
        (bti_instr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .arg = {(uint16_t)a, (uint16_t)b}};
    return kernel->instr_count++;
}

static int add_input(bti_kernel *kernel, bt_dtype dtype, unsigned moves, bool unit) {
    kernel->operands[kernel->input_count] =
        (bti_kernel_operand){.dtype = (uint8_t)dtype, .moves = (uint8_t)moves, .unit = unit};
    return add(kernel, BTI_OP_leaf, dtype, kernel->input_count++, 0);
}

static void add_output(bti_kernel *kernel, int value, unsigned moves, bool unit) {
    kernel->operands[bti_kernel_operands(kernel)] = (bti_kernel_operand){
        .dtype = kernel->instrs[value].dtype, .moves = (uint8_t)moves, .unit = unit, .value = (uint16_t)value};
    kernel->output_count++;
    bti_kernel_set_stages(kernel);
    assert_null(bti_kernel_verify(kernel));
}

/* x[i, j] + y[i, j] * a, y of a smaller dtype, x by one element along the line or not. */
static void make_map(bti_kernel *kernel, bool unit) {
    *kernel = (bti_kernel){.outer = 1, .inner = 1};
    int x = add_input(kernel, BT_F32, 3, unit), y = add_input(kernel, BT_F16, 3, true);
    int a = add(kernel, BTI_OP_const, BT_F32, kernel->scalar_count++, 0);
    int product = add(kernel, BTI_OP_mul, BT_F32, add(kernel, BTI_OP_cast, BT_F32, y, 0), a);
    add_output(kernel, add(kernel, BTI_OP_add, BT_F32, x, product), 3, true);
}

/* Rows of several lines: x - max(x); or columns' sums. */
static void make_rows(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 2};
    int x = add_input(kernel, BT_F32, 7, true), most = add(kernel, BTI_OP_max, BT_F32, x, 0);
    add_output(kernel, add(kernel, BTI_OP_sub, BT_F32, x, most), 7, true);
}

static void make_columns(bti_kernel *kernel) {
    *kernel = (bti_kernel){.outer = 1, .reduced = 1, .inner = 1};
    int x = add_input(kernel, BT_F16, 7, true);
    add_output(kernel, add(kernel, BTI_OP_sum, BT_F16, x, 0), 5, true);
    add_output(kernel, add(kernel, BTI_OP_max, BT_F16, x, 0), 5, true);
}

static bti_box map_box(void) {
    bti_box box = {.extent = {10, 30}, .address = {1024, 2048, 4096}};
    int64_t stride[3][2] = {{32 * 4, 4}, {32 * 2, 2}, {32 * 4, 4}};
    for (int o = 0; o < 3; o++) memcpy(box.stride[o], stride[o], sizeof stride[o]);
    return box;
}

static void maps(void **state) {
    static bti_kernel kernel;
    make_map(&kernel, true);
    bti_box box = map_box();
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_RUN, BTI_OPENCL_C, &box));
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_WIDE, BTI_OPENCL_C, &box));
    assert_int_equal(bti_entry_width(&kernel), 4);
    assert_int_equal(bti_entry_units(&kernel, BTI_ENTRY_RUN, BTI_OPENCL_C, &box), 300);
    assert_int_equal(bti_entry_units(&kernel, BTI_ENTRY_WIDE, BTI_OPENCL_C, &box), 80);
    assert_int_equal(bti_entry_threads(&kernel, BTI_ENTRY_WIDE, BTI_OPENCL_C), BTI_GROUP);
    for (bti_entry entry = BTI_ENTRY_TILED; entry < BTI_ENTRY_COUNT; entry++)
        assert_false(bti_entry_exists(&kernel, entry));
    box.address[1] += 4; /* four halves lie on 8 bytes */
    assert_false(bti_entry_fits(&kernel, BTI_ENTRY_WIDE, BTI_OPENCL_C, &box));
    box.address[1] += 4;
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_WIDE, BTI_OPENCL_C, &box));
    box.stride[2][0] = 30 * 4;
    assert_false(bti_entry_fits(&kernel, BTI_ENTRY_WIDE, BTI_OPENCL_C, &box));
    box.extent[0] = 1; /* no step is taken */
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_WIDE, BTI_OPENCL_C, &box));
}

static void tiles(void **state) {
    static bti_kernel kernel;
    make_map(&kernel, false);
    bti_box box = map_box();
    assert_false(bti_entry_exists(&kernel, BTI_ENTRY_WIDE));
    assert_true(bti_entry_exists(&kernel, BTI_ENTRY_TILED));
    assert_true(bti_kernel_may_cross(&kernel, 0));
    assert_false(bti_kernel_may_cross(&kernel, 1));
    assert_false(bti_entry_fits(&kernel, BTI_ENTRY_TILED, BTI_OPENCL_C, &box)); /* nothing leaps */
    box.stride[0][0] = 4, box.stride[0][1] = 40;
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_TILED, BTI_OPENCL_C, &box));
    box.extent[0] = 65, box.extent[1] = 128;
    assert_int_equal(bti_entry_units(&kernel, BTI_ENTRY_TILED, BTI_OPENCL_C, &box), 4);
    box.stride[0][0] = 8; /* leaps along both */
    assert_false(bti_entry_fits(&kernel, BTI_ENTRY_TILED, BTI_OPENCL_C, &box));
}

static void rows(void **state) {
    static bti_kernel kernel;
    make_rows(&kernel);
    bti_box box = {.extent = {5, 3, BTI_ROW_CHUNK + 1}};
    assert_int_equal(bti_entry_unit_threads(&kernel, BTI_ENTRY_RUN), 32);
    assert_int_equal(bti_entry_threads(&kernel, BTI_ENTRY_RUN, BTI_CUDA_C), BTI_GROUP);
    assert_int_equal(bti_entry_threads(&kernel, BTI_ENTRY_RUN, BTI_OPENCL_C_F32), 32);
    assert_true(bti_entry_exists(&kernel, BTI_ENTRY_KEPT));
    assert_false(bti_entry_exists(&kernel, BTI_ENTRY_PART)); /* two sweeps */
    assert_true(bti_entry_keeps(&kernel, 0));
    assert_false(bti_entry_keeps(&kernel, 1));
    assert_int_equal(bti_entry_local(&kernel, &box), (3 * (BTI_ROW_CHUNK + 1) * 4 + 15) / 16 * 16);
    assert_int_equal(bti_entry_units(&kernel, BTI_ENTRY_KEPT, BTI_OPENCL_C, &box), 5);
    assert_int_equal(bti_entry_sets(&kernel, &box, bti_kernel_chunk(&kernel)), 6);
    bool needed[BTI_KERNEL_INSTRS];
    bti_kernel_needs(&kernel, 0, NULL, needed);
    assert_true(needed[0] && !needed[1] && !needed[2]);
    bti_kernel_needs(&kernel, 1, NULL, needed);
    assert_true(needed[0] && needed[1] && needed[2]);
}

static void wide_rows(void **state) {
    static bti_kernel kernel;
    make_rows(&kernel);
    bti_box box = {.extent = {5, 3, 64}, .address = {1024, 4096}};
    for (int o = 0; o < 2; o++) memcpy(box.stride[o], (const int64_t[]){3 * 256, 256, 4}, 24);
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_ROWS, BTI_OPENCL_C, &box));
    assert_false(bti_entry_exists(&kernel, BTI_ENTRY_PART_WIDE)); /* two sweeps */
    assert_int_equal(bti_entry_unit_threads(&kernel, BTI_ENTRY_ROWS), 8);
    assert_int_equal(bti_entry_threads(&kernel, BTI_ENTRY_ROWS, BTI_CUDA_C), BTI_GROUP);
    assert_int_equal(bti_entry_threads(&kernel, BTI_ENTRY_ROWS, BTI_OPENCL_C), 32);
    assert_int_equal(bti_entry_units(&kernel, BTI_ENTRY_ROWS, BTI_OPENCL_C, &box), 5);
    box.extent[2] = 62;
    assert_false(bti_entry_fits(&kernel, BTI_ENTRY_ROWS, BTI_OPENCL_C, &box));
    box.extent[2] = 64, box.address[1] += 8;
    assert_false(bti_entry_fits(&kernel, BTI_ENTRY_ROWS, BTI_OPENCL_C, &box));
    make_columns(&kernel);
    assert_false(bti_entry_exists(&kernel, BTI_ENTRY_ROWS));
}

static void columns(void **state) {
    static bti_kernel kernel;
    make_columns(&kernel);
    bti_box box = {.extent = {4, BTI_COLUMN_CHUNK, 7}};
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_RUN, BTI_OPENCL_C, &box));
    box.extent[1]++;
    assert_false(bti_entry_fits(&kernel, BTI_ENTRY_RUN, BTI_OPENCL_C, &box));
    assert_true(bti_entry_fits(&kernel, BTI_ENTRY_PART, BTI_OPENCL_C, &box) &&
                bti_entry_fits(&kernel, BTI_ENTRY_FINISH, BTI_OPENCL_C, &box));
    assert_int_equal(bti_entry_unit_threads(&kernel, BTI_ENTRY_PART), 1);
    assert_int_equal(bti_entry_unit_threads(&kernel, BTI_ENTRY_FINISH), 32);
    assert_int_equal(bti_entry_sets(&kernel, &box, bti_kernel_chunk(&kernel)), 2);
    assert_int_equal(bti_entry_points(&kernel, &box), 28);
    assert_int_equal(bti_entry_reductions(&kernel), 2);
    assert_int_equal(bti_entry_units(&kernel, BTI_ENTRY_PART, BTI_OPENCL_C, &box), 56);
    assert_int_equal(bti_entry_units(&kernel, BTI_ENTRY_FINISH, BTI_OPENCL_C, &box), 28);
    assert_int_equal(bti_entry_units(&kernel, BTI_ENTRY_PART, BTI_CUDA_C, &box),
                     28 * 65); /* of 16 points, since they are few */
    box.extent[0] = 4096;
    assert_int_equal(bti_entry_chunk(&kernel, BTI_CUDA_C, &box), BTI_SHORT_COLUMN_CHUNK);
}

/* Extents; address and strides of each operand; constants in their dtype's bits; the parts. */
static void words(void **state) {
    static bti_kernel kernel;
    static bti_words words;
    bti_word_places places;
    double half = 0.5;
    uint64_t scalar;
    memcpy(&scalar, &half, sizeof scalar);
    make_map(&kernel, true);
    bti_box box = map_box();
    box.scalars = &scalar;
    bti_words_of(&kernel, BTI_ENTRY_RUN, &box, 0, &words);
    const uint64_t expected[] = {10, 30, 1024, 128, 4, 2048, 64, 2, 4096, 128, 4, 0x3F000000};
    assert_int_equal(words.count, 12);
    assert_memory_equal(words.word, expected, sizeof expected);
    assert_int_equal(words.address_count, 3);
    assert_memory_equal(words.address, ((uint16_t[]){2, 5, 8}), 6);
    bti_word_places_of(&kernel, BTI_ENTRY_RUN, &places);
    assert_int_equal(places.count, 12);
    assert_int_equal(places.address[1], 5);
    assert_int_equal(places.stride[1][1], 7);
    assert_int_equal(places.constant[2], 11);
    assert_int_equal(places.more, -1);
    make_columns(&kernel);
    bti_words_of(&kernel, BTI_ENTRY_FINISH, &box, 77, &words);
    bti_word_places_of(&kernel, BTI_ENTRY_FINISH, &places);
    assert_int_equal(places.count, words.count);
    assert_int_equal(places.more, words.count - 1);
    assert_int_equal(words.word[places.more], 77);
    assert_int_equal(words.address[words.address_count - 1], places.more);
    assert_true(bti_words_by_value(500, 3, BTI_CUDA_C) && !bti_words_by_value(501, 3, BTI_CUDA_C));
    assert_true(bti_words_by_value(122, 3, BTI_OPENCL_C) && !bti_words_by_value(123, 3, BTI_OPENCL_C));
}

/* Those of an epilogue stand behind those of a product; the operand that is the product has no memory. */
static void words_of_epilogues(void **state) {
    static bti_kernel kernel, epilogue;
    static bti_words words, more;
    double half = 0.5;
    uint64_t scalar;
    memcpy(&scalar, &half, sizeof scalar);
    make_map(&kernel, true);
    bti_box box = map_box();
    box.scalars = &scalar;
    bti_epilogue_without_memory(&kernel, 0, &epilogue);
    bti_words_of(&epilogue, BTI_ENTRY_RUN, &box, 0, &more);
    words.count = words.address_count = 0;
    bti_words_add_address(&words, 77);
    bti_words_add(&words, 5);
    bti_words_append(&words, &more);
    const uint64_t expected[] = {77, 5, 10, 30, 1024, 128, 4, 2048, 64, 2, 4096, 128, 4, 0x3F000000};
    assert_int_equal(words.count, 14);
    assert_memory_equal(words.word, expected, sizeof expected);
    assert_int_equal(words.address_count, 3);
    assert_memory_equal(words.address, ((uint16_t[]){0, 7, 10}), 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps),
                                       cmocka_unit_test(tiles),
                                       cmocka_unit_test(rows),
                                       cmocka_unit_test(wide_rows),
                                       cmocka_unit_test(columns),
                                       cmocka_unit_test(words),
                                       cmocka_unit_test(words_of_epilogues)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
