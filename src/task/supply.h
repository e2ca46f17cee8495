/* Resources: what fits, what is taken, what is given back. All with the lock. */
#ifndef BTI_TASK_SUPPLY_H
#define BTI_TASK_SUPPLY_H

#include "task/state.h"

/* The supply that tasks of a queue take from. */
bti_supply *bti_supply_of(bti_state *state, const bti_queue *queue);

/* The share of this GPU that the amounts take: BTI_UNIT is all of it; more: it has not so much memory. */
int32_t bti_gpu_share(const bti_state *state, const bti_amounts *amounts, int gpu);
bool bti_supply_fits(const bti_state *state, const bti_supply *supply, const bti_amounts *amounts);
/* Of amounts that fit: which GPUs they get, as bits: whole ones, or the one of which they take a share (the fullest possible, so that whole ones stay). */
uint64_t bti_supply_choose(const bti_state *state, const bti_supply *supply, const bti_amounts *amounts);
/* The same in a copy of a supply, to find out what would fit then. */
void bti_supply_set_aside(const bti_state *state, bti_supply *copy, const bti_amounts *amounts, uint64_t gpus);
/* `gpus`: as chosen. `keeps`: an actor or a group takes it, which may live on without limit. */
void bti_supply_take(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, bool keeps);
void bti_supply_give(bti_state *state, bti_supply *supply, const bti_amounts *amounts, uint64_t gpus, bool keeps);

/* A task that waits for objects, or is an actor that was made, lends its CPUs to others. It reclaims them immediately, even if others have them. */
void bti_lend_cpus(bti_state *state, bti_task_record *task);
void bti_retake_cpus(bti_state *state, bti_task_record *task);
/* Gives back all resources that a task has. */
void bti_give_back(bti_state *state, bti_task_record *task);

#endif
