/* Words of kernels of the program's, besides those of cuda.h or opencl.h: docs/own-operations.md. What depends on the operands, INPUT_0 and so on, is
 * defined after them. */
#undef KERNEL
#undef KERNEL_ALONE
#define JOINED_WORDS(a, b) a##b
#define JOINED(a, b) JOINED_WORDS(a, b)
#define W(number) words.at[number]

#define INPUT(number) JOINED(INPUT_, number)
#define INPUT_TYPE(number) JOINED(INPUT_TYPE_, number)
#define INPUT_RANK(number) JOINED(INPUT_RANK_, number)
#define INPUT_COUNT(number) JOINED(INPUT_COUNT_, number)
#define INPUT_SIZE(number, axis) W(JOINED(INPUT_SIZES_, number) + (axis))
#define OUTPUT(number) JOINED(OUTPUT_, number)
#define OUTPUT_TYPE(number) JOINED(OUTPUT_TYPE_, number)
#define OUTPUT_RANK(number) JOINED(OUTPUT_RANK_, number)
#define OUTPUT_COUNT(number) JOINED(OUTPUT_COUNT_, number)
#define OUTPUT_SIZE(number, axis) W(JOINED(OUTPUT_SIZES_, number) + (axis))
#define ATTRIBUTE(number) W(ATTRIBUTES_BEGIN + (number))

#define INDEX ((i64)GROUP * (i64)THREADS + (i64)THREAD)
#define ALL_THREADS ((i64)GROUPS * (i64)THREADS)
