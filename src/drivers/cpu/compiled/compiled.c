#include "drivers/cpu/compiled/compiled.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/trace.h"
#include "drivers/cpu/target.h"

enum { RUN, PART, FINISH, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"bti_run", "bti_part", "bti_finish"};

static atomic_uint_fast64_t kernels, compile_ns;

static bt_status load_functions(const bti_str *object, bti_target target, bti_compiled *compiled) {
    void *functions[FUNCTIONS];
    BTI_TRY(bti_object_load(object->text, object->length, target, names, FUNCTIONS, functions, &compiled->object));
    compiled->run = (bti_run_function *)functions[RUN];
    compiled->part = (bti_part_function *)functions[PART];
    compiled->finish = (bti_finish_function *)functions[FINISH];
    return BT_OK;
}

/* A cached object that cannot be loaded is deleted and counts as not found. */
static bt_status find_cached(bti_cache_key key, bti_target target, bti_compiled *compiled, bool *found) {
    bti_str object = {0};
    bt_status status = BT_OK;
    *found = bti_cache_find(key, &object);
    if (*found) {
        bool before = bti_errors_quiet(true);
        status = load_functions(&object, target, compiled);
        bti_errors_quiet(before);
        if (status == BT_DATA_LOSS || status == BT_INTERNAL) {
            bti_cache_refuse(key);
            *found = false;
            status = BT_OK;
        }
    }
    bti_str_free(&object);
    return status;
}

/* Compiles; *ns is the time, without that of opening LLVM. */
static bt_status compile_timed(const bti_str *text, bti_target target, bti_str *object, uint64_t *ns) {
    bti_llvm_state before, after;
    bti_llvm_look(&before);
    uint64_t start = bti_now_ns();
    bt_status status = bti_llvm_compile(text, target, object);
    uint64_t took = bti_now_ns() - start;
    bti_llvm_look(&after);
    uint64_t opening = before.opened ? 0 : after.open_ns;
    *ns = took > opening ? took - opening : 0;
    return status;
}

static bt_status compile_and_store(bti_cache_key key, const bti_str *text, bti_target target, bti_compiled *compiled) {
    bti_str object = {0};
    bti_llvm_state llvm;
    uint64_t ns;
    bt_status status;
    BTI_TRY_OR(compile_timed(text, target, &object, &ns), end);
    atomic_fetch_add(&kernels, 1);
    atomic_fetch_add(&compile_ns, ns);
    BTI_TRY_OR(load_functions(&object, target, compiled), end);
    bti_llvm_look(&llvm);
    bti_cache_store(key, &object, llvm.version);
end:
    bti_str_free(&object);
    return status;
}

bt_status bti_compiled_get(const bti_kernel *kernel, const bti_str *text, bti_target target, bti_compiled **compiled) {
    if (!bti_cpu_has(target))
        return bti_fail(BT_UNIMPLEMENTED, "this CPU does not run code for %s", bti_target_name(target));
    bt_status status = BT_OK;
    bti_compiled *made = bti_calloc(1, sizeof *made);
    if (!made || text->failed) {
        status = bti_no_memory();
    } else {
        bti_cache_key key = bti_cache_key_of(text, target, "");
        bool found;
        char name[48];
        bti_kernel_name(name, sizeof name, kernel);
        uint64_t start = bti_trace_begin();
        status = find_cached(key, target, made, &found);
        if (found) bti_trace_end(BTI_TRACE_CACHE, name, start);
        if (status == BT_OK && !found) {
            status = compile_and_store(key, text, target, made);
            bti_trace_end(BTI_TRACE_COMPILE, name, start);
        }
    }
    if (status == BT_OK)
        *compiled = made;
    else
        bti_free(made);
    return status;
}

void bti_compiled_free(bti_compiled *compiled) {
    if (!compiled) return;
    bti_object_free(&compiled->object);
    bti_free(compiled);
}

/* --- state -------------------------------------------------------------------------------------------------------- */

static const char trial_text[] = "define i64 @bti_trial(i64 %x) nounwind {\n"
                                 "  %square = mul i64 %x, %x\n"
                                 "  %sum = add i64 %square, 6\n"
                                 "  ret i64 %sum\n"
                                 "}\n";

static bt_status try_compiler(uint64_t *ns) {
    static const char *const name = "bti_trial";
    bti_str text = {0}, code = {0};
    bti_code_object object = {0};
    void *function;
    bti_target target = bti_cpu_target();
    bt_status status;
    bti_str_add(&text, trial_text);
    if (!bti_cpu_has(target))
        status = bti_fail(BT_UNIMPLEMENTED, "kernels are compiled for x86-64 and aarch64 only");
    else
        status = compile_timed(&text, target, &code, ns);
    if (status == BT_OK) status = bti_object_load(code.text, code.length, target, &name, 1, &function, &object);
    if (status == BT_OK && (!function || ((int64_t(*)(int64_t))function)(-6) != 42))
        status = bti_fail(BT_INTERNAL, "the trial's code gives a wrong result");
    bti_object_free(&object);
    bti_str_free(&text);
    bti_str_free(&code);
    return status;
}

void bti_compiled_look(bti_compiled_ledger *ledger, bool attempt) {
    *ledger = (bti_compiled_ledger){.kernels = kernels, .compile_ns = compile_ns};
    if (attempt) {
        bool before = bti_errors_quiet(true);
        if (try_compiler(&ledger->trial_ns) != BT_OK) {
            snprintf(ledger->trial_reason, sizeof ledger->trial_reason, "%s", bt_error_text());
            ledger->trial_ns = 0;
        }
        bti_errors_quiet(before);
    }
    bti_llvm_look(&ledger->llvm);
    bti_cache_look(&ledger->cache, attempt);
}

void bti_compiled_reset(void) {
    atomic_store(&kernels, 0);
    atomic_store(&compile_ns, 0);
    bti_cache_reset();
}
