/* The simulated network of one process: what is sent comes after a while, in the order in which it was sent. In the program a thread hands it over;
 * in a worker who sends it waits for its way. */
#ifndef BERTH_TESTS_NODES_NET_H
#define BERTH_TESTS_NODES_NET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct net_parcel {
    struct net_parcel *next;
    uint64_t due_ns;
    void (*come)(struct net_parcel *parcel); /* on the other side; it owns the parcel then */
} net_parcel;

bool net_begin(void); /* the thread; false: there is none */
void net_end(void);   /* what is still on its way does come */
void net_send(net_parcel *parcel);
/* All that this process has sent so far has come. */
void net_drain(void);
/* A reply takes so long. */
uint64_t net_delay_ns(void);
uint64_t net_come_count(void);

/* A wait for what the network changes: wakes when something has come. The caller holds the lock (engine.c) of the condition. */
uint64_t net_now_ns(void);
void net_sleep_ns(uint64_t ns);

#endif
