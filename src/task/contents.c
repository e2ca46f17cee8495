/* What values refer to: references and actors in lists, in results, in values that were put. Values never change, so there are no circles. */
#include "task/object.h"
#include "task/value.h"

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

/* Takes the last one out. */
static bti_object *take_last(bti_state *state, bti_contents *contents) {
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
    while (contents->count) bti_object_drop(state, take_last(state, contents), wakes);
}

typedef struct adding {
    bti_state *state;
    bti_contents *contents;
} adding;

static bool add(void *data, const bti_packed_value *head, bool nested) {
    const adding *a = data;
    (void)nested;
    bti_object *object = bti_object_at(a->state, head->as.id);
    return object && bti_contents_add(a->state, a->contents, object);
}

bool bti_object_contain(bti_state *state, bti_object *object, const char *packed, bti_wakes *wakes) {
    adding a = {state, &object->contents};
    if (bti_packed_each(packed, add, &a)) return true;
    bti_contents_drop(state, &object->contents, wakes);
    return false;
}

/* One after the other, for values may refer to each other in a chain of any length. */
void bti_object_unheld(bti_state *state, bti_object *object, bti_wakes *wakes) {
    static bool is_at_it; /* protected by the lock */
    bti_arena *arena = state->arena;
    bti_object_empty(state, object);
    BTI_SET(arena, object->older, state->unheld);
    BTI_SET(arena, state->unheld, object);
    if (is_at_it) return;
    is_at_it = true;
    while ((object = state->unheld) != NULL) {
        BTI_SET(arena, state->unheld, object->older);
        bti_contents_drop(state, &object->contents, wakes);
        if (object->results) bti_results_forget(state, object, wakes);
        bti_record_free(arena, BTI_OBJECTS, object);
    }
    is_at_it = false;
}
