/* A segment of a plan as a module. Values are known by their storages: in a segment each has its own.
 *
 * Small arrays that no input goes into are computed here, by the interpreter, and floats of them are written with their elements: XLA joins products and sums to one rounding, so that the ends of
 * a range would be others than elsewhere.
 *
 * A program that comes again with other numbers would be another text each time, and so would one that reads another part of an input, as of a data set; then the text leaves them open. Numbers that compilers do something
 * with stay in it. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ir/dtype.h"
#include "reference/interp.h"
#include "render/stablehlo.h"
#include "render/stablehlo/writer.h"

#define SMALL 4096 /* elements */

typedef struct made {
    bti_hlo_value value; /* rank -1: there is none */
    void *elements;      /* of what no input goes into, and is small; else NULL */
    bool is_repeated;    /* they are one element, repeated */
    bool is_argument;
    bool is_exponent;
} made;

typedef struct segment {
    bti_hlo w;
    const bti_plan *plan;
    made *of; /* by storage */
    bti_hlo_numbers *numbers;
    bti_hlo_value given; /* the argument with these */
} segment;

static made *made_of(const segment *s, const bti_step *step, int operand) {
    return &s->of[bti_plan_operand(s->plan, step, operand)->storage];
}

/* --- what no input goes into --------------------------------------------------------------------------------------------- */

static int64_t count_elements(const bti_value *value) {
    int64_t count = 1;
    for (int i = 0; i < value->rank; i++) count *= value->shape[i];
    return count;
}

static bti_operand operand_of_made(const segment *s, const bti_step *step, int o) {
    const bti_value *value = bti_plan_operand(s->plan, step, o);
    const made *m = made_of(s, step, o);
    bti_operand operand = {.address = (uint64_t)(uintptr_t)m->elements, .dtype = value->dtype, .rank = value->rank};
    memcpy(operand.shape, value->shape, sizeof operand.shape);
    memcpy(operand.stride, value->layout.stride, sizeof operand.stride);
    if (m->is_repeated) memset(operand.stride, 0, sizeof operand.stride);
    return operand;
}

static bool is_computed(const segment *s, const bti_step *step) {
    bti_class class = bti_op_info((bti_op)step->op)->class;
    if (step->output_count != 1 || step->input_count > 3 || count_elements(bti_plan_output(s->plan, step, 0)) > SMALL)
        return false;
    for (int i = 0; i < step->input_count; i++)
        if (!made_of(s, step, i)->elements) return false;
    if (class == BTI_MOVEMENT) /* a number, seen as an array */
        return (step->op == BTI_OP_expand || step->op == BTI_OP_reshape) &&
               (made_of(s, step, 0)->is_repeated || count_elements(bti_plan_operand(s->plan, step, 0)) == 1);
    return class == BTI_ELEMENTWISE || step->op == BTI_OP_const || step->op == BTI_OP_iota;
}

static void compute(segment *s, const bti_step *step) {
    made *m = made_of(s, step, step->input_count);
    const bti_value *value = bti_plan_output(s->plan, step, 0);
    size_t size = bt_dtype_size(value->dtype);
    bool moves = bti_op_info((bti_op)step->op)->class == BTI_MOVEMENT;
    bti_operand inputs[3];
    bti_attr number = {.constant = {0}};
    if (step->op == BTI_OP_const) number.constant.bits = s->plan->scalars.items[step->first_scalar];
    m->elements = bti_calloc((size_t)count_elements(value) + 1, size);
    if (!m->elements) {
        s->w.status = bti_no_memory();
        return;
    }
    for (int i = 0; i < step->input_count; i++) inputs[i] = operand_of_made(s, step, i);
    if (moves) {
        m->is_repeated = true;
        memcpy(m->elements, made_of(s, step, 0)->elements, size);
        return;
    }
    bti_work work = {.op = (bti_op)step->op,
                     .input_count = step->input_count,
                     .inputs = inputs,
                     .output = operand_of_made(s, step, step->input_count),
                     .attr = step->op == BTI_OP_const ? &number : step->node->attr};
    bt_status status = bti_interpret(&work);
    if (status != BT_OK && s->w.status == BT_OK) s->w.status = status;
}

/* Whether another compiler makes other bits of it. */
static bool is_rounded(const bti_step *step) {
    return bti_op_info((bti_op)step->op)->class == BTI_ELEMENTWISE && step->op != BTI_OP_cast &&
           bti_dtype_has_gradient((bt_dtype)step->node->dtype);
}

/* --- numbers that are given ---------------------------------------------------------------------------------------------- */

static bool stays(const bti_plan *plan, const bti_step *step) {
    static const double kept[] = {0, 1, -1, 2, 0.5};
    bt_dtype dtype = plan->values.items[plan->operands.items[step->first_operand]].dtype;
    uint64_t bits = plan->scalars.items[step->first_scalar];
    double number = (double)(int64_t)bits;
    if (bti_dtype_is_float(dtype)) memcpy(&number, &bits, sizeof number);
    if (dtype == BT_BOOL || bti_dtype_is_complex(dtype) || number - number != 0) return true;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (number == kept[i]) return true;
    return false;
}

/* How many numbers of the step are given: itself, or where a part of an argument begins. */
static int given_of(const segment *s, const bti_step *step) {
    if (!s->numbers) return 0;
    if (step->op == BTI_OP_const) return !made_of(s, step, 0)->is_exponent && !stays(s->plan, step);
    if (step->op != BTI_OP_slice || !made_of(s, step, 0)->is_argument) return 0;
    const bti_value *x = bti_plan_operand(s->plan, step, 0), *part = bti_plan_output(s->plan, step, 0);
    int count = 0;
    for (int i = 0; i < part->rank; i++) {
        if (step->node->attr->slice.step[i] != 1) return 0;
        count += part->shape[i] != x->shape[i];
    }
    return count;
}

static int64_t count_given(const segment *s, const bti_step *step) {
    int64_t count = 0;
    for (int i = 0; i < step->inner_count; i++) count += given_of(s, &s->plan->inner.items[step->first_inner + i]);
    return count;
}

/* Compilers make products of powers by numbers that they know. */
static void mark_exponents(segment *s, const bti_step *step) {
    for (int i = step->inner_count; i-- > 0;) {
        const bti_step *inner = &s->plan->inner.items[step->first_inner + i];
        bool moves = bti_op_info((bti_op)inner->op)->class == BTI_MOVEMENT || inner->op == BTI_OP_cast;
        if (inner->op == BTI_OP_pow) made_of(s, inner, 1)->is_exponent = true;
        if (moves && made_of(s, inner, 1)->is_exponent) made_of(s, inner, 0)->is_exponent = true;
    }
}

/* The next element of the argument, in the number's dtype. */
static bti_hlo_value give(segment *s, bti_type type, uint64_t bits) {
    static const bt_dtype words[] = {[1] = BT_U8, [2] = BT_U16, [4] = BT_U32, [8] = BT_U64};
    bti_hlo *w = &s->w;
    bti_type one = {.dtype = BT_U64, .rank = 1, .shape = {1}};
    const int64_t at = (int64_t)s->numbers->count, end = at + 1, step = 1;
    if (!bti_vec_push(s->numbers, bits)) w->status = bti_no_memory();
    bti_hlo_value word = bti_hlo_reshape(w, bti_hlo_slice(w, s->given, one, &at, &end, &step), 0, NULL);
    word = bti_hlo_convert(w, word, words[bt_dtype_size(type.dtype)]);
    return word.type.dtype == type.dtype ? word : bti_hlo_line(w, "bitcast_convert", type, 1, &word);
}

static void give_number(segment *s, const bti_step *step) {
    const bti_type type = bti_value_type(bti_plan_output(s->plan, step, 0));
    uint64_t bits = 0;
    bti_operand output = {.address = (uint64_t)(uintptr_t)&bits, .dtype = type.dtype};
    bti_attr number = {.constant = {s->plan->scalars.items[step->first_scalar]}};
    bti_work work = {.op = BTI_OP_const, .output = output, .attr = &number};
    bt_status status = bti_interpret(&work);
    made_of(s, step, 0)->value = give(s, type, bits);
    if (s->w.status == BT_OK) s->w.status = status;
}

static void give_part(segment *s, const bti_step *step) {
    bti_hlo *w = &s->w;
    const bti_value *x = bti_plan_operand(s->plan, step, 0);
    const bti_type part = bti_value_type(bti_plan_output(s->plan, step, 0)), start = bti_hlo_scalar(BT_I64);
    bti_hlo_value in[1 + BTI_MAX_RANK] = {made_of(s, step, 0)->value};
    for (int i = 0; i < part.rank; i++)
        in[1 + i] = part.shape[i] == x->shape[i] ? bti_hlo_number(w, start, 0)
                                                 : give(s, start, (uint64_t)step->node->attr->slice.start[i]);
    bti_hlo_attribute_list(w, "slice_sizes", part.shape, part.rank);
    made_of(s, step, 1)->value = bti_hlo_line(w, "dynamic_slice", part, 1 + part.rank, in);
}

/* --- steps --------------------------------------------------------------------------------------------------------------- */

/* An array without elements, which nobody has made. */
static void write_empty(segment *s, const bti_step *step, int input) {
    made *m = made_of(s, step, input);
    if (m->value.type.rank < 0)
        m->value = bti_hlo_number(&s->w, bti_value_type(bti_plan_operand(s->plan, step, input)), 0);
}

static void write_operation(segment *s, const bti_step *step) {
    bti_hlo *w = &s->w;
    bti_hlo_value few[8], *in = step->input_count <= 8 ? few : bti_alloc((size_t)step->input_count * sizeof *in);
    if (!in) {
        w->status = bti_no_memory();
        return;
    }
    for (int i = 0; i < step->input_count; i++) {
        write_empty(s, step, i);
        in[i] = made_of(s, step, i)->value;
    }
    w->divides_by_number = step->op == BTI_OP_div && made_of(s, step, 1)->elements;
    bti_hlo_node(w, step->node, in);
    w->divides_by_number = false;
    int64_t at = bti_number_of(&w->numbers, step->node);
    for (int o = 0; o < step->output_count && at >= 0 && w->status == BT_OK; o++)
        made_of(s, step, step->input_count + o)->value = w->values.items[at + o];
    if (in != few) bti_free(in);
}

static void write_step(segment *s, const bti_step *step) {
    made *m = made_of(s, step, step->input_count);
    if (given_of(s, step)) {
        (step->op == BTI_OP_const ? give_number : give_part)(s, step);
        return;
    }
    bti_type type = bti_value_type(bti_plan_output(s->plan, step, 0));
    bool computed = is_computed(s, step);
    if (computed) compute(s, step);
    if (s->w.status != BT_OK) return;
    if (step->op == BTI_OP_const)
        m->value = bti_hlo_constant(&s->w, type, s->plan->scalars.items[step->first_scalar]);
    else if (computed && is_rounded(step))
        m->value = bti_hlo_data(&s->w, type, m->elements);
    else
        write_operation(s, step);
}

static void write_result_types(segment *s, const bti_step *step) {
    for (int o = 0; o < step->output_count; o++)
        bti_hlo_result_type(&s->w, !o, bti_value_type(bti_plan_output(s->plan, step, o)));
}

bt_status bti_stablehlo_segment(const bti_plan *plan, const bti_step *step, const int *aliases, bool highest,
                                bti_hlo_numbers *numbers, bti_str *text) {
    segment s = {.w = {.highest = highest, .write_nodes = bti_hlo_nodes}, .plan = plan, .numbers = numbers};
    bti_hlo *w = &s.w;
    s.of = bti_calloc(plan->storages.count + 1, sizeof *s.of);
    if (!s.of) return bti_no_memory();
    for (size_t i = 0; i < plan->storages.count; i++) s.of[i].value.type.rank = -1;
    bti_hlo_begin_module(w, "berth");
    for (int i = 0; i < step->input_count; i++) {
        bti_hlo_value argument = {w->next++, -1, bti_value_type(bti_plan_operand(plan, step, i))};
        bti_hlo_argument(w, !i, argument, aliases[i]);
        *made_of(&s, step, i) = (made){.value = argument, .is_argument = true};
    }
    mark_exponents(&s, step);
    int64_t given = count_given(&s, step);
    if (given) {
        s.given = (bti_hlo_value){w->next++, -1, {.dtype = BT_U64, .rank = 1, .shape = {given}}};
        bti_hlo_argument(w, !step->input_count, s.given, -1);
    }
    bti_str_add(&w->text, ") -> (");
    write_result_types(&s, step);
    bti_str_add(&w->text, ") {\n");
    for (int i = 0; i < step->inner_count && w->status == BT_OK; i++)
        write_step(&s, &plan->inner.items[step->first_inner + i]);
    for (int o = 0; o < step->output_count; o++) bti_hlo_result(w, !o, made_of(&s, step, step->input_count + o)->value);
    bti_str_add(&w->text, ") : (");
    write_result_types(&s, step);
    for (size_t i = 0; i < plan->storages.count; i++) bti_free(s.of[i].elements);
    bti_free(s.of);
    return bti_hlo_end_module(w, text);
}
