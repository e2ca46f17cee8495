#include "compile/passes_text.h"

#include "compile/fuser.h"
#include "ir/print.h"

static void add_value(bti_str *text, const bti_value *value) {
    if (value->storage < 0) {
        bti_str_add(text, "index");
        return;
    }
    bti_str_addf(text, "v%d", value->storage);
    bool dense = bti_layout_is_dense(value->rank, value->shape, &value->layout);
    if (value->layout.offset) bti_str_addf(text, "+%lld", (long long)value->layout.offset);
    for (int i = 0; i < value->rank && !dense; i++)
        bti_str_addf(text, "%s%lld%s", i ? "," : "(", (long long)value->layout.stride[i],
                     i + 1 < value->rank ? "" : ")");
}

static int receiver(const bti_plan *plan, const bti_step *copy) {
    return plan->storages.items[bti_plan_output(plan, copy, 0)->storage].device;
}

static void add_name(bti_str *text, const bti_plan *plan, const bti_step *step) {
    char name[48];
    bti_step_name(name, sizeof name, plan, step);
    bti_str_addf(text, "%-12s", name);
}

static void add_group_devices(bti_str *text, const bti_planner *planner, const bti_step *step) {
    for (int i = 0; i < step->group; i++)
        bti_str_addf(text, "%s%s", i ? "," : " ", planner->how->device_name(bti_plan_device(planner->plan, step, i)));
    bti_str_add(text, "  ");
}

static void add_operands(bti_str *text, const bti_plan *plan, const bti_step *step) {
    for (int o = 0; o < step->output_count; o++) {
        const bti_value *value = bti_plan_output(plan, step, o);
        if (o) bti_str_add(text, ", ");
        add_value(text, value);
        bti_str_addf(text, " %s ", bt_dtype_name(value->dtype));
        bti_shape_text(text, value->rank, value->shape);
    }
    for (int i = 0; i < step->input_count; i++) {
        bti_str_add(text, i ? ", " : " = ");
        if (step->kind == BTI_STEP_PRODUCT && i == step->made)
            bti_str_add(text, "the product");
        else
            add_value(text, bti_plan_operand(plan, step, i));
    }
}

/* --- what passes decided of a step ---------------------------------------------------------------------------------- */

static void add_doer(bti_str *text, const bti_planner *planner, size_t s) {
    const bti_step *step = &planner->plan->steps.items[s];
    switch ((bti_doer)planner->fuser->members[s].doer) {
    case BTI_WHOLE:
        if (step->kind == BTI_STEP_WORK) bti_str_add(text, "  whole");
        break;
    case BTI_BY_KERNEL:
        bti_str_add(text,
                    planner->fuser->members[s].rows < 0 ? "  by a kernel" : "  by a kernel of its readers, or whole");
        break;
    case BTI_INLINED: bti_str_add(text, "  by its readers"); break;
    }
}

static void add_group(bti_str *text, const bti_planner *planner, size_t s) {
    int32_t group = bti_group_of(planner->fuser, (int32_t)s);
    if (group < 0) return;
    bti_str_addf(text, "  group %d", group);
    if (planner->fuser->members[s].again) bti_str_add(text, ", again");
    if (planner->fuser->members[s].why)
        bti_str_addf(text, ", in memory: %s", bti_why_text((bti_why)planner->fuser->members[s].why));
}

static void add_memory(bti_str *text, const bti_plan *plan, const bti_step *step) {
    for (int o = 0; o < step->output_count; o++) {
        const bti_value *value = bti_plan_output(plan, step, o);
        const bti_storage *storage = &plan->storages.items[value->storage];
        bti_str_addf(text, "%sv%d ", o ? ", " : "  ", value->storage);
        if (storage->offset >= 0)
            bti_str_addf(text, "at %lld%s", (long long)storage->offset, storage->in_place ? ", in place" : "");
        else
            bti_str_add(text, bti_plan_keeps(plan, storage) ? "kept" : "in a block of its own");
    }
}

/* --- lines ---------------------------------------------------------------------------------------------------------- */

static void add_facts(bti_str *text, const bti_planner *planner, int device) {
    const bti_target_facts *facts = planner->how->target(device);
    bti_str_addf(text, "      %s: ", planner->how->device_name(device));
    bti_str_addf(text, "%d units of %d lanes", facts->units, facts->lanes);
    if (facts->group_threads > 1) bti_str_addf(text, " and groups of %d threads", facts->group_threads);
    bti_str_add(text, ", with ");
    bti_str_add_bytes_size(text, (unsigned long long)facts->local_bytes);
    bti_str_add(text, " and a cache of ");
    bti_str_add_bytes_size(text, (unsigned long long)facts->cache_bytes);
    bti_str_addf(text, "; %d bytes/ns; float64 is %d times as slow; %d %s in a launch", facts->bandwidth,
                 facts->f64_slowdown, facts->launch_boxes, facts->launch_boxes == 1 ? "box" : "boxes");
    bti_str_add(text, facts->epilogues ? "; products apply maps" : "");
    bti_str_add(text, facts->channels_last ? "; images with channels last\n" : "\n");
}

static void add_devices(bti_str *text, const bti_planner *planner) {
    uint64_t shown = 0; /* there are at most 64 devices */
    for (size_t s = 0; s < planner->plan->steps.count; s++) {
        int device = planner->plan->steps.items[s].device;
        if (shown >> device & 1) continue;
        shown |= UINT64_C(1) << device;
        add_facts(text, planner, device);
    }
}

void bti_passes_text(bti_str *text, const char *pass, const bti_planner *planner) {
    const bti_plan *plan = planner->plan;
    bti_str_addf(text, "%s%s\n", pass, planner->title);
    if (!strcmp(pass, "place") && !planner->region) add_devices(text, planner);
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        bti_str_addf(text, "%4zu  ", s + 1);
        add_name(text, plan, step);
        if (step->kind == BTI_STEP_COLLECTIVE)
            add_group_devices(text, planner, step);
        else
            bti_str_addf(text, " %s  ", planner->how->device_name(step->device));
        if (step->kind == BTI_STEP_COPY) bti_str_addf(text, "-> %s  ", planner->how->device_name(receiver(plan, step)));
        add_operands(text, plan, step);
        if (!strcmp(pass, "layouts") && step->packs)
            bti_str_addf(text, "  v%d kept in the device's layout", bti_plan_operand(plan, step, 1)->storage);
        if (!strcmp(pass, "choose")) add_doer(text, planner, s);
        if (!strcmp(pass, "fuse") || !strcmp(pass, "recompute")) add_group(text, planner, s);
        if (step->kind == BTI_STEP_KERNEL && step->box_count > 1) bti_str_addf(text, "  in %d boxes", step->box_count);
        if (step->halved) bti_str_add(text, "  in halves");
        if (!strcmp(pass, "memory")) add_memory(text, plan, step);
        bti_str_add(text, "\n");
    }
    bti_str_add(text, "      results:");
    for (size_t r = 0; r < plan->results.count; r++) {
        bti_str_add(text, r ? ", " : " ");
        add_value(text, &plan->values.items[plan->results.items[r].value]);
    }
    bti_str_add(text, "\n");
    for (size_t d = 0; d < plan->arenas.count; d++)
        if (plan->arenas.items[d])
            bti_str_addf(text, "      %s: %lld bytes of temporaries\n", planner->how->device_name((int)d),
                         (long long)plan->arenas.items[d]);
}
