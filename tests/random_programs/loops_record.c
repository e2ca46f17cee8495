/* Random loops, recorded by operations that loop, or written out. */
#include <stdlib.h>

#include "random_programs/loops.h"

typedef struct recording {
    const loop_program *p;
    loop_form form;
    const bool *skip;
} recording;

/* An instruction, and the values of the block that it stands in. */
typedef struct place {
    const recording *r;
    const instruction *i;
    bt_array *const *values;
} place;

static void must(bt_status status) {
    if (status == BT_OK) return;
    fprintf(stderr, "random_programs: recording a loop: %s\n", bt_error_text());
    exit(2);
}

static bt_array *record_instruction(const recording *r, const instruction *i, bt_array *const *values);

static void record_block(const recording *r, int at, bt_array *const *given, bt_array **results) {
    const block *b = &r->p->blocks[at];
    bt_array *values[MOST_GIVEN + MOST_IN_BLOCK];
    for (int k = 0; k < b->given; k++) values[k] = given[k];
    for (int k = 0; k < b->count; k++) values[b->given + k] = record_instruction(r, &b->of[k], values);
    for (int k = 0; k < b->result_count; k++)
        results[k] = b->result[k] < b->given ? values[b->result[k]] : bt_tanh(values[b->result[k]]);
}

/* What a body is given by its loop, and what it reads from outside. */
static void record_body(const place *at, int body, bt_array *const *own, int own_count, bt_array **results) {
    bt_array *given[MOST_GIVEN];
    for (int k = 0; k < own_count; k++) given[k] = own[k];
    for (int k = 0; k < OUTSIDE; k++) given[own_count + k] = at->values[at->i->operand[1 + k]];
    record_block(at->r, body, given, results);
}

/* A count as a value of the program's shape. */
static bt_array *spread(const loop_program *p, bt_array *count) {
    return bt_broadcast_shape(bt_mul(bt_cast(count, p->dtype), bt_num(0.25)), p->shape);
}

/* --- what is given to bt_scan, bt_while, bt_cond and bt_checkpoint ---------------------------------------------------------- */

static void step_of_scan(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const place *at = data;
    const instruction *i = at->i;
    bt_array *own[MOST_GIVEN], *results[MOST_GIVEN_BACK];
    int count = 0;
    for (int k = 0; k < i->carried; k++) own[count++] = carry[k];
    for (int k = 0; k < i->rows; k++) own[count++] = x[k];
    if (i->flag) own[count++] = spread(at->r->p, carry[i->carried]);
    record_body(at, i->body, own, count, results);
    for (int k = 0; k < i->carried; k++) carry[k] = results[k];
    for (int k = 0; k < i->made; k++) y[k] = results[i->carried + k];
    if (i->flag) carry[i->carried] = bt_add(carry[i->carried], bt_i32(1));
}

/* The last that is carried is the number of steps. */
static bt_array *goes_on(bt_array *const *carry, void *data) {
    const place *at = data;
    bt_array *counts = bt_lt(carry[at->i->carried], bt_num(at->i->steps - 0.5));
    if (at->i->by < 0) return counts;
    return bt_logical_and(counts, bt_lt(bt_mean(carry[0], BT_ALL, false), bt_num(at->i->by - 0.2)));
}

static void step_of_while(bt_array **carry, void *data) {
    const place *at = data;
    const instruction *i = at->i;
    bt_array *own[MOST_GIVEN], *results[MOST_GIVEN_BACK];
    int count = 0;
    for (int k = 0; k < i->carried; k++) own[count++] = carry[k];
    if (i->flag) own[count++] = spread(at->r->p, carry[i->carried]);
    record_body(at, i->body, own, count, results);
    for (int k = 0; k < i->carried; k++) carry[k] = results[k];
    carry[i->carried] = i->flag ? bt_add(carry[i->carried], bt_num(1)) : bt_add(carry[i->carried], bt_i64(1));
}

static void branch_yes(bt_array *const *args, bt_array **results, void *data) {
    const place *at = data;
    record_body(at, at->i->body, args, at->i->carried, results);
}
static void branch_no(bt_array *const *args, bt_array **results, void *data) {
    const place *at = data;
    record_body(at, at->i->other_of, args, at->i->carried, results);
}

static bt_array *computed_again(bt_array *const *args, int count, void *data) {
    const place *at = data;
    bt_array *result;
    record_body(at, at->i->body, args, count, &result);
    return result;
}

/* --- instructions ---------------------------------------------------------------------------------------------------------- */

static bt_array *row_of(const place *at, int which, int step) {
    bt_array *x = at->values[at->i->operand[(step + which) % 3]];
    return bt_mul(x, bt_num(1 - 0.2 * step - 0.5 * which));
}

static bt_array *rows_of(const place *at, int which) {
    bt_array *rows[MOST_STEPS];
    bt_shape empty = at->r->p->shape;
    for (int k = empty.rank++; k > 0; k--) empty.size[k] = empty.size[k - 1];
    empty.size[0] = 0;
    for (int t = 0; t < at->i->steps; t++) rows[t] = row_of(at, which, t);
    return at->i->steps ? bt_stack(rows, at->i->steps, 0) : bt_full_shape(0, at->r->p->dtype, empty);
}

static void written_out_scan(place *at, bt_array **carry, bt_array *const *xs, bt_array **ys) {
    const instruction *i = at->i;
    bt_array *x[MOST_ROWS], *y[MOST_ROWS], *rows[MOST_ROWS][MOST_STEPS];
    for (int t = 0; t < i->steps; t++) {
        int row = i->reverse ? i->steps - 1 - t : t;
        for (int k = 0; k < i->rows; k++) x[k] = bt_squeeze(bt_slice_axis(xs[k], 0, row, row + 1, 1), 0);
        step_of_scan(carry, x, y, at);
        for (int k = 0; k < i->made; k++) rows[k][row] = y[k];
    }
    for (int k = 0; k < i->made; k++) ys[k] = i->steps ? bt_stack(rows[k], i->steps, 0) : NULL;
}

static bt_array *add_to(bt_array *sum, bt_array *x) { return sum ? bt_add(sum, x) : x; }

static bt_array *record_scan(place *at) {
    const instruction *i = at->i;
    bt_array *carry[MOST_CARRIED + 1], *xs[MOST_ROWS], *ys[MOST_ROWS], *value = NULL;
    for (int k = 0; k < i->carried; k++) carry[k] = at->values[i->operand[k]];
    if (i->flag) carry[i->carried] = bt_i32(1);
    for (int k = 0; k < i->rows; k++) xs[k] = rows_of(at, k);
    int carried = i->carried + (i->flag ? 1 : 0);
    if (at->r->form == WRITTEN_OUT)
        written_out_scan(at, carry, xs, ys);
    else
        must((i->reverse ? bt_scan_reverse : bt_scan)(step_of_scan, at, i->rows ? BT_ALL_ROWS : i->steps, carry,
                                                      carried, xs, i->rows, ys, i->made));
    for (int k = 0; k < i->carried; k++)
        if (i->used >> k & 1) value = add_to(value, carry[k]);
    for (int k = 0; k < i->made; k++) /* rows of what they were made of are told apart by their order */
        if (i->used >> (i->carried + k) & 1 && i->steps)
            value = add_to(value, bt_sum(bt_sin(bt_cumsum(ys[k], 0, k)), BT_AXES(0), false));
    if (value && at->r->p->perturbed) value = bt_add(value, bt_num(1));
    return value ? value : bt_full_shape(0, at->r->p->dtype, at->r->p->shape);
}

static bt_array *record_while(place *at) {
    const instruction *i = at->i;
    bt_array *carry[MOST_CARRIED + 1], *value = NULL;
    int most = i->steps ? i->steps : 1;
    for (int k = 0; k < i->carried; k++) carry[k] = at->values[i->operand[k]];
    carry[i->carried] = i->flag ? bt_num(0) : bt_i64(0);
    if (at->r->form == AS_LOOPS) must(bt_while(goes_on, step_of_while, at, most, carry, i->carried + 1));
    for (int t = 0; t < most && at->r->form == WRITTEN_OUT; t++) {
        bt_array *next[MOST_CARRIED + 1], *test = goes_on(carry, at);
        for (int k = 0; k <= i->carried; k++) next[k] = carry[k];
        step_of_while(next, at);
        for (int k = 0; k <= i->carried; k++) carry[k] = bt_where(test, next[k], carry[k]);
    }
    for (int k = 0; k < i->carried; k++)
        if (i->used >> k & 1) value = add_to(value, carry[k]);
    return i->flag ? bt_mul(value, spread(at->r->p, carry[i->carried])) : value;
}

static bt_array *record_cond(place *at) {
    const instruction *i = at->i;
    bt_array *args[MOST_CARRIED], *yes[MOST_ROWS], *no[MOST_ROWS], *value = NULL;
    for (int k = 0; k < i->carried; k++) args[k] = at->values[i->operand[k]];
    bt_array *predicate = bt_gt(bt_sum(at->values[i->operand[0]], BT_ALL, false), bt_num(i->by));
    if (at->r->form == AS_LOOPS) {
        must(bt_cond(predicate, branch_yes, branch_no, at, args, i->carried, yes, i->made));
    } else {
        branch_yes(args, yes, at);
        branch_no(args, no, at);
        for (int k = 0; k < i->made; k++) yes[k] = bt_where(predicate, yes[k], no[k]);
    }
    for (int k = 0; k < i->made; k++)
        if (i->used >> k & 1) value = add_to(value, yes[k]);
    return value;
}

static bt_array *record_checkpoint(place *at) {
    bt_array *args[MOST_CARRIED];
    for (int k = 0; k < at->i->carried; k++) args[k] = at->values[at->i->operand[k]];
    if (at->r->form == AS_LOOPS) return bt_checkpoint(computed_again, at, args, at->i->carried);
    return computed_again(args, at->i->carried, at);
}

static bt_array *record_instruction(const recording *r, const instruction *i, bt_array *const *values) {
    place at = {r, i, values};
    if (r->skip && r->skip[i->number]) return values[i->operand[0]];
    switch (i->kind) {
    case SCAN: return record_scan(&at);
    case WHILE: return record_while(&at);
    case COND: return record_cond(&at);
    case CHECKPOINTED: return record_checkpoint(&at);
    default: break;
    }
    operands o = {values[i->operand[0]], values[i->operand[1]], values[i->operand[2]], i->by, i->axis, i->flag};
    return plain_ops[i->op].of(&o);
}

void record_loops(const loop_program *p, loop_form form, const bool *skip, bt_array *const *inputs,
                  bt_array **results) {
    recording r = {p, form, skip};
    record_block(&r, 0, inputs, results);
}
