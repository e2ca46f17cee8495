/* Plans for programs (JSON) and as pictures (DOT). */
#include <jansson.h>
#include <stdlib.h>

#include "ir/print.h"

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static json_t *shape_of(const bti_value *value) {
    json_t *shape = json_array();
    for (int i = 0; i < value->rank; i++) json_array_append_new(shape, json_integer(value->shape[i]));
    return shape;
}

static json_t *operand(const bti_plan *plan, const bti_value *value, bool output) {
    json_t *of = json_object();
    json_object_set_new(of, "dtype", json_string(bt_dtype_name(value->dtype)));
    json_object_set_new(of, "shape", shape_of(value));
    if (value->storage < 0) {
        json_object_set_new(of, "index", json_true());
        return of;
    }
    const bti_storage *storage = &plan->storages.items[value->storage];
    json_object_set_new(of, "storage", json_integer(value->storage));
    json_object_set_new(of, "given", json_boolean(storage->external != NULL));
    if (!output) return of;
    json_object_set_new(of, "bytes", json_integer(storage->bytes));
    if (storage->why) json_object_set_new(of, "in_memory_because", json_string(bti_why_text((bti_why)storage->why)));
    if (storage->in_place) json_object_set_new(of, "in_place", json_true());
    return of;
}

static json_t *place_of(const bti_node *node) {
    json_t *place = json_object();
    if (node->place.name) json_object_set_new(place, "call", json_string(node->place.name));
    if (node->place.site.file) {
        json_object_set_new(place, "file", json_string(bti_site_file(node->place.site)));
        json_object_set_new(place, "line", json_integer(node->place.site.line));
    }
    return place;
}

static json_t *operations_of(const bti_plan *plan, const bti_step *step) {
    json_t *operations = json_array();
    for (int m = 0; m < step->member_count; m++) {
        const bti_node *node = plan->members.items[step->first_member + m];
        json_t *operation = place_of(node);
        json_object_set_new(operation, "operation", json_string(bti_op_info((bti_op)node->op)->name));
        json_object_set_new(operation, "rule", json_string(bti_rule_text((bti_rule)node->rule)));
        json_array_append_new(operations, operation);
    }
    return operations;
}

static json_t *step_of(const bti_plan *plan, const bti_step *step, const char *(*device_name)(int)) {
    static const char *const kinds[] = {"operation", "kernel", "copy"};
    json_t *of = place_of(step->node), *inputs = json_array(), *outputs = json_array();
    json_object_set_new(of, "kind", json_string(kinds[step->kind]));
    json_object_set_new(of, "device", json_string(device_name(step->device)));
    if (step->kind == BTI_STEP_COPY) {
        int to = plan->storages.items[bti_plan_output(plan, step, 0)->storage].device;
        json_object_set_new(of, "to", json_string(device_name(to)));
    } else
        json_object_set_new(of, "rule", json_string(bti_rule_text((bti_rule)step->node->rule)));
    if (step->kind == BTI_STEP_WORK)
        json_object_set_new(of, "operation", json_string(bti_op_info((bti_op)step->op)->name));
    if (step->kind == BTI_STEP_KERNEL) json_object_set_new(of, "operations", operations_of(plan, step));
    for (int i = 0; i < step->input_count; i++)
        json_array_append_new(inputs, operand(plan, bti_plan_operand(plan, step, i), false));
    for (int o = 0; o < step->output_count; o++)
        json_array_append_new(outputs, operand(plan, bti_plan_output(plan, step, o), true));
    json_object_set_new(of, "inputs", inputs);
    json_object_set_new(of, "outputs", outputs);
    return of;
}

#define DEVICES 64

bool bti_plan_json(bti_str *text, const bti_plan *plan, const char *(*device_name)(int device)) {
    json_t *root = json_object(), *steps = json_array(), *devices = json_object();
    bti_traffic traffic = bti_plan_traffic(plan);
    int64_t bytes[DEVICES];
    bti_plan_memory(plan, NULL, bytes, DEVICES);
    for (size_t s = 0; s < plan->steps.count; s++)
        json_array_append_new(steps, step_of(plan, &plan->steps.items[s], device_name));
    for (int d = 0; d < DEVICES; d++)
        if (bytes[d]) json_object_set_new(devices, device_name(d), json_integer(bytes[d]));
    json_object_set_new(root, "steps", steps);
    json_object_set_new(root, "memory_bytes", devices);
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

static void add_label(bti_str *text, const bti_plan *plan, const bti_step *step, const char *(*device_name)(int)) {
    if (step->kind == BTI_STEP_COPY)
        bti_str_addf(text, "copy\\n%s to %s", device_name(step->device),
                     device_name(plan->storages.items[bti_plan_output(plan, step, 0)->storage].device));
    else if (step->kind == BTI_STEP_WORK)
        bti_str_addf(text, "%s", bti_op_info((bti_op)step->op)->name);
    for (int m = 0; m < step->member_count && m < 12; m++)
        bti_str_addf(text, "%s%s", m ? (m % 4 ? ", " : ",\\n") : "",
                     bti_op_info((bti_op)plan->members.items[step->first_member + m]->op)->name);
    if (step->member_count > 12) bti_str_addf(text, "\\n... %d operations", step->member_count);
    if (step->node->place.site.file)
        bti_str_addf(text, "\\n%s:%d", bti_site_file(step->node->place.site), step->node->place.site.line);
}

static void add_edge(bti_str *text, const bti_plan *plan, size_t s, const bti_value *value) {
    if (value->storage < 0) return;
    const bti_storage *storage = &plan->storages.items[value->storage];
    if (storage->external)
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
            add_label(text, plan, step, device_name);
            bti_str_addf(text, "\"%s];\n", step->kind == BTI_STEP_KERNEL ? ", style=\"rounded,bold\"" : "");
        }
        if (open) bti_str_add(text, "  }\n");
    }
    for (size_t g = 0; g < plan->storages.count; g++)
        if (plan->storages.items[g].external && plan->storages.items[g].last_step >= 0)
            bti_str_addf(text, "  g%zu [shape=ellipse, label=\"given\\n%s\"];\n", g,
                         device_name(plan->storages.items[g].device));
    for (size_t s = 0; s < plan->steps.count; s++)
        for (int i = 0; i < plan->steps.items[s].input_count; i++)
            add_edge(text, plan, s, bti_plan_operand(plan, &plan->steps.items[s], i));
    bti_str_add(text, "}\n");
}
