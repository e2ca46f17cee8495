/* Maps that reductions along different axes read are computed for each of these axes, where that costs less than passing them through memory: no kernel folds along
 * two. docs/decisions/0046 */
#include "compile/fuser.h"

enum { MOST_FOLDS = 8 };

/* What reductions of one kernel have in common. Neighbouring axes that are both folded, or both kept, are one; axes of one point are none. */
typedef struct fold {
    int device;
    int rank;
    unsigned folded; /* mask of its axes */
    int64_t shape[BTI_MAX_RANK];
} fold;

typedef struct repeater {
    bti_planner *planner;
    bti_plan *plan;
    fold folds[MOST_FOLDS];
    int fold_count;
    int8_t *fold;   /* by step: of a reduction, which fold; -1 */
    uint8_t *feeds; /* by step: of a map, mask of the folds whose reductions read it, through such maps alone */
    bool *held;     /* by storage: it is in memory whoever computes it again */
    /* of the fold in question: */
    bool *outside;  /* by step: others read it too */
    bool *seen;     /* by storage */
    int32_t *again; /* by storage: the value that takes its place; -1 */
} repeater;

/* --- what there is ------------------------------------------------------------------------------------------------------ */

static bool is_reduction(const bti_step *step) {
    return step->kind == BTI_STEP_WORK && bti_op_info((bti_op)step->op)->class == BTI_REDUCE;
}

static bool is_map(const bti_step *step) {
    return step->kind == BTI_STEP_WORK && bti_op_info((bti_op)step->op)->class == BTI_ELEMENTWISE;
}

static int64_t points_of(const bti_value *value) {
    int64_t points = 1;
    for (int i = 0; i < value->rank; i++) points *= value->shape[i];
    return points;
}

static bool make_fold(const bti_plan *plan, const bti_step *step, fold *made) {
    const bti_value *input = bti_plan_operand(plan, step, 0);
    *made = (fold){.device = step->device};
    for (int i = 0; i < input->rank; i++) {
        unsigned folded = step->node->attr->fold.axes >> i & 1;
        if (input->shape[i] == 1) continue;
        if (made->rank && (made->folded >> (made->rank - 1) & 1) == folded) {
            made->shape[made->rank - 1] *= input->shape[i];
            continue;
        }
        made->folded |= folded << made->rank;
        made->shape[made->rank++] = input->shape[i];
    }
    return made->folded && points_of(input) > 0;
}

static bool same_fold(const fold *a, const fold *b) {
    return a->device == b->device && a->folded == b->folded && bti_shape_equal(a->rank, a->shape, b->rank, b->shape);
}

/* Which of the folds it is, which is added if there is room; -1. */
static int number_of_fold(fold *folds, int *count, const bti_plan *plan, const bti_step *step) {
    fold made;
    if (!is_reduction(step) || !make_fold(plan, step, &made)) return -1;
    for (int f = 0; f < *count; f++)
        if (same_fold(&folds[f], &made)) return f;
    if (*count == MOST_FOLDS) return -1;
    folds[*count] = made;
    return (*count)++;
}

bool bti_has_folds(const bti_planner *planner) {
    const bti_plan *plan = planner->plan;
    fold folds[MOST_FOLDS];
    int count = 0;
    for (size_t s = 0; s < plan->steps.count && count < 2 && planner->how->fusing == BTI_FUSED; s++)
        (void)number_of_fold(folds, &count, plan, &plan->steps.items[s]);
    return count > 1;
}

/* --- who reads what ----------------------------------------------------------------------------------------------------- */

/* Whether a kernel that makes the value has it in registers where the reader wants it. */
static bool is_plain(const repeater *r, int32_t number) {
    const bti_value *value = &r->plan->values.items[number];
    return !value->layout.offset && bti_layout_is_dense(value->rank, value->shape, &value->layout) &&
           r->planner->after.items[number] < 0;
}

static int32_t input_of(const repeater *r, const bti_step *step, int input) {
    return r->plan->operands.items[step->first_operand + input];
}

static int32_t storage_of(const repeater *r, int32_t value) { return r->plan->values.items[value].storage; }

/* The map of as many points that makes the value for this reader; -1. */
static int32_t map_behind(const repeater *r, const bti_step *reader, int32_t value) {
    int32_t storage = storage_of(r, value), maker = r->plan->storages.items[storage].first_step;
    if (maker < 0 || r->held[storage] || !is_plain(r, value)) return -1;
    const bti_step *made = &r->plan->steps.items[maker];
    int64_t points =
        points_of(is_reduction(reader) ? bti_plan_operand(r->plan, reader, 0) : bti_plan_output(r->plan, reader, 0));
    bool fits = is_map(made) && made->device == reader->device && points_of(&r->plan->values.items[value]) == points;
    return fits ? maker : -1;
}

static void note_held(repeater *r) {
    const bti_plan *plan = r->plan;
    for (size_t i = 0; i < plan->results.count; i++) r->held[storage_of(r, plan->results.items[i].value)] = true;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        for (int i = 0; i < step->input_count; i++) {
            int32_t value = input_of(r, step, i);
            if (!bti_is_fusable(step) || !is_plain(r, value)) r->held[storage_of(r, value)] = true;
        }
    }
}

static void note_feeds(repeater *r) {
    for (size_t s = r->plan->steps.count; s-- > 0;) {
        const bti_step *step = &r->plan->steps.items[s];
        unsigned feeds = r->fold[s] >= 0 ? 1u << r->fold[s] : is_map(step) ? r->feeds[s] : 0;
        for (int i = 0; i < step->input_count && feeds; i++) {
            int32_t map = map_behind(r, step, input_of(r, step, i));
            if (map >= 0) r->feeds[map] |= (uint8_t)feeds;
        }
    }
}

/* --- whether it pays ---------------------------------------------------------------------------------------------------- */

/* The time of an element, in that of an addition. */
static double work_of(bti_op op) {
    switch (op) {
    case BTI_OP_neg:
    case BTI_OP_abs:
    case BTI_OP_add:
    case BTI_OP_sub:
    case BTI_OP_mul:
    case BTI_OP_minimum:
    case BTI_OP_maximum:
    case BTI_OP_cast:
    case BTI_OP_where:
    case BTI_OP_eq:
    case BTI_OP_ne:
    case BTI_OP_lt:
    case BTI_OP_le: return 1;
    case BTI_OP_div:
    case BTI_OP_sqrt:
    case BTI_OP_rsqrt: return 4;
    default: return 20;
    }
}

static bool is_of(const repeater *r, size_t step, int f) { return r->feeds[step] >> f & 1; }

/* Bytes of the value, once. */
static double once(repeater *r, int32_t value) {
    int32_t storage = storage_of(r, value);
    if (r->seen[storage]) return 0;
    r->seen[storage] = true;
    return (double)r->plan->storages.items[storage].bytes;
}

/* What the reductions of the fold would read from memory and, before, somebody would write. */
static double bytes_saved(repeater *r, int f) {
    double bytes = 0;
    for (size_t s = 0; s < r->plan->steps.count; s++) {
        const bti_step *step = &r->plan->steps.items[s];
        if (r->fold[s] != f) continue;
        double read = once(r, input_of(r, step, 0));
        if (map_behind(r, step, input_of(r, step, 0)) >= 0) bytes += 2 * read;
    }
    return bytes;
}

/* What it would read instead. What is smaller than the maps is not counted. */
static double bytes_spent(repeater *r, int f) {
    double bytes = 0;
    for (size_t s = 0; s < r->plan->steps.count; s++) {
        const bti_step *step = &r->plan->steps.items[s];
        for (int i = 0; i < step->input_count && is_of(r, s, f); i++) {
            int32_t value = input_of(r, step, i), map = map_behind(r, step, value);
            bool whole = is_plain(r, value) &&
                         points_of(&r->plan->values.items[value]) == points_of(bti_plan_output(r->plan, step, 0));
            if (whole && (map < 0 || !is_of(r, (size_t)map, f))) bytes += once(r, value);
        }
    }
    return bytes;
}

/* Maps that others read too. True: reductions along other axes are among them. */
static bool note_outside(repeater *r, int f) {
    bool other_axes = false;
    for (size_t s = 0; s < r->plan->steps.count; s++) {
        const bti_step *step = &r->plan->steps.items[s];
        other_axes = other_axes || (is_of(r, s, f) && r->feeds[s] != 1u << f);
        for (int i = 0; i < step->input_count && !is_of(r, s, f) && r->fold[s] != f; i++) {
            int32_t map = map_behind(r, step, input_of(r, step, i));
            if (map >= 0 && is_of(r, (size_t)map, f)) r->outside[map] = true;
        }
    }
    return other_axes;
}

static double nanoseconds_again(const repeater *r, int f, const bti_target_facts *facts) {
    double work = 0;
    for (size_t s = 0; s < r->plan->steps.count; s++) {
        const bti_step *step = &r->plan->steps.items[s];
        if (!is_of(r, s, f) || !r->outside[s]) continue;
        const bti_value *made = bti_plan_output(r->plan, step, 0);
        work += work_of((bti_op)step->op) * (double)points_of(made) * (made->dtype == BT_F64 ? facts->f64_slowdown : 1);
    }
    return work / (double)(facts->lanes * facts->units); /* an addition in each lane takes about a nanosecond */
}

static bool pays(repeater *r, int f) {
    const bti_target_facts *facts = r->planner->how->target(r->folds[f].device);
    memset(r->outside, 0, r->plan->steps.count * sizeof *r->outside);
    memset(r->seen, 0, r->plan->storages.count * sizeof *r->seen);
    if (!note_outside(r, f)) return false;
    double bytes = bytes_saved(r, f) - bytes_spent(r, f);
    return bytes > 0 && nanoseconds_again(r, f, facts) < bytes / facts->bandwidth;
}

/* --- doing it ----------------------------------------------------------------------------------------------------------- */

/* What a step of the fold reads in the place of the value. */
static int32_t read_again(repeater *r, int32_t number) {
    int32_t again = r->again[storage_of(r, number)];
    if (again < 0 || !is_plain(r, number)) return number;
    bti_value value = r->plan->values.items[number];
    return bti_add_view(r->planner, again, value.rank, value.shape, &value.layout);
}

static bool push_again(repeater *r, const bti_step *step, bti_written *out) {
    const bti_value made = *bti_plan_output(r->plan, step, 0);
    bti_step twin = *step;
    twin.repeated = true;
    twin.first_operand = (int32_t)r->plan->operands.count;
    for (int i = 0; i < step->input_count; i++) {
        int32_t value = read_again(r, input_of(r, step, i));
        if (!bti_vec_push(&r->plan->operands, value)) return false;
    }
    int32_t value = bti_add_value(r->planner, step->node, step->device, -1, made.dtype, made.rank, made.shape, NULL);
    r->again[made.storage] = value;
    return !r->planner->failed && bti_vec_push(&r->plan->operands, value) && bti_vec_push(&out->steps, twin);
}

/* Each step, and behind it, where others read it too, the same for the fold. */
static bool repeat(repeater *r, int f) {
    bti_plan *plan = r->plan;
    bti_written out = {0};
    size_t storages = plan->storages.count;
    bool fine = true;
    for (size_t i = 0; i < storages; i++) r->again[i] = -1;
    for (size_t s = 0; s < plan->steps.count && fine; s++) {
        bti_step step = plan->steps.items[s];
        bool twice = is_of(r, s, f) && r->outside[s], own = r->fold[s] == f || (is_of(r, s, f) && !twice);
        for (int i = 0; i < step.input_count && own; i++)
            plan->operands.items[step.first_operand + i] = read_again(r, input_of(r, &step, i));
        if (own) step.part = (uint8_t)(f + 1);
        fine = bti_vec_push(&out.steps, step);
        step.part = (uint8_t)(f + 1);
        if (twice && fine) fine = push_again(r, &step, &out);
    }
    if (!fine) {
        bti_vec_free(&out.steps);
        return false;
    }
    bti_vec_free(&plan->steps);
    plan->steps.items = out.steps.items, plan->steps.count = out.steps.count, plan->steps.capacity = out.steps.capacity;
    for (size_t s = 0; s < plan->steps.count; s++)
        for (int o = 0; o < plan->steps.items[s].output_count; o++) {
            bti_storage *storage = &plan->storages.items[bti_plan_output(plan, &plan->steps.items[s], o)->storage];
            storage->first_step = (int32_t)s;
        }
    return !r->planner->failed;
}

/* Rows can be gone over again, and what is computed of their sums be added to the kernel: other folds are taken from them. */
static int fold_that_stays(const repeater *r) {
    for (int f = 0; f < r->fold_count; f++)
        if (r->folds[f].folded >> (r->folds[f].rank - 1) & 1 && r->folds[f].rank > 1) return f;
    return 0;
}

/* Computes for one fold what it shares with others; false: for none it pays. */
static bool repeat_for_one(bti_planner *planner) {
    bti_plan *plan = planner->plan;
    size_t steps = plan->steps.count, storages = plan->storages.count;
    repeater r = {.planner = planner, .plan = plan};
    r.again = bti_alloc(storages * sizeof *r.again);
    r.fold = bti_calloc(3 * steps + 2 * storages, 1);
    bool done = false;
    if (!r.again || !r.fold) {
        planner->failed = true;
    } else {
        r.feeds = (uint8_t *)r.fold + steps;
        r.outside = (bool *)(r.feeds + steps);
        r.held = r.outside + steps;
        r.seen = r.held + storages;
        for (size_t s = 0; s < steps; s++)
            r.fold[s] = (int8_t)(plan->steps.items[s].part
                                     ? -1
                                     : number_of_fold(r.folds, &r.fold_count, plan, &plan->steps.items[s]));
        note_held(&r);
        note_feeds(&r);
        int stays = fold_that_stays(&r);
        for (int f = 0; f < r.fold_count && !done; f++)
            if (f != stays && pays(&r, f)) {
                done = true;
                planner->failed = !repeat(&r, f);
            }
    }
    bti_free(r.again);
    bti_free(r.fold);
    return done && !planner->failed;
}

void bti_pass_repeat(bti_planner *planner) {
    while (repeat_for_one(planner)) {
    }
}
