/* Maps in halves. In the original layout a block of Threefry gives two random words whose numbers are half of all apart (the row
 * `random_word` of ops.def). A map that draws all of them runs over half of its points, and its program does two points at once: what differs
 * between them stands twice, with operands of its own, and two words are the two of one block. What runs it, and what writes it as text, see
 * an ordinary map. */
#ifndef BTI_IR_HALVES_H
#define BTI_IR_HALVES_H

#include "ir/kernel.h"

/* Whether a kernel has random words at all. */
bool bti_kernel_draws(const bti_kernel *kernel);
/* The axis whose halves the points are taken from; -1: the map draws no such words, or its program has no room to stand twice. Of the box's
 * addresses those of index operands alone are looked at. */
int bti_halves_axis(const bti_kernel *kernel, const bti_box *box);
/* The kernel, and a box of it, in halves of such an axis. */
void bti_halves_kernel(const bti_kernel *kernel, int axis, bti_kernel *halved);
void bti_halves_box(const bti_kernel *kernel, int axis, bti_box *box);

#endif
