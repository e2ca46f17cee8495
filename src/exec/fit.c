#include "exec/fit.h"

#include <pthread.h>

#include "base/fit.h"
#include "base/fork.h"

static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;
BTI_RENEW_IN_CHILD(taking)
static bti_fit_step steps[BTI_MAX_DEVICES]; /* of whoever holds the lock; nothing added: not of that device */

static void begin(int device, size_t added) {
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    bt_device *named = bti_device_at(device);
    if (bt_memory(named, &memory) != BT_OK) bt_error_clear();
    steps[device] = (bti_fit_step){.device = bt_device_name(named), .in_use = memory.used, .added = added};
}

bool bti_fit_begin(const bti_plan *plan) {
    if (!bti_fit_on()) return false;
    int64_t added[BTI_MAX_DEVICES];
    bti_plan_memory(plan, bti_block_bytes, added, BTI_MAX_DEVICES);
    pthread_mutex_lock(&taking);
    for (int d = 0; d < BTI_MAX_DEVICES; d++)
        if (added[d]) begin(d, (size_t)added[d]);
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        bti_fit_step *step = &steps[storage->device];
        bool taken = storage->offset >= 0 || bti_plan_reserves(plan, storage);
        if (!taken || (uint64_t)storage->bytes <= step->largest) continue;
        step->largest = (uint64_t)storage->bytes;
        step->place = storage->node->place;
    }
    return true;
}

bool bti_fit_begin_upload(const bti_buffer *buffer) {
    if (!bti_fit_on() || !buffer->bytes) return false;
    pthread_mutex_lock(&taking);
    begin(buffer->device, bti_block_bytes(buffer->device, buffer->bytes));
    steps[buffer->device].largest = buffer->bytes;
    steps[buffer->device].place = buffer->place;
    return true;
}

void bti_fit_end(bool reserved) {
    for (int d = 0; d < BTI_MAX_DEVICES; d++) {
        if (steps[d].added) bti_fit_predict(d, &steps[d], reserved);
        steps[d] = (bti_fit_step){0};
    }
    pthread_mutex_unlock(&taking);
}
