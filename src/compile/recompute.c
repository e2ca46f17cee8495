/* Values that are computed again instead of being moved. What a kernel leaves in memory for others costs a store, and a load by each reader. Where the facts
 * of the device say that its readers compute it in less time from what is in memory anyway, each of them does. docs/decisions/0048 has the figures. */
#include "compile/fuser.h"

enum {
    MOST_READERS = 4, /* kernels that compute a value again */
    MOST_STEPS = 12,  /* operations that each of them computes for it */
    MOST_LOOKED = 48, /* at operations, to find these */
    MOST_LOADS = 8    /* values that each of them reads for it */
};

typedef struct reading {
    int32_t step, next;
} reading;

typedef struct noted {
    int32_t readings; /* who reads its result: into `readings`; -1: nobody */
    int32_t copies;   /* the last step that computes it again; -1: none */
    int32_t before;   /* of such a step: the one before; -1: none */
} noted;

typedef struct recomputer {
    bti_fuser *fuser;
    BTI_VEC(noted) notes; /* by step */
    BTI_VEC(reading) readings;
} recomputer;

/* What a kernel would do to have a value without reading it. */
typedef struct repetition {
    int32_t group;
    int32_t steps[MOST_STEPS],
        step_count; /* operations of the group that makes the value, inputs before their readers */
    int32_t loads[MOST_LOADS], load_count; /* values that it reads for that and does not read yet */
    int looked;                            /* at so many operations */
    bool may_store;                        /* of these: points that are not in memory yet */
    int stored;                            /* of those, how many */
    int64_t bytes;                         /* of what it reads; twice of what is not in memory yet */
    double operations;
} repetition;

static bti_planner *planner_of(const recomputer *r) { return r->fuser->planner; }
static bti_step *step_at(const recomputer *r, int32_t number) { return &r->fuser->plan->steps.items[number]; }
static bti_group_member *member_at(const recomputer *r, int32_t number) { return &r->fuser->members[number]; }
static bti_group *group_at(const recomputer *r, int32_t number) { return &r->fuser->groups.items[number]; }
static const bti_value *value_at(const recomputer *r, int32_t value) { return &r->fuser->plan->values.items[value]; }

static int32_t input_of(const recomputer *r, int32_t step, int input) {
    return r->fuser->plan->operands.items[step_at(r, step)->first_operand + input];
}

static int32_t result_of(const recomputer *r, int32_t step) { return input_of(r, step, step_at(r, step)->input_count); }

/* --- who reads what ------------------------------------------------------------------------------------------------- */

static void note_reading(recomputer *r, int32_t maker, int32_t step) {
    reading read = {step, r->notes.items[maker].readings};
    r->notes.items[maker].readings = (int32_t)r->readings.count;
    if (!bti_vec_push(&r->readings, read)) planner_of(r)->failed = true;
}

static void note_readings(recomputer *r, int32_t step) {
    for (int i = 0; i < step_at(r, step)->input_count; i++) {
        int32_t maker = bti_maker(r->fuser, input_of(r, step, i));
        if (maker >= 0) note_reading(r, maker, step);
    }
}

static void note_step(recomputer *r) {
    if (!bti_vec_push(&r->notes, ((noted){-1, -1, -1}))) planner_of(r)->failed = true;
}

static bool is_candidate(const bti_fuser *fuser, size_t step) {
    const bti_group_member *member = &fuser->members[step];
    bool kept = member->why == BTI_WHY_ORDER || member->why == BTI_WHY_SHAPE || member->why == BTI_WHY_AXES ||
                member->why == BTI_WHY_LONG;
    return kept && member->doer == BTI_BY_KERNEL && member->level == BTI_POINT &&
           bti_op_info((bti_op)fuser->plan->steps.items[step].op)->class == BTI_ELEMENTWISE;
}

bool bti_has_recomputable(const bti_planner *planner) {
    if (planner->how->fusing != BTI_FUSED) return false;
    for (size_t s = 0; s < planner->plan->steps.count; s++)
        if (is_candidate(planner->fuser, s)) return true;
    return false;
}

/* --- what a reader would do ----------------------------------------------------------------------------------------- */

/* The step of the group that computes the same as `step`; -1. */
static int32_t copy_in(const recomputer *r, int32_t step, int32_t group) {
    int32_t copy = r->notes.items[step].copies;
    while (copy >= 0 && bti_group_of(r->fuser, copy) != group) copy = r->notes.items[copy].before;
    return copy;
}

static double operations_of(const recomputer *r, int32_t number) {
    const bti_step *step = step_at(r, number);
    const bti_target_facts *target = planner_of(r)->how->target(step->device);
    const bti_value *result = value_at(r, result_of(r, number));
    double each = bti_op_instructions((bti_op)step->op, target->group_threads == 1);
    if (result->dtype == BT_F64 || value_at(r, input_of(r, number, 0))->dtype == BT_F64) each *= target->f64_slowdown;
    for (int i = 0; i < result->rank; i++) each *= (double)result->shape[i];
    return each;
}

/* How often a kernel computes a value of its points, at most. */
static int sweeps_of(const recomputer *r, int32_t group) {
    int sweeps = 1;
    for (int32_t m = group_at(r, group)->first_member; m >= 0; m = member_at(r, m)->next) {
        int needed = member_at(r, m)->stage + (member_at(r, m)->level == BTI_POINT);
        if (needed > sweeps) sweeps = needed;
    }
    return sweeps;
}

static bool can_read(const recomputer *r, int32_t group, int32_t value) {
    const bti_domain *domain = &group_at(r, group)->domain;
    int64_t stride[BTI_MAX_RANK];
    return bti_read_after(r->fuser, value) < 0 && bti_domain_strides(domain, value_at(r, value), BTI_POINT, stride) &&
           (!domain->reduced || bti_domain_folds(domain, stride));
}

static bool reads(const recomputer *r, int32_t group, int32_t value) {
    for (int32_t m = group_at(r, group)->first_member; m >= 0; m = member_at(r, m)->next)
        for (int i = 0; i < step_at(r, m)->input_count; i++)
            if (input_of(r, m, i) == value) return true;
    return false;
}

/* A product that only its epilogue reads is in no memory. */
static bool is_made_for_epilogue(const recomputer *r, int32_t maker) {
    return maker >= 0 && step_at(r, maker)->op == BTI_OP_matmul && member_at(r, maker)->why != BTI_WHY_RESULT &&
           planner_of(r)->how->target(step_at(r, maker)->device)->epilogues;
}

static bool add_load(const recomputer *r, repetition *p, int32_t value, bool in_memory) {
    if (reads(r, p->group, value)) return true;
    for (int i = 0; i < p->load_count; i++)
        if (p->loads[i] == value) return true;
    int32_t maker = bti_maker(r->fuser, value);
    if (p->load_count == MOST_LOADS || is_made_for_epilogue(r, maker)) return false;
    if (!in_memory && group_at(r, bti_group_of(r->fuser, maker))->operands + p->load_count >= BTI_GROUP_OPERANDS)
        return false;
    p->loads[p->load_count++] = value;
    p->bytes += bti_value_bytes(value_at(r, value)) * (in_memory ? 1 : 2);
    return true;
}

static bool add_step(const recomputer *r, repetition *p, int32_t number);

static bool add_input(const recomputer *r, repetition *p, int32_t value) {
    int32_t maker = bti_maker(r->fuser, value);
    const bti_group_member *member = maker >= 0 ? member_at(r, maker) : NULL;
    if (!can_read(r, p->group, value)) return false;
    if (member && member->doer == BTI_INLINED) return true;
    bool in_memory = !member || member->why || !group_at(r, bti_group_of(r->fuser, maker))->kernel;
    if (in_memory || member->level == BTI_ROW) return add_load(r, p, value, in_memory);
    if (value != result_of(r, maker)) return false;
    const repetition before = *p;
    if (add_step(r, p, maker)) return true;
    int looked = p->looked;
    *p = before;
    p->looked = looked;
    p->stored++;
    return p->may_store && add_load(r, p, value, false);
}

static bool add_step(const recomputer *r, repetition *p, int32_t number) {
    for (int i = 0; i < p->step_count; i++)
        if (p->steps[i] == number) return true;
    if (++p->looked > MOST_LOOKED) return false;
    if (bti_op_info((bti_op)step_at(r, number)->op)->class != BTI_ELEMENTWISE) return false;
    for (int i = 0; i < step_at(r, number)->input_count; i++)
        if (!add_input(r, p, input_of(r, number, i))) return false;
    if (p->step_count == MOST_STEPS) return false;
    p->steps[p->step_count++] = number;
    if (copy_in(r, number, p->group) < 0) p->operations += operations_of(r, number);
    return true;
}

static bool has_room(const recomputer *r, const repetition *p) {
    const bti_group *group = group_at(r, p->group);
    int32_t instrs = group->instrs + p->load_count;
    for (int i = 0; i < p->step_count; i++) instrs += 1 + step_at(r, p->steps[i])->input_count;
    return instrs <= BTI_GROUP_INSTRS && group->operands + p->load_count <= BTI_GROUP_OPERANDS;
}

/* --- whether it is less ----------------------------------------------------------------------------------------------- */

/* The kernels that read the value of a step, and nothing else does; their number, or 0. */
static int find_readers(const recomputer *r, int32_t number, repetition *p) {
    int32_t own = bti_group_of(r->fuser, number), value = result_of(r, number);
    int count = 0;
    for (int32_t e = r->notes.items[number].readings; e >= 0; e = r->readings.items[e].next) {
        int32_t step = r->readings.items[e].step, group = bti_group_of(r->fuser, step);
        if (group < 0 || group == own) continue;
        const bti_group *reader = group_at(r, group);
        if (!reader->kernel || member_at(r, step)->rows >= 0) return 0;
        if (bti_domain_count(&reader->domain) * (int64_t)bt_dtype_size(value_at(r, value)->dtype) !=
            bti_value_bytes(value_at(r, value)))
            return 0;
        for (int i = 0; i < step_at(r, step)->input_count; i++)
            if (bti_maker(r->fuser, input_of(r, step, i)) == number && input_of(r, step, i) != value) return 0;
        int k = 0;
        while (k < count && p[k].group != group) k++;
        if (k == MOST_READERS) return 0;
        if (k == count) p[count++] = (repetition){.group = group};
    }
    return count;
}

static bool is_read_in(const recomputer *r, int32_t number, int32_t group, const int32_t *without, int without_count) {
    for (int32_t e = r->notes.items[number].readings; e >= 0; e = r->readings.items[e].next) {
        int32_t step = r->readings.items[e].step;
        bool counts = bti_group_of(r->fuser, step) == group;
        for (int i = 0; i < without_count; i++) counts = counts && step != without[i];
        if (counts) return true;
    }
    return false;
}

/* Operations that the value's own kernel then leaves out. */
static double operations_spared(const recomputer *r, const repetition *p) {
    int32_t dead[MOST_STEPS], value = p->steps[p->step_count - 1], own = bti_group_of(r->fuser, value);
    int count = 0;
    double operations = 0;
    for (int i = p->step_count - 1; i >= 0; i--) {
        int32_t step = p->steps[i];
        if ((step != value && member_at(r, step)->why) || is_read_in(r, step, own, dead, count)) continue;
        dead[count++] = step;
        operations += operations_of(r, step);
    }
    return operations;
}

static bool is_less(const bti_target_facts *target, int64_t bytes, double operations) {
    double rate = (double)target->units * target->lanes * BTI_LANE_RATE;
    return bytes > 0 && operations * target->bandwidth < (double)bytes * rate;
}

/* --- doing it --------------------------------------------------------------------------------------------------------- */

static bool make_member(recomputer *r, int32_t group) {
    bti_fuser *fuser = r->fuser;
    size_t count = fuser->plan->steps.count;
    if (count > fuser->member_room) {
        bti_group_member *more = bti_realloc(fuser->members, 2 * count * sizeof *more);
        if (!more) return false;
        fuser->members = more;
        fuser->member_room = 2 * count;
    }
    fuser->members[count - 1] = (bti_group_member){.group = group,
                                                   .next = -1,
                                                   .doer = BTI_BY_KERNEL,
                                                   .again = true,
                                                   .level = BTI_POINT,
                                                   .rows = -1,
                                                   .numbers = -1};
    return true;
}

/* A step of the group that computes the same, from the group's copies of what has one there. */
static int32_t make_copy(recomputer *r, int32_t number, int32_t group) {
    bti_planner *planner = planner_of(r);
    bti_step step = *step_at(r, number);
    const bti_value result = *value_at(r, result_of(r, number));
    int32_t inputs[4], copy = (int32_t)r->fuser->plan->steps.count;
    for (int i = 0; i < step.input_count; i++) {
        int32_t maker = bti_maker(r->fuser, inputs[i] = input_of(r, number, i));
        int32_t made = maker >= 0 ? copy_in(r, maker, group) : -1;
        if (made >= 0) inputs[i] = result_of(r, made);
    }
    int32_t value = bti_add_value(planner, step.node, step.device, -1, result.dtype, result.rank, result.shape, NULL);
    if (!planner->failed) bti_add_step(planner, step, inputs, value);
    if (!planner->failed && !make_member(r, group)) planner->failed = true;
    if (!planner->failed) note_step(r);
    if (planner->failed) return -1;
    r->notes.items[copy].before = r->notes.items[number].copies;
    r->notes.items[number].copies = copy;
    note_readings(r, copy);
    group_at(r, group)->instrs += 1 + step.input_count;
    return copy;
}

static void unlink_member(const recomputer *r, int32_t group_number, int32_t step) {
    bti_group *group = group_at(r, group_number);
    int32_t before = -1, m = group->first_member;
    for (; m >= 0 && m != step; m = member_at(r, m)->next) before = m;
    if (m < 0) return;
    if (before < 0)
        group->first_member = member_at(r, step)->next;
    else
        member_at(r, before)->next = member_at(r, step)->next;
    if (group->last_member == step) group->last_member = before;
}

/* The copies stand before all that the group has. */
static void put_first(const recomputer *r, const repetition *p) {
    bti_group *group = group_at(r, p->group);
    for (int i = p->step_count - 1; i >= 0; i--) {
        int32_t copy = copy_in(r, p->steps[i], p->group);
        unlink_member(r, p->group, copy);
        member_at(r, copy)->next = group->first_member;
        group->first_member = copy;
    }
}

/* The kernel computes the operations, and what it reads for them is in memory. */
static void add_copies(recomputer *r, const repetition *p) {
    for (int i = 0; i < p->load_count; i++) {
        int32_t maker = bti_maker(r->fuser, p->loads[i]);
        bti_group_member *member = maker >= 0 ? member_at(r, maker) : NULL;
        if (!member || member->why || !group_at(r, bti_group_of(r->fuser, maker))->kernel) continue;
        member->why = BTI_WHY_SHAPE;
        group_at(r, bti_group_of(r->fuser, maker))->operands++;
    }
    for (int i = 0; i < p->step_count && !planner_of(r)->failed; i++)
        if (copy_in(r, p->steps[i], p->group) < 0) make_copy(r, p->steps[i], p->group);
    if (planner_of(r)->failed) return;
    put_first(r, p);
    group_at(r, p->group)->operands += p->load_count;
}

/* Who reads the value in a group reads the copy there, which is then among the copy's readers. */
static void read_copy(recomputer *r, int32_t number, int32_t group) {
    int32_t copy = copy_in(r, number, group), from = result_of(r, number), to = result_of(r, copy);
    for (int32_t e = r->notes.items[number].readings; e >= 0; e = r->readings.items[e].next) {
        int32_t step = r->readings.items[e].step;
        bool reads = false;
        if (bti_group_of(r->fuser, step) != group) continue;
        int32_t *inputs = r->fuser->plan->operands.items + step_at(r, step)->first_operand;
        for (int i = 0; i < step_at(r, step)->input_count; i++)
            if (inputs[i] == from) inputs[i] = to, reads = true;
        if (reads) note_reading(r, copy, step);
    }
}

/* Takes a step that nobody reads out of its kernel, and what only it read there. */
static void leave_out(recomputer *r, int32_t number) {
    int32_t own = bti_group_of(r->fuser, number);
    if (own < 0 || member_at(r, number)->why || !group_at(r, own)->kernel || is_read_in(r, number, own, NULL, 0))
        return;
    unlink_member(r, own, number);
    member_at(r, number)->group = -1;
    for (int i = 0; i < step_at(r, number)->input_count; i++) {
        int32_t maker = bti_maker(r->fuser, input_of(r, number, i));
        if (maker >= 0 && bti_group_of(r->fuser, maker) == own) leave_out(r, maker);
    }
}

static void consider(recomputer *r, int32_t number) {
    repetition readers[MOST_READERS];
    int count = find_readers(r, number, readers);
    if (count == 0) return;
    int64_t bytes = bti_value_bytes(value_at(r, result_of(r, number))) * (1 + count);
    double operations = 0;
    for (int i = 0; i < count; i++) {
        if (!add_step(r, &readers[i], number) || !has_room(r, &readers[i])) return;
        bytes -= readers[i].bytes;
        operations += readers[i].operations * sweeps_of(r, readers[i].group);
    }
    operations -= operations_spared(r, &readers[0]);
    if (!is_less(planner_of(r)->how->target(step_at(r, number)->device), bytes, operations)) return;
    for (int i = 0; i < count && !planner_of(r)->failed; i++) add_copies(r, &readers[i]);
    if (planner_of(r)->failed) return;
    for (int i = 0; i < count; i++) read_copy(r, number, readers[i].group);
    member_at(r, number)->why = BTI_WHY_NONE;
    leave_out(r, number);
}

/* Several values that a kernel leaves for the same reader may be made of one, which is stored in their place: the input of an activation. */
static void consider_together(recomputer *r, int32_t number) {
    repetition p[MOST_READERS], all = {.may_store = true};
    int32_t values[MOST_STEPS], count = 0;
    int64_t bytes = 0;
    if (find_readers(r, number, p) != 1) return;
    all.group = p[0].group;
    int32_t own = bti_group_of(r->fuser, number);
    for (int32_t m = group_at(r, own)->first_member; m >= 0; m = member_at(r, m)->next) {
        if (!is_candidate(r->fuser, (size_t)m) || find_readers(r, m, p) != 1 || p[0].group != all.group) continue;
        if (!add_step(r, &all, m)) return;
        values[count++] = m;
        bytes += 2 * bti_value_bytes(value_at(r, result_of(r, m)));
    }
    double operations = all.operations * sweeps_of(r, all.group);
    if (!all.stored || !has_room(r, &all) ||
        !is_less(planner_of(r)->how->target(step_at(r, number)->device), bytes - all.bytes, operations))
        return;
    add_copies(r, &all);
    if (planner_of(r)->failed) return;
    for (int i = count - 1; i >= 0; i--) {
        read_copy(r, values[i], all.group);
        member_at(r, values[i])->why = BTI_WHY_NONE;
        leave_out(r, values[i]);
    }
}

/* The last values first: what they are made of is in memory, or is considered after them. */
void bti_pass_recompute(bti_planner *planner) {
    recomputer r = {.fuser = planner->fuser};
    int32_t count = (int32_t)planner->plan->steps.count;
    r.fuser->member_room = (size_t)count;
    for (int32_t s = 0; s < count && !planner->failed; s++) note_step(&r);
    for (int32_t s = 0; s < count && !planner->failed; s++) note_readings(&r, s);
    for (int32_t s = count - 1; s >= 0 && !planner->failed; s--)
        if (is_candidate(r.fuser, (size_t)s)) consider(&r, s);
    for (int32_t s = count - 1; s >= 0 && !planner->failed; s--)
        if (is_candidate(r.fuser, (size_t)s)) consider_together(&r, s);
    bti_vec_free(&r.notes);
    bti_vec_free(&r.readings);
}
