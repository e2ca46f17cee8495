#include "array/plan_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "base/lock.h"
#include "base/log.h"
#include "device/device.h"
#include "exec/exec.h"
#include "ir/print.h"

/* --- names ------------------------------------------------------------------------------------------------------------ */

static const bti_op_name op_names[] = {
#define BTI_NAME(public_name, log_name, class) {#public_name, log_name, BTI_AUTOCAST_##class},
#include "array/names.def"
#undef BTI_NAME
};
enum { NAME_COUNT = sizeof op_names / sizeof *op_names };

const bti_op_name *bti_name_at(int i) { return i >= 0 && i < NAME_COUNT ? &op_names[i] : NULL; }

static int compare_public_name(const void *key, const void *row) {
    return strcmp(key, ((const bti_op_name *)row)->public_name);
}

static const bti_op_name *row_of(const char *public_name) {
    return bsearch(public_name, op_names, NAME_COUNT, sizeof *op_names, compare_public_name);
}

const char *bti_log_name(const char *public_name) {
    const bti_op_name *row = row_of(public_name);
    return row ? row->log_name : NULL;
}

bti_autocast_class bti_autocast_class_of(const char *public_name) {
    const bti_op_name *row = row_of(public_name);
    return row ? row->autocast : BTI_AUTOCAST_BODY;
}

/* --- operations and copies -------------------------------------------------------------------------------------------- */

const char *bti_plan_device_name(int device) { return bt_device_name(bti_device_at(device)); }

/* public_name: what the node is logged as; NULL: not at all. device: where it runs. */
static void log_operation(const bti_node *node, const char *public_name, int device) {
    const char *name = public_name ? bti_log_name(public_name) : NULL,
               *where = bt_device_long_name(bti_device_at(device));
    if (name && node->host && node->host->name) name = node->host->name;
    if (!name || (node->in_gradient && !bti_flag_bool(BTI_FLAG_log_gradients))) return;
    const char *of = node->in_gradient && node->place.name ? bti_log_name(node->place.name) : NULL,
               *label = node->place.label;
    bti_str text = {0};
    if (node->in_gradient)
        bti_str_addf(&text, " (gradient of %s)", of ? of : node->place.name ? node->place.name : "a call");
    if (label) bti_str_addf(&text, " as \"%s\"", label);
    bti_log("Executing op %s%s in device %s", name, bti_str_text(&text), where);
    bti_str_free(&text);
}

/* Of a loop or branch: what its bodies are made of, once however often they run. */
static void log_bodies(const bti_node *node, int device) {
    for (int r = 0; node->tuple && r < node->tuple->region_count; r++) {
        const bti_region *region = atomic_load(&node->tuple->regions[r]);
        for (int i = 0; i < region->node_count; i++) {
            log_operation(region->nodes[i], atomic_load(&region->nodes[i]->logged), device);
            log_bodies(region->nodes[i], device);
        }
    }
}

void bti_log_order(const bti_order *order) {
    if (!bti_flag_bool(BTI_FLAG_log_device_placement)) return;
    for (size_t i = 0; i < order->count; i++) {
        bti_node *node = order->items[i];
        const char *name = atomic_exchange(&node->logged, NULL);
        log_operation(node, name, node->device);
        if (name) log_bodies(node, node->device);
    }
}

void bti_log_copies(const bti_plan *plan, bti_node *const *nodes) {
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        if (step->kind != BTI_STEP_COPY || !step->reader->log_copies) continue;
        const bti_value *sent = bti_plan_output(plan, step, 0);
        const bti_storage *to = &plan->storages.items[sent->storage];
        const bti_place *place = &bti_run_node(nodes, step->reader)->place;
        bti_str text = {0};
        bti_shape_text(&text, sent->rank, sent->shape);
        bti_str_addf(&text, " from %s to %s, %lld bytes", bt_device_name(bti_device_at(step->device)),
                     bt_device_name(bti_device_at(to->device)), (long long)to->bytes);
        if (place->name && *place->name) bti_str_addf(&text, ", for %s", place->name);
        if (place->label) bti_str_addf(&text, " as \"%s\"", place->label);
        if (place->site.file) bti_str_addf(&text, " at %s:%d", bti_site_file(place->site), place->site.line);
        bti_log("Copying %s %s", bt_dtype_name(sent->dtype), bti_str_text(&text));
        bti_str_free(&text);
    }
}

#define REMEMBERED 16 /* plans */

/* Protects what number_of_plan remembers. */
BTI_STATIC_LOCK(numbers_lock, plan_log)

/* The number of a plan with this text among the last ones, and whether it was there. */
static uint64_t number_of_plan(const char *text, bool *again) {
    static struct { uint64_t number, hash; } last[REMEMBERED];
    static uint64_t count;
    uint64_t hash = 0, number = 0;
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001B3);
    bti_lock_take(&numbers_lock);
    for (int i = 0; i < REMEMBERED && !number; i++)
        if (last[i].number && last[i].hash == hash) number = last[i].number;
    *again = number;
    if (!number) {
        number = ++count;
        last[count % REMEMBERED].number = count;
        last[count % REMEMBERED].hash = hash;
    }
    bti_lock_give(&numbers_lock);
    return number;
}

static void log_explained_plan(const bti_plan *plan, const bti_str *passes, int form) {
    bti_str text = {0};
    bool again;
    if (form == BTI_EXPLAIN_JSON)
        (void)bti_plan_json(&text, plan, bti_plan_device_name);
    else if (form == BTI_EXPLAIN_PASSES)
        bti_str_add(&text, bti_str_text(passes));
    else
        (form == BTI_EXPLAIN_DOT ? bti_plan_dot : bti_plan_text)(&text, plan, bti_plan_device_name);
    unsigned long long number = number_of_plan(bti_str_text(&text), &again);
    int length = (int)text.length;
    if (length && bti_str_text(&text)[length - 1] == '\n') length--;
    if (form == BTI_EXPLAIN_JSON && again)
        bti_log("{\"plan\":%llu,\"again\":true}", number);
    else if (form == BTI_EXPLAIN_JSON)
        bti_log("{\"plan\":%llu,%.*s", number, length - 1, bti_str_text(&text) + 1);
    else if (again)
        bti_log(form == BTI_EXPLAIN_DOT ? "// plan %llu again" : "plan %llu again", number);
    else if (form == BTI_EXPLAIN_DOT)
        bti_log("%.*s", length, bti_str_text(&text));
    else
        bti_log("plan %llu\n%.*s", number, length, bti_str_text(&text));
    bti_str_free(&text);
}

void bti_log_plan(const bti_plan *plan, const bti_str *passes) {
    bti_log_copies(plan, NULL);
    int form = bti_flag_choice(BTI_FLAG_explain);
    if (form != BTI_EXPLAIN_OFF && plan->steps.count) log_explained_plan(plan, passes, form);
}
