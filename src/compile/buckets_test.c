/* Collectives: which are one step, when they begin, and whose memory they use meanwhile. */
#include "compile/compile_test.h"

#define BYTES (64 * 64 * 4)

/* results[i]: the sum of both on device i. */
static void reduce(bti_node *const *parts, bti_node **results) {
    bti_type types[2] = {bti_type_of(parts[0]), bti_type_of(parts[1])};
    bti_node *tuple =
        remember(bti_node_new_tuple(BTI_OP_all_reduce, 2, parts, NULL, 2, types, 0, NULL), parts[0]->device);
    for (int i = 0; i < 2; i++) {
        bti_attr which = {.result = {i}};
        results[i] =
            remember(bti_node_new(BTI_OP_result, types[i].dtype, types[i].rank, types[i].shape, 1, &tuple, &which),
                     parts[i]->device);
    }
}

/* On each device products in a row, all of one device before those of the next: made[layer][device]. */
static void make_layers(bti_node *layers[][2], int count) {
    for (int d = 0; d < 2; d++) {
        bti_node *x = leaf(d, SHAPE(64, 64));
        for (int l = 0; l < count; l++)
            layers[l][d] = OP(matmul, d, SHAPE(64, 64), NO_ATTR, l ? layers[l - 1][d] : x, x);
    }
}

static void plan_buckets(int64_t least, bti_node *const *wanted, int count) {
    facts.bucket_bytes = least;
    make_plan(wanted, count);
}

/* The places of collectives in the plan. */
static int find_collectives(int *at) {
    int count = 0;
    for (size_t s = 0; s < plan.steps.count; s++)
        if (plan.steps.items[s].kind == BTI_STEP_COLLECTIVE) at[count++] = (int)s;
    return count;
}

/* The first layers' last; each goes out before the layers are made that it does not need. */
static void each_goes_out_when_it_is_made(void **state) {
    bti_node *layers[3][2], *sums[3][2];
    int at[8];
    make_layers(layers, 3);
    for (int l = 3; l-- > 0;) reduce(layers[l], sums[l]);
    plan_buckets(BYTES, &sums[0][0], 6);
    assert_int_equal(find_collectives(at), 3);
    for (int c = 0; c < 3; c++) {
        assert_int_equal(at[c], 3 * c + 2); /* two products, then their sum */
        assert_int_equal(plan.steps.items[at[c]].group, 2);
        assert_int_equal(bti_plan_output(&plan, &plan.steps.items[at[c]], 1)->storage, value_of(sums[c][1])->storage);
    }
}

static void small_ones_go_out_together(void **state) {
    bti_node *layers[5][2], *sums[5][2];
    int at[8];
    make_layers(layers, 5);
    for (int l = 0; l < 5; l++) reduce(layers[l], sums[l]);
    plan_buckets(2 * BYTES, &sums[0][0], 10);
    assert_int_equal(find_collectives(at), 3);
    for (int c = 0; c < 3; c++) {
        const bti_step *step = &plan.steps.items[at[c]];
        assert_int_equal(step->input_count, c < 2 ? 4 : 2);
        for (int i = 0; i < step->input_count; i++) {
            assert_int_equal(bti_plan_device(&plan, step, i), i % 2);
            assert_int_equal(bti_plan_output(&plan, step, i)->storage, value_of(sums[2 * c + i / 2][i % 2])->storage);
        }
    }
    plan_buckets(1 << 20, &sums[0][0], 10);
    assert_int_equal(find_collectives(at), 1);
}

/* A sum of sums; and one whose input is made after a reader of the first, on the same device. */
static void who_waits_goes_out_later(void **state) {
    bti_node *layers[1][2], *sums[2][2], *twice[2];
    int at[8];
    make_layers(layers, 1);
    reduce(layers[0], sums[0]);
    for (int d = 0; d < 2; d++) twice[d] = OP(exp, d, SHAPE(64, 64), NO_ATTR, sums[0][d]);
    reduce(twice, sums[1]);
    plan_buckets(1 << 20, &sums[0][0], 4);
    assert_int_equal(find_collectives(at), 2);
    assert_int_equal(at[0], 2);
    assert_int_equal(at[1], 5);
}

static void equal_ones_are_one(void **state) {
    bti_node *layers[1][2], *sums[2][2];
    int at[8];
    make_layers(layers, 1);
    for (int i = 0; i < 2; i++) reduce(layers[0], sums[i]);
    plan_buckets(1, &sums[0][0], 4);
    assert_int_equal(find_collectives(at), 1);
    assert_int_equal(plan.steps.items[at[0]].input_count, 2);
    assert_int_equal(value_of(sums[0][0])->storage, value_of(sums[1][0])->storage);
}

static bool apart(const bti_value *a, const bti_value *b) {
    const bti_storage *x = &plan.storages.items[a->storage], *y = &plan.storages.items[b->storage];
    return x->offset < 0 || y->offset < 0 || x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset;
}

/* Each device goes on while the sum is made: what it makes then is not put where that reads or writes. */
static void memory_stays_until_the_end(void **state) {
    for (int read_again = 0; read_again < 2; read_again++) {
        bti_node *parts[2], *later[2], *sums[2], *all[2];
        for (int d = 0; d < 2; d++) {
            bti_node *x = leaf(d, SHAPE(64, 64)), *first = OP(matmul, d, SHAPE(64, 64), NO_ATTR, x, x);
            parts[d] = OP(matmul, d, SHAPE(64, 64), NO_ATTR, first, first);
            bti_node *y = OP(matmul, d, SHAPE(64, 64), NO_ATTR, first, x);
            y = OP(matmul, d, SHAPE(64, 64), NO_ATTR, y, x);
            later[d] = OP(matmul, d, SHAPE(64, 64), NO_ATTR, y, read_again ? parts[d] : y);
        }
        reduce(parts, sums);
        for (int d = 0; d < 2; d++) all[d] = OP(matmul, d, SHAPE(64, 64), NO_ATTR, sums[d], later[d]);
        plan_buckets(1, all, 2);
        int at[8];
        assert_int_equal(find_collectives(at), 1);
        const bti_step *sum = &plan.steps.items[at[0]];
        for (int i = 0; i < 2; i++) { /* in place, unless the input is read again */
            const bti_storage *in = &plan.storages.items[bti_plan_operand(&plan, sum, i)->storage];
            const bti_storage *out = &plan.storages.items[bti_plan_output(&plan, sum, i)->storage];
            assert_true(in->offset >= 0 && out->offset >= 0);
            assert_int_equal(in->offset == out->offset, !read_again);
            assert_int_equal(out->in_place, !read_again);
        }
        for (size_t s = (size_t)at[0] + 1; s + 1 < plan.steps.count; s++)
            for (int i = 0; i < 2; i++) {
                const bti_value *written = bti_plan_output(&plan, &plan.steps.items[s], 0);
                if (plan.steps.items[s].device != i || written->storage == value_of(all[i])->storage) continue;
                assert_true(apart(written, bti_plan_operand(&plan, sum, i)) &&
                            apart(written, bti_plan_output(&plan, sum, i)));
            }
    }
}

/* All get to a collective at the same time: each step of a device comes before the second next of the other. */
static void devices_take_turns(void **state) {
    bti_node *layers[4][2], *sums[1][2];
    int at[8];
    make_layers(layers, 4);
    reduce(layers[3], sums[0]);
    plan_buckets(1, &sums[0][0], 2);
    assert_int_equal(find_collectives(at), 1);
    assert_int_equal(at[0], 8);
    for (int s = 0; s < 8; s++) assert_int_equal(plan.steps.items[s].device, s % 2);
}

/* What the first device sends of its input goes out before all that it computes; what it sends of a product, right after that. */
static void copies_go_out_early(void **state) {
    bti_node *x = leaf(0, SHAPE(64, 64)), *parts[2], *sums[2], *product = x, *there = x, *wanted[4];
    int at[8];
    for (int l = 0; l < 3; l++) product = OP(matmul, 0, SHAPE(64, 64), NO_ATTR, product, x);
    bti_node *early = OP(matmul, 0, SHAPE(64, 64), NO_ATTR, x, x);
    parts[0] = OP(matmul, 0, SHAPE(64, 64), NO_ATTR, product, early);
    for (int l = 0; l < 4; l++) there = OP(matmul, 1, SHAPE(64, 64), NO_ATTR, there, x);
    parts[1] = there;
    reduce(parts, sums);
    wanted[0] = sums[0], wanted[1] = sums[1];
    wanted[2] = OP(exp, 1, SHAPE(64, 64), NO_ATTR, early); /* no sum needs it */
    wanted[3] = early;
    plan_buckets(1, wanted, 4);
    assert_int_equal(find_collectives(at), 1);
    int sends = 0;
    for (int s = 0; s < (int)plan.steps.count; s++) {
        const bti_step *step = &plan.steps.items[s];
        if (step->kind != BTI_STEP_COPY) continue;
        assert_true(s < at[0]);
        const bti_value *sent = bti_plan_operand(&plan, step, 0);
        if (plan.storages.items[sent->storage].given) assert_int_equal(s, 0);
        if (sent->storage == value_of(early)->storage)
            for (int before = s; before-- > 0;) {
                const bti_step *last = &plan.steps.items[before];
                if (last->device || last->kind == BTI_STEP_COPY) continue;
                assert_int_equal(bti_plan_output(&plan, last, 0)->storage, sent->storage);
                break;
            }
        sends++;
    }
    assert_int_equal(sends, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(each_goes_out_when_it_is_made), TEST(small_ones_go_out_together),
        TEST(who_waits_goes_out_later),      TEST(equal_ones_are_one),
        TEST(memory_stays_until_the_end),    TEST(devices_take_turns),
        TEST(copies_go_out_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
