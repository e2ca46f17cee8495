/* Making buffers; what exec's files share. */
#ifndef BTI_EXEC_BUFFER_H
#define BTI_EXEC_BUFFER_H

#include "exec/exec.h"

/* Gives it memory, from its address on if it has one and that is free; waits for the queue and trims before giving up. `idle`: from anywhere, where the host may write at
 * once. */
bt_status bti_buffer_reserve(bti_buffer *buffer, bool idle);
/* Gives the memory back, for what comes later on the device's queue than entry `busy_until`. */
void bti_buffer_give_back(bti_buffer *buffer, uint64_t busy_until);
/* The reference becomes one of a run that is submitted, or over; the memory is given back with the last reference of another kind. */
void bti_buffer_leave_to_run(bti_buffer *buffer);
void bti_buffer_release_run(bti_buffer *buffer); /* by a run that is complete */
/* A copy to another device reads it, beside the queue: its memory is not given back before. By a run that has a reference of its own. */
void bti_buffer_hold(bti_buffer *buffer);
void bti_buffer_let_go(bti_buffer *buffer);
bool bti_buffer_is_held(const bti_buffer *buffer); /* NULL: it is not */
/* Its memory is given up by the call that runs now. False: somebody else than so many holders has it, or a submitted run, which is no hindrance to one that comes behind it but to
 * one that runs beside it, or it is not the pool's. untake: the memory
 * was not used. pass: another buffer, without memory, has it from now on. */
bool bti_buffer_take(bti_buffer *buffer, uint32_t holders, bool beside_runs);
void bti_buffer_untake(bti_buffer *buffer);
void bti_buffer_pass(bti_buffer *from, bti_buffer *to);
/* Bytes of the device that only runs that are not complete use: what waiting makes idle. */
int64_t bti_buffers_pending(int device);
/* Work begins (1) or ends (-1) that holds memory beside the queues: who finds memory short waits for it. */
void bti_buffers_run_aside(int change);
void bti_exec_settle(void); /* calls what bti_exec_set_settle set */
/* Counts and lists it among the live arrays. */
void bti_buffer_list(bti_buffer *buffer);
/* NULL: nobody observes. */
const bti_reserve_observer *bti_reserve_observer_now(void);
/* The error sticks unless one does already. */
void bti_buffer_fail(bti_buffer *buffer, bti_error *error);

#endif
