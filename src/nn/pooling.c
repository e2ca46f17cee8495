/* Pools as layers. */
#include <string.h>

#include <berth/windows.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/str.h"
#include "nn/layer.h"
#include "ops/primitive.h"

#define MEMBER(name) BTI_MEMBER(bt_pool_layer_options, name)
static const bti_member pool_members[] = {MEMBER(size), MEMBER(by_name),  MEMBER(stride),
                                          MEMBER(pad),  MEMBER(dilation), MEMBER(exclude_pads)};
#undef MEMBER
static const bti_sized_type pool_layer_layout =
    BTI_SIZED_TYPE(bt_pool_layer_options, "options", "BT_POOL_LAYER(.stride = {2})", pool_members, NULL);

typedef enum pool_kind { MAX_POOL, MEAN_POOL } pool_kind;

/* --- windows --------------------------------------------------------------------------------------------------------------- */

typedef struct pool_settings {
    bt_pool_options window;
    pool_kind kind;
    int axes;
} pool_settings;

static bt_array *apply_pool(bt_layer *layer, bt_array *x, void *data) {
    (void)layer;
    const pool_settings *s = data;
    if (x && !bti_array_error(x) && bt_rank(x) != s->axes + 2)
        return bti_poisonf(BT_INVALID_ARGUMENT, "x is %s; the window has %d axes, and x two more",
                           bti_describe_array(x).text, s->axes);
    return s->kind == MAX_POOL ? bt_max_pool(x, &s->window) : bt_avg_pool(x, &s->window);
}

/* "((2, 2), pad=1, stride=1)" */
static void describe_pool(bti_str *text, bt_shape window, const bt_pool_layer_options *o) {
    bti_str_addf(text, "(%s", bti_sizes_string(window.rank, window.size).text);
    bti_layer_add_sizes(text, "pad", window.rank, o->pad, bti_all_zeros);
    bti_layer_add_sizes(text, "stride", window.rank, o->stride, window.size);
    bti_layer_add_sizes(text, "dilation", window.rank, o->dilation, bti_all_ones);
    bti_str_add(text, o->exclude_pads ? ", exclude_pads=true)" : ")");
}

static bt_layer *make_pool(const char *call, pool_kind kind, bt_shape window, const bt_pool_layer_options *options) {
    BTI_CALL(call);
    bt_pool_layer_options o = {.size = sizeof o};
    if (options && bti_options_take(&pool_layer_layout, call, options, &o) != BT_OK) return bti_layer_own(NULL);
    bt_status status = BT_OK;
    if (window.rank < 1 || window.rank > 3)
        status = bti_fail(BT_INVALID_ARGUMENT, "the window has %d axes; it has one to three", window.rank);
    for (int i = 0; i < window.rank && status == BT_OK; i++)
        status = bti_check_positive(window.size[i], "a size of the window");
    if (status != BT_OK) return bti_layer_own(NULL);
    pool_settings settings = {
        .window = {.size = sizeof settings.window, .exclude_pads = o.exclude_pads}, .kind = kind, .axes = window.rank};
    memcpy(settings.window.window, window.size, sizeof settings.window.window);
    for (int i = window.rank; i < 3; i++) settings.window.window[i] = 0;
    memcpy(settings.window.stride, o.stride, sizeof o.stride);
    memcpy(settings.window.pad_low, o.pad, sizeof o.pad);
    memcpy(settings.window.pad_high, o.pad, sizeof o.pad);
    memcpy(settings.window.dilation, o.dilation, sizeof o.dilation);
    void *copy = bti_layer_settings(&settings, sizeof settings);
    if (!copy) return bti_no_settings();
    bti_str text = {0};
    describe_pool(&text, window, &o);
    bt_layer *layer = bt_layer_new(kind == MAX_POOL ? "MaxPool" : "MeanPool", apply_pool,
                                   BT_LAYER(.data = copy, .free_data = bti_free, .text = bti_str_text(&text)));
    bti_str_free(&text);
    bti_layer_note(layer, "window", "%s", bti_sizes_string(window.rank, window.size).text);
    bti_layer_note(layer, "stride", "%s", bti_sizes_string(window.rank, o.stride).text);
    bti_layer_note(layer, "pad", "%s", bti_sizes_string(window.rank, o.pad).text);
    bti_layer_note(layer, "dilation", "%s", bti_sizes_string(window.rank, o.dilation).text);
    return bti_layer_note(layer, "exclude_pads", "%s", o.exclude_pads ? "true" : "false");
}

bt_layer *bt_max_pool_layer(bt_shape window, const bt_pool_layer_options *options) {
    return make_pool("bt_max_pool_layer", MAX_POOL, window, options);
}
bt_layer *bt_avg_pool_layer(bt_shape window, const bt_pool_layer_options *options) {
    return make_pool("bt_avg_pool_layer", MEAN_POOL, window, options);
}

/* --- by the sizes of the result ------------------------------------------------------------------------------------------ */

typedef struct adaptive_settings {
    bt_shape sizes; /* rank 0: one place per channel, whatever x's rank is */
    pool_kind kind;
} adaptive_settings;

static bt_array *apply_adaptive(bt_layer *layer, bt_array *x, void *data) {
    (void)layer;
    const adaptive_settings *s = data;
    if (s->sizes.rank) return (s->kind == MAX_POOL ? bt_adaptive_max_pool : bt_adaptive_avg_pool)(x, s->sizes);
    bt_axes axes = BT_AXES();
    axes.count = bt_rank(x) > 2 ? bt_rank(x) - 2 : BTI_NO_AXES;
    for (int i = 0; i < axes.count; i++) axes.axis[i] = i + 2;
    return (s->kind == MAX_POOL ? bt_max : bt_mean)(x, axes, true);
}

static bt_layer *make_adaptive(const char *name, pool_kind kind, bt_shape sizes) {
    void *copy = bti_layer_settings(&(adaptive_settings){sizes, kind}, sizeof(adaptive_settings));
    if (!copy) return bti_no_settings();
    bti_str text = {0};
    bti_str_addf(&text, "(%s)", sizes.rank ? bti_sizes_string(sizes.rank, sizes.size).text : "");
    bt_layer *layer =
        bt_layer_new(name, apply_adaptive, BT_LAYER(.data = copy, .free_data = bti_free, .text = bti_str_text(&text)));
    bti_str_free(&text);
    return sizes.rank ? bti_layer_note(layer, "sizes", "%s", bti_sizes_string(sizes.rank, sizes.size).text) : layer;
}

static bool adaptive_sizes_fit(bt_shape sizes) {
    bt_status status = BT_OK;
    if (sizes.rank < 1 || sizes.rank > 3)
        status = bti_fail(BT_INVALID_ARGUMENT, "there are sizes of %d axes; of one to three", sizes.rank);
    for (int i = 0; i < sizes.rank && status == BT_OK; i++) status = bti_check_positive(sizes.size[i], "a size");
    return status == BT_OK;
}

bt_layer *bt_adaptive_max_pool_layer(bt_shape sizes) {
    BTI_CALL("bt_adaptive_max_pool_layer");
    return adaptive_sizes_fit(sizes) ? make_adaptive("AdaptiveMaxPool", MAX_POOL, sizes) : bti_layer_own(NULL);
}
bt_layer *bt_adaptive_avg_pool_layer(bt_shape sizes) {
    BTI_CALL("bt_adaptive_avg_pool_layer");
    return adaptive_sizes_fit(sizes) ? make_adaptive("AdaptiveMeanPool", MEAN_POOL, sizes) : bti_layer_own(NULL);
}
bt_layer *bt_global_max_pool_layer(void) {
    BTI_CALL("bt_global_max_pool_layer");
    return make_adaptive("GlobalMaxPool", MAX_POOL, (bt_shape){.rank = 0});
}
bt_layer *bt_global_avg_pool_layer(void) {
    BTI_CALL("bt_global_avg_pool_layer");
    return make_adaptive("GlobalMeanPool", MEAN_POOL, (bt_shape){.rank = 0});
}
