/* Loops and branches: what is carried, rows in and out, and which way is taken. The greater of two values is exact in every dtype. */
#include "support/conformance.h"
#include "support/support.h"

enum { MOST_STEPS = 7 };

/* carry = the greater of carry and x; y = what was carried before; twice: the second one */
static void greater_step(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)data;
    y[0] = carry[0];
    carry[0] = bt_maximum(carry[0], x[0]);
    y[1] = carry[0];
}

/* The host's scan: rows of x from `carry` on. */
static void scan_on_host(const host *x, host *carry, host *before, host *after, bool reverse) {
    int64_t steps = x->shape.size[0], width = carry->count;
    for (int64_t t = 0; t < steps; t++) {
        int64_t at = reverse ? steps - 1 - t : t;
        for (int64_t i = 0; i < width; i++) {
            before->at[at * width + i] = carry->at[i];
            if (x->at[at * width + i] > carry->at[i]) carry->at[i] = x->at[at * width + i];
            after->at[at * width + i] = carry->at[i];
        }
    }
}

typedef enum part { CARRY, BEFORE, AFTER } part;

static void one_scan(bt_dtype dtype, bt_shape each, int64_t steps, bool reverse, layout lies, part wanted,
                     unsigned *seed) {
    bt_shape shape = {.rank = each.rank + 1, .size = {steps}};
    for (int i = 0; i < each.rank; i++) shape.size[i + 1] = each.size[i];
    host x = host_draw(dtype, shape, -4, 4, lies, seed), carry = host_draw(dtype, each, -4, 4, DENSE, seed);
    BT_SCOPE {
        bt_array *xs = host_place(&x, lies), *h = host_place(&carry, DENSE), *ys[2];
        host before = host_new(dtype, shape), after = host_new(dtype, shape);
        (void)(reverse ? bt_scan_reverse(greater_step, NULL, steps, &h, 1, &xs, 1, ys, 2)
                       : bt_scan(greater_step, NULL, steps, &h, 1, &xs, 1, ys, 2));
        scan_on_host(&x, &carry, &before, &after, reverse);
        const host *want[] = {&carry, &before, &after};
        case_end(wanted == CARRY ? h : ys[wanted - BEFORE], want[wanted], 0);
    }
}

static const bt_shape row_shapes[] = {{0}, {1, {5}}, {2, {3, 4}}, {2, {2, 0}}, {1, {17}}};

static void run_scan(const row *of) {
    unsigned seed = 31;
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < COUNT(row_shapes); s++) EACH_LAYOUT(lies)
    for (int64_t steps = 0; steps <= MOST_STEPS; steps += steps < 2 ? 1 : 5)
        for (int reverse = 0; reverse < 2; reverse++)
            if (case_begin("scan/%s/%s %s x %d%s", bt_dtype_name(dtype), layout_names[lies], shape_text(row_shapes[s]),
                           (int)steps, reverse ? " reverse" : ""))
                one_scan(dtype, row_shapes[s], steps, reverse, (layout)lies, CARRY, &seed);
}

static void run_result(const row *of) {
    unsigned seed = 32;
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < COUNT(row_shapes); s++)
        for (int which = BEFORE; which <= AFTER; which++)
            if (case_begin("result/%s %s %d", bt_dtype_name(dtype), shape_text(row_shapes[s]), which))
                one_scan(dtype, row_shapes[s], MOST_STEPS, which == AFTER, DENSE, (part)which, &seed);
}

static bt_array *counts_below(bt_array *const *carry, void *data) { return bt_lt(carry[1], data); }
static void swap_and_count(bt_array **carry, void *data) {
    bt_array *first = carry[0];
    (void)data;
    carry[0] = carry[2];
    carry[2] = first;
    carry[1] = bt_add(carry[1], bt_i32(1));
}

static void run_while(const row *of) {
    unsigned seed = 33;
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < COUNT(row_shapes); s++) EACH_LAYOUT(lies)
    for (int steps = 0; steps < 4; steps++)
        for (int most = 0; most < 3; most++) {
            if (!case_begin("while/%s/%s %s x %d of %d", bt_dtype_name(dtype), layout_names[lies],
                            shape_text(row_shapes[s]), steps, most))
                continue;
            host x = host_draw(dtype, row_shapes[s], -4, 4, (layout)lies, &seed),
                 y = host_draw(dtype, row_shapes[s], -4, 4, DENSE, &seed);
            int taken = most && most < steps ? most : steps;
            BT_SCOPE {
                bt_array *carry[] = {host_place(&x, (layout)lies), bt_i32(0), host_place(&y, DENSE)};
                (void)bt_while(counts_below, swap_and_count, bt_i32(steps), most, carry, 3);
                case_end(carry[0], taken % 2 ? &y : &x, 0);
            }
        }
}

static void first(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = args[0];
    results[1] = args[1];
}
static void second(bt_array *const *args, bt_array **results, void *data) {
    (void)data;
    results[0] = args[1];
    results[1] = bt_maximum(args[0], args[1]);
}

static void run_cond(const row *of) {
    unsigned seed = 34;
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < COUNT(row_shapes); s++) EACH_LAYOUT(lies)
    for (int yes = 0; yes < 2; yes++) {
        if (!case_begin("cond/%s/%s %s %d", bt_dtype_name(dtype), layout_names[lies], shape_text(row_shapes[s]), yes))
            continue;
        host x = host_draw(dtype, row_shapes[s], -4, 4, (layout)lies, &seed),
             y = host_draw(dtype, row_shapes[s], -4, 4, DENSE, &seed);
        BT_SCOPE {
            bt_array *args[] = {host_place(&x, (layout)lies), host_place(&y, DENSE)}, *results[2];
            (void)bt_cond(bt_gt(bt_i32(yes), bt_i32(0)), first, second, NULL, args, 2, results, 2);
            case_end(results[0], yes ? &x : &y, 0);
        }
    }
}

const cases control_cases[] = {
    {"scan", run_scan}, {"while", run_while}, {"cond", run_cond}, {"result", run_result}, {NULL, NULL},
};
