/* Threefry-2x32-20 as straight integer code: reference/math.c. */
#include "render/llvm_parts.h"

#define OP(operation, x, y) bti_llvm_op(w, operation, BTI_LLVM_I32, x, y)
#define INT(operation, x, y) bti_llvm_op_int(w, operation, BTI_LLVM_I32, x, y)
#define SELECT(condition, x, y) bti_llvm_select(w, BTI_LLVM_I32, condition, x, y)

static bti_temp rotated(bti_llvm *w, bti_temp x, int by) {
    return bti_llvm_intrinsic(w, "fshl", BTI_LLVM_I32, 3, (bti_temp[]){x, x, bti_llvm_int(w, BTI_LLVM_I32, by)});
}

static void block(bti_llvm *w, const bti_instr *instr, bti_temp a, bti_temp b, bti_temp words[2]) {
    static const int rotation[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    bti_temp key[3] = {bti_llvm_held(w, instr->arg[0]), bti_llvm_held(w, instr->arg[1])};
    key[2] = INT("xor", OP("xor", key[0], key[1]), 0x1BD11BDA);
    a = OP("add", a, key[0]);
    b = OP("add", b, key[1]);
    for (int group = 0; group < 5; group++) {
        for (int round = 0; round < 4; round++) {
            a = OP("add", a, b);
            b = OP("xor", rotated(w, b, rotation[group % 2][round]), a);
        }
        a = OP("add", a, key[(group + 1) % 3]);
        b = OP("add", b, INT("add", key[(group + 2) % 3], group + 1));
    }
    words[0] = a;
    words[1] = b;
}

bti_temp bti_llvm_threefry(bti_llvm *w, const bti_instr *instr) {
    bti_temp words[2];
    block(w, instr, bti_llvm_held(w, instr->arg[2]), bti_llvm_held(w, instr->arg[3]), words);
    return words[instr->attr];
}

/* Both words of blocks number, half + number; the second is kept for the other half of the pair. */
static bti_temp paired(bti_llvm *w, int number) {
    const bti_instr *instr = &w->kernel->instrs[number];
    bti_temp words[2], first = bti_llvm_held(w, instr->arg[2]), half = bti_llvm_held(w, instr->arg[3]);
    if (w->second) return w->second_word[number];
    block(w, instr, first, OP("add", INT("lshr", half, 1), first), words);
    w->second_word[number] = words[1];
    return words[0];
}

bti_temp bti_llvm_random_word(bti_llvm *w, int number_of_instr) {
    const bti_instr *instr = &w->kernel->instrs[number_of_instr];
    bti_temp number = bti_llvm_held(w, instr->arg[2]), count = bti_llvm_held(w, instr->arg[3]), words[2];
    if (w->mode == BTI_LLVM_PAIR && bti_kernel_paired_word(w->kernel, number_of_instr))
        return paired(w, number_of_instr);
    bti_temp half = OP("add", INT("lshr", count, 1), INT("and", count, 1));
    bti_temp first = OP("icmp ult", number, half);
    bti_temp i = SELECT(first, number, OP("sub", number, half));
    bti_temp paired = OP("icmp ult", i, OP("sub", count, half));
    bti_temp second = SELECT(paired, OP("add", half, i), bti_llvm_int(w, BTI_LLVM_I32, 0));
    block(w, instr, i, second, words);
    return SELECT(first, words[0], words[1]);
}
