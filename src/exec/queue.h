/* One ordered queue of work per device. Work is run by whoever waits for it if nobody runs the queue at that moment, else by
 * the queue's own thread, which is made when work is first left to it. A task may leave work in flight on its device; up to
 * BTI_IN_FLIGHT tasks are launched ahead of the first that is not complete. */
#ifndef BTI_EXEC_QUEUE_H
#define BTI_EXEC_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bti_task bti_task;
#define BTI_IN_FLIGHT 16
struct bti_task {
    /* True: the work is complete, and the task has freed itself. `may`: all earlier tasks are complete, so it is allowed to. False: `settle`,
     * which is called later and in order, waits for the work and frees the task. `alone`: the task may wait for other queues, so it runs only after
     * all earlier tasks are complete. */
    bool (*run)(bti_task *task, bool may);
    void (*settle)(bti_task *task);
    bool alone;
    bti_task *next;
};

/* Appends; returns its number on that device: 1, 2, ... One submitter at a time over all queues (under their lock): a task may
 * wait for tasks submitted before it and no others, so no cycle can arise. */
void bti_run_queues_lock(void);
void bti_run_queues_unlock(void);
uint64_t bti_run_queue_submit(int device, bti_task *task);
uint64_t bti_run_queue_submitted(int device);
uint64_t bti_run_queue_completed(int device);
uint64_t bti_run_queue_issued(int device); /* the last one that has run: complete, or in flight */
/* Returns when task `number` is complete; runs tasks itself while the queue is idle. */
void bti_run_queue_wait(int device, uint64_t number);
/* As wait, but what a device can do by itself is left in flight: the tasks have run. */
void bti_run_queue_issue(int device, uint64_t number);
/* Leaves what is submitted to the queue's thread. If no thread can be made, the work waits for whoever waits. */
void bti_run_queue_kick(int device);
/* Ends the thread; everything is complete before. */
void bti_run_queue_stop(int device);

#endif
