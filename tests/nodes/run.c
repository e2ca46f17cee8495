/* The side of a call that runs, in a worker: its arguments, those that they refer to, and its result are values of nodes, inside of those of the inner
 * engine (wrap.h). */
#include "task/run.h"

#include <string.h>

#include "base/alloc.h"
#include "nodes/held.h"
#include "nodes/wrap.h"
#include "task/engine.h"

enum { MOST_RESULTS = 100 };

/* A result of a call on its way. */
typedef struct output {
    uint64_t bytes; /* as the inner engine takes it */
    bool in_room;   /* it stands in room of the inner engine, whole */
    bool kept;      /* it refers to others, and was written with them */
    char *small;    /* of one that was kept and is in no room */
} output;

typedef struct node_call {
    const bti_call_run *inner;
    uint64_t id;      /* of its first result */
    int references;   /* and actors, among its arguments */
    uint64_t *ids;    /* theirs, in order */
    int guess;        /* the next that is looked for, most likely */
    int index;        /* of the result that is written */
    wrap_shape shape; /* of that */
    output outputs[MOST_RESULTS];
} node_call;

/* NULL: nobody has the result any more; the call runs to its end all the same. */
static table_entry *entry_of(const node_call *c, int index) {
    bti_error *before = bti_error_last();
    bool quiet = bti_errors_quiet(true);
    table_entry *first = table_at(c->id), *entry = first ? table_at(table_result(c->id, index)) : NULL;
    bti_errors_quiet(quiet);
    return bti_error_put_back(before), entry;
}

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
    table_entry *entry = table_at(reference->as.id), *mine = entry_of(c, 0);
    if (place < 0 || !entry) return bti_fail(BT_INTERNAL, "nodes: an argument that the call does not have");
    bti_packed_value inner = bti_unpack(c->inner->arguments, place + 2).head;
    BTI_TRY(c->inner->table->resolve(c->inner->call, &inner, &list, owner));
    if (!atomic_load(&entry->copies)) {
        if (mine) atomic_fetch_or(&mine->flags, ENTRY_NEEDS_LOST);
        return bti_fail(BT_DATA_LOSS, "argument %d of %s was lost with node %u", place + 1, c->inner->function,
                        atomic_load(&entry->node));
    }
    atomic_fetch_or(&entry->copies, 1u << nodes_here());               /* it is fetched */
    bool is_stream = bti_unpack(list, 0).head.type == BT_STREAM_VALUE; /* the function gets the stream itself */
    *packed = is_stream ? list : wrap_value_read(list, &bytes, &head);
    return *packed ? BT_OK : bt_error_status();
}

static const bti_run_table *inner_table(const node_call *c) { return c->inner->table; }

/* Bytes that go with the end of the call and are left for a result, when those before it are there. */
static uint64_t left_for(const node_call *c, int index) {
    uint64_t used = (uint64_t)c->inner->num_returns * sizeof(uint64_t);
    for (int i = 0; i < index; i++) used += c->outputs[i].in_room ? 0 : c->outputs[i].bytes;
    return used < BTI_RUN_SMALL ? BTI_RUN_SMALL - used : 0;
}

static bt_status inner_room(node_call *c, int index, uint64_t bytes, char **room_of) {
    output *o = &c->outputs[index];
    BTI_TRY(inner_table(c)->room(c->inner->call, index, bytes, left_for(c, index), room_of));
    bti_free(o->small);
    *o = (output){.bytes = bytes, .in_room = *room_of != NULL};
    return BT_OK;
}

static uint64_t values_at(const wrap_shape *s) { return wrap_lead(s) + wrap_at(s); }

static bt_status room(void *call, int index, uint64_t bytes, uint64_t left, char **room_of) {
    node_call *c = call;
    if (index >= MOST_RESULTS) return bti_fail(BT_INTERNAL, "nodes: result %d", index);
    c->index = index;
    c->shape = (wrap_shape){bytes, 0, 0};
    BTI_TRY(inner_room(c, index, wrap_value_bytes(&c->shape), room_of));
    if (*room_of) *room_of += values_at(&c->shape);
    if (!*room_of && bytes > left) return bti_fail(BT_INTERNAL, "nodes: a small result that is large");
    return BT_OK;
}

static void seal(void *call, char *room_of, uint64_t bytes) {
    node_call *c = call;
    (void)bytes;
    if (c->outputs[c->index].kept) return; /* it is elsewhere, and sealed */
    char *value = room_of - values_at(&c->shape);
    wrap_value_begin(value, &c->shape, table_result(c->id, c->index));
    inner_table(c)->seal(c->inner->call, value, wrap_value_bytes(&c->shape));
}

/* A value that refers to others takes more room than was known when it was asked for. */
static bt_status keep(void *call, const char *packed) {
    node_call *c = call;
    wrap_shape s = wrap_shape_of(packed, c->shape.bytes);
    char *value = NULL;
    if (!s.direct && !s.listed) return BT_OK;
    char *copy = bti_alloc(s.bytes);
    if (!copy) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    memcpy(copy, packed, s.bytes);
    bt_status status = inner_room(c, c->index, wrap_value_bytes(&s), &value);
    if (status == BT_OK) {
        output *o = &c->outputs[c->index];
        if (!value) value = o->small = bti_alloc(o->bytes);
        if (value) {
            wrap_value_begin(value, &s, table_result(c->id, c->index));
            memcpy(value + values_at(&s), copy, s.bytes);
            o->kept = true;
            if (wrap_refer(value + wrap_lead(&s), &s, held_inner_id))
                status = inner_table(c)->keep(c->inner->call, value);
            if (o->in_room) inner_table(c)->seal(c->inner->call, value, wrap_value_bytes(&s));
        } else {
            status = bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
        }
    }
    bti_free(copy);
    return status;
}

static bool is_cancelled(const void *call) {
    const node_call *c = call;
    return c->inner->table->is_cancelled(c->inner->call);
}

static bt_status yield(void *call, const bti_values *value) {
    node_call *c = call;
    wrap_shape s;
    table_entry *entry = entry_of(c, 0);
    char *list = held_wrap(value, c->id, &s);
    if (!list) return bt_error_status();
    if (entry) atomic_fetch_or(&entry->copies, 1); /* what links items goes to who waits for them, and is not lost */
    bt_status status =
        inner_table(c)->yield(c->inner->call, &(bti_values){.count = 1, .packed = list, .bytes = wrap_value_bytes(&s)});
    bti_free(list);
    return status;
}

static const bti_run_table table = {resolve, room, seal, is_cancelled, keep, yield};

/* The results as the inner engine takes them. */
static void wrap_results(node_call *c, bti_run_result *result) {
    char all[BTI_RUN_SMALL];
    uint64_t from = 0, to = 0;
    for (int i = 0; i < c->inner->num_returns && from < result->bytes; i++) {
        uint64_t bytes, whole;
        output *o = &c->outputs[i];
        memcpy(&bytes, result->small + from, sizeof bytes);
        from += sizeof bytes;
        wrap_shape s = {bytes, 0, 0};
        whole = o->in_room ? 0 : o->small ? o->bytes : wrap_value_bytes(&s);
        memcpy(all + to, &whole, sizeof whole);
        to += sizeof whole;
        if (o->small) {
            memcpy(all + to, o->small, whole);
        } else if (whole) {
            wrap_value_begin(all + to, &s, table_result(c->id, i));
            memcpy(all + to + values_at(&s), result->small + from, bytes);
        }
        to += whole;
        from += bytes;
    }
    memcpy(result->small, all, to);
    result->bytes = to;
}

bt_status __real_bti_run_call(const bti_call_run *run, bti_run_result *result);
bt_status __wrap_bti_run_call(const bti_call_run *run, bti_run_result *result);

static void begin(const node_call *c) {
    for (int i = 0; i < c->inner->num_returns || !i; i++) {
        table_entry *entry = entry_of(c, i);
        if (!entry) return;
        atomic_fetch_and(&entry->flags, ~(unsigned)(ENTRY_LOST | ENTRY_NEEDS_LOST | ENTRY_MADE));
        atomic_store(&entry->node, (unsigned)nodes_here());
    }
}

static void end(const node_call *c) {
    for (int i = 0; i < c->inner->num_returns; i++) {
        table_entry *entry = entry_of(c, i);
        if (!entry) return;
        atomic_store(&entry->bytes, c->outputs[i].bytes);
        atomic_fetch_or(&entry->copies, 1u << nodes_here());
        atomic_fetch_or(&entry->flags, ENTRY_MADE);
    }
}

static bool add_id(void *data, const bti_packed_value *head, bool in_list) {
    node_call *c = data;
    if (!in_list) c->ids[c->references++] = head->as.id;
    return true;
}

static bt_status run_as_node(const bti_call_run *run, bti_run_result *result) {
    uint64_t bytes;
    wrap_head head;
    node_call c = {.inner = run};
    const char *packed = run->arguments && bti_packed_is_whole(run->arguments, run->bytes)
                             ? wrap_read(run->arguments, &bytes, &head)
                             : NULL;
    result->bytes = 0;
    if (!packed) return bti_fail(BT_INTERNAL, "the arguments are damaged");
    c.id = head.id;
    wrap_shape shape = wrap_shape_of(packed, bytes);
    if (shape.direct && !(c.ids = bti_calloc((size_t)shape.direct, sizeof *c.ids)))
        return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    (void)bti_packed_each(packed, add_id, &c);
    begin(&c);
    bti_call_run node = *run;
    node.table = &table;
    node.call = &c;
    node.arguments = packed;
    node.bytes = bytes;
    bt_status status = __real_bti_run_call(&node, result);
    if (status == BT_OK) {
        wrap_results(&c, result);
        end(&c);
    }
    for (int i = 0; i < run->num_returns && i < MOST_RESULTS; i++) bti_free(c.outputs[i].small);
    bti_free(c.ids);
    return status;
}

bt_status __wrap_bti_run_call(const bti_call_run *run, bti_run_result *result) {
    return table_is_there() ? run_as_node(run, result) : __real_bti_run_call(run, result);
}
