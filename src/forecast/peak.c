/* How much memory arrays and calls will take, computed from their plans, and the largest batch that fits. */
#include <berth/view.h>

#include "array/eval.h"
#include "array/claim.h"
#include "base/flags.h"
#include "base/sized.h"
#include "compile/compile.h"
#include "device/device.h"
#include "function/ready_call.h"
#include "function/shared.h"
#include "function/versions.h"

typedef struct forecast {
    int devices;
    size_t before[BTI_MAX_DEVICES]; /* in use */
    size_t in_use[BTI_MAX_DEVICES]; /* after what was added so far */
    size_t peak[BTI_MAX_DEVICES];
    bt_cost *cost; /* of the body of a call, where it is asked for; NULL */
} forecast;

static bt_status begin(forecast *usage) {
    *usage = (forecast){.devices = bti_device_count()};
    for (int d = 0; d < usage->devices; d++) {
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        BTI_TRY(bt_memory(bti_device_at(d), &memory));
        usage->before[d] = usage->in_use[d] = usage->peak[d] = memory.used;
    }
    return BT_OK;
}

/* What is made and stays. */
static void add_kept(forecast *usage, int device, size_t bytes) {
    usage->in_use[device] += bti_block_bytes(device, bytes);
    if (usage->in_use[device] > usage->peak[device]) usage->peak[device] = usage->in_use[device];
}

static void add_plan(forecast *usage, const bti_plan *plan) {
    int64_t taken[BTI_MAX_DEVICES];
    bti_plan_memory(plan, bti_block_bytes, taken, usage->devices);
    for (int d = 0; d < usage->devices; d++)
        if (usage->in_use[d] + (size_t)taken[d] > usage->peak[d]) usage->peak[d] = usage->in_use[d] + (size_t)taken[d];
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        if (bti_plan_keeps(plan, storage)) add_kept(usage, storage->device, (size_t)storage->bytes);
    }
}

/* --- of arrays ------------------------------------------------------------------------------------------------------ */

static bt_status plan_nodes(bti_node *const *wanted, size_t count, bti_order *order, bti_plan *plan) {
    BTI_TRY(bti_claim(wanted, count, order));
    for (size_t i = 0; i < order->count; i++) {
        const bti_node *node = order->items[i];
        if (node->symbolic)
            return bti_fail(BT_FAILED_PRECONDITION, "a function's sizes are known at a call: bt_peak_call");
        for (int k = 0; k < node->input_count; k++)
            if (atomic_load(&node->inputs[k]->state) == BTI_FAILED) return bti_fail_with(node->inputs[k]->error);
    }
    bti_planning how = bti_planning_with(bti_fusing_now(), NULL);
    return bti_compile(order, wanted, count, &how, plan);
}

/* What stands for a node (stand_ins may be NULL) gets the layout that it will have. */
static void lay_out(const bti_plan *plan, bti_node *const *nodes, bti_node *const *stand_ins, int count) {
    for (size_t r = 0; r < plan->results.count; r++)
        for (int i = 0; i < count && stand_ins; i++)
            if (nodes[i] == plan->results.items[r].node)
                stand_ins[i]->layout = plan->values.items[plan->results.items[r].value].layout;
}

static bt_status add_nodes(forecast *usage, bti_node *const *nodes, bti_node *const *stand_ins, int count) {
    bti_nodes wanted = {0};
    bti_order order;
    bti_plan plan = {0};
    BTI_TRY(bti_eval_wanted(nodes, count, &wanted));
    bt_status status = plan_nodes(wanted.items, wanted.count, &order, &plan);
    if (status == BT_OK) add_plan(usage, &plan);
    if (status == BT_OK) lay_out(&plan, nodes, stand_ins, count);
    bti_plan_free(&plan);
    bti_claim_end(&order);
    bti_vec_free(&wanted);
    return status;
}

static bt_status tell(const forecast *usage, bt_peak *peaks, int *peak_count) {
    int room = *peak_count, count = 0;
    for (int d = 0; d < usage->devices; d++) {
        if (!usage->peak[d]) continue;
        if (count < room) peaks[count] = (bt_peak){bti_device_at(d), usage->before[d], usage->peak[d]};
        count++;
    }
    *peak_count = count;
    return BT_OK;
}

static bt_status check_room(const bt_peak *peaks, const int *peak_count) {
    if (!peak_count) return bti_fail(BT_INVALID_ARGUMENT, "peak_count is NULL");
    return bti_check_list(peaks, *peak_count, "peaks");
}

bt_status bt_peak_all(bt_array *const *arrays, int count, bt_peak *peaks, int *peak_count) {
    BTI_PUBLIC("bt_peak_all");
    BTI_TRY(check_room(peaks, peak_count));
    BTI_TRY(bti_check_list(arrays, count, "arrays"));
    for (int i = 0; i < count; i++) BTI_TRY(bti_fail_with(bti_array_error(arrays[i])));
    bti_node **nodes = bti_calloc((size_t)count, sizeof *nodes);
    if (!nodes) return bti_no_memory();
    for (int i = 0; i < count; i++) nodes[i] = bti_node_of(arrays[i]);
    forecast usage;
    bt_status status = begin(&usage);
    if (status == BT_OK) status = add_nodes(&usage, nodes, NULL, count);
    bti_free(nodes);
    return status == BT_OK ? tell(&usage, peaks, peak_count) : status;
}

/* --- of calls ------------------------------------------------------------------------------------------------------- */

/* What a call is given: arguments, then values of variables. All are retained. */
typedef struct call {
    bt_function *function;
    int given_count;
    bti_node **given;
    int pending_count;
    bti_node **pending; /* those that the call would have computed first */
    bti_node **to_come; /* what stands for these in `given`; borrowed */
} call;

static void call_end(call *c) {
    for (int i = 0; i < c->given_count && c->given; i++) bti_node_release(c->given[i]);
    for (int i = 0; i < c->pending_count; i++) bti_node_release(c->pending[i]);
    bti_free(c->given);
    bti_free(c->pending);
    bti_free(c->to_come);
}

/* A node that says what will be there, and holds nothing. */
static bti_node *to_come(const bti_node *like, int rank, const int64_t *shape) {
    bti_layout layout;
    bti_layout_dense(rank, shape, &layout);
    bti_node *node = bti_node_done(BTI_OP_leaf, (bt_dtype)like->dtype, rank, shape, NULL, NULL, &layout);
    if (!node) return NULL;
    node->device = like->device;
    node->weak = like->weak;
    node->place = like->place;
    return node;
}

static bt_status give_array(call *c, int index, bti_node *node) {
    if (node->symbolic) return bti_fail(BT_FAILED_PRECONDITION, "argument %d is an input of a function", index + 1);
    bool pending = atomic_load(&node->state) == BTI_PENDING;
    c->given[index] = pending ? to_come(node, node->rank, node->shape) : bti_node_retain(node);
    if (!c->given[index]) return bti_no_memory();
    if (!pending) return BT_OK;
    c->to_come[c->pending_count] = c->given[index];
    c->pending[c->pending_count++] = bti_node_retain(node);
    return BT_OK;
}

static bt_status give_shape(forecast *usage, call *c, int index, const bt_shape *shape) {
    const bti_node *input = c->function->inputs[index];
    int64_t bytes = (int64_t)bt_dtype_size((bt_dtype)input->dtype);
    bool fits = shape->rank == input->rank;
    for (int d = 0; d < input->rank && fits; d++)
        fits = shape->size[d] >= 0 && !__builtin_mul_overflow(bytes, shape->size[d], &bytes);
    if (!fits) return bti_fail(BT_INVALID_ARGUMENT, "shape %d cannot be that of the function's input", index + 1);
    c->given[index] = to_come(input, shape->rank, shape->size);
    if (!c->given[index]) return bti_no_memory();
    add_kept(usage, input->device, (size_t)bytes);
    return BT_OK;
}

static bt_status give_all(forecast *usage, call *c, bt_array *const *arguments, const bt_shape *shapes) {
    bt_function *f = c->function;
    size_t count = (size_t)f->input_count + f->read.count;
    c->given = bti_calloc(count, sizeof *c->given);
    c->pending = bti_calloc(count, sizeof *c->pending);
    c->to_come = bti_calloc(count, sizeof *c->to_come);
    bti_node **values = bti_calloc(f->read.count, sizeof *values);
    bt_status status = c->given && c->pending && c->to_come && values ? BT_OK : bti_no_memory();
    if (status == BT_OK) c->given_count = (int)count;
    for (int i = 0; i < f->input_count && status == BT_OK; i++) {
        bt_array *argument = arguments ? arguments[i] : NULL;
        if (argument) status = bti_fail_with(bti_array_error(argument));
        if (status == BT_OK)
            status = argument ? give_array(c, i, bti_node_of(argument)) : give_shape(usage, c, i, &shapes[i]);
    }
    if (status == BT_OK && !bti_shared_values(f->read.items, f->replicas.items, f->read.count, values))
        status = bti_no_memory();
    for (size_t i = 0; i < f->read.count && status == BT_OK; i++)
        status = give_array(c, f->input_count + (int)i, values[i]);
    for (size_t i = 0; i < f->read.count && values; i++) bti_node_release(values[i]);
    bti_free(values);
    return status;
}

static void count_cost(const bti_plan *plan, bt_cost *cost) {
    bti_traffic traffic = bti_plan_traffic(plan);
    int64_t memory[BTI_MAX_DEVICES];
    cost->operations = bti_plan_operations(plan);
    cost->bytes_read = traffic.read, cost->bytes_written = traffic.written, cost->bytes_least = traffic.least;
    bti_plan_memory(plan, NULL, memory, BTI_MAX_DEVICES);
    for (int d = 0; d < BTI_MAX_DEVICES; d++) cost->memory_bytes += memory[d];
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        if (step->kind != BTI_STEP_COPY) continue;
        cost->bytes_copied += plan->storages.items[bti_plan_output(plan, step, 0)->storage].bytes;
        cost->copies++;
    }
    cost->kernels = (int64_t)bti_plan_launches(plan);
}

static bt_status add_body(forecast *usage, const call *c) {
    bti_plan plan = {0};
    bti_error *before = bti_error_last(), *cause;
    bt_error_clear();
    bti_ready_call *ready = bti_ready_call_plan(c->function, c->given, bti_plan_setting_now(), &plan);
    if (ready) add_plan(usage, &plan);
    if (ready && usage->cost) count_cost(&plan, usage->cost);
    bti_plan_free(&plan);
    bti_ready_call_release(ready);
    cause = ready ? before : bti_error_last();
    bt_status status = bti_fail_with(cause);
    if (cause != before) bti_error_release(cause);
    bti_error_release(before);
    if (ready) return BT_OK;
    return status != BT_OK ? status : bti_fail(BT_FAILED_PRECONDITION, "such a call of the function cannot be planned");
}

static bt_status add_call(forecast *usage, bt_function *f, bt_array *const *arguments, const bt_shape *shapes) {
    call c = {.function = f};
    bt_status status = give_all(usage, &c, arguments, shapes);
    if (status == BT_OK) status = add_nodes(usage, c.pending, c.to_come, c.pending_count);
    if (status == BT_OK) status = add_body(usage, &c);
    call_end(&c);
    return status;
}

static bt_status check_call(const bt_function *f, const char *name, int argument_count) {
    BTI_TRY(bti_handle_check(BTI_OWNED_FUNCTION, f, name));
    if (argument_count == f->input_count) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "the function takes %d arguments, not %d", f->input_count, argument_count);
}

static bt_status check_arguments(bt_array *const *arguments, const bt_shape *shapes, int count) {
    for (int i = 0; i < count && !shapes; i++)
        if (!arguments || !arguments[i])
            return bti_fail(BT_INVALID_ARGUMENT, "argument %d is NULL, and there are no shapes", i + 1);
    return BT_OK;
}

bt_status bt_peak_call(bt_function *f, bt_array *const *arguments, const bt_shape *shapes, int argument_count,
                       bt_peak *peaks, int *peak_count) {
    BTI_PUBLIC("bt_peak_call");
    BTI_TRY(check_room(peaks, peak_count));
    BTI_TRY(check_call(f, "bt_peak_call", argument_count));
    BTI_TRY(check_arguments(arguments, shapes, argument_count));
    forecast usage;
    BTI_TRY(begin(&usage));
    BTI_TRY(add_call(&usage, f, arguments, shapes));
    return tell(&usage, peaks, peak_count);
}

#define MEMBER(name) BTI_MEMBER(bt_cost, name)
static const bti_member cost_members[] = {MEMBER(size),          MEMBER(operations),  MEMBER(bytes_read),
                                          MEMBER(bytes_written), MEMBER(bytes_least), MEMBER(bytes_copied),
                                          MEMBER(memory_bytes),  MEMBER(kernels),     MEMBER(copies)};
#undef MEMBER
static const bti_sized_type cost_layout =
    BTI_SIZED_TYPE(bt_cost, "contents of cost", "bt_cost cost = BT_COST_INIT", cost_members, NULL);

bt_status bt_function_cost(bt_function *f, bt_array *const *arguments, const bt_shape *shapes, int argument_count,
                           bt_cost *cost) {
    BTI_PUBLIC("bt_function_cost");
    BTI_TRY(bti_sized_check(&cost_layout, "bt_function_cost", cost));
    BTI_TRY(check_call(f, "bt_function_cost", argument_count));
    BTI_TRY(check_arguments(arguments, shapes, argument_count));
    bt_cost counted = BT_COST_INIT;
    forecast usage;
    BTI_TRY(begin(&usage));
    usage.cost = &counted;
    BTI_TRY(add_call(&usage, f, arguments, shapes));
    bti_info_give(&cost_layout, &counted, cost);
    return BT_OK;
}

char *bt_peak_text(const bt_peak *peaks, int count) {
    BTI_PUBLIC("bt_peak_text");
    if (bti_check_list(peaks, count, "peaks") != BT_OK) return NULL;
    bti_str text = {0};
    bti_str_add(&text, count ? "" : "nothing in use\n");
    for (int i = 0; i < count; i++) {
        bti_str_addf(&text, "%s: ", bt_device_name(peaks[i].device));
        bti_str_add_bytes_size(&text, peaks[i].peak);
        bti_str_add(&text, ", of which ");
        bti_str_add_bytes_size(&text, peaks[i].in_use);
        bti_str_add(&text, " in use now\n");
    }
    char *taken = bti_str_take(&text);
    if (!taken) (void)!bti_no_memory();
    return taken;
}

/* --- the largest batch ---------------------------------------------------------------------------------------------- */

#define MOST_ROWS (INT64_C(1) << 40)

typedef struct search {
    bt_function *function;
    bt_array *const *arguments;
    bt_shape *shapes;               /* of the arguments that are NULL */
    size_t limits[BTI_MAX_DEVICES]; /* SIZE_MAX: none */
} search;

static bt_status set_limits(search *s, const bt_device *device, size_t limit) {
    for (int d = 0; d < bti_device_count(); d++) {
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        s->limits[d] = SIZE_MAX;
        if (device && bti_device_id(device) != d) continue;
        BTI_TRY(bt_memory(bti_device_at(d), &memory));
        size_t own = memory.limit ? memory.limit : memory.total,
               reach = memory.device_free ? memory.device_free + memory.used + memory.cached : 0;
        if (reach && (!own || reach < own)) own = reach;
        size_t most = limit ? limit : own, scattered = bti_memory_scattered(d);
        if (most) s->limits[d] = most > scattered ? most - scattered : 0;
    }
    return BT_OK;
}

static bt_status set_shapes(search *s) {
    bool any = false;
    for (int i = 0; i < s->function->input_count; i++) {
        const bti_node *input = s->function->inputs[i];
        if (s->arguments && s->arguments[i]) continue;
        bool leads = input->rank && bti_size_is_symbolic(input->shape[0]);
        for (int d = 1; d < input->rank && leads; d++) leads = !bti_size_is_symbolic(input->shape[d]);
        if (!leads)
            return bti_fail(BT_INVALID_ARGUMENT,
                            "argument %d is NULL, but of the function's input not just the leading size is unknown",
                            i + 1);
        s->shapes[i] = bti_shape_of(input->shape, input->rank);
        any = true;
    }
    return any ? BT_OK : bti_fail(BT_INVALID_ARGUMENT, "no argument is NULL: none has the batch as its leading size");
}

static bt_status fits(search *s, int64_t batch, bool *fit) {
    forecast usage;
    BTI_TRY(begin(&usage));
    for (int i = 0; i < s->function->input_count; i++)
        if (s->shapes[i].rank) s->shapes[i].size[0] = batch;
    BTI_TRY(add_call(&usage, s->function, s->arguments, s->shapes));
    *fit = true;
    for (int d = 0; d < usage.devices; d++) *fit = *fit && usage.peak[d] <= s->limits[d];
    return BT_OK;
}

static bt_status find_largest(search *s, int64_t *batch) {
    int64_t good = 0, bad = 1;
    for (bool fit = true; fit && good < MOST_ROWS;) {
        BTI_TRY(fits(s, bad, &fit));
        if (fit) {
            good = bad;
            bad *= 2;
        }
    }
    while (good < MOST_ROWS && bad - good > 1) {
        int64_t middle = good + (bad - good) / 2;
        bool fit;
        BTI_TRY(fits(s, middle, &fit));
        *(fit ? &good : &bad) = middle;
    }
    *batch = good;
    return BT_OK;
}

bt_status bt_largest_batch(bt_function *f, bt_array *const *arguments, int argument_count, const bt_device *device,
                           size_t limit, int64_t *batch) {
    BTI_PUBLIC("bt_largest_batch");
    if (!batch) return bti_fail(BT_INVALID_ARGUMENT, "batch is NULL");
    *batch = 0;
    BTI_TRY(check_call(f, "bt_largest_batch", argument_count));
    search s = {.function = f, .arguments = arguments};
    s.shapes = bti_calloc((size_t)argument_count, sizeof *s.shapes);
    if (!s.shapes) return bti_no_memory();
    bt_status status = set_limits(&s, device, limit);
    if (status == BT_OK) status = set_shapes(&s);
    if (status == BT_OK) status = find_largest(&s, batch);
    bti_free(s.shapes);
    return status;
}
