/* A map that reads a matrix product point by point becomes the product's epilogue, where the device can apply it as it makes the product: bias, activation,
 * residual, the update of weights by their gradient. The product then need not be in memory. docs/decisions/0025 */
#include "compile/fuser.h"

#define NARROW 8       /* columns: of fewer, a row is no line worth a loop of its own */
#define MOST_INSTRS 64 /* a thread of a GPU has a copy of the program for each of its 16 elements */

/* What is known of the steps as they are, in order, and where those that were joined run. */
typedef struct joiner {
    bti_planner *planner;
    bti_plan *plan;
    int32_t *with;      /* by step: of a product, its map; of a map, its product; -1 */
    bool *early;        /* by step, of both: they run in the product's place, else in the map's */
    int32_t *maker;     /* by storage: the step that leaves it, -1 */
    int32_t *made;      /* by storage: the place in the order where it is there; -1: given */
    int32_t *reads;     /* by storage: how many operands are in it */
    int32_t *last_read; /* by storage: the last step that reads it, -1 */
    bool *kept;         /* by storage: a result */
    int32_t *copies;    /* by step: copies between devices before it */
} joiner;

static const bti_value *operand_of(const joiner *j, int32_t step, int operand) {
    return bti_plan_operand(j->plan, &j->plan->steps.items[step], operand);
}

static void note_steps(joiner *j) {
    bti_plan *plan = j->plan;
    int32_t copies = 0;
    for (size_t s = 0; s < plan->storages.count; s++) j->maker[s] = j->made[s] = j->last_read[s] = -1;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        j->with[s] = -1;
        j->copies[s] = copies;
        copies += step->kind == BTI_STEP_COPY;
        for (int i = 0; i < step->input_count + step->output_count; i++) {
            int32_t storage = bti_plan_operand(plan, step, i)->storage;
            if (storage < 0) continue;
            if (i >= step->input_count)
                j->maker[storage] = j->made[storage] = (int32_t)s;
            else
                j->reads[storage]++, j->last_read[storage] = (int32_t)s;
        }
    }
    for (size_t r = 0; r < plan->results.count; r++)
        j->kept[plan->values.items[plan->results.items[r].value].storage] = true;
}

/* --- which map is the epilogue of which product ------------------------------------------------------------------------- */

static int64_t points_of(const int64_t *shape, int axes) {
    int64_t points = 1;
    for (int i = 0; i < axes; i++) points *= shape[i];
    return points;
}

/* Whether the map's points are the elements of the operand in the order of memory. */
static bool reads_in_rows(const joiner *j, const bti_step *map, int operand) {
    const bti_kernel *kernel = j->plan->kernels.items[map->kernel];
    int axes = bti_kernel_axes(kernel);
    const int64_t *extent = bti_plan_numbers(j->plan, map, 0), *stride = extent + axes * (operand + 1);
    const bti_value *value = bti_plan_operand(j->plan, map, operand);
    int64_t dense = (int64_t)bt_dtype_size(value->dtype);
    if (value->layout.offset || points_of(extent, axes) != points_of(value->shape, value->rank)) return false;
    for (int axis = axes - 1; axis >= 0; dense *= extent[axis--])
        if (extent[axis] > 1 && stride[axis] != dense) return false;
    return true;
}

/* Takes `size` points off the end of the last axis that is left; false: it is made of parts of axes. */
static bool take_axis(int64_t *extent, int *axes, int64_t size) {
    if (size == 1) return true;
    if (!*axes || extent[*axes - 1] % size) return false;
    extent[*axes - 1] /= size;
    if (extent[*axes - 1] == 1) --*axes;
    return true;
}

/* Whether the nest's last two axes can be the product's rows and columns; *batch: how many axes stand before them then. */
static bool splits_into(const joiner *j, const bti_step *map, const bti_value *product, int *batch) {
    int64_t extent[BTI_MAX_RANK], rows = product->shape[product->rank - 2], columns = product->shape[product->rank - 1];
    *batch = bti_kernel_axes(j->plan->kernels.items[map->kernel]);
    memcpy(extent, bti_plan_numbers(j->plan, map, 0), (size_t)*batch * sizeof *extent);
    if (columns < NARROW || !take_axis(extent, batch, columns) || !take_axis(extent, batch, rows)) return false;
    while (*batch && extent[*batch - 1] == 1) --*batch;
    return *batch + 2 <= BTI_MAX_RANK;
}

/* Rows by number are read from anywhere, not as the product's tiles come. */
static bool takes_rows(const joiner *j, const bti_step *map) {
    const bti_kernel *kernel = j->plan->kernels.items[map->kernel];
    for (int o = 0; o < kernel->input_count; o++)
        if (kernel->operands[o].taken) return true;
    return false;
}

/* Whether the map may read this operand from the product that makes it. */
static bool is_made_by_product(const joiner *j, int32_t map, int operand) {
    const bti_step *step = &j->plan->steps.items[map];
    int32_t value = j->plan->operands.items[step->first_operand + operand];
    int32_t storage = j->plan->values.items[value].storage, product = storage < 0 ? -1 : j->maker[storage];
    int batch;
    if (product < 0 || j->plan->storages.items[storage].given || takes_rows(j, step)) return false;
    const bti_step *maker = &j->plan->steps.items[product];
    if (maker->kind != BTI_STEP_WORK || maker->op != BTI_OP_matmul || j->with[product] >= 0) return false;
    if (operand_of(j, product, 0)->dtype != bti_plan_output(j->plan, maker, 0)->dtype) return false; /* of bytes */
    if (maker->device != step->device || bti_read_after(j->planner->fuser, value) >= 0) return false;
    for (int i = 0; i < step->input_count; i++) /* it is read in one way only */
        if (i != operand && operand_of(j, map, i)->storage == storage) return false;
    return operand_of(j, map, operand)->dtype == bti_plan_output(j->plan, maker, 0)->dtype &&
           reads_in_rows(j, step, operand) && splits_into(j, step, bti_plan_output(j->plan, maker, 0), &batch);
}

static bool is_there(const joiner *j, int32_t value, int32_t place) {
    return j->made[j->plan->values.items[value].storage] < place;
}

/* Whether all that the map reads, but the product, is there before the product. */
static bool is_ready(const joiner *j, int32_t map, int operand, int32_t product) {
    const bti_step *step = &j->plan->steps.items[map];
    for (int i = 0; i < step->input_count; i++) {
        int32_t value = j->plan->operands.items[step->first_operand + i];
        if (i == operand || j->plan->values.items[value].storage < 0) continue; /* the product, an index */
        int32_t after = bti_read_after(j->planner->fuser, value);
        if (!is_there(j, value, product) || (after >= 0 && !is_there(j, after, product))) return false;
    }
    return true;
}

static int64_t temporary_bytes(const joiner *j, const bti_value *value) {
    if (value->storage < 0 || j->kept[value->storage]) return 0;
    const bti_storage *storage = &j->plan->storages.items[value->storage];
    return storage->given ? 0 : storage->bytes;
}

/* Whether anybody else needs the product in memory. */
static bool is_stored(const joiner *j, int32_t product) {
    int32_t storage = bti_plan_output(j->plan, &j->plan->steps.items[product], 0)->storage;
    return j->kept[storage] || j->reads[storage] > 1;
}

/* Whether no more memory is in use at any time: early, what the map leaves takes no more than the product did; late, no factor lives longer for it. */
static bool keeps_less(const joiner *j, int32_t product, int32_t map, bool early) {
    const bti_step *maker = &j->plan->steps.items[product], *step = &j->plan->steps.items[map];
    int64_t saved = is_stored(j, product) ? 0 : temporary_bytes(j, bti_plan_output(j->plan, maker, 0)), left = 0;
    if (map == product + 1) return true;
    for (int o = 0; o < step->output_count && early; o++) left += temporary_bytes(j, bti_plan_output(j->plan, step, o));
    for (int i = 0; i < maker->input_count && !early; i++) {
        const bti_value *input = operand_of(j, product, i);
        if (input->storage >= 0 && j->last_read[input->storage] < map && temporary_bytes(j, input)) return false;
    }
    return left <= saved;
}

/* Whether the map is the first that reads the product, or waits for it. */
static bool reads_first(const joiner *j, int32_t product, int32_t map) {
    int32_t storage = bti_plan_output(j->plan, &j->plan->steps.items[product], 0)->storage;
    for (int32_t s = product + 1; s < map; s++) {
        const bti_step *step = &j->plan->steps.items[s];
        for (int i = 0; i < step->input_count; i++) {
            int32_t value = j->plan->operands.items[step->first_operand + i];
            if (j->plan->values.items[value].storage < 0) continue; /* an index */
            int32_t after = bti_read_after(j->planner->fuser, value);
            if (j->plan->values.items[value].storage == storage) return false;
            if (after >= 0 && j->plan->values.items[after].storage == storage) return false;
        }
    }
    return true;
}

/* One that runs in halves draws half as many random words there. */
static bool may_be_epilogue(const joiner *j, const bti_step *step) {
    if (step->kind != BTI_STEP_KERNEL || step->box_count > 1 || step->halved) return false;
    const bti_kernel *kernel = j->plan->kernels.items[step->kernel];
    return !kernel->reduced && j->planner->how->target(step->device)->epilogues && kernel->instr_count <= MOST_INSTRS &&
           bti_kernel_operands(kernel) < BTI_KERNEL_OPERANDS;
}

/* Joins the map to the last of the products that it can be the epilogue of. No product moves behind a copy between devices, whose receiver would wait. */
static void join_map(joiner *j, int32_t map) {
    const bti_step *step = &j->plan->steps.items[map];
    int32_t found = -1;
    int operand = -1;
    for (int i = 0; i < step->input_count; i++) {
        int32_t storage = operand_of(j, map, i)->storage;
        if (storage < 0 || j->maker[storage] <= found || !is_made_by_product(j, map, i)) continue;
        found = j->maker[storage];
        operand = i;
    }
    if (found < 0) return;
    bool early = is_ready(j, map, operand, found) && keeps_less(j, found, map, true);
    bool late = j->copies[map] == j->copies[found] && reads_first(j, found, map) && keeps_less(j, found, map, false);
    if (!early && !late) return;
    j->with[found] = map;
    j->with[map] = found;
    j->early[found] = j->early[map] = early;
    j->plan->steps.items[map].made = operand;
    int32_t place = early ? found : map;
    for (int o = 0; o < step->output_count; o++) j->made[bti_plan_output(j->plan, step, o)->storage] = place;
    j->made[bti_plan_output(j->plan, &j->plan->steps.items[found], 0)->storage] = place;
}

/* --- both as one step ---------------------------------------------------------------------------------------------------- */

/* The nest of a map over other axes: those of the batch, then rows and columns. */
typedef struct nest {
    int axes, operands;
    int64_t extent[BTI_MAX_RANK], stride[BTI_KERNEL_OPERANDS][BTI_MAX_RANK];
} nest;

/* Takes `size` points off the end of the last axis that is left, as axis `to`. */
static void split_axis(nest *n, int64_t *extent, int64_t stride[][BTI_MAX_RANK], int *axes, int to, int64_t size) {
    n->extent[to] = size;
    for (int o = 0; o < n->operands; o++)
        n->stride[o][to] = size == 1 ? 0 : stride[o][*axes - 1]; /* of one point: nobody steps */
    if (size == 1) return;
    extent[*axes - 1] /= size;
    for (int o = 0; o < n->operands; o++) stride[o][*axes - 1] *= size;
    if (extent[*axes - 1] == 1) --*axes;
}

static void split_nest(const joiner *j, const bti_step *map, const bti_value *product, nest *n) {
    const bti_kernel *kernel = j->plan->kernels.items[map->kernel];
    int64_t extent[BTI_MAX_RANK], stride[BTI_KERNEL_OPERANDS][BTI_MAX_RANK];
    int axes = bti_kernel_axes(kernel), batch = 0;
    const int64_t *numbers = bti_plan_numbers(j->plan, map, 0);
    n->operands = bti_kernel_operands(kernel);
    memcpy(extent, numbers, (size_t)axes * sizeof *extent);
    for (int o = 0; o < n->operands; o++) memcpy(stride[o], numbers + (o + 1) * axes, (size_t)axes * sizeof *numbers);
    splits_into(j, map, product, &batch);
    n->axes = batch + 2;
    split_axis(n, extent, stride, &axes, batch + 1, product->shape[product->rank - 1]);
    split_axis(n, extent, stride, &axes, batch, product->shape[product->rank - 2]);
    for (int axis = 0; axis < batch; axis++) {
        n->extent[axis] = extent[axis];
        for (int o = 0; o < n->operands; o++) n->stride[o][axis] = stride[o][axis];
    }
}

static void step_over_one_row(nest *n, const bti_kernel *kernel) {
    int row = n->axes - 2;
    for (int o = kernel->input_count; o < n->operands && n->extent[row] == 1; o++) /* outputs move along each axis */
        n->stride[o][row] = n->stride[o][row + 1] * n->extent[row + 1];
}

/* The kernel over the nest; `leaf`: the number of the instruction that is stored as a further output, -1. */
static void write_epilogue(const bti_kernel *map, const nest *n, int leaf, bti_kernel *kernel) {
    *kernel = *map;
    kernel->outer = (uint8_t)(n->axes - 1);
    if (leaf >= 0) {
        bti_kernel_operand *stored = &kernel->operands[bti_kernel_operands(kernel)];
        *stored = (bti_kernel_operand){.dtype = kernel->instrs[leaf].dtype, .value = (uint16_t)leaf};
        kernel->output_count++;
    }
    for (int o = 0; o < bti_kernel_operands(kernel); o++) {
        bti_kernel_operand *operand = &kernel->operands[o];
        int64_t unit = operand->index ? 1 : (int64_t)bt_dtype_size((bt_dtype)operand->dtype);
        operand->moves = 0;
        for (int axis = 0; axis < n->axes; axis++)
            if (n->stride[o][axis]) operand->moves |= (uint8_t)(1u << axis);
        operand->unit = n->stride[o][n->axes - 1] == unit;
    }
    bti_kernel_set_stages(kernel);
}

static int leaf_of(const bti_kernel *kernel, int operand) {
    int i = 0;
    while (kernel->instrs[i].op != BTI_OP_leaf || kernel->instrs[i].arg[0] != operand) i++;
    return i;
}

/* Inputs of the kernel, the product's, outputs; the numbers of the nest; the members. */
static bool push_parts(joiner *j, bti_written *out, const bti_step *maker, const bti_step *map, const nest *n,
                       bti_step *step) {
    bti_plan *plan = j->plan;
    const int32_t *of_map = plan->operands.items + map->first_operand,
                  *of_maker = plan->operands.items + maker->first_operand;
    bool stores = n->operands > map->input_count + map->output_count;
    if (!bti_vec_reserve(&out->operands, (size_t)(n->operands + 2)) || !bti_vec_reserve(&plan->values, 1) ||
        !bti_vec_reserve(&plan->numbers, (size_t)(n->axes * (n->operands + 1))) ||
        !bti_vec_reserve(&plan->members, (size_t)(map->member_count + 1)))
        return false;
    bti_value made = plan->values.items[of_maker[maker->input_count]];
    made.storage = -1;
    plan->values.items[plan->values.count++] = made;
    for (int i = 0; i < map->input_count; i++)
        out->operands.items[out->operands.count++] = i == map->made ? (int32_t)plan->values.count - 1 : of_map[i];
    for (int i = 0; i < maker->input_count; i++) out->operands.items[out->operands.count++] = of_maker[i];
    for (int o = 0; o < map->output_count; o++)
        out->operands.items[out->operands.count++] = of_map[map->input_count + o];
    if (stores) out->operands.items[out->operands.count++] = of_maker[maker->input_count];
    step->first_number = (int32_t)plan->numbers.count;
    for (int axis = 0; axis < n->axes; axis++) plan->numbers.items[plan->numbers.count++] = n->extent[axis];
    for (int o = 0; o < n->operands; o++)
        for (int axis = 0; axis < n->axes; axis++) plan->numbers.items[plan->numbers.count++] = n->stride[o][axis];
    step->first_member = (int32_t)plan->members.count;
    step->member_count = map->member_count + 1;
    plan->members.items[plan->members.count++] = maker->node;
    for (int m = 0; m < map->member_count; m++)
        plan->members.items[plan->members.count++] = plan->members.items[map->first_member + m];
    return true;
}

static bool push_joined(joiner *j, bti_written *out, int32_t product) {
    const bti_step maker = j->plan->steps.items[product], map = j->plan->steps.items[j->with[product]];
    const bti_kernel *kernel = j->plan->kernels.items[map.kernel];
    bool stores = is_stored(j, product);
    bti_step step = map;
    nest *n = bti_alloc(sizeof *n);
    bti_kernel *joined = bti_alloc(sizeof *joined);
    bool fine = n && joined;
    if (fine) {
        split_nest(j, &map, bti_plan_output(j->plan, &maker, 0), n);
        if (stores) memcpy(n->stride[n->operands++], n->stride[map.made], sizeof *n->stride);
        step_over_one_row(n, kernel);
        write_epilogue(kernel, n, stores ? leaf_of(kernel, map.made) : -1, joined);
        step.kind = BTI_STEP_PRODUCT;
        step.op = BTI_OP_matmul;
        step.kernel = bti_intern_kernel(j->planner, joined);
        step.input_count += maker.input_count;
        step.output_count += stores;
        step.first_operand = (int32_t)out->operands.count;
        if (!stores) j->plan->storages.items[bti_plan_output(j->plan, &maker, 0)->storage].why = BTI_WHY_NONE;
        fine = !j->planner->failed && push_parts(j, out, &maker, &map, n, &step) && bti_vec_push(&out->steps, step);
    }
    bti_free(n);
    bti_free(joined);
    return fine;
}

static bool push_step(joiner *j, bti_written *out, int32_t number) {
    bti_step step = j->plan->steps.items[number];
    int32_t count = step.input_count + step.output_count, first = step.first_operand;
    if (j->with[number] >= 0) {
        bool is_product = j->with[number] > number;
        if (j->early[number] != is_product) return true;
        return push_joined(j, out, is_product ? number : j->with[number]);
    }
    step.first_operand = (int32_t)out->operands.count;
    if (!bti_vec_reserve(&out->operands, (size_t)count) || !bti_vec_push(&out->steps, step)) return false;
    for (int32_t i = 0; i < count; i++) out->operands.items[out->operands.count++] = j->plan->operands.items[first + i];
    return true;
}

static bool find_joins(joiner *j) {
    bool any = false;
    note_steps(j);
    for (size_t s = 0; s < j->plan->steps.count; s++) {
        if (may_be_epilogue(j, &j->plan->steps.items[s])) join_map(j, (int32_t)s);
        any = any || j->with[s] >= 0;
    }
    return any;
}

void bti_pass_epilogues(bti_planner *planner) {
    bti_plan *plan = planner->plan;
    bool any = false;
    for (size_t s = 0; s < plan->steps.count && planner->how->fusing == BTI_FUSED && !any; s++) {
        const bti_step *step = &plan->steps.items[s];
        any = step->op == BTI_OP_matmul && step->kind == BTI_STEP_WORK && planner->how->target(step->device)->epilogues;
    }
    if (!any) return;
    joiner j = {.planner = planner, .plan = plan};
    size_t steps = plan->steps.count, storages = plan->storages.count;
    int32_t *numbers = bti_calloc(2 * steps + 4 * storages, sizeof *numbers);
    bool *truths = bti_calloc(steps + storages, sizeof *truths);
    planner->failed = !numbers || !truths;
    if (!planner->failed) {
        j.with = numbers, j.copies = j.with + steps, j.maker = j.copies + steps, j.made = j.maker + storages;
        j.reads = j.made + storages, j.last_read = j.reads + storages, j.early = truths, j.kept = truths + steps;
        bti_written out = {0};
        any = find_joins(&j);
        for (size_t s = 0; s < steps && any && !planner->failed; s++)
            planner->failed = !push_step(&j, &out, (int32_t)s);
        if (any) bti_put_steps(plan, &out);
    }
    bti_free(numbers);
    bti_free(truths);
}
