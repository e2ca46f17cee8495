/* Collectives go out during the work that makes their inputs. Those of one group and dtype that can be had one after the other are one step, a bucket, of so many
 * bytes that its start costs little, and of no more than a part of all: a bucket begins when its last input is made, and hides behind what the devices compute
 * after that. Steps then stand in the order in which buckets need them, and the devices take turns, so that all get there at the same time; those of one device stay in their
 * order, except for copies to other devices, which run beside them: they go out as early as what they are needed for. */
#include <stdlib.h>

#include "compile/fuser.h"

#define PARTS 8 /* of all bytes that a group reduces: at most so much of its time is after the last input */
#define MOST_BYTES (32 << 20) /* of a bucket; its start is a few percent of its time */

/* A collective, and where it goes. */
typedef struct collective {
    int32_t step, level,
        ready; /* level: collectives that it depends on, one after the other; ready: the place of its last input among its device's steps */
    int64_t bytes;
    int32_t bucket;
} collective;

typedef struct bucket {
    int32_t rank, count;
    int64_t bytes, most;
    bool open;
} bucket;

typedef struct orderer {
    bti_planner *planner;
    bti_plan *plan;
    BTI_VEC(collective) collectives; /* in the order in which they are ready */
    BTI_VEC(bucket) buckets;
    int32_t *level;     /* by storage */
    int32_t *placed;    /* by storage: where its step stands among those of the device */
    int32_t *need;      /* by storage, then by step: the rank of the first bucket that it is needed for */
    int32_t *bucket_of; /* by step: of a collective */
    int32_t *turn;      /* by storage: of the step that makes it */
    int32_t *
        of_device; /* by device: its steps' level, then the rank that they are needed for, then the turn of the last one */
    int devices;
} orderer;

enum { NEVER = INT32_MAX };

static int32_t storage_of(const orderer *o, int32_t value) {
    return value < 0 ? -1 : o->plan->values.items[value].storage;
}

/* The storages that must be there for operand i of the step: the input's, and that of what it is read after; -1. */
static void sources(const orderer *o, const bti_step *step, int i, int32_t *found) {
    int32_t value = o->plan->operands.items[step->first_operand + i];
    found[0] = storage_of(o, value);
    found[1] = found[0] < 0 ? -1 : storage_of(o, bti_read_after(o->planner->fuser, value)); /* -1: an index */
}

/* The largest of these numbers, by storage, over what the step reads; at least `least`. */
static int32_t largest_of_inputs(const orderer *o, const bti_step *step, const int32_t *numbers, int32_t least) {
    int32_t from[2];
    for (int i = 0; i < step->input_count; i++) {
        sources(o, step, i, from);
        for (int k = 0; k < 2; k++)
            if (from[k] >= 0 && numbers[from[k]] > least) least = numbers[from[k]];
    }
    return least;
}

/* Whether its device goes on to the next step meanwhile. */
static bool is_beside(const bti_step *step) { return step->kind == BTI_STEP_COPY; }

/* --- when each is ready ----------------------------------------------------------------------------------------------------- */

static void note_outputs(orderer *o, const bti_step *step, int32_t level, int32_t place) {
    for (int i = 0; i < step->output_count; i++) {
        int32_t storage = bti_plan_output(o->plan, step, i)->storage;
        o->level[storage] = level;
        o->placed[storage] = place;
    }
}

static void add_collective(orderer *o, int32_t number) {
    const bti_step *step = &o->plan->steps.items[number];
    collective c = {.step = number, .level = largest_of_inputs(o, step, o->level, 0) + 1, .ready = -1};
    for (int i = 0; i < step->input_count; i++) {
        int32_t storage = bti_plan_operand(o->plan, step, i)->storage;
        if (o->placed[storage] > c.ready) c.ready = o->placed[storage];
        if (i % step->group == 0) c.bytes += bti_value_bytes(bti_plan_operand(o->plan, step, i));
    }
    note_outputs(o, step, c.level, -1);
    if (!bti_vec_push(&o->collectives, c)) o->planner->failed = true;
}

/* A device does its steps in order, so a later one depends on what the earlier ones wait for. */
static void note_levels(orderer *o) {
    int32_t *level = o->of_device, *place = o->of_device + o->devices;
    for (size_t s = 0; s < o->plan->steps.count && !o->planner->failed; s++) {
        const bti_step *step = &o->plan->steps.items[s];
        if (step->kind == BTI_STEP_COLLECTIVE) {
            add_collective(o, (int32_t)s);
            continue;
        }
        int32_t own = largest_of_inputs(o, step, o->level, 0);
        if (is_beside(step)) {
            note_outputs(o, step, own, place[step->device]);
            continue;
        }
        if (own > level[step->device]) level[step->device] = own;
        note_outputs(o, step, level[step->device], place[step->device]++);
    }
}

static int compare(const void *left, const void *right) {
    const collective *a = left, *b = right;
    if (a->level != b->level) return a->level < b->level ? -1 : 1;
    if (a->ready != b->ready) return a->ready < b->ready ? -1 : 1;
    return a->step < b->step ? -1 : 1;
}

/* --- buckets ---------------------------------------------------------------------------------------------------------------- */

static bool are_alike(const orderer *o, const collective *a, const collective *b) {
    const bti_step *x = &o->plan->steps.items[a->step], *y = &o->plan->steps.items[b->step];
    if (a->level != b->level || x->op != y->op || x->group != y->group ||
        bti_plan_operand(o->plan, x, 0)->dtype != bti_plan_operand(o->plan, y, 0)->dtype)
        return false;
    for (int i = 0; i < x->group; i++)
        if (bti_plan_device(o->plan, x, i) != bti_plan_device(o->plan, y, i)) return false;
    return true;
}

static int64_t most_bytes(const orderer *o, const collective *like) {
    int64_t all = 0, least = o->planner->how->target(o->plan->steps.items[like->step].device)->bucket_bytes;
    for (size_t c = 0; c < o->collectives.count; c++)
        if (are_alike(o, like, &o->collectives.items[c])) all += o->collectives.items[c].bytes;
    int64_t most = all / PARTS < MOST_BYTES ? all / PARTS : MOST_BYTES;
    return most > least ? most : least;
}

/* By first member and bucket: those before it that still take some are few. */
static int32_t find_bucket(const orderer *o, const int32_t *first, const collective *c) {
    for (size_t b = o->buckets.count; b-- > 0;)
        if (o->buckets.items[b].open && are_alike(o, &o->collectives.items[first[b]], c)) return (int32_t)b;
    return -1;
}

static void fill_buckets(orderer *o) {
    int32_t *first = bti_alloc(o->collectives.count * sizeof *first);
    if (!first) o->planner->failed = true;
    for (size_t i = 0; i < o->collectives.count && !o->planner->failed; i++) {
        collective *c = &o->collectives.items[i];
        c->bucket = find_bucket(o, first, c);
        if (c->bucket < 0) {
            c->bucket = (int32_t)o->buckets.count;
            first[c->bucket] = (int32_t)i;
            if (!bti_vec_push(&o->buckets, ((bucket){.most = most_bytes(o, c), .open = true})))
                o->planner->failed = true;
        }
        if (o->planner->failed) break;
        bucket *b = &o->buckets.items[c->bucket];
        b->rank = (int32_t)i;
        b->count++;
        b->bytes += c->bytes;
        b->open = b->bytes < b->most;
        o->bucket_of[c->step] = c->bucket;
    }
    bti_free(first);
}

/* --- the order -------------------------------------------------------------------------------------------------------------- */

static void need(orderer *o, const bti_step *step, int32_t rank) {
    int32_t from[2];
    for (int i = 0; i < step->input_count; i++) {
        sources(o, step, i, from);
        for (int k = 0; k < 2; k++)
            if (from[k] >= 0 && rank < o->need[from[k]]) o->need[from[k]] = rank;
    }
}

static void note_needs(orderer *o) {
    int32_t *of_step = o->need + o->plan->storages.count;
    for (size_t s = 0; s < o->plan->storages.count; s++) o->need[s] = NEVER;
    for (int d = 0; d < o->devices; d++) o->of_device[d] = NEVER;
    for (size_t s = o->plan->steps.count; s-- > 0;) {
        const bti_step *step = &o->plan->steps.items[s];
        if (step->kind == BTI_STEP_COLLECTIVE) {
            of_step[s] = o->buckets.items[o->bucket_of[s]].rank;
        } else if (is_beside(step)) {
            of_step[s] = o->need[bti_plan_output(o->plan, step, 0)->storage];
        } else {
            int32_t *least = &o->of_device[step->device];
            for (int i = 0; i < step->output_count; i++) {
                int32_t rank = o->need[bti_plan_output(o->plan, step, i)->storage];
                if (rank < *least) *least = rank;
            }
            of_step[s] = *least;
        }
        need(o, step, of_step[s]);
    }
}

static bool push_step(orderer *o, bti_written *out, const bti_step *from) {
    bti_step step = *from;
    int32_t count = step.input_count + step.output_count;
    step.first_operand = (int32_t)out->operands.count;
    if (!bti_vec_reserve(&out->operands, (size_t)count) || !bti_vec_push(&out->steps, step)) return false;
    for (int32_t i = 0; i < count; i++)
        out->operands.items[out->operands.count++] = o->plan->operands.items[from->first_operand + i];
    return true;
}

/* The inputs of all, then the outputs of all. */
static bool push_bucket(orderer *o, bti_written *out, int32_t number) {
    const bucket *b = &o->buckets.items[number];
    bti_step step = {0};
    int32_t first_operand = (int32_t)out->operands.count;
    for (int outputs = 0; outputs < 2; outputs++)
        for (size_t c = 0, left = (size_t)b->count; left; c++) {
            if (o->collectives.items[c].bucket != number) continue;
            const bti_step *of = &o->plan->steps.items[o->collectives.items[c].step];
            if (!step.group) step = *of;
            for (int i = 0; i < of->group; i++)
                if (!bti_vec_push(&out->operands,
                                  o->plan->operands.items[of->first_operand + (outputs ? of->group : 0) + i]))
                    return false;
            left--;
        }
    step.input_count = step.output_count = b->count * step.group;
    step.first_operand = first_operand;
    return bti_vec_push(&out->steps, step);
}

/* A place in the new order: what a bucket needs, in turns of the devices, first what is beside them; then the bucket. */
typedef struct place {
    int32_t rank, turn;
    bool behind;
    int32_t step; /* of a bucket, after all steps */
} place;

static int compare_places(const void *left, const void *right) {
    const place *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
    if (a->behind != b->behind) return b->behind ? -1 : 1;
    return a->step < b->step ? -1 : 1;
}

/* After what the step reads, and after the device's step before it. */
static int32_t take_turn(orderer *o, const bti_step *step) {
    int32_t turn = largest_of_inputs(o, step, o->turn, -1) + 1, *last = o->of_device + step->device;
    if (!is_beside(step)) turn = *last = turn > *last ? turn : *last + 1;
    for (int i = 0; i < step->output_count; i++) o->turn[bti_plan_output(o->plan, step, i)->storage] = turn;
    return turn;
}

/* The place of each step that is no collective; how many. A copy that no bucket needs goes out with what it reads. */
static int32_t place_steps(orderer *o, place *places) {
    int32_t *rank = o->need; /* by storage: of the step that makes it */
    int32_t *of_step = o->need + o->plan->storages.count, count = 0;
    for (size_t s = 0; s < o->plan->storages.count; s++) rank[s] = 0;
    for (int d = 0; d < o->devices; d++) o->of_device[d] = -1;
    for (int32_t s = 0; s < (int32_t)o->plan->steps.count; s++) {
        const bti_step *step = &o->plan->steps.items[s];
        bool summed = step->kind == BTI_STEP_COLLECTIVE;
        if (is_beside(step) && of_step[s] == NEVER) of_step[s] = largest_of_inputs(o, step, rank, 0);
        for (int i = 0; i < step->output_count; i++)
            rank[bti_plan_output(o->plan, step, i)->storage] = summed ? NEVER : of_step[s];
        if (!summed) places[count++] = (place){of_step[s], take_turn(o, step), !is_beside(step), s};
    }
    return count;
}

static void write_steps(orderer *o) {
    int32_t steps = (int32_t)o->plan->steps.count;
    place *places = bti_alloc(((size_t)steps + o->buckets.count) * sizeof *places);
    bti_written out = {0};
    if (!places) {
        o->planner->failed = true;
        return;
    }
    int32_t count = place_steps(o, places);
    for (int32_t b = 0; b < (int32_t)o->buckets.count; b++)
        places[count++] = (place){o->buckets.items[b].rank, INT32_MAX, true, steps + b};
    qsort(places, (size_t)count, sizeof *places, compare_places);
    for (int32_t i = 0; i < count && !o->planner->failed; i++)
        o->planner->failed = places[i].step < steps ? !push_step(o, &out, &o->plan->steps.items[places[i].step])
                                                    : !push_bucket(o, &out, places[i].step - steps);
    bti_put_steps(o->plan, &out);
    bti_free(places);
}

bool bti_has_collectives(const bti_planner *planner) {
    for (size_t s = 0; s < planner->plan->steps.count; s++)
        if (planner->plan->steps.items[s].kind == BTI_STEP_COLLECTIVE) return true;
    return false;
}

void bti_pass_buckets(bti_planner *planner) {
    bti_plan *plan = planner->plan;
    orderer o = {.planner = planner, .plan = plan};
    size_t steps = plan->steps.count, storages = plan->storages.count;
    for (size_t s = 0; s < steps; s++)
        if (plan->steps.items[s].device >= o.devices) o.devices = plan->steps.items[s].device + 1;
    int32_t *numbers = bti_calloc(4 * storages + 2 * steps + 2 * (size_t)o.devices, sizeof *numbers);
    if (numbers) {
        o.level = numbers, o.placed = o.level + storages, o.need = o.placed + storages;
        o.bucket_of = o.need + storages + steps, o.turn = o.bucket_of + steps, o.of_device = o.turn + storages;
        for (size_t s = 0; s < storages; s++) o.placed[s] = -1;
        note_levels(&o);
        if (!planner->failed) qsort(o.collectives.items, o.collectives.count, sizeof(collective), compare);
        if (!planner->failed) fill_buckets(&o);
        if (!planner->failed) note_needs(&o);
        if (!planner->failed) write_steps(&o);
    } else
        planner->failed = true;
    bti_vec_free(&o.collectives);
    bti_vec_free(&o.buckets);
    bti_free(numbers);
}
