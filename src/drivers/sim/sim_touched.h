/* What launched work of a simulated card reads and writes until it is complete. Its kernels have computed when the launch returns, so a result that is read too early
 * is right by luck; here it is an error. Ranges are remembered as addresses: the pool gives the same bytes to others in between, which is what is looked for. */
#ifndef BTI_DRIVERS_SIM_SIM_TOUCHED_H
#define BTI_DRIVERS_SIM_SIM_TOUCHED_H

#include "base/lock.h"
#include "base/vec.h"

typedef struct bti_sim_range {
    uint64_t address, bytes, end_ns; /* when it is complete; 0: its launch goes on */
    bool written;
} bti_sim_range;

typedef struct bti_sim_touched {
    bti_lock lock;
    BTI_VEC(bti_sim_range) ranges; /* by end; those that go on are last */
} bti_sim_touched;

void bti_sim_touched_init(bti_sim_touched *touched);
void bti_sim_touched_free(bti_sim_touched *touched);

/* Work that is complete at that time touches these bytes; end_ns 0: the launch that goes on, which, with all that it touches, is complete when
 * touched_until tells. What finds no room is not looked for. */
void bti_sim_touches(bti_sim_touched *touched, uint64_t address, uint64_t bytes, bool written, uint64_t end_ns);
void bti_sim_touched_until(bti_sim_touched *touched, uint64_t end_ns);
/* How long after `from` (now or later) work goes on to write these bytes, or with `writes` to use them, in ns; 0: it does not. */
uint64_t bti_sim_touched_for(bti_sim_touched *touched, uint64_t from, uint64_t address, uint64_t bytes, bool writes);

#endif
