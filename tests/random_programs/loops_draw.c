/* What a seed stands for, and its text. */
#include <string.h>

#include "random_programs/loops.h"

enum {
    DEEPEST = 3,
    LONGEST = 40
}; /* where loops have been begun, their blocks follow: at most 8, of few instructions */

static int draw_block(chance *c, loop_program *p, int given, int result_count, int depth);

static void draw_plain(chance *c, const loop_program *p, instruction *i) {
    do i->op = below(c, plain_op_count);
    while (plain_ops[i->op].least_rank > p->shape.rank);
    i->axis = p->shape.rank ? below(c, p->shape.rank) : 0;
}

/* A loop or a branch, with its bodies. */
static void draw_control(chance *c, loop_program *p, instruction *i, int depth) {
    static const loop_kind kinds[] = {SCAN, SCAN, SCAN, WHILE, WHILE, COND, COND, CHECKPOINTED};
    i->kind = kinds[below(c, 8)];
    i->carried = 1 + below(c, MOST_CARRIED);
    i->steps = below(c, 8) ? 1 + below(c, MOST_STEPS) : 0;
    if (i->kind == SCAN) {
        i->reverse = below(c, 2);
        i->rows = below(c, MOST_ROWS + 1);
        i->made = below(c, MOST_ROWS + 1);
        if (below(c, 6) == 0 && i->made) i->carried = 0, i->flag = false; /* a map */
    }
    if (i->kind == COND) i->made = 1 + below(c, MOST_ROWS);
    if (i->kind == CHECKPOINTED) i->carried = 1 + below(c, 2), i->made = 1;
    if (i->kind == COND || i->kind == CHECKPOINTED) i->flag = false;
    int back = i->kind == SCAN ? i->carried + i->made : i->kind == WHILE ? i->carried : i->made;
    i->used = 1U + (unsigned)below(c, (1 << back) - 1);
    int given = i->carried + i->rows + (i->flag ? 1 : 0) + OUTSIDE;
    i->body = draw_block(c, p, given, back, depth + 1);
    if (i->kind == COND) i->other_of = draw_block(c, p, given, back, depth + 1);
}

static instruction draw_instruction(chance *c, loop_program *p, int values, int depth, bool control) {
    instruction i = {.number = p->instruction_count++, .by = below(c, 7) * 0.25 - 0.6, .flag = below(c, 2)};
    for (int k = 0; k < 3; k++) { /* late values more often */
        int first = below(c, values), second = below(c, values);
        i.operand[k] = first > second ? first : second;
    }
    if (control && depth < DEEPEST && p->block_count <= MOST_BLOCKS - 8 && p->instruction_count < LONGEST)
        draw_control(c, p, &i, depth);
    else
        draw_plain(c, p, &i);
    return i;
}

static int draw_block(chance *c, loop_program *p, int given, int result_count, int depth) {
    int at = p->block_count++;
    block b = {.given = given, .result_count = result_count, .count = 1 + below(c, depth ? 3 : MOST_IN_BLOCK)};
    if (p->instruction_count + b.count > LONGEST) b.count = 1;
    for (int k = 0; k < b.count; k++) {
        bool control = depth ? below(c, 4) == 0 : k == b.count - 1 || below(c, 2);
        b.of[k] = draw_instruction(c, p, given + k, depth, control);
    }
    for (int k = 0; k < result_count; k++) /* now and then what was given, as it is or in the place of another */
        b.result[k] = below(c, 6) ? given + b.count - 1 - below(c, b.count < 3 ? b.count : 3) : below(c, given);
    p->blocks[at] = b;
    return at;
}

void draw_loops(uint64_t seed, bool small, loop_program *p) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 33};
    chance c = {seed * 1000003};
    memset(p, 0, sizeof *p);
    int form = below(&c, 10);
    p->shape.rank = form == 0 ? 0 : form < 6 ? 1 : 2;
    for (int k = 0; k < p->shape.rank; k++) p->shape.size[k] = small ? 1 + below(&c, 3) : sizes[below(&c, 8)];
    p->dtype = small || below(&c, 2) ? BT_F64 : BT_F32;
    p->evaluated_first = below(&c, 2);
    c.state = seed * 7919 + 1;
    draw_block(&c, p, LOOP_INPUTS, LOOP_RESULTS, 0);
}

/* --- its text ------------------------------------------------------------------------------------------------------------ */

static void print_block(const loop_program *p, int at, int depth, const bool *skip, FILE *file);

static void print_control(const loop_program *p, const instruction *i, int depth, const bool *skip, FILE *file) {
    static const char *const names[] = {"", "scan", "while", "cond", "checkpoint"};
    fprintf(file, "%s%s", names[i->kind], i->reverse ? "_reverse" : "");
    if (i->kind == SCAN) fprintf(file, " of %d steps, %d rows", i->steps, i->rows);
    if (i->kind == WHILE) fprintf(file, " %s, at most %d steps", i->by < 0 ? "by count" : "by data", i->steps);
    if (i->kind == COND) fprintf(file, " on sum(v%d) > %g", i->operand[0], i->by);
    fprintf(file, ", %d %s%s, from v%d v%d v%d; its value is made of results %#x {\n", i->carried,
            i->kind == COND || i->kind == CHECKPOINTED ? "arguments" : "carried", i->flag ? " and a count" : "",
            i->operand[0], i->operand[1], i->operand[2], i->used);
    print_block(p, i->body, depth + 1, skip, file);
    if (i->kind == COND) {
        fprintf(file, "%*s} else {\n", 4 * depth, "");
        print_block(p, i->other_of, depth + 1, skip, file);
    }
    fprintf(file, "%*s}\n", 4 * depth, "");
}

static void print_instruction(const loop_program *p, const instruction *i, int value, int depth, const bool *skip,
                              FILE *file) {
    fprintf(file, "%*sv%d = ", 4 * depth, "", value);
    if (skip && skip[i->number])
        fprintf(file, "v%d\n", i->operand[0]);
    else if (i->kind == PLAIN)
        fprintf(file, "%s of v%d v%d v%d, by %g, axis %d%s\n", plain_ops[i->op].name, i->operand[0], i->operand[1],
                i->operand[2], i->by, i->axis, i->flag ? ", flag" : "");
    else
        print_control(p, i, depth, skip, file);
}

static void print_block(const loop_program *p, int at, int depth, const bool *skip, FILE *file) {
    const block *b = &p->blocks[at];
    fprintf(file, "%*s// given v0 to v%d\n", 4 * depth, "", b->given - 1);
    for (int k = 0; k < b->count; k++) print_instruction(p, &b->of[k], b->given + k, depth, skip, file);
    fprintf(file, "%*sgives", 4 * depth, "");
    for (int k = 0; k < b->result_count; k++)
        fprintf(file, b->result[k] < b->given ? " v%d" : " tanh(v%d)", b->result[k]);
    fprintf(file, "\n");
}

void print_loops(const loop_program *p, const bool *skip, FILE *file) {
    fprintf(file, "    // %s [", bt_dtype_name(p->dtype));
    for (int k = 0; k < p->shape.rank; k++) fprintf(file, "%s%d", k ? ", " : "", (int)p->shape.size[k]);
    fprintf(file, "]%s\n", p->evaluated_first ? ", evaluated before gradients are taken" : "");
    print_block(p, 0, 1, skip, file);
}
