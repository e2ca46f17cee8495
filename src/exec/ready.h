/* What a plan made ready to run, and a run of it, consist of: prepared.c makes them. */
#ifndef BTI_EXEC_READY_H
#define BTI_EXEC_READY_H

#include "device/late.h"
#include "device/timings.h"
#include "exec/exec.h"
#include "exec/packed.h"
#include "exec/queue.h"
#include "base/lock.h"
#include "base/trace.h"

/* Who asked for a step, for base/trace.h: kept when its nodes may be gone. */
typedef struct bti_trace_asked {
    bti_place place;                              /* of a kernel: of its last operation; a run has places of its own */
    const char *operations[BTI_TRACE_OPERATIONS]; /* public ones, each once, the last one last; then NULL */
    const char *own;                              /* the name of an operation of the program's; NULL: it is none */
} bti_trace_asked;

typedef struct bti_ready_step {
    bti_program *program;    /* retained; NULL: a copy between devices, or the host's work */
    bt_custom_grid grid;     /* of a kernel of the program's; no groups: nothing is to be computed */
    bti_host_function *host; /* retained; NULL: the device's work */
    bti_trace_asked asked;
    size_t first_operand; /* of work: into the run's operands: inputs, then the output */
    const bti_attr *attr; /* of work; in of->attrs */
    int64_t *numbers;     /* of a kernel of the program's: its words behind the addresses */
    bti_block *given;     /* of a segment: numbers of its text's last argument, on the device; NULL: there are none */
    bti_type *types;      /* of a segment whose program takes longer arrays: those of its arrays; else NULL */
    int number_count;
    bti_packed_key *packed;                        /* of work whose second input is kept by the device; NULL */
    struct bti_prepared *regions[BTI_MAX_REGIONS]; /* of a control step */
} bti_ready_step;

typedef enum bti_task_kind {
    BTI_TASK_STEPS,  /* first..last-1, on its device */
    BTI_TASK_WAIT,   /* for a copy that another device sends */
    BTI_TASK_ARRIVE, /* at a collective, and what comes after it: collective.h */
    BTI_TASK_JOIN,
    BTI_TASK_SEND, /* a copy between devices, and what comes after it on the other one: send.h */
    BTI_TASK_RECEIVE
} bti_task_kind;

typedef struct bti_run_task_plan {
    uint8_t kind; /* bti_task_kind */
    int device;
    size_t first, last;
    int wait_device;
    uint64_t wait_number;              /* on that device's queue, counted from the run's begin */
    size_t member;                     /* of a collective: which of of->members */
    size_t send;                       /* of a copy between devices: which of of->sends */
    struct bti_recordings *recordings; /* NULL: its steps are always launched one by one */
    bool alone;                        /* it waits for other queues, or for what the host is given */
    bool by_clock; /* what it waits for comes by a virtual clock, which the threads that submit move */
} bti_run_task_plan;

/* A step that runs on several devices, and one of these devices. */
typedef struct bti_collective_plan {
    size_t step, first_member;
    int group;
    size_t *elements; /* [array] */
} bti_collective_plan;
typedef struct bti_member_plan {
    size_t collective;
    int device;
    uint64_t arrive; /* the number of its task on the device's queue, counted from the run's begin */
    bool joined;
} bti_member_plan;

/* A copy between devices that nobody waits for. */
typedef struct bti_send_plan {
    size_t step;
    int from, to;
    uint64_t number; /* of the task that sends, on the queue of `from`, counted from the run's begin */
    bool to_host;    /* into the host's memory */
    bool is_fetched; /* who receives copies: into the host's memory, by the host */
    bool received;
} bti_send_plan;

struct bti_prepared {
    atomic_uint refs; /* its runs hold it */
    bti_plan plan;
    bool of_region; /* the plan belongs to that of a control step; its runs are made by that step */
    bti_ready_step *steps;
    bti_operand *operands; /* of all work steps; without addresses */
    size_t operand_count;
    bti_attr *attrs; /* of all work steps */
    BTI_VEC(bti_run_task_plan) tasks;
    BTI_VEC(bti_collective_plan) collectives;
    BTI_VEC(bti_member_plan) members; /* of each collective, one after the other */
    BTI_VEC(bti_send_plan) sends;
    uint64_t *ready; /* by storage: the task on its device's queue, counted from the run's begin, that fills it */
    int only_device; /* where everything runs; -1: on several, or threads of queues are to begin at once */
    int devices;     /* those it needs have smaller numbers */
    bool brief;      /* done sooner than another thread would begin */
    bool by_caller;  /* on several devices with a clock: who submits it launches it, so that a timeline repeats */
    bti_lock lock;
    pthread_cond_t judged;   /* a collective of a run */
    struct bti_run *idle;    /* runs that are over, to be used again */
    struct bti_turns *turns; /* under the lock; NULL: nothing of it is recorded */
    bti_node **stand_ins;    /* that the plan names, by number, with gaps; retained */
    size_t stand_in_count;
    BTI_VEC(bti_region *) regions; /* of a plan with stand-ins: plans of regions name nodes of these; retained */
};

typedef struct bti_run_task {
    bti_queue_entry entry;
    bti_run *run;
    const bti_run_task_plan *plan;
    uint64_t wait_number;
    bool failed;     /* its entry has no event, all its steps have failed */
    bool unfinished; /* a device is late: the work may go on */
    bti_held held;
    bti_timings timings; /* of what it launched; empty when it is settled */
} bti_run_task;

typedef enum bti_reduction_verdict {
    BTI_REDUCTION_NONE,
    BTI_REDUCTION_PENDING,
    BTI_REDUCTION_KNOWN
} bti_reduction_verdict;
typedef struct bti_run_collective {
    atomic_int missing;         /* devices that have not arrived */
    bool started;               /* it runs, or has; its ends can be waited for */
    int verdict;                /* bti_reduction_verdict; under the lock of the prepared plan */
    _Atomic(bti_error *) error; /* why all its outputs failed */
} bti_run_collective;
typedef struct bti_run_member {
    bti_event arrived;
    bti_work_end end;
    bti_timings timings; /* of its part, until it is judged */
    uint64_t number;     /* of its arrival, on the device's queue */
} bti_run_member;

typedef struct bti_run_send {
    bool started; /* it runs, or has: `end` can be waited for */
    bool gave_up; /* the device that gets it is late; the copy may go on */
    bti_work_end end;
    bti_timings timings;        /* of the copy, until it is settled */
    uint64_t number;            /* of the task that sends, on its queue */
    _Atomic(bti_error *) error; /* why the copy failed */
} bti_run_send;

typedef enum bti_donated {
    BTI_DONATED_NOT,
    BTI_DONATED_OFFERED, /* by the caller, if nobody else holds it */
    BTI_DONATED_TAKEN
} bti_donated;

struct bti_run {
    atomic_uint tasks_left;       /* and one while it is being submitted */
    uint32_t traced;              /* its number in recordings; 0: it is in none */
    bool waited_for;              /* whoever submits it waits for it right away */
    bool aside;                   /* it takes no place on a queue: its submitter runs it */
    bti_prepared *prepared;       /* retained while it runs */
    bti_run *next;                /* idle */
    bti_node *const *nodes;       /* while it is being submitted: what stand-ins stand for; NULL: the plan names none */
    bti_place *places;            /* by step: who asked for it */
    uint64_t *addresses;          /* by storage; behind them, by device, of the arenas */
    int64_t *moved;               /* by storage: bytes that what is given lies further than in the plan */
    uint64_t *idle;               /* by storage: of what arrives, the number after which its memory may be written */
    bti_buffer **buffers;         /* by storage: what is given, kept or arrives */
    _Atomic(bti_error *) *errors; /* by storage: of temporaries */
    bti_buffer **arenas;          /* by device */
    uint8_t *donated;             /* bti_donated, by donation of the plan */
    bti_operand *operands;
    bti_run_task *tasks;
    bti_run_collective *collectives;
    bti_run_member *members;
    bti_run_send *sends;
    bti_packed **packed; /* by step: what the device keeps of its input; retained */
};

#endif
