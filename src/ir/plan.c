#include "ir/plan.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "ir/attention.h"
#include "ir/conv.h"

static void free_control(bti_control *control) {
    for (int p = 0; p < control->plan_count; p++) bti_plan_free(&control->plans[p]);
    bti_free(control->plans);
    bti_free(control->carry_offset);
    bti_free(control->row_move);
}

void bti_plan_free(bti_plan *plan) {
    for (size_t c = 0; c < plan->controls.count; c++) free_control(&plan->controls.items[c]);
    bti_vec_free(&plan->controls);
    bti_vec_free(&plan->storages);
    bti_vec_free(&plan->values);
    bti_vec_free(&plan->operands);
    bti_vec_free(&plan->steps);
    bti_vec_free(&plan->inner);
    bti_vec_free(&plan->results);
    for (size_t k = 0; k < plan->kernels.count; k++) bti_free(plan->kernels.items[k]);
    bti_vec_free(&plan->kernels);
    bti_vec_free(&plan->numbers);
    bti_vec_free(&plan->scalars);
    bti_vec_free(&plan->members);
    bti_vec_free(&plan->arenas);
    bti_vec_free(&plan->donations);
}

/* Its operations, each once, as far as there is room; moves, casts and numbers only where there is nothing else. */
static void name_segment(char *name, size_t size, const bti_plan *plan, const bti_step *step) {
    bool named[BTI_OP_COUNT] = {false};
    size_t length = 0;
    for (int m = 0; m < step->member_count; m++) {
        bti_op op = (bti_op)plan->members.items[step->first_member + m]->op;
        bti_class class = bti_op_info(op)->class;
        if (named[op] || class == BTI_MOVEMENT || class == BTI_SOURCE || op == BTI_OP_cast) continue;
        named[op] = true;
        if (length + strlen(bti_op_info(op)->name) + 5 > size) {
            snprintf(name + length, size - length, "...");
            return;
        }
        length += (size_t)snprintf(name + length, size - length, "%s%s", length ? "+" : "", bti_op_info(op)->name);
    }
    if (!length) snprintf(name, size, "%s", step->input_count ? "move" : "fill");
}

void bti_step_name(char *name, size_t size, const bti_plan *plan, const bti_step *step) {
    static const char product[] = "matmul+";
    if (step->kind == BTI_STEP_KERNEL)
        bti_kernel_name(name, size, plan->kernels.items[step->kernel]);
    else if (step->kind == BTI_STEP_PRODUCT && size > sizeof product) {
        memcpy(name, product, sizeof product);
        bti_kernel_name(name + sizeof product - 1, size - sizeof product + 1, plan->kernels.items[step->kernel]);
    } else if (step->kind == BTI_STEP_SEGMENT)
        name_segment(name, size, plan, step);
    else
        snprintf(name, size, "%s", bti_op_info((bti_op)step->op)->name);
}

static size_t same_bytes(int device, size_t bytes) {
    (void)device;
    return bytes;
}

void bti_plan_memory(const bti_plan *plan, size_t (*block_bytes)(int device, size_t bytes), int64_t *bytes,
                     int devices) {
    if (!block_bytes) block_bytes = same_bytes;
    for (int d = 0; d < devices; d++)
        bytes[d] = (size_t)d < plan->arenas.count ? (int64_t)block_bytes(d, (size_t)plan->arenas.items[d]) : 0;
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        if (bti_plan_reserves(plan, storage) && storage->device < devices)
            bytes[storage->device] += (int64_t)block_bytes(storage->device, (size_t)storage->bytes);
    }
}

int64_t bti_value_bytes(const bti_value *value) {
    int64_t count = (int64_t)bt_dtype_size(value->dtype);
    for (int i = 0; i < value->rank; i++)
        if (value->layout.stride[i] || value->shape[i] == 0) count *= value->shape[i];
    return count;
}

static int64_t stored_bytes(const bti_value *value) { return value->storage < 0 ? 0 : bti_value_bytes(value); }

static int64_t taken_bytes(const bti_plan *plan, const bti_step *step, const bti_kernel *kernel, int input) {
    int box = input / kernel->input_count, operand = input % kernel->input_count;
    return bti_kernel_operand_bytes(kernel, operand, bti_plan_numbers(plan, step, box));
}

/* The bytes that a step reads of an input; rows that are taken by number as often as they are taken. */
static int64_t read_bytes_of(const bti_plan *plan, const bti_step *step, int input) {
    const bti_kernel *kernel = step->kind == BTI_STEP_KERNEL ? plan->kernels.items[step->kernel] : NULL;
    bool takes = step->op == BTI_OP_take || step->op == BTI_OP_gather_axis;
    if (kernel && kernel->operands[input % kernel->input_count].taken) return taken_bytes(plan, step, kernel, input);
    if (step->kind == BTI_STEP_WORK && takes && input == 0) return stored_bytes(bti_plan_output(plan, step, 0));
    return stored_bytes(bti_plan_operand(plan, step, input));
}

/* Of all steps of a scan; of a loop whose number is not known, one step with its test; of a branch, the larger way. */
static void add_control_traffic(bti_traffic *traffic, const bti_control *control) {
    int64_t times = control->op == BTI_OP_scan ? control->steps : 1;
    bti_traffic all = {0};
    for (int p = 0; p < control->plan_count; p++) {
        bti_traffic one = bti_plan_traffic(&control->plans[p]);
        if (control->op == BTI_OP_cond) {
            if (one.read + one.written >= all.read + all.written) all = one;
        } else
            all.read += one.read, all.written += one.written;
    }
    traffic->read += times * all.read;
    traffic->written += times * all.written;
}

/* reads[s]: what is read of storage s, each view of it once. */
static void add_reads(const bti_plan *plan, int64_t *of_value, int64_t *reads) {
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        for (int i = 0; i < step->input_count; i++) {
            int32_t value = plan->operands.items[step->first_operand + i];
            int64_t bytes = read_bytes_of(plan, step, i);
            if (bytes > of_value[value]) of_value[value] = bytes;
        }
    }
    for (size_t v = 0; v < plan->values.count; v++)
        if (plan->values.items[v].storage >= 0) reads[plan->values.items[v].storage] += of_value[v];
}

/* Of what is given, what is read; of what is kept, all. Without host memory to count in: all of both. */
static int64_t least_bytes(const bti_plan *plan) {
    int64_t least = 0, *of_value = bti_calloc(plan->values.count + plan->storages.count + 1, sizeof *of_value);
    int64_t *reads = of_value + plan->values.count;
    if (of_value) add_reads(plan, of_value, reads);
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        bool kept = storage->last_step == (int32_t)plan->steps.count;
        if (storage->last_step < 0 || !(storage->given || kept)) continue;
        least += storage->given && of_value && reads[s] < storage->bytes ? reads[s] : storage->bytes;
    }
    bti_free(of_value);
    return least;
}

/* Whether it is an update that is written over what it changes: the change alone is moved. */
static bool is_in_place(const bti_plan *plan, const bti_step *step) {
    return bti_step_is_update(step) && plan->storages.items[bti_plan_output(plan, step, 0)->storage].in_place;
}

void bti_step_traffic(const bti_plan *plan, const bti_step *step, bti_traffic *traffic) {
    bool changes = is_in_place(plan, step);
    for (int i = changes; i < step->input_count; i++) traffic->read += read_bytes_of(plan, step, i);
    for (int o = 0; o < step->output_count && step->op != BTI_OP_callback; o++) /* of which nothing comes */
        traffic->written += stored_bytes(changes ? bti_plan_operand(plan, step, 2) : bti_plan_output(plan, step, o));
}

bti_traffic bti_plan_traffic(const bti_plan *plan) {
    bti_traffic traffic = {0};
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        if (step->kind == BTI_STEP_COPY || step->kind == BTI_STEP_COLLECTIVE) continue;
        if (step->kind == BTI_STEP_CONTROL) {
            add_control_traffic(&traffic, &plan->controls.items[step->control]);
            continue;
        }
        bti_step_traffic(plan, step, &traffic);
    }
    traffic.least = least_bytes(plan);
    return traffic;
}

/* --- operations ------------------------------------------------------------------------------------------------------- */

static double count_of(const bti_value *value) {
    double count = 1;
    for (int i = 0; i < value->rank; i++) count *= (double)value->shape[i];
    return count;
}

/* Of one element. */
static bool counts(bti_op op) {
    bti_class class = bti_op_info(op)->class;
    return class == BTI_REDUCE || (class == BTI_ELEMENTWISE && op != BTI_OP_cast && op != BTI_OP_bitcast);
}

static double operations_of_box(const bti_plan *plan, const bti_step *step, int box) {
    const bti_kernel *kernel = plan->kernels.items[step->kernel];
    double points = 1, rows = 1, operations = 0;
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) {
        double extent = (double)bti_plan_numbers(plan, step, box)[axis];
        points *= extent;
        if (bti_kernel_kept_axes(kernel) >> axis & 1) rows *= extent;
    }
    for (int i = 0; i < kernel->instr_count; i++) {
        const bti_instr *instr = &kernel->instrs[i];
        bool whole_row = instr->level == BTI_ROW && !bti_instr_reduces(instr);
        if (counts((bti_op)instr->op)) operations += whole_row ? rows : points;
    }
    return operations;
}

static double operations_of_product(const bti_value *left, const bti_value *made) {
    return 2 * count_of(made) * (double)left->shape[left->rank - 1];
}

/* Each element of y is a sum of as many products as an output has weights. */
static double operations_of_conv(const bti_plan *plan, const bti_step *step) {
    const bti_value *of[BTI_CONV_ARRAYS];
    for (int i = 0; i < 2; i++) of[bti_conv_input((bti_op)step->op, i)] = bti_plan_operand(plan, step, i);
    of[bti_conv_made((bti_op)step->op)] = bti_plan_output(plan, step, 0);
    double outputs = (double)of[BTI_CONV_W]->shape[0];
    return outputs > 0 ? 2 * count_of(of[BTI_CONV_Y]) * count_of(of[BTI_CONV_W]) / outputs : 0;
}

/* A product of queries and keys and one of weights and values; of gradients five. */
static double operations_of_attention(const bti_plan *plan, const bti_step *step) {
    const bti_value *query = bti_plan_operand(plan, step, BTI_ATTENTION_Q);
    double keys = (double)bti_plan_operand(plan, step, BTI_ATTENTION_K)->shape[2];
    return (step->op == BTI_OP_attention ? 4 : 10) * count_of(query) * keys;
}

static double operations_of_work(const bti_plan *plan, const bti_step *step) {
    const bti_value *first = bti_plan_operand(plan, step, 0), *output = bti_plan_output(plan, step, 0);
    bti_class class = bti_op_info((bti_op)step->op)->class;
    if (step->op == BTI_OP_matmul) return operations_of_product(first, output);
    if (bti_op_is_attention((bti_op)step->op)) return operations_of_attention(plan, step);
    if (bti_op_is_conv((bti_op)step->op)) return operations_of_conv(plan, step);
    if (bti_op_scatters((bti_op)step->op)) return count_of(bti_plan_operand(plan, step, 2));
    if (class == BTI_REDUCE || class == BTI_SCAN || class == BTI_ORDER) return count_of(first);
    return counts((bti_op)step->op) ? count_of(output) : 0;
}

/* Of a loop whose steps nobody knows, one; of branches, the dearer one. */
static double sum_of_control(const bti_plan *plan, const bti_step *step, double (*count)(const bti_plan *region)) {
    const bti_control *control = &plan->controls.items[step->control];
    double sum = 0;
    for (int p = 0; p < control->plan_count; p++) {
        double of_region = count(&control->plans[p]);
        if (control->op != BTI_OP_cond)
            sum += of_region;
        else if (of_region > sum)
            sum = of_region;
    }
    return control->op == BTI_OP_scan ? sum * (double)control->steps : sum;
}

double bti_plan_launches(const bti_plan *plan) {
    double launches = 0;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        if (step->kind == BTI_STEP_CONTROL)
            launches += sum_of_control(plan, step, bti_plan_launches);
        else
            launches += step->kind != BTI_STEP_COPY && step->kind != BTI_STEP_COLLECTIVE;
    }
    return launches;
}

double bti_plan_operations(const bti_plan *plan) {
    double operations = 0;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        for (int box = 0; bti_step_has_kernel(step) && box < step->box_count; box++)
            operations += operations_of_box(plan, step, box);
        if (step->kind == BTI_STEP_PRODUCT)
            operations += operations_of_product(bti_plan_operand(plan, step, bti_step_kernel_inputs(step)),
                                                bti_plan_operand(plan, step, step->made));
        if (step->kind == BTI_STEP_CONTROL) operations += sum_of_control(plan, step, bti_plan_operations);
        if (step->kind == BTI_STEP_WORK) operations += operations_of_work(plan, step);
        for (int i = 0; step->kind == BTI_STEP_SEGMENT && i < step->inner_count; i++)
            operations += operations_of_work(plan, &plan->inner.items[step->first_inner + i]);
    }
    return operations;
}

uint64_t bti_plan_hash(const bti_plan *plan) {
    uint64_t hash = 0;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        const int64_t what[] = {step->kind, step->op, step->device, step->box_count, step->input_count};
        hash = XXH3_64bits_withSeed(what, sizeof what, hash);
        if (bti_step_has_kernel(step)) hash ^= bti_kernel_hash(plan->kernels.items[step->kernel]);
        for (int o = 0; o < step->input_count + step->output_count; o++) {
            const bti_value *value = bti_plan_operand(plan, step, o);
            hash = XXH3_64bits_withSeed(value->shape, (size_t)value->rank * sizeof *value->shape, hash);
        }
    }
    return hash;
}
