/* A fake cuFFT (NVIDIA, "cuFFT API"): it checks what it is asked for as the library documents, and libcufft_lines.c computes it. A wrong parameter, and a plan that is destroyed while
 * work in flight or a graph uses it, are findings. Which workspace a plan needs is drawn from the lines and BERTH_FAKE_SEED; an eighth of the small ones is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libcuda.h"
#include "fakes/libcufft.h"

fake_stream *fake_stream_of(CUstream stream);
int fake_current_device(void);

#define WORKSPACE_ALIGNED 256
#define SMALL 4096 /* points of all lines */
#define MOST_PLANS 1024

static fake_fft_plan
    *plans[MOST_PLANS]; /* at handle % MOST_PLANS; under the lock. A handle is given once, so that late use is seen */
static int handles;

/* What no caller should ask for. */
static cufftResult misuse(cufftResult result, const char *call, const char *what) {
    fake_find(fake_current_device(), FAKE_LAUNCH_FAILED, "%s: %s", call, what);
    return result;
}

static fake_fft_plan *find_plan(cufftHandle handle) {
    fake_lock();
    fake_fft_plan *plan = handle > 0 ? plans[handle % MOST_PLANS] : NULL;
    fake_unlock();
    return plan && plan->handle == handle ? plan : NULL;
}
#define FIND_PLAN(plan, handle, call)        \
    fake_fft_plan *plan = find_plan(handle); \
    if (!plan) return misuse(CUFFT_INVALID_PLAN, call, "there is no such plan, or no more")

/* --- plans ------------------------------------------------------------------------------------------------------------ */

FAKE_API cufftResult cufftGetVersion(int *version) { return *version = 12000, CUFFT_SUCCESS; }

FAKE_API cufftResult cufftCreate(cufftHandle *handle) {
    int code = fake_call("cufftCreate", false);
    if (code) return code;
    if (fake_current_device() < 0) return CUFFT_SETUP_FAILED;
    fake_fft_plan *made = calloc(1, sizeof *made);
    if (!made) return CUFFT_ALLOC_FAILED;
    fake_lock();
    fake_fft_plan **place = &plans[(handles + 1) % MOST_PLANS];
    bool is_free = !*place;
    if (is_free) {
        *made = (fake_fft_plan){.handle = ++handles, .device = fake_current_device()};
        *place = made;
    }
    fake_unlock();
    if (!is_free) return free(made), CUFFT_ALLOC_FAILED;
    *handle = made->handle;
    fake_live(1);
    return CUFFT_SUCCESS;
}

FAKE_API cufftResult cufftDestroy(cufftHandle handle) {
    FIND_PLAN(plan, handle, "cufftDestroy");
    fake_lock();
    const char *launch = fake_stream_uses(plan), *recorded = fake_executables_use(plan);
    plans[handle % MOST_PLANS] = NULL;
    fake_unlock();
    if (launch || recorded)
        (void)misuse(0, "cufftDestroy", launch ? "the plan's work has not run" : "a graph may launch the plan again");
    free(plan);
    fake_live(-1);
    return CUFFT_SUCCESS;
}

FAKE_API cufftResult cufftSetAutoAllocation(cufftHandle handle, int automatic) {
    FIND_PLAN(plan, handle, "cufftSetAutoAllocation");
    if (plan->is_made) return misuse(CUFFT_INVALID_PLAN, "cufftSetAutoAllocation", "the plan is made already");
    plan->manual = !automatic;
    return CUFFT_SUCCESS;
}

bool fake_fft_is_wide(int type) { return type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D; }
bool fake_fft_is_real(int type, int side) {
    return side ? type == CUFFT_C2R || type == CUFFT_Z2D : type == CUFFT_R2C || type == CUFFT_D2Z;
}
int64_t fake_fft_points(const fake_fft_plan *plan, int side) {
    return !fake_fft_is_real(plan->type, side) && fake_fft_is_real(plan->type, !side) ? plan->n / 2 + 1 : plan->n;
}
static uint64_t element_bytes(const fake_fft_plan *plan, int side) {
    return (fake_fft_is_wide(plan->type) ? 8u : 4u) * (fake_fft_is_real(plan->type, side) ? 1u : 2u);
}
uint64_t fake_fft_bytes(const fake_fft_plan *plan, int side) {
    int64_t last = (fake_fft_points(plan, side) - 1) * plan->step[side] + (plan->lines - 1) * plan->apart[side];
    return ((uint64_t)last + 1) * element_bytes(plan, side);
}

static uint64_t drawn(const fake_fft_plan *plan) {
    const int64_t numbers[] = {plan->type, plan->n, plan->lines, plan->step[0]};
    uint64_t hash = fake_seed() + 1;
    for (int i = 0; i < 4; i++) hash = (hash ^ (uint64_t)numbers[i]) * UINT64_C(0x9fb21c651e98df25), hash ^= hash >> 29;
    return hash >> 8;
}

static const char *why_no_lines(const fake_fft_plan *plan) {
    static const int types[] = {CUFFT_C2C, CUFFT_R2C, CUFFT_C2R, CUFFT_Z2Z, CUFFT_D2Z, CUFFT_Z2D};
    bool known = false;
    for (int i = 0; i < 6; i++) known = known || plan->type == types[i];
    if (!known || plan->n < 1 || plan->lines < 1) return "what lines?";
    for (int side = 0; side < 2; side++) {
        int64_t points = fake_fft_points(plan, side);
        bool follow = plan->step[side] == 1 && plan->apart[side] >= points;
        bool beside = plan->apart[side] == 1 && plan->step[side] >= plan->lines;
        if (plan->lines > 1 ? !follow && !beside : plan->step[side] < 1) return "lines overlap";
    }
    return plan->manual ? NULL : "the plan allocates a workspace of its own";
}

FAKE_API cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long *n, long long *in_embed,
                                         long long in_step, long long in_line, long long *out_embed, long long out_step,
                                         long long out_line, int type, long long lines, size_t *workspace_bytes) {
    static const uint64_t sizes[] = {0, 256, 1000, 1 << 16};
    int code = fake_call("cufftMakePlanMany64", false);
    if (code) return code;
    FIND_PLAN(plan, handle, "cufftMakePlanMany64");
    if (rank != 1 || !n || !in_embed || !out_embed || plan->is_made)
        return misuse(CUFFT_INVALID_VALUE, "cufftMakePlanMany64", "one axis, and steps, are expected");
    plan->type = type, plan->n = *n, plan->lines = lines;
    plan->step[0] = in_step, plan->step[1] = out_step, plan->apart[0] = in_line, plan->apart[1] = out_line;
    const char *why = why_no_lines(plan);
    if (why) return misuse(CUFFT_INVALID_VALUE, "cufftMakePlanMany64", why);
    if (drawn(plan) % 8 == 0 && plan->n * lines <= SMALL) return CUFFT_INVALID_SIZE;
    plan->workspace_bytes = *workspace_bytes = sizes[drawn(plan) / 8 % 4];
    plan->is_made = true;
    fake_log("fft plan %d %lld", type, *n);
    return CUFFT_SUCCESS;
}

FAKE_API cufftResult cufftSetStream(cufftHandle handle, CUstream stream) {
    int code = fake_call("cufftSetStream", false);
    if (code) return code;
    FIND_PLAN(plan, handle, "cufftSetStream");
    plan->stream = stream;
    return CUFFT_SUCCESS;
}

FAKE_API cufftResult cufftSetWorkArea(cufftHandle handle, void *workspace) {
    FIND_PLAN(plan, handle, "cufftSetWorkArea");
    plan->workspace = (uint64_t)(uintptr_t)workspace;
    return CUFFT_SUCCESS;
}

/* --- running ------------------------------------------------------------------------------------------------------------ */

static const char *why_no_memory(const fake_fft *fft) {
    const fake_fft_plan *plan = &fft->plan;
    uint64_t from = fft->address[0], to = fft->address[1], aligned = fake_fft_is_wide(plan->type) ? 16 : 8;
    uint64_t read = fake_fft_bytes(plan, 0), written = fake_fft_bytes(plan, 1);
    if (from % aligned || to % aligned) return "an address is not that of a complex number";
    if (!fake_memory_exists(from, read) || !fake_memory_exists(to, written)) return "an array is not in memory";
    if (from < to + written && to < from + read && from != to) return "arrays overlap";
    if (!plan->workspace_bytes) return NULL;
    if (plan->workspace % WORKSPACE_ALIGNED) return "the workspace is not aligned";
    return fake_memory_exists(plan->workspace, plan->workspace_bytes) ? NULL : "the workspace is no memory";
}

FAKE_API cufftResult cufftXtExec(cufftHandle handle, void *in, void *out, int direction) {
    int code = fake_call("cufftXtExec", false);
    if (code) return code;
    FIND_PLAN(plan, handle, "cufftXtExec");
    if (!plan->is_made || plan->device != fake_current_device())
        return misuse(CUFFT_INVALID_PLAN, "cufftXtExec", "the plan is not made, or of another device");
    fake_fft fft = {*plan, {(uint64_t)(uintptr_t)in, (uint64_t)(uintptr_t)out}, direction};
    bool reads_real = fake_fft_is_real(plan->type, 0), makes_real = fake_fft_is_real(plan->type, 1);
    bool fits = (direction == CUFFT_FORWARD && !makes_real) || (direction == CUFFT_INVERSE && !reads_real);
    const char *why = fits ? why_no_memory(&fft) : "what direction?";
    if (why) return misuse(CUFFT_INVALID_VALUE, "cufftXtExec", why);
    fake_work work = {.name = "cufftXtExec", .run = fake_run_fft, .uses = plan};
    fake_lock();
    fake_stream_add_work(fake_stream_of(plan->stream), &work, &fft, sizeof fft);
    fake_unlock();
    return CUFFT_SUCCESS;
}
