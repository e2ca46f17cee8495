/* What this process is in a runtime: the program, or a worker; and the functions that it knows. */
#ifndef BTI_TASK_PROCESS_H
#define BTI_TASK_PROCESS_H

#include <sys/types.h>

#include "base/clock.h"
#include "task/object.h"
#include "task/store.h"

typedef struct bti_process {
    bti_state *state; /* NULL: no runtime */
    bti_client *me;
    uint64_t runtime; /* counts the runtimes that this process began */
} bti_process;
extern bti_process bti_process_now;

/* --- whether the runtime is there --- */
/* The nest holds a robust lock of the shared memory, which the kernel gives back when the nest ends, however it ends. So this needs no
 * file, no process number and no right to send signals. */
bool bti_nest_lives(bti_state *state);
/* ABORTED when the nest, which starts workers and tells of their ends, is gone; INTERNAL when the memory is damaged. */
bt_status bti_check_runs(bti_state *state);
/* The error of a runtime that ends. */
bt_status bti_runtime_over(const bti_state *state);
/* From now on bti_arena_check looks at the heads of the state's lists too; `wait`: arena.h. NULL: no longer. */
void bti_state_watch(bti_state *state, void (*wait)(void));
/* INTERNAL with the cause when the memory of the runtime of this process is damaged; `thorough`: looks at the heads of lists too. */
bt_status bti_state_fault(bool thorough);

/* One user less of the mapped memory (state.h); the last one unmaps it. */
void bti_state_release(bti_state *state);

/* --- calling the nest --- */
/* The nest looks at what there is to do. Any process of the runtime, also one that may not send signals to it. */
void bti_nest_call(void);
/* In the program and in the nest: how this process, and those that it forks, call the nest: by a signal, or else by a byte in this pipe. */
void bti_nest_reach(pid_t nest, int pipe);
/* In the program, after the nest has ended: closes the pipe. */
void bti_nest_leave(void);
int bti_nest_pipe(void);

/* --- files --- */
/* A program may close files that it does not know (closefrom), and open others under their numbers. */
typedef struct bti_file_identity {
    int number;
    dev_t device;
    ino_t inode;
} bti_file_identity;
bool bti_file_know(bti_file_identity *file, int number);
bool bti_file_is_same(const bti_file_identity *file);
/* Closes all files but the standard ones, the pipe (-1: none) and those of the runtime (NULL: none): where values are spilled, and lock
 * files of leases. */
void bti_files_keep(const bti_state *kept, int pipe);

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

/* --- wait.c --- */
/* With a hold on the objects. Until `wanted` of them are done or the time has come; false with the cause in the error record: the runtime is gone,
 * waiting would never end, or no record is left. A task that waits lends its CPUs. */
bool bti_wait_for(bti_state *state, bti_object *const *objects, int count, int wanted, uint64_t until_ns);

#endif
