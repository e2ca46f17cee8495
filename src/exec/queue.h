/* One ordered queue of work per device. A thread that waits for an entry runs the queue itself if no other thread runs it at that moment,
 * else the queue's own thread does, which is made when work is first left to it. An entry may leave work in flight on its device; up to
 * BTI_IN_FLIGHT entries are launched ahead of the first that is not complete. */
#ifndef BTI_EXEC_QUEUE_H
#define BTI_EXEC_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bti_queue_entry bti_queue_entry;
#define BTI_IN_FLIGHT 16
struct bti_queue_entry {
    /* True: the work is complete, and the entry has freed itself. `may_complete`: all earlier entries are complete, so it may return true. False: `settle`,
     * which is called later and in order, waits for the work and frees the entry. `alone`: the entry may wait for other queues, so it runs only after
     * all earlier entries are complete. */
    bool (*run)(bti_queue_entry *entry, bool may_complete);
    void (*settle)(bti_queue_entry *entry);
    bool alone;
    bti_queue_entry *next;
};

/* Appends; returns its number on that device: 1, 2, ... One submitter at a time over all queues (under their lock): an entry may
 * wait for entries submitted before it and no others, so no cycle can arise. */
void bti_run_queues_lock(void);
void bti_run_queues_unlock(void);
uint64_t bti_run_queue_submit(int device, bti_queue_entry *entry);
uint64_t bti_run_queue_submitted(int device);
uint64_t bti_run_queue_completed(int device);
uint64_t bti_run_queue_issued(int device); /* the last one that has run: complete, or in flight */
/* Returns when entry `number` is complete; runs entries itself while the queue is idle. */
void bti_run_queue_wait(int device, uint64_t number);
/* As wait, but what a device can do by itself is left in flight: the entries have run. */
void bti_run_queue_issue(int device, uint64_t number);
/* Leaves what is submitted to the queue's thread. If no thread can be made, the work is run by the next thread that waits for it. */
void bti_run_queue_kick(int device);
/* Ends the thread; everything is complete before. */
void bti_run_queue_stop(int device);

#endif
