/* Derivatives and batches of loops and branches, one in the other, beside what JAX gives for them (tests/transforms/loops.safetensors,
 * which tools/transform_cases.py writes; the programs and cases have the names that they have there). */
#include "transforms/cases.h"

static bt_array *sum(bt_array *x) { return bt_sum(x, BT_ALL, false); }
static bt_array *sum_of_sin(bt_array *x) { return sum(bt_sin(x)); }

/* --- programs --------------------------------------------------------------------------------------------------------- */

typedef struct cell {
    bt_array *w, *b;
    bool checkpointed;
} cell;

static bt_array *next_state(bt_array *const *args, int count, void *data) { /* of h, x */
    const cell *c = data;
    return bt_tanh(bt_add(bt_add(bt_matmul(args[0], c->w), args[1]), c->b));
}

static void step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    const cell *c = data;
    bt_array *args[2] = {carry[0], x[0]};
    bt_array *h = c->checkpointed ? bt_checkpoint(next_state, data, args, 2) : next_state(args, 2, data);
    y[0] = bt_mul(bt_mul(h, x[0]), bt_cast(carry[1], bt_dtype_of(h)));
    y[1] = bt_mul(h, h);
    carry[0] = h;
    carry[1] = bt_add(carry[1], bt_i32(1));
    carry[2] = bt_add(carry[2], bt_mul(h, x[0]));
}

/* in: w, b, xs, h */
static bt_array *scan_in_a_way(bt_array *const *in, bool reverse, bool checkpointed) {
    cell c = {in[0], in[1], checkpointed};
    bt_array *carry[3] = {in[3], bt_i32(1), bt_zeros_like(in[3])}, *ys[2];
    OK((reverse ? bt_scan_reverse : bt_scan)(step, &c, BT_ALL_ROWS, carry, 3, in + 2, 1, ys, 2));
    bt_array *parts[4] = {bt_mul(carry[0], bt_cast(carry[1], bt_dtype_of(in[3]))), carry[2],
                          bt_sum(bt_sin(ys[0]), BT_AXES(0), false), bt_sum(ys[1], BT_AXES(0), false)};
    return bt_add_n(parts, 4);
}
static bt_array *scanned(bt_array *const *in) { return scan_in_a_way(in, false, false); }
static bt_array *scanned_reverse(bt_array *const *in) { return scan_in_a_way(in, true, false); }
static bt_array *scanned_loss(bt_array *const *in) { return sum_of_sin(scanned(in)); }
static bt_array *scanned_reverse_loss(bt_array *const *in) { return sum_of_sin(scanned_reverse(in)); }
static bt_array *scanned_checkpoint_loss(bt_array *const *in) { return sum_of_sin(scan_in_a_way(in, false, true)); }

static bt_array *goes_on(bt_array *const *carry, void *data) {
    return bt_logical_and(bt_lt(sum(bt_square(carry[0])), bt_num(4)), bt_lt(carry[1], bt_i32(5)));
}
static void grow(bt_array **carry, void *b) {
    carry[0] = bt_add(bt_mul(carry[0], bt_num(1.5)), bt_sin(b));
    carry[1] = bt_add(carry[1], bt_i32(1));
}
/* in: b, h */
static bt_array *looped(bt_array *const *in) {
    bt_array *carry[2] = {in[1], bt_i32(0)};
    OK(bt_while(goes_on, grow, in[0], 6, carry, 2));
    return bt_mul(carry[0], bt_cast(carry[1], BT_F64));
}
static bt_array *looped_loss(bt_array *const *in) { return sum_of_sin(looped(in)); }

static bt_array *is_positive(bt_array *x) { return bt_gt(sum(x), bt_num(0)); }
static void sine_and_square(bt_array *const *args, bt_array **results, void *b) {
    results[0] = bt_mul(bt_sin(args[0]), b);
    results[1] = bt_mul(args[0], args[0]);
}
static void more_and_running(bt_array *const *args, bt_array **results, void *b) {
    results[0] = bt_add(args[0], bt_num(1));
    results[1] = bt_cumsum(bt_mul(args[0], b), 0, false);
}
/* in: b, x */
static void branched(bt_array *const *in, bt_array **results) {
    OK(bt_cond(is_positive(in[1]), sine_and_square, more_and_running, in[0], in + 1, 1, results, 2));
}
static bt_array *branched_sum(bt_array *const *in) {
    bt_array *results[2];
    branched(in, results);
    return sum(bt_mul(bt_sin(results[0]), results[1]));
}

typedef struct grid_data {
    bt_array *w, *x;
} grid_data;
static void loop_way(bt_array *const *args, bt_array **results, void *data) {
    const grid_data *g = data;
    bt_array *in[2] = {g->x, bt_mul(args[0], bt_num(0.3))};
    results[0] = looped(in);
}
static void product_way(bt_array *const *args, bt_array **results, void *data) {
    const grid_data *g = data;
    results[0] = bt_matmul(args[0], g->w);
}
static void inner_step(bt_array **carry, bt_array *const *x, bt_array **y, void *w) {
    grid_data g = {w, bt_tanh(bt_add(x[0], carry[0]))};
    bt_array *h;
    OK(bt_cond(is_positive(g.x), loop_way, product_way, &g, carry, 1, &h, 1));
    carry[0] = bt_mul(h, bt_num(0.5));
    y[0] = bt_add(h, g.x);
}
static void outer_step(bt_array **carry, bt_array *const *x, bt_array **y, void *w) {
    bt_array *ys;
    OK(bt_scan(inner_step, w, BT_ALL_ROWS, carry, 1, x, 1, &ys, 1));
    carry[0] = bt_sin(carry[0]);
    y[0] = bt_sum(ys, BT_AXES(0), false);
}
/* in: w, rows, h */
static bt_array *grid(bt_array *const *in) {
    bt_array *h = in[2], *ys;
    OK(bt_scan(outer_step, in[0], BT_ALL_ROWS, &h, 1, in + 1, 1, &ys, 1));
    return bt_add(h, bt_sum(ys, BT_AXES(0), false));
}
static bt_array *grid_loss(bt_array *const *in) { return sum_of_sin(grid(in)); }

static void root(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_sqrt(args[0]); }
static void nothing(bt_array *const *args, bt_array **results, void *data) { results[0] = bt_zeros_like(args[0]); }
static bt_array *root_or_nothing(bt_array *const *in) {
    bt_array *y;
    OK(bt_cond(bt_gt(in[0], bt_num(0)), root, nothing, NULL, in, 1, &y, 1));
    return y;
}

/* --- what is made of a program ------------------------------------------------------------------------------------------ */

typedef bt_array *program(bt_array *const *in);

static void gradients(program *f, bt_array **in, int count, bt_array **out) { OK(bt_grad(f(in), in, count, out)); }
/* Directions stand behind the inputs. */
static void tangent(program *f, bt_array **in, int count, bt_array **out) {
    OK(bt_jvp(LIST(f(in)), 1, in, in + count, count, out));
}
static void products(program *f, bt_array **in, int count, bt_array **out) {
    OK(bt_hvp(f(in), in, in + count, count, out));
}

static void make_inputs(bt_array **x, bt_array **in, int count, const int *axes) {
    for (int i = 0; i < count; i++) x[i] = input_for(in[i], axes[i]);
}
/* The batch of a program, and of what is made of it. */
static void batch(program *f, bt_array **in, int count, const int *axes, const int *out_axes, bt_array **out) {
    bt_array *x[MOST];
    make_inputs(x, in, count, axes);
    call_batched(x, LIST(f(x)), in, count, out, 1, axes, out_axes);
}
typedef void made_of(program *f, bt_array **in, int count, bt_array **out);
static void batch_of(made_of *make, program *f, bt_array **in, int count, int in_count, int out_count, const int *axes,
                     bt_array **out) {
    bt_array *x[MOST], *y[MOST];
    make_inputs(x, in, in_count, axes);
    make(f, x, count, y);
    call_batched(x, y, in, in_count, out, out_count, axes, NULL);
}

/* --- cases ------------------------------------------------------------------------------------------------------------ */

#define CASE(name) static void name(bt_array **in, bt_array **out)

CASE(scan) { out[0] = scanned(in); }
CASE(scan_reverse) { out[0] = scanned_reverse(in); }
CASE(scan_grad) { gradients(scanned_loss, in, 4, out); }
CASE(scan_reverse_grad) { gradients(scanned_reverse_loss, in, 4, out); }
CASE(scan_checkpoint_grad) { gradients(scanned_checkpoint_loss, in, 4, out); }
CASE(scan_jvp) { tangent(scanned, in, 4, out); }
CASE(scan_reverse_jvp) { tangent(scanned_reverse, in, 4, out); }
CASE(scan_hvp) { products(scanned_loss, in, 4, out); }
CASE(scan_jacobian) { out[0] = bt_jacobian(scanned(in), in[3]); }
CASE(scan_hessian) { out[0] = bt_hessian(scanned_loss(in), in[1]); }
CASE(scan_vmap) { batch(scanned, in, 4, AXES(NO, NO, 1, 1), AXES(1), out); }
CASE(scan_vmap_weights) { batch(scanned, in, 4, AXES(0, NO, NO, NO), NULL, out); }
CASE(scan_vmap_grad) { batch_of(gradients, scanned_loss, in, 4, 4, 4, AXES(NO, NO, 0, 0), out); }
CASE(scan_grad_vmap) {
    bt_array *losses;
    batch(scanned_loss, in, 4, AXES(NO, NO, 0, 0), NULL, &losses);
    OK(bt_grad(sum(bt_square(losses)), in, 4, out));
}
CASE(scan_vmap_hvp) { batch_of(products, scanned_loss, in, 4, 8, 4, AXES(NO, NO, NO, NO, NO, NO, NO, 0), out); }
CASE(scan_vmap_vmap) {
    bt_array *x[4] = {input_for(in[0], NO), input_for(in[1], 0), input_for(in[2], 0), input_for(in[3], NO)};
    bt_function *f = bt_function_new(x, 4, LIST(scanned(x)), 1, NULL, 0);
    f = bt_vmap(bt_vmap(f, AXES(NO, 0, NO, NO), NULL), AXES(NO, NO, 0, NO), NULL);
    OK(bt_call(f, in, 4, out, 1));
}

CASE(while_) { out[0] = looped(in); }
CASE(while_jvp) { tangent(looped, in, 2, out); }
CASE(while_grad) { gradients(looped_loss, in, 2, out); }
CASE(while_hvp) { products(looped_loss, in, 2, out); }
CASE(while_vmap) { batch(looped, in, 2, AXES(NO, 0), NULL, out); }
CASE(while_vmap_jvp) { batch_of(tangent, looped, in, 2, 4, 1, AXES(NO, 0, NO, 0), out); }
CASE(while_vmap_grad) { batch_of(gradients, looped_loss, in, 2, 2, 2, AXES(NO, 0), out); }

CASE(cond_yes) { branched(in, out); }
CASE(cond_grad) { gradients(branched_sum, in, 2, out); }
CASE(cond_jvp) {
    bt_array *results[2];
    branched(in, results);
    OK(bt_jvp(results, 2, in, in + 2, 2, out));
}
CASE(cond_hvp) { products(branched_sum, in, 2, out); }
static void cond_batch(bt_array **in, const int *axes, bt_array **out) {
    bt_array *x[2], *results[2];
    make_inputs(x, in, 2, axes);
    branched(x, results);
    call_batched(x, results, in, 2, out, 2, axes, NULL);
}
CASE(cond_vmap) { cond_batch(in, AXES(NO, 0), out); }
CASE(cond_vmap_shared) { cond_batch(in, AXES(0, NO), out); }
CASE(cond_vmap_grad) { batch_of(gradients, branched_sum, in, 2, 2, 2, AXES(NO, 0), out); }
CASE(cond_grad_vmap) {
    bt_array *sums;
    batch(branched_sum, in, 2, AXES(NO, 0), NULL, &sums);
    OK(bt_grad(sum(sums), in, 2, out));
}
CASE(cond_jvp_vmap) {
    bt_array *results[2];
    cond_batch(in, AXES(NO, 0), results);
    OK(bt_jvp(results, 2, in, in + 2, 2, out));
}

CASE(nested) { out[0] = grid(in); }
CASE(nested_grad) { gradients(grid_loss, in, 3, out); }
CASE(nested_hvp) { products(grid_loss, in, 3, out); }
CASE(nested_vmap_grad) { batch_of(gradients, grid_loss, in, 3, 3, 3, AXES(NO, NO, 0), out); }
CASE(nested_jvp_vmap) {
    bt_array *y;
    batch(grid, in, 3, AXES(NO, NO, 0), NULL, &y);
    OK(bt_jvp(&y, 1, in, in + 3, 3, out));
}

/* The way that an element does not take has an infinite derivative there, or none. */
CASE(root_vmap_grad) { batch_of(gradients, root_or_nothing, in, 1, 1, 1, AXES(0), out); }
CASE(root_grad_vmap) {
    bt_array *y;
    batch(root_or_nothing, in, 1, AXES(0), NULL, &y);
    out[0] = bt_grad1(sum(y), in[0]);
}
CASE(root_jvp_vmap) {
    bt_array *y;
    batch(root_or_nothing, in, 1, AXES(0), NULL, &y);
    out[0] = tangent1(y, in[0], in[1]);
}

static const transform_case cases[] = {
    {"scan", scan},
    {"scan_reverse", scan_reverse},
    {"scan_grad", scan_grad},
    {"scan_grad_f32", scan_grad},
    {"scan_reverse_grad", scan_reverse_grad},
    {"scan_checkpoint_grad", scan_checkpoint_grad},
    {"scan_jvp", scan_jvp},
    {"scan_reverse_jvp", scan_reverse_jvp},
    {"scan_hvp", scan_hvp},
    {"scan_jacobian", scan_jacobian},
    {"scan_hessian", scan_hessian},
    {"scan_vmap", scan_vmap},
    {"scan_vmap_weights", scan_vmap_weights},
    {"scan_vmap_grad", scan_vmap_grad},
    {"scan_grad_vmap", scan_grad_vmap},
    {"scan_vmap_hvp", scan_vmap_hvp},
    {"scan_vmap_vmap", scan_vmap_vmap},
    {"while", while_},
    {"while_jvp", while_jvp},
    {"while_grad", while_grad},
    {"while_hvp", while_hvp},
    {"while_vmap", while_vmap},
    {"while_vmap_jvp", while_vmap_jvp},
    {"while_vmap_grad", while_vmap_grad},
    {"cond_yes", cond_yes},
    {"cond_yes_grad", cond_grad},
    {"cond_no_grad", cond_grad},
    {"cond_jvp", cond_jvp},
    {"cond_hvp", cond_hvp},
    {"cond_vmap", cond_vmap},
    {"cond_vmap_shared", cond_vmap_shared},
    {"cond_vmap_grad", cond_vmap_grad},
    {"cond_grad_vmap", cond_grad_vmap},
    {"cond_jvp_vmap", cond_jvp_vmap},
    {"nested", nested},
    {"nested_grad", nested_grad},
    {"nested_hvp", nested_hvp},
    {"nested_vmap_grad", nested_vmap_grad},
    {"nested_jvp_vmap", nested_jvp_vmap},
    {"root_vmap_grad", root_vmap_grad},
    {"root_grad_vmap", root_grad_vmap},
    {"root_jvp_vmap", root_jvp_vmap},
};
enum { CASES = sizeof cases / sizeof *cases };

static void as_jax(void **state) { run_cases(BERTH_SOURCE_DIR "/tests/transforms/loops.safetensors", cases, CASES); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_jax)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
