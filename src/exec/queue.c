#include "exec/queue.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/guest.h"
#include "base/recycle.h"
#include "base/trace.h"
#include "device/device.h"

typedef struct queue {
    bti_lock lock;
    pthread_cond_t changed; /* for threads that wait for entries */
    pthread_cond_t work;    /* for the thread */
    int waiting;
    bti_queue_entry *head, *tail;                      /* not run yet */
    bti_queue_entry *in_flight_first, *in_flight_last; /* run, not complete: in flight */
    int in_flight;
    atomic_uint_fast64_t submitted, completed;
    bool running; /* a thread runs or settles an entry */
    bool kicked;  /* the thread is to run what there is */
    bool stop, has_thread;
    pthread_t thread;
} queue;

static queue queues[BTI_MAX_DEVICES] = {[0 ... BTI_MAX_DEVICES - 1] = {.lock = BTI_LOCK_INIT(queue),
                                                                       .changed = PTHREAD_COND_INITIALIZER,
                                                                       .work = PTHREAD_COND_INITIALIZER}};

BTI_STATIC_LOCK(submitting, submitting)
void bti_run_queues_lock(void) { bti_lock_take(&submitting); }
void bti_run_queues_unlock(void) { bti_lock_give(&submitting); }

uint64_t bti_run_queue_submitted(int device) { return atomic_load(&queues[device].submitted); }
uint64_t bti_run_queue_completed(int device) { return atomic_load(&queues[device].completed); }

uint64_t bti_run_queue_submit(int device, bti_queue_entry *entry) {
    queue *q = &queues[device];
    entry->next = NULL;
    bti_lock_take(&q->lock);
    if (q->tail)
        q->tail->next = entry;
    else
        q->head = entry;
    q->tail = entry;
    uint64_t number = atomic_fetch_add(&q->submitted, 1) + 1;
    bti_lock_give(&q->lock);
    return number;
}

/* A thread that runs an entry may be inside of another call: that call's errors and place are set aside meanwhile. */
typedef struct other_errors {
    bti_error *before;
    bool quiet;
    bti_place waiting;
    int depth;
} other_errors;

static other_errors begin_entry_errors(void) {
    other_errors from = {.before = bti_error_last(), .quiet = bti_errors_quiet(false)};
    bt_error_clear();
    from.depth = bti_call_begin(NULL);
    from.waiting = bti_call_set_place((bti_place){0});
    return from;
}

static void end_entry_errors(other_errors from) {
    bti_call_set_place(from.waiting);
    bti_call_end(from.depth);
    bti_errors_quiet(from.quiet);
    bti_error_put_back(from.before);
}

/* Called and left with the lock held, as the next two. */
static void end_running(queue *q, bool completed) {
    q->running = false;
    if (completed) atomic_fetch_add(&q->completed, 1);
    if (q->waiting) pthread_cond_broadcast(&q->changed);
    if (q->kicked && (q->head || q->in_flight_first)) pthread_cond_signal(&q->work);
}

static void run_first(queue *q, bool by_thread) {
    bti_queue_entry *entry = q->head;
    q->head = entry->next;
    if (!q->head) q->tail = NULL;
    entry->next = NULL;
    q->running = true;
    bool may_complete = !q->in_flight_first;
    bti_lock_give(&q->lock);
    other_errors other = begin_entry_errors();
    bool complete = entry->run(entry, may_complete);
    end_entry_errors(other);
    if (by_thread) bti_recycled_share(); /* before another thread can see that it is done */
    bti_lock_take(&q->lock);
    if (!complete) {
        if (q->in_flight_last)
            q->in_flight_last->next = entry;
        else
            q->in_flight_first = entry;
        q->in_flight_last = entry;
        q->in_flight++;
    }
    end_running(q, complete);
}

static void settle_first(queue *q, bool by_thread) {
    bti_queue_entry *entry = q->in_flight_first;
    q->in_flight_first = entry->next;
    if (!q->in_flight_first) q->in_flight_last = NULL;
    q->in_flight--;
    q->running = true;
    bti_lock_give(&q->lock);
    other_errors other = begin_entry_errors();
    entry->settle(entry);
    end_entry_errors(other);
    if (by_thread) bti_recycled_share();
    bti_lock_take(&q->lock);
    end_running(q, true);
}

/* Whether the first entry may run before those in flight are complete. */
static bool may_run(const queue *q) { return q->head && !q->head->alone && q->in_flight < BTI_IN_FLIGHT; }

/* One step forward; of what there is, launching comes first. */
static void go_on(queue *q, bool by_thread) {
    if (q->in_flight_first && !may_run(q))
        settle_first(q, by_thread);
    else
        run_first(q, by_thread);
}

/* Entries that have run: complete, or in flight. Under the lock. */
static uint64_t issued(const queue *q) { return atomic_load(&q->completed) + (uint64_t)q->in_flight; }

uint64_t bti_run_queue_issued(int device) {
    queue *q = &queues[device];
    bti_lock_take(&q->lock);
    uint64_t number = issued(q);
    bti_lock_give(&q->lock);
    return number;
}

static void *serve(void *argument) {
    queue *q = argument;
    bti_trace_serve((int)(q - queues));
    bti_lock_take(&q->lock);
    while (!q->stop) {
        if (q->kicked && (q->head || q->in_flight_first) && !q->running) {
            bti_guest guest = bti_guest_begin();
            go_on(q, true);
            bti_guest_end(&guest);
        } else {
            if (!q->head && !q->in_flight_first) q->kicked = false;
            bti_lock_wait(&q->lock, &q->work);
        }
    }
    bti_lock_give(&q->lock);
    return NULL;
}

/* Under the lock. */
static void kick(queue *q) {
    q->kicked = true;
    if (!q->has_thread) {
        q->stop = false;
        q->has_thread = bti_thread_start(&q->thread, BTI_STACK_WORK, serve, q);
    }
    pthread_cond_signal(&q->work);
}

enum { ROOM = 256 << 10 }; /* bytes of stack that running an entry may take */

static bool has_work(const queue *q) { return (q->head || q->in_flight_first) && !q->running; }

/* Runs entries on the waiting thread as long as no other thread does. Called and left with the lock held. */
static void run_as_guest(queue *q, uint64_t number, bool complete) {
    bti_guest guest = bti_guest_begin();
    while ((complete ? atomic_load(&q->completed) : issued(q)) < number && has_work(q))
        if (complete && q->in_flight_first && issued(q) >= number)
            settle_first(q, false); /* nothing more is launched for it */
        else
            go_on(q, false);
    bool held = bti_signals_held();
    if (held) bti_lock_give(&q->lock); /* they are delivered now */
    bti_guest_end(&guest);
    if (held) bti_lock_take(&q->lock);
}

static void wait_until(int device, uint64_t number, bool complete) {
    queue *q = &queues[device];
    if (atomic_load(&q->completed) >= number || bti_device_forked()) return; /* in a child nobody runs it */
    BTI_NO_CANCEL;
    bool here = bti_stack_left() >= ROOM;
    bti_lock_take(&q->lock);
    while ((complete ? atomic_load(&q->completed) : issued(q)) < number) {
        if (!here && has_work(q)) kick(q);
        if (has_work(q) && (here || !q->has_thread)) {
            run_as_guest(q, number, complete);
        } else {
            q->waiting++;
            bti_lock_wait(&q->lock, &q->changed);
            q->waiting--;
        }
    }
    bti_lock_give(&q->lock);
}

void bti_run_queue_wait(int device, uint64_t number) { wait_until(device, number, true); }
void bti_run_queue_issue(int device, uint64_t number) { wait_until(device, number, false); }

void bti_run_queue_kick(int device) {
    queue *q = &queues[device];
    if (bti_device_forked()) return;
    bti_lock_take(&q->lock);
    if (q->head || q->in_flight_first) kick(q);
    bti_lock_give(&q->lock);
}

void bti_run_queue_stop(int device) {
    queue *q = &queues[device];
    bti_run_queue_wait(device, bti_run_queue_submitted(device));
    bti_lock_take(&q->lock);
    bool join = q->has_thread;
    q->stop = true;
    q->has_thread = false;
    pthread_cond_signal(&q->work);
    bti_lock_give(&q->lock);
    if (join) pthread_join(q->thread, NULL);
}
