#include "ir/print.h"

#include <string.h>

#define DEVICES 64

const char *bti_rule_text(bti_rule rule) {
    switch (rule) {
    case BTI_RULE_DEFAULT: return "default device";
    case BTI_RULE_EXPLICIT: return "named by the program";
    case BTI_RULE_COMMITTED: return "its inputs are there";
    case BTI_RULE_BYTES: return "most of its input bytes are there";
    case BTI_RULE_SOFT: return "soft placement";
    case BTI_RULE_FORWARD: return "where its forward operation ran";
    }
    return "?";
}

static void add_value(bti_str *text, const bti_value *value) {
    bti_str_add(text, bt_dtype_name(value->dtype));
    bti_str_add(text, " ");
    bti_shape_text(text, value->rank, value->shape);
}

static void add_place(bti_str *text, bti_place place) {
    if (place.name && *place.name) bti_str_addf(text, "  for %s", place.name);
    if (place.site.file) bti_str_addf(text, " at %s:%d", bti_site_file(place.site), place.site.line);
}

const char *bti_why_text(bti_why why) {
    switch (why) {
    case BTI_WHY_NONE: return "not in memory";
    case BTI_WHY_RESULT: return "a result";
    case BTI_WHY_WORK: return "an operation that is run whole made it or reads it";
    case BTI_WHY_DEVICE: return "another device reads it";
    case BTI_WHY_VIEW: return "it is read in another order or in part";
    case BTI_WHY_SHAPE: return "a kernel over another shape reads it";
    case BTI_WHY_AXES: return "a kernel that folds other axes, or whose columns are folded already, reads it";
    case BTI_WHY_LONG: return "its rows are too long to be gone over again";
    case BTI_WHY_ORDER: return "its reader waits for another kernel";
    case BTI_WHY_FULL: return "its kernel had no room for the reader";
    case BTI_WHY_OFF: return "fusing is off";
    }
    return "?";
}

/* The operations of a kernel, runs of one name counted: "mul, sub x2, exp". */
static void add_members(bti_str *text, const bti_plan *plan, const bti_step *step) {
    for (int m = 0; m < step->member_count;) {
        const bti_node *node = plan->members.items[step->first_member + m];
        int again = 1;
        while (m + again < step->member_count && plan->members.items[step->first_member + m + again]->op == node->op)
            again++;
        bti_str_addf(text, "%s%s", m ? ", " : "", bti_op_info((bti_op)node->op)->name);
        if (again > 1) bti_str_addf(text, " x%d", again);
        m += again;
    }
}

/* Why it runs there: every rule that placed one of its operations. */
static void add_rules(bti_str *text, const bti_plan *plan, const bti_step *step) {
    unsigned seen = 1u << step->node->rule;
    for (int m = 0; m < step->member_count; m++) seen |= 1u << plan->members.items[step->first_member + m]->rule;
    bti_str_add(text, "  (");
    for (int rule = 0; seen >> rule; rule++)
        if (seen >> rule & 1)
            bti_str_addf(text, "%s%s", seen & ((1u << rule) - 1) ? "; " : "", bti_rule_text((bti_rule)rule));
    bti_str_add(text, ")");
}

static void add_step(bti_str *text, const bti_plan *plan, size_t index, const char *(*device_name)(int)) {
    const bti_step *step = &plan->steps.items[index];
    const bti_value *output = bti_plan_output(plan, step, 0);
    const bti_storage *storage = &plan->storages.items[output->storage];
    bti_str_addf(text, "%4zu  ", index + 1);
    if (step->kind == BTI_STEP_COPY) {
        bti_str_addf(text, "copy        %s -> %s  ", device_name(step->device), device_name(storage->device));
        add_value(text, output);
        bti_str_addf(text, "  %lld bytes", (long long)storage->bytes);
        add_place(text, step->node->place);
        bti_str_add(text, "\n");
        return;
    }
    bool dense = step->op == BTI_OP_copy && step->node->op != BTI_OP_copy;
    const char *name = step->kind == BTI_STEP_KERNEL ? "kernel"
                       : dense                       ? "make dense"
                                                     : bti_op_info((bti_op)step->op)->name;
    bti_str_addf(text, "%-11s %s  ", name, device_name(step->device));
    for (int o = 0; o < step->output_count; o++) {
        if (o) bti_str_add(text, ", ");
        add_value(text, bti_plan_output(plan, step, o));
    }
    add_rules(text, plan, step);
    add_place(text, step->node->place);
    bti_str_add(text, "\n");
    if (step->kind != BTI_STEP_KERNEL) return;
    bti_str_add(text, "        ");
    add_members(text, plan, step);
    for (int o = 0; o < step->output_count; o++) {
        bti_why why = (bti_why)plan->storages.items[bti_plan_output(plan, step, o)->storage].why;
        if (why != BTI_WHY_RESULT) bti_str_addf(text, "; stored: %s", bti_why_text(why));
    }
    bti_str_add(text, "\n");
}

void bti_plan_text(bti_str *text, const bti_plan *plan, const char *(*device_name)(int device)) {
    int kernels[DEVICES] = {0}, copies = 0;
    int64_t copied = 0, peak[DEVICES] = {0};
    bti_plan_memory(plan, NULL, peak, DEVICES);
    for (size_t s = 0; s < plan->steps.count; s++) {
        add_step(text, plan, s, device_name);
        const bti_step *step = &plan->steps.items[s];
        if (step->kind == BTI_STEP_COPY) {
            copies++;
            copied += plan->storages.items[bti_plan_output(plan, step, 0)->storage].bytes;
        } else
            kernels[step->device]++;
    }
    bti_str_addf(text, "      %zu steps; %d copies between devices, %lld bytes\n", plan->steps.count, copies,
                 (long long)copied);
    bti_traffic traffic = bti_plan_traffic(plan);
    if (traffic.read || traffic.written) {
        bti_str_add(text, "      reads ");
        bti_str_add_bytes_size(text, (unsigned long long)traffic.read);
        bti_str_add(text, " and writes ");
        bti_str_add_bytes_size(text, (unsigned long long)traffic.written);
        bti_str_add(text, "; what is given and what is kept alone are ");
        bti_str_add_bytes_size(text, (unsigned long long)traffic.least);
        bti_str_add(text, "\n");
    }
    for (int d = 0; d < DEVICES; d++) {
        if (!kernels[d] && !peak[d]) continue;
        bti_str_addf(text, "      %s: %d kernels, at most ", device_name(d), kernels[d]);
        bti_str_add_bytes_size(text, (unsigned long long)peak[d]);
        bti_str_add(text, " for results and temporaries\n");
    }
}
