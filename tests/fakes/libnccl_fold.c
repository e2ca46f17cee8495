/* The reductions of the fake NCCL: as a ring does them, each step in the element's type. Where the ring begins for each part of the array
 * is drawn by BERTH_FAKE_SEED, so that the order of the sums of three and more ranks differs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/findings.h"
#include "fakes/libnccl.h"
#include "fakes/memory.h"
#include "fakes/order.h"
#include "fakes/ptx/lanes.h"
#include "fakes/stream.h"

size_t fake_fold_bytes(int type) {
    static const uint8_t bytes[] = {
        [ncclInt8] = 1,   [ncclUint8] = 1,   [ncclInt32] = 4,   [ncclUint32] = 4,  [ncclInt64] = 8,
        [ncclUint64] = 8, [ncclFloat16] = 2, [ncclFloat32] = 4, [ncclFloat64] = 8, [ncclBfloat16] = 2};
    return type >= 0 && type <= ncclBfloat16 ? bytes[type] : 0;
}

/* total = total OPERATION x, for `count` elements from `first` on. */
#define DEFINE_FOLD(name, kind, load, store)                                                       \
    static void name(int operation, size_t first, size_t end, void *totals, const void *others) {  \
        kind *total = totals;                                                                      \
        const kind *other = others;                                                                \
        for (size_t i = first; i < end; i++) {                                                     \
            const __typeof__(load(*total)) x = load(total[i]), y = load(other[i]);                 \
            total[i] = operation == ncclSum                                         ? store(x + y) \
                       : operation == ncclProd                                      ? store(x * y) \
                       : (operation == ncclMax ? y > x || x != x : y < x || x != x) ? other[i]     \
                                                                                    : total[i];    \
        }                                                                                          \
    }
#define AS_IS(x) (x)
#define AS_INT8(x) (int8_t)(x)
#define AS_UINT8(x) (uint8_t)(x)
static inline int32_t wrapped_32(int64_t x) { return (int32_t)(uint32_t)(uint64_t)x; }
static inline int64_t wrapped_64(__int128 x) { return (int64_t)(uint64_t)x; }
#define WIDER_32(x) ((int64_t)(x))
#define WIDER_64(x) ((__int128)(x))
static inline uint16_t to_f16(double x) { return ptx_round_f16(x, PTX_RN); }
static inline uint16_t to_bf16(double x) { return ptx_round_bf16(x, PTX_RN); }
static inline double from_f16(uint16_t x) { return ptx_f16(x); }
static inline double from_bf16(uint16_t x) { return ptx_bf16(x); }
DEFINE_FOLD(fold_i8, int8_t, (int), AS_INT8)
DEFINE_FOLD(fold_u8, uint8_t, (int), AS_UINT8)
DEFINE_FOLD(fold_i32, int32_t, WIDER_32, wrapped_32)
DEFINE_FOLD(fold_u32, uint32_t, AS_IS, AS_IS)
DEFINE_FOLD(fold_i64, int64_t, WIDER_64, wrapped_64)
DEFINE_FOLD(fold_u64, uint64_t, AS_IS, AS_IS)
DEFINE_FOLD(fold_f32, float, AS_IS, AS_IS)
DEFINE_FOLD(fold_f64, double, AS_IS, AS_IS)
DEFINE_FOLD(fold_f16, uint16_t, from_f16, to_f16)
DEFINE_FOLD(fold_bf16, uint16_t, from_bf16, to_bf16)

typedef void fold_function(int operation, size_t first, size_t end, void *totals, const void *others);
static fold_function *const folds[] = {
    [ncclInt8] = fold_i8,     [ncclUint8] = fold_u8,     [ncclInt32] = fold_i32,   [ncclUint32] = fold_u32,
    [ncclInt64] = fold_i64,   [ncclUint64] = fold_u64,   [ncclFloat16] = fold_f16, [ncclFloat32] = fold_f32,
    [ncclFloat64] = fold_f64, [ncclBfloat16] = fold_bf16};

static void fold_ranks(const fake_fold *f, const unsigned char *const *from, unsigned char *result) {
    size_t size = fake_fold_bytes(f->type), part = f->elements / (size_t)f->count + 1;
    uint64_t start = fake_seed();
    for (size_t first = 0; first < f->elements; first += part, start++) {
        size_t end = f->elements - first < part ? f->elements : first + part;
        for (int step = 0; step < f->count; step++) {
            const unsigned char *rank = from[(start + (uint64_t)step) % (uint64_t)f->count];
            if (!step)
                memcpy(result + first * size, rank + first * size, (end - first) * size);
            else
                folds[f->type](f->operation, first, end, result, rank);
        }
    }
}

/* Notes in `noted`, one for each byte, the bytes that were never written. */
static void note_unwritten(uint64_t address, size_t bytes, unsigned char *noted) {
    for (uint64_t at = 0, run; at < bytes; at += run) {
        bool unwritten = fake_is_unwritten(address + at, &run);
        if (run > bytes - at) run = bytes - at;
        if (unwritten) memset(noted + at, 1, run);
    }
}

/* A sum of bytes never written is as unwritten: gradients that are reduced together may have gaps between them. */
static void write_result(const fake_fold *f, const unsigned char *result, const unsigned char *unwritten,
                         size_t bytes) {
    for (int i = 0; i < f->count; i++) {
        void *to = fake_write_memory(f->to[i], bytes);
        if (!to) continue;
        memcpy(to, result, bytes);
        for (size_t at = 0; at < bytes; at++)
            if (unwritten[at]) fake_mark_unwritten(f->to[i] + at, 1);
    }
}

void fake_run_fold(void *data) {
    const fake_fold *f = data;
    const unsigned char *from[FAKE_MOST];
    size_t bytes = f->elements * fake_fold_bytes(f->type);
    if (*f->wrong) {
        fake_find(fake_order_device(fake_order_now()), FAKE_LAUNCH_FAILED, "ncclAllReduce never ends: %s", f->wrong);
        return;
    }
    for (int i = 0; i < f->count; i++)
        if (!(from[i] = fake_read_for_copy(f->from[i], bytes))) return;
    unsigned char *result = malloc(bytes + 1), *unwritten = calloc(1, bytes + 1);
    if (!result || !unwritten) abort();
    for (int i = 0; i < f->count; i++) note_unwritten(f->from[i], bytes, unwritten);
    fold_ranks(f, from, result);
    write_result(f, result, unwritten, bytes);
    free(unwritten);
    free(result);
    fake_log("fold %d", f->count);
}
