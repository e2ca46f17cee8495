// timeout: 300
/* What is said of mistakes while the nth allocation of the host fails: never a crash or a leak; the mistake is told, or that memory is short. */
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

/* With BERTH_TEST_SHORT: so many allocations that are all made to fail, and of the rest some. */
#define ALL_UP_TO 200
#define SAMPLES 50

static void start_afresh(const char *flags) {
    assert_int_equal(bt_shutdown(), BT_OK);
    setenv("BERTH_FLAGS", flags, 1);
    bti_flags_reset();
    bt_error_clear();
}

static void add_log(bt_array **carry, bt_array *const *x, bt_array **y, void *data) {
    (void)data;
    y[0] = bt_log(carry[0]);
    carry[0] = bt_sub(carry[0], x[0]);
}

/* A NaN within a loop, and in its gradient. */
static bt_status nan_in_loop(void) {
    bt_array *first = BT_ARRAY(float, (1), 2), *left = first, *taken = bt_ones(BT_F32, 4, 1), *logs = NULL;
    bt_status status = bt_scan(add_log, NULL, BT_ALL_ROWS, &left, 1, &taken, 1, &logs, 1);
    if (status == BT_OK) status = bt_eval(bt_mul(logs, 2));
    return status;
}

static bt_array *squares(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_mse(bt_round(bt_apply(model, x)), y);
}
static bt_array *of_child(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_cross_entropy(bt_apply(bt_layer_child(model, 0), x), y);
}

static bt_status fit(bt_model_loss *loss, bool all_gradients) {
    bt_layer *model = bt_chain(bt_dense(4, 3, NULL, bt_key(1)), bt_dense(3, 3, NULL, bt_key(2)));
    bt_array *x = bt_normal(bt_key(3), BT_F32, 8, 4), *y = BT_ARRAY(int32_t, (8), 0, 1, 2, 0, 1, 2, 3, 0);
    if (loss == squares) y = bt_ones(BT_F32, 8, 3);
    return bt_fit(model, bt_sgd(0.1), x, y,
                  BT_FIT_OPTIONS(.batch = 4, .quiet = true, .loss = loss, .all_gradients = all_gradients), NULL);
}
static bt_status wrong_label(void) { return fit(NULL, false); }
static bt_status cut_gradient(void) { return fit(squares, false); }
static bt_status no_gradient(void) { return fit(of_child, true); }

typedef struct mistake {
    const char *flags;
    bt_status (*make)(void);
    bt_status status;
} mistake;

/* How many allocations it asked for. */
static uint64_t make_while_failing(const mistake *m, uint64_t nth) {
    start_afresh(m->flags);
    bt_status status = BT_OK;
    uint64_t count;
    BT_SCOPE {
        (void)!bt_block(bt_ones(BT_F32, 1)); /* the device is there */
        bti_alloc_fail_at(nth, false);
        status = m->make();
        count = bti_alloc_count();
        bti_alloc_fail_at(0, false);
    }
    if (status != m->status && status != BT_RESOURCE_EXHAUSTED && (status != BT_OK || !nth))
        fail_msg("allocation %llu: %s: %s", (unsigned long long)nth, bt_status_name(status), bt_error_text());
    return count;
}

static void told_or_short(const mistake *m) {
    uint64_t count = make_while_failing(m, 0), step = 1;
    if (getenv("BERTH_TEST_SHORT") && count > ALL_UP_TO) step = (count - ALL_UP_TO) / SAMPLES + 1;
    for (uint64_t nth = 1; nth <= count; nth += nth < ALL_UP_TO ? 1 : step) make_while_failing(m, nth);
}

static void of_nan(void **state) {
    (void)state;
    told_or_short(&(mistake){"check_nan=on", nan_in_loop, BT_OUT_OF_RANGE});
}
static void of_labels(void **state) {
    (void)state;
    told_or_short(&(mistake){"", wrong_label, BT_OUT_OF_RANGE});
}
static void of_gradients(void **state) {
    (void)state;
    told_or_short(&(mistake){"", cut_gradient, BT_FAILED_PRECONDITION});
    told_or_short(&(mistake){"", no_gradient, BT_FAILED_PRECONDITION});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_nan), cmocka_unit_test(of_labels),
                                       cmocka_unit_test(of_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
