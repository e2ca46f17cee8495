#include "ir/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/recycle.h"

static void (*buffer_release)(bti_buffer *buffer);

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

bti_checkpoint *bti_stand_in_block(const bti_stand_in_blocks *blocks, const bti_checkpoint *block) {
    for (size_t i = 0; i < blocks->items.count; i += 2)
        if (blocks->items.items[i] == block) return blocks->items.items[i + 1];
    return NULL;
}

bti_checkpoint *bti_stand_in_block_new(bti_stand_in_blocks *blocks, bti_checkpoint *block, bti_checkpoint *outer) {
    bti_checkpoint *new = bti_vec_reserve(&blocks->items, 2) ? bti_checkpoint_new(outer) : NULL;
    if (!new) return NULL;
    blocks->items.items[blocks->items.count++] = block;
    blocks->items.items[blocks->items.count++] = new;
    return new;
}

void bti_stand_in_blocks_free(bti_stand_in_blocks *blocks) {
    for (size_t i = 0; i < blocks->items.count; i += 2) bti_checkpoint_release(blocks->items.items[i + 1]);
    bti_vec_free(&blocks->items);
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

/* Whether gradients pass through: not through integers, reads of variables, or `stop`. */
static bool passes_gradients(const bti_node *node) {
    return bti_node_has_gradient(node) && node->op != BTI_OP_value && node->op != BTI_OP_stop;
}

/* What a node has from its inputs; false: there is no memory for its gate. */
static bool take_inputs(bti_node *node, bti_node *const *inputs, int count) {
    bool passes = passes_gradients(node), room = true;
    for (int i = 0; i < count; i++) {
        bti_node *input = node->inputs[i] = bti_node_retain(inputs[i]);
        node->reads |= input->reads;
        if (input->gate) room = room && bti_gate_join(&node->gate, input->gate);
        if (!passes || !bti_node_has_gradient(input)) continue;
        if (input->oldest < node->oldest) node->oldest = input->oldest;
        node->variables |= input->variables;
    }
    return room;
}

static uint64_t newest_of(bti_node *const *nodes, int count) {
    uint64_t newest = 0;
    for (int i = 0; i < count; i++)
        if (nodes[i]->sequence > newest) newest = nodes[i]->sequence;
    return newest;
}

/* Whether another thread records on one of them too. */
static bool meet_others(bti_node *const *nodes, int count, uint32_t recorder) {
    bool met = false;
    for (int i = 0; i < count; i++) {
        if (nodes[i]->recorder != recorder && !atomic_load_explicit(&nodes[i]->met_others, memory_order_relaxed))
            atomic_store_explicit(&nodes[i]->met_others, true, memory_order_relaxed);
        met = met || atomic_load_explicit(&nodes[i]->met_others, memory_order_relaxed);
    }
    return met;
}

/* Gradients of a node are added in the order of the numbers of its readers: of those that one thread records after another, in that order. */
bti_recorded bti_node_numbers(uint64_t count, bti_node *const *inputs, int input_count, bool ordered) {
    uint64_t least = newest_of(inputs, input_count);
    bti_recorded first = bti_sequence_take(count, least);
    if (!meet_others(inputs, input_count, first.recorder) && !ordered) return first;
    bti_sequence_pass();
    return bti_sequence_take(count, least);
}

bti_node *bti_node_new(bti_op op, bt_dtype dtype, int rank, const int64_t *shape, int input_count,
                       bti_node *const *inputs, const bti_attr *attr) {
    size_t attr_bytes = (bti_attr_bytes(op) + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    size_t room = (size_t)(input_count ? input_count : 1) * sizeof(bti_node *);
    size_t bytes = sizeof(bti_node) + room + attr_bytes;
    bti_node *node = bti_recycled_new(bytes);
    if (!node) return NULL;
    bti_recorded first = bti_node_numbers(1, inputs, input_count, bti_op_info(op)->class == BTI_HOST);
    node->bytes = bytes;
    atomic_init(&node->refs, 1);
    node->op = (uint8_t)op;
    node->dtype = (uint8_t)dtype;
    node->rank = (uint8_t)rank;
    node->sequence = node->oldest = first.sequence;
    node->recorder = first.recorder;
    atomic_init(&node->input_count, input_count);
    if (attr_bytes) node->attr = memcpy(node + 1, attr, bti_attr_bytes(op));
    node->inputs = (bti_node **)(void *)((char *)(node + 1) + attr_bytes);
    for (int i = 0; i < rank; i++) node->shape[i] = shape[i];
    if (op == BTI_OP_result) atomic_fetch_add_explicit(&inputs[0]->tuple->alive, 1, memory_order_relaxed);
    node->reads = op == BTI_OP_value;
    if (op == BTI_OP_value) node->variables = UINT64_C(1) << ((uint64_t)node->attr->value.variable % 64);
    if (take_inputs(node, inputs, input_count)) return node;
    bti_node_release(node);
    return NULL;
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

/* The nodes of a region that other threads have may be those of another one too. */
static void enter_region(bti_node *node) {
    if (!node->in_region) node->in_region = true;
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
    for (int i = 0; i < input_count; i++) enter_region(inputs[i]);
    for (int i = 0; i < node_count; i++) enter_region(nodes[i]);
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

typedef struct bti_tuple_before {
    bti_type *types;
    bti_region *region;
    struct bti_tuple_before *before;
} bti_tuple_before;

static void free_tuple(bti_tuple *tuple) {
    if (!tuple) return;
    for (bti_tuple_before *kept = tuple->before, *next; kept; kept = next) {
        next = kept->before;
        bti_free(kept->types);
        bti_region_release(kept->region);
        bti_free(kept);
    }
    for (int r = 0; r < tuple->region_count; r++) bti_region_release(tuple->regions[r]);
    for (int i = 0; i < tuple->result_count && tuple->buffers; i++)
        if (tuple->buffers[i]) buffer_release(tuple->buffers[i]);
    bti_free(tuple->buffers);
    bti_free(tuple->types);
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
        if (bti_dtype_has_gradient(types[i].dtype)) dtype = BT_F32;
    bti_tuple *tuple = bti_calloc(1, sizeof *tuple);
    if (!tuple) return NULL;
    bti_type *own = copy_types(result_count, types);
    atomic_init(&tuple->types, own);
    bti_node *node = own ? bti_node_new(op, dtype, 0, NULL, input_count, inputs, attr) : NULL;
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
    bti_tuple *tuple = node->tuple;
    bti_type *copy = copy_types(result_count, types);
    bti_tuple_before *kept = bti_alloc(sizeof *kept);
    if (!copy || !kept) {
        bti_free(copy);
        bti_free(kept);
        return false;
    }
    *kept = (bti_tuple_before){tuple->types, tuple->regions[0], tuple->before};
    tuple->before = kept;
    bti_free(tuple->buffers); /* empty: of a plan that did not run */
    tuple->buffers = NULL;
    tuple->types = copy;
    tuple->regions[0] = bti_region_retain(region);
    tuple->result_count = result_count; /* the last: whoever sees it finds as many types */
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

/* Releases so many inputs; those without references are put in front of the list. */
static bti_node *release_inputs(bti_node *node, int count, bti_node *dead) {
    if (node->op == BTI_OP_result && count)
        atomic_fetch_sub_explicit(&node->inputs[0]->tuple->alive, 1, memory_order_relaxed);
    for (int i = 0; i < count; i++) {
        if (!release_reference(node->inputs[i])) continue;
        node->inputs[i]->next_dead = dead;
        dead = node->inputs[i];
    }
    return dead;
}

/* Releasing an origin may release a function, which may hold the last reference to nodes with origins, and so on. To avoid recursion,
 * the nodes that this thread frees while it releases a function are collected in a list. */
static _Thread_local bool releasing_function;
static _Thread_local bti_node *freed_with_function;
static atomic_int
    releasing; /* threads that do so; most of the time none, which is known without a look at the thread's own */

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
    atomic_fetch_add(&releasing, 1);
    origin->functions->unused(origin);
    atomic_fetch_sub(&releasing, 1);
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
    if (!node->origin || atomic_exchange(&node->left_origin, true)) return dead;
    return release_origin_user(node->origin, dead);
}

static void free_nodes(bti_node *dead) {
    if (atomic_load_explicit(&releasing, memory_order_relaxed) && releasing_function) {
        freed_with_function = concat_lists(dead, freed_with_function);
        return;
    }
    while (dead) {
        bti_node *node = dead;
        dead = leave_origin_of(node, release_inputs(node, node->input_count, node->next_dead));
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

bool bti_origin_use(bti_origin *origin) {
    unsigned users = atomic_load(&origin->users);
    while (users && !atomic_compare_exchange_weak(&origin->users, &users, users + 1)) {
    }
    return users != 0;
}

void bti_origin_leave(bti_origin *origin) { free_nodes(release_origin_user(origin, NULL)); }
void bti_node_leave_origin(bti_node *node) { free_nodes(leave_origin_of(node, NULL)); }

/* --- walks ------------------------------------------------------------------------------------------------------------ */

/* Walks of an era, and the nodes whose inputs were dropped in it (retained), which walks of that era or the one before it may be at. An era ends
 * when the one before it has no walks left. */
typedef struct era {
    unsigned walks;
    bti_node *dropped;
} era;

BTI_STATIC_LOCK(walks_lock, walks)
static era eras[2];
static int now;
static atomic_uint walking;

/* Under the lock: what no walk is at. */
static bti_node *end_eras(void) {
    bti_node *dropped = NULL;
    for (int turn = 0; turn < 2 && !eras[!now].walks; turn++) {
        dropped = concat_lists(eras[!now].dropped, dropped);
        eras[!now].dropped = NULL;
        now = !now;
    }
    return dropped;
}

int bti_walk_begin(void) {
    bti_lock_take(&walks_lock);
    int walk = now;
    eras[walk].walks++;
    atomic_fetch_add(&walking, 1);
    bti_lock_give(&walks_lock);
    return walk;
}

static void release_dropped(bti_node *dropped) {
    while (dropped) {
        bti_node *node = dropped;
        dropped = node->next_dead;
        free_nodes(release_inputs(node, node->dropped, NULL));
        bti_node_release(node);
    }
}

void bti_walk_end(int walk) {
    bti_lock_take(&walks_lock);
    eras[walk].walks--;
    atomic_fetch_sub(&walking, 1);
    bti_node *dropped = end_eras();
    bti_lock_give(&walks_lock);
    release_dropped(dropped);
}

/* A walk that began before the count was cleared is counted, or has ended. */
void bti_node_forget(bti_node *node) {
    int count =
        atomic_load_explicit(&node->input_count, memory_order_relaxed) ? atomic_exchange(&node->input_count, 0) : 0;
    bti_node_leave_origin(node);
    if (!count) return;
    if (!atomic_load(&walking)) {
        free_nodes(release_inputs(node, count, NULL));
        return;
    }
    bti_lock_take(&walks_lock);
    node->dropped = count;
    node->next_dead = eras[now].dropped;
    eras[now].dropped = bti_node_retain(node);
    bti_node *dropped = end_eras();
    bti_lock_give(&walks_lock);
    release_dropped(dropped);
}

int64_t bti_node_count(const bti_node *node) {
    int64_t count = 1;
    for (int i = 0; i < node->rank; i++) count *= node->shape[i]; /* bti_shape_fits */
    return count;
}

int64_t bti_node_bytes(const bti_node *node) {
    return bti_node_count(node) * (int64_t)bt_dtype_size((bt_dtype)node->dtype);
}
