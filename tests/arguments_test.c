// timeout: 300
/* Arguments that no caller means: enums, axes, counts, sizes and steps far out of range, NULL within lists. Each call refuses them or
 * computes; what it records is computed where it is small. The sanitizers see the rest. */
#include <limits.h>
#include <math.h>
#include <unistd.h>

#include <berth/task.h>

#include "support/support.h"

#define FOR_EACH(type, name, values)                                                       \
    for (size_t name##_at = 0; name##_at < sizeof(values) / sizeof *(values); name##_at++) \
        for (type name = (type)(values)[name##_at], *name##_once = &name; name##_once; name##_once = NULL)

static const int ints[] = {INT_MIN, INT_MIN + 1, -65536, -257, -9, -8,  -3,    -2,          -1,     0,
                           1,       2,           3,      8,    9,  256, 65536, INT_MAX - 1, INT_MAX};
static const int enums[] = {INT_MIN, INT_MIN + 1, -256, -1, 100, 127, 128, 255, 256, INT_MAX - 1, INT_MAX};
static const int64_t longs[] = {INT64_MIN,
                                INT64_MIN + 1,
                                INT64_MIN / 2 - 1,
                                INT64_MIN / 2,
                                INT64_MIN / 2 + 1,
                                -(1LL << 33),
                                -(1LL << 32),
                                -3,
                                -2,
                                -1,
                                0,
                                1,
                                2,
                                3,
                                5,
                                1LL << 31,
                                1LL << 32,
                                (1LL << 32) + 1,
                                1LL << 61,
                                1LL << 62,
                                INT64_MAX / 2,
                                INT64_MAX - 1,
                                INT64_MAX};
static const double reals[] = {-INFINITY, -1e300, -0x1p63, -1,     -0.0,   0,     1e-300,   0.5,
                               1,         0x1p31, 0x1p32,  0x1p63, 0x1p64, 1e300, INFINITY, NAN};

static int made, refused;

static bool is_refusal(bt_status status) {
    return status == BT_INVALID_ARGUMENT || status == BT_UNIMPLEMENTED || status == BT_OUT_OF_RANGE ||
           status == BT_RESOURCE_EXHAUSTED || status == BT_FAILED_PRECONDITION;
}

/* An array that was recorded, or refused with a reason. */
static bt_array *settled(bt_array *x, const char *what, int line) {
    if (!x) fail_msg("line %d: %s gave NULL", line, what);
    bt_status status = bt_peek_status(x);
    if (status == BT_OK && bt_count(x) >= 0 && bt_count(x) <= 4096) status = bt_block(x);
    if (status == BT_OK)
        made++;
    else if (is_refusal(status))
        refused++;
    else
        fail_msg("line %d: %s: %s", line, what, ((void)!bt_block(x), bt_error_text()));
    return x;
}
#define TRY(call) settled((call), #call, __LINE__)

static void expect(bt_array *x, bool good, const char *what, int line, long long value) {
    (void)settled(x, what, line);
    if ((bt_peek_status(x) == BT_OK) != good)
        fail_msg("line %d: %s with %lld: %s", line, what, value, good ? bt_error_text() : "was not refused");
}
/* Refused unless `good` holds. */
#define GOOD_IF(good, value, call) expect((call), (good), #call, __LINE__, (long long)(value))

static bt_array *grid(void) { return BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6); }

/* --- axes --------------------------------------------------------------------------------------------------------------- */

static void one_axis(void **state) {
    fresh("memory_limit=64M");
    FOR_EACH(int, axis, ints) BT_SCOPE {
        bt_array *x = grid(), *index = BT_ARRAY(int32_t, (2, 3), 0, 1, -1, 0, 0, 1),
                 *row = BT_ARRAY(int32_t, (2), 0, 1);
        bool good = axis >= -2 && axis < 2, room = axis >= -3 && axis <= 2;
#define AXIS(call) GOOD_IF(good, axis, call)
        AXIS(bt_argmax(x, axis));
        AXIS(bt_argmin(x, axis));
        AXIS(bt_cumsum(x, axis, true));
        AXIS(bt_cumprod(x, axis, true));
        AXIS(bt_cummax(x, axis, true));
        AXIS(bt_cummin(x, axis, false));
        AXIS(bt_softmax(x, axis));
        AXIS(bt_log_softmax(x, axis));
        AXIS(bt_flatten(x, axis));
        AXIS(bt_squeeze(bt_ones(BT_F32, 1, 1), axis));
        AXIS(bt_slice_axis(x, axis, 0, 1, 1));
        AXIS(bt_take(x, row, axis));
        AXIS(bt_take_along_axis(x, index, axis));
        AXIS(bt_scatter_add_along_axis(x, index, x, axis));
        AXIS(bt_scatter_set_along_axis(x, index, x, axis));
        AXIS(bt_scatter_max_along_axis(x, index, x, axis));
        AXIS(bt_scatter_min_along_axis(x, index, x, axis));
        AXIS(bt_sort(x, axis));
        AXIS(bt_argsort(x, axis));
        AXIS(bt_shuffle(bt_key(1), x, axis));
        AXIS(bt_concat((bt_array *[]){x, x}, 2, axis));
        GOOD_IF(room, axis, bt_stack((bt_array *[]){x, x}, 2, axis));
        GOOD_IF(room, axis, bt_expand_dims(x, axis));
        (void)TRY(bt_scatter_add(x, row, x, axis));
        AXIS(bt_sum(x, BT_AXES(axis), false));
        assert_int_equal(bt_size(x, axis) >= 0, good);
    }
}

static void lists_of_axes(void **state) {
    fresh("memory_limit=64M");
    FOR_EACH(int64_t, axis, longs) BT_SCOPE {
        bt_array *x = grid();
        bool good = axis >= -2 && axis < 2;
#define AXES(call) GOOD_IF(good, axis, call)
        AXES(bt_sum(x, BT_AXES(axis), false));
        AXES(bt_prod(x, BT_AXES(axis), false));
        AXES(bt_mean(x, BT_AXES(axis), true));
        AXES(bt_max(x, BT_AXES(axis), false));
        AXES(bt_min(x, BT_AXES(axis), false));
        AXES(bt_all(x, BT_AXES(axis), false));
        AXES(bt_any(x, BT_AXES(axis), false));
        AXES(bt_logsumexp(x, BT_AXES(axis), false));
        AXES(bt_var(x, BT_AXES(axis), false, 1));
        AXES(bt_std(x, BT_AXES(axis), false, 1));
        AXES(bt_norm(x, BT_AXES(axis), false));
        AXES(bt_flip(x, BT_AXES(axis)));
        AXES(bt_sum_as(x, BT_AXES(axis), false, BT_F64));
        GOOD_IF(axis == 1 || axis == -1, axis, bt_permute(x, axis, 0));
        GOOD_IF(false, axis, bt_sum(x, BT_AXES(axis, axis), false));
        GOOD_IF(false, axis, bt_permute(x, axis));
    }
    BT_SCOPE {
        POISONED(bt_sum(grid(), BT_AXES((int64_t)1 << 32), false), BT_INVALID_ARGUMENT, HERE(0), "axis 4294967296");
        POISONED(bt_permute(grid(), 1, (int64_t)1 << 32), BT_INVALID_ARGUMENT, "axis 4294967296");
        POISONED(bt_sum(grid(), BT_AXES(0, 1, 2, 3, 4, 5, 6, 7, 8), false), BT_INVALID_ARGUMENT, "axis 2");
        FOR_EACH(int, count, ints) {
            bt_axes axes = {.count = count, .axis = {1, 0, 2, 3, 4, 5, 6, 7}};
            GOOD_IF(count >= -1 && count <= 2, count, bt_sum(grid(), axes, false));
            GOOD_IF(count == 2, count, bt_permute_axes(grid(), axes));
            (void)TRY(bt_var(grid(), BT_ALL, false, count));
        }
    }
}

/* --- shapes ------------------------------------------------------------------------------------------------------------- */

static void sizes(void **state) {
    fresh("memory_limit=64M");
    FOR_EACH(int64_t, n, longs) BT_SCOPE {
        bt_array *x = grid(), *key = bt_key(1);
#define SIZE(call) GOOD_IF(n >= 0 && n < INT64_C(1) << 60, n, call)
        SIZE(bt_zeros(BT_F32, n));
        SIZE(bt_zeros(BT_F32, n, 1, 0));
        SIZE(bt_input(BT_F32, n == -1 ? -2 : n));
        (void)TRY(bt_zeros(BT_F32, n, n));
        (void)TRY(bt_zeros(BT_BOOL, n, 16, 0));
        (void)TRY(bt_zeros(BT_F64, 0, n, n));
        (void)TRY(bt_full(NAN, BT_I8, n, 3));
        (void)TRY(bt_linspace(0, 1, n, BT_F32));
        (void)TRY(bt_eye(n, n, BT_I8));
        (void)TRY(bt_eye(3, n, BT_F32));
        (void)TRY(bt_reshape(x, n, -1));
        (void)TRY(bt_reshape(x, n, 2));
        (void)TRY(bt_reshape(bt_zeros(BT_F32, 0), n, 0));
        (void)TRY(bt_broadcast_to(x, n, 2, 3));
        (void)TRY(bt_broadcast_to(bt_f32(1), n, 0, n));
        (void)TRY(bt_tile(x, BT_SHAPE(n)));
        (void)TRY(bt_tile(x, BT_SHAPE(n, n, n)));
        (void)TRY(bt_tile(bt_zeros(BT_F32, 0, 3), BT_SHAPE(n, n)));
        (void)TRY(bt_one_hot(BT_ARRAY(int32_t, (2), 0, 1), n, BT_F32));
        (void)TRY(bt_top_k(x, n));
        (void)TRY(bt_top_k_indices(x, n));
        if (n < 64 || n > INT64_C(1) << 40) {
            (void)TRY(bt_split(key, n));
            (void)TRY(bt_permutation(key, n));
            (void)TRY(bt_uniform(key, BT_F32, n, 2));
            (void)TRY(bt_normal(key, BT_F16, n, 0));
            (void)TRY(bt_bits(key, BT_U64, n));
            (void)TRY(bt_bernoulli(key, bt_num(0.5), n));
            (void)TRY(bt_randint(key, 0, 9, BT_U8, n));
            (void)TRY(bt_categorical(key, x, n, 2));
        }
        (void)TRY(bt_split_at(bt_split(key, 3), n));
        (void)TRY(bt_randint(key, n, -n - 1, BT_I64, 3));
        FOR_EACH(int64_t, m, longs)(void) TRY(bt_randint(key, n, m, BT_I32, 2));
        (void)TRY(bt_key(n));
        FOR_EACH(int, rank, ints) {
            bt_shape shape = {rank, {n, 1, 1, 1, 1, 1, 1, 1}};
            GOOD_IF(rank >= 0 && rank <= 8 && (rank == 0 || (n >= 0 && n < INT64_C(1) << 60)), rank,
                    bt_full_shape(1, BT_F32, shape));
            (void)TRY(bt_reshape_to(x, shape));
            (void)TRY(bt_tile(x, shape));
        }
    }
}

static void products_of_sizes(void **state) {
    fresh("memory_limit=64M");
    BT_SCOPE {
        POISONED(bt_zeros(BT_F32, 1LL << 62, 16, 0), BT_INVALID_ARGUMENT, HERE(0), "63 bits");
        POISONED(bt_zeros(BT_BOOL, 0, 1LL << 62, 16), BT_INVALID_ARGUMENT, HERE(0), "63 bits");
        POISONED(bt_tile(bt_zeros(BT_F32, 0, 8), BT_SHAPE(1, 1LL << 61)), BT_INVALID_ARGUMENT, "63 bits");
        POISONED(bt_from(NULL, BT_F32, BT_SHAPE(1LL << 62, 16, 0)), BT_INVALID_ARGUMENT, "63 bits");
        bt_array *wide = bt_zeros(BT_BOOL, 0, 1LL << 31, 1LL << 31); /* 62 bits, and none */
        assert_int_equal(bt_count(wide), 0);
        OK(bt_block(wide));
        bt_array *flat = bt_flatten(wide, 1);
        assert_int_equal(bt_size(flat, 1), 1LL << 62);
        POISONED(bt_concat((bt_array *[]){flat, flat, flat}, 3, 1), BT_INVALID_ARGUMENT, "63 bits");
        POISONED(bt_cast(wide, BT_F32), BT_INVALID_ARGUMENT, "63 bits");
        READS(bt_all(wide, BT_ALL, false), 1);
        (void)TRY(bt_sum(bt_zeros(BT_BOOL, 1LL << 31, 0, 1LL << 31), BT_AXES(0, 1), true));
        bt_array *many = bt_zeros(BT_BOOL, 1LL << 31);
        POISONED(bt_argmax(many, 0), BT_INVALID_ARGUMENT, "int32");
        POISONED(bt_argsort(many, 0), BT_INVALID_ARGUMENT, "int32");
        POISONED(bt_sort(many, 0), BT_INVALID_ARGUMENT, "int32");
        POISONED(bt_top_k(many, 2), BT_INVALID_ARGUMENT, "int32");
        bt_array *input = bt_input(BT_F32, -1, -1), *bits = bt_tile(input, BT_SHAPE(1LL << 20, 1LL << 20));
        bt_function *f = bt_function_new(&input, 1, &bits, 1, NULL, 0);
        bt_array *argument = bt_zeros(BT_F32, 0, 1LL << 42);
        POISONED(bt_call1(f, &argument, 1), BT_INVALID_ARGUMENT, "sizes");
        bt_error_clear();
    }
}

/* --- slices, pads, windows ------------------------------------------------------------------------------------------------ */

static void slices(void **state) {
    fresh("memory_limit=64M");
    static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, -4, -1, 0, 2, 3, INT64_MAX - 1, INT64_MAX};
    static const int64_t steps[] = {INT64_MIN, INT64_MIN + 1, -2, -1, 0, 1, 3, INT64_MAX};
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (3), 0, 1, 2), *none = bt_zeros(BT_F32, 0), *input = bt_input(BT_F32, -1);
        FOR_EACH(int64_t, start, edges) FOR_EACH(int64_t, stop, edges) FOR_EACH(int64_t, step, steps) BT_SCOPE {
            GOOD_IF(step != 0, step, bt_slice_axis(x, 0, start, stop, step));
            GOOD_IF(step != 0, step, bt_slice(x, &start, &stop, &step));
            GOOD_IF(step != 0, step, bt_slice(none, &start, &stop, &step));
            (void)TRY(bt_slice(input, &start, &stop, &step));
        }
        READS(bt_slice_axis(x, 0, INT64_MAX, INT64_MIN, INT64_MIN), 2);
        READS(bt_slice_axis(x, 0, INT64_MAX, INT64_MIN, -1), 2, 1, 0);
        READS(bt_slice_axis(x, 0, INT64_MIN, INT64_MAX, INT64_MAX), 0);
        FOR_EACH(int64_t, low, longs) FOR_EACH(int64_t, high, longs) BT_SCOPE {
            (void)TRY(bt_pad(x, &low, &high, 1));
            (void)TRY(bt_pad(none, &low, &high, 1));
            (void)TRY(bt_pad(input, &low, &high, 1));
        }
    }
}

static void windows(void **state) {
    fresh("memory_limit=64M");
    static const int64_t few[] = {INT64_MIN, -1, 0, 1, 2, 1LL << 32, INT64_MAX - 4, INT64_MAX};
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 1, 2, 5, 5), *w = bt_ones(BT_F32, 2, 2, 3, 3),
                 *none = bt_ones(BT_F32, 0, 2, 5, 5);
        FOR_EACH(int64_t, a, few) FOR_EACH(int64_t, b, few) BT_SCOPE {
            int64_t pair[2] = {a, b}, swapped[2] = {b, a}, one[2] = {1, 1};
            (void)TRY(bt_conv2d(x, w, pair, NULL, NULL, 1));
            (void)TRY(bt_conv2d(x, w, NULL, pair, swapped, 1));
            (void)TRY(bt_conv2d(x, w, pair, one, swapped, 1));
            (void)TRY(bt_conv2d(none, w, pair, one, one, 1));
            (void)TRY(bt_conv2d(x, w, one, one, one, a));
            (void)TRY(bt_max_pool2d(x, pair, NULL));
            (void)TRY(bt_max_pool2d(x, one, pair));
            (void)TRY(bt_avg_pool2d(x, pair, swapped));
            (void)TRY(bt_avg_pool2d(none, pair, pair));
        }
        TRY(bt_max_pool2d(x, NULL, NULL));
    }
}

/* Sizes of nothing, lengths that are no sizes, scores without bounds. */
static void attentions(void **state) {
    fresh("memory_limit=64M");
    static const double scales[] = {0, -1, 1e308, NAN, INFINITY, 5e-324};
    static const int64_t sizes[] = {0, 1, 3};
    BT_SCOPE {
        bt_array *lengths = BT_ARRAY(int32_t, (4), INT32_MIN, -1, 2, INT32_MAX), *mask = bt_full(-INFINITY, BT_F32, 1);
        FOR_EACH(int64_t, rows, sizes) FOR_EACH(int64_t, keys, sizes) FOR_EACH(double, scale, scales) BT_SCOPE {
            bt_array *q = bt_ones(BT_F32, 4, 2, rows, 2), *k = bt_ones(BT_F32, 4, 1, keys, 2);
            bt_attention_options options[] = {
                *BT_ATTENTION(.scale = scale), *BT_ATTENTION(.scale = scale, .causal = true, .from_end = true),
                *BT_ATTENTION(.scale = scale, .lengths = lengths), *BT_ATTENTION(.scale = scale, .mask = mask),
                *BT_ATTENTION(.lengths = lengths, .causal = true, .from_end = true, .mask = mask)};
            for (int i = 0; i < COUNT(options); i++) {
                bt_array *out = TRY((bt_attention)(q, k, k, &options[i])), *grads[2];
                (void)bt_grad(bt_sum(out, BT_ALL, false), (bt_array *[]){q, k}, 2, grads);
                (void)TRY(grads[0]), (void)TRY(grads[1]);
            }
            (void)TRY(bt_attention(q, q, k));
            (void)TRY(bt_attention(k, q, q));
        }
    }
}

/* Each member of the options in turn. */
static void windows_by_options(void **state) {
    fresh("memory_limit=64M");
    static const int64_t few[] = {INT64_MIN, -1, 0, 1, 3, 1LL << 32, 1LL << 49, INT64_MAX - 4, INT64_MAX};
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 1, 2, 5), *w = bt_ones(BT_F32, 2, 2, 3);
        FOR_EACH(int64_t, a, few) FOR_EACH(int64_t, b, few) BT_SCOPE {
            bt_conv_options conv[] = {
                *BT_CONV(.stride = {a}, .dilation = {b}), *BT_CONV(.pad_low = {a}, .pad_high = {b}),
                *BT_CONV(.stride = {a}, .pad_low = {b}),  *BT_CONV(.dilation = {a}, .pad_high = {b}),
                *BT_CONV(.groups = a, .stride = {b}),     *BT_CONV(.stride = {b}, .output_pad = {a})};
            for (int i = 0; i < COUNT(conv); i++) {
                (void)TRY((bt_conv)(x, w, &conv[i]));
                (void)TRY((bt_conv_transposed)(x, w, &conv[i]));
            }
            bt_pool_options pool[] = {*BT_POOL(.window = {a}, .stride = {b}), *BT_POOL(.window = {a}, .pad_low = {b}),
                                      *BT_POOL(.window = {3}, .pad_low = {a}, .pad_high = {b}),
                                      *BT_POOL(.window = {2}, .dilation = {a}, .stride = {b}),
                                      *BT_POOL(.window = {a}, .dilation = {b}, .exclude_pads = true)};
            for (int i = 0; i < COUNT(pool); i++) {
                (void)TRY((bt_max_pool)(x, &pool[i]));
                (void)TRY((bt_avg_pool)(x, &pool[i]));
            }
            (void)TRY(bt_adaptive_avg_pool(x, BT_SHAPE(a)));
        }
    }
}

static void places_of_arrays(void **state) {
    fresh("memory_limit=64M");
    static const int64_t few[] = {INT64_MIN, INT64_MIN + 1, -6, -1, 0, 1, 5, 1LL << 32, INT64_MAX};
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 4, 5), *none = bt_ones(BT_F32, 0, 5);
        FOR_EACH(int64_t, a, few) FOR_EACH(int64_t, b, few) BT_SCOPE {
            char text[120];
            snprintf(text, sizeof text, "%lld:%lld, ::%lld", (long long)a, (long long)b, (long long)a);
            (void)TRY(bt_at(x, text));
            (void)TRY(bt_at(none, text));
            (void)TRY(bt_set_at(x, text, bt_num(2)));
            (void)TRY(bt_index(x, (int)a, b));
            (void)TRY(bt_roll(x, a, (int)b));
            (void)TRY(bt_tril(x, a)), (void)TRY(bt_triu(x, a)), (void)TRY(bt_diagonal(x, a)),
                (void)TRY(bt_diag(none, a));
            (void)TRY(bt_diff(none, (int)a));
        }
    }
}

/* --- enums ---------------------------------------------------------------------------------------------------------------- */

static void dtypes(void **state) {
    fresh("memory_limit=64M");
    FOR_EACH(int, number, enums) BT_SCOPE {
        bt_dtype dtype = (bt_dtype)number;
        bt_array *x = grid(), *key = bt_key(1);
#define NO_DTYPE(call) POISONED(call, BT_INVALID_ARGUMENT, HERE(0), "dtype")
        assert_string_equal(bt_dtype_name(dtype), "invalid");
        assert_int_equal(bt_dtype_size(dtype), 0);
        assert_int_equal(bt_promote(dtype, BT_F32), BT_DTYPE_COUNT);
        assert_int_equal(bt_promote(BT_F32, dtype), BT_DTYPE_COUNT);
        NO_DTYPE(bt_from(&number, dtype, BT_SHAPE(1)));
        NO_DTYPE(bt_zeros(dtype, 2));
        NO_DTYPE(bt_arange(0, 3, 1, dtype));
        NO_DTYPE(bt_linspace(0, 3, 3, dtype));
        NO_DTYPE(bt_eye(3, 3, dtype));
        NO_DTYPE(bt_cast(x, dtype));
        NO_DTYPE(bt_bitcast(x, dtype));
        NO_DTYPE(bt_sum_as(x, BT_ALL, false, dtype));
        NO_DTYPE(bt_prod_as(x, BT_ALL, false, dtype));
        NO_DTYPE(bt_one_hot(BT_ARRAY(int32_t, (2), 0, 1), 3, dtype));
        NO_DTYPE(bt_input(dtype, 3));
        NO_DTYPE(bt_uniform(key, dtype, 3));
        NO_DTYPE(bt_normal(key, dtype, 3));
        NO_DTYPE(bt_bits(key, dtype, 3));
        NO_DTYPE(bt_randint(key, 0, 3, dtype, 3));
        POISONED(bt_load_csv("/dev/null", dtype), BT_INVALID_ARGUMENT, "dtype");
    }
}

static void other_enums(void **state) {
    fresh("devices=sim:gpu*2,memory_limit=64M");
    FOR_EACH(int, number, enums) BT_SCOPE {
        bt_kind kind = (bt_kind)number;
        bt_device *device = NULL;
        char *reason = NULL;
        assert_non_null(bt_kind_name(kind));
        assert_int_equal(bt_device_count(kind), 0);
        bt_error_clear();
        assert_false(bt_functional(kind, NULL));
        assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
        SAYS(bt_error_text(), "kind");
        assert_false(bt_functional(kind, &reason));
        SAYS(reason, "not a kind");
        bt_free(reason);
        assert_null(bt_device_get(kind, 0));
        assert_int_equal(bt_device_list(kind, &device, 1), 0);
        assert_non_null(bt_status_name((bt_status)number));
        BT_TRANSFERS((bt_transfers)number) READS(bt_add(grid(), bt_num(1)), 2, 3, 4, 5, 6, 7);
        bt_array *x = grid(), *input = bt_input(BT_F32, 2);
        bt_function *f = bt_function_new(&input, 1, &input, 1, NULL, 0);
        assert_null(bt_explain_as(&x, 1, (bt_explain_form)number));
        assert_null(bt_explain_function_as(f, &x, 1, (bt_explain_form)number));
    }
    FOR_EACH(int, i, ints) {
        bt_device *devices[2];
        (void)bt_device_get(BT_GPU, i);
        assert_non_null(bt_try_tpu_gpu(i));
        if (i <= 2) (void)bt_device_list(BT_GPU, devices, i);
        if (i <= 2) assert_true(bt_try_all_gpus(devices, i) <= (i < 0 ? 0 : i));
        bt_flag_info flag = BT_FLAG_INFO_INIT;
        bt_primitive_info primitive = BT_PRIMITIVE_INFO_INIT;
        bt_library_info library = BT_LIBRARY_INFO_INIT;
        const char *log_name;
        assert_int_equal(bt_flag_describe(i, &flag), i >= 0 && i < bt_flag_count() ? BT_OK : BT_OUT_OF_RANGE);
        assert_int_equal(bt_primitive_describe(i, &primitive),
                         i >= 0 && i < bt_primitive_count() ? BT_OK : BT_OUT_OF_RANGE);
        assert_int_equal(bt_library_describe(i, false, &library),
                         i >= 0 && i < bt_library_count() ? BT_OK : BT_OUT_OF_RANGE);
        assert_int_equal(bt_operation_name(i, &log_name) != NULL, i >= 0 && i < bt_operation_count());
    }
}

/* --- lists ---------------------------------------------------------------------------------------------------------------- */

static void lists(void **state) {
    fresh("devices=sim:gpu*2,memory_limit=64M");
    BT_SCOPE {
        bt_array *x = grid(), *pair[2] = {x, NULL}, *grads[2] = {NULL};
        bt_shared *w = bt_shared_new(x, NULL), *shared[2] = {w, NULL};
        bt_array *loss = bt_sum(bt_mul(x, x), BT_ALL, false);
        POISONED(bt_add_n(pair, 2), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_concat(pair, 2, 0), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_stack(pair, 2, 0), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_einsum("ij,jk->ik", pair, 2), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_einsum(NULL, pair, 1), BT_INVALID_ARGUMENT);
        FAILS(bt_grad(loss, pair, 2, grads), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_grad(loss, pair, 1, NULL), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_grad_shared(loss, shared, 2, grads), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_vjp(loss, NULL, pair, 1, grads), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_jvp(pair, 2, pair, pair, 2, grads), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_hvp(loss, pair, pair, 2, grads), BT_INVALID_ARGUMENT, "NULL");
        FAILS(bt_set_all(shared, pair, 2), BT_INVALID_ARGUMENT, "NULL");
        bt_to_all(pair, 2, "gpu:1");
        bt_gpu_all(pair, 2);
        pair[1] = NULL, pair[0] = x;
        FOR_EACH(int, count, ints) if (count < 1) {
            bt_peak peaks[1];
            int peak_count = count;
            POISONED(bt_add_n(pair, count), BT_INVALID_ARGUMENT, "count");
            POISONED(bt_concat(pair, count, 0), BT_INVALID_ARGUMENT, "count");
            POISONED(bt_stack(pair, count, 0), BT_INVALID_ARGUMENT, "count");
            POISONED(bt_einsum("i->i", pair, count), BT_INVALID_ARGUMENT);
            if (count == 0) continue;
            FAILS(bt_eval_all(pair, count), BT_INVALID_ARGUMENT);
            FAILS(bt_grad(loss, pair, count, grads), BT_INVALID_ARGUMENT);
            FAILS(bt_grad_shared(loss, shared, count, grads), BT_INVALID_ARGUMENT);
            FAILS(bt_vjp(loss, loss, pair, count, grads), BT_INVALID_ARGUMENT);
            FAILS(bt_jvp(pair, count, pair, pair, 1, grads), BT_INVALID_ARGUMENT);
            FAILS(bt_jvp(pair, 1, pair, pair, count, grads), BT_INVALID_ARGUMENT);
            FAILS(bt_hvp(loss, pair, pair, count, grads), BT_INVALID_ARGUMENT);
            FAILS(bt_set_all(shared, pair, count), BT_INVALID_ARGUMENT);
            bt_to_all(pair, count, "cpu");
            bt_gpu_all(pair, count);
            bt_cpu_all(pair, count);
            assert_null(bt_explain_all(pair, count));
            FAILS(bt_function_status(bt_function_new(pair, count, pair, 1, NULL, 0)), BT_INVALID_ARGUMENT);
            FAILS(bt_function_status(bt_function_new(pair, 0, pair, count, NULL, 0)), BT_INVALID_ARGUMENT);
            FAILS(bt_function_status(bt_function_new(pair, 0, pair, 1, NULL, count)), BT_INVALID_ARGUMENT);
            FAILS(bt_peak_all(pair, 1, peaks, &peak_count), BT_INVALID_ARGUMENT);
            FAILS(bt_peak_all(pair, count, peaks, &(int){1}), BT_INVALID_ARGUMENT);
            assert_null(bt_peak_text(peaks, count));
            assert_null(bt_device_list_text(NULL, count, false));
            FAILS(bt_strategy_status(bt_mirrored(NULL, count)), BT_INVALID_ARGUMENT);
            FAILS(bt_save("/tmp/berth-never", NULL, pair, count, NULL), BT_INVALID_ARGUMENT);
            bt_memory_info memory_info = {.size = 0};
            FAILS(bt_memory(device("cpu"), &memory_info), BT_INVALID_ARGUMENT);
            FAILS(bt_device_processes(device("cpu"), NULL, count, &(int){0}), BT_INVALID_ARGUMENT);
        }
        bt_error_clear();
    }
}

static void all_reduce(void **state) {
    fresh("devices=sim:gpu*2,memory_limit=64M");
    static const char *const flags[] = {"auto", "driver", "copies"};
    for (int way = 0; way < 3; way++) {
        OK(bt_set_flag("collectives", flags[way]));
        for (int missing = 0; missing < 2; missing++)
            for (int poisoned = 0; poisoned < 2; poisoned++)
                BT_SCOPE {
                    bt_strategy *s = bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2);
                    bt_array *parts[2] = {bt_to(grid(), "gpu:0"), bt_to(grid(), "gpu:1")};
                    parts[missing] = poisoned ? bt_matmul(grid(), grid()) : NULL;
                    bt_all_reduce(s, parts);
                    for (int i = 0; i < 2; i++)
                        POISONED(parts[i], BT_INVALID_ARGUMENT, poisoned ? "bt_matmul" : "NULL");
                }
        BT_SCOPE {
            bt_strategy *s = bt_mirrored((const char *[]){"gpu:0", "gpu:1"}, 2);
            bt_array *parts[2] = {bt_to(grid(), "gpu:0"), bt_to(bt_ones(BT_F32, 2), "gpu:1")};
            bt_all_reduce(s, parts);
            for (int i = 0; i < 2; i++) POISONED(parts[i], BT_INVALID_ARGUMENT, "alike");
            bt_all_reduce(NULL, parts);
            bt_all_reduce(s, NULL);
            assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
        }
    }
}

/* --- numbers ---------------------------------------------------------------------------------------------------------------- */

static void real_numbers(void **state) {
    fresh("memory_limit=64M");
    FOR_EACH(double, a, reals) BT_SCOPE {
        bt_array *x = grid(), *whole = BT_ARRAY(int8_t, (2), 1, -1);
        (void)TRY(bt_elu(x, a));
        (void)TRY(bt_leaky_relu(x, a));
        (void)TRY(bt_huber(x, x, a));
        (void)TRY(bt_layer_norm(x, NULL, NULL, a));
        (void)TRY(bt_pad(whole, (int64_t[]){1}, (int64_t[]){1}, a));
        (void)TRY(bt_bernoulli(bt_key(1), bt_num(a), 3));
        (void)TRY(bt_pow(whole, bt_num(a)));
        (void)TRY(bt_pow(x, bt_num(a)));
        for (int dtype = 0; dtype < BT_DTYPE_COUNT; dtype++) (void)TRY(bt_full(a, (bt_dtype)dtype, 2));
        for (int dtype = 0; dtype < BT_DTYPE_COUNT; dtype++) (void)TRY(bt_cast(bt_f64(a), (bt_dtype)dtype));
        FOR_EACH(double, b, reals) {
            (void)TRY(bt_clamp(x, a, b));
            (void)TRY(bt_clamp(whole, a, b));
            (void)TRY(bt_linspace(a, b, 3, BT_F32));
            (void)TRY(bt_uniform_in(bt_key(1), a, b, BT_F32, 3));
            FOR_EACH(double, step, reals) {
                (void)TRY(bt_arange(a, b, step, BT_I8));
                (void)TRY(bt_arange(a, b, step, BT_F32));
            }
        }
    }
    BT_SCOPE {
        FOR_EACH(double, a, reals) {
            bt_optimizer *optimizers[] = {bt_sgd(a), bt_momentum(a, a), bt_adam(a, a, a, a)};
            bt_strategy *s = bt_mirrored((const char *[]){"cpu"}, 1);
            for (int i = 0; i < 3; i++)
                if (!optimizers[i]) assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
            assert_int_equal(bt_strategy_set_shares(s, &a, 1), a > 0 && a < 1e300 ? BT_OK : BT_INVALID_ARGUMENT);
            if (!(a > 0 && a <= 1)) assert_int_not_equal(bt_set_memory_fraction(device("cpu"), a), BT_OK);
        }
    }
}

/* --- models, files, views ------------------------------------------------------------------------------------------------------ */

static bt_array *total(bt_array *const *args, int count, void *data) { return bt_sum(args[0], BT_ALL, false); }
static bt_array *no_array(bt_array *const *args, int count, void *data) { return NULL; }
static bt_array *no_result(bt_array *x) { return NULL; }
static bt_array *no_value(bt_array *value, void *data) { return NULL; }
static bt_array *no_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) { return NULL; }
static void nothing(void *data) {}

static void models(void **state) {
    fresh("memory_limit=64M");
    BT_SCOPE {
        bt_layer *layer = bt_dense(3, 1, NULL, bt_key(1)), *odd = bt_lambda("odd", no_result);
        bt_optimizer *sgd = bt_sgd(0.1);
        bt_shared *w = bt_shared_new(grid(), NULL);
        bt_array *x = grid(), *y = bt_ones(BT_F32, 2, 1), *grads[2] = {NULL};
        FOR_EACH(int64_t, n, longs) if (n < 0 || n > INT64_C(1) << 40) {
            (void)bt_dense(n, 2, NULL, bt_key(1));
            (void)bt_dense(2, n, NULL, bt_key(1));
        }
        FOR_EACH(int, n, ints) {
            bt_shared *parameters[2];
            if (n <= 2) assert_int_equal(bt_parameters(layer, parameters, n), 2);
            if (n < 0) {
                (void)bt_chain_of(&layer, n);
                FAILS(bt_optimizer_step(sgd, &w, &x, n), BT_INVALID_ARGUMENT);
            }
            (void)bt_strategy_device(bt_mirrored((const char *[]){"cpu"}, 1), n);
            if (n != 0)
                BT_REPLICA(bt_mirrored((const char *[]){"cpu"}, 1), n)
                    POISONED(bt_add(x, x), BT_INVALID_ARGUMENT, "replica");
            bt_fit_options options = {BT_FIT_INIT, .epochs = n < 3 ? n : 1, .batch = n};
            (void)!bt_fit(layer, sgd, x, y, &options, NULL);
        }
        bt_fit_options most = {BT_FIT_INIT, .batch = INT64_MAX, .quiet = true};
        most.loss = NULL;
        (void)!bt_fit(layer, sgd, x, bt_ones(BT_I32, 2), &most, NULL);
        POISONED(bt_apply(odd, x), BT_INVALID_ARGUMENT, "NULL");
        POISONED(bt_apply(layer, NULL), BT_INVALID_ARGUMENT, "NULL");
        (void)bt_fmap(no_value, NULL, layer);
        (void)bt_fmap(NULL, NULL, layer);
        (void)bt_lambda(NULL, no_result);
        (void)bt_lambda("x", NULL);
        (void)bt_chain_of(NULL, 1);
        FAILS(bt_optimizer_step(sgd, NULL, &x, 1), BT_INVALID_ARGUMENT);
        FAILS(bt_optimizer_step(sgd, &w, NULL, 1), BT_INVALID_ARGUMENT);
        FAILS(bt_optimizer_step(sgd, (bt_shared *[]){NULL}, &x, 1), BT_INVALID_ARGUMENT);
        FAILS(bt_optimizer_step(sgd, &w, (bt_array *[]){NULL}, 1), BT_INVALID_ARGUMENT);
        FAILS(bt_optimizer_step(NULL, &w, &x, 1), BT_INVALID_ARGUMENT);
        POISONED(bt_train_step(NULL, layer, sgd, no_loss, NULL, x, y), BT_INVALID_ARGUMENT);
        POISONED(bt_train_step(NULL, layer, sgd, NULL, NULL, x, y), BT_INVALID_ARGUMENT);
        POISONED(bt_train_step(NULL, NULL, sgd, no_loss, NULL, x, y), BT_INVALID_ARGUMENT);
        POISONED(bt_train_step(NULL, layer, NULL, no_loss, NULL, x, y), BT_INVALID_ARGUMENT);
        POISONED(bt_train_step(NULL, layer, sgd, no_loss, NULL, NULL, y), BT_INVALID_ARGUMENT);
        POISONED(bt_value_and_grad(no_array, NULL, &x, 1, grads), BT_INVALID_ARGUMENT);
        POISONED(bt_value_and_grad(NULL, NULL, &x, 1, grads), BT_INVALID_ARGUMENT);
        POISONED(bt_value_and_grad(total, NULL, &x, -1, grads), BT_INVALID_ARGUMENT);
        POISONED(bt_value_and_grad(total, NULL, (bt_array *[]){NULL}, 1, grads), BT_INVALID_ARGUMENT);
        FAILS(bt_check_grad(total, NULL, &x, -1, 0, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_check_grad(no_array, NULL, (bt_array *[]){bt_ones(BT_F64, 2)}, 1, 0, NULL), BT_INVALID_ARGUMENT);
        assert_null(bt_summary(NULL));
        assert_int_equal(bt_parameter_count(NULL), 0);
        bt_error_clear();
    }
}

static void files_and_views(void **state) {
    fresh("memory_limit=64M");
    char path[] = "/tmp/berth-arguments-XXXXXX";
    close(mkstemp(path));
    BT_SCOPE {
        bt_array *x = grid(), *pair[2] = {x, NULL};
        const char *names[2] = {"a", NULL};
        bt_tensors *tensors = NULL;
        FAILS(bt_save(NULL, names, pair, 1, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_save(path, NULL, pair, 1, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_save(path, names, NULL, 1, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_save(path, names, pair, 2, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_save(path, names, (bt_array *[]){NULL}, 1, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_save(path, names, pair, 1, (const char *[]){"key", NULL}), BT_INVALID_ARGUMENT);
        OK(bt_save(path, names, pair, 1, NULL));
        OK(bt_tensors_open(path, &tensors));
        FOR_EACH(int, i, ints) assert_int_equal(bt_tensors_name(tensors, i) != NULL, i == 0);
        POISONED(bt_tensors_get(tensors, NULL), BT_INVALID_ARGUMENT);
        POISONED(bt_tensors_get(NULL, "a"), BT_INVALID_ARGUMENT);
        assert_null(bt_tensors_metadata(tensors, NULL));
        bt_tensors_close(tensors);
        FAILS(bt_save_npy(path, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_save_npy(NULL, x), BT_INVALID_ARGUMENT);
        FAILS(bt_save_npz(NULL, names, pair, 1, false), BT_INVALID_ARGUMENT);
        FAILS(bt_save_npz(path, NULL, pair, 1, false), BT_INVALID_ARGUMENT);
        FAILS(bt_save_npz(path, names, pair, 2, true), BT_INVALID_ARGUMENT);
        FAILS(bt_save_shards(path, names, pair, 1, NULL, 1), BT_INVALID_ARGUMENT);
        FAILS(bt_to_dlpack(x, false, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_to_dlpack_unversioned(x, false, NULL), BT_INVALID_ARGUMENT);
        POISONED(bt_from_dlpack(NULL), BT_INVALID_ARGUMENT);
        POISONED(bt_from_dlpack_unversioned(NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_save_model(path, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_load_model(path, NULL), BT_INVALID_ARGUMENT);
        POISONED(bt_load_npy(NULL), BT_INVALID_ARGUMENT);
        POISONED(bt_load_csv(NULL, BT_F32), BT_INVALID_ARGUMENT);
        FAILS(bt_trace_page(NULL, path), BT_INVALID_ARGUMENT);
        FAILS(bt_trace_page(path, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_profile_stop(NULL, NULL, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_device_describe(NULL, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_compiler(false, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_flag_describe(0, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_primitive_describe(0, NULL), BT_INVALID_ARGUMENT);
        FAILS(bt_library_describe(0, false, NULL), BT_INVALID_ARGUMENT);
        FOR_EACH(int, n, ints) if (n < 1) {
            double seconds;
            bt_free(bt_timeit(nothing, NULL, n, 1, &seconds));
            bt_free(bt_timeit(nothing, NULL, 1, n, &seconds));
        }
        FOR_EACH(int64_t, at, longs) {
            double value;
            int64_t index[2] = {at, at};
            assert_int_equal(bt_item_at(x, index, &value), at >= -2 && at < 2 ? BT_OK : BT_OUT_OF_RANGE);
        }
        FAILS(bt_read(x, (float[6]){0}, SIZE_MAX), BT_INVALID_ARGUMENT);
        FAILS(bt_write(x, (float[6]){0}, SIZE_MAX), BT_INVALID_ARGUMENT);
        bt_error_clear();
    }
    unlink(path);
}

static void functions(void **state) {
    fresh("memory_limit=64M");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1), *y = bt_mul(x, x), *given = bt_ones(BT_F32, 3), *out = NULL;
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        bt_shape shape = BT_SHAPE(4);
        bt_peak peaks[4];
        int64_t batch;
        FOR_EACH(int, count, ints) if (count != 1) {
            int peak_count = 4;
            FAILS(bt_call(f, &given, count, &out, 1), BT_INVALID_ARGUMENT);
            if (count < 1) FAILS(bt_call(f, &given, 1, &out, count), BT_INVALID_ARGUMENT);
            POISONED(bt_call1(f, &given, count), BT_INVALID_ARGUMENT);
            assert_null(bt_explain_function(f, &given, count));
            FAILS(bt_peak_call(f, &given, &shape, count, peaks, &peak_count), BT_INVALID_ARGUMENT);
            FAILS(bt_largest_batch(f, &given, count, NULL, 0, &batch), BT_INVALID_ARGUMENT);
        }
        FOR_EACH(int64_t, n, longs) {
            bt_array *missing = NULL;
            bt_shape hostile = {1, {n}};
            int peak_count = 4;
            (void)!bt_peak_call(f, &missing, &hostile, 1, peaks, &peak_count);
        }
        FOR_EACH(int, rank, ints) {
            bt_array *missing = NULL;
            bt_shape hostile = {rank, {2, 1, 1}};
            int peak_count = 4;
            bt_status status = bt_peak_call(f, &missing, &hostile, 1, peaks, &peak_count);
            assert_int_equal(status == BT_OK, rank == 1);
        }
        POISONED(bt_call1(f, (bt_array *[]){NULL}, 1), BT_INVALID_ARGUMENT);
        bt_error_clear();
    }
}

/* --- tasks -------------------------------------------------------------------------------------------------------------------- */

static void tasks_without_a_runtime(void **state) {
    fresh("memory_limit=64M");
    BT_SCOPE {
        bt_ref *refs[2] = {NULL, NULL};
        int ids[1], number;
        FOR_EACH(int, n, ints) {
            assert_int_equal(bt_wait_refs(n < 3 ? refs : NULL, n, 1, NULL, 0) <= 0, true);
            if (n <= 1) assert_int_equal(bt_get_gpu_ids(ids, n), 0);
            if (n <= 0) (void)bt_pool_new(NULL, n);
            (void)bt_pool_next(NULL, (bt_pool_order)n, 0);
            if (n <= 0) (void)bt_group_new(NULL, n);
            (void)bt_argument_type(NULL, n);
            assert_int_not_equal(bt_get(bt_result(NULL, n), NULL), BT_OK);
            bt_ref *stream = n > 0 ? bt_put(1) : NULL;
            bt_ref *item = bt_stream_next(n == 1 ? NULL : &stream, n);
            assert_int_equal(item != NULL, n > 1); /* poisoned, once */
            if (n > 1) assert_null(bt_stream_next(&stream, n));
            bt_list hostile = {n < 3 ? refs : NULL, NULL, n, n};
            assert_int_not_equal(bt_get(bt_put(hostile), NULL), BT_OK);
            bt_list two = bt_list_of(refs, n < 3 ? n : 2);
            assert_int_equal(bt_list_type(two, n), BT_NOTHING);
            assert_int_equal(bt_list_get(two, n, &number), BT_OUT_OF_RANGE);
        }
        assert_int_equal(bt_argument_count(NULL), 0);
        (void)!bt_cancel(NULL, true);
        (void)bt_actor_status(NULL);
        (void)bt_actor_find(NULL);
        (void)!bt_actor_kill(NULL);
        (void)!bt_group_wait(NULL, NAN);
        (void)!bt_module_load(NULL);
        (void)!bt_runtime_start(NULL);
        (void)!bt_runtime_shutdown();
        assert_true(isnan(bt_resource_total(NULL)));
        assert_true(isnan(bt_resource_free(NULL)));
        (void)bt_remote_named(NULL, NULL, NULL, NULL, 0);
        (void)bt_actor_named(NULL, NULL, NULL, NULL, 0);
        (void)bt_method_named(NULL, NULL, NULL, NULL, NULL, 0);
        (void)bt_task_fail(NULL, BT_INTERNAL, "x");
        (void)bt_task_cancelled(NULL);
        (void)bt_state(NULL);
        assert_null(bt_lease_take(NULL));
        assert_int_equal(bt_lease_gpus(NULL, ids, 1), 0);
        (void)bt_lease_mask(NULL);
        bt_error_clear();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_axis),
        cmocka_unit_test(lists_of_axes),
        cmocka_unit_test(sizes),
        cmocka_unit_test(products_of_sizes),
        cmocka_unit_test(slices),
        cmocka_unit_test(attentions),
        cmocka_unit_test(windows),
        cmocka_unit_test(windows_by_options),
        cmocka_unit_test(places_of_arrays),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(other_enums),
        cmocka_unit_test(lists),
        cmocka_unit_test(all_reduce),
        cmocka_unit_test(real_numbers),
        cmocka_unit_test(models),
        cmocka_unit_test(files_and_views),
        cmocka_unit_test(functions),
        cmocka_unit_test(tasks_without_a_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
