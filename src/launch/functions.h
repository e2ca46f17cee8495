/* The targets that texts of kernels are written for; the functions that texts for CPUs define, and those that they call by number.
 * The functions of texts in C: launch/entry.h. */
#ifndef BTI_LAUNCH_FUNCTIONS_H
#define BTI_LAUNCH_FUNCTIONS_H

#include "ir/kernel.h"

typedef enum bti_target {
    BTI_LLVM_SSE2,   /* LLVM IR for x86-64 without more; vector functions are called one element at a time */
    BTI_LLVM_AVX2,   /* with AVX2, FMA and F16C */
    BTI_LLVM_AVX512, /* with AVX-512 F, CD, BW, DQ and VL as well */
    BTI_LLVM_NEON,   /* LLVM IR for aarch64 */
    BTI_CUDA_C,      /* CUDA C as NVRTC takes it, for capability 5.0 and up */
    BTI_OPENCL_C,    /* OpenCL C 1.2 with cl_khr_fp64 */
    BTI_OPENCL_C_F32 /* without it: float64 is not written, float accumulators are float32 */
} bti_target;

typedef struct bti_target_traits {
    bool is_c;                    /* its text is C, with the functions of launch/entry.h; else LLVM IR */
    uint8_t f32_lanes, f64_lanes; /* of LLVM: elements that a vector function takes at once */
} bti_target_traits;

static inline bti_target_traits bti_target_traits_of(bti_target target) {
    static const bti_target_traits traits[] = {
        [BTI_LLVM_SSE2] = {false, 1, 1},    [BTI_LLVM_AVX2] = {false, 8, 4}, [BTI_LLVM_AVX512] = {false, 16, 8},
        [BTI_LLVM_NEON] = {false, 4, 2},    [BTI_CUDA_C] = {.is_c = true},   [BTI_OPENCL_C] = {.is_c = true},
        [BTI_OPENCL_C_F32] = {.is_c = true}};
    return traits[target];
}
static inline bool bti_target_is_c(bti_target target) { return bti_target_traits_of(target).is_c; }
static inline int bti_target_lanes(bti_target target, bool f64) {
    bti_target_traits traits = bti_target_traits_of(target);
    return f64 ? traits.f64_lanes : traits.f32_lanes;
}

/* The texts of a kernel for CPUs: bti_text_wanted.variant. */
typedef enum bti_cpu_text {
    BTI_TEXT_PLAIN,
    BTI_TEXT_STREAM, /* of a map: outputs are stored around the cache */
    BTI_TEXT_TURNED, /* of a kernel that turns (launch/turned.h): vectors run along the axis before the line; bti_run alone, for turned boxes */
    BTI_TEXT_NARROW /* of columns (launch/narrow.h): bti_part takes up to BTI_NARROW_CHUNKS chunks, whose parts follow one another */
} bti_cpu_text;
#define BTI_CPU_TEXTS 4

typedef enum bti_function_number {
#define BTI_VECTOR_FUNCTION(name, arity) BTI_CALL_##name##_f32, BTI_CALL_##name##_f64,
#define BTI_SCALAR_FUNCTION(name, ...) BTI_CALL_##name,
#include "launch/functions.def"
    BTI_CALL_COUNT
} bti_function_number;

/* Whether an elementwise operation of floats is computed by a function: it costs more than a load. */
static inline bool bti_op_calls_function(int op) {
    switch (op) {
#define BTI_VECTOR_FUNCTION(name, arity) case BTI_OP_##name:
#define BTI_SCALAR_FUNCTION(name, ...)
#include "launch/functions.def"
    case BTI_OP_sigmoid:
    case BTI_OP_floor_div:
    case BTI_OP_mod: return true;
    default: return false;
    }
}

/* Of a kernel compiled for a CPU, up to three functions; of most maps only the first. `address`, `stride` (a row of BTI_MAX_RANK per operand) and
 * `scalars` as in bti_box; `functions` is the table above for the target.
 *     bti_run      the whole box. Of a kernel of several sweeps, outputs may hold other values before their own
 *     bti_part     of a kernel of one sweep with reductions: extents of the reduced axes are 1 but the last, which is at most
 *                  a chunk. Writes the chunk's parts: reduction r (in the order of instructions) of kept point p (row-major)
 *                  into the 8 bytes parts[r * points + p], the accumulator at their start
 *     bti_finish   folds `count` such sets, parts[(c * reductions + r) * points + p], into totals, computes the ROW values
 *                  and stores the outputs; extents of reduced axes are not looked at */
typedef void bti_run_function(const int64_t *extent, const uint64_t *scalars, const uint64_t *address,
                              const int64_t *stride, const void *const *functions);
typedef void bti_part_function(const int64_t *extent, const uint64_t *scalars, const uint64_t *address,
                               const int64_t *stride, const void *const *functions, uint64_t *parts);
typedef void bti_finish_function(const int64_t *extent, const uint64_t *scalars, const uint64_t *address,
                                 const int64_t *stride, const void *const *functions, const uint64_t *parts,
                                 int64_t count);

#endif
