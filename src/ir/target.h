/* What the planner may know of a device: facts of its kind that a driver writes down once (drivers/driver.h). They are figures of a typical device
 * and not measured, so that a program has the same plan on each machine. Passes decide by some of them what is one kernel and what is one launch, `berth explain --passes` shows all; no fact changes a
 * bit of a result: orders of folding are those of ir/kernel.h and launch/entry.h. */
#ifndef BTI_IR_TARGET_H
#define BTI_IR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

/* In what a program may write kernels of its own for the device. */
typedef enum bti_language { BTI_NO_LANGUAGE, BTI_LANGUAGE_CUDA, BTI_LANGUAGE_OPENCL, BTI_LANGUAGES } bti_language;

/* Instructions (ir/instructions.def) that a lane begins in a nanosecond: of a CPU 2 in a clock of 3.5 GHz, of a GPU 4 in one of 1.7. */
#define BTI_LANE_RATE 7

typedef struct bti_target_facts {
    bool graphs; /* it loads graphs, and fuses by itself; the facts below are then of no use */
    bti_language language;
    int lanes;           /* float32 elements that one instruction computes; BTI_LANE_RATE */
    int group_threads;   /* threads that share local memory, at most; 1: there are no groups */
    int units;           /* cores or multiprocessors: rows that are folded side by side */
    int64_t local_bytes; /* next to a unit: the memory of a group, or the first cache */
    int64_t cache_bytes; /* of a unit: what it reads again from there costs little */
    int bandwidth; /* bytes in a nanosecond, to or from where values of some MiB lie: memory, or the last cache of a CPU */
    int f64_slowdown; /* float32 operations in the time of one of float64 */
    bool epilogues;   /* a product applies the map that reads it where it makes it */
    int64_t
        bucket_bytes; /* of what is reduced over devices at once: of fewer, the start takes longer than the transfer */
    bool packs_kernels; /* a library does convolutions of float32, with kernels in layouts of its own */
    bool
        channels_last; /* convolutions of float32 take and make images [N, C, places] with their channels last in memory */
    bool sends;        /* copies between its devices run beside their launches: what is copied has memory of its own */
    bool is_fetched; /* copies into the host's memory, likewise */
    int launch_boxes; /* kernels of one text that one launch can run, over a box each; 1: launching is no more than a call */
} bti_target_facts;

#endif
