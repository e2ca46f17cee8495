/* The side of a call that runs, in a worker: its arguments, those that they refer to, and its result are values of nodes, inside of those of the inner
 * engine (wrap.h). */
#include "task/run.h"

#include <string.h>

#include "base/alloc.h"
#include "nodes/held.h"
#include "nodes/wrap.h"
#include "task/engine.h"

typedef struct node_call {
    const bti_run *inner;
    uint64_t id;      /* of its result */
    int references;   /* and actors, among its arguments */
    uint64_t *ids;    /* theirs, in order */
    int guess;        /* the next that is looked for, most likely */
    wrap_shape shape; /* of the result */
    char *list;       /* where one stands that refers to others; NULL: where it was given room */
    char small[BTI_RUN_SMALL];
} node_call;

static int place_of(node_call *c, uint64_t id) {
    for (int i = 0; i < c->references; i++) {
        int at = (c->guess + i) % c->references;
        if (c->ids[at] == id) return c->guess = at + 1, at;
    }
    return -1;
}

static bt_status resolve(void *call, const bti_packed_value *reference, const char **packed, void **owner) {
    node_call *c = call;
    const char *list;
    wrap_head head;
    uint64_t bytes;
    int place = place_of(c, reference->as.id);
    table_entry *entry = table_at(reference->as.id), *mine = table_at(c->id);
    if (place < 0 || !entry || !mine) return bti_fail(BT_INTERNAL, "nodes: an argument that the call does not have");
    bti_packed_value inner = bti_unpack(c->inner->arguments, place + 2).head;
    BTI_TRY(c->inner->table->resolve(c->inner->call, &inner, &list, owner));
    if (!atomic_load(&entry->copies)) {
        atomic_fetch_or(&mine->flags, ENTRY_NEEDS_LOST);
        return bti_fail(BT_DATA_LOSS, "argument %d of %s was lost with node %u", place + 1, c->inner->function,
                        atomic_load(&entry->node));
    }
    atomic_fetch_or(&entry->copies, 1u << nodes_here()); /* it is fetched */
    *packed = wrap_value_read(list, &bytes, &head);
    return *packed ? BT_OK : bt_error_status();
}

static const bti_run_table *inner_table(const node_call *c) { return c->inner->table; }

static bt_status room(void *call, uint64_t bytes, char **room_of) {
    node_call *c = call;
    c->shape = (wrap_shape){bytes, 0, 0};
    c->list = NULL;
    BTI_TRY(inner_table(c)->room(c->inner->call, wrap_value_bytes(&c->shape), room_of));
    if (*room_of) *room_of += wrap_lead(&c->shape) + wrap_at(&c->shape);
    return BT_OK;
}

static void seal(void *call, char *room_of, uint64_t bytes) {
    node_call *c = call;
    (void)bytes;
    if (c->list) return; /* it is sealed already, or small */
    char *list = room_of - wrap_at(&c->shape) - wrap_lead(&c->shape);
    wrap_value_begin(list, &c->shape, c->id);
    inner_table(c)->seal(c->inner->call, list, wrap_value_bytes(&c->shape));
}

/* A value that refers to others takes more room than was known when it was asked for. */
static void keep(void *call, const char *packed) {
    node_call *c = call;
    wrap_shape s = wrap_shape_of(packed, c->shape.bytes);
    char *list = NULL;
    if (!s.direct && !s.listed) return;
    char *copy = bti_alloc(s.bytes);
    if (!copy) return;
    memcpy(copy, packed, s.bytes);
    if (inner_table(c)->room(c->inner->call, wrap_value_bytes(&s), &list) == BT_OK) {
        if (!list) list = c->small;
        c->list = list;
        c->shape = s;
        wrap_value_begin(list, &s, c->id);
        memcpy(list + wrap_lead(&s) + wrap_at(&s), copy, s.bytes);
        if (wrap_refer(list + wrap_lead(&s), &s, held_inner_id)) inner_table(c)->keep(c->inner->call, list);
        if (list != c->small) inner_table(c)->seal(c->inner->call, list, wrap_value_bytes(&s));
    }
    bti_free(copy);
}

static bool is_cancelled(const void *call) {
    const node_call *c = call;
    return c->inner->table->is_cancelled(c->inner->call);
}

static const bti_run_table table = {resolve, room, seal, is_cancelled, keep};

/* The result as the inner engine takes it. */
static void wrap_result(node_call *c, bti_run_result *result) {
    if (!c->list && !result->room) { /* both fit: the inner engine was asked for room for it */
        c->shape = (wrap_shape){result->bytes, 0, 0};
        memmove(result->small + wrap_lead(&c->shape) + wrap_at(&c->shape), result->small, result->bytes);
        wrap_value_begin(result->small, &c->shape, c->id);
    } else if (c->list == c->small) {
        memcpy(result->small, c->small, wrap_value_bytes(&c->shape));
        result->room = NULL;
    } else {
        result->room = c->list ? c->list : result->room - wrap_at(&c->shape) - wrap_lead(&c->shape);
    }
    result->bytes = wrap_value_bytes(&c->shape);
}

bt_status __real_bti_run_call(const bti_run *run, bti_run_result *result);
bt_status __wrap_bti_run_call(const bti_run *run, bti_run_result *result);

static bool add_id(void *data, const bti_packed_value *head, bool in_list) {
    node_call *c = data;
    if (!in_list) c->ids[c->references++] = head->as.id;
    return true;
}

static bt_status run_as_node(const bti_run *run, bti_run_result *result) {
    uint64_t bytes;
    wrap_head head;
    node_call c = {.inner = run};
    const char *packed = run->arguments && bti_packed_is_whole(run->arguments, run->bytes)
                             ? wrap_read(run->arguments, &bytes, &head)
                             : NULL;
    table_entry *entry = packed ? table_at(head.id) : NULL;
    result->room = NULL;
    if (!entry) return bti_fail(BT_INTERNAL, "the arguments are damaged");
    c.id = head.id;
    wrap_shape shape = wrap_shape_of(packed, bytes);
    if (shape.direct && !(c.ids = bti_calloc((size_t)shape.direct, sizeof *c.ids)))
        return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    (void)bti_packed_each(packed, add_id, &c);
    atomic_fetch_and(&entry->flags, ~(unsigned)(ENTRY_LOST | ENTRY_NEEDS_LOST | ENTRY_MADE));
    atomic_store(&entry->node, (unsigned)nodes_here());
    bti_run node = *run;
    node.table = &table;
    node.call = &c;
    node.arguments = packed;
    node.bytes = bytes;
    bt_status status = __real_bti_run_call(&node, result);
    if (status == BT_OK) {
        atomic_store(&entry->bytes, result->bytes);
        atomic_fetch_or(&entry->copies, 1u << nodes_here());
        atomic_fetch_or(&entry->flags, ENTRY_MADE);
        wrap_result(&c, result);
    }
    bti_free(c.ids);
    return status;
}

bt_status __wrap_bti_run_call(const bti_run *run, bti_run_result *result) {
    return table_is_there() ? run_as_node(run, result) : __real_bti_run_call(run, result);
}
