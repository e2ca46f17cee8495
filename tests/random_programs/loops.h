/* Random functions with loops and branches: a tree of blocks, which is recorded by bt_scan, bt_while, bt_cond and bt_checkpoint, or written out
 * without them. All values have one floating dtype and one shape, but for what loops count with. */
#ifndef BERTH_TESTS_RANDOM_PROGRAMS_LOOPS_H
#define BERTH_TESTS_RANDOM_PROGRAMS_LOOPS_H

#include "random_programs/chance.h"
#include "random_programs/program.h"

enum {
    LOOP_INPUTS = 3,
    LOOP_RESULTS = 2,
    MOST_BLOCKS = 24,
    MOST_IN_BLOCK = 5,
    MOST_CARRIED = 3, /* besides a counter */
    MOST_ROWS = 2,
    OUTSIDE = 2, /* values from outside that a body reads */
    MOST_GIVEN = MOST_CARRIED + MOST_ROWS + 1 + OUTSIDE,
    MOST_GIVEN_BACK = MOST_CARRIED + MOST_ROWS,
    MOST_STEPS = 3,
    LOOP_MADE = LOOP_RESULTS + LOOP_INPUTS + LOOP_RESULTS
};

typedef enum loop_form { AS_LOOPS, WRITTEN_OUT } loop_form;
typedef enum loop_kind { PLAIN, SCAN, WHILE, COND, CHECKPOINTED } loop_kind;

/* Makes one value of its block. */
typedef struct instruction {
    loop_kind kind;
    int number; /* in the program */
    int operand
        [3]; /* values of the block; of a loop: what it carries first, what rows are made of; the last two are read by bodies */
    double by;
    bool flag;          /* plain: an alternative; of a loop: it counts its steps */
    int axis;           /* plain */
    int op;             /* plain */
    int steps;          /* of a scan; a while takes at most so many */
    bool reverse;       /* of a scan */
    int carried, rows;  /* images and rows of a loop; arguments of a branch */
    int made;           /* rows of results of a scan; results of a branch */
    unsigned used;      /* which of carried and made its value is computed from */
    int body, other_of; /* blocks; the other: of a branch */
} instruction;

/* Values of a block: what it is given (carried, rows, count, from outside), then one per instruction. */
typedef struct block {
    int given, count, result_count;
    instruction of[MOST_IN_BLOCK];
    int result[MOST_GIVEN_BACK];
} block;

typedef struct loop_program {
    bt_dtype dtype;
    bt_shape shape;
    bool evaluated_first; /* before gradients are taken */
    bool perturbed;       /* what scans give is changed by one, to test the search for differences */
    int block_count, instruction_count;
    block blocks[MOST_BLOCKS]; /* the first is the function itself */
} loop_program;

/* loops_draw.c. Small: for comparing with what is written out, of float64. */
void draw_loops(uint64_t seed, bool small, loop_program *p);
void print_loops(const loop_program *p, const bool *skip, FILE *file);

/* loops_ops.c: operations on values of the program's shape, which give such a value. */
typedef struct operands {
    bt_array *a, *b, *c;
    double by;
    int axis;
    bool flag;
} operands;
typedef struct plain_op {
    const char *name;
    bt_array *(*of)(const operands *o);
    int least_rank;
} plain_op;
extern const plain_op plain_ops[];
extern const int plain_op_count;

/* loops_record.c. An instruction that is skipped gives its first operand. */
void record_loops(const loop_program *p, loop_form form, const bool *skip, bt_array *const *inputs, bt_array **results);

/* loops_modes.c: numbers between -1 and 1: the inputs, and behind them as many directions to derive along. */
void make_loop_inputs(const loop_program *p, uint64_t seed, bt_array **inputs);
/* Results of inputs, gradients of a number that is made of them, and tangents along the directions behind the inputs: LOOP_MADE in all. `evaluate`: the
 * results, before the gradients are taken. */
void record_loop_results(const loop_program *p, const bool *skip, bt_array *const *in, bool evaluate, bt_array **made);
/* As run_program (program.h): results, their gradients and tangents, and those of a function. */
void run_loops(uint64_t seed, const bool *skip, FILE *print, const char *perturb, outcomes *out);
/* loops_forms.c: derivatives and batches, one in the other, of loops beside those of what is written out. As check_calls. */
const char *check_loops(uint64_t seed);
/* loops_plans.c: their evaluations come again, with what differs inside of bodies, or is read there. */
const char *check_loop_plans(uint64_t seed);

#endif
