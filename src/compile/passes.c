/* The passes in their order. Each is pure and reads of a device its facts alone. docs/decisions/0022 says why they are these. */
#include "compile/fuser.h"
#include "compile/passes_text.h"
#include "ir/print.h"

typedef struct bti_pass {
    const char *name;
    void (*run)(bti_planner *planner);
    bool (*concerns)(const bti_planner *planner); /* whether there is anything for it; NULL: always */
} bti_pass;

static const bti_pass passes[] = {
    {"place", bti_pass_place, NULL}, /* nodes to steps: on which device, copies, constants, equal ones once */
    {"layouts", bti_pass_layouts, bti_has_images},           /* how images lie between convolutions */
    {"choose", bti_pass_choose, NULL},                       /* what does a step */
    {"fuse", bti_pass_fuse, NULL},                           /* which steps are one kernel */
    {"recompute", bti_pass_recompute, bti_has_recomputable}, /* which values each reader computes */
    {"schedule", bti_pass_schedule, NULL},                   /* kernels in the place of steps, in order */
    {"buckets", bti_pass_buckets, bti_has_collectives},      /* which collectives are one, and when they begin */
    {"combine", bti_pass_combine, NULL},                     /* which kernels are one launch */
    {"epilogues", bti_pass_epilogues, NULL},                 /* which kernels products apply as they are made */
    {"segments", bti_pass_segments, bti_has_graphs},         /* what devices that load graphs run at once */
    {"memory", bti_pass_memory, NULL},                       /* where temporaries lie */
};
enum { PASSES = sizeof passes / sizeof *passes };

static bti_region_planner plan_region;

/* Each operation is a step with a value of its own, more or less: growing by and by would copy all of them several times. In small plans
 * that is nothing. */
static bool make_room(bti_plan *plan, bti_fuser *fuser, size_t operations) {
    if (operations < 64) return true;
    return bti_vec_reserve(&plan->steps, operations) && bti_vec_reserve(&plan->values, operations) &&
           bti_vec_reserve(&plan->storages, operations) && bti_vec_reserve(&plan->operands, 3 * operations) &&
           bti_vec_reserve(&fuser->groups, operations);
}

static bt_status run_passes(bti_planner *planner, size_t operations) {
    const bti_planning *how = planner->how;
    bti_fuser fuser = {.planner = planner, .plan = planner->plan};
    planner->fuser = &fuser;
    planner->failed = !make_room(planner->plan, &fuser, operations);
    bti_str inner = {0};
    planner->plan_region = plan_region;
    planner->inner = &inner;
    for (int p = 0; p < PASSES && !planner->failed; p++) {
        if (passes[p].concerns && !passes[p].concerns(planner)) continue;
        passes[p].run(planner);
        if (how->text && !planner->failed) bti_passes_text(how->text, passes[p].name, planner);
    }
    if (how->text) bti_str_add(how->text, bti_str_text(&inner));
    bti_str_free(&inner);
    for (size_t t = 0; t < planner->tuples.count; t++) bti_free(planner->tuples.items[t].read);
    bti_vec_free(&planner->tuples);
    bti_numbers_free(&planner->tuple_numbers);
    bti_numbers_free(&planner->numbers);
    bti_free(planner->planned);
    bti_vec_free(&planner->known);
    bti_vec_free(&planner->copied_from);
    bti_vec_free(&planner->after);
    bti_vec_free(&fuser.groups);
    bti_vec_free(&fuser.externals);
    bti_free(fuser.members);
    if (planner->failed)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory while planning %zu operations", operations);
    return BT_OK;
}

/* The plan of a region, which each run of the step that it belongs to binds. */
static bt_status plan_region(const bti_planner *outer, const bti_node *tuple, int which, const bool *read,
                             const bti_layout *given, bti_plan *plan) {
    const bti_region *region = tuple->tuple->regions[which];
    bti_planning how = *outer->how;
    bti_str title = {0};
    how.share = true; /* its temporaries are in the scratch memory of the step */
    if (how.text) {
        how.text = outer->inner;
        bti_str_addf(&title, ", %s of %s %zu%s", bti_region_name((bti_op)tuple->op, which),
                     bti_op_info((bti_op)tuple->op)->name, outer->plan->controls.count + 1, outer->title);
    }
    bti_planner planner = {.plan = plan,
                           .how = &how,
                           .region = region,
                           .read = read,
                           .given = given,
                           .device = bti_device_of(outer, tuple),
                           .title = bti_str_text(&title),
                           .last_callback = -1};
    bt_status status = run_passes(&planner, (size_t)region->node_count);
    bti_str_free(&title);
    return status;
}

bt_status bti_compile(const bti_order *order, bti_node *const *wanted, size_t count, const bti_planning *how,
                      bti_plan *plan) {
    bti_planner planner = {.plan = plan,
                           .how = how,
                           .order = order,
                           .wanted = wanted,
                           .wanted_count = count,
                           .title = "",
                           .last_callback = -1};
    return run_passes(&planner, order->count);
}
