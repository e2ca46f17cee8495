/* What an array is inside: handles, the scopes that hold them, and the public call that is running. */
#ifndef BTI_ARRAY_HANDLE_H
#define BTI_ARRAY_HANDLE_H

#include <berth/array.h>
#include <pthread.h>

#include "base/modes.h"
#include "base/owned.h"
#include "ir/node.h"

/* A handle on a node. Handles count as users of the node's result (node->handles). */
struct bt_array {
    bti_owned head;
    bti_node *_Atomic node; /* never NULL; FAILED nodes are poison, one of them that of all released arrays */
    void *mapped;           /* host copy made by bt_map */
    bti_node *donated;      /* what it was on before it was donated, retained: other threads may have begun to use it */
    uint64_t scope;         /* number of the scope that made it, or that it was moved to */
    uint64_t history;       /* operations that bt_assign kept in its history */
    bool ends_history;      /* at the end of its scope it forgets how it was made */
};

/* A new array of the innermost scope on a node, whose reference it takes over. When memory is short: the static poisoned
 * array that says so (never NULL; safe to release). NULL node: the same. */
bt_array *bti_array_new(bti_node *node);
/* The same on a node that stays the caller's. */
bt_array *bti_array_on(bti_node *node);
/* A poisoned array that carries `error` (taken over). */
bt_array *bti_poison(bti_error *error);
/* bti_poison(bti_error_new(...)) */
bt_array *bti_poisonf(bt_status status, const char *format, ...) BT_PRINTF(2, 3);
static inline bti_node *bti_node_of(const bt_array *x) { return atomic_load_explicit(&x->node, memory_order_acquire); }
/* The cause if x is poisoned (by its recording, or by the running of it as far as known now), else NULL; borrowed. A NULL x
 * and a released one count as poisoned by that. */
bti_error *bti_array_error(const bt_array *x);
/* Swaps the nodes of the two arrays. */
void bti_array_swap(bt_array *a, bt_array *b);
/* The array is on the FAILED node `error` from now on, which it takes over, unless it is poisoned or another thread did the same. */
void bti_array_donate(bt_array *x, bti_node *error);
/* A new array of the innermost scope that carries the cause of the first poisoned one among them; NULL if none is. */
bt_array *bti_poisoned_by(bt_array *const *arrays, int count);

/* --- other public objects --------------------------------------------------------------------------------------------
 * Shared variables, layers, ...: each begins with a bti_owned. One that cannot be made is poisoned, as an array: it carries the
 * cause, which every use of it gives. */
typedef struct bti_handle_class {
    bti_owned_kind kind;
    size_t bytes; /* of a poisoned one */
    /* frees what it has, not the object; does nothing to one that is zero behind its head. */
    void (*clear)(void *object);
    void *no_memory; /* a static one that begins with BTI_NO_MEMORY */
} bti_handle_class;
#define BTI_NO_MEMORY \
    { .word = 1, .error = &bti_no_memory_error }

/* Gives a new object to the innermost scope and returns it. NULL: one that is poisoned by what the error record says. Never NULL. */
void *bti_scope_own(const bti_handle_class *class, void *object);
/* One owner more; of one that is released, returns a poisoned one instead. name: of the public function, for errors. NULL is fine. */
void *bti_handle_retain(const bti_handle_class *class, void *object, const char *name);
void bti_handle_release(const bti_handle_class *class, void *object, const char *name);
/* Why it cannot be used (NULL, released, poisoned); NULL when it can. Borrowed until the thread's next such error. */
bti_error *bti_handle_misuse(bti_owned_kind kind, const void *object, const char *name);
static inline bti_error *bti_handle_error(bti_owned_kind kind, const void *object, const char *name) {
    const bti_owned *head = object;
    if (head && !bti_owned_is_released(head) && !head->error) return NULL;
    return bti_handle_misuse(kind, object, name);
}
/* The same as a status, with the cause in the error record. */
bt_status bti_handle_check(bti_owned_kind kind, const void *object, const char *name);

/* Calls fn for each array that this thread's scopes hold and for which it was not called before. fn makes and releases none. */
void bti_each_new_held(void (*fn)(bt_array *array, void *data), void *data);
uint64_t bti_held_visits(void); /* calls of such fn by all threads so far; for tests */
/* For shutdown: releases what this thread's scopes hold; how many threads hold scopes at all. */
void bti_release_thread(void);
/* A thread of the library that calls a function of the program's: whether it had scopes before, and that it has none afterwards. */
bool bti_thread_has_scopes(void);
void bti_leave_thread(void);
/* How many arrays its scopes do not account for: others hold them. Unknown (0) while they own anything but arrays. */
uint64_t bti_held_elsewhere(void);
int bti_threads_with_scopes(void);

/* --- public calls ---------------------------------------------------------------------------------------------------
 * Every public operation begins with BTI_PUBLIC("bt_name") and returns with BTI_RETURN(array): errors and the log name it,
 * arrays made inside for its own use are released, its last node is marked for the placement log. Calls inside of it, of
 * public operations too, belong to it. */
typedef struct bti_public {
    const char *name;
    int depth;
    int nesting; /* public operations that it is inside of */
    size_t scope;
    struct scopes *scopes; /* the thread's */
    bti_recorded since;    /* nodes recorded since are this call's */
    bti_modes modes;       /* the caller's, of the outermost */
    int autocast;          /* the thread's when the call began (array/autocast.h), and again when it ends */
} bti_public;
void bti_public_begin(bti_public *guard, const char *name);
void bti_public_end(bti_public *guard);
bt_array *bti_public_result(bti_public *guard, bt_array *result);
/* What BT_AUTOCAST says on this thread (array/autocast.h); setting it returns what was there. */
int bti_autocast_state(void);
int bti_autocast_set(int state);
int bti_public_nesting(void);    /* of the running operation: 1 in the outermost */
uint64_t bti_public_calls(void); /* outermost ones that this thread began */
/* Keeps one of several results past the end of the call; returns it. */
bt_array *bti_public_keep(bti_public *guard, bt_array *result);
#define BTI_PUBLIC(name)                                                     \
    bti_public bti_public_ __attribute__((cleanup(bti_public_end), unused)); \
    bti_public_begin(&bti_public_, name)
/* The same for a call that waits: where the user calls it, a cancellation that the thread was asked for happens, as nothing is held yet. */
#define BTI_PUBLIC_WAITING(name) \
    BTI_PUBLIC(name);            \
    if (bti_public_.nesting == 0) pthread_testcancel()
#define BTI_RETURN(result) return bti_public_result(&bti_public_, (result))

#endif
