/* The words of a kernel's text in CUDA C, as NVRTC takes it: no header is there. */
#pragma nv_diag_suppress 177 /* what a text does not use */
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef ulonglong2 two_u64;
typedef double f64;
#define HAS_F64

#define FUNCTION static __device__ __forceinline__
#define CONSTANTS static __device__ const
/* Two groups have room on a multiprocessor, or one: asked for nothing, the compiler spills registers to have more. */
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 2)
#define KERNEL_ALONE(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
#define GLOBAL
#define LOCAL
#define LOCAL_ARRAY __shared__
#define UNROLL _Pragma("unroll")
/* EACH at most, in registers. */
#define FOR_EACH(e, each)          \
    UNROLL                         \
    for (u32 e = 0; e < EACH; e++) \
        if (e < (each))
#define OPAQUE(number) asm("" : "+l"(number))
#define UNROLL_8 _Pragma("unroll 8")
#define UNROLL_4 _Pragma("unroll 4")
#define NO_UNROLL _Pragma("unroll 1")

#define MEMORY(number)
#define ADDRESS(number, word) ((u8 *)W(word))
#define DYNAMIC
#define DYNAMIC_BEGIN extern __shared__ __align__(16) u8 dynamic[];
#define WORDS_IN_MEMORY const i64 *words

#define THREAD ((u32)threadIdx.x)
#define THREADS ((u32)blockDim.x)
#define GROUP ((u32)blockIdx.x)
#define GROUPS ((u32)gridDim.x)
#define BARRIER() __syncthreads()
#define WARP_BARRIER() __syncwarp()
#define LOCAL_INCREMENT(at) atomicAdd((at), 1u)
#define LOCAL_OR(at, bits) atomicOr((at), (bits))
#define POPULATION(bits) ((u32)__popc(bits))

/* Of the 32 threads that step together: `other` is the value of the thread `by` further on; then that of the first. */
#define EXCHANGE_BEGIN
#define FROM_FURTHER(type, other, value, by) type other = (type)__shfl_down_sync(0xffffffffu, (value), (by))
#define FROM_BEFORE(type, other, value, by) type other = (type)__shfl_up_sync(0xffffffffu, (value), (by))
/* The same for a whole group. */
#define EXCHANGE_OF_GROUP_BEGIN __shared__ u64 exchange[256];
#define FROM_FURTHER_OF_GROUP(type, other, value, by)                 \
    ((type *)exchange)[THREAD] = (value);                             \
    BARRIER();                                                        \
    type other = ((type *)exchange)[(THREAD + (by)) & (THREADS - 1)]; \
    BARRIER()
#define FROM_FIRST(type, value) FROM_FIRST_OF(type, value, 32)
/* From the first of each `threads` that follow one another. */
#define FROM_FIRST_OF(type, value, threads) (value) = (type)__shfl_sync(0xffffffffu, (value), 0, (threads))

/* What 32 threads fetch into local memory: on its way while they go on, there after FETCH_END. */
#define FETCH1(to, from) (*(u8 *)(to) = *(const u8 *)(from))
#define FETCH2(to, from) (*(u16 *)(to) = *(const u16 *)(from))
#if __CUDA_ARCH__ >= 800
#define FETCH_BEGIN() __syncwarp()
#define FETCH_END()                                  \
    asm volatile("cp.async.wait_all;" ::: "memory"); \
    __syncwarp()
#define FETCH_ASYNC(bytes, to, from)                                                                           \
    asm volatile("cp.async.ca.shared.global [%0], [%1], " #bytes ";" ::"r"((u32)__cvta_generic_to_shared(to)), \
                 "l"(__cvta_generic_to_global(from))                                                           \
                 : "memory")
#define FETCH4(to, from) FETCH_ASYNC(4, to, from)
#define FETCH8(to, from) FETCH_ASYNC(8, to, from)
#define FETCH16(to, from) FETCH_ASYNC(16, to, from)
#else
#define FETCH_BEGIN() __syncwarp()
#define FETCH_END() __syncwarp()
#define FETCH16(to, from) (*(uint4 *)(to) = *(const uint4 *)(from))
#define FETCH4(to, from) (*(u32 *)(to) = *(const u32 *)(from))
#define FETCH8(to, from) (*(u64 *)(to) = *(const u64 *)(from))
#endif

FUNCTION u32 bits_of_f32(f32 x) { return __float_as_uint(x); }
FUNCTION f32 f32_of_bits(u32 x) { return __uint_as_float(x); }
FUNCTION u64 bits_of_f64(f64 x) { return (u64)__double_as_longlong(x); }
FUNCTION f64 f64_of_bits(u64 x) { return __longlong_as_double((i64)x); }
/* Two units in the last place; subnormal numbers are 0. */
FUNCTION f32 exp2_flushed(f32 x) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FUNCTION f32 f32_of_f16(u16 x) {
    f32 y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
FUNCTION u16 f16_of_f32(f32 x) {
    u16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
