/* Random programs: what a seed stands for, run as the flags then say, and what came out. */
#ifndef BERTH_TESTS_RANDOM_PROGRAMS_PROGRAM_H
#define BERTH_TESTS_RANDOM_PROGRAMS_PROGRAM_H

#include <berth.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MOST_INSTRUCTIONS 60

/* One value that a program made: its elements, and how far they may be from those of another engine. */
typedef struct outcome {
    bt_status status;
    bt_dtype dtype;
    int rank;
    int64_t shape[BT_MAX_RANK];
    bool exact;
    size_t bytes;
    void *data; /* as they lie in memory */
} outcome;

typedef struct outcomes {
    int count;
    outcome of[MOST_INSTRUCTIONS];
} outcomes;

/* Instruction i of the program of a seed is left out where skip[i] is set; the others stay what they are, but for operands that
 * are not there any more. `print`: each is written there as it is recorded. `perturb`: the results of that operation are changed
 * by one, so that the search for differences can be tested. */
void run_program(uint64_t seed, const bool *skip, FILE *print, const char *perturb, outcomes *out);
void free_outcomes(outcomes *out);
/* convs.c: the same of chains of convolutions. */
void run_convs(uint64_t seed, const bool *skip, FILE *print, const char *perturb, outcomes *out);

/* Pure programs: without the instructions that read, forget or set something. Their leaves are what they compute with. */
typedef enum leaves_are { LEAVES_AS_THEY_ARE, LEAVES_ARE_INPUTS, LEAVES_ARE_SHARED } leaves_are;
typedef struct leaves {
    leaves_are how; /* inputs of a function in their place; one for all that are alike */
    int count;
    bt_array *leaf[MOST_INSTRUCTIONS], *input[MOST_INSTRUCTIONS];
    int alike[MOST_INSTRUCTIONS]; /* the first that is like it */
    bool whole[MOST_INSTRUCTIONS];
    bt_array *const *stand_in; /* what stands in the place of each, alike in dtype and shape; NULL: itself */
    bt_array *(*change)(bt_array *leaf, int index); /* what is made of each as it is; NULL: itself */
} leaves;

/* Records the pure program of a seed in the caller's scope; its values that are no errors, and how many there are. */
int record_pure(uint64_t seed, leaves *given, bt_array **results, bool *exact);
void keep_results(bt_array *const *results, const bool *exact, int count, outcomes *out);

/* What is wrong (a static text), or NULL. calls.c: a pure program as a function that is called again and again, with other numbers, at other places in memory, with
 * arguments that are one array. plans.c: its evaluations come again, with other scalars, at other places, held otherwise. threads.c: eight threads do all that at once. faults.c: steps that fail
 * at commands drawn by the seed leave all variables on all replicas old, or all new. */
const char *check_calls(uint64_t seed);
const char *check_plans(uint64_t seed);
const char *check_threads(uint64_t seed);
const char *check_faults(uint64_t seed);
/* plans.c: the pure program of a seed, changed in one of so many ways, with these leaves (NULL: its own). */
#define VARIANTS 7
void run_variant(uint64_t seed, int variant, bt_array *const *leaf, outcomes *out);
/* The same elements behind `offset` others, in the middle of a longer array. */
bt_array *move_in_memory(bt_array *leaf, int64_t offset);

extern bool moves_to_tpus; /* arrays are moved to TPUs, not GPUs */

/* NULL, or in what way b differs from a (a static text): to the bit, or within what other engines may round differently. */
const char *differ(const outcomes *a, const outcomes *b, bool to_the_bit);

/* main.c: leaves out what can be left out: sets skip[i] as long as it still fails. */
void cut_down(bool (*fails)(const bool *skip, void *data), void *data, bool *skip);

#endif
