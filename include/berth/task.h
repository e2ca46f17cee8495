/* berth/task.h: functions and actors that run in processes of their own, and are handed CPUs, GPUs and other resources.
 *
 *     static bt_status add(bt_task *task) {            // runs in a worker process
 *         int64_t a, b;
 *         bt_status status = bt_arguments(task, &a, &b);
 *         return status == BT_OK ? bt_return(task, a + b) : status;
 *     }
 *     BT_REMOTE(add);                                  // its name, and what each call takes: BT_REMOTE(f, .num_gpus = 1)
 *
 *     bt_runtime_init(.num_cpus = 4, .num_gpus = 2)    // best first in main, before threads and devices
 *     bt_ref *sum = bt_remote(add, 1, 2);              // at once
 *     int64_t n;
 *     bt_get(sum, &n);                                 // waits
 *
 * Values are numbers, texts, bytes, arrays, lists of values, references and actors. A reference that is an argument stands for its value: the
 * function gets that, and is not started before. Arrays and bytes lie in memory that all processes of the runtime share and are not copied on their way.
 *
 * Ownership: references, actors and groups belong to the innermost scope (array.h), as arrays do. A task runs to its end whether or
 * not its reference is still held; its result is freed when nobody holds it.
 *
 * Errors: a reference that cannot be made (no such function, more GPUs than there are) is poisoned with the cause, which
 * bt_get returns; a task whose argument failed fails with that first cause. Never NULL.
 *
 * Threads and processes: all calls may be made from any thread of the program, and inside of tasks. A worker runs one task after the other (an actor with
 * .max_concurrency several methods at once, each in a thread of its own): what
 * one changes of the working directory, umask, signal mask and environment is put back before the next; statics, signal handlers and open
 * files stay as it leaves them. A process that a task forks ends with its worker; one that leaves for a session of its own (setsid), with
 * the runtime. A child that the program or a task forks is no part of the runtime. What a function prints is written out when its
 * call ends, before its result is there. Workers' standard error goes to the program's, standard input is empty. SIGTERM and the like end the program or a worker, never the runtime under it.
 */
#ifndef BERTH_TASK_H
#define BERTH_TASK_H

#include <limits.h>

#include <berth/array.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bt_task bt_task;
typedef struct bt_ref bt_ref;
typedef struct bt_actor bt_actor;
typedef struct bt_group bt_group;
typedef struct bt_pool bt_pool;

/* --- the runtime ---------------------------------------------------------------------------------------------------- */

#define BT_DETECT (-1)

/* A resource of your own: "license", 3. */
typedef struct bt_resource {
    const char *name;
    double amount;
} bt_resource;

/* Values of members that were not set; by the macros below. A set 0 is thereby told from one that was not set. */
#define BTI_UNSET_REAL (-1.5e-301)
#define BTI_UNSET_INT INT_MIN

/* What the runtime has; a member that is not set means the default in brackets. */
typedef struct bt_runtime_options {
    size_t size BTI_INITIALLY(sizeof(bt_runtime_options));
    bool zeros_set BTI_INITIALLY(true);            /* by bt_runtime_init: a member that is 0 was set to 0 */
    double num_cpus BTI_INITIALLY(BTI_UNSET_REAL); /* [those of cgroup and affinity] */
    int num_gpus BTI_INITIALLY(0);                 /* [0; those of the machine are ignored]; BT_DETECT counts them */
    bt_resource resources[8] BTI_INITIALLY({});    /* custom ones, by name */
    uint64_t store_bytes BTI_INITIALLY(0);         /* memory of results and arguments [30 % of what the machine or the
                                                       cgroup has]; less where addresses are few (RLIMIT_AS) */
    const char *spill_folder BTI_INITIALLY(NULL);  /* where values go that do not fit, in a file without a name
                                                       [$TMPDIR, else /tmp] */
    uint64_t spill_bytes BTI_INITIALLY(0);         /* at most so many there [half of what is free on that disk] */
    const char *engine BTI_INITIALLY(NULL);        /* [the flag task_engine, else "local"] */
    double gpu_wait_seconds BTI_INITIALLY(0); /* how long to wait for GPUs that other programs hold [0: not at all];
                                                       below 0: without limit */
    int max_retries BTI_INITIALLY(0);         /* [0] of calls of functions that do not set .max_retries; -1: without
                                                 limit. Ray's default is 3: for functions that may run twice */
    bool prefix_output BTI_INITIALLY(false); /* [false; the flag prefix_output] each line that workers write begins with
                                                the function and the process: "(square pid=1234) " */
    int max_processes BTI_INITIALLY(0); /* calls that run at once, whatever they take [64, or 4 for each CPU]; calls
                                                      that wait inside and actors are not counted */
    double gpu_memory BTI_INITIALLY(0); /* bytes of each GPU [as the driver tells]; for GPUs that are only counted */
    const char *accelerator BTI_INITIALLY(NULL); /* the type of all GPUs, "NVIDIA H100" [as the driver tells] */
} bt_runtime_options;

/* Starts it: `bt_runtime_init(.num_cpus = 10, .num_gpus = 2)`. Workers start with the first tasks. While the process has one
 * thread and has used no device, workers are forked from it, as it is then: that takes about a millisecond. Else the program is started again for
 * them: its constructors run once more there, its main does not, and that takes some milliseconds (docs/decisions/0016); FAILED_PRECONDITION where it
 * cannot be (setuid programs, berth linked statically). Once until bt_runtime_shutdown (ALREADY_EXISTS).
 *
 * GPUs that the machine has are taken as leases (docs/leases.md), so that no two programs hand out the same: the first that are free of those
 * that CUDA_VISIBLE_DEVICES shows. A lease that the program has already, from `berth run` or bt_lease_take, is used first. The leases last until the
 * last process of the runtime has ended. With BT_DETECT all that are shown are taken. Counting them takes a child process as long as NVML needs
 * to start. Simulated GPUs, and numbers beyond those of the machine, are only counted. RESOURCE_EXHAUSTED, or DEADLINE_EXCEEDED after
 * .gpu_wait_seconds: other programs hold them; the message names their processes. */
BT_API BT_MUST_USE bt_status bt_runtime_start(const bt_runtime_options *options);
#ifdef __cplusplus
#define BTI_RUNTIME_UNSET
#else
#define BTI_RUNTIME_UNSET .size = sizeof(bt_runtime_options), .zeros_set = true, .num_cpus = BTI_UNSET_REAL,
#endif
#define bt_runtime_init(...)                  \
    BTI_AT_MUST(bt_runtime_start(BTI_ADDRESS( \
        bt_runtime_options, BTI_OVERRIDING(BTI_LITERAL(bt_runtime_options){BTI_RUNTIME_UNSET __VA_ARGS__}))))

/* Ends all workers and actors, waits for their processes, frees the store. References that are still held are poisoned. OK when
 * none runs. A program that just exits, or dies by any signal, leaves nothing behind either. */
BT_API BT_MUST_USE bt_status bt_runtime_shutdown(void);
#define bt_runtime_shutdown(...) BTI_AT_MUST(bt_runtime_shutdown(__VA_ARGS__))

/* What there is and what is free of "CPU", "GPU" or a custom resource; NaN when unknown. */
BT_API double bt_resource_total(const char *name);
BT_API double bt_resource_free(const char *name);

/* --- declaring functions ---------------------------------------------------------------------------------------------- */

typedef bt_status bt_remote_function(bt_task *task);

/* How bundles of a group lie on GPUs. A place is a set of GPUs with fast links to each other (NVLink); where the driver tells of none, all GPUs are
 * one place to pack into, and each is one to spread over. */
typedef enum bt_group_strategy {
    BT_GROUP_PACK,         /* near each other, if that is possible */
    BT_GROUP_SPREAD,       /* each bundle in another place, if that is possible */
    BT_GROUP_STRICT_PACK,  /* all in one place */
    BT_GROUP_STRICT_SPREAD /* each in another place */
} bt_group_strategy;

/* What a task or an actor takes and how it is treated. BT_REMOTE declares a function's; a call's own options come before them: a member
 * that the call does not set is as declared, and where neither sets it, the default in brackets holds. The macros tell a set 0 from a
 * member that is not set: `.num_gpus = 0` hides all GPUs, nothing leaves CUDA_VISIBLE_DEVICES alone. In a structure that is filled
 * without them (its size must be set) a 0 is not set. OMP_NUM_THREADS is the number of CPUs in a worker, rounded down and at least 1,
 * unless the program was started with that variable. */
typedef struct bt_task_options {
    size_t size BTI_INITIALLY(sizeof(bt_task_options));
    bool zeros_set BTI_INITIALLY(true);            /* by the macros: a member that is 0 was set to 0 */
    double num_cpus BTI_INITIALLY(BTI_UNSET_REAL); /* [1; an actor: 1 to be started, 0 while it lives; a bundle: 0, and
                                                      so what runs on a bundle without CPUs] */
    double num_gpus BTI_INITIALLY(BTI_UNSET_REAL); /* [none]; whole numbers, or a fraction below 1: a share of one GPU
                                                      and of its memory */
    bt_resource resources[8] BTI_INITIALLY({});    /* set when the first has a name */
    int priority BTI_INITIALLY(BTI_UNSET_INT);     /* [that of the task that calls; 0 in the program] higher first, then
                                                      calls of tasks before those of the program, then in order */
    int max_retries BTI_INITIALLY(BTI_UNSET_INT); /* [the runtime's, else 0; a method: 0] times a call is run again when
                                                      its process dies, and after failures of .retry_failures;
                                                      -1: without limit */
    int max_restarts BTI_INITIALLY(BTI_UNSET_INT); /* [0] times an actor is started again when its process dies; -1:
                                                      without limit */
    double deadline_seconds BTI_INITIALLY(BTI_UNSET_REAL); /* [none; so does 0] from submission; past it the task is
                                                              cancelled, running or not: DEADLINE_EXCEEDED */
    const char *name BTI_INITIALLY(NULL);                  /* an actor's, for bt_actor_find; "": none */
    bt_group *group BTI_INITIALLY(NULL);                   /* runs on what this group holds */
    int bundle BTI_INITIALLY(BTI_UNSET_INT);               /* [0] which of the group's bundles */
    uint32_t retry_failures BTI_INITIALLY(0); /* [none] failures that the function returns and after which the call is
                                                 run again, as often as .max_retries says: BT_FAILURES(BT_UNAVAILABLE),
                                                 BT_ANY_FAILURE. A method then comes after those that its actor has
                                                 been given already */
    bool
        get_if_exists BTI_INITIALLY(false); /* [false] the actor of this .name, if there is one, instead of a new one */
    bool detached BTI_INITIALLY(false);     /* [false] an actor that outlives the program: UNIMPLEMENTED by the engine
                                                 "local", whose processes all end with the program */
    double gpu_memory BTI_INITIALLY(BTI_UNSET_REAL); /* [none] bytes: the share of one GPU that has so much memory;
                                                        num_gpus is not set then, or 1 */
    const char *accelerator BTI_INITIALLY(NULL); /* [any; so is ""] GPUs of that type: words of their name, "H100" */
    int strategy BTI_INITIALLY(BTI_UNSET_INT);   /* [BT_GROUP_PACK] a group's, in its first bundle: bt_group_strategy */
    int max_calls BTI_INITIALLY(BTI_UNSET_INT);  /* [1 with GPUs, else 0: without limit] calls of this function that a
                                                    worker process runs before it ends, on the same GPUs; not an
                                                    actor's */
    int num_returns BTI_INITIALLY(BTI_UNSET_INT);     /* [1] results of the call, at most 100: bt_result */
    int max_concurrency BTI_INITIALLY(BTI_UNSET_INT); /* [1] methods that an actor runs at once, in threads of its
                                                         process; 1 to 64. They begin in order, as threads are free */
} bt_task_options;
/* A set of failures: `BT_FAILURES(BT_UNAVAILABLE, BT_ABORTED)`. */
#define BT_ANY_FAILURE 0x1fffeu
#ifdef __cplusplus
#define BTI_TASK_UNSET
#else
#define BTI_TASK_UNSET                                                                                          \
    .size = sizeof(bt_task_options), .zeros_set = true, .num_cpus = BTI_UNSET_REAL, .num_gpus = BTI_UNSET_REAL, \
    .priority = BTI_UNSET_INT, .max_retries = BTI_UNSET_INT, .max_restarts = BTI_UNSET_INT,                     \
    .deadline_seconds = BTI_UNSET_REAL, .bundle = BTI_UNSET_INT, .gpu_memory = BTI_UNSET_REAL,                  \
    .strategy = BTI_UNSET_INT, .max_calls = BTI_UNSET_INT, .num_returns = BTI_UNSET_INT,                        \
    .max_concurrency = BTI_UNSET_INT,
#endif
/* A call's options, `bt_remote_with(BT_OPTIONS(.num_gpus = 2), f)`, and a group's bundle. */
#define BT_BUNDLE(...) BTI_OVERRIDING(BTI_LITERAL(bt_task_options){BTI_TASK_UNSET __VA_ARGS__})
#define BT_OPTIONS(...) BTI_ADDRESS(bt_task_options, BT_BUNDLE(__VA_ARGS__))

/* A function by its name in a module: the program itself, or a shared object that workers open. BT_REMOTE registers it when the module is
 * loaded. Names are unique in a module. */
typedef struct bt_remote_entry {
    bt_remote_function *function;
    const char *name;
    const bt_task_options *options;
    struct bt_remote_entry *next; /* the library's */
    const char *module;           /* the library's */
} bt_remote_entry;
BT_API void bti_register(bt_remote_entry *entry);
/* After the function, or after its declaration: `static bt_status fib(bt_task *task); BT_REMOTE(fib);` stands before the body of a function
 * that calls itself remotely. */
#define BT_REMOTE(...) BTI_REMOTE(__VA_ARGS__, )
#define BTI_REMOTE(function, ...)                                                                                    \
    BTI_QUIET static const bt_task_options bti_options_##function =                                                  \
        BTI_DECLARED(bt_task_options){BTI_TASK_UNSET __VA_ARGS__};                                                   \
    BTI_LOUD static bt_remote_entry bti_remote_##function = {function, #function, &bti_options_##function, NULL,     \
                                                             NULL};                                                  \
    __attribute__((constructor)) static void bti_register_##function(void) { bti_register(&bti_remote_##function); } \
    typedef int bti_remote_end_##function /* takes the semicolon */

/* Loads a shared object here and, when they first need it, in workers; its functions can be called by name from then on. The path, or a name that
 * the loader searches, is resolved now: from then on it stands for the file that was opened, whatever the working directory is. A worker opens the
 * same file; when that was replaced or overwritten by other bytes since, calls (and
 * loading it again under this name) fail with FAILED_PRECONDITION and say so. Whole paths of modules
 * have at most 478 bytes. NOT_FOUND: there is no such file; INVALID_ARGUMENT: it declares no function. */
BT_API BT_MUST_USE bt_status bt_module_load(const char *path);
#define bt_module_load(...) BTI_AT_MUST(bt_module_load(__VA_ARGS__))

/* --- values ----------------------------------------------------------------------------------------------------------- */

typedef enum bt_value_type {
    BT_NOTHING,
    BT_INTEGER,
    BT_REAL,
    BT_TEXT_VALUE,
    BT_BYTES,
    BT_ARRAY_VALUE,
    BT_REFERENCE,
    BT_ACTOR_VALUE,
    BT_UNSIGNED, /* of variables alone: an integer without sign */
    BT_LIST_VALUE,
    BT_STREAM_VALUE /* what stands for a call that yields */
} bt_value_type;

typedef struct bt_bytes {
    const void *data;
    size_t size;
} bt_bytes;

/* Values in a row, which are a value: `BT_LIST(1, "two", 3.0, ref, actor, array, BT_LIST(4, 5))` makes one where a value is expected, of values as calls
 * take them; `bt_list_of(refs, n)` of an array of references, actors or bt_item_value. Empty ones are lists too; lists may stand in lists, up
 * to 32 deep. One that is made borrows what it is made of: in C as long as the block lasts, in C++ for the call.
 *
 * A reference that is an argument itself stands for its value. A reference in a list is passed as it is: nobody waits for it, and the function gets a
 * reference of its own, which it may get, pass on, return and put. What a value refers to lives at least as long as the value.
 *
 * `bt_list list; bt_argument(task, 0, &list)` and `bt_get(ref, &list)` read one, without copying it: it belongs to the task, or to the
 * reference, as texts do. It can be a value of other calls. */
typedef struct bt_list {
    const void *items; /* these are the library's */
    const void *owner;
    int count, kind;
} bt_list;

/* An argument or a result on its way; made by the macros from a C value. Borrows what it points to, for the call. */
typedef struct bt_item_value {
    bt_value_type type;
    union {
        int64_t integer;
        double real;
        const char *text;
        bt_bytes bytes;
        bt_array *array;
        bt_ref *ref;
        bt_actor *actor;
        bt_list list;
    } as;
} bt_item_value;

BT_API int bt_list_count(bt_list list);
/* Of a value of it; BT_NOTHING where there is none. */
BT_API bt_value_type bt_list_type(bt_list list, int index);
/* `bt_list_get(list, i, &x)`: a value of a list that was read, into a variable as of bt_get; i from 0, OUT_OF_RANGE past its end. Texts, bytes and lists
 * belong to what the list belongs to: a reference that is held, and the runtime, or the task; they are not read after its end; references, actors and arrays to the scope. */
BT_API BT_MUST_USE bt_status bti_list_get(bt_list list, int index, bt_value_type type, size_t bytes, void *out);

/* --- calls ------------------------------------------------------------------------------------------------------------ */

/* Submits a call; returns at once. `bt_remote(add, 1, 2.5, "text", array, ref)`: up to 64 arguments in C, any number in C++; at most
 * 100,000 references and actors among them, those in lists counted. With options of its own beside the declared ones: `bt_remote_with(BT_OPTIONS(.num_gpus = 2), add, 1)`.
 * By name, in a module (NULL: the program), with a list of any length: `bt_remote_named("./lib.so", "add", NULL, values, count)`. Arguments are in the store when it returns; poisoned with RESOURCE_EXHAUSTED when they do not fit
 * and nothing that is there can be spilled. */
BT_API bt_ref *bt_remote_named(const char *module, const char *name, const bt_task_options *options,
                               const bt_item_value *arguments, int count);

/* The reference of the result with that number, from 0, of the call that gave `ref`: of `bt_remote_with(BT_OPTIONS(.num_returns = 3), f)`, whose own is that of
 * result 0. Each result is a value of its own: it is waited for, passed on and freed alone. The first reference keeps the others until this function has
 * given them. At most 262,144 calls with several results are alive at once. A failure is that of all; bt_cancel of one is of the call. Poisoned: OUT_OF_RANGE past the last one, NOT_FOUND when it was given before and
 * nobody has it any more. */
BT_API bt_ref *bt_result(bt_ref *ref, int index);
#define bt_result(...) BTI_AT(bt_ref *, bt_result(__VA_ARGS__))

/* The next item of a call that yields, as soon as it is there:
 *
 *     bt_ref *stream = bt_remote(count_up, 5);
 *     for (bt_ref *item; (item = bt_stream_next(&stream, -1)) != NULL;) status = bt_get(item, &x);
 *
 * The item belongs to the innermost scope; `*stream` moves on to what follows it, and is no reference to what came before any more. NULL at the
 * end, and again after it. A failure of the call is a last item, that fails with its cause. Poisoned with DEADLINE_EXCEEDED when nothing
 * comes within so many seconds (negative: no limit); the stream stays where it is. Items that nobody has are freed with the references to
 * what came before them. One thread at a time reads a stream, and each
 * item is given once: bt_ref_retain gives the same reference, which moves on too. In a list a stream can be passed to other calls, which read it on their
 * own, from where it stands. */
BT_API bt_ref *bt_stream_next(bt_ref **stream, double seconds);
#define bt_stream_next(...) BTI_AT(bt_ref *, bt_stream_next(__VA_ARGS__))

/* A value in the store: copied once, passed by reference from then on. `bt_put(ref)` is a reference to a reference: an argument that is one stands for
 * the inner one, `bt_ref *inner; bt_argument(task, 0, &inner)`. */
BT_API bt_ref *bti_put(const bt_item_value *value);

/* Waits for a result: `bt_get(ref, &x)`, x an integer, double, const char *, bt_bytes, bt_array *, bt_list, bt_ref * or bt_actor *, or NULL to
 * wait alone. Another type than the result has: INVALID_ARGUMENT naming both; integers widen to double. Texts, bytes and lists are the
 * reference's; arrays, references and actors the scope's; none is copied. Errors are those of the task: the status it returned and its text; ABORTED with signal or exit code and the end of its standard
 * error when its process died; CANCELLED; DEADLINE_EXCEEDED; FAILED_PRECONDITION for a deadlock. bt_get_within: at most so many seconds
 * (DEADLINE_EXCEEDED, the task goes on). */
BT_API BT_MUST_USE bt_status bti_get(bt_ref *ref, bt_value_type type, size_t bytes, void *out, double seconds);

/* What kind of failure a reference that is done has, beside its status and text. */
typedef enum bt_failure {
    BT_FAILURE_NONE,      /* it has a value, or is not done */
    BT_FAILURE_RETURNED,  /* its function returned the failure, or that which made its actor */
    BT_FAILURE_REFUSED,   /* it cannot be run: such an option, such an argument, more than there is */
    BT_FAILURE_CANCELLED, /* bt_cancel, bt_actor_kill, or an actor that nobody holds */
    BT_FAILURE_DEADLINE,
    BT_FAILURE_PROCESS_DIED, /* the process that ran it, or its actor */
    BT_FAILURE_OUT_OF_MEMORY, /* that process was ended by the system for want of memory. Where the store has no room, bt_put is
                                 REFUSED and a function that returns that failure has RETURNED it */
    BT_FAILURE_OWNER_DIED,  /* the process that made the reference, which alone knew of the value; past one machine */
    BT_FAILURE_OBJECT_LOST, /* the value is gone with the node that had it; past one machine */
    BT_FAILURE_NODE_DIED    /* the node that ran it; past one machine */
} bt_failure;
/* Of a call whose argument has failed that argument's kind. Never blocks. Poisoned references: REFUSED. Any thread. */
BT_API bt_failure bt_ref_failure(bt_ref *ref);
/* The same call may succeed when it is made again: PROCESS_DIED to NODE_DIED. `.max_retries` counts these. */
BT_API bool bt_failure_is_retryable(bt_failure failure);

/* Waits until `wanted` of the references are done (failed ones count) or `seconds` are over (negative: no limit); ready[i] tells of each, may
 * be NULL. Returns how many are, -1 with the cause in the error record. */
BT_API int bt_wait_refs(bt_ref *const *refs, int count, int wanted, bool *ready, double seconds);

/* Takes a call back. One that has not begun never does, and its reference fails with CANCELLED. One that runs is stopped if `force` (its process is
 * ended; INVALID_ARGUMENT for an actor's method: bt_actor_kill); else it may ask bt_task_cancelled, and what it fails with becomes CANCELLED, what it returns
 * stays. OK when it was done already. */
BT_API BT_MUST_USE bt_status bt_cancel(bt_ref *ref, bool force);
/* The same of the call, of the calls that it has made, and of those that these have made, as long as the calls between have not ended. Methods
 * among them that run are asked, also with `force`; actors live on. */
BT_API BT_MUST_USE bt_status bt_cancel_all(bt_ref *ref, bool force);

BT_API bt_ref *bt_ref_retain(bt_ref *ref);
#define bt_ref_retain(...) BTI_AT(bt_ref *, bt_ref_retain(__VA_ARGS__))
BT_API void bt_ref_release(bt_ref *ref); /* NULL is fine */
#define bt_ref_release(...) BTI_AT_VOID(bt_ref_release(__VA_ARGS__))

/* --- inside of a task --------------------------------------------------------------------------------------------------- */

BT_API int bt_argument_count(const bt_task *task);
BT_API bt_value_type bt_argument_type(const bt_task *task, int index);
BT_API BT_MUST_USE bt_status bti_argument(bt_task *task, int index, bt_value_type type, size_t bytes, void *out);
/* `bt_arguments(task, &a, &b)`: the first of them, into variables; OUT_OF_RANGE when the call has fewer, INVALID_ARGUMENT naming both types. Texts,
 * bytes and lists live as long as the task; arrays, references and actors belong to its scope. `bt_argument(task, index, &a)`: one of them. */
typedef struct bti_variable {
    bt_value_type type;
    size_t bytes;
    void *out;
} bti_variable;
BT_API BT_MUST_USE bt_status bti_arguments(bt_task *task, const bti_variable *variables, int count);
/* What the call gives: once is enough, the last one counts; a call that has not returned anything gives `nothing` (bt_get with NULL). An actor or a reference that is returned lives
 * on with who has the result. `bt_return(task, a, b, c)` gives all results of a call with .num_returns = 3 at once; a function that gives none
 * fails then. */
BT_API BT_MUST_USE bt_status bti_return(bt_task *task, const bt_item_value *values, int count);
/* Gives the next item of a stream at once, `bt_yield(task, x)`, as often as the function likes; it returns nothing then. What it refers to lives on with
 * the item. CANCELLED once the call was cancelled; RESOURCE_EXHAUSTED when more than about 1.5 million items wait for a reader in the whole runtime: the stream
 * has failed then. A call that is run again (.max_retries) gives no item twice: as many as were given are
 * skipped. */
BT_API BT_MUST_USE bt_status bti_yield(bt_task *task, const bt_item_value *value);
/* Fails the task with a text of your own. */
BT_API bt_status bt_task_fail(bt_task *task, bt_status status, const char *format, ...) BT_PRINTF(3, 4);
BT_API bool bt_task_cancelled(const bt_task *task);

/* The GPUs of the task or actor that calls, as numbers of the machine (of the program's own mask, if it has one; of UUIDs in it, their
 * places): up to `capacity` into `ids`; returns how many: num_gpus, 1 for a fraction, 0 without, and 0 in the program itself. What
 * CUDA_VISIBLE_DEVICES is there: docs/tasks-gpus.md. */
BT_API int bt_get_gpu_ids(int *ids, int capacity);

/* --- actors ------------------------------------------------------------------------------------------------------------- */

/* Starts a process that keeps its state and its resources: `bt_actor_new(counter_new, 5)`; the function makes the state
 * (bt_set_state). Methods run in order, one at a time, or with .max_concurrency several at once in threads of the process, which share
 * the state: it needs a lock of yours then. Lives until it is released by all who hold it, bt_actor_kill, or the end of the runtime.
 * More than the runtime was given: poisoned at once, naming both numbers (bt_actor_status). */
BT_API bt_actor *bt_actor_named(const char *module, const char *name, const bt_task_options *options,
                                const bt_item_value *arguments, int count);
BT_API bt_ref *bt_method_named(bt_actor *actor, const char *module, const char *name, const bt_task_options *options,
                               const bt_item_value *arguments, int count);
BT_API bt_status
bt_actor_status(bt_actor *actor);                 /* OK while it starts, lives or waits for resources; else the cause */
BT_API bt_actor *bt_actor_find(const char *name); /* NULL, NOT_FOUND in the error record */
BT_API BT_MUST_USE bt_status bt_actor_kill(bt_actor *actor);
BT_API bt_actor *bt_actor_retain(bt_actor *actor);
#define bt_actor_retain(...) BTI_AT(bt_actor *, bt_actor_retain(__VA_ARGS__))
BT_API void bt_actor_release(bt_actor *actor);
#define bt_actor_release(...) BTI_AT_VOID(bt_actor_release(__VA_ARGS__))
BT_API void bt_set_state(bt_task *task, void *state, void (*release)(void *state));
BT_API void *bt_state(bt_task *task);

/* --- pools of actors ------------------------------------------------------------------------------------------------------ */

/* Calls that any of several like actors can run, one at a time on each: `bt_pool_new(actors, 3)`, then `bt_pool_submit(pool, square, 5)`
 * for each value and `bt_pool_next(pool, BT_IN_ORDER, -1)` for each result. The pool keeps its actors. It may be used from any thread of
 * the process that made it. */
BT_API bt_pool *bt_pool_new(bt_actor *const *actors, int count);
#define bt_pool_new(...) BTI_AT(bt_pool *, bt_pool_new(__VA_ARGS__))
BT_API bt_pool *bt_pool_retain(bt_pool *pool);
#define bt_pool_retain(...) BTI_AT(bt_pool *, bt_pool_retain(__VA_ARGS__))
BT_API void bt_pool_release(bt_pool *pool); /* NULL is fine; calls that run go on, those that wait are dropped */
#define bt_pool_release(...) BTI_AT_VOID(bt_pool_release(__VA_ARGS__))

/* Begins a method on an idle actor; when all are busy it waits in the pool, its arguments in the store, and begins in a later call of one
 * of these functions, as soon as an actor is free. A call whose actor dies fails; the actor leaves the pool, unless it is the last one. */
BT_API BT_MUST_USE bt_status bti_pool_submit(bt_pool *pool, const bt_remote_entry *entry,
                                             const bt_item_value *arguments, int count);

typedef enum bt_pool_order {
    BT_IN_ORDER,    /* the call that was submitted first */
    BT_AS_COMPLETED /* of those that are done, the one that was submitted first */
} bt_pool_order;

/* Waits for a result, for at most so many seconds (negative: no limit), and gives its reference, which is done, to the innermost scope. Each
 * result is given once. Poisoned: DEADLINE_EXCEEDED when the time is over (the result comes with a later call), OUT_OF_RANGE when none is
 * left, FAILED_PRECONDITION when calls wait and the pool has no actor. */
BT_API bt_ref *bt_pool_next(bt_pool *pool, bt_pool_order order, double seconds);
#define bt_pool_next(...) BTI_AT(bt_ref *, bt_pool_next(__VA_ARGS__))
BT_API bool bt_pool_has_next(bt_pool *pool); /* results that bt_pool_next has not given yet, done or not */
BT_API int bt_pool_idle(bt_pool *pool);      /* how many of its actors are idle */

/* One actor more, idle; ALREADY_EXISTS when the pool has it. */
BT_API BT_MUST_USE bt_status bt_pool_push(bt_pool *pool, bt_actor *actor);
#define bt_pool_push(...) BTI_AT_MUST(bt_pool_push(__VA_ARGS__))
/* An idle actor leaves the pool; yours: bt_actor_release. NULL when none is idle. */
BT_API bt_actor *bt_pool_pop_idle(bt_pool *pool);
#define bt_pool_pop_idle(...) BTI_AT(bt_actor *, bt_pool_pop_idle(__VA_ARGS__))

/* --- groups (gangs) ------------------------------------------------------------------------------------------------------- */

/* Reserves bundles of resources, all or none (Ray's placement groups): `bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 2),
 * BT_BUNDLE(.num_gpus = 1)}, 2)`. Tasks and actors then run on them (`.group`, `.bundle`). What can never be is poisoned at once. bt_group_wait: until it has them. */
BT_API bt_group *bt_group_new(const bt_task_options *bundles, int count);
BT_API BT_MUST_USE bt_status bt_group_wait(bt_group *group, double seconds);
BT_API bt_group *bt_group_retain(bt_group *group);
#define bt_group_retain(...) BTI_AT(bt_group *, bt_group_retain(__VA_ARGS__))
BT_API void bt_group_release(bt_group *group); /* gives them back; tasks that run on it end first */
#define bt_group_release(...) BTI_AT_VOID(bt_group_release(__VA_ARGS__))

/* --- views -------------------------------------------------------------------------------------------------------------- */

/* Tasks, actors, workers, resources asked and used, memory, and why who waits, as JSON (`berth ps --json`). Yours: bt_free. */
BT_API char *bt_runtime_text(bool json);
/* What ran where so far as a Chrome trace, a lane a worker: the last 32,767 tasks that ended, and those that run. */
BT_API BT_MUST_USE bt_status bt_runtime_timeline(const char *path);
/* The same of other programs of this user (`berth ps`): of the one with this process number (NULL, NOT_FOUND in the error record, without
 * one), or of all that have a runtime (0). As JSON: a list. One that does not answer within 5 seconds is told of. The timeline is of one: with
 * 0, of the only one. Yours: bt_free. */
BT_API char *bt_runtimes_text(int64_t pid, bool json);
BT_API BT_MUST_USE bt_status bt_runtimes_timeline(int64_t pid, const char *path);

/* --- leases ------------------------------------------------------------------------------------------------------------- */

/* GPUs taken among programs of one machine that know nothing of each other, as `berth run` takes them (docs/leases.md). Each GPU has a lock file;
 * what a lease holds are locks of the kernel on it, which go when the last process that has them open is gone, by whatever
 * signal. So there is no daemon, nothing to clean up, and nothing that a file says is believed. Only who asks for leases is bound by
 * them.
 *
 * Waiters go in order of arrival: who came later takes none of the GPUs that one before him could take, free or not, so that who wants many is
 * served too. All GPUs of a lease are taken at once or none, so nobody holds some while he waits for others. */
typedef struct bt_lease bt_lease;

typedef struct bt_lease_options {
    size_t size BTI_INITIALLY(sizeof(bt_lease_options));
    int num_gpus BTI_INITIALLY(0);           /* [1] of those that CUDA_VISIBLE_DEVICES shows, OpenCL's aside */
    uint64_t memory_bytes BTI_INITIALLY(0);  /* [whole GPUs] a share of so many bytes on each; leases share a GPU while
                                               their shares fit into its memory */
    bool wait BTI_INITIALLY(false);          /* [false] until they are free; after a second a line of the log tells who
                                                holds them */
    double timeout_seconds BTI_INITIALLY(0); /* [no limit] of waiting */
    const char *command BTI_INITIALLY(NULL); /* [the program's command line] what others are told of the holder */
    bool inherit BTI_INITIALLY(false);       /* [false] programs that this process becomes or starts (exec) keep the
                                                lease too */
} bt_lease_options;
#define BT_LEASE(...)             \
    BTI_ADDRESS(bt_lease_options, \
                BTI_OVERRIDING(BTI_LITERAL(bt_lease_options){BTI_SIZE_OF(bt_lease_options) __VA_ARGS__}))

/* Takes a lease: `bt_lease_take(BT_LEASE(.num_gpus = 2, .wait = true))`. The GPUs are counted in a child, so no library of devices is open
 * after it; it may come before bt_runtime_init. Yours: bt_lease_release. NULL, with the cause in the error record: RESOURCE_EXHAUSTED: not free,
 * naming who holds what; DEADLINE_EXCEEDED: nor when the time was over; NOT_FOUND: never, as there are not so many, or not so large;
 * UNAVAILABLE: the lock files cannot be used. Any thread; blocks with `wait`, else for the time it takes to look. */
BT_API bt_lease *bt_lease_take(const bt_lease_options *options);
#define bt_lease_take(...) BTI_AT(bt_lease *, bt_lease_take(__VA_ARGS__))

/* Its GPUs as bt_get_gpu_ids numbers them: up to `capacity` into `ids`; returns how many there are. */
BT_API int bt_lease_gpus(const bt_lease *lease, int *ids, int capacity);
/* The mask for a program that is to see these alone: "0,2", or those entries of the mask that this program was started with. It is the value of
 * the variable that bt_lease_variable names. Numbers in CUDA_VISIBLE_DEVICES count in the order of the PCI bus
 * (CUDA_DEVICE_ORDER=PCI_BUS_ID). Owned by the lease. */
BT_API const char *bt_lease_mask(const bt_lease *lease);
/* "CUDA_VISIBLE_DEVICES", or with AMD's GPUs "ROCR_VISIBLE_DEVICES" (docs/visibility.md). Of the library; "" for NULL. */
BT_API const char *bt_lease_variable(const bt_lease *lease);

/* Gives it back, also when children that were forked since have it open. In such a child it only closes what the child has. NULL is fine. */
BT_API void bt_lease_release(bt_lease *lease);
#define bt_lease_release(...) BTI_AT_VOID(bt_lease_release(__VA_ARGS__))

/* Who holds and who waits for each GPU that CUDA_VISIBLE_DEVICES shows, as lines or as JSON. What it tells of a process is what that process wrote.
 * Yours: bt_free; NULL, with the cause in the error record: as bt_lease_take. */
BT_API char *bt_leases_text(bool json);
#define bt_leases_text(...) BTI_AT(char *, bt_leases_text(__VA_ARGS__))

/* What the call macros call (call.h). */
BT_API bt_ref *bti_remote(const bt_remote_entry *entry, const bt_task_options *options, const bt_item_value *arguments,
                          int count);
BT_API bt_actor *bti_actor(const bt_remote_entry *entry, const bt_task_options *options, const bt_item_value *arguments,
                           int count);
BT_API bt_ref *bti_method(bt_actor *actor, const bt_remote_entry *entry, const bt_task_options *options,
                          const bt_item_value *arguments, int count);

#ifdef __cplusplus
}
#endif

#include <berth/call.h>

#endif
