#include "task/view.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "task/modules.h"
#include "task/proc.h"
#include "task/timeline_trace.h"
#include "task/why.h"

static const char *const worker_states[] = {"starting", "idle", "busy", "ended"};

/* --- as JSON --------------------------------------------------------------------------------------------------------- */

static json_t *text_json(const char *text) {
    json_t *value = json_string(text);
    return value ? value : json_string("?");
}

static json_t *integer_json(uint64_t value) { return json_integer((json_int_t)value); }
static json_t *amount_json(int64_t units) {
    return units % BTI_UNIT ? json_real((double)units / BTI_UNIT) : json_integer(units / BTI_UNIT);
}
static json_t *seconds_json(uint64_t from_ns, uint64_t to_ns) {
    return json_real(to_ns > from_ns ? (double)((to_ns - from_ns) / 1000000) / 1000 : 0);
}
static json_t *amounts_json(const bti_snapshot *view, const bti_amounts *amounts) {
    json_t *all = json_object();
    for (int r = 0; r < view->state.resource_count; r++)
        if (amounts->of[r]) json_object_set_new(all, view->state.names[r], amount_json(amounts->of[r]));
    return all;
}

static json_t *gpus_json(const bti_snapshot *view, uint64_t gpus) {
    json_t *list = json_array();
    for (int g = 0; g < view->state.gpu_count; g++)
        if (gpus >> g & 1) json_array_append_new(list, json_integer(view->state.gpu_number[g]));
    return list;
}

static json_t *resources_json(const bti_snapshot *view) {
    json_t *list = json_array();
    for (int r = 0; r < view->state.resource_count; r++)
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "name", view->state.names[r], "total",
                                              amount_json(view->state.machine.total.of[r]), "free",
                                              amount_json(view->state.machine.free.of[r])));
    return list;
}

/* --- energy ---------------------------------------------------------------------------------------------------------- */

enum { OLD_SECONDS = 10 };

/* Why the energy of GPU g is not known; "": it is. */
static const char *why_no_energy(const bti_snapshot *view, int g, char *text, size_t size) {
    const bti_energy_board *board = &view->energy;
    uint64_t age = board->read_ns && view->now_ns > board->read_ns ? (view->now_ns - board->read_ns) / 1000000000 : 0;
    bool is_used = view->state.machine.gpu_free[g] < BTI_UNIT;
    *text = '\0';
    if (*board->why)
        snprintf(text, size, "%s", board->why);
    else if (!board->read_ns)
        snprintf(text, size, "it has not been read yet: it is while a task has the GPU");
    else if (!board->gpus[g].known)
        snprintf(text, size, "%s", board->gpus[g].why);
    else if (is_used && age > OLD_SECONDS)
        snprintf(text, size, "the driver has not answered for %llu s", (unsigned long long)age);
    return text;
}

static void add_gpu_energy(const bti_snapshot *view, int g, json_t *to) {
    char why[256];
    const bti_gpu_energy *gpu = &view->energy.gpus[g];
    bool known = !*why_no_energy(view, g, why, sizeof why);
    json_object_set_new(to, "joules", known ? json_real(gpu->joules) : json_null());
    json_object_set_new(to, "watts", known ? json_real(gpu->watts) : json_null());
    if (!known) json_object_set_new(to, "energy_why", text_json(why));
}

/* Of a task that has GPUs, since it began. */
static void add_task_energy(const bti_snapshot *view, const bti_view_task *task, json_t *to) {
    char why[256] = "";
    const bti_task_energy *found = NULL;
    if (!task->gpus) return;
    for (int g = 0; g < view->state.gpu_count && !*why; g++)
        if (task->gpus >> g & 1) (void)why_no_energy(view, g, why, sizeof why);
    for (int i = 0; i < view->energy.task_count && !found; i++)
        if (view->energy.tasks[i].sequence == task->sequence) found = &view->energy.tasks[i];
    if (!*why && !found) snprintf(why, sizeof why, "it has not been read since the task began");
    if (!*why && !found->known) snprintf(why, sizeof why, "it could not be read at one time");
    int32_t share = bti_gpu_share(&view->state, &task->amounts, __builtin_ctzll(task->gpus));
    json_object_set_new(to, "joules", !*why ? json_real(found->joules) : json_null());
    json_object_set_new(to, "joules_divided", json_boolean(share < BTI_UNIT));
    if (*why) json_object_set_new(to, "energy_why", text_json(why));
}

/* --- the parts ------------------------------------------------------------------------------------------------------- */

static void add_user(json_t *users, const bti_view_task *task, int g, bool is_actor) {
    int64_t share = task->amounts.of[1] < BTI_UNIT ? task->amounts.of[1] : BTI_UNIT;
    if (!(task->gpus >> g & 1)) return;
    json_array_append_new(users,
                          json_pack("{s:o, s:o, s:o, s:i, s:o}", "function", text_json(task->function->name), "actor",
                                    is_actor ? text_json(task->actor) : json_null(), "task",
                                    integer_json(task->sequence), "pid", task->pid, "share", amount_json(share)));
}

static json_t *gpu_view_json(const bti_snapshot *view, int g) {
    json_t *users = json_array();
    for (size_t i = 0; i < view->running.count; i++) add_user(users, &view->running.items[i], g, false);
    for (size_t i = 0; i < view->actors.count; i++) add_user(users, &view->actors.items[i].making, g, true);
    for (size_t i = 0; i < view->groups.count; i++)
        if (view->groups.items[i].gpus >> g & 1) json_array_append_new(users, json_pack("{s:b}", "group", 1));
    json_t *all = json_pack("{s:i, s:o, s:o}", "number", view->state.gpu_number[g], "used",
                            amount_json(BTI_UNIT - view->state.machine.gpu_free[g]), "by", users);
    add_gpu_energy(view, g, all);
    return all;
}

static json_t *all_gpus_json(const bti_snapshot *view) {
    json_t *list = json_array();
    for (int g = 0; g < view->state.gpu_count; g++) json_array_append_new(list, gpu_view_json(view, g));
    return list;
}

static json_t *task_json(const bti_snapshot *view, const bti_view_task *task) {
    char why[1024];
    json_t *all = json_pack("{s:o, s:o, s:s, s:i, s:o, s:o}", "function", text_json(task->function->name), "task",
                            integer_json(task->sequence), "state", bti_view_traits_of[task->state].name, "priority",
                            task->priority, "resources", amounts_json(view, &task->amounts), "submitted_seconds",
                            seconds_json(task->submitted_ns, view->now_ns));
    if (task->of_actor) json_object_set_new(all, "actor", text_json(task->actor));
    if (*bti_view_why(view, task, why, sizeof why)) json_object_set_new(all, "why", text_json(why));
    return all;
}

static json_t *waiting_json(const bti_snapshot *view) {
    json_t *list = json_array();
    for (size_t i = 0; i < view->waiting.count; i++)
        json_array_append_new(list, task_json(view, &view->waiting.items[i]));
    return list;
}

static json_t *running_json(const bti_snapshot *view) {
    json_t *list = json_array();
    for (size_t i = 0; i < view->running.count; i++) {
        const bti_view_task *task = &view->running.items[i];
        json_t *one = task_json(view, task);
        json_object_set_new(one, "worker", integer_json(task->worker));
        json_object_set_new(one, "pid", json_integer(task->pid));
        json_object_set_new(one, "seconds", task->begun_ns ? seconds_json(task->begun_ns, view->now_ns) : json_null());
        json_object_set_new(one, "gpus", gpus_json(view, task->gpus));
        json_object_set_new(one, "resident_bytes", integer_json(bti_proc_resident(task->pid)));
        add_task_energy(view, task, one);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *tasks_json(const bti_snapshot *view) {
    json_t *list = json_array(), *all = json_object();
    for (size_t i = 0; i < view->functions.count; i++) {
        const bti_view_function *f = &view->functions.items[i];
        char path[sizeof f->function->module];
        json_t *one = json_pack("{s:o, s:o}", "function", text_json(f->function->name), "module",
                                text_json(bti_module_path(f->function->module, path, sizeof path)));
        for (int s = BTI_VIEW_NONE + 1; s < BTI_VIEW_STATES; s++)
            json_object_set_new(one, bti_view_traits_of[s].name, integer_json(f->count[s]));
        json_array_append_new(list, one);
    }
    for (int s = BTI_VIEW_NONE + 1; s < BTI_VIEW_STATES; s++)
        json_object_set_new(all, bti_view_traits_of[s].name, integer_json(view->count[s]));
    json_object_set_new(all, "by_function", list);
    return all;
}

static json_t *workers_json(const bti_snapshot *view) {
    json_t *list = json_array();
    for (size_t i = 0; i < view->workers.count; i++) {
        const bti_view_worker *w = &view->workers.items[i];
        const char *state = w->function ? "busy" : worker_states[w->state];
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:s, s:o, s:o, s:o}", "number", w->number, "pid", w->pid, "state",
                                        state, "function", w->function ? text_json(w->function->name) : json_null(),
                                        "actor", w->is_actor ? text_json(w->actor) : json_null(), "resident_bytes",
                                        integer_json(bti_proc_resident(w->pid))));
    }
    return list;
}

static const char *actor_state_name(const bti_view_actor *actor) {
    if (actor->state == BTI_ACTOR_DEAD) return "ending";
    if (actor->making.state == BTI_VIEW_LIVING) return actor->method ? "busy" : "idle";
    return bti_view_traits_of[actor->making.state].holds ? "starting" : "waiting";
}

static json_t *actors_json(const bti_snapshot *view) {
    char why[1024];
    json_t *list = json_array();
    for (size_t i = 0; i < view->actors.count; i++) {
        const bti_view_actor *a = &view->actors.items[i];
        const bti_view_task *making = &a->making;
        json_t *one = json_pack(
            "{s:o, s:o, s:s, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:i, s:i, s:o}", "name", text_json(making->actor),
            "function", text_json(making->function->name), "state", actor_state_name(a), "pid", making->pid, "queued",
            a->length, "running", a->running, "max_concurrency", a->at_once, "method",
            a->method ? text_json(a->method->name) : json_null(), "gpus", gpus_json(view, making->gpus), "resources",
            amounts_json(view, &making->amounts), "restarted", a->restarted, "restarts_left", a->restarts,
            "resident_bytes", integer_json(bti_proc_resident(making->pid)));
        if (*bti_view_why(view, making, why, sizeof why)) json_object_set_new(one, "why", text_json(why));
        add_task_energy(view, making, one);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *groups_json(const bti_snapshot *view) {
    char why[512];
    json_t *list = json_array();
    for (size_t i = 0; i < view->groups.count; i++) {
        const bti_view_group *g = &view->groups.items[i];
        json_t *one = json_pack("{s:b, s:i, s:i, s:o}", "has_resources", g->has, "bundles", g->bundles, "users",
                                g->users, "resources", amounts_json(view, &g->total));
        if (*bti_view_why_group(view, g, why, sizeof why)) json_object_set_new(one, "why", text_json(why));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *program_json(const bti_snapshot *view) {
    char program[64], why[512];
    const bti_state *state = &view->state;
    json_t *all = json_pack("{s:i, s:o, s:i, s:o}", "pid", view->program, "program",
                            text_json(bti_proc_name(view->program, program, sizeof program)), "nest_pid",
                            state->nest_pid, "seconds", seconds_json(state->started_ns, view->now_ns));
    if (*bti_view_why_program(view, why, sizeof why)) json_object_set_new(all, "why", text_json(why));
    return all;
}

static json_t *runtime_json(const bti_snapshot *view) {
    const bti_state *state = &view->state;
    json_t *all = program_json(view);
    json_t *store =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "used_bytes", integer_json(state->store_used), "limit_bytes",
                  integer_json(state->store_limit), "memory_bytes", integer_json(state->store_memory), "objects",
                  integer_json(view->objects), "spilled_bytes", integer_json(state->spilled_bytes), "spilled_objects",
                  integer_json(state->spilled_count));
    const struct {
        const char *key;
        json_t *value;
    } parts[] = {{"resources", resources_json(view)},
                 {"gpus", all_gpus_json(view)},
                 {"tasks", tasks_json(view)},
                 {"running", running_json(view)},
                 {"waiting", waiting_json(view)},
                 {"actors", actors_json(view)},
                 {"groups", groups_json(view)},
                 {"workers", workers_json(view)},
                 {"store", store},
                 {"recoveries", integer_json(view->recoveries)}};
    bool done = all != NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        done = !json_object_set_new(all, parts[i].key, parts[i].value) && done;
    if (!done) json_decref(all);
    return done ? all : NULL;
}

/* --- as text --------------------------------------------------------------------------------------------------------- */

static char *timeline_text(bti_state *state) {
    char *text = NULL, *copy = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (!file) return NULL;
    bool done = bti_timeline_print(state, file);
    if (fclose(file) == 0 && done) copy = bti_strdup(text);
    free(text);
    return copy;
}

static char *json_text(const json_t *value) {
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL,
         *copy = text ? bti_strdup(text) : NULL;
    free(text);
    return copy;
}

char *bti_view_text(bti_state *state, const char *what) {
    if (!strcmp(what, "timeline")) return timeline_text(state);
    bti_snapshot view;
    if (strcmp(what, "json") || !bti_view_take(state, &view)) return NULL;
    json_t *value = runtime_json(&view);
    char *text = json_text(value);
    json_decref(value);
    bti_view_free(&view);
    return text;
}
