/* Information about the library itself: the compiler and libraries of the CPU, primitives and operations. */
#include <berth/view.h>
#include <stdio.h>

#include "array/plan_log.h"
#include "base/sized.h"
#include "drivers/cpu/compiled/compiled.h"
#include "drivers/cpu/fft/fftw.h"
#include "drivers/cpu/product/product.h"
#include "drivers/cpu/target.h"
#include "ir/op.h"

/* --- the compiler and the libraries of products --------------------------------------------------------------------- */

static void fill_compiler_texts(bt_compiler_info *info, const bti_compiled_ledger *ledger) {
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
    fill_compiler_texts(&known, &ledger);
    bti_info_give(&compiler_layout, &known, info);
    return BT_OK;
}

static const char *const library_names[] = {"oneDNN", "OpenBLAS", "FFTW, float32", "FFTW, float64"};
int bt_library_count(void) { return (int)(sizeof library_names / sizeof *library_names); }

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
    bti_library_state fftw;
    const bti_library_state *library = index > 1 ? &fftw : index ? &state.openblas : &state.onednn;
    if (index > 1)
        bti_fft_look(index == 2 ? BT_F32 : BT_F64, &fftw, trial);
    else
        bti_product_look(&state, trial);
    bt_library_info known = {.name = library_names[index], .open_ns = library->open_ns}, *info = &known;
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

/* --- primitives and operations --------------------------------------------------------------------------------------- */

static const char *const families[] = {[BTI_SOURCE] = "source",     [BTI_ELEMENTWISE] = "elementwise",
                                       [BTI_REDUCE] = "reduce",     [BTI_SCAN] = "scan",
                                       [BTI_MOVEMENT] = "movement", [BTI_GATHER] = "gather",
                                       [BTI_HEAVY] = "heavy",       [BTI_EFFECT] = "effect",
                                       [BTI_CONTROL] = "control",   [BTI_HOST] = "host",
                                       [BTI_ORDER] = "order",       [BTI_COLLECTIVE] = "collective"};

static const char *const dtype_rules[] = {[BTI_ANY] = "any",   [BTI_NUMBER] = "number",       [BTI_FLOAT] = "float",
                                          [BTI_BITS] = "bits", [BTI_COMPARE] = "any to bool", [BTI_OWN] = "own"};

int bt_primitive_count(void) { return BTI_OP_COUNT; }

#define MEMBER(name) BTI_MEMBER(bt_primitive_info, name)
static const bti_member primitive_members[] = {MEMBER(size),   MEMBER(name),     MEMBER(family), MEMBER(inputs),
                                               MEMBER(dtypes), MEMBER(gradient), MEMBER(doc)};
#undef MEMBER
static const bti_sized_type primitive_layout = BTI_SIZED_TYPE(
    bt_primitive_info, "contents of info", "bt_primitive_info info = BT_PRIMITIVE_INFO_INIT", primitive_members, NULL);

bt_status bt_primitive_describe(int index, bt_primitive_info *info) {
    BTI_TRY(bti_sized_check(&primitive_layout, "bt_primitive_describe", info));
    if (index < 0 || index >= BTI_OP_COUNT)
        return bti_fail(BT_OUT_OF_RANGE, "bt_primitive_describe: there are %d primitives, not number %d", BTI_OP_COUNT,
                        index);
    const bti_op_row *row = bti_op_info((bti_op)index);
    bt_primitive_info known = {sizeof known,  row->name, families[row->class], row->arity, dtype_rules[row->dtype_rule],
                               row->gradient, row->doc};
    bti_info_give(&primitive_layout, &known, info);
    return BT_OK;
}

int bt_operation_count(void) {
    int count = 0;
    while (bti_name_at(count)) count++;
    return count;
}

const char *bt_operation_name(int index, const char **log_name) {
    const bti_op_name *row = bti_name_at(index);
    if (log_name) *log_name = row ? row->log_name : NULL;
    return row ? row->public_name : NULL;
}
