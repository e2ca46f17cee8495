/* Kernels of one text that do not wait for each other become one step over several boxes, where a launch costs more than a call: an optimiser's updates of all
 * parameters are a few launches. A step moves up to the first such one; each box is computed as it would be alone. */
#include "compile/fuser.h"

#define OPEN 8                  /* batches that still take steps */
#define SMALL_BYTES (256 << 10) /* temporaries of at most so many may live longer than they would */

/* Steps that are one, in order; the first one's place is theirs. */
typedef struct batch {
    int32_t first, last; /* steps, linked by `next` */
    int32_t count;
    int32_t inputs, outputs; /* of a box */
    bool late;
} batch;

typedef struct combiner {
    bti_planner *planner;
    bti_plan *plan;
    BTI_VEC(batch) batches; /* in the order of their places */
    int32_t *next;          /* by step */
    int32_t *made;          /* by storage: the batch that leaves it, or -1 */
    bool *kept;             /* by storage: a result */
    bool *late; /* by storage: it waits for the last collective of the plan; what does not is not to wait with it */
    int32_t last_collective; /* a step; -1 */
    int32_t open[OPEN];      /* batches, the oldest first */
    int open_count;
} combiner;

static const bti_target_facts *target_of(const combiner *c, const bti_step *step) {
    return c->planner->how->target(step->device);
}

/* Maps alone: a reduction has parts and scratch memory of its own. What they leave is kept anyway, or small. */
static bool may_join(const combiner *c, const bti_step *step) {
    if (step->kind != BTI_STEP_KERNEL || target_of(c, step)->launch_boxes < 2) return false;
    if (c->plan->kernels.items[step->kernel]->reduced) return false;
    for (int o = 0; o < step->output_count; o++) {
        int32_t storage = bti_plan_output(c->plan, step, o)->storage;
        if (!c->kept[storage] && c->plan->storages.items[storage].bytes > SMALL_BYTES) return false;
    }
    return true;
}

/* Whether all that the step reads, and what it waits for, is there before the batch. */
static bool is_ready(const combiner *c, const bti_step *step, int32_t number) {
    for (int i = 0; i < step->input_count; i++) {
        int32_t value = c->plan->operands.items[step->first_operand + i],
                storage = c->plan->values.items[value].storage;
        if (storage < 0) continue; /* an index */
        int32_t after = bti_read_after(c->planner->fuser, value);
        if (c->made[storage] >= number) return false;
        if (after >= 0 && c->made[c->plan->values.items[after].storage] >= number) return false;
    }
    return true;
}

static bool is_late(const combiner *c, const bti_step *step) {
    bool late = step - c->plan->steps.items == c->last_collective;
    for (int i = 0; i < step->input_count && !late; i++) {
        int32_t storage = bti_plan_operand(c->plan, step, i)->storage;
        late = storage >= 0 && c->late[storage];
    }
    return late;
}

static int32_t find_batch(const combiner *c, const bti_step *step, bool late) {
    for (int k = 0; k < c->open_count; k++) {
        const batch *b = &c->batches.items[c->open[k]];
        const bti_step *first = &c->plan->steps.items[b->first];
        if (first->kernel == step->kernel && first->halved == step->halved && first->device == step->device &&
            b->count < target_of(c, step)->launch_boxes && b->late == late && is_ready(c, step, c->open[k]))
            return c->open[k];
    }
    return -1;
}

static int32_t begin_batch(combiner *c, const bti_step *step, int32_t number, bool open, bool late) {
    int32_t made = (int32_t)c->batches.count;
    if (!bti_vec_push(&c->batches, ((batch){number, number, 1, step->input_count, step->output_count, late})))
        c->planner->failed = true;
    if (!open) return made;
    if (c->open_count == OPEN) memmove(c->open, c->open + 1, (size_t)--c->open_count * sizeof *c->open);
    c->open[c->open_count++] = made;
    return made;
}

/* A step that is no kernel is a place that nothing passes, if it is a copy: the other device waits for it. */
static void collect(combiner *c) {
    for (size_t s = 0; s < c->plan->steps.count && !c->planner->failed; s++) {
        const bti_step *step = &c->plan->steps.items[s];
        bool joins = may_join(c, step), late = is_late(c, step);
        int32_t number = joins ? find_batch(c, step, late) : -1;
        if (step->kind == BTI_STEP_COPY) c->open_count = 0;
        c->next[s] = -1;
        if (number < 0)
            number = begin_batch(c, step, (int32_t)s, joins, late);
        else {
            batch *b = &c->batches.items[number];
            c->next[b->last] = (int32_t)s;
            b->last = (int32_t)s;
            b->count++;
        }
        for (int o = 0; o < step->output_count; o++) {
            int32_t storage = bti_plan_output(c->plan, step, o)->storage;
            c->made[storage] = number;
            c->late[storage] = late;
        }
    }
}

/* --- batches to steps ------------------------------------------------------------------------------------------------- */

static bool push_operands(combiner *c, bti_written *out, const batch *b, bool outputs) {
    for (int32_t s = b->first; s >= 0; s = c->next[s]) {
        const bti_step *step = &c->plan->steps.items[s];
        const int32_t *operands = c->plan->operands.items + step->first_operand + (outputs ? b->inputs : 0);
        for (int32_t i = 0; i < (outputs ? b->outputs : b->inputs); i++)
            if (!bti_vec_push(&out->operands, operands[i])) return false;
    }
    return true;
}

/* Its own copies of numbers, scalars and members, those of each box behind those of the one before. */
static bool push_boxes(combiner *c, const batch *b, bti_step *step) {
    bti_plan *plan = c->plan;
    const bti_kernel *kernel = plan->kernels.items[step->kernel];
    int32_t numbers = bti_kernel_numbers(kernel), members = 0;
    for (int32_t s = b->first; s >= 0; s = c->next[s]) members += plan->steps.items[s].member_count;
    step->first_number = (int32_t)plan->numbers.count;
    step->first_scalar = (int32_t)plan->scalars.count;
    step->first_member = (int32_t)plan->members.count;
    step->member_count = members;
    if (!bti_vec_reserve(&plan->numbers, (size_t)(b->count * numbers)) ||
        !bti_vec_reserve(&plan->scalars, (size_t)(b->count * kernel->scalar_count)) ||
        !bti_vec_reserve(&plan->members, (size_t)members))
        return false;
    for (int32_t s = b->first; s >= 0; s = c->next[s]) {
        const bti_step *of = &plan->steps.items[s];
        for (int32_t i = 0; i < numbers; i++)
            plan->numbers.items[plan->numbers.count++] = plan->numbers.items[of->first_number + i];
        for (int32_t i = 0; i < kernel->scalar_count; i++)
            plan->scalars.items[plan->scalars.count++] = plan->scalars.items[of->first_scalar + i];
        for (int32_t i = 0; i < of->member_count; i++)
            plan->members.items[plan->members.count++] = plan->members.items[of->first_member + i];
    }
    return true;
}

static bool push_batch(combiner *c, bti_written *out, const batch *b) {
    bti_step step = c->plan->steps.items[b->first];
    int32_t first_operand = (int32_t)out->operands.count;
    if (!push_operands(c, out, b, false) || !push_operands(c, out, b, true)) return false;
    if (b->count > 1) {
        step.node = c->plan->steps.items[b->last].node;
        step.box_count = b->count;
        step.input_count = b->count * b->inputs;
        step.output_count = b->count * b->outputs;
        if (!push_boxes(c, b, &step)) return false;
    }
    step.first_operand = first_operand;
    return bti_vec_push(&out->steps, step);
}

static void write_batches(combiner *c) {
    bti_written out = {0};
    for (size_t b = 0; b < c->batches.count && !c->planner->failed; b++)
        if (!push_batch(c, &out, &c->batches.items[b])) c->planner->failed = true;
    bti_put_steps(c->plan, &out);
}

void bti_pass_combine(bti_planner *planner) {
    bti_plan *plan = planner->plan;
    bool any = false;
    if (planner->how->fusing != BTI_FUSED) return;
    for (size_t s = 1; s < plan->steps.count && !any; s++)
        any = planner->how->target(plan->steps.items[s].device)->launch_boxes > 1;
    if (!any) return;
    combiner c = {.planner = planner, .plan = plan, .last_collective = -1};
    for (size_t s = 0; s < plan->steps.count; s++)
        if (plan->steps.items[s].kind == BTI_STEP_COLLECTIVE) c.last_collective = (int32_t)s;
    c.next = bti_alloc(plan->steps.count * sizeof *c.next);
    c.made = bti_alloc(plan->storages.count * sizeof *c.made);
    c.kept = bti_calloc(2 * plan->storages.count, sizeof *c.kept);
    c.late = c.kept + plan->storages.count;
    planner->failed = !c.next || !c.made || !c.kept;
    if (!planner->failed) {
        for (size_t s = 0; s < plan->storages.count; s++) c.made[s] = -1;
        for (size_t r = 0; r < plan->results.count; r++)
            c.kept[plan->values.items[plan->results.items[r].value].storage] = true;
        collect(&c);
        if (!planner->failed && c.batches.count < plan->steps.count) write_batches(&c);
    }
    bti_vec_free(&c.batches);
    bti_free(c.next);
    bti_free(c.made);
    bti_free(c.kept);
}
