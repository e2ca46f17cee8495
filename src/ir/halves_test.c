/* Maps in halves: which there are, and that they compute what the map computes, by the interpreter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "ir/halves.h"
#include "support/render_evaluate.h"

/* --- maps by hand: a random word with these operands' moves, and what else is done ------------------------------------ */

typedef struct words {
    unsigned key, number; /* the axes that they move along */
    int outer, count;     /* axes before the line; words, each with a key of its own */
    unsigned with;        /* what is added moves along these axes; 0: nothing is */
    bool unit;            /* by one element */
    int more;             /* and so many steps more */
} words;

static int word_of(bti_kernel *kernel, const words *w, int *counter) {
    int first = add_input(kernel, BT_U32, w->key, false, false),
        second = add_input(kernel, BT_U32, w->key, false, false);
    *counter = kernel->input_count;
    int index = add_input(kernel, BT_U32, w->number, w->number >> w->outer & 1, true);
    int count = add_scalar(kernel, BT_U32);
    return add_instr(kernel, BTI_OP_random_word, BT_U32, first, second, index, count);
}

/* counter[]: the operands that count. */
static void make_map(bti_kernel *kernel, const words *w, int *counter) {
    *kernel = (bti_kernel){.outer = (uint8_t)w->outer, .inner = 1};
    int all = word_of(kernel, w, &counter[0]);
    for (int i = 1; i < w->count; i++)
        all = add_instr(kernel, BTI_OP_xor, BT_U32, all, word_of(kernel, w, &counter[i]), 0, 0);
    if (w->with)
        all = add_instr(kernel, BTI_OP_add, BT_U32, all, add_input(kernel, BT_U32, w->with, w->unit, false), 0, 0);
    for (int i = 0; i < w->more; i++) all = add_instr(kernel, BTI_OP_mul, BT_U32, all, all, 0, 0);
    add_output(kernel, all, true);
    assert_null(bti_kernel_verify(kernel));
}

/* Numbers count from 0 along all axes that they move along; scalars are how many there are. */
static void lay_out(launch *l, const bti_kernel *kernel, const int *counter, int count_of_words,
                    const int64_t *extent) {
    uint64_t random = 5;
    prepare(l, kernel, &random);
    clean(l);
    l->points = 1;
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) l->points *= l->box.extent[axis] = extent[axis];
    l->kept = l->points;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) place_operand(l, o, &random);
    for (int w = 0; w < count_of_words; w++) {
        int64_t count = 1;
        for (int axis = bti_kernel_line(kernel); axis >= 0; axis--) {
            if (!(kernel->operands[counter[w]].moves >> axis & 1)) continue;
            l->box.stride[counter[w]][axis] = count;
            count *= extent[axis];
        }
        l->box.address[counter[w]] = 0;
        l->scalars[w] = (uint64_t)count;
    }
}

/* --- in halves ---------------------------------------------------------------------------------------------------------- */

static void evaluate_in_halves(const launch *l, int axis, const bti_kernel *halved) {
    static launch h;
    h = (launch){.kernel = halved, .points = l->points / 2, .kept = l->points / 2, .box = l->box};
    bti_halves_box(l->kernel, axis, &h.box);
    memcpy(h.scalars, l->scalars, sizeof h.scalars);
    for (int o = 0; o < bti_kernel_operands(halved); o++) h.memory[o] = (char *)(uintptr_t)h.box.address[o];
    evaluate(&h);
    for (int o = halved->input_count; o < bti_kernel_operands(halved); o++)
        for (int64_t p = 0; p < h.points; p++)
            memcpy(h.memory[o] + offset(&h, o, p), (char *)h.values[halved->operands[o].value] + p * 4, 4);
    memset(h.memory, 0, sizeof h.memory);
    clean(&h);
}

static void expect(const words *w, const int64_t *extent, int axis) {
    static bti_kernel kernel, halved;
    static launch l;
    int counter[8], blocks = 0;
    int64_t first;
    make_map(&kernel, w, counter);
    lay_out(&l, &kernel, counter, w->count, extent);
    assert_int_equal(bti_halves_axis(&kernel, &l.box), axis);
    if (axis >= 0) {
        bti_halves_kernel(&kernel, axis, &halved);
        assert_null(bti_kernel_verify(&halved));
        for (int i = 0; i < halved.instr_count; i++) {
            assert_int_not_equal(halved.instrs[i].op, BTI_OP_random_word);
            blocks += halved.instrs[i].op == BTI_OP_threefry && halved.instrs[i].attr == 0;
        }
        assert_int_equal(blocks, w->count);
        evaluate(&l);
        evaluate_in_halves(&l, axis, &halved);
        assert_int_equal(differences(&l, l.memory, &first), 0);
    }
    clean(&l);
}
#define EXPECT(axis, extents, ...) expect(&(words){__VA_ARGS__}, (const int64_t[]){extents}, axis)
#define BY ,

static void lines_are_halved(void **state) {
    EXPECT(0, 1110, .number = 1, .count = 1);
    EXPECT(0, 2, .number = 1, .count = 1);
    EXPECT(0, 4098, .number = 1, .count = 3, .with = 1);
    EXPECT(-1, 1111, .number = 1, .count = 1);
    EXPECT(-1, 1, .number = 1, .count = 1);
}

/* What is added stands still along an axis, so that there are two. */
static void the_axis_that_counts_slowest_is_halved(void **state) {
    EXPECT(0, 6 BY 5, .outer = 1, .number = 3, .count = 1, .with = 2, .unit = true);
    EXPECT(0, 2 BY 3 BY 5, .outer = 2, .number = 7, .count = 2, .with = 1);
    EXPECT(-1, 5 BY 6, .outer = 1, .number = 3, .count = 1, .with = 2, .unit = true);
}

/* The same numbers for each of several keys; one key for all, where words of the same numbers are the same. */
static void keys_of_their_own(void **state) {
    EXPECT(1, 3 BY 64, .outer = 1, .key = 1, .number = 2, .count = 1);
    EXPECT(0, 64 BY 3, .outer = 1, .number = 1, .count = 1, .with = 3, .unit = true);
    EXPECT(-1, 64, .key = 1, .number = 1, .count = 1);
}

static void others_stay(void **state) {
    EXPECT(-1, 8 BY 8, .outer = 1, .number = 3, .count = 1, .with = 3); /* what is added may leap */
    EXPECT(0, 64, .number = 1, .count = 1, .more = 90);
    EXPECT(-1, 64, .number = 1, .count = 1, .more = 95); /* no room */
    EXPECT(-1, 64, .count = 1);                          /* one number for all */
}

static void other_numbers_stay(void **state) {
    static bti_kernel kernel;
    static launch l;
    int counter[2];
    make_map(&kernel, &(words){.number = 1, .count = 2}, counter);
    lay_out(&l, &kernel, counter, 2, (const int64_t[]){100});
    assert_int_equal(bti_halves_axis(&kernel, &l.box), 0);
    l.box.address[counter[1]] = 2; /* a part of the line */
    assert_int_equal(bti_halves_axis(&kernel, &l.box), -1);
    l.box.address[counter[1]] = (uint64_t)-1;
    assert_int_equal(bti_halves_axis(&kernel, &l.box), -1);
    l.box.address[counter[1]] = 0;
    l.scalars[1] = 200;
    assert_int_equal(bti_halves_axis(&kernel, &l.box), -1);
    l.scalars[1] = 100;
    l.box.stride[counter[1]][0] = -1; /* backwards */
    assert_int_equal(bti_halves_axis(&kernel, &l.box), -1);
    clean(&l);
}

static void many_operands_stay(void **state) {
    static bti_kernel kernel;
    for (int inputs = 30; inputs < 32; inputs++) {
        bti_box box = {.extent = {64}, .scalars = (const uint64_t[]){64}};
        kernel = (bti_kernel){.inner = 1};
        int counter, all = word_of(&kernel, &(words){.number = 1}, &counter);
        for (int i = 1; i < inputs; i++)
            all = add_instr(&kernel, BTI_OP_add, BT_U32, all, add_input(&kernel, BT_U32, 1, true, false), 0, 0);
        add_output(&kernel, all, true);
        box.stride[counter][0] = 1;
        assert_int_equal(bti_halves_axis(&kernel, &box), inputs == 30 ? 0 : -1);
    }
}

static void the_name_has_each_operation_once(void **state) {
    static bti_kernel kernel, halved;
    char name[64];
    random_kernel(&kernel);
    bti_halves_kernel(&kernel, 0, &halved);
    bti_kernel_name(name, sizeof name, &halved);
    assert_string_equal(name, "threefry+shr+or+bitcast+sub");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_halved),
        cmocka_unit_test(the_axis_that_counts_slowest_is_halved),
        cmocka_unit_test(keys_of_their_own),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(other_numbers_stay),
        cmocka_unit_test(many_operands_stay),
        cmocka_unit_test(the_name_has_each_operation_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
