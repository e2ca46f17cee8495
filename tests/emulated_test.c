// timeout: 600
/* Programs on emulated GPUs: transfers, launches, kernels, several devices. BERTH_TEST_KERNEL is the name of the only kernel to run. */
#include "support/emulated_programs.h"

/* --- transfers -------------------------------------------------------------------------------------------------------- */

static void large_transfers_are_ordered(void **state) {
    begin();
    float *data = numbers(LARGE, 1);
    BT_SCOPE {
        bt_array *made[3];
        for (int i = 0; i < 3; i++) {
            bt_array *x = bt_from(data, BT_F32, bt_shape_of(bt_zeros(BT_F32, LARGE)));
            made[i] = bt_add(bt_mul(x, bt_num(2)), bt_num(i));
            OK(bt_eval(made[i]));
        }
        for (int i = 2; i >= 0; i--) expect_line(made[i], LARGE, 1, 2, (float)i);
    }
    test_free(data);
}

static void small_uploads_share_a_buffer(void **state) {
    begin();
    BT_SCOPE {
        bt_array *made[200];
        for (int i = 0; i < 200; i++) {
            float *data = numbers(1000, (float)i);
            made[i] = bt_neg(bt_from(data, BT_F32, (bt_shape){1, {1000}}));
            OK(bt_eval(made[i]));
            memset(data, 0xff, 1000 * sizeof *data);
            test_free(data);
        }
        for (int i = 0; i < 200; i++) expect_line(made[i], 1000, (float)i, -1, 0);
    }
}

static void memory_is_reused_in_order(void **state) {
    begin();
    float *data = numbers(LARGE / 64, 3);
    BT_SCOPE {
        bt_array *x = bt_from(data, BT_F32, (bt_shape){1, {LARGE / 64}}), *kept[40];
        for (int i = 0; i < 40; i++) {
            BT_SCOPE {
                bt_array *gone = bt_add(x, bt_num(1000 + i));
                OK(bt_eval(gone));
                kept[i] = bt_keep(bt_sub(gone, bt_num(1000)));
            }
            OK(bt_eval(kept[i]));
            if (i % 3 == 0) expect_line(kept[i], LARGE / 64, 3, 1, (float)i);
            if (i >= 4) bt_release(kept[i - 4]);
        }
        for (int i = 36; i < 40; i++) bt_release(kept[i]);
    }
    test_free(data);
}

/* No kernel stands between the two. */
static void uploads_are_read_back(void **state) {
    begin();
    BT_SCOPE {
        for (int i = 0; i < 8; i++) {
            float *data = numbers(LARGE / 32, (float)i);
            bt_array *x = bt_from(data, BT_F32, (bt_shape){1, {LARGE / 32}});
            OK(bt_eval(x));
            test_free(data);
            expect_line(x, LARGE / 32, (float)i, 1, 0);
        }
    }
}

/* Kernels read what the device copied from the program's pinned memory, which is written again at once, and freed while they are in flight. */
static void pinned_memory_is_copied_in_order(void **state) {
    enum { PARTS = 5, PART = 40000 };
    begin();
    BT_SCOPE {
        bt_array *made[PARTS];
        float *memory = bt_pinned(bt_default_device(), PARTS * PART * sizeof *memory);
        assert_true(memory && bt_is_pinned(memory));
        for (int i = 0; i < 2 * PARTS; i++) {
            float *part = memory + i % PARTS * PART;
            for (int k = 0; k < PART; k++) part[k] = (float)(i + k % 509);
            made[i % PARTS] = bt_add(bt_mul(bt_from(part, BT_F32, BT_SHAPE(PART)), bt_num(2)), bt_num(i));
            OK(bt_eval(made[i % PARTS]));
        }
        OK(bt_read(made[1], memory + 7, PART * sizeof *memory));
        for (int k = 0; k < PART; k++) assert_true(memory[7 + k] == (float)(2 * (PARTS + 1 + k % 509) + PARTS + 1));
        bt_pinned_free(memory);
        for (int i = 0; i < PARTS; i++) expect_line(made[i], PART, (float)(PARTS + i), 2, (float)(PARTS + i));
    }
}

/* --- launches --------------------------------------------------------------------------------------------------------- */

/* More words of arguments than a launch takes by value: they go through slots in device memory, which wrap around. One task has more
 * launches than there are slots, and nothing waits between them: each sum has as many operands as a kernel may have. */
static void many_arguments_go_through_memory(void **state) {
    enum { PARTS = 63, TIMES = 80, COUNT_OF = 1 << 8 };
    begin();
    BT_SCOPE {
        bt_array *parts[PARTS], *results[TIMES];
        float data[COUNT_OF], want[COUNT_OF] = {0};
        for (int i = 0; i < PARTS; i++) {
            for (int k = 0; k < COUNT_OF; k++) data[k] = (float)((k * 7 + i * 13) % 61);
            parts[i] = bt_from(data, BT_F32, (bt_shape){8, {2, 2, 2, 2, 2, 2, 2, 2}});
            /* axes a and a + 1 exchanged, so that no two of all operands' can be one */
            int a = i % 7, high = 7 - a, low = 6 - a;
            bt_axes axes = BT_AXES(0, 1, 2, 3, 4, 5, 6, 7);
            axes.axis[a] = a + 1, axes.axis[a + 1] = a;
            parts[i] = bt_permute_axes(parts[i], axes);
            for (int k = 0; k < COUNT_OF; k++)
                want[k] += data[(k & ~(1 << high | 1 << low)) | (k >> high & 1) << low | (k >> low & 1) << high];
        }
        for (int t = 0; t < TIMES; t++) {
            results[t] = bt_add(parts[0], bt_num(t));
            for (int i = 1; i < PARTS; i++) results[t] = bt_add(results[t], parts[i]);
        }
        OK(bt_eval_all(results, TIMES));
        for (int t = 0; t < TIMES; t++) {
            OK(bt_read(results[t], data, sizeof data));
            for (int k = 0; k < COUNT_OF; k++) assert_true(data[k] == want[k] + (float)t);
        }
    }
}

/* --- kernels ---------------------------------------------------------------------------------------------------------- */

/* x is [line, line], its elements small whole numbers; i is [line], of int32. */
typedef bt_array *kernel(bt_array *x, bt_array *i);
static bt_array *evaluated(bt_array *x) {
    OK(bt_block(x));
    return x;
}
#define KERNEL(name, expression) \
    static bt_array *kernel_##name(bt_array *x, bt_array *i) { return expression; }
KERNEL(map, ((void)i, bt_add(bt_mul(x, bt_num(2)), bt_num(1))))
KERNEL(broadcast, bt_add(x, bt_cast(i, BT_F32)))
KERNEL(transpose, ((void)i, bt_add(x, bt_transpose(x))))
KERNEL(flip, ((void)i, bt_add(bt_flip(x, BT_AXES(1)), bt_num(1))))
KERNEL(half, ((void)i, bt_mul(bt_cast(x, BT_F16), bt_num(2))))
KERNEL(sum, ((void)i, bt_sum(x, BT_ALL, false)))
KERNEL(rows, ((void)i, bt_sum(x, BT_AXES(1), false)))
KERNEL(short_rows,
       ((void)i, bt_sum(bt_reshape(bt_concat(((bt_array *[]){x, x, x, x, x}), 5, 0), -1, 5), BT_AXES(1), false)))
KERNEL(columns, ((void)i, bt_sum(x, BT_AXES(0), false)))
KERNEL(many_columns, ((void)i, bt_sum(bt_concat(((bt_array *[]){x, x, x, x, x, x, x, x, x, x, x, x, x, x}), 14, 1),
                                      BT_AXES(0), false)))
KERNEL(softmax, ((void)i, bt_softmax(x, 1)))
KERNEL(softmax_long, ((void)i, bt_softmax(bt_reshape(bt_concat(((bt_array *[]){x, x, x, x}), 4, 0), 4, -1), 1)))
KERNEL(layer_norm, ((void)i, bt_layer_norm(x, NULL, NULL, 1e-5)))
KERNEL(max, ((void)i, bt_max(bt_neg(x), BT_AXES(1), false)))
KERNEL(argmax, ((void)i, bt_argmax(x, 1)))
KERNEL(argmax_columns, ((void)i, bt_argmax(x, 0)))
KERNEL(argmin_all, ((void)i, bt_argmin(bt_reshape(x, -1), 0)))
KERNEL(cumsum, ((void)i, bt_cumsum(x, 1, false)))
KERNEL(cumsum_back, ((void)i, bt_cumsum(x, 0, true)))
KERNEL(cumsum_long, ((void)i, bt_cumsum(bt_reshape(x, -1), 0, false)))
KERNEL(cumprod, ((void)i, bt_cumprod(bt_cast(x, BT_I32), 1, false)))
KERNEL(cummax, ((void)i, bt_cummax(x, 0, true)))
KERNEL(cummin_long, ((void)i, bt_cummin(bt_reshape(x, -1), 0, false)))
KERNEL(sort, ((void)i, bt_sort(x, 1)))
KERNEL(sort_long, ((void)i, bt_sort(bt_reshape(x, -1), 0)))
KERNEL(argsort, ((void)i, bt_argsort(x, 0)))
KERNEL(take, bt_take(x, i, 0))
/* Some indices are out of range. */
KERNEL(take_past, bt_take(x, bt_mul(i, bt_i32(2)), 0))
KERNEL(take_columns, bt_take(x, i, 1))
/* By a kernel of their own, and by those of their readers. */
KERNEL(take_alone, evaluated(bt_take(x, i, 0)))
KERNEL(take_constant, ((void)i, bt_take(x, bt_i32(2), 0)))
KERNEL(take_add, bt_add(bt_take(x, i, 0), x))
KERNEL(take_part, bt_mul(bt_take(bt_slice_axis(x, 1, 1, INT64_MAX, 1), i, 0), bt_f32(2)))
KERNEL(take_softmax, bt_softmax(bt_take(x, bt_mul(i, bt_i32(2)), 0), 1))
KERNEL(take_rows_sum, bt_sum(bt_take(x, i, 0), BT_AXES(1), false))
KERNEL(take_columns_sum, bt_sum(bt_take(x, i, 0), BT_AXES(0), false))
KERNEL(take_elements, bt_sum(bt_take(bt_reshape(x, -1), i, 0), BT_ALL, false))
KERNEL(gather_softmax, bt_softmax(bt_take_along_axis(x, bt_cast(x, BT_I32), 1), 1))
KERNEL(gather, bt_take_along_axis(x, bt_cast(x, BT_I32), 1))
KERNEL(scatter, bt_scatter_add(x, bt_mod(i, bt_i32(7)), x, 0))
KERNEL(scatter_axis, ((void)i, bt_scatter_add_along_axis(x, bt_cast(x, BT_I32), x, 1)))
KERNEL(scatter_line, ((void)i, bt_scatter_add_along_axis(bt_reshape(x, -1), bt_cast(bt_reshape(x, -1), BT_I32),
                                                         bt_reshape(x, -1), 0)))
KERNEL(scatter_set, bt_scatter_set(x, bt_mod(i, bt_i32(7)), x, 0))
KERNEL(scatter_max, ((void)i, bt_scatter_max_along_axis(x, bt_cast(x, BT_I32), bt_neg(x), 1)))
KERNEL(scatter_set_line, ((void)i, bt_scatter_set_along_axis(bt_reshape(x, -1), bt_cast(bt_reshape(x, -1), BT_I32),
                                                             bt_reshape(bt_neg(x), -1), 0)))
KERNEL(matmul, ((void)i, bt_matmul(bt_cast(x, BT_I32), bt_cast(x, BT_I32))))
KERNEL(matmul_epilogue, ((void)i, bt_maximum(bt_matmul(bt_cast(x, BT_I32), bt_cast(x, BT_I32)), bt_i32(3))))
KERNEL(matmul_library, ((void)i, bt_matmul(x, bt_transpose(x))))
/* All but the first column, whose rows are not aligned. */
KERNEL(matmul_part,
       ((void)i, bt_matmul(bt_transpose(bt_slice_axis(x, 1, 1, INT64_MAX, 1)), bt_slice_axis(x, 1, 1, INT64_MAX, 1))))
/* An image, and a kernel that is cut out of it. */
static bt_array *image(bt_array *x) { return bt_reshape(x, 1, 1, bt_shape_of(x).size[0], bt_shape_of(x).size[1]); }
static bt_array *window(bt_array *x) { return image(bt_slice_axis(bt_slice_axis(x, 0, 0, 3, 1), 1, 0, 3, 1)); }
#define PADS BT_CONV(.pad_low = {1, 1}, .pad_high = {1, 1})
static bt_array *gradient_of_window(bt_array *x) {
    bt_array *w = window(x), *made = NULL;
    x = bt_sub(bt_mod(x, bt_num(9)), bt_num(4)); /* sums of many have no more digits than float32 */
    OK(bt_grad(bt_sum(bt_mul((bt_conv)(image(x), w, PADS), image(x)), BT_ALL, false), &w, 1, &made));
    return made;
}
KERNEL(conv, ((void)i, (bt_conv)(image(x), window(x), PADS)))
KERNEL(conv_data, ((void)i, (bt_conv_transposed)(image(x), window(x), PADS)))
KERNEL(conv_weights, ((void)i, gradient_of_window(x)))
/* All rows but the first, which are not always aligned. */
KERNEL(conv_part, ((void)i, (bt_conv)(image(bt_slice_axis(x, 0, 1, INT64_MAX, 1)), window(x), PADS)))
/* Rows as channels: products of a kernel of one element. */
static bt_array *channels(bt_array *x) {
    x = bt_sub(bt_mod(x, bt_num(9)), bt_num(4));
    return bt_reshape(bt_concat(((bt_array *[]){x, bt_neg(x)}), 2, 0), 2, bt_shape_of(x).size[0], 1,
                      bt_shape_of(x).size[1]);
}
static bt_array *column(bt_array *x) { return bt_slice_axis(x, 1, 0, 2, 1); }
KERNEL(conv_places, ((void)i, bt_conv(channels(x), bt_reshape(bt_transpose(column(x)), 2, -1, 1, 1))))
KERNEL(conv_places_data, ((void)i, bt_conv_transposed(channels(x), bt_reshape(column(x), -1, 2, 1, 1))))
KERNEL(uniform, ((void)x, (void)i, bt_uniform(bt_key(3), BT_F32, 5000)))
KERNEL(concat, ((void)i, bt_concat(((bt_array *[]){x, bt_neg(x)}), 2, 1)))

static const struct {
    const char *name;
    kernel *run;
} kernels[] = {
#define ROW(name) \
    { #name, kernel_##name }
    ROW(map),           ROW(broadcast),      ROW(transpose),
    ROW(flip),          ROW(half),           ROW(sum),
    ROW(rows),          ROW(short_rows),     ROW(columns),
    ROW(softmax),       ROW(softmax_long),   ROW(layer_norm),
    ROW(max),           ROW(argmax),         ROW(argmin_all),
    ROW(cumsum),        ROW(cumsum_back),    ROW(cumsum_long),
    ROW(sort),          ROW(sort_long),      ROW(argsort),
    ROW(take),          ROW(take_past),      ROW(take_columns),
    ROW(gather),        ROW(scatter),        ROW(scatter_axis),
    ROW(matmul),        ROW(matmul_library), ROW(uniform),
    ROW(concat),        ROW(many_columns),   ROW(argmax_columns),
    ROW(matmul_part),   ROW(scatter_line),   ROW(take_alone),
    ROW(conv),          ROW(conv_data),      ROW(conv_weights),
    ROW(conv_part),     ROW(conv_places),    ROW(conv_places_data),
    ROW(take_constant), ROW(take_add),       ROW(take_part),
    ROW(take_softmax),  ROW(take_rows_sum),  ROW(take_columns_sum),
    ROW(take_elements), ROW(gather_softmax), ROW(matmul_epilogue),
    ROW(cumprod),       ROW(cummax),         ROW(cummin_long),
    ROW(scatter_set),   ROW(scatter_max),    ROW(scatter_set_line),
};

static void read_kernel(kernel *run, const char *where, int line, double **elements, int64_t *count) {
    BT_SCOPE {
        BT_ON(where) {
            float *data = test_malloc((size_t)(line * line) * sizeof *data);
            int32_t *index = test_malloc((size_t)line * sizeof *index);
            for (int k = 0; k < line * line; k++) data[k] = (float)((k * 37 + k / line * 11) % line);
            for (int k = 0; k < line; k++) index[k] = (k * 29 + 3) % line;
            bt_array *x = bt_from(data, BT_F32, (bt_shape){2, {line, line}}),
                     *i = bt_from(index, BT_I32, (bt_shape){1, {line}});
            bt_array *y = bt_cast(run(x, i), BT_F64);
            *count = bt_count(y);
            *elements = test_malloc((size_t)*count * sizeof **elements + 1);
            OK(bt_read(y, *elements, (size_t)*count * sizeof **elements));
            test_free(index);
            test_free(data);
        }
    }
}

static void kernels_agree_with_the_cpu(void **state) {
    static const int lines[] = {3, 40, 130, 300};
    begin();
    const char *only = getenv("BERTH_TEST_KERNEL");
    for (int k = 0; k < COUNT(kernels); k++)
        for (int l = 0; l < COUNT(lines) && (!only || !strcmp(only, kernels[k].name)); l++) {
            double *got, *want;
            int64_t count, want_count;
            read_kernel(kernels[k].run, "gpu:0", lines[l], &got, &count);
            read_kernel(kernels[k].run, "cpu:0", lines[l], &want, &want_count);
            assert_int_equal(count, want_count);
            for (int64_t i = 0; i < count; i++)
                if (isnan(got[i]) != isnan(want[i]) || fabs(got[i] - want[i]) > 2e-5 * (1 + fabs(want[i])))
                    fail_msg("%s of %d: element %lld is %.9g, not %.9g", kernels[k].name, lines[l], (long long)i,
                             got[i], want[i]);
            test_free(want);
            test_free(got);
        }
}

/* The sum of a row, alone and fused with what reads the row again: the same bits, also where parts are summed by themselves. */
static void sums_are_folded_alike(void **state) {
    enum { ROWS = 16, LENGTH = 260001 };
    double *sums[2];
    for (int fused = 0; fused < 2; fused++) {
        begin();
        OK(bt_set_flag("fuse", fused ? "on" : "off"));
        sums[fused] = malloc(ROWS * sizeof(double));
        BT_SCOPE {
            bt_array *x = bt_sin(bt_reshape(bt_arange(0, ROWS * LENGTH, 1, BT_F64), ROWS, LENGTH));
            bt_array *scaled = bt_mul(x, bt_sum(x, BT_AXES(1), true));
            OK(bt_read(bt_slice_axis(scaled, 1, 7, 8, 1), sums[fused], ROWS * sizeof(double)));
        }
    }
    assert_memory_equal(sums[0], sums[1], ROWS * sizeof(double));
    for (int fused = 0; fused < 2; fused++) free(sums[fused]);
}

/* --- several devices -------------------------------------------------------------------------------------------------- */

static void copies_between_devices_are_ordered(void **state) {
    begin();
    float *data = numbers(LARGE / 32, 5);
    BT_SCOPE {
        bt_array *there[6];
        for (int i = 0; i < 6; i++) {
            BT_SCOPE {
                bt_array *here = bt_add(bt_from(data, BT_F32, (bt_shape){1, {LARGE / 32}}), bt_num(i));
                bt_array *moved = bt_to(here, "gpu:1");
                there[i] = bt_keep(bt_to(bt_mul(moved, bt_num(2)), "gpu:0"));
                OK(bt_eval(there[i]));
            }
        }
        for (int i = 0; i < 6; i++) {
            expect_line(bt_sub(there[i], bt_num(2 * i)), LARGE / 32, 5, 2, 0);
            bt_release(there[i]);
        }
    }
    test_free(data);
}

/* What one device computes and forgets, another one copies meanwhile. */
static void outlive_their_sources(const char *destination) {
    BT_SCOPE {
        bt_array *there[12];
        for (int i = 0; i < COUNT(there); i++) {
            BT_SCOPE {
                float *data = numbers(LARGE / 32, (float)i);
                bt_array *here = bt_from(data, BT_F32, (bt_shape){1, {LARGE / 32}});
                if (i % 2) here = bt_add(here, bt_num(1));
                there[i] = bt_keep(bt_to(here, destination));
                OK(bt_eval(there[i]));
                test_free(data);
            }
            BT_SCOPE {
                OK(bt_eval(bt_full(7, BT_F32, LARGE / 32)));
            }
        }
        for (int i = 0; i < COUNT(there); i++) {
            expect_line(there[i], LARGE / 32, (float)i, 1, (float)(i % 2));
            bt_release(there[i]);
        }
    }
}

static void copies_outlive_their_sources(void **state) {
    begin();
    outlive_their_sources("gpu:1");
    outlive_their_sources("cpu");
}

/* They wait for the run that made the bytes, not for what was launched since. */
static void copies_of_earlier_results_are_ordered(void **state) {
    begin();
    float *data = numbers(LARGE / 32, 5);
    BT_SCOPE {
        bt_array *x = bt_from(data, BT_F32, (bt_shape){1, {LARGE / 32}}), *made[6], *there[6];
        for (int i = 0; i < COUNT(made); i++) {
            made[i] = bt_add(x, bt_num(i));
            OK(bt_eval(made[i]));
            if (i) there[i - 1] = bt_to(made[i - 1], "gpu:1");
            if (i) OK(bt_eval(there[i - 1]));
        }
        there[5] = bt_to(made[5], "gpu:1");
        for (int i = 0; i < COUNT(made); i++) expect_line(there[i], LARGE / 32, 5, 1, (float)i);
    }
    test_free(data);
}

/* In one plan: the GPU goes on while the CPU copies what it made, and is sent back what the CPU made of it. */
static void copies_to_the_host_are_ordered(void **state) {
    enum { COUNT_OF_PARTS = 5, LENGTH = LARGE / 32 };
    begin();
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, LENGTH), *parts[2 * COUNT_OF_PARTS], *here = x;
        for (int i = 0; i < COUNT_OF_PARTS; i++) {
            here = bt_sqrt(bt_square(bt_add(here, bt_num(1))));
            parts[2 * i] = bt_mul(bt_to(bt_flip(here, BT_AXES(0)), "cpu"), bt_num(2));
            parts[2 * i + 1] = bt_add(bt_to(parts[2 * i], "gpu:0"), bt_flip(here, BT_AXES(0)));
        }
        bt_function *f = bt_function_new(&x, 1, parts, COUNT(parts), NULL, 0);
        bt_array *line = bt_mod(bt_arange(0, LENGTH, 1, BT_F32), bt_num(509)), *given[] = {line}, *got[COUNT(parts)];
        for (int call = 0; call < 3; call++)
            BT_SCOPE {
                OK(bt_call(f, given, 1, got, COUNT(got)));
                for (int i = COUNT(got) - 1; i >= 0; i--)
                    expect_line(bt_flip(got[i], BT_AXES(0)), LENGTH, (float)(i / 2 + 1), i % 2 ? 3 : 2, 0);
            }
    }
}

static void sum_over(bt_strategy *gpus, int i) {
    int count = bt_strategy_count(gpus);
    float got[3000];
    bt_array *each[8] = {NULL};
    for (int r = 0; r < count; r++)
        BT_REPLICA(gpus, r) each[r] = bt_add(bt_full(r + i, BT_F32, COUNT(got)), bt_num(1));
    bt_all_reduce(gpus, each);
    for (int r = 0; r < count; r++) {
        double want = count * (i + 1) + count * (count - 1) / 2.0;
        if (i % 2) assert_true(bt_item(bt_max(bt_neg(each[r]), BT_ALL, false)) == -want); /* in the plan of the sum */
        OK(bt_read(each[r], got, sizeof got));                                            /* no kernel stands between */
        for (int k = 0; k < COUNT(got); k++) assert_true(got[k] == want);
        assert_true(bt_item(bt_max(bt_neg(each[r]), BT_ALL, false)) == -want);
    }
}

/* Over all devices, over two of them in another order, and over two others. */
static void sums_over_devices_are_ordered(void **state) {
    begin();
    bt_strategy *all = bt_mirrored(NULL, 0), *two = bt_mirrored((const char *[]){"gpu:1", "gpu:0"}, 2);
    bt_strategy *others = bt_device_count(BT_GPU) > 2 ? bt_mirrored((const char *[]){"gpu:0", "gpu:2"}, 2) : NULL;
    for (int i = 0; i < 8; i++)
        BT_SCOPE {
            sum_over(all, i);
            sum_over(two, i);
            if (others) sum_over(others, i);
        }
    if (others) bt_strategy_release(others);
    bt_strategy_release(two);
    bt_strategy_release(all);
}

/* A loop of no steps leaves a copy, within the device, of what a kernel makes, and another kernel reads it. */
static bt_array *never(bt_array *const *carry, void *data) { return bt_lt(carry[1], bt_num(0)); }
static void add_one(bt_array **carry, void *data) { carry[0] = bt_add(carry[0], bt_num(1)); }
static void copies_within_a_device_are_ordered(void **state) {
    begin();
    for (int i = 0; i < 8; i++)
        BT_SCOPE {
            bt_array *line = bt_mod(bt_arange(0, LARGE / 32, 1, BT_F32), bt_num(509));
            bt_array *carry[] = {bt_add(line, bt_num(i)), bt_f32(1)};
            OK(bt_while(never, add_one, NULL, 3, carry, 2));
            expect_line(bt_mul(carry[0], bt_num(2)), LARGE / 32, (float)i, 2, 0);
        }
}

/* --- the end ---------------------------------------------------------------------------------------------------------- */

/* Work is in flight when the library is shut down; at last an upload that nothing reads. */
static void shutdown_waits_for_work(void **state) {
    begin();
    for (int i = 0; i < 3; i++) {
        float data[100] = {0};
        BT_SCOPE {
            bt_array *x = bt_sum(bt_exp(bt_linspace(0, 1, 100000, BT_F32)), BT_ALL, false);
            OK(bt_eval(x));
            OK(bt_eval(bt_from(data, BT_F32, (bt_shape){1, {COUNT(data)}})));
        }
        begin();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_transfers_are_ordered),
        cmocka_unit_test(small_uploads_share_a_buffer),
        cmocka_unit_test(memory_is_reused_in_order),
        cmocka_unit_test(uploads_are_read_back),
        cmocka_unit_test(pinned_memory_is_copied_in_order),
        cmocka_unit_test(many_arguments_go_through_memory),
        cmocka_unit_test(copies_between_devices_are_ordered),
        cmocka_unit_test(copies_outlive_their_sources),
        cmocka_unit_test(copies_of_earlier_results_are_ordered),
        cmocka_unit_test(copies_to_the_host_are_ordered),
        cmocka_unit_test(copies_within_a_device_are_ordered),
        cmocka_unit_test(sums_over_devices_are_ordered),
        cmocka_unit_test(shutdown_waits_for_work),
        cmocka_unit_test(kernels_agree_with_the_cpu),
        cmocka_unit_test(sums_are_folded_alike),
    };
    return RUN_EMULATED(tests);
}
