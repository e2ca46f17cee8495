/* A plan made ready to run, and the runs of it. */
#ifndef BTI_EXEC_PREPARED_H
#define BTI_EXEC_PREPARED_H

#include "exec/exec.h"
#include "exec/queue.h"
#include "base/lock.h"
#include "base/trace.h"

/* Who asked for a step, for base/trace.h: kept when its nodes may be gone. */
typedef struct bti_trace_asked {
    bti_place place;                              /* of a kernel: of its last operation */
    const char *operations[BTI_TRACE_OPERATIONS]; /* public ones, each once, the last one last; then NULL */
    const char *own;                              /* the name of an operation of the program's; NULL: it is none */
} bti_trace_asked;
bti_trace_asked bti_trace_asked_of(const bti_plan *plan, const bti_step *step);

typedef struct bti_ready_step {
    bti_program *program;    /* retained; NULL: a copy between devices, or the host's work */
    bt_custom_grid grid;     /* of a kernel of the program's; no groups: nothing is to be computed */
    bti_host_function *host; /* retained; NULL: the device's work */
    bti_trace_asked asked;
    size_t first_operand; /* of work: into the run's operands: inputs, then the output */
    const bti_attr *attr; /* of work; in of->attrs */
    int64_t *numbers;     /* of a kernel of the program's: its words behind the addresses */
    int number_count;
    struct bti_prepared *regions[BTI_MAX_REGIONS]; /* of a control step */
} bti_ready_step;

/* Steps first..last-1 on one device; or, with first == last, a wait for a copy that another device sends. */
typedef struct bti_run_task_plan {
    int device;
    size_t first, last;
    int wait_device;
    uint64_t wait_number;              /* on that device's queue, counted from the run's begin */
    struct bti_recordings *recordings; /* NULL: its steps are always launched one by one */
    bool alone;                        /* it waits for other queues */
} bti_run_task_plan;

struct bti_prepared {
    atomic_uint refs; /* its runs hold it */
    bti_plan plan;
    bool of_region; /* the plan belongs to that of a control step; its runs are made by that step */
    bti_ready_step *steps;
    bti_operand *operands; /* of all work steps; without addresses */
    size_t operand_count;
    bti_attr *attrs; /* of all work steps */
    BTI_VEC(bti_run_task_plan) tasks;
    uint64_t *ready; /* by storage: the task on its device's queue, counted from the run's begin, that fills it */
    int only_device; /* where everything runs; -1: on several, or threads of queues are to begin at once */
    int devices;     /* those it needs have smaller numbers */
    bool brief;      /* done sooner than another thread would begin */
    bti_lock lock;
    struct bti_run *idle; /* runs that are over, to be used again */
};

typedef struct bti_run_task {
    bti_queue_entry entry;
    bti_run *run;
    const bti_run_task_plan *plan;
    uint64_t wait_number;
    bti_event event; /* after its last launch */
    bool failed;     /* there is none, all its steps have failed */
} bti_run_task;

struct bti_run {
    atomic_uint tasks_left; /* and one while it is being submitted */
    bti_prepared *prepared; /* retained while it runs */
    bti_run *next;          /* idle */
    uint64_t *addresses;    /* by storage */
    uint64_t *idle;         /* by storage: of what arrives, the number after which its memory may be written */
    bti_buffer **buffers;   /* by storage: what is given, kept or arrives */
    bti_error **errors;     /* by storage: of temporaries */
    bti_buffer **arenas;    /* by device */
    bti_operand *operands;
    bti_run_task *tasks;
};

/* One of its tasks, or its submitter, is done with it. */
void bti_run_done(bti_run *run);

#endif
