#include "task/object.h"

#include "task/actor.h"
#include "task/store.h"
#include "task/value.h"

bti_object *bti_object_new(bti_state *state) {
    bti_object *object = bti_record_new(state->arena, BTI_OBJECTS);
    if (object)
        BTI_SET(state->arena, object->holders, 1); /* 0 says that a record is free, also when this is taken back */
    return object;
}

void bti_object_retain(bti_state *state, bti_object *object) {
    BTI_SET(state->arena, object->holders, object->holders + 1);
}

static void free_object(bti_state *state, bti_object *object) {
    bti_object_empty(state, object);
    bti_record_free(state->arena, BTI_OBJECTS, object);
}

void bti_object_drop(bti_state *state, bti_object *object, bti_wakes *wakes) {
    BTI_SET(state->arena, object->holders, object->holders - 1);
    if (object->holders == 1 && object->actor)
        bti_actor_unheld(state, object->actor, wakes); /* the object may be gone */
    else if (object->holders == 1 && object->group)
        bti_group_unheld(state, object->group);
    else if (!object->holders)
        free_object(state, object);
}

/* --- done -------------------------------------------------------------------------------------------------------------- */

void bti_object_settle(bti_state *state, bti_object *object, bti_object_state as, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, object->maker, NULL);
    BTI_SET(arena, *(uint32_t *)&object->state, (uint32_t)as);
    if (as == BTI_OBJECT_READY) bti_object_rest(state, object);
    for (bti_wait *wait = object->waits; wait; wait = wait->next) bti_wake_later(wakes, &wait->client->word);
    for (bti_link *link = object->links, *next; link; link = next) {
        next = link->next;
        BTI_SET(arena, link->task->missing, link->task->missing - 1);
        if (!link->task->missing) bti_task_ready(state, link->task, wakes);
        bti_record_free(arena, BTI_LINKS, link);
    }
    BTI_SET(arena, object->links, NULL);
}

/* Its maker may be writing there: the room is free when that has ended. */
static void leave_room(bti_state *state, bti_object *object) {
    bti_task_record *maker = object->maker;
    if (!object->value || !maker || maker->left_room) return;
    BTI_SET(state->arena, maker->left_room, object->value);
    BTI_SET(state->arena, maker->left_bytes, object->bytes);
    BTI_SET(state->arena, object->value, NULL);
}

void bti_object_fail(bti_state *state, bti_object *object, bt_status status, const char *text, bti_wakes *wakes) {
    bt_item_value value = {.type = BT_TEXT_VALUE, .as.text = text};
    if (atomic_load(&object->state) == BTI_OBJECT_FAILED) return;
    leave_room(state, object);
    bti_object_empty(state, object);
    uint64_t bytes = bti_pack_bytes(&value, 1);
    char *room = object->small;
    if (bytes > sizeof object->small) {
        room = bti_store_take(state, bytes);
        if (room) BTI_SET(state->arena, object->value, room);
    }
    if (room) {
        BTI_SET(state->arena, object->bytes, bytes);
        (void)!bti_pack(&value, 1, room);
    }
    BTI_SET(state->arena, object->status, (uint32_t)status);
    bti_object_settle(state, object, BTI_OBJECT_FAILED, wakes);
}

bt_status bti_object_failure(const bti_object *object) {
    const char *value = bti_object_value(object), *text = value ? bti_unpack(value, 0).data : NULL;
    return bti_fail((bt_status)object->status, "%s", text ? text : "the store had no room for what was said of it");
}

/* --- holds ------------------------------------------------------------------------------------------------------------- */

bti_hold *bti_hold_new(bti_state *state, bti_client *client, bti_object *object) {
    bti_arena *arena = state->arena;
    bti_hold *hold = bti_record_new(arena, BTI_HOLDS);
    if (!hold) return NULL;
    hold->object = object;
    hold->client = client;
    hold->next = client->holds;
    if (hold->next) BTI_SET(arena, hold->next->before, hold);
    BTI_SET(arena, client->holds, hold);
    bti_object_retain(state, object);
    return hold;
}

void bti_hold_free(bti_state *state, bti_hold *hold, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    if (hold->next) BTI_SET(arena, hold->next->before, hold->before);
    if (hold->before)
        BTI_SET(arena, hold->before->next, hold->next);
    else
        BTI_SET(arena, hold->client->holds, hold->next);
    bti_hold_stop_move(state, hold);
    if (hold->pinned) bti_object_unpin(state, hold->object);
    bti_object_drop(state, hold->object, wakes);
    bti_record_free(arena, BTI_HOLDS, hold);
}

/* --- waits ------------------------------------------------------------------------------------------------------------- */

bti_wait *bti_wait_begin(bti_state *state, bti_object *object, bti_client *client) {
    bti_arena *arena = state->arena;
    bti_wait *wait = bti_record_new(arena, BTI_WAITS);
    if (!wait) return NULL;
    wait->object = object;
    wait->client = client;
    wait->next = object->waits;
    wait->next_of_client = client->waits;
    if (wait->next) BTI_SET(arena, wait->next->before, wait);
    if (wait->next_of_client) BTI_SET(arena, wait->next_of_client->before_of_client, wait);
    BTI_SET(arena, object->waits, wait);
    BTI_SET(arena, client->waits, wait);
    bti_object_retain(state, object);
    return wait;
}

void bti_wait_end(bti_state *state, bti_wait *wait, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    if (wait->next) BTI_SET(arena, wait->next->before, wait->before);
    if (wait->before)
        BTI_SET(arena, wait->before->next, wait->next);
    else
        BTI_SET(arena, wait->object->waits, wait->next);
    if (wait->next_of_client) BTI_SET(arena, wait->next_of_client->before_of_client, wait->before_of_client);
    if (wait->before_of_client)
        BTI_SET(arena, wait->before_of_client->next_of_client, wait->next_of_client);
    else
        BTI_SET(arena, wait->client->waits, wait->next_of_client);
    bti_object_drop(state, wait->object, wakes);
    bti_record_free(arena, BTI_WAITS, wait);
}
