/* Tangents and batches of scans, loops and branches: one operation of the same kind, whose regions are transformed.
 *
 * A region that is transformed has an input for each image; of a tangent beside the input that it belongs to, of a stack in its place.
 * What is carried gets an image if its first value has one, or if a step gives it one. */
#include "array/graph.h"
#include "array/record.h"
#include "base/alloc.h"
#include "ops/application.h"
#include "ops/region.h"

typedef BTI_VEC(bti_node *) borrowed_list;
typedef BTI_VEC(bt_array *) array_list;

/* A region that is made: what is given to it, what it returns; arrays and nodes of the innermost scope. */
typedef struct piece {
    borrowed_list given, outputs;
    bti_region *region;
} piece;

typedef struct again {
    bti_application *a;
    bool keeps; /* tangents: what there was stays beside them */
    int first;  /* input of the operation that is the first of its regions */
    int count;  /* inputs of a region */
    int carried;
    bti_region *regions[BTI_MAX_REGIONS]; /* as they were; retained */
    bt_array **leaves;                    /* by input: what stands for its image; NULL: it has none */
    piece pieces[BTI_MAX_REGIONS];
    array_list outside; /* what is given to the new operation */
    bt_array *goes_on;  /* of a loop in a batch: which elements go on, as it is carried; NULL: all or none */
} again;

static bt_status begin_again(again *s, bti_application *a, bool keeps, int first, int carried) {
    *s = (again){.a = a, .keeps = keeps, .first = first, .count = a->count - first, .carried = carried};
    bti_regions_of(a->node, s->regions);
    s->leaves = bti_calloc((size_t)s->count + 1, sizeof *s->leaves);
    return s->leaves ? BT_OK : bti_no_memory();
}

static void end_again(again *s, bt_status status) {
    for (int r = 0; r < BTI_MAX_REGIONS; r++) {
        bti_region_release(s->regions[r]);
        bti_region_release(s->pieces[r].region);
        bti_vec_free(&s->pieces[r].given);
        bti_vec_free(&s->pieces[r].outputs);
    }
    bti_vec_free(&s->outside);
    bti_free(s->leaves);
    for (int i = 0; i < s->a->results && status != BT_OK; i++) s->a->made[i] = bti_poison(bti_error_last());
}

/* --- regions ---------------------------------------------------------------------------------------------------------- */

static bt_status add_image_leaf(again *s, int input) {
    bti_type type = bti_type_of(s->regions[s->a->node->tuple->region_count - 1]->inputs[input]);
    if (!s->keeps) {
        if (type.rank == BTI_MAX_RANK)
            return bti_fail(BT_INVALID_ARGUMENT,
                            "input %d of %s has %d axes, so it has no room for the axis of a batch", input,
                            bti_op_info((bti_op)s->a->node->op)->name, type.rank);
        for (int i = type.rank++; i > 0; i--) type.shape[i] = type.shape[i - 1];
        type.shape[0] = s->a->size;
    }
    s->leaves[input] = bti_array_new(bti_region_leaf(&type, s->a->node->device, s->a->node->place));
    return bti_fail_with(bti_array_error(s->leaves[input]));
}

static bt_status add_given_leaves(again *s) {
    for (int i = 0; i < s->count; i++)
        if (s->a->image[s->first + i]) BTI_TRY(add_image_leaf(s, i));
    return BT_OK;
}

/* [B] -> [B, 1, ...] */
static bt_array *as_column(bt_array *x, int rank) {
    int64_t shape[BTI_MAX_RANK];
    if (bti_array_error(x)) return x;
    for (int i = 0; i < rank; i++) shape[i] = i ? 1 : bti_shape(x)[0];
    return bti_reshape(x, rank, shape);
}

/* The same stack. No gradient passes to elements for which `counts` [B] is not `wanted`: what is computed of them is not used, and its derivative may be infinite, of which
 * nothing would be NaN. */
static bt_array *only_where(bt_array *counts, bool wanted, bt_array *stack) {
    if (bti_array_error(stack) || !bti_node_has_gradient(bti_node_of(stack))) return stack;
    bt_array *column = as_column(counts, bti_rank(stack)), *stopped = bt_stop_gradient(stack);
    return bt_where(column, wanted ? stack : stopped, wanted ? stopped : stack);
}

/* What the ys, made of the region's inputs, become. */
static bt_status transform_in(again *s, const bti_region *region, bt_array *const *ys, int count, bt_array **made) {
    bt_array **leaves = bti_alloc(2 * (size_t)(s->count + 1) * sizeof *leaves), **images = leaves + s->count + 1;
    bt_status status = leaves ? BT_OK : bti_no_memory();
    int n = 0;
    for (int i = 0; i < s->count && status == BT_OK; i++) {
        if (!s->leaves[i]) continue;
        leaves[n] = bti_array_on(region->inputs[i]);
        images[n] = s->goes_on ? only_where(s->goes_on, true, s->leaves[i]) : s->leaves[i];
        status = bti_fail_with(bti_array_error(images[n++]));
    }
    if (status == BT_OK) status = s->a->transform(s->a, ys, count, leaves, images, n, made);
    bti_free(leaves);
    return status;
}

static bt_status add_output(piece *p, bt_array *output) {
    BTI_TRY(bti_fail_with(bti_array_error(output)));
    return bti_vec_push(&p->outputs, bti_node_of(output)) ? BT_OK : bti_no_memory();
}

/* The image of a value that has none: zeros, or a stack of itself. */
static bt_array *trivial_image(const again *s, bt_array *x) {
    return s->keeps ? bt_zeros_like(x) : bti_repeated(x, s->a->size);
}

static bt_array *image_outside(const again *s, int input, bool by_row) {
    bt_array *image = s->a->image[s->first + input];
    if (!image) return trivial_image(s, s->a->x[s->first + input]);
    return by_row && !s->keeps ? bti_move_axis(image, 0, 1) : image; /* [B, steps, ...] by steps */
}

/* Gives inputs from..to to the new operation; returns how many they are now. by_row: those of a scan. */
static bt_status give(again *s, int from, int to, bool by_row, int *count) {
    size_t before = s->outside.count;
    int regions = s->a->node->tuple->region_count;
    for (int i = from; i < to; i++) {
        bool plain = s->keeps || !s->leaves[i], room = true;
        for (int r = 0; r < regions && room; r++) {
            if (plain) room = bti_vec_push(&s->pieces[r].given, s->regions[r]->inputs[i]);
            if (s->leaves[i]) room = room && bti_vec_push(&s->pieces[r].given, bti_node_of(s->leaves[i]));
        }
        if (room && plain) room = bti_vec_push(&s->outside, s->a->x[s->first + i]);
        if (room && s->leaves[i]) room = bti_vec_push(&s->outside, image_outside(s, i, by_row));
        if (!room) return bti_no_memory();
        if (s->leaves[i]) BTI_TRY(bti_fail_with(bti_array_error(s->outside.items[s->outside.count - 1])));
    }
    *count = (int)(s->outside.count - before);
    return BT_OK;
}

/* Since the first of the old regions; of a branch nothing is computed outside. */
static bti_cutting cutting_of(const again *s, const piece *p) {
    const bti_node *node = s->a->node;
    uint64_t since = bti_regions_since(s->regions, node->tuple->region_count);
    return (bti_cutting){p->given.items, (int)p->given.count,    p->outputs.items, (int)p->outputs.count, since,
                         s->keeps,       node->op == BTI_OP_cond};
}

/* Cuts the new regions out. What they read from outside is given to the operation too. */
static bt_status cut_pieces(again *s) {
    int regions = s->a->node->tuple->region_count;
    bti_node_vec captures = {0};
    bt_status status = BT_OK;
    for (int r = 0; r < regions && status == BT_OK; r++) {
        bti_cutting cutting = cutting_of(s, &s->pieces[r]);
        status = bti_region_captures(&cutting, &captures);
    }
    for (size_t c = 0; c < captures.count && status == BT_OK; c++) {
        for (int r = 0; r < regions; r++)
            if (!bti_vec_push(&s->pieces[r].given, captures.items[c])) status = bti_no_memory();
        if (!bti_vec_push(&s->outside, bti_array_on(captures.items[c]))) status = bti_no_memory();
    }
    for (int r = 0; r < regions && status == BT_OK; r++) {
        bti_cutting cutting = cutting_of(s, &s->pieces[r]);
        status = bti_region_cut(&cutting, s->a->node->device, &s->pieces[r].region);
    }
    bti_node_vec_release(&captures);
    return status;
}

/* Records the operation with the new regions. length: of the results from `carried` on, which are rows (a scan's). */
static bt_status record_pieces(again *s, const bti_attr *attr, int carried, int64_t length, bt_array **results) {
    int regions = s->a->node->tuple->region_count;
    const bti_region *last = s->pieces[regions - 1].region;
    bti_region *made[BTI_MAX_REGIONS] = {s->pieces[0].region, s->pieces[1].region};
    bti_type *types = bti_alloc((size_t)(last->output_count + 1) * sizeof *types);
    if (!types) return bti_no_memory();
    bt_status status = bti_region_results(last->outputs, last->output_count, carried, length, types);
    if (status == BT_OK)
        status = bti_record_tuple((bti_op)s->a->node->op, s->outside.items, (int)s->outside.count, attr, types,
                                  last->output_count, made, regions, results);
    bti_free(types);
    return status;
}

/* --- scans ------------------------------------------------------------------------------------------------------------ */

static bool is_wanted(const again *s, int output) {
    return output < s->carried || (output < s->a->results && s->a->known[output]);
}

/* What the body makes of the images, of what is carried and of the rows that are wanted. */
static bt_status transform_step(again *s, bt_array **made) {
    const bti_region *region = s->regions[0];
    int outputs = region->output_count, count = 0;
    bt_array **ys = bti_alloc(2 * (size_t)(outputs + 1) * sizeof *ys), **of_ys = ys + outputs + 1;
    if (!ys) return bti_no_memory();
    for (int o = 0; o < outputs; o++)
        if (is_wanted(s, o)) ys[count++] = bti_array_on(region->outputs[o]);
    bt_status status = transform_in(s, region, ys, count, of_ys);
    for (int o = outputs; o-- > 0 && status == BT_OK;) made[o] = is_wanted(s, o) ? of_ys[--count] : NULL;
    bti_free(ys);
    return status;
}

/* Repeats until no step gives an image to something carried that had none. */
static bt_status settle_carry(again *s, bt_array *const *made, bool *settled) {
    *settled = true;
    for (int i = 0; i < s->carried; i++) {
        if (!made[i] || s->leaves[i]) continue;
        BTI_TRY(add_image_leaf(s, i));
        *settled = false;
    }
    return BT_OK;
}

/* Fills the new body's outputs; rows[k]: which result the kth row is. */
static bt_status return_from_step(again *s, bt_array *const *made, int *rows, int *row_count) {
    const bti_region *region = s->regions[0];
    for (int i = 0; i < s->carried; i++) {
        bt_array *plain = bti_array_on(region->outputs[i]);
        if (s->keeps || !s->leaves[i]) BTI_TRY(add_output(&s->pieces[0], plain));
        if (s->leaves[i]) BTI_TRY(add_output(&s->pieces[0], made[i] ? made[i] : trivial_image(s, plain)));
    }
    *row_count = 0;
    for (int o = s->carried; o < region->output_count; o++) {
        if (!is_wanted(s, o) || (s->keeps && !made[o])) continue;
        rows[(*row_count)++] = o;
        BTI_TRY(add_output(&s->pieces[0], made[o] ? made[o] : bti_array_on(region->outputs[o])));
    }
    return BT_OK;
}

/* results: of the new scan. */
static void hand_out_scan(again *s, bt_array *const *made, const int *rows, int row_count, bt_array *const *results) {
    int next = 0;
    for (int i = 0; i < s->carried; i++) {
        bt_array *plain = s->keeps || !s->leaves[i] ? results[next++] : NULL;
        bt_array *image = s->leaves[i] ? results[next++] : NULL;
        s->a->made[i] = image || s->keeps ? image : bti_repeated(plain, s->a->size);
    }
    for (int k = 0; k < row_count; k++) {
        bt_array *of_rows = results[next++];
        s->a->made[rows[k]] = s->keeps        ? of_rows
                              : made[rows[k]] ? bti_move_axis(of_rows, 1, 0)
                                              : bti_repeated(of_rows, s->a->size);
    }
}

static bt_status scan_again(again *s, bt_array **made, bt_array **results, int *rows) {
    bti_attr attr = {.scan = s->a->node->attr->scan};
    int before = s->carried + attr.scan.by_row;
    int carried, by_row, whole, row_count;
    bool settled = false;
    BTI_TRY(add_given_leaves(s));
    while (!settled) {
        BTI_TRY(transform_step(s, made));
        BTI_TRY(settle_carry(s, made, &settled));
    }
    BTI_TRY(give(s, 0, s->carried, false, &carried));
    BTI_TRY(give(s, s->carried, before, true, &by_row));
    BTI_TRY(give(s, before, s->count, false, &whole));
    BTI_TRY(return_from_step(s, made, rows, &row_count));
    BTI_TRY(cut_pieces(s));
    attr.scan.carried = carried, attr.scan.by_row = by_row;
    BTI_TRY(record_pieces(s, &attr, carried, attr.scan.length, results));
    hand_out_scan(s, made, rows, row_count, results);
    return BT_OK;
}

static void transform_scan(bti_application *a, bool keeps) {
    again s;
    bt_status status = begin_again(&s, a, keeps, 0, a->node->attr->scan.carried);
    size_t outputs = (size_t)s.regions[0]->output_count;
    bt_array **made = bti_calloc(3 * outputs + 1, sizeof *made), **results = made + outputs;
    int *rows = bti_alloc((outputs + 1) * sizeof *rows);
    if (!made || !rows) status = bti_no_memory();
    if (status == BT_OK) status = scan_again(&s, made, results, rows);
    bti_free(made);
    bti_free(rows);
    end_again(&s, status);
}

void bti_tangent_scan(bti_application *a) { transform_scan(a, true); }
void bti_batch_scan(bti_application *a) { transform_scan(a, false); }

/* --- loops with a test ------------------------------------------------------------------------------------------------ */

/* In a batch the test may differ by element. Then all that is carried does, since some elements go on and others stay what they are; and which go on (a bool
 * for each) is carried too, behind the rest: the test is computed once before the loop and once at the end of each step, and what is left of it is whether
 * any goes on. */

/* The test of what stands for the inputs of the body. */
static bt_status test_of(const again *s, bt_array *const *inputs, bt_array **test) {
    return bti_region_inline(s->regions[0], s->keeps, inputs, test);
}

/* The test as a part of the body: both regions are made of the body's inputs. */
static bt_status test_in_body(const again *s, bt_array **test) {
    bt_array **inputs = bti_alloc((size_t)(s->count + 1) * sizeof *inputs);
    if (!inputs) return bti_no_memory();
    for (int i = 0; i < s->count; i++) inputs[i] = bti_array_on(s->regions[1]->inputs[i]);
    bt_status status = test_of(s, inputs, test);
    bti_free(inputs);
    return status;
}

static bt_status add_goes_on_leaf(again *s) {
    if (s->goes_on) return BT_OK;
    bti_type type = {.dtype = BT_BOOL, .rank = 1, .shape = {s->a->size}};
    s->goes_on = bti_array_new(bti_region_leaf(&type, s->a->node->device, s->a->node->place));
    return bti_fail_with(bti_array_error(s->goes_on));
}

/* made: of what is carried. Repeats until it is settled what has an image. */
static bt_status transform_loop_step(again *s, bt_array *test, bt_array **made) {
    const bti_region *body = s->regions[1];
    bool settled = false;
    bt_array **ys = bti_alloc((size_t)(s->carried + 1) * sizeof *ys);
    bt_status status = ys ? add_given_leaves(s) : bti_no_memory();
    for (int i = 0; i < s->carried && ys; i++) ys[i] = bti_array_on(body->outputs[i]);
    while (status == BT_OK && !settled) {
        bt_array *truths = NULL;
        if (!s->goes_on) status = transform_in(s, body, &test, 1, &truths);
        if (status == BT_OK && truths) status = add_goes_on_leaf(s);
        if (status == BT_OK) status = transform_in(s, body, ys, s->carried, made);
        if (status == BT_OK) status = settle_carry(s, made, &settled);
        for (int i = 0; i < s->carried && status == BT_OK && s->goes_on; i++) {
            if (s->leaves[i]) continue;
            settled = false;
            status = add_image_leaf(s, i);
        }
    }
    bti_free(ys);
    return status;
}

/* Which elements go on when inputs of the body are images[] (NULL: there is no stack of it, and it is plain[]). */
static bt_status truths_of(const again *s, bt_array *const *plain, bt_array *const *images, bt_array **truths) {
    size_t count = (size_t)s->count + 1;
    bt_array **inputs = bti_alloc(3 * count * sizeof *inputs), **leaves = inputs + count, **stacks = leaves + count;
    bt_array *test;
    int n = 0;
    if (!inputs) return bti_no_memory();
    for (int i = 0; i < s->count; i++) {
        inputs[i] = images[i] ? bti_array_on(s->regions[1]->inputs[i]) : plain[i];
        if (!images[i]) continue;
        leaves[n] = inputs[i];
        stacks[n++] = images[i];
    }
    bt_status status = test_of(s, inputs, &test);
    if (status == BT_OK) status = s->a->transform(s->a, &test, 1, leaves, stacks, n, truths);
    if (status == BT_OK && !*truths) *truths = bti_repeated(test, s->a->size);
    bti_free(inputs);
    return status == BT_OK ? bti_fail_with(bti_array_error(*truths)) : status;
}

/* Which elements begin: given to the new operation, and to its regions, behind what is carried. */
static bt_status give_truths(again *s) {
    bt_array **images = bti_calloc((size_t)s->count + 1, sizeof *images), *first = NULL;
    bt_status status = images ? BT_OK : bti_no_memory();
    for (int i = 0; i < s->count && status == BT_OK; i++) {
        if (!s->leaves[i]) continue;
        images[i] = image_outside(s, i, false);
        status = bti_fail_with(bti_array_error(images[i]));
    }
    if (status == BT_OK) status = truths_of(s, s->a->x + s->first, images, &first);
    bti_free(images);
    BTI_TRY(status);
    bool room = bti_vec_push(&s->outside, first);
    for (int r = 0; r < 2 && room; r++) room = bti_vec_push(&s->pieces[r].given, bti_node_of(s->goes_on));
    return room ? BT_OK : bti_no_memory();
}

/* An element that was done stays so, whatever the test says of it now. */
static bt_status return_truths(again *s, bt_array *const *next) {
    bt_array **plain = bti_alloc(2 * (size_t)(s->count + 1) * sizeof *plain), **images = plain + s->count + 1, *truths;
    if (!plain) return bti_no_memory();
    for (int i = 0; i < s->count; i++) {
        plain[i] = bti_array_on(s->regions[1]->inputs[i]);
        images[i] = i < s->carried ? next[i] : s->leaves[i];
    }
    bt_status status = truths_of(s, plain, images, &truths);
    bti_free(plain);
    return status == BT_OK ? add_output(&s->pieces[1], bt_logical_and(s->goes_on, truths)) : status;
}

/* made: of what is carried; then what it is in the next step. */
static bt_status return_from_loop(again *s, bt_array *test, bt_array **made) {
    BTI_TRY(add_output(&s->pieces[0], s->goes_on ? bt_any(s->goes_on, BT_ALL, false) : test));
    for (int i = 0; i < s->carried; i++) {
        bt_array *plain = bti_array_on(s->regions[1]->outputs[i]);
        if (s->keeps || !s->leaves[i]) BTI_TRY(add_output(&s->pieces[1], plain));
        if (!s->leaves[i]) continue;
        if (!made[i]) made[i] = trivial_image(s, plain);
        if (s->goes_on) made[i] = bti_where(as_column(s->goes_on, bti_rank(s->leaves[i])), made[i], s->leaves[i]);
        BTI_TRY(add_output(&s->pieces[1], made[i]));
    }
    return s->goes_on ? return_truths(s, made) : BT_OK;
}

static bt_status loop_again(again *s, bt_array **made, bt_array **results) {
    int carried, whole;
    bt_array *test;
    BTI_TRY(test_in_body(s, &test));
    BTI_TRY(transform_loop_step(s, test, made));
    BTI_TRY(give(s, 0, s->carried, false, &carried));
    if (s->goes_on) BTI_TRY(give_truths(s));
    BTI_TRY(give(s, s->carried, s->count, false, &whole));
    for (size_t i = 0; i < s->pieces[1].given.count; i++) s->pieces[0].given.items[i] = s->pieces[1].given.items[i];
    BTI_TRY(return_from_loop(s, test, made));
    BTI_TRY(cut_pieces(s));
    carried += s->goes_on != NULL;
    bti_attr attr = {.loop = {.most = s->a->node->attr->loop.most, .carried = carried}};
    BTI_TRY(record_pieces(s, &attr, carried, 0, results));
    hand_out_scan(s, made, NULL, 0, results);
    return BT_OK;
}

static void transform_while(bti_application *a, bool keeps) {
    again s;
    bt_status status = begin_again(&s, a, keeps, 0, (int)a->node->attr->loop.carried);
    bt_array **made = bti_calloc(3 * (size_t)(s.carried + 1), sizeof *made), **results = made + s.carried + 1;
    if (!made) status = bti_no_memory();
    if (status == BT_OK) status = loop_again(&s, made, results);
    bti_free(made);
    end_again(&s, status);
}

void bti_tangent_while(bti_application *a) { transform_while(a, true); }
void bti_batch_while(bti_application *a) { transform_while(a, false); }

/* --- branches --------------------------------------------------------------------------------------------------------- */

/* By result: what each way makes of the images; NULL: nothing. */
static bt_status transform_ways(again *s, bt_array **made[2]) {
    int results = s->a->results;
    bt_array **ys = bti_alloc((size_t)(results + 1) * sizeof *ys);
    bt_status status = ys ? BT_OK : bti_no_memory();
    for (int way = 0; way < 2 && status == BT_OK; way++) {
        for (int r = 0; r < results; r++) ys[r] = bti_array_on(s->regions[way]->outputs[r]);
        status = transform_in(s, s->regions[way], ys, results, made[way]);
    }
    bti_free(ys);
    return status;
}

/* Both ways return the same; of which results, and whether those are images. */
static bt_status return_from_ways(again *s, bt_array **made[2], bool differs, int *which, bool *image, int *count) {
    *count = 0;
    for (int r = 0; r < s->a->results; r++) {
        bool has_image = made[0][r] || made[1][r] || differs;
        if (!s->a->known[r] || (s->keeps && !has_image)) continue;
        for (int way = 0; way < 2; way++) {
            bt_array *plain = bti_array_on(s->regions[way]->outputs[r]);
            bt_array *output = !has_image ? plain : made[way][r] ? made[way][r] : trivial_image(s, plain);
            BTI_TRY(add_output(&s->pieces[way], output));
        }
        which[*count] = r;
        image[(*count)++] = has_image;
    }
    return BT_OK;
}

/* What is given to a way that some elements of the batch go: the stacks behind the predicate, then captures. */
static bt_status give_way(const again *s, int way, bt_array **given) {
    for (size_t i = 1; i < s->outside.count; i++) {
        bool stack = i <= (size_t)s->count && s->leaves[i - 1];
        bt_array *x = s->outside.items[i];
        given[i - 1] = stack ? only_where(s->a->image[0], way == 0, x) : x;
        BTI_TRY(bti_fail_with(bti_array_error(given[i - 1])));
    }
    return BT_OK;
}

/* Where the elements of a batch go different ways, both are computed. */
static bt_status both_ways(const again *s, int count, bt_array **results) {
    bt_array **of[2] = {results, results + count}, **given = bti_alloc(s->outside.count * sizeof *given);
    bt_status status = given ? BT_OK : bti_no_memory();
    for (int way = 0; way < 2 && status == BT_OK; way++) {
        status = give_way(s, way, given);
        if (status == BT_OK) status = bti_region_inline(s->pieces[way].region, false, given, of[way]);
    }
    for (int k = 0; k < count && status == BT_OK; k++)
        results[k] = bt_where(as_column(s->a->image[0], bti_rank(of[0][k])), of[0][k], of[1][k]);
    bti_free(given);
    return status;
}

static bt_status branch_again(again *s, bt_array **made[2], bt_array **results, int *which, bool *image) {
    int given, count;
    bool differs = !s->keeps && s->a->image[0];
    if (!bti_vec_push(&s->outside, s->a->x[0])) return bti_no_memory();
    BTI_TRY(add_given_leaves(s));
    BTI_TRY(transform_ways(s, made));
    BTI_TRY(give(s, 0, s->count, false, &given));
    BTI_TRY(return_from_ways(s, made, differs, which, image, &count));
    if (!count) return BT_OK; /* no tangent comes out */
    BTI_TRY(cut_pieces(s));
    BTI_TRY(differs ? both_ways(s, count, results) : record_pieces(s, NULL, count, 0, results));
    for (int k = 0; k < count; k++) s->a->made[which[k]] = image[k] ? results[k] : bti_repeated(results[k], s->a->size);
    return BT_OK;
}

static void transform_cond(bti_application *a, bool keeps) {
    again s;
    bt_status status = begin_again(&s, a, keeps, 1, 0);
    size_t room = (size_t)a->results + 1;
    bt_array **arrays = bti_calloc(4 * room, sizeof *arrays), **made[2] = {arrays, arrays + room};
    int *which = bti_alloc(room * sizeof *which);
    bool *image = bti_alloc(room * sizeof *image);
    if (!arrays || !which || !image) status = bti_no_memory();
    if (status == BT_OK) status = branch_again(&s, made, arrays + 2 * room, which, image);
    bti_free(arrays);
    bti_free(which);
    bti_free(image);
    end_again(&s, status);
}

void bti_tangent_cond(bti_application *a) { transform_cond(a, true); }
void bti_batch_cond(bti_application *a) { transform_cond(a, false); }
