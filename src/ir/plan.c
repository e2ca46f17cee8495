#include "ir/plan.h"

void bti_plan_free(bti_plan *plan) {
    bti_vec_free(&plan->storages);
    bti_vec_free(&plan->values);
    bti_vec_free(&plan->operands);
    bti_vec_free(&plan->steps);
    bti_vec_free(&plan->results);
    for (size_t k = 0; k < plan->kernels.count; k++) bti_free(plan->kernels.items[k]);
    bti_vec_free(&plan->kernels);
    bti_vec_free(&plan->numbers);
    bti_vec_free(&plan->scalars);
    bti_vec_free(&plan->members);
    bti_vec_free(&plan->arenas);
}

void bti_plan_memory(const bti_plan *plan, int64_t *bytes, int devices) {
    for (int d = 0; d < devices; d++) bytes[d] = (size_t)d < plan->arenas.count ? plan->arenas.items[d] : 0;
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        bool kept = storage->last_step == (int32_t)plan->steps.count;
        if (!storage->external && (kept || storage->arrived) && storage->device < devices)
            bytes[storage->device] += storage->bytes;
    }
}
