/* Where the values of objects stand: in memory, on disk, or on their way (room.c moves them). A hold stands for a move, so that it is undone when the
 * process dies that makes it. All with the lock. */
#include "task/placement.h"

#include "task/spill.h"
#include "task/store.h"
#include "task/wake.h"

static unsigned told; /* how often this process has woken those that wait for room */

unsigned bti_moves_told(void) { return told; }

static void tell_moved(bti_state *state) {
    told++;
    atomic_fetch_add(&state->store->moved, 1);
    bti_wake_now(&state->store->moved);
}

void bti_room_changed(bti_state *state) {
    if (state->room_wanted || state->chore_count) tell_moved(state);
}

/* --- values that can be spilled, by last use ----------------------------------------------------------------------- */

void bti_object_make_spillable(bti_state *state, bti_object *object) {
    bti_store *store = state->store;
    if (!object->value || object->pins || atomic_load(&object->state) != BTI_OBJECT_READY) return;
    BTI_SET(state->arena, object->newer, NULL);
    BTI_SET(state->arena, object->older, store->newest);
    if (store->newest)
        BTI_SET(state->arena, store->newest->newer, object);
    else
        BTI_SET(state->arena, store->oldest, object);
    BTI_SET(state->arena, store->newest, object);
    bti_room_changed(state);
}

static void lru_remove(bti_state *state, bti_object *object) {
    bti_store *store = state->store;
    if (!object->newer && !object->older && store->newest != object) return;
    if (object->newer)
        BTI_SET(state->arena, object->newer->older, object->older);
    else
        BTI_SET(state->arena, store->newest, object->older);
    if (object->older)
        BTI_SET(state->arena, object->older->newer, object->newer);
    else
        BTI_SET(state->arena, store->oldest, object->newer);
    BTI_SET(state->arena, object->newer, NULL);
    BTI_SET(state->arena, object->older, NULL);
}

void bti_object_pin(bti_state *state, bti_object *object) {
    lru_remove(state, object);
    BTI_SET(state->arena, object->pins, object->pins + 1);
}

void bti_hold_pin(bti_state *state, bti_hold *hold) {
    if (hold->pinned) return;
    bti_object_pin(state, hold->object);
    BTI_SET(state->arena, hold->pinned, true);
}

void bti_object_unpin(bti_state *state, bti_object *object) {
    BTI_SET(state->arena, object->pins, object->pins - 1);
    bti_object_make_spillable(state, object);
}

/* --- moves --------------------------------------------------------------------------------------------------------- */

static void forget_value(bti_state *state, bti_object *object) {
    bti_store_give(state, object->value, object->bytes);
    bti_room_changed(state);
    BTI_SET(state->arena, object->value, NULL);
}

static void forget_slot(bti_state *state, bti_object *object) {
    bti_slot_give(state, object->slot);
    BTI_SET(state->arena, object->slot, NULL);
}

static void end_move(bti_state *state, bti_hold *hold) {
    if (hold->moves == BTI_MOVES_OUT)
        BTI_SET(state->arena, state->store->moving_out, state->store->moving_out - 1);
    else
        BTI_SET(state->arena, hold->object->reader, NULL);
    BTI_SET(state->arena, hold->moves, BTI_STAYS);
    tell_moved(state);
}

void bti_hold_finish_move(bti_state *state, bti_hold *hold) {
    if (hold->moves == BTI_MOVES_OUT)
        forget_value(state, hold->object);
    else
        forget_slot(state, hold->object);
    end_move(state, hold);
}

void bti_hold_undo_move(bti_state *state, bti_hold *hold) {
    if (hold->moves == BTI_STAYS) return;
    if (hold->moves == BTI_MOVES_OUT)
        forget_slot(state, hold->object);
    else if (hold->object->value)
        forget_value(state, hold->object);
    end_move(state, hold);
}

/* --- values -------------------------------------------------------------------------------------------------------- */

static char *any_room(bti_state *state, uint64_t bytes) {
    enum { SMALL = 1 << 14 };
    char *room = bti_store_take(state, bytes);
    return room || bytes > SMALL ? room : bti_store_take_past(state, bytes);
}

bool bti_object_copy(bti_state *state, bti_object *object, const char *packed, uint64_t bytes) {
    char *room = bytes <= sizeof object->small ? object->small : any_room(state, bytes);
    if (!room) return false;
    memcpy(room, packed, bytes);
    if (room != object->small) BTI_SET(state->arena, object->value, room);
    BTI_SET(state->arena, object->bytes, bytes);
    return true;
}

void bti_object_empty(bti_state *state, bti_object *object) {
    lru_remove(state, object);
    if (object->value) forget_value(state, object);
    if (object->slot) forget_slot(state, object);
    if (object->bytes) BTI_SET(state->arena, object->bytes, 0);
}

void bti_object_leave_room(bti_state *state, bti_object *object) {
    bti_task_record *maker = object->maker;
    bti_left_room *left = object->value && maker ? bti_record_new(state->arena, BTI_LEFT_ROOMS) : NULL;
    if (!left) return;
    left->room = object->value;
    left->bytes = object->bytes;
    left->next = maker->left_rooms;
    BTI_SET(state->arena, maker->left_rooms, left);
    BTI_SET(state->arena, object->value, NULL);
}
