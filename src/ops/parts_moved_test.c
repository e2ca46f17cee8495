// labels: valgrind
/* Gradients of parts of views: where they go in the array itself, and what they cost when a view is recorded anew for each part. */
#include <stdlib.h>

#include "ops/ops_test.h"

/* --- where they go ---------------------------------------------------------------------------------------------------- */

/* A view of an array of 24 elements, and a part of it. */
typedef bt_array *view_fn(bt_array *x);
typedef bt_array *row_fn(bt_array *x, int i);

static bt_array *part(bt_array *x, int axis, int64_t start, int64_t stop, int64_t step) {
    return bt_slice_axis(x, axis, start, stop, step);
}
static bt_array *cube(bt_array *x) { return bt_reshape(x, 2, 3, 4); }

#define VIEW(name, of) \
    static bt_array *name(bt_array *x) { return of; }
VIEW(row_of_turned, part(bt_transpose(bt_reshape(x, 4, 6)), 0, 2, 3, 1))
VIEW(box_of_turned, part(part(bt_permute(cube(x), 2, 0, 1), 0, 1, 3, 1), 2, 0, 2, 1))
VIEW(steps_of_turned, part(bt_permute(cube(x), 1, 2, 0), 1, 3, 0, -2))
VIEW(rows_of_turned, bt_take(bt_permute(cube(x), 2, 0, 1), I32((2), 3, -4), 0))
VIEW(of_flipped, part(bt_flip(bt_reshape(x, 6, 4), BT_AXES(0)), 0, 1, 5, 3))
VIEW(of_sliced, part(part(bt_reshape(x, 12, 2), 0, 10, 1, -2), 0, 1, 4, 2))
VIEW(rows_of_flipped, bt_take(bt_flip(bt_reshape(x, 6, 4), BT_AXES(0)), I32((2), 1, -2), 0))
VIEW(of_flat, part(bt_reshape(cube(x), -1), 0, 4, 8, 1))
VIEW(of_flat_over_rows, part(bt_reshape(cube(x), -1), 0, 4, 12, 1))
VIEW(of_flat_across, part(bt_reshape(cube(x), -1), 0, 3, 7, 1))
VIEW(of_flat_within, part(bt_reshape(cube(x), -1), 0, 13, 15, 1))
VIEW(of_flat_in_steps, part(bt_reshape(cube(x), -1), 0, 4, 8, 2))
VIEW(of_split, part(bt_reshape(x, 4, 6), 0, 1, 3, 1))
VIEW(column_of_split, part(bt_reshape(x, 4, 6), 1, 1, 3, 1))
VIEW(element_of_split, part(part(bt_reshape(x, 4, 6), 1, 1, 2, 1), 0, 2, 3, 1))
VIEW(of_other_axes, part(bt_reshape(bt_reshape(x, 4, 6), 2, 3, 4), 0, 1, 2, 1))
VIEW(of_unlike_axes, part(bt_reshape(bt_reshape(x, 6, 4), 4, 6), 0, 1, 2, 1))
VIEW(of_merged_behind, part(bt_reshape(cube(x), 2, 12), 1, 4, 8, 1))
VIEW(row_of_merged, part(part(bt_reshape(cube(x), 2, 12), 1, 8, 12, 1), 0, 1, 2, 1))
VIEW(of_merged_before, part(bt_reshape(cube(x), 6, 4), 1, 1, 4, 2))
VIEW(of_expanded, part(bt_expand_dims(bt_reshape(x, 4, 6), 1), 2, 5, 1, -2))
VIEW(rows_of_expanded, bt_take(bt_expand_dims(bt_reshape(x, 4, 6), 1), I32((3), 1, 1, 2), 2))
VIEW(rows_of_merged, bt_take(bt_reshape(cube(x), 6, 4), I32((2), 1, 5), 0))
VIEW(one_row, bt_take(bt_expand_dims(x, 0), I32((1), 0), 0))
VIEW(of_many, part(bt_flip(bt_reshape(bt_transpose(bt_reshape(x, 4, 6)), 6, 2, 2), BT_AXES(0, 2)), 0, 1, 2, 1))
VIEW(nothing, part(bt_transpose(bt_reshape(x, 4, 6)), 0, 2, 2, 1))
VIEW(twice,
     bt_concat(ALL(row_of_turned(x), row_of_turned(x), part(bt_transpose(bt_reshape(x, 4, 6)), 0, 1, 3, 1)), 3, 0))

static view_fn *const views[] = {row_of_turned,    box_of_turned,    steps_of_turned,
                                 rows_of_turned,   of_flipped,       of_sliced,
                                 rows_of_flipped,  of_flat,          of_flat_over_rows,
                                 of_flat_across,   of_flat_within,   of_flat_in_steps,
                                 of_split,         column_of_split,  element_of_split,
                                 of_other_axes,    of_unlike_axes,   of_merged_behind,
                                 row_of_merged,    of_merged_before, of_expanded,
                                 rows_of_expanded, rows_of_merged,   one_row,
                                 of_many,          nothing,          twice};

/* Each element of the view says which one of x it is: its gradient is added there. */
static void parts_of_views_are_parts(void **state) {
    for (size_t v = 0; v < sizeof views / sizeof *views; v++)
        BT_SCOPE {
            bt_array *x = bt_normal(bt_key(1), BT_F32, 24), *of = views[v](x), *grad;
            bt_array *weights = bt_normal_shape(bt_key(2), BT_F32, bt_shape_of(of));
            bt_array *places = bt_reshape(views[v](bt_arange(0, 24, 1, BT_I32)), -1);
            bt_array *wanted = bt_scatter_add(bt_zeros(BT_F32, 24), places, bt_reshape(weights, -1), 0);
            double away = 1;
            assert_int_equal(bt_grad(bt_sum(bt_mul(of, weights), BT_ALL, false), &x, 1, &grad), BT_OK);
            bt_array *worst = bt_cast(bt_max(bt_abs(bt_sub(grad, wanted)), BT_ALL, false), BT_F64);
            if (bt_read(worst, &away, sizeof away) != BT_OK) fail_msg("view %zu: %s", v, bt_error_text());
            if (!(away < 1e-6)) fail_msg("view %zu: the gradient differs by %g", v, away);
        }
}

/* --- what they cost --------------------------------------------------------------------------------------------------- */

enum { ROWS = 64, WIDTH = 16 };

#define ROW(name, of) \
    static bt_array *name(bt_array *x, int i) { return of; }
ROW(row, part(x, 0, i, i + 1, 1))
ROW(turned_row, part(bt_transpose(x), 1, i, i + 1, 1))
ROW(flipped_row, part(bt_flip(x, BT_AXES(0)), 0, i, i + 1, 1))
ROW(flat_row, part(bt_reshape(x, -1), 0, i *WIDTH, i *WIDTH + WIDTH, 1))
ROW(expanded_row, part(bt_expand_dims(x, 1), 0, i, i + 1, 1))
ROW(taken_row, bt_take(bt_transpose(x), bt_i32(i), 1))
ROW(row_of_all, part(bt_expand_dims(bt_flip(bt_transpose(x), BT_AXES(1)), 0), 2, i, i + 1, 1))

/* Bytes that the gradient of all rows, each read by a view of its own, moves. */
static int64_t bytes_of(row_fn *read) {
    bt_array *x = bt_input(BT_F32, ROWS, WIDTH), *sum = bt_f32(0), *none = NULL;
    for (int i = 0; i < ROWS; i++) sum = bt_add(sum, bt_sum(bt_mul(bt_sin(read(x, i)), bt_num(i + 1)), BT_ALL, false));
    bt_array *grad = bt_grad1(sum, x);
    bt_function *f = bt_function_new(&x, 1, &grad, 1, NULL, 0);
    bt_shape shape = BT_SHAPE(ROWS, WIDTH);
    bt_cost cost = BT_COST_INIT;
    assert_int_equal(bt_function_cost(f, &none, &shape, 1, &cost), BT_OK);
    return cost.bytes_read + cost.bytes_written;
}

static void views_recorded_anew_cost_as_one(void **state) {
    row_fn *const rows[] = {turned_row, flipped_row, flat_row, expanded_row, row_of_all};
    BT_SCOPE {
        int64_t plain = bytes_of(row), taken = bytes_of(taken_row);
        if (taken > 3 * plain)
            fail_msg("rows taken: %lld bytes, rows of the array %lld", (long long)taken, (long long)plain);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            int64_t moved = bytes_of(rows[k]);
            if (moved > plain * 3 / 2)
                fail_msg("view %zu: %lld bytes, rows of the array %lld", k, (long long)moved, (long long)plain);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_views_are_parts),
        cmocka_unit_test(views_recorded_anew_cost_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
