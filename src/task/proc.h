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
/* Threads of a process that run what a user wrote: those of berth and of libraries are told by the signals that they hold back. */
uint32_t bti_threads_of_user(int32_t pid);

/* It maps a file whose name has that text at this address. */
bool bti_proc_maps(pid_t pid, const void *address, const char *file_name);

/* Memory that it has for itself or maps, in bytes; 0 when it is gone. */
uint64_t bti_proc_resident(int32_t pid);
/* What it runs, "?" when it is gone; in `text`, which is returned. */
const char *bti_proc_name(int32_t pid, char *text, size_t size);

typedef enum bti_halt {
    BTI_NOT_HALTED,
    BTI_STOPPED, /* by a signal: it goes on with SIGCONT */
    BTI_TRACED   /* all of its threads, by a debugger */
} bti_halt;
bti_halt bti_halt_of(pid_t pid);

#endif
