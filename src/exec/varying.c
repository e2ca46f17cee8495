#include "exec/varying.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/lock.h"
#include "ir/attention.h"

enum { KNOWN = 256 };
#define GREATEST ((int64_t)1 << 30)

/* Segments that do the same with other sizes. */
typedef struct kind {
    uint64_t key;   /* 0: none */
    uint64_t turn;  /* when it came last */
    size_t count;   /* of sizes */
    int64_t *sizes; /* and numbers, as they were last */
    bool *vary;     /* by size; behind sizes[] */
    bool given_up;
} kind;

static kind kinds[KNOWN];
static uint64_t turns;
BTI_STATIC_LOCK(kinds_lock, segment_kinds)

/* --- what all of a kind have in common ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t word) { return (hash ^ word ^ hash >> 29) * UINT64_C(0x9E3779B97F4A7C15); }

static uint64_t mix_attr(uint64_t hash, const bti_node *node) {
    const bti_attr *attr = node->attr;
    switch (node->op) {
    case BTI_OP_const:
    case BTI_OP_size:
    case BTI_OP_pad: return hash;
    case BTI_OP_scan:
        return mix(hash, (uint64_t)attr->scan.reverse << 32 | (uint64_t)attr->scan.carried << 16 |
                             (uint64_t)attr->scan.by_row);
    case BTI_OP_slice:
        for (int i = 0; i < node->rank; i++) hash = mix(hash, (uint64_t)attr->slice.step[i]);
        return hash;
    default: return attr ? mix(hash, bti_attr_hash((bti_op)node->op, attr)) : hash;
    }
}

/* Sizes within regions belong to the kind. */
static uint64_t mix_region(uint64_t hash, const bti_region *region) {
    for (int i = 0; i < region->node_count; i++) {
        const bti_node *node = region->nodes[i];
        hash = mix(hash, (uint64_t)node->op << 16 | (uint64_t)node->dtype << 8 | node->rank);
        for (int a = 0; a < node->rank; a++) hash = mix(hash, (uint64_t)node->shape[a]);
        if (node->attr) hash = mix(hash, bti_attr_hash((bti_op)node->op, node->attr));
    }
    return hash;
}

static uint64_t mix_step(uint64_t hash, const bti_plan *plan, const bti_step *step, int32_t first) {
    hash = mix(hash, (uint64_t)step->op << 32 | (uint64_t)step->input_count << 16 | (uint64_t)step->output_count);
    for (int o = 0; o < step->input_count + step->output_count; o++) {
        const bti_value *value = bti_plan_operand(plan, step, o);
        hash =
            mix(hash, (uint64_t)(value->storage - first) << 16 | (uint64_t)value->dtype << 8 | (uint64_t)value->rank);
    }
    hash = mix_attr(hash, step->node);
    bti_tuple *tuple = step->node->tuple;
    for (int r = 0; tuple && r < tuple->region_count; r++) hash = mix_region(hash, atomic_load(&tuple->regions[r]));
    return hash;
}

static uint64_t key_of(const bti_plan *plan, const bti_step *segment) {
    int32_t first = INT32_MAX; /* storages are counted from here: other parts of the plan may differ */
    for (int i = 0; i < segment->inner_count; i++) {
        const bti_step *step = &plan->inner.items[segment->first_inner + i];
        for (int o = 0; o < step->input_count + step->output_count; o++)
            if (bti_plan_operand(plan, step, o)->storage < first) first = bti_plan_operand(plan, step, o)->storage;
    }
    uint64_t hash = (uint64_t)segment->inner_count;
    for (int o = 0; o < segment->input_count + segment->output_count; o++)
        hash = mix(hash, (uint64_t)(bti_plan_operand(plan, segment, o)->storage - first));
    for (int i = 0; i < segment->inner_count; i++)
        hash = mix_step(hash, plan, &plan->inner.items[segment->first_inner + i], first);
    return hash | 1;
}

/* --- its sizes and numbers ----------------------------------------------------------------------------------------------- */

/* Goes over them: lists them, or marks those that vary. */
typedef struct walk {
    const bti_plan *plan;
    const bti_step *segment;
    int64_t *sizes;   /* NULL: they are not listed */
    const bool *vary; /* NULL: none is marked */
    uint32_t *axes, *numbers;
    size_t count;
    bool is_odd, any; /* a size that cannot be padded; a size varies */
} walk;

static bool note_size(walk *w, int64_t size) {
    size_t at = w->count++;
    if (w->sizes) w->sizes[at] = size;
    return w->vary && w->vary[at];
}

/* unread: one of several results that nobody reads may have no elements. */
static void walk_value(walk *w, int32_t number, bool unread) {
    const bti_value *value = &w->plan->values.items[number];
    if (unread && !w->plan->storages.items[value->storage].bytes) return;
    for (int a = 0; a < value->rank; a++) {
        w->is_odd |= value->shape[a] < 1 || value->shape[a] > GREATEST;
        if (!note_size(w, value->shape[a])) continue;
        w->axes[number] |= UINT32_C(1) << a;
        w->any = true;
    }
}

static void walk_numbers(walk *w, const bti_step *step, int inner) {
    const bti_attr *attr = step->node->attr;
    if (step->op == BTI_OP_const && note_size(w, (int64_t)w->plan->scalars.items[step->first_scalar]))
        w->numbers[inner] = 1;
    if (step->op == BTI_OP_size && note_size(w, attr->size.size)) w->numbers[inner] = 1;
    if (step->op == BTI_OP_scan && note_size(w, attr->scan.length)) w->numbers[inner] = 1;
    bool is_slice = step->op == BTI_OP_slice;
    if (!is_slice && step->op != BTI_OP_pad) return;
    for (int a = 0; a < step->node->rank; a++)
        if (note_size(w, is_slice ? attr->slice.start[a] : attr->pad.before[a])) w->numbers[inner] |= UINT32_C(1) << a;
}

static void walk_all(walk *w) {
    const bti_plan *plan = w->plan;
    for (int i = 0; i < w->segment->input_count; i++)
        walk_value(w, plan->operands.items[w->segment->first_operand + i], false);
    for (int i = 0; i < w->segment->inner_count; i++) {
        const bti_step *step = &plan->inner.items[w->segment->first_inner + i];
        for (int o = 0; o < step->output_count; o++)
            walk_value(w, plan->operands.items[step->first_operand + step->input_count + o],
                       bti_op_makes_several((bti_op)step->op));
        walk_numbers(w, step, i);
    }
}

/* --- kinds that are known: under the lock --------------------------------------------------------------------------------- */

static kind *find_kind(uint64_t key, size_t count) {
    for (int i = 0; i < KNOWN; i++)
        if (kinds[i].key == key && kinds[i].count == count) return &kinds[i];
    return NULL;
}

/* In place of the one that came longest ago; takes over the sizes. */
static void add_kind(uint64_t key, size_t count, int64_t *sizes) {
    kind *oldest = &kinds[0];
    for (int i = 1; i < KNOWN; i++)
        if (kinds[i].turn < oldest->turn) oldest = &kinds[i];
    bti_free(oldest->sizes);
    *oldest = (kind){.key = key, .turn = ++turns, .count = count, .sizes = sizes, .vary = (bool *)(sizes + count)};
}

/* Whether something varies. vary: by size, gets what does. */
static bool update_kind(kind *known, const int64_t *sizes, bool *vary) {
    bool any = false;
    known->turn = ++turns;
    for (size_t i = 0; i < known->count; i++) {
        known->vary[i] |= known->sizes[i] != sizes[i];
        known->sizes[i] = sizes[i];
        any |= known->vary[i];
    }
    memcpy(vary, known->vary, known->count * sizeof *vary);
    return any && !known->given_up;
}

/* sizes: with room for as many bools behind them; kept if the kind is new. */
static bool meet_kind(uint64_t key, size_t count, int64_t **sizes) {
    bti_lock_take(&kinds_lock);
    kind *known = find_kind(key, count);
    bool varies = known && update_kind(known, *sizes, (bool *)(*sizes + count));
    if (!known) {
        add_kind(key, count, *sizes);
        *sizes = NULL;
    }
    bti_lock_give(&kinds_lock);
    return varies;
}

/* --- for segment.c --------------------------------------------------------------------------------------------------------- */

static bt_status mark_varying(walk *w, const bool *vary, bti_varying *varying) {
    size_t values = w->plan->values.count;
    varying->axes = bti_calloc(values + (size_t)w->segment->inner_count + 1, sizeof *varying->axes);
    if (!varying->axes) return bti_no_memory();
    varying->numbers = varying->axes + values;
    *w = (walk){
        .plan = w->plan, .segment = w->segment, .vary = vary, .axes = varying->axes, .numbers = varying->numbers};
    walk_all(w);
    if (!w->any) bti_varying_free(varying);
    return BT_OK;
}

bt_status bti_varying_see(const bti_plan *plan, const bti_step *segment, bti_varying *varying) {
    walk w = {.plan = plan, .segment = segment};
    *varying = (bti_varying){.key = key_of(plan, segment)};
    walk_all(&w);
    if (w.is_odd || !w.count) return BT_OK;
    int64_t *sizes = bti_calloc(w.count, sizeof *sizes + sizeof(bool));
    if (!sizes) return bti_no_memory();
    w.sizes = sizes;
    w.count = 0;
    walk_all(&w);
    bt_status status = BT_OK;
    if (meet_kind(varying->key, w.count, &sizes)) status = mark_varying(&w, (bool *)(sizes + w.count), varying);
    bti_free(sizes);
    return status;
}

void bti_varying_free(bti_varying *varying) {
    bti_free(varying->axes);
    varying->axes = varying->numbers = NULL;
}

void bti_varying_give_up(const bti_varying *varying) {
    bti_lock_take(&kinds_lock);
    for (int i = 0; i < KNOWN; i++)
        if (kinds[i].key == varying->key) kinds[i].given_up = true;
    bti_lock_give(&kinds_lock);
}
