#include "ir/region.h"

#include <string.h>

#include "base/alloc.h"
#include "ir/op_rules.h"

bti_node *bti_region_leaf(const bti_type *type, int device, bti_place place) {
    bti_node *leaf = bti_node_new(BTI_OP_leaf, type->dtype, type->rank, type->shape, 0, NULL, NULL);
    if (!leaf) return NULL;
    leaf->symbolic = true;
    for (int i = 0; i < type->rank; i++) bti_symbol_hold(type->shape[i]);
    leaf->device = (int16_t)device;
    leaf->committed = true;
    leaf->place = place;
    bti_layout_dense(type->rank, type->shape, &leaf->layout);
    return leaf;
}

/* --- what fits --------------------------------------------------------------------------------------------------------- */

static bool refuse(bti_str *why, const char *what, int index, int rank, const int64_t *shape, const bti_node *wanted) {
    if (!why) return false;
    bti_str_addf(why, "%s %d is ", what, index + 1);
    bti_shape_text(why, rank, shape);
    bti_str_add(why, ", not ");
    bti_shape_text(why, wanted->rank, wanted->shape);
    return false;
}

/* The region's inputs from `first` on are these nodes, or a row of them. */
static bool inputs_fit(const bti_region *region, int first, int count, bti_node *const *inputs, bool rows,
                       int64_t length, bti_str *why) {
    for (int i = 0; i < count; i++) {
        const bti_node *leaf = region->inputs[first + i], *input = inputs[i];
        bool fits = input->rank >= rows && (!rows || bti_may_equal(input->shape[0], length)) &&
                    bti_shapes_may_equal(input->rank - rows, input->shape + rows, leaf->rank, leaf->shape);
        if (!fits) return refuse(why, rows ? "rows of input" : "input", first + i, input->rank, input->shape, leaf);
    }
    return true;
}

/* What is carried on comes out as it went in. */
static bool carries_fit(const bti_region *region, int count, bti_str *why) {
    for (int i = 0; i < count; i++) {
        const bti_node *in = region->inputs[i], *out = region->outputs[i];
        if (in->dtype == out->dtype && bti_shapes_may_equal(in->rank, in->shape, out->rank, out->shape)) continue;
        return refuse(why, "what is carried as", i, out->rank, out->shape, in);
    }
    return true;
}

/* Both ways of a branch make its results. */
static bool ways_fit(const bti_tuple *tuple, bti_str *why) {
    for (int i = 0; i < tuple->result_count; i++) {
        const bti_node *yes = tuple->regions[0]->outputs[i], *no = tuple->regions[1]->outputs[i];
        const bti_type *type = bti_tuple_type(tuple, i);
        bool fits = bti_shapes_may_equal(yes->rank, yes->shape, type->rank, type->shape) &&
                    bti_shapes_may_equal(no->rank, no->shape, type->rank, type->shape);
        if (!fits) return refuse(why, "in one of the branches result", i, no->rank, no->shape, yes);
    }
    return true;
}

static bool tuple_fits(const bti_node *node, bti_str *why) {
    bti_region *_Atomic const *regions = node->tuple->regions;
    if (node->op == BTI_OP_cond)
        return inputs_fit(regions[0], 0, node->input_count - 1, node->inputs + 1, false, 0, why) &&
               inputs_fit(regions[1], 0, node->input_count - 1, node->inputs + 1, false, 0, why) &&
               ways_fit(node->tuple, why);
    if (node->op == BTI_OP_while)
        return inputs_fit(regions[1], 0, node->input_count, node->inputs, false, 0, why) &&
               carries_fit(regions[1], (int)node->attr->loop.carried, why);
    int carried = node->attr->scan.carried, by_row = node->attr->scan.by_row, rest = carried + by_row;
    return inputs_fit(regions[0], 0, carried, node->inputs, false, 0, why) &&
           inputs_fit(regions[0], carried, by_row, node->inputs + carried, true, node->attr->scan.length, why) &&
           inputs_fit(regions[0], rest, node->input_count - rest, node->inputs + rest, false, 0, why) &&
           carries_fit(regions[0], carried, why);
}

bool bti_node_fits(const bti_node *node) {
    if (node->host && node->tuple) return node->host->fits(node->host, node);
    if (node->tuple && node->tuple->region_count) return tuple_fits(node, NULL);
    bti_type is = node->tuple ? *bti_tuple_type(node->tuple, 0) : bti_type_of(node), made = is;
    return bti_op_shape((bti_op)node->op, node->input_count, node->inputs, node->attr, &made, NULL) &&
           bti_shapes_may_equal(made.rank, made.shape, is.rank, is.shape);
}

/* --- once more -------------------------------------------------------------------------------------------------------- */

static bool is_unknown(int rank, const int64_t *shape) {
    for (int i = 0; i < rank; i++)
        if (bti_size_is_symbolic(shape[i])) return true;
    return false;
}

static bool region_is_unknown(const bti_region *region);

static bool node_is_unknown(const bti_node *node) {
    bool unknown = is_unknown(node->rank, node->shape) || bti_attr_is_unknown((bti_op)node->op, node->attr);
    for (int i = 0; node->tuple && i < node->tuple->result_count && !unknown; i++) {
        const bti_type *type = bti_tuple_type(node->tuple, i);
        unknown = is_unknown(type->rank, type->shape);
    }
    for (int r = 0; node->tuple && r < node->tuple->region_count && !unknown; r++)
        unknown = region_is_unknown(node->tuple->regions[r]);
    return unknown;
}

static bool region_is_unknown(const bti_region *region) {
    bool unknown = false;
    for (int i = 0; i < region->input_count && !unknown; i++) unknown = node_is_unknown(region->inputs[i]);
    for (int i = 0; i < region->node_count && !unknown; i++) unknown = node_is_unknown(region->nodes[i]);
    return unknown;
}

static bool bind_type(const bti_binding *binding, bti_type *type) {
    bool bound = true;
    for (int d = 0; d < type->rank && bound; d++) bound = bti_size_bind(type->shape[d], binding, &type->shape[d]);
    return bound && bti_shape_fits(type->rank, type->shape, bt_dtype_size(type->dtype));
}

static int place_among(bti_node *const *nodes, int count, const bti_node *node) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (nodes[middle]->sequence < node->sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && nodes[low] == node ? low : -1;
}

int bti_region_input(const bti_region *region, const bti_node *node) {
    return place_among(region->inputs, region->input_count, node);
}

uint64_t bti_region_since(const bti_region *region) {
    uint64_t first = region->input_count ? region->inputs[0]->sequence : UINT64_MAX;
    if (region->node_count && region->nodes[0]->sequence < first) first = region->nodes[0]->sequence;
    return first - 1;
}

int bti_region_place(const bti_region *region, const bti_node *node) {
    int input = bti_region_input(region, node);
    if (input >= 0) return input;
    int place = place_among(region->nodes, region->node_count, node);
    return place < 0 ? -1 : region->input_count + place;
}

/* How regions and nodes are made again. */
typedef struct remaking {
    const bti_binding *binding; /* NULL: unknown sizes stay */
    bool told;                  /* callbacks are called again */
} remaking;

static bt_status node_again(const bti_node *node, bti_node *const *inputs, remaking how, bti_node **made);

static bool region_tells(const bti_region *region) {
    bool tells = false;
    for (int i = 0; i < region->node_count && !tells; i++) tells = bti_node_tells(region->nodes[i]);
    return tells;
}

bool bti_node_tells(const bti_node *node) {
    bool tells = node->op == BTI_OP_callback;
    for (int r = 0; node->tuple && r < node->tuple->region_count && !tells; r++)
        tells = region_tells(node->tuple->regions[r]);
    return tells;
}

static bt_status remake_node(const bti_region *region, bti_node **made, const bti_node *node, remaking how,
                             bti_node **bound) {
    bti_node **inputs = bti_alloc((size_t)node->input_count * sizeof *inputs);
    if (!inputs) return bti_no_memory();
    for (int i = 0; i < node->input_count; i++) inputs[i] = made[bti_region_place(region, node->inputs[i])];
    bt_status status = node_again(node, inputs, how, bound);
    bti_free(inputs);
    if (status != BT_OK) return status;
    (*bound)->symbolic = true;
    return bti_node_fits(*bound) ? BT_OK : BT_INVALID_ARGUMENT;
}

static bt_status remake_nodes(const bti_region *region, remaking how, bti_node **made) {
    for (int i = 0; i < region->input_count; i++) {
        bti_type type = bti_type_of(region->inputs[i]);
        if (how.binding && !bind_type(how.binding, &type)) return BT_INVALID_ARGUMENT;
        made[i] = bti_region_leaf(&type, region->inputs[i]->device, region->inputs[i]->place);
        if (!made[i]) return bti_no_memory();
    }
    for (int i = 0; i < region->node_count; i++)
        BTI_TRY(remake_node(region, made, region->nodes[i], how, &made[region->input_count + i]));
    return BT_OK;
}

/* The region made again: itself where that changes nothing. */
static bt_status remake_region(bti_region *region, remaking how, bti_region **bound) {
    bool same = (!how.binding || !region_is_unknown(region)) && (how.told || !region_tells(region));
    *bound = NULL;
    if (same) {
        *bound = bti_region_retain(region);
        return BT_OK;
    }
    int count = region->input_count + region->node_count;
    bti_node **made = bti_calloc((size_t)count, sizeof *made);
    bti_node **outputs = bti_alloc((size_t)region->output_count * sizeof *outputs);
    bt_status status = made && outputs ? remake_nodes(region, how, made) : bti_no_memory();
    for (int o = 0; o < region->output_count && status == BT_OK; o++)
        outputs[o] = made[bti_region_place(region, region->outputs[o])];
    if (status == BT_OK) {
        *bound = bti_region_new(made, region->input_count, outputs, region->output_count, made + region->input_count,
                                region->node_count);
        if (!*bound) status = bti_no_memory();
    }
    for (int i = 0; i < count && made; i++) bti_node_release(made[i]);
    bti_free(made);
    bti_free(outputs);
    return status;
}

static bt_status tuple_again(const bti_node *node, bti_node *const *inputs, const bti_attr *attr, remaking how,
                             bti_node **made) {
    const bti_tuple *tuple = node->tuple;
    bti_region *regions[BTI_MAX_REGIONS] = {NULL};
    bti_type *types = bti_alloc((size_t)tuple->result_count * sizeof *types);
    bt_status status = types ? BT_OK : bti_no_memory();
    for (int i = 0; i < tuple->result_count && status == BT_OK; i++) {
        types[i] = *bti_tuple_type(tuple, i);
        if (how.binding && !bind_type(how.binding, &types[i])) status = BT_INVALID_ARGUMENT;
    }
    for (int r = 0; r < tuple->region_count && status == BT_OK; r++)
        status = remake_region(tuple->regions[r], how, &regions[r]);
    if (status == BT_OK) {
        *made = bti_node_new_tuple((bti_op)node->op, node->input_count, inputs, attr, tuple->result_count, types,
                                   tuple->region_count, regions);
        if (!*made) status = bti_no_memory();
    }
    for (int r = 0; r < tuple->region_count; r++) bti_region_release(regions[r]);
    bti_free(types);
    return status;
}

static bt_status node_again(const bti_node *node, bti_node *const *inputs, remaking how, bti_node **made) {
    const bti_binding *binding = how.binding;
    bti_op op = node->op == BTI_OP_callback && !how.told ? BTI_OP_reshape : (bti_op)node->op;
    bti_type type = bti_type_of(node);
    bti_attr attr;
    *made = NULL;
    if (node->attr) memcpy(&attr, node->attr, bti_attr_bytes(op));
    if (binding && !(bind_type(binding, &type) && bti_attr_bind(op, binding, &attr))) return BT_INVALID_ARGUMENT;
    if (node->tuple)
        BTI_TRY(tuple_again(node, inputs, &attr, how, made));
    else
        *made = bti_node_new(op, type.dtype, type.rank, type.shape, node->input_count, inputs, &attr);
    if (!*made) return bti_no_memory();
    bti_copy_marks(*made, node);
    (*made)->checkpoint = bti_checkpoint_retain(node->checkpoint);
    (*made)->symbolic = node_is_unknown(*made);
    for (int i = 0; i < node->input_count; i++) (*made)->symbolic |= inputs[i]->symbolic;
    return BT_OK;
}

bt_status bti_node_again(const bti_node *node, bti_node *const *inputs, const bti_binding *binding, bti_node **made) {
    return node_again(node, inputs, (remaking){binding, true}, made);
}

bt_status bti_node_again_untold(const bti_node *node, bti_node *const *inputs, const bti_binding *binding,
                                bti_node **made) {
    return node_again(node, inputs, (remaking){binding, false}, made);
}
