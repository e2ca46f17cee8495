#include "exec/queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/recycle.h"
#include "base/trace.h"
#include "device/device.h"

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for who waits */
    pthread_cond_t work;    /* for the thread */
    int waiting;
    bti_task *head, *tail;
    atomic_uint_fast64_t submitted, completed;
    bool running; /* somebody runs a task */
    bool kicked;  /* the thread is to run what there is */
    bool stop, has_thread;
    pthread_t thread;
} queue;

static queue queues[BTI_MAX_DEVICES] = {[0 ... BTI_MAX_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                                                       .changed = PTHREAD_COND_INITIALIZER,
                                                                       .work = PTHREAD_COND_INITIALIZER}};

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

/* Runs the first task; called and left with the lock held. */
static void run_first(queue *q, bool by_thread) {
    bti_task *task = q->head;
    q->head = task->next;
    if (!q->head) q->tail = NULL;
    q->running = true;
    pthread_mutex_unlock(&q->lock);
    task->run(task);
    if (by_thread) bti_recycled_share(); /* before anybody knows that it is done */
    pthread_mutex_lock(&q->lock);
    q->running = false;
    atomic_fetch_add(&q->completed, 1);
    if (q->waiting) pthread_cond_broadcast(&q->changed);
    if (q->kicked && q->head) pthread_cond_signal(&q->work);
}

void bti_queue_wait(int device, uint64_t number) {
    queue *q = &queues[device];
    if (atomic_load(&q->completed) >= number) return;
    pthread_mutex_lock(&q->lock);
    while (atomic_load(&q->completed) < number)
        if (q->head && !q->running)
            run_first(q, false);
        else {
            q->waiting++;
            pthread_cond_wait(&q->changed, &q->lock);
            q->waiting--;
        }
    pthread_mutex_unlock(&q->lock);
}

static void *serve(void *argument) {
    queue *q = argument;
    bti_trace_serve((int)(q - queues));
    pthread_mutex_lock(&q->lock);
    while (!q->stop) {
        if (q->kicked && q->head && !q->running)
            run_first(q, true);
        else {
            if (!q->head) q->kicked = false;
            pthread_cond_wait(&q->work, &q->lock);
        }
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

void bti_queue_kick(int device) {
    queue *q = &queues[device];
    pthread_mutex_lock(&q->lock);
    if (q->head) {
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
