#include "exec/queue.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/guest.h"
#include "base/recycle.h"
#include "base/trace.h"
#include "device/late.h"
#include "exec/poller.h"

typedef struct queue {
    bti_lock lock;
    pthread_cond_t changed; /* for threads that wait for entries */
    pthread_cond_t work;    /* for the thread */
    int waiting;
    bti_queue_entry *head, *tail;              /* not run yet */
    bti_queue_entry *in_flight[BTI_IN_FLIGHT]; /* a ring */
    bti_event events[BTI_IN_FLIGHT];           /* of those: entries may be gone while they are being settled */
    bool has_event[BTI_IN_FLIGHT];
    int first, in_flight_count;
    atomic_uint_fast64_t submitted, completed;
    bool running;   /* a thread runs the first entry */
    bool settling;  /* a thread settles the first in flight, or asks whether it is complete */
    bool kicked;    /* the thread is to run what there is */
    uint64_t asked; /* the thread is to settle up to this entry */
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

/* --- running and settling: called and left with the lock held -------------------------------------------------------------- */

/* Entries that have run: settled, or in flight. */
static uint64_t issued(const queue *q) { return atomic_load(&q->completed) + (uint64_t)q->in_flight_count; }

/* Whether the first entry must not run before the first in flight is settled. */
static bool is_blocked(const queue *q) {
    return q->head && (q->head->alone ? q->in_flight_count > 0 : q->in_flight_count == BTI_IN_FLIGHT);
}

static bool may_run(const queue *q) { return q->head && !q->running && !is_blocked(q); }
static bool may_settle(const queue *q) { return q->in_flight_count && !q->settling; }

/* What is the thread's to settle. */
static bool thread_settles(const queue *q) {
    if (!may_settle(q)) return false;
    return is_blocked(q) || !q->in_flight[q->first]->poll || atomic_load(&q->completed) < q->asked;
}

static void tell_others(queue *q) {
    if (q->waiting) pthread_cond_broadcast(&q->changed);
    if (q->kicked && (may_run(q) || thread_settles(q))) pthread_cond_signal(&q->work);
}

/* The time since when the device has nothing else to complete before the first in flight; 0: there is no limit. Not under the lock. */
static uint64_t since_now(const queue *q) { return bti_device_limit_ns() ? bti_device_now_ns((int)(q - queues)) : 0; }

static bti_look look_at_all(void);

static void put_in_flight(queue *q, bti_queue_entry *entry) {
    int at = (q->first + q->in_flight_count++) % BTI_IN_FLIGHT;
    q->in_flight[at] = entry;
    q->events[at] = entry->event;
    q->has_event[at] = entry->has_event;
}

static void run_first(queue *q, bool by_thread) {
    bti_queue_entry *entry = q->head;
    q->head = entry->next;
    if (!q->head) q->tail = NULL;
    entry->next = NULL;
    q->running = true;
    bool may_complete = !q->in_flight_count, watched = entry->watched;
    bti_lock_give(&q->lock);
    other_errors other = begin_entry_errors();
    bool complete = entry->run(entry, may_complete);
    end_entry_errors(other);
    if (by_thread) bti_recycled_share(); /* before another thread can see that it is done */
    uint64_t since = since_now(q);
    bti_lock_take(&q->lock);
    q->running = false;
    if (complete)
        atomic_fetch_add(&q->completed, 1);
    else
        put_in_flight(q, entry);
    if (!complete && q->in_flight_count == 1) entry->since_ns = since;
    tell_others(q);
    if (complete || !watched || q->in_flight_count > 1) return;
    bti_lock_give(&q->lock);
    bti_poller_wake(look_at_all);
    bti_lock_take(&q->lock);
}

/* With `poll`: only if it is complete; whether it is. */
static bool settle_first(queue *q, bool by_thread, bool poll) {
    bti_queue_entry *entry = q->in_flight[q->first];
    q->settling = true;
    bti_lock_give(&q->lock);
    other_errors other = begin_entry_errors();
    bool settled = !poll || entry->poll(entry);
    if (settled) entry->settle(entry);
    end_entry_errors(other);
    if (settled && by_thread) bti_recycled_share();
    uint64_t since = since_now(q);
    bti_lock_take(&q->lock);
    q->settling = false;
    if (settled) {
        q->first = (q->first + 1) % BTI_IN_FLIGHT;
        q->in_flight_count--;
        atomic_fetch_add(&q->completed, 1);
        if (q->in_flight_count) q->in_flight[q->first]->since_ns = since;
    }
    tell_others(q);
    return settled;
}

/* Settles what is complete. `watched`: only what the poller asks for. */
static bti_look look_at(queue *q, bool watched) {
    bti_look found = BTI_LOOK_NOTHING;
    bool by_thread = watched;
    while (q->in_flight_count) {
        if (!may_settle(q)) break; /* the entry may be freed at any time by the thread that settles it */
        const bti_queue_entry *entry = q->in_flight[q->first];
        if (!entry->poll || (watched && !entry->watched)) return found;
        if (!settle_first(q, by_thread, true)) break;
        found = BTI_LOOK_CHANGED;
    }
    return q->in_flight_count && found == BTI_LOOK_NOTHING ? BTI_LOOK_PENDING : found;
}

/* What the poller does. */
static bti_look look_at_all(void) {
    bti_look all = BTI_LOOK_NOTHING;
    for (int d = 0; d < BTI_MAX_DEVICES; d++) {
        queue *q = &queues[d];
        if (atomic_load(&q->submitted) == atomic_load(&q->completed)) continue;
        bti_lock_take(&q->lock);
        bti_look found = look_at(q, true);
        bti_lock_give(&q->lock);
        if (found > all) all = found;
    }
    return bti_devices_release_held(false) && !all ? BTI_LOOK_PENDING : all;
}

uint64_t bti_run_queue_issued(int device) {
    queue *q = &queues[device];
    bti_lock_take(&q->lock);
    uint64_t number = issued(q);
    bti_lock_give(&q->lock);
    return number;
}

/* --- the queue's thread -------------------------------------------------------------------------------------------------- */

static void *serve(void *argument) {
    queue *q = argument;
    bti_trace_serve((int)(q - queues));
    bti_lock_take(&q->lock);
    while (!q->stop) {
        bool runs = q->kicked && may_run(q);
        if (runs || (q->kicked && thread_settles(q))) {
            bti_guest guest = bti_guest_begin();
            if (runs)
                run_first(q, true);
            else
                settle_first(q, true, false);
            bti_guest_end(&guest);
        } else {
            if (!q->head && !q->in_flight_count) q->kicked = false;
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

/* --- waiting ------------------------------------------------------------------------------------------------------------- */

enum { ROOM = 256 << 10 }; /* bytes of stack that running an entry may take */

bool bti_run_queue_has_room(void) { return bti_stack_left() >= ROOM; }

void bti_run_queue_aside(bti_queue_entry *entry) {
    bti_guest guest = bti_guest_begin();
    other_errors other = begin_entry_errors();
    entry->run(entry, true);
    end_entry_errors(other);
    bti_guest_end(&guest);
}

static bool has_come(const queue *q, uint64_t number, bool settled) {
    return (settled ? atomic_load(&q->completed) : issued(q)) >= number;
}

/* Whether a thread that waits for it settles the first in flight: nothing more is launched for it, or it makes room. */
static bool should_settle(const queue *q, uint64_t number, bool settled) {
    return may_settle(q) && (settled ? issued(q) >= number || !may_run(q) : is_blocked(q));
}

/* Whether there is something to do for a thread that waits. */
static bool has_work(const queue *q, uint64_t number, bool settled) {
    return (issued(q) < number && may_run(q)) || should_settle(q, number, settled);
}

/* Runs and settles entries on the waiting thread as long as no other thread does. */
static void run_as_guest(queue *q, uint64_t number, bool settled) {
    bti_guest guest = bti_guest_begin();
    while (!has_come(q, number, settled) && has_work(q, number, settled))
        if (issued(q) < number && may_run(q))
            run_first(q, false);
        else
            settle_first(q, false, false);
    bool held = bti_signals_held();
    if (held) bti_lock_give(&q->lock); /* they are delivered now */
    bti_guest_end(&guest);
    if (held) bti_lock_take(&q->lock);
}

static void wait_until(int device, uint64_t number, bool settled) {
    queue *q = &queues[device];
    if (atomic_load(&q->completed) >= number || bti_device_forked()) return; /* in a child nobody runs it */
    BTI_NO_CANCEL;
    bool here = bti_run_queue_has_room();
    bti_lock_take(&q->lock);
    while (!has_come(q, number, settled)) {
        bool work = has_work(q, number, settled);
        if (!here && work) {
            if (settled && number > q->asked) q->asked = number;
            kick(q);
        }
        if (work && (here || !q->has_thread)) {
            run_as_guest(q, number, settled);
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

/* Under the lock; the entry has run. */
static bool find_event(const queue *q, uint64_t number, bti_event *event) {
    for (uint64_t n = number; n <= issued(q); n++) {
        int at = (q->first + (int)(n - atomic_load(&q->completed)) - 1) % BTI_IN_FLIGHT;
        *event = q->events[at];
        if (q->has_event[at]) return true;
    }
    return false;
}

bool bti_run_queue_point(int device, uint64_t number, bti_event *event) {
    queue *q = &queues[device];
    bti_run_queue_issue(device, number);
    bti_lock_take(&q->lock);
    bool settled = atomic_load(&q->completed) >= number, found = !settled && find_event(q, number, event);
    bti_lock_give(&q->lock);
    if (!settled && !found) bti_run_queue_wait(device, number);
    return found;
}

void bti_run_queue_poll(int device) {
    queue *q = &queues[device];
    if (atomic_load(&q->submitted) == atomic_load(&q->completed) || bti_device_forked()) return;
    BTI_NO_CANCEL;
    bti_lock_take(&q->lock);
    bti_guest guest = bti_guest_begin();
    look_at(q, false);
    bti_guest_end(&guest);
    bti_lock_give(&q->lock);
}

void bti_run_queue_kick(int device) {
    queue *q = &queues[device];
    if (bti_device_forked()) return;
    bti_lock_take(&q->lock);
    if (q->head || thread_settles(q)) kick(q);
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

void bti_run_queues_stop(void) {
    for (int d = 0; d < BTI_MAX_DEVICES; d++) bti_run_queue_stop(d);
    bti_poller_stop();
}
