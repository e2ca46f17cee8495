/* The numbers of nodes, and of claims on them (array/claim.h): greater than those of their inputs, and no two the same. Each thread takes them from blocks of its own, so threads that record side by side
 * touch nothing in common. Numbers of one thread rise. Those of two threads tell where one node depends on the other, and which came first where that matters: of nodes
 * that read the same one, and of those that call functions of the program's (node.c). */
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
/* What this thread gets from now on is greater than what any thread has had. */
void bti_sequence_pass(void);
/* The same; returns a number between the two. */
uint64_t bti_sequence_mark(void);

#endif
