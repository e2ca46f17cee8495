/* Plans that outlive the nodes that they were made of: they name stand-ins instead, which say what the nodes were but have neither inputs nor
 * memory. A node of a run has the number of its stand-in, which is noted there as a claimer's number is. Regions stand alone and have no memory: the
 * plan holds them as they are. */
#include "exec/prepared.h"

/* --- what a plan names ------------------------------------------------------------------------------------------------- */

typedef bool visit_name(const bti_node **name, void *context);

static bool visit(const bti_node **name, visit_name *function, void *context) {
    return !*name || function(name, context);
}

static bool visit_result(bti_node **name, visit_name *function, void *context) {
    const bti_node *node = *name;
    bool fine = function(&node, context);
    *name = (bti_node *)(uintptr_t)node;
    return fine;
}

static bool visit_names(bti_plan *plan, visit_name *function, void *context) {
    bool fine = true;
    for (size_t s = 0; s < plan->storages.count && fine; s++)
        fine = visit(&plan->storages.items[s].node, function, context) &&
               visit(&plan->storages.items[s].reader, function, context);
    for (size_t s = 0; s < plan->steps.count && fine; s++)
        fine = visit(&plan->steps.items[s].node, function, context) &&
               visit(&plan->steps.items[s].reader, function, context);
    for (size_t r = 0; r < plan->results.count && fine; r++)
        fine = visit_result(&plan->results.items[r].node, function, context);
    for (size_t m = 0; m < plan->members.count && fine; m++) fine = visit(&plan->members.items[m], function, context);
    return fine;
}

/* --- stand-ins --------------------------------------------------------------------------------------------------------- */

typedef struct stand_ins {
    bti_node **by_number; /* NULL: the plan does not name it */
    size_t count;
    int64_t (*number)(const bti_node *node, const void *context);
    const void *context;
} stand_ins;

static bti_node *new_stand_in(const bti_node *node, int64_t number) {
    bti_op op = node->op == BTI_OP_result ? BTI_OP_leaf : (bti_op)node->op; /* a result needs its tuple */
    bti_node *made = bti_node_new(op, (bt_dtype)node->dtype, node->rank, node->shape, 0, NULL, node->attr);
    if (!made) return NULL;
    bti_copy_marks(made, node);
    made->layout = node->layout;
    made->in_region = true; /* nobody computes it */
    made->claimed = number;
    return made;
}

static bool make_stand_in(const bti_node **name, void *context) {
    stand_ins *all = context;
    int64_t number = all->number(*name, all->context);
    if (number < 0) return false;
    if ((size_t)number >= all->count) return false;
    bti_node **made = &all->by_number[number];
    return *made || (*made = new_stand_in(*name, number));
}

static bool use_stand_in(const bti_node **name, void *context) {
    const stand_ins *all = context;
    *name = all->by_number[all->number(*name, all->context)];
    return true;
}

/* Those inside of regions are held by these. */
static bool hold_regions(bti_prepared *of) {
    for (size_t s = 0; s < of->plan.steps.count; s++) {
        if (of->plan.steps.items[s].kind != BTI_STEP_CONTROL) continue;
        const bti_tuple *tuple = of->plan.steps.items[s].node->tuple;
        if (!bti_vec_reserve(&of->regions, (size_t)tuple->region_count)) return false;
        for (int r = 0; r < tuple->region_count; r++)
            of->regions.items[of->regions.count++] = bti_region_retain(atomic_load(&tuple->regions[r]));
    }
    return true;
}

bool bti_prepared_stand_in(bti_prepared *of, size_t count, int64_t (*number)(const bti_node *node, const void *context),
                           const void *context) {
    stand_ins all = {.count = count, .number = number, .context = context};
    if (!(all.by_number = bti_calloc(count, sizeof *all.by_number))) return false;
    if (!hold_regions(of) || !visit_names(&of->plan, make_stand_in, &all)) {
        for (size_t i = 0; i < all.count; i++) bti_node_release(all.by_number[i]);
        bti_free(all.by_number);
        return false;
    }
    (void)visit_names(&of->plan, use_stand_in, &all);
    for (size_t s = 0; s < of->plan.storages.count; s++) of->plan.storages.items[s].external = NULL;
    of->stand_ins = all.by_number;
    of->stand_in_count = all.count;
    return true;
}

/* --- size -------------------------------------------------------------------------------------------------------------- */

#define BYTES_OF(vec) ((vec).capacity * sizeof *(vec).items)

static size_t bytes_of_plan(const bti_plan *plan) {
    size_t bytes = BYTES_OF(plan->storages) + BYTES_OF(plan->values) + BYTES_OF(plan->operands) +
                   BYTES_OF(plan->steps) + BYTES_OF(plan->results) + BYTES_OF(plan->kernels) + BYTES_OF(plan->numbers) +
                   BYTES_OF(plan->scalars) + BYTES_OF(plan->members) + BYTES_OF(plan->controls) +
                   BYTES_OF(plan->arenas);
    return bytes + plan->kernels.count * sizeof(bti_kernel);
}

static size_t bytes_of_regions(const bti_tuple *tuple);

static size_t bytes_of_region(const bti_region *region) {
    size_t bytes = sizeof *region;
    for (int i = 0; i < region->input_count; i++) bytes += region->inputs[i]->bytes;
    for (int i = 0; i < region->node_count; i++)
        bytes += region->nodes[i]->bytes + bytes_of_regions(region->nodes[i]->tuple);
    return bytes;
}

static size_t bytes_of_regions(const bti_tuple *tuple) {
    size_t bytes = 0;
    for (int r = 0; tuple && r < tuple->region_count; r++) bytes += bytes_of_region(atomic_load(&tuple->regions[r]));
    return bytes;
}

/* And one run of it. */
size_t bti_prepared_bytes(const bti_prepared *of) {
    const bti_plan *plan = &of->plan;
    size_t bytes = sizeof *of + sizeof(bti_run) + bytes_of_plan(plan);
    bytes += plan->steps.count * (sizeof(bti_ready_step) + sizeof(bti_attr) + sizeof(bti_place));
    bytes += plan->storages.count * 6 * sizeof(uint64_t) + 2 * of->operand_count * sizeof(bti_operand);
    bytes += of->tasks.count * (sizeof(bti_run_task_plan) + sizeof(bti_run_task));
    bytes += of->stand_in_count * (sizeof(bti_node *) + sizeof(bti_node));
    for (size_t s = 0; s < plan->steps.count; s++)
        for (int r = 0; r < BTI_MAX_REGIONS; r++)
            if (of->steps[s].regions[r]) bytes += bti_prepared_bytes(of->steps[s].regions[r]);
    for (size_t r = 0; r < of->regions.count; r++) bytes += bytes_of_region(of->regions.items[r]);
    return bytes;
}
