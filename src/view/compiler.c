/* What compiles the kernels of the CPU, and what multiplies for it, for people. */
#include <berth/view.h>
#include <stdio.h>

#include "base/error.h"
#include "drivers/cpu/compiled.h"
#include "drivers/cpu/product_library.h"
#include "drivers/cpu/target.h"

static void fill_texts(bt_compiler_info *info, const bti_compiled_ledger *ledger) {
    const bti_llvm_state *llvm = &ledger->llvm;
    if (llvm->opened)
        snprintf(info->library, sizeof info->library, "%s, %u.%u.%u", llvm->library, llvm->version[0], llvm->version[1],
                 llvm->version[2]);
    snprintf(info->library_reason, sizeof info->library_reason, "%s",
             *llvm->reason ? llvm->reason : ledger->trial_reason);
    snprintf(info->cache, sizeof info->cache, "%s", ledger->cache.folder);
    snprintf(info->cache_reason, sizeof info->cache_reason, "%s", ledger->cache.reason);
}

bt_status bt_compiler(bool trial, bt_compiler_info *info) {
    if (!info || info->size < sizeof *info)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_compiler: info must be set by BT_COMPILER_INFO_INIT");
    bti_compiled_ledger ledger;
    bti_compiled_look(&ledger, trial);
    *info = (bt_compiler_info){
        .size = sizeof *info,
        .vector = bti_target_name(bti_cpu_target()),
        .open_ns = ledger.llvm.open_ns,
        .trial_ns = ledger.trial_ns,
        .kernels = ledger.kernels,
        .compile_ns = ledger.compile_ns,
        .hits = ledger.cache.hits,
        .misses = ledger.cache.misses,
        .stores = ledger.cache.stores,
        .refused = ledger.cache.refused,
        .files = ledger.cache.files,
        .bytes = ledger.cache.bytes,
    };
    fill_texts(info, &ledger);
    return BT_OK;
}

int bt_library_count(void) { return 2; }

bt_status bt_library_describe(int index, bool trial, bt_library_info *info) {
    if (!info || info->size < sizeof *info)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_library_describe: info must be set by BT_LIBRARY_INFO_INIT");
    if (index < 0 || index >= bt_library_count())
        return bti_fail(BT_OUT_OF_RANGE, "bt_library_describe: there is no library %d", index);
    bti_product_state state;
    bti_product_look(&state, trial);
    const bti_library_state *library = index ? &state.openblas : &state.dnnl;
    *info = (bt_library_info){.size = sizeof *info, .name = index ? "OpenBLAS" : "oneDNN", .open_ns = library->open_ns};
    if (library->opened) snprintf(info->library, sizeof info->library, "%s, %s", library->library, library->version);
    snprintf(info->reason, sizeof info->reason, "%s", library->reason);
    if (index == 0) {
        info->kept = state.primitives;
        info->made = state.made, info->found = state.found, info->evicted = state.evicted;
    }
    return BT_OK;
}
