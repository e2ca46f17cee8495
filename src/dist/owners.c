/* Sharded optimiser states: which replica owns which parameter. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dist/strategy.h"
#include "function/shared.h"
#include "nn/optimizer.h"

typedef struct sized {
    int64_t bytes;
    int index;
} sized;

static int larger_first(const void *a, const void *b) {
    const sized *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->index - y->index;
}

bt_status bti_strategy_owners(const bt_strategy *strategy, bt_shared *const *parameters, int count, int *owners) {
    int64_t owned[BTI_MAX_REPLICAS] = {0};
    sized *order = bti_alloc((size_t)count * sizeof *order + 1);
    if (!order) return bti_no_memory();
    for (int i = 0; i < count; i++) order[i] = (sized){bti_shared_bytes(parameters[i]), i};
    qsort(order, (size_t)count, sizeof *order, larger_first);
    for (int i = 0; i < count; i++) {
        int least = 0;
        for (int r = 1; r < strategy->count; r++)
            if (owned[r] < owned[least]) least = r;
        owners[order[i].index] = least;
        owned[least] += order[i].bytes;
    }
    bti_free(order);
    return BT_OK;
}

bt_status bti_strategy_place(const bt_strategy *strategy, bt_optimizer *optimizer, bt_shared *const *parameters,
                             int count) {
    if (!strategy || !strategy->sharded) return bti_optimizer_place(optimizer, parameters, NULL, count);
    int *owners = bti_alloc((size_t)count * sizeof *owners + 1);
    bt_status status = owners ? bti_strategy_owners(strategy, parameters, count, owners) : bti_no_memory();
    if (status == BT_OK) status = bti_optimizer_place(optimizer, parameters, owners, count);
    bti_free(owners);
    return status;
}
