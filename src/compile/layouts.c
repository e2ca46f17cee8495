/* How images lie between convolutions. A device whose convolutions take and make images [N, C, places] with their channels last has to turn what lies otherwise, and what is made back.
 * Here values between convolutions that are read point by point (bias, activation, residual, pooling) get their channels last, where fewer bytes are turned then. A value keeps its shape
 * and elements: views of it get other strides, and maps over it another order of their axes. docs/decisions/0078 */
#include "compile/fuser.h"
#include "reference/conv.h"

enum { LEAST_CHANNELS = 16 };  /* a line of fewer is none worth a loop of its own */
enum { LEAST_PACKED = 16384 }; /* bytes of a kernel: fewer are soon brought into another layout */

typedef struct turner {
    bti_planner *planner;
    bti_plan *plan;
    int32_t *image;   /* by storage: the value that a step makes in it, if it may lie with its channels last; -1 */
    int32_t *parent;  /* by storage: storages that maps read and write side by side lie alike; of a root itself */
    int64_t *saved;   /* by root: bytes that are turned by convolutions if it lies densely... */
    int64_t *lost;    /* ...and by copies if its channels are last */
    int32_t *plain;   /* by storage: 0; 1: somebody reads it who wants it dense; then 1 + the dense copy's storage */
    int32_t *sharers; /* by value: convolutions that read it as an image */
    int32_t *logical,
        *turned; /* by value: its view, or copy, with its channels last: under its own shape; under its turned shape; -1 */
    size_t values; /* that were there */
    bti_written out;
} turner;

static bti_value *value_in(const turner *t, int32_t value) { return &t->plan->values.items[value]; }
static int32_t operand_number(const turner *t, const bti_step *step, int operand) {
    return t->plan->operands.items[step->first_operand + operand];
}

/* --- which steps ---------------------------------------------------------------------------------------------------- */

static bti_operand operand_like(const bti_value *value) {
    bti_operand operand = {.dtype = value->dtype, .rank = value->rank};
    memcpy(operand.shape, value->shape, sizeof operand.shape);
    return operand;
}

/* Whether a library of convolutions does it; products of matrices are none of these. */
static bool is_by_library(const bti_planner *planner, const bti_step *step) {
    if (step->kind != BTI_STEP_WORK || !bti_op_is_conv((bti_op)step->op)) return false;
    if (!planner->how->target(step->device)->packs_kernels) return false;
    if (bti_plan_output(planner->plan, step, 0)->dtype != BT_F32) return false;
    bti_operand inputs[2];
    for (int i = 0; i < 2; i++) inputs[i] = operand_like(bti_plan_operand(planner->plan, step, i));
    bti_work work = {.op = (bti_op)step->op,
                     .input_count = 2,
                     .inputs = inputs,
                     .output = operand_like(bti_plan_output(planner->plan, step, 0)),
                     .attr = step->node->attr};
    bti_conv conv = bti_conv_of(&work);
    return !bti_conv_is_product(&conv);
}

static bool takes_last(const bti_planner *planner, const bti_step *step) {
    return is_by_library(planner, step) && planner->how->target(step->device)->channels_last;
}

/* Whether the operand (inputs, then the output) of a convolution is x or y. */
static bool is_image(const bti_step *step, int operand) {
    bti_op op = (bti_op)step->op;
    return (operand < 2 ? bti_conv_input(op, operand) : bti_conv_made(op)) != BTI_CONV_W;
}

static bool is_map(const bti_step *step) {
    return step->kind == BTI_STEP_WORK &&
           (step->op == BTI_OP_copy || bti_op_info((bti_op)step->op)->class == BTI_ELEMENTWISE);
}

/* Whether axes of places alone get elements beside. */
static bool pads_places(const turner *t, const bti_step *step) {
    if (step->kind != BTI_STEP_WORK || step->op != BTI_OP_pad) return false;
    const bti_value *from = bti_plan_operand(t->plan, step, 0), *to = bti_plan_output(t->plan, step, 0);
    return from->rank > 2 && from->shape[0] == to->shape[0] && from->shape[1] == to->shape[1];
}

static int64_t elements_in(const bti_value *value) {
    int64_t count = 1;
    for (int i = 0; i < value->rank; i++) count *= value->shape[i];
    return count;
}

/* What is turned is read and written. */
static int64_t cost_of(const bti_value *value) { return 2 * elements_in(value) * (int64_t)bt_dtype_size(value->dtype); }

static bool is_like_image(const bti_value *value) {
    if (value->rank < 3 || value->rank > 2 + BTI_CONV_AXES || value->shape[1] < LEAST_CHANNELS) return false;
    return elements_in(value) > value->shape[0] * value->shape[1];
}

/* --- views ---------------------------------------------------------------------------------------------------------- */

/* The strides of an array of this shape whose channels are last. */
static void last_strides(int rank, const int64_t *shape, int64_t *stride) {
    int64_t step = shape[1];
    for (int i = rank - 1; i > 1; step *= shape[i--]) stride[i] = step;
    stride[1] = 1;
    stride[0] = step;
}

/* The layout of a view of an image once the image's channels are last; false: the view does not go along the image's axes. */
static bool turn_layout(const turner *t, int32_t view, int32_t image, bti_layout *layout) {
    const bti_value *v = value_in(t, view), *of = value_in(t, image);
    int64_t last[BTI_MAX_RANK], offset = v->layout.offset;
    if (v->rank != of->rank) return false;
    last_strides(of->rank, of->shape, last);
    *layout = (bti_layout){0};
    for (int i = 0; i < v->rank; i++) {
        int64_t dense = of->layout.stride[i], start = of->shape[i] > 1 ? offset / dense : 0, by = 0, end;
        offset -= start * dense;
        if (v->shape[i] > 1) {
            if (of->shape[i] == 1 || v->layout.stride[i] % dense) return false;
            by = v->layout.stride[i] / dense;
        }
        end = start + by * (v->shape[i] - 1);
        if (start >= of->shape[i] || end < 0 || end >= of->shape[i]) return false;
        layout->offset += start * last[i];
        layout->stride[i] = by * last[i];
    }
    return offset == 0;
}

/* A shape and its strides with the channels last. */
static void order_axes(int rank, const int64_t *from, int64_t *to) {
    to[0] = from[0];
    for (int i = 2; i < rank; i++) to[i - 1] = from[i];
    to[rank - 1] = from[1];
}

static bool is_full(const bti_value *value) {
    for (int i = 0; i < value->rank; i++)
        if (value->shape[i] > 1 && !value->layout.stride[i]) return false;
    return true;
}

/* --- what lies alike ------------------------------------------------------------------------------------------------ */

static int32_t root_of(const turner *t, int32_t storage) {
    while (t->parent[storage] != storage) storage = t->parent[storage] = t->parent[t->parent[storage]];
    return storage;
}

static void unite(turner *t, int32_t a, int32_t b) {
    a = root_of(t, a), b = root_of(t, b);
    if (a == b) return;
    t->parent[b] = a;
    t->saved[a] += t->saved[b], t->lost[a] += t->lost[b];
}

/* The image that the value is a view of, -1. */
static int32_t image_of(const turner *t, int32_t value) { return t->image[value_in(t, value)->storage]; }

static void want_plain(turner *t, int32_t value) {
    int32_t storage = value_in(t, value)->storage;
    if (t->image[storage] < 0 || t->plain[storage]) return;
    t->plain[storage] = 1;
    t->lost[root_of(t, storage)] += cost_of(value_in(t, t->image[storage]));
}

/* Made by its readers: it lies nowhere. */
static bool is_inlined(const turner *t, int32_t value) {
    int32_t maker = bti_maker(t->planner->fuser, value);
    if (maker < 0) return false;
    int op = t->plan->steps.items[maker].op;
    return op == BTI_OP_const || op == BTI_OP_iota;
}

static void note_output(turner *t, const bti_step *step) {
    if (step->output_count != 1) return;
    int32_t value = operand_number(t, step, step->input_count);
    const bti_value *v = value_in(t, value);
    bool flexible = takes_last(t->planner, step) ? is_image(step, 2) : is_map(step) || pads_places(t, step);
    if (!flexible || !t->planner->how->target(step->device)->channels_last || !is_like_image(v)) return;
    if (v->layout.offset || !bti_layout_is_dense(v->rank, v->shape, &v->layout)) return;
    t->image[v->storage] = value;
    if (takes_last(t->planner, step)) t->saved[v->storage] += cost_of(v);
}

/* Whether a convolution reads a whole image as it is made. */
static bool reads_whole(const turner *t, int32_t value) {
    int32_t image = image_of(t, value);
    bti_layout layout;
    return image >= 0 && elements_in(value_in(t, value)) == elements_in(value_in(t, image)) &&
           turn_layout(t, value, image, &layout);
}

/* Whether a map reads each element of an image, or of a part of it. */
static bool reads_points(const turner *t, int32_t value) {
    int32_t image = image_of(t, value);
    bti_layout layout;
    return image >= 0 && is_full(value_in(t, value)) && turn_layout(t, value, image, &layout);
}

static void note_reads_of_conv(turner *t, const bti_step *step) {
    for (int i = 0; i < step->input_count; i++) {
        int32_t value = operand_number(t, step, i);
        const bti_value *v = value_in(t, value);
        bool is_dense = bti_layout_is_dense(v->rank, v->shape, &v->layout);
        if (is_image(step, i) && is_like_image(v) && is_dense) t->sharers[value]++;
        if (is_image(step, i) && reads_whole(t, value))
            t->saved[root_of(t, v->storage)] += cost_of(v);
        else
            want_plain(t, value);
    }
}

static void note_reads_of_map(turner *t, const bti_step *step, int32_t output) {
    int32_t made = value_in(t, output)->storage;
    for (int i = 0; i < step->input_count; i++) {
        int32_t value = operand_number(t, step, i);
        const bti_value *v = value_in(t, value);
        if (reads_points(t, value)) {
            unite(t, made, v->storage);
            continue;
        }
        want_plain(t, value);
        if (v->rank > 1 && is_full(v) && !is_inlined(t, value)) t->lost[root_of(t, made)] += cost_of(v);
    }
}

static void note_reads(turner *t, const bti_step *step) {
    int32_t output = step->output_count == 1 ? operand_number(t, step, step->input_count) : -1;
    bool is_conv = takes_last(t->planner, step), is_flexible = is_map(step) || pads_places(t, step);
    if (is_conv)
        note_reads_of_conv(t, step);
    else if (is_flexible && image_of(t, output) >= 0)
        note_reads_of_map(t, step, output);
    else
        for (int i = 0; i < step->input_count; i++) want_plain(t, operand_number(t, step, i));
}

static bool is_last(const turner *t, int32_t storage) {
    if (t->image[storage] < 0) return false;
    int32_t root = root_of(t, storage);
    return t->saved[root] > t->lost[root];
}

/* --- writing -------------------------------------------------------------------------------------------------------- */

static void push(turner *t, bti_step step, const int32_t *inputs, const int32_t *outputs) {
    step.first_operand = (int32_t)t->out.operands.count;
    if (!bti_vec_reserve(&t->out.operands, (size_t)(step.input_count + step.output_count)) ||
        !bti_vec_push(&t->out.steps, step)) {
        t->planner->failed = true;
        return;
    }
    for (int i = 0; i < step.input_count; i++) t->out.operands.items[t->out.operands.count++] = inputs[i];
    for (int i = 0; i < step.output_count; i++) t->out.operands.items[t->out.operands.count++] = outputs[i];
}

static void push_copy(turner *t, const bti_step *beside, int32_t from, int32_t to) {
    bti_step copy = {.op = BTI_OP_copy, .device = beside->device, .node = beside->node, .input_count = 1};
    copy.output_count = 1;
    push(t, copy, &from, &to);
}

/* A view of something under the shape with the channels last. */
static int32_t ordered_view(turner *t, int32_t value, const bti_layout *layout) {
    const bti_value v = *value_in(t, value);
    bti_layout ordered = {.offset = layout->offset};
    int64_t shape[BTI_MAX_RANK];
    order_axes(v.rank, v.shape, shape);
    order_axes(v.rank, layout->stride, ordered.stride);
    return bti_add_view(t->planner, value, v.rank, shape, &ordered);
}

/* As an image that lies with its channels last is read by a convolution, or where it is padded. */
static int32_t logical_view(turner *t, int32_t value) {
    bti_layout layout;
    if (t->logical[value] >= 0 || !turn_layout(t, value, image_of(t, value), &layout)) return t->logical[value];
    const bti_value v = *value_in(t, value);
    return t->logical[value] = bti_add_view(t->planner, value, v.rank, v.shape, &layout);
}

/* As a map over turned axes reads or writes it. */
static int32_t turned_view(turner *t, int32_t value) {
    bti_layout layout = value_in(t, value)->layout;
    if (value_in(t, value)->rank < 2) return value; /* of a pad: what is beside */
    if (t->turned[value] >= 0) return t->turned[value];
    if (is_last(t, value_in(t, value)->storage)) (void)turn_layout(t, value, image_of(t, value), &layout);
    return t->turned[value] = ordered_view(t, value, &layout);
}

/* As who wants it dense reads it: the same view of the dense copy. */
static int32_t plain_view(turner *t, int32_t value) {
    const bti_value v = *value_in(t, value);
    int32_t copy = t->plain[v.storage] - 1, after = t->planner->after.items[value];
    int32_t view = bti_add_value(t->planner, NULL, 0, copy, v.dtype, v.rank, v.shape, &v.layout);
    if (!t->planner->failed) t->planner->after.items[view] = after;
    return view;
}

static void push_plain_copy(turner *t, const bti_step *maker, int32_t value) {
    const bti_value v = *value_in(t, value);
    int32_t copy = bti_add_value(t->planner, t->plan->storages.items[v.storage].node, maker->device, -1, v.dtype,
                                 v.rank, v.shape, NULL);
    if (t->planner->failed) return;
    t->plain[v.storage] = 1 + value_in(t, copy)->storage;
    push_copy(t, maker, logical_view(t, value), copy);
}

/* What several convolutions read is turned once, unless it lies so. */
static int32_t turned_once(turner *t, const bti_step *reader, int32_t value) {
    const bti_value v = *value_in(t, value);
    int64_t shape[BTI_MAX_RANK];
    bti_layout layout = {0};
    if (t->sharers[value] < 2 || t->planner->failed) return value;
    if (t->logical[value] >= 0) return t->logical[value];
    order_axes(v.rank, v.shape, shape);
    int32_t copy = bti_add_value(t->planner, reader->node, reader->device, -1, v.dtype, v.rank, shape, NULL);
    if (t->planner->failed) return value;
    last_strides(v.rank, v.shape, layout.stride);
    push_copy(t, reader, ordered_view(t, value, &v.layout), copy);
    return t->logical[value] = bti_add_view(t->planner, copy, v.rank, v.shape, &layout);
}

static int32_t read_by_conv(turner *t, const bti_step *step, int operand, int32_t value) {
    if (!is_image(step, operand)) return is_last(t, value_in(t, value)->storage) ? plain_view(t, value) : value;
    if (!is_last(t, value_in(t, value)->storage)) return turned_once(t, step, value);
    return reads_whole(t, value) ? logical_view(t, value) : plain_view(t, value);
}

static int32_t read_by_map(turner *t, const bti_step *step, int32_t value) {
    bool last = is_last(t, value_in(t, value)->storage);
    if (last && !reads_points(t, value)) value = plain_view(t, value), last = false;
    if (t->planner->failed) return value;
    if (step->op != BTI_OP_pad) return turned_view(t, value);
    return last ? logical_view(t, value) : value;
}

static void write_step(turner *t, const bti_step *step) {
    int32_t few[16], *operands = few, output = -1;
    int count = step->input_count + step->output_count;
    bool is_conv = takes_last(t->planner, step);
    if (count > 16 && !(operands = bti_alloc((size_t)count * sizeof *operands))) {
        t->planner->failed = true;
        return;
    }
    for (int i = 0; i < count; i++) operands[i] = operand_number(t, step, i);
    if (step->output_count == 1 && is_last(t, value_in(t, operands[count - 1])->storage)) output = operands[count - 1];
    for (int i = 0; i < step->input_count && !t->planner->failed; i++) {
        int32_t value = operands[i];
        if (is_conv)
            operands[i] = read_by_conv(t, step, i, value);
        else if (output >= 0)
            operands[i] = read_by_map(t, step, value);
        else if (is_last(t, value_in(t, value)->storage))
            operands[i] = plain_view(t, value);
    }
    if (output >= 0)
        operands[count - 1] = is_conv || step->op == BTI_OP_pad ? logical_view(t, output) : turned_view(t, output);
    if (!t->planner->failed) push(t, *step, operands, operands + step->input_count);
    if (output >= 0 && t->plain[value_in(t, output)->storage]) push_plain_copy(t, step, output);
    if (operands != few) bti_free(operands);
}

/* --- the pass ------------------------------------------------------------------------------------------------------- */

static bool begin_notes(turner *t, int32_t **numbers, int64_t **bytes) {
    size_t storages = t->plan->storages.count;
    t->values = t->plan->values.count;
    *numbers = bti_alloc((3 * storages + 3 * t->values) * sizeof **numbers);
    *bytes = bti_calloc(2 * storages, sizeof **bytes);
    if (!*numbers || !*bytes) return false;
    t->image = *numbers, t->parent = t->image + storages, t->plain = t->parent + storages;
    t->sharers = t->plain + storages, t->logical = t->sharers + t->values, t->turned = t->logical + t->values;
    t->saved = *bytes, t->lost = t->saved + storages;
    for (size_t s = 0; s < storages; s++) t->image[s] = -1, t->parent[s] = (int32_t)s, t->plain[s] = 0;
    for (size_t v = 0; v < t->values; v++) t->sharers[v] = 0, t->logical[v] = t->turned[v] = -1;
    return true;
}

/* What the program holds but did not ask for lies as it is made. */
static bool stays_last(const turner *t, const bti_plan_result *result) {
    const bti_planner *planner = t->planner;
    bool wanted = planner->region || result->of_tuple >= 0 || !reads_whole(t, result->value);
    for (size_t w = 0; w < planner->wanted_count && !wanted; w++) wanted = planner->wanted[w] == result->node;
    return !wanted;
}

static void note_all(turner *t) {
    const bti_plan *plan = t->plan;
    for (size_t s = 0; s < plan->steps.count; s++) note_output(t, &plan->steps.items[s]);
    for (size_t s = 0; s < plan->steps.count; s++) note_reads(t, &plan->steps.items[s]);
    for (size_t r = 0; r < plan->results.count; r++)
        if (!stays_last(t, &plan->results.items[r])) want_plain(t, plan->results.items[r].value);
}

static bool changes_any(const turner *t) {
    bool any = false;
    for (size_t s = 0; s < t->plan->storages.count; s++) any = any || is_last(t, (int32_t)s);
    for (size_t v = 0; v < t->values; v++) any = any || t->sharers[v] > 1;
    return any;
}

static void turn_all(turner *t) {
    bti_plan *plan = t->plan;
    size_t steps = plan->steps.count;
    for (size_t s = 0; s < steps && !t->planner->failed; s++) {
        bti_step step = plan->steps.items[s];
        write_step(t, &step);
    }
    for (size_t r = 0; r < plan->results.count && !t->planner->failed; r++) {
        bti_plan_result *result = &plan->results.items[r];
        if (!is_last(t, value_in(t, result->value)->storage)) continue;
        bool last = stays_last(t, result);
        result->value = last ? logical_view(t, result->value) : plain_view(t, result->value);
    }
    bti_put_steps(plan, &t->out);
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        for (int o = 0; o < step->output_count; o++)
            plan->storages.items[bti_plan_output(plan, step, o)->storage].first_step = (int32_t)s;
    }
}

/* Kernels that are given are the same in each run until somebody gives others. */
static void keep_kernels(const turner *t) {
    for (size_t s = 0; s < t->plan->steps.count; s++) {
        bti_step *step = &t->plan->steps.items[s];
        if (!is_by_library(t->planner, step) || is_image(step, 1)) continue;
        const bti_value *kernel = bti_plan_operand(t->plan, step, 1);
        step->packs = t->plan->storages.items[kernel->storage].given && bti_value_bytes(kernel) >= LEAST_PACKED;
    }
}

bool bti_has_images(const bti_planner *planner) {
    bool any = false;
    for (size_t s = 0; s < planner->plan->steps.count && planner->how->fusing == BTI_FUSED && !any; s++)
        any = is_by_library(planner, &planner->plan->steps.items[s]);
    return any;
}

void bti_pass_layouts(bti_planner *planner) {
    turner t = {.planner = planner, .plan = planner->plan};
    int32_t *numbers;
    int64_t *bytes;
    planner->failed = !begin_notes(&t, &numbers, &bytes);
    if (!planner->failed) {
        note_all(&t);
        if (changes_any(&t)) turn_all(&t);
        if (!planner->failed) keep_kernels(&t);
    }
    bti_free(numbers);
    bti_free(bytes);
}
