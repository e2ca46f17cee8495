/* The life of a worker: takes tasks, runs them, gives what they return. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "task/actor.h"
#include "task/engine.h"
#include "task/gpus.h"
#include "task/output.h"
#include "task/process.h"
#include "task/value.h"

struct bt_task {
    bti_task_record *record;
    const char *arguments; /* packed */
    const char *name;
    uint64_t bytes; /* of what it returned, packed; in its result, or, when small, below until it is done */
    char small[BTI_INLINE_BYTES];
};

static void *actor_state;
static void (*actor_release)(void *state);

/* --- what a task asks ------------------------------------------------------------------------------------------------ */

int bt_argument_count(const bt_task *task) { return task ? bti_packed_count(task->arguments) : 0; }

static bt_status no_task(void) { return bti_fail(BT_INVALID_ARGUMENT, "the task is NULL"); }

/* The value itself, of a reference that which it stands for, and the object that it lies in. */
static bti_unpacked_value argument(const bt_task *task, int index, bti_object **owner) {
    bti_unpacked_value value = bti_unpack(task->arguments, index);
    *owner = task->record->pack;
    if (value.head.type != BT_REFERENCE) return value;
    *owner = value.head.as.object;
    return bti_unpack(bti_object_value(*owner), 0);
}

bt_value_type bt_argument_type(const bt_task *task, int index) {
    bti_object *owner;
    if (index < 0 || index >= bt_argument_count(task)) return BT_NOTHING;
    return (bt_value_type)argument(task, index, &owner).head.type;
}

bt_status bti_argument(bt_task *task, int index, bt_value_type type, size_t bytes, void *out) {
    if (!task) return no_task();
    if (index < 0 || index >= bt_argument_count(task))
        return bti_fail(BT_OUT_OF_RANGE, "%s wants argument %d; it was called with %d", task->name, index + 1,
                        bt_argument_count(task));
    bti_object *owner;
    bti_unpacked_value value = argument(task, index, &owner);
    return bti_value_to(&value, owner, type, bytes, out, task->name, index);
}

bt_status bti_arguments(bt_task *task, const bti_variable *variables, int count) {
    if (!task) return no_task();
    BTI_TRY(bti_check_list(variables, count, "variables"));
    for (int i = 0; i < count; i++)
        BTI_TRY(bti_argument(task, i, variables[i].type, variables[i].bytes, variables[i].out));
    return BT_OK;
}

bool bt_task_cancelled(const bt_task *task) { return task && task->record->cancelled; }

int bt_get_gpu_ids(int *ids, int capacity) {
    const bti_state *state = bti_process_now.state;
    const bti_task_record *task = state ? bti_gpus_holder(bti_process_now.me) : NULL;
    int count = 0;
    for (int g = 0; task && g < state->gpu_count; g++) {
        if (!(task->gpus >> g & 1)) continue;
        if (ids && count < capacity) ids[count] = state->gpu_number[g];
        count++;
    }
    return count;
}

void bt_set_state(bt_task *task, void *state, void (*release)(void *state)) {
    (void)task;
    if (actor_release && actor_state) actor_release(actor_state);
    actor_state = state;
    actor_release = release;
}

void *bt_state(bt_task *task) {
    (void)task;
    return actor_state;
}

/* --- what it gives --------------------------------------------------------------------------------------------------- */

bt_status bti_return(bt_task *task, const bt_item_value *value) {
    if (!task) return no_task();
    if (!value) return bti_fail(BT_INVALID_ARGUMENT, "%s returns a value that is NULL", task->name);
    char *room = task->small;
    if (!bti_process_now.state)
        return bti_fail(BT_FAILED_PRECONDITION, "%s forked this process, which is no worker", task->name);
    if (task->record->makes_actor)
        return bti_fail(BT_FAILED_PRECONDITION, "%s makes an actor: it sets a state (bt_set_state) and returns nothing",
                        task->name);
    BTI_TRY(bti_check_value(value, task->name));
    uint64_t bytes = bti_pack_bytes(value, 1);
    if (bytes > sizeof task->small) BTI_TRY(bti_object_room(bti_process_now.state, task->record->result, bytes, &room));
    task->bytes = bytes;
    return bti_pack(value, 1, room);
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

/* A failed argument fails the task, with that first cause and its place. */
static bt_status check_arguments(const bt_task *task) {
    bti_nowhere nowhere = bti_nowhere_begin();
    bt_status status = BT_OK;
    for (int i = 0; i < bti_packed_count(task->arguments) && status == BT_OK; i++) {
        bti_unpacked_value value = bti_unpack(task->arguments, i);
        const bti_object *object = value.head.as.object;
        if (value.head.type == BT_REFERENCE && atomic_load(&object->state) == BTI_OBJECT_FAILED)
            status = bti_object_failure(object);
    }
    bti_nowhere_end(nowhere);
    return status;
}

static bt_status call(bt_task *task) {
    const bti_function_record *f = task->record->function;
    const bt_remote_entry *entry = NULL;
    BTI_TRY(bti_module_find(f->module, f->name, &entry));
    bt_status status = BT_OK;
    BT_SCOPE
        status = entry->function(task);
    return status;
}

static bt_status make_ready(bti_state *state, bt_task *task) {
    if (task->record->cancelled) return bti_fail(BT_CANCELLED, "the call was cancelled before it began");
    BTI_TRY(bti_task_pin(state, task->record));
    task->arguments = bti_arguments_of(task->record);
    return check_arguments(task);
}

/* With the lock. What it returned is what its reference stands for. */
static void put_result(bti_state *state, const bt_task *task, bti_wakes *wakes) {
    bti_object *result = task->record->result;
    if (task->bytes <= sizeof task->small) {
        bti_object_empty(state, result);
        memcpy(result->small, task->small, sizeof task->small);
        BTI_SET(state->arena, result->bytes, task->bytes);
    }
    bti_object_settle(state, result, BTI_OBJECT_READY, wakes);
}

static void end_task(bti_state *state, bti_task_record *task, bti_wakes *wakes) {
    if (!task->gpus) {
        bti_task_end(state, task, wakes);
        BTI_SET(state->arena, bti_process_now.me->task, NULL);
        return;
    }
    bti_task_unpin(state, task); /* its GPUs are free when its process is gone */
    bti_lend_cpus(state, task);
    BTI_SET(state->arena, task->state, BTI_TASK_KEPT);
}

static void settle(bti_state *state, bt_task *task, bt_status status, const char *text, bti_wakes *wakes) {
    bti_task_record *record = task->record;
    bti_client *me = bti_process_now.me;
    if (record->makes_actor) {
        if (status == BT_OK)
            bti_actor_made(state, record->actor, wakes);
        else
            bti_actor_die(state, record->actor, status, text, wakes);
        bti_task_unpin(state, record);
        BTI_SET(state->arena, me->task, NULL);
        return;
    }
    if (atomic_load(&record->result->state) == BTI_OBJECT_PENDING) {
        if (status == BT_OK)
            put_result(state, task, wakes);
        else
            bti_object_fail(state, record->result, record->cancelled ? BT_CANCELLED : status, text, wakes);
    }
    end_task(state, record, wakes);
}

/* --- the next ---------------------------------------------------------------------------------------------------------- */

static bool idle_enough(const bti_state *state) {
    return state->idle_count >= (uint32_t)((state->machine.total.of[0] + BTI_UNIT - 1) / BTI_UNIT);
}

/* With the lock. The next task of this worker, or what it is without one; false: it ends. */
static bool take_next(bti_state *state, bti_client *me, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    if (me->kill) return false; /* it is on its way */
    if (me->actor) {
        if (me->actor->state == BTI_ACTOR_DEAD) return false;
        bti_task_record *next = bti_actor_next(state, me->actor, wakes);
        if (!next && bti_actor_over(me->actor)) {
            bti_actor_die(state, me->actor, BT_CANCELLED, "nobody had a handle to the actor any more", wakes);
            return false;
        }
        BTI_SET(arena, me->task, next);
        if (next) BTI_SET(arena, next->client, me);
        BTI_SET(arena, me->state, next ? BTI_CLIENT_BUSY : BTI_CLIENT_IDLE);
        return true;
    }
    if (me->ends_after) return false;
    if (bti_take_next(state, me, wakes)) return true;
    if (idle_enough(state)) return false;
    bti_client_rest(state, me);
    return true;
}

static bool run(bti_state *state, bti_client *me, bti_task_record *record) {
    bt_task task = {.record = record, .name = record->function->name, .bytes = 8};
    char text[1200] = "";
    bt_error_clear();
    bt_status status = make_ready(state, &task);
    if (status == BT_OK) status = call(&task);
    if (!bti_process_now.state) _exit(1); /* a child that the function forked */
    bti_output_flush();
    if (status != BT_OK) snprintf(text, sizeof text, "%s", *bt_error_text() ? bt_error_text() : bt_status_name(status));
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    settle(state, &task, status, text, &wakes);
    bool goes_on = take_next(state, me, &wakes);
    bti_dispatch(state, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    if (goes_on) bti_surroundings_put_back();
    return goes_on;
}

static bti_task_record *begin_task(bti_state *state, bti_client *me, unsigned *seen, bool *goes_on) {
    bti_wakes wakes = {0};
    bti_arena_lock(state->arena);
    *seen = atomic_load(&me->word);
    *goes_on = true;
    if (!me->task && me->actor) *goes_on = take_next(state, me, &wakes);
    if (me->task) {
        BTI_SET(state->arena, me->task->state, BTI_TASK_RUNNING);
        BTI_SET(state->arena, me->task->begun_ns, bti_now_ns());
    }
    bti_task_record *task = me->task;
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return task;
}

static void thread_ended(void *unused) {
    static const char text[] = "the function ended its thread (pthread_exit)\n";
    (void)unused;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(2);
    _exit(1);
}

void bti_worker_run(bti_state *state, bti_client *me) {
    bti_process_now = (bti_process){state, me, 1};
    bti_engine_join(&bti_engine_local);
    prctl(PR_SET_NAME, "berth worker");
    pthread_cleanup_push(thread_ended, NULL);
    if (!me->actor) bti_surroundings_keep();
    for (bool goes_on = true; goes_on;) {
        unsigned seen;
        bti_task_record *task = begin_task(state, me, &seen, &goes_on);
        if (atomic_load(&state->closing) || !goes_on) break;
        if (!task) {
            bti_sleep_on(&me->word, seen, 0);
            continue;
        }
        if (!me->actor || task->makes_actor) bti_gpus_show(state, task);
        goes_on = run(state, me, task);
    }
    if (actor_release && actor_state) actor_release(actor_state);
    bti_output_flush();
    fflush(NULL);
    if (bti_is_alone()) bti_arena_close(state->arena); /* valgrind would look for pointers in all of it */
    _exit(0);
    pthread_cleanup_pop(0);
}
