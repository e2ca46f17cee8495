// timeout: 300
/* Layers and training steps while the nth allocation of the host fails: never a crash or a leak, and a step that fails leaves parameters and states as they were. */
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

#define ALL_UP_TO 150 /* allocations that are all made to fail; of the rest some */
#define SAMPLES 60

static void start_afresh(void) {
    assert_int_equal(bt_shutdown(), BT_OK);
    setenv("BERTH_FLAGS", "devices=sim:gpu*2", 1);
    bti_flags_reset();
    bt_error_clear();
}

static bt_array *squared(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_mse(bt_apply(model, x), y);
}

static bt_layer *make_model(void) {
    return bt_chain(bt_dense(4, 6, bt_relu, bt_key(1)), bt_batch_norm_layer(6), bt_dropout_layer(0.5, bt_key(2)),
                    bt_skip(bt_dense(6, 6, NULL, bt_key(3)), NULL), bt_dense(6, 1, NULL, bt_key(4)));
}

enum { MOST = 16, NUMBERS = 256 };

static int read_all(bt_layer *model, float *numbers) {
    bt_shared *all[MOST];
    int count = bt_parameters(model, all, MOST), total = 0;
    count += bt_states(model, all + count, MOST - count);
    for (int i = 0; i < count; i++) {
        bt_array *value = bt_cast(bt_value(all[i]), BT_F32);
        assert_int_equal(bt_read(value, numbers + total, (size_t)bt_count(value) * sizeof *numbers), BT_OK);
        total += (int)bt_count(value);
    }
    return total;
}

static void check_status(bt_status status, uint64_t nth) {
    if (status != BT_OK && status != BT_RESOURCE_EXHAUSTED)
        fail_msg("allocation %llu: %s: %s", (unsigned long long)nth, bt_status_name(status), bt_error_text());
}

/* How many allocations it asked for. */
static uint64_t make_while_failing(uint64_t nth) {
    uint64_t count;
    start_afresh();
    BT_SCOPE {
        bt_strategy *strategy = bt_mirrored(NULL, 0);
        bti_alloc_fail_at(nth, false);
        bt_layer *model = NULL, *copy;
        BT_STRATEGY(strategy) model = make_model();
        copy = bt_layer_cpu(model);
        bt_status made = bt_layer_status(model), copied = bt_layer_status(copy);
        count = bti_alloc_count();
        bti_alloc_fail_at(0, false);
        check_status(made, nth);
        check_status(copied, nth);
    }
    assert_int_equal(bt_live_arrays(), 0);
    return count;
}

typedef struct regression {
    bt_layer *model;
    bt_shared *parameters[MOST];
    int count;
} regression;

static bt_status part_of_step(const bt_part *part, bt_array *const *inputs, bt_array **outputs, void *data) {
    const regression *r = data;
    (void)part;
    outputs[0] = squared(r->model, inputs[0], inputs[1], NULL);
    return bt_part_gradients(outputs[0], r->parameters, r->count, outputs + 1);
}

/* What bt_train_step does, by the program. */
static bt_array *step_by_hand(bt_strategy *strategy, bt_layer *model, bt_optimizer *optimizer, bt_array *x,
                              bt_array *y) {
    regression r = {.model = model};
    r.count = bt_parameters(model, r.parameters, MOST);
    bt_parts *parts = bt_strategy_run(strategy, part_of_step, &r, (bt_array *[]){x, y}, 2, 1 + r.count);
    bt_array *loss = bt_parts_reduce(parts, BT_REDUCE_MEAN, 0);
    if (bt_peek_status(loss) != BT_OK) return loss;
    return bt_parts_update(parts, optimizer, r.parameters, r.count, 1) == BT_OK ? loss : NULL;
}

typedef enum form { MIRRORED, SHARDED, BY_HAND } form;
static form form_now;

static uint64_t step_while_failing(uint64_t nth) {
    uint64_t count;
    start_afresh();
    BT_SCOPE {
        static float before[NUMBERS], after[NUMBERS];
        bt_strategy *strategy = bt_mirrored(NULL, 0);
        bt_layer *model = NULL;
        BT_STRATEGY(strategy) model = make_model();
        bt_array *x = bt_ones(BT_F32, 8, 4), *y = bt_ones(BT_F32, 8, 1);
        bt_optimizer *optimizer = bt_adam(0.1);
        assert_int_equal(bt_strategy_set_sharded(strategy, form_now == SHARDED), BT_OK);
        int numbers = read_all(model, before);
        bti_alloc_fail_at(nth, false);
        bt_array *loss = form_now == BY_HAND ? step_by_hand(strategy, model, optimizer, x, y)
                                             : bt_train_step(strategy, model, optimizer, squared, NULL, x, y);
        bt_status recorded = loss ? bt_peek_status(loss) : bt_error_status();
        count = bti_alloc_count();
        bti_alloc_fail_at(0, false);
        check_status(recorded, nth);
        assert_int_equal(read_all(model, after), numbers);
        if (recorded != BT_OK)
            assert_memory_equal(before, after, (size_t)numbers * sizeof *before);
        else
            assert_memory_not_equal(before, after, (size_t)numbers * sizeof *before);
    }
    assert_int_equal(bt_live_arrays(), 0);
    return count;
}

static bt_layer *make_stages(void) {
    bt_layer *model = bt_chain(bt_dense(4, 6, bt_gelu, bt_key(1)), bt_dropout_layer(0.5, bt_key(2)),
                               bt_skip(bt_dense(6, 6, NULL, bt_key(3)), NULL), bt_dense(6, 1, NULL, bt_key(4)));
    return bt_layer_to_stages(model, NULL, 0, NULL);
}

static uint64_t place_while_failing(uint64_t nth) {
    uint64_t count;
    start_afresh();
    BT_SCOPE {
        bt_array *x = bt_ones(BT_F32, 8, 4);
        assert_int_equal(bt_block(x), BT_OK);
        bti_alloc_fail_at(nth, false);
        bt_layer *placed = make_stages(), *timed = bt_layer_to_stages(placed, NULL, 0, x);
        bt_status made = bt_layer_status(placed), measured = bt_layer_status(timed);
        count = bti_alloc_count();
        bti_alloc_fail_at(0, false);
        check_status(made, nth);
        check_status(measured, nth);
    }
    assert_int_equal(bt_live_arrays(), 0);
    return count;
}

/* Three micro-batches over two stages: a step that fails in the midst changes nothing. */
static uint64_t go_through_while_failing(uint64_t nth) {
    uint64_t count;
    start_afresh();
    BT_SCOPE {
        static float before[NUMBERS], after[NUMBERS];
        bt_layer *model = make_stages();
        bt_array *x = bt_ones(BT_F32, 8, 4), *y = bt_ones(BT_F32, 8, 1);
        bt_optimizer *optimizer = bt_sgd(0.1);
        int numbers = read_all(model, before);
        bti_alloc_fail_at(nth, false);
        bt_array *loss = bt_train_step(bt_pipelined(3), model, optimizer, squared, NULL, x, y);
        bt_status trained = bt_peek_status(loss);
        count = bti_alloc_count();
        bti_alloc_fail_at(0, false);
        check_status(trained, nth);
        assert_int_equal(read_all(model, after), numbers);
        if (trained != BT_OK)
            assert_memory_equal(before, after, (size_t)numbers * sizeof *before);
        else
            assert_memory_not_equal(before, after, (size_t)numbers * sizeof *before);
    }
    assert_int_equal(bt_live_arrays(), 0);
    return count;
}

static void sweep(uint64_t run(uint64_t)) {
    uint64_t count = run(0);
    assert_true(count > 10);
    uint64_t all = getenv("BERTH_TEST_SHORT") ? ALL_UP_TO / 3 : ALL_UP_TO; /* under sanitizers each takes long */
    uint64_t samples = getenv("BERTH_TEST_SHORT") ? SAMPLES / 3 : SAMPLES;
    for (uint64_t nth = 1; nth <= count && nth <= all; nth++) run(nth);
    for (uint64_t i = 0; i < samples && count > all; i++) run(all + 1 + i * (count - all) / samples);
    start_afresh();
}

static void layers(void **state) {
    (void)state;
    sweep(make_while_failing);
}
static void steps(void **state) {
    (void)state;
    for (form_now = MIRRORED; form_now <= BY_HAND; form_now++) sweep(step_while_failing);
}
static void stages(void **state) {
    (void)state;
    sweep(place_while_failing);
    sweep(go_through_while_failing);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers), cmocka_unit_test(steps), cmocka_unit_test(stages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
