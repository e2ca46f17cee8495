#include "base/lock.h"

static void init_recursive(pthread_mutex_t *mutex) {
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(mutex, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

#ifndef BTI_DEBUG

void bti_lock_init_recursive(bti_lock *lock, bti_lock_class class) {
    (void)class;
    init_recursive(&lock->mutex);
}

#else

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const class_names[] = {
    "a lock that was not initialised",
#define BTI_LOCK(name, protects, under) #name,
#include "base/locks.def"
#undef BTI_LOCK
};

static const char *const allowed_under[] = {
    "",
#define BTI_LOCK(name, protects, under) under,
#include "base/locks.def"
#undef BTI_LOCK
};

/* What this thread holds, in the order in which it was taken. */
typedef struct held {
    const bti_lock *lock; /* NULL: a function of the user's was called here */
    const char *file;
    int line;
} held;

enum { MOST_HELD = 64 };
static _Thread_local held stack[MOST_HELD];
static _Thread_local int depth;

__attribute__((noreturn)) static void fail(const char *what, const bti_lock *lock, const char *file, int line,
                                           const held *before) {
    fprintf(stderr, "berth: lock order: %s (%s:%d) %s", class_names[lock->class], file, line, what);
    if (before) fprintf(stderr, " %s (%s:%d)", class_names[before->lock->class], before->file, before->line);
    fprintf(stderr, "; src/base/locks.def has the order\n");
    abort();
}

/* The locks of memory and errors, from `sizes` on, may be taken under a leaf. */
static bool is_leaf(const bti_lock *lock) {
    return lock->class < BTI_LOCK_sizes && !strncmp(allowed_under[lock->class], "leaf", 4);
}

/* Locks that were taken before the innermost call of a user's function are not checked. */
static void check_order(const bti_lock *lock, const char *file, int line) {
    if (lock->class == BTI_LOCK_NONE) fail("is taken", lock, file, line, NULL);
    int known = depth < MOST_HELD ? depth : MOST_HELD;
    for (int i = 0; i < known; i++) {
        if (stack[i].lock != lock) continue;
        if (!lock->recursive) fail("is taken again; it was taken before as", lock, file, line, &stack[i]);
        return;
    }
    for (int i = known - 1; i >= 0 && stack[i].lock; i--) {
        if (stack[i].lock->class >= lock->class) fail("is taken under", lock, file, line, &stack[i]);
        if (is_leaf(stack[i].lock) && lock->class < BTI_LOCK_sizes)
            fail("is taken under a leaf,", lock, file, line, &stack[i]);
    }
}

static void push(const bti_lock *lock, const char *file, int line) {
    if (depth < MOST_HELD) stack[depth] = (held){lock, file, line};
    depth++;
}

void bti_lock_take_(bti_lock *lock, const char *file, int line) {
    check_order(lock, file, line);
    pthread_mutex_lock(&lock->mutex);
    push(lock, file, line);
}

void bti_lock_give(bti_lock *lock) {
    int i = (depth < MOST_HELD ? depth : MOST_HELD) - 1;
    while (i >= 0 && stack[i].lock != lock) i--;
    if (i < 0) fail("is given back and not held", lock, __FILE__, __LINE__, NULL);
    for (depth--; i < depth && i + 1 < MOST_HELD; i++) stack[i] = stack[i + 1];
    pthread_mutex_unlock(&lock->mutex);
}

void bti_lock_wait_(bti_lock *lock, pthread_cond_t *changed, const char *file, int line) {
    if (!depth || (depth <= MOST_HELD && stack[depth - 1].lock != lock))
        fail("is waited on and not the last one taken", lock, file, line, NULL);
    bti_cond_wait_(changed, &lock->mutex);
}

void bti_lock_user_begin(void) { push(NULL, "", 0); }
void bti_lock_user_end(void) { depth--; }

void bti_lock_init(bti_lock *lock, bti_lock_class class) {
    pthread_mutex_init(&lock->mutex, NULL);
    lock->class = class;
    lock->recursive = false;
}

void bti_lock_init_recursive(bti_lock *lock, bti_lock_class class) {
    init_recursive(&lock->mutex);
    lock->class = class;
    lock->recursive = true;
}

#endif
