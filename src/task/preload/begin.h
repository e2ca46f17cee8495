/* What libberth and libberth-nest.so agree on for a nest that begins in a program that is started again (exec). Plain C, without the rest
 * of the library. */
#ifndef BTI_TASK_PRELOAD_BEGIN_H
#define BTI_TASK_PRELOAD_BEGIN_H

#include <stdint.h>

#define BTI_BEGIN_VARIABLE "BERTH_NEST" /* "memory file,pipe,address,bytes,state,path of libberth" */
#define BTI_BEGIN_FORMAT "%d,%d,%" PRIx64 ",%" PRIx64 ",%" PRIx64
#define BTI_BEGIN_PRELOADED "BERTH_NEST_PRELOAD" /* LD_PRELOAD as it was before, if it was set */
#define BTI_BEGIN_PRELOAD_MARK "bti_nest_preloaded"
#define BTI_BEGIN_LIBRARY "libberth-nest.so"

enum { BTI_BEGIN_TAKEN = 'T' }; /* written to the pipe when the address of the memory is not free */

typedef void bti_begin_function(uint64_t state, int pipe);
#define BTI_BEGIN_ENTRY "bti_nest_begin"

#endif
