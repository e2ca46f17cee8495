/* Shared by the files of the fake libnccl. */
#ifndef BERTH_TESTS_FAKES_LIBNCCL_H
#define BERTH_TESTS_FAKES_LIBNCCL_H

#include "drivers/cuda/nccl.h"
#include "fakes/stream.h"

/* An all-reduce of the ranks that called it; an operation of all their streams. */
typedef struct fake_fold {
    int count, type, operation;
    size_t elements;
    char wrong[160]; /* why it never ends; empty: it ends */
    uint64_t from[FAKE_MOST], to[FAKE_MOST];
} fake_fold;

size_t fake_fold_bytes(int type); /* of an element; 0: unknown */
void fake_run_fold(void *fold);

#endif
