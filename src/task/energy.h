/* The energy of the runtime's GPUs, and of the tasks that have them.
 *
 * The nest opens no library, so while GPUs are in use it has a process that reads their counters each second and writes the board, which lies in the memory that all
 * processes of the runtime share. What a GPU used between two readings is divided over the tasks that had it, by their shares and by how long they had it. */
#ifndef BTI_TASK_ENERGY_H
#define BTI_TASK_ENERGY_H

#include <sys/types.h>

#include "task/state.h"

enum { BTI_METERED_MOST = 256 };

typedef struct bti_gpu_energy {
    double joules, watts; /* since it was read first; between the last two readings */
    double counter;       /* as it was read last */
    bool known;
    char why[160]; /* it is not */
} bti_gpu_energy;

typedef struct bti_task_energy {
    uint64_t sequence; /* of the task */
    double joules;
    bool known;
} bti_task_energy;

typedef struct bti_energy_board {
    atomic_uint turn;                        /* odd while it is written */
    uint64_t read_ns;                        /* the last reading; 0: there was none */
    char why[160];                           /* nothing is read; "": something is, or will be */
    bti_gpu_energy gpus[BTI_MOST_GPUS];      /* as the state numbers them */
    bti_task_energy tasks[BTI_METERED_MOST]; /* those that had GPUs at the last reading */
    int task_count;
} bti_energy_board;

/* For the layout of the state: who will read, if anything can. */
void bti_energy_board_begin(bti_state *state);
/* A copy of one moment. Any process of the runtime. */
void bti_energy_board_copy(const bti_state *state, bti_energy_board *copy);

/* In the nest: has the process when GPUs are in use; it ends by itself some time after they are. */
void bti_energy_check(bti_state *state);
/* A child of the nest has ended; false: it was not that process. */
bool bti_energy_ended(const bti_state *state, pid_t pid, int status);
void bti_energy_end(void);

#endif
