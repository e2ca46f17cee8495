/* What the files of leases share: the GPUs that a lease may be of, and the lock file of each.
 *
 * A lock file's bytes are not its content: locks of the kernel (of open file descriptions: inherited by fork and exec, gone with the last
 * process that has them open) lie on ranges of it that stand for something:
 *
 *     MEMORY   byte i is byte i of the GPU's memory: a share holds as many as it asked for, wherever some are free; a
 *              whole lease holds the range, which is longer than any memory. So the kernel keeps shares apart and within the whole
 *     TICKETS  who waits or takes holds the byte of his ticket: one past the last that is held; nobody takes while one before it is held
 *     RECORDS  who holds byte k has written what others are told of him, for eyes only, at 512 k of the content
 *     ADOPTED  a runtime that hands out the GPU of a lease that its program has (it was started by `berth run`, say) holds the byte of
 *              that lease, which is the number of its record: several programs may have inherited one lease
 *     GATE     held while a ticket is drawn, in all files of the GPUs that one may take, in the order of their names
 *
 * Why locks of open file descriptions: they outlive exec, so `berth run` becomes the program in the place of waiting for it: no parent is there
 * that could be killed while its child goes on without a lease, or that would have to hand on signals, the terminal and the exit
 * code; and a child of the program that still uses the GPU keeps it leased. (Locks of a process, F_SETLK, go with the first close
 * of the file; flock has no ranges.)
 *
 * What two may both take they both have tickets for, drawn behind the same gates: so of two that want GPUs in common one is before
 * the other in every file, and no two take at once. */
#ifndef BTI_LEASE_LEASE_H
#define BTI_LEASE_LEASE_H

#include <berth/task.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/str.h"

enum { BTI_LEASE_MOST_GPUS = 64 };

/* --- gpus.c: which GPUs there are ------------------------------------------------------------------------------ */

typedef struct bti_lease_gpu {
    uint64_t memory_bytes; /* 0: not known */
    char name[64];         /* its UUID, else its place: of what its lock file's name is made */
    char entry[64];        /* how the mask names it */
    const char *variable;  /* the mask: "CUDA_VISIBLE_DEVICES" */
    int id;                /* as bt_get_gpu_ids numbers it */
} bti_lease_gpu;

/* Those that the mask shows, in its order, into gpus[BTI_LEASE_MOST_GPUS]. A child asks, and no library is opened here. */
bt_status bti_lease_list_gpus(bti_lease_gpu *gpus, int *count);

/* --- file.c: one lock file ----------------------------------------------------------------------------------------- */

typedef struct bti_lease_file {
    int file;   /* -1: it cannot be used */
    int fault;  /* then why, of errno */
    int folder; /* borrowed */
    dev_t device;
    ino_t inode;
    char name[88];
    int64_t ticket; /* -1: none */
    int record;     /* -1: none */
} bti_lease_file;

typedef struct bti_lease_record {
    bool readable; /* else nothing else is known */
    bool waits;
    long pid;
    int64_t since; /* seconds of the clock of the day */
    uint64_t memory_bytes;
    int num_gpus;
    char command[96];
} bti_lease_record;

/* The folder of lock files: $BERTH_LEASES, made when it is not there, else one that all users have. UNAVAILABLE says why not: it is refused
 * when somebody other than root and this user could replace files in it. The path is for messages. */
bt_status bti_lease_folder_open(int *folder, char path[static 256]);

/* Opens or makes the file of a GPU; what is wrong is in `fault`. */
void bti_lease_file_open(bti_lease_file *f, int folder, const char *gpu);
/* What is wrong with one that cannot be used: "is no file of its own". */
const char *bti_lease_file_fault(const bti_lease_file *f);
/* Lock files that this process has open, its own and inherited ones: up to `capacity`; returns how many. */
int bti_lease_find_open(int *files, int capacity);
/* Lets go of all that is held there and closes it. */
void bti_lease_file_close(bti_lease_file *f);
/* Whether its name still leads to it: nobody has deleted or replaced it. */
bool bti_lease_file_stands(const bti_lease_file *f);

bool bti_lease_gate_try(const bti_lease_file *f);
void bti_lease_gate_open(const bti_lease_file *f);

/* The ticket after the last that others hold. */
int64_t bti_lease_next_ticket(const bti_lease_file *f);
bool bti_lease_draw_ticket(bti_lease_file *f, int64_t ticket);
void bti_lease_drop_ticket(bti_lease_file *f);
/* Whether another holds one before ours. */
bool bti_lease_is_behind(const bti_lease_file *f);

/* Bytes of `whole` that others leave free; all of them: none holds any. */
uint64_t bti_lease_free_bytes(const bti_lease_file *f, uint64_t whole);
bool bti_lease_is_free(const bti_lease_file *f);
/* bytes 0: all. False: they are not to be had, nothing is held. */
bool bti_lease_hold(const bti_lease_file *f, uint64_t bytes, uint64_t whole);
/* Gives up what it holds and what it has adopted. */
void bti_lease_let_go(const bti_lease_file *f);

/* The lease of the GPU that one of these open files holds, as the number of its record from 1 on; 0: none does. Of several the one that no runtime
 * hands out yet: a program that a task starts inherits the lease of `berth run` and, adopted, that of the task's runtime. */
int bti_lease_find_enclosing(const bti_lease_file *f, const int *files, int count);
/* Whether another runtime hands out its GPU. */
bool bti_lease_is_adopted(const bti_lease_file *f, int lease);
/* False: another has just done so. */
bool bti_lease_adopt(const bti_lease_file *f, int lease);

/* What others are told; replaces what was written before. Without room for it nothing is told. */
void bti_lease_tell(bti_lease_file *f, const bti_lease_record *record);
/* Those of others that stand, from *at (0 at first) on; false: no more. */
bool bti_lease_next_record(const bti_lease_file *f, int *at, bti_lease_record *record);

/* --- take.c: one that takes ----------------------------------------------------------------------------------------- */

typedef struct bti_taking {
    int wanted;
    uint64_t share; /* bytes on each; 0: whole GPUs */
    bool runtime;   /* it uses leases that this process has, before it takes others */
    bool wait;
    double started, deadline; /* seconds; 0: none */
    bti_lease_record record;
    int folder, count;
    char path[256];
    bti_lease_gpu gpus[BTI_LEASE_MOST_GPUS];
    bti_lease_file files[BTI_LEASE_MOST_GPUS];
    int enclosing[BTI_LEASE_MOST_GPUS];       /* the lease that this process has of it; 0: none */
    int usable, by_name[BTI_LEASE_MOST_GPUS]; /* the others that could be taken, in the order of their files' names */
    bool chosen[BTI_LEASE_MOST_GPUS];
} bti_taking;

/* Waits so many seconds; 0: it does not, below 0: without limit. command NULL: that of this process. NULL: memory is short. */
bti_taking *bti_taking_new(int wanted, double seconds, const char *command);
/* Of gpus[0..count): holds files[i] of each that is chosen. */
bt_status bti_taking_take(bti_taking *t);
/* Gives up what is still in it. NULL is fine. */
void bti_taking_end(bti_taking *t);

/* --- lease.c --------------------------------------------------------------------------------------------------------------- */

/* Whole GPUs that a runtime is to hand out: `wanted` of `count`, first those whose leases this process has. chosen[BTI_LEASE_MOST_GPUS], and a
 * lock file of each that is chosen, in that order: the leases last as long as a process has these files open. RESOURCE_EXHAUSTED (seconds 0)
 * or DEADLINE_EXCEEDED names who holds them. */
bt_status bti_lease_take_for_runtime(const bti_lease_gpu *gpus, int count, int wanted, double seconds, bool *chosen,
                                     int *files);

/* --- text.c -------------------------------------------------------------------------------------------------------- */

/* Adds ", GPU 0 is held by process 7 since 12:00:00 (1 GiB, ./train)" for each that others hold or wait for. */
void bti_lease_add_holders(bti_str *text, const bti_lease_gpu *gpus, const bti_lease_file *files, int count);

#endif
