/* Convolutions. The three operations of ir/conv.h, their rules, and the public calls, which say in which of three arrays something does not fit. */
#include <stdio.h>

#include "base/sized.h"
#include "ir/conv.h"
#include "ops/application.h"

/* --- recording ------------------------------------------------------------------------------------------------------- */

/* The array of this shape that the two others make, of which neither is poisoned; all of one dtype, and no small float. */
static bt_array *record(bti_conv_array made, bt_array *const *arrays, const bti_attr *attr, const int64_t *shape) {
    bti_op op = bti_conv_maker(made);
    bt_array *inputs[2] = {arrays[bti_conv_input(op, 0)], arrays[bti_conv_input(op, 1)]};
    bt_array *poison = bti_poisoned_by(inputs, 2);
    if (poison) return poison;
    bt_dtype in, out;
    bti_str why = {0};
    if (!bti_op_dtypes(op, bti_dtype(inputs[0]), &in, &out, &why)) return bti_poison_why(&why);
    bool weak = bti_node_of(inputs[0])->weak;
    return bti_record_shaped(op, out, weak, bti_rank(inputs[0]), shape, inputs, 2, attr);
}

/* --- rules ----------------------------------------------------------------------------------------------------------- */

/* The arrays of a recorded operation: its inputs, and g in the place of its result. */
static void arrays_of(bti_op op, bt_array *const *inputs, bt_array *g, bt_array **arrays) {
    for (int i = 0; i < 2; i++) arrays[bti_conv_input(op, i)] = inputs[i];
    arrays[bti_conv_made(op)] = g;
}

void bti_gradient_conv(bti_backward *b) {
    bti_op op = (bti_op)b->node->op;
    bt_array *arrays[BTI_CONV_ARRAYS];
    arrays_of(op, b->x, b->g, arrays);
    for (int i = 0; i < 2; i++)
        if (b->wanted[i]) b->gx[i] = record(bti_conv_input(op, i), arrays, b->attr, bti_shape(b->x[i]));
}

void bti_tangent_conv(bti_application *a) {
    bti_op op = (bti_op)a->node->op;
    for (int i = 0; i < 2; i++) {
        bt_array *arrays[BTI_CONV_ARRAYS], *inputs[2] = {a->x[0], a->x[1]};
        if (!(inputs[i] = a->image[i])) continue;
        arrays_of(op, inputs, NULL, arrays);
        bt_array *part = record(bti_conv_made(op), arrays, a->node->attr, a->node->shape);
        a->made[0] = a->made[0] ? bti_binary(BTI_OP_add, a->made[0], part) : part;
    }
}

/* [B, ...]: the batch joins the axis behind it, which must be one of a view or lie first. */
static bt_array *join(bt_array *stack, int axis) {
    int64_t shape[BTI_MAX_RANK];
    int rank = bti_rank(stack) - 1;
    if (axis) stack = bti_move_axis(stack, 0, axis);
    if (bti_array_error(stack)) return stack;
    for (int i = 0; i < rank; i++) shape[i] = bti_shape(stack)[i < axis ? i : i + 1];
    shape[axis] = bti_size_mul(bti_shape(stack)[axis], bti_shape(stack)[axis + 1]);
    return bti_reshape(stack, rank, shape);
}

/* The other way round. */
static bt_array *part(bt_array *joined, int axis, int64_t size, const bti_node *each) {
    int64_t shape[BTI_MAX_RANK];
    if (bti_array_error(joined)) return joined;
    for (int i = 0; i < each->rank; i++) shape[i < axis ? i : i + 1] = each->shape[i];
    shape[axis] = size;
    joined = bti_reshape(joined, each->rank + 1, shape);
    return axis && !bti_array_error(joined) ? bti_move_axis(joined, axis, 0) : joined;
}

/* Which axis of an array a batch joins: as images that share their weights, as groups that have their own, or, where nothing but w and y have it and there are no groups,
 * as outputs. */
enum { AS_IMAGES, AS_GROUPS, AS_OUTPUTS };
static int axis_of(bti_conv_array array, int as) {
    if (as == AS_IMAGES) return array == BTI_CONV_W ? -1 : 0;
    if (as == AS_OUTPUTS && array == BTI_CONV_X) return -1;
    return array == BTI_CONV_W ? 0 : 1;
}

static int batch_as(const bti_application *a, bti_op op) {
    bool given[BTI_CONV_ARRAYS] = {false};
    for (int i = 0; i < 2; i++) given[bti_conv_input(op, i)] = a->image[i];
    given[bti_conv_made(op)] = true;
    if (!given[BTI_CONV_W]) return AS_IMAGES;
    return !given[BTI_CONV_X] && a->node->attr->window.groups == 1 ? AS_OUTPUTS : AS_GROUPS;
}

void bti_batch_conv(bti_application *a) {
    bti_op op = (bti_op)a->node->op;
    bti_conv_array made = bti_conv_made(op);
    int as = batch_as(a, op), axis = axis_of(made, as);
    bt_array *arrays[BTI_CONV_ARRAYS] = {NULL};
    for (int i = 0; i < 2; i++) {
        bti_conv_array array = bti_conv_input(op, i);
        int at = axis_of(array, as);
        arrays[array] = at < 0 ? a->x[i] : join(bti_batched(a, i), at);
    }
    int64_t shape[BTI_MAX_RANK];
    for (int i = 0; i < a->node->rank; i++) shape[i] = a->node->shape[i];
    shape[axis] = bti_size_mul(a->size, shape[axis]);
    bti_attr attr = {.window = a->node->attr->window};
    if (as == AS_GROUPS) attr.window.groups = bti_size_mul(a->size, attr.window.groups);
    a->made[0] = part(record(made, arrays, &attr, shape), axis, a->size, a->node);
}

/* --- arguments ------------------------------------------------------------------------------------------------------- */

/* What a call names: x [N, C, ...] and w [O, C/groups, ...], or y [N, O, ...] and w. */
typedef struct call {
    bt_array *given, *w;
    const char *name; /* of `given`: "x" or "y" */
    int axes;
    int64_t after[BTI_CONV_AXES]; /* elements behind x that count as 0 */
    bti_attr attr;
} call;

static bt_array *refuse_call(const call *c, const char *why) {
    return bti_poisonf(BT_INVALID_ARGUMENT, "%s %s and w %s: %s", c->name, bti_shape_string(c->given).text,
                       bti_shape_string(c->w).text, why);
}

static bool sizes_known(const bt_array *x, int from) {
    for (int i = from; i < bti_rank(x); i++)
        if (bti_size_is_symbolic(bti_shape(x)[i])) return false;
    return true;
}

/* Their ranks and channels; y's are the outputs, x's those that all groups of w take. */
static const char *why_not_together(const call *c, bool transposed) {
    int64_t groups = c->attr.window.groups, channels;
    const int64_t *shape = bti_shape(c->given), *w = bti_shape(c->w);
    if (c->axes < 1 || c->axes > BTI_CONV_AXES || bti_rank(c->w) != 2 + c->axes)
        return "both need as many axes, three to five: x [N, C, ...], w [O, C/groups, ...]";
    if (!sizes_known(c->given, 1) || !sizes_known(c->w, 0))
        return transposed ? "only the first axis of y may have an unknown size"
                          : "only the first axis of x may have an unknown size";
    if (groups < 1) return "groups must be 1 or more";
    if (w[0] % groups || shape[1] % groups)
        return "groups must divide the channels (axis 1) and the outputs of w (axis 0)";
    if (transposed) return shape[1] == w[0] ? NULL : "axis 0 of w must be the channels of y (axis 1)";
    if (__builtin_mul_overflow(w[1], groups, &channels) || shape[1] != channels)
        return "axis 1 of w must be the channels of x (axis 1), divided by groups";
    return NULL;
}

static const char *why_no_window(const call *c, int i) {
    int64_t span, pads;
    if (c->attr.window.stride[i] < 1) return "strides must be 1 or more";
    if (c->attr.window.dilation[i] < 1) return "dilations must be 1 or more";
    if (c->attr.window.before[i] < 0 || c->after[i] < 0) return "pads must be 0 or more";
    if (bti_shape(c->w)[2 + i] < 1) return "the kernel must have 1 or more elements along each axis";
    if (__builtin_add_overflow(c->attr.window.before[i], c->after[i], &pads) ||
        __builtin_add_overflow(pads, bti_shape(c->given)[2 + i], &pads) || pads > BTI_FARTHEST)
        return "pads are too great";
    if (__builtin_mul_overflow(bti_shape(c->w)[2 + i] - 1, c->attr.window.dilation[i], &span) || span > BTI_FARTHEST)
        return "dilations are too great";
    return NULL;
}

/* Places of y along an axis; false: there are none. */
static bool places_of_y(const call *c, int i, int64_t *places) {
    int64_t span = (bti_shape(c->w)[2 + i] - 1) * c->attr.window.dilation[i],
            last = bti_shape(c->given)[2 + i] + c->attr.window.before[i] + c->after[i] - 1 - span;
    *places = last / c->attr.window.stride[i] + 1;
    return last >= 0;
}

/* Places of x of which each place of y had a whole window, and `more`. */
static bool places_of_x(const call *c, int i, int64_t more, int64_t *places) {
    int64_t span = (bti_shape(c->w)[2 + i] - 1) * c->attr.window.dilation[i], last;
    if (__builtin_mul_overflow(bti_shape(c->given)[2 + i] - 1, c->attr.window.stride[i], &last) ||
        __builtin_add_overflow(last, span, &last) || __builtin_add_overflow(last, 1 + more, &last) ||
        last > BTI_FARTHEST)
        return false;
    *places = last - c->attr.window.before[i] - c->after[i];
    return bti_shape(c->given)[2 + i] > 0 && *places >= 0;
}

/* A stride to no second place, and a dilation of one element, say nothing: they are 1. */
static void settle_axis(call *c, int i, int64_t places_of_y) {
    if (places_of_y <= 1) c->attr.window.stride[i] = 1;
    if (bti_shape(c->w)[2 + i] == 1) c->attr.window.dilation[i] = 1;
}

/* Of one dtype; small floats are summed in float32. Gradients are too: what comes back to a small float is one. */
static bt_dtype meet(call *c) {
    bool weak;
    bt_dtype dtype = bti_meet((bt_array *[]){c->given, c->w}, 2, &weak);
    c->attr.window.narrow = bti_is_small(dtype);
    c->given = bti_widen(bti_cast(c->given, dtype));
    c->w = bti_widen(bti_cast(c->w, dtype));
    return dtype;
}

static bt_array *convolve(call *c) {
    int64_t shape[2 + BTI_CONV_AXES] = {bti_shape(c->given)[0], bti_shape(c->w)[0]};
    const char *why = why_not_together(c, false);
    for (int i = 0; i < c->axes && !why; i++) {
        why = why_no_window(c, i);
        if (!why && !places_of_y(c, i, &shape[2 + i])) why = "the kernel must be no larger than the padded x";
    }
    if (why) return refuse_call(c, why);
    for (int i = 0; i < c->axes; i++) settle_axis(c, i, shape[2 + i]);
    bt_dtype dtype = meet(c);
    bt_array *y =
        record(BTI_CONV_Y, (bt_array *[]){[BTI_CONV_X] = c->given, [BTI_CONV_W] = c->w, NULL}, &c->attr, shape);
    return bti_array_error(y) ? y : bti_narrow(y, dtype);
}

static bt_array *spread(call *c, const int64_t *more) {
    const char *why = why_not_together(c, true);
    int64_t shape[2 + BTI_CONV_AXES] = {bti_shape(c->given)[0]};
    if (!why && __builtin_mul_overflow(bti_shape(c->w)[1], c->attr.window.groups, &shape[1]))
        why = "groups are too many";
    for (int i = 0; i < c->axes && !why; i++) {
        why = why_no_window(c, i);
        if (!why && (more[i] < 0 || (more[i] >= c->attr.window.stride[i] && more[i] >= c->attr.window.dilation[i])))
            why = "output_pad must be 0 or more, and less than the stride or the dilation";
        if (!why && !places_of_x(c, i, more[i], &shape[2 + i])) why = "nothing is left between the pads, or too much";
    }
    if (why) return refuse_call(c, why);
    for (int i = 0; i < c->axes; i++) settle_axis(c, i, bti_shape(c->given)[2 + i]);
    bt_dtype dtype = meet(c);
    bt_array *x = record(BTI_CONV_X, (bt_array *[]){[BTI_CONV_Y] = c->given, [BTI_CONV_W] = c->w}, &c->attr, shape);
    return bti_array_error(x) ? x : bti_narrow(x, dtype);
}

/* --- public calls ---------------------------------------------------------------------------------------------------- */

static bti_attr window_of(int64_t groups) {
    bti_attr attr = {.window = {.groups = groups}};
    for (int i = 0; i < BTI_CONV_AXES; i++) attr.window.stride[i] = attr.window.dilation[i] = 1;
    return attr;
}

bt_array *bt_conv2d(bt_array *x, bt_array *w, const int64_t stride[2], const int64_t pad_low[2],
                    const int64_t pad_high[2], int64_t groups) {
    BTI_PUBLIC("bt_conv2d");
    BTI_NEED(x, w);
    call c = {.given = x, .w = w, .name = "x", .axes = 2, .attr = window_of(groups)};
    if (bti_rank(x) != 4 || bti_rank(w) != 4)
        BTI_RETURN(refuse_call(&c, "both need four axes: x [N, C, H, W], w [O, C/groups, KH, KW]"));
    for (int i = 0; i < 2; i++) {
        c.attr.window.stride[i] = stride ? stride[i] : 1;
        c.attr.window.before[i] = pad_low ? pad_low[i] : 0;
        c.after[i] = pad_high ? pad_high[i] : 0;
    }
    BTI_RETURN(convolve(&c));
}

#define MEMBER(name) BTI_MEMBER(bt_conv_options, name)
static const bti_member option_members[] = {MEMBER(size),     MEMBER(by_name),  MEMBER(stride), MEMBER(pad_low),
                                            MEMBER(pad_high), MEMBER(dilation), MEMBER(groups), MEMBER(output_pad)};
#undef MEMBER
static const bti_sized_type options_layout =
    BTI_SIZED_TYPE(bt_conv_options, "options", "BT_CONV(.stride = {2, 2})", option_members, NULL);

/* What no axis has must not be said. */
static bool take_options(call *c, const char *name, const bt_conv_options *given, bt_conv_options *options,
                         bt_array **poison) {
    *options = (bt_conv_options){0};
    if (given && bti_options_take(&options_layout, name, given, options) != BT_OK) {
        *poison = bti_poison(bti_error_last());
        return false;
    }
    c->axes = bti_rank(c->given) - 2;
    c->attr = window_of(options->groups ? options->groups : 1);
    for (int i = 0; i < BTI_CONV_AXES; i++) {
        if (options->stride[i]) c->attr.window.stride[i] = options->stride[i];
        if (options->dilation[i]) c->attr.window.dilation[i] = options->dilation[i];
        c->attr.window.before[i] = options->pad_low[i];
        c->after[i] = options->pad_high[i];
        bool said = options->stride[i] || options->dilation[i] || options->pad_low[i] || options->pad_high[i] ||
                    options->output_pad[i];
        if (i < c->axes || !said) continue;
        *poison = refuse_call(c, "the options speak of an axis that they do not have");
        return false;
    }
    return true;
}

bt_array *bt_conv(bt_array *x, bt_array *w, const bt_conv_options *options) {
    BTI_PUBLIC("bt_conv");
    BTI_NEED(x, w);
    call c = {.given = x, .w = w, .name = "x"};
    bt_conv_options known;
    bt_array *poison;
    if (!take_options(&c, "bt_conv", options, &known, &poison)) BTI_RETURN(poison);
    for (int i = 0; i < BTI_CONV_AXES; i++)
        if (known.output_pad[i]) BTI_RETURN(refuse_call(&c, "output_pad is of bt_conv_transposed"));
    BTI_RETURN(convolve(&c));
}

bt_array *bt_conv_transposed(bt_array *y, bt_array *w, const bt_conv_options *options) {
    BTI_PUBLIC("bt_conv_transposed");
    BTI_NEED(y, w);
    call c = {.given = y, .w = w, .name = "y"};
    bt_conv_options known;
    bt_array *poison;
    if (!take_options(&c, "bt_conv_transposed", options, &known, &poison)) BTI_RETURN(poison);
    BTI_RETURN(spread(&c, known.output_pad));
}
