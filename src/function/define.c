/* Making functions: their inputs, and what each call is going to record. */
#include <string.h>

#include "array/place.h"
#include "array/record.h"
#include "function/body.h"
#include "function/origin.h"
#include "function/shared.h"
#include "function/updating.h"
#include "ir/region.h"
#include "ir/walk.h"

/* --- inputs ----------------------------------------------------------------------------------------------------------- */

bt_array *bti_input_on(bti_placement placement, bt_dtype dtype, int rank, const int64_t *shape) {
    bti_node *node = bti_node_new(BTI_OP_leaf, dtype, rank, shape, 0, NULL, NULL);
    if (!node) return bti_array_new(NULL);
    node->symbolic = true;
    for (int i = 0; i < rank; i++) bti_symbol_hold(shape[i]);
    node->device = (int16_t)placement.device;
    node->committed = placement.committed;
    node->rule = (uint8_t)placement.rule;
    node->place = bti_call_place();
    return bti_array_new(node);
}

bt_array *bt_input_shape(bt_dtype dtype, bt_shape shape) {
    BTI_PUBLIC("bt_input");
    bt_array *poison = bti_check_shape(dtype, shape, true);
    bti_placement placement;
    if (!poison) poison = bti_choose_device(NULL, 0, &placement);
    if (poison) BTI_RETURN(poison);
    for (int i = 0; i < shape.rank; i++)
        if (shape.size[i] == -1 && (shape.size[i] = bti_symbol_new()) == 0) BTI_RETURN(bti_array_new(NULL));
    BTI_RETURN(bti_input_on(placement, dtype, shape.rank, shape.size));
}

/* --- making ----------------------------------------------------------------------------------------------------------- */

typedef BTI_VEC(bti_node *) node_list;

static bool visit_body_node(node_list *all, bti_node *node, bti_numbers *varying) {
    bool met;
    return bti_number_meet(varying, node, &met) && (met || bti_vec_push(all, node));
}

/* A node that no input and no variable went into is the same in every call. */
static bool varies_by_call(const bti_node *node) { return node->op != BTI_OP_value && (node->symbolic || node->reads); }

/* Everything that outputs and updates are made of, done or not, in recorded order. *unrecorded: a call among it has to be
 * recorded first. In a walk. */
static bool reach_body(const bt_function *f, node_list *all, bti_numbers *varying, bool *unrecorded) {
    for (int i = 0; i < f->output_count; i++)
        if (!visit_body_node(all, f->outputs[i], varying)) return false;
    for (int i = 0; i < f->update_count; i++)
        if (!visit_body_node(all, f->updates[i], varying)) return false;
    for (size_t next = 0; next < all->count; next++) {
        const bti_node *node = all->items[next];
        *unrecorded = *unrecorded || (varies_by_call(node) && bti_origin_is_unrecorded(node));
        for (int i = 0; i < node->input_count && varies_by_call(node); i++)
            if (!visit_body_node(all, node->inputs[i], varying)) return false;
    }
    bti_nodes_sort(all->items, all->count);
    return true;
}

static bool is_input(const bt_function *f, const bti_node *node) {
    for (int i = 0; i < f->input_count; i++)
        if (f->inputs[i] == node) return true;
    return false;
}

static bt_status refuse_leaf(const bti_node *leaf) {
    const bti_place *place = &leaf->place;
    const char *file = place->site.file ? place->site.file : "?";
    if (!place->name || !strcmp(place->name, "bt_input"))
        return bti_fail(BT_INVALID_ARGUMENT, "the outputs need an input that is not listed (bt_input at %s:%d)", file,
                        place->site.line);
    return bti_fail(BT_INVALID_ARGUMENT,
                    "the outputs read what a body is given (what %s at %s:%d carries, a row or an argument), which "
                    "differs by step; make it an input of the function",
                    place->name, file, place->site.line);
}

/* varying: 1 for nodes that are in the body, or inputs. */
static bt_status add_to_body(bt_function *f, bti_node *node, bti_numbers *varying) {
    bool varies = node->symbolic || node->op == BTI_OP_value;
    for (int i = 0; i < node->input_count && !varies; i++) varies = bti_number_of(varying, node->inputs[i]) == 1;
    if (!varies) return BT_OK;
    if (!bti_number_put(varying, node, 1)) return bti_no_memory();
    if (node->op == BTI_OP_leaf) return is_input(f, node) ? BT_OK : refuse_leaf(node);
    if (node->op == BTI_OP_value) {
        bt_shared *shared = bti_shared_find(node->extra, node->attr->value.variable);
        if (!shared)
            return bti_fail(BT_FAILED_PRECONDITION, "the outputs read a shared variable that has been released");
        if (!bti_vec_reserve(&f->replicas, 1) || !bti_vec_push(&f->read, shared)) {
            bt_shared_release(shared);
            return bti_no_memory();
        }
        f->replicas.items[f->replicas.count++] = (int)node->attr->value.replica;
    }
    if (!bti_vec_push(&f->body, node)) return bti_no_memory();
    bti_node_retain(node);
    return BT_OK;
}

/* A variable's value without a value: each call puts the one of then in its place. */
static bti_node *any_value(const bti_node *node) {
    bti_node *value = bti_node_new(BTI_OP_value, (bt_dtype)node->dtype, node->rank, node->shape, 0, NULL, node->attr);
    if (!value) return NULL;
    bti_copy_marks(value, node);
    value->extra = node->extra;
    return value;
}

static bti_node *own_node(const bt_function *f, const bti_node *node, bti_node *const *own) {
    bti_node **inputs = bti_alloc(((size_t)node->input_count + 1) * sizeof *inputs), *made = NULL;
    for (int i = 0; i < node->input_count && inputs; i++) {
        int place = bti_body_place(f, node->inputs[i]);
        inputs[i] = place < 0 ? node->inputs[i] : own[place];
    }
    if (inputs) (void)bti_node_again(node, inputs, NULL, &made);
    bti_free(inputs);
    return made;
}

static void take_own(bt_function *f, bti_node **node, bti_node *const *own) {
    int place = bti_body_place(f, *node);
    if (place < 0) return;
    bti_node *before = *node;
    *node = bti_node_retain(own[place]);
    bti_node_release(before);
}

/* The body in nodes of the function's own: nobody computes them, so that they forget nothing; and they hold nothing that was computed when the function was made, such as
 * the variables' values of then. */
static bt_status make_own(bt_function *f) {
    bti_node **own = bti_calloc(f->body.count + 1, sizeof *own);
    bt_status status = own ? BT_OK : bti_no_memory();
    for (size_t i = 0; i < f->body.count && status == BT_OK; i++) {
        const bti_node *node = f->body.items[i];
        own[i] = node->op == BTI_OP_value ? any_value(node) : own_node(f, node, own);
        if (!own[i]) status = bti_no_memory();
    }
    for (int o = 0; o < f->output_count && status == BT_OK; o++) take_own(f, &f->outputs[o], own);
    for (int u = 0; u < f->update_count && status == BT_OK; u++) take_own(f, &f->updates[u], own);
    for (size_t i = 0; i < f->body.count && own; i++) {
        bti_node *given_up = status == BT_OK ? f->body.items[i] : own[i];
        if (status == BT_OK) f->body.items[i] = own[i];
        bti_node_release(given_up);
    }
    bti_free(own);
    return status;
}

static bt_status find_places(bt_function *f) {
    if (!bti_vec_reserve(&f->places, (size_t)f->output_count)) return bti_no_memory();
    for (int o = 0; o < f->output_count; o++)
        f->places.items[f->places.count++] = f->outputs[o]->op == BTI_OP_value ? -1 : bti_body_place(f, f->outputs[o]);
    return BT_OK;
}

static bt_status record_origins(const bt_function *f) {
    BTI_TRY(bti_origins_record(f->outputs, f->output_count, 0, varies_by_call));
    return bti_origins_record(f->updates, f->update_count, 0, varies_by_call);
}

static bt_status find_body(bt_function *f) {
    node_list all = {0};
    bt_status status = BT_OK;
    bool unrecorded;
    do {
        all.count = 0;
        bti_numbers varying = {0};
        int walk = bti_walk_begin();
        unrecorded = false;
        status = reach_body(f, &all, &varying, &unrecorded) ? BT_OK : bti_no_memory();
        for (size_t i = 0; i < all.count && status == BT_OK && !unrecorded; i++)
            status = add_to_body(f, all.items[i], &varying);
        bti_walk_end(walk);
        bti_numbers_free(&varying);
        if (status == BT_OK && unrecorded) status = record_origins(f); /* then all their history is there */
    } while (unrecorded && status == BT_OK);
    bti_vec_free(&all);
    if (status == BT_OK) status = make_own(f);
    return status == BT_OK ? find_places(f) : status;
}

static bt_status fill_function(bt_function *f, bt_array *const *inputs, bt_array *const *outputs,
                               const bt_update *updates) {
    for (int i = 0; i < f->input_count; i++) {
        if (bti_array_error(inputs[i])) return bti_fail_with(bti_array_error(inputs[i]));
        if (!bti_node_of(inputs[i])->symbolic || bti_node_of(inputs[i])->op != BTI_OP_leaf)
            return bti_fail(BT_INVALID_ARGUMENT, "input %d was not made by bt_input", i + 1);
        for (int k = 0; k < i; k++)
            if (inputs[k] && bti_node_of(inputs[k]) == bti_node_of(inputs[i]))
                return bti_fail(BT_INVALID_ARGUMENT, "inputs %d and %d are the same", k + 1, i + 1);
        f->inputs[i] = bti_node_retain(bti_node_of(inputs[i]));
    }
    for (int i = 0; i < f->output_count; i++) {
        if (bti_array_error(outputs[i])) return bti_fail_with(bti_array_error(outputs[i]));
        f->outputs[i] = bti_node_retain(bti_node_of(outputs[i]));
    }
    for (int i = 0; i < f->update_count; i++) {
        BTI_TRY(bti_shared_check(updates[i].shared, updates[i].value));
        for (int k = 0; k < i; k++)
            if (updates[k].shared == updates[i].shared)
                return bti_fail(BT_INVALID_ARGUMENT, "updates %d and %d are of the same variable", k + 1, i + 1);
        f->updated[i] = bt_shared_retain(updates[i].shared);
        f->updates[i] = bti_node_retain(bti_node_of(updates[i].value));
    }
    bti_updating_sort(f);
    return find_body(f);
}

static bt_function *define_function(bt_array *const *inputs, int input_count, bt_array *const *outputs,
                                    int output_count, const bt_update *updates, int update_count) {
    bt_function *f = bti_function_new(input_count, output_count, update_count);
    if (!f) {
        (void)!bti_no_memory();
        return NULL;
    }
    if (fill_function(f, inputs, outputs, updates) == BT_OK) return f;
    bt_function_release(f);
    return NULL;
}

bt_function *bt_function_new(bt_array *const *inputs, int input_count, bt_array *const *outputs, int output_count,
                             const bt_update *updates, int update_count) {
    BTI_PUBLIC("bt_function_new");
    if (bti_check_list(inputs, input_count, "inputs") != BT_OK ||
        bti_check_list(outputs, output_count, "outputs") != BT_OK ||
        bti_check_list(updates, update_count, "updates") != BT_OK)
        return bti_scope_own(&bti_function_class, NULL);
    return bti_scope_own(&bti_function_class,
                         define_function(inputs, input_count, outputs, output_count, updates, update_count));
}
