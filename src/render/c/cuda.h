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
typedef double f64;
#define HAS_F64

#define FUNCTION static __device__ __forceinline__
#define CONSTANTS static __device__ const
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define GLOBAL
#define LOCAL
#define LOCAL_ARRAY __shared__
#define ALIGNED16 __align__(16)
#define UNROLL _Pragma("unroll")

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

/* Of the 32 threads that step together: `other` is the value of the thread `by` further on; then that of the first. */
#define EXCHANGE_BEGIN
#define FROM_FURTHER(type, other, value, by) type other = (type)__shfl_down_sync(0xffffffffu, (value), (by))
#define FROM_FIRST(type, value) (value) = (type)__shfl_sync(0xffffffffu, (value), 0)
#define STEP_BARRIER() __syncwarp()

struct ALIGNED16 bytes16 {
    u32 part[4];
};
struct __align__(8) bytes8 {
    u32 part[2];
};

FUNCTION u32 bits_of_f32(f32 x) { return __float_as_uint(x); }
FUNCTION f32 f32_of_bits(u32 x) { return __uint_as_float(x); }
FUNCTION u64 bits_of_f64(f64 x) { return (u64)__double_as_longlong(x); }
FUNCTION f64 f64_of_bits(u64 x) { return __longlong_as_double((i64)x); }
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
