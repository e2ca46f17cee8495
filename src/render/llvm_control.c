#include "render/llvm_parts.h"

static int new_label(bti_llvm *w) { return w->labels++; }

static void place(bti_llvm *w, int label) {
    bti_str_addf(w->text, "b%d:\n", label);
    w->block = label;
}

static void jump(bti_llvm *w, int label) { bti_llvm_line(w, "br label %%b%d", label); }

static void split(bti_llvm *w, bti_temp condition, int yes, int no) {
    bti_llvm_line(w, "br i1 %%t%d, label %%b%d, label %%b%d", condition, yes, no);
}

static bti_temp phi(bti_llvm *w, const char *type, bti_temp a, int from_a, bti_temp b, int from_b) {
    bti_temp result = bti_llvm_new(w);
    bti_llvm_line(w, "%%t%d = phi %s [ %%t%d, %%b%d ], [ %%t%d, %%b%d ]", result, type, a, from_a, b, from_b);
    return result;
}

static const char *type_of(const bti_llvm_carry *carry, int i) {
    return bti_llvm_name((bti_llvm_type)carry->type[i], carry->lanes);
}

void bti_llvm_loop_begin(bti_llvm *w, bti_llvm_loop *loop, bti_temp from, bti_temp bound, int64_t step,
                         bti_llvm_carry *carry) {
    int before = w->block;
    *loop = (bti_llvm_loop){.head = new_label(w), .latch = new_label(w), .bound = bound, .step = step, .carry = carry};
    loop->next = bti_llvm_new(w);
    loop->carried = w->temps; /* names for the values at the latch */
    if (carry) w->temps += carry->count;
    jump(w, loop->head);
    place(w, loop->head);
    loop->index = phi(w, "i64", from, before, loop->next, loop->latch);
    for (int i = 0; carry && i < carry->count; i++)
        carry->value[i] = phi(w, type_of(carry, i), carry->value[i], before, loop->carried + i, loop->latch);
}

void bti_llvm_loop_end(bti_llvm *w, bti_llvm_loop *loop) {
    bti_llvm_carry *carry = loop->carry;
    bti_temp more = bti_llvm_new(w);
    int end = new_label(w);
    jump(w, loop->latch);
    place(w, loop->latch);
    for (int i = 0; carry && i < carry->count; i++) {
        bti_llvm_line(w, "%%t%d = bitcast %s %%t%d to %s", loop->carried + i, type_of(carry, i), carry->value[i],
                      type_of(carry, i));
        carry->value[i] = loop->carried + i;
    }
    bti_llvm_line(w, "%%t%d = add nsw i64 %%t%d, %lld", loop->next, loop->index, (long long)loop->step);
    bti_llvm_line(w, "%%t%d = icmp slt i64 %%t%d, %%t%d", more, loop->next, loop->bound);
    split(w, more, loop->head, end);
    place(w, end);
}

void bti_llvm_if_begin(bti_llvm *w, bti_llvm_if *branch, bti_temp condition, bti_llvm_carry *carry) {
    int yes = new_label(w);
    branch->before = w->block;
    branch->join = new_label(w);
    branch->carry = carry;
    if (carry) branch->saved = *carry;
    split(w, condition, yes, branch->join);
    place(w, yes);
}

void bti_llvm_if_end(bti_llvm *w, bti_llvm_if *branch) {
    int inside = w->block;
    bti_llvm_carry *carry = branch->carry;
    jump(w, branch->join);
    place(w, branch->join);
    for (int i = 0; carry && i < carry->count; i++)
        carry->value[i] = phi(w, type_of(carry, i), carry->value[i], inside, branch->saved.value[i], branch->before);
}
