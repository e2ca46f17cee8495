/* How long storages live, and where temporaries lie: offsets in one arena per device, found before anything runs. */
#include "compile/planner.h"

#define ALIGN 64 /* bytes */

/* Whether the copy goes on beside later steps of the device that it copies from. */
static bool is_sent(const bti_planner *planner, const bti_step *copy) {
    const bti_target_facts *from = planner->how->target(copy->device);
    int to = bti_value_device(planner, planner->plan->operands.items[copy->first_operand + 1]);
    return from == planner->how->target(to) ? from->sends : from->is_fetched;
}

/* What is sent does not lie where later steps may write. */
static void keep_what_is_sent(bti_planner *planner) {
    bti_plan *plan = planner->plan;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        if (step->kind != BTI_STEP_COPY || !is_sent(planner, step)) continue;
        bti_storage *from = &plan->storages.items[bti_plan_operand(plan, step, 0)->storage];
        from->own_block = from->own_block || !from->given;
    }
}

/* Storages live from the step that writes them to the last that reads them; kept ones to the end. */
static void find_lifetimes(const bti_planner *planner) {
    bti_plan *plan = planner->plan;
    for (size_t s = 0; s < plan->storages.count; s++)
        plan->storages.items[s].first_step = plan->storages.items[s].last_step = -1;
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        for (int i = 0; i < step->input_count + step->output_count; i++) {
            int32_t number = bti_plan_operand(plan, step, i)->storage;
            if (number < 0) continue;
            bti_storage *storage = &plan->storages.items[number];
            if (i >= step->input_count) storage->first_step = (int32_t)s;
            if (i >= step->input_count)
                storage->own_block =
                    !planner->how->share || step->kind == BTI_STEP_COPY || bti_loads_graphs(planner, storage->device);
            storage->last_step = (int32_t)s;
        }
    }
    for (size_t r = 0; r < plan->results.count; r++)
        plan->storages.items[plan->values.items[plan->results.items[r].value].storage].last_step =
            (int32_t)plan->steps.count;
}

static bool is_temporary(const bti_plan *plan, const bti_storage *storage) {
    return !storage->given && !storage->own_block && storage->bytes > 0 &&
           storage->last_step < (int32_t)plan->steps.count;
}

/* --- collectives ---------------------------------------------------------------------------------------------------- */

/* Storages that a collective uses longer than the steps that read them tell, by the step that they are free after. */
typedef struct late_frees {
    int32_t *first; /* by step: a storage, -1 */
    int32_t *next;  /* by storage */
} late_frees;

/* The first step of the device that reads an output of the collective, so that it waits for it; the last step of the plan: none does. */
static int32_t find_join(const bti_plan *plan, size_t collective, int member) {
    const bti_step *of = &plan->steps.items[collective];
    int32_t join = (int32_t)plan->steps.count;
    for (int o = member; o < of->output_count; o += of->group) {
        int32_t made = bti_plan_output(plan, of, o)->storage;
        for (int32_t s = (int32_t)collective + 1; s < join; s++)
            for (int i = 0; i < plan->steps.items[s].input_count && s < join; i++)
                if (bti_plan_operand(plan, &plan->steps.items[s], i)->storage == made) join = s;
    }
    return join < (int32_t)plan->steps.count ? join : (int32_t)plan->steps.count - 1;
}

static int count_uses(const bti_plan *plan, const bti_step *step, int32_t storage) {
    int uses = 0;
    for (int i = 0; i < step->input_count + step->output_count; i++)
        uses += bti_plan_operand(plan, step, i)->storage == storage;
    return uses;
}

/* The output takes the place of the input, which nobody else reads from then on. */
static bool reduces_in_place(const bti_plan *plan, size_t collective, int input) {
    const bti_step *step = &plan->steps.items[collective];
    const bti_value *in = bti_plan_operand(plan, step, input), *out = bti_plan_output(plan, step, input);
    const bti_storage *from = &plan->storages.items[in->storage], *to = &plan->storages.items[out->storage];
    return is_temporary(plan, from) && is_temporary(plan, to) && from->last_step == (int32_t)collective &&
           from->bytes == to->bytes && !in->layout.offset && count_uses(plan, step, in->storage) == 1;
}

static void keep_until(bti_plan *plan, late_frees *late, int32_t storage, int32_t join) {
    bti_storage *kept = &plan->storages.items[storage];
    if (kept->last_step >= join) return;
    kept->last_step = join;
    if (!is_temporary(plan, kept) || kept->first_step < 0) return;
    late->next[storage] = late->first[join];
    late->first[join] = storage;
}

/* A collective runs beside later steps: up to the one that waits for it nothing else may lie in its inputs' and outputs' places. */
static void extend_lifetimes(bti_plan *plan, late_frees *late) {
    for (size_t s = 0; s < plan->steps.count; s++) {
        const bti_step *step = &plan->steps.items[s];
        if (step->kind != BTI_STEP_COLLECTIVE) continue;
        for (int member = 0; member < step->group; member++) {
            int32_t join = find_join(plan, s, member);
            for (int i = member; i < step->input_count; i += step->group) {
                int32_t in = bti_plan_operand(plan, step, i)->storage, out = bti_plan_output(plan, step, i)->storage;
                if (reduces_in_place(plan, s, i)) {
                    plan->storages.items[out].in_place = true;
                    plan->storages.items[in].last_step = join;
                } else
                    keep_until(plan, late, in, join);
                keep_until(plan, late, out, join);
            }
        }
    }
}

/* --- arenas --------------------------------------------------------------------------------------------------------- */

typedef struct gap {
    int64_t offset, bytes;
} gap;

/* Free parts of one device's arena, by offset; the arena ends at `end`. */
typedef struct arena {
    BTI_VEC(gap) gaps;
    int64_t end;
} arena;

typedef BTI_VEC(arena) arena_list;

static int64_t rounded(int64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

#define TRIED 64 /* gaps looked at for the best; then the end of the arena grows */

static int64_t place_block(arena *a, int64_t bytes) {
    size_t best = a->gaps.count;
    for (size_t i = a->gaps.count, tried = 0; i-- > 0 && tried < TRIED; tried++)
        if (a->gaps.items[i].bytes >= bytes &&
            (best == a->gaps.count || a->gaps.items[i].bytes < a->gaps.items[best].bytes))
            best = i;
    if (best == a->gaps.count) {
        gap *last = a->gaps.count ? &a->gaps.items[a->gaps.count - 1] : NULL;
        int64_t offset = a->end;
        if (last && last->offset + last->bytes == a->end) { /* what is free at the end counts */
            offset = last->offset;
            a->gaps.count--;
        }
        a->end = offset + bytes;
        return offset;
    }
    gap *from = &a->gaps.items[best];
    int64_t offset = from->offset;
    from->offset += bytes;
    from->bytes -= bytes;
    if (!from->bytes) {
        memmove(from, from + 1, (a->gaps.count - best - 1) * sizeof *from);
        a->gaps.count--;
    }
    return offset;
}

static bool give(arena *a, int64_t offset, int64_t bytes) {
    size_t low = 0, high = a->gaps.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (a->gaps.items[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    gap *before = low > 0 ? &a->gaps.items[low - 1] : NULL, *after = low < a->gaps.count ? &a->gaps.items[low] : NULL;
    bool joins_before = before && before->offset + before->bytes == offset;
    bool joins_after = after && offset + bytes == after->offset;
    if (joins_before && joins_after) {
        before->bytes += bytes + after->bytes;
        memmove(after, after + 1, (a->gaps.count - low - 1) * sizeof *after);
        a->gaps.count--;
    } else if (joins_before)
        before->bytes += bytes;
    else if (joins_after)
        after->offset = offset, after->bytes += bytes;
    else {
        if (!bti_vec_reserve(&a->gaps, 1)) return false;
        memmove(a->gaps.items + low + 1, a->gaps.items + low, (a->gaps.count - low) * sizeof(gap));
        a->gaps.items[low] = (gap){offset, bytes};
        a->gaps.count++;
    }
    return true;
}

/* --- placing -------------------------------------------------------------------------------------------------------- */

static bool is_map(const bti_plan *plan, const bti_step *step) {
    return step->kind == BTI_STEP_KERNEL && !plan->kernels.items[step->kernel]->reduced;
}

static bool same_strides(const bti_value *a, const bti_value *b) {
    return bti_shape_equal(a->rank, a->shape, b->rank, b->shape) &&
           !memcmp(a->layout.stride, b->layout.stride, (size_t)a->rank * sizeof *a->layout.stride);
}

/* Whether the map has its operand `read` at each point where it then writes the output. */
static bool maps_in_place(const bti_plan *plan, const bti_step *step, int output, int read) {
    const bti_kernel *kernel = plan->kernels.items[step->kernel];
    int axes = bti_kernel_axes(kernel), written = kernel->input_count + output % kernel->output_count;
    const int64_t *strides = bti_plan_numbers(plan, step, output / kernel->output_count) + axes;
    return !kernel->operands[read].taken &&
           !memcmp(strides + read * axes, strides + written * axes, (size_t)axes * sizeof *strides);
}

/* By the same box: which of the step's operands the kernel's operand is. */
static int step_operand_of(const bti_plan *plan, const bti_step *step, int output, int read) {
    if (step->kind != BTI_STEP_KERNEL) return read;
    return bti_step_operand(step, output / plan->kernels.items[step->kernel]->output_count, read);
}

/* Whether the step reads its operand `read` only where it then writes the output, and in no other way. */
static bool writes_where_it_reads(const bti_plan *plan, const bti_step *step, int output, int read) {
    int i = step_operand_of(plan, step, output, read);
    const bti_value *in = bti_plan_operand(plan, step, i), *out = bti_plan_output(plan, step, output);
    if (in->storage < 0 || in->layout.offset || out->layout.offset) return false;
    const bti_storage *from = &plan->storages.items[in->storage], *to = &plan->storages.items[out->storage];
    if (from->bytes != to->bytes) return false;
    if (bti_step_is_update(step) ? !same_strides(in, out) : !maps_in_place(plan, step, output, read)) return false;
    bool once = true; /* and not given to another output */
    for (int k = 0; k < step->input_count + step->output_count && once; k++) {
        int32_t other = bti_plan_operand(plan, step, k)->storage;
        once = k == i || other < 0 || k == step->input_count + output ||
               (other != in->storage && (k < step->input_count || !plan->storages.items[other].in_place ||
                                         from->offset < 0 || plan->storages.items[other].offset != from->offset));
    }
    return once;
}

static int32_t read_storage(const bti_plan *plan, const bti_step *step, int output, int read) {
    return bti_plan_operand(plan, step, step_operand_of(plan, step, output, read))->storage;
}

static int inputs_written_over(const bti_plan *plan, const bti_step *step) {
    return bti_step_is_update(step) ? 1 : is_map(plan, step) ? plan->kernels.items[step->kernel]->input_count : 0;
}

/* A segment may lay any output where an input of its type lies that nobody else reads. */
static bool segment_writes_over(const bti_plan *plan, const bti_step *step, int output, int32_t storage) {
    const bti_value *out = bti_plan_output(plan, step, output);
    for (int i = 0; i < step->input_count; i++) {
        const bti_value *in = bti_plan_operand(plan, step, i);
        if (in->storage == storage)
            return in->dtype == out->dtype && bti_shape_equal(in->rank, in->shape, out->rank, out->shape);
    }
    return false;
}

bool bti_writes_over(const bti_plan *plan, const bti_step *step, int output, int32_t storage) {
    if (step->kind == BTI_STEP_SEGMENT) return segment_writes_over(plan, step, output, storage);
    for (int read = 0; read < inputs_written_over(plan, step); read++)
        if (read_storage(plan, step, output, read) == storage && writes_where_it_reads(plan, step, output, read))
            return true;
    return false;
}

/* A temporary that the step reads for the last time, and may write over. */
static int32_t find_in_place(const bti_plan *plan, size_t s, int output) {
    const bti_step *step = &plan->steps.items[s];
    for (int read = 0; read < inputs_written_over(plan, step); read++) {
        int32_t number = read_storage(plan, step, output, read);
        const bti_storage *from = number < 0 ? NULL : &plan->storages.items[number];
        if (!from || !is_temporary(plan, from) || from->last_step != (int32_t)s || from->offset < 0) continue;
        if (writes_where_it_reads(plan, step, output, read)) return number;
    }
    return -1;
}

static arena *arena_of(arena_list *arenas, int device) {
    while (arenas->count <= (size_t)device)
        if (!bti_vec_push(arenas, (arena){0})) return NULL;
    return &arenas->items[device];
}

/* gone: by storage: its memory is an output's now, or free. */
static bool place_outputs(bti_plan *plan, arena_list *arenas, bool *gone, size_t s) {
    const bti_step *step = &plan->steps.items[s];
    for (int o = 0; o < step->output_count; o++) {
        bti_storage *out = &plan->storages.items[bti_plan_output(plan, step, o)->storage];
        if (!is_temporary(plan, out)) continue;
        int32_t given = out->in_place ? bti_plan_operand(plan, step, o)->storage : find_in_place(plan, s, o);
        if (given >= 0) {
            out->offset = plan->storages.items[given].offset;
            out->in_place = gone[given] = true;
            continue;
        }
        arena *a = arena_of(arenas, out->device);
        if (!a) return false;
        out->offset = place_block(a, rounded(out->bytes));
    }
    return true;
}

/* What this step read last is free for the next one, unless an output took its place. */
static bool free_inputs(const bti_plan *plan, arena_list *arenas, bool *gone, size_t s) {
    const bti_step *step = &plan->steps.items[s];
    for (int i = 0; i < step->input_count + step->output_count; i++) {
        int32_t number = bti_plan_operand(plan, step, i)->storage;
        if (number < 0) continue;
        const bti_storage *storage = &plan->storages.items[number];
        if (!is_temporary(plan, storage) || storage->last_step != (int32_t)s) continue;
        if (gone[number]) continue;
        gone[number] = true;
        if (!give(arena_of(arenas, storage->device), storage->offset, rounded(storage->bytes))) return false;
    }
    return true;
}

static bool free_late(const bti_plan *plan, arena_list *arenas, const late_frees *late, size_t s) {
    bool fine = true;
    for (int32_t storage = late->first ? late->first[s] : -1; storage >= 0 && fine; storage = late->next[storage]) {
        const bti_storage *of = &plan->storages.items[storage];
        if (count_uses(plan, &plan->steps.items[s], storage)) continue; /* free_inputs did */
        fine = give(arena_of(arenas, of->device), of->offset, rounded(of->bytes));
    }
    return fine;
}

static bool note_collectives(bti_plan *plan, late_frees *late) {
    late->first = bti_alloc(plan->steps.count * sizeof *late->first);
    late->next = bti_alloc(plan->storages.count * sizeof *late->next);
    if (!late->first || !late->next) return false;
    for (size_t s = 0; s < plan->steps.count; s++) late->first[s] = -1;
    extend_lifetimes(plan, late);
    return true;
}

void bti_pass_memory(bti_planner *planner) {
    bti_plan *plan = planner->plan;
    arena_list arenas = {0};
    late_frees late = {0};
    find_lifetimes(planner);
    keep_what_is_sent(planner);
    bool *gone = bti_calloc(plan->storages.count + 1, sizeof *gone);
    bool placed = gone && (!bti_has_collectives(planner) || note_collectives(plan, &late));
    for (size_t s = 0; s < plan->steps.count && placed; s++)
        placed = place_outputs(plan, &arenas, gone, s) && free_inputs(plan, &arenas, gone, s) &&
                 free_late(plan, &arenas, &late, s);
    bti_free(gone);
    bti_free(late.first);
    bti_free(late.next);
    for (size_t d = 0; d < arenas.count; d++) {
        placed = placed && bti_vec_push(&plan->arenas, arenas.items[d].end);
        bti_vec_free(&arenas.items[d].gaps);
    }
    bti_vec_free(&arenas);
    planner->failed = !placed;
}
