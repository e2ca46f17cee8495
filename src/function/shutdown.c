/* Waiting for all work, and closing the library. */
#include <berth/view.h>

#include "array/eval.h"
#include "array/plan_cache.h"
#include "base/cores.h"
#include "base/recycle.h"
#include "device/late.h"
#include "device/pinned_list.h"
#include "exec/exec.h"
#include "exec/host.h"
#include "function/function.h"
#include "function/shared.h"

void bt_synchronize(void) {
    BTI_PUBLIC_WAITING("bt_synchronize");
    if (bti_device_check_fork() != BT_OK) return;
    (void)!bti_eval_nodes(NULL, 0, false);
    bti_exec_finish();
}

static bt_status refuse_held(uint64_t arrays, uint64_t variables, uint64_t functions) {
    if (!arrays && !variables && !functions) return BT_OK;
    return bti_fail(BT_FAILED_PRECONDITION,
                    "%llu arrays, %llu shared variables and %llu functions are still held (bt_retain, bt_assign, "
                    "bt_shared_retain...); release them first",
                    (unsigned long long)arrays, (unsigned long long)variables, (unsigned long long)functions);
}

static bt_status refuse_pinned(size_t blocks) {
    if (!blocks) return BT_OK;
    return bti_fail(BT_FAILED_PRECONDITION, "%zu blocks of bt_pinned are still held; free them first (bt_pinned_free)",
                    blocks);
}

bt_status bt_shutdown(void) {
    BTI_PUBLIC("bt_shutdown");
    BTI_TRY(bti_host_check());
    if (bti_in_device_block())
        return bti_fail(
            BT_FAILED_PRECONDITION,
            "a BT_ON, BT_DEFAULT, BT_REPLICA or BT_STRATEGY block of this thread has not ended; end it first");
    if (bti_threads_with_scopes() > 1)
        return bti_fail(BT_FAILED_PRECONDITION, "%d other threads hold arrays in their scopes; let them end first",
                        bti_threads_with_scopes() - 1);
    BTI_TRY(bti_device_check_fork());
    BTI_TRY(refuse_held(bti_held_elsewhere(), 0, 0)); /* best before anything is released */
    BTI_TRY(refuse_pinned(bti_pinned_alive()));
    bt_synchronize();
    BTI_TRY(bti_devices_check_late()); /* a late device may write yet: nothing can be freed */
    bti_release_thread();
    BTI_TRY(refuse_held(bt_live_arrays(), bti_shared_alive(), bti_functions_alive()));
    if (bti_buffers_alive())
        return bti_fail(BT_INTERNAL, "%llu results are in use although no array refers to them: a reference was lost",
                        (unsigned long long)bti_buffers_alive());
    bti_plan_cache_clear();
    bti_exec_shutdown();
    bti_device_shutdown();
    bti_cores_shutdown();
    bti_recycled_trim();
    return BT_OK;
}
