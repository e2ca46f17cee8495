/* What /proc says of a process. */
#ifndef BTI_TASK_PROC_H
#define BTI_TASK_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

typedef struct bti_proc {
    pid_t parent;
    char state;               /* 'R', 'S', 'T' (stopped), 't' (stopped by a debugger), 'Z' ... */
    unsigned long long began; /* in ticks since the machine started */
} bti_proc;

/* False: there is no such process. */
bool bti_proc_stat(pid_t pid, bti_proc *stat);

/* FAILED_PRECONDITION: there is no /proc, or it is that of another PID namespace, which knows this process by another number. */
bt_status bti_proc_check(void);

/* This process has one thread. */
bool bti_is_alone(void);
/* How many threads of a process run the user's code. Threads of berth and of libraries are told apart by the signals that they block. */
uint32_t bti_threads_of_user(int32_t pid);

/* Whether the process maps, at this address, a file whose name contains `file_name`. */
bool bti_proc_maps(pid_t pid, const void *address, const char *file_name);

/* Resident memory in bytes; 0 when the process is gone. */
uint64_t bti_proc_resident(int32_t pid);
/* The name of the program that it runs, "?" when the process is gone. Returns `text`. */
const char *bti_proc_name(int32_t pid, char *text, size_t size);

typedef enum bti_halt {
    BTI_NOT_HALTED,
    BTI_STOPPED, /* by a signal: it goes on with SIGCONT */
    BTI_TRACED   /* all of its threads, by a debugger */
} bti_halt;
bti_halt bti_halt_of(pid_t pid);

#endif
