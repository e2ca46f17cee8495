/* Which unit computes what.
 *
 * Forward, a node's stage is that of its inputs, one more where it is on another device; backward, one less. What depends on no row of x (parameters, labels, random
 * bits) has no stage: each unit that reads it computes it. What another stage reads stays in memory. Of what the backward pass of the same stage reads, views and
 * what comes elementwise of other arrays that stay are computed again instead, as in a plan of the whole batch (docs/decisions/0048): a layer leaves one array, whether its
 * slope is had from its output (tanh) or from its input (gelu). */
#include "dist/pipeline_units.h"

#include "array/graph.h"
#include "base/alloc.h"
#include "base/error.h"
#include "ir/walk.h"

enum { NO_STAGE = -1 };

typedef struct place {
    int stage;
    bool backward;
    bool read_back; /* by the backward pass of its stage */
    bool left;      /* it stays in memory for other units */
    bool there;     /* for the backward pass of its stage: left, or computed again of what is */
} place;

typedef struct cutter {
    const bti_micro_batch *of;
    BTI_VEC(bti_node *) nodes; /* that were recorded and are not computed, in order; borrowed */
    bti_numbers numbers;       /* their places in the list, then among `places` */
    place *places;
    int stages;
} cutter;

static int64_t number_in(const cutter *c, const bti_node *node) { return bti_number_of(&c->numbers, node); }

/* --- what there is -------------------------------------------------------------------------------------------------------- */

static bool collect_node(cutter *c, bti_node *node) {
    bool met = !bti_node_is_since(node, &c->of->begun) || atomic_load(&node->state) != BTI_PENDING;
    if (met || number_in(c, node) >= 0) return true;
    return bti_number_put(&c->numbers, node, 0) && bti_vec_push(&c->nodes, node);
}

static bt_status collect(cutter *c) {
    for (int r = 0; r < c->of->result_count; r++)
        if (!collect_node(c, bti_node_of(c->of->results[r]))) return bti_no_memory();
    for (size_t n = 0; n < c->nodes.count; n++)
        for (int i = 0; i < c->nodes.items[n]->input_count; i++)
            if (!collect_node(c, c->nodes.items[n]->inputs[i])) return bti_no_memory();
    bti_nodes_sort(c->nodes.items, c->nodes.count);
    for (size_t n = 0; n < c->nodes.count; n++)
        if (!bti_number_put(&c->numbers, c->nodes.items[n], (int64_t)n)) return bti_no_memory();
    c->places = bti_calloc(c->nodes.count + 1, sizeof *c->places);
    return c->places ? BT_OK : bti_no_memory();
}

/* --- stages --------------------------------------------------------------------------------------------------------------- */

static int forward_stage(const cutter *c, const bti_node *node) {
    int stage = NO_STAGE;
    for (int i = 0; i < node->input_count; i++) {
        const bti_node *input = node->inputs[i];
        int64_t number = number_in(c, input);
        int from = number >= 0 ? c->places[number].stage : NO_STAGE;
        if (from != NO_STAGE) from += input->device != node->device;
        if (input == c->of->input) from = 0;
        if (from > stage) stage = from;
    }
    return stage;
}

/* Of what reads the forward pass alone, that stage. */
static int backward_stage(const cutter *c, const bti_node *node) {
    int stage = NO_STAGE, forward = NO_STAGE;
    for (int i = 0; i < node->input_count; i++) {
        const bti_node *input = node->inputs[i];
        int64_t number = number_in(c, input);
        if (number < 0 || c->places[number].stage == NO_STAGE) continue;
        int from = c->places[number].stage;
        if (!c->places[number].backward) {
            if (from > forward) forward = from;
            continue;
        }
        if (from && input->device != node->device) from--;
        if (stage == NO_STAGE || from < stage) stage = from;
    }
    return stage == NO_STAGE ? forward : stage;
}

/* A result that the backward pass asked for later is computed with the others. */
static bool is_of_tuple(const cutter *c, const bti_node *node) {
    return node->op == BTI_OP_result && number_in(c, node->inputs[0]) >= 0;
}

static void find_stages(cutter *c, int stages) {
    int most = 0;
    for (size_t n = 0; n < c->nodes.count; n++) {
        const bti_node *node = c->nodes.items[n];
        place *own = &c->places[n];
        own->backward = bti_node_is_since(node, &c->of->turned);
        if (is_of_tuple(c, node)) {
            own->backward = c->places[number_in(c, node->inputs[0])].backward;
            own->stage = c->places[number_in(c, node->inputs[0])].stage;
            continue;
        }
        own->stage = own->backward ? backward_stage(c, node) : forward_stage(c, node);
        if (stages && own->stage >= stages) own->stage = stages - 1;
        if (own->stage > most) most = own->stage;
    }
    c->stages = stages ? stages : most + 1;
}

/* The units by number: forward through the stages, then backward. -1: none. */
static int unit_of(const cutter *c, const place *p) {
    if (p->stage == NO_STAGE) return -1;
    return p->backward ? 2 * (c->stages - 1) - p->stage : p->stage;
}

/* --- what units leave ------------------------------------------------------------------------------------------------------ */

/* Whether the backward pass of its stage has it from what is there for it anyway: it is a view of that, or comes elementwise of it. */
static bool is_had_again(const cutter *c, const bti_node *node) {
    bti_class class = bti_op_info((bti_op)node->op)->class;
    if (class != BTI_MOVEMENT && class != BTI_ELEMENTWISE) return false;
    for (int i = 0; i < node->input_count; i++) {
        int64_t number = number_in(c, node->inputs[i]);
        if (number < 0 || c->places[number].stage == NO_STAGE) continue;
        if (!c->places[number].there || node->inputs[i]->device != node->device) return false;
    }
    return true;
}

static void note_reader(const cutter *c, place *made, int reader) {
    int maker = unit_of(c, made);
    if (maker < 0 || reader < 0 || maker == reader) return;
    if (maker + reader == 2 * (c->stages - 1))
        made->read_back = true;
    else
        made->left = true;
}

static void find_what_is_left(cutter *c) {
    for (size_t n = 0; n < c->nodes.count; n++)
        for (int i = 0; i < c->nodes.items[n]->input_count; i++) {
            int64_t input = number_in(c, c->nodes.items[n]->inputs[i]);
            if (input >= 0) note_reader(c, &c->places[input], unit_of(c, &c->places[n]));
        }
    for (size_t n = 0; n < c->nodes.count; n++) {
        place *own = &c->places[n];
        bool again = !own->backward && own->stage != NO_STAGE && is_had_again(c, c->nodes.items[n]);
        if (own->read_back && !again) own->left = true;
        own->there = own->left || again;
    }
}

static bool leave_in_memory(bti_micro_units *units, int unit, bti_node *node) {
    if (!bti_vec_push(&units->units[unit], node)) return false;
    bti_node_retain(node);
    bti_history_end(node, "bt_train_step");
    return true;
}

static bt_status fill_units(cutter *c, bti_micro_units *units) {
    int last = 2 * (c->stages - 1);
    *units = (bti_micro_units){c->stages, bti_calloc((size_t)last + 1, sizeof *units->units)};
    if (!units->units) return bti_no_memory();
    for (int r = 0; r < c->of->result_count; r++) {
        int64_t number = number_in(c, bti_node_of(c->of->results[r]));
        if (number < 0) continue;
        place *p = &c->places[number];
        if (p->stage == NO_STAGE) *p = (place){.stage = 0, .backward = true};
        p->left = true;
    }
    for (size_t n = 0; n < c->nodes.count; n++)
        if (c->places[n].left && !leave_in_memory(units, unit_of(c, &c->places[n]), c->nodes.items[n]))
            return bti_no_memory();
    return BT_OK;
}

bt_status bti_units_cut(const bti_micro_batch *recorded, int stages, bti_micro_units *units) {
    cutter c = {.of = recorded};
    int walk = bti_walk_begin();
    bt_status status = collect(&c);
    if (status == BT_OK) {
        find_stages(&c, stages);
        find_what_is_left(&c);
        status = fill_units(&c, units);
    }
    bti_walk_end(walk);
    bti_vec_free(&c.nodes);
    bti_numbers_free(&c.numbers);
    bti_free(c.places);
    return status;
}

void bti_units_free(bti_micro_units *units) {
    for (int u = 0; units->units && u < 2 * units->stages - 1; u++) {
        for (size_t n = 0; n < units->units[u].count; n++) bti_node_release(units->units[u].items[n]);
        bti_vec_free(&units->units[u]);
    }
    bti_free(units->units);
    units->units = NULL;
}
