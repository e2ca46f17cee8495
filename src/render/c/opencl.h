/* The words of a kernel's text in OpenCL C 1.2. */
#ifdef HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#pragma OPENCL FP_CONTRACT OFF
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
typedef ulong2 two_u64;
#ifdef HAS_F64
typedef double f64;
#endif

#define FUNCTION static inline
#define CONSTANTS __constant
#define KERNEL(threads) __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void
#define KERNEL_ALONE(threads) KERNEL(threads)
#define GLOBAL __global
#define LOCAL __local
#define LOCAL_ARRAY __local
#define UNROLL _Pragma("unroll")
/* EACH at most, in registers. PoCL takes time by the number of paths. */
#define FOR_EACH(e, each) for (u32 e = 0; e < (each); e++)
#define OPAQUE(number)
#define UNROLL_8
#define UNROLL_4
#define NO_UNROLL

#define MEMORY(number) __global u8 *memory##number,
#define ADDRESS(number, word) (memory##number + W(word))
#define DYNAMIC __local u8 *dynamic,
#define DYNAMIC_BEGIN
#define WORDS_IN_MEMORY __constant const i64 *words

#define THREAD ((u32)get_local_id(0))
#define THREADS ((u32)get_local_size(0))
#define GROUP ((u32)get_group_id(0))
#define GROUPS ((u32)get_num_groups(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define WARP_BARRIER() BARRIER() /* 32 threads may not step together */
#define LOCAL_INCREMENT(at) atomic_inc((volatile __local u32 *)(at))
#define LOCAL_OR(at, bits) atomic_or((volatile __local u32 *)(at), (bits))
#define POPULATION(bits) popcount(bits)

/* A group is one set of 32 threads; they meet in local memory. */
#define EXCHANGE_BEGIN __local u64 exchange[32];
#define FROM_FURTHER(type, other, value, by)                       \
    ((__local type *)exchange)[THREAD] = (value);                  \
    BARRIER();                                                     \
    type other = ((__local type *)exchange)[(THREAD + (by)) & 31]; \
    BARRIER()
#define EXCHANGE_OF_GROUP_BEGIN EXCHANGE_BEGIN
#define FROM_FURTHER_OF_GROUP FROM_FURTHER
#define FROM_FIRST(type, value) FROM_FIRST_OF(type, value, 32)
/* From the first of each `threads` that follow one another. */
#define FROM_FIRST_OF(type, value, threads)                             \
    ((__local type *)exchange)[THREAD] = (value);                       \
    BARRIER();                                                          \
    (value) = ((__local type *)exchange)[THREAD & ~(u32)(threads - 1)]; \
    BARRIER()

/* What a thread fetches into local memory for itself. */
#define FETCH_BEGIN()
#define FETCH_END()
#define FETCH1(to, from) (*(__local u8 *)(to) = *(__global const u8 *)(from))
#define FETCH2(to, from) (*(__local u16 *)(to) = *(__global const u16 *)(from))
#define FETCH4(to, from) (*(__local u32 *)(to) = *(__global const u32 *)(from))
#define FETCH8(to, from) (*(__local u64 *)(to) = *(__global const u64 *)(from))
#define FETCH16(to, from) (*(__local uint4 *)(to) = *(__global const uint4 *)(from))

FUNCTION u32 bits_of_f32(f32 x) { return as_uint(x); }
FUNCTION f32 f32_of_bits(u32 x) { return as_float(x); }
#ifdef HAS_F64
FUNCTION u64 bits_of_f64(f64 x) { return as_ulong(x); }
FUNCTION f64 f64_of_bits(u64 x) { return as_double(x); }
#endif
/* One rounding; NaN stays NaN: ir/half.h. */
FUNCTION f32 f32_of_f16(u16 x) {
    u32 sign = (u32)(x & 0x8000) << 16, rest = x & 0x7fffu;
    if (rest >= 0x7c00) return f32_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x0400) return f32_of_bits(sign | bits_of_f32((f32)rest * 5.9604644775390625e-08f));
    return f32_of_bits(sign | ((rest << 13) + (112u << 23)));
}
FUNCTION u16 f16_of_f32(f32 x) {
    u32 bits = bits_of_f32(x), rest = bits & 0x7fffffff, half_bits;
    if (rest > 0x7f800000)
        half_bits = 0x7e00 | ((rest >> 13) & 0x3ff);
    else if (rest >= 0x47800000)
        half_bits = 0x7c00;
    else if (rest < 0x38800000)
        half_bits = bits_of_f32(f32_of_bits(rest) + 0.5f) - bits_of_f32(0.5f);
    else
        half_bits = (rest - (112u << 23) + 0xfff + ((rest >> 13) & 1)) >> 13;
    return (u16)(half_bits | (bits >> 31) << 15);
}
