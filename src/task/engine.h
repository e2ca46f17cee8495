/* What runs tasks and actors: an engine fills in this table. "local" (local.c) runs them in processes of this machine; others run the same
 * calls on several. The public functions (front.c) check, own handles and errors, and know no engine: a call is a function's module and
 * name, what it takes, and values as bytes; what it gives is `held`, the engine's own, behind a reference, an actor or a group.
 *
 *     handle   the public object (bt_ref, bt_actor, bt_group), counted by handles.h; it has one `held`
 *     held     what the engine keeps for a handle, an untyped pointer of the engine's own; `release` ends it
 *     hold     a record of the engines of one machine (bti_hold) by which a process keeps an object alive; their `held` points to one
 *     pin      keeps a value at its place in memory while a process has a pointer into it; `unpin` ends it */
#ifndef BTI_TASK_ENGINE_H
#define BTI_TASK_ENGINE_H

#include <berth/task.h>

#include "base/error.h"

typedef enum bti_call_kind { BTI_CALL_TASK, BTI_CALL_ACTOR, BTI_CALL_METHOD } bti_call_kind;

typedef enum bti_cancel_how {
    BTI_CANCEL_FORCE = 1, /* its process is ended, if it runs */
    BTI_CANCEL_MADE = 2   /* also the calls that it made, and those that they made */
} bti_cancel_how;

/* Values on their way into an engine: items of the public functions, none of them poisoned; or bytes that were packed already (value.h), by an
 * engine that stands on this one: references and actors in them are ids of this engine. */
typedef struct bti_values {
    const bt_item_value *items;
    int count;
    const char *packed; /* NULL: items */
    uint64_t bytes;
} bti_values;

typedef struct bti_engine_call {
    bti_call_kind kind;
    const char *module, *function;  /* its key (modules.c), "" for the program; its name there */
    const bt_task_options *options; /* merged with the declared ones (options.h) */
    bti_values arguments;
    void *actor; /* of a method */
    void *group; /* or NULL */
} bti_engine_call;

/* A value in the memory of an engine. */
typedef struct bti_reading {
    const char *packed; /* a list of one value (value.h), which others may have written: to be checked */
    uint64_t bytes;
    void *owner; /* keeps that memory, for array_in; NULL: the memory lasts as long as the pin */
    void *pin;   /* NULL: there is nothing to unpin */
} bti_reading;

/* Entries return NULL, or a status, with the cause in the error record. Any thread may call them; seconds < 0: no limit. */
typedef struct bti_engine {
    const char *name;
    bt_status (*start)(const bt_runtime_options *options);
    bt_status (*stop)(void); /* ends all processes and all waits; public calls may still be leaving */
    void (*close)(void);     /* after the last public call has left: frees everything */
    void *(*submit)(const bti_engine_call *call); /* its result, or its actor */
    void *(*put)(const bti_values *value);        /* of one */
    /* The result with that number of the call that `held` is a result of. */
    void *(*result)(void *held, int index);
    /* The value of a result that is done: it stays where it lies until unpin. Or its failure. If the process that was settling it has died,
     * the result is pending again: the caller checks is_done afterwards. */
    bt_status (*read)(void *held, bti_reading *reading);
    void (*unpin)(void *pin);
    /* Until `wanted` of them are done, or the time is over. */
    bt_status (*wait)(void *const *held, int count, int wanted, double seconds);
    bool (*is_done)(void *held);
    bt_failure (*failure)(void *held);             /* of one that is done */
    bt_status (*cancel)(void *held, unsigned how); /* bti_cancel_how, joined by | */
    void (*release)(void *held);
    bt_status (*actor_status)(void *held);
    void *(*actor_find)(const char *name);
    bt_status (*actor_kill)(void *held);
    void *(*group)(const bt_task_options *bundles, int count);
    double (*resource)(const char *name, bool only_free); /* NaN: there is none */
    int (*gpus)(int *ids, int capacity);                  /* bt_get_gpu_ids */
    /* Values (value.h). `id`: the number of a reference or an actor in packed bytes. `hold`: another hold of what an id stands for; the
     * caller has read the id in a value that it still holds. `array_in`: an array in the memory of a value, which `owner` keeps, or a copy
     * of it. */
    uint64_t (*id)(const void *held);
    void *(*hold)(uint64_t id);
    bt_array *(*array_in)(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                          bt_shape shape);
    /* "json" (docs/tasks-views.md) or "timeline" (a Chrome trace); the caller's to bti_free. NULL with the cause in the error record. */
    char *(*view)(const char *what);
    /* OK, or why no call can be made any more: then no entry but stop and close is called. `thorough`: a full check, which takes longer. */
    bt_status (*fault)(bool thorough);
    bool detaches; /* actors may outlive the program (.detached) */
} bti_engine;

extern const bti_engine bti_engine_local;
extern const bti_engine bti_engine_ray; /* ray/engine.c */

/* Makes it known by its name, before a runtime is started; the table stays. "local" is known (lifetime.c). */
void bti_engine_add(const bti_engine *engine);

/* given_values.c: INVALID_ARGUMENT, or its own cause, when one of them cannot be an argument, a result or be put: NULL, poisoned, lists that are too deep or have
 * too much. name: of the function. */
bt_status bti_check_values(const char *name, const bt_item_value *values, int count);

#endif
