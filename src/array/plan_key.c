#include "array/plan_key.h"

#include <xxhash.h>

#include "base/flags.h"
#include "device/registry.h"
#include "exec/buffer.h"

typedef struct writer {
    const bti_order *order;
    BTI_VEC(uint64_t) words;
    BTI_VEC(bti_node *) nodes;
    bti_numbers
        met; /* nodes that are read and not computed, and the buffers that they lie in, which are told apart by address alone */
} writer;

enum { ASKED = 1, HELD = 2, PASSED = 4, FORGETS = 8 };

/* --- what fits --------------------------------------------------------------------------------------------------------- */

/* Regions are recorded anew by each call, and the program's functions may differ from call to call; what is logged names the lines of this run. */
static bool node_fits(const bti_node *node) {
    if (node->host || node->log_copies || node->input_count > UINT16_MAX) return false;
    return !node->tuple || !node->tuple->region_count;
}

/* Who explains, or observes memory, is told of nodes of this run. A constant that another thread has claimed may be computed at any moment. */
static bool order_fits(const bti_order *order) {
    bool kept = bti_flag_bytes(BTI_FLAG_plan_cache) && bti_flag_choice(BTI_FLAG_explain) == BTI_EXPLAIN_OFF;
    return kept && !order->others.count && !bti_reserve_observer_now();
}

/* --- words ------------------------------------------------------------------------------------------------------------- */

/* There is room. */
static void add_word(writer *w, uint64_t word) { w->words.items[w->words.count++] = word; }
static void add_numbers(writer *w, const int64_t *numbers, int count) {
    for (int i = 0; i < count; i++) add_word(w, (uint64_t)numbers[i]);
}
static void add_attr(writer *w, const bti_node *node) {
    size_t bytes = bti_attr_bytes((bti_op)node->op), words = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    if (!words) return;
    w->words.items[w->words.count + words - 1] = 0;
    memcpy(w->words.items + w->words.count, node->attr, bytes);
    w->words.count += words;
}

static uint64_t first_word(const bti_node *node, unsigned marks) {
    return (uint64_t)node->op | (uint64_t)node->dtype << 8 | (uint64_t)node->rank << 16 | (uint64_t)marks << 24 |
           (uint64_t)(uint16_t)node->device << 32 | (uint64_t)(uint16_t)node->input_count << 48;
}

/* The number of what a node reads; -1: memory is short. */
static int64_t number_of_input(writer *w, bti_node *input) {
    if (bti_is_claimed(input, w->order)) return input->claimed;
    int64_t known = bti_number_of(&w->met, input);
    if (known >= 0) return known;
    if (!bti_vec_push(&w->nodes, input)) return -1;
    int64_t number = (int64_t)w->nodes.count - 1;
    return bti_number_put(&w->met, input, number) ? number : -1;
}

/* What its results are, and whether all that exist are computed here. */
static bool add_tuple(writer *w, const bti_tuple *tuple) {
    const size_t words_of_type = 1 + BTI_MAX_RANK;
    if (!bti_vec_reserve(&w->words, 1 + (size_t)tuple->result_count * words_of_type)) return false;
    add_word(w, (uint64_t)tuple->result_count | (uint64_t)atomic_load(&tuple->alive) << 32);
    for (int i = 0; i < tuple->result_count; i++) {
        const bti_type *type = bti_tuple_type(tuple, i);
        add_word(w, (uint64_t)type->dtype | (uint64_t)type->rank << 8);
        add_numbers(w, type->shape, type->rank);
    }
    return true;
}

static bool add_node(writer *w, const bti_node *node, bool asked) {
    if (!node_fits(node)) return false;
    size_t inputs = (size_t)node->input_count;
    if (!bti_vec_reserve(&w->words, 2 + BTI_MAX_RANK + sizeof(bti_attr) / sizeof(uint64_t) + inputs)) return false;
    unsigned marks = (asked ? ASKED : 0) | (atomic_load(&node->handles) ? HELD : 0) | (node->passed ? PASSED : 0) |
                     (atomic_load(&node->forget) ? FORGETS : 0);
    add_word(w, first_word(node, marks));
    add_numbers(w, node->shape, node->rank);
    add_attr(w, node);
    for (size_t i = 0; i < inputs; i++) {
        int64_t number = number_of_input(w, node->inputs[i]);
        if (number < 0) return false;
        add_word(w, (uint64_t)number);
    }
    return !node->tuple || add_tuple(w, node->tuple);
}

/* What is read: how it lies, but for the offset, and which one read before lies in the same memory. */
static bool add_given(writer *w, size_t number) {
    const bti_node *node = w->nodes.items[number];
    const bti_node *memory = (const bti_node *)(const void *)node->buffer; /* an address */
    if (node->tuple || !memory || !bti_vec_reserve(&w->words, 2 + 2 * BTI_MAX_RANK)) return false;
    int64_t first = bti_number_of(&w->met, memory);
    if (first < 0 && !bti_number_put(&w->met, memory, (int64_t)number)) return false;
    add_word(w, first_word(node, 0) & 0xFFFFFFFFFF00u);
    add_word(w, first < 0 ? number : (uint64_t)first);
    add_numbers(w, node->shape, node->rank);
    add_numbers(w, node->layout.stride, node->rank);
    return true;
}

/* --- all of it --------------------------------------------------------------------------------------------------------- */

static bool *mark_asked(const bti_order *order, bti_node *const *wanted, size_t count) {
    bool *asked = bti_calloc(order->count + 1, sizeof *asked);
    for (size_t i = 0; i < count && asked; i++)
        if (bti_is_claimed(wanted[i], order)) asked[wanted[i]->claimed] = true;
    return asked;
}

static bool write_all(writer *w, const bool *asked) {
    const bti_order *order = w->order;
    if (!bti_vec_reserve(&w->nodes, order->count + 8) || !bti_vec_reserve(&w->words, 8 * order->count + 32))
        return false;
    memcpy(w->nodes.items, order->items, order->count * sizeof *order->items);
    w->nodes.count = order->count;
    add_word(w, bti_flags_changes());
    add_word(w, bti_registry_changes());
    add_word(w, order->count);
    for (size_t i = 0; i < order->count; i++)
        if (!add_node(w, order->items[i], asked[i])) return false;
    for (size_t n = order->count; n < w->nodes.count; n++)
        if (!add_given(w, n)) return false;
    return true;
}

/* Of the public calls; they are told apart by address, which the hash does without: it is the same in each process. */
static bool write_names(writer *w) {
    if (!bti_vec_reserve(&w->words, w->order->count)) return false;
    for (size_t i = 0; i < w->order->count; i++) add_word(w, (uint64_t)(uintptr_t)w->order->items[i]->place.name);
    return true;
}

bool bti_plan_key_write(const bti_order *order, bti_node *const *wanted, size_t count, bti_plan_key *key) {
    *key = (bti_plan_key){0};
    if (!order_fits(order)) return false;
    writer w = {.order = order};
    bool *asked = mark_asked(order, wanted, count);
    bool written = asked && write_all(&w, asked);
    size_t hashed = w.words.count;
    written = written && write_names(&w);
    bti_free(asked);
    bti_numbers_free(&w.met);
    *key = (bti_plan_key){w.nodes.items, w.nodes.count, w.words.items, w.words.count, 0};
    if (written)
        key->hash = XXH3_64bits(key->words, hashed * sizeof *key->words);
    else
        bti_plan_key_free(key);
    return written;
}

void bti_plan_key_free(bti_plan_key *key) {
    bti_free(key->nodes);
    bti_free(key->words);
    *key = (bti_plan_key){0};
}
