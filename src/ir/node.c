#include "ir/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/recycle.h"

static void (*buffer_release)(bti_buffer *buffer);
static atomic_uint_fast64_t sequence;

void bti_node_set_buffer_release(void (*release)(bti_buffer *buffer)) { buffer_release = release; }

void bti_gate_release(bti_gate *gate) {
    if (gate && atomic_fetch_sub_explicit(&gate->refs, 1, memory_order_acq_rel) == 1) gate->functions->free(gate);
}

bti_checkpoint *bti_checkpoint_new(bti_checkpoint *outer) {
    bti_checkpoint *block = bti_alloc(sizeof *block);
    if (!block) return NULL;
    atomic_init(&block->refs, 1);
    block->outer = bti_checkpoint_retain(outer);
    return block;
}

void bti_checkpoint_release(bti_checkpoint *block) {
    while (block && atomic_fetch_sub_explicit(&block->refs, 1, memory_order_acq_rel) == 1) {
        bti_checkpoint *outer = block->outer;
        bti_free(block);
        block = outer;
    }
}

bool bti_gate_join(bti_gate **gate, bti_gate *other) {
    if (!bti_gate_matters(other) || other == *gate) return true;
    bti_gate *before = *gate,
             *both = bti_gate_matters(before) ? before->functions->join(before, other) : bti_gate_retain(other);
    if (!both) return false;
    *gate = both;
    bti_gate_release(before);
    return true;
}

/* The history that gradients pass through: not through integers, reads of variables, or `stop`. */
static void inherit_history(bti_node *node) {
    node->oldest = node->sequence;
    if (node->op == BTI_OP_value) node->variables = UINT64_C(1) << ((uint64_t)node->attr->value.variable % 64);
    if (!bti_node_is_float(node) || node->op == BTI_OP_value || node->op == BTI_OP_stop) return;
    for (int i = 0; i < node->input_count; i++) {
        const bti_node *input = node->inputs[i];
        if (!bti_node_is_float(input)) continue;
        if (input->oldest < node->oldest) node->oldest = input->oldest;
        node->variables |= input->variables;
    }
}

bti_node *bti_node_new(bti_op op, bt_dtype dtype, int rank, const int64_t *shape, int input_count,
                       bti_node *const *inputs, const bti_attr *attr) {
    size_t attr_bytes = (bti_attr_bytes(op) + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    size_t room = (size_t)(input_count ? input_count : 1) * sizeof(bti_node *);
    size_t bytes = sizeof(bti_node) + room + attr_bytes;
    bti_node *node = bti_recycled_new(bytes);
    if (!node) return NULL;
    node->bytes = bytes;
    atomic_init(&node->refs, 1);
    node->op = (uint8_t)op;
    node->dtype = (uint8_t)dtype;
    node->rank = (uint8_t)rank;
    node->sequence = atomic_fetch_add_explicit(&sequence, 1, memory_order_relaxed) + 1;
    node->input_count = input_count;
    if (attr_bytes) node->attr = memcpy(node + 1, attr, bti_attr_bytes(op));
    node->inputs = (bti_node **)(void *)((char *)(node + 1) + attr_bytes);
    for (int i = 0; i < rank; i++) node->shape[i] = shape[i];
    for (int i = 0; i < input_count; i++) node->inputs[i] = bti_node_retain(inputs[i]);
    if (op == BTI_OP_result) atomic_fetch_add_explicit(&inputs[0]->tuple->alive, 1, memory_order_relaxed);
    inherit_history(node);
    node->reads = op == BTI_OP_value;
    for (int i = 0; i < input_count; i++) node->reads |= inputs[i]->reads;
    for (int i = 0; i < input_count; i++)
        if (inputs[i]->gate && !bti_gate_join(&node->gate, inputs[i]->gate)) {
            bti_node_release(node);
            return NULL;
        }
    return node;
}

bti_node *bti_node_done(bti_op op, bt_dtype dtype, int rank, const int64_t *shape, const bti_attr *attr,
                        bti_buffer *buffer, const bti_layout *layout) {
    bti_node *node = bti_node_new(op, dtype, rank, shape, 0, NULL, attr);
    if (!node) return NULL;
    node->buffer = buffer;
    node->layout = *layout;
    atomic_store_explicit(&node->state, BTI_DONE, memory_order_release);
    return node;
}

/* --- regions ------------------------------------------------------------------------------------------------------------ */

static void release_nodes(bti_node **nodes, int count) {
    for (int i = 0; i < count && nodes; i++) bti_node_release(nodes[i]);
    bti_free(nodes);
}

static bti_node **retain_nodes(bti_node *const *nodes, int count) {
    bti_node **kept = bti_alloc((size_t)count * sizeof *kept);
    for (int i = 0; i < count && kept; i++) kept[i] = bti_node_retain(nodes[i]);
    return kept;
}

bti_region *bti_region_new(bti_node *const *inputs, int input_count, bti_node *const *outputs, int output_count,
                           bti_node *const *nodes, int node_count) {
    bti_region *region = bti_calloc(1, sizeof *region);
    if (!region) return NULL;
    atomic_init(&region->refs, 1);
    region->input_count = input_count;
    region->output_count = output_count;
    region->node_count = node_count;
    region->inputs = retain_nodes(inputs, input_count);
    region->outputs = retain_nodes(outputs, output_count);
    region->nodes = retain_nodes(nodes, node_count);
    for (int i = 0; i < input_count; i++) inputs[i]->in_region = true;
    for (int i = 0; i < node_count; i++) nodes[i]->in_region = true;
    if (region->inputs && region->outputs && region->nodes) return region;
    bti_region_release(region);
    return NULL;
}

bti_region *bti_region_retain(bti_region *region) {
    if (region) atomic_fetch_add_explicit(&region->refs, 1, memory_order_relaxed);
    return region;
}

void bti_region_release(bti_region *region) {
    if (!region || atomic_fetch_sub_explicit(&region->refs, 1, memory_order_acq_rel) != 1) return;
    release_nodes(region->outputs, region->output_count);
    release_nodes(region->nodes, region->node_count);
    release_nodes(region->inputs, region->input_count);
    bti_free(region);
}

/* --- several results -------------------------------------------------------------------------------------------------- */

static void free_tuple(bti_tuple *tuple) {
    if (!tuple) return;
    for (int r = 0; r < tuple->region_count; r++) bti_region_release(tuple->regions[r]);
    for (int i = 0; i < tuple->result_count && tuple->buffers; i++)
        if (tuple->buffers[i]) buffer_release(tuple->buffers[i]);
    bti_free(tuple->buffers);
    bti_free(tuple->types);
    bti_free(tuple->read);
    bti_free(tuple);
}

static bti_type *copy_types(int count, const bti_type *types) {
    bti_type *copy = bti_alloc((size_t)count * sizeof *copy);
    for (int i = 0; i < count && copy; i++) copy[i] = types[i];
    return copy;
}

bti_node *bti_node_new_tuple(bti_op op, int input_count, bti_node *const *inputs, const bti_attr *attr,
                             int result_count, const bti_type *types, int region_count, bti_region *const *regions) {
    bt_dtype dtype = BT_I64;
    for (int i = 0; i < result_count; i++)
        if (bti_dtype_is_float(types[i].dtype)) dtype = BT_F32;
    bti_tuple *tuple = bti_calloc(1, sizeof *tuple);
    if (!tuple) return NULL;
    tuple->read = bti_calloc((size_t)result_count + 1, sizeof *tuple->read);
    bti_node *node = (tuple->types = copy_types(result_count, types)) && tuple->read
                         ? bti_node_new(op, dtype, 0, NULL, input_count, inputs, attr)
                         : NULL;
    if (!node) {
        free_tuple(tuple);
        return NULL;
    }
    node->tuple = tuple;
    tuple->result_count = result_count;
    tuple->region_count = region_count;
    for (int r = 0; r < region_count; r++) tuple->regions[r] = bti_region_retain(regions[r]);
    return node;
}

bool bti_node_extend(bti_node *node, int result_count, const bti_type *types, bti_region *region) {
    bti_type *copy = copy_types(result_count, types);
    bool *read = bti_calloc((size_t)result_count + 1, sizeof *read);
    if (!copy || !read) {
        bti_free(copy);
        bti_free(read);
        return false;
    }
    bti_free(node->tuple->read);
    node->tuple->read = read;
    bti_free(node->tuple->types);
    bti_region_release(node->tuple->regions[0]);
    bti_free(node->tuple->buffers); /* empty: of a plan that did not run */
    node->tuple->buffers = NULL;
    node->tuple->types = copy;
    node->tuple->result_count = result_count;
    node->tuple->regions[0] = bti_region_retain(region);
    return true;
}

void bti_copy_marks(bti_node *to, const bti_node *from) {
    to->device = from->device;
    to->committed = atomic_load(&from->committed);
    to->rule = from->rule;
    to->weak = from->weak;
    atomic_store(&to->logged, atomic_load(&from->logged));
    atomic_store(&to->in_gradient, atomic_load(&from->in_gradient));
    to->log_copies = from->log_copies;
    to->place = from->place;
    if (to->op == from->op) to->host = bti_host_retain(from->host);
}

/* --- references ------------------------------------------------------------------------------------------------------- */

bti_node *bti_node_retain(bti_node *node) {
    if (node) atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
    return node;
}

bool bti_node_try_retain(bti_node *node) {
    unsigned refs = atomic_load(&node->refs);
    while (refs && !atomic_compare_exchange_weak(&node->refs, &refs, refs + 1)) {
    }
    return refs != 0;
}

static bool release_reference(bti_node *node) {
    return node && atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) == 1;
}

/* Releases the inputs; those without references are put in front of the list. */
static bti_node *release_inputs(bti_node *node, bti_node *dead) {
    if (node->op == BTI_OP_result && node->input_count)
        atomic_fetch_sub_explicit(&node->inputs[0]->tuple->alive, 1, memory_order_relaxed);
    for (int i = 0; i < node->input_count; i++) {
        if (!release_reference(node->inputs[i])) continue;
        node->inputs[i]->next_dead = dead;
        dead = node->inputs[i];
    }
    node->input_count = 0;
    return dead;
}

/* Releasing an origin may release a function, which may hold the last reference to nodes with origins, and so on. To avoid recursion,
 * the nodes that this thread frees while it releases a function are collected in a list. */
static _Thread_local bool releasing_function;
static _Thread_local bti_node *freed_with_function;

static bti_node *concat_lists(bti_node *first, bti_node *rest) {
    if (!first) return rest;
    bti_node *last = first;
    while (last->next_dead) last = last->next_dead;
    last->next_dead = rest;
    return first;
}

static bti_node *release_function(bti_origin *origin, bti_node *dead) {
    bool outermost = !releasing_function;
    releasing_function = true;
    origin->functions->unused(origin);
    if (!outermost) return dead;
    releasing_function = false;
    dead = concat_lists(freed_with_function, dead);
    freed_with_function = NULL;
    return dead;
}

/* The last user releases the values that the call was given. */
static bti_node *release_origin_user(bti_origin *origin, bti_node *dead) {
    if (atomic_fetch_sub_explicit(&origin->users, 1, memory_order_acq_rel) != 1) return dead;
    for (int i = 0; i < origin->given_count; i++) {
        if (!release_reference(origin->given[i])) continue;
        origin->given[i]->next_dead = dead;
        dead = origin->given[i];
    }
    return release_function(origin, dead);
}

static bti_node *leave_origin_of(bti_node *node, bti_node *dead) {
    if (!node->origin || node->left_origin) return dead;
    node->left_origin = true;
    return release_origin_user(node->origin, dead);
}

static void free_nodes(bti_node *dead) {
    if (releasing_function) {
        freed_with_function = concat_lists(dead, freed_with_function);
        return;
    }
    while (dead) {
        bti_node *node = dead;
        dead = leave_origin_of(node, release_inputs(node, node->next_dead));
        if (node->origin) node->origin->functions->result_freed(node->origin, node);
        if (node->buffer) buffer_release(node->buffer);
        free_tuple(node->tuple);
        bti_gate_release(node->gate);
        bti_checkpoint_release(node->checkpoint);
        bti_host_release(node->host);
        for (int i = 0; i < node->rank && node->symbolic && node->op == BTI_OP_leaf; i++)
            bti_symbol_let_go(node->shape[i]);
        bti_error_release(node->error);
        bti_recycled_free(node, node->bytes);
    }
}

void bti_node_release(bti_node *node) {
    if (!release_reference(node)) return;
    node->next_dead = NULL;
    free_nodes(node);
}

void bti_node_forget(bti_node *node) { free_nodes(leave_origin_of(node, release_inputs(node, NULL))); }
void bti_origin_leave(bti_origin *origin) { free_nodes(release_origin_user(origin, NULL)); }
void bti_node_leave_origin(bti_node *node) { free_nodes(leave_origin_of(node, NULL)); }

uint64_t bti_node_sequence_take(uint64_t count) {
    return atomic_fetch_add_explicit(&sequence, count, memory_order_relaxed);
}

uint64_t bti_node_sequence(void) { return atomic_load_explicit(&sequence, memory_order_relaxed); }

int64_t bti_node_count(const bti_node *node) {
    int64_t count = 1;
    for (int i = 0; i < node->rank; i++) count *= node->shape[i]; /* bti_shape_fits */
    return count;
}

int64_t bti_node_bytes(const bti_node *node) {
    return bti_node_count(node) * (int64_t)bt_dtype_size((bt_dtype)node->dtype);
}

static int by_sequence(const void *a, const void *b) {
    uint64_t x = (*(bti_node *const *)a)->sequence, y = (*(bti_node *const *)b)->sequence;
    return x < y ? -1 : x > y;
}

#define SPARSE 8 /* numbers per node up to which each node is put at its number */

/* Sorts in linear time where the numbers are close together, as those of one graph mostly are. False: they are not, or memory is
 * short. */
static bool counting_sort(bti_node **nodes, size_t count) {
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        if (nodes[i]->sequence < least) least = nodes[i]->sequence;
        if (nodes[i]->sequence > most) most = nodes[i]->sequence;
    }
    if (count < 16 || most - least >= SPARSE * (uint64_t)count) return false;
    bti_node **places = bti_calloc((size_t)(most - least) + 1, sizeof *places);
    if (!places) return false;
    bool apart = true;
    for (size_t i = 0; i < count && apart; i++) {
        bti_node **place = &places[nodes[i]->sequence - least];
        apart = !*place;
        *place = nodes[i];
    }
    for (size_t p = 0, sorted = 0; p <= (size_t)(most - least) && apart; p++)
        if (places[p]) nodes[sorted++] = places[p];
    bti_free(places);
    return apart;
}

void bti_nodes_sort(bti_node **nodes, size_t count) {
    if (count && !counting_sort(nodes, count)) qsort(nodes, count, sizeof *nodes, by_sequence);
}
