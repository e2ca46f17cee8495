/* Libraries of matrix products (onednn.c, openblas.c) are opened when a product first needs one, and called on the calling thread
 * alone: product.c distributes the tiles over the cores. Any thread. */
#ifndef BTI_DRIVERS_CPU_PRODUCT_LIBRARY_H
#define BTI_DRIVERS_CPU_PRODUCT_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/libraries.h"
#include "base/str.h"

/* A matrix as these libraries take it: rows (transposed: columns) are contiguous, `leading` elements apart. */
typedef struct bti_blas_matrix {
    char *at;
    bool transposed;
    int64_t leading;
} bti_blas_matrix;

typedef struct bti_library_state {
    bool opened;
    char library[96]; /* "libdnnl.so.2" */
    char version[32]; /* "2.6.3" */
    uint64_t open_ns; /* the time that opening took */
    char reason[600]; /* why it could not be opened, truncated to fit; "" if it is open or was not needed yet */
} bti_library_state;

/* A library and the names that are tried, in order, up to a NULL. */
typedef struct bti_product_library {
    const char *const *names;
    bool (*resolve)(void *handle, bti_library_state *now, bti_str *reason); /* finds its symbols, under the lock */
    const char *install;                                                    /* what to install, for the reason */
    atomic_int found; /* 0: not tried yet; 1: open; -1: not available */
    bti_library_state now;
} bti_product_library;

/* Whether the library is available; the first call opens it. */
bool bti_product_library_open(bti_product_library *library);
void bti_product_library_state(bti_product_library *library, bti_library_state *state);
/* For tests: forgets that it is open, without closing it, and tries these names from now on. No product may be running. */
void bti_product_library_reset(bti_product_library *library, const char *const *names);

/* Looks up `count` symbols; NULL, or the name of the first one that is missing. */
typedef struct bti_library_symbol {
    const char *name;
    void **at;
} bti_library_symbol;
const char *bti_library_resolve(void *handle, const bti_library_symbol *symbols, size_t count);
#define BTI_LIBRARY_RESOLVE(handle, symbols) bti_library_resolve(handle, symbols, sizeof symbols / sizeof *symbols)

/* Around calls of a library by a piece of work, on its thread; false: the process is ending, and no library is called. Signals are held back, because a library's
 * kernel may use the stack pointer for something else. */
static inline bool bti_library_visit(bti_library_calls *calls, bti_guest *guest) {
    if (!bti_libraries_enter(calls)) return false;
    *guest = bti_guest_begin();
    bti_hold_signals();
    return true;
}
static inline void bti_library_part(const bti_guest *guest) {
    bti_libraries_leave();
    bti_guest_end(guest);
}

/* The OpenMP runtime of a library; NULLs if it uses none. Around each call, the calling thread's next team is itself alone; the
 * program's own setting is restored afterwards. */
typedef struct bti_omp {
    int (*get_max_threads)(void);
    void (*set_num_threads)(int threads);
} bti_omp;
const char *bti_omp_resolve(void *handle, bti_omp *omp); /* NULL, or what is missing */
static inline int bti_omp_begin(const bti_omp *omp) {
    int threads = omp->get_max_threads ? omp->get_max_threads() : 1;
    if (threads != 1) omp->set_num_threads(1);
    return threads;
}
static inline void bti_omp_end(const bti_omp *omp, int threads) {
    if (threads != 1) omp->set_num_threads(threads);
}

#endif
