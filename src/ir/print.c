#include "ir/print.h"

#include "base/alloc.h"
#include "ir/attention.h"
#include "ir/dtype.h"
#include "ir/float8.h"
#include "ir/half.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 64

/* The words for a placement rule: "default device", ... */
static const char *rule_text(bti_rule rule) {
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

static void add_value_type(bti_str *text, const bti_value *value) {
    bti_str_add(text, bt_dtype_name(value->dtype));
    bti_str_add(text, " ");
    bti_shape_text(text, value->rank, value->shape);
}

static void add_place(bti_str *text, bti_place place) {
    if (place.name && *place.name) bti_str_addf(text, "  for %s", place.name);
    if (place.label) bti_str_addf(text, " as \"%s\"", place.label);
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
    case BTI_WHY_AGAIN: return "the backward pass computes others again from it";
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
            bti_str_addf(text, "%s%s", seen & ((1u << rule) - 1) ? "; " : "", rule_text((bti_rule)rule));
    bti_str_add(text, ")");
}

static void add_step(bti_str *text, const bti_plan *plan, size_t index, int depth, const char *(*device_name)(int));

const char *bti_region_name(bti_op op, int which) {
    static const char *const names[][2] = {{"each step", ""}, {"the test", "each step"}, {"if true", "if false"}};
    return names[op == BTI_OP_scan ? 0 : op == BTI_OP_while ? 1 : 2][which];
}

/* The steps of each region, a level deeper. */
static void add_regions(bti_str *text, const bti_control *control, int depth, const char *(*device_name)(int)) {
    for (int p = 0; p < control->plan_count; p++) {
        bti_str_addf(text, "%*s%s", 8 + 4 * depth, "", bti_region_name((bti_op)control->op, p));
        if (control->op == BTI_OP_scan) bti_str_addf(text, ", %lld times", (long long)control->steps);
        bti_str_add(text, ":\n");
        for (size_t s = 0; s < control->plans[p].steps.count; s++)
            add_step(text, &control->plans[p], s, depth + 1, device_name);
    }
}

static int64_t collective_bytes(const bti_plan *plan, const bti_step *step) {
    int64_t bytes = 0;
    for (int i = 0; i < step->input_count; i += step->group) bytes += bti_value_bytes(bti_plan_operand(plan, step, i));
    return bytes;
}

/* The devices, and each array once. */
static void add_collective(bti_str *text, const bti_plan *plan, const bti_step *step, const char *(*device_name)(int)) {
    bti_str_addf(text, "%-11s ", bti_op_info((bti_op)step->op)->name);
    for (int i = 0; i < step->group; i++)
        bti_str_addf(text, "%s%s", i ? ", " : "", device_name(bti_plan_device(plan, step, i)));
    bti_str_add(text, "  ");
    for (int i = 0; i < step->input_count; i += step->group) {
        if (i) bti_str_add(text, ", ");
        add_value_type(text, bti_plan_operand(plan, step, i));
    }
    bti_str_addf(text, "  %lld bytes on each", (long long)collective_bytes(plan, step));
    add_place(text, bti_step_place(plan, step, NULL));
    bti_str_add(text, "\n");
}

static void add_step(bti_str *text, const bti_plan *plan, size_t index, int depth, const char *(*device_name)(int)) {
    const bti_step *step = &plan->steps.items[index];
    const bti_value *output = bti_plan_output(plan, step, 0);
    const bti_storage *storage = &plan->storages.items[output->storage];
    bti_str_addf(text, "%*s%4zu  ", 4 * depth, "", index + 1);
    if (step->kind == BTI_STEP_COPY) {
        bti_str_addf(text, "copy        %s -> %s  ", device_name(step->device), device_name(storage->device));
        add_value_type(text, output);
        bti_str_addf(text, "  %lld bytes", (long long)storage->bytes);
        add_place(text, bti_step_place(plan, step, NULL));
        bti_str_add(text, "\n");
        return;
    }
    if (step->kind == BTI_STEP_COLLECTIVE) {
        add_collective(text, plan, step, device_name);
        return;
    }
    bool dense = step->op == BTI_OP_copy && step->node->op != BTI_OP_copy;
    const char *name = step->kind == BTI_STEP_KERNEL    ? "kernel"
                       : step->kind == BTI_STEP_PRODUCT ? "product"
                       : step->kind == BTI_STEP_SEGMENT ? "segment"
                       : dense                          ? "make dense"
                                                        : bti_op_info((bti_op)step->op)->name;
    bti_str_addf(text, "%-11s %s  ", name, device_name(step->device));
    int outputs = step->output_count - (step->kind == BTI_STEP_CONTROL); /* the last one is scratch memory */
    bool may_be_unread = bti_op_makes_several((bti_op)step->op);
    bool listed = false;
    for (int o = 0; o < outputs; o++) {
        const bti_value *value =
            step->op == BTI_OP_callback ? bti_plan_operand(plan, step, 0) : bti_plan_output(plan, step, o);
        if (may_be_unread && !bti_value_bytes(value)) continue; /* nobody reads it */
        if (listed) bti_str_add(text, ", ");
        listed = true;
        add_value_type(text, value);
    }
    if (step->own_kernel) bti_str_add(text, "  its own kernel");
    add_rules(text, plan, step);
    add_place(text, bti_step_place(plan, step, NULL));
    bti_str_add(text, "\n");
    if (step->kind == BTI_STEP_CONTROL) add_regions(text, &plan->controls.items[step->control], depth, device_name);
    if (!bti_step_has_kernel(step) && step->kind != BTI_STEP_SEGMENT) return;
    bti_str_addf(text, "%*s", 8 + 4 * depth, "");
    add_members(text, plan, step);
    for (int o = 0; o < step->output_count; o++) {
        bti_why why = (bti_why)plan->storages.items[bti_plan_output(plan, step, o)->storage].why;
        if (why != BTI_WHY_RESULT) bti_str_addf(text, "; stored: %s", bti_why_text(why));
    }
    bti_str_add(text, "\n");
}

void bti_plan_text(bti_str *text, const bti_plan *plan, const char *(*device_name)(int device)) {
    int kernels[DEVICES] = {0}, copies = 0, collectives = 0;
    int64_t copied = 0, reduced = 0, peak[DEVICES] = {0};
    bti_plan_memory(plan, NULL, peak, DEVICES);
    for (size_t s = 0; s < plan->steps.count; s++) {
        add_step(text, plan, s, 0, device_name);
        const bti_step *step = &plan->steps.items[s];
        if (step->kind == BTI_STEP_COPY) {
            copies++;
            copied += plan->storages.items[bti_plan_output(plan, step, 0)->storage].bytes;
        } else if (step->kind == BTI_STEP_COLLECTIVE) {
            collectives++;
            reduced += collective_bytes(plan, step);
        } else
            kernels[step->device]++;
    }
    bti_str_addf(text, "      %zu steps; %d copies between devices, %lld bytes", plan->steps.count, copies,
                 (long long)copied);
    if (collectives) bti_str_addf(text, "; %d collectives, %lld bytes", collectives, (long long)reduced);
    bti_str_add(text, "\n");
    bti_traffic traffic = bti_plan_traffic(plan);
    if (traffic.read || traffic.written) {
        bti_str_addf(text, "      computes %.6g operations, reads ", bti_plan_operations(plan));
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

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static json_t *json_of_shape(const bti_value *value) {
    json_t *shape = json_array();
    for (int i = 0; i < value->rank; i++) json_array_append_new(shape, json_integer(value->shape[i]));
    return shape;
}

static json_t *json_of_operand(const bti_plan *plan, const bti_value *value, bool output) {
    json_t *of = json_object();
    json_object_set_new(of, "dtype", json_string(bt_dtype_name(value->dtype)));
    json_object_set_new(of, "shape", json_of_shape(value));
    if (value->storage < 0) {
        json_object_set_new(of, "index", json_true());
        return of;
    }
    const bti_storage *storage = &plan->storages.items[value->storage];
    json_object_set_new(of, "storage", json_integer(value->storage));
    json_object_set_new(of, "given", json_boolean(storage->given));
    if (!output) return of;
    json_object_set_new(of, "bytes", json_integer(storage->bytes));
    if (storage->why) json_object_set_new(of, "in_memory_because", json_string(bti_why_text((bti_why)storage->why)));
    if (storage->in_place) json_object_set_new(of, "in_place", json_true());
    return of;
}

static json_t *json_of_input(const bti_plan *plan, const bti_step *step, int i) {
    json_t *of = json_of_operand(plan, bti_plan_operand(plan, step, i), false);
    if (step->kind != BTI_STEP_PRODUCT || i != step->made) return of;
    json_object_del(of, "index");
    json_object_set_new(of, "product", json_true());
    return of;
}

static json_t *json_of_place(bti_place of) {
    json_t *place = json_object();
    if (of.name) json_object_set_new(place, "call", json_string(of.name));
    if (of.label) json_object_set_new(place, "label", json_string(of.label));
    if (of.site.file) {
        json_object_set_new(place, "file", json_string(bti_site_file(of.site)));
        json_object_set_new(place, "line", json_integer(of.site.line));
    }
    return place;
}

static json_t *json_of_operations(const bti_plan *plan, const bti_step *step) {
    json_t *operations = json_array();
    for (int m = 0; m < step->member_count; m++) {
        const bti_node *node = plan->members.items[step->first_member + m];
        json_t *operation = json_of_place(node->place);
        json_object_set_new(operation, "operation", json_string(bti_op_info((bti_op)node->op)->name));
        json_object_set_new(operation, "rule", json_string(rule_text((bti_rule)node->rule)));
        json_array_append_new(operations, operation);
    }
    return operations;
}

static json_t *json_of_step(const bti_plan *plan, const bti_step *step, const char *(*device_name)(int));

static json_t *json_of_steps(const bti_plan *plan, const char *(*device_name)(int)) {
    json_t *steps = json_array();
    for (size_t s = 0; s < plan->steps.count; s++)
        json_array_append_new(steps, json_of_step(plan, &plan->steps.items[s], device_name));
    return steps;
}

static void add_json_regions(json_t *of, const bti_control *control, const char *(*device_name)(int)) {
    json_t *regions = json_array();
    for (int p = 0; p < control->plan_count; p++)
        json_array_append_new(regions, json_of_steps(&control->plans[p], device_name));
    if (control->op != BTI_OP_cond) json_object_set_new(of, "times", json_integer(control->steps));
    json_object_set_new(of, "regions", regions);
}

static json_t *json_of_step(const bti_plan *plan, const bti_step *step, const char *(*device_name)(int)) {
    static const char *const kinds[] = {"operation", "kernel", "copy", "control", "product", "collective", "segment"};
    json_t *of = json_of_place(bti_step_place(plan, step, NULL)), *inputs = json_array(), *outputs = json_array();
    json_object_set_new(of, "kind", json_string(kinds[step->kind]));
    json_object_set_new(of, "device", json_string(device_name(step->device)));
    if (step->kind == BTI_STEP_COPY) {
        int to = plan->storages.items[bti_plan_output(plan, step, 0)->storage].device;
        json_object_set_new(of, "to", json_string(device_name(to)));
    } else
        json_object_set_new(of, "rule", json_string(rule_text((bti_rule)step->node->rule)));
    if (step->kind == BTI_STEP_COLLECTIVE) {
        json_t *devices = json_array();
        for (int i = 0; i < step->group; i++)
            json_array_append_new(devices, json_string(device_name(bti_plan_device(plan, step, i))));
        json_object_set_new(of, "devices", devices);
    }
    if (step->kind == BTI_STEP_WORK || step->kind == BTI_STEP_CONTROL || step->kind == BTI_STEP_COLLECTIVE)
        json_object_set_new(of, "operation", json_string(bti_op_info((bti_op)step->op)->name));
    if (bti_step_has_kernel(step) || step->kind == BTI_STEP_SEGMENT)
        json_object_set_new(of, "operations", json_of_operations(plan, step));
    if (step->kind == BTI_STEP_CONTROL) add_json_regions(of, &plan->controls.items[step->control], device_name);
    for (int i = 0; i < step->input_count; i++) json_array_append_new(inputs, json_of_input(plan, step, i));
    for (int o = 0; o < step->output_count; o++)
        json_array_append_new(outputs, json_of_operand(plan, bti_plan_output(plan, step, o), true));
    json_object_set_new(of, "inputs", inputs);
    json_object_set_new(of, "outputs", outputs);
    return of;
}

bool bti_plan_json(bti_str *text, const bti_plan *plan, const char *(*device_name)(int device)) {
    json_t *root = json_object(), *steps = json_of_steps(plan, device_name), *devices = json_object();
    bti_traffic traffic = bti_plan_traffic(plan);
    int64_t bytes[DEVICES];
    bti_plan_memory(plan, NULL, bytes, DEVICES);
    for (int d = 0; d < DEVICES; d++)
        if (bytes[d]) json_object_set_new(devices, device_name(d), json_integer(bytes[d]));
    json_object_set_new(root, "steps", steps);
    json_object_set_new(root, "memory_bytes", devices);
    json_object_set_new(root, "operations", json_real(bti_plan_operations(plan)));
    json_object_set_new(root, "bytes_read", json_integer(traffic.read));
    json_object_set_new(root, "bytes_written", json_integer(traffic.written));
    json_object_set_new(root, "bytes_least", json_integer(traffic.least));
    char *dumped = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (!dumped) return false;
    bti_str_add(text, dumped);
    free(dumped);
    return true;
}

/* --- DOT -------------------------------------------------------------------------------------------------------------- */

static void add_dot_label(bti_str *text, const bti_plan *plan, const bti_step *step, const char *(*device_name)(int)) {
    if (step->kind == BTI_STEP_COPY)
        bti_str_addf(text, "copy\\n%s to %s", device_name(step->device),
                     device_name(plan->storages.items[bti_plan_output(plan, step, 0)->storage].device));
    else if (!bti_step_has_kernel(step))
        bti_str_addf(text, "%s", bti_op_info((bti_op)step->op)->name);
    for (int m = 0; m < step->member_count && m < 12; m++)
        bti_str_addf(text, "%s%s", m ? (m % 4 ? ", " : ",\\n") : "",
                     bti_op_info((bti_op)plan->members.items[step->first_member + m]->op)->name);
    if (step->member_count > 12) bti_str_addf(text, "\\n... %d operations", step->member_count);
    if (step->node->place.site.file)
        bti_str_addf(text, "\\n%s:%d", bti_site_file(step->node->place.site), step->node->place.site.line);
}

static void add_dot_edge(bti_str *text, const bti_plan *plan, size_t s, const bti_value *value) {
    if (value->storage < 0) return;
    const bti_storage *storage = &plan->storages.items[value->storage];
    if (storage->given)
        bti_str_addf(text, "  g%d -> s%zu", value->storage, s);
    else
        bti_str_addf(text, "  s%d -> s%zu", storage->first_step, s);
    bti_str_addf(text, " [label=\"%s ", bt_dtype_name(value->dtype));
    bti_shape_text(text, value->rank, value->shape);
    bti_str_add(text, "\"];\n");
}

void bti_plan_dot(bti_str *text, const bti_plan *plan, const char *(*device_name)(int device)) {
    bti_str_add(text, "digraph plan {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n"
                      "  edge [fontname=\"sans-serif\", fontsize=10];\n");
    for (int d = 0; d < DEVICES; d++) {
        bool open = false;
        for (size_t s = 0; s < plan->steps.count; s++) {
            const bti_step *step = &plan->steps.items[s];
            if (step->device != d) continue;
            if (!open) bti_str_addf(text, "  subgraph cluster_%d {\n    label=\"%s\";\n", d, device_name(d));
            open = true;
            bti_str_addf(text, "    s%zu [label=\"", s);
            add_dot_label(text, plan, step, device_name);
            bti_str_addf(text, "\"%s];\n", bti_step_has_kernel(step) ? ", style=\"rounded,bold\"" : "");
        }
        if (open) bti_str_add(text, "  }\n");
    }
    for (size_t g = 0; g < plan->storages.count; g++)
        if (plan->storages.items[g].given && plan->storages.items[g].last_step >= 0)
            bti_str_addf(text, "  g%zu [shape=ellipse, label=\"given\\n%s\"];\n", g,
                         device_name(plan->storages.items[g].device));
    for (size_t s = 0; s < plan->steps.count; s++)
        for (int i = 0; i < plan->steps.items[s].input_count; i++)
            add_dot_edge(text, plan, s, bti_plan_operand(plan, &plan->steps.items[s], i));
    bti_str_add(text, "}\n");
}

/* --- elements --------------------------------------------------------------------------------------------------------- */

static bti_text_kind text_kind(bt_dtype dtype) {
    if (dtype == BT_BOOL) return BTI_TEXT_BOOL;
    if (bti_dtype_is_int(dtype)) return bti_dtype_is_signed(dtype) ? BTI_TEXT_INT : BTI_TEXT_UINT;
    if (bti_dtype_is_complex(dtype)) return dtype == BT_C64 ? BTI_TEXT_C64 : BTI_TEXT_C128;
    return dtype == BT_F16 ? BTI_TEXT_F16 : dtype == BT_F64 ? BTI_TEXT_F64 : BTI_TEXT_F32;
}

/* NumPy has no bfloat16 and no 8-bit floats: they are printed as float32. NULL: memory is short. */
static float *widened(const bt_elements *elements, int64_t count) {
    const uint16_t *narrow = elements->data;
    const uint8_t *bytes = elements->data;
    bool of_bytes = bti_dtype_is_storage(elements->dtype);
    float *wide = bti_alloc((size_t)count * sizeof *wide);
    for (int64_t i = 0; wide && i < count; i++)
        wide[i] = of_bytes ? bti_f32_from_f8(elements->dtype, bytes[i]) : bti_f32_from_bf16(narrow[i]);
    return wide;
}

char *bti_elements_text(const bt_elements *elements, bti_text_style style) {
    bool narrow = elements->dtype == BT_BF16 || bti_dtype_is_storage(elements->dtype);
    int64_t count = 1;
    for (int i = 0; i < elements->shape.rank; i++) count *= elements->shape.size[i];
    float *wide = narrow ? widened(elements, count) : NULL;
    if (narrow && !wide) return NULL;
    size_t size = narrow ? sizeof *wide : bt_dtype_size(elements->dtype);
    char *text = bti_array_text(narrow ? wide : elements->data, text_kind(elements->dtype), (int)size,
                                elements->shape.rank, elements->shape.size, bt_dtype_name(elements->dtype), style);
    bti_free(wide);
    return text;
}
