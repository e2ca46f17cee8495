/* What the planner may know of a device: facts of its kind that a driver writes down once (drivers/driver.h). They are figures of a typical device
 * and not measured, so that a program has the same plan on each machine. Passes decide by some of them what is one kernel and what is one launch, `berth explain --passes` shows all; no fact changes a
 * bit of a result: orders of folding are those of ir/kernel.h and launch/entry.h. */
#ifndef BTI_IR_TARGET_H
#define BTI_IR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

/* What a device takes at once: a kernel, or the graph of a whole plan. */
typedef enum bti_granularity { BTI_KERNEL, BTI_GRAPH } bti_granularity;

/* In what a program may write kernels of its own for the device. */
typedef enum bti_language { BTI_NO_LANGUAGE, BTI_LANGUAGE_CUDA, BTI_LANGUAGE_OPENCL, BTI_LANGUAGES } bti_language;

/* Primitives that a library of the vendor does where it is installed. */
enum { BTI_LIBRARY_PRODUCT = 1 };

typedef struct bti_target_facts {
    bti_granularity granularity;
    bti_language language;
    int lanes;           /* float32 elements that one instruction computes */
    int group_threads;   /* threads that share local memory, at most; 1: there are no groups */
    int units;           /* cores or multiprocessors: rows that are folded side by side */
    int64_t local_bytes; /* next to a unit: the memory of a group, or the first cache */
    int64_t cache_bytes; /* of a unit: what it reads again from there costs little */
    int bandwidth;       /* bytes in a nanosecond, from memory */
    int f64_slowdown;    /* float32 operations in the time of one of float64 */
    unsigned libraries;  /* BTI_LIBRARY_ */
    bool epilogues;      /* a product applies the map that reads it where it makes it */
    int64_t
        bucket_bytes; /* of what is reduced over devices at once: of fewer, the start takes longer than the transfer */
    bool sends;       /* copies between its devices run beside their launches: what is copied has memory of its own */
    int launch_boxes; /* kernels of one text that one launch can run, over a box each; 1: launching is no more than a call */
} bti_target_facts;

#endif
