/* A fake NCCL: reduces float32 and float64 when the streams of all devices have reached the call. */
#include <stdlib.h>
#include <string.h>

#include "drivers/cuda/nccl.h"
#include "fakes/stream.h"

struct ncclComm {
    int device;
};
fake_stream *fake_stream_of(CUstream stream);

typedef struct fold {
    int count, type, operation;
    size_t elements;
    uint64_t address[FAKE_MOST];
} fold;

static fold group;
static fake_stream *streams[FAKE_MOST];
static int depth;

FAKE_API ncclResult_t ncclGetVersion(int *version) {
    *version = 22803;
    return fake_call("ncclGetVersion", false);
}
FAKE_API const char *ncclGetErrorString(ncclResult_t result) {
    return result == 1 ? "unhandled cuda error" : "an error";
}
FAKE_API ncclResult_t ncclCommInitAll(ncclComm_t *communicators, int count, const int *devices) {
    int code = fake_call("ncclCommInitAll", false);
    for (int i = 0; i < count && !code; i++) {
        communicators[i] = calloc(1, sizeof *communicators[i]);
        if (!communicators[i]) return 2;
        communicators[i]->device = devices[i];
        fake_live(1);
    }
    if (!code) fake_log("communicators %d", count);
    return code;
}
static ncclResult_t drop(ncclComm_t communicator) {
    free(communicator);
    fake_live(-1);
    return 0;
}
FAKE_API ncclResult_t ncclCommDestroy(ncclComm_t communicator) { return drop(communicator); }
FAKE_API ncclResult_t ncclCommAbort(ncclComm_t communicator) { return drop(communicator); }
FAKE_API ncclResult_t ncclGroupStart(void) {
    int code = fake_call("ncclGroupStart", false);
    if (!code && depth++ == 0) group.count = 0;
    return code;
}

static double read_at(const fold *f, int d, size_t i) {
    if (f->type == ncclFloat64) return *(double *)fake_memory(f->address[d] + i * 8, 8);
    return (double)*(float *)fake_memory(f->address[d] + i * 4, 4);
}

static void run_fold(void *data) {
    const fold *f = data;
    for (size_t i = 0; i < f->elements; i++) {
        double total = read_at(f, 0, i);
        for (int d = 1; d < f->count; d++) {
            double x = read_at(f, d, i);
            total = f->operation == ncclSum    ? total + x
                    : f->operation == ncclProd ? total * x
                    : f->operation == ncclMax  ? (x > total ? x : total)
                                               : (x < total ? x : total);
        }
        for (int d = 0; d < f->count; d++)
            if (f->type == ncclFloat64)
                *(double *)fake_memory(f->address[d] + i * 8, 8) = total;
            else
                *(float *)fake_memory(f->address[d] + i * 4, 4) = (float)total;
    }
    fake_log("fold %d", f->count);
}

FAKE_API ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                                    ncclComm_t communicator, CUstream stream) {
    int code = fake_call("ncclAllReduce", false);
    (void)communicator;
    if (code) return code;
    if (!depth || from != to || group.count == FAKE_MOST || (type != ncclFloat32 && type != ncclFloat64)) return 4;
    group.type = type, group.operation = operation, group.elements = count;
    streams[group.count] = fake_stream_of(stream);
    group.address[group.count++] = (uint64_t)(uintptr_t)to;
    return 0;
}
FAKE_API ncclResult_t ncclGroupEnd(void) {
    int code = fake_call("ncclGroupEnd", false);
    if (--depth || code || !group.count) return code;
    fake_meeting *meeting = calloc(1, sizeof *meeting);
    if (!meeting) return 2;
    meeting->count = meeting->left = group.count;
    meeting->run = run_fold;
    memcpy(meeting->streams, streams, sizeof streams);
    memcpy(meeting->data, &group, sizeof group);
    fake_lock();
    for (int i = 0; i < group.count; i++) fake_stream_meet(streams[i], meeting);
    fake_unlock();
    return 0;
}
