/* Launching one step: a kernel, a primitive, a function of the program's, or the runs of the plans of regions. A scan launches all its steps and waits for none; a loop waits
 * for each test, a branch for its predicate. */
#include "exec/launch_step.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/buffer.h"
#include "exec/host.h"
#include "exec/series.h"
#include "exec/texts.h"
#include "ir/attention.h"
#include "ir/halves.h"

/* --- what a trace records of a step --------------------------------------------------------------------------------- */

/* made: the operand that a product makes; -1: none. */
static void count_box(bti_trace_event *event, const bti_kernel *kernel, const int64_t *extent, int made) {
    uint64_t elements = 1;
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++) elements *= (uint64_t)extent[axis];
    event->elements += elements;
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        if (kernel->operands[o].index || o == made) continue;
        *(o < kernel->input_count ? &event->read_bytes : &event->written_bytes) +=
            (uint64_t)bti_kernel_operand_bytes(kernel, o, extent);
    }
}

static void count_kernel(bti_trace_event *event, const bti_plan *plan, const bti_step *step) {
    const bti_kernel *kernel = plan->kernels.items[step->kernel];
    int made = step->kind == BTI_STEP_PRODUCT ? step->made : -1;
    for (int b = 0; b < step->box_count; b++) count_box(event, kernel, bti_plan_numbers(plan, step, b), made);
    for (int i = bti_step_kernel_inputs(step); i < step->input_count; i++)
        event->read_bytes += (uint64_t)bti_value_bytes(bti_plan_operand(plan, step, i));
}

static void count_work(bti_trace_event *event, const bti_plan *plan, const bti_step *step) {
    const bti_value *output = bti_plan_output(plan, step, 0);
    bool by_input = bti_op_makes_several((bti_op)step->op);
    const bti_value *worked_on = by_input ? bti_plan_operand(plan, step, 0) : output;
    bti_traffic traffic = {0};
    bti_step_traffic(plan, step, &traffic);
    event->read_bytes += (uint64_t)traffic.read;
    event->written_bytes += (uint64_t)traffic.written;
    event->elements = 1;
    for (int axis = 0; axis < worked_on->rank; axis++) event->elements *= (uint64_t)worked_on->shape[axis];
}

/* What it is and where it was asked for; not yet how much, nor when. */
static bti_trace_event event_of(bti_trace_kind kind, int16_t device, const bti_plan *plan, const bti_step *step,
                                const bti_trace_asked *asked, bti_place place) {
    bti_trace_event event = {.kind = (uint8_t)kind,
                             .device = device,
                             .to = device,
                             .label = place.label,
                             .file = place.site.file,
                             .line = place.site.line};
    memcpy(event.operations, asked->operations, sizeof event.operations);
    bti_step_name(event.name, sizeof event.name, plan, step);
    return event;
}

void bti_trace_step_(const bti_timing_start *start, const bti_plan *plan, const bti_step *step,
                     const bti_trace_asked *asked, bti_place place) {
    bti_trace_event event = event_of(BTI_TRACE_KERNEL, (int16_t)step->device, plan, step, asked, place);
    if (asked->own) snprintf(event.name, sizeof event.name, "%s", asked->own);
    if (bti_step_has_kernel(step))
        count_kernel(&event, plan, step);
    else
        count_work(&event, plan, step);
    bti_timing_end(step->device, start, &event);
}

void bti_trace_collective(uint64_t start, const bti_plan *plan, const bti_step *step, bti_run_member *members,
                          const bti_trace_asked *asked, bti_place place) {
    for (int m = 0; m < step->group; m++) {
        int16_t device = (int16_t)bti_plan_device(plan, step, m);
        bti_trace_event event = event_of(BTI_TRACE_COLLECTIVE, device, plan, step, asked, place);
        event.start_ns = start;
        for (int i = m; i < step->input_count; i += step->group)
            event.written_bytes += (uint64_t)bti_value_bytes(bti_plan_operand(plan, step, i));
        bti_timing_of_end(device, &members[m].end, &event, &members[m].timings);
    }
}

/* --- kernels and primitives -------------------------------------------------------------------------------------------- */

void bti_run_fail(bti_run *run, int32_t storage, bti_error *error) {
    if (run->buffers[storage])
        bti_buffer_fail(run->buffers[storage], error);
    else
        bti_error_stick(&run->errors[storage], error);
}

bti_error *bti_run_error(const bti_run *run, int32_t storage) {
    if (storage < 0) return NULL;
    return run->buffers[storage] ? bti_buffer_error(run->buffers[storage]) : atomic_load(&run->errors[storage]);
}

/* The first error of what a box reads; NULL: none. */
bti_error *bti_run_box_error(const bti_run *run, const bti_step *step, int box) {
    int inputs = step->input_count / step->box_count;
    for (int i = 0; i < inputs; i++) {
        const bti_value *input = bti_plan_operand(&run->prepared->plan, step, bti_step_operand(step, box, i));
        bti_error *error = bti_run_error(run, input->storage);
        if (error) return error;
    }
    return NULL;
}

/* The boxes whose inputs are good. */
static bt_status launch_boxes(const bti_run *run, const bti_step *step, const bti_program *program) {
    bti_box *boxes = bti_alloc((size_t)step->box_count * sizeof *boxes);
    int count = 0;
    if (!boxes) return bti_no_memory();
    for (int b = 0; b < step->box_count; b++)
        if (!bti_run_box_error(run, step, b)) bti_run_box(&run->prepared->plan, run, step, b, &boxes[count++]);
    bt_status status = bti_program_launch_boxes(program, boxes, count);
    bti_free(boxes);
    return status;
}

static bt_status launch_kernel(const bti_run *run, const bti_step *step, const bti_program *program) {
    bti_box box;
    if (step->box_count > 1) return launch_boxes(run, step, program);
    bti_run_box(&run->prepared->plan, run, step, 0, &box);
    return bti_program_launch_kernel(program, &box);
}

/* The product's address is nobody's: the device chooses where it lies, if anywhere. */
static bt_status launch_product(const bti_run *run, const bti_step *step, const bti_ready_step *ready) {
    bti_operand *operands = run->operands + ready->first_operand;
    int first = bti_step_kernel_inputs(step);
    bti_box box;
    for (int o = 0; o < 2; o++)
        operands[o].address = bti_run_address(run, bti_plan_operand(&run->prepared->plan, step, first + o));
    bti_work product = {.op = BTI_OP_matmul, .input_count = 2, .inputs = operands, .output = operands[2]};
    bti_run_box(&run->prepared->plan, run, step, 0, &box);
    return bti_program_launch_product(ready->program, &product, &box);
}

static bt_status launch_work(const bti_run *run, const bti_step *step, const bti_ready_step *ready) {
    bti_packed *layout = run->packed[step - run->prepared->plan.steps.items];
    bti_work_packed packed = layout ? bti_packed_memory(layout) : (bti_work_packed){0};
    bti_operand *operands = run->operands + ready->first_operand;
    for (int o = 0; o < step->input_count + step->output_count; o++)
        operands[o].address = bti_run_address(run, bti_plan_operand(&run->prepared->plan, step, o));
    bti_work work = {.op = (bti_op)step->op,
                     .input_count = step->input_count,
                     .inputs = operands,
                     .output = operands[step->input_count],
                     .others = operands + step->input_count + 1,
                     .other_count = step->output_count - 1,
                     .attr = ready->attr,
                     .packed = layout ? &packed : NULL};
    return bti_program_launch(ready->program, &work);
}

static bt_status call_host(const bti_run *run, const bti_step *step, const bti_ready_step *ready) {
    const bti_plan *plan = &run->prepared->plan;
    uint64_t few[8] = {0}, *addresses = few;
    int count = step->input_count + step->output_count;
    if (count > 8 && !(addresses = bti_alloc((size_t)count * sizeof *addresses))) return bti_no_memory();
    for (int o = 0; o < count; o++) addresses[o] = bti_run_address(run, bti_plan_operand(plan, step, o));
    bt_status status = bti_host_step_run(ready->host, plan, step, ready->attr, addresses);
    if (addresses != few) bti_free(addresses);
    return status;
}

static bt_status launch_segment(const bti_run *run, const bti_step *step, const bti_ready_step *ready) {
    uint64_t few[32] = {0}, *addresses = few, *next;
    int count = step->input_count + step->output_count + 1;
    if (count > 32 && !(addresses = bti_alloc((size_t)count * sizeof *addresses))) return bti_no_memory();
    next = addresses;
    for (int o = 0; o < count - 1; o++) {
        if (o == step->input_count && ready->given) *next++ = ready->given->address;
        *next++ = bti_run_address(run, bti_plan_operand(&run->prepared->plan, step, o));
    }
    bt_status status = bti_program_launch_segment(ready->program, addresses, ready->types);
    if (addresses != few) bti_free(addresses);
    return status;
}

static bt_status launch_own_kernel(const bti_run *run, const bti_step *step, const bti_ready_step *ready) {
    const bti_plan *plan = &run->prepared->plan;
    uint64_t addresses[BTI_CUSTOM_OPERANDS], there = 0;
    int count = step->input_count + step->output_count;
    if (!ready->grid.groups) return BT_OK;
    for (int o = 0; o < count; o++) {
        const bti_value *value = bti_plan_operand(plan, step, o);
        addresses[o] = bti_value_bytes(value) ? bti_run_address(run, value) : 0;
        if (addresses[o]) there = addresses[o];
    }
    for (int o = 0; o < count; o++) /* what has no elements is not read; any address will do */
        if (!addresses[o]) addresses[o] = there;
    bti_custom_launch launch = {.address_count = count,
                                .addresses = addresses,
                                .number_count = ready->number_count,
                                .numbers = ready->numbers,
                                .groups = ready->grid.groups,
                                .threads = ready->grid.threads};
    return bti_program_launch_custom(ready->program, &launch);
}

/* --- regions ------------------------------------------------------------------------------------------------------------ */

/* A run of a region's plan, whose addresses the step sets. */
typedef struct region_run {
    bti_run *run;
    const bti_plan *plan;
    int device;
} region_run;

/* What the step's operands are: addresses of inputs and outputs, and the scratch memory; and the runs of its regions. */
typedef struct bound {
    const bti_run *run;
    const bti_step *step;
    const bti_control *control;
    const region_run *regions;
    uint64_t scratch;
} bound;

static uint64_t input_address(const bound *b, int i) {
    return bti_run_address(b->run, bti_plan_operand(&b->run->prepared->plan, b->step, i));
}
static uint64_t output_address(const bound *b, int o) {
    return bti_run_address(b->run, bti_plan_output(&b->run->prepared->plan, b->step, o));
}

static bt_status begin_region(const bound *b, bti_prepared *prepared, region_run *region) {
    *region = (region_run){bti_exec_begin(prepared), &prepared->plan, b->step->device};
    if (!region->run) return bti_no_memory();
    for (size_t s = 0; s < region->plan->storages.count; s++)
        if (region->plan->storages.items[s].offset >= 0)
            region->run->addresses[s] = b->scratch + (uint64_t)region->plan->storages.items[s].offset;
    return BT_OK;
}

static void end_region(region_run *region) {
    if (region->run) bti_exec_abandon(region->run);
}

static void bind_input(const region_run *region, int i, uint64_t address) { region->run->addresses[i] = address; }

static uint64_t row_bytes(const region_run *region, int storage) {
    return (uint64_t)region->plan->storages.items[storage].bytes;
}

static int32_t result_storage(const region_run *region, int result) {
    return region->plan->values.items[region->plan->results.items[result].value].storage;
}

static void bind_output(const region_run *region, int result, uint64_t address) {
    region->run->addresses[result_storage(region, result)] = address;
}

/* All steps of the region, once. */
static bt_status launch_region(const region_run *region) {
    for (size_t s = 0; s < region->plan->steps.count; s++) {
        const bti_trace_asked *asked = &region->run->prepared->steps[s].asked;
        bti_place outer = bti_call_set_place(asked->place);
        const bti_step *step = &region->plan->steps.items[s];
        bti_timing_start start = bti_trace_step_begin(step);
        bt_status status = bti_launch_step(region->run, s);
        bti_trace_step_end(&start, region->plan, step, asked, asked->place);
        bti_call_set_place(outer);
        if (status != BT_OK) return status;
    }
    return BT_OK;
}

static bt_status copy_value(const bound *b, uint64_t to, uint64_t from, const bti_value *value) {
    return to == from ? BT_OK
                      : bti_device_copy(b->step->device, to, b->step->device, from, (size_t)bti_value_bytes(value));
}

static bool is_written_over(const bound *b, int i) { return b->control->carry_offset[i] < 0; }

/* What is carried, unchanged, as the result. */
static bt_status copy_carry(const bound *b, bool from_scratch) {
    for (int i = 0; i < b->control->carried; i++) {
        if (from_scratch && is_written_over(b, i)) continue; /* it is the result */
        uint64_t from = from_scratch ? b->scratch + (uint64_t)b->control->carry_offset[i] : input_address(b, i);
        BTI_TRY(copy_value(b, output_address(b, i), from, bti_plan_output(&b->run->prepared->plan, b->step, i)));
    }
    return BT_OK;
}

/* Where what is carried lies before step number `step` and after it: in the input at first, then in the result, or by turns there and in the scratch memory. `last` is in the
 * result. */
typedef struct carry_places {
    uint64_t before, after;
} carry_places;
static inline carry_places places_of(const bound *b, int i, int64_t step, int64_t last) {
    uint64_t result = output_address(b, i),
             other = is_written_over(b, i) ? result : b->scratch + (uint64_t)b->control->carry_offset[i];
    bool is_odd = (last - step) & 1;
    return (carry_places){step == 0 ? input_address(b, i) : is_odd ? other : result, is_odd ? result : other};
}

static void bind_scan_step(const void *context, int64_t t) {
    const bound *b = context;
    const region_run *body = b->regions;
    const bti_control *c = b->control;
    int shared = c->carried + c->by_row, results = (int)body->plan->results.count;
    uint64_t row = (uint64_t)(c->reverse ? c->steps - 1 - t : t);
    for (int i = 0; i < c->carried; i++) {
        carry_places carried = places_of(b, i, t, c->steps);
        bind_input(body, i, carried.before);
        bind_output(body, i, carried.after);
    }
    for (int i = c->carried; i < shared; i++)
        bind_input(body, i, input_address(b, i) + row * (uint64_t)c->row_move[i - c->carried]);
    for (int o = c->carried; o < results; o++)
        bind_output(body, o, output_address(b, o) + row * row_bytes(body, result_storage(body, o)));
}

static bt_status launch_scan(const bound *b) {
    const bti_control *c = b->control;
    const region_run *body = b->regions;
    bti_loop_steps loop = {.next = BTI_SERIES_FIRST,
                           .device = b->step->device,
                           .region_count = 1,
                           .regions = {body->run},
                           .rows = c->by_row || body->plan->results.count > (size_t)c->carried,
                           .bind = bind_scan_step,
                           .context = b};
    bt_status status = BT_OK;
    bool ended;
    for (int i = c->carried + c->by_row; i < b->step->input_count; i++) bind_input(body, i, input_address(b, i));
    for (int64_t t = 0; t < c->steps && status == BT_OK; t++) {
        t += bti_loop_run_series(&loop, t, c->steps - t, &ended);
        if (t == c->steps) break;
        bind_scan_step(b, t);
        status = launch_region(body);
    }
    bti_loop_end(&loop);
    return status == BT_OK && !c->steps ? copy_carry(b, false) : status;
}

/* A bool scalar, when the device has filled it in. */
static bt_status read_bool(const bound *b, uint64_t address, bool *value) {
    uint8_t byte = 0;
    BTI_TRY(bti_device_finish(b->step->device));
    BTI_TRY(bti_device_download(b->step->device, &byte, address, sizeof byte));
    *value = byte != 0;
    return BT_OK;
}

enum { TEST, BODY }; /* the regions of a while */

/* As if an even number of steps followed. */
static void bind_while_step(const void *context, int64_t t) {
    const bound *b = context;
    for (int i = 0; i < b->control->carried; i++) {
        carry_places carried = places_of(b, i, t, 0);
        bind_input(&b->regions[TEST], i, carried.before);
        bind_input(&b->regions[BODY], i, carried.before);
        bind_output(&b->regions[BODY], i, carried.after);
    }
}

/* All steps, up to the one that ends the loop: *t. */
static bt_status run_while(const bound *b, bti_loop_steps *loop, int64_t *t) {
    int64_t most = b->control->steps ? b->control->steps : INT64_MAX;
    bool goes_on, ended;
    for (*t = 0;; ++*t) {
        *t += bti_loop_run_series(loop, *t, most - *t, &ended);
        if (ended || *t == most) return BT_OK;
        bind_while_step(b, *t);
        BTI_TRY(launch_region(&b->regions[TEST]));
        BTI_TRY(read_bool(b, loop->test, &goes_on));
        if (!goes_on) return BT_OK;
        BTI_TRY(launch_region(&b->regions[BODY]));
    }
}

static bt_status launch_while(const bound *b) {
    bti_loop_steps loop = {.next = BTI_SERIES_FIRST,
                           .device = b->step->device,
                           .region_count = 2,
                           .regions = {b->regions[TEST].run, b->regions[BODY].run},
                           .tested = true,
                           .test = b->scratch + (uint64_t)b->control->test_offset,
                           .bind = bind_while_step,
                           .context = b};
    int64_t t;
    bind_output(&b->regions[TEST], 0, loop.test);
    for (int i = b->control->carried; i < b->step->input_count; i++) {
        bind_input(&b->regions[TEST], i, input_address(b, i));
        bind_input(&b->regions[BODY], i, input_address(b, i));
    }
    bt_status status = run_while(b, &loop, &t);
    bti_loop_end(&loop);
    if (status != BT_OK || (t % 2 == 0 && t > 0)) return status;
    return copy_carry(b, t > 0);
}

static bt_status launch_way(const bound *b, const region_run *way) {
    for (int i = 1; i < b->step->input_count; i++) bind_input(way, i - 1, input_address(b, i));
    for (int o = 0; o < (int)way->plan->results.count; o++) bind_output(way, o, output_address(b, o));
    return launch_region(way);
}

static bt_status launch_control(const bti_run *run, size_t s) {
    const bti_plan *plan = &run->prepared->plan;
    const bti_step *step = &plan->steps.items[s];
    bti_prepared *const *prepared = run->prepared->steps[s].regions;
    region_run regions[BTI_MAX_REGIONS] = {{0}};
    bound b = {run, step, &plan->controls.items[step->control], regions, 0};
    bool truth = true;
    b.scratch = output_address(&b, step->output_count - 1);
    bt_status status = step->op == BTI_OP_cond ? read_bool(&b, input_address(&b, 0), &truth) : BT_OK;
    for (int r = 0; r < b.control->plan_count && status == BT_OK; r++)
        if (step->op != BTI_OP_cond || r == !truth) status = begin_region(&b, prepared[r], &regions[r]);
    if (status == BT_OK)
        status = step->op == BTI_OP_scan    ? launch_scan(&b)
                 : step->op == BTI_OP_while ? launch_while(&b)
                                            : launch_way(&b, &regions[!truth]);
    for (int r = 0; r < BTI_MAX_REGIONS; r++) end_region(&regions[r]);
    return status;
}

static bt_status launch_library(const bti_run *run, const bti_step *step, const bti_program *program) {
    uint64_t addresses[BTI_LIBRARY_OPERANDS];
    for (int o = 0; o < step->input_count + step->output_count; o++)
        addresses[o] = bti_run_address(run, bti_plan_operand(&run->prepared->plan, step, o));
    return bti_program_launch_library(program, addresses);
}

static bt_status launch_once(const bti_run *run, const bti_step *step, const bti_ready_step *ready) {
    if (step->by_library) return launch_library(run, step, ready->program);
    if (step->kind == BTI_STEP_KERNEL) return launch_kernel(run, step, ready->program);
    if (step->kind == BTI_STEP_SEGMENT) return launch_segment(run, step, ready);
    return step->kind == BTI_STEP_PRODUCT ? launch_product(run, step, ready) : launch_work(run, step, ready);
}

/* A launch that lacks a text does nothing, and is repeated with it. */
bt_status bti_launch_step(const bti_run *run, size_t s) {
    const bti_step *step = &run->prepared->plan.steps.items[s];
    const bti_ready_step *ready = &run->prepared->steps[s];
    if (step->kind == BTI_STEP_CONTROL) return launch_control(run, s);
    if (bti_step_is_host(step)) return call_host(run, step, ready);
    if (step->own_kernel) return launch_own_kernel(run, step, ready);
    bt_status status = launch_once(run, step, ready);
    while (status != BT_OK && bti_texts_supply(ready->program, &status) && status == BT_OK)
        status = launch_once(run, step, ready);
    return status;
}
