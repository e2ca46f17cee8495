#include "render/stablehlo.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ir/attention.h"
#include "ir/dtype.h"
#include "render/stablehlo/writer.h"

/* --- data -------------------------------------------------------------------------------------------------------------- */

/* Booleans are written as bytes, since MLIR packs their bits. */
bti_hlo_value bti_hlo_data(bti_hlo *w, bti_type type, const void *elements) {
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

bti_hlo_value bti_hlo_constant(bti_hlo *w, bti_type type, uint64_t bits) {
    union {
        uint64_t bits;
        double number;
    } as = {.bits = bits};
    return bti_dtype_is_float(type.dtype) ? bti_hlo_number(w, type, as.number) : bti_hlo_bits(w, type, bits);
}

static bti_hlo_value write_source(bti_hlo *w, const bti_node *node) {
    bti_type type = bti_type_of(node);
    switch (node->op) {
    case BTI_OP_const: return bti_hlo_constant(w, type, node->attr->constant.bits);
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

void bti_hlo_node(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
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

void bti_hlo_nodes(bti_hlo *w, bti_node *const *nodes, int count) {
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
        if (w->status == BT_OK) bti_hlo_node(w, node, in);
        if (in != few) bti_free(in);
    }
}

/* --- the module -------------------------------------------------------------------------------------------------------- */

void bti_hlo_begin_module(bti_hlo *w, const char *name) {
    bti_str_addf(&w->text, "module @%s {\n  func.func public @main(", name);
    w->depth = 2;
}

void bti_hlo_argument(bti_hlo *w, bool first, bti_hlo_value argument, int alias) {
    bti_str_addf(&w->text, "%s%%%d: ", first ? "" : ", ", argument.id);
    bti_hlo_add_type(&w->text, &argument.type);
    if (alias >= 0) bti_str_addf(&w->text, " {tf.aliasing_output = %d : i32}", alias);
}

void bti_hlo_result_type(bti_hlo *w, bool first, bti_type type) {
    bti_str_add(&w->text, first ? "" : ", ");
    bti_hlo_add_type(&w->text, &type);
}

void bti_hlo_result(bti_hlo *w, bool first, bti_hlo_value result) {
    bti_str_add(&w->text, first ? "    \"func.return\"(" : ", ");
    bti_hlo_add_value(&w->text, result);
}

/* The text is finished, or given up. */
bt_status bti_hlo_end_module(bti_hlo *w, bti_str *text) {
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
        bti_hlo_argument(w, !i, argument, graph->aliases ? graph->aliases[i] : -1);
        bti_hlo_set(w, graph->inputs[i], 1, &argument);
    }
}

static void write_output_types(bti_hlo *w, const bti_hlo_graph *graph) {
    for (int i = 0; i < graph->output_count; i++) bti_hlo_result_type(w, !i, bti_type_of(graph->outputs[i]));
}

bt_status bti_stablehlo_text(const bti_hlo_graph *graph, bti_str *text) {
    bti_hlo w = {.highest = graph->highest, .write_nodes = bti_hlo_nodes};
    bti_hlo_begin_module(&w, graph->name);
    write_arguments(&w, graph);
    bti_str_add(&w.text, ") -> (");
    write_output_types(&w, graph);
    bti_str_add(&w.text, ") {\n");
    for (int i = 0; i < graph->constant_count; i++) {
        bti_hlo_value made = bti_hlo_data(&w, bti_type_of(graph->constants[i]), graph->data[i]);
        bti_hlo_set(&w, graph->constants[i], 1, &made);
    }
    bti_hlo_nodes(&w, graph->nodes, graph->node_count);
    for (int i = 0; i < graph->output_count; i++) bti_hlo_result(&w, !i, bti_hlo_of(&w, graph->outputs[i]));
    bti_str_add(&w.text, ") : (");
    write_output_types(&w, graph);
    return bti_hlo_end_module(&w, text);
}
