// labels: valgrind
/* Layers, functions, shared variables, optimizers, strategies: one that cannot be made carries the first cause through whatever is
 * made of it, and one that was released tells what made and what released it. */
#include <unistd.h>

#include "support/support.h"

static bt_array *passes(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_mse(bt_apply(model, x), y);
}
static bt_array *unchanged(bt_array *x, void *unused) {
    (void)unused;
    return x;
}

/* --- the first cause ------------------------------------------------------------------------------------------------------- */

#define NOT_A_SIZE "size -1 of axis 0 is negative"

static void a_layer_carries_its_cause(void **state) {
    fresh("");
    BT_SCOPE {
        const char *made = HERE(1);
        bt_layer *bad = bt_dense(-1, 5, NULL, bt_key(0)), *fine = bt_dense(2, 5, NULL, bt_key(0));
        assert_non_null(bad);
        FAILS(bt_error_status(), BT_INVALID_ARGUMENT, made, "bt_dense: ", NOT_A_SIZE);
        bt_error_clear();
        FAILS(bt_layer_status(bad), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        OK(bt_layer_status(fine));
        bt_array *x = bt_ones(BT_F32, 1, 2), *y = bt_ones(BT_F32, 1, 5);
        FAILS(bt_layer_status(bt_layer_gpu(bad)), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        FAILS(bt_layer_status(bt_fmap(unchanged, NULL, bad)), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        bt_layer *chain = bt_chain(fine, bad);
        FAILS(bt_layer_status(chain), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        POISONED(bt_apply(bad, x), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        POISONED(bt_apply(bt_layer_cpu(chain), x), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        POISONED(bt_train_step(NULL, chain, bt_sgd(1), passes, NULL, x, y), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        FAILS(bt_fit(chain, bt_sgd(1), x, y, NULL, NULL), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        FAILS(bt_save_model("/tmp/never", chain), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        FAILS(bt_load_model("/tmp/never", chain), BT_INVALID_ARGUMENT, made, NOT_A_SIZE);
        bt_error_clear();
        assert_int_equal(bt_parameters(chain, NULL, 0), 0);
        SAYS(bt_error_text(), NOT_A_SIZE);
        bt_error_clear();
        assert_null(bt_summary(chain));
        SAYS(bt_error_text(), NOT_A_SIZE);
        /* an error that was handled long ago is nobody's cause */
        FAILS(bt_layer_status(bt_chain(fine, NULL)), BT_INVALID_ARGUMENT, HERE(0), "bt_chain: layer 2 is NULL");
        FAILS(bt_layer_status(bt_lambda("none", NULL)), BT_INVALID_ARGUMENT, HERE(0), "bt_lambda");
    }
    assert_int_equal(bt_live_arrays(), 0);
}

static void a_variable_carries_its_cause(void **state) {
    fresh("");
    BT_SCOPE {
        const char *made = HERE(1);
        bt_shared *bad = bt_shared_new(bt_ones(BT_F32, 2), "dev9");
        FAILS(bt_shared_status(bad), BT_NOT_FOUND, made, "dev9");
        bt_array *x = bt_value(bad), *gradient;
        POISONED(x, BT_NOT_FOUND, made, "dev9");
        POISONED(bt_add(x, bt_num(1)), BT_NOT_FOUND, made, "dev9");
        FAILS(bt_set(bad, bt_ones(BT_F32, 2)), BT_NOT_FOUND, made, "dev9");
        FAILS(bt_shared_status(bt_shared_new_beside(bad, bt_ones(BT_F32, 2))), BT_NOT_FOUND, made, "dev9");
        FAILS(bt_grad_shared(bt_num(1), &bad, 1, &gradient), BT_NOT_FOUND, made, "dev9");
        FAILS(bt_shared_status(bt_shared_new(x, NULL)), BT_NOT_FOUND, made, "dev9");
        FAILS(bt_optimizer_step(bt_adam(1, 0.9, 0.999, 1e-8), &bad, &x, 1), BT_NOT_FOUND, made, "dev9");
        FAILS(bt_optimizer_step(bt_sgd(1), &bad, &x, 1), BT_NOT_FOUND, made, "dev9");
        bt_update update = {bad, bt_ones(BT_F32, 2)};
        bt_function *f = bt_function_new(NULL, 0, NULL, 0, &update, 1);
        FAILS(bt_function_status(f), BT_NOT_FOUND, made, "dev9");
        FAILS(bt_call(f, NULL, 0, NULL, 0), BT_NOT_FOUND, made, "dev9");
    }
    OK(bt_shutdown());
}

static void a_function_carries_its_cause(void **state) {
    fresh("");
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2), *other = bt_input(BT_F32, 2), *y = bt_add(x, other),
                 *one = bt_ones(BT_F32, 2);
        const char *made = HERE(1);
        bt_function *f = bt_function_new(&x, 1, &y, 1, NULL, 0);
        FAILS(bt_function_status(f), BT_INVALID_ARGUMENT, made, "not listed");
        bt_array *out;
        FAILS(bt_call(f, &one, 1, &out, 1), BT_INVALID_ARGUMENT, made, "not listed");
        POISONED(out, BT_INVALID_ARGUMENT, made, "not listed");
        POISONED(bt_call1(f, &one, 1), BT_INVALID_ARGUMENT, made, "not listed");
        bt_error_clear();
        assert_null(bt_explain_function(f, &one, 1));
        SAYS(bt_error_text(), "not listed");
    }
    OK(bt_shutdown());
}

static void a_strategy_carries_its_cause(void **state) {
    fresh("devices=sim:gpu*2@64M");
    BT_SCOPE {
        bt_strategy *bad = bt_mirrored((const char *[]){"gpu:0", "gpu:7"}, 2);
        FAILS(bt_strategy_status(bad), BT_NOT_FOUND, "gpu:7");
        assert_int_equal(bt_strategy_count(bad), 0);
        assert_null(bt_strategy_device(bad, 0));
        FAILS(bt_strategy_set_exact(bad, true), BT_NOT_FOUND, "gpu:7");
        bt_layer *model = NULL, *fine = bt_dense(2, 5, NULL, bt_key(0));
        BT_STRATEGY(bad) model = bt_dense(2, 5, NULL, bt_key(0));
        FAILS(bt_layer_status(model), BT_NOT_FOUND, "gpu:7");
        BT_REPLICA(bad, 0) POISONED(bt_ones(BT_F32, 2), BT_NOT_FOUND, "gpu:7");
        bt_array *x = bt_ones(BT_F32, 2, 2), *y = bt_ones(BT_F32, 2, 5);
        POISONED(bt_train_step(bad, fine, bt_sgd(1), passes, NULL, x, y), BT_NOT_FOUND, "gpu:7");
        bt_fit_options options = {BT_FIT_INIT, .strategy = bad};
        FAILS(bt_fit(fine, bt_sgd(1), x, y, &options, NULL), BT_NOT_FOUND, "gpu:7");
        READS(bt_ones(BT_F32, 2), 1, 1);
    }
}

/* --- released ---------------------------------------------------------------------------------------------------------------- */

/* Released by the scope of that line, made on the next one. */
static bt_layer *left_layer(const char **line) {
    bt_layer *layer = NULL;
    *line = HERE(1);
    BT_SCOPE
        layer = bt_dense(2, 2, NULL, bt_key(0));
    return layer;
}
static bt_shared *left_variable(const char **line) {
    bt_shared *shared = NULL;
    *line = HERE(1);
    BT_SCOPE
        shared = bt_shared_new(bt_ones(BT_F32, 2), NULL);
    return shared;
}

static void released_objects_are_refused(void **state) {
    fresh("devices=sim:gpu*2@64M");
    const char *of_layer, *of_variable;
    bt_layer *layer = left_layer(&of_layer);
    bt_shared *shared = left_variable(&of_variable);
    bt_function *function;
    bt_optimizer *optimizer;
    bt_strategy *strategy;
    BT_SCOPE {
        bt_array *x = bt_input(BT_F32, 2);
        function = bt_function_new(&x, 1, &x, 1, NULL, 0);
        optimizer = bt_sgd(1);
        strategy = bt_mirrored(NULL, 0);
    }
    char text[256];
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 2, 2), *out;
        snprintf(text, sizeof text, "was released at the end of its scope at %s", of_layer);
        POISONED(bt_apply(layer, x), BT_INVALID_ARGUMENT, HERE(0), "the layer made at objects_test.c:", text);
        FAILS(bt_layer_status(bt_chain(layer)), BT_INVALID_ARGUMENT, HERE(0), text);
        FAILS(bt_layer_status(bt_layer_gpu(layer)), BT_INVALID_ARGUMENT, text);
        bt_layer *instead = bt_layer_retain(layer);
        FAILS(bt_layer_status(instead), BT_INVALID_ARGUMENT, text);
        bt_layer_release(instead);
        snprintf(text, sizeof text, "was released at the end of its scope at %s", of_variable);
        POISONED(bt_value(shared), BT_INVALID_ARGUMENT, HERE(0), "the shared variable made at objects_test.c:", text);
        FAILS(bt_set(shared, x), BT_INVALID_ARGUMENT, HERE(0), text);
        FAILS(bt_call(function, &x, 1, &out, 1), BT_INVALID_ARGUMENT, HERE(0), "the function made at ");
        FAILS(bt_optimizer_step(optimizer, &shared, &x, 1), BT_INVALID_ARGUMENT, HERE(0), "the optimiser made at ");
        FAILS(bt_strategy_set_exact(strategy, true), BT_INVALID_ARGUMENT, HERE(0), "the strategy made at ");
        BT_STRATEGY(strategy) POISONED(bt_ones(BT_F32, 2), BT_INVALID_ARGUMENT, "the strategy made at ");
    }
    bt_error_clear();
    bt_layer_release(layer);
    snprintf(text, sizeof text, "%s: bt_layer_release: the layer made at", HERE(-1));
    SAYS(bt_error_text(), text);
}

/* Parts of an object go with it: they were released as it was. */
static void parts_go_with_the_whole(void **state) {
    fresh("");
    bt_shared *weight;
    bt_layer *layer, *chain;
    BT_SCOPE {
        layer = bt_dense(2, 2, NULL, bt_key(0));
        chain = bt_layer_retain(bt_chain(layer));
        assert_int_equal(bt_parameters(chain, &weight, 1), 2);
    }
    BT_SCOPE
        OK(bt_block(bt_value(weight))); /* the chain has them */
    bt_layer_release(chain);
    char text[256];
    snprintf(text, sizeof text, "was released by bt_layer_release at %s", HERE(-2));
    FAILS(bt_layer_status(chain), BT_INVALID_ARGUMENT, "the layer made at", text);
    FAILS(bt_layer_status(layer), BT_INVALID_ARGUMENT, "the layer made at");
    FAILS(bt_shared_status(weight), BT_INVALID_ARGUMENT, "the shared variable made at");
    OK(bt_shutdown());
}

static void a_release_too_many_is_borne(void **state) {
    fresh("");
    BT_SCOPE {
        bt_layer *layer = bt_dense(2, 2, NULL, bt_key(0));
        bt_layer_release(layer);
        FAILS(bt_layer_status(layer), BT_INVALID_ARGUMENT, "released by bt_layer_release at ", HERE(-1));
    }
    OK(bt_shutdown());
}

static void files_too(void **state) {
    fresh("");
    char path[] = "/tmp/berth-objects-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    bt_array *x = bt_ones(BT_F32, 2);
    OK(bt_save(path, ((const char *[]){"x"}), &x, 1, NULL));
    bt_tensors *tensors;
    OK(bt_tensors_open(path, &tensors));
    bt_tensors_close(tensors);
    char text[256];
    snprintf(text, sizeof text, "was released by bt_tensors_close at %s", HERE(-2));
    POISONED(bt_tensors_get(tensors, "x"), BT_INVALID_ARGUMENT, "the file made at", text);
    bt_error_clear();
    assert_int_equal(bt_tensors_count(tensors), 0);
    assert_null(bt_tensors_name(tensors, 0));
    SAYS(bt_error_text(), text);
    remove(path);
    close(file);
}

static void profiles_too(void **state) {
    fresh("");
    bt_profile *profile = bt_profile_start();
    const char *made = HERE(-1);
    assert_non_null(profile);
    OK(bt_profile_stop(profile, NULL, NULL));
    char text[256], *table = text;
    snprintf(text, sizeof text, "was released by bt_profile_stop at %s", HERE(-2));
    FAILS(bt_profile_stop(profile, NULL, &table), BT_INVALID_ARGUMENT, HERE(0), "the profile made at", made, text);
    assert_null(table);
    FAILS(bt_profile_stop(NULL, NULL, NULL), BT_INVALID_ARGUMENT, "the profile is NULL");
    bt_profile *other = bt_profile_start(); /* recording goes on as often as it began */
    FAILS(bt_profile_stop(profile, NULL, NULL), BT_INVALID_ARGUMENT, text);
    bt_release(bt_add(bt_ones(BT_F32, 2), bt_num(1)));
    OK(bt_profile_stop(other, NULL, &table));
    assert_non_null(table);
    bt_free(table);
}

/* --- strict mode -------------------------------------------------------------------------------------------------------------- */

static int heard;
static void hear(bt_status status, const char *text, void *place) {
    (void)status;
    heard++;
    SAYS(text, place);
}

#define HEARD_ONCE(call)                                        \
    do {                                                        \
        heard = 0;                                              \
        bt_set_error_handler(hear, (void *)(uintptr_t)HERE(0)); \
        (void)(call);                                           \
        bt_set_error_handler(NULL, NULL);                       \
        assert_int_equal(heard, 1);                             \
    } while (0)

static void a_mistake_is_heard_of_once(void **state) {
    fresh("strict=on");
    bt_layer *gone;
    BT_SCOPE
        gone = bt_dense(2, 2, NULL, bt_key(0));
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 2, 2), *out;
        bt_layer *fine = bt_dense(2, 2, NULL, bt_key(0));
        HEARD_ONCE(bt_apply(bt_layer_gpu(bt_dense(-1, 5, NULL, bt_key(0))), x));
        HEARD_ONCE(bt_dense(5, -1, NULL, bt_key(0)));
        HEARD_ONCE(bt_chain(fine, NULL));
        HEARD_ONCE(bt_chain(fine, bt_layer_cpu(bt_lambda("none", NULL))));
        HEARD_ONCE(bt_value(bt_shared_new(x, "dev9")));
        HEARD_ONCE(bt_shared_new(NULL, NULL));
        HEARD_ONCE(bt_shared_new(x, "gpu:77"));
        HEARD_ONCE(bt_layer_to(fine, "gpu:77"));
        HEARD_ONCE(bt_call(bt_function_new(&x, 1, &x, 1, NULL, 0), &x, 1, &out, 1));
        HEARD_ONCE(bt_mirrored((const char *[]){"gpu:7"}, 1));
        HEARD_ONCE(bt_apply(gone, x));
        HEARD_ONCE(bt_apply(NULL, x));
        HEARD_ONCE(bt_value(NULL));
        HEARD_ONCE(bt_call1(NULL, &x, 1));
        HEARD_ONCE(bt_layer_status(gone));
        HEARD_ONCE(bt_train_step(NULL, gone, bt_sgd(1), passes, NULL, x, x));
        HEARD_ONCE(!bt_fit(gone, bt_sgd(1), x, x, NULL, NULL));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_carries_its_cause),
        cmocka_unit_test(a_variable_carries_its_cause),
        cmocka_unit_test(a_function_carries_its_cause),
        cmocka_unit_test(a_strategy_carries_its_cause),
        cmocka_unit_test(released_objects_are_refused),
        cmocka_unit_test(parts_go_with_the_whole),
        cmocka_unit_test(a_release_too_many_is_borne),
        cmocka_unit_test(files_too),
        cmocka_unit_test(profiles_too),
        cmocka_unit_test(a_mistake_is_heard_of_once),
    };
    return cmocka_run_group_tests(tests, NULL, fresh_end);
}
