// env: BERTH_FLAGS=devices=sim:gpu*2,default_device=cpu
/* Blocks of mixed precision: the class of each operation, gradients, and where else bodies are recorded. */
#include <pthread.h>

#include "array/autocast.h"
#include "array/plan_log.h"
#include "ops/ops_test.h"

#define DTYPE(x, expected) assert_string_equal(bt_dtype_name(bt_dtype_of(x)), bt_dtype_name(expected))

static bt_array *small(void) { return bt_uniform_in(bt_key(3), 0.25, 0.75, BT_F32, 4, 4); }

/* --- classes -------------------------------------------------------------------------------------------------------- */

typedef struct called {
    const char *name;
    bt_array *result;
} called;

static int found;

static void expect_class(called c, bt_array *given, bti_autocast_class class, bt_dtype lower) {
    assert_int_equal(bti_autocast_class_of(c.name), class);
    assert_int_equal(bt_block(c.result), BT_OK);
    bt_dtype expected = class == BTI_AUTOCAST_LOWER     ? lower
                        : class == BTI_AUTOCAST_FLOAT32 ? BT_F32
                                                        : bt_dtype_of(given);
    if (bt_dtype_of(c.result) == BT_C64 && expected == BT_F32) expected = BT_C64; /* float32 parts */
    if (bt_dtype_of(c.result) != expected)
        fail_msg("%s of %s gives %s", c.name, bt_dtype_name(bt_dtype_of(given)), bt_dtype_name(bt_dtype_of(c.result)));
    found++;
}

#define CALL(name, ...) \
    { "bt_" #name, bt_##name(__VA_ARGS__) }

static void lower_ones(bt_array *x, bt_dtype lower) {
    bt_array *image = bt_reshape(x, 1, 1, 4, 4), *both[2] = {x, x}, *mixed[2] = {x, small()};
    called all[] = {CALL(matmul, x, small()),
                    CALL(matmul_t, x, x, true, false),
                    CALL(einsum, "ij,jk->ik", both, 2),
                    CALL(einsum, "ij,jk->ik", mixed, 2),
                    CALL(tensordot, x, small(), BT_AXES(1), BT_AXES(0)),
                    CALL(conv, image, image),
                    CALL(conv2d, image, image, NULL, NULL, NULL, 1),
                    CALL(conv_transposed, image, image),
                    CALL(attention, x, small(), x)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) expect_class(all[i], x, BTI_AUTOCAST_LOWER, lower);
}

static void linear_algebra(bt_array *x) {
    bt_array *definite = bt_add(bt_eye(4, 4, BT_F32), bt_matmul_t(x, x, false, true)), *qr[2], *eigh[2], *log[2],
             *svd[3];
    assert_int_equal(bt_qr(x, qr), BT_OK);
    assert_int_equal(bt_eigh(x, eigh), BT_OK);
    assert_int_equal(bt_slogdet(x, log), BT_OK);
    assert_int_equal(bt_svd(x, svd), BT_OK);
    called all[] = {CALL(cholesky, definite),
                    CALL(solve, x, x),
                    CALL(triangular_solve, x, x, false, false, false),
                    CALL(inv, x),
                    CALL(det, x),
                    CALL(lstsq, x, x),
                    {"bt_qr", qr[0]},
                    {"bt_eigh", eigh[1]},
                    {"bt_slogdet", log[0]},
                    {"bt_svd", svd[2]}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) expect_class(all[i], x, BTI_AUTOCAST_FLOAT32, BT_F32);
}

static void float32_ones(bt_array *x) {
    bt_array *row = bt_slice_axis(x, 0, 0, 1, 1), *scale = bt_reshape(row, 4), *classes = I32((4), 0, 1, 2, 3);
    called all[] = {
        CALL(acos, x),
        CALL(asin, x),
        CALL(binary_cross_entropy, x, x),
        CALL(cosh, x),
        CALL(cross_entropy, x, classes),
        CALL(cross_entropy, x, x),
        CALL(cumprod, x, 0, false),
        CALL(cumsum, x, 0, false),
        CALL(erfinv, x),
        CALL(exp, x),
        CALL(exp2, x),
        CALL(expm1, x),
        CALL(huber, x, x, 1),
        CALL(layer_norm, x, scale, scale, 1e-5),
        CALL(layer_norm, x, NULL, NULL, 1e-5),
        CALL(log, x),
        CALL(log10, x),
        CALL(log1p, x),
        CALL(log2, x),
        CALL(log_softmax, x, -1),
        CALL(logaddexp, x, x),
        CALL(logsumexp, x, BT_ALL, false),
        CALL(mae, x, x),
        CALL(mean, x, BT_ALL, false),
        CALL(mse, x, x),
        CALL(norm, x, BT_ALL, false),
        CALL(pow, x, bt_num(2)),
        CALL(pow, x, x),
        CALL(prod, x, BT_ALL, false),
        CALL(reciprocal, x),
        CALL(rsqrt, x),
        CALL(sinh, x),
        CALL(softmax, x, -1),
        CALL(softmax_last, x),
        CALL(softplus, x),
        CALL(std, x, BT_ALL, false, 0),
        CALL(sum, x, BT_ALL, false),
        CALL(tan, x),
        CALL(trace, x),
        CALL(var, x, BT_ALL, false, 0),
        CALL(rfft, x, NULL),
        CALL(rfft2, x, NULL),
        CALL(rfftn, x, NULL),
        CALL(irfft, x, NULL),
        CALL(irfft2, x, NULL),
        CALL(irfftn, x, NULL),
        CALL(fft, x, NULL),
        CALL(fft2, x, NULL),
        CALL(fftn, x, NULL),
        CALL(ifft, x, NULL),
        CALL(ifft2, x, NULL),
        CALL(ifftn, x, NULL),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) expect_class(all[i], x, BTI_AUTOCAST_FLOAT32, BT_F32);
    called same[] = {CALL(sum_as, x, BT_ALL, false, BT_F64), CALL(prod_as, x, BT_ALL, false, BT_F64)};
    for (size_t i = 0; i < 2; i++) DTYPE(same[i].result, BT_F64);
}

static void other_ones(bt_array *x) {
    called all[] = {CALL(add, x, x),      CALL(mul, x, bt_num(2)), CALL(tanh, x),
                    CALL(gelu, x),        CALL(sqrt, x),           CALL(square, x),
                    CALL(maximum, x, x),  CALL(relu, x),           CALL(max, x, BT_ALL, false),
                    CALL(transpose, x),   CALL(outer, x, x),       CALL(sort, x, 0),
                    CALL(where, x, x, x), CALL(sigmoid, x),        CALL(take, x, I32((1), 1), 0)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) expect_class(all[i], x, BTI_AUTOCAST_WIDEST, BT_F32);
    DTYPE(bt_add(x, small()), BT_F32);
}

static void each_class(void **state) {
    const bt_dtype lower[] = {BT_BF16, BT_F16}, given[] = {BT_F32, BT_F16, BT_BF16};
    found = 0;
    for (int l = 0; l < 2; l++)
        for (int g = 0; g < 3; g++)
            BT_SCOPE {
                bt_array *x = bt_cast(small(), given[g]);
                BT_AUTOCAST(lower[l]) {
                    lower_ones(x, lower[l]);
                    float32_ones(x);
                    linear_algebra(x);
                    other_ones(x);
                }
            }
    assert_int_equal(found, 6 * (9 + 52 + 10 + 15));
}

/* A row of a class that casts is in a list above: whoever adds one adds its call. */
static void classes_are_tested(void **state) {
    int counts[4] = {0};
    for (int i = 0; bti_name_at(i); i++) counts[bti_name_at(i)->autocast]++;
    assert_int_equal(counts[BTI_AUTOCAST_LOWER], 8);
    assert_int_equal(counts[BTI_AUTOCAST_FLOAT32], 61);
    assert_int_equal(counts[BTI_AUTOCAST_BODY], 4);
}

static void what_is_not_cast(void **state) {
    BT_SCOPE
        BT_AUTOCAST(BT_BF16) {
            bt_array *wide = bt_cast(small(), BT_F64), *whole = bt_ones(BT_I32, 4, 4);
            DTYPE(bt_matmul(wide, wide), BT_F64);
            DTYPE(bt_matmul(wide, small()), BT_F64);
            DTYPE(bt_matmul(whole, whole), BT_I32);
            DTYPE(bt_exp(bt_num(1)), BT_F64);
            DTYPE(bt_sum(bt_cast(whole, BT_BOOL), BT_ALL, false), BT_I64);
        }
}

/* --- blocks --------------------------------------------------------------------------------------------------------- */

static bt_dtype left_by_return(void) { BT_AUTOCAST(BT_F16) return bt_autocast_dtype(); }

static void *of_a_thread(void *dtype) {
    *(bt_dtype *)dtype = bt_autocast_dtype();
    return NULL;
}

static void blocks_nest(void **state) {
    bt_dtype other = BT_BOOL;
    pthread_t thread;
    assert_int_equal(bt_autocast_dtype(), BT_F32);
    BT_AUTOCAST(BT_BF16) {
        assert_int_equal(left_by_return(), BT_F16);
        assert_int_equal(bt_autocast_dtype(), BT_BF16);
        BT_AUTOCAST(BT_F32) {
            assert_int_equal(bt_autocast_dtype(), BT_F32);
            BT_SCOPE
                DTYPE(bt_matmul(small(), small()), BT_F32);
        }
        BT_AUTOCAST(BT_F16) BT_SCOPE DTYPE(bt_matmul(small(), small()), BT_F16);
        assert_int_equal(pthread_create(&thread, NULL, of_a_thread, &other), 0);
        pthread_join(thread, NULL);
        assert_int_equal(other, BT_F32);
    }
    assert_int_equal(bt_autocast_dtype(), BT_F32);
}

static void wrong_dtypes(void **state) {
    BT_AUTOCAST(BT_I32) {
        BAD(matmul, bt_matmul(small(), small()), "BT_AUTOCAST(int32): a block takes BT_BF16 or BT_F16");
        BAD(exp, bt_exp(small()), "BT_AUTOCAST(int32)");
        BAD(einsum, bt_einsum("ij->i", ALL(small()), 1), "BT_AUTOCAST(int32)");
        assert_int_equal(bt_autocast_dtype(), BT_F32);
    }
    BT_AUTOCAST((bt_dtype)-3) BAD(softmax, bt_softmax(small(), 0), "BT_AUTOCAST(invalid)");
    BT_AUTOCAST(BT_F64) BAD(conv, bt_conv(image(), image()), "BT_AUTOCAST(float64)");
    BT_AUTOCAST(BT_BOOL) BAD(mse, bt_mse(small(), small()), "BT_AUTOCAST(bool)");
    BT_AUTOCAST(BT_BF16) BAD(matmul, bt_matmul(NULL, small()), "NULL");
}

/* --- gradients ------------------------------------------------------------------------------------------------------ */

static bt_array *two_products(bt_array *x, bt_array *w) {
    bt_array *h;
    BT_AUTOCAST(BT_BF16) {
        h = bt_matmul(bt_tanh(bt_matmul(x, w)), w);
        h = bt_mean(bt_square(h), BT_ALL, false);
    }
    return h;
}

/* The same with the casts written out. */
static bt_array *two_products_by_hand(bt_array *x, bt_array *w) {
    bt_array *low = bt_cast(w, BT_BF16),
             *h = bt_matmul(bt_tanh(bt_matmul(bt_cast(x, BT_BF16), low)), bt_cast(w, BT_BF16));
    return bt_mean(bt_cast(bt_square(h), BT_F32), BT_ALL, false);
}

static void same(bt_array *x, bt_array *y) {
    bool equal = false;
    DTYPE(x, bt_dtype_of(y));
    assert_int_equal(bt_read(bt_all(bt_eq(x, y), BT_ALL, false), &equal, 1), BT_OK);
    assert_true(equal);
}

static int times(const char *text, const char *word) {
    int count = 0;
    for (; (text = strstr(text, word)); text++) count++;
    return count;
}

static void gradients(void **state) {
    BT_SCOPE {
        bt_array *x = small(), *inputs[2] = {bt_input(BT_F32, 4, 4), bt_input(BT_F32, 4, 4)}, *outside[2], *inside[2],
                 *by_hand[2];
        bt_shared *w = bt_shared_new(small(), NULL);
        bt_array *loss = two_products(x, bt_value(w)), *g = bt_grad1(loss, w);
        DTYPE(loss, BT_F32);
        DTYPE(g, BT_F32);
        bt_array *given[2] = {x, small()};
        assert_int_equal(bt_block(given[0]) | bt_block(given[1]), BT_OK);
        assert_int_equal(bt_grad(two_products(given[0], given[1]), given, 2, outside), BT_OK);
        BT_AUTOCAST(BT_F16) assert_int_equal(bt_grad(two_products(given[0], given[1]), given, 2, inside), BT_OK);
        assert_int_equal(bt_grad(two_products_by_hand(given[0], given[1]), given, 2, by_hand), BT_OK);
        for (int i = 0; i < 2; i++) same(outside[i], by_hand[i]), same(inside[i], by_hand[i]);
        bt_array *results[3] = {two_products(inputs[0], inputs[1])};
        assert_int_equal(bt_grad(results[0], inputs, 2, results + 1), BT_OK);
        bt_function *f = bt_function_new(inputs, 2, results, 3, NULL, 0);
        BT_TEXT text = bt_explain_function(f, given, 2);
        assert_int_equal(times(text, "  matmul  "), 6);
        assert_int_equal(times(text, "bfloat16 (4, 4)  (where its forward operation ran)"),
                         6); /* four products, and what is between them */
        assert_int_equal(times(text, "bfloat16 (4, 4)  (default device)"),
                         5); /* x, w once, two products, and the tanh */
    }
}

static void second_order(void **state) {
    BT_SCOPE {
        bt_array *x = small(), *w = small(), *g, *second;
        BT_AUTOCAST(BT_BF16) {
            g = bt_grad1(two_products(x, w), w);
            second = bt_grad1(bt_sum(bt_square(g), BT_ALL, false), w);
        }
        bt_array *by_hand = bt_grad1(two_products_by_hand(x, w), w);
        same(second, bt_grad1(bt_sum(bt_square(by_hand), BT_ALL, false), w));
    }
}

static bt_array *in_checkpoint(bt_array *const *args, int count, void *data) { return two_products(args[0], args[1]); }

static void checkpoints(void **state) {
    BT_SCOPE {
        bt_array *args[2] = {small(), small()}, *plain, *again;
        plain = bt_grad1(two_products(args[0], args[1]), args[1]);
        again = bt_grad1(bt_checkpoint(in_checkpoint, NULL, args, 2), args[1]);
        same(plain, again);
        bt_array *h;
        BT_CHECKPOINT BT_AUTOCAST(BT_BF16) h = bt_matmul(args[0], args[1]);
        DTYPE(h, BT_BF16);
        DTYPE(bt_grad1(bt_sum(h, BT_ALL, false), args[0]), BT_F32);
    }
}

/* --- bodies --------------------------------------------------------------------------------------------------------- */

static void functions(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, -1, 4), *y = bt_matmul(x, bt_transpose(x)), *low, *out, *args[1] = {small()};
        bt_function *plain = bt_function_new(&x, 1, &y, 1, NULL, 0);
        bt_array *x2 = bt_input(BT_F32, -1, 4);
        BT_AUTOCAST(BT_BF16) low = bt_matmul(x2, bt_transpose(x2));
        bt_function *lower = bt_function_new(&x2, 1, &low, 1, NULL, 0);
        BT_AUTOCAST(BT_BF16) {
            out = bt_call1(plain, args, 1);
            DTYPE(out, BT_F32); /* as it was recorded */
            same(out, bt_call1(plain, args, 1));
        }
        DTYPE(bt_call1(lower, args, 1), BT_BF16);
        bt_array *x3 = bt_input(BT_F32, 4, 4), *inner;
        BT_AUTOCAST(BT_BF16) inner = bt_call1(plain, &x3, 1);
        DTYPE(inner, BT_F32);
    }
}

static void mixed_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    bt_array *low = bt_matmul(carry[0], data);
    y[0] = low;
    carry[0] = bt_cast(bt_tanh(bt_add(low, x[0])), BT_F32);
}

static void yes(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_matmul(args[0], args[0]); }
static void no(bt_array *const *args, bt_array **results, void *data) {
    results[0] = bt_matmul(args[0], bt_neg(args[0]));
}

static void loops_and_branches(void **state) {
    BT_SCOPE {
        bt_array *w = small(), *carry = bt_zeros(BT_F32, 4, 4), *xs = bt_zeros(BT_F32, 3, 4, 4), *ys, *arg = small(),
                 *made;
        BT_AUTOCAST(BT_BF16) {
            assert_int_equal(bt_scan(mixed_step, w, BT_ALL_ROWS, &carry, 1, &xs, 1, &ys, 1), BT_OK);
            assert_int_equal(bt_cond(bt_cast(bt_i32(1), BT_BOOL), yes, no, NULL, &arg, 1, &made, 1), BT_OK);
        }
        DTYPE(ys, BT_BF16);
        DTYPE(carry, BT_F32);
        DTYPE(made, BT_BF16);
        DTYPE(bt_grad1(bt_sum(carry, BT_ALL, false), w), BT_F32);
        assert_int_equal(bt_block(ys) | bt_block(made), BT_OK);
    }
}

static void batches_and_tangents(void **state) {
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 4, 4), *y, *batch = bt_uniform(bt_key(1), BT_F32, 2, 4, 4), *w = small(),
                 *given = small();
        BT_AUTOCAST(BT_BF16) y = bt_matmul(bt_softmax(x, -1), w);
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0), *over;
        BT_AUTOCAST(BT_F16) over = bt_vmap(f, NULL, NULL);
        bt_array *all = bt_call1(over, &batch, 1), *first = bt_index(batch, 0, 1);
        DTYPE(all, BT_BF16);
        same(bt_index(all, 0, 1), bt_call1(f, &first, 1));
        bt_array *out, *tangent;
        BT_AUTOCAST(BT_BF16) {
            out = bt_matmul(given, w);
            assert_int_equal(bt_jvp(&out, 1, &given, &w, 1, &tangent), BT_OK);
        }
        DTYPE(tangent, BT_BF16);
        same(tangent, bt_matmul(bt_cast(w, BT_BF16), bt_cast(w, BT_BF16)));
    }
}

/* --- layers and training -------------------------------------------------------------------------------------------- */

static bt_array *mixed_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    bt_array *loss;
    BT_AUTOCAST(BT_BF16) loss = bt_cross_entropy(bt_apply(model, x), y);
    ++*(int *)data;
    return loss;
}

static void training(void **state) {
    int losses = 0;
    BT_SCOPE {
        bt_array *x = bt_normal(bt_key(1), BT_F32, 64, 8), *y = bt_argmax(x, 1), *at_first[2], *later;
        bt_layer *model = bt_chain(bt_dense(8, 32, bt_relu, bt_key(2)), bt_dense(32, 8, NULL, bt_key(3)));
        BT_AUTOCAST(BT_BF16) DTYPE(bt_apply(model, x), BT_BF16);
        bt_optimizer *optimizer = bt_adam(1e-2, 0.9, 0.999, 1e-8);
        bt_fit_report report;
        assert_int_equal(bt_fit(model, optimizer, x, y,
                                BT_FIT_OPTIONS(.epochs = 20, .loss = mixed_loss, .loss_data = &losses, .quiet = true),
                                &report),
                         BT_OK);
        assert_true(losses > 0 && report.last_loss < 0.7 * report.first_loss);
        bt_strategy *both = bt_mirrored((const char *const[]){"GPU:0", "GPU:1"}, 2);
        BT_STRATEGY(both) model = bt_chain(bt_dense(8, 32, bt_relu, bt_key(2)), bt_dense(32, 8, NULL, bt_key(3)));
        optimizer = bt_adam(1e-2, 0.9, 0.999, 1e-8);
        BT_AUTOCAST(BT_F16) at_first[0] = bt_train_step(both, model, optimizer, mixed_loss, &losses, x, y);
        for (int i = 0; i < 20; i++) later = bt_train_step(both, model, optimizer, mixed_loss, &losses, x, y);
        DTYPE(later, BT_F32);
        assert_true(bt_item(later) < 0.8 * bt_item(at_first[0]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class),
        cmocka_unit_test(classes_are_tested),
        cmocka_unit_test(what_is_not_cast),
        cmocka_unit_test(blocks_nest),
        cmocka_unit_test(wrong_dtypes),
        cmocka_unit_test(gradients),
        cmocka_unit_test(second_order),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(functions),
        cmocka_unit_test(loops_and_branches),
        cmocka_unit_test(batches_and_tangents),
        cmocka_unit_test(training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
