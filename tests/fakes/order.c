#include "fakes/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct operation {
    uint32_t stream, position;
    const char *name; /* interned */
    int device;
} operation;

typedef struct reader_set {
    uint32_t count, *ops; /* the last one is the latest */
    uint32_t next;        /* of the same hash; 0: none, else number + 1 */
} reader_set;

#define BUCKETS 1024

static operation *operations;
static uint32_t operation_count, operation_room, stream_count;
static reader_set *sets;
static uint32_t set_count, set_room, set_buckets[BUCKETS];
static char **names;
static uint32_t name_count;
static fake_clock host;
static uint32_t running;
static const fake_clock *running_clock;

static void *grow(void *memory, uint32_t count, uint32_t *room, size_t bytes) {
    if (count < *room) return memory;
    *room = *room ? *room * 2 : 64;
    memory = realloc(memory, *room * bytes);
    if (!memory) abort();
    return memory;
}

/* --- clocks --------------------------------------------------------------------------------------------------------- */

static void clock_reach(fake_clock *clock, uint32_t count) {
    if (clock->count >= count) return;
    clock->at = realloc(clock->at, count * sizeof *clock->at);
    if (!clock->at) abort();
    memset(clock->at + clock->count, 0, (count - clock->count) * sizeof *clock->at);
    clock->count = count;
}

void fake_clock_join(fake_clock *into, const fake_clock *from) {
    clock_reach(into, from->count);
    for (uint32_t i = 0; i < from->count; i++)
        if (into->at[i] < from->at[i]) into->at[i] = from->at[i];
}

void fake_clock_free(fake_clock *clock) {
    free(clock->at);
    *clock = (fake_clock){0};
}

fake_clock *fake_order_host(void) { return &host; }

static bool clock_covers(const fake_clock *clock, const operation *o) {
    return o->stream < clock->count && clock->at[o->stream] >= o->position;
}

bool fake_order_host_knows(uint32_t op) { return op <= FAKE_LOADER || clock_covers(&host, &operations[op]); }

/* --- operations ----------------------------------------------------------------------------------------------------- */

/* Few names are new: kernels and sizes of copies come again and again. */
static const char *intern(const char *name) {
    for (uint32_t i = name_count; i-- > 0 && name_count - i < 64;)
        if (!strcmp(names[i], name)) return names[i];
    names = realloc(names, (name_count + 1) * sizeof *names);
    if (!names || !(names[name_count] = strdup(name))) abort();
    return names[name_count++];
}

static uint32_t new_operation(operation made) {
    operations = grow(operations, operation_count, &operation_room, sizeof *operations);
    operations[operation_count] = made;
    return operation_count++;
}

uint32_t fake_order_stream(void) { return stream_count++; }

uint32_t fake_order_add(uint32_t stream, fake_clock *clock, const char *name, int device) {
    if (!operation_count) {
        (void)new_operation((operation){0});
        (void)new_operation((operation){.name = intern("what was there before"), .device = -1});
    }
    fake_clock_join(clock, &host);
    clock_reach(clock, stream + 1);
    return new_operation((operation){stream, ++clock->at[stream], intern(name), device});
}

void fake_order_begin(uint32_t op, const fake_clock *clock) {
    running = op;
    running_clock = clock;
}
void fake_order_end(void) {
    running = 0;
    running_clock = NULL;
}
uint32_t fake_order_now(void) { return running; }

static bool one_ordered(uint32_t op) {
    if (op <= FAKE_LOADER || op == running || !running_clock) return true;
    return clock_covers(running_clock, &operations[op]);
}

bool fake_ordered(uint32_t op, uint32_t *other) {
    *other = op;
    if (!(op & FAKE_OP_SET)) return one_ordered(op);
    const reader_set *set = &sets[op & ~FAKE_OP_SET];
    for (uint32_t i = 0; i < set->count; i++) {
        *other = set->ops[i];
        if (!one_ordered(*other)) return false;
    }
    return true;
}

/* --- sets of readers ------------------------------------------------------------------------------------------------ */

static uint32_t intern_set(const uint32_t *ops, uint32_t count) {
    uint32_t hash = 0;
    for (uint32_t i = 0; i < count; i++) hash = (hash ^ ops[i]) * UINT32_C(2654435761);
    uint32_t *bucket = &set_buckets[hash >> 22];
    for (uint32_t at = *bucket; at; at = sets[at - 1].next)
        if (sets[at - 1].count == count && !memcmp(sets[at - 1].ops, ops, count * sizeof *ops))
            return FAKE_OP_SET | (at - 1);
    sets = grow(sets, set_count, &set_room, sizeof *sets);
    sets[set_count] = (reader_set){count, malloc(count * sizeof *ops), *bucket};
    if (!sets[set_count].ops) abort();
    memcpy(sets[set_count].ops, ops, count * sizeof *ops);
    *bucket = set_count + 1;
    return FAKE_OP_SET | set_count++;
}

uint32_t fake_order_add_reader(uint32_t readers) {
    uint32_t single = readers, ops[64], count = 0;
    const uint32_t *known = readers & FAKE_OP_SET ? sets[readers & ~FAKE_OP_SET].ops : &single;
    uint32_t known_count = readers & FAKE_OP_SET ? sets[readers & ~FAKE_OP_SET].count : 1;
    for (uint32_t i = 0; i < known_count && count < 63; i++)
        if (known[i] != running && !one_ordered(known[i])) ops[count++] = known[i];
    if (!count) return running;
    ops[count++] = running;
    return intern_set(ops, count);
}

uint32_t fake_order_last(uint32_t op) {
    if (!(op & FAKE_OP_SET)) return op;
    const reader_set *set = &sets[op & ~FAKE_OP_SET];
    return set->ops[set->count - 1];
}

/* --- names ---------------------------------------------------------------------------------------------------------- */

const char *fake_order_name(uint32_t op) {
    return op < operation_count && operations[op].name ? operations[op].name : "?";
}
uint32_t fake_order_stream_of(uint32_t op) { return op < operation_count ? operations[op].stream : 0; }
int fake_order_device(uint32_t op) { return op < operation_count ? operations[op].device : -1; }

void fake_order_reset(void) {
    for (uint32_t i = 0; i < set_count; i++) free(sets[i].ops);
    for (uint32_t i = 0; i < name_count; i++) free(names[i]);
    free(sets);
    free(names);
    free(operations);
    fake_clock_free(&host);
    sets = NULL, names = NULL, operations = NULL;
    set_count = set_room = name_count = operation_count = operation_room = stream_count = running = 0;
    running_clock = NULL;
    memset(set_buckets, 0, sizeof set_buckets);
}
