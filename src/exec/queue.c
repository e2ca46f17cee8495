#include "exec/queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/fork.h"
#include "base/recycle.h"
#include "base/trace.h"
#include "device/device.h"

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for who waits */
    pthread_cond_t work;    /* for the thread */
    int waiting;
    bti_task *head, *tail;   /* not run yet */
    bti_task *flying, *last; /* run, not complete: in flight */
    int in_flight;
    atomic_uint_fast64_t submitted, completed;
    bool running; /* somebody runs or settles a task */
    bool kicked;  /* the thread is to run what there is */
    bool stop, has_thread;
    pthread_t thread;
} queue;

static queue queues[BTI_MAX_DEVICES] = {[0 ... BTI_MAX_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                                                       .changed = PTHREAD_COND_INITIALIZER,
                                                                       .work = PTHREAD_COND_INITIALIZER}};

static pthread_mutex_t submitting = PTHREAD_MUTEX_INITIALIZER;
BTI_RENEW_IN_CHILD(submitting)
void bti_queues_lock(void) { pthread_mutex_lock(&submitting); }
void bti_queues_unlock(void) { pthread_mutex_unlock(&submitting); }

uint64_t bti_queue_submitted(int device) { return atomic_load(&queues[device].submitted); }
uint64_t bti_queue_completed(int device) { return atomic_load(&queues[device].completed); }

uint64_t bti_queue_submit(int device, bti_task *task) {
    queue *q = &queues[device];
    task->next = NULL;
    pthread_mutex_lock(&q->lock);
    if (q->tail)
        q->tail->next = task;
    else
        q->head = task;
    q->tail = task;
    uint64_t number = atomic_fetch_add(&q->submitted, 1) + 1;
    pthread_mutex_unlock(&q->lock);
    return number;
}

/* Called and left with the lock held, as the next two. */
static void end_running(queue *q, bool completed) {
    q->running = false;
    if (completed) atomic_fetch_add(&q->completed, 1);
    if (q->waiting) pthread_cond_broadcast(&q->changed);
    if (q->kicked && (q->head || q->flying)) pthread_cond_signal(&q->work);
}

static void run_first(queue *q, bool by_thread) {
    bti_task *task = q->head;
    q->head = task->next;
    if (!q->head) q->tail = NULL;
    task->next = NULL;
    q->running = true;
    bool may = !q->flying;
    pthread_mutex_unlock(&q->lock);
    bool complete = task->run(task, may);
    if (by_thread) bti_recycled_share(); /* before anybody knows that it is done */
    pthread_mutex_lock(&q->lock);
    if (!complete) {
        if (q->last)
            q->last->next = task;
        else
            q->flying = task;
        q->last = task;
        q->in_flight++;
    }
    end_running(q, complete);
}

static void settle_first(queue *q, bool by_thread) {
    bti_task *task = q->flying;
    q->flying = task->next;
    if (!q->flying) q->last = NULL;
    q->in_flight--;
    q->running = true;
    pthread_mutex_unlock(&q->lock);
    task->settle(task);
    if (by_thread) bti_recycled_share();
    pthread_mutex_lock(&q->lock);
    end_running(q, true);
}

/* Whether the first task may run before those in flight are complete. */
static bool may_run(const queue *q) { return q->head && !q->head->alone && q->in_flight < BTI_IN_FLIGHT; }

/* One step forward; of what there is, launching comes first. */
static void go_on(queue *q, bool by_thread) {
    if (q->flying && !may_run(q))
        settle_first(q, by_thread);
    else
        run_first(q, by_thread);
}

/* Tasks that have run: complete, or in flight. Under the lock. */
static uint64_t issued(const queue *q) { return atomic_load(&q->completed) + (uint64_t)q->in_flight; }

uint64_t bti_queue_issued(int device) {
    queue *q = &queues[device];
    pthread_mutex_lock(&q->lock);
    uint64_t number = issued(q);
    pthread_mutex_unlock(&q->lock);
    return number;
}

static void wait_until(int device, uint64_t number, bool complete) {
    queue *q = &queues[device];
    if (atomic_load(&q->completed) >= number) return;
    pthread_mutex_lock(&q->lock);
    while ((complete ? atomic_load(&q->completed) : issued(q)) < number)
        if ((q->head || q->flying) && !q->running) {
            if (complete && q->flying && issued(q) >= number)
                settle_first(q, false); /* nothing more is launched for it */
            else
                go_on(q, false);
        } else {
            q->waiting++;
            pthread_cond_wait(&q->changed, &q->lock);
            q->waiting--;
        }
    pthread_mutex_unlock(&q->lock);
}

void bti_queue_wait(int device, uint64_t number) { wait_until(device, number, true); }
void bti_queue_issue(int device, uint64_t number) { wait_until(device, number, false); }

static void *serve(void *argument) {
    queue *q = argument;
    bti_trace_serve((int)(q - queues));
    pthread_mutex_lock(&q->lock);
    while (!q->stop) {
        if (q->kicked && (q->head || q->flying) && !q->running)
            go_on(q, true);
        else {
            if (!q->head && !q->flying) q->kicked = false;
            pthread_cond_wait(&q->work, &q->lock);
        }
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

void bti_queue_kick(int device) {
    queue *q = &queues[device];
    pthread_mutex_lock(&q->lock);
    if (q->head || q->flying) {
        q->kicked = true;
        if (!q->has_thread) {
            sigset_t all, before; /* the program's signals are for its own threads */
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, &before);
            q->stop = false;
            q->has_thread = pthread_create(&q->thread, NULL, serve, q) == 0;
            pthread_sigmask(SIG_SETMASK, &before, NULL);
        }
        pthread_cond_signal(&q->work);
    }
    pthread_mutex_unlock(&q->lock);
}

void bti_queue_stop(int device) {
    queue *q = &queues[device];
    bti_queue_wait(device, bti_queue_submitted(device));
    pthread_mutex_lock(&q->lock);
    bool join = q->has_thread;
    q->stop = true;
    q->has_thread = false;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
    if (join) pthread_join(q->thread, NULL);
}
