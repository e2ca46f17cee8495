/* One ordered queue of work per device. Two things happen to an entry, each in the queue's order and by one thread at a time, but independent of each other: it is
 * run, which launches its work, and it is settled, when the work is complete. Up to BTI_IN_FLIGHT entries are in flight: run, and not settled.
 *
 * Who runs: a thread that waits for an entry, if no other thread runs one at that moment; else the queue's own thread, which is made when work is first left to it.
 * Who settles: a thread that waits for an entry, without being in anyone's way: others go on to launch; or the poller (poller.h), if nobody waits; or the queue's
 * thread, where entries cannot be polled or there is no room for more in flight. */
#ifndef BTI_EXEC_QUEUE_H
#define BTI_EXEC_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"

typedef struct bti_queue_entry bti_queue_entry;
#define BTI_IN_FLIGHT 16
struct bti_queue_entry {
    /* True: the work is complete, and the entry has freed itself. `may_complete`: all earlier entries are settled, so it may return true. False: it is in flight. */
    bool (*run)(bti_queue_entry *entry, bool may_complete);
    /* Waits for the work, then does what remains to be done and frees the entry. */
    void (*settle)(bti_queue_entry *entry);
    /* Whether the work is complete, or has failed, so that settle does not wait; never blocks. NULL: unknown until somebody waits. */
    bool (*poll)(bti_queue_entry *entry);
    bti_event event; /* with has_event, when it is in flight: what it and all earlier entries launched is complete */
    bool has_event;
    bool watched;      /* the poller asks; else only bti_run_queue_poll */
    bool alone;        /* it may wait for other queues, so it runs only after all earlier entries are settled */
    uint64_t since_ns; /* of the device's time: since then it is the first in flight; 0: unknown */
    bti_queue_entry *next;
};

/* Appends; returns its number on that device: 1, 2, ... One submitter at a time over all queues (under their lock): an entry may
 * wait for entries submitted before it and no others, so no cycle can arise. */
void bti_run_queues_lock(void);
void bti_run_queues_unlock(void);
uint64_t bti_run_queue_submit(int device, bti_queue_entry *entry);
uint64_t bti_run_queue_submitted(int device);
uint64_t bti_run_queue_completed(int device); /* the last one that is settled */
uint64_t bti_run_queue_issued(int device);    /* the last one that has run: settled, or in flight */
/* Returns when entry `number` is settled; runs and settles entries itself where no other thread does. */
void bti_run_queue_wait(int device, uint64_t number);
/* As wait, but what a device can do by itself is left in flight: the entries have run. */
void bti_run_queue_issue(int device, uint64_t number);
/* As issue; whether entry `number` is in flight, with an event that the device's later work can follow: *event. False: it is settled. Where no entry
 * from there on that has run has an event, the call waits until it is. */
bool bti_run_queue_point(int device, uint64_t number, bti_event *event);
/* Settles what is complete, as far as entries tell without blocking. */
void bti_run_queue_poll(int device);
/* Leaves what is submitted to the queue's thread. If no thread can be made, the work is run by the next thread that waits for it. */
void bti_run_queue_kick(int device);
/* Whether this thread has the stack that running an entry takes. */
bool bti_run_queue_has_room(void);
/* Runs an entry that is on no queue, on this thread. It is complete on return. */
void bti_run_queue_aside(bti_queue_entry *entry);
/* Ends the queue's thread, or those of all queues and the poller; everything is settled before. */
void bti_run_queue_stop(int device);
void bti_run_queues_stop(void);

#endif
