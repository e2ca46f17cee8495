/* The numbers of nodes: greater than those of their inputs, and no two the same. Each thread takes them from blocks of its own, so threads that record side by side
 * touch nothing in common. Numbers of one thread rise; those of two threads tell nothing but where one node depends on the other. */
#ifndef BTI_IR_SEQUENCE_H
#define BTI_IR_SEQUENCE_H

#include <stdint.h>

typedef struct bti_recorded {
    uint64_t sequence;
    uint32_t recorder; /* the number of the thread (base/thread.h) */
} bti_recorded;

/* `count` numbers in a row (at least 1), greater than `least` and than all that this thread had; returns the first. */
bti_recorded bti_sequence_take(uint64_t count, uint64_t least);
/* The last that this thread had. */
void bti_sequence_last(bti_recorded *last);
/* No number that any thread has had is greater, and all that this thread gets from now on are. */
uint64_t bti_sequence_mark(void);

#endif
