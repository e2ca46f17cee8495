/* What compiles the kernels of the CPU, and what multiplies for it, for people. */
#include <berth/view.h>
#include <stdio.h>

#include "base/sized.h"
#include "drivers/cpu/compiled/compiled.h"
#include "drivers/cpu/product/product.h"
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

#define MEMBER(name) BTI_MEMBER(bt_compiler_info, name)
static const bti_member compiler_members[] = {
    MEMBER(size),    MEMBER(vector),   MEMBER(library), MEMBER(library_reason), MEMBER(cache), MEMBER(cache_reason),
    MEMBER(open_ns), MEMBER(trial_ns), MEMBER(kernels), MEMBER(compile_ns),     MEMBER(hits),  MEMBER(misses),
    MEMBER(stores),  MEMBER(refused),  MEMBER(files),   MEMBER(bytes)};
#undef MEMBER
static const bti_sized_type compiler_layout = BTI_SIZED_TYPE(
    bt_compiler_info, "contents of info", "bt_compiler_info info = BT_COMPILER_INFO_INIT", compiler_members, NULL);

bt_status bt_compiler(bool trial, bt_compiler_info *info) {
    BTI_TRY(bti_sized_check(&compiler_layout, "bt_compiler", info));
    bti_compiled_ledger ledger;
    bti_compiled_look(&ledger, trial);
    bt_compiler_info known = {
        .size = sizeof known,
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
    fill_texts(&known, &ledger);
    bti_info_give(&compiler_layout, &known, info);
    return BT_OK;
}

int bt_library_count(void) { return 2; }

#define MEMBER(name) BTI_MEMBER(bt_library_info, name)
static const bti_member library_members[] = {MEMBER(size),   MEMBER(name),    MEMBER(library),
                                             MEMBER(reason), MEMBER(open_ns), MEMBER(kept),
                                             MEMBER(made),   MEMBER(found),   MEMBER(evicted)};
#undef MEMBER
static const bti_sized_type library_layout = BTI_SIZED_TYPE(
    bt_library_info, "contents of info", "bt_library_info info = BT_LIBRARY_INFO_INIT", library_members, NULL);

bt_status bt_library_describe(int index, bool trial, bt_library_info *given) {
    BTI_TRY(bti_sized_check(&library_layout, "bt_library_describe", given));
    if (index < 0 || index >= bt_library_count())
        return bti_fail(BT_OUT_OF_RANGE, "bt_library_describe: there is no library %d", index);
    bti_product_state state;
    bti_product_look(&state, trial);
    const bti_library_state *library = index ? &state.openblas : &state.onednn;
    bt_library_info known = {.name = index ? "OpenBLAS" : "oneDNN", .open_ns = library->open_ns}, *info = &known;
    if (library->opened) snprintf(info->library, sizeof info->library, "%s, %s", library->library, library->version);
    snprintf(info->reason, sizeof info->reason, "%s", library->reason);
    if (index == 0) {
        const bti_primitive_counts *counts = &state.primitives;
        info->kept = counts->kept, info->made = counts->made, info->found = counts->found,
        info->evicted = counts->evicted;
    }
    bti_info_give(&library_layout, &known, given);
    return BT_OK;
}
