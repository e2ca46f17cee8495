/* What a runtime knows, as a copy that views are made from: taken with the lock, in short pieces. */
#ifndef BTI_TASK_SNAPSHOT_H
#define BTI_TASK_SNAPSHOT_H

#include "base/vec.h"
#include "task/energy.h"
#include "task/supply.h"

enum { BTI_VIEW_WAITING = 100 }; /* how many tasks of each kind of waiting are copied; all are counted */

typedef enum bti_view_state {
    BTI_VIEW_NONE, /* not there, or taken back before it began */
    BTI_VIEW_ARGUMENTS,
    BTI_VIEW_RESOURCES,
    BTI_VIEW_TURN, /* in its actor's line */
    BTI_VIEW_STARTING,
    BTI_VIEW_RUNNING,
    BTI_VIEW_BLOCKED, /* waits inside for an object */
    BTI_VIEW_ENDING,  /* done; its GPUs are free when its process is gone */
    BTI_VIEW_LIVING,  /* an actor's making: the actor is there */
    BTI_VIEW_STATES
} bti_view_state;

typedef struct bti_view_traits {
    const char *name;
    bool holds; /* it has its resources */
    bool begun; /* its function was called */
} bti_view_traits;
extern const bti_view_traits bti_view_traits_of[BTI_VIEW_STATES]; /* by bti_view_state */

/* What makes the object that is waited for. */
typedef struct bti_view_awaited {
    const bti_function_record *function; /* NULL: none is known */
    uint32_t state;
    int32_t pid;
    uint64_t since_ns; /* since when it runs or waits */
} bti_view_awaited;

typedef struct bti_view_task {
    uint64_t sequence, submitted_ns, begun_ns, gpus;
    const bti_function_record *function;
    bti_amounts amounts;
    int32_t priority, pid; /* pid: of the worker; 0: none yet */
    uint32_t worker, state;
    uint32_t missing; /* number of arguments that are not there; `argument`: the first of them, from 1; 0: not known */
    int argument;
    bti_view_awaited awaited;
    bool cpus_lent, group_waits;
    const bti_supply *from; /* the supply that it takes resources from; may be gone: only to be compared */
    int supply;             /* index in `supplies` of a copy of that supply, if it waits; -1: it is the machine */
    bool of_actor;
    int32_t actor_pid;
    uint64_t making; /* of its actor: `sequence` of that */
    char actor[64];  /* its name */
} bti_view_task;

typedef struct bti_view_worker {
    uint32_t number, state;
    int32_t pid;
    const bti_function_record *function; /* the function that it runs; NULL: none */
    char actor[64];                      /* name of the actor that it is */
    bool is_actor;
} bti_view_worker;

typedef struct bti_view_actor {
    bti_view_task making;
    uint32_t state, length; /* bti_actor_state; methods in line */
    int32_t restarts, restarted;
    uint32_t running, at_once;         /* methods; and the most that may (max_concurrency) */
    const bti_function_record *method; /* the method that runs, of several the oldest; NULL: none */
} bti_view_actor;

typedef struct bti_view_group {
    bti_amounts total;
    int32_t bundles;
    uint32_t users;
    bool has;
    uint64_t gpus;
} bti_view_group;

typedef struct bti_view_function {
    const bti_function_record *function;
    uint32_t count[BTI_VIEW_STATES];
} bti_view_function;

typedef struct bti_snapshot {
    bti_state state; /* only its plain fields: the records that it points to may be gone */
    bti_energy_board energy;
    uint64_t now_ns, objects, recoveries;
    int32_t program;
    bool program_waits;
    bti_view_awaited program_awaits;
    uint64_t count[BTI_VIEW_STATES];
    BTI_VEC(bti_view_task) running, waiting; /* waiting: for resources in the order of their turns, then others */
    BTI_VEC(bti_supply) supplies;
    BTI_VEC(bti_view_worker) workers;
    BTI_VEC(bti_view_actor) actors;
    BTI_VEC(bti_view_group) groups;
    BTI_VEC(bti_view_function) functions; /* those with a task */
} bti_snapshot;

/* False when memory is short. */
bool bti_view_take(bti_state *state, bti_snapshot *view);
void bti_view_free(bti_snapshot *view);

#endif
