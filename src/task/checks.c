#include "task/checks.h"

#include "task/value.h"

static bool is_record(const bti_state *state, int kind, const void *record) {
    const bti_records *r = &state->arena->records[kind];
    uint64_t at = (uint64_t)((const char *)record - r->first);
    return record && (const char *)record >= r->first && at < r->used * r->bytes && at % r->bytes == 0;
}

bool bti_is_hold_of(const bti_state *state, const bti_client *client, const bti_hold *hold) {
    return is_record(state, BTI_HOLDS, hold) && hold->client == client && hold->object;
}

/* One that nothing has been made of. */
bool bti_is_fresh(const bti_state *state, const bti_client *client, const bti_hold *hold) {
    return bti_is_hold_of(state, client, hold) && atomic_load(&hold->object->state) == BTI_OBJECT_PENDING &&
           !hold->object->maker && !hold->object->actor && !hold->object->group;
}

bool bti_is_object(const bti_state *state, const bti_object *object) {
    return is_record(state, BTI_OBJECTS, object) && object->holders;
}

typedef struct check {
    const bti_state *state;
    int references;
} check;

static bool is_reference(void *data, const bti_packed_value *head, bool in_list) {
    check *c = data;
    (void)in_list;
    if (head->type == BT_STREAM_VALUE) return false; /* only schedulers make them */
    return ++c->references <= BTI_MOST_REFERENCES && bti_object_at(c->state, head->as.id);
}

/* The list is whole, and what it refers to is there. */
bool bti_is_packed(const bti_state *state, const char *packed, uint64_t bytes) {
    check c = {state, 0};
    return bti_packed_is_whole(packed, bytes) && bti_packed_each(packed, is_reference, &c);
}

/* The value of an object: one, or none. */
bool bti_is_value(const bti_state *state, const char *packed, uint64_t bytes) {
    return bti_is_packed(state, packed, bytes) && bti_packed_count(packed) <= 1;
}
