/* What plans for cards that load CUDA C are made by (ir/target.h): the figures of a typical card, for real ones and for simulated ones that have a model. */
#ifndef BTI_DRIVERS_CUDA_FACTS_H
#define BTI_DRIVERS_CUDA_FACTS_H

#include "ir/target.h"

#define BTI_CUDA_FACTS                                                                                    \
    .lanes = 32, .group_threads = 1024, .units = 100, .local_bytes = 48 << 10, .cache_bytes = 1 << 20,    \
    .bandwidth = 2000, .f64_slowdown = 2, .epilogues = true, .launch_boxes = 24, .bucket_bytes = 4 << 20, \
    .sends = true

#endif
