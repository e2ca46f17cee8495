#include "array/plan_key.h"

#include <xxhash.h>

#include "base/flags.h"
#include "device/registry.h"
#include "exec/buffer.h"
#include "ir/region.h"

typedef struct writer {
    const bti_order *order;
    bool hosted, logs_copies;
    BTI_VEC(uint64_t) words;
    BTI_VEC(bti_node *) nodes;
    bti_numbers
        met; /* nodes that are read and not computed, and the buffers that they lie in, which are told apart by address alone */
} writer;

static atomic_uint_fast64_t ended; /* functions of the program's */

enum { ASKED = 1, HELD = 2, PASSED = 4, FORGETS = 8, LOGS = 16 };

/* --- what fits --------------------------------------------------------------------------------------------------------- */

/* Its words have room for so many inputs. A kept plan holds functions of the program's, whose data is released with the last of those who hold them. */
static bool node_fits(const bti_node *node) {
    return node->input_count <= UINT16_MAX && !(node->host && atomic_load(&node->host->ended));
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

static bool add_types(writer *w, const bti_tuple *tuple) {
    const size_t words_of_type = 1 + BTI_MAX_RANK;
    if (!bti_vec_reserve(&w->words, 1 + (size_t)tuple->result_count * words_of_type)) return false;
    add_word(w, (uint64_t)tuple->result_count);
    for (int i = 0; i < tuple->result_count; i++) {
        const bti_type *type = bti_tuple_type(tuple, i);
        add_word(w, (uint64_t)type->dtype | (uint64_t)type->rank << 8);
        add_numbers(w, type->shape, type->rank);
    }
    return true;
}

/* What is called: the bytes of functions that do the same are equal; one without bytes does what no other does. */
static bool add_host(writer *w, const bti_host_function *host) {
    size_t words = (host->same_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    if (!bti_vec_reserve(&w->words, 2 + words)) return false;
    w->hosted = true;
    add_word(w, host->same_bytes ? (uint64_t)(uintptr_t)host->run : (uint64_t)(uintptr_t)host);
    add_word(w, host->same_bytes);
    if (!words) return true;
    w->words.items[w->words.count + words - 1] = 0;
    memcpy(w->words.items + w->words.count, host->same, host->same_bytes);
    w->words.count += words;
    return true;
}

/* All of it but for its inputs and its results; then there is room for its inputs. */
static inline __attribute__((always_inline)) bool add_operation(writer *w, const bti_node *node, unsigned marks) {
    size_t inputs = (size_t)node->input_count;
    if (!node_fits(node)) return false;
    if (!bti_vec_reserve(&w->words, 2 + BTI_MAX_RANK + sizeof(bti_attr) / sizeof(uint64_t) + inputs)) return false;
    add_word(w, first_word(node, marks));
    add_numbers(w, node->shape, node->rank);
    add_attr(w, node);
    return !node->host || (add_host(w, node->host) && bti_vec_reserve(&w->words, inputs));
}

/* --- regions ----------------------------------------------------------------------------------------------------------- */

static bool add_region(writer *w, const bti_region *region);

static bool add_regions(writer *w, const bti_tuple *tuple) {
    bool added = add_types(w, tuple);
    for (int r = 0; r < tuple->region_count && added; r++) added = add_region(w, atomic_load(&tuple->regions[r]));
    return added;
}

static bool add_inner_node(writer *w, const bti_region *region, const bti_node *node) {
    if (!add_operation(w, node, 0)) return false;
    for (int i = 0; i < node->input_count; i++) add_word(w, (uint64_t)bti_region_place(region, node->inputs[i]));
    return !node->tuple || add_regions(w, node->tuple);
}

/* Its inputs and nodes in recorded order, in which they have their numbers, and which of them are its outputs. */
static bool add_region(writer *w, const bti_region *region) {
    if (!bti_vec_reserve(&w->words, 3 + (size_t)region->output_count)) return false;
    add_word(w, (uint64_t)region->input_count);
    add_word(w, (uint64_t)region->node_count);
    add_word(w, (uint64_t)region->output_count);
    for (int o = 0; o < region->output_count; o++) add_word(w, (uint64_t)bti_region_place(region, region->outputs[o]));
    bool added = true;
    for (int i = 0; i < region->input_count && added; i++) added = add_operation(w, region->inputs[i], 0);
    for (int i = 0; i < region->node_count && added; i++) added = add_inner_node(w, region, region->nodes[i]);
    return added;
}

/* --- what is computed, and what is read -------------------------------------------------------------------------------- */

/* Whether all its results that exist are computed here. */
static bool add_tuple(writer *w, const bti_tuple *tuple) {
    if (!add_regions(w, tuple) || !bti_vec_reserve(&w->words, 1)) return false;
    add_word(w, (uint64_t)atomic_load(&tuple->alive));
    return true;
}

static bool add_node(writer *w, const bti_node *node, bool asked) {
    unsigned marks = (asked ? ASKED : 0) | (atomic_load(&node->handles) ? HELD : 0) | (node->passed ? PASSED : 0) |
                     (atomic_load(&node->forget) ? FORGETS : 0) | (node->log_copies ? LOGS : 0);
    w->logs_copies = w->logs_copies || node->log_copies;
    if (!add_operation(w, node, marks)) return false;
    for (int i = 0; i < node->input_count; i++) {
        int64_t number = number_of_input(w, node->inputs[i]);
        if (number < 0) return false;
        add_word(w, (uint64_t)number);
    }
    return !node->tuple || add_tuple(w, node->tuple);
}

/* Which memory: the number of what was met first in it. `number`: of what lies in it now. */
static bool add_memory(writer *w, const bti_buffer *buffer, uint64_t number) {
    const bti_node *memory = (const bti_node *)(const void *)buffer; /* an address */
    int64_t first = bti_number_of(&w->met, memory);
    if (first < 0 && !bti_number_put(&w->met, memory, (int64_t)number)) return false;
    add_word(w, first < 0 ? number : (uint64_t)first);
    return true;
}

/* Results of a tuple that has been computed, which are read one by one: dense, each in memory of its own. */
static bool add_given_tuple(writer *w, size_t number, const bti_node *node) {
    const bti_tuple *tuple = node->tuple;
    if (!tuple->buffers || !add_types(w, tuple) || !bti_vec_reserve(&w->words, 1 + (size_t)tuple->result_count))
        return false;
    add_word(w, first_word(node, 0) & 0xFFFFFFFFFF00u);
    for (int i = 0; i < tuple->result_count; i++)
        if (!tuple->buffers[i] || !add_memory(w, tuple->buffers[i], number | (uint64_t)(i + 1) << 32)) return false;
    return true;
}

/* What is read: how it lies, but for the offset, and which one read before lies in the same memory. */
static bool add_given(writer *w, size_t number) {
    const bti_node *node = w->nodes.items[number];
    if (node->tuple) return add_given_tuple(w, number, node);
    if (!node->buffer || !bti_vec_reserve(&w->words, 2 + 2 * BTI_MAX_RANK)) return false;
    add_word(w, first_word(node, 0) & 0xFFFFFFFFFF00u);
    if (!add_memory(w, node->buffer, number)) return false;
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

/* Inside of regions errors and traces name the lines of the plan. */
static bool write_places(writer *w, const bti_tuple *tuple);

static bool write_place(writer *w, const bti_node *node) {
    if (!bti_vec_reserve(&w->words, 4)) return false;
    add_word(w, (uint64_t)(uintptr_t)node->place.name);
    add_word(w, (uint64_t)(uintptr_t)node->place.site.file);
    add_word(w, (uint64_t)node->place.site.line);
    add_word(w, (uint64_t)(uintptr_t)node->place.label);
    return !node->tuple || write_places(w, node->tuple);
}

static bool write_places(writer *w, const bti_tuple *tuple) {
    bool written = true;
    for (int r = 0; r < tuple->region_count; r++) {
        const bti_region *region = atomic_load(&tuple->regions[r]);
        for (int i = 0; i < region->input_count && written; i++) written = write_place(w, region->inputs[i]);
        for (int i = 0; i < region->node_count && written; i++) written = write_place(w, region->nodes[i]);
    }
    return written;
}

/* Names of the public calls, which traces show, and places inside of regions. They are told apart by address, which the hash does without: it is
 * the same in each process. */
static bool write_all_places(writer *w) {
    if (!bti_vec_reserve(&w->words, w->order->count)) return false;
    for (size_t i = 0; i < w->order->count; i++) add_word(w, (uint64_t)(uintptr_t)w->order->items[i]->place.name);
    for (size_t i = 0; i < w->order->count; i++) {
        const bti_tuple *tuple = w->order->items[i]->tuple;
        if (tuple && tuple->region_count && !write_places(w, tuple)) return false;
    }
    return true;
}

bool bti_plan_key_write(const bti_order *order, bti_node *const *wanted, size_t count, bti_plan_key *key) {
    *key = (bti_plan_key){0};
    if (!order_fits(order)) return false;
    writer w = {.order = order};
    uint64_t ended_before = atomic_load(&ended);
    bool *asked = mark_asked(order, wanted, count);
    bool written = asked && write_all(&w, asked);
    size_t hashed = w.words.count;
    written = written && write_all_places(&w);
    bti_free(asked);
    bti_numbers_free(&w.met);
    *key = (bti_plan_key){.nodes = w.nodes.items,
                          .node_count = w.nodes.count,
                          .words = w.words.items,
                          .word_count = w.words.count,
                          .hosted = w.hosted,
                          .ended = ended_before,
                          .logs_copies = w.logs_copies};
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

void bti_plan_key_end_host(bti_host_function *function) {
    atomic_store(&function->ended, true);
    atomic_fetch_add(&ended, 1);
}

bool bti_plan_key_is_current(const bti_plan_key *key) { return !key->hosted || key->ended == atomic_load(&ended); }
