/* Values of nodes as values of the inner engine: a packed list (task/value.h) of
 *
 *     bytes    a head (below), of such a length that what follows lies at a multiple of 64
 *     bytes    the values, packed, with ids of nodes
 *     ...      the references and actors among them, in order, with ids of the inner engine: it waits for those of calls, and keeps them
 *     list     of those that stand in lists among the values, if there are any: it keeps them
 */
#ifndef BERTH_TESTS_NODES_WRAP_H
#define BERTH_TESTS_NODES_WRAP_H

#include "task/value.h"

typedef struct wrap_head {
    uint32_t magic;
    uint32_t unused;
    uint64_t id; /* of the result of the call, or of the value */
} wrap_head;

/* Packed values, and how many references and actors they have: themselves, and in lists. */
typedef struct wrap_shape {
    uint64_t bytes;
    int64_t direct, listed;
} wrap_shape;

wrap_shape wrap_shape_of(const char *packed, uint64_t bytes);
/* Bytes of all; where the values stand. */
uint64_t wrap_bytes(const wrap_shape *shape);
uint64_t wrap_at(const wrap_shape *shape);
/* Fills in all but the values and what they refer to; and that. False with the cause in the error record: `inner` gave 0 for an id. */
void wrap_begin(char *list, const wrap_shape *shape, uint64_t id);
bool wrap_refer(char *list, const wrap_shape *shape, uint64_t (*inner)(uint64_t id));

/* A result, or what was put, is one value: a list of these. Bytes before it; bytes of all; fills in what is before, and begins. */
uint64_t wrap_lead(const wrap_shape *shape);
uint64_t wrap_value_bytes(const wrap_shape *shape);
void wrap_value_begin(char *value, const wrap_shape *shape, uint64_t id);
/* The values in the list of one. */
const char *wrap_value_read(const char *value, uint64_t *bytes, wrap_head *head);

/* The values in a list: NULL with the cause in the error record, when it is none. */
const char *wrap_read(const char *list, uint64_t *bytes, wrap_head *head);

#endif
