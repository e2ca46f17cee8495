// labels: threads
/* Calls of functions by plans made before: no memory after the first ones, and what was recorded before is still to be had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <berth.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "drivers/cpu/product/dnnl.h"
#include "exec/exec.h"
#include "support/settings.h"

/* --- memory --------------------------------------------------------------------------------------------------------------- */

/* 64-128-10 on batches of 32, plain gradient descent. */
static bt_function *training_step(void) {
    enum { PIXELS = 64, HIDDEN = 128, CLASSES = 10, BATCH = 32 };
    bt_layer *model =
        bt_chain(bt_dense(PIXELS, HIDDEN, bt_relu, bt_key(1)), bt_dense(HIDDEN, CLASSES, NULL, bt_key(2)));
    bt_array *inputs[] = {bt_input(BT_F32, BATCH, PIXELS), bt_input(BT_I32, BATCH)};
    bt_array *loss = bt_cross_entropy(bt_apply(model, inputs[0]), inputs[1]), *grads[4];
    bt_shared *parameters[4];
    bt_update updates[4];
    assert_int_equal(bt_parameters(model, parameters, 4), 4);
    OK(bt_grad_shared(loss, parameters, 4, grads));
    for (int i = 0; i < 4; i++)
        updates[i] = (bt_update){parameters[i], bt_sub(bt_value(parameters[i]), bt_mul(grads[i], bt_num(0.1)))};
    return bt_function_new(inputs, 2, &loss, 1, updates, 4);
}

static uint64_t asked_by(bt_function *f, bt_array *const *batch, int calls) {
    bti_alloc_fail_at(0, false);
    for (int i = 0; i < calls; i++)
        BT_SCOPE
            OK(bt_block(bt_call1(f, batch, 2)));
    return bti_alloc_count();
}

static void a_training_step_asks_for_no_memory(void **state) {
    static const char *const settings[] = {"kernels=interpreter", "devices=sim:gpu", "", "fuse=off"};
    for (int s = 0; s < 4; s++) {
        begin(settings[s]);
        BT_SCOPE {
            bt_function *f = training_step();
            bt_array *labels = bt_mod(bt_arange(0, 32, 1, BT_I32), bt_i32(10));
            bt_array *batch[] = {bt_uniform(bt_key(3), BT_F32, 32, 64), labels};
            for (int i = 0; i < 70000; i++) /* handles of released arrays are used again after 65,536 others */
                BT_SCOPE(void) bt_num(i);
            (void)asked_by(f, batch, 60); /* results take turns in memory: each turn is recorded once */
            uint64_t asked = asked_by(f, batch, 100);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* with those nothing is kept for later */
            if (asked && bti_dnnl_open())                           /* tiles of our own have memory for each product */
                fail_msg("%s: 100 steps ask for memory %llu times", settings[s], (unsigned long long)asked);
#else
            assert_true(asked > 0);
#endif
        }
    }
}

/* Both variables count the calls that succeed; a gradient through a result is to be had after it, or fails too. */
static void any_allocation_may_fail(void **state) {
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        begin("devices=sim:gpu*2@64M");
        BT_SCOPE {
            bt_shared *a = bt_shared_new(bt_zeros(BT_F32, 2), "gpu:0"),
                      *b = bt_shared_new(bt_zeros(BT_F32, 2), "gpu:1");
            bt_array *x = bt_input(BT_F32, -1), *y = bt_mul(x, bt_value(a)), *kept = NULL;
            bt_update updates[] = {{a, bt_add(bt_value(a), x)}, {b, bt_add(bt_value(b), bt_to(x, "gpu:1"))}};
            bt_function *f = bt_function_new(&x, 1, &y, 1, updates, 2);
            bt_array *given = bt_from(((const float[]){1, 1}), BT_F32, BT_SHAPE(2));
            bt_synchronize();
            bti_alloc_fail_at(nth, false);
            for (int call = 0; call < 3; call++) kept = bt_call1(f, &given, 1);
            (void)bt_grad1(bt_sum(kept, BT_ALL, false), given);
            bt_synchronize();
            failed = bti_alloc_count() >= nth;
            bti_alloc_fail_at(0, false);
            (void)bt_call1(f, &given, 1); /* may tell of one that was lost */
            bt_synchronize();
            float of_a[2], of_b[2];
            OK(bt_read(bt_value(a), of_a, sizeof of_a));
            OK(bt_read(bt_value(b), of_b, sizeof of_b));
            assert_memory_equal(of_a, of_b, sizeof of_a);
            OK(bt_block(bt_call1(f, &given, 1)));
            bt_error_clear();
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_step_asks_for_no_memory),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
