/* A function of the program's in a plan: what a callback or an operation of the user's runs on the host, or its kernels. */
#ifndef BTI_IR_HOST_H
#define BTI_IR_HOST_H

#include <berth/custom.h>
#include <stdatomic.h>

#include "ir/attr.h"
#include "ir/factor.h"
#include "ir/fft.h"
#include "ir/target.h"

/* Nodes and prepared plans hold it. */
struct bti_node;
typedef struct bti_host_function bti_host_function;
struct bti_host_function {
    atomic_uint refs;
    void (*free)(bti_host_function *function); /* the last reference is gone */
    atomic_bool ended;                         /* nobody records it any more: what is kept of it to be run again goes */
    /* Of two with the same `run`: equal bytes here do the same. 0: this one does what no other does. */
    const void *same;
    size_t same_bytes;
    /* Runs on the thread that runs the queue, under no lock of it. outputs: where to write; none of a callback. NULL: kernels alone do it. */
    bt_status (*run)(bti_host_function *function, const bt_elements *inputs, int count, const bt_elements *outputs,
                     const bti_attr *attr);
    /* Of an operation of the user's; NULLs and false of a callback. */
    const char *name;                                                       /* lives as long as the process */
    bool (*fits)(bti_host_function *function, const struct bti_node *node); /* whether its inputs make such results */
    bool impure;                                                            /* equal calls are computed apart */
    const char *entry, *texts[BTI_LANGUAGES]; /* of its kernel; NULL: none for that language */
    /* The grid of the kernel for such operands: at least one group of one thread, or the status says why not. */
    bt_status (*grid)(bti_host_function *function, const bt_elements *inputs, int count, const bt_elements *outputs,
                      const bti_attr *attr, bt_custom_grid *grid);
    /* (optional, one of them) The Fourier transform, or the linear algebra, that `run` is of such inputs: a library of the device's may compute it. */
    void (*lines)(const bt_elements *input, const bti_attr *attr, bti_fft_lines *lines);
    void (*factor)(const bti_host_function *function, const bt_elements *inputs, int count, const bti_attr *attr,
                   bti_factor *factor);
    bool
        in_graphs; /* with `lines` or `factor`: devices that load graphs have it among their operations; else the host calls it */
};

/* Whether its kernel runs on such a device; else the host calls it. */
static inline bool bti_host_has_kernel(const bti_host_function *function, bti_language language) {
    return function->texts[language] != NULL;
}

static inline bti_host_function *bti_host_retain(bti_host_function *function) {
    if (function) atomic_fetch_add_explicit(&function->refs, 1, memory_order_relaxed);
    return function;
}
static inline void bti_host_release(bti_host_function *function) { /* NULL is fine */
    if (function && atomic_fetch_sub_explicit(&function->refs, 1, memory_order_acq_rel) == 1) function->free(function);
}

#endif
