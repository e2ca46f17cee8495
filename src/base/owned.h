/* The header of every public object (array, layer, function, ...): its number of owners, where it was made, and where and how it was released. The
 * memory of a released object is kept in a queue until at least 65,536 others have been released, so that using it is reported as an error and does
 * not reach another object. */
#ifndef BTI_BASE_OWNED_H
#define BTI_BASE_OWNED_H

#include <stdatomic.h>

#include "base/error.h"

typedef enum bti_owned_kind {
    BTI_OWNED_ARRAY,
    BTI_OWNED_SHARED,
    BTI_OWNED_FUNCTION,
    BTI_OWNED_LAYER,
    BTI_OWNED_OPTIMIZER,
    BTI_OWNED_STRATEGY,
    BTI_OWNED_PARTS,
    BTI_OWNED_CUSTOM,
    BTI_OWNED_REF,
    BTI_OWNED_ACTOR,
    BTI_OWNED_GROUP,
    BTI_OWNED_POOL,
    BTI_OWNED_LEASE,
    BTI_OWNED_TENSORS,
    BTI_OWNED_PROFILE,
    BTI_OWNED_DATASET,
    BTI_OWNED_LOADER,
    BTI_OWNED_COUNT
} bti_owned_kind;

/* How an object was released. */
typedef enum bti_end {
    BTI_END_NONE, /* it is alive */
    BTI_END_SCOPE,
    BTI_END_RELEASE,
    BTI_END_ASSIGN,
    BTI_END_CALL, /* made inside a public call that returned something else */
    BTI_END_THREAD,
    BTI_END_SHUTDOWN
} bti_end;

typedef struct bti_owned {
    atomic_uint word; /* number of owners, and the two bits below */
    uint8_t kind;
    atomic_uchar end; /* bti_end; when it is not NONE, the fields about the release are set */
    uint16_t bytes;   /* of the object; 65535: that many or more */
    int made_line, released_line;
    const char *made_file, *released_file;
    union {
        bti_error *error;       /* alive: why it could not be made, retained; or NULL */
        struct bti_owned *next; /* released: the next in the queue */
    };
} bti_owned;

#define BTI_WORD_HELD 0x80000000u /* a scope lists it and is one of its owners, unless it was released explicitly */
#define BTI_WORD_BUSY 0x40000000u /* released explicitly while a scope lists it, before the release is recorded */
#define BTI_WORD_OWNERS 0x3fffffffu

/* A new object with one owner, zeroed after the header; made at the site of the running call. NULL when the host has no memory. */
void *bti_owned_new(bti_owned_kind kind, size_t bytes);

/* Adds an owner. False: the object has been released. */
static inline bool bti_owned_retain(bti_owned *object) {
    unsigned word = atomic_load_explicit(&object->word, memory_order_relaxed);
    do {
        if (!(word & BTI_WORD_OWNERS)) return false;
    } while (!atomic_compare_exchange_weak_explicit(&object->word, &word, word + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* The result of removing an owner. After LAST the caller frees the contents and calls bti_owned_end. */
typedef enum bti_dropped {
    BTI_DROPPED_ONE,
    BTI_DROPPED_LAST,
    BTI_DROPPED_NONE /* it had been released before */
} bti_dropped;
bti_dropped bti_owned_drop(bti_owned *object);
/* The same by the scope that lists the object. It is no error that the object was released explicitly before. */
bti_dropped bti_owned_drop_held(bti_owned *object);
/* Records the release and queues the memory. Only the first `readable` bytes may be read afterwards; ASan and valgrind report the rest. */
void bti_owned_end(bti_owned *object, size_t readable, bti_end end, bti_site site);

/* The error of using the object: it is NULL, was released, or could not be made. NULL: it can be used. Borrowed until the calling thread's next such
 * error. Within one public call the same misuse gives the same error. */
bti_error *bti_owned_error(const bti_owned *object, bti_owned_kind kind);
/* The same for an object that is known to be released. */
bti_error *bti_owned_released(const bti_owned *object);
static inline bool bti_owned_is_released(const bti_owned *object) {
    return !(atomic_load_explicit(&object->word, memory_order_relaxed) & BTI_WORD_OWNERS);
}

#endif
