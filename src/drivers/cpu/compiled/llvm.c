#include "drivers/cpu/compiled/llvm.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/libraries.h"
#include "base/trace.h"
#include "base/guard.h"

/* The part of LLVM's C API that is used, as in llvm-c/ of LLVM 16 to 19; its handles are pointers. */
#define LLVM_ENTRIES(ENTRY)                                                                                     \
    ENTRY(void, GetVersion, (unsigned *major, unsigned *minor, unsigned *patch))                                \
    ENTRY(void, InstallFatalErrorHandler, (void (*handler)(const char *reason)))                                \
    ENTRY(void, DisposeMessage, (char *message))                                                                \
    ENTRY(void *, ContextCreate, (void))                                                                        \
    ENTRY(void, ContextDispose, (void *context))                                                                \
    ENTRY(void, ContextSetDiagnosticHandler, (void *context, void (*handler)(void *, void *), void *data))      \
    ENTRY(int, GetDiagInfoSeverity, (void *diagnosis))                                                          \
    ENTRY(char *, GetDiagInfoDescription, (void *diagnosis))                                                    \
    ENTRY(void *, CreateMemoryBufferWithMemoryRange, (const char *, size_t, const char *name, int ends_in_nul)) \
    ENTRY(const char *, GetBufferStart, (void *buffer))                                                         \
    ENTRY(size_t, GetBufferSize, (void *buffer))                                                                \
    ENTRY(void, DisposeMemoryBuffer, (void *buffer))                                                            \
    ENTRY(int, ParseIRInContext, (void *context, void *buffer, void **module, char **message))                  \
    ENTRY(int, VerifyModule, (void *module, int action, char **message))                                        \
    ENTRY(void, DisposeModule, (void *module))                                                                  \
    ENTRY(void, SetModuleDataLayout, (void *module, void *layout))                                              \
    ENTRY(void, DisposeTargetData, (void *layout))                                                              \
    ENTRY(int, GetTargetFromTriple, (const char *triple, void **target, char **message))                        \
    ENTRY(void *, CreateTargetMachine,                                                                          \
          (void *target, const char *triple, const char *cpu, const char *features, int level, int relocation,  \
           int code_model))                                                                                     \
    ENTRY(void, DisposeTargetMachine, (void *machine))                                                          \
    ENTRY(void *, CreateTargetDataLayout, (void *machine))                                                      \
    ENTRY(int, TargetMachineEmitToMemoryBuffer,                                                                 \
          (void *machine, void *module, int kind, char **message, void **buffer))                               \
    ENTRY(void *, CreatePassBuilderOptions, (void))                                                             \
    ENTRY(void, DisposePassBuilderOptions, (void *options))                                                     \
    ENTRY(void *, RunPasses, (void *module, const char *passes, void *machine, void *options))                  \
    ENTRY(char *, GetErrorMessage, (void *error))                                                               \
    ENTRY(void, DisposeErrorMessage, (char *message))

/* LLVM's enums. */
enum {
    SEVERITY_ERROR = 0,
    RETURN_STATUS = 2,
    LEVEL_AGGRESSIVE = 3,
    RELOCATION_PIC = 2,
    MODEL_SMALL = 3,
    OBJECT_FILE = 1
};

/* The text is nearly optimal: common values are shared, invariants leave loops, dead code goes. LLVM 16 to 19 have these passes.
 * "instcombine" is not among them: LLVM 18 fails where it finds no fixed point. */
#define PASSES "function(early-cse,loop-mssa(licm),instsimplify,simplifycfg)"

#define INSTALL "install LLVM's library, 16 to 19 (on Debian the package libllvm16, libllvm17, libllvm18 or libllvm19)"

#define OPEN_ROOM ((size_t)256 << 20)   /* bytes of address space that opening it takes at most */
#define COMPILE_ROOM ((size_t)48 << 20) /* and compiling, beside the reserve */

static const char *const usual_libraries[] = {"libLLVM-16.so.1", "libLLVM-17.so.1", "libLLVM-18.so.1",
                                              "libLLVM.so.18.1", "libLLVM.so.19.1", NULL};

static const struct {
    const char *triple, *features;
} machines[] = {
    [BTI_LLVM_SSE2] = {"x86_64-unknown-linux-gnu", ""},
    [BTI_LLVM_AVX2] = {"x86_64-unknown-linux-gnu", "+avx2,+fma,+f16c"},
    [BTI_LLVM_AVX512] = {"x86_64-unknown-linux-gnu",
                         "+avx2,+fma,+f16c,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl"},
    [BTI_LLVM_NEON] = {"aarch64-unknown-linux-gnu", ""},
};

#define FIELD(result, name, arguments) result(*name) arguments;
static struct { LLVM_ENTRIES(FIELD) } llvm;

BTI_STATIC_LOCK(llvm_lock, llvm) /* of what follows; `llvm` does not change once it is opened */
static const char *const *libraries = usual_libraries;
static bool tried;
static bti_llvm_state now;

/* --- opening ------------------------------------------------------------------------------------------------------ */

static bool resolve_llvm(void *library, const char *library_name, bti_str *reason) {
#define NAME(result, name, arguments) {"LLVM" #name, (void **)&llvm.name},
    static const struct {
        const char *name;
        void **entry;
    } entries[] = {LLVM_ENTRIES(NAME)};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        *entries[i].entry = dlsym(library, entries[i].name);
        if (*entries[i].entry) continue;
        bti_str_addf(reason, "%s: has no %s; ", library_name, entries[i].name);
        return false;
    }
    return true;
}

/* A build of LLVM may lack one of the two targets; compiling for it fails later. */
static void register_targets(void *library) {
    static const char *const targets[] = {"X86", "AArch64"};
    static const char *const parts[] = {"TargetInfo", "Target", "TargetMC", "AsmPrinter"};
    for (int t = 0; t < 2; t++)
        for (int p = 0; p < 4; p++) {
            char name[64];
            snprintf(name, sizeof name, "LLVMInitialize%s%s", targets[t], parts[p]);
            void (*start)(void);
            *(void **)&start = dlsym(library, name);
            if (start) start();
        }
}

static void leave_after_fatal_error(const char *reason);
static void out_of_memory(void *data, const char *reason, bool dump) {
    (void)data, (void)dump;
    leave_after_fatal_error(reason);
}

/* A C++ function of LLVM: without a handler LLVM aborts the process when malloc fails. */
static void install_memory_handlers(void *library) {
    void (*install)(void (*handler)(void *, const char *, bool), void *data);
    *(void **)&install = dlsym(library, "_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");
    if (install) install(out_of_memory, NULL);
    bti_guard_watch(library);
}

static void use_library(void *library, const char *name) {
    llvm.InstallFatalErrorHandler(leave_after_fatal_error);
    install_memory_handlers(library);
    register_targets(library);
    llvm.GetVersion(&now.version[0], &now.version[1], &now.version[2]);
    snprintf(now.library, sizeof now.library, "%s", name);
    now.opened = true;
}

/* Under the lock. */
static void open_llvm(void) {
    uint64_t start = bti_now_ns(), noted = bti_trace_begin();
    bti_str reason = {0};
    for (int i = 0; libraries[i] && !now.opened; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            const char *said = dlerror();
            bti_str_addf(&reason, "%s; ", said ? said : libraries[i]);
        } else if (resolve_llvm(library, libraries[i], &reason)) {
            use_library(library, libraries[i]);
        } else {
            dlclose(library);
        }
    }
    if (now.opened) {
        now.open_ns = bti_now_ns() - start;
        bti_trace_end(BTI_TRACE_LIBRARY, now.library, noted);
    } else
        snprintf(now.reason, sizeof now.reason, "no LLVM: %s%s", bti_str_text(&reason), INSTALL);
    bti_str_free(&reason);
    tried = true;
}

static bt_status ensure_open(void) {
    bt_status status = BT_OK;
    bti_lock_take(&llvm_lock);
    if (!tried) {
        status = bti_guard_room(OPEN_ROOM, "opening LLVM"); /* another time there may be more */
        if (status == BT_OK)
            now.reason[0] = '\0', open_llvm();
        else
            snprintf(now.reason, sizeof now.reason, "%s", bt_error_text());
    }
    if (status == BT_OK && !now.opened) status = bti_fail(BT_UNAVAILABLE, "%s", now.reason);
    bti_lock_give(&llvm_lock);
    return status;
}

void bti_llvm_look(bti_llvm_state *state) {
    bti_lock_take(&llvm_lock);
    *state = now;
    bti_lock_give(&llvm_lock);
}

void bti_llvm_use(const char *const *use) {
    bti_lock_take(&llvm_lock);
    libraries = use ? use : usual_libraries;
    tried = false;
    now = (bti_llvm_state){0};
    bti_lock_give(&llvm_lock);
}

/* --- compiling ---------------------------------------------------------------------------------------------------- */

/* LLVM aborts the process after a fatal error. Instead we jump out of it, leak what it allocated, and never call it again. */
typedef struct guarded_call {
    jmp_buf back;
    char reason[512];
} guarded_call;
static _Thread_local guarded_call *running;

static void leave_after_fatal_error(const char *reason) {
    if (!running) return;
    snprintf(running->reason, sizeof running->reason, "%.*s", (int)strcspn(reason, "\n"), reason);
    longjmp(running->back, 1);
}

static bt_status disable_llvm(const char *reason) {
    bti_lock_take(&llvm_lock);
    now.opened = false;
    snprintf(now.reason, sizeof now.reason, "%s failed and is not used any more: %s", now.library, reason);
    bti_lock_give(&llvm_lock);
    return bti_fail(BT_INTERNAL, "LLVM: %s", reason);
}

typedef struct llvm_job {
    void *context, *module, *machine, *object;
    char *message;
    bti_str diagnosis; /* the errors that LLVM reported */
} llvm_job;

/* Without a handler LLVM exits the process at the first error. */
static void note_diagnosis(void *diagnosis, void *data) {
    llvm_job *of = data;
    if (llvm.GetDiagInfoSeverity(diagnosis) != SEVERITY_ERROR) return;
    char *text = llvm.GetDiagInfoDescription(diagnosis);
    bti_str_addf(&of->diagnosis, "%s%s", of->diagnosis.length ? "; " : "", text ? text : "an error");
    llvm.DisposeMessage(text);
}

static bt_status fail_with_message(const llvm_job *of, const char *what) {
    const char *words = of->message ? of->message : bti_str_text(&of->diagnosis);
    int length = (int)strnlen(words, 1000);
    while (length > 0 && words[length - 1] == '\n') length--;
    return bti_fail(BT_INTERNAL, "LLVM: %s: %.*s", what, length, length ? words : "no reason given");
}

static bt_status parse_text(llvm_job *of, const bti_str *text) {
    void *buffer = llvm.CreateMemoryBufferWithMemoryRange(bti_str_text(text), text->length, "kernel", true);
    of->context = llvm.ContextCreate();
    llvm.ContextSetDiagnosticHandler(of->context, note_diagnosis, of);
    if (llvm.ParseIRInContext(of->context, buffer, &of->module, &of->message)) { /* takes the buffer */
        of->module = NULL;
        return fail_with_message(of, "the text does not parse");
    }
#ifdef BTI_DEBUG
    if (llvm.VerifyModule(of->module, RETURN_STATUS, &of->message))
        return fail_with_message(of, "the text is not valid");
    llvm.DisposeMessage(of->message);
    of->message = NULL;
#endif
    return BT_OK;
}

static bt_status create_machine(llvm_job *of, bti_target target) {
    void *found;
    const char *triple = machines[target].triple;
    if (llvm.GetTargetFromTriple(triple, &found, &of->message))
        return bti_fail(BT_UNAVAILABLE, "LLVM: %.500s", of->message ? of->message : triple);
    of->machine = llvm.CreateTargetMachine(found, triple, target == BTI_LLVM_NEON ? "generic" : "x86-64",
                                           machines[target].features, LEVEL_AGGRESSIVE, RELOCATION_PIC, MODEL_SMALL);
    if (!of->machine) return bti_fail(BT_UNAVAILABLE, "LLVM: no machine for %s", triple);
    void *layout = llvm.CreateTargetDataLayout(of->machine);
    llvm.SetModuleDataLayout(of->module, layout);
    llvm.DisposeTargetData(layout);
    return BT_OK;
}

static bt_status run_passes(llvm_job *of) {
    void *options = llvm.CreatePassBuilderOptions();
    void *error = llvm.RunPasses(of->module, PASSES, of->machine, options);
    llvm.DisposePassBuilderOptions(options);
    if (!error) return BT_OK;
    char *words = llvm.GetErrorMessage(error); /* takes the error */
    bt_status status = bti_fail(BT_INTERNAL, "LLVM: the passes do not run: %.500s", words);
    llvm.DisposeErrorMessage(words);
    return status;
}

static bt_status emit_object(llvm_job *of, bti_str *object) {
    if (llvm.TargetMachineEmitToMemoryBuffer(of->machine, of->module, OBJECT_FILE, &of->message, &of->object)) {
        of->object = NULL;
        return fail_with_message(of, "no code");
    }
    if (of->diagnosis.length) return fail_with_message(of, "no code");
    bti_str_add_bytes(object, llvm.GetBufferStart(of->object), llvm.GetBufferSize(of->object));
    return object->failed ? bti_no_memory() : BT_OK;
}

static bt_status compile_text(const bti_str *text, bti_target target, bti_str *object) {
    llvm_job of = {0};
    bt_status status;
    BTI_TRY_OR(parse_text(&of, text), end);
    BTI_TRY_OR(create_machine(&of, target), end);
    BTI_TRY_OR(run_passes(&of), end);
    BTI_TRY_OR(emit_object(&of, object), end);
end:
    if (of.message) llvm.DisposeMessage(of.message);
    if (of.object) llvm.DisposeMemoryBuffer(of.object);
    if (of.machine) llvm.DisposeTargetMachine(of.machine);
    if (of.module) llvm.DisposeModule(of.module);
    if (of.context) llvm.ContextDispose(of.context);
    bti_str_free(&of.diagnosis);
    return status;
}

/* Keeps the reason of a failure for the state; the next call may succeed. */
static bt_status begin_guarded(void) {
    bt_status status = bti_guard_begin("LLVM", COMPILE_ROOM, leave_after_fatal_error);
    bti_lock_take(&llvm_lock);
    if (now.opened) snprintf(now.reason, sizeof now.reason, "%s", status == BT_OK ? "" : bt_error_text());
    bti_lock_give(&llvm_lock);
    return status;
}

static bt_status compile_guarded(const bti_str *text, bti_target target, bti_str *object) {
    guarded_call here;
    bt_status status;
    BTI_TRY(ensure_open());
    BTI_TRY(begin_guarded());
    running = &here;
    if (!setjmp(here.back))
        status = compile_text(text, target, object);
    else
        status = disable_llvm(here.reason);
    running = NULL;
    bti_guard_end();
    return status;
}

typedef struct request {
    const bti_str *text;
    bti_target target;
    bti_str *object;
} request;

static bt_status compile_request(void *context) {
    const request *of = context;
    return compile_guarded(of->text, of->target, of->object);
}

bt_status bti_llvm_compile(const bti_str *text, bti_target target, bti_str *object) {
    return bti_libraries_open(compile_request, &(request){text, target, object});
}
