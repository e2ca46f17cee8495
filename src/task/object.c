#include "task/object.h"

#include "task/placement.h"
#include "task/value.h"

bti_object *bti_object_new(bti_state *state) {
    bti_object *object = bti_record_new(state->arena, BTI_OBJECTS);
    if (object) BTI_SET(state->arena, object->holders, 1); /* 0 marks a free record, also when this is taken back */
    return object;
}

void bti_object_retain(bti_state *state, bti_object *object) {
    BTI_SET(state->arena, object->holders, object->holders + 1);
}

/* --- the last holder ----------------------------------------------------------------------------------------------------- */

static void leave_results(bti_state *state, const bti_object *object, bti_wakes *wakes);

static void free_record(bti_state *state, bti_object *object, bti_wakes *wakes) {
    if (object->results) leave_results(state, object, wakes);
    bti_record_free(state->arena, BTI_OBJECTS, object);
}

/* Frees an object with contents. Iterative, since values may refer to each other in a chain of any length. */
static void free_with_contents(bti_state *state, bti_object *object, bti_wakes *wakes) {
    static bool is_freeing; /* protected by the arena's lock */
    bti_arena *arena = state->arena;
    BTI_SET(arena, object->older, state->unheld);
    BTI_SET(arena, state->unheld, object);
    if (is_freeing) return;
    is_freeing = true;
    while ((object = state->unheld) != NULL) {
        BTI_SET(arena, state->unheld, object->older);
        bti_contents_drop(state, &object->contents, wakes);
        free_record(state, object, wakes);
    }
    is_freeing = false;
}

/* The last handle is gone: the scheduler decides whether the actor ends (ready.c). */
static void note_unheld_actor(bti_state *state, bti_actor_record *actor) {
    if (actor->unheld) return;
    BTI_SET(state->arena, actor->unheld, true);
    BTI_SET(state->arena, actor->next_unheld, state->unheld_actors);
    BTI_SET(state->arena, state->unheld_actors, actor);
}

static void release_group(bti_state *state, bti_group_record *group) {
    if (group->released) return;
    BTI_SET(state->arena, group->released, true);
    if (!group->has) BTI_SET(state->arena, state->groups_waiting, state->groups_waiting - 1);
}

void bti_object_drop(bti_state *state, bti_object *object, bti_wakes *wakes) {
    BTI_SET(state->arena, object->holders, object->holders - 1);
    if (object->holders == 1 && object->actor) note_unheld_actor(state, object->actor);
    if (object->holders == 1 && object->group) release_group(state, object->group);
    if (object->holders) return;
    bti_object_empty(state, object);
    if (object->contents.count)
        free_with_contents(state, object, wakes);
    else
        free_record(state, object, wakes);
}

/* --- contents: what its value refers to ---------------------------------------------------------------------------- */

bool bti_contents_add(bti_state *state, bti_contents *contents, bti_object *object) {
    bti_arena *arena = state->arena;
    uint32_t index = contents->count;
    if (index < BTI_FIRST_CONTENTS) {
        BTI_SET(arena, contents->first[index], object);
    } else {
        uint32_t at = (index - BTI_FIRST_CONTENTS) % BTI_MORE_OBJECTS;
        if (!at) {
            bti_more *more = bti_record_new(arena, BTI_MORE);
            if (!more) return false;
            more->next = contents->more;
            BTI_SET(arena, contents->more, more);
        }
        BTI_SET(arena, contents->more->objects[at], object);
    }
    BTI_SET(arena, contents->count, index + 1);
    bti_object_retain(state, object);
    return true;
}

static bti_object *take_last_content(bti_state *state, bti_contents *contents) {
    bti_arena *arena = state->arena;
    uint32_t index = contents->count - 1;
    BTI_SET(arena, contents->count, index);
    if (index < BTI_FIRST_CONTENTS) return contents->first[index];
    uint32_t at = (index - BTI_FIRST_CONTENTS) % BTI_MORE_OBJECTS;
    bti_more *more = contents->more;
    bti_object *object = more->objects[at];
    if (at) return object;
    BTI_SET(arena, contents->more, more->next);
    bti_record_free(arena, BTI_MORE, more);
    return object;
}

void bti_contents_drop(bti_state *state, bti_contents *contents, bti_wakes *wakes) {
    while (contents->count) bti_object_drop(state, take_last_content(state, contents), wakes);
}

typedef struct contained {
    bti_state *state;
    bti_contents *contents;
} contained;

static bool contain_one(void *data, const bti_packed_value *head, bool nested) {
    const contained *c = data;
    (void)nested;
    bti_object *object = bti_object_at(c->state, head->as.id);
    return object && bti_contents_add(c->state, c->contents, object);
}

bool bti_object_contain(bti_state *state, bti_object *object, const char *packed, bti_wakes *wakes) {
    contained c = {state, &object->contents};
    if (bti_packed_each(packed, contain_one, &c)) return true;
    bti_contents_drop(state, &object->contents, wakes);
    return false;
}

/* --- results of a call --------------------------------------------------------------------------------------------- */

uint32_t bti_result_count(const bti_task_record *task) {
    if (!task->result) return 0;
    return task->result->results ? task->result->results->count : 1;
}

bti_object *bti_task_result(const bti_task_record *task, uint32_t index) {
    return index ? task->result->results->of[index] : task->result;
}

bool bti_results_new(bti_state *state, bti_task_record *task, uint32_t count) {
    bti_results *results = bti_record_new(state->arena, BTI_RESULTS);
    if (!results) return false;
    results->count = results->there = count;
    for (uint32_t i = 0; i < count; i++) {
        bti_object *object = i ? bti_object_new(state) : task->result; /* held by the first */
        if (!object) return false;
        results->of[i] = object;
        results->kept[i] = i > 0;
        BTI_SET(state->arena, object->results, results);
        BTI_SET(state->arena, object->result_index, i);
        BTI_SET(state->arena, object->maker, task);
        if (i) bti_object_retain(state, object); /* by the task, as the first one is */
    }
    return true;
}

bti_hold *bti_result_hold(bti_state *state, bti_client *client, bti_object *object, uint32_t index, bti_wakes *wakes) {
    bti_results *results = object->results;
    uint32_t count = results ? results->count : 1;
    if (!results && index && atomic_load(&object->state) == BTI_OBJECT_FAILED) /* the call was not even made */
        return (void)bti_object_failure(object), NULL;
    if (index >= count)
        return (void)bti_fail(BT_OUT_OF_RANGE, "result %u of a call that has %u (.num_returns)", index, count), NULL;
    bti_object *wanted = results ? results->of[index] : object;
    if (!wanted) return (void)bti_fail(BT_NOT_FOUND, "nobody has result %u any more: it was freed", index), NULL;
    bti_hold *hold = bti_hold_new(state, client, wanted);
    if (!hold) return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "too many references"), NULL;
    if (results && results->kept[index]) {
        BTI_SET(state->arena, results->kept[index], false);
        bti_object_drop(state, wanted, wakes);
    }
    return hold;
}

/* A result of a call that has several is freed. The first one holds those that were not asked for. */
static void leave_results(bti_state *state, const bti_object *object, bti_wakes *wakes) {
    bti_arena *arena = state->arena;
    bti_results *results = object->results;
    BTI_SET(arena, results->of[object->result_index], NULL);
    for (uint32_t i = 1; !object->result_index && i < results->count; i++) {
        if (!results->kept[i]) continue;
        BTI_SET(arena, results->kept[i], false);
        bti_object_drop(state, results->of[i], wakes);
    }
    BTI_SET(arena, results->there, results->there - 1);
    if (!results->there) bti_record_free(arena, BTI_RESULTS, results);
}

/* --- failures ------------------------------------------------------------------------------------------------------ */

const char *bti_object_failure_text(const bti_object *object) {
    const char *value = bti_object_value(object), *text = value ? bti_unpack(value, 0).data : NULL;
    return text ? text : "the store had no room for what was said of it";
}

bt_status bti_object_failure(const bti_object *object) {
    return bti_fail((bt_status)object->status, "%s", bti_object_failure_text(object));
}

/* --- holds --------------------------------------------------------------------------------------------------------- */

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
    bti_hold_undo_move(state, hold);
    if (hold->pinned) bti_object_unpin(state, hold->object);
    bti_object_drop(state, hold->object, wakes);
    bti_record_free(arena, BTI_HOLDS, hold);
}

/* --- what a worker names ------------------------------------------------------------------------------------------- */

static bool is_record(const bti_state *state, int kind, const void *record) {
    const bti_records *r = &state->arena->records[kind];
    uint64_t at = (uint64_t)((const char *)record - r->first);
    return record && (const char *)record >= r->first && at < r->used * r->bytes && at % r->bytes == 0;
}

bool bti_is_hold_of(const bti_state *state, const bti_client *client, const bti_hold *hold) {
    return is_record(state, BTI_HOLDS, hold) && hold->client == client && hold->object;
}

bool bti_is_fresh(const bti_state *state, const bti_client *client, const bti_hold *hold) {
    return bti_is_hold_of(state, client, hold) && atomic_load(&hold->object->state) == BTI_OBJECT_PENDING &&
           !hold->object->maker && !hold->object->actor && !hold->object->group;
}

bool bti_is_object(const bti_state *state, const bti_object *object) {
    return is_record(state, BTI_OBJECTS, object) && object->holders;
}

bti_object *bti_object_at(const bti_state *state, uint64_t id) {
    bti_object *object = bti_object_of(state, id);
    return bti_is_object(state, object) ? object : NULL;
}

typedef struct reference_check {
    const bti_state *state;
    int references;
} reference_check;

static bool is_reference(void *data, const bti_packed_value *head, bool in_list) {
    reference_check *c = data;
    (void)in_list;
    if (head->type == BT_STREAM_VALUE) return false; /* only schedulers make them */
    return ++c->references <= BTI_MOST_REFERENCES && bti_object_at(c->state, head->as.id);
}

bool bti_is_packed(const bti_state *state, const char *packed, uint64_t bytes) {
    reference_check c = {state, 0};
    return bti_packed_is_whole(packed, bytes) && bti_packed_each(packed, is_reference, &c);
}

bool bti_is_value(const bti_state *state, const char *packed, uint64_t bytes) {
    return bti_is_packed(state, packed, bytes) && bti_packed_count(packed) <= 1;
}
