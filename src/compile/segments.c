/* Devices that load graphs run as few programs as there can be: steps that reach each other without leaving the device are one segment. A step's level is the number of segments, one behind the
 * other, whose results it needs by way of other devices, the host or a collective; a segment is what a device does of one level. So no two segments wait for each other. */
#include <string.h>

#include "compile/fuser.h"

#define MOST_MOVES 8 /* of a number, to each segment that reads it */

typedef struct cut {
    bti_planner *planner;
    bti_plan *plan;
    const bti_step *steps;
    int32_t count;
    int32_t *maker; /* by storage: the step that writes it; -1 */
    int32_t *level; /* by step */
    int32_t *
        moves; /* by step: it is made of a number by so many moves, and made again wherever it is read; -1: it is not */
    int32_t *copied;       /* by step: the last segment that has it, of what is made again */
    int32_t *first, *next; /* by level, by step: those of a level, in order; first: of all devices */
    bool *leaves;          /* by storage: it is in memory */
    bool *known;           /* by storage: it is among the inputs of the segment that is written */
    bti_written out;
    BTI_VEC(bti_step) inner;
    BTI_VEC(int32_t) operands; /* of inner steps; then behind those of out */
    BTI_VEC(int32_t) inputs, outputs;
    int32_t levels, segments;
} cut;

bool bti_has_graphs(const bti_planner *planner) {
    for (size_t s = 0; s < planner->plan->steps.count; s++)
        if (bti_loads_graphs(planner, planner->plan->steps.items[s].device)) return true;
    return false;
}

static bool is_inner(const cut *c, const bti_step *step) { return bti_step_is_inner(c->planner, step); }

static int32_t read_or_made(const cut *c, const bti_step *step, int i) {
    return c->plan->operands.items[step->first_operand + i];
}
static int32_t storage_of(const cut *c, int32_t value) { return c->plan->values.items[value].storage; }
static int32_t maker_of(const cut *c, int32_t value) {
    int32_t storage = storage_of(c, value);
    return storage < 0 ? -1 : c->maker[storage];
}
static bool is_made_again(const cut *c, int32_t step) { return step >= 0 && c->moves[step] >= 0; }

/* --- levels ------------------------------------------------------------------------------------------------------------ */

/* Numbers, and what moves and casts make of them, are no reason for an array to leave a segment. */
static int32_t count_moves(const cut *c, const bti_step *step) {
    bti_class class = bti_op_info((bti_op)step->op)->class;
    if (!is_inner(c, step)) return -1;
    if (class == BTI_SOURCE) return 0;
    if (class != BTI_MOVEMENT && step->op != BTI_OP_cast) return -1;
    int32_t before = maker_of(c, read_or_made(c, step, 0));
    return is_made_again(c, before) && c->moves[before] < MOST_MOVES ? c->moves[before] + 1 : -1;
}

static int32_t level_after(const cut *c, int32_t value, bool inner) {
    int32_t before = maker_of(c, value);
    if (before < 0 || is_made_again(c, before)) return 0;
    return c->level[before] + (inner && !is_inner(c, &c->steps[before]));
}

/* Values of kernels are none of the planner's. */
static int32_t read_after(const cut *c, int32_t value) {
    return (size_t)value < c->planner->after.count ? c->planner->after.items[value] : -1;
}

static void find_levels(cut *c) {
    for (int32_t s = 0; s < c->count; s++) {
        const bti_step *step = &c->steps[s];
        bool inner = is_inner(c, step);
        c->moves[s] = count_moves(c, step);
        for (int i = 0; i < step->input_count && c->moves[s] < 0; i++) {
            int32_t value = read_or_made(c, step, i), after = read_after(c, value);
            int32_t level = level_after(c, value, inner), then = after < 0 ? 0 : level_after(c, after, inner);
            if (level > c->level[s]) c->level[s] = level;
            if (then > c->level[s]) c->level[s] = then;
        }
        for (int o = 0; o < step->output_count; o++)
            c->maker[storage_of(c, read_or_made(c, step, step->input_count + o))] = s;
        if (c->level[s] >= c->levels) c->levels = c->level[s] + 1;
    }
}

/* --- what is in memory ------------------------------------------------------------------------------------------------- */

static bool is_one_segment(const cut *c, int32_t a, int32_t b) {
    return is_inner(c, &c->steps[a]) && is_inner(c, &c->steps[b]) && c->steps[a].device == c->steps[b].device &&
           c->level[a] == c->level[b];
}

static void find_leaving(cut *c) {
    for (int32_t s = 0; s < c->count; s++) {
        const bti_step *step = &c->steps[s];
        for (int i = 0; i < step->input_count; i++) {
            int32_t storage = storage_of(c, read_or_made(c, step, i)), maker = storage < 0 ? -1 : c->maker[storage];
            if (maker < 0) continue;
            bool stays = is_made_again(c, maker) ? is_inner(c, step) : is_one_segment(c, maker, s);
            if (!stays) c->leaves[storage] = true;
        }
    }
    for (size_t r = 0; r < c->plan->results.count; r++) {
        int32_t storage = storage_of(c, c->plan->results.items[r].value);
        if (storage >= 0) c->leaves[storage] = true;
    }
}

static bool is_read_outside(const cut *c, const bti_step *step) {
    for (int o = 0; o < step->output_count; o++)
        if (c->leaves[storage_of(c, read_or_made(c, step, step->input_count + o))]) return true;
    return false;
}

/* --- a segment --------------------------------------------------------------------------------------------------------- */

/* What is computed elsewhere, or given. Arrays without elements have no memory: the segment makes them. */
static bool add_input(cut *c, int32_t value) {
    int32_t storage = storage_of(c, value);
    if (c->known[storage] || c->plan->storages.items[storage].bytes == 0) return true;
    c->known[storage] = true;
    return bti_vec_push(&c->inputs, value);
}

static bool add_inner(cut *c, int32_t number, int32_t segment);

/* The reader is of the segment. */
static bool add_read(cut *c, int32_t reader, int32_t value, int32_t segment) {
    int32_t maker = maker_of(c, value);
    if (is_made_again(c, maker)) return c->copied[maker] == segment || add_inner(c, maker, segment);
    return (maker >= 0 && is_one_segment(c, maker, reader)) || add_input(c, value);
}

static bool add_inner(cut *c, int32_t number, int32_t segment) {
    const bti_step *of = &c->steps[number];
    bti_step step = *of;
    bool again = is_made_again(c, number);
    c->copied[number] = segment;
    for (int i = 0; i < of->input_count; i++)
        if (!add_read(c, number, read_or_made(c, of, i), segment)) return false;
    step.first_operand = (int32_t)c->operands.count;
    if (!bti_vec_reserve(&c->operands, (size_t)of->input_count + (size_t)of->output_count)) return false;
    for (int o = 0; o < of->input_count + of->output_count; o++) {
        int32_t value = read_or_made(c, of, o);
        c->operands.items[c->operands.count++] = value;
        bool leaves = o >= of->input_count && c->leaves[storage_of(c, value)];
        if (leaves && again)
            c->leaves[storage_of(c, value)] = false; /* the first segment makes it for all who find it in memory */
        if (leaves && c->plan->storages.items[storage_of(c, value)].bytes && !bti_vec_push(&c->outputs, value))
            return false;
    }
    return bti_vec_push(&c->inner, step) && bti_vec_push(&c->plan->members, of->node);
}

static bool write_segment(cut *c, int32_t level, int device) {
    bti_step step = {.kind = BTI_STEP_SEGMENT,
                     .device = device,
                     .first_inner = (int32_t)c->inner.count,
                     .first_member = (int32_t)c->plan->members.count};
    int32_t segment = ++c->segments;
    c->inputs.count = c->outputs.count = 0;
    for (int32_t s = c->first[level]; s >= 0; s = c->next[s])
        if (c->steps[s].device == device && is_inner(c, &c->steps[s]) && c->copied[s] != segment &&
            !add_inner(c, s, segment))
            return false;
    step.inner_count = (int32_t)c->inner.count - step.first_inner;
    step.member_count = (int32_t)c->plan->members.count - step.first_member;
    step.input_count = (int32_t)c->inputs.count;
    step.output_count = (int32_t)c->outputs.count;
    step.first_operand = (int32_t)c->out.operands.count;
    const bti_step *last = &c->inner.items[c->inner.count - 1];
    step.node = last->node;
    step.op = last->op;
    for (size_t i = 0; i < c->inputs.count; i++) c->known[storage_of(c, c->inputs.items[i])] = false;
    if (!c->outputs.count) return true; /* what it makes has no elements */
    if (!bti_vec_reserve(&c->out.operands, c->inputs.count + c->outputs.count)) return false;
    for (size_t i = 0; i < c->inputs.count; i++) c->out.operands.items[c->out.operands.count++] = c->inputs.items[i];
    for (size_t o = 0; o < c->outputs.count; o++) c->out.operands.items[c->out.operands.count++] = c->outputs.items[o];
    return bti_vec_push(&c->out.steps, step);
}

/* --- all ----------------------------------------------------------------------------------------------------------------- */

/* Steps of the level, in order. What is made again is in the first level, where somebody finds it in memory. */
static void list_levels(cut *c) {
    for (int32_t l = 0; l < c->levels; l++) c->first[l] = -1;
    for (int32_t s = c->count; s-- > 0;) {
        c->next[s] = -1;
        if (is_made_again(c, s) && !is_read_outside(c, &c->steps[s])) continue;
        c->next[s] = c->first[c->level[s]];
        c->first[c->level[s]] = s;
    }
}

static bool write_other(cut *c, const bti_step *of) {
    bti_step step = *of;
    step.first_operand = (int32_t)c->out.operands.count;
    if (!bti_vec_reserve(&c->out.operands, (size_t)of->input_count + (size_t)of->output_count)) return false;
    for (int o = 0; o < of->input_count + of->output_count; o++)
        c->out.operands.items[c->out.operands.count++] = read_or_made(c, of, o);
    return bti_vec_push(&c->out.steps, step);
}

/* The segments of a level, one for each device, then all else. */
static bool write_level(cut *c, int32_t level) {
    uint64_t written = 0; /* there are at most 64 devices */
    for (int32_t s = c->first[level]; s >= 0; s = c->next[s]) {
        int device = c->steps[s].device;
        if (!is_inner(c, &c->steps[s]) || written >> device & 1) continue;
        written |= UINT64_C(1) << device;
        if (!write_segment(c, level, device)) return false;
    }
    for (int32_t s = c->first[level]; s >= 0; s = c->next[s])
        if (!is_inner(c, &c->steps[s]) && !write_other(c, &c->steps[s])) return false;
    return true;
}

static bool is_allocated(const cut *c) {
    return c->maker && c->level && c->moves && c->copied && c->next && c->leaves && c->known;
}

static bool write_levels(cut *c) {
    for (size_t s = 0; s < c->plan->storages.count; s++) c->maker[s] = -1;
    find_levels(c);
    find_leaving(c);
    c->first = bti_alloc(((size_t)c->levels + 1) * sizeof *c->first);
    if (!c->first) return false;
    list_levels(c);
    for (int32_t l = 0; l < c->levels; l++)
        if (!write_level(c, l)) return false;
    int32_t behind = (int32_t)c->out.operands.count;
    if (!bti_vec_reserve(&c->out.operands, c->operands.count)) return false;
    for (size_t i = 0; i < c->operands.count; i++)
        c->out.operands.items[c->out.operands.count++] = c->operands.items[i];
    for (size_t i = 0; i < c->inner.count; i++) c->inner.items[i].first_operand += behind;
    return true;
}

void bti_pass_segments(bti_planner *planner) {
    bti_plan *plan = planner->plan;
    size_t steps = plan->steps.count + 1, storages = plan->storages.count + 1;
    cut c = {.planner = planner,
             .plan = plan,
             .steps = plan->steps.items,
             .count = (int32_t)plan->steps.count,
             .maker = bti_alloc(storages * sizeof *c.maker),
             .level = bti_calloc(steps, sizeof *c.level),
             .moves = bti_calloc(steps, sizeof *c.moves),
             .copied = bti_calloc(steps, sizeof *c.copied),
             .next = bti_alloc(steps * sizeof *c.next),
             .leaves = bti_calloc(storages, sizeof *c.leaves),
             .known = bti_calloc(storages, sizeof *c.known)};
    if (is_allocated(&c) && write_levels(&c)) {
        bti_put_steps(plan, &c.out);
        plan->inner.items = c.inner.items, plan->inner.count = c.inner.count, plan->inner.capacity = c.inner.capacity;
    } else {
        planner->failed = true;
        bti_vec_free(&c.out.steps);
        bti_vec_free(&c.out.operands);
        bti_vec_free(&c.inner);
    }
    bti_free(c.maker);
    bti_free(c.level);
    bti_free(c.moves);
    bti_free(c.copied);
    bti_free(c.first);
    bti_free(c.next);
    bti_free(c.leaves);
    bti_free(c.known);
    bti_vec_free(&c.operands);
    bti_vec_free(&c.inputs);
    bti_vec_free(&c.outputs);
}
