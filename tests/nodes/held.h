/* What the handles of a process hold: results, actors, groups and values of nodes. */
#ifndef BERTH_TESTS_NODES_HELD_H
#define BERTH_TESTS_NODES_HELD_H

#include <pthread.h>
#include <stdatomic.h>

#include "nodes/frame.h"
#include "nodes/table.h"
#include "nodes/wrap.h"

typedef enum held_state { HELD_SENT, HELD_HERE, HELD_REFUSED } held_state;

typedef struct held {
    struct held *next; /* in its bucket */
    atomic_int users;
    uint64_t id;
    table_entry *entry;
    _Atomic held_state state; /* set after what follows from it */
    _Atomic(void *) inner;    /* the inner engine's */
    /* With the lock, and what one_at_a_time (held.c) protects: */
    struct held *older; /* holds of former calls of it, which somebody may read */
    bti_error *error;   /* of one that was refused, or is lost */
    bt_failure failure;
    uint64_t arrives_ns; /* its reply; 0: the inner engine was not seen done yet */
    bool arrived;        /* its reply has come */
    bool is_group;
    int result;          /* which result of its call, from 0 */
    uint64_t done_ns;    /* when it was seen done by the inner engine */
    uint64_t actor;      /* of a method */
    uint64_t *arguments; /* ids of those that it refers to */
    int argument_count;
    uint32_t version, arguments_version; /* how often it was made again; what its arguments had been then, added */
    struct held *link_item, *link_next;  /* of a stream */
    char link[BTI_STREAM_BYTES];
    char name[64]; /* of its function */
    char *frame;   /* its call, to be made again; NULL: it cannot be */
    uint64_t size;
    int retries;
    struct held **kept; /* its arguments, as long as it has the frame */
} held;

extern pthread_mutex_t held_lock;
extern pthread_cond_t held_changed; /* one is no longer sent */
extern const bti_engine *held_inner;

/* Known by its id, with one user; id 0: a new one, of the first of so many results. NULL with the cause. */
held *held_new(uint64_t id, int count, void *inner);
held *held_find(uint64_t id); /* one more user of one that this process has; NULL */
void held_retain(held *h);
void held_release(held *h);
/* What its call refers to. False: out of memory. */
bool held_set_arguments(held *h, const char *packed);

/* The reply has come: its value, or its failure, can be read. */
bool held_is_here(held *h, uint64_t now_ns);

/* What the inner engine has made by itself, with an id of its own, and one user. It cannot be lost. NULL with the cause. */
held *held_other(uint64_t inner_id);
/* A value as the inner engine takes it; the caller's to bti_free. NULL with the cause. */
char *held_wrap(const bti_values *value, uint64_t id, wrap_shape *shape);
/* What a value refers to, as the inner engine knows it; 0 with the cause. One that is lost is made again. */
uint64_t held_inner_id(uint64_t id);
/* The values that a frame of a call refers to and that are lost are made again; then the call is made. NULL with the cause. */
void *held_make(const frame *f);
/* Of one whose reply has come: it has nothing that can be read, and is made again (true), or has an error from now on. */
bool held_mend(held *h);
bool held_died_with_node(held *h);
void held_forget(void); /* all, at the end */

#endif
