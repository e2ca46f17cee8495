// labels: slow
// timeout: 300
/* Programs of very many operations: deep chains do not recurse, wide scopes take linear work. Chains of 1,000,000 run on a stack of
 * 8 MiB, chains of 100,000 on one of 256 KiB; without BERTH_TEST_LONG they have a quarter of the length. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "base/test_depth.h"
#include "function/function.h"
#include "array/handle.h"

#define OK(call) expect_ok((call), __LINE__)
static void expect_ok(bt_status status, int line) {
    if (status != BT_OK) fail_msg("line %d: %s", line, bt_error_text());
}

/* --- threads with small stacks ---------------------------------------------------------------------------------------- */

typedef struct program {
    const char *failed; /* out: NULL, or what went wrong */
    void (*run)(struct program *);
    int count;
} program;

static void *run_program(void *data) {
    program *p = data;
    BT_SCOPE
        p->run(p);
    return NULL;
}

static void run_on_stack(void (*run)(program *), int count, size_t kibibytes) {
    program p = {.run = run, .count = count};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, kibibytes << 10), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_program, &p), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    if (p.failed) fail_msg("%s", p.failed);
}

/* In threads an assertion cannot end the test. */
#define CHECK(p, condition) \
    if (!(condition)) (p)->failed = (p)->failed ? (p)->failed : #condition

/* --- scopes ----------------------------------------------------------------------------------------------------------- */

static void work_is_linear_in_the_arrays_of_a_scope(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    uint64_t before = bti_held_visits();
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (1), 1), *y = x;
        for (int i = 0; i < COUNT; i++) y = bt_add(x, x);
        assert_true(bt_item(y) == 2);
    }
    uint64_t visits = bti_held_visits() - before;
    if (visits > 3 * COUNT) fail_msg("%llu visits of %d arrays", (unsigned long long)visits, COUNT);
    assert_true(visits > 0);
}

/* Arrays that move to another scope are still evaluated with the rest. */
static void kept_arrays_are_evaluated(void **state) {
    (void)state;
    OK(bt_set_flag("flush_nodes", "100"));
    BT_SCOPE {
        bt_array *x = BT_ARRAY(float, (1), 1), *kept = NULL;
        BT_SCOPE {
            kept = bt_add(x, bt_num(1));
            for (int i = 0; i < 98; i++) (void)bt_add(x, x);
            (void)bt_keep(kept);
        }
        for (int i = 0; i < 300; i++) kept = i % 3 ? bt_keep(bt_add(kept, x)) : bt_add(kept, x);
        assert_true(bt_item(kept) == 302);
    }
    OK(bt_set_flag("flush_nodes", "10000"));
}

/* --- chains ----------------------------------------------------------------------------------------------------------- */

static void chain(program *p) {
    bt_array *x = BT_ARRAY(float, (1), 1), *y = x;
    for (int i = 0; i < p->count; i++) y = bt_add(y, x);
    CHECK(p, bt_item(y) == p->count + 1);
}

static void chain_at_once(program *p) {
    OK(bt_set_flag("flush_nodes", "1000000000"));
    bt_array *x = BT_ARRAY(float, (1), 1), *y = x;
    for (int i = 0; i < p->count; i++)
        y = i % 10 ? bt_add(y, x) : bt_reshape(bt_expand_dims(bt_cumsum(y, 0, false), 0), 1);
    CHECK(p, bt_item(y) == p->count - p->count / 10 + 1);
    for (int i = 0; i < p->count; i++) y = bt_add(y, x); /* released without having been computed */
    OK(bt_set_flag("flush_nodes", "10000"));
}

static void gradient(program *p) {
    bt_array *x = BT_ARRAY(float, (1), 1), *y = x, *g;
    for (int i = 0; i < p->count; i++) y = bt_mul(y, bt_num(-1));
    CHECK(p, bt_grad(bt_sum(y, BT_ALL, false), &x, 1, &g) == BT_OK && bt_item(g) == 1);
    char *text = bt_explain(g);
    CHECK(p, text != NULL);
    free(text);
}

static void function(program *p) {
    bt_array *input = bt_input(BT_F32, -1), *y = input, *g, *x = BT_ARRAY(float, (1), 1), *results[2];
    for (int i = 0; i < p->count; i++) y = bt_mul(y, bt_num(-1));
    CHECK(p, bt_grad(bt_sum(y, BT_ALL, false), &input, 1, &g) == BT_OK);
    bt_function *f = bt_function_new(&input, 1, (bt_array *[]){y, g}, 2, NULL, 0);
    CHECK(p, bt_call(f, &x, 1, results, 2) == BT_OK && bt_item(results[0]) == 1 && bt_item(results[1]) == 1);
}

/* Of each call only what it was given is kept: history is recorded when it is asked for, in one pass. In one that began anew at
 * each call these would take an hour. */
static bt_array *calls(bt_array *x, int count) {
    bt_array *input = bt_input(BT_F32, 1), *output = bt_mul(input, bt_num(-1));
    bt_function *f = bt_function_new(&input, 1, &output, 1, NULL, 0);
    for (int i = 0; i < count; i++) x = bt_call1(f, &x, 1);
    return x;
}

static void gradient_of_calls(program *p) {
    bt_array *x = BT_ARRAY(float, (1), 1), *y = calls(x, p->count), *g;
    CHECK(p, bt_grad(bt_sum(y, BT_ALL, false), &x, 1, &g) == BT_OK && bt_item(g) == 1);
    CHECK(p, bt_grad(bt_sum(bt_mul(y, y), BT_ALL, false), &x, 1, &g) == BT_OK && bt_item(g) == 2);
}

static void function_of_calls(program *p) {
    bt_array *input = bt_input(BT_F32, 1), *y = calls(BT_ARRAY(float, (1), 1), p->count), *sum = bt_add(input, y);
    bt_function *f = bt_function_new(&input, 1, &sum, 1, NULL, 0);
    CHECK(p, bt_item(bt_call1(f, &y, 1)) == 2);
}

/* A function whose constant is the result of a function whose constant ...: only the last result holds them. */
static void nested_functions(program *p) {
    bt_array *one = BT_ARRAY(float, (1), 1), *last = BT_ARRAY(float, (1), 1);
    OK(bt_set_flag("kernels", "interpreter"));
    for (int i = 0; i < p->count; i++) {
        BT_SCOPE {
            bt_array *input = bt_input(BT_F32, 1), *output = bt_sub(input, last);
            bt_function *f = bt_function_new(&input, 1, &output, 1, NULL, 0);
            bt_array *before = last;
            last = bt_keep(bt_call1(f, &one, 1));
            bt_release(before); /* what its scope held */
        }
    }
    CHECK(p, bt_item(last) == p->count % 2 ? 0 : 1);
    CHECK(p, bti_functions_alive() >= (uint64_t)p->count);
    OK(bt_set_flag("kernels", "auto"));
}

static int depth(int count) { return test_is_long() ? count : count / 4; }

static void deep_calls(void **state) {
    (void)state;
    run_on_stack(nested_functions, depth(100000), 256);
    assert_int_equal(bti_functions_alive(), 0);
    run_on_stack(gradient_of_calls, depth(100000), 256);
    run_on_stack(function_of_calls, depth(100000), 256);
}

static void deep_chains(void **state) {
    (void)state;
    run_on_stack(chain, depth(1000000), 8192);
    run_on_stack(chain, depth(100000), 256);
    run_on_stack(chain_at_once, depth(100000), 256);
    run_on_stack(gradient, depth(100000), 256);
    run_on_stack(function, depth(100000), 256);
}

/* Chains of layers within chains are refused before anything recurses too far. */
static void nested_layers(program *p) {
    bt_layer *layer = bt_lambda("neg", bt_neg), *last = layer;
    int levels = 0;
    while (levels < p->count && bt_layer_status(layer = bt_chain(layer)) == BT_OK) last = layer, levels++;
    CHECK(p, levels >= 100 && levels < p->count && strstr(bt_error_text(), "nested more than"));
    CHECK(p, bt_item(bt_apply(last, BT_ARRAY(float, (1), 1))) == -1);
    char *text = bt_summary(bt_layer_cpu(last));
    CHECK(p, text != NULL);
    free(text);
}

static void deep_layers(void **state) {
    (void)state;
    run_on_stack(nested_layers, 100000, 256);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_layers),
        cmocka_unit_test(work_is_linear_in_the_arrays_of_a_scope),
        cmocka_unit_test(kept_arrays_are_evaluated),
        cmocka_unit_test(deep_chains),
        cmocka_unit_test(deep_calls),
    };
    setenv("BERTH_FLAGS", "scope_notice=0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
