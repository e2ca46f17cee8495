/* Cards with a clock, through the table of their driver: when work begins and ends, polling, who reads too early. */
#include "drivers/sim/sim_flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/flags.h"

extern const bti_driver bti_driver_timed;
#define CARD (&bti_driver_timed)

#define OK(call)                                              \
    do {                                                      \
        if ((call) != BT_OK) fail_msg("%s", bt_error_text()); \
    } while (0)

enum { BYTES = 6400000 }; /* 100 us of 64 GB/s */
static void *card[2];
static uint64_t memory[2][3];
static char *host;

static int open_two(void **state) {
    (void)state;
    bti_sim_spec spec = {0};
    bti_flags_reset();
    if (bti_sim_spec_parse("sim:h200{call_ns=2000/host_ns=8000/link_ns=3000/link=400/start_ns=1000}*2@32M", &spec) !=
        BT_OK)
        return -1;
    bti_sim_configure(&spec);
    assert_true(bti_sim_has_models(&spec));
    bti_clock_set_virtual(true);
    host = calloc(1, BYTES);
    for (int i = 0; i < 2; i++) {
        if (CARD->open(BT_GPU * BTI_SIM_MAX + i, &(bti_allocator){.device = i}, &card[i]) != BT_OK) return -1;
        for (int k = 0; k < 3; k++)
            if (CARD->alloc(card[i], BYTES, &memory[i][k]) != BT_OK) return -1;
    }
    return 0;
}

static int close_two(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) CARD->close(card[i]);
    bti_sim_configure(&(bti_sim_spec){0});
    bti_clock_set_virtual(false);
    free(host);
    bti_flags_reset();
    bt_error_clear();
    return 0;
}

static uint64_t took(uint64_t *since) {
    uint64_t before = *since;
    *since = bti_clock_ns();
    return *since - before;
}

/* One instruction for each of so many elements. */
static void negate(void *of, uint64_t from, uint64_t to, int64_t elements) {
    bti_operand input = {from, BT_F32, 1, {elements}, {1}}, output = {to, BT_F32, 1, {elements}, {1}};
    OK(CARD->launch(of, NULL, &(bti_work){.op = BTI_OP_neg, .input_count = 1, .inputs = &input, .output = output}));
}

static void the_host_waits_for_transfers(void **state) {
    (void)state;
    uint64_t clock = bti_clock_ns();
    OK(CARD->upload(card[0], memory[0][0], host, BYTES));
    assert_int_equal(took(&clock), 8000 + 100000);
    OK(CARD->download(card[0], host, memory[0][0], BYTES / 2));
    assert_int_equal(took(&clock), 8000 + 50000);
    /* The same again takes the same. */
    OK(CARD->upload(card[0], memory[0][0], host, BYTES));
    assert_int_equal(took(&clock), 8000 + 100000);
}

static void launches_run_beside_the_host(void **state) {
    (void)state;
    bti_event first, second;
    bool done = true;
    uint64_t clock = bti_clock_ns(), begun = clock;
    negate(card[0], memory[0][0], memory[0][1], BYTES / 4);
    assert_int_equal(took(&clock), 2000); /* the call alone */
    OK(CARD->record(card[0], &first));
    negate(card[0], memory[0][0], memory[0][1], BYTES / 4);
    OK(CARD->record(card[0], &second));
    const uint64_t one = first.value - begun; /* 12.8 MB at 4800 GB/s, and the start */
    assert_in_range(one, 1000 + 2666, 1000 + 2668);
    assert_int_equal(second.value - begun, 2 * one); /* one after the other */
    assert_int_equal(CARD->complete_at(card[0]), second.value);
    OK(CARD->query(card[0], second, &done));
    assert_false(done);
    OK(CARD->wait(card[0], first));
    for (int i = 0; i < 100 && !done; i++) OK(CARD->query(card[0], second, &done)); /* asking goes on */
    assert_true(done);
    negate(card[1], memory[1][0], memory[1][1], BYTES / 4);
    OK(CARD->sync(card[1]));
    assert_true(bti_clock_ns() >= CARD->complete_at(card[1]));
    clock = bti_clock_ns();
    OK(CARD->wait(card[1], first)); /* it is over */
    assert_int_equal(took(&clock), 0);
}

static void who_reads_too_early_is_caught(void **state) {
    (void)state;
    bti_event event;
    negate(card[0], memory[0][0], memory[0][1], BYTES / 4);
    assert_int_equal(CARD->download(card[0], host, memory[0][1] + 4, 4), BT_INTERNAL);
    assert_non_null(strstr(bt_error_text(), "download on GPU:0 touches 4 bytes"));
    assert_non_null(strstr(bt_error_text(), "nobody waited for it"));
    OK(CARD->download(card[0], host, memory[0][0], 4)); /* the launch reads it, too */
    negate(card[0], memory[0][0], memory[0][1], BYTES / 4);
    assert_int_equal(CARD->upload(card[0], memory[0][0], host, 4), BT_INTERNAL);
    OK(CARD->record(card[0], &event));
    OK(CARD->wait(card[0], event));
    OK(CARD->upload(card[0], memory[0][0], host, 4));
    OK(CARD->fill(card[0], memory[0][0], 1, BYTES));
    assert_int_equal(CARD->download(card[0], host, memory[0][0], 4), BT_INTERNAL);
    OK(CARD->copy(card[0], memory[0][1], memory[0][0], BYTES));
    assert_int_equal(CARD->upload(card[0], memory[0][0], host, 4), BT_INTERNAL);
    OK(CARD->sync(card[0]));
    OK(CARD->download(card[0], host, memory[0][1], 4));
    assert_int_equal(host[3], 1);
    for (int i = 0; i < 1000; i++) negate(card[0], memory[0][0], memory[0][1], 64); /* many at once */
    OK(CARD->record(card[0], &event));
    OK(CARD->wait(card[0], event));
    OK(CARD->download(card[0], host, memory[0][1], 4));
}

/* A ring of two: a half there, a half back; after the events of both, and beside what is launched meanwhile. */
static void reductions_run_beside_launches(void **state) {
    (void)state;
    bti_event after[2];
    bti_work_end ends[2];
    const uint64_t addresses[] = {memory[0][1], memory[1][1]};
    const size_t elements = BYTES / 4;
    negate(card[1], memory[1][0], memory[1][1], BYTES / 4);
    for (int i = 0; i < 2; i++) OK(CARD->record(card[i], &after[i]));
    uint64_t begin = CARD->complete_at(card[1]);
    assert_true(CARD->complete_at(card[0]) < begin);
    negate(card[1], memory[1][0], memory[1][2], BYTES / 4);
    uint64_t computed = CARD->complete_at(card[1]);
    if (begin < bti_clock_ns()) begin = bti_clock_ns();
    OK(CARD->all_reduce(card, 2, &(bti_reduction){BT_F32, BTI_OP_sum, 1, &elements, addresses, addresses}, after,
                        ends));
    assert_int_equal(CARD->complete_at(card[1]), computed);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ends[i].begin_ns, begin);
        assert_int_equal(ends[i].end_ns - begin, 2 * (3000 + 8000));
        assert_int_equal(CARD->download(card[i], host, memory[i][1], 4), BT_INTERNAL);
        assert_int_equal(CARD->fill(card[i], memory[i][1], 0, 4), BT_INTERNAL); /* it would run before the end */
    }
    for (int i = 0; i < 2; i++) {
        OK(CARD->wait(card[i], ends[i].event));
        OK(CARD->download(card[i], host, memory[i][1], 4));
        OK(CARD->fill(card[i], memory[i][1], 0, 4));
    }
}

/* By the links, after what made the bytes and after what used their place; beside what both cards launch meanwhile. */
static void copies_run_beside_launches(void **state) {
    (void)state;
    bti_event made, idle;
    bti_work_end end, second;
    for (int i = 0; i < 8; i++) negate(card[1], memory[1][0], memory[1][1], BYTES / 4); /* longer than the calls */
    negate(card[0], memory[0][0], memory[0][1], BYTES / 4);
    assert_int_equal(CARD->send(card[1], memory[1][2], NULL, card[0], memory[0][1], NULL, BYTES, &end), BT_INTERNAL);
    assert_non_null(strstr(bt_error_text(), "a copy between devices reads"));
    OK(CARD->record(card[0], &made));
    assert_int_equal(CARD->send(card[1], memory[1][1], NULL, card[0], memory[0][1], &made, BYTES, &end), BT_INTERNAL);
    assert_non_null(strstr(bt_error_text(), "a copy between devices writes"));
    OK(CARD->record(card[1], &idle));
    negate(card[0], memory[0][0], memory[0][2], BYTES / 4);
    negate(card[1], memory[1][0], memory[1][2], BYTES / 4);
    const uint64_t computed[] = {CARD->complete_at(card[0]), CARD->complete_at(card[1])};
    uint64_t clock = bti_clock_ns();
    OK(CARD->send(card[1], memory[1][1], &idle, card[0], memory[0][1], &made, BYTES, &end));
    assert_int_equal(took(&clock), 2000); /* the call alone */
    assert_int_equal(end.begin_ns, idle.value > clock - 2000 ? idle.value : clock - 2000);
    assert_int_equal(end.end_ns - end.begin_ns, 3000 + 16000);
    assert_int_equal(end.event.value, end.end_ns);
    for (int i = 0; i < 2; i++) assert_int_equal(CARD->complete_at(card[i]), computed[i]);
    assert_int_equal(CARD->fill(card[0], memory[0][1], 0, 4), BT_INTERNAL); /* while it leaves */
    assert_non_null(strstr(bt_error_text(), "a copy between devices uses"));
    assert_int_equal(CARD->download(card[1], host, memory[1][1], 4), BT_INTERNAL);
    assert_int_equal(CARD->copy(card[1], memory[1][0], memory[1][1], 4), BT_INTERNAL);
    OK(CARD->send(card[1], memory[1][1] + 4, &end.event, card[0], memory[0][1] + 4, &made, 4,
                  &second)); /* one after the other */
    assert_int_equal(second.begin_ns, end.end_ns);
    clock = bti_clock_ns();
    OK(CARD->follow(card[1], second.event));
    assert_int_equal(took(&clock), 2000);
    assert_int_equal(CARD->complete_at(card[1]), second.end_ns);
    OK(CARD->copy(card[1], memory[1][0], memory[1][1], 4)); /* begins when it has arrived */
    OK(CARD->sync(card[1]));
    OK(CARD->fill(card[0], memory[0][1], 0, 4));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_two, close_two)
    const struct CMUnitTest tests[] = {TEST(the_host_waits_for_transfers), TEST(launches_run_beside_the_host),
                                       TEST(who_reads_too_early_is_caught), TEST(reductions_run_beside_launches),
                                       TEST(copies_run_beside_launches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
