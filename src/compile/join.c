/* Which group a step joins. Steps come in order. A step may join a group if that makes no cycle between groups: a group is deeper than every
 * group whose memory it reads. */
#include "compile/fuser.h"

#define MOST_MAKERS 8 /* groups that a step reads from and that are looked at for joining */

int32_t bti_group_of(bti_fuser *fuser, int32_t step) {
    int32_t group = fuser->members[step].group;
    if (group < 0) return -1;
    bti_group *groups = fuser->groups.items;
    while (groups[group].parent != group) {
        groups[group].parent = groups[groups[group].parent].parent;
        group = groups[group].parent;
    }
    return fuser->members[step].group = group;
}

/* The group whose memory, or registers, a value would come from; -1: none. */
static int32_t source(bti_fuser *fuser, int32_t value) {
    int32_t maker = bti_maker(fuser, value);
    return maker < 0 || fuser->members[maker].doer == BTI_INLINED ? -1 : bti_group_of(fuser, maker);
}

/* What a step would do in a group, and the group then. */
typedef struct attempt {
    int32_t step;
    const bti_step *of;
    int32_t target;
    int32_t merged[MOST_MAKERS];
    int merged_count;
    bti_domain domain;
    bti_level level;
    int stage;
    int32_t depth;
    bti_why why; /* it fails */
} attempt;

static bool is_in(const attempt *a, int32_t group) {
    if (group == a->target) return true;
    for (int i = 0; i < a->merged_count; i++)
        if (a->merged[i] == group) return true;
    return false;
}

/* Whether a value made in the group is wanted point by point as it is made. */
static bool in_register(const bti_fuser *fuser, const attempt *a, int32_t value, bti_level wanted) {
    const bti_value *v = &fuser->plan->values.items[value];
    bti_level made = (bti_level)fuser->members[bti_maker(fuser, value)].level;
    int64_t stride[BTI_MAX_RANK], dense = 1;
    if (v->layout.offset || (wanted == BTI_ROW && made == BTI_POINT)) return false;
    if (!bti_domain_strides(&a->domain, v, wanted, stride)) return false;
    for (int i = a->domain.rank - 1; i >= 0; i--) {
        bool still = made == BTI_ROW && (a->domain.reduced >> i & 1);
        if (a->domain.shape[i] == 1 || (wanted == BTI_ROW && (a->domain.reduced >> i & 1))) continue;
        if (stride[i] != (still ? 0 : dense)) return false;
        if (!still) dense *= a->domain.shape[i];
    }
    return true;
}

static bool reads_in_order(const bti_fuser *fuser, const bti_domain *domain, int32_t value, bti_level level) {
    int64_t stride[BTI_MAX_RANK];
    if (!bti_domain_strides(domain, &fuser->plan->values.items[value], level, stride)) return false;
    return level == BTI_ROW || bti_domain_folds(domain, stride);
}

static bti_level level_of_shape(const bti_domain *domain, const bti_value *value) {
    int64_t count = 1;
    for (int i = 0; i < value->rank; i++) count *= value->shape[i];
    return count == bti_domain_count(domain) ? BTI_POINT : BTI_ROW;
}

/* Everything that a group reads, in the order that the domain folds. */
static bool externals_fold(const bti_fuser *fuser, const bti_domain *domain, int32_t group) {
    if (!domain->reduced) return true;
    for (int32_t e = fuser->groups.items[group].first_external; e >= 0; e = fuser->externals.items[e].next) {
        int32_t value = fuser->externals.items[e].value;
        bti_level level = level_of_shape(domain, &fuser->plan->values.items[value]);
        if (!reads_in_order(fuser, domain, value, level)) return false;
    }
    return true;
}

static bool holds(const bti_fuser *fuser, int32_t group, int32_t value) {
    for (int32_t e = fuser->groups.items[group].first_external; e >= 0; e = fuser->externals.items[e].next)
        if (fuser->externals.items[e].value == value) return true;
    return false;
}

static bool has_room(const bti_fuser *fuser, const attempt *a) {
    const bti_group *groups = fuser->groups.items;
    int32_t instrs = groups[a->target].instrs + 1, operands = groups[a->target].operands + 1;
    for (int i = 0; i < a->merged_count; i++) {
        instrs += groups[a->merged[i]].instrs;
        operands += groups[a->merged[i]].operands;
    }
    for (int i = 0; i < a->of->input_count; i++)
        if (!holds(fuser, a->target, bti_read_value(fuser, a->of, i))) instrs++, operands++;
    return instrs <= BTI_GROUP_INSTRS && operands <= BTI_GROUP_OPERANDS;
}

/* Makes `depth` greater than that of the group that the value comes from. */
static void go_below(bti_fuser *fuser, const attempt *a, int32_t value, int32_t *depth) {
    int32_t group = source(fuser, value);
    if (group >= 0 && !is_in(a, group) && fuser->groups.items[group].depth >= *depth)
        *depth = fuser->groups.items[group].depth + 1;
}

/* A place in the order for the group with the step in it. */
static bool find_depth(bti_fuser *fuser, attempt *a) {
    const bti_group *groups = fuser->groups.items;
    a->depth = groups[a->target].depth;
    for (int i = 0; i < a->merged_count; i++)
        if (groups[a->merged[i]].depth > a->depth) a->depth = groups[a->merged[i]].depth;
    for (int i = 0; i < a->of->input_count; i++) {
        int32_t value = bti_read_value(fuser, a->of, i), after = bti_read_after(fuser, value);
        go_below(fuser, a, value, &a->depth);
        if (after >= 0) go_below(fuser, a, after, &a->depth);
    }
    bool fits = !groups[a->target].read || groups[a->target].depth == a->depth;
    for (int i = 0; i < a->merged_count; i++)
        fits = fits && (!groups[a->merged[i]].read || groups[a->merged[i]].depth == a->depth);
    return fits;
}

static bool fits_inputs(bti_fuser *fuser, attempt *a) {
    for (int i = 0; i < a->of->input_count; i++) {
        int32_t value = bti_read_value(fuser, a->of, i), maker = bti_maker(fuser, value), group = source(fuser, value);
        a->why = BTI_WHY_VIEW;
        if (group >= 0 && is_in(a, group)) {
            if (bti_reads_rows(fuser, a->of, i)) return false;
            if (bti_read_after(fuser, value) >= 0) a->why = BTI_WHY_AGAIN;
            if (bti_read_after(fuser, value) >= 0 || !in_register(fuser, a, value, a->level)) return false;
            if (fuser->members[maker].stage > a->stage) a->stage = fuser->members[maker].stage;
        } else if (!reads_in_order(fuser, &a->domain, value, a->level))
            return false;
    }
    return true;
}

static bool fits_elementwise(bti_fuser *fuser, attempt *a) {
    const bti_value *output = bti_plan_output(fuser->plan, a->of, 0);
    a->why = BTI_WHY_SHAPE;
    a->level = level_of_shape(&a->domain, output);
    if (!bti_domain_refine(&a->domain, output->rank, output->shape, a->level)) return false;
    if (!fits_inputs(fuser, a)) return false;
    a->why = a->domain.rows ? BTI_WHY_LONG : BTI_WHY_AXES;
    return a->level == BTI_ROW || a->stage == 0 || a->domain.again;
}

static bool fits_reduction(bti_fuser *fuser, attempt *a) {
    const bti_value *input = bti_plan_operand(fuser->plan, a->of, 0);
    bool again = a->domain.reduced != 0;
    a->why = BTI_WHY_AXES;
    a->level = BTI_POINT; /* of its input */
    if (!bti_domain_refine(&a->domain, input->rank, input->shape, BTI_POINT)) return false;
    if (!bti_domain_reduce(&a->domain, input->rank, input->shape, a->of->node->attr->fold.axes)) return false;
    if (!fits_inputs(fuser, a)) return false;
    if (fuser->members[bti_maker(fuser, bti_read_value(fuser, a->of, 0))].level != BTI_POINT) return false;
    if (again && a->stage > 0 && !a->domain.again) return false;
    a->level = BTI_ROW;
    a->stage++;
    return true;
}

static bool is_reduction(const bti_step *step) { return bti_op_info((bti_op)step->op)->class == BTI_REDUCE; }

static bool takes_scattered(const bti_fuser *fuser, const attempt *a) {
    bool any = fuser->members[a->step].scattered || fuser->groups.items[a->target].scattered;
    for (int i = 0; i < a->merged_count; i++) any = any || fuser->groups.items[a->merged[i]].scattered;
    return any;
}

static bool try_target(bti_fuser *fuser, attempt *a) {
    a->domain = fuser->groups.items[a->target].domain;
    a->stage = 0;
    for (int i = 0; i < a->merged_count; i++)
        if (!bti_domain_unite(&a->domain, &fuser->groups.items[a->merged[i]].domain)) return false;
    if (takes_scattered(fuser, a)) a->domain.again = false;
    if (!(is_reduction(a->of) ? fits_reduction(fuser, a) : fits_elementwise(fuser, a))) return false;
    a->why = BTI_WHY_FULL;
    if (!has_room(fuser, a)) return false;
    a->why = BTI_WHY_ORDER;
    if (!find_depth(fuser, a)) return false;
    a->why = BTI_WHY_AXES;
    if (!externals_fold(fuser, &a->domain, a->target)) return false;
    for (int i = 0; i < a->merged_count; i++)
        if (!externals_fold(fuser, &a->domain, a->merged[i])) return false;
    return true;
}

/* The groups that it could be joined to: kernels on its device, the deepest first. */
static int find_makers(bti_fuser *fuser, const bti_step *step, int32_t *makers) {
    int count = 0;
    for (int i = 0; i < step->input_count; i++) {
        int32_t group = source(fuser, bti_read_value(fuser, step, i));
        const bti_group *groups = fuser->groups.items;
        if (group < 0 || !groups[group].kernel || groups[group].device != step->device) continue;
        bool again = false;
        for (int k = 0; k < count; k++) again = again || makers[k] == group;
        if (again || count == MOST_MAKERS) continue;
        int at = count++;
        for (; at > 0 && groups[makers[at - 1]].depth < groups[group].depth; at--) makers[at] = makers[at - 1];
        makers[at] = group;
    }
    return count;
}

static bool find_target(bti_fuser *fuser, attempt *a) {
    int32_t makers[MOST_MAKERS];
    int count = fuser->planner->how->fusing != BTI_FUSED ? 0 : find_makers(fuser, a->of, makers);
    if (count == 0) return false;
    bti_why first_why = BTI_WHY_NONE;
    for (int all = count > 1; all >= 0; all--) /* all of them in one, or one of them */
        for (int t = 0; t < (all ? 1 : count); t++) {
            a->target = makers[t];
            a->merged_count = 0;
            for (int i = 1; all && i < count; i++) a->merged[a->merged_count++] = makers[i];
            if (try_target(fuser, a)) return true;
            if (!first_why) first_why = a->why;
        }
    a->why = first_why;
    return false;
}

/* --- joining -------------------------------------------------------------------------------------------------------- */

static int32_t new_group(bti_fuser *fuser, bool kernel, int device) {
    int32_t number = (int32_t)fuser->groups.count;
    bti_group group = {.parent = number,
                       .kernel = kernel,
                       .device = device,
                       .first_external = -1,
                       .first_member = -1,
                       .last_member = -1};
    if (!bti_vec_push(&fuser->groups, group)) fuser->planner->failed = true;
    return number;
}

static void append(bti_fuser *fuser, int32_t number, int32_t step) {
    bti_group *group = &fuser->groups.items[number];
    fuser->members[step].group = number;
    fuser->members[step].next = -1;
    if (group->last_member < 0)
        group->first_member = step;
    else
        fuser->members[group->last_member].next = step;
    group->last_member = step;
    group->instrs++;
    group->scattered = group->scattered || fuser->members[step].scattered;
    if (fuser->members[step].why) group->operands++;
}

/* Both lists are in order. */
static void merge_members(bti_fuser *fuser, bti_group *into, const bti_group *from) {
    int32_t a = into->first_member, b = from->first_member, first = -1, last = -1;
    while (a >= 0 || b >= 0) {
        int32_t *next = b < 0 || (a >= 0 && a < b) ? &a : &b, step = *next;
        *next = fuser->members[step].next;
        if (last < 0)
            first = step;
        else
            fuser->members[last].next = step;
        last = step;
    }
    fuser->members[last].next = -1;
    into->first_member = first;
    into->last_member = last;
}

static void merge_groups(bti_fuser *fuser, int32_t into_number, int32_t from_number) {
    bti_group *into = &fuser->groups.items[into_number], *from = &fuser->groups.items[from_number];
    merge_members(fuser, into, from);
    from->parent = into_number;
    into->instrs += from->instrs;
    into->operands += from->operands;
    into->read = into->read || from->read;
    into->scattered = into->scattered || from->scattered;
    int32_t last = from->first_external;
    if (last < 0) return;
    while (fuser->externals.items[last].next >= 0) last = fuser->externals.items[last].next;
    fuser->externals.items[last].next = into->first_external;
    into->first_external = from->first_external;
}

/* The group runs after that which makes the value. */
static void note_order(bti_fuser *fuser, int32_t number, int32_t value) {
    int32_t from = source(fuser, value);
    if (from < 0 || from == number) return;
    bti_group *group = &fuser->groups.items[number], *made = &fuser->groups.items[from];
    made->read = true;
    if (made->depth >= group->depth) group->depth = made->depth + 1;
}

/* The group reads this value from memory: who made it must leave it there. */
static void note_read(bti_fuser *fuser, int32_t number, int32_t value, bti_why why) {
    int32_t maker = bti_maker(fuser, value), from = source(fuser, value);
    if (from == number) return;
    if (from >= 0 && !fuser->members[maker].why) fuser->groups.items[from].operands++;
    note_order(fuser, number, value);
    if (bti_read_after(fuser, value) >= 0) note_order(fuser, number, bti_read_after(fuser, value));
    if (maker >= 0 && !fuser->members[maker].why) fuser->members[maker].why = (uint8_t)why;
}

static void add_external(bti_fuser *fuser, int32_t number, int32_t value) {
    bti_group *group = &fuser->groups.items[number];
    if (!group->kernel || source(fuser, value) == number || holds(fuser, number, value)) return;
    bti_external external = {value, group->first_external};
    group->instrs++;
    group->operands++;
    group->first_external = (int32_t)fuser->externals.count;
    if (!bti_vec_push(&fuser->externals, external)) fuser->planner->failed = true;
}

/* Why a kernel of the same device does not make it itself. */
static bti_why why_apart(bti_fuser *fuser, int32_t number, int32_t value) {
    int32_t from = source(fuser, value);
    const bti_value *v = &fuser->plan->values.items[value];
    const bti_group *groups = fuser->groups.items;
    if (from < 0 || !groups[from].kernel) return BTI_WHY_WORK;
    if (v->layout.offset || !bti_layout_is_dense(v->rank, v->shape, &v->layout)) return BTI_WHY_VIEW;
    bool same = bti_domain_count(&groups[from].domain) == bti_domain_count(&groups[number].domain);
    return same ? BTI_WHY_ORDER : BTI_WHY_SHAPE;
}

static void note_inputs(bti_fuser *fuser, int32_t number, const bti_step *step, bti_why why) {
    for (int i = 0; i < step->input_count && !fuser->planner->failed; i++) {
        int32_t value = bti_read_value(fuser, step, i), maker = bti_maker(fuser, value);
        bool kernel = fuser->groups.items[number].kernel;
        bool made_here =
            kernel && maker >= 0 && fuser->members[maker].doer == BTI_INLINED && !bti_reads_rows(fuser, step, i);
        bool again = bti_read_after(fuser, value) >= 0;
        if (!made_here)
            note_read(fuser, number, value, again ? BTI_WHY_AGAIN : why ? why : why_apart(fuser, number, value));
        add_external(fuser, number, value);
    }
}

/* A group of its own. */
void bti_begin_group(bti_fuser *fuser, int32_t number, const bti_step *step, bti_why why) {
    bool whole = fuser->members[number].doer == BTI_WHOLE || fuser->planner->how->fusing == BTI_PRIMITIVES;
    int32_t group = new_group(fuser, !whole, step->device);
    if (fuser->planner->failed) return;
    const bti_value *shaped =
        is_reduction(step) ? bti_plan_operand(fuser->plan, step, 0) : bti_plan_output(fuser->plan, step, 0);
    bti_group_member *member = &fuser->members[number];
    bti_group *made = &fuser->groups.items[group];
    if (made->kernel) {
        made->domain.target = fuser->planner->how->target(step->device);
        made->domain.rank = (uint8_t)shaped->rank;
        for (int i = 0; i < shaped->rank; i++) made->domain.shape[i] = shaped->shape[i];
        if (is_reduction(step)) {
            bti_domain_reduce(&made->domain, shaped->rank, shaped->shape, step->node->attr->fold.axes);
            member->level = BTI_ROW;
            member->stage = 1;
        }
    }
    append(fuser, group, number);
    if (step->kind == BTI_STEP_COPY || step->kind == BTI_STEP_COLLECTIVE)
        why = BTI_WHY_DEVICE;
    else if (whole || member->rows >= 0)
        why = BTI_WHY_WORK;
    note_inputs(fuser, group, step, why);
}

void bti_join_step(bti_fuser *fuser, int32_t number) {
    const bti_step *step = &fuser->plan->steps.items[number];
    bool off = fuser->planner->how->fusing != BTI_FUSED;
    attempt a = {.step = number, .of = step, .why = off ? BTI_WHY_OFF : BTI_WHY_SHAPE};
    if (fuser->members[number].doer != BTI_BY_KERNEL || !find_target(fuser, &a)) {
        bti_begin_group(fuser, number, step, a.why);
        return;
    }
    for (int i = 0; i < a.merged_count; i++) merge_groups(fuser, a.target, a.merged[i]);
    fuser->groups.items[a.target].domain = a.domain;
    fuser->groups.items[a.target].depth = a.depth;
    fuser->members[number].level = (uint8_t)a.level;
    fuser->members[number].stage = (uint8_t)a.stage;
    append(fuser, a.target, number);
    note_inputs(fuser, a.target, step, BTI_WHY_NONE);
}
