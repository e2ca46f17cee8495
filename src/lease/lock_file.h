/* The lock file of a GPU.
 *
 * Locks of the kernel lie on ranges of the file that stand for something; they have nothing to do with its content. They are locks of open file
 * descriptions: fork and exec inherit them, and they are released when the last process has closed the file.
 *
 *     MEMORY   byte i is byte i of the GPU's memory. A share locks as many bytes as it asked for, wherever some are free; a whole lease locks
 *              the range, which is longer than any memory. So the kernel keeps shares apart, and within the whole
 *     TICKETS  a process that waits or takes locks the byte of its ticket, the one after the last that is locked. Nobody takes while an
 *              earlier ticket is locked
 *     RECORDS  the process that locks byte k has written what others are shown of it at 512 k of the content
 *     ADOPTED  a runtime may hand out the GPU of a lease that its program has already (started by `berth run`, say). Then it locks the byte
 *              with the number of that lease's record, since several programs may have inherited one lease
 *     GATE     is locked while a ticket is drawn, in all files of the GPUs that may be taken, in the order of their names
 *
 * Locks of open file descriptions survive exec, so `berth run` becomes the program instead of waiting for it: there is no parent that could be
 * killed while its child goes on without a lease, or that would have to pass on signals, the terminal and the exit code. A child of
 * the program that still uses the GPU keeps it leased. (Locks of a process, F_SETLK, are released with the first close of the file; flock has no
 * ranges.)
 *
 * Two processes that may take the same GPU both draw tickets for it behind the same gate. So one of them is before the other in every file, and never do
 * two take at once. */
#ifndef BTI_LEASE_LOCK_FILE_H
#define BTI_LEASE_LOCK_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"

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
    bool readable; /* else the other members are not known */
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

/* Opens or makes the file of a GPU; on failure `fault` says why. */
void bti_lease_file_open(bti_lease_file *f, int folder, const char *gpu);
/* What is wrong with one that cannot be used: "is no file of its own". */
const char *bti_lease_file_fault(const bti_lease_file *f);
/* Lock files that this process has open, its own and inherited ones: up to `capacity`; returns how many. */
int bti_lease_find_open(int *files, int capacity);
/* Releases all locks on it and closes it. */
void bti_lease_file_close(bti_lease_file *f);
/* Whether its name still leads to it: nobody has deleted or replaced it. */
bool bti_lease_file_stands(const bti_lease_file *f);

bool bti_lease_gate_try(const bti_lease_file *f);
void bti_lease_gate_open(const bti_lease_file *f);

/* The number after the last ticket that others hold. */
int64_t bti_lease_next_ticket(const bti_lease_file *f);
bool bti_lease_draw_ticket(bti_lease_file *f, int64_t ticket);
void bti_lease_drop_ticket(bti_lease_file *f);
/* Whether another process holds a ticket before ours. */
bool bti_lease_is_behind(const bti_lease_file *f);

/* How many of `whole` bytes others leave free. */
uint64_t bti_lease_free_bytes(const bti_lease_file *f, uint64_t whole);
bool bti_lease_is_free(const bti_lease_file *f);
/* bytes 0: the whole GPU. False: they are not free; nothing is locked then. */
bool bti_lease_hold(const bti_lease_file *f, uint64_t bytes, uint64_t whole);
/* Releases what it holds and what it has adopted. */
void bti_lease_let_go(const bti_lease_file *f);

/* The lease of the GPU that one of these open files holds, as the number of its record, from 1; 0: none. Of several the one that no runtime
 * hands out yet: a program that a task starts inherits the lease of `berth run` and, adopted already, that of the task's runtime. */
int bti_lease_find_enclosing(const bti_lease_file *f, const int *files, int count);
/* Whether another runtime hands out its GPU. */
bool bti_lease_is_adopted(const bti_lease_file *f, int lease);
/* False: another runtime has just adopted it. */
bool bti_lease_adopt(const bti_lease_file *f, int lease);

/* Writes the record that others are shown, in place of an earlier one. Without a free record nothing is written. */
void bti_lease_tell(bti_lease_file *f, const bti_lease_record *record);
/* The next record of another process, from *at (0 at first) on; false: there is none. */
bool bti_lease_next_record(const bti_lease_file *f, int *at, bti_lease_record *record);

#endif
