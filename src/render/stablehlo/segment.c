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
#include "render/stablehlo/segment_writer.h"

#define SMALL 4096 /* elements */

/* --- what no input goes into --------------------------------------------------------------------------------------------- */

static int64_t count_elements(const bti_value *value) {
    int64_t count = 1;
    for (int i = 0; i < value->rank; i++) count *= value->shape[i];
    return count;
}

static bti_operand operand_of_made(const bti_hlo_segment *s, const bti_step *step, int o) {
    const bti_value *value = bti_plan_operand(s->plan, step, o);
    const bti_hlo_made *m = bti_hlo_made_of(s, step, o);
    bti_operand operand = {.address = (uint64_t)(uintptr_t)m->elements, .dtype = value->dtype, .rank = value->rank};
    memcpy(operand.shape, value->shape, sizeof operand.shape);
    memcpy(operand.stride, value->layout.stride, sizeof operand.stride);
    if (m->is_repeated) memset(operand.stride, 0, sizeof operand.stride);
    return operand;
}

static bool is_computed(const bti_hlo_segment *s, const bti_step *step) {
    bti_class class = bti_op_info((bti_op)step->op)->class;
    if (step->output_count != 1 || step->input_count > 3 || count_elements(bti_plan_output(s->plan, step, 0)) > SMALL)
        return false;
    for (int i = 0; i < step->input_count; i++)
        if (!bti_hlo_made_of(s, step, i)->elements) return false;
    if (class == BTI_MOVEMENT) /* a number, seen as an array */
        return (step->op == BTI_OP_expand || step->op == BTI_OP_reshape) &&
               (bti_hlo_made_of(s, step, 0)->is_repeated || count_elements(bti_plan_operand(s->plan, step, 0)) == 1);
    return class == BTI_ELEMENTWISE || step->op == BTI_OP_const || step->op == BTI_OP_iota;
}

static void compute(bti_hlo_segment *s, const bti_step *step) {
    bti_hlo_made *m = bti_hlo_made_of(s, step, step->input_count);
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
        memcpy(m->elements, bti_hlo_made_of(s, step, 0)->elements, size);
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

static bool can_be_given(const bti_plan *plan, const bti_step *step) {
    bt_dtype dtype = bti_plan_output(plan, step, 0)->dtype;
    return dtype != BT_BOOL && !bti_dtype_is_complex(dtype);
}

static bool stays(const bti_plan *plan, const bti_step *step) {
    static const double kept[] = {0, 1, -1, 2, 0.5};
    bt_dtype dtype = bti_plan_output(plan, step, 0)->dtype;
    uint64_t bits = plan->scalars.items[step->first_scalar];
    double number = (double)(int64_t)bits;
    if (bti_dtype_is_float(dtype)) memcpy(&number, &bits, sizeof number);
    if (number - number != 0) return true;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (number == kept[i]) return true;
    return false;
}

/* Whether some of its arrays are longer than their sizes say, or it begins elsewhere each time. */
static uint32_t begins_of(const bti_hlo_segment *s, int inner) { return s->varying ? s->varying->numbers[inner] : 0; }
static bool is_padded(const bti_hlo_segment *s, const bti_step *step, int inner) {
    uint32_t vary = step->op == BTI_OP_const ? 0 : begins_of(s, inner);
    for (int o = 0; o < step->input_count + step->output_count; o++) vary |= bti_hlo_axes(s, step, o);
    return vary;
}

/* How many numbers of the step are given: itself, or where a part of an argument begins. */
static int given_of(const bti_hlo_segment *s, const bti_step *step, int inner) {
    if (!s->numbers) return 0;
    if (step->op == BTI_OP_const)
        return can_be_given(s->plan, step) &&
               (begins_of(s, inner) || (!bti_hlo_made_of(s, step, 0)->is_exponent && !stays(s->plan, step)));
    if (step->op != BTI_OP_slice || is_padded(s, step, inner) || !bti_hlo_made_of(s, step, 0)->is_argument) return 0;
    const bti_value *x = bti_plan_operand(s->plan, step, 0), *part = bti_plan_output(s->plan, step, 0);
    int count = 0;
    for (int i = 0; i < part->rank; i++) {
        if (step->node->attr->slice.step[i] != 1) return 0;
        count += part->shape[i] != x->shape[i];
    }
    return count;
}

static int64_t count_given(const bti_hlo_segment *s, const bti_step *step) {
    int64_t count = 0;
    for (int i = 0; i < step->inner_count; i++) count += given_of(s, &s->plan->inner.items[step->first_inner + i], i);
    return count;
}

/* Compilers make products of powers by numbers that they know. */
static void mark_exponents(bti_hlo_segment *s, const bti_step *step) {
    for (int i = step->inner_count; i-- > 0;) {
        const bti_step *inner = &s->plan->inner.items[step->first_inner + i];
        bool moves = bti_op_info((bti_op)inner->op)->class == BTI_MOVEMENT || inner->op == BTI_OP_cast;
        if (inner->op == BTI_OP_pow) bti_hlo_made_of(s, inner, 1)->is_exponent = true;
        if (moves && bti_hlo_made_of(s, inner, 1)->is_exponent) bti_hlo_made_of(s, inner, 0)->is_exponent = true;
    }
}

static void give_number(bti_hlo_segment *s, const bti_step *step) {
    const bti_type type = bti_value_type(bti_plan_output(s->plan, step, 0));
    uint64_t bits = 0;
    bti_operand output = {.address = (uint64_t)(uintptr_t)&bits, .dtype = type.dtype};
    bti_attr number = {.constant = {s->plan->scalars.items[step->first_scalar]}};
    bti_work work = {.op = BTI_OP_const, .output = output, .attr = &number};
    bt_status status = bti_interpret(&work);
    bti_hlo_made_of(s, step, 0)->value = bti_hlo_give(s, (bt_dtype)type.dtype, bits);
    if (s->w.status == BT_OK) s->w.status = status;
}

static void give_part(bti_hlo_segment *s, const bti_step *step) {
    bti_hlo *w = &s->w;
    const bti_value *x = bti_plan_operand(s->plan, step, 0);
    const bti_type part = bti_value_type(bti_plan_output(s->plan, step, 0)), start = bti_hlo_scalar(BT_I64);
    bti_hlo_value in[1 + BTI_MAX_RANK] = {bti_hlo_made_of(s, step, 0)->value};
    for (int i = 0; i < part.rank; i++)
        in[1 + i] = part.shape[i] == x->shape[i]
                        ? bti_hlo_number(w, start, 0)
                        : bti_hlo_give(s, start.dtype, (uint64_t)step->node->attr->slice.start[i]);
    bti_hlo_attribute_list(w, "slice_sizes", part.shape, part.rank);
    bti_hlo_made_of(s, step, 1)->value = bti_hlo_line(w, "dynamic_slice", part, 1 + part.rank, in);
}

/* --- steps --------------------------------------------------------------------------------------------------------------- */

/* An array without elements, which nobody has made. */
static void write_empty(bti_hlo_segment *s, const bti_step *step, int input) {
    bti_hlo_made *m = bti_hlo_made_of(s, step, input);
    if (m->value.type.rank < 0)
        m->value = bti_hlo_number(&s->w, bti_value_type(bti_plan_operand(s->plan, step, input)), 0);
}

static void write_operation(bti_hlo_segment *s, const bti_step *step, int inner) {
    bti_hlo *w = &s->w;
    bti_hlo_value few[9], *in = step->input_count <= 8 ? few : bti_alloc(((size_t)step->input_count + 1) * sizeof *in);
    if (!in) {
        w->status = bti_no_memory();
        return;
    }
    for (int i = 0; i < step->input_count; i++) {
        write_empty(s, step, i);
        in[i] = bti_hlo_made_of(s, step, i)->value;
    }
    w->divides_by_number = step->op == BTI_OP_div && bti_hlo_made_of(s, step, 1)->elements;
    if (is_padded(s, step, inner))
        bti_hlo_padded_step(s, step, begins_of(s, inner), in);
    else {
        bti_hlo_node(w, step->node, in);
        int64_t at = bti_number_of(&w->numbers, step->node);
        for (int o = 0; o < step->output_count && at >= 0 && w->status == BT_OK; o++)
            bti_hlo_made_of(s, step, step->input_count + o)->value = w->values.items[at + o];
    }
    w->divides_by_number = false;
    if (in != few) bti_free(in);
}

static void write_step(bti_hlo_segment *s, const bti_step *step, int inner) {
    bti_hlo_made *m = bti_hlo_made_of(s, step, step->input_count);
    if (given_of(s, step, inner)) {
        (step->op == BTI_OP_const ? give_number : give_part)(s, step);
        return;
    }
    bti_type type = bti_value_type(bti_plan_output(s->plan, step, 0));
    bool computed = !is_padded(s, step, inner) && is_computed(s, step);
    if (computed) compute(s, step);
    if (s->w.status != BT_OK) return;
    if (step->op == BTI_OP_const)
        m->value = bti_hlo_constant(&s->w, type, s->plan->scalars.items[step->first_scalar]);
    else if (computed && is_rounded(step))
        m->value = bti_hlo_data(&s->w, type, m->elements);
    else
        write_operation(s, step, inner);
}

static void write_result_types(bti_hlo_segment *s, const bti_step *step) {
    for (int o = 0; o < step->output_count; o++)
        bti_hlo_result_type(&s->w, !o, bti_hlo_operand_type(s, step, step->input_count + o));
}

static void write_arguments(bti_hlo_segment *s, const bti_step *step, const int *aliases) {
    bti_hlo *w = &s->w;
    for (int i = 0; i < step->input_count; i++) {
        bti_hlo_value argument = {w->next++, -1, bti_hlo_operand_type(s, step, i)};
        bti_hlo_argument(w, !i, argument, aliases[i]);
        *bti_hlo_made_of(s, step, i) = (bti_hlo_made){.value = argument, .is_argument = true};
    }
}

/* With an argument of so many numbers. */
static bt_status write_body(bti_hlo_segment *s, const bti_step *step, int64_t given, bti_str *text) {
    bti_hlo *w = &s->w;
    if (given) {
        s->given = (bti_hlo_value){w->next++, -1, {.dtype = BT_U64, .rank = 1, .shape = {given}}};
        bti_hlo_argument(w, !step->input_count, s->given, -1);
    }
    bti_str_add(&w->text, ") -> (");
    write_result_types(s, step);
    bti_str_add(&w->text, ") {\n");
    for (int i = 0; i < step->input_count && s->varying; i++)
        for (int a = 0; a < bti_plan_operand(s->plan, step, i)->rank; a++)
            if (bti_hlo_axes(s, step, i) >> a & 1) (void)bti_hlo_size(s, step, i, a);
    for (int i = 0; i < step->inner_count && w->status == BT_OK; i++)
        write_step(s, &s->plan->inner.items[step->first_inner + i], i);
    for (int o = 0; o < step->output_count; o++)
        bti_hlo_result(w, !o, bti_hlo_made_of(s, step, step->input_count + o)->value);
    bti_str_add(&w->text, ") : (");
    write_result_types(s, step);
    return bti_hlo_end_module(w, text);
}

/* How many numbers are given is known when all is written: a text that has sizes among them is written twice. */
static bt_status write_segment(bti_hlo_segment *s, const bti_step *step, const int *aliases, int64_t given,
                               bti_str *text) {
    for (size_t i = 0; i < s->plan->storages.count; i++) s->of[i] = (bti_hlo_made){.value.type.rank = -1};
    bti_hlo_begin_module(&s->w, "berth");
    write_arguments(s, step, aliases);
    mark_exponents(s, step);
    bt_status status = write_body(s, step, s->varying ? given : count_given(s, step), text);
    for (size_t i = 0; i < s->plan->storages.count; i++) bti_free(s->of[i].elements);
    return status;
}

bt_status bti_stablehlo_segment(const bti_plan *plan, const bti_step *step, const int *aliases, bool highest,
                                const bti_hlo_varying *varying, bti_hlo_numbers *numbers, bti_str *text) {
    const bti_hlo_segment all = {.w = {.highest = highest, .write_nodes = bti_hlo_nodes},
                                 .plan = plan,
                                 .varying = varying,
                                 .numbers = numbers,
                                 .of = bti_calloc(plan->storages.count + 1, sizeof *all.of)};
    bti_hlo_segment s = all;
    bti_str draft = {0};
    bt_status status = s.of ? BT_OK : bti_no_memory();
    if (varying && status == BT_OK) {
        status = write_segment(&s, step, aliases, 1, &draft);
        s = all;
    }
    int64_t given = varying ? (int64_t)numbers->count : 0;
    if (varying) numbers->count = 0;
    if (status == BT_OK) status = write_segment(&s, step, aliases, given, text);
    bti_str_free(&draft);
    bti_free(all.of);
    return status;
}
