/* Locks of this process. Every lock belongs to a class, a row of locks.def, and the rows are the order: under a lock only locks of later
 * rows may be taken. Debug builds (BTI_DEBUG) check that at each bti_lock_take and end the process with both places when it does not hold;
 * other builds call pthread and nothing else. */
#ifndef BTI_BASE_LOCK_H
#define BTI_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum bti_lock_class {
    BTI_LOCK_NONE, /* of a lock that was not initialised */
#define BTI_LOCK(name, protects, under) BTI_LOCK_##name,
#include "base/locks.def"
#undef BTI_LOCK
    BTI_LOCK_CLASSES
} bti_lock_class;

typedef struct bti_lock {
    pthread_mutex_t mutex;
#ifdef BTI_DEBUG
    bti_lock_class class;
    bool recursive;
#endif
} bti_lock;

/* A thread that was cancelled while it waits would leave the lock taken. */
static inline void bti_cond_wait_(pthread_cond_t *changed, pthread_mutex_t *mutex) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cond_wait(changed, mutex);
    pthread_setcancelstate(before, NULL);
}

#ifdef BTI_DEBUG

#define BTI_LOCK_AS_(initializer, class_, again) \
    { .mutex = initializer, .class = BTI_LOCK_##class_, .recursive = again }
void bti_lock_take_(bti_lock *lock, const char *file, int line);
void bti_lock_give(bti_lock *lock);
void bti_lock_wait_(bti_lock *lock, pthread_cond_t *changed, const char *file, int line);
void bti_lock_init(bti_lock *lock, bti_lock_class class);
#define bti_lock_take(lock) bti_lock_take_(lock, __FILE__, __LINE__)
#define bti_lock_wait(lock, changed) bti_lock_wait_(lock, changed, __FILE__, __LINE__)

/* Around a call of a function of the user's: which locks that takes is not checked against those that are held here. (C2 of the design
 * forbids such calls; locks.def says where they are made yet.) */
void bti_lock_user_begin(void);
void bti_lock_user_end(void);
#else

#define BTI_LOCK_AS_(initializer, class_, again) \
    { .mutex = initializer }
static inline void bti_lock_take(bti_lock *lock) { pthread_mutex_lock(&lock->mutex); }
static inline void bti_lock_give(bti_lock *lock) { pthread_mutex_unlock(&lock->mutex); }
static inline void bti_lock_wait(bti_lock *lock, pthread_cond_t *changed) { bti_cond_wait_(changed, &lock->mutex); }
static inline void bti_lock_init(bti_lock *lock, bti_lock_class class) {
    (void)class;
    pthread_mutex_init(&lock->mutex, NULL);
}
static inline void bti_lock_user_begin(void) {}
static inline void bti_lock_user_end(void) {}
#endif

/* A thread may take it again while it holds it: for locks under which an error handler or a log sink is called. */
void bti_lock_init_recursive(bti_lock *lock, bti_lock_class class);
static inline void bti_lock_destroy(bti_lock *lock) { pthread_mutex_destroy(&lock->mutex); }

#define BTI_LOCK_INIT(class_) BTI_LOCK_AS_(PTHREAD_MUTEX_INITIALIZER, class_, false)
#define BTI_LOCK_INIT_RECURSIVE(class_) BTI_LOCK_AS_(PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, class_, true)

/* In a forked child no other thread is there to unlock what it held: the lock is initialised again in the child. What it protects may be half
 * done, so a child only asks, releases and gets errors where a device is needed. */
#define BTI_STATIC_LOCK_(name, initializer)                          \
    static bti_lock name = initializer;                              \
    static void renew_##name(void) { name = (bti_lock)initializer; } \
    __attribute__((constructor)) static void watch_##name(void) { pthread_atfork(NULL, NULL, renew_##name); }
/* The same for a static array of things that have a `lock` each. */
#define BTI_RENEWED_LOCKS(array, class_)                                                                           \
    static void renew_##array(void) {                                                                              \
        for (size_t i = 0; i < sizeof array / sizeof *array; i++) array[i].lock = (bti_lock)BTI_LOCK_INIT(class_); \
    }                                                                                                              \
    __attribute__((constructor)) static void watch_##array(void) { pthread_atfork(NULL, NULL, renew_##array); }
#define BTI_STATIC_LOCK(name, class_) BTI_STATIC_LOCK_(name, BTI_LOCK_INIT(class_))
#define BTI_STATIC_LOCK_RECURSIVE(name, class_) BTI_STATIC_LOCK_(name, BTI_LOCK_INIT_RECURSIVE(class_))

#endif
