#include "render/stablehlo.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ir/attention.h"
#include "ir/dtype.h"
#include "render/stablehlo/writer.h"

/* --- data -------------------------------------------------------------------------------------------------------------- */

/* Booleans are written as bytes, since MLIR packs their bits. */
static bti_hlo_value write_data(bti_hlo *w, bti_type type, const void *elements) {
    static const char digits[] = "0123456789ABCDEF";
    bti_type kept = type.dtype == BT_BOOL ? bti_hlo_like(&type, BT_U8) : type;
    bti_hlo_value made = {w->next++, -1, kept};
    size_t bytes = bt_dtype_size(type.dtype);
    for (int i = 0; i < type.rank; i++) bytes *= (size_t)type.shape[i];
    size_t size = bt_dtype_size(type.dtype);
    if (bytes > size && !memcmp(elements, (const char *)elements + size, bytes - size))
        bytes = size; /* all are equal: one is written */
    bti_hlo_indent(w);
    bti_str_addf(&w->text, "%%%d = \"stablehlo.constant\"() {value = dense<\"0x", made.id);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = ((const unsigned char *)elements)[i];
        bti_str_add_bytes(&w->text, (char[]){digits[byte >> 4], digits[byte & 15]}, 2);
    }
    bti_str_add(&w->text, "\"> : ");
    bti_hlo_add_type(&w->text, &kept);
    bti_str_add(&w->text, "} : () -> ");
    bti_hlo_add_type(&w->text, &kept);
    bti_str_add(&w->text, "\n");
    return bti_hlo_cast(w, made, type.dtype);
}

/* --- nodes ------------------------------------------------------------------------------------------------------------- */

static bti_hlo_value write_constant(bti_hlo *w, bti_type type, uint64_t bits) {
    union {
        uint64_t bits;
        double number;
    } as = {.bits = bits};
    return bti_dtype_is_float(type.dtype) ? bti_hlo_number(w, type, as.number) : bti_hlo_bits(w, type, bits);
}

static bti_hlo_value write_source(bti_hlo *w, const bti_node *node) {
    bti_type type = bti_type_of(node);
    switch (node->op) {
    case BTI_OP_const: return write_constant(w, type, node->attr->constant.bits);
    case BTI_OP_size: return bti_hlo_bits(w, type, (uint64_t)node->attr->size.size);
    case BTI_OP_iota: return bti_hlo_iota(w, type, 0);
    default: bti_hlo_refuse(w, node, "its elements are not there"); return (bti_hlo_value){0, -1, type};
    }
}

static bti_hlo_value result_of(bti_hlo *w, const bti_node *node) {
    int64_t at = bti_number_of(&w->numbers, node->inputs[0]);
    if (at < 0) return bti_hlo_of(w, node->inputs[0]);
    return w->values.items[at + node->attr->result.index];
}

/* Operations that do something beside computing. */
static bti_hlo_value write_effect(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    switch (node->op) {
    case BTI_OP_result: return result_of(w, node);
    case BTI_OP_copy:
    case BTI_OP_call:
    case BTI_OP_stop: return in[0];
    case BTI_OP_barrier: {
        bti_hlo_value made[2] = {in[0], in[1]};
        int id = bti_hlo_begin(w, "optimization_barrier", 2, 2, in);
        bti_hlo_end(w, 2, in, 2, made, id);
        return made[0];
    }
    default: bti_hlo_refuse(w, node, "it is a variable's value, which is not among the inputs"); return in[0];
    }
}

static bti_hlo_value write_one(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    switch (bti_op_info((bti_op)node->op)->class) {
    case BTI_SOURCE: return write_source(w, node);
    case BTI_ELEMENTWISE: return bti_hlo_elementwise(w, node, in);
    case BTI_REDUCE: return bti_hlo_fold(w, node, in[0]);
    case BTI_SCAN: return bti_hlo_running(w, node, in[0]);
    case BTI_MOVEMENT: return bti_hlo_move(w, node, in[0]);
    case BTI_GATHER: return bti_hlo_gather(w, node, in);
    case BTI_EFFECT: return write_effect(w, node, in);
    default:
        if (node->op == BTI_OP_matmul) return bti_hlo_product(w, in[0], in[1], bti_type_of(node));
        return bti_hlo_conv(w, node, in);
    }
}

static void write_node(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    switch (bti_op_info((bti_op)node->op)->class) {
    case BTI_CONTROL: bti_hlo_control(w, node, in); return;
    case BTI_ORDER: bti_hlo_order(w, node, in[0]); return;
    case BTI_HOST:
        if (!bti_hlo_library(w, node, in)) bti_hlo_refuse(w, node, "the host computes it");
        return;
    case BTI_COLLECTIVE: bti_hlo_refuse(w, node, "it works on several devices"); return;
    default: break;
    }
    if (bti_op_is_attention((bti_op)node->op)) {
        bti_hlo_attention(w, node, in);
        return;
    }
    bti_hlo_value made = write_one(w, node, in);
    bti_hlo_set(w, node, 1, &made);
}

static void write_nodes(bti_hlo *w, bti_node *const *nodes, int count) {
    for (int i = 0; i < count && w->status == BT_OK; i++) {
        const bti_node *node = nodes[i];
        int inputs = atomic_load(&node->input_count);
        bti_hlo_value few[8], *in = inputs <= 8 ? few : bti_alloc((size_t)inputs * sizeof *in);
        if (!in) {
            w->status = bti_no_memory();
            return;
        }
        bool by_name = node->op != BTI_OP_result; /* of a tuple, which has no value itself */
        for (int k = 0; k < inputs && by_name; k++) in[k] = bti_hlo_of(w, node->inputs[k]);
        if (w->status == BT_OK) write_node(w, node, in);
        if (in != few) bti_free(in);
    }
}

/* --- the module -------------------------------------------------------------------------------------------------------- */

static void begin_module(bti_hlo *w, const char *name) {
    bti_str_addf(&w->text, "module @%s {\n  func.func public @main(", name);
    w->depth = 2;
}

static void add_argument(bti_hlo *w, bool first, bti_hlo_value argument, int alias) {
    bti_str_addf(&w->text, "%s%%%d: ", first ? "" : ", ", argument.id);
    bti_hlo_add_type(&w->text, &argument.type);
    if (alias >= 0) bti_str_addf(&w->text, " {tf.aliasing_output = %d : i32}", alias);
}

static void add_result_type(bti_hlo *w, bool first, bti_type type) {
    bti_str_add(&w->text, first ? "" : ", ");
    bti_hlo_add_type(&w->text, &type);
}

static void add_result(bti_hlo *w, bool first, bti_hlo_value result) {
    bti_str_add(&w->text, first ? "    \"func.return\"(" : ", ");
    bti_hlo_add_value(&w->text, result);
}

/* The text is finished, or given up. */
static bt_status end_module(bti_hlo *w, bti_str *text) {
    bti_str_add(&w->text, ") -> ()\n  }\n}\n");
    if (w->status == BT_OK && w->text.failed) w->status = bti_no_memory();
    if (w->status == BT_OK) bti_str_add_bytes(text, w->text.text, w->text.length);
    bti_str_free(&w->text);
    bti_str_free(&w->attributes);
    bti_vec_free(&w->values);
    bti_numbers_free(&w->numbers);
    return w->status;
}

static void write_arguments(bti_hlo *w, const bti_hlo_graph *graph) {
    for (int i = 0; i < graph->input_count; i++) {
        bti_hlo_value argument = {w->next++, -1, bti_type_of(graph->inputs[i])};
        add_argument(w, !i, argument, graph->aliases ? graph->aliases[i] : -1);
        bti_hlo_set(w, graph->inputs[i], 1, &argument);
    }
}

static void write_output_types(bti_hlo *w, const bti_hlo_graph *graph) {
    for (int i = 0; i < graph->output_count; i++) add_result_type(w, !i, bti_type_of(graph->outputs[i]));
}

bt_status bti_stablehlo_text(const bti_hlo_graph *graph, bti_str *text) {
    bti_hlo w = {.highest = graph->highest, .write_nodes = write_nodes};
    begin_module(&w, graph->name);
    write_arguments(&w, graph);
    bti_str_add(&w.text, ") -> (");
    write_output_types(&w, graph);
    bti_str_add(&w.text, ") {\n");
    for (int i = 0; i < graph->constant_count; i++) {
        bti_hlo_value made = write_data(&w, bti_type_of(graph->constants[i]), graph->data[i]);
        bti_hlo_set(&w, graph->constants[i], 1, &made);
    }
    write_nodes(&w, graph->nodes, graph->node_count);
    for (int i = 0; i < graph->output_count; i++) add_result(&w, !i, bti_hlo_of(&w, graph->outputs[i]));
    bti_str_add(&w.text, ") : (");
    write_output_types(&w, graph);
    return end_module(&w, text);
}

/* --- a segment of a plan ------------------------------------------------------------------------------------------------- */

typedef struct segment {
    bti_hlo w;
    const bti_plan *plan;
    bti_hlo_value *of; /* by storage */
} segment;

static bti_type type_of_value(const bti_value *value) {
    bti_type type = {.dtype = value->dtype, .rank = value->rank};
    memcpy(type.shape, value->shape, sizeof type.shape);
    return type;
}

static bti_hlo_value *value_of_operand(segment *s, const bti_step *step, int operand) {
    return &s->of[bti_plan_operand(s->plan, step, operand)->storage];
}

/* An array without elements, which nobody has made. */
static void write_empty(segment *s, const bti_step *step, int input) {
    const bti_value *value = bti_plan_operand(s->plan, step, input);
    if (s->of[value->storage].type.rank >= 0) return;
    s->of[value->storage] = bti_hlo_number(&s->w, type_of_value(value), 0);
}

static void write_step(segment *s, const bti_step *step) {
    bti_hlo *w = &s->w;
    bti_hlo_value few[8], *in = step->input_count <= 8 ? few : bti_alloc((size_t)step->input_count * sizeof *in);
    if (!in) {
        w->status = bti_no_memory();
        return;
    }
    for (int i = 0; i < step->input_count; i++) {
        write_empty(s, step, i);
        in[i] = *value_of_operand(s, step, i);
    }
    if (step->op == BTI_OP_const)
        *value_of_operand(s, step, 0) = write_constant(w, type_of_value(bti_plan_output(s->plan, step, 0)),
                                                       s->plan->scalars.items[step->first_scalar]);
    else {
        write_node(w, step->node, in);
        int64_t at = bti_number_of(&w->numbers, step->node);
        for (int o = 0; o < step->output_count && at >= 0; o++)
            *value_of_operand(s, step, step->input_count + o) = w->values.items[at + o];
    }
    if (in != few) bti_free(in);
}

bt_status bti_stablehlo_segment(const bti_plan *plan, const bti_step *step, const int *aliases, bool highest,
                                bti_str *text) {
    segment s = {.w = {.highest = highest, .write_nodes = write_nodes}, .plan = plan};
    bti_hlo *w = &s.w;
    s.of = bti_alloc((plan->storages.count + 1) * sizeof *s.of);
    if (!s.of) return bti_no_memory();
    for (size_t i = 0; i < plan->storages.count; i++) s.of[i].type.rank = -1;
    begin_module(w, "berth");
    for (int i = 0; i < step->input_count; i++) {
        bti_hlo_value argument = {w->next++, -1, type_of_value(bti_plan_operand(plan, step, i))};
        add_argument(w, !i, argument, aliases[i]);
        *value_of_operand(&s, step, i) = argument;
    }
    bti_str_add(&w->text, ") -> (");
    for (int o = 0; o < step->output_count; o++) add_result_type(w, !o, type_of_value(bti_plan_output(plan, step, o)));
    bti_str_add(&w->text, ") {\n");
    for (int i = 0; i < step->inner_count && w->status == BT_OK; i++)
        write_step(&s, &plan->inner.items[step->first_inner + i]);
    for (int o = 0; o < step->output_count; o++) add_result(w, !o, *value_of_operand(&s, step, step->input_count + o));
    bti_str_add(&w->text, ") : (");
    for (int o = 0; o < step->output_count; o++) add_result_type(w, !o, type_of_value(bti_plan_output(plan, step, o)));
    bti_free(s.of);
    return end_module(w, text);
}
