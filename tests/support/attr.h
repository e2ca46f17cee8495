/* Attributes from a list of numbers: what tests over many operations draw and say. */
#ifndef TESTS_SUPPORT_ATTR_H
#define TESTS_SUPPORT_ATTR_H

#include <stdlib.h>
#include <string.h>

#include "ir/attr.h"

/* The numbers stand in the order of the members of the operation's kind; of a slice: all starts, then all steps; of a
 * window: the groups, then of each axis stride, places before and dilation; of attention: what is read. */
static inline bti_attr attr_of(bti_op op, int count, const int64_t *numbers) {
    bti_attr attr;
    memset(&attr, 0, sizeof attr);
    for (int i = 0; i < count; i++) switch (bti_op_info(op)->attr) {
        case BTI_ATTR_none: break;
        case BTI_ATTR_constant: attr.constant.bits = (uint64_t)numbers[0]; break;
        case BTI_ATTR_size: attr.size.size = numbers[0]; break;
        case BTI_ATTR_word: attr.word.index = (int)numbers[0]; break;
        case BTI_ATTR_fold: *(i ? &attr.fold.or_start : &attr.fold.axes) = (uint32_t)numbers[i]; break;
        case BTI_ATTR_axis: attr.axis.axis = (int)numbers[0]; break;
        case BTI_ATTR_running: *(i ? &attr.running.reverse : &attr.running.axis) = (int)numbers[i]; break;
        case BTI_ATTR_top: *(i ? &attr.top.k : &attr.top.axis) = (int)numbers[i]; break;
        case BTI_ATTR_permute: attr.permute.axis[i] = (int)numbers[i]; break;
        case BTI_ATTR_slice:
            if (i < count / 2)
                attr.slice.start[i] = numbers[i];
            else
                attr.slice.step[i - count / 2] = numbers[i];
            break;
        case BTI_ATTR_pad: attr.pad.before[i] = numbers[i]; break;
        case BTI_ATTR_window:
            if (i) {
                int64_t *of[] = {attr.window.stride, attr.window.before, attr.window.dilation};
                of[(i - 1) % 3][(i - 1) / 3] = numbers[i];
                break;
            }
            attr.window.groups = numbers[0];
            for (int axis = 0; axis < BTI_CONV_AXES; axis++) attr.window.stride[axis] = attr.window.dilation[axis] = 1;
            break;
        case BTI_ATTR_attention: attr.attention.scale = 1, attr.attention.reads = numbers[0]; break;
        default: abort();
        }
    return attr;
}

#endif
