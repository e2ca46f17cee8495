/* Loops and branches. What a loop's regions read from outside is carried along, unchanged. */
#include "base/alloc.h"
#include "base/error.h"
#include "ir/region.h"
#include "render/stablehlo/writer.h"

/* The outputs of a region whose inputs have these values. */
static void write_region(bti_hlo *w, const bti_region *region, const bti_hlo_value *inputs, bti_hlo_value *outputs) {
    for (int i = 0; i < region->input_count; i++) bti_hlo_set(w, region->inputs[i], 1, &inputs[i]);
    w->write_nodes(w, region->nodes, region->node_count);
    for (int i = 0; i < region->output_count && w->status == BT_OK; i++) outputs[i] = bti_hlo_of(w, region->outputs[i]);
}

static bti_hlo_value counter_at(bti_hlo *w, int64_t number) {
    return bti_hlo_number(w, bti_hlo_scalar(BT_I64), (double)number);
}

/* What a loop goes on with: a counter, then these; the arguments of its regions are new for each. */
typedef struct loop_state {
    bti_hlo_value *begins, *here, *next;
    int count;
} loop_state;

static bool make_state(bti_hlo *w, loop_state *state, int count) {
    bti_hlo_value *all = bti_alloc(3 * (size_t)count * sizeof *all);
    *state = (loop_state){all, all + count, all + 2 * count, count};
    if (!all && w->status == BT_OK) w->status = bti_no_memory();
    return all;
}

static void enter_region(bti_hlo *w, loop_state *state) {
    for (int i = 0; i < state->count; i++) state->here[i].type = state->begins[i].type;
    bti_hlo_region(w, state->count, state->here);
}

static void leave_region(bti_hlo *w, loop_state *state) {
    state->next[0] = bti_hlo_binary(w, "add", state->here[0], counter_at(w, 1));
    bti_hlo_return(w, state->count, state->next);
}

static void close_loop(bti_hlo *w, loop_state *state, int id) {
    for (int i = 0; i < state->count; i++) state->here[i].type = state->begins[i].type;
    bti_hlo_end(w, state->count, state->begins, state->count, state->here, id);
}

/* --- scan -------------------------------------------------------------------------------------------------------------- */

static bti_hlo_value scanned_row(bti_hlo *w, bti_hlo_value rows, bti_hlo_value at) {
    bti_hlo_value inputs[1 + BTI_MAX_RANK] = {rows, at}, zero = counter_at(w, 0);
    bti_type type = rows.type;
    type.shape[0] = 1;
    for (int i = 1; i < type.rank; i++) inputs[1 + i] = zero;
    bti_hlo_attribute_list(w, "slice_sizes", type.shape, type.rank);
    bti_hlo_value row = bti_hlo_line(w, "dynamic_slice", type, 1 + type.rank, inputs);
    return bti_hlo_reshape(w, row, type.rank - 1, type.shape + 1);
}

static bti_hlo_value with_row(bti_hlo *w, bti_hlo_value rows, bti_hlo_value row, bti_hlo_value at) {
    bti_hlo_value inputs[2 + BTI_MAX_RANK] = {rows}, zero = counter_at(w, 0);
    int64_t shape[BTI_MAX_RANK] = {1};
    for (int i = 1; i < rows.type.rank; i++) shape[i] = rows.type.shape[i];
    inputs[1] = bti_hlo_reshape(w, row, rows.type.rank, shape);
    for (int i = 0; i < rows.type.rank; i++) inputs[2 + i] = i ? zero : at;
    return bti_hlo_line(w, "dynamic_update_slice", rows.type, 2 + rows.type.rank, inputs);
}

/* How many steps there are, less so many: it is carried on behind all else where the attributes do not say it. */
static bti_hlo_value count_steps(bti_hlo *w, const bti_node *node, const loop_state *state, bool given, int64_t less) {
    if (!given) return counter_at(w, node->attr->scan.length - less);
    bti_hlo_value steps = state->here[state->count - 1];
    return less ? bti_hlo_binary(w, "subtract", steps, counter_at(w, less)) : steps;
}

/* State: the counter, what is carried, rows that are made, then what is given by rows and whole. */
static void scan_step(bti_hlo *w, const bti_node *node, loop_state *state, bool given, bti_hlo_value *inputs,
                      bti_hlo_value *outputs) {
    const bti_region *region = atomic_load(&node->tuple->regions[0]);
    int carried = node->attr->scan.carried, by_row = node->attr->scan.by_row, made = region->output_count - carried;
    bti_hlo_value at = state->here[0];
    if (node->attr->scan.reverse) at = bti_hlo_binary(w, "subtract", count_steps(w, node, state, given, 1), at);
    for (int i = 0; i < node->input_count; i++) {
        inputs[i] = state->here[1 + (i < carried ? i : i + made)];
        if (i >= carried && i < carried + by_row) inputs[i] = scanned_row(w, inputs[i], at);
    }
    write_region(w, region, inputs, outputs);
    for (int i = 1; i < state->count; i++) state->next[i] = state->here[i];
    for (int i = 0; i < carried; i++) state->next[1 + i] = outputs[i];
    for (int i = 0; i < made; i++)
        state->next[1 + carried + i] = with_row(w, state->here[1 + carried + i], outputs[carried + i], at);
}

static void write_scan(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    const bti_region *region = atomic_load(&node->tuple->regions[0]);
    int carried = node->attr->scan.carried, made = region->output_count - carried;
    const bti_hlo_value *steps = w->steps;
    loop_state state;
    w->steps = NULL; /* of this loop, not of those within */
    if (!make_state(w, &state, 1 + node->input_count + made + (steps != NULL))) return;
    bti_hlo_value *room = bti_alloc((size_t)(node->input_count + region->output_count + 1) * sizeof *room);
    if (!room && w->status == BT_OK) w->status = bti_no_memory();
    if (room) {
        state.begins[0] = counter_at(w, 0);
        for (int i = 0; i < node->input_count; i++) state.begins[1 + (i < carried ? i : i + made)] = in[i];
        if (steps) state.begins[state.count - 1] = *steps;
        for (int i = 0; i < made; i++) {
            bti_type rows = *bti_tuple_type(node->tuple, carried + i);
            rows.shape[0] = node->attr->scan.length;
            state.begins[1 + carried + i] = bti_hlo_number(w, rows, 0);
        }
        if (node->attr->scan.length > 0) {
            int id = bti_hlo_begin(w, "while", state.count, state.count, state.begins);
            enter_region(w, &state);
            bti_hlo_value more = bti_hlo_compare(w, "LT", state.here[0], count_steps(w, node, &state, steps, 0));
            bti_hlo_return(w, 1, &more);
            enter_region(w, &state);
            scan_step(w, node, &state, steps, room, room + node->input_count);
            leave_region(w, &state);
            close_loop(w, &state, id);
            bti_hlo_set(w, node, region->output_count, state.here + 1);
        } else
            bti_hlo_set(w, node, region->output_count, state.begins + 1);
    }
    bti_free(room);
    bti_free(state.begins);
}

/* --- while, cond ------------------------------------------------------------------------------------------------------- */

static void write_while(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    const bti_region *test = atomic_load(&node->tuple->regions[0]), *body = atomic_load(&node->tuple->regions[1]);
    loop_state state;
    if (!make_state(w, &state, 1 + node->input_count)) return;
    bti_hlo_value more;
    state.begins[0] = counter_at(w, 0);
    for (int i = 0; i < node->input_count; i++) state.begins[1 + i] = in[i];
    int id = bti_hlo_begin(w, "while", state.count, state.count, state.begins);
    enter_region(w, &state);
    write_region(w, test, state.here + 1, &more);
    if (more.type.rank) more = bti_hlo_reshape(w, more, 0, NULL);
    if (node->attr->loop.most)
        more = bti_hlo_binary(w, "and", more,
                              bti_hlo_compare(w, "LT", state.here[0], counter_at(w, node->attr->loop.most)));
    bti_hlo_return(w, 1, &more);
    enter_region(w, &state);
    for (int i = 1; i < state.count; i++) state.next[i] = state.here[i];
    write_region(w, body, state.here + 1, state.next + 1);
    leave_region(w, &state);
    close_loop(w, &state, id);
    bti_hlo_set(w, node, (int)node->attr->loop.carried, state.here + 1);
    bti_free(state.begins);
}

static void write_cond(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    int count = atomic_load(&node->tuple->result_count);
    bti_hlo_value *made = bti_alloc((size_t)(count + 1) * sizeof *made);
    bti_hlo_value condition = in[0].type.rank ? bti_hlo_reshape(w, in[0], 0, NULL) : in[0];
    if (!made) {
        if (w->status == BT_OK) w->status = bti_no_memory();
        return;
    }
    int id = bti_hlo_begin(w, "if", count, 1, &condition);
    for (int i = 0; i < 2; i++) {
        bti_hlo_region(w, 0, NULL);
        write_region(w, atomic_load(&node->tuple->regions[i]), in + 1, made);
        bti_hlo_return(w, count, made);
    }
    for (int i = 0; i < count; i++) made[i].type = *bti_tuple_type(node->tuple, i);
    bti_hlo_end(w, 1, &condition, count, made, id);
    bti_hlo_set(w, node, count, made);
    bti_free(made);
}

void bti_hlo_control(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    switch (node->op) {
    case BTI_OP_scan: write_scan(w, node, in); break;
    case BTI_OP_while: write_while(w, node, in); break;
    default: write_cond(w, node, in);
    }
}
