/* berth/task.h: functions and actors that run in worker processes, which are given CPUs, GPUs and other resources.
 *
 *     static bt_status add(bt_task *task) {            // runs in a worker process
 *         int64_t a, b;
 *         bt_status status = bt_arguments(task, &a, &b);
 *         return status == BT_OK ? bt_return(task, a + b) : status;
 *     }
 *     BT_REMOTE(add);                                  // registers its name, and what each call needs: BT_REMOTE(f, .num_gpus = 1)
 *
 *     bt_runtime_init(.num_cpus = 4, .num_gpus = 2)    // best at the start of main, before threads and devices
 *     bt_ref *sum = bt_remote(add, 1, 2);              // returns at once
 *     int64_t n;
 *     bt_get(sum, &n);                                 // waits
 *
 * Values are numbers, texts, bytes, arrays, lists of values, references and actors. A reference that is passed as an
 * argument stands for its value: the call begins when the value is there, and the function gets the value. Arrays and
 * bytes are in memory that all processes of the runtime share; passing them does not copy them.
 *
 * Ownership: references, actors and groups belong to the innermost scope (array.h), like arrays. A task runs to its end
 * whether or not its reference is still held; its result is freed when nobody holds it.
 *
 * Errors: a reference that cannot be made (no such function, more GPUs than there are) is poisoned; it is never NULL.
 * bt_get returns the cause. A task whose argument failed fails with the cause of that argument.
 *
 * Threads and processes: all calls may be made from any thread of the program, and inside tasks. A worker runs one task
 * after the other (an actor with .max_concurrency runs several methods at once, each in its own thread). After each
 * task the worker restores the working directory, umask, signal mask and environment; static variables, signal handlers
 * and open files stay as the task left them. A process that a task forks ends with its worker, or, if it has its own
 * session (setsid), with the runtime. A child that the program or a task forks is not part of the runtime. What a function
 * prints is written out before its result is available. The standard error of workers is that of the program, their
 * standard input is empty. SIGTERM and other signals end the program or a worker, never the runtime of a program that
 * lives.
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

/* A custom resource: "license", 3. */
typedef struct bt_resource {
    const char *name;
    double amount;
} bt_resource;

/* Marks members that were not set, as BTI_UNSET_REAL does (status.h). */
#define BTI_UNSET_INT INT_MIN

/* Options of the runtime; a member that is not set has the default in brackets. */
typedef struct bt_runtime_options {
    size_t size BTI_INITIALLY(sizeof(bt_runtime_options));
    bool zeros_set BTI_INITIALLY(true);            /* by bt_runtime_init: a member that is 0 was set to 0 */
    double num_cpus BTI_INITIALLY(BTI_UNSET_REAL); /* [what cgroup and affinity allow] */
    int num_gpus BTI_INITIALLY(0);                 /* [0; the GPUs of the machine are not used]; BT_DETECT: all */
    bt_resource resources[8] BTI_INITIALLY({});    /* custom ones, by name */
    uint64_t store_bytes BTI_INITIALLY(0);         /* memory of results and arguments [30 % of that of the machine or
                                                       the cgroup]; less if RLIMIT_AS is small */
    const char *spill_folder BTI_INITIALLY(NULL);  /* folder of the file, without a name, for values that do not fit
                                                       into the store [$TMPDIR, else /tmp] */
    uint64_t spill_bytes BTI_INITIALLY(0);         /* the most to write there [half of what is free on that disk] */
    const char *engine BTI_INITIALLY(NULL);        /* [the flag task_engine, else "local"] "local": processes of this
                                                       machine; "ray": the machines of a Ray cluster (docs/cluster.md) */
    double gpu_wait_seconds BTI_INITIALLY(0); /* how long to wait for GPUs that other programs hold [0: do not wait];
                                                       negative: no limit */
    int max_retries BTI_INITIALLY(0);         /* [0] for functions that do not set .max_retries; -1: no limit. Ray's
                                                 default is 3, for functions that may run twice */
    bool prefix_output BTI_INITIALLY(false);  /* [the flag prefix_output] each line that workers write begins with the
                                                function and the process: "(square pid=1234) " */
    int max_processes BTI_INITIALLY(0); /* calls that run at once, whatever resources they need [64, or 4 per CPU];
                                                      without calls that wait for others, and without actors */
    double gpu_memory BTI_INITIALLY(0); /* bytes of each GPU [as the driver reports]; for GPUs that are only counted */
    const char *accelerator BTI_INITIALLY(NULL); /* the type of all GPUs, "NVIDIA H100" [as the driver reports] */
    const char *address BTI_INITIALLY(NULL); /* [the flag task_address, else "auto"] of the engine "ray": "auto" (the
                                                    cluster of RAY_ADDRESS, or of this machine), "host:port", or "local":
                                                    a Ray of its own that ends with the program */
} bt_runtime_options;

/* Starts the runtime: `bt_runtime_init(.num_cpus = 10, .num_gpus = 2)`. Workers are started with the first tasks. If
 * the process has one thread and has used no device, workers are forked from it in its present state, which takes about
 * a millisecond. Otherwise the program is started a second time to make the parent of the workers: its constructors run
 * there, its main does not; that takes some milliseconds (docs/decisions/0016). FAILED_PRECONDITION where that is
 * impossible (setuid programs, the static library). ALREADY_EXISTS while a runtime is running.
 *
 * GPUs of the machine are taken as leases (docs/leases.md), so that two programs never use the same GPU: the first free
 * ones of those that CUDA_VISIBLE_DEVICES shows. A lease that the program holds already, from `berth run` or
 * bt_lease_take, is used first. The leases last until the last process of the runtime has ended. With BT_DETECT all
 * visible GPUs are taken. A child process counts them, which takes as long as NVML needs to start. Simulated GPUs, and
 * GPUs beyond those of the machine, are only counted. RESOURCE_EXHAUSTED, or DEADLINE_EXCEEDED after .gpu_wait_seconds:
 * other programs hold them; the message names their processes. */
BT_API BT_MUST_USE bt_status bt_runtime_start(const bt_runtime_options *options);
#ifdef __cplusplus
#define BTI_RUNTIME_UNSET
#else
#define BTI_RUNTIME_UNSET .size = sizeof(bt_runtime_options), .zeros_set = true, .num_cpus = BTI_UNSET_REAL,
#endif
#define bt_runtime_init(...) \
    BTI_AT_MUST(bt_runtime_start(BTI_OVERRIDDEN(bt_runtime_options, BTI_RUNTIME_UNSET __VA_ARGS__)))

/* Ends all workers and actors, waits for their processes and frees the store. References that are still held are
 * poisoned. BT_OK when no runtime is running. A program that exits without it, or is killed by any signal, leaves
 * nothing behind either. */
BT_API BT_MUST_USE bt_status bt_runtime_shutdown(void);
#define bt_runtime_shutdown(...) BTI_AT_MUST(bt_runtime_shutdown(__VA_ARGS__))

/* The total and the free amount of "CPU", "GPU" or a custom resource; NaN when there is no such resource. */
BT_API double bt_resource_total(const char *name);
BT_API double bt_resource_free(const char *name);

/* --- declaring functions ---------------------------------------------------------------------------------------------- */

typedef bt_status bt_remote_function(bt_task *task);

/* How the bundles of a group are placed on GPUs. A place is a set of GPUs with fast links to each other (NVLink). Where
 * the driver reports no links, packing regards all GPUs as one place, and spreading regards each GPU as a place. */
typedef enum bt_group_strategy {
    BT_GROUP_PACK,         /* close to each other, if possible */
    BT_GROUP_SPREAD,       /* each bundle in another place, if possible */
    BT_GROUP_STRICT_PACK,  /* all in one place */
    BT_GROUP_STRICT_SPREAD /* each in another place */
} bt_group_strategy;

/* What a task or an actor needs and how it is treated. BT_REMOTE declares the options of a function, and a call may
 * have its own: a member that the call sets overrides the declared one, and a member that neither sets has the default
 * in brackets. The macros distinguish a member that is set to 0 from one that is not set: `.num_gpus = 0` hides all
 * GPUs; without .num_gpus CUDA_VISIBLE_DEVICES is not changed. In a structure that is filled in without the macros (its
 * size must be set) 0 means not set. OMP_NUM_THREADS in a worker is its number of CPUs, rounded down and at least 1,
 * unless the program was started with that variable. */
typedef struct bt_task_options {
    size_t size BTI_INITIALLY(sizeof(bt_task_options));
    bool zeros_set BTI_INITIALLY(true);            /* by the macros: a member that is 0 was set to 0 */
    double num_cpus BTI_INITIALLY(BTI_UNSET_REAL); /* [1; an actor: 1 to start, then 0; a bundle, and what runs on one
                                                      without CPUs: 0] */
    double num_gpus BTI_INITIALLY(BTI_UNSET_REAL); /* [none]; an integer, or a fraction below 1: a share of one GPU and
                                                      of its memory */
    bt_resource resources[8] BTI_INITIALLY({});    /* set when the first has a name */
    int priority BTI_INITIALLY(BTI_UNSET_INT);     /* [that of the calling task; 0 in the program] highest first, then
                                                      calls of tasks before those of the program, then in order */
    int max_retries BTI_INITIALLY(BTI_UNSET_INT);  /* [the runtime's, else 0; a method: 0] how often a call is run again
                                                      when its process dies, and after failures of .retry_failures;
                                                      -1: no limit */
    int max_restarts BTI_INITIALLY(BTI_UNSET_INT); /* [0] how often an actor is started again when its process dies; -1:
                                                      no limit */
    double deadline_seconds BTI_INITIALLY(BTI_UNSET_REAL); /* [none; so is 0] from submission on; then the task is
                                                              cancelled, running or not: DEADLINE_EXCEEDED */
    const char *name BTI_INITIALLY(NULL);                  /* of an actor, for bt_actor_find; "": none */
    bt_group *group BTI_INITIALLY(NULL);                   /* runs on the resources of this group */
    int bundle BTI_INITIALLY(BTI_UNSET_INT);               /* [0] which of the group's bundles */
    uint32_t retry_failures BTI_INITIALLY(0); /* [none] statuses returned by the function after which the call is run
                                                 again, up to .max_retries times: BT_FAILURES(BT_UNAVAILABLE),
                                                 BT_ANY_FAILURE. A method runs again after the methods that its actor
                                                 has been given already */
    bool get_if_exists BTI_INITIALLY(false);  /* [false] returns the actor of this .name, if there is one */
    bool detached BTI_INITIALLY(false);       /* [false] an actor that outlives the program: UNIMPLEMENTED by the engine
                                                 "local", whose processes all end with the program */
    double gpu_memory BTI_INITIALLY(BTI_UNSET_REAL); /* [none] bytes: the share of one GPU with that much memory;
                                                        num_gpus must not be set, or be 1 */
    const char *accelerator BTI_INITIALLY(NULL); /* [any; so is ""] the type of the GPUs: words of their name, "H100" */
    int strategy BTI_INITIALLY(BTI_UNSET_INT); /* [BT_GROUP_PACK] a bt_group_strategy, in the first bundle of a group */
    int max_calls BTI_INITIALLY(BTI_UNSET_INT);   /* [1 with GPUs, else 0: no limit] how many calls of this function a
                                                    worker process runs, on the same GPUs, before it ends; not for
                                                    actors */
    int num_returns BTI_INITIALLY(BTI_UNSET_INT); /* [1] number of results, at most 100: bt_result */
    int max_concurrency BTI_INITIALLY(BTI_UNSET_INT); /* [1] how many methods an actor runs at once, in threads of
                                                         its process: 1 to 64. They begin in order */
} bt_task_options;
/* BT_ANY_FAILURE, or a set of statuses: `BT_FAILURES(BT_UNAVAILABLE, BT_ABORTED)`. */
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
/* BT_OPTIONS: the options of a call, `bt_remote_with(BT_OPTIONS(.num_gpus = 2), f)`. BT_BUNDLE: a bundle of a group. */
#define BT_BUNDLE(...) (*BT_OPTIONS(__VA_ARGS__))
#define BT_OPTIONS(...) BTI_OVERRIDDEN(bt_task_options, BTI_TASK_UNSET __VA_ARGS__)

/* A function, named by its module and its name. A module is the program itself or a shared object that workers open.
 * BT_REMOTE registers the function when the module is loaded. Names are unique within a module. */
typedef struct bt_remote_entry {
    bt_remote_function *function;
    const char *name;
    const bt_task_options *options;
    struct bt_remote_entry *next; /* set by the library */
    const char *module;           /* set by the library */
} bt_remote_entry;
BT_API void bti_register(bt_remote_entry *entry);
/* Stands after the function or after its declaration. A function that calls itself remotely is declared before its
 * body: `static bt_status fib(bt_task *task); BT_REMOTE(fib);`. */
#define BT_REMOTE(...) BTI_REMOTE(__VA_ARGS__, )
#define BTI_REMOTE(function, ...)                                                                                    \
    BTI_QUIET static const bt_task_options bti_options_##function =                                                  \
        BTI_DECLARED(bt_task_options){BTI_TASK_UNSET __VA_ARGS__};                                                   \
    BTI_LOUD static bt_remote_entry bti_remote_##function = {function, #function, &bti_options_##function, NULL,     \
                                                             NULL};                                                  \
    __attribute__((constructor)) static void bti_register_##function(void) { bti_register(&bti_remote_##function); } \
    typedef int bti_remote_end_##function /* takes the semicolon */

/* Loads a shared object, in the program now and in each worker when it first needs it; its functions can then be called
 * by name. The path, or a name that the loader searches for, is resolved now and then stands for the file that was
 * opened, whatever the working directory is. A worker opens the same file. If the file was replaced or overwritten with
 * other bytes since, calls, and loading it again under this name, fail with FAILED_PRECONDITION and say so. The
 * absolute path of a module has at most 478 bytes. NOT_FOUND: there is no such file; INVALID_ARGUMENT: it declares no
 * function, or is linked with another libberth than the program. */
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
    BT_UNSIGNED, /* a variable of an unsigned integer type; values are BT_INTEGER */
    BT_LIST_VALUE,
    BT_STREAM_VALUE /* the reference of a call that yields (bt_stream_next) */
} bt_value_type;

typedef struct bt_bytes {
    const void *data;
    size_t size;
} bt_bytes;

/* A list of values, which is a value itself. `BT_LIST(1, "two", 3.0, ref, actor, array, BT_LIST(4, 5))` makes one, of
 * anything that a call takes; `bt_list_of(refs, n)` makes one of an array of references, actors or bt_item_value. A
 * list may be empty and may contain lists, up to 32 levels deep. A list that is made borrows its values: in C to the
 * end of the block, in C++ for the call.
 *
 * A reference that is itself an argument stands for its value. A reference in a list is passed as a reference: the call
 * does not wait for it, and the function gets a reference of its own, which it may get, pass on, return and put. What a
 * value refers to lives at least as long as the value.
 *
 * `bt_list list; bt_argument(task, 0, &list)` and `bt_get(ref, &list)` read a list without copying it: it belongs to
 * the task, or to the reference, as texts do. It can be a value of other calls. */
typedef struct bt_list {
    const void *items; /* all members are used by the library only */
    const void *owner;
    int count, kind;
} bt_list;

/* An argument or a result of a call, made by the macros from a C value. Borrows what it points to, for the call. */
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

/* The number of values. */
BT_API int bt_list_count(bt_list list);
/* The type of value `index`; BT_NOTHING past the end. */
BT_API bt_value_type bt_list_type(bt_list list, int index);
/* `bt_list_get(list, i, &x)`: writes value i (from 0) of a list that was read to a variable, whose type is one of those
 * of bt_get. OUT_OF_RANGE past the end. Texts, bytes and lists belong to the owner of the list, the reference or the
 * task, and are valid as long as it is held and the runtime runs; references, actors and arrays belong to the innermost
 * scope. */
BT_API BT_MUST_USE bt_status bti_list_get(bt_list list, int index, bt_value_type type, size_t bytes, void *out);

/* --- calls ------------------------------------------------------------------------------------------------------------ */

/* Submits a call and returns at once: `bt_remote(add, 1, 2.5, "text", array, ref)`, with up to 64 arguments in C and
 * any number in C++. At most 100,000 references and actors may be among the arguments, including those in lists. With
 * options: `bt_remote_with(BT_OPTIONS(.num_gpus = 2), add, 1)`. By name, in a module (NULL: the program), with any
 * number of arguments: `bt_remote_named("./lib.so", "add", NULL, values, count)`. The arguments are copied to the store
 * before the call returns. Poisoned with RESOURCE_EXHAUSTED when they do not fit and nothing can be spilled. */
BT_API bt_ref *bt_remote_named(const char *module, const char *name, const bt_task_options *options,
                               const bt_item_value *arguments, int count);

/* The reference of result `index` (from 0) of the call that returned `ref`: `bt_remote_with(BT_OPTIONS(.num_returns =
 * 3), f)` returns the reference of result 0. Each result is a value of its own: it is waited for, passed on and freed
 * separately. The first reference keeps the other results until this function has returned them. At most 262,144 calls
 * with several results exist at once. A failure is that of all results; bt_cancel of one cancels the call. Poisoned:
 * OUT_OF_RANGE past the last result; NOT_FOUND when the result was returned before and no reference to it is held any
 * more. */
BT_API bt_ref *bt_result(bt_ref *ref, int index);
#define bt_result(...) BTI_AT(bt_ref *, bt_result(__VA_ARGS__))

/* The next item of a call that yields, as soon as it is there:
 *
 *     bt_ref *stream = bt_remote(count_up, 5);
 *     for (bt_ref *item; (item = bt_stream_next(&stream, -1)) != NULL;) status = bt_get(item, &x);
 *
 * The item belongs to the innermost scope. `*stream` advances to the items after it and no longer refers to those
 * before. Returns NULL at the end, also when called again. If the call fails, the last item is one that fails with the
 * cause. Poisoned with DEADLINE_EXCEEDED when no item comes within `seconds` (negative: no limit); the stream does not
 * advance. An item that nobody holds is freed with the last reference to the items before it. A stream is read by one
 * thread at a time, and each item is returned once: bt_ref_retain gives the same reference, which advances too. A
 * stream in a list can be passed to other calls, which read it independently, from its present position. */
BT_API bt_ref *bt_stream_next(bt_ref **stream, double seconds);
#define bt_stream_next(...) BTI_AT(bt_ref *, bt_stream_next(__VA_ARGS__))

/* Copies a value to the store once; calls then pass it by reference. `bt_put(ref)` is a reference to a reference: as an
 * argument it stands for the inner reference, `bt_ref *inner; bt_argument(task, 0, &inner)`. */
BT_API bt_ref *bti_put(const bt_item_value *value);

/* Waits for a result: `bt_get(ref, &x)`, where x is an integer, double, const char *, bt_bytes, bt_array *, bt_list,
 * bt_ref * or bt_actor *; with NULL it only waits. INVALID_ARGUMENT, naming both types, when the result has another
 * type; integers convert to double. Texts, bytes and lists belong to the reference; arrays, references and actors to
 * the innermost scope; nothing is copied. The errors are those of the task: the status and text that it returned;
 * ABORTED, with the signal or exit code and the end of its standard error, when its process died; CANCELLED;
 * DEADLINE_EXCEEDED; FAILED_PRECONDITION for a deadlock. bt_get_within waits for at most `seconds` (DEADLINE_EXCEEDED;
 * the task goes on). */
BT_API BT_MUST_USE bt_status bti_get(bt_ref *ref, bt_value_type type, size_t bytes, void *out, double seconds);

/* The kind of failure of a reference, in addition to its status and text. */
typedef enum bt_failure {
    BT_FAILURE_NONE,      /* it has a value, or is pending */
    BT_FAILURE_RETURNED,  /* its function, or the one that made its actor, returned the failure */
    BT_FAILURE_REFUSED,   /* it cannot run: an invalid option or argument, more than there is */
    BT_FAILURE_CANCELLED, /* bt_cancel, bt_actor_kill, or an actor that nobody holds */
    BT_FAILURE_DEADLINE,
    BT_FAILURE_PROCESS_DIED, /* the process that ran it, or its actor */
    BT_FAILURE_OUT_OF_MEMORY, /* the system ended that process because memory ran out. When the store is full, bt_put is REFUSED,
                                 and a function that returns that failure has RETURNED it */
    BT_FAILURE_OWNER_DIED,  /* the process that owned the value; only on several machines */
    BT_FAILURE_OBJECT_LOST, /* the node that had the value is lost; only on several machines */
    BT_FAILURE_NODE_DIED    /* the node that ran it; only on several machines */
} bt_failure;
/* The kind of failure of a reference. A call whose argument failed has the kind of that argument, a poisoned reference
 * REFUSED. Never blocks. Any thread. */
BT_API bt_failure bt_ref_failure(bt_ref *ref);
/* Whether the same call may succeed when it is made again: PROCESS_DIED to NODE_DIED, the failures that `.max_retries`
 * applies to. */
BT_API bool bt_failure_is_retryable(bt_failure failure);

/* Waits until `wanted` of the references are done (failed ones too) or `seconds` are over (negative: no limit).
 * ready[i] (ready may be NULL) receives whether refs[i] is done. Returns how many are done; -1 with the cause in the
 * error record. */
BT_API int bt_wait_refs(bt_ref *const *refs, int count, int wanted, bool *ready, double seconds);

/* Cancels a call. A call that has not begun never begins, and its reference fails with CANCELLED. A running call is
 * ended together with its process if `force` is set (INVALID_ARGUMENT for a method of an actor: use bt_actor_kill).
 * Without `force` the function may ask bt_task_cancelled; if it then fails, its failure becomes CANCELLED, and if it
 * returns a result, the result is kept. BT_OK when the call was done already. */
BT_API BT_MUST_USE bt_status bt_cancel(bt_ref *ref, bool force);
/* Cancels a call, the calls that it has made, the calls that these have made, and so on, as long as the calls in
 * between have not ended. Running methods among them are only asked, also with `force`; actors live on. */
BT_API BT_MUST_USE bt_status bt_cancel_all(bt_ref *ref, bool force);

BT_API bt_ref *bt_ref_retain(bt_ref *ref);
#define bt_ref_retain(...) BTI_AT(bt_ref *, bt_ref_retain(__VA_ARGS__))
BT_API void bt_ref_release(bt_ref *ref); /* NULL is accepted */
#define bt_ref_release(...) BTI_AT_VOID(bt_ref_release(__VA_ARGS__))

/* --- inside of a task --------------------------------------------------------------------------------------------------- */

/* The number of arguments, and the type of one of them; BT_NOTHING past the end. */
BT_API int bt_argument_count(const bt_task *task);
BT_API bt_value_type bt_argument_type(const bt_task *task, int index);
BT_API BT_MUST_USE bt_status bti_argument(bt_task *task, int index, bt_value_type type, size_t bytes, void *out);
/* `bt_arguments(task, &a, &b)`: writes the first arguments to variables. `bt_argument(task, index, &a)`: writes one of
 * them. OUT_OF_RANGE when the call has fewer; INVALID_ARGUMENT, naming both types, when an argument has another type.
 * Texts, bytes and lists live as long as the task; arrays, references and actors belong to its scope. */
typedef struct bti_variable {
    bt_value_type type;
    size_t bytes;
    void *out;
} bti_variable;
BT_API BT_MUST_USE bt_status bti_arguments(bt_task *task, const bti_variable *variables, int count);
/* Sets the result of the call; when it is called several times, the last result counts. A call that sets none has no
 * value (bt_get with NULL). An actor or a reference that is returned lives as long as the result is held.
 * `bt_return(task, a, b, c)` sets all results of a call with .num_returns = 3; such a call fails when it sets none. */
BT_API BT_MUST_USE bt_status bti_return(bt_task *task, const bt_item_value *values, int count);
/* `bt_yield(task, x)`: makes the next item of a stream available at once, as often as the function likes; such a
 * function returns no result. What an item refers to lives as long as the item. CANCELLED once the call was cancelled.
 * RESOURCE_EXHAUSTED, which ends the stream, when more than about 1.5 million items of the whole runtime have not been
 * read. When the call is run again (.max_retries), it skips as many items as it had yielded before, so no item comes
 * twice. */
BT_API BT_MUST_USE bt_status bti_yield(bt_task *task, const bt_item_value *value);
/* Sets the failure of the task, with a text; returns `status`, for the function to return. */
BT_API bt_status bt_task_fail(bt_task *task, bt_status status, const char *format, ...) BT_PRINTF(3, 4);
/* Whether the call was cancelled (bt_cancel, .deadline_seconds). Functions that run long should ask, and end. */
BT_API bool bt_task_cancelled(const bt_task *task);

/* The GPUs of the calling task or actor: writes up to `capacity` numbers to `ids` and returns how many GPUs there are:
 * num_gpus, 1 for a fraction, 0 without GPUs, and 0 in the program itself. The numbers are those of the machine; if the
 * program was started with a mask, they are the numbers in it, or positions in it if it consists of UUIDs. The value of
 * CUDA_VISIBLE_DEVICES in a task: docs/tasks-gpus.md. */
BT_API int bt_get_gpu_ids(int *ids, int capacity);

/* --- actors ------------------------------------------------------------------------------------------------------------- */

/* Starts an actor, a process that keeps its state and its resources: `bt_actor_new(counter_new, 5)`, where the function
 * makes the state (bt_set_state). Methods run in order, one at a time; with .max_concurrency several run at once in
 * threads of the process, and the program must protect the state that they share with a lock. An actor lives until all
 * its holders have released it, until bt_actor_kill, or until the end of the runtime. An actor that needs more than the
 * runtime has is poisoned at once, and the text names both amounts (bt_actor_status). */
BT_API bt_actor *bt_actor_named(const char *module, const char *name, const bt_task_options *options,
                                const bt_item_value *arguments, int count);
/* Calls a method: `bt_method(counter, counter_add, 1)`, or by name with a list of arguments, as bt_remote_named. */
BT_API bt_ref *bt_method_named(bt_actor *actor, const char *module, const char *name, const bt_task_options *options,
                               const bt_item_value *arguments, int count);
BT_API bt_status bt_actor_status(bt_actor *actor); /* BT_OK while it starts, lives or waits for resources */
BT_API bt_actor *bt_actor_find(const char *name);  /* NULL with NOT_FOUND */
/* Ends the process of the actor. Its calls fail with CANCELLED. */
BT_API BT_MUST_USE bt_status bt_actor_kill(bt_actor *actor);
BT_API bt_actor *bt_actor_retain(bt_actor *actor);
#define bt_actor_retain(...) BTI_AT(bt_actor *, bt_actor_retain(__VA_ARGS__))
BT_API void bt_actor_release(bt_actor *actor);
#define bt_actor_release(...) BTI_AT_VOID(bt_actor_release(__VA_ARGS__))
/* Sets the state of the actor. `release` (may be NULL) is called with it when it is replaced, or when the actor ends
 * without being killed. bt_state returns it; NULL when none was set. */
BT_API void bt_set_state(bt_task *task, void *state, void (*release)(void *state));
BT_API void *bt_state(bt_task *task);

/* --- pools of actors ------------------------------------------------------------------------------------------------------ */

/* A pool distributes calls over actors of one kind, one call at a time on each actor: `bt_pool_new(actors, 3)`, then
 * `bt_pool_submit(pool, square, 5)` for each call and `bt_pool_next(pool, BT_IN_ORDER, -1)` for each result. The pool
 * retains its actors. It may be used from any thread of the process that made it. */
BT_API bt_pool *bt_pool_new(bt_actor *const *actors, int count);
#define bt_pool_new(...) BTI_AT(bt_pool *, bt_pool_new(__VA_ARGS__))
BT_API bt_pool *bt_pool_retain(bt_pool *pool);
#define bt_pool_retain(...) BTI_AT(bt_pool *, bt_pool_retain(__VA_ARGS__))
BT_API void bt_pool_release(bt_pool *pool); /* NULL is accepted; running calls go on, waiting calls are dropped */
#define bt_pool_release(...) BTI_AT_VOID(bt_pool_release(__VA_ARGS__))

/* Begins a method on an idle actor. When all actors are busy, the call waits in the pool with its arguments in the
 * store; a later call of a function of the pool begins it, once an actor is idle. A call whose actor dies fails; the
 * actor leaves the pool, unless it is the last one. */
BT_API BT_MUST_USE bt_status bti_pool_submit(bt_pool *pool, const bt_remote_entry *entry,
                                             const bt_item_value *arguments, int count);

typedef enum bt_pool_order {
    BT_IN_ORDER,    /* the call that was submitted first */
    BT_AS_COMPLETED /* among the calls that are done, the one that was submitted first */
} bt_pool_order;

/* Waits for a result for at most `seconds` (negative: no limit) and returns its reference, which is done, to the
 * innermost scope. Each result is returned once. Poisoned: DEADLINE_EXCEEDED when the time is over (a later call
 * returns the result), OUT_OF_RANGE when no result is left, FAILED_PRECONDITION when calls wait and the pool has no
 * actor. */
BT_API bt_ref *bt_pool_next(bt_pool *pool, bt_pool_order order, double seconds);
#define bt_pool_next(...) BTI_AT(bt_ref *, bt_pool_next(__VA_ARGS__))
BT_API bool bt_pool_has_next(bt_pool *pool); /* whether results, done or not, are left for bt_pool_next */
BT_API int bt_pool_idle(bt_pool *pool);      /* the number of idle actors */

/* Adds an idle actor; ALREADY_EXISTS when the pool has it. */
BT_API BT_MUST_USE bt_status bt_pool_push(bt_pool *pool, bt_actor *actor);
#define bt_pool_push(...) BTI_AT_MUST(bt_pool_push(__VA_ARGS__))
/* Removes an idle actor from the pool; the caller owns it: bt_actor_release. NULL when none is idle. */
BT_API bt_actor *bt_pool_pop_idle(bt_pool *pool);
#define bt_pool_pop_idle(...) BTI_AT(bt_actor *, bt_pool_pop_idle(__VA_ARGS__))

/* --- groups (gangs) ------------------------------------------------------------------------------------------------------- */

/* Reserves bundles of resources, all or none (Ray's placement groups):
 * `bt_group_new((bt_task_options[]){BT_BUNDLE(.num_gpus = 2), BT_BUNDLE(.num_gpus = 1)}, 2)`. Tasks and actors run on a
 * bundle with the options `.group` and `.bundle`. A group that can never be reserved is poisoned at once. bt_group_wait
 * waits until the bundles are reserved, for at most `seconds` (negative: no limit). */
BT_API bt_group *bt_group_new(const bt_task_options *bundles, int count);
BT_API BT_MUST_USE bt_status bt_group_wait(bt_group *group, double seconds);
BT_API bt_group *bt_group_retain(bt_group *group);
#define bt_group_retain(...) BTI_AT(bt_group *, bt_group_retain(__VA_ARGS__))
BT_API void bt_group_release(bt_group *group); /* frees the resources once the tasks that run on them have ended */
#define bt_group_release(...) BTI_AT_VOID(bt_group_release(__VA_ARGS__))

/* --- views -------------------------------------------------------------------------------------------------------------- */

/* Tasks, actors, workers, resources in use and requested, memory, and the reason of each wait, as text or as JSON
 * (`berth ps --json`). The caller owns the text: bt_free. */
BT_API char *bt_runtime_text(bool json);
/* Writes a Chrome trace of what ran where so far, one track per worker: the last 32,767 tasks that ended, and the
 * running ones. */
BT_API BT_MUST_USE bt_status bt_runtime_timeline(const char *path);
/* The same for other programs of this user (`berth ps`): for the one with process id `pid` (NULL with NOT_FOUND if
 * there is none), or with pid 0 for all that have a runtime (as JSON: a list). A program that does not answer within 5
 * seconds is reported as such. The timeline is of one program; pid 0: of the only one. The caller owns the text:
 * bt_free. */
BT_API char *bt_runtimes_text(int64_t pid, bool json);
BT_API BT_MUST_USE bt_status bt_runtimes_timeline(int64_t pid, const char *path);

/* --- leases ------------------------------------------------------------------------------------------------------------- */

/* GPUs that are shared between programs of one machine that know nothing of each other, as `berth run` takes them
 * (docs/leases.md). Each GPU has a lock file. A lease is a set of kernel locks on these files; the kernel releases them
 * when the last process that has them open is gone, by whatever signal. So there is no daemon and nothing to clean up,
 * and the content of the files is never trusted. Leases bind only programs that use them.
 *
 * Waiting programs are served in order of arrival: a later one takes none of the GPUs that an earlier one could use,
 * free or not, so a request for many GPUs is served too. All GPUs of a lease are taken at once or none, so no program
 * holds some GPUs while it waits for others. */
typedef struct bt_lease bt_lease;

typedef struct bt_lease_options {
    size_t size BTI_INITIALLY(sizeof(bt_lease_options));
    int num_gpus BTI_INITIALLY(0);           /* [1] of those that CUDA_VISIBLE_DEVICES shows, without OpenCL's */
    uint64_t memory_bytes BTI_INITIALLY(0);  /* [whole GPUs] a share of that many bytes on each; leases share a GPU
                                               as long as their shares fit into its memory */
    bool wait BTI_INITIALLY(false);          /* [false] waits until they are free; after a second a log line says who
                                                holds them */
    double timeout_seconds BTI_INITIALLY(0); /* [no limit] of the wait */
    const char *command BTI_INITIALLY(NULL); /* [the program's command line] how others see the holder */
    bool inherit BTI_INITIALLY(false);       /* [false] programs that this process starts or becomes (exec) keep the
                                                lease too */
} bt_lease_options;
#define BT_LEASE(...) BTI_OPTIONS(bt_lease_options, __VA_ARGS__)

/* Takes a lease: `bt_lease_take(BT_LEASE(.num_gpus = 2, .wait = true))`. A child process counts the GPUs, so the call
 * opens no device library; it may come before bt_runtime_init. The caller owns the lease: bt_lease_release. NULL with
 * the cause in the error record: RESOURCE_EXHAUSTED: the GPUs are not free, and the text says who holds them;
 * DEADLINE_EXCEEDED: they did not become free in time; NOT_FOUND: there are not so many, or none with so much memory;
 * UNAVAILABLE: the lock files cannot be used. Any thread. Blocks with `wait`, else only for the time of the count. */
BT_API bt_lease *bt_lease_take(const bt_lease_options *options);
#define bt_lease_take(...) BTI_AT(bt_lease *, bt_lease_take(__VA_ARGS__))

/* The GPUs of the lease, numbered as by bt_get_gpu_ids: writes up to `capacity` to `ids`; returns how many there are. */
BT_API int bt_lease_gpus(const bt_lease *lease, int *ids, int capacity);
/* The mask for a program that shall see only these GPUs: "0,2", or the entries of the mask that this program was
 * started with. It is the value for the variable that bt_lease_variable names. Numbers in CUDA_VISIBLE_DEVICES are in
 * the order of the PCI bus (CUDA_DEVICE_ORDER=PCI_BUS_ID). The lease owns the text. */
BT_API const char *bt_lease_mask(const bt_lease *lease);
/* "CUDA_VISIBLE_DEVICES", or for AMD's GPUs "ROCR_VISIBLE_DEVICES" (docs/visibility.md); "" for NULL. A constant of the
 * library. */
BT_API const char *bt_lease_variable(const bt_lease *lease);

/* Ends the lease, also when forked children have its files open. In such a child it only closes the child's files. NULL
 * is accepted. */
BT_API void bt_lease_release(bt_lease *lease);
#define bt_lease_release(...) BTI_AT_VOID(bt_lease_release(__VA_ARGS__))

/* The holders and waiters of each GPU that CUDA_VISIBLE_DEVICES shows, as lines or as JSON. What it says of a process
 * was written by that process. The caller owns the text: bt_free. NULL with the cause in the error record, as
 * bt_lease_take. */
BT_API char *bt_leases_text(bool json);
#define bt_leases_text(...) BTI_AT(char *, bt_leases_text(__VA_ARGS__))

/* The functions behind the macros of call.h. */
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
