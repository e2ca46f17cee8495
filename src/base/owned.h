/* What every public object (array, layer, function, ...) begins with: how many hold it, where it was made, and, once it is
 * released, where and how. The memory of a released object is kept in a queue until at least 65,536 others have been released, so
 * that a use of it is an error and not a use of another object. */
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
    BTI_OWNED_REF,
    BTI_OWNED_ACTOR,
    BTI_OWNED_GROUP,
    BTI_OWNED_POOL,
    BTI_OWNED_LEASE,
    BTI_OWNED_TENSORS,
    BTI_OWNED_PROFILE,
    BTI_OWNED_COUNT
} bti_owned_kind;

/* What released an object. */
typedef enum bti_end {
    BTI_END_NONE, /* it lives */
    BTI_END_SCOPE,
    BTI_END_RELEASE,
    BTI_END_ASSIGN,
    BTI_END_CALL, /* made while a public call ran, and not its result */
    BTI_END_THREAD,
    BTI_END_SHUTDOWN
} bti_end;

typedef struct bti_owned {
    atomic_uint word; /* owners; and the two bits below */
    uint8_t kind;
    atomic_uchar end; /* bti_end; when not NONE, what follows about the release is there */
    uint16_t bytes;   /* 65535: that many or more */
    int made_line, released_line;
    const char *made_file, *released_file;
    union {
        bti_error *error;       /* of a living one that could not be made: why; retained */
        struct bti_owned *next; /* of a released one */
    };
} bti_owned;

#define BTI_WORD_HELD 0x80000000u /* a scope lists it: one of the owners, unless it was released by hand */
#define BTI_WORD_BUSY 0x40000000u /* released by hand while listed, and not yet marked so */
#define BTI_WORD_OWNERS 0x3fffffffu

/* All zero behind the head; one owner, made at the place of the running call. NULL when memory is short. */
void *bti_owned_new(bti_owned_kind kind, size_t bytes);

/* One owner more. False: it has been released. */
static inline bool bti_owned_retain(bti_owned *object) {
    unsigned word = atomic_load_explicit(&object->word, memory_order_relaxed);
    do {
        if (!(word & BTI_WORD_OWNERS)) return false;
    } while (!atomic_compare_exchange_weak_explicit(&object->word, &word, word + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* What one owner less made of an object. Of the LAST, the caller frees what it has and then calls bti_owned_end. */
typedef enum bti_dropped {
    BTI_DROPPED_ONE,
    BTI_DROPPED_LAST,
    BTI_DROPPED_NONE /* it had been released */
} bti_dropped;
bti_dropped bti_owned_drop(bti_owned *object);
/* The same by the scope that lists it: not an error when it had been released by hand. */
bti_dropped bti_owned_drop_held(bti_owned *object);
/* `readable`: how many of its bytes may still be read; checkers (ASan, valgrind) report the rest. */
void bti_owned_end(bti_owned *object, size_t readable, bti_end end, bti_site site);

/* Why the object cannot be used: it is NULL, was released, or could not be made; NULL when it can. Borrowed until the calling
 * thread's next such error. The same mistake of one public call is one error. */
bti_error *bti_owned_error(const bti_owned *object, bti_owned_kind kind);
/* The same for one that is known to be released. */
bti_error *bti_owned_released(const bti_owned *object);
static inline bool bti_owned_is_released(const bti_owned *object) {
    return !(atomic_load_explicit(&object->word, memory_order_relaxed) & BTI_WORD_OWNERS);
}

#endif
