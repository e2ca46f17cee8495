/* The gradient of a scan is a scan the other way. Its body is the gradient of the body: it carries the gradients of what was carried, and
 * is given, row by row, what of the forward steps it needs. Products and what is expensive are stored by the forward scan, which gets more results for that
 * (scan_store.c); simple arithmetic is done again.
 *
 * A scan in the body is computed again by the gradient of the body, where it stores in turn. If the forward scan is computed again, too, as that of a scan
 * in a scan is, it stores what the scan in its body stores: so of scans in scans each step is computed once more, whatever the depth.
 *
 * Of an input that all steps share (a weight), the gradient is the sum over the steps. Where a step's part is a matrix product, its factors are kept as
 * rows, and one product over all steps makes the sum. Products of checkpoint blocks, and those that are sums over a scan in the body, are added up
 * step by step: their factors are not there for all steps at once. */
#include "array/record.h"
#include "base/alloc.h"
#include "ir/walk.h"
#include "ops/gradient.h"
#include "ops/primitive.h"
#include "ops/scan_store.h"

/* A node of the body's graph, and the array outside that it stands for. */
typedef struct bound {
    bti_node *inside; /* retained */
    bt_array *outside;
} bound;
typedef BTI_VEC(bound) bound_list;

/* Where the rows of a value come from. */
typedef struct row_source {
    enum { ROWS_OF_INPUT, ROWS_STORED, ROWS_MADE } from; /* index: of x; of `stored`; of `rows_made` */
    int index;
} row_source;

/* A part of the gradient of input `input`: the product of two values of each step. */
typedef struct product {
    int input;
    row_source left, right;
    bool left_turned;                 /* the rows are of the transposed left factor */
    bti_node *left_node, *right_node; /* borrowed */
} product;

typedef struct backward_scan {
    bti_backward *b;
    bti_region *region; /* of the forward scan */
    int carried, by_row, count;
    int64_t length;
    bool reverse;
    bool stores_inner; /* the forward scan stores what the gradients of scans in the body need, too */
    bti_place place;
    int device;
    bt_array **grads; /* by input of the region: of one step; NULL: zero */
    bt_array **sums;  /* by input: the sum over the steps before, where it is in grads[]; NULL: it is not */
    bound_list carry, rows, whole;
    bti_node_vec carry_made, rows_made; /* what a step makes: the next carry, rows */
    bti_node_vec stored;                /* values of forward steps */
    bti_scan_pairs pairs;
    BTI_VEC(product) products;
    int *carry_of, *row_of; /* by input: where its gradient is among the results; -1: nowhere */
    bt_array **unchanged;   /* by input: its gradient, where no step changes what flows in; NULL: it is made */
} backward_scan;

static bt_status bind(bound_list *list, bti_node *inside, bt_array *outside) {
    if (!bti_vec_push(list, ((bound){inside, outside}))) return bti_no_memory();
    bti_node_retain(inside);
    return bti_fail_with(bti_array_error(outside));
}

static bt_status keep(bti_node_vec *list, bti_node *node) {
    if (!bti_vec_push(list, node)) return bti_no_memory();
    bti_node_retain(node);
    return BT_OK;
}

static bti_node *new_leaf(const backward_scan *s, const bti_node *like) {
    bti_type type = bti_type_of(like);
    return bti_region_leaf(&type, s->device, s->place);
}

/* --- the gradient of one step ----------------------------------------------------------------------------------------- */

/* The gradients that flow into a step: those of what it hands on, and those of the rows that it made. */
static bt_status take_cotangents(backward_scan *s, bt_array **ys, bt_array **gs, int *count) {
    for (int o = 0; o < s->region->output_count; o++) {
        bti_node *output = s->region->outputs[o];
        bool handed_on = o < s->carried, flows = o < s->b->result_count && s->b->results[o];
        if (!bti_node_has_gradient(output) || (!handed_on && !flows)) continue;
        bt_array *outside = flows ? s->b->results[o] : bt_zeros_like(s->b->x[o]);
        ys[*count] = bti_array_on(output);
        gs[*count] = bti_array_new(new_leaf(s, output));
        BTI_TRY(bti_fail_with(bti_array_error(gs[*count])));
        BTI_TRY(bind(handed_on ? &s->carry : &s->rows, bti_node_of(gs[*count]), outside));
        ++*count;
    }
    return BT_OK;
}

static bt_status differentiate_step(backward_scan *s) {
    int inputs = s->region->input_count, outputs = s->region->output_count, y_count = 0, x_count = 0;
    bt_array **ys = bti_calloc(2 * (size_t)outputs + 3 * (size_t)inputs + 1, sizeof *ys);
    int *which = bti_alloc((size_t)(inputs + 1) * sizeof *which);
    bt_status status = ys && which ? BT_OK : bti_no_memory();
    if (status == BT_OK) {
        bt_array **gs = ys + outputs, **xs = gs + outputs, **made = xs + inputs, **onto = made + inputs;
        status = take_cotangents(s, ys, gs, &y_count);
        for (int i = 0; i < inputs; i++) {
            if (!bti_node_has_gradient(s->region->inputs[i]) || (i >= s->carried && !s->b->wanted[i])) continue;
            if (i >= s->carried + s->by_row)
                onto[x_count] = s->sums[i] = bti_array_new(new_leaf(s, s->region->inputs[i]));
            if (s->sums[i] && status == BT_OK) status = bti_fail_with(bti_array_error(s->sums[i]));
            xs[x_count] = bti_array_on(s->region->inputs[i]);
            which[x_count++] = i;
        }
        if (status == BT_OK) status = s->b->differentiate(ys, gs, y_count, xs, x_count, onto, made);
        for (int k = 0; k < x_count && status == BT_OK; k++) {
            s->grads[which[k]] = made[k];
            if (onto[k]) s->sums[which[k]] = NULL;
            if (made[k]) status = bti_fail_with(bti_array_error(made[k]));
        }
    }
    bti_free(ys);
    bti_free(which);
    return status;
}

/* --- what of the forward steps is needed --------------------------------------------------------------------------------- */

static bool is_forward(const bti_region *region, const bti_node *node) { return bti_region_place(region, node) >= 0; }

enum { CHEAP_INSTRUCTIONS = 20 }; /* square roots take 18, functions computed by polynomials 34 and more */

/* Computed again sooner than stored: arithmetic and views, and what rows of would have an axis too many. */
static bool is_cheap(const bti_node *node) {
    bti_class class = bti_op_info((bti_op)node->op)->class;
    if (node->rank == BTI_MAX_RANK || class == BTI_SOURCE) return true;
    if (node->op == BTI_OP_slice) /* smaller than what it is cut from, if that would be stored */
        return bti_op_info((bti_op)node->inputs[0]->op)->class == BTI_ELEMENTWISE;
    return class == BTI_MOVEMENT ||
           (class == BTI_ELEMENTWISE && bti_op_instructions((bti_op)node->op, true) <= CHEAP_INSTRUCTIONS);
}

static row_source rows_stored(backward_scan *s, bti_node *node, bt_status *status) {
    int i = bti_region_input(s->region, node);
    if (i >= s->carried && i < s->carried + s->by_row) return (row_source){ROWS_OF_INPUT, i};
    for (size_t k = 0; k < s->stored.count; k++)
        if (s->stored.items[k] == node) return (row_source){ROWS_STORED, (int)k};
    *status = keep(&s->stored, node);
    return (row_source){ROWS_STORED, (int)s->stored.count - 1};
}

/* Whether it is what a scan in the body stores for its own gradient, and the forward scan stores that. */
static bool is_stored_inside(backward_scan *s, const bti_node *node, bt_status *status) {
    bool paired = false;
    if (s->stores_inner && node->op == BTI_OP_result && node->input_count && node->rank < BTI_MAX_RANK &&
        !is_forward(s->region, node))
        *status = bti_scan_pair_up(&s->pairs, s->region, node->inputs[0], &paired);
    return paired;
}

/* A forward value that a step's gradient reads. */
static bt_status need_forward(backward_scan *s, bti_node *node) {
    bt_status status = BT_OK;
    int i = bti_region_input(s->region, node);
    if (i >= s->carried + s->by_row) return bind(&s->whole, node, s->b->x[i]);
    if (i >= s->carried) return bind(&s->rows, node, s->b->x[i]);
    rows_stored(s, node, &status);
    return status;
}

typedef BTI_VEC(bti_node *) node_list;

static bt_status meet(node_list *found, bti_node *node, bti_numbers *numbers) {
    bool met;
    return bti_number_meet(numbers, node, &met) && (met || bti_vec_push(found, node)) ? BT_OK : bti_no_memory();
}

static bt_status find_needed(backward_scan *s) {
    node_list found = {0};
    bt_status status = BT_OK;
    bti_numbers numbers = {0};
    int walk = bti_walk_begin();
    for (size_t i = 0; i < s->carry_made.count && status == BT_OK; i++)
        status = meet(&found, s->carry_made.items[i], &numbers);
    for (size_t i = 0; i < s->rows_made.count && status == BT_OK; i++)
        status = meet(&found, s->rows_made.items[i], &numbers);
    for (size_t next = 0; next < found.count && status == BT_OK; next++) {
        bti_node *node = found.items[next];
        bool forward = is_forward(s->region, node);
        bool whole = !node->tuple; /* a result that the region does not have: the tuple is computed again */
        if (forward && whole && (bti_region_input(s->region, node) >= 0 || !is_cheap(node)))
            status = need_forward(s, node);
        else if (is_stored_inside(s, node, &status))
            rows_stored(s, node, &status);
        else
            for (int i = 0; i < node->input_count && status == BT_OK; i++)
                if (forward || node->inputs[i]->sequence > bti_region_since(s->region))
                    status = meet(&found, node->inputs[i], &numbers);
    }
    bti_walk_end(walk);
    bti_numbers_free(&numbers);
    bti_vec_free(&found);
    return status;
}

/* --- what a step makes ------------------------------------------------------------------------------------------------- */

/* The same in all steps, turned or not. */
static bool is_shared(const backward_scan *s, const bti_node *node) {
    if (node->op == BTI_OP_permute && node->input_count) node = node->inputs[0];
    return bti_region_input(s->region, node) >= s->carried + s->by_row;
}

/* A product whose factors are kept as rows. */
static bool is_product(const backward_scan *s, const bti_node *node) {
    return node->op == BTI_OP_matmul && node->rank == 2 && !node->summed_by_step && !is_forward(s->region, node) &&
           !is_shared(s, node->inputs[0]) && !is_shared(s, node->inputs[1]);
}

static row_source rows_of(backward_scan *s, bti_node *node, bt_status *status) {
    if (is_forward(s->region, node)) {
        int i = bti_region_input(s->region, node);
        if (i < s->carried + s->by_row) return rows_stored(s, node, status);
    }
    for (size_t k = 0; k < s->rows_made.count; k++)
        if (s->rows_made.items[k] == node) return (row_source){ROWS_MADE, (int)k};
    *status = keep(&s->rows_made, node);
    return (row_source){ROWS_MADE, (int)s->rows_made.count - 1};
}

static bt_status add_product(backward_scan *s, int input, const bti_node *node) {
    bt_status status = BT_OK;
    product p = {.input = input, .left_node = node->inputs[0], .right_node = node->inputs[1]};
    p.left_turned =
        p.left_node->op == BTI_OP_permute && p.left_node->attr->permute.axis[0] == 1 && p.left_node->input_count;
    if (p.left_turned) p.left_node = p.left_node->inputs[0];
    p.left = rows_of(s, p.left_node, &status);
    if (status == BT_OK) p.right = rows_of(s, p.right_node, &status);
    if (status == BT_OK && !bti_vec_push(&s->products, p)) status = bti_no_memory();
    return status;
}

/* Takes the products out of a sum; what is left of it, or NULL. */
static bt_status take_products(backward_scan *s, int input, bti_node *node, bt_array **rest) {
    if (is_product(s, node)) return add_product(s, input, node);
    if (node->op == BTI_OP_add && !is_forward(s->region, node) && node->input_count == 2) {
        BTI_TRY(take_products(s, input, node->inputs[0], rest));
        return take_products(s, input, node->inputs[1], rest);
    }
    bt_array *term = bti_array_on(node);
    *rest = *rest ? bt_add(*rest, term) : term;
    return bti_fail_with(bti_array_error(*rest));
}

/* Carries `array` on top of what the steps before made. */
static bt_status carry_sum(backward_scan *s, int input, bt_array *array) {
    bool has_sum = s->sums[input];
    bt_array *before = has_sum ? s->sums[input] : bti_array_new(new_leaf(s, s->region->inputs[input]));
    BTI_TRY(bti_fail_with(bti_array_error(before)));
    bt_array *sum = has_sum ? array : bt_add(before, array);
    BTI_TRY(bti_fail_with(bti_array_error(sum)));
    s->carry_of[input] = (int)s->carry.count;
    BTI_TRY(bind(&s->carry, bti_node_of(before), bt_zeros_like(s->b->x[input])));
    return keep(&s->carry_made, bti_node_of(sum));
}

/* A gradient that steps hand on as it flowed in is no carry: it is given whole, and is the result. */
static bt_status set_unchanged_aside(backward_scan *s) {
    int carried = 0;
    if (!bti_vec_reserve(&s->whole, s->carry.count)) return bti_no_memory();
    for (int i = 0; i < s->carried; i++) {
        int was = s->carry_of[i];
        if (was < 0) continue;
        bound in = s->carry.items[was];
        bti_node *out = s->carry_made.items[was];
        bool unchanged = in.inside == out;
        s->carry_of[i] = unchanged ? -1 : carried;
        if (unchanged) {
            s->unchanged[i] = in.outside;
            s->whole.items[s->whole.count++] = in;
            bti_node_release(out);
            continue;
        }
        s->carry.items[carried] = in;
        s->carry_made.items[carried++] = out;
    }
    s->carry.count = s->carry_made.count = (size_t)carried;
    return BT_OK;
}

static bt_status make_carry(backward_scan *s) {
    for (int i = 0; i < s->carried; i++) {
        if (!bti_node_has_gradient(s->region->inputs[i])) continue;
        bt_array *gradient = s->grads[i] ? s->grads[i] : bt_zeros_like(bti_array_on(s->region->inputs[i]));
        BTI_TRY(bti_fail_with(bti_array_error(gradient)));
        s->carry_of[i] = (int)s->carry_made.count;
        BTI_TRY(keep(&s->carry_made, bti_node_of(gradient)));
    }
    return set_unchanged_aside(s);
}

static bt_status make_outputs(backward_scan *s) {
    BTI_TRY(make_carry(s));
    for (int i = s->carried; i < s->carried + s->by_row; i++) {
        bt_status status = BT_OK;
        if (!s->grads[i]) continue;
        row_source rows = rows_of(s, bti_node_of(s->grads[i]), &status);
        BTI_TRY(status);
        if (rows.from == ROWS_MADE)
            s->row_of[i] = rows.index;
        else { /* a forward value: it is handed through */
            s->row_of[i] = (int)s->rows_made.count;
            BTI_TRY(keep(&s->rows_made, bti_node_of(s->grads[i])));
        }
    }
    for (int i = s->carried + s->by_row; i < s->region->input_count; i++) {
        bt_array *rest = NULL;
        if (!s->grads[i]) continue;
        BTI_TRY(take_products(s, i, bti_node_of(s->grads[i]), &rest));
        if (rest) BTI_TRY(carry_sum(s, i, rest));
    }
    return BT_OK;
}

/* --- the backward scan --------------------------------------------------------------------------------------------------- */

typedef struct recorded {
    bti_node **given, **outputs;
    bt_array **inputs, **results;
    bti_type *types;
    bti_node_vec captures;
    bti_region *region;
} recorded;

static void add_bounds(const bound_list *list, recorded *r, int *count) {
    for (size_t i = 0; i < list->count; i++) {
        r->given[*count] = list->items[i].inside;
        r->inputs[(*count)++] = list->items[i].outside;
    }
}

static bt_status cut_and_record(backward_scan *s, recorded *r) {
    int given = 0, outputs = 0, carried = (int)s->carry.count;
    add_bounds(&s->carry, r, &given);
    add_bounds(&s->rows, r, &given);
    add_bounds(&s->whole, r, &given);
    for (size_t i = 0; i < s->carry_made.count; i++) r->outputs[outputs++] = s->carry_made.items[i];
    for (size_t i = 0; i < s->rows_made.count; i++) r->outputs[outputs++] = s->rows_made.items[i];
    bti_cutting cutting = {r->given, given, r->outputs, outputs, bti_region_since(s->region), true, false};
    BTI_TRY(bti_region_captures(&cutting, &r->captures));
    size_t all = (size_t)given + r->captures.count;
    bti_node **more = bti_realloc(r->given, (all + 1) * sizeof *more);
    if (more) r->given = more;
    bt_array **inputs = bti_realloc(r->inputs, (all + 1) * sizeof *inputs);
    if (inputs) r->inputs = inputs;
    if (!more || !inputs) return bti_no_memory();
    for (size_t i = 0; i < r->captures.count; i++) {
        r->given[given + (int)i] = r->captures.items[i];
        r->inputs[given + (int)i] = bti_array_on(r->captures.items[i]);
        BTI_TRY(bti_fail_with(bti_array_error(r->inputs[given + (int)i])));
    }
    cutting.given = r->given;
    cutting.given_count = (int)all;
    BTI_TRY(bti_region_cut(&cutting, s->device, &r->region));
    BTI_TRY(bti_region_results(r->region->outputs, outputs, carried, s->length, r->types));
    bti_attr attr = {
        .scan = {.length = s->length, .reverse = !s->reverse, .carried = carried, .by_row = (int)s->rows.count}};
    return bti_record_tuple(BTI_OP_scan, r->inputs, (int)all, &attr, r->types, outputs, &r->region, 1, r->results);
}

static bt_array *rows_at(const backward_scan *s, const recorded *r, bt_array *const *stored, row_source source) {
    if (source.from == ROWS_OF_INPUT) return s->b->x[source.index];
    return source.from == ROWS_STORED ? stored[source.index] : r->results[s->carry.count + (size_t)source.index];
}

/* [steps, K, N] as [steps * K, N] */
static bt_array *merge_steps(bt_array *rows) {
    const int64_t *shape = bti_shape(rows);
    int64_t merged[2] = {bti_size_mul(shape[0], shape[1]), shape[2]};
    return bti_reshape(rows, 2, merged);
}

/* A scan around this one adds it up step by step: what it takes is not kept for all of its steps. */
static bt_array *sum_of_products(const product *p, bt_array *left, bt_array *right) {
    bt_array *turned = p->left_turned ? left : bti_permute(left, (int[]){0, 2, 1}); /* [steps, M, K] */
    bt_array *sum = bt_matmul(bti_transpose(merge_steps(turned)), merge_steps(right));
    if (!bti_array_error(sum)) bti_node_of(sum)->summed_by_step = true;
    return sum;
}

static void hand_out(backward_scan *s, const recorded *r, bt_array *const *stored) {
    for (int i = 0; i < s->region->input_count; i++) {
        if (!s->b->wanted[i]) continue;
        if (s->unchanged[i]) s->b->gx[i] = s->unchanged[i];
        if (s->carry_of[i] >= 0) s->b->gx[i] = r->results[s->carry_of[i]];
        if (s->row_of[i] >= 0) s->b->gx[i] = r->results[(int)s->carry.count + s->row_of[i]];
    }
    for (size_t k = 0; k < s->products.count; k++) {
        const product *p = &s->products.items[k];
        bt_array **to = &s->b->gx[p->input];
        bt_array *sum = sum_of_products(p, rows_at(s, r, stored, p->left), rows_at(s, r, stored, p->right));
        *to = *to ? bt_add(*to, sum) : sum;
    }
}

static bt_status record_backward(backward_scan *s) {
    size_t given = s->carry.count + s->rows.count + s->whole.count + s->stored.count;
    size_t outputs = s->carry_made.count + s->rows_made.count;
    bt_array **stored = bti_calloc(s->stored.count + 1, sizeof *stored);
    recorded r = {.given = bti_alloc((given + 1) * sizeof *r.given),
                  .inputs = bti_alloc((given + 1) * sizeof *r.inputs),
                  .outputs = bti_alloc((outputs + 1) * sizeof *r.outputs),
                  .results = bti_calloc(outputs + 1, sizeof *r.results),
                  .types = bti_alloc((outputs + 1) * sizeof *r.types)};
    bool room = stored && r.given && r.inputs && r.outputs && r.results && r.types;
    bt_status status = room ? bti_scan_store(s->b, &s->stored, &s->pairs, stored) : bti_no_memory();
    for (size_t k = 0; k < s->stored.count && status == BT_OK; k++)
        status = bind(&s->rows, s->stored.items[k], stored[k]);
    if (status == BT_OK && outputs) status = cut_and_record(s, &r);
    if (status == BT_OK) hand_out(s, &r, stored);
    bti_region_release(r.region);
    bti_node_vec_release(&r.captures);
    bti_free(r.given);
    bti_free(r.inputs);
    bti_free(r.outputs);
    bti_free(r.results);
    bti_free(r.types);
    bti_free(stored);
    return status;
}

static void release_bounds(bound_list *list) {
    for (size_t i = 0; i < list->count; i++) bti_node_release(list->items[i].inside);
    bti_vec_free(list);
}

static bt_status begin_backward(backward_scan *s) {
    bti_regions_of(s->b->tuple, &s->region);
    s->stores_inner = bti_scan_runs_again(s->b);
    s->grads = bti_calloc((size_t)s->region->input_count + 1, sizeof *s->grads);
    s->carry_of = bti_alloc(((size_t)s->region->input_count + 1) * sizeof *s->carry_of);
    s->row_of = bti_alloc(((size_t)s->region->input_count + 1) * sizeof *s->row_of);
    s->unchanged = bti_calloc((size_t)s->region->input_count + 1, sizeof *s->unchanged);
    s->sums = bti_calloc((size_t)s->region->input_count + 1, sizeof *s->sums);
    if (!s->grads || !s->sums || !s->carry_of || !s->row_of || !s->unchanged) return bti_no_memory();
    for (int i = 0; i < s->region->input_count; i++) s->carry_of[i] = s->row_of[i] = -1;
    return BT_OK;
}

void bti_gradient_scan(bti_backward *b) {
    backward_scan s = {.b = b,
                       .carried = b->attr->scan.carried,
                       .by_row = b->attr->scan.by_row,
                       .length = b->attr->scan.length,
                       .reverse = b->attr->scan.reverse != 0,
                       .place = b->tuple->place,
                       .device = b->tuple->device};
    bt_status status = begin_backward(&s);
    if (status == BT_OK) status = differentiate_step(&s);
    if (status == BT_OK) status = make_outputs(&s);
    if (status == BT_OK) status = find_needed(&s);
    if (status == BT_OK) status = record_backward(&s);
    if (status != BT_OK) bti_poison_gradients_of(b);
    bti_region_release(s.region);
    release_bounds(&s.carry);
    release_bounds(&s.rows);
    release_bounds(&s.whole);
    bti_node_vec_release(&s.carry_made);
    bti_node_vec_release(&s.rows_made);
    bti_node_vec_release(&s.stored);
    bti_vec_free(&s.pairs);
    bti_vec_free(&s.products);
    bti_free(s.grads);
    bti_free(s.sums);
    bti_free(s.carry_of);
    bti_free(s.row_of);
    bti_free(s.unchanged);
}
