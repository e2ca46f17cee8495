/* What makes programs short: numbers as operands, options by name, scopes as declarations, labels, a default device, checks. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/support.h"

#define IS(x, dtype_, text_)                        \
    do {                                            \
        bt_array *is_ = (x);                        \
        BT_TEXT written_ = bt_to_text(is_);         \
        assert_non_null(written_);                  \
        assert_string_equal(written_, text_);       \
        assert_int_equal(bt_dtype_of(is_), dtype_); \
    } while (0)

static void numbers_take_the_dtype_of_arrays(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *n = BT_ARRAY(int32_t, (2), 1, 2), *u = BT_ARRAY(uint8_t, (2), 1, 255), *x = BT_ARRAY(float, (2), 1, 2);
    bt_array *b = BT_ARRAY(bool, (2), true, false), *h = bt_cast(x, BT_BF16);
    IS(bt_add(n, 1), BT_I32, "[2 3]");
    IS(bt_sub(1, u), BT_U8, "[0 2]");
    IS(bt_mul(x, 2), BT_F32, "[2. 4.]");
    IS(bt_mul(0.5, x), BT_F32, "[0.5 1. ]");
    IS(bt_mul(h, 0.5f), BT_BF16, "[0.5 1. ]");
    IS(bt_add(n, 0.5), BT_F64, "[1.5 2.5]");
    IS(bt_div(n, 2), BT_F32, "[0.5 1. ]");
    IS(bt_add(b, 1), BT_I64, "[2 1]");
    IS(bt_lt(u, 255), BT_BOOL, "[ True False]");
    IS(bt_shift_left(n, 3), BT_I32, "[ 8 16]");
    IS(bt_pow(n, 2), BT_I32, "[1 4]");
    IS(bt_where(b, n, 0), BT_I32, "[1 0]");
    IS(bt_logaddexp(x, 1), BT_F32, "[1.6931472 2.3132617]");
    IS(bt_set_at(x, "0", 7), BT_F32, "[7. 2.]");
    IS(bt_take(x, -1, 0), BT_F32, "2.0");
    IS(bt_mse(x, 1), BT_F32, "0.5");
}

static void numbers_of_every_type(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *n = BT_ARRAY(int16_t, (1), 1);
    bool yes = true;
    char c = 2;
    signed char sc = 2;
    unsigned char uc = 2;
    short s = 2;
    unsigned short us = 2;
    unsigned u = 2;
    long l = 2;
    unsigned long ul = 2;
    long long ll = 2;
    unsigned long long ull = 2;
    float f = 2;
    long double ld = 2;
    enum { TWO = 2 } e = TWO;
    struct {
        const int constant;
    } of = {2};
    bt_array *const same = n;
    bt_array *each[] = {bt_add(n, c), bt_add(n, sc),  bt_add(n, uc),         bt_add(n, s),  bt_add(n, us),
                        bt_add(n, u), bt_add(n, l),   bt_add(n, ul),         bt_add(n, ll), bt_add(n, ull),
                        bt_add(n, e), bt_add(n, TWO), bt_add(n, of.constant)};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) IS(each[i], BT_I16, "[3]");
    IS(bt_add(n, f), BT_F64, "[3.]");
    IS(bt_add(n, ld), BT_F64, "[3.]");
    IS(bt_add(n, yes), BT_I16, "[2]");
    IS(bt_add(same, same), BT_I16, "[2]");
}

static void numbers_alone_stay_numbers(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *x = BT_ARRAY(float, (1), 1), *n = BT_ARRAY(uint8_t, (1), 1);
    IS(bt_add(1, 2), BT_I64, "3");
    IS(bt_add(n, bt_add(1, 2)), BT_U8, "[4]");
    IS(bt_add(x, bt_add(1, 2)), BT_F32, "[4.]");
    IS(bt_add(1, 2.5), BT_F64, "3.5");
    IS(bt_add(x, bt_add(1, 2.5)), BT_F32, "[4.5]");
    IS(bt_div(1, 2), BT_F64, "0.5");
    IS(bt_mul(x, bt_exp(bt_sub(1, 1))), BT_F32, "[1.]");
    IS(bt_eq(1, 2), BT_BOOL, "False");
}

static void numbers_that_do_not_fit(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *u = BT_ARRAY(uint8_t, (1), 1), *i = BT_ARRAY(int8_t, (1), 1), *w = BT_ARRAY(uint64_t, (1), 1);
    FAILS(bt_eval(bt_add(u, 256)), BT_INVALID_ARGUMENT, "bt_add: the number 256 does not fit uint8");
    FAILS(bt_eval(bt_add(u, -1)), BT_INVALID_ARGUMENT, "the number -1 does not fit uint8");
    FAILS(bt_eval(bt_add(i, 128)), BT_INVALID_ARGUMENT, "the number 128 does not fit int8");
    FAILS(bt_eval(bt_add(w, -1)), BT_INVALID_ARGUMENT, "the number -1 does not fit uint64");
    FAILS(bt_eval(bt_add(w, UINT64_MAX)), BT_INVALID_ARGUMENT, "18446744073709551615 does not fit int64");
    FAILS(bt_eval(bt_add(w, NULL)), BT_INVALID_ARGUMENT, "bt_add: array argument 2 is NULL");
    IS(bt_add(i, -128), BT_I8, "[-127]");
    IS(bt_lt(u, 256), BT_BOOL, "[ True]"); /* compared as int64 */
    IS(bt_eq(-1, u), BT_BOOL, "[False]");
    IS(bt_add(w, INT64_MAX), BT_U64, "[9223372036854775808]");
}

static void numbers_have_gradients_and_work_in_functions(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *x = BT_ARRAY(float, (2), 1, 2);
    IS(bt_grad1(bt_sum(bt_mul(bt_pow(x, 3), 2)), x), BT_F32, "[ 6. 24.]");
    bt_array *in = bt_input(BT_I32, -1), *out = bt_add(bt_mul(in, 3), 1);
    bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
    bt_array *n = BT_ARRAY(int32_t, (3), 1, 2, 3);
    IS(bt_call1(f, &n, 1), BT_I32, "[ 4  7 10]");
}

static void three(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = bt_add(args[0], bt_add(1, 2));
}
static void seven(bt_array *const *args, bt_array **results, void *data) {
    (void)args, (void)data;
    results[0] = bt_add(3, 4);
}

static void numbers_of_branches_take_the_dtype_of_the_other(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *n = BT_ARRAY(int16_t, (), 5), *result;
    for (int first = 0; first < 2; first++)
        for (int way = 0; way < 2; way++) {
            OK(bt_cond(bt_gt(n, way ? 4 : 6), first ? three : seven, first ? seven : three, NULL, &n, 1, &result, 1));
            IS(result, BT_I16, first == way ? "8" : "7");
        }
}

/* --- options by name ----------------------------------------------------------------------------------------------------- */

static void reductions_by_name(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *x = BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6);
    IS(bt_sum(x), BT_F32, "21.0");
    IS(bt_sum(x, .axes = BT_AXES(0)), BT_F32, "[5. 7. 9.]");
    IS(bt_sum(x, .axes = BT_AXES(1), .keep = true), BT_F32, "[[ 6.]\n [15.]]");
    IS(bt_sum(x, BT_AXES(-1), false), BT_F32, "[ 6. 15.]");
    IS(bt_sum(x, BT_ALL), BT_F32, "21.0");
    IS(bt_max(x, .keep = true), BT_F32, "[[6.]]");
    IS(bt_sum(x, .axes = BT_AXES()), BT_F32, "[[1. 2. 3.]\n [4. 5. 6.]]");
    IS(bt_var(x, .axes = BT_AXES(1), .ddof = 1), BT_F32, "[1. 1.]");
    IS(bt_quantile(x, 0.5), BT_F32, "3.5");
    IS(bt_median(x, .axes = BT_AXES(0)), BT_F32, "[2.5 3.5 4.5]");
    bt_axes nothing_said = {0};
    IS((bt_sum)(x, nothing_said, false), BT_F32, "21.0");
    FAILS(bt_eval(bt_sum(x, .axes = BT_AXES(0, 0))), BT_INVALID_ARGUMENT, "axis 0 is given twice");
    FAILS(bt_eval(bt_sum(x, .axes = (bt_axes){.count = -7})), BT_INVALID_ARGUMENT, "-7 axes");
}

static void windows_and_losses_by_name(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *image = bt_ones(BT_F32, 1, 1, 4, 4), *w = bt_ones(BT_F32, 1, 1, 3, 3), *x = BT_ARRAY(float, (2), 1, 3);
    IS(bt_conv(image, w), BT_F32, "[[[[9. 9.]\n   [9. 9.]]]]");
    IS(bt_conv(image, w, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}), BT_F32, "[[[[4. 6.]\n   [6. 9.]]]]");
    IS(bt_max_pool(image, .window = {4, 4}), BT_F32, "[[[[1.]]]]");
    IS(bt_mse(x, 1, .reduction = BT_REDUCE_NONE), BT_F32, "[0. 4.]");
    IS(bt_huber(x, 1, 1, .reduction = BT_REDUCE_SUM), BT_F32, "1.5");
    bt_loss_options options = *BT_LOSS(.reduction = BT_REDUCE_SUM);
    IS((bt_mse)(x, bt_num(1), &options), BT_F32, "4.0");
    FAILS(bt_eval(bt_mse(x, 1, .label_smoothing = 0.1)), BT_INVALID_ARGUMENT, "bt_mse");
}

typedef struct settings {
    double weight;
    int calls;
} settings;
static bt_array *weighted_loss(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    settings *s = data;
    s->calls++;
    return bt_mul(bt_mse(bt_apply(model, x), y), s->weight);
}

static bt_array *forward_of_first(bt_layer *layer, bt_array *x, void *unused) {
    (void)unused;
    return bt_apply(bt_layer_child(layer, 0), x);
}

/* What is written in the options of a call lives as long as they do. */
static void literals_in_options(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *x = bt_ones(BT_F32, 4, 3);
    settings *given = (settings[]){{.weight = 2}};
    bt_layer *first = bt_dense(3, 3, NULL, bt_key(1));
    bt_layer *model = bt_layer_new("pair", forward_of_first, .list = (bt_layer *[]){first, first}, .list_count = 2);
    OK(bt_layer_status(model));
    model = bt_chain(first);
    OK(bt_fit(model, bt_adam(0.1, .beta1 = 0.5), x, x,
              BT_FIT_OPTIONS(.quiet = true, .loss = weighted_loss, .loss_data = given, .validation_x = x,
                             .validation_y = x, .metrics = (bt_metric[]){bt_metric_mse(), bt_metric_mae()},
                             .metric_count = 2, .watch = (char[]){"mae"}),
              NULL));
    assert_true(given->calls > 0);
    double weight = 0;
    const bt_fit_options *options = BT_FIT_OPTIONS(.loss_data = &(settings){.weight = 2.5});
    weight = ((const settings *)options->loss_data)->weight;
    assert_true(weight == 2.5);
    const bt_task_options *task = BT_OPTIONS(.name = (char[]){"name"}, .num_cpus = 2);
    assert_string_equal(task->name, "name");
}

/* --- scopes -------------------------------------------------------------------------------------------------------------- */

static bt_array *made_in_a_scope(int which) {
    for (int i = 0; i < 4; i++) {
        BT_SCOPED;
        if (i < which) continue;
        if (i > which) break;
        return bt_keep(bt_full(i, BT_F32, 1));
    }
    return NULL;
}

static void scopes_as_declarations(void **state) {
    (void)state;
    uint64_t before = bt_live_arrays();
    {
        BT_SCOPED;
        IS(made_in_a_scope(2), BT_F32, "[2.]");
        assert_null(made_in_a_scope(7));
        int rounds = 0;
        for (int i = 0; i < 10; i++) {
            BT_SCOPED;
            (void)bt_ones(BT_F32, 2);
            if (i % 2) continue;
            if (i == 6) break;
            rounds++;
        }
        assert_int_equal(rounds, 3);
    }
    assert_int_equal(bt_live_arrays(), before);
}

/* --- devices ------------------------------------------------------------------------------------------------------------- */

static void a_device_or_its_name(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    BT_SCOPED;
    bt_device *second = bt_device_get(BT_GPU, 1);
    const bt_device *also = second;
    char name[] = "gpu:1";
    bt_array *x = bt_ones(BT_F32, 2);
    assert_ptr_equal(bt_device_of(bt_to(x, second)), second);
    assert_ptr_equal(bt_device_of(bt_to(x, also)), second);
    assert_ptr_equal(bt_device_of(bt_to(x, name)), second);
    BT_ON(second) assert_ptr_equal(bt_device_of(bt_ones(BT_F32, 1)), second);
    bt_shared *w = bt_shared_new(x, second);
    assert_ptr_equal(bt_device_of(bt_value(w)), second);
    OK(bt_set_default_device(second));
    assert_ptr_equal(bt_default_device(), second);
    OK(bt_set_default_device(NULL));
    bt_device *none = NULL;
    FAILS(bt_eval(bt_to(x, none)), BT_INVALID_ARGUMENT, "bt_to: the device is NULL");
}

static void a_default_commits_nothing(void **state) {
    (void)state;
    fresh("devices=sim:gpu*3");
    BT_SCOPED;
    bt_device *first = bt_device_get(BT_GPU, 0), *second = bt_device_get(BT_GPU, 1);
    bt_array *there = bt_to(bt_ones(BT_F32, 1), "gpu:2"), *made = NULL;
    BT_DEFAULT(second) {
        assert_ptr_equal(bt_default_device(), second);
        made = bt_ones(BT_F32, 1);
        assert_ptr_equal(bt_device_of(made), second);
        BT_DEFAULT("cpu") assert_int_equal(bt_device_kind(bt_device_of(bt_ones(BT_F32, 1))), BT_CPU);
        BT_ON("gpu:0") assert_ptr_equal(bt_device_of(bt_ones(BT_F32, 1)), first);
        assert_ptr_equal(bt_device_of(bt_add(made, there)), bt_device_of(there)); /* made is not committed */
    }
    BT_ON("gpu:0") BT_DEFAULT(second) assert_ptr_equal(bt_device_of(bt_ones(BT_F32, 1)), first);
    assert_ptr_equal(bt_default_device(), first);
    BT_DEFAULT("gpu:9") {
        FAILS(bt_eval(bt_ones(BT_F32, 1)), BT_NOT_FOUND, "GPU:9");
        OK(bt_eval(bt_neg(there))); /* what is committed does not ask */
        BT_DEFAULT("cpu") OK(bt_eval(bt_ones(BT_F32, 1)));
        BT_ON("cpu") OK(bt_eval(bt_ones(BT_F32, 1)));
        FAILS(bt_eval(bt_ones(BT_F32, 1)), BT_NOT_FOUND, "GPU:9");
    }
    BT_DEFAULT("gpu:1") FAILS(bt_shutdown(), BT_FAILED_PRECONDITION, "block of this thread has not ended");
    bt_array *in = bt_input(BT_F32, 1), *out = bt_add(in, bt_ones(BT_F32, 1));
    bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
    bt_array *zero = bt_zeros(BT_F32, 1);
    IS(bt_call1(f, &zero, 1), BT_F32, "[1.]");
    BT_DEFAULT(second) IS(bt_call1(f, &zero, 1), BT_F32, "[1.]");
}

/* --- labels -------------------------------------------------------------------------------------------------------------- */

static void labels_nest_and_are_shown(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *x = bt_ones(BT_F32, 4, 4), *w = bt_ones(BT_F32, 4, 4), *h = x;
    BT_NAMED("net")
    for (int i = 0; i < 2; i++) BT_NAMED("block %d", i) h = bt_tanh(bt_name(bt_matmul(h, w), "product"));
    h = bt_name(bt_add(h, 1), "last");
    BT_TEXT explained = bt_explain(h);
    SAYS(explained, "for bt_matmul as \"net/block 0/product\" at interface_test.c:");
    SAYS(explained, "for bt_matmul as \"net/block 1/product\"");
    SAYS(explained, "as \"last\"");
    BT_TEXT of_gradient = bt_explain(bt_grad1(bt_sum(h), w));
    SAYS(of_gradient, "(where its forward operation ran)  for bt_matmul as \"net/block 0/product\"");
    bt_array *list[] = {h};
    BT_TEXT json = bt_explain_as(list, 1, BT_EXPLAIN_JSON);
    SAYS(json, "\"label\":\"net/block 1/product\"");
    bt_profile *profile = bt_profile_start();
    OK(bt_block(h));
    BT_TEXT tables = NULL;
    OK(bt_profile_stop(profile, NULL, &tables));
    SAYS(tables, "bt_matmul as \"net/block 0/product\" interface_test.c:");
}

static bt_array *labelled(bt_array *x) {
    BT_NAMED("inside") x = bt_exp(x);
    return x;
}

static void labels_of_functions_are_those_of_their_bodies(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *in = bt_input(BT_F32, -1), *out = labelled(in), *x = bt_ones(BT_F32, 3);
    bt_function *f = bt_function_new(&in, 1, &out, 1, NULL, 0);
    for (int i = 0; i < 3; i++) {
        bt_profile *profile = bt_profile_start();
        BT_NAMED("outside") OK(bt_block(bt_call1(f, &x, 1)));
        BT_TEXT tables = NULL;
        OK(bt_profile_stop(profile, NULL, &tables));
        SAYS(tables, "bt_exp as \"inside\"");
    }
}

static void step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)x, (void)y;
    BT_NAMED("round %d", *(int *)data) carry[0] = bt_tanh(carry[0]);
}

static void labels_of_loops_are_those_of_the_round(void **state) {
    (void)state;
    BT_SCOPED;
    for (int round = 0; round < 4; round++) {
        BT_SCOPED;
        bt_array *x = bt_ones(BT_F32, 64, 64);
        bt_profile *profile = bt_profile_start();
        OK(bt_scan(step, &round, 3, &x, 1, NULL, 0, NULL, 0));
        OK(bt_block(x));
        BT_TEXT tables = NULL;
        OK(bt_profile_stop(profile, NULL, &tables));
        char label[32];
        snprintf(label, sizeof label, "as \"round %d\"", round);
        SAYS(tables, label);
    }
}

static void labels_that_are_none(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *x = bt_ones(BT_F32, 1);
    FAILS(bt_eval(bt_name(x, "")), BT_INVALID_ARGUMENT, "bt_name: a name needs a text");
    FAILS(bt_eval(bt_name(x, NULL)), BT_INVALID_ARGUMENT, "bt_name: a name needs a text");
    FAILS(bt_eval(bt_name(NULL, "x")), BT_INVALID_ARGUMENT, "bt_name: array argument 1 is NULL");
    char longer[1000];
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    BT_NAMED("%s", longer) x = bt_add(x, 1);
    BT_TEXT explained = bt_explain(x);
    SAYS(explained, "yyyy\"");
    OK(bt_block(x));
}

/* --- checks -------------------------------------------------------------------------------------------------------------- */

static bt_status read_two(bt_array *x) {
    float two[2];
    BT_TRY(bt_read(x, two, sizeof two));
    return BT_OK;
}

static void an_error_is_handed_on(void **state) {
    (void)state;
    BT_SCOPED;
    OK(read_two(bt_ones(BT_F32, 2)));
    assert_int_equal(read_two(bt_ones(BT_F32, 3)), BT_INVALID_ARGUMENT);
    SAYS(bt_error_text(), "bt_read: float32 (3,) has 12 bytes");
}

static void a_check_gives_what_it_checks(void **state) {
    (void)state;
    BT_SCOPED;
    bt_array *x = BT_CHECK(bt_ones(BT_F32, 2));
    bt_shared *w = BT_CHECK(bt_shared_new(x, NULL));
    bt_layer *layer = BT_CHECK(bt_dense(2, 3, NULL, bt_key(0)));
    bt_optimizer *optimizer = BT_CHECK(bt_sgd(0.1));
    assert_non_null(BT_CHECK(bt_device_get(BT_CPU, 0)));
    BT_CHECK(bt_block(BT_CHECK(bt_apply(layer, bt_value(w)))));
    assert_non_null(optimizer);
}

/* What a program that ends by a check writes. */
static void ends_with(int which, const char *text) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], 2);
        BT_SCOPED;
        if (which == 0) BT_CHECK(bt_matmul(bt_ones(BT_F32, 2), bt_ones(BT_F32, 3)));
        if (which == 1) BT_CHECK(read_two(bt_ones(BT_F32, 3)));
        if (which == 2) BT_CHECK((bt_array *)NULL);
        _exit(0);
    }
    char written[500] = "";
    close(ends[1]);
    assert_true(read(ends[0], written, sizeof written - 1) > 0);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
    SAYS(written, text);
}

static void a_check_ends_the_program(void **state) {
    (void)state;
    ends_with(0, "bt_matmul: shapes (2,) and (3,) do not fit");
    ends_with(1, "bt_read: float32 (3,)");
    ends_with(2, "NULL");
}

/* --- freezing ------------------------------------------------------------------------------------------------------------ */

static bt_array *squares(bt_layer *model, bt_array *x, bt_array *y, void *data) {
    (void)data;
    return bt_mse(bt_apply(model, x), y);
}

static double norm_of(bt_shared *w) { return bt_item(bt_norm(bt_value(w))); }

static void frozen_layers_stay(void **state) {
    (void)state;
    fresh("devices=sim:gpu*2");
    BT_SCOPED;
    for (int mirrored = 0; mirrored < 2; mirrored++) {
        bt_strategy *strategy = mirrored ? bt_mirrored((const char *const[]){"gpu:0", "gpu:1"}, 2) : NULL;
        bt_layer *first = NULL, *last = NULL;
        BT_STRATEGY(strategy) {
            first = bt_dense(3, 4, bt_tanh, bt_key(1));
            last = bt_dense(4, 1, NULL, bt_key(2));
        }
        bt_layer *model = bt_chain(first, last);
        bt_array *x = bt_uniform(bt_key(3), BT_F32, 8, 3), *y = bt_ones(BT_F32, 8, 1);
        bt_optimizer *adam = bt_adam(0.1, 0.9, 0.999, 1e-8);
        bt_shared *w[4];
        assert_int_equal(bt_parameters(model, w, 4), 4);
        double before[2] = {norm_of(w[0]), norm_of(w[2])};
        OK(bt_freeze(first));
        assert_true(bt_shared_is_frozen(w[0]) && bt_shared_is_frozen(w[1]) && !bt_shared_is_frozen(w[2]));
        OK(bt_block(bt_train_step(strategy, model, adam, squares, NULL, x, y)));
        assert_true(norm_of(w[0]) == before[0] && norm_of(w[2]) != before[1]);
        bt_layer *copy = bt_layer_cpu(model);
        bt_shared *copied[4];
        assert_int_equal(bt_parameters(copy, copied, 4), 4);
        assert_true(bt_shared_is_frozen(copied[0]) && !bt_shared_is_frozen(copied[3]));
        OK(bt_thaw(model));
        OK(bt_block(bt_train_step(strategy, model, adam, squares, NULL, x, y)));
        assert_true(norm_of(w[0]) != before[0]);
        OK(bt_freeze(model)); /* all of it: a step only computes the loss */
        before[0] = norm_of(w[0]);
        OK(bt_block(bt_train_step(strategy, model, adam, squares, NULL, x, y)));
        assert_true(norm_of(w[0]) == before[0]);
    }
}

static void the_gradient_of_a_model(void **state) {
    (void)state;
    BT_SCOPED;
    bt_layer *model = bt_chain(bt_dense(3, 4, bt_tanh, bt_key(1)), bt_dense(4, 1, NULL, bt_key(2)));
    bt_array *x = bt_uniform(bt_key(3), BT_F32, 8, 3), *y = bt_ones(BT_F32, 8, 1), *grads[4], *by_hand[4];
    bt_shared *w[4];
    (void)bt_parameters(model, w, 4);
    OK(bt_freeze(model));
    bt_array *loss = bt_with_gradient(model, squares, NULL, x, y, grads);
    OK(bt_grad_shared(squares(model, x, y, NULL), w, 4, by_hand));
    for (int i = 0; i < 4; i++) assert_true(bt_item(bt_all(bt_eq(grads[i], by_hand[i]))) == 1);
    assert_true(bt_item(loss) > 0);
    bt_optimizer *sgd = bt_sgd(0.1);
    OK(bt_thaw(model));
    OK(bt_optimizer_step(sgd, w, grads, 4));
    assert_true(bt_item(squares(model, x, y, NULL)) < bt_item(loss));
    FAILS(bt_eval(bt_with_gradient(NULL, squares, NULL, x, y, grads)), BT_INVALID_ARGUMENT, "NULL");
    FAILS(bt_eval(bt_with_gradient(model, NULL, NULL, x, y, grads)), BT_INVALID_ARGUMENT, "the loss is NULL");
    FAILS(bt_eval(bt_with_gradient(model, squares, NULL, x, y, NULL)), BT_INVALID_ARGUMENT,
          "list of gradients is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_take_the_dtype_of_arrays),
        cmocka_unit_test(numbers_of_every_type),
        cmocka_unit_test(numbers_alone_stay_numbers),
        cmocka_unit_test(numbers_that_do_not_fit),
        cmocka_unit_test(numbers_have_gradients_and_work_in_functions),
        cmocka_unit_test(numbers_of_branches_take_the_dtype_of_the_other),
        cmocka_unit_test(reductions_by_name),
        cmocka_unit_test(windows_and_losses_by_name),
        cmocka_unit_test(literals_in_options),
        cmocka_unit_test(scopes_as_declarations),
        cmocka_unit_test(a_device_or_its_name),
        cmocka_unit_test(a_default_commits_nothing),
        cmocka_unit_test(labels_nest_and_are_shown),
        cmocka_unit_test(labels_of_functions_are_those_of_their_bodies),
        cmocka_unit_test(labels_of_loops_are_those_of_the_round),
        cmocka_unit_test(labels_that_are_none),
        cmocka_unit_test(an_error_is_handed_on),
        cmocka_unit_test(a_check_gives_what_it_checks),
        cmocka_unit_test(a_check_ends_the_program),
        cmocka_unit_test(frozen_layers_stay),
        cmocka_unit_test(the_gradient_of_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
