/* What a runtime knows, as records of the arena. The program and the nest change them under its lock (arena.h); workers only read them. A pointer
 * from one record to another is valid in every process.
 *
 *     client   a process that may call: the program, a worker
 *     waiter   a thread that waits for objects
 *     object   what a reference stands for: pending, then a value or a failure
 *     task     a call: what it takes, its arguments, the object it will make
 *     queue    tasks that wait and take the same; the first of each queue is what can run next
 *     actor    a worker that keeps its state, with a line of calls of its own
 *     group    resources set aside, in bundles
 *
 * The files of this folder, lowest first. A file calls files of the lines above its own; on its own line, those to its left.
 *
 *     words        proc, arena, process, wake, mailbox         the system, shared memory, sleeping and waking, messages
 *     values       options, modules, handles, value, given_values, references, run
 *     memory       store, spill, placement                     where values stand
 *     records      object, supply, settle                      holders and waiters of an object; resources
 *     scheduling   queue, tasks, given, actor, ready, group, fair, dispatch
 *     messages     room, chores, ended, order, server, deadlock
 *     views        snapshot, timeline_trace, why, view, tables, listen, wait, peers
 *     workers      gpus, gpu_use, watch, loan, call, worker_engine, surroundings, output, worker
 *     processes    worker_pipes, stopped, identity, children, nest, begin, keeper
 *     the program  layout, runtime, local, lifetime, front, pool
 *
 * The way of one call of the program through the files:
 *
 *     front      checks the public call and asks the engine (engine.h)
 *     local      is the engine: makes the order of the call (call), then takes the lock
 *     order      makes the task's record and the objects of its results
 *     ready      waits until its arguments are done, then puts it into its queue (queue)
 *     dispatch   takes it from the queue when its resources are free and chooses a worker
 *     given      lists it among the worker's calls and writes it into the worker's mailbox (mailbox)
 *     worker     claims it in its own process; run calls the function
 *     server     reads the worker's message that the call has ended
 *     ended      makes the results, gives the resources back, or has the call tried again
 *     settle     marks the objects as done and wakes the threads that wait for them
 */
#ifndef BTI_TASK_STATE_H
#define BTI_TASK_STATE_H

#include <berth/task.h>
#include <signal.h>

#include "task/arena.h"

enum {
    BTI_MOST_RESOURCES = 18, /* CPU, GPU and 16 by name */
    BTI_MOST_GPUS = 64,
    BTI_GPU_NAME = 96, /* bytes of one in CUDA_VISIBLE_DEVICES */
    BTI_MOST_LEASE_FILES = 128,
    BTI_MOST_BUNDLES = 64,
    BTI_INLINE_BYTES = 40, /* a value of at most so many bytes stands in its object */
    BTI_UNIT = 10000,      /* amounts are whole numbers of 1/10000 */
    BTI_MOST_CLIENTS = 1 << 14,
    BTI_AHEAD = 16,           /* calls that a worker has at most, if it runs one at a time */
    BTI_MOST_AT_ONCE = 64,    /* methods of an actor that run at once (max_concurrency) */
    BTI_GIVEN_SLOTS = 128,    /* a power of two, at least BTI_AHEAD + BTI_MOST_AT_ONCE */
    BTI_NEST_SIGNAL = SIGUSR1 /* calls the nest. A signal, because a task may close all files */
};

#define BTI_NO_CALL UINT32_MAX /* the number of no call, or of an unknown one */

typedef enum bti_record_kind {
    BTI_CLIENTS,
    BTI_OBJECTS,
    BTI_TASKS,
    BTI_QUEUES,
    BTI_ACTORS,
    BTI_GROUPS,
    BTI_FUNCTIONS,
    BTI_HOLDS,
    BTI_WAITS,
    BTI_LINKS,
    BTI_WAITERS,
    BTI_CHORES,
    BTI_MORE,
    BTI_RESULTS,
    BTI_LEFT_ROOMS,
    BTI_SLOTS
} bti_record_kind;

typedef struct bti_task_record bti_task_record;
typedef struct bti_object bti_object;
typedef struct bti_client bti_client;
typedef struct bti_actor_record bti_actor_record;
typedef struct bti_group_record bti_group_record;
typedef struct bti_queue bti_queue;
typedef struct bti_function_record bti_function_record;
typedef struct bti_mailbox bti_mailbox;
typedef struct bti_results bti_results;
typedef struct bti_left_room bti_left_room;
typedef struct bti_bells bti_bells;
typedef struct bti_wakes bti_wakes;

/* A thread that waits for some of several objects. */
typedef struct bti_waiter {
    bti_free_record record;
    struct bti_waiter *next, *before; /* in the client's list, the latest first */
    bti_client *client;
    struct bti_wait *waits; /* one for each pending object */
    int32_t left;           /* objects that are still to become done */
    uint32_t objects;       /* that were added to it */
    bool armed;             /* all its objects were added */
    bool limited;           /* its wait has a time limit */
    uint64_t order;         /* of the beginnings of waits */
    uint16_t slot;          /* of the reply to a worker */
    uint32_t call;          /* the number of the worker's call that waits; BTI_NO_CALL */
    atomic_uint word;       /* for threads of the program: counts up when the wait is over */
    atomic_uint leads;      /* the thread reads mailboxes, and sleeps on the program's bell */
    uint64_t room_bytes;    /* not 0: it waits for room in the store, not for objects */
    bool stuck;             /* it is part of a deadlock, which `text` describes */
    char text[512];
} bti_waiter;

/* A waiter waits for this object, which was pending. */
typedef struct bti_wait {
    bti_free_record record;
    struct bti_wait *next, *before; /* in the object's list */
    struct bti_wait *next_of_waiter;
    bti_object *object;
    bti_waiter *waiter;
    bool over; /* the object is done; the wait has left its list */
} bti_wait;

/* A move of a value that is going on without the lock; the hold stands for it (room.c). */
typedef enum bti_moving { BTI_STAYS, BTI_MOVES_OUT, BTI_MOVES_IN } bti_moving;

/* A reference that a process holds. It ends with the process at the latest. */
typedef struct bti_hold {
    bti_free_record record;
    struct bti_hold *next, *before; /* in the client's list */
    bti_object *object;
    bti_client *client;
    bool pinned;    /* its process has a pointer into the value */
    uint32_t moves; /* bti_moving */
} bti_hold;

/* A request of a worker that cannot be answered at once: room in a full store, values that are on disk. The mover does it (chores.c). */
typedef struct bti_chore {
    bti_free_record record;
    struct bti_chore *next;
    bti_client *client;  /* NULL: its process is gone */
    uint16_t kind, slot; /* of the message (mailbox.h) */
    bti_hold *hold;      /* of the client */
    bti_task_record *task;
    uint64_t count;
    uint32_t result; /* of the task */
    bool begun;      /* the mover works on it */
    bool stuck;      /* it waits until others release values */
} bti_chore;

/* A task that waits for an object. */
typedef struct bti_link {
    bti_free_record record;
    struct bti_link *next;
    bti_task_record *task;
} bti_link;

enum { BTI_MORE_OBJECTS = 30, BTI_FIRST_CONTENTS = 2 };
/* A part of a long list of objects: arguments of a task, contents of a value. */
typedef struct bti_more {
    bti_free_record record;
    struct bti_more *next;
    bti_object *objects[BTI_MORE_OBJECTS];
} bti_more;

/* Objects that are held because a value refers to them. They stand here so that the value need not be read to find them. */
typedef struct bti_contents {
    uint32_t count;
    bti_object *first[BTI_FIRST_CONTENTS];
    bti_more *more; /* the last of them first */
} bti_contents;

typedef enum bti_object_state { BTI_OBJECT_PENDING, BTI_OBJECT_READY, BTI_OBJECT_FAILED } bti_object_state;

struct bti_object {
    bti_free_record record;
    atomic_uint state;     /* bti_object_state: changes once (that of an actor may fail later); read without the lock */
    uint32_t status;       /* when failed; the text is its value */
    uint32_t holders;      /* holds, waits, tasks that have it as an argument or result, values that refer to it */
    uint32_t pins;         /* users of pointers into its value, which therefore stays where it is */
    uint64_t bytes;        /* of its value, packed (value.h) */
    char *value;           /* in the store; NULL: it stands in `small`, or on disk */
    struct bti_slot *slot; /* where it is on disk, or will be when a hold moves it out */
    bti_hold *reader;      /* moves it in: `value` is not filled yet */
    char small[BTI_INLINE_BYTES];
    bti_task_record *maker;  /* the call that makes it, until it is done */
    bti_actor_record *actor; /* it stands for this actor: ready once that is made */
    bti_group_record *group; /* or for this group: ready once that has its resources */
    bti_wait *waits;
    bti_link *links;
    bti_object *newer,
        *older; /* in the list of values that can be spilled, by last use. older: also the next in state->unheld */
    uint32_t failure; /* when failed: bt_failure */
    uint32_t result_index;
    bti_task_record *yielder; /* of an item of a stream: its call, as long as that record has this number */
    uint64_t yielder_sequence;
    bti_results *results;  /* it is one of several results of a call; NULL: it is not */
    bti_contents contents; /* what its value refers to, once that is there */
};

struct bti_function_record {
    bti_free_record record;
    bti_function_record *next;
    char module[512]; /* its key (modules.c); "": the program */
    char name[96];
};

typedef struct bti_amounts {
    int64_t of[BTI_MOST_RESOURCES]; /* 0: CPU, 1: GPU */
    uint64_t
        gpu_bytes;     /* of the memory of one GPU; of[1] is then the share of the largest GPU. 0: of[1] alone counts */
    uint64_t gpu_only; /* bit per GPU that is allowed; 0: any */
    int64_t strategy;  /* bt_group_strategy; in the first bundle of a group */
} bti_amounts;

/* Resources that tasks take: those of the machine, or of a bundle. */
typedef struct bti_supply {
    bti_amounts total, free; /* free may be negative: a resumed task reclaims its CPUs immediately */
    int32_t gpu_free[BTI_MOST_GPUS];
    uint64_t gpus; /* a bundle's own */
    bti_amounts
        kept; /* what actors and groups have of `total`: they may live on for ever, other tasks end by themselves */
    int32_t gpu_kept[BTI_MOST_GPUS];
    struct bti_queue *waiting;                        /* root of the tree of queues that have tasks (queue.h) */
    struct bti_supply *next_waiting, *before_waiting; /* bundles with such queues */
    struct bti_group_record *group;                   /* whose bundle it is; NULL: the machine */
} bti_supply;

enum { BTI_MOST_RETURNS = 100 };
/* The results of a call that has several. */
struct bti_results {
    bti_free_record record;
    uint32_t count, there;            /* there: how many are not freed */
    bti_object *of[BTI_MOST_RETURNS]; /* NULL: freed */
    bool kept[BTI_MOST_RETURNS];      /* the first result holds it, until it is asked for */
};

/* Room where a call may still write a result that nobody wants any more. */
struct bti_left_room {
    bti_free_record record;
    bti_left_room *next;
    char *room;
    uint64_t bytes;
};

typedef enum bti_task_state {
    BTI_TASK_NONE,      /* the record is free: views look at all records */
    BTI_TASK_ARGUMENTS, /* waits for objects among its arguments */
    BTI_TASK_QUEUED,    /* waits for resources, or for its turn in an actor */
    BTI_TASK_GIVEN,     /* to a worker, which may have begun (bti_task_runs) */
    BTI_TASK_KEPT /* done, but it keeps its resources: the making of an actor, a call whose process has GPUs and ends */
} bti_task_state;

enum { BTI_FIRST_OBJECTS = 16 };
struct bti_task_record {
    bti_free_record record;
    bti_task_record *left, *right; /* leftist heap of its queue; right: the next in an actor's line */
    uint32_t rank;
    int32_t priority;
    uint64_t sequence;
    uint32_t state, missing; /* bti_task_state; arguments that are pending */
    bti_function_record *function;
    bti_queue *queue;                         /* NULL: an actor's method */
    bti_actor_record *actor;                  /* whose method it is, or (makes_actor) which it makes */
    bool makes_actor, hides_gpus, frees_cpus; /* frees_cpus: the actor has no CPUs once it is made */
    bool cancelled;                           /* its result may have failed already */
    bool cpus_lent;       /* it waits for objects, or is an actor that frees its CPUs: others may have them */
    bool pinned;          /* its arguments are pinned */
    uint64_t needs_bytes; /* of its arguments in the store, while it is given */
    int32_t retries;
    uint64_t deadline_ns; /* of CLOCK_MONOTONIC; 0: none */
    bti_object *result;
    bti_object *pack; /* its arguments; NULL: they stand below */
    uint32_t object_count;
    bti_object *objects[BTI_FIRST_OBJECTS]; /* those among its arguments; the rest in `more` */
    bti_left_room *left_rooms;
    char small_arguments[64];
    bti_client *client; /* that runs it */
    uint32_t number;    /* its place in the sequence of calls that this client was given */
    int32_t submitter;  /* a process's number */
    uint64_t submitted_ns, begun_ns;
    uint64_t gpus;           /* bit per GPU that it has */
    uint32_t depth;          /* 0: submitted by the program; n + 1: by a task of depth n */
    uint64_t queued_ns;      /* when it began to wait for resources */
    uint32_t retry_failures; /* bit per status: it is run again when the function returned that */
    bti_more *more;          /* the rest of the objects among its arguments */
    bti_contents inner;      /* what lists among its arguments, and the result that it is about to send, refer to */
    const bti_task_record *parent; /* the call that made it, as long as that record has this number */
    uint64_t parent_sequence;
    uint64_t yielded;    /* items so far; `result` is what follows the last */
    bool stream_refused; /* it has yielded more items than there are records for: its next item tells it */
    uint32_t
        max_calls; /* calls of its function that a worker runs before it ends; 0: 1 with GPUs, else without limit */
};

/* Tasks that take the same amounts: all of them fit, or none does. */
struct bti_queue {
    bti_free_record record;
    bti_queue *next; /* in the list of its group */
    bti_amounts amounts;
    bti_group_record *group;
    int32_t bundle;
    uint32_t length;
    uint32_t users;          /* tasks that are in it, or were and have not ended: without any it may be freed */
    bti_task_record *first;  /* of the heap: see bti_task_goes_before */
    bti_queue *left, *right; /* in the tree of its supply, while it has tasks */
    uint64_t weight;         /* of the treap: parents have more */
    bti_amounts least;       /* of each resource, in the subtree */
    bti_queue *next_same;    /* in the table: the next with the same hash */
};

typedef enum bti_actor_state { BTI_ACTOR_WAITING, BTI_ACTOR_ALIVE, BTI_ACTOR_DEAD } bti_actor_state;

struct bti_actor_record {
    bti_free_record record;
    bti_actor_record *next; /* of all */
    uint32_t state, length;
    bti_object *self;              /* what handles refer to; the actor itself is one holder more */
    bti_task_record *maker;        /* the call that makes it, kept for its resources and for restarts */
    bti_task_record *first, *last; /* methods that wait, in order */
    bti_client *client;
    int32_t restarts, restarted;
    uint32_t at_once; /* methods that it runs, at most (max_concurrency) */
    bool unheld;      /* it is in state->unheld_actors */
    bti_actor_record *next_unheld;
    char name[64]; /* "" for none */
};

struct bti_group_record {
    bti_free_record record;
    bti_group_record *next; /* of all, in order */
    bti_object *self;       /* what handles refer to; the group itself is one holder more */
    bool has;               /* it has its resources */
    bool released;          /* nobody has a handle: it ends with its last task */
    bti_client *owner;      /* that made it, and has its handles as long as it is not released */
    uint32_t users;         /* tasks and actors of it */
    int32_t count;
    bti_supply bundles[BTI_MOST_BUNDLES];
    bti_queue *queues; /* of its bundles */
    uint64_t queued_ns;
};

typedef enum bti_client_state {
    BTI_CLIENT_STARTING,
    BTI_CLIENT_IDLE,
    BTI_CLIENT_BUSY,
    BTI_CLIENT_ENDED
} bti_client_state;

/* How much of a worker's standard error the nest has read. Written by the nest, without the lock. */
typedef struct bti_errors_read {
    atomic_uint turn; /* odd while it reads */
    atomic_ullong bytes;
} bti_errors_read;

struct bti_client {
    bti_free_record record;
    bti_client *next_idle, *next_start, *next, *before; /* next, before: in the list of all */
    uint32_t number;
    int32_t pid;
    uint32_t state;
    bool is_program;
    bool is_mover;
    bool ends_after; /* it ends with its task: it has GPUs, or is an actor's */
    bool kill;       /* the nest is to end it */
    bool stops;      /* it was told to end after its calls */
    bool insane;     /* one of its messages made no sense */
    bti_task_record *
        task; /* the first call that it was given, which has its resources; of an actor the oldest that has not ended */
    bti_actor_record *actor;
    bti_hold *holds;
    bti_waiter *waiters;
    uint32_t blocked; /* waiters without a limit */
    bti_mailbox *mail;
    /* Its calls, by number; NULL: that call has ended or was revoked, or the number was left out. */
    bti_task_record *given[BTI_GIVEN_SLOTS];
    uint32_t given_count, given_end;     /* how many calls it has; the next number */
    uint32_t at_once;                    /* calls that it runs at once, at most */
    uint32_t read;                       /* position in `up` of its mailbox */
    uint32_t stocked, stock_left;        /* references put into its stock so far; not used yet */
    const bti_function_record *function; /* the one that it ran last */
    uint32_t calls;                      /* of that function, one after the other */
    bool outdated;                       /* it was forked when the program had other rights: it gets no more calls */
    bti_errors_read errors_read;
    uint32_t looked_at, looks; /* its first call when the nest looked last, and how often that was the same */
    bool out_of_memory;        /* the kernel has killed it because memory ran out */
};

/* Does a thread of the program read the mailboxes? */
typedef enum bti_listening {
    BTI_NOBODY_LISTENS,
    BTI_PROGRAM_LISTENS,
    BTI_PROGRAM_HALTED /* its process is stopped: the nest reads them */
} bti_listening;

/* The one record from which all others are reached. */
typedef struct bti_state {
    bti_arena *arena;
    bti_supply machine;
    char names[BTI_MOST_RESOURCES][32];
    int32_t resource_count, gpu_count;
    int32_t gpu_number[BTI_MOST_GPUS];
    char gpu_name[BTI_MOST_GPUS][BTI_GPU_NAME];
    bool gpu_users_listed;   /* the driver may list the processes that hold memory of GPUs */
    bool gpu_energy_is_read; /* the driver may tell their energy */
    struct bti_energy_board *energy;
    bti_actor_record *actors;
    bti_group_record *groups;
    bti_object *unheld; /* objects with contents that nobody holds any more: to be freed */
    bti_link *arrived;  /* links of tasks whose object is done, not looked at by the scheduler yet (ready.h) */
    bti_actor_record *unheld_actors; /* actors without handles: the same */
    bti_client *clients, *idle, *to_start;
    bti_client *program;
    bti_function_record *functions;
    uint32_t idle_count, worker_count, clients_ever;
    struct bti_store *store;
    uint64_t store_limit, store_used; /* bytes of values in memory */
    uint64_t
        store_memory; /* bytes that the store took from the machine: values, and free blocks kept for the next ones */
    uint64_t spill_limit, spilled_bytes;
    uint32_t spilled_count;
    int32_t spill_file; /* -1: there is none; spill_errno says why */
    int32_t spill_errno;
    char spill_folder[256];
    uint64_t sequence;
    uint64_t started_ns;
    struct bti_timeline *timeline; /* tasks.h */
    uint64_t next_deadline_ns;     /* when the nest looks for tasks past their deadline; 0: never */
    int32_t nest_pid;
    atomic_uint closing;
    bti_bells *bells;
    bti_mailbox *mailboxes; /* one for each record of a client */
    atomic_uint *listening; /* bti_listening; set without the lock */
    uint32_t ahead;         /* calls that were given ahead; some of them may have begun */
    int32_t ahead_priority; /* their lowest priority */
    uint32_t ahead_depth;
    uint64_t progress; /* counts calls that ended, messages, waits */
    bool nest_looks;   /* the nest looks for deadlocks at regular times */
    uint64_t serves;   /* counts how often a scheduler read the mailboxes */
    bti_client *mover;
    bti_chore *chores;
    uint32_t room_wanted; /* threads of the program that wait for room */
    uint32_t chore_count;
    uint64_t needed_bytes; /* of the store, for arguments of calls that were given */
    bti_task_record
        *crowded; /* calls that could begin, but whose arguments would take too much of the store (linked by `right`) */
    atomic_uint
        users; /* of the mapping in the program: the runtime, and each array that lies in the store; the last one unmaps it */
    pthread_mutex_t nest_lives; /* protects nothing: robust, held by the nest as long as it lives (process.h) */
    int32_t keeper_pid;         /* the nest's parent, a child of the program */
    bool identity_may_change;   /* of the program (identity.h) */
    atomic_uint program_user;   /* effective */
    uint64_t spill_device,
        spill_inode; /* of spill_file: a process that closed it may have another file by its number */
    int32_t lease_file_count;
    int32_t lease_files[BTI_MOST_LEASE_FILES]; /* open in the nest and in workers: they hold the leases */
    int32_t leases_taken; /* the last so many of these were taken by this runtime, for its first GPUs in order */
    int32_t gpu_vendor;   /* bti_vendor of the GPUs that are handed out */
    bti_queue **queue_table, *last_queue; /* queues by hash; the one that was looked up last */
    uint32_t queue_hand;                  /* the next record to look at: it is freed when nobody uses it */
    uint32_t groups_waiting;              /* groups without their resources */
    bti_supply *waiting;                  /* bundles with queues that have tasks */
    uint64_t dispatch_at_ns;              /* when the nest is to dispatch; 0: never */
    bool keeps;                           /* what comes free is kept for a call or group that has waited long */
    const bti_function_record *kept_for;  /* the function of that call; NULL: a group */
    bool prefix_output;                   /* workers' lines get a prefix (worker_pipes.h) */
    uint32_t busy_count, most_busy; /* calls that workers run and that do not wait; those of actors are not counted */
    uint32_t most_workers;          /* processes, also those of actors; idle ones are not counted */
    uint64_t fork_failing_ns;       /* since when no process can be started; 0: the last one was started */
    uint64_t fork_again_ns;         /* when to try again at the earliest */
    int32_t fork_errno;
    uint64_t gpu_bytes[BTI_MOST_GPUS];  /* of memory; 0: not known */
    char gpu_model[BTI_MOST_GPUS][64];  /* "NVIDIA H100 80GB HBM3"; "": not known */
    uint64_t gpu_linked[BTI_MOST_GPUS]; /* bit per GPU that this one has fast links to (NVLink) */
} bti_state;

#endif
