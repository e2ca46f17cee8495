/* Short lines on CPUs. A vector along a line of three elements has three lanes of use. Where the axis before the line is long, vectors run along that axis instead, and the line is a
 * loop around them: the kernel and its boxes are turned, that is, their last two axes change places. Of rows each lane then has a row of its own; the order of folding is
 * that of ir/kernel.h, so the bits are the same. */
#ifndef BTI_LAUNCH_TURNED_H
#define BTI_LAUNCH_TURNED_H

#include "ir/kernel.h"

#define BTI_TURNED_MOST 16 /* elements of a line of a turned box of rows */
#define BTI_TURNED_MAP_MOST \
    6 /* of a map, where finding an element costs more than computing it: longer lines fill their vectors well enough */
#define BTI_TURNED_LEAST 64 /* of the axis that vectors run along then */

/* The nest of the turned kernel. Maps with two axes and more turn, and rows of one axis with a kept axis before it. Of rows: one kept axis less in front, the row's axis, then the line, which is kept. No operand counts as contiguous. */
void bti_kernel_turn(const bti_kernel *kernel, bti_kernel *turned);
/* Whether the lines of the box are short, and those along the axis before them long. */
bool bti_box_turns(const bti_kernel *kernel, const bti_box *box);
void bti_box_turn(const bti_kernel *kernel, const bti_box *box, bti_box *turned);

#endif
