/* Collects the operations between leaves and results, then records what their rules say, oldest first. */
#include "transform/retrace.h"

#include <stdlib.h>

#include "array/move.h"
#include "array/place.h"
#include "base/vec.h"
#include "ir/walk.h"
#include "function/origin.h"

typedef struct input {
    bti_node *node; /* retained: others may make its user forget it meanwhile */
    int64_t step;   /* whose result it is; -1: it depends on no leaf */
} input;

/* An operation that depends on a leaf, or a leaf. */
typedef struct step {
    bti_node *node; /* retained */
    size_t first_input;
    int input_count;
    bool is_leaf;
    size_t last_user;  /* the step after which its images are not needed */
    bt_array *image;   /* a reference of ours */
    int results;       /* of a tuple; else 0 */
    bti_node **known;  /* of a tuple: by result the node of its step; NULL: it is none */
    bt_array **images; /* of its results: references of ours */
} step;

typedef struct leaf {
    const bti_node *node;
    bt_array *image;
} leaf;

typedef BTI_VEC(bti_node *) node_list;

typedef struct trace {
    BTI_VEC(step) steps; /* in recorded order */
    BTI_VEC(input) inputs;
    leaf *leaves; /* by address */
    int leaf_count;
    uint64_t oldest;            /* of the leaves */
    int64_t *results;           /* the step of each y; -1: it depends on no leaf */
    bti_stand_in_blocks blocks; /* of the images */
} trace;

/* --- leaves --------------------------------------------------------------------------------------------------------- */

static int compare_leaves(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const leaf *)a)->node, y = (uintptr_t)((const leaf *)b)->node;
    return x < y ? -1 : x > y;
}

static bool list_leaves(trace *t, const bti_retrace *r, int results) {
    t->leaves = bti_calloc((size_t)r->leaf_count + 1, sizeof *t->leaves);
    t->results = bti_calloc((size_t)results + 1, sizeof *t->results);
    if (!t->leaves || !t->results) return false;
    t->leaf_count = r->leaf_count;
    t->oldest = UINT64_MAX;
    for (int i = 0; i < r->leaf_count; i++) {
        t->leaves[i] = (leaf){bti_node_of(r->leaves[i]), r->images[i]};
        if (t->leaves[i].node->sequence < t->oldest) t->oldest = t->leaves[i].node->sequence;
    }
    qsort(t->leaves, (size_t)t->leaf_count, sizeof *t->leaves, compare_leaves);
    return true;
}

/* The first of the leaves that are this node; NULL: none is. */
static const leaf *find_leaf(const trace *t, const bti_node *node) {
    leaf key = {.node = node};
    const leaf *found = bsearch(&key, t->leaves, (size_t)t->leaf_count, sizeof key, compare_leaves);
    while (found && found > t->leaves && found[-1].node == node) found--;
    return found;
}

/* --- collecting; in a walk ------------------------------------------------------------------------------------------ */

static bool visit_reached(node_list *found, bti_node *node, bti_numbers *steps, uint64_t oldest) {
    bool met;
    if (node->sequence < oldest) return true;
    return bti_number_meet(steps, node, &met) && (met || bti_vec_push(found, node));
}

/* The inputs that the walk goes to. Another thread may end the node's history meanwhile: what it was made of until then still counts, or
 * `passes` says that it ended. */
static int inputs_of(const bti_retrace *r, const bti_node *node) {
    int count = node->input_count;
    return r->passes(node) ? count : 0;
}

/* *unrecorded: a call on the way has to be recorded first. */
static bool reach_results(const bti_retrace *r, bt_array *const *ys, int count, bti_numbers *steps, uint64_t oldest,
                          node_list *found, bool *unrecorded) {
    for (int i = 0; i < count; i++)
        if (!visit_reached(found, bti_node_of(ys[i]), steps, oldest)) return false;
    for (size_t next = 0; next < found->count; next++) {
        const bti_node *node = found->items[next];
        *unrecorded = *unrecorded || (bti_origin_is_unrecorded(node) && r->passes(node));
        int inputs = inputs_of(r, node);
        for (int i = 0; i < inputs; i++)
            if (!visit_reached(found, node->inputs[i], steps, oldest)) return false;
    }
    bti_nodes_sort(found->items, found->count);
    return true;
}

/* A tuple has an image for each result; a result wants its own. */
static bool note_tuple(trace *t, step *s) {
    if (s->node->tuple) {
        s->results = s->node->tuple->result_count;
        s->images = bti_calloc((size_t)s->results + 1, sizeof *s->images);
        s->known = bti_calloc((size_t)s->results + 1, sizeof *s->known);
        return s->images && s->known;
    }
    if (s->node->op == BTI_OP_result && s->input_count)
        t->steps.items[t->inputs.items[s->first_input].step].known[s->node->attr->result.index] = s->node;
    return true;
}

static bool add_trace_step(trace *t, bti_node *node, size_t inputs, bool is_leaf, bti_numbers *steps) {
    size_t index = t->steps.count;
    if (!bti_vec_reserve(&t->inputs, inputs) || !bti_vec_reserve(&t->steps, 1)) return false;
    step s = {.node = bti_node_retain(node),
              .first_input = t->inputs.count,
              .input_count = (int)inputs,
              .is_leaf = is_leaf,
              .last_user = index};
    for (size_t i = 0; i < inputs; i++) {
        int64_t from = bti_number_of(steps, node->inputs[i]);
        if (from >= 0) t->steps.items[from].last_user = index;
        t->inputs.items[t->inputs.count++] = (input){bti_node_retain(node->inputs[i]), from};
    }
    t->steps.items[t->steps.count++] = s;
    return bti_number_put(steps, node, (int64_t)index) && note_tuple(t, &t->steps.items[index]);
}

/* steps: by node its step. */
static bool collect_steps(trace *t, bti_retrace *r, bt_array *const *ys, int count, node_list *found,
                          bti_numbers *steps, bool *unrecorded) {
    if (!reach_results(r, ys, count, steps, t->oldest, found, unrecorded)) return false;
    if (*unrecorded) return true;
    for (size_t n = 0; n < found->count; n++) {
        bti_node *node = found->items[n];
        bool through = false, is_leaf = find_leaf(t, node) != NULL;
        int inputs = inputs_of(r, node);
        for (int i = 0; i < inputs && !through; i++) through = bti_number_of(steps, node->inputs[i]) >= 0;
        r->forgot |= atomic_load(&node->forget) && node->cut.name;
        if ((through || is_leaf) && !add_trace_step(t, node, through ? (size_t)inputs : 0, is_leaf, steps))
            return false;
    }
    for (int i = 0; i < count; i++) {
        t->results[i] = bti_number_of(steps, bti_node_of(ys[i]));
        if (t->results[i] >= 0) t->steps.items[t->results[i]].last_user = SIZE_MAX;
    }
    return true;
}

static bt_status collect_trace(trace *t, bti_retrace *r, bt_array *const *ys, int count) {
    node_list found = {0};
    bt_status status = BT_OK;
    bool unrecorded;
    bti_node **nodes = bti_calloc((size_t)count + 1, sizeof *nodes);
    if (!nodes) return bti_no_memory();
    for (int i = 0; i < count; i++) nodes[i] = bti_node_of(ys[i]);
    do { /* another thread may call meanwhile */
        unrecorded = false;
        found.count = 0;
        bti_numbers steps = {0};
        int walk = bti_walk_begin();
        if (!collect_steps(t, r, ys, count, &found, &steps, &unrecorded)) status = bti_no_memory();
        bti_walk_end(walk);
        bti_numbers_free(&steps);
        if (status == BT_OK && unrecorded) status = bti_origins_record(nodes, count, t->oldest, r->passes);
    } while (unrecorded && status == BT_OK);
    bti_vec_free(&found);
    bti_free(nodes);
    return status;
}

/* --- recording ------------------------------------------------------------------------------------------------------ */

/* As bt_retain, but the array stays a passing one that knows how it was made. */
static bt_array *hold_image(bt_array *image) {
    (void)bti_owned_retain(&image->head);
    return image;
}

/* Under transfers=error. */
static bt_status check_inputs_may_cross(const bti_node *node, const input *inputs, int count) {
    for (int i = 0; i < count && !bti_may_cross(node); i++)
        if (bti_transfer_refused(inputs[i].node, node->device))
            return bti_refuse_input(inputs[i].node, node, "and what is recorded again of it would cross too");
    return BT_OK;
}

static bt_status keep_images(bt_array *const *made, bt_array **images, int count) {
    for (int i = 0; i < count; i++) {
        if (!made[i]) continue;
        BTI_TRY(bti_fail_with(bti_array_error(made[i])));
        images[i] = hold_image(made[i]);
    }
    return BT_OK;
}

/* arrays: room for the inputs, then for their images, then for those of the results. */
static bt_status apply_rule(trace *t, const bti_retrace *r, step *s, bt_array **arrays) {
    const input *inputs = &t->inputs.items[s->first_input];
    bti_application a = {.node = s->node,
                         .count = s->input_count,
                         .results = s->images ? s->results : 1,
                         .x = arrays,
                         .image = arrays + s->input_count,
                         .made = arrays + 2 * s->input_count,
                         .known = s->known,
                         .size = r->size,
                         .transform = r->transform};
    BTI_TRY(check_inputs_may_cross(s->node, inputs, a.count));
    if (!s->images) a.y = bti_array_on(s->node);
    if (a.y) BTI_TRY(bti_fail_with(bti_array_error(a.y)));
    for (int i = 0; i < a.results; i++) a.made[i] = NULL;
    for (int i = 0; i < a.count; i++) {
        a.x[i] = bti_array_on(inputs[i].node);
        a.image[i] = inputs[i].step < 0 ? NULL : t->steps.items[inputs[i].step].image;
        BTI_TRY(bti_fail_with(bti_array_error(a.x[i])));
    }
    BTI_TRY(r->apply(&a));
    return keep_images(a.made, s->images ? s->images : &s->image, a.results);
}

/* A result of a tuple that was recorded again. */
static void take_from_tuple(const trace *t, step *s) {
    bt_array *image = t->steps.items[t->inputs.items[s->first_input].step].images[s->node->attr->result.index];
    if (image) s->image = hold_image(image);
}

static bool depends_on_images(const trace *t, const step *s) {
    for (int i = 0; i < s->input_count; i++) {
        int64_t from = t->inputs.items[s->first_input + (size_t)i].step;
        if (from >= 0 && t->steps.items[from].image) return true;
    }
    return false;
}

static bt_status add_given_images(const trace *t, step *s) {
    const leaf *end = t->leaves + t->leaf_count;
    for (const leaf *given = find_leaf(t, s->node); given < end && given->node == s->node; given++) {
        bt_array *before = s->image;
        s->image = hold_image(before ? bt_add(before, given->image) : given->image);
        bt_release(before);
    }
    return bti_fail_with(bti_array_error(s->image));
}

static bt_status run_step(trace *t, const bti_retrace *r, step *s) {
    enum { FEW = 24 };
    bt_array *few[FEW], **arrays = few;
    bt_status status = BT_OK;
    size_t room = 2 * (size_t)s->input_count + (size_t)s->results + 1;
    if (room > FEW && !(arrays = bti_alloc(room * sizeof *arrays))) return bti_no_memory();
    bti_recording_context before = bti_enter_context_of(s->node, r->of_gradient);
    BT_SCOPE {
        if (s->node->op == BTI_OP_result && s->input_count)
            take_from_tuple(t, s);
        else if (depends_on_images(t, s))
            status = apply_rule(t, r, s, arrays);
        if (status == BT_OK && s->is_leaf) status = add_given_images(t, s);
    }
    bti_leave_context(before);
    if (arrays != few) bti_free(arrays);
    return status;
}

/* The checkpoint block that the images of a block's nodes are in; *image is held by the trace or the block's nodes. */
static bt_status block_of_images(trace *t, const bti_retrace *r, bti_checkpoint *block, bti_checkpoint **image) {
    bti_checkpoint *outer;
    *image = block ? block : bti_checkpoint_now();
    if (!block || r->beside) return BT_OK;
    if ((*image = bti_stand_in_block(&t->blocks, block))) return BT_OK;
    BTI_TRY(block_of_images(t, r, block->outer, &outer));
    *image = bti_stand_in_block_new(&t->blocks, block, outer);
    return *image ? BT_OK : bti_no_memory();
}

static bt_status run_step_in_block(trace *t, const bti_retrace *r, step *s) {
    bti_checkpoint *block;
    BTI_TRY(block_of_images(t, r, s->node->checkpoint, &block));
    bti_checkpoint *before = bti_checkpoint_enter(block);
    bt_status status = run_step(t, r, s);
    bti_checkpoint_enter(before);
    return status;
}

static void release_images(step *s) {
    bt_release(s->image);
    s->image = NULL;
    for (int i = 0; i < s->results && s->images; i++) {
        bt_release(s->images[i]);
        s->images[i] = NULL;
    }
}

static void release_images_used_last_by(trace *t, size_t user) {
    const step *s = &t->steps.items[user];
    for (int i = 0; i < s->input_count; i++) {
        int64_t from = t->inputs.items[s->first_input + (size_t)i].step;
        if (from >= 0 && t->steps.items[from].last_user == user) release_images(&t->steps.items[from]);
    }
}

static void free_trace(trace *t) {
    for (size_t i = 0; i < t->steps.count; i++) {
        release_images(&t->steps.items[i]);
        bti_free(t->steps.items[i].images);
        bti_free(t->steps.items[i].known);
        bti_node_release(t->steps.items[i].node);
    }
    for (size_t i = 0; i < t->inputs.count; i++) bti_node_release(t->inputs.items[i].node);
    bti_stand_in_blocks_free(&t->blocks);
    bti_vec_free(&t->steps);
    bti_vec_free(&t->inputs);
    bti_free(t->leaves);
    bti_free(t->results);
}

static bt_status check_none_poisoned(bt_array *const *arrays, int count) {
    for (int i = 0; i < count; i++) BTI_TRY(bti_fail_with(bti_array_error(arrays[i])));
    return BT_OK;
}

bt_status bti_retrace_all(bti_retrace *r, bt_array *const *ys, int count, bt_array **made) {
    trace t = {0};
    r->forgot = false;
    BTI_TRY(check_none_poisoned(ys, count));
    BTI_TRY(check_none_poisoned(r->leaves, r->leaf_count));
    BTI_TRY(check_none_poisoned(r->images, r->leaf_count));
    bt_status status = list_leaves(&t, r, count) ? collect_trace(&t, r, ys, count) : bti_no_memory();
    for (size_t i = 0; i < t.steps.count && status == BT_OK; i++) {
        status = run_step_in_block(&t, r, &t.steps.items[i]);
        release_images_used_last_by(&t, i);
    }
    for (int i = 0; i < count && status == BT_OK; i++) {
        bt_array *image = t.results[i] < 0 ? NULL : t.steps.items[t.results[i]].image;
        made[i] = image ? bti_array_on(bti_node_of(image)) : NULL;
    }
    free_trace(&t);
    return status;
}
