/* Which operations are ordered before which others: vector clocks over the streams. Host threads are not told apart: what one of them
 * waited for is ordered before whatever any of them enqueues later, because how they hand work to each other is not visible here. All is
 * called under fake_lock. */
#ifndef BERTH_TESTS_FAKES_ORDER_H
#define BERTH_TESTS_FAKES_ORDER_H

#include "fakes/machine.h"

typedef struct fake_clock {
    uint32_t count, *at; /* at[stream]: operations of this stream that are ordered before */
} fake_clock;

#define FAKE_LOADER 1u                   /* the operation that writes what was there before all others */
#define FAKE_OP_SET UINT32_C(0x80000000) /* numbers of sets */

FAKE_API void fake_clock_join(fake_clock *into, const fake_clock *from);
FAKE_API void fake_clock_free(fake_clock *clock);

FAKE_API uint32_t fake_order_stream(void); /* the number of a new stream */
/* A new operation of a stream: it comes after everything in the stream's clock, into which it is entered, and after what the host has
 * waited for. Its number. */
FAKE_API uint32_t fake_order_add(uint32_t stream, fake_clock *clock, const char *name, int device);
FAKE_API fake_clock *fake_order_host(void); /* what the host has waited for */
FAKE_API bool fake_order_host_knows(uint32_t op);

/* The operation that runs now. */
FAKE_API void fake_order_begin(uint32_t op, const fake_clock *clock);
FAKE_API void fake_order_end(void);
FAKE_API uint32_t fake_order_now(void); /* 0: none */
/* Whether an operation, or all of a set, are ordered before the one that runs now. *other: the first that is not. */
FAKE_API bool fake_ordered(uint32_t op, uint32_t *other);
/* Readers so far, those that are ordered before the running operation left out, and the running one, which is the last of the set. */
FAKE_API uint32_t fake_order_add_reader(uint32_t readers);
FAKE_API uint32_t fake_order_last(uint32_t op_or_set);

/* Names: "copy up 400", "kernel bti_run of mul+add.cu"; `device` is -1 for FAKE_LOADER. */
FAKE_API const char *fake_order_name(uint32_t op);
FAKE_API uint32_t fake_order_stream_of(uint32_t op);
FAKE_API int fake_order_device(uint32_t op);
FAKE_API void fake_order_reset(void);

#endif
