/* Can it go on? A wait ends if its objects can come; an object can come if its task can end; a task can end if it runs, or if what it waits for
 * can come. Resources come free when their holders can end. So what can end is found step by step, from what runs, until nothing is added:
 * who waits for anything else waits for ever. Waits with a limit end by themselves. */
#include <stdio.h>
#include <sys/stat.h>

#include "task/gpus.h"
#include "task/object.h"
#include "task/process.h"
#include "task/value.h"

enum { DEEPEST = 200 };

typedef struct search {
    bti_state *state;
    uint8_t can_end[1 << 14]; /* per client record: what it runs ends; an actor takes its next method */
    bool lively;              /* somebody runs who might let go of an actor */
    bool changed;
} search;

static uint32_t index_of(const bti_state *state, const bti_client *client) {
    const bti_records *clients = &state->arena->records[BTI_CLIENTS];
    return (uint32_t)(((const char *)client - clients->first) / (ptrdiff_t)clients->bytes);
}

static bool can_end(const search *s, const bti_client *client) { return s->can_end[index_of(s->state, client)]; }

/* It will give back what it holds: an actor does when it is let go of. */
static bool can_free(const search *s, const bti_client *client) {
    return can_end(s, client) && (!client->actor || s->lively);
}

static void add(const bti_state *state, bti_supply *to, const bti_amounts *amounts, uint64_t gpus, bool but_cpus) {
    int32_t share = amounts->of[1] < BTI_UNIT ? (int32_t)amounts->of[1] : BTI_UNIT;
    for (int r = but_cpus; r < state->resource_count; r++) to->free.of[r] += amounts->of[r];
    for (int g = 0; g < state->gpu_count; g++)
        if (gpus >> g & 1) to->gpu_free[g] += share;
}

/* A thread that waits for nothing may give back what its process has. */
static bool has_more_threads(const bti_client *client) {
    char path[64];
    struct stat threads;
    snprintf(path, sizeof path, "/proc/%d/task", (int)client->pid);
    return stat(path, &threads) == 0 &&
           threads.st_nlink > client->blocked + 2 + BTI_STRANGE_THREADS; /* a folder each, and two names of this one */
}

static bool group_ends(const search *s, const bti_group_record *group) {
    if (!group->released && !can_end(s, group->owner) && !has_more_threads(group->owner)) return false;
    for (const bti_client *c = s->state->clients; c; c = c->next) {
        const bti_task_record *task = bti_gpus_holder(c);
        if (task && task->queue && task->queue->group == group && !can_free(s, c)) return false;
    }
    return true;
}

static void add_groups(const search *s, bti_supply *to) {
    for (const bti_group_record *group = s->state->groups; group; group = group->next) {
        if (!group->has || !group_ends(s, group)) continue;
        for (int i = 0; i < group->count; i++)
            add(s->state, to, &group->bundles[i].total, group->bundles[i].gpus, false);
    }
}

/* With all that those that can end will give back. */
static bti_supply supply_to_come(const search *s, const bti_supply *now) {
    bti_state *state = s->state;
    bti_supply supply = *now;
    if (now == &state->machine) add_groups(s, &supply);
    for (const bti_client *c = state->clients; c; c = c->next) {
        const bti_task_record *task = bti_gpus_holder(c);
        if (task && task->queue && can_free(s, c) && bti_supply_of(state, task->queue) == now)
            add(state, &supply, &task->queue->amounts, task->gpus, task->cpus_lent);
    }
    return supply;
}

static bool group_comes(const search *s, const bti_group_record *group) {
    if (group->has) return true;
    bti_supply supply = supply_to_come(s, &s->state->machine);
    for (int r = 0; r < s->state->resource_count; r++) {
        for (int i = 0; i < group->count; i++) supply.free.of[r] -= group->bundles[i].total.of[r];
        if (supply.free.of[r] < 0) return false;
    }
    return true;
}

static bool queue_moves(const search *s, const bti_queue *queue) {
    if (queue->group && !queue->group->has) return group_comes(s, queue->group);
    bti_supply supply = supply_to_come(s, bti_supply_of(s->state, queue));
    return bti_supply_fits(s->state, &supply, &queue->amounts);
}

static bool can_come(const search *s, const bti_object *object, int depth);
static bool task_ends(const search *s, bti_task_record *task, int depth);

static bool arguments_come(const search *s, const bti_task_record *task, int depth) {
    for (uint32_t i = 0; task->missing && i < task->object_count; i++)
        if (!task->objects[i]->actor && !can_come(s, task->objects[i], depth + 1)) return false;
    return true;
}

static bool find_whether_ends(const search *s, const bti_task_record *task, int depth) {
    if (task->deadline_ns) return true; /* then, if not before */
    if (task->client && task->state != BTI_TASK_QUEUED) return can_end(s, task->client);
    if (!arguments_come(s, task, depth)) return false;
    if (!task->actor || task->makes_actor) return queue_moves(s, task->queue);
    const bti_task_record *first = task->actor->first;
    if (first && first != task && !first->cancelled && !arguments_come(s, first, depth)) return false;
    if (task->actor->client) return can_end(s, task->actor->client);
    return !task->actor->maker || task_ends(s, task->actor->maker, depth + 1);
}

/* Once in a look: many may wait for the same. */
static bool task_ends(const search *s, bti_task_record *task, int depth) {
    if (depth > DEEPEST) return true;
    if (task->looked == s->state->looks) return task->ends;
    task->ends = find_whether_ends(s, task, depth);
    task->looked = s->state->looks;
    return task->ends;
}

static bool can_come(const search *s, const bti_object *object, int depth) {
    if (atomic_load(&object->state) != BTI_OBJECT_PENDING) return true;
    if (object->group) return group_comes(s, object->group);
    return !object->maker || task_ends(s, object->maker, depth);
}

/* Does what it runs end? For an actor: does it take the next method? Of several that it waits for one may be enough. */
static bool moves(const search *s, const bti_client *client) {
    bool waits = false;
    for (const bti_wait *wait = client->blocked ? client->waits : NULL; wait; wait = wait->next_of_client) {
        if (atomic_load(&wait->object->state) != BTI_OBJECT_PENDING) continue;
        if (can_come(s, wait->object, 0)) return true;
        waits = true;
    }
    return !waits;
}

/* Who runs something may let go of actors. The program does, unless all of its threads wait. */
static bool is_lively(const bti_client *client) {
    return client->is_program || client->task ||
           (client->actor && client->actor->first && !client->actor->first->missing);
}

static void spread(search *s) {
    for (const bti_client *c = s->state->clients; c; c = c->next) {
        uint32_t at = index_of(s->state, c);
        if (!s->can_end[at] && moves(s, c)) s->can_end[at] = s->changed = true;
        if (s->lively || !is_lively(c) || !(s->can_end[at] || (c->is_program && has_more_threads(c)))) continue;
        s->lively = s->changed = true;
    }
}

static void describe(const bti_state *state, const bti_object *object, char *text, size_t bytes) {
    const bti_object *first = object;
    const bti_task_record *task = object->maker;
    int length = snprintf(text, bytes, "this waits for %s", task ? task->function->name : "a value");
    for (int i = 0; task && i < 6 && length >= 0 && (size_t)length < bytes; i++) {
        const bti_client *client = task->client && task->state != BTI_TASK_QUEUED ? task->client
                                   : task->actor                                  ? task->actor->client
                                                                                  : NULL;
        if (!client) {
            snprintf(
                text + length, bytes - (size_t)length,
                ", which waits for resources that are held by those who wait, or by actors that nobody can let go of");
            return;
        }
        object = bti_awaited(client);
        const bti_task_record *last = task;
        task = object ? object->maker : NULL;
        if (task == last || (task && task == first->maker)) return; /* round and round */
        if (task)
            length += snprintf(text + length, bytes - (size_t)length, ", which waits for %s (process %d)",
                               task->function->name, (int)client->pid);
        else if (last->actor && last->actor->first && last->actor->first != last)
            snprintf(text + length, bytes - (size_t)length,
                     ", whose turn with its actor comes after %s, whose arguments wait for this",
                     last->actor->first->function->name);
    }
    (void)state;
}

bool bti_deadlocked(bti_state *state, bti_object *const *objects, int count, int wanted, char *text, size_t bytes) {
    static search s; /* under the lock */
    memset(&s, 0, sizeof s);
    s.state = state;
    const bti_object *missing = NULL;
    do {
        s.changed = false;
        state->looks++; /* what ends for certain is found anew with what was added */
        spread(&s);
    } while (s.changed);
    for (int i = 0; i < count; i++) {
        if (can_come(&s, objects[i], 0))
            wanted--;
        else
            missing = objects[i];
    }
    if (wanted <= 0 || !missing) return false;
    describe(state, missing, text, bytes);
    return true;
}
