/* What this process is in a runtime: the program, or a worker; and the functions that it knows. */
#ifndef BTI_TASK_PROCESS_H
#define BTI_TASK_PROCESS_H

#include "task/object.h"
#include "base/clock.h"
#include "task/store.h"

typedef struct bti_process {
    bti_state *state; /* NULL: no runtime */
    bti_client *me;
    uint64_t runtime; /* counts the runtimes that this process began */
} bti_process;
extern bti_process bti_process_now;

/* ThreadSanitizer makes a thread in each process, and one more after a fork. */
#ifdef __SANITIZE_THREAD__
enum { BTI_CHECKED_THREADS = 1 };
#else
enum { BTI_CHECKED_THREADS = 0 };
#endif

/* --- runtime.c --- */
/* This process has one thread. */
bool bti_is_alone(void);

/* --- modules.c --- */
/* A function of a module ("" is the program), which is opened if it is not yet; NOT_FOUND names both. */
bt_status bti_module_find(const char *module, const char *name, const bt_remote_entry **entry);
enum { BTI_KEY_END = 2 * 16 + 1 }; /* of a key, after the path */
/* For engines that bring modules to other machines: what the bytes of that module are (XXH3, 64 bits); false: it is the program. */
bool bti_module_content(const char *key, uint64_t *content);
/* In a process that runs calls: the file at `path` has these bytes. Calls of a module with these bytes find it there when it is not, or no more, where the
 * program opened it. FAILED_PRECONDITION: the file has others; NOT_FOUND: it cannot be read. Any thread. */
bt_status bti_module_provide(uint64_t content, const char *path);
/* The path of a module, for people: entries and calls know it by a key (modules.c). */
const char *bti_module_path(const char *key, char *path, size_t size);

/* --- nest.c --- */
/* The life of the parent of all workers: forks them, tells of those that died, ends when the program does. In a process of its own
 * that has one thread, a child of the keeper (nest.h). `pipe` closes with the program. Never returns. */
_Noreturn void bti_nest_run(bti_state *state, int pipe);

/* --- worker.c --- */
_Noreturn void bti_worker_run(bti_state *state, bti_client *me);

/* --- surroundings.c --- */
/* What a call may change and the next one of this process is not to see: working directory, umask, signal mask, environment. */
void bti_surroundings_keep(void);
/* The next call has so many CPUs (in units): OMP_NUM_THREADS and OpenMP's number of threads, unless the program came with the variable. */
void bti_surroundings_cpus(int64_t units);
void bti_surroundings_put_back(void); /* nothing when they were not kept */

/* --- local.c --- */
/* In the program and in workers. Without the lock. Another hold of an object that it may use; its value is in memory, and `pinned` there. NULL with the
 * cause in the error record. */
bti_hold *bti_hold_take(bti_object *object, bool pinned);
void bti_hold_leave(bti_hold *hold);

/* --- loan.c --- */
/* An array on the bytes of a value of the object `owner`, in place when it is large; NULL: they go away, and are copied. The owner's value is in memory: as
 * long as a hold of this process says so, or, for an argument, the call that runs. */
bt_array *bti_array_in(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype, bt_shape shape);
/* In a worker, at the end of a call: arrays of its arguments that are still there keep those in memory. */
void bti_loans_keep(const bti_task_record *task);
/* One user less (state.h). */
void bti_state_release(bti_state *state);

/* --- wait.c --- */
/* `seconds` from now; negative, infinite or not a number: 0, no limit. */
uint64_t bti_until_ns(double seconds);
/* Until `word` is no longer `seen` or the time has come (0: no limit); false: it has. */
bool bti_sleep_on(atomic_uint *word, unsigned seen, uint64_t until_ns);
/* Looks at it for a while before one sleeps; true: it changed. For how long: twice as long as it took before, halved each time that it was for nothing; every 32nd time
 * for some 50 microseconds, since the other side is slow as long as it sleeps. */
typedef struct bti_patience {
    uint32_t looks, waits;
} bti_patience;
bool bti_spin_on(atomic_uint *word, unsigned seen, bti_patience *patience);
/* The same, but it may return for no reason. */
bool bti_sleep_once(atomic_uint *word, unsigned seen, uint64_t until_ns);
/* ABORTED when the process that starts workers, and tells of their ends, is gone. */
bt_status bti_check_runs(bti_state *state);

/* With a hold on the objects. Until `wanted` of them are done or the time has come; false with the cause in the error record: the runtime is gone,
 * waiting would never end, or no record is left. A task that waits lends its CPUs. */
bool bti_wait_for(bti_state *state, bti_object *const *objects, int count, int wanted, uint64_t until_ns);

#endif
