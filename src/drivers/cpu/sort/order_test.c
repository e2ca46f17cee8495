// labels: threads
// env: BERTH_FLAGS=threads=2
/* Sorts and selections on the cores, compared with the interpreter bit by bit: for each dtype, any layout, lengths around the borders between
 * their ways, elements that recur, -0 and several NaN, each instruction set. */
#include "drivers/cpu/sort/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/cores.h"
#include <berth/flags.h>
#include "base/test_depth.h"
#include "drivers/cpu/engine.h"
#include "drivers/cpu/sort/radix.h"
#include "ir/dtype.h"
#include "reference/interp.h"
#include "reference/operand.h"
#include "support/attr.h"

typedef enum layout { PLAIN, TURNED, GAPS, BACKWARDS, LAYOUTS } layout;
typedef enum elements {
    ANY_BITS,
    FEW_KINDS,
    ASCENDING,
    EQUAL,
    FEW_ABOVE,
    KINDS
} elements; /* FEW_ABOVE: of upper halves */

static uint64_t random_state = 1;
static uint64_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 32 ^ random_state << 29;
}

static void fill(char *memory, size_t bytes, bt_dtype dtype, elements kind) {
    size_t size = bt_dtype_size(dtype);
    for (size_t i = 0; i + size <= bytes; i += size) {
        uint64_t any = random_bits(), few = any % 5;
        uint64_t zero = any >> 8 & 1 ? UINT64_C(1) << (size * 8 - 1) : 0;
        uint64_t bits = kind == ANY_BITS ? any : kind == ASCENDING ? i / size : kind == EQUAL ? zero : few * few << 8;
        if (kind == FEW_KINDS && any >> 20 & 1) bits = bti_dtype_is_float(dtype) ? zero : ~bits;
        if (kind == FEW_ABOVE) bits = any >> 32 | (any % 4 * 0x11111111) << 32;
        if (dtype == BT_BOOL) bits &= 1;
        memcpy(memory + i, &bits, size);
    }
}

typedef struct value {
    bti_operand operand;
    char *memory;
    size_t bytes;
} value;

/* TURNED: the axes lie in the opposite order. */
static value make(bt_dtype dtype, int rank, const int64_t *shape, layout how, elements kind) {
    value v = {.operand = {.dtype = dtype, .rank = rank}};
    int64_t count = how == GAPS ? 2 : 1, last = 0;
    for (int i = 0; i < rank; i++) {
        int axis = how == TURNED ? i : rank - 1 - i;
        v.operand.shape[axis] = shape[axis];
        v.operand.stride[axis] = how == BACKWARDS ? -count : count;
        if (how == BACKWARDS && shape[axis] > 0) last += (shape[axis] - 1) * count;
        count *= shape[axis] + (how == GAPS);
    }
    v.bytes = (size_t)(count + 8) * bt_dtype_size(dtype);
    v.memory = bti_alloc_aligned(64, v.bytes);
    assert_non_null(v.memory);
    fill(v.memory, v.bytes, dtype, kind);
    v.operand.address = (uint64_t)(uintptr_t)(v.memory + last * (int64_t)bt_dtype_size(dtype));
    return v;
}

/* Results by the interpreter, by two cores and by one; memory around them is compared too. */
static void expect_the_same_order(bti_op op, const value *x, int axis, int64_t k, unsigned read, layout how) {
    static const int64_t none[1];
    bti_attr attr = attr_of(op, 2, (const int64_t[]){axis, k});
    int64_t shape[BTI_MAX_RANK];
    memcpy(shape, x->operand.shape, sizeof shape);
    if (op == BTI_OP_top_k) shape[axis] = k;
    value to[2], is[2];
    for (int r = 0; r < 2; r++) {
        bool wanted = read >> r & 1;
        bt_dtype dtype = r ? BT_I32 : x->operand.dtype;
        to[r] = make(dtype, wanted ? x->operand.rank : 1, wanted ? shape : none, how, ANY_BITS);
        is[r] = to[r];
        is[r].memory = bti_alloc_aligned(64, to[r].bytes);
        assert_non_null(is[r].memory);
        is[r].operand.address =
            (uint64_t)(uintptr_t)is[r].memory + (to[r].operand.address - (uint64_t)(uintptr_t)to[r].memory);
    }
    bti_work work = {.op = op,
                     .input_count = 1,
                     .inputs = &x->operand,
                     .output = to[0].operand,
                     .others = &to[1].operand,
                     .other_count = 1,
                     .attr = &attr};
    for (int r = 0; r < 2; r++) memcpy(is[r].memory, to[r].memory, to[r].bytes);
    assert_int_equal(bti_interpret(&work), BT_OK);
    work.output = is[0].operand;
    work.others = &is[1].operand;
    for (int cores = 0; cores < 2; cores++) { /* 0: no limit */
        int before = bti_cores_limit(cores);
        assert_int_equal(bti_cpu_launch(NULL, NULL, &work), BT_OK);
        bti_cores_limit(before);
        for (int r = 0; r < 2; r++)
            if (memcmp(is[r].memory, to[r].memory, to[r].bytes))
                fail_msg("%s of %s, axis %d of %lld, layouts to %d, result %d, limit of cores %d differs",
                         bti_op_info(op)->name, bt_dtype_name(x->operand.dtype), axis,
                         (long long)x->operand.shape[axis], (int)how, r, cores);
    }
    for (int r = 0; r < 2; r++) bti_free(to[r].memory), bti_free(is[r].memory);
}

static void orders_of(const value *x, int axis, layout how) {
    int64_t length = x->operand.shape[axis], some[] = {1, 3, 40, 1000, length};
    for (unsigned read = 1; read < 4; read++) {
        if (!test_is_drawn(2)) continue;
        expect_the_same_order(BTI_OP_sort, x, axis, 0, read, how);
        int64_t k = some[random_bits() % 5];
        expect_the_same_order(BTI_OP_top_k, x, axis, k < length ? k : length, read, how);
    }
}

static void of_each_dtype(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{2, 3, 5, 4},   {1, 40, 1, 33},  {3, 1, 17, 64},  {17, 1, 1, 65},
                                        {2, 9, 1, 300}, {1, 1, 1, 1025}, {1, 0, 3, 2},    {1, 1, 1, 1},
                                        {9, 2, 2, 513}, {1, 3, 1, 5000}, {300, 1, 1, 16}, {33, 1, 1, 31}};
    for (int d = 0; d < BTI_COMPUTED_DTYPES; d++)
        for (int s = 0; s < 12; s++)
            for (int axis = 0; axis < 4; axis++)
                for (int kind = 0; kind < KINDS; kind++) {
                    if (!test_is_drawn(6)) continue;
                    value x = make((bt_dtype)d, 4, shapes[s], (layout)(random_bits() % LAYOUTS), (elements)kind);
                    orders_of(&x, axis, (layout)(random_bits() % LAYOUTS));
                    bti_free(x.memory);
                }
}

/* Cut into chunks, and into pieces; also with gaps. */
static void of_long_lines(void **state) {
    (void)state;
    static const int64_t lengths[] = {65536, 65537, 262144 + 1, (1 << 20) + 3, 100000};
    static const bt_dtype dtypes[] = {BT_F32, BT_I64, BT_F16, BT_F64, BT_U8};
    for (int d = 0; d < 5; d++)
        for (int l = 0; l < 5; l++)
            for (int kind = 0; kind < KINDS; kind++) {
                if (!test_is_drawn(4)) continue;
                int64_t shape[2] = {1 + l % 2, lengths[l]};
                value x = make(dtypes[d], 2, shape, (layout)((d + l) % LAYOUTS), (elements)kind);
                orders_of(&x, 1, (layout)((d + kind) % LAYOUTS));
                bti_free(x.memory);
            }
}

/* Words whose keys have only these bits are sorted, and have the keys of their indices still. */
static void expect_sorted_words(bt_dtype dtype, uint64_t mask, int64_t count) {
    bti_words_form form = bti_words_form_of(dtype, true, false);
    size_t bytes = (size_t)count * form.bytes;
    char *words = bti_alloc(bytes), *spare = bti_alloc(bytes);
    uint64_t *keys = bti_alloc((size_t)count * sizeof *keys);
    bool *seen = bti_calloc((size_t)count, 1);
    assert_true(words && spare && keys && seen);
    memset(words, 0, bytes);
    for (int64_t i = 0; i < count; i++) {
        int32_t index = (int32_t)i;
        keys[i] = (random_bits() ^ random_bits() << 32) & mask;
        memcpy(words + i * (int64_t)form.bytes, &index, sizeof index);
        memcpy(words + i * (int64_t)form.bytes + bti_words_first_byte(&form), &keys[i], form.key_bytes);
    }
    char *sorted = bti_words_sort(&form, words, spare, count, mask);
    assert_true(sorted == words || sorted == spare);
    for (int64_t i = 0, before = -1; i < count; i++) {
        const char *word = sorted + i * (int64_t)form.bytes;
        int64_t index = bti_word_index(word);
        assert_true(index >= 0 && index < count && !seen[index]);
        seen[index] = true;
        bool follows = before < 0 || keys[before] < keys[index] || (keys[before] == keys[index] && before < index);
        if (!follows || bti_word_key(&form, word) != keys[index])
            fail_msg("word %lld of %lld", (long long)i, (long long)count);
        before = index;
    }
    bti_free(words);
    bti_free(spare);
    bti_free(keys);
    bti_free(seen);
}

/* Lines that are sorted in parts: by an even and an odd number of passes, and lines whose parts would be too large. */
static void in_parts(void **state) {
    (void)state;
    static const uint64_t masks[] = {0xffffffff, 0xffff0000, 0xff00ff, 0x0fffffff, 0x1fffff, 0xff};
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) expect_sorted_words(BT_U32, masks[m], (2 << 20) + 77);
    expect_sorted_words(BT_U64, ~(uint64_t)0, (1 << 20) + 5);
    expect_sorted_words(BT_U64, 0xff00ff00ff00ff, (1 << 20) + 5);
}

/* Dense values alone are written where their words were sorted. */
static void of_values_in_place(void **state) {
    (void)state;
    static const int64_t lengths[] = {3, 40, 2000, 70000};
    for (int l = 0; l < 4; l++)
        for (int wide = 0; wide < 2; wide++)
            for (int kind = 0; kind < KINDS; kind++) {
                value x = make(wide ? BT_F64 : BT_F32, 1, &lengths[l], PLAIN, (elements)kind);
                expect_the_same_order(BTI_OP_sort, &x, 0, 0, 1, PLAIN);
                bti_free(x.memory);
            }
}

/* The networks of each instruction set that this CPU has, and where their lines are too long. */
static void of_each_target(void **state) {
    (void)state;
    static const char *const targets[] = {"sse2", "avx2", "avx512"};
    static const int64_t lengths[] = {2, 16, 63, 65, 127, 256, 257, 512, 1000, 1024};
    for (int t = 0; t < 3; t++) {
        assert_int_equal(bt_set_flag("vector", targets[t]), BT_OK);
        for (int l = 0; l < 10; l++)
            for (int kind = 0; kind < KINDS; kind++) {
                if (!test_is_drawn(3)) continue;
                int64_t shape[2] = {37, lengths[l]};
                value x = make(kind % 2 ? BT_F32 : BT_I16, 2, shape, PLAIN, (elements)kind);
                orders_of(&x, 1, PLAIN);
                bti_free(x.memory);
            }
    }
    assert_int_equal(bt_set_flag("vector", "auto"), BT_OK);
}

/* Each allocation fails once. */
static void without_memory(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{40, 20}, {2, 3000}, {1, 300000}};
    for (int s = 0; s < 3; s++)
        for (int op = 0; op < 2; op++) {
            value x = make(BT_F32, 2, shapes[s], PLAIN, ANY_BITS), to = make(BT_F32, 2, shapes[s], PLAIN, ANY_BITS);
            const int64_t none[1] = {0}, k[2] = {1, shapes[s][1] < 100 ? 5 : 100};
            bti_attr attr = attr_of(op ? BTI_OP_top_k : BTI_OP_sort, 2, k);
            bti_operand unread = {.dtype = BT_U8, .rank = 1, .shape = {none[0]}, .stride = {1}};
            if (op) to.operand.shape[1] = k[1];
            bti_work work = {.op = op ? BTI_OP_top_k : BTI_OP_sort,
                             .input_count = 1,
                             .inputs = &x.operand,
                             .output = to.operand,
                             .others = &unread,
                             .other_count = 1,
                             .attr = &attr};
            int before = bti_cores_limit(1);
            bt_status status = BT_RESOURCE_EXHAUSTED;
            for (uint64_t nth = 1; status != BT_OK && nth < 20; nth++) {
                bti_alloc_fail_at(nth, false);
                status = bti_cpu_launch(NULL, NULL, &work);
                bti_alloc_fail_at(0, false);
                assert_true(status == BT_OK ? nth > 1 : status == BT_RESOURCE_EXHAUSTED);
            }
            assert_int_equal(status, BT_OK);
            bti_cores_limit(before);
            bti_free(x.memory), bti_free(to.memory);
        }
}

static int end(void **state) {
    (void)state;
    bti_cores_shutdown();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_each_dtype),  cmocka_unit_test(of_long_lines),
                                       cmocka_unit_test(in_parts),       cmocka_unit_test(of_values_in_place),
                                       cmocka_unit_test(of_each_target), cmocka_unit_test(without_memory)};
    return cmocka_run_group_tests(tests, NULL, end);
}
