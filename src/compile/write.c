/* From groups of steps to kernels: what each loads, computes and stores, and the nest that it runs over. */
#include "compile/fuser.h"

typedef struct loaded {
    int32_t value, instr;
    bool index;
    int64_t stride[BTI_MAX_RANK]; /* along the axes of the domain; bytes, of an index numbers */
} loaded;

typedef struct writer {
    bti_fuser *fuser;
    int32_t group;
    const bti_domain *domain;
    bti_kernel kernel;
    int count;
    loaded operands[BTI_KERNEL_OPERANDS];
    uint64_t scalars[BTI_KERNEL_INSTRS];
    bool point[BTI_KERNEL_INSTRS]; /* the value differs from point to point of a row */
    int axes, outer, reduced;
    int64_t extent[BTI_MAX_RANK], stride[BTI_KERNEL_OPERANDS][BTI_MAX_RANK]; /* of the nest */
} writer;

static bti_instr *add_instr(writer *w, int op, bt_dtype dtype) {
    w->point[w->kernel.instr_count] = false;
    bti_instr *instr = &w->kernel.instrs[w->kernel.instr_count++];
    *instr = (bti_instr){.op = (uint8_t)op, .dtype = (uint8_t)dtype};
    return instr;
}

static const bti_value *value_at(const writer *w, int32_t value) { return &w->fuser->plan->values.items[value]; }

static int32_t add_scalar(writer *w, bt_dtype dtype, uint64_t bits) {
    for (int i = 0; i < w->kernel.instr_count; i++) {
        const bti_instr *instr = &w->kernel.instrs[i];
        if (instr->op == BTI_OP_const && instr->dtype == dtype && w->scalars[instr->arg[0]] == bits) return i;
    }
    w->scalars[w->kernel.scalar_count] = bits;
    add_instr(w, BTI_OP_const, dtype)->arg[0] = w->kernel.scalar_count++;
    return w->kernel.instr_count - 1;
}

static void find_strides(const writer *w, int32_t value, bti_level level, bool index, int64_t *stride) {
    const bti_value *v = value_at(w, value);
    bti_domain_strides(w->domain, v, level, stride);
    for (int i = 0; i < w->domain->rank && !index; i++) stride[i] *= (int64_t)bt_dtype_size(v->dtype);
}

static bool moves_along_reduced(const writer *w, int32_t operand) {
    for (int i = 0; i < w->domain->rank; i++)
        if ((w->domain->reduced >> i & 1) && w->operands[operand].stride[i]) return true;
    return false;
}

static int32_t add_load(writer *w, int32_t value, bti_level level, bool index) {
    const bti_value *v = value_at(w, value);
    loaded new = {.value = value, .index = index};
    find_strides(w, value, level, index, new.stride);
    for (int o = 0; o < w->count; o++) {
        const loaded *old = &w->operands[o];
        const bti_value *before = value_at(w, old->value);
        if (w->kernel.operands[o].taken) continue;
        if (before->storage == v->storage && before->dtype == v->dtype && before->layout.offset == v->layout.offset &&
            !memcmp(old->stride, new.stride, sizeof new.stride))
            return old->instr;
    }
    new.instr = w->kernel.instr_count;
    w->kernel.operands[w->count] = (bti_kernel_operand){.dtype = index ? BT_I64 : (uint8_t)v->dtype, .index = index};
    w->operands[w->count] = new;
    add_instr(w, index ? BTI_OP_iota : BTI_OP_leaf, v->dtype)->arg[0] = (uint16_t)w->count;
    w->point[new.instr] = moves_along_reduced(w, w->count++);
    return new.instr;
}

/* An operand that is taken from: read in no other way. */
static int32_t add_rows(writer *w, int32_t value, bti_level level) {
    const bti_value *v = value_at(w, value);
    loaded new = {.value = value};
    find_strides(w, value, level, false, new.stride);
    w->kernel.operands[w->count] = (bti_kernel_operand){.dtype = (uint8_t)v->dtype, .taken = true};
    w->operands[w->count] = new;
    return w->count++;
}

/* The instruction that has this value. */
static int32_t argument(writer *w, int32_t value, bti_level level) {
    bti_fuser *fuser = w->fuser;
    int32_t maker = bti_maker(fuser, value);
    if (maker < 0) return add_load(w, value, level, false);
    const bti_step *made = &fuser->plan->steps.items[maker];
    if (fuser->members[maker].doer == BTI_INLINED && made->op == BTI_OP_const)
        return add_scalar(w, value_at(w, value)->dtype, fuser->plan->scalars.items[made->first_scalar]);
    if (fuser->members[maker].doer == BTI_INLINED) return add_load(w, value, level, true);
    return bti_group_of(fuser, maker) == w->group ? fuser->members[maker].instr : add_load(w, value, level, false);
}

static void write_take(writer *w, bti_group_member *member, const bti_step *step) {
    const bti_value *x = bti_plan_operand(w->fuser->plan, step, 0);
    const int64_t axis = step->node->attr->axis.axis, bytes = x->layout.stride[axis] * (int64_t)bt_dtype_size(x->dtype);
    const int64_t numbers[] = {x->shape[axis], bytes};
    bti_level level = (bti_level)member->level;
    int32_t operand = add_rows(w, member->rows, level), args[3] = {argument(w, member->numbers, level)};
    for (int a = 1; a < 3; a++) args[a] = add_scalar(w, BT_I64, (uint64_t)numbers[a - 1]);
    member->instr = w->kernel.instr_count;
    bti_instr *instr = add_instr(w, BTI_OP_take, x->dtype);
    instr->attr = (uint8_t)operand;
    for (int a = 0; a < 3; a++) instr->arg[a] = (uint16_t)args[a];
    w->point[member->instr] = w->point[args[0]] || moves_along_reduced(w, operand);
}

static void write_member(writer *w, int32_t number) {
    bti_fuser *fuser = w->fuser;
    const bti_step *step = &fuser->plan->steps.items[number];
    bti_group_member *member = &fuser->members[number];
    bti_level level = bti_op_info((bti_op)step->op)->class == BTI_REDUCE ? BTI_POINT : (bti_level)member->level;
    const bti_value *made = bti_plan_output(fuser->plan, step, 0);
    int32_t output = fuser->plan->operands.items[step->first_operand + step->input_count], args[4] = {0};
    if (member->doer == BTI_INLINED) {
        uint64_t bits = step->op == BTI_OP_const ? fuser->plan->scalars.items[step->first_scalar] : 0;
        member->instr = step->op == BTI_OP_const ? add_scalar(w, made->dtype, bits) : add_load(w, output, level, true);
        return;
    }
    if (member->rows >= 0) {
        write_take(w, member, step);
        return;
    }
    for (int i = 0; i < step->input_count; i++)
        args[i] = argument(w, fuser->plan->operands.items[step->first_operand + i], level);
    if (step->op == BTI_OP_copy) { /* made dense: nothing is computed */
        member->instr = args[0];
        return;
    }
    member->instr = w->kernel.instr_count;
    bti_instr *instr = add_instr(w, step->op, made->dtype);
    for (int i = 0; i < step->input_count; i++) instr->arg[i] = (uint16_t)args[i];
    for (int i = 0; i < step->input_count && bti_op_info((bti_op)step->op)->class != BTI_REDUCE; i++)
        w->point[member->instr] = w->point[member->instr] || w->point[args[i]];
    if (step->op == BTI_OP_threefry) instr->attr = (uint8_t)step->node->attr->word.index;
}

/* What is the same in a whole row is stored at each point of it. */
static int32_t spread(writer *w, int32_t instr, const bti_group_member *member) {
    if (!w->domain->reduced || member->level == BTI_ROW || w->point[instr]) return instr;
    int32_t spread = w->kernel.instr_count;
    add_instr(w, BTI_OP_cast, (bt_dtype)w->kernel.instrs[instr].dtype)->arg[0] = (uint16_t)instr;
    return spread;
}

static void write_outputs(writer *w) {
    bti_fuser *fuser = w->fuser;
    const bti_group *group = &fuser->groups.items[w->group];
    w->kernel.input_count = (uint16_t)w->count;
    for (int32_t m = group->first_member; m >= 0; m = fuser->members[m].next) {
        if (!fuser->members[m].why) continue;
        const bti_step *step = &fuser->plan->steps.items[m];
        loaded out = {.value = fuser->plan->operands.items[step->first_operand + step->input_count]};
        bt_dtype dtype = value_at(w, out.value)->dtype;
        find_strides(w, out.value, (bti_level)fuser->members[m].level, false, out.stride);
        w->kernel.operands[w->count] = (bti_kernel_operand){
            .dtype = (uint8_t)dtype, .value = (uint16_t)spread(w, fuser->members[m].instr, &fuser->members[m])};
        w->operands[w->count++] = out;
    }
    w->kernel.output_count = (uint16_t)(w->count - w->kernel.input_count);
}

/* --- the nest ------------------------------------------------------------------------------------------------------- */

static bool is_reduced(const writer *w, int axis) { return w->domain->reduced >> axis & 1; }

/* Collapses the axes of the nest from `first` on. */
static void collapse_axes(writer *w, int first) {
    int64_t *stride[BTI_KERNEL_OPERANDS];
    for (int o = 0; o < w->count; o++) stride[o] = w->stride[o];
    w->axes = first + bti_axes_collapse(first, w->axes, w->axes, w->extent, w->count, stride);
}

/* Adds the axes that are reduced, or those that are kept, collapsed where strides allow. Neighbours that are reduced are always one axis, so
 * the order of folding depends on the shape alone. Returns how many were added. */
static int add_axes(writer *w, bool reduced) {
    int begin = w->axes, first = begin;
    for (int axis = 0; axis < w->domain->rank; axis++) {
        if (w->domain->shape[axis] == 1) continue;
        if (is_reduced(w, axis) == reduced) {
            for (int o = 0; o < w->count; o++) w->stride[o][w->axes] = w->operands[o].stride[axis];
            w->extent[w->axes++] = w->domain->shape[axis];
        } else if (reduced) { /* a kept axis between reduced ones keeps them apart */
            collapse_axes(w, first);
            first = w->axes;
        }
    }
    collapse_axes(w, first);
    return w->axes - begin;
}

/* Moves an axis of the nest behind all others. */
static void move_axis_last(int axis, int axes, int64_t *of_axes) {
    int64_t moved = of_axes[axis];
    memmove(of_axes + axis, of_axes + axis + 1, (size_t)(axes - axis - 1) * sizeof *of_axes);
    of_axes[axes - 1] = moved;
}

static void write_nest(writer *w) {
    w->axes = 0;
    int kept = add_axes(w, false), reduced = w->domain->reduced ? add_axes(w, true) : 0;
    bool inner = !reduced || !w->domain->rows;
    if (inner && !kept) { /* one point */
        for (int o = 0; o < w->count; o++)
            w->stride[o][w->axes] =
                o < w->kernel.input_count ? 0 : (int64_t)bt_dtype_size(value_at(w, w->operands[o].value)->dtype);
        w->extent[w->axes++] = 1;
        kept = 1;
    } else if (inner && reduced) { /* the last kept axis goes to the end */
        move_axis_last(kept - 1, w->axes, w->extent);
        for (int o = 0; o < w->count; o++) move_axis_last(kept - 1, w->axes, w->stride[o]);
    }
    w->kernel.outer = (uint8_t)(kept - inner);
    w->kernel.reduced = (uint8_t)reduced;
    w->kernel.inner = inner;
}

static void write_access(writer *w) {
    for (int o = 0; o < w->count; o++) {
        bti_kernel_operand *operand = &w->kernel.operands[o];
        for (int axis = 0; axis < w->axes; axis++)
            if (w->stride[o][axis]) operand->moves |= (uint8_t)(1u << axis);
        int64_t unit = operand->index ? 1 : (int64_t)bt_dtype_size((bt_dtype)operand->dtype);
        operand->unit = w->axes && w->stride[o][w->axes - 1] == unit;
    }
}

/* --- into the plan -------------------------------------------------------------------------------------------------- */

int32_t bti_intern_kernel(bti_planner *planner, const bti_kernel *kernel) {
    uint64_t hash;
    int32_t known = bti_find_fused(planner, kernel, &hash);
    if (known >= 0) return known;
    bti_kernel *own = bti_alloc(sizeof *own);
    if (!own || !bti_vec_push(&planner->plan->kernels, own)) {
        bti_free(own);
        planner->failed = true;
        return 0;
    }
    *own = *kernel;
    known = (int32_t)planner->plan->kernels.count - 1;
    bti_remember_value(planner, (bti_known){.hash = hash, .step = -2, .value = known});
    return known;
}

/* The value as an index: start and strides without memory. */
static int32_t index_of(bti_plan *plan, int32_t value) {
    bti_value index = plan->values.items[value];
    index.storage = -1;
    plan->values.items[plan->values.count++] = index;
    return (int32_t)plan->values.count - 1;
}

static bool push_kernel(bti_fuser *fuser, bti_written *out, const writer *w, bti_step step) {
    bti_plan *plan = fuser->plan;
    step.first_operand = (int32_t)out->operands.count;
    step.first_number = (int32_t)plan->numbers.count;
    step.first_scalar = (int32_t)plan->scalars.count;
    if (!bti_vec_reserve(&out->operands, (size_t)w->count) || !bti_vec_reserve(&out->steps, 1) ||
        !bti_vec_reserve(&plan->values, (size_t)w->count) ||
        !bti_vec_reserve(&plan->numbers, (size_t)(w->axes * (w->count + 1))) ||
        !bti_vec_reserve(&plan->scalars, w->kernel.scalar_count))
        return false;
    for (int o = 0; o < w->count; o++) {
        int32_t value = w->operands[o].value;
        out->operands.items[out->operands.count++] = w->operands[o].index ? index_of(plan, value) : value;
    }
    for (int axis = 0; axis < w->axes; axis++) plan->numbers.items[plan->numbers.count++] = w->extent[axis];
    for (int o = 0; o < w->count; o++)
        for (int axis = 0; axis < w->axes; axis++) plan->numbers.items[plan->numbers.count++] = w->stride[o][axis];
    for (int i = 0; i < w->kernel.scalar_count; i++) plan->scalars.items[plan->scalars.count++] = w->scalars[i];
    out->steps.items[out->steps.count++] = step;
    return true;
}

static bool push_members(bti_fuser *fuser, const bti_group *group, bti_step *step) {
    step->first_member = (int32_t)fuser->plan->members.count;
    for (int32_t m = group->first_member; m >= 0; m = fuser->members[m].next) {
        step->node = fuser->plan->steps.items[m].node;
        if (!bti_vec_push(&fuser->plan->members, step->node)) return false;
    }
    step->member_count = (int32_t)fuser->plan->members.count - step->first_member;
    return true;
}

static bool write_kernel(bti_fuser *fuser, bti_written *out, int32_t number) {
    const bti_group *group = &fuser->groups.items[number];
    writer *w = bti_alloc(sizeof *w);
    if (!w) return false;
    w->fuser = fuser;
    w->group = number;
    w->domain = &group->domain;
    w->count = 0;
    memset(&w->kernel, 0, sizeof w->kernel);
    for (int32_t m = group->first_member; m >= 0; m = fuser->members[m].next) write_member(w, m);
    write_outputs(w);
    write_nest(w);
    write_access(w);
    bti_kernel_set_stages(&w->kernel);
    bti_step step = {.kind = BTI_STEP_KERNEL,
                     .device = group->device,
                     .kernel = bti_intern_kernel(fuser->planner, &w->kernel),
                     .box_count = 1,
                     .input_count = w->kernel.input_count,
                     .output_count = w->kernel.output_count};
    bool fine = !fuser->planner->failed && push_members(fuser, group, &step) && push_kernel(fuser, out, w, step);
    bti_free(w);
    return fine;
}

static bool write_single(bti_fuser *fuser, bti_written *out, const bti_group *group) {
    bti_step step = fuser->plan->steps.items[group->first_member];
    const int32_t *operands = fuser->plan->operands.items + step.first_operand;
    int32_t count = step.input_count + step.output_count;
    step.first_operand = (int32_t)out->operands.count;
    if (!bti_vec_reserve(&out->operands, (size_t)count) || !bti_vec_push(&out->steps, step)) return false;
    for (int32_t i = 0; i < count; i++) out->operands.items[out->operands.count++] = operands[i];
    return true;
}

bool bti_write_group(bti_fuser *fuser, bti_written *out, int32_t number) {
    const bti_group *group = &fuser->groups.items[number];
    bool stores = false;
    for (int32_t m = group->first_member; m >= 0 && !stores; m = fuser->members[m].next) stores = fuser->members[m].why;
    if (!group->kernel) return write_single(fuser, out, group);
    return !stores || write_kernel(fuser, out, number);
}

void bti_put_steps(bti_plan *plan, bti_written *written) {
    bti_vec_free(&plan->steps);
    bti_vec_free(&plan->operands);
    plan->steps.items = written->steps.items, plan->steps.count = written->steps.count;
    plan->steps.capacity = written->steps.capacity;
    plan->operands.items = written->operands.items, plan->operands.count = written->operands.count;
    plan->operands.capacity = written->operands.capacity;
}
