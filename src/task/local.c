/* The engine of one machine, in the program: results are objects of the arena, `held` is a hold of this process. */
#include <math.h>

#include "base/alloc.h"
#include "task/call.h"
#include "task/dispatch.h"
#include "task/engine.h"
#include "task/held.h"
#include "task/identity.h"
#include "task/loan.h"
#include "task/options.h"
#include "task/placement.h"
#include "task/room.h"
#include "task/runtime.h"
#include "task/server.h"
#include "task/settle.h"
#include "task/value.h"
#include "task/view.h"
#include "task/wait.h"

static void local_release(void *held) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return;
    bti_hold_free(state, held, &wakes);
    bti_dispatch(state, &wakes);
    bool untidy = bti_store_is_untidy(state);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    if (untidy) bti_store_tidy(state);
}

/* --- values ------------------------------------------------------------------------------------------------------------ */

/* NULL with the cause in the error record. */
static bti_hold *make_pending_object(bti_state *state) {
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_object *object = bti_object_new(state);
    bti_hold *hold = object ? bti_hold_new(state, bti_process_now.me, object) : NULL;
    if (hold)
        bti_object_drop(state, object, &wakes);
    else
        bti_arena_take_back(state->arena);
    bti_arena_unlock(state->arena);
    if (!hold) (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    return hold;
}

/* The list as the value of a new object, pending, that this process holds; NULL with the cause in the error record. */
static bti_hold *pack_into_object(const bti_values *values, uint64_t bytes) {
    bti_state *state = bti_process_now.state;
    char *room;
    bti_hold *hold = make_pending_object(state);
    if (!hold) return NULL;
    if (bti_object_room(state, hold->object, bytes, &room) == BT_OK && bti_values_pack(values, room) == BT_OK)
        return hold;
    local_release(hold);
    return NULL;
}

static bti_hold *local_hold_object(bti_object *object, bool pinned) {
    bti_state *state = bti_process_now.state;
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_hold *hold = bti_hold_new(state, bti_process_now.me, object);
    if (hold && pinned) bti_hold_pin(state, hold);
    bti_arena_unlock(state->arena);
    if (!hold) (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    return hold;
}

static void local_release_hold(bti_hold *hold) { local_release(hold); }

static bt_array *local_array_in(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                                bt_shape shape) {
    static const bti_lender lender = {local_hold_object, local_release_hold};
    return bti_array_lend(&lender, owner, is_argument, data, bytes, dtype, shape);
}

static void *local_hold(uint64_t id) {
    bti_state *state = bti_process_now.state;
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_object *object = bti_object_at(state, id);
    bti_hold *hold = object ? bti_hold_new(state, bti_process_now.me, object) : NULL;
    bti_arena_unlock(state->arena);
    if (!object)
        (void)bti_fail(BT_INTERNAL, "a value refers to nothing: it is damaged");
    else if (!hold)
        (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    return hold;
}

static void *local_put(const bti_values *value) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_hold *hold = pack_into_object(value, bti_values_bytes(value));
    if (!hold) return NULL;
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bool contains = bti_object_contain(state, hold->object, bti_object_value(hold->object), &wakes);
    if (contains) bti_object_settle(state, hold->object, BTI_OBJECT_READY, &wakes);
    bti_arena_unlock(state->arena);
    if (contains) return hold;
    local_release(hold);
    return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references stand in values"), NULL;
}

static void *local_result(void *held, int index) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_hold *hold = bti_result_hold(state, bti_process_now.me, bti_held_object(held), (uint32_t)index, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    return hold;
}

/* --- results ----------------------------------------------------------------------------------------------------------- */

static bt_status local_wait(void *const *held, int count, int wanted, double seconds) {
    BTI_TRY(bti_state_fault(true));
    bti_object *one, **objects = count > 1 ? bti_calloc((size_t)count, sizeof(bti_object *)) : &one;
    if (!objects) return bti_no_memory();
    for (int i = 0; i < count; i++) objects[i] = bti_held_object(held[i]);
    bool waited = bti_wait_for(bti_process_now.state, objects, count, wanted, bti_until_ns(seconds));
    if (count > 1) bti_free(objects);
    return waited ? BT_OK : bt_error_status();
}

static bt_status local_read(void *held, bti_reading *reading) {
    bti_object *object = bti_held_object(held);
    bti_hold *pin = NULL;
    if (atomic_load(&object->state) == BTI_OBJECT_FAILED) return bti_object_failure(object);
    if (object->bytes > sizeof object->small && !(pin = bti_object_pinned(bti_process_now.state, object)))
        return bt_error_status();
    *reading = (bti_reading){bti_object_value(object), object->bytes, object, pin};
    return BT_OK;
}

/* --- calls, actors, groups --------------------------------------------------------------------------------------------- */

/* Takes the lock for a change by the program, and first handles the messages of workers. False, with the cause in the error record: the
 * memory is damaged. */
static bool begin_change(bti_state *state, bti_wakes *wakes) {
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), false;
    bti_serve(state, wakes);
    return true;
}

static void end_change(bti_state *state, bti_wakes *wakes) {
    bti_dispatch(state, wakes);
    bti_fence(); /* as in bti_wait_for: a worker that saw nobody wait has not rung, and a call may wait for what it sends */
    if (bti_has_messages(state)) bti_serve(state, wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, wakes);
}

static void *local_submit(const bti_engine_call *asked) {
    bti_state *state = bti_process_now.state;
    const bti_task_record *task = NULL;
    char small[sizeof task->small_arguments];
    bti_call_order order;
    bti_wakes wakes = {0};
    if (bti_order_of(state, asked, &order, small, sizeof small) != BT_OK) return NULL;
    if (order.bytes > sizeof small && !(order.pack = pack_into_object(&asked->arguments, order.bytes))) return NULL;
    bti_identity_check(state);
    if (!begin_change(state, &wakes)) return NULL;
    bti_hold *hold = bti_order_submit(state, bti_process_now.me, &order, small, NULL, &wakes);
    if (order.pack) bti_hold_free(state, order.pack, &wakes);
    end_change(state, &wakes);
    return hold;
}

static void *local_find_actor(const char *name) {
    bti_state *state = bti_process_now.state;
    bti_hold *hold = NULL;
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_actor_record *actor = bti_actor_named(state, name);
    if (actor) hold = bti_hold_new(state, bti_process_now.me, actor->self);
    bti_arena_unlock(state->arena);
    if (!actor)
        (void)bti_fail(BT_NOT_FOUND, "there is no actor \"%s\"", name);
    else if (!hold)
        (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references");
    return hold;
}

static bt_status local_kill_actor(void *held) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    if (!begin_change(state, &wakes)) return bt_error_status();
    bti_order_kill(state, bti_held_object(held), &wakes);
    end_change(state, &wakes);
    return BT_OK;
}

static bt_status local_cancel(void *held, unsigned how) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    if (!begin_change(state, &wakes)) return bt_error_status();
    bt_status status = bti_order_cancel(state, bti_held_object(held), how, &wakes);
    end_change(state, &wakes);
    return status;
}

static void *local_group(const bt_task_options *bundles, int count) {
    bti_state *state = bti_process_now.state;
    bti_wakes wakes = {0};
    bti_supply supplies[BTI_MOST_BUNDLES] = {0};
    if (bti_group_read(state, bundles, count, supplies) != BT_OK) return NULL;
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NULL;
    bti_hold *hold = bti_group_submit(state, bti_process_now.me, supplies, count, &wakes);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
    if (!hold) (void)bti_fail(BT_RESOURCE_EXHAUSTED, "bt_group_new: there are too many groups");
    return hold;
}

/* --- the rest ---------------------------------------------------------------------------------------------------------- */

static double local_resource(const char *name, bool only_free) {
    bti_state *state = bti_process_now.state;
    int r = bti_resource_of(state, name);
    if (r < 0) return NAN;
    if (!bti_arena_lock(state->arena)) return (void)bti_state_fault(false), NAN;
    double amount = bti_machine_amount(state, r, only_free);
    bti_arena_unlock(state->arena);
    return amount;
}

static char *local_view(const char *what) {
    bti_serve_now(bti_process_now.state);
    char *text = bti_view_text(bti_process_now.state, what);
    if (!text) (void)bti_no_memory();
    return text;
}

/* Only workers have GPUs. */
static int local_gpus(int *ids, int capacity) {
    (void)ids;
    (void)capacity;
    return 0;
}

const bti_engine bti_engine_local = {
    .name = "local",
    .start = bti_local_start,
    .stop = bti_local_stop,
    .close = bti_local_close,
    .submit = local_submit,
    .put = local_put,
    .result = local_result,
    .read = local_read,
    .unpin = local_release,
    .wait = local_wait,
    .is_done = bti_held_is_done,
    .failure = bti_held_failure,
    .cancel = local_cancel,
    .release = local_release,
    .actor_status = bti_held_status,
    .actor_find = local_find_actor,
    .actor_kill = local_kill_actor,
    .group = local_group,
    .resource = local_resource,
    .gpus = local_gpus,
    .id = bti_held_id,
    .hold = local_hold,
    .array_in = local_array_in,
    .view = local_view,
    .fault = bti_state_fault,
};
