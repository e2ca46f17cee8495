#include "nodes/net.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/guest.h"

enum { REQUEST_NS = 100000, REPLY_NS = 1000000, NESTED_NS = 50000 }; /* at most */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static net_parcel *first, *last;
static uint64_t last_due_ns;
static uint64_t on_the_way; /* sent, and not come yet */
static bool runs, ends;
static pthread_t thread;
static uint64_t come_count;
static _Atomic uint64_t draws;

static void forget(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    first = last = NULL;
    on_the_way = 0;
    runs = ends = false;
    atomic_fetch_xor(&draws, (uint64_t)getpid() << 32);
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget); }

uint64_t net_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void net_sleep_ns(uint64_t ns) {
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
}

/* Of this process's draws, in their order (splitmix64). */
static uint64_t draw(uint64_t below) {
    static _Atomic uint64_t seed;
    uint64_t known = atomic_load(&seed);
    if (!known) {
        const char *told = getenv("BERTH_NODES_SEED");
        known = (told ? strtoull(told, NULL, 10) : 1) * 2 + 1;
        atomic_store(&seed, known);
    }
    uint64_t x = known + atomic_fetch_add(&draws, 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

/* Most are short, some are long. */
uint64_t net_delay_ns(void) {
    uint64_t longest = draw(8) ? REPLY_NS / 20 : REPLY_NS;
    return draw(longest) + 1;
}

static void *carry(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!ends || first) {
        if (!first) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        uint64_t now = net_now_ns(), due = first->due_ns;
        if (due > now && !ends) {
            pthread_mutex_unlock(&lock);
            net_sleep_ns(due - now);
            pthread_mutex_lock(&lock);
        }
        net_parcel *parcel = first;
        first = parcel->next;
        if (!first) last = NULL;
        pthread_mutex_unlock(&lock);
        parcel->come(parcel);
        pthread_mutex_lock(&lock);
        come_count++;
        on_the_way--;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

bool net_begin(void) {
    ends = false;
    runs = bti_thread_start(&thread, BTI_STACK_WORK, carry, NULL); /* of ours: it runs nothing of the user's */
    return runs;
}

void net_end(void) {
    if (!runs) return;
    pthread_mutex_lock(&lock);
    ends = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    runs = false;
}

void net_send(net_parcel *parcel) {
    if (!runs) { /* in a worker: threads of one process send in no order that anybody promised */
        net_sleep_ns(draw(NESTED_NS));
        parcel->come(parcel);
        pthread_mutex_lock(&lock);
        come_count++;
        pthread_mutex_unlock(&lock);
        return;
    }
    pthread_mutex_lock(&lock);
    uint64_t due = net_now_ns() + draw(REQUEST_NS);
    parcel->due_ns = last_due_ns = due > last_due_ns ? due : last_due_ns;
    parcel->next = NULL;
    if (last)
        last->next = parcel;
    else
        first = parcel;
    last = parcel;
    on_the_way++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void net_drain(void) {
    pthread_mutex_lock(&lock);
    while (runs && on_the_way) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

uint64_t net_come_count(void) {
    pthread_mutex_lock(&lock);
    uint64_t count = come_count;
    pthread_mutex_unlock(&lock);
    return count;
}
