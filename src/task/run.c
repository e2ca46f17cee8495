#include "task/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "task/handles.h"
#include "task/modules.h"
#include "base/lock.h"

struct bt_task {
    const bti_call_run *run;
    bti_run_result *result;
};

static bti_lock actor_state_lock =
    BTI_LOCK_INIT(task_actor_state); /* protects actor_state and actor_release; nothing is called under it */
static _Atomic(void *) actor_state;
static void (*actor_release)(void *state);

/* --- what a task asks ------------------------------------------------------------------------------------------------ */

int bt_argument_count(const bt_task *task) { return task ? bti_packed_count(task->run->arguments) : 0; }

static bt_status fail_without_task(void) { return bti_fail(BT_INVALID_ARGUMENT, "the task is NULL"); }

/* The value itself, or the value that a reference stands for; and what keeps it in memory. */
static bt_status find_argument(const bti_call_run *run, int index, bti_unpacked_value *value, void **owner) {
    const char *packed;
    *value = bti_unpack(run->arguments, index);
    *owner = run->owner;
    if (value->head.type != BT_REFERENCE) return BT_OK;
    BTI_TRY(run->table->resolve(run->call, &value->head, &packed, owner));
    *value = bti_unpack(packed, 0);
    return BT_OK;
}

bt_value_type bt_argument_type(const bt_task *task, int index) {
    bti_unpacked_value value;
    void *owner;
    if (index < 0 || index >= bt_argument_count(task)) return BT_NOTHING;
    return find_argument(task->run, index, &value, &owner) == BT_OK ? (bt_value_type)value.head.type : BT_NOTHING;
}

bt_status bti_argument(bt_task *task, int index, bt_value_type type, size_t bytes, void *out) {
    if (!task) return fail_without_task();
    const bti_call_run *run = task->run;
    if (index < 0 || index >= bt_argument_count(task))
        return bti_fail(BT_OUT_OF_RANGE, "%s wants argument %lld; it was called with %d", run->function, index + 1LL,
                        bt_argument_count(task));
    bti_unpacked_value value;
    void *owner;
    BTI_TRY(find_argument(run, index, &value, &owner));
    if (type == BT_REFERENCE && value.head.type == BT_STREAM_VALUE && out) { /* the reference to the stream itself */
        *(bt_ref **)out = bti_ref_from(bti_unpack(run->arguments, index).head.as.id);
        return *(bt_ref **)out ? BT_OK : bt_error_status();
    }
    bti_value_place place = {.owner = owner, .is_argument = true, .function = run->function, .index = index};
    return bti_value_to(&value, &place, type, bytes, out);
}

bt_status bti_arguments(bt_task *task, const bti_variable *variables, int count) {
    if (!task) return fail_without_task();
    BTI_TRY(bti_check_list(variables, count, "variables"));
    for (int i = 0; i < count; i++)
        BTI_TRY(bti_argument(task, i, variables[i].type, variables[i].bytes, variables[i].out));
    return BT_OK;
}

bool bt_task_cancelled(const bt_task *task) { return task && task->run->table->is_cancelled(task->run->call); }

void bt_set_state(bt_task *task, void *state, void (*release)(void *state)) {
    (void)task;
    bti_lock_take(&actor_state_lock);
    void *before = atomic_exchange(&actor_state, state);
    void (*release_before)(void *) = actor_release;
    actor_release = release;
    bti_lock_give(&actor_state_lock);
    if (release_before && before) release_before(before);
}

void *bt_state(bt_task *task) {
    (void)task;
    return atomic_load(&actor_state);
}

/* --- what it gives --------------------------------------------------------------------------------------------------- */

static bt_status check_giver(const bti_call_run *run) {
    if (!bti_engine_is_joined())
        return bti_fail(BT_FAILED_PRECONDITION, "%s forked this process, which is no worker", run->function);
    if (run->makes_actor)
        return bti_fail(BT_FAILED_PRECONDITION, "%s makes an actor: it sets a state (bt_set_state) and returns nothing",
                        run->function);
    return BT_OK;
}

static bt_status check_return(const bti_call_run *run, const bti_run_result *result, const bt_item_value *values,
                              int count) {
    BTI_TRY(check_giver(run));
    if (atomic_load(&result->yielded_here))
        return bti_fail(BT_INVALID_ARGUMENT, "%s has yielded (bt_yield), and so it returns nothing", run->function);
    if (count != run->num_returns)
        return bti_fail(BT_INVALID_ARGUMENT, "%s returns %d value%s; the call has %d result%s (.num_returns)",
                        run->function, count, count == 1 ? "" : "s", run->num_returns,
                        run->num_returns == 1 ? "" : "s");
    return bti_check_values(run->function, values, count);
}

/* Appends the result to those that are there. */
static bt_status add_result_value(const bti_call_run *run, bti_run_result *result, const bt_item_value *value,
                                  int index) {
    uint64_t bytes = (bti_pack_bytes(value, 1) + 7) / 8 * 8, head = sizeof bytes;
    uint64_t after = (uint64_t)(run->num_returns - index) * head, left = BTI_RUN_SMALL - result->bytes - after;
    char *room;
    BTI_TRY(run->table->room(run->call, index, bytes, left, &room));
    char *packed = room ? room : result->small + result->bytes + head;
    memcpy(result->small + result->bytes, room ? &(uint64_t){0} : &bytes, head);
    result->bytes += head + (room ? 0 : bytes);
    bt_status status = bti_pack(value, 1, packed);
    if (status == BT_OK) status = run->table->keep(run->call, packed);
    if (room) run->table->seal(run->call, room, bytes);
    return status;
}

bt_status bti_return(bt_task *task, const bt_item_value *values, int count) {
    if (!task) return fail_without_task();
    BTI_TRY(check_return(task->run, task->result, values, count));
    task->result->bytes = 0;
    for (int i = 0; i < count; i++) {
        bt_status status = add_result_value(task->run, task->result, &values[i], i);
        if (status != BT_OK) return task->result->bytes = 0, status;
    }
    return BT_OK;
}

bt_status bti_yield(bt_task *task, const bt_item_value *value) {
    if (!task) return fail_without_task();
    const bti_call_run *run = task->run;
    BTI_TRY(check_giver(run));
    if (task->result->bytes || run->num_returns > 1)
        return bti_fail(BT_INVALID_ARGUMENT, "%s %s, and so it yields nothing", run->function,
                        run->num_returns > 1 ? "has several results (.num_returns)" : "has returned a value");
    BTI_TRY(bti_check_values(run->function, value, 1));
    if (run->table->is_cancelled(run->call)) return bti_fail(BT_CANCELLED, "the call was cancelled");
    if (atomic_fetch_add(&task->result->yielded_here, 1) < run->yielded) return BT_OK;
    return run->table->yield(run->call, &(bti_values){value, 1, NULL, 0});
}

bt_status bt_task_fail(bt_task *task, bt_status status, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format ? format : "", list);
    va_end(list);
    (void)task;
    return bti_fail(status, "%s", text);
}

/* --- running --------------------------------------------------------------------------------------------------------- */

/* A failed argument fails the call with the argument's error and its place. */
static bt_status check_arguments(const bti_call_run *run) {
    bti_without_site without_site = bti_without_site_begin();
    bt_status status = BT_OK;
    for (int i = 0; i < bti_packed_count(run->arguments) && status == BT_OK; i++) {
        bti_unpacked_value value;
        void *owner;
        status = find_argument(run, i, &value, &owner);
    }
    bti_without_site_end(without_site);
    return status;
}

/* An empty list. */
static bt_status return_nothing(const bti_call_run *run, bti_run_result *result) {
    static const uint64_t nothing[2] = {8, 0};
    if (run->num_returns > 1)
        return bti_fail(BT_INVALID_ARGUMENT, "%s returned nothing (bt_return); the call has %d results (.num_returns)",
                        run->function, run->num_returns);
    memcpy(result->small, nothing, sizeof nothing);
    result->bytes = sizeof nothing;
    return BT_OK;
}

bt_status bti_run_call(const bti_call_run *run, bti_run_result *result) {
    bt_task task = {run, result};
    const bt_remote_entry *entry = NULL;
    result->bytes = 0;
    atomic_init(&result->yielded_here, 0);
    if (!run->arguments || !bti_packed_is_whole(run->arguments, run->bytes))
        return bti_fail(BT_INTERNAL, "the arguments are damaged");
    BTI_TRY(check_arguments(run));
    BTI_TRY(bti_module_find(run->module, run->function, &entry));
    bt_status status = BT_OK;
    BT_SCOPE
        status = entry->function(&task);
    if (!bti_is_status(status))
        status = bti_fail(BT_UNKNOWN, "the function returned %d, which is no status", (int)status);
    if (status == BT_OK && !result->bytes) status = return_nothing(run, result);
    return status;
}

void bti_run_end(void) {
    void *state = atomic_load(&actor_state);
    if (actor_release && state) actor_release(state);
}
