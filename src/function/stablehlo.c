#include "function/stablehlo.h"

#include "array/eval.h"
#include "base/alloc.h"
#include "base/flags.h"
#include "base/quote.h"
#include "function/body.h"
#include "function/versions.h"
#include "ir/region.h"
#include "ir/walk.h"
#include "render/stablehlo.h"

/* What is written: the body once more, on leaves for what is given. */
typedef struct module {
    const bt_function *function;
    bti_body_call call;
    BTI_VEC(bti_node *) given;      /* leaves: of inputs, then of variables; retained */
    BTI_VEC(bt_shared *) variables; /* of the leaves behind the inputs; borrowed */
    BTI_VEC(int) replicas;          /* which of theirs */
    BTI_VEC(bti_node *) kept;       /* all of the next two; retained */
    BTI_VEC(bti_node *) nodes;      /* in the order of recording */
    BTI_VEC(bti_node *) constants;  /* computed */
    BTI_VEC(void *) data;           /* of constants */
    BTI_VEC(bti_node *) outputs;    /* outputs, then updates; borrowed */
    BTI_VEC(int) aliases;           /* by leaf */
} module;

static bt_status refuse_unknown_size(int input) {
    return bti_fail(BT_FAILED_PRECONDITION,
                    "input %d has sizes that are not known, and a StableHLO module has a number for each; make the "
                    "function with bt_input "
                    "of known sizes",
                    input);
}

static bt_status add_leaf(module *m, const bti_node *like) {
    bti_type type = bti_type_of(like);
    bti_node *leaf = bti_region_leaf(&type, like->device, like->place);
    if (!leaf || !bti_vec_push(&m->given, leaf)) {
        bti_node_release(leaf);
        return bti_no_memory();
    }
    return BT_OK;
}

/* The number of the variable's leaf, which is made when it is met first. */
static bt_status variable_leaf(module *m, size_t read, const bti_node *value, bti_node **leaf) {
    const bt_function *f = m->function;
    for (size_t i = 0; i < m->variables.count; i++)
        if (m->variables.items[i] == f->read.items[read] && m->replicas.items[i] == f->replicas.items[read]) {
            *leaf = m->given.items[(size_t)f->input_count + i];
            return BT_OK;
        }
    BTI_TRY(add_leaf(m, value));
    *leaf = m->given.items[m->given.count - 1];
    bool room = bti_vec_push(&m->variables, f->read.items[read]) && bti_vec_push(&m->replicas, f->replicas.items[read]);
    return room ? BT_OK : bti_no_memory();
}

/* The body on the leaves, with numbers for all sizes. */
static bt_status record_body(module *m) {
    const bt_function *f = m->function;
    BTI_TRY(bti_call_begin_recording(&m->call));
    for (int i = 0; i < f->input_count; i++) {
        for (int d = 0; d < f->inputs[i]->rank; d++)
            if (bti_size_is_symbolic(f->inputs[i]->shape[d])) return refuse_unknown_size(i);
        BTI_TRY(add_leaf(m, f->inputs[i]));
        BTI_TRY(bti_call_bind(&m->call, i, m->given.items[i]));
    }
    size_t count = 0;
    bti_node **values = bti_calloc(f->read.count + 1, sizeof *values);
    bt_status status = values ? BT_OK : bti_no_memory();
    for (size_t i = 0; i < f->body.count && status == BT_OK; i++) {
        if (f->body.items[i]->op != BTI_OP_value) continue;
        status = variable_leaf(m, count, f->body.items[i], &values[count]);
        count++;
    }
    if (status == BT_OK) {
        bti_call_set_values(&m->call, values);
        status = bti_call_body(&m->call);
    }
    bti_free(values);
    return status;
}

/* Of what stays the same in each call: whether every compiler makes the same bits of it. Results of tuples are read, as tuples have no elements. */
static bool keeps_bits(const bti_node *node) {
    bti_class class = bti_op_info((bti_op)node->op)->class;
    if (node->op == BTI_OP_result) return false;
    return class == BTI_MOVEMENT || node->op == BTI_OP_cast || !bti_dtype_has_gradient((bt_dtype)node->dtype);
}

/* Everything that a node is made of, itself too, unless it is known. What stays the same in each call is written as it was recorded, as long as that is known and no rounding is involved: numbers
 * repeated to an array stay numbers, and what is computed from them is computed here. In a walk. */
static bt_status add_node(module *m, bti_numbers *known, bti_node *wanted) {
    BTI_VEC(bti_node *) waiting = {0};
    bt_status status = bti_vec_push(&waiting, wanted) ? BT_OK : bti_no_memory();
    while (waiting.count && status == BT_OK) {
        bool met;
        bti_node *node = waiting.items[--waiting.count];
        if (!bti_number_meet(known, node, &met)) status = bti_no_memory();
        if (met || status != BT_OK) continue;
        if (!bti_vec_push(&m->kept, node)) {
            status = bti_no_memory();
            break;
        }
        bti_node_retain(node);
        int inputs = atomic_load(&node->state) == BTI_PENDING ? atomic_load(&node->input_count) : 0;
        bool is_written = inputs ? node->symbolic || keeps_bits(node)
                                 : bti_op_info((bti_op)node->op)->class == BTI_SOURCE && node->op != BTI_OP_leaf;
        if (!is_written) inputs = 0;
        if (is_written ? !bti_vec_push(&m->nodes, node) : !bti_vec_push(&m->constants, node)) status = bti_no_memory();
        for (int i = 0; i < inputs && status == BT_OK; i++)
            if (!bti_vec_push(&waiting, node->inputs[i])) status = bti_no_memory();
    }
    bti_vec_free(&waiting);
    return status;
}

static bt_status add_output(module *m, bti_numbers *known, bti_node *node) {
    bti_node *stand_in = bti_call_stand_in(&m->call, node);
    BTI_TRY(add_node(m, known, stand_in));
    return bti_vec_push(&m->outputs, stand_in) ? BT_OK : bti_no_memory();
}

static bt_status list_nodes(module *m, bti_numbers *known) {
    const bt_function *f = m->function;
    for (size_t i = 0; i < m->given.count; i++)
        if (!bti_number_put(known, m->given.items[i], 0)) return bti_no_memory();
    for (int o = 0; o < f->output_count; o++) BTI_TRY(add_output(m, known, f->outputs[o]));
    for (int u = 0; u < f->update_count; u++) BTI_TRY(add_output(m, known, f->updates[u]));
    bti_nodes_sort(m->nodes.items, m->nodes.count);
    return BT_OK;
}

/* The elements of constants. */
static bt_status read_constants(module *m) {
    for (size_t i = 0; i < m->constants.count; i++) {
        bti_node *node = m->constants.items[i];
        void *data = bti_alloc((size_t)bti_node_bytes(node) + 1);
        if (!data || !bti_vec_push(&m->data, data)) {
            bti_free(data);
            return bti_no_memory();
        }
        BTI_TRY(bti_block_node(node));
        BTI_TRY(bti_read_node(node, data));
    }
    return BT_OK;
}

static bool is_aliased(const module *m, int output) {
    for (size_t i = 0; i < m->aliases.count; i++)
        if (m->aliases.items[i] == output) return true;
    return false;
}

/* A variable's new value may lie where its old one lay. */
static bt_status find_aliases(module *m) {
    const bt_function *f = m->function;
    for (int i = 0; i < f->input_count; i++)
        if (!bti_vec_push(&m->aliases, -1)) return bti_no_memory();
    for (size_t i = 0; i < m->variables.count; i++) {
        int alias = -1;
        for (int u = 0; u < f->update_count && alias < 0; u++)
            if (f->updated[u] == m->variables.items[i] && !is_aliased(m, f->output_count + u))
                alias = f->output_count + u;
        if (!bti_vec_push(&m->aliases, alias)) return bti_no_memory();
    }
    return BT_OK;
}

/* --- the text ---------------------------------------------------------------------------------------------------------- */

static void add_line(bti_str *text, const char *kind, size_t number, const char *what, const bt_shared *variable,
                     const bti_node *node) {
    bti_str_addf(text, "// %s %zu: %s", kind, number, what);
    if (variable) bti_str_addf(text, " \"%s\"", bti_quote(bt_shared_name(variable)).text);
    bti_str_addf(text, ", %s ", bt_dtype_name((bt_dtype)node->dtype));
    bti_shape_text(text, node->rank, node->shape);
    bti_str_add(text, "\n");
}

static void add_comments(const module *m, bti_str *text) {
    const bt_function *f = m->function;
    bti_str_add(text, "// Written by berth.\n");
    for (size_t i = 0; i < m->given.count; i++) {
        bool given = i < (size_t)f->input_count;
        add_line(text, "argument", i, given ? "input" : "variable",
                 given ? NULL : m->variables.items[i - (size_t)f->input_count], m->given.items[i]);
    }
    for (size_t i = 0; i < m->outputs.count; i++) {
        bool output = i < (size_t)f->output_count;
        add_line(text, "result", i, output ? "output" : "variable",
                 output ? NULL : f->updated[i - (size_t)f->output_count], m->outputs.items[i]);
    }
}

static bt_status write_module(const module *m, bti_str *text) {
    const bti_hlo_graph graph = {.name = "berth",
                                 .inputs = m->given.items,
                                 .aliases = m->aliases.items,
                                 .input_count = (int)m->given.count,
                                 .constants = m->constants.items,
                                 .data = (const void *const *)m->data.items,
                                 .constant_count = (int)m->constants.count,
                                 .nodes = m->nodes.items,
                                 .node_count = (int)m->nodes.count,
                                 .outputs = m->outputs.items,
                                 .output_count = (int)m->outputs.count,
                                 .highest = bti_flag_choice(BTI_FLAG_matmul_precision) == BTI_MATMUL_HIGHEST};
    add_comments(m, text);
    return bti_stablehlo_text(&graph, text);
}

bt_status bti_function_stablehlo(const bt_function *function, bti_str *text) {
    module m = {.function = function, .call = {.function = function}};
    bti_numbers known = {0};
    bt_status status = record_body(&m);
    int walk = bti_walk_begin();
    if (status == BT_OK) status = list_nodes(&m, &known);
    bti_walk_end(walk);
    if (status == BT_OK) status = read_constants(&m);
    if (status == BT_OK) status = find_aliases(&m);
    if (status == BT_OK) status = write_module(&m, text);
    bti_call_end_recording(&m.call);
    for (size_t i = 0; i < m.given.count; i++) bti_node_release(m.given.items[i]);
    for (size_t i = 0; i < m.kept.count; i++) bti_node_release(m.kept.items[i]);
    for (size_t i = 0; i < m.data.count; i++) bti_free(m.data.items[i]);
    bti_vec_free(&m.given);
    bti_vec_free(&m.variables);
    bti_vec_free(&m.replicas);
    bti_vec_free(&m.kept);
    bti_vec_free(&m.nodes);
    bti_vec_free(&m.constants);
    bti_vec_free(&m.data);
    bti_vec_free(&m.outputs);
    bti_vec_free(&m.aliases);
    bti_numbers_free(&known);
    return status;
}
