// The public headers as C++ sees them: `./go part headers` compiles this, it is not run. What C spells with literals of arrays
// has a form of its own there.
#include <berth.h>

static bt_array *cube(bt_array *x) { return bt_mul(x, bt_mul(x, x)); }
static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *) { return bt_mse(bt_apply(model, x), y); }
static bt_array *scaled(bt_layer *layer, bt_array *x, void *) {
    return bt_mul(bt_apply(bt_layer_child(layer, 0), x), bt_layer_parameter(layer, "factor"));
}
static bt_array *negated(bt_array *value, void *) { return bt_neg(value); }

static int arrays() {
    BT_SCOPE {
        bt_array *a = BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6), *b = BT_ARRAY(double, (), 1.5);
        bt_array *c = BT_ARRAY(bool, (2), true, false), *d = BT_ARRAY(int64_t, (1, 1), 7);
        a = bt_add(bt_zeros(BT_F32, 2, 3), bt_add(a, bt_ones(BT_F32, 3)));
        a = bt_add(a, bt_full(2.5, BT_F32, 2, 1));
        bt_shape shape = BT_SHAPE(3, 2), scalar = BT_SHAPE();
        a = bt_reshape(a, 3, 2);
        a = bt_transpose(a);
        a = bt_sum(a, BT_AXES(0, -1), false);
        a = bt_sum(a, BT_ALL, true);
        BT_ON("cpu") a = bt_keep(bt_uniform(bt_key(0), BT_F32, 2, 3));
        BT_TRANSFERS(BT_TRANSFERS_ERROR) a = bt_matmul(a, bt_transpose(a));
        bt_print(bt_where(c, a, b));
        BT_TEXT text = bt_repr(d);
        if (!text) return 1;
        double value = 0;
        if (bt_eval(a) != BT_OK || bt_block(a) != BT_OK || bt_item_at(a, shape.size, &value) != BT_OK) return 1;
        return bt_item(b) == value ? scalar.rank : shape.rank;
    }
    return 0;
}

static bt_status first(const bt_elements *, int, const bt_elements *, const bt_custom_args *) { return BT_OK; }
static bt_status like_first(const bt_elements *, int, bt_elements *, const bt_custom_args *) { return BT_OK; }

static bt_status short_forms(bt_array *x, bt_array *w, bool flag, unsigned char byte, long double real, bt_device *device) {
    BT_SCOPED;
    x = bt_add(bt_mul(bt_sub(1, bt_div(x, 2.5f)), byte), bt_where(bt_gt(x, 0), real, flag));
    x = bt_scatter_add(x, bt_argmax(x, 0), 1, 0);
    x = bt_scatter_set_along_axis(x, x, real, -1);
    x = bt_quantize(bt_outer(2, bt_kron(x, byte)), 0.5, BT_I8);
    x = bt_dynamic_slice(bt_where(flag, x, bt_bernoulli(x, 0.5, 3)), 1, BT_SHAPE(2));
    x = bt_conv(bt_pow(x, 2), w, .stride = {2, 2}, .pad_low = {1, 1});
    x = bt_max_pool(x, .window = {2, 2});
    bt_print(bt_sum(bt_max(x, BT_AXES(0), true), .axes = BT_AXES(1, -1), .keep = true));
    bt_print(bt_var(x, .ddof = 1));
    bt_print(bt_huber(x, 1, 0.5, .reduction = BT_REDUCE_SUM));
    BT_DEFAULT(device) BT_NAMED("round %d", 1) BT_TRY(bt_eval(bt_name(bt_to(x, device), "moved")));
    BT_ON(nullptr) x = bt_attention(x, x, x, .causal = true);
    return bt_peek_status(BT_CHECK(bt_cross_entropy(x, bt_argmax(x, -1), .label_smoothing = 0.1)));
}

static int functions() {
    BT_SCOPE {
        if (short_forms(bt_ones(BT_F32, 1, 1, 4, 4), bt_ones(BT_F32, 1, 1, 3, 3), true, 1, 2, bt_default_device()) != BT_OK) return 1;
        bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "first", .run = first, .shape = like_first, .impure = true));
        bt_array *input = bt_ones(BT_F32, 2);
        bt_print(bt_custom_call(op, &input, 1, nullptr, 0));
        bt_array *all[2];
        bt_custom *two = bt_custom_new(BT_CUSTOM(.name = "two", .run = first, .shape = like_first, .results = 2, .cuda = "KERNEL(two) {}"));
        if (bt_custom_call_all(two, &input, 1, nullptr, 0, all, 2) != BT_OK) return 1;
        bt_array *x = bt_input(BT_F32, -1, 3), *y = cube(x);
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 3), nullptr);
        bt_function *f = bt_function_new(&x, 1, &y, 1, nullptr, 0);
        bt_array *z = bt_ones(BT_F32, 2, 3), *loss = bt_sum(bt_mul(bt_call1(f, &z, 1), bt_value(w)), BT_ALL, false);
        if (bt_set(w, bt_sub(bt_value(w), bt_grad1(loss, w))) != BT_OK) return 1;
        bt_print(bt_grad1(loss, z));
    }
    return 0;
}

static int models() {
    BT_SCOPE {
        const char *names[] = {"gpu:0", "gpu:1"};
        bt_strategy *strategy = bt_mirrored(names, 2);
        bt_layer *model = nullptr;
        BT_STRATEGY(strategy)
            model = bt_chain(bt_dense(3, 4, bt_relu, bt_key(1)), bt_lambda("cube", cube), bt_dense(4, 1, NULL, bt_key(2)));
        model = bt_parallel(bt_combine_sum, bt_skip(model, nullptr), bt_batch_norm_layer(3, .momentum = 0.2),
                            bt_layer_new("Own", scaled, .parameters = {{"factor", bt_ones(BT_F32, 3)}},
                                         .children = {{"inner", bt_dropout_layer(0.5, bt_key(3))}}));
        BT_TRAINING(true) bt_print(bt_apply(model, bt_ones(BT_F32, 2, 3)));
        bt_layer *one = bt_chain(model);
        bt_optimizer *optimizer = bt_adam(0.1, 0.9, 0.999, 1e-8);
        bt_optimizer *lion = bt_lion(1e-3), *named = bt_adam(0.1, .beta2 = 0.95, .clip_norm = 1);
        bt_array *x = bt_ones(BT_F32, 8, 3), *y = bt_zeros(BT_F32, 8, 1);
        bt_print(bt_train_step(strategy, bt_fmap(negated, nullptr, one), optimizer, loss_of, nullptr, x, y));
        BT_REPLICA(strategy, 1) bt_print(bt_apply(bt_layer_gpu(model), x));
        bt_shared *parameters[4];
        bt_array *grads[4];
        int count = bt_parameters(model, parameters, 4);
        if (bt_optimizer_group(named, parameters, count, .decay = 0) != BT_OK) return 1;
        if (bt_optimizer_schedule(named, BT_SCHEDULE_COSINE, .steps = 10) != BT_OK) return 1;
        if (bt_optimizer_rate(BT_CHECK(lion)) != 1e-3) return 1;
        if (bt_grad_shared(loss_of(model, x, y, nullptr), parameters, count, grads) != BT_OK) return 1;
        bt_array *pair[] = {x, y};
        bt_all_reduce(strategy, pair);
        bt_gpu_all(pair, 2);
        return bt_optimizer_step(optimizer, parameters, grads, count) != BT_OK;
    }
    return 0;
}

#define HIDE .num_gpus = 0
static bt_status nothing(bt_task *task) { return bt_arguments(task); }
BT_REMOTE(nothing);
static bt_status hides(bt_task *task) {
    int a;
    bt_array *b;
    bt_status status = bt_arguments(task, &a, &b);
    if (status == BT_OK) status = bt_argument(task, 2, &a);
    return status == BT_OK ? bt_return(task, a) : status;
}
BT_REMOTE(hides, .num_cpus = 1, HIDE, .resources = {{"license", 1}}, .max_retries = 3,
          .retry_failures = BT_FAILURES(BT_UNAVAILABLE, BT_ABORTED));

static int options() {
    if (bt_runtime_init(.num_cpus = 2, .num_gpus = 1) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *ref = bt_remote_named(nullptr, "hides", BT_OPTIONS(.priority = 5), nullptr, 0);
        ref = bt_remote(hides, 1, 2.5, "text", bt_put(true), ref, bt_zeros(BT_F32, 2), bt_bytes{"xy", 2});
        ref = bt_remote_with(BT_OPTIONS(), nothing);
        ref = bt_remote_with(BT_OPTIONS(HIDE), hides, ref);
        bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.name = "name", .get_if_exists = true), nothing);
        ref = bt_method_with(BT_OPTIONS(.max_retries = 1), bt_actor_new(nothing, actor), nothing, 1);
        if (bt_get(bt_method(actor, nothing), nullptr) != BT_OK || bt_get_within(ref, 1, NULL) != BT_OK) return 1;
        bt_task_options bundles[] = {BT_BUNDLE(.num_gpus = 1), BT_BUNDLE()}, variable;
        variable.num_gpus = 0;
        if (bt_group_wait(bt_group_new(bundles, 2), 1) != BT_OK || !ref) return 1;
        bt_fit_report report;
        bt_fit_options fit;
        fit.epochs = 5;
        if (bt_fit(nullptr, nullptr, nullptr, nullptr, BT_FIT_OPTIONS(.epochs = 5, .quiet = true), &report) != BT_OK) return 1;
        bt_layer *model = bt_model_open("m.bson", .key = "model");
        if (bt_save_model("m.pt", model, .rename = "*=module.*", .torch = true) != BT_OK || bt_save_model("m", model) != BT_OK) return 1;
        if (bt_load_model("m.pt", model, .cast = true) != BT_OK) return 1;
        if (bt_load_model("m.pt", model, .rename = "module.*=*", .torch = true) != BT_OK) return 1;
        bt_tensor_info tensor = BT_TENSOR_INFO_INIT;
        if (bt_tensors_describe(nullptr, 0, &tensor) != BT_OK || bt_load_model("m", bt_model_open("m")) != BT_OK) return 1;
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        bt_compiler_info compiler = BT_COMPILER_INFO_INIT;
        if (bt_memory(bt_default_device(), &memory) != BT_OK || bt_compiler(false, &compiler) != BT_OK) return 1;
        bt_lease_release(bt_lease_take(BT_LEASE(.num_gpus = 1, .wait = true)));
    }
    return bt_runtime_shutdown() != BT_OK;
}

int main() { return arrays() + functions() + models() + options(); }
