#include "task/snapshot.h"

#include "task/given.h"
#include "task/object.h"
#include "task/placement.h"
#include "task/process.h"
#include "task/queue.h"
#include "task/settle.h"
#include "task/tasks.h"
#include "task/value.h"

const bti_view_traits bti_view_traits_of[BTI_VIEW_STATES] = {
    [BTI_VIEW_NONE] = {"none", false, false},
    [BTI_VIEW_ARGUMENTS] = {"waits_for_arguments", false, false},
    [BTI_VIEW_RESOURCES] = {"waits_for_resources", false, false},
    [BTI_VIEW_TURN] = {"waits_for_turn", false, false},
    [BTI_VIEW_STARTING] = {"starting", true, false},
    [BTI_VIEW_RUNNING] = {"running", true, true},
    [BTI_VIEW_BLOCKED] = {"blocked", true, true},
    [BTI_VIEW_ENDING] = {"ending", true, true},
    [BTI_VIEW_LIVING] = {"living", true, true},
};

enum { CHUNK = 2048, MORE = 64, HEADS = 256 };

/* It was given to a worker that runs another call before it. */
static bool is_ahead(const bti_task_record *task) {
    return task->state == BTI_TASK_GIVEN && task->client && task->client->task != task && !bti_task_runs(task);
}

static bti_view_state view_state_of(const bti_task_record *task) {
    bool runs = bti_task_runs(task), has_begun = runs || task->state == BTI_TASK_KEPT;
    if (task->cancelled && !has_begun) return BTI_VIEW_NONE;
    switch (task->state) {
    case BTI_TASK_ARGUMENTS: return BTI_VIEW_ARGUMENTS;
    case BTI_TASK_QUEUED:
        if (task->queue) return BTI_VIEW_RESOURCES;
        return task->missing ? BTI_VIEW_ARGUMENTS : BTI_VIEW_TURN;
    case BTI_TASK_GIVEN:
        if (!runs) return !is_ahead(task) ? BTI_VIEW_STARTING : task->queue ? BTI_VIEW_RESOURCES : BTI_VIEW_TURN;
        return bti_call_awaited(task) ? BTI_VIEW_BLOCKED : BTI_VIEW_RUNNING;
    case BTI_TASK_KEPT: return task->makes_actor ? BTI_VIEW_LIVING : BTI_VIEW_ENDING;
    default: return BTI_VIEW_NONE;
    }
}

static bti_view_awaited describe_awaited(const bti_object *object) {
    const bti_task_record *maker = object ? object->maker : NULL;
    if (!maker || atomic_load(&object->state) != BTI_OBJECT_PENDING) return (bti_view_awaited){0};
    bti_view_state state = view_state_of(maker);
    bool runs = bti_view_traits_of[state].begun;
    return (bti_view_awaited){maker->function, state, runs && maker->client ? maker->client->pid : 0,
                              runs ? bti_task_begun_ns(maker) : maker->submitted_ns};
}

static void find_missing(const bti_state *state, const bti_task_record *task, bti_view_task *to) {
    const char *packed = bti_arguments_of(task); /* NULL: on disk */
    for (int i = 0; packed && i < bti_packed_count(packed); i++) {
        bti_packed_value head = bti_unpack(packed, i).head;
        const bti_object *object = head.type == BT_REFERENCE ? bti_object_of(state, head.as.id) : NULL;
        if (!object || atomic_load(&object->state) != BTI_OBJECT_PENDING) continue;
        to->argument = i + 1;
        to->awaited = describe_awaited(object);
        return;
    }
}

/* For each task that waits for a group's bundle, a copy of the bundle. */
static void copy_supply(bti_state *state, bti_snapshot *view, const bti_queue *queue, bti_view_task *to) {
    to->amounts = queue->amounts;
    to->from = bti_supply_of(state, queue);
    to->group_waits = queue->group && !queue->group->has;
    if (to->state != BTI_VIEW_RESOURCES || !queue->group || view->supplies.count == view->supplies.capacity) return;
    to->supply = (int)view->supplies.count;
    view->supplies.items[view->supplies.count++] = *to->from;
}

static bti_view_task copy_task(bti_state *state, bti_snapshot *view, const bti_task_record *task) {
    bti_view_task to = {.sequence = task->sequence,
                        .submitted_ns = task->submitted_ns,
                        .begun_ns = bti_task_begun_ns(task),
                        .gpus = task->gpus,
                        .function = task->function,
                        .priority = task->priority,
                        .state = view_state_of(task),
                        .missing = task->missing,
                        .cpus_lent = task->cpus_lent,
                        .supply = -1,
                        .of_actor = task->actor != NULL};
    if (task->queue) copy_supply(state, view, task->queue, &to);
    if (task->client && !is_ahead(task)) to.pid = task->client->pid, to.worker = task->client->number;
    if (task->actor) memcpy(to.actor, task->actor->name, sizeof to.actor);
    if (task->actor && task->actor->client) to.actor_pid = task->actor->client->pid;
    if (task->actor && task->actor->maker) to.making = task->actor->maker->sequence;
    if (to.state == BTI_VIEW_ARGUMENTS) find_missing(state, task, &to);
    if (to.state == BTI_VIEW_BLOCKED) to.awaited = describe_awaited(bti_call_awaited(task));
    return to;
}

/* --- those that run -------------------------------------------------------------------------------------------------- */

static void copy_worker(bti_state *state, bti_snapshot *view, const bti_client *client) {
    const bti_task_record *task = client->task;
    uint32_t next = 0;
    bti_view_worker to = {client->number,       client->state, client->pid, task ? task->function : NULL, "",
                          client->actor != NULL};
    if (client->actor) memcpy(to.actor, client->actor->name, sizeof to.actor);
    view->workers.items[view->workers.count++] = to;
    if (client->at_once <= 1 && task && !task->makes_actor)
        view->running.items[view->running.count++] = copy_task(state, view, task);
    while (client->at_once > 1 && (task = bti_given_next(client, &next)) != NULL)
        if (bti_task_runs(task) && !task->makes_actor && view->running.count < view->running.capacity)
            view->running.items[view->running.count++] = copy_task(state, view, task);
}

static void copy_actor(bti_state *state, bti_snapshot *view, const bti_actor_record *actor) {
    const bti_client *client = actor->client;
    const bti_task_record *method = client && client->task && !client->task->makes_actor ? client->task : NULL;
    uint32_t running = method ? bti_given_running(client) : 0, given = client ? bti_given_count(client) : 0;
    if (method && !running) running = 1; /* it is about to begin */
    if (!actor->maker) return;
    bti_view_actor to = {copy_task(state, view, actor->maker),
                         actor->state,
                         actor->length + (method ? given - running : 0),
                         actor->restarts,
                         actor->restarted,
                         running,
                         actor->at_once,
                         method ? method->function : NULL};
    view->actors.items[view->actors.count++] = to;
}

static void copy_group(bti_state *state, bti_snapshot *view, const bti_group_record *group) {
    bti_view_group to = {.bundles = group->count, .users = group->users, .has = group->has};
    if (group->released && !group->has) return;
    for (int b = 0; b < group->count; b++) {
        if (group->has) to.gpus |= group->bundles[b].gpus;
        for (int r = 0; r < state->resource_count; r++) to.total.of[r] += group->bundles[b].total.of[r];
    }
    view->groups.items[view->groups.count++] = to;
}

static void copy_state(bti_state *state, bti_snapshot *view) {
    const bti_client *program = state->program;
    view->state = *state;
    view->program = program->pid;
    view->program_waits = program->blocked > 0;
    if (view->program_waits) view->program_awaits = describe_awaited(bti_awaited(program));
    view->objects = state->arena->records[BTI_OBJECTS].live;
    view->recoveries = state->arena->recoveries;
    view->now_ns = bti_now_ns();
}

/* How many calls may run beside the first one of their worker. */
static size_t count_beside(bti_state *state) {
    size_t count = 0;
    bti_arena_lock(state->arena);
    for (const bti_actor_record *a = state->actors; a; a = a->next) count += a->at_once - 1;
    bti_arena_unlock(state->arena);
    return count;
}

static bool take_running(bti_state *state, bti_snapshot *view) {
    const bti_records *records = state->arena->records;
    size_t workers = state->worker_count + MORE, actors = records[BTI_ACTORS].live + MORE,
           groups = records[BTI_GROUPS].live + MORE;
    if (!bti_vec_reserve(&view->workers, workers) || !bti_vec_reserve(&view->running, workers + count_beside(state)) ||
        !bti_vec_reserve(&view->actors, actors) || !bti_vec_reserve(&view->groups, groups) ||
        !bti_vec_reserve(&view->supplies, 2 * BTI_VIEW_WAITING))
        return false;
    bti_arena_lock(state->arena);
    copy_state(state, view);
    for (const bti_client *c = state->clients; c && view->workers.count < workers; c = c->next)
        if (!c->is_program) copy_worker(state, view, c);
    for (const bti_actor_record *a = state->actors; a && view->actors.count < actors; a = a->next)
        copy_actor(state, view, a);
    for (const bti_group_record *g = state->groups; g && view->groups.count < groups; g = g->next)
        copy_group(state, view, g);
    bti_arena_unlock(state->arena);
    return true;
}

/* --- those that wait for resources: the first of all heaps ------------------------------------------------------------ */

/* The first queues of the machine, and of bundles. */
static size_t first_queues(const bti_state *state, bti_queue **queues) {
    int count = bti_waiting_list(&state->machine, queues, HEADS / 2);
    for (const bti_supply *bundle = state->waiting; bundle && count < HEADS; bundle = bundle->next_waiting)
        count += bti_waiting_list(bundle, queues + count, HEADS - count);
    return (size_t)count;
}

static bool take_queued(bti_state *state, bti_snapshot *view) {
    const bti_task_record
        *edge[HEADS + 2 * BTI_VIEW_WAITING + 1]; /* of the heaps: the tasks below those that were taken */
    bti_queue *queues[HEADS];
    if (!bti_vec_reserve(&view->waiting, 3 * BTI_VIEW_WAITING)) return false;
    bti_arena_lock(state->arena);
    size_t edges = first_queues(state, queues);
    for (size_t i = 0; i < edges; i++) edge[i] = queues[i]->first;
    for (int taken = 0; edges && taken < 2 * BTI_VIEW_WAITING && view->waiting.count < BTI_VIEW_WAITING; taken++) {
        size_t best = 0;
        for (size_t i = 1; i < edges; i++)
            if (bti_task_goes_before(edge[i], edge[best])) best = i;
        const bti_task_record *task = edge[best];
        edge[best] = edge[--edges];
        if (task->left) edge[edges++] = task->left;
        if (task->right) edge[edges++] = task->right;
        if (view_state_of(task) == BTI_VIEW_RESOURCES)
            view->waiting.items[view->waiting.count++] = copy_task(state, view, task);
    }
    bti_arena_unlock(state->arena);
    return true;
}

/* --- all of them, counted; those that wait for other things -------------------------------------------------------------- */

static const bti_function_record *function_at(const bti_records *functions, uint32_t index) {
    return (const bti_function_record *)(const void *)(functions->first + index * functions->bytes);
}

static void count_task(bti_state *state, bti_snapshot *view, const bti_task_record *task) {
    const bti_records *functions = &state->arena->records[BTI_FUNCTIONS];
    uint32_t index = (uint32_t)(((const char *)task->function - functions->first) / (ptrdiff_t)functions->bytes);
    bti_view_state is = view_state_of(task);
    if (!is) return;
    if (index < view->functions.capacity) view->functions.items[index].count[is]++;
    view->count[is]++;
    if ((is == BTI_VIEW_ARGUMENTS || is == BTI_VIEW_TURN) && view->count[is] <= BTI_VIEW_WAITING)
        view->waiting.items[view->waiting.count++] = copy_task(state, view, task);
}

static void count_tasks(bti_state *state, bti_snapshot *view) {
    const bti_records *tasks = &state->arena->records[BTI_TASKS];
    for (uint32_t at = 0, used = 1; at < used;) {
        bti_arena_lock(state->arena);
        used = tasks->used;
        for (uint32_t end = used - at < CHUNK ? used : at + CHUNK; at < end; at++)
            count_task(state, view, (const bti_task_record *)(const void *)(tasks->first + at * tasks->bytes));
        bti_arena_unlock(state->arena);
    }
}

static bool take_functions(bti_state *state, bti_snapshot *view) {
    const bti_records *functions = &state->arena->records[BTI_FUNCTIONS];
    if (!bti_vec_reserve(&view->functions, functions->used + MORE)) return false;
    memset(view->functions.items, 0, view->functions.capacity * sizeof *view->functions.items);
    count_tasks(state, view);
    for (uint32_t i = 0; i < view->functions.capacity; i++) {
        bti_view_function f = view->functions.items[i];
        uint64_t all = 0;
        f.function = function_at(functions, i);
        for (int s = 0; s < BTI_VIEW_STATES; s++) all += f.count[s];
        if (all) view->functions.items[view->functions.count++] = f;
    }
    return true;
}

bool bti_view_take(bti_state *state, bti_snapshot *view) {
    *view = (bti_snapshot){0};
    bti_energy_board_copy(state, &view->energy);
    if (take_running(state, view) && take_queued(state, view) && take_functions(state, view)) return true;
    bti_view_free(view);
    return false;
}

void bti_view_free(bti_snapshot *view) {
    bti_vec_free(&view->running);
    bti_vec_free(&view->waiting);
    bti_vec_free(&view->supplies);
    bti_vec_free(&view->workers);
    bti_vec_free(&view->actors);
    bti_vec_free(&view->groups);
    bti_vec_free(&view->functions);
}
