/* Copies from a device that run beside what it launches.
 *
 * Between devices that order them by events, `send` is a task on the queue of the device that has the bytes. It starts the copy, which begins when the device has made them (of an earlier run's: when that run has, whatever was launched since), and when the other device has
 * done with what was in their place before. `receive` comes on the other device's queue before the first task that reads the copy, or at the end of the
 * run: what is launched behind it begins when the copy is complete. Nobody waits but the devices.
 *
 * Into the host's memory `send` makes the point in the device's work after which the bytes are made, and `receive`, on the CPU's queue, waits for it and copies.
 *
 * What is copied is held until the copy is complete (buffer.h), since nothing on its device's queue comes after that. A copy that failed, or whose input
 * failed, has failed for all its readers, with one error. */
#ifndef BTI_EXEC_SEND_H
#define BTI_EXEC_SEND_H

#include "exec/ready.h"

/* Of a run that is about to be submitted. base: by device, the number of the last entry before it. */
void bti_sends_begin(bti_run *run, const uint64_t *base);

/* run, settle and poll of queue.h for such tasks. */
bool bti_send_run(bti_run_task *task);
void bti_send_settle(bti_run_task *task);
bool bti_send_poll(const bti_run_task *task);
/* After the task has run and settled: if the copy is complete now, the bytes are held no longer. */
void bti_send_end(const bti_run_task *task);

#endif
