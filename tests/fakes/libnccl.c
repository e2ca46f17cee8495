/* A fake NCCL (NVIDIA, "NCCL: NCCL API"): all-reduces run when the streams of all ranks have reached the call. What would make NCCL hang
 * (ranks that do not call, or that disagree) is a finding when the work runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libnccl.h"

enum { INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

/* The communicators that ncclCommInitAll made together. */
typedef struct clique {
    int count, open;
} clique;
struct ncclComm {
    clique *clique;
    int rank, device;
};
fake_stream *fake_stream_of(CUstream stream);
int fake_device_of(CUdevice device);

/* The calls since ncclGroupStart, of this thread. */
typedef struct call {
    ncclComm_t communicator;
    fake_stream *stream;
    uint64_t from, to;
    size_t elements;
    int type, operation;
} call;
static _Thread_local call calls[FAKE_MOST];
static _Thread_local int call_count, depth;

FAKE_API ncclResult_t ncclGetVersion(int *version) {
    *version = 22803;
    return fake_call("ncclGetVersion", false);
}
FAKE_API const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {"no error",       "unhandled cuda error", "unhandled system error",
                                        "internal error", "invalid argument",     "invalid usage"};
    return result >= 0 && result <= INVALID_USAGE ? texts[result] : "unknown result code";
}

/* --- communicators ---------------------------------------------------------------------------------------------------- */

FAKE_API ncclResult_t ncclCommInitAll(ncclComm_t *communicators, int count, const int *devices) {
    int code = fake_call("ncclCommInitAll", false);
    if (code) return code;
    if (!communicators || count < 1 || count > FAKE_MOST) return INVALID_ARGUMENT;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (devices && devices[i] == devices[j]) return INVALID_USAGE;
    clique *made = calloc(1, sizeof *made);
    if (!made) return 2;
    made->count = made->open = count;
    for (int i = 0; i < count; i++) {
        communicators[i] = calloc(1, sizeof *communicators[i]);
        if (!communicators[i]) abort();
        *communicators[i] = (struct ncclComm){made, i, fake_device_of(devices ? devices[i] : i)};
        fake_live(1);
    }
    fake_log("communicators %d", count);
    return 0;
}
static ncclResult_t drop(ncclComm_t communicator) {
    if (!communicator) return INVALID_ARGUMENT;
    if (!--communicator->clique->open) free(communicator->clique);
    free(communicator);
    fake_live(-1);
    return 0;
}
FAKE_API ncclResult_t ncclCommDestroy(ncclComm_t communicator) { return drop(communicator); }
FAKE_API ncclResult_t ncclCommAbort(ncclComm_t communicator) { return drop(communicator); }

/* --- groups ------------------------------------------------------------------------------------------------------------- */

/* Why the calls of a group never end. */
static void find_hang(fake_fold *fold) {
    const call *first = &calls[0];
    uint32_t ranks = 0;
    for (int i = 0; i < call_count; i++) {
        const call *c = &calls[i];
        ranks |= UINT32_C(1) << c->communicator->rank;
        if (c->elements != first->elements || c->type != first->type || c->operation != first->operation)
            snprintf(fold->wrong, sizeof fold->wrong,
                     "rank %d reduces %zu elements (type %d, operation %d), rank %d %zu (type %d, operation %d)",
                     first->communicator->rank, first->elements, first->type, first->operation, c->communicator->rank,
                     c->elements, c->type, c->operation);
    }
    for (int rank = 0; rank < first->communicator->clique->count; rank++)
        if (!(ranks >> rank & 1))
            snprintf(fold->wrong, sizeof fold->wrong, "rank %d of %d does not call it", rank,
                     first->communicator->clique->count);
}

static ncclResult_t enqueue(void) {
    fake_fold fold = {
        .count = call_count, .type = calls[0].type, .operation = calls[0].operation, .elements = calls[0].elements};
    fake_meeting *meeting = calloc(1, sizeof *meeting);
    if (!meeting) abort();
    _Static_assert(sizeof fold <= sizeof meeting->data, "a fold fits");
    find_hang(&fold);
    meeting->count = meeting->left = call_count;
    meeting->run = fake_run_fold;
    for (int i = 0; i < call_count; i++)
        meeting->streams[i] = calls[i].stream, fold.from[i] = calls[i].from, fold.to[i] = calls[i].to;
    memcpy(meeting->data, &fold, sizeof fold);
    fake_lock();
    for (int i = 0; i < call_count; i++) fake_stream_meet(meeting->streams[i], meeting);
    fake_unlock();
    return 0;
}

FAKE_API ncclResult_t ncclGroupStart(void) {
    int code = fake_call("ncclGroupStart", false);
    if (!code && depth++ == 0) call_count = 0;
    return code;
}
FAKE_API ncclResult_t ncclGroupEnd(void) {
    int code = fake_call("ncclGroupEnd", false);
    if (!depth) return INVALID_USAGE;
    if (--depth) return code;
    if (!code && call_count) code = enqueue();
    call_count = 0;
    return code;
}

FAKE_API ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                                    ncclComm_t communicator, CUstream stream) {
    int code = fake_call("ncclAllReduce", false);
    if (code) return code;
    if (!communicator || !from || !to || !fake_fold_bytes(type) || operation < ncclSum || operation > ncclMin)
        return INVALID_ARGUMENT;
    if (((uint64_t)(uintptr_t)from | (uint64_t)(uintptr_t)to) % fake_fold_bytes(type)) return INVALID_ARGUMENT;
    if (call_count == FAKE_MOST || fake_stream_of(stream)->device != communicator->device) return INVALID_USAGE;
    for (int i = 0; i < call_count; i++) /* one clique, each rank and stream once */
        if (calls[i].communicator == communicator || calls[i].communicator->clique != communicator->clique)
            return INVALID_USAGE;
    calls[call_count++] =
        (call){communicator, fake_stream_of(stream), (uint64_t)(uintptr_t)from, (uint64_t)(uintptr_t)to, count, type,
               operation};
    if (depth) return 0;
    code = enqueue(); /* outside of a group: a call by itself */
    call_count = 0;
    return code;
}
