/* What all processes of a runtime of nodes know: ids, nodes, and which process belongs to which. In memory that they share, which the program makes,
 * workers inherit, and a nest that was started by exec finds by a variable (BERTH_NODES_TABLE). */
#ifndef BERTH_TESTS_NODES_TABLE_H
#define BERTH_TESTS_NODES_TABLE_H

#include <stdatomic.h>

#include "nodes/nodes.h"

/* A result, an actor, a group or a value. */
typedef struct table_entry {
    atomic_uint generation;  /* odd: it is in use */
    atomic_uint flags;       /* below */
    atomic_uint node;        /* that began its call last, or put it; 0: none, or the program */
    atomic_uint copies;      /* bit per place that has the value; bit 0: the program */
    _Atomic uint64_t inner;  /* its id in the inner engine; 0: its call is on its way */
    _Atomic uint64_t bytes;  /* of its value */
    _Atomic uint64_t serial; /* counts ids */
    uint32_t index;          /* which of the results of its call, from 0; their ids follow each other */
} table_entry;
enum {
    ENTRY_EXPORTED = 1,   /* the id stands in a value: it is never given again */
    ENTRY_LOST = 2,       /* `node` was lost after it had begun */
    ENTRY_NEEDS_LOST = 4, /* its call failed because an argument was lost */
    ENTRY_REFUSED = 8,
    ENTRY_MADE = 16, /* its call has ended there */
    ENTRY_ACTOR = 32
};

/* Starts or joins it; NULL with the cause in the error record. */
bool table_make(void);
bool table_join(void); /* false: the runtime is of another engine */
void table_leave(void);
bool table_is_there(void);

/* A new id, of the first of so many results; 0: there are too many. */
uint64_t table_new(int count);
/* That of another result of the same call. */
uint64_t table_result(uint64_t id, int index);
/* NULL with the cause in the error record: it is stale, or never was one. */
table_entry *table_at(uint64_t id);
/* The actor with that id in the inner engine; 0: none has an id. */
uint64_t table_of_inner(uint64_t inner);
void table_free(uint64_t id); /* nothing for one that is exported */

/* This process belongs to a node from now on; in a worker. */
void table_register(void);
bool table_is_lost(int node);

#endif
