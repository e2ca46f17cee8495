#include "resnet18.h"

#include <stdio.h>
#include <string.h>

#include "sizes.h"

enum { STAGES = 4, POOLED = 3, FULL_WIDTH = 64, FULL_CLASSES = 1000, RULES_BYTES = 2048 };

/* --- the model ------------------------------------------------------------------------------------------------------ */

static bt_layer *relu(void) { return bt_lambda("relu", bt_relu); }

static bt_layer *conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, bt_array *key) {
    int64_t pad = kernel / 2;
    return bt_conv_layer(in, out, BT_SHAPE(kernel, kernel), NULL, key, .stride = {stride, stride}, .pad = {pad, pad},
                         .no_bias = true, .init = bt_init_he_normal);
}

/* relu(two convolutions of x + x). Where the sizes change, x goes through a convolution of 1 x 1. */
static bt_layer *block(int64_t in, int64_t out, int64_t stride, bt_array *key) {
    bt_array *keys = bt_split(key, 3);
    bt_layer *straight = bt_chain(conv(in, out, 3, stride, bt_split_at(keys, 0)), bt_batch_norm_layer(out), relu(),
                                  conv(out, out, 3, 1, bt_split_at(keys, 1)), bt_batch_norm_layer(out));
    bt_layer *around = in == out ? bt_lambda("identity", bt_identity)
                                 : bt_chain(conv(in, out, 1, stride, bt_split_at(keys, 2)), bt_batch_norm_layer(out));
    return bt_chain(bt_parallel(bt_combine_sum, straight, around), relu());
}

bt_layer *resnet18_new(int64_t width, int64_t classes, bt_array *key) {
    bt_array *keys = bt_split(key, 2 + 2 * STAGES);
    bt_layer *stages[STAGES];
    for (int s = 0; s < STAGES; s++) {
        int64_t out = width << s, in = s ? out / 2 : out;
        stages[s] = bt_chain(block(in, out, s ? 2 : 1, bt_split_at(keys, 2 + 2 * s)),
                             block(out, out, 1, bt_split_at(keys, 3 + 2 * s)));
    }
    return bt_chain(conv(3, width, 7, 2, bt_split_at(keys, 0)), bt_batch_norm_layer(width), relu(),
                    bt_max_pool_layer(BT_SHAPE(POOLED, POOLED), .stride = {2, 2}, .pad = {1, 1}), stages[0], stages[1],
                    stages[2], stages[3], bt_global_avg_pool_layer(), bt_flatten_layer(),
                    bt_dense(width << (STAGES - 1), classes, NULL, bt_split_at(keys, 1)));
}

/* --- torchvision's names -------------------------------------------------------------------------------------------- */

static void add_rule(char *rules, bool loading, const char *theirs, const char *ours) {
    size_t used = strlen(rules);
    snprintf(rules + used, RULES_BYTES - used, "%s=%s;", loading ? theirs : ours, loading ? ours : theirs);
}

/* A chain's layers are numbered: torchvision's "layer2.0.bn1.weight" is the 5th layer's first block's sum's first part's second layer's, "5.0.0.0.1.weight". */
static void make_rules(char rules[RULES_BYTES], bool loading) {
    static const char *const parts[][2] = {
        {"conv1", "0.0.0"}, {"bn1", "0.0.1"}, {"conv2", "0.0.3"}, {"bn2", "0.0.4"}, {"downsample", "0.1"}};
    rules[0] = '\0';
    add_rule(rules, loading, "conv1.*", "0.*");
    add_rule(rules, loading, "bn1.*", "1.*");
    add_rule(rules, loading, "fc.*", "10.*");
    for (int s = 0; s < STAGES; s++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            char theirs[64], ours[64];
            snprintf(theirs, sizeof theirs, "layer%d.*.%s.*", s + 1, parts[p][0]);
            snprintf(ours, sizeof ours, "%d.*.%s.*", s + 4, parts[p][1]);
            add_rule(rules, loading, theirs, ours);
        }
}

/* --- files ---------------------------------------------------------------------------------------------------------- */

/* Of the largest tensors, so that no model is made that is larger than the file. Where they are not there, the usual sizes: loading then says what is missing. */
static bt_status read_sizes(const char *path, int64_t *width, int64_t *classes) {
    bt_tensors *file;
    bt_status status = bt_tensors_open(path, &file);
    *width = FULL_WIDTH;
    *classes = FULL_CLASSES;
    if (status != BT_OK) return status;
    bt_shape conv = shape_in_file(file, "layer4.1.conv2.weight"), dense = shape_in_file(file, "fc.weight");
    if (conv.rank == 4 && conv.size[0] >= 8 && conv.size[0] % 8 == 0 && conv.size[1] == conv.size[0] &&
        conv.size[2] == 3 && conv.size[3] == 3)
        *width = conv.size[0] / 8;
    if (dense.rank == 2 && dense.size[0] >= 1 && dense.size[1] == 8 * *width) *classes = dense.size[0];
    bt_tensors_close(file);
    return BT_OK;
}

bt_status resnet18_open(const char *path, bt_layer **model) {
    char rules[RULES_BYTES];
    int64_t width, classes;
    bt_status status = read_sizes(path, &width, &classes);
    if (status != BT_OK) return status;
    make_rules(rules, true);
    *model = resnet18_new(width, classes, bt_key(0));
    return bt_load_model(path, *model, .rename = rules, .torch = true, .cast = true);
}

bt_status resnet18_save(const char *path, const bt_layer *model) {
    char rules[RULES_BYTES];
    make_rules(rules, false);
    return bt_save_model(path, model, .rename = rules, .torch = true);
}
