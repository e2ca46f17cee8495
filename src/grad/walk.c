/* Collects the operations between y and the targets, then runs their rules, newest first. */
#include "grad/walk.h"

#include <stdlib.h>

#include "array/move.h"
#include "array/place.h"
#include "base/vec.h"
#include "function/origin.h"
#include "grad/again.h"
#include "ir/walk.h"
#include "ops/rules.h"

typedef struct input {
    bti_node *node; /* retained: others may make its user forget it meanwhile */
    int64_t step;   /* whose result it is; -1: no gradient flows there */
} input;

/* An operation that depends on a target, or a target. */
typedef struct step {
    bti_node *node; /* retained */
    size_t first_input;
    int input_count;    /* 0: gradients end here */
    bt_array *gradient; /* of its result, as known so far; a reference of ours */
    bt_array **results; /* of a tuple: of each of its results */
    bti_node **known;   /* of a tuple: by result the node of its step; NULL: it is none */
    int result_count;
    int64_t last_part; /* what is known of it in parts, newest first; -1: nothing */
    bool is_target;
    bt_array **onto; /* of a target: what parts are added to; NULL: to zeros */
} step;

typedef struct kept_part {
    bti_part part;  /* references of ours */
    int64_t before; /* of the same step; -1: none */
} kept_part;

typedef struct walk {
    BTI_VEC(step) steps; /* in recorded order */
    BTI_VEC(input) inputs;
    BTI_VEC(kept_part) parts;
    bti_again again;
} walk;

/* --- targets -------------------------------------------------------------------------------------------------------- */

bti_gradient_target bti_target_of(const bti_node *node, bool shared) {
    if (shared)
        return (bti_gradient_target){.id = (uint64_t)node->attr->value.variable,
                                     .replica = (uint64_t)node->attr->value.replica + 1};
    return (bti_gradient_target){.id = (uint64_t)(uintptr_t)node, .sequence = node->sequence};
}

int bti_compare_targets(const void *a, const void *b) {
    const bti_gradient_target *x = a, *y = b;
    if (x->replica != y->replica) return x->replica < y->replica ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bti_gradient_target *find_target(const bti_node *node, bool shared, bti_gradient_target *targets, int count) {
    bti_gradient_target key = bti_target_of(node, shared);
    return bsearch(&key, targets, (size_t)count, sizeof key, bti_compare_targets);
}

/* Those that a node is: its own, and its variable's. Of integers every gradient is zero. */
static int targets_of(const bti_node *node, bti_gradient_target *targets, int count, bti_gradient_target *found[2]) {
    int n = 0;
    if (!bti_node_has_gradient(node)) return 0;
    if ((found[n] = find_target(node, false, targets, count))) n++;
    if (node->op == BTI_OP_value && (found[n] = find_target(node, true, targets, count))) n++;
    return n;
}

/* --- collecting; in a walk ------------------------------------------------------------------------------------------ */

typedef BTI_VEC(bti_node *) node_list;

bool bti_passes_gradient(const bti_node *node) {
    return bti_node_has_gradient(node) && node->op != BTI_OP_value && node->op != BTI_OP_stop &&
           !atomic_load(&node->forget);
}

/* Whether history was forgotten here that may have led to the target. */
static bool may_hide(const bti_node *node, const bti_gradient_target *target) {
    if (!atomic_load(&node->forget) || !node->cut.name || !bti_node_has_gradient(node)) return false;
    if (target->replica) return node->variables >> (target->id % 64) & 1;
    return node->sequence > target->sequence && node->oldest <= target->sequence;
}

static void note_cuts(const node_list *found, bti_gradient_target *targets, int count) {
    for (int t = 0; t < count; t++) {
        bti_node_release(targets[t].cut);
        targets[t].cut = NULL;
        for (size_t n = found->count; n-- > 0 && !targets[t].reached && !targets[t].cut;)
            if (may_hide(found->items[n], &targets[t])) targets[t].cut = bti_node_retain(found->items[n]);
    }
}

static bool visit_newer_than(node_list *found, bti_node *node, bti_numbers *steps, uint64_t oldest) {
    bool met;
    if (node->sequence < oldest) return true;
    return bti_number_meet(steps, node, &met) && (met || bti_vec_push(found, node));
}

/* The inputs that gradients flow to. Another thread may end the node's history meanwhile: what it was made of until then still counts, or
 * bti_passes_gradient says that it ended. */
static int inputs_of(const bti_node *node) {
    int count = node->input_count;
    return bti_passes_gradient(node) ? count : 0;
}

/* All that the ys are made of and that is not older than every target, in recorded order. *unrecorded: a call among it has to be recorded first. */
static bool reach_inputs(bt_array *const *ys, int y_count, bti_numbers *steps, uint64_t oldest, node_list *found,
                         bool *unrecorded) {
    for (int i = 0; i < y_count; i++)
        if (!visit_newer_than(found, bti_node_of(ys[i]), steps, oldest)) return false;
    for (size_t next = 0; next < found->count; next++) {
        const bti_node *node = found->items[next];
        *unrecorded = *unrecorded || (bti_origin_is_unrecorded(node) && bti_passes_gradient(node));
        int inputs = inputs_of(node);
        for (int i = 0; i < inputs; i++)
            if (!visit_newer_than(found, node->inputs[i], steps, oldest)) return false;
    }
    bti_nodes_sort(found->items, found->count);
    return true;
}

/* inputs: 0 if no gradient flows through it. */
static bool add_walk_step(walk *w, bti_node *node, size_t inputs, bti_numbers *steps) {
    if (!bti_vec_reserve(&w->inputs, inputs) || !bti_vec_reserve(&w->steps, 1)) return false;
    step s = {
        .node = bti_node_retain(node), .first_input = w->inputs.count, .input_count = (int)inputs, .last_part = -1};
    for (size_t i = 0; i < inputs; i++)
        w->inputs.items[w->inputs.count++] =
            (input){bti_node_retain(node->inputs[i]), bti_number_of(steps, node->inputs[i])};
    if (node->tuple && inputs) {
        s.result_count = node->tuple->result_count;
        s.results = bti_calloc((size_t)s.result_count + 1, sizeof *s.results);
        s.known = bti_calloc((size_t)s.result_count + 1, sizeof *s.known);
        if (!s.results || !s.known) {
            bti_free(s.results);
            bti_free(s.known);
            bti_node_release(node);
            return false;
        }
    }
    if (node->op == BTI_OP_result && inputs)
        w->steps.items[w->inputs.items[s.first_input].step].known[node->attr->result.index] = node;
    w->steps.items[w->steps.count++] = s;
    return bti_number_put(steps, node, (int64_t)w->steps.count - 1);
}

static uint64_t oldest_of(const bti_gradient_target *targets, int count) {
    uint64_t oldest = UINT64_MAX;
    for (int i = 0; i < count; i++)
        if (targets[i].sequence < oldest) oldest = targets[i].sequence;
    return oldest;
}

/* steps: by node its step. */
static bool collect(walk *w, bt_array *const *ys, int y_count, int64_t *last, bti_gradient_target *targets, int count,
                    node_list *found, bti_numbers *steps, bool *unrecorded) {
    if (!reach_inputs(ys, y_count, steps, oldest_of(targets, count), found, unrecorded)) return false;
    if (*unrecorded) return true;
    for (size_t n = 0; n < found->count; n++) {
        bti_node *node = found->items[n];
        bti_gradient_target *of[2];
        bool through = false;
        int inputs = inputs_of(node);
        for (int i = 0; i < inputs && !through; i++) through = bti_number_of(steps, node->inputs[i]) >= 0;
        int is = targets_of(node, targets, count, of);
        for (int t = 0; t < is; t++) of[t]->reached = true;
        if ((through || is) && !add_walk_step(w, node, through ? (size_t)inputs : 0, steps)) return false;
        if (!is) continue;
        w->steps.items[w->steps.count - 1].is_target = true;
        w->steps.items[w->steps.count - 1].onto = of[0]->onto;
    }
    note_cuts(found, targets, count);
    for (int i = 0; i < y_count; i++) last[i] = bti_number_of(steps, bti_node_of(ys[i]));
    return true;
}

static bt_status record_origins_of(bt_array *const *ys, int y_count, uint64_t oldest) {
    bt_status status = BT_OK;
    for (int i = 0; i < y_count && status == BT_OK; i++) {
        bti_node *node = bti_node_of(ys[i]);
        status = bti_origins_record(&node, 1, oldest, bti_passes_gradient);
    }
    return status;
}

/* last: by y: its step; -1: it depends on no target. */
static bt_status collect_steps(walk *w, bt_array *const *ys, int y_count, int64_t *last, bti_gradient_target *targets,
                               int count) {
    node_list found = {0};
    bt_status status = BT_OK;
    bool unrecorded;
    do { /* another thread may call meanwhile */
        unrecorded = false;
        found.count = 0;
        bti_numbers steps = {0};
        int walking = bti_walk_begin();
        if (!collect(w, ys, y_count, last, targets, count, &found, &steps, &unrecorded)) status = bti_no_memory();
        bti_walk_end(walking);
        bti_numbers_free(&steps);
        if (status == BT_OK && unrecorded) status = record_origins_of(ys, y_count, oldest_of(targets, count));
    } while (unrecorded && status == BT_OK);
    bti_vec_free(&found);
    return status;
}

/* --- going back ----------------------------------------------------------------------------------------------------- */

/* One more owner, as bt_retain, but the array stays a passing one that knows how it was made. */
static bt_array *add_owner(bt_array *x) {
    (void)bti_owned_retain(&x->head);
    return x;
}

static void add_to(bt_array **sum, bt_array *gradient) {
    bt_array *before = *sum;
    *sum = add_owner(before ? bt_add(before, gradient) : gradient);
    bt_release(before);
}

static void add_to_gradient_of(step *to, bt_array *gradient) {
    const bti_node *got = bti_node_of(gradient);
    bti_recording_context before = bti_enter_context_of(to->node, true);
    if (got->dtype != to->node->dtype || got->weak) gradient = bt_cast(gradient, (bt_dtype)to->node->dtype);
    add_to(&to->gradient, gradient);
    bti_leave_context(before);
}

static bt_status keep_part(walk *w, step *to, const bti_part *part) {
    kept_part kept = {.part = *part, .before = to->last_part};
    if (!bti_vec_push(&w->parts, kept)) return bti_no_memory();
    (void)add_owner(part->g);
    if (part->indices) (void)add_owner(part->indices);
    to->last_part = (int64_t)w->parts.count - 1;
    return BT_OK;
}

static void release_part(kept_part *kept) {
    bt_release(kept->part.g);
    bt_release(kept->part.indices);
    kept->part = (bti_part){0};
}

/* Under transfers=error: a gradient goes back over every copy that its operation's inputs took. */
static bt_status check_crossing(const bti_node *node, const bti_node *from) {
    if (bti_may_cross(node) || !bti_transfer_refused(from, node->device)) return BT_OK;
    return bti_refuse_input(from, node, "and the gradient would cross back");
}

/* Whether the step's gradient is parts alone, which are at most half of it. */
static bool is_in_few_parts(const walk *w, const step *s) {
    double count = 0;
    if (s->last_part < 0 || s->gradient || s->is_target || s->input_count != 1) return false;
    for (int i = 0; i < s->node->rank; i++)
        if (bti_size_is_symbolic(s->node->shape[i])) return false;
    for (int64_t p = s->last_part; p >= 0; p = w->parts.items[p].before) {
        const bt_array *g = w->parts.items[p].part.g;
        if (bti_array_error(g)) return false;
        count += (double)bti_node_count(bti_node_of(g));
    }
    return 2 * count <= (double)bti_node_count(s->node);
}

/* Parts of a view become parts of its input, oldest first; others stay. */
static bt_status pass_parts_on(walk *w, step *s) {
    const input *from = &w->inputs.items[s->first_input];
    int64_t newest = -1;
    if (!is_in_few_parts(w, s) || from->step < 0) return BT_OK;
    BTI_TRY(check_crossing(s->node, from->node));
    for (int64_t p = s->last_part, before; p >= 0; p = before) { /* turns the list around */
        before = w->parts.items[p].before;
        w->parts.items[p].before = newest;
        newest = p;
    }
    s->last_part = -1;
    bt_status status = BT_OK;
    for (int64_t p = newest, next; p >= 0; p = next) {
        bti_part part = w->parts.items[p].part;
        next = w->parts.items[p].before;
        bool moved = false;
        bti_recording_context before = bti_enter_context_of(s->node, true);
        BT_SCOPE {
            moved = status == BT_OK && bti_part_of_input(s->node, from->node, &part);
            if (moved) status = keep_part(w, &w->steps.items[from->step], &part);
        }
        bti_leave_context(before);
        if (moved) {
            release_part(&w->parts.items[p]);
            continue;
        }
        w->parts.items[p].before = s->last_part;
        s->last_part = p;
    }
    return status;
}

/* All users of the step's result have told theirs: joins what they know in parts. */
static bt_status join_parts_of(walk *w, step *s) {
    int count = 0;
    if (s->last_part < 0) return BT_OK;
    for (int64_t p = s->last_part; p >= 0; p = w->parts.items[p].before) count++;
    bti_part *parts = bti_alloc((size_t)count * sizeof *parts);
    if (!parts) return bti_no_memory();
    int at = count;
    for (int64_t p = s->last_part; p >= 0; p = w->parts.items[p].before) parts[--at] = w->parts.items[p].part;
    bti_recording_context before = bti_enter_context_of(s->node, true);
    BT_SCOPE
        add_to_gradient_of(s, bti_join_parts(bti_array_on(s->node), s->onto ? *s->onto : NULL, parts, count));
    if (s->onto) *s->onto = NULL;
    bti_leave_context(before);
    bti_free(parts);
    for (int64_t p = s->last_part; p >= 0; p = w->parts.items[p].before) release_part(&w->parts.items[p]);
    s->last_part = -1;
    return BT_OK;
}

/* The node as the step's rule is to see it: kept from the forward pass, or computed again. */
static bti_node *node_for_rule(walk *w, const step *s, bti_node *node) {
    bt_array *flows = s->gradient;
    for (int i = 0; i < s->result_count && !flows; i++) flows = s->results[i];
    return bti_again_for(&w->again, s->node, node, bti_node_of(flows));
}

static bt_array *for_rule(walk *w, const step *s, bti_node *node) {
    bti_node *again = node_for_rule(w, s, node);
    return again ? bti_array_on(again) : bti_array_new(NULL);
}

static bti_differentiator differentiate;

/* Runs the gradient rule of one step. arrays: room for the inputs, then for their gradients. */
static bt_status run_rule(walk *w, step *s, bti_gradient_rule *rule, bt_array **arrays, bool *wanted) {
    input *inputs = &w->inputs.items[s->first_input];
    bti_backward b = {.g = s->gradient,
                      .count = s->input_count,
                      .x = arrays,
                      .gx = arrays + s->input_count,
                      .wanted = wanted,
                      .attr = s->node->attr,
                      .node = s->node,
                      .tuple = s->results ? node_for_rule(w, s, s->node) : NULL,
                      .results = s->results,
                      .known = s->known,
                      .result_count = s->result_count,
                      .differentiate = differentiate};
    bti_recording_context before = bti_enter_context_of(s->node, true);
    bt_status status = BT_OK;
    BT_SCOPE {
        b.y = s->results ? NULL : for_rule(w, s, s->node);
        if (b.y) status = bti_fail_with(bti_array_error(b.y));
        if (s->results && !b.tuple) status = bti_no_memory();
        if (b.tuple != s->node) b.known = NULL; /* it is computed again, and its results with it */
        for (int i = 0; i < b.count; i++) {
            b.x[i] = for_rule(w, s, inputs[i].node);
            b.gx[i] = NULL;
            wanted[i] = inputs[i].step >= 0;
            if (status == BT_OK) status = bti_fail_with(bti_array_error(b.x[i]));
        }
        if (status == BT_OK) rule(&b); /* it may read their shapes alone, so poison must not get this far */
        if (status == BT_OK && b.part.g) status = keep_part(w, &w->steps.items[inputs[0].step], &b.part);
        for (int i = 0; i < b.count && status == BT_OK; i++)
            if (wanted[i] && b.gx[i]) add_to_gradient_of(&w->steps.items[inputs[i].step], b.gx[i]);
    }
    bti_leave_context(before);
    return status;
}

/* What flows into a result of a tuple flows into the tuple there. */
static void pass_to_tuple(walk *w, const step *s) {
    step *tuple = &w->steps.items[w->inputs.items[s->first_input].step];
    bti_recording_context before = bti_enter_context_of(s->node, true);
    add_to(&tuple->results[s->node->attr->result.index], s->gradient);
    bti_leave_context(before);
}

static bt_status run_step_back(walk *w, step *s) {
    if (s->node->op == BTI_OP_result) {
        pass_to_tuple(w, s);
        return BT_OK;
    }
    for (int i = 0; i < s->input_count; i++)
        BTI_TRY(check_crossing(s->node, w->inputs.items[s->first_input + (size_t)i].node));
    bti_gradient_rule *rule = bti_gradient_rule_of((bti_op)s->node->op);
    if (!rule) {
        bti_recording_context before = bti_enter_context_of(s->node, true);
        bt_status status =
            bti_fail(BT_UNIMPLEMENTED, "the operation %s has no gradient; bt_stop_gradient ends it there",
                     bti_op_info((bti_op)s->node->op)->name);
        bti_leave_context(before);
        return status;
    }
    enum { FEW = 8 };
    bt_array *few[2 * FEW];
    bool few_wanted[FEW];
    if (s->input_count <= FEW) return run_rule(w, s, rule, few, few_wanted);
    bt_array **arrays = bti_alloc(2 * (size_t)s->input_count * sizeof *arrays);
    bool *wanted = bti_alloc((size_t)s->input_count * sizeof *wanted);
    bt_status status = arrays && wanted ? run_rule(w, s, rule, arrays, wanted) : bti_no_memory();
    bti_free(arrays);
    bti_free(wanted);
    return status;
}

static bt_status run_steps_back(walk *w, bti_gradient_target *targets, int count) {
    for (size_t i = w->steps.count; i-- > 0;) {
        step *s = &w->steps.items[i];
        BTI_TRY(pass_parts_on(w, s));
        BTI_TRY(join_parts_of(w, s));
        bool flows = s->gradient != NULL;
        for (int r = 0; r < s->result_count; r++) flows = flows || s->results[r];
        if (!flows) continue; /* zero */
        bti_gradient_target *of[2];
        bti_recording_context before = bti_enter_context_of(s->node, true);
        for (int t = targets_of(s->node, targets, count, of); t-- > 0;) add_to(&of[t]->gradient, s->gradient);
        bti_leave_context(before);
        if (s->input_count) BTI_TRY(run_step_back(w, s));
        bt_release(s->gradient);
        s->gradient = NULL;
        for (int r = 0; r < s->result_count; r++) {
            bt_release(s->results[r]);
            s->results[r] = NULL;
        }
    }
    return BT_OK;
}

static void free_walk(walk *w) {
    for (size_t i = 0; i < w->steps.count; i++) {
        const step *s = &w->steps.items[i];
        bt_release(s->gradient);
        for (int r = 0; r < s->result_count; r++) bt_release(s->results[r]);
        bti_free(s->results);
        bti_free(s->known);
        bti_node_release(s->node);
    }
    for (size_t i = 0; i < w->inputs.count; i++) bti_node_release(w->inputs.items[i].node);
    for (size_t i = 0; i < w->parts.count; i++) release_part(&w->parts.items[i]);
    bti_vec_free(&w->steps);
    bti_vec_free(&w->inputs);
    bti_vec_free(&w->parts);
    bti_again_end(&w->again);
}

static bt_status check_history(const bti_node *from) {
    if (!atomic_load(&from->forget)) return BT_OK;
    return bti_fail(BT_FAILED_PRECONDITION,
                    "gradients end at retained arrays, and this is one (%s at %s:%d): take the gradient before",
                    from->cut.name ? from->cut.name : "bt_retain or bt_assign", bti_site_file(from->cut.site),
                    from->cut.site.line);
}

bt_status bti_find_targets(bt_array *y, bti_gradient_target *targets, int count) {
    walk w = {0};
    int64_t last;
    bt_status status = collect_steps(&w, &y, 1, &last, targets, count);
    free_walk(&w);
    return status;
}

bt_status bti_walk_back(bt_array *const *ys, bt_array *const *cotangents, int y_count, bti_gradient_target *targets,
                        int count) {
    walk w = {0};
    for (int i = 0; i < y_count && count; i++) BTI_TRY(check_history(bti_node_of(ys[i])));
    int64_t *last = bti_alloc((size_t)y_count * sizeof *last);
    if (!last) return bti_no_memory();
    bt_status status = collect_steps(&w, ys, y_count, last, targets, count);
    for (int i = 0; i < y_count && status == BT_OK; i++)
        if (last[i] >= 0) add_to_gradient_of(&w.steps.items[last[i]], cotangents[i]);
    if (status == BT_OK) status = run_steps_back(&w, targets, count);
    free_walk(&w);
    bti_free(last);
    return status;
}

static bt_status check_poison(bt_array *const *arrays, int count) {
    for (int i = 0; i < count; i++) BTI_TRY(bti_fail_with(bti_array_error(arrays[i])));
    return BT_OK;
}

/* For rules of tuples. */
static bt_status differentiate(bt_array *const *ys, bt_array *const *cotangents, int y_count, bt_array *const *xs,
                               int x_count, bt_array **onto, bt_array **grads) {
    BTI_TRY(check_poison(ys, y_count));
    BTI_TRY(check_poison(cotangents, y_count));
    BTI_TRY(check_poison(xs, x_count));
    bti_gradient_target *targets = bti_calloc((size_t)x_count + 1, sizeof *targets);
    if (!targets) return bti_no_memory();
    for (int i = 0; i < x_count; i++) {
        targets[i] = bti_target_of(bti_node_of(xs[i]), false);
        if (onto && onto[i]) targets[i].onto = &onto[i];
    }
    qsort(targets, (size_t)x_count, sizeof *targets, bti_compare_targets);
    bt_status status = bti_walk_back(ys, cotangents, y_count, targets, x_count);
    for (int i = 0; i < x_count; i++) {
        const bti_gradient_target *found = find_target(bti_node_of(xs[i]), false, targets, x_count);
        grads[i] = found->gradient && status == BT_OK ? bti_array_on(bti_node_of(found->gradient)) : NULL;
    }
    for (int i = 0; i < x_count; i++) {
        bt_release(targets[i].gradient);
        bti_node_release(targets[i].cut);
    }
    bti_free(targets);
    return status;
}
