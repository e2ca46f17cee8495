/* Norms as layers. Statistics of small floats are worked out in float32. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "nn/training.h"
#include "ops/primitive.h"

#define MEMBER(name) BTI_MEMBER(bt_norm_options, name)
static const bti_member norm_members[] = {MEMBER(size),     MEMBER(by_name),   MEMBER(eps),
                                          MEMBER(momentum), MEMBER(no_affine), MEMBER(no_tracking)};
#undef MEMBER
static const bti_sized_type norm_layout =
    BTI_SIZED_TYPE(bt_norm_options, "options", "BT_NORM(.eps = 1e-5)", norm_members, NULL);

typedef struct norm_settings {
    int64_t channels, groups;
    double eps, momentum;
    bool affine, tracks;
} norm_settings;

/* --- checks of x ------------------------------------------------------------------------------------------------------------- */

static bt_array *refuse_x(const bt_layer *layer, const bt_array *x, const char *takes) {
    return bti_poisonf(BT_INVALID_ARGUMENT, "x is %s; %s%s takes %s", bti_describe_array(x).text, layer->name,
                       layer->text, takes);
}

/* The axis has the size that the layer was made for, and x is of floats. */
static bt_array *check_norm_x(const bt_layer *layer, bt_array *x, const norm_settings *s, int axis, int rank,
                              const char *takes) {
    bt_array *poison = bti_poisoned_by(&x, 1);
    if (poison) return poison;
    bool fits = bti_rank(x) >= rank && bti_dtype_is_float(bti_dtype(x)) &&
                bti_shape(x)[axis < 0 ? bti_rank(x) + axis : axis] == s->channels;
    return fits ? NULL : refuse_x(layer, x, takes);
}

/* weight or bias [C] as it meets x [B, C, ...] of a rank, or [..., C] (last). */
static bt_array *by_channel(bt_array *values, int rank) {
    if (bti_array_error(values)) return values;
    bt_shape shape = {.rank = rank - 1, .size = {bti_shape(values)[0], 1, 1, 1, 1, 1, 1, 1}};
    return bt_reshape_to(values, shape);
}

static bt_array *scale_and_shift(bt_layer *layer, const norm_settings *s, bt_array *y, int rank) {
    if (!s->affine) return y;
    y = bt_mul(y, by_channel(bt_layer_parameter(layer, "weight"), rank));
    return bt_add(y, by_channel(bt_layer_parameter(layer, "bias"), rank));
}

/* --- making ------------------------------------------------------------------------------------------------------------------ */

typedef struct norm_call {
    const char *call, *name;
    bt_forward *forward;
    norm_settings settings;
    bool biased;
    char sizes[60];
} norm_call;

static bt_status check_norm(const norm_settings *s, const bt_norm_options *o) {
    BTI_TRY(bti_check_positive(s->channels, "the size"));
    BTI_TRY(bti_check_positive(s->groups, "groups"));
    if (s->channels % s->groups)
        return bti_fail(BT_INVALID_ARGUMENT, "%lld groups do not divide %lld channels", (long long)s->groups,
                        (long long)s->channels);
    if (o->eps >= 0 && o->momentum <= 1) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "eps is %g, momentum %g; eps must be 0 or more, momentum 1 or less", o->eps,
                    o->momentum);
}

static void note_norm(bt_layer *layer, const norm_settings *s) {
    bti_layer_note(layer, "size", "%lld", (long long)s->channels);
    bti_layer_note(layer, "groups", "%lld", (long long)s->groups);
    bti_layer_note(layer, "eps", "%.17g", s->eps);
    bti_layer_note(layer, "momentum", "%.17g", s->momentum);
    bti_layer_note(layer, "affine", "%s", s->affine ? "true" : "false");
    bti_layer_note(layer, "tracking", "%s", s->tracks ? "true" : "false");
}

/* A list of variables ends at a name that is NULL. */
static bt_layer *new_norm(const norm_call *c, void *settings) {
    const norm_settings *s = &c->settings;
    bt_array *ones = bt_ones(BT_F32, s->channels), *zeros = bt_zeros(BT_F32, s->channels);
    const char *weight = s->affine ? "weight" : NULL, *bias = c->biased ? "bias" : NULL;
    char text[80];
    snprintf(text, sizeof text, "(%s%s)", c->sizes, s->affine ? "" : ", affine=false");
    return bt_layer_new(c->name, c->forward,
                        BT_LAYER(.data = settings, .free_data = bti_free, .text = text,
                                 .parameters = {{weight, ones}, {bias, zeros}},
                                 .state = {{s->tracks ? "running_mean" : NULL, zeros},
                                           {"running_var", ones},
                                           {"num_batches_tracked", bt_i64(0)}}));
}

static bt_layer *make_norm(norm_call *c, const bt_norm_options *options, double eps) {
    BTI_CALL(c->call);
    bt_norm_options o = {.size = sizeof o};
    norm_settings *s = &c->settings;
    if (options && bti_options_take(&norm_layout, c->call, options, &o) != BT_OK) return bti_layer_own(NULL);
    if (check_norm(s, &o) != BT_OK) return bti_layer_own(NULL);
    s->eps = o.eps > 0 ? o.eps : eps;
    s->momentum = o.momentum != 0 ? o.momentum : 0.1;
    s->affine = !o.no_affine;
    s->tracks = s->tracks && !o.no_tracking;
    void *copy = bti_layer_settings(s, sizeof *s);
    if (!copy) return bti_no_settings();
    bt_layer *layer = NULL;
    BT_SCOPE
        layer = bt_layer_retain(new_norm(c, copy));
    note_norm(layer, s);
    return bti_layer_own(layer);
}

/* --- over the last axis ------------------------------------------------------------------------------------------------------- */

static bt_array *apply_layer_norm(bt_layer *layer, bt_array *x, void *data) {
    const norm_settings *s = data;
    bt_array *poison = check_norm_x(layer, x, s, -1, 1, "floats, [..., size]");
    if (poison) return poison;
    bt_array *weight = s->affine ? bt_layer_parameter(layer, "weight") : NULL;
    bt_array *bias = s->affine ? bt_layer_parameter(layer, "bias") : NULL;
    return bt_layer_norm(bti_bring_to_weight(layer, x), weight, bias, s->eps);
}

bt_layer *bt_layer_norm_layer(int64_t size, const bt_norm_options *options) {
    norm_call c = {"bt_layer_norm_layer", "LayerNorm", apply_layer_norm, {.channels = size, .groups = 1}, true, ""};
    snprintf(c.sizes, sizeof c.sizes, "%lld", (long long)size);
    return make_norm(&c, options, 1e-5);
}

static bt_array *apply_rms_norm(bt_layer *layer, bt_array *x, void *data) {
    const norm_settings *s = data;
    bt_array *poison = check_norm_x(layer, x, s, -1, 1, "floats, [..., size]");
    if (poison) return poison;
    bt_dtype dtype = bti_dtype(x);
    x = bti_widen(bti_bring_to_weight(layer, x));
    bt_array *mean = bt_mean(bt_square(x), BT_AXES(-1), true);
    bt_array *y = bt_mul(x, bt_rsqrt(bt_add(mean, bt_num(s->eps))));
    if (s->affine) y = bt_mul(y, bt_layer_parameter(layer, "weight"));
    return bti_narrow(y, dtype);
}

bt_layer *bt_rms_norm_layer(int64_t size, const bt_norm_options *options) {
    norm_call c = {"bt_rms_norm_layer", "RMSNorm", apply_rms_norm, {.channels = size, .groups = 1}, false, ""};
    snprintf(c.sizes, sizeof c.sizes, "%lld", (long long)size);
    return make_norm(&c, options, 0x1p-23);
}

/* --- by groups of channels ------------------------------------------------------------------------------------------------------ */

static bt_array *apply_group_norm(bt_layer *layer, bt_array *x, void *data) {
    const norm_settings *s = data;
    bt_array *poison = check_norm_x(layer, x, s, 1, 2, "floats, [B, C, ...]");
    if (poison) return poison;
    bt_dtype dtype = bti_dtype(x);
    x = bti_widen(bti_bring_to_weight(layer, x));
    int64_t each = s->channels / s->groups;
    for (int i = 2; i < bti_rank(x); i++) each = bti_size_mul(each, bti_shape(x)[i]);
    bt_array *rows = bti_reshape(x, 3, (int64_t[]){bti_shape(x)[0], s->groups, each});
    bt_array *y = bti_reshape(bt_layer_norm(rows, NULL, NULL, s->eps), bti_rank(x), bti_shape(x));
    return bti_narrow(scale_and_shift(layer, s, y, bti_rank(x)), dtype);
}

bt_layer *bt_group_norm_layer(int64_t groups, int64_t channels, const bt_norm_options *options) {
    norm_call c = {
        "bt_group_norm_layer", "GroupNorm", apply_group_norm, {.channels = channels, .groups = groups}, true, ""};
    snprintf(c.sizes, sizeof c.sizes, "%lld, %lld", (long long)channels, (long long)groups);
    return make_norm(&c, options, 1e-5);
}

/* --- by batch ---------------------------------------------------------------------------------------------------------------------- */

static bt_axes all_but_channels(const bt_array *x) {
    bt_axes axes = BT_AXES(0);
    for (int i = 2; i < bti_rank(x); i++) axes.axis[axes.count++] = i;
    return axes;
}

/* Values per channel of the whole batch: maybe symbolic. A part's examples may have been cut into several rows each. */
static int64_t values_per_channel(const bt_array *x) {
    const bti_batch_part *part = bti_part_now();
    int64_t count = bti_shape(x)[0];
    if (part && part->means && !bti_size_is_symbolic(count) && count % part->rows == 0)
        count = count / part->rows * part->all_rows;
    for (int i = 2; i < bti_rank(x); i++) count = bti_size_mul(count, bti_shape(x)[i]);
    return count;
}

/* running + share * (batch - running) */
static bt_array *mixed_statistic(bt_array *running, bt_array *batch, bt_array *share) {
    return bt_add(running, bt_mul(share, bt_sub(bt_stop_gradient(batch), running)));
}

static bt_status track_statistics(bt_layer *layer, const norm_settings *s, bt_array *mean, bt_array *variance,
                                  int64_t count) {
    bt_array *batches = bt_add(bt_layer_state(layer, "num_batches_tracked"), bt_i64(1));
    bt_array *running_mean = bt_layer_state(layer, "running_mean"), *running = bt_layer_state(layer, "running_var");
    bt_array *share = s->momentum > 0 ? bt_f32((float)s->momentum) : bt_reciprocal(bt_cast(batches, BT_F32));
    bt_array *n = bti_size_scalar(count, BT_F32);
    bt_array *unbiased = bt_mul(variance, bt_div(n, bt_sub(n, bt_f32(1))));
    BTI_TRY(bt_layer_set_state(layer, "running_mean",
                               bt_cast(mixed_statistic(running_mean, mean, share), bt_dtype_of(running_mean))));
    BTI_TRY(bt_layer_set_state(layer, "running_var",
                               bt_cast(mixed_statistic(running, unbiased, share), bt_dtype_of(running))));
    return bt_layer_set_state(layer, "num_batches_tracked", batches);
}

static bt_array *apply_batch_norm(bt_layer *layer, bt_array *x, void *data) {
    const norm_settings *s = data;
    bt_array *poison = check_norm_x(layer, x, s, 1, 2, "floats, [B, C, ...]");
    if (poison) return poison;
    bt_dtype dtype = bti_dtype(x);
    x = bti_widen(bti_bring_to_weight(layer, x));
    int rank = bti_rank(x);
    bt_array *mean, *variance;
    if (bt_is_training() || !s->tracks) {
        int64_t count = values_per_channel(x);
        if (bt_is_training() && !bti_size_is_symbolic(count) && count < 2)
            return refuse_x(layer, x, "two values or more per channel in training");
        mean = bt_batch_mean(bt_mean(x, all_but_channels(x), false));
        variance = bt_batch_mean(bt_mean(bt_square(bt_sub(x, by_channel(mean, rank))), all_but_channels(x), false));
        if (bt_is_training() && s->tracks && track_statistics(layer, s, mean, variance, count) != BT_OK)
            return bti_poison(bti_error_last());
    } else {
        mean = bt_layer_state(layer, "running_mean");
        variance = bt_layer_state(layer, "running_var");
    }
    bt_array *scale = bt_rsqrt(bt_add(variance, bt_num(s->eps)));
    bt_array *y = bt_mul(bt_sub(x, by_channel(mean, rank)), by_channel(scale, rank));
    return bti_narrow(scale_and_shift(layer, s, y, rank), dtype);
}

bt_layer *bt_batch_norm_layer(int64_t channels, const bt_norm_options *options) {
    norm_call c = {"bt_batch_norm_layer",
                   "BatchNorm",
                   apply_batch_norm,
                   {.channels = channels, .groups = 1, .tracks = true},
                   true,
                   ""};
    snprintf(c.sizes, sizeof c.sizes, "%lld", (long long)channels);
    return make_norm(&c, options, 1e-5);
}
