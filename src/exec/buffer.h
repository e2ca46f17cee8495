/* Making buffers; what exec's files share. */
#ifndef BTI_EXEC_BUFFER_H
#define BTI_EXEC_BUFFER_H

#include "exec/exec.h"

/* Gives it memory; waits for the queue and trims before giving up. `idle`: that the host may write at once. */
bt_status bti_buffer_reserve(bti_buffer *buffer, bool idle);
/* Gives the memory back, for what comes later on the device's queue than entry `busy_until`. */
void bti_buffer_give_back(bti_buffer *buffer, uint64_t busy_until);
/* Counts and lists it among the live arrays. */
void bti_buffer_list(bti_buffer *buffer);
/* NULL: nobody observes. */
const bti_reserve_observer *bti_reserve_observer_now(void);
/* The error sticks unless one does already. */
void bti_buffer_fail(bti_buffer *buffer, bti_error *error);

#endif
