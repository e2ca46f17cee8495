/* A thread that looks, again and again, for work of devices that has completed while nobody waits for it. It is made when it is first woken, looks seldom where nothing
 * changes, and sleeps when nothing is in flight. Devices in virtual time are not its affair: asking them takes time of theirs. */
#ifndef BTI_EXEC_POLLER_H
#define BTI_EXEC_POLLER_H

typedef enum bti_look {
    BTI_LOOK_NOTHING, /* is in flight */
    BTI_LOOK_PENDING, /* something is, and is not complete */
    BTI_LOOK_CHANGED  /* something was complete */
} bti_look;

/* After something came in flight where nothing was: the thread calls `look`, which never blocks, until that returns NOTHING. `look` is the same each time. If no
 * thread can be made, completion is noticed when somebody waits. */
void bti_poller_wake(bti_look (*look)(void));
/* Ends the thread; a later wake makes another one. */
void bti_poller_stop(void);

#endif
