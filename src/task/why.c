#include "task/why.h"

#include <stdio.h>

#include "task/dispatch.h"

enum { HOLDERS = 4 }; /* how many are named */

typedef struct words {
    char *text;
    size_t size, length;
} words;

static void BT_PRINTF(2, 3) add_words(words *to, const char *format, ...) {
    if (to->length >= to->size) return;
    va_list list;
    va_start(list, format);
    to->length += (size_t)vsnprintf(to->text + to->length, to->size - to->length, format, list);
    va_end(list);
}

static double units_text(int64_t units) { return (double)(units > 0 ? units : 0) / BTI_UNIT; }

static double seconds_since(const bti_snapshot *view, uint64_t ns) {
    return view->now_ns > ns ? (double)(view->now_ns - ns) / 1e9 : 0;
}

/* --- resources --------------------------------------------------------------------------------------------------------- */

static int count_whole_gpus(const bti_snapshot *view, const bti_supply *supply) {
    int count = 0;
    for (int g = 0; g < view->state.gpu_count; g++) count += supply->gpu_free[g] == BTI_UNIT;
    return count;
}

/* The index of the resource that it lacks; -1: none. */
static int find_lack(const bti_snapshot *view, const bti_supply *supply, const bti_amounts *amounts) {
    for (int r = 0; r < view->state.resource_count; r++)
        if (amounts->of[r] > 0 && amounts->of[r] > supply->free.of[r]) return r;
    return bti_supply_fits(&view->state, supply, amounts) ? -1 : 1; /* enough GPUs in sum, but not on single GPUs */
}

typedef struct holders {
    words *to;
    size_t count;
} holders;

static bool next_holder(holders *h) {
    bool named = h->count++ < HOLDERS;
    if (named) add_words(h->to, h->count == 1 ? "; held by " : ", ");
    return named;
}

static void add_holder(holders *h, const bti_view_task *task, const bti_supply *from, int r, bool is_actor) {
    int64_t held = r == 0 && task->cpus_lent ? 0 : task->amounts.of[r];
    if (!held || !bti_view_traits_of[task->state].holds || task->from != from || !next_holder(h)) return;
    if (is_actor && *task->actor)
        add_words(h->to, "actor %s", task->actor);
    else
        add_words(h->to, "%s%s", is_actor ? "an actor of " : "", task->function->name);
    if (task->pid)
        add_words(h->to, " (process %d, %g)", (int)task->pid, units_text(held));
    else
        add_words(h->to, " (its process starts, %g)", units_text(held));
}

static void add_holders(words *to, const bti_snapshot *view, const bti_supply *from, bool of_machine, int r) {
    holders h = {to, 0};
    for (size_t i = 0; i < view->running.count; i++) add_holder(&h, &view->running.items[i], from, r, false);
    for (size_t i = 0; i < view->actors.count; i++) add_holder(&h, &view->actors.items[i].making, from, r, true);
    for (size_t i = 0; of_machine && i < view->groups.count; i++) {
        const bti_view_group *group = &view->groups.items[i];
        if (group->has && group->total.of[r] && next_holder(&h))
            add_words(to, "a group (%g)", units_text(group->total.of[r]));
    }
    if (h.count > HOLDERS) add_words(to, " and %zu more", h.count - HOLDERS);
}

static void add_lack(words *to, const bti_snapshot *view, const bti_supply *supply, const bti_amounts *amounts, int r) {
    const char *where = supply == &view->state.machine ? "" : " of its group";
    add_words(to, "waits for %g %s%s: %g of %g are free", units_text(amounts->of[r]), view->state.names[r], where,
              units_text(supply->free.of[r]), units_text(supply->total.of[r]));
    if (r == 1 && amounts->of[r] <= supply->free.of[r]) add_words(to, ", %d whole", count_whole_gpus(view, supply));
}

/* Adds that no process can be had; false: there is one. */
static bool add_process_limit(words *to, const bti_state *state) {
    uint32_t workers = state->worker_count - state->idle_count;
    if (!bti_has_turns(state))
        add_words(to, "waits for a process: %u calls run, the most that may (bt_runtime_init, .max_processes)",
                  state->busy_count);
    else if (workers >= state->most_workers)
        add_words(to, "waits for a process: there are %u, the most that the system allows", workers);
    else if (state->fork_failing_ns)
        add_words(to, "waits for a process: the system starts none (%s)", strerror(state->fork_errno));
    else
        return false;
    return true;
}

/* It lacks no resource. */
static void add_resource_turn(words *to, const bti_snapshot *view) {
    const bti_function_record *first = view->state.kept_for;
    add_words(to, "waits for its turn");
    if (view->state.keeps)
        add_words(to, ": what is free is kept for %s, which has waited longer", first ? first->name : "a group");
}

static void add_resources(words *to, const bti_snapshot *view, const bti_view_task *task) {
    const bti_supply *supply = task->supply < 0 ? &view->state.machine : &view->supplies.items[task->supply];
    int r = find_lack(view, supply, &task->amounts);
    if (task->group_waits) {
        add_words(to, "waits for its group, which has no resources yet");
    } else if (r < 0) {
        if (!add_process_limit(to, &view->state)) add_resource_turn(to, view);
    } else {
        add_lack(to, view, supply, &task->amounts, r);
        add_holders(to, view, task->from, task->supply < 0, r);
    }
}

/* --- results ----------------------------------------------------------------------------------------------------------- */

static void add_awaited(words *to, const bti_snapshot *view, const bti_view_awaited *awaited) {
    double seconds = seconds_since(view, awaited->since_ns);
    if (!awaited->function)
        add_words(to, "a value");
    else if (awaited->state == BTI_VIEW_RUNNING)
        add_words(to, "the result of %s, which has run for %.1f s (process %d)", awaited->function->name, seconds,
                  (int)awaited->pid);
    else if (awaited->state == BTI_VIEW_BLOCKED)
        add_words(to, "the result of %s, which itself waits inside (process %d)", awaited->function->name,
                  (int)awaited->pid);
    else
        add_words(to, "the result of %s, which has waited for %.1f s", awaited->function->name, seconds);
}

static void add_missing(words *to, const bti_snapshot *view, const bti_view_task *task) {
    if (!task->argument) {
        add_words(to, "waits for %u of its arguments", task->missing);
        return;
    }
    add_words(to, "waits for argument %d: ", task->argument);
    add_awaited(to, view, &task->awaited);
    if (task->missing > 1) add_words(to, ", and for %u more", task->missing - 1);
}

static void add_actor_turn(words *to, const bti_snapshot *view, const bti_view_task *task) {
    add_words(to, "waits for its turn with the actor%s%s", *task->actor ? " " : "", task->actor);
    if (task->actor_pid) add_words(to, " (process %d)", (int)task->actor_pid);
    for (size_t i = 0; !task->actor_pid && i < view->actors.count; i++) {
        const bti_view_task *making = &view->actors.items[i].making;
        if (making->sequence != task->making) continue;
        if (making->state != BTI_VIEW_RESOURCES && making->state != BTI_VIEW_ARGUMENTS) return;
        add_words(to, ", which ");
        return making->state == BTI_VIEW_RESOURCES ? add_resources(to, view, making) : add_missing(to, view, making);
    }
}

const char *bti_view_why(const bti_snapshot *view, const bti_view_task *task, char *text, size_t size) {
    words to = {text, size, 0};
    *text = '\0';
    switch (task->state) {
    case BTI_VIEW_ARGUMENTS: add_missing(&to, view, task); break;
    case BTI_VIEW_RESOURCES: add_resources(&to, view, task); break;
    case BTI_VIEW_TURN: add_actor_turn(&to, view, task); break;
    case BTI_VIEW_STARTING: add_words(&to, "its process starts"); break;
    case BTI_VIEW_BLOCKED:
        add_words(&to, "waits inside for ");
        add_awaited(&to, view, &task->awaited);
        break;
    case BTI_VIEW_ENDING: add_words(&to, "done; its GPUs are free when its process is gone"); break;
    default: break;
    }
    return text;
}

const char *bti_view_why_group(const bti_snapshot *view, const bti_view_group *group, char *text, size_t size) {
    words to = {text, size, 0};
    const bti_supply *machine = &view->state.machine;
    *text = '\0';
    if (group->has) return text;
    int r = find_lack(view, machine, &group->total);
    if (r < 0)
        add_resource_turn(&to, view);
    else
        add_lack(&to, view, machine, &group->total, r);
    return text;
}

const char *bti_view_why_program(const bti_snapshot *view, char *text, size_t size) {
    words to = {text, size, 0};
    *text = '\0';
    if (!view->program_waits) return text;
    add_words(&to, "waits for ");
    add_awaited(&to, view, &view->program_awaits);
    return text;
}
