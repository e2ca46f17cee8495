/* For aarch64, and for x86-64 CPUs without FMA. The latter use other functions, whose bits differ from all other targets. */
#define CODE bti_vector_base
#if defined(__aarch64__)
#define LANES_F32 4
#define LANES_F64 2
#define SLEEF_F32(name) Sleef_finz_##name##f4_u10advsimd
#define SLEEF_F64(name) Sleef_finz_##name##d2_u10advsimd
#define SLEEF_ERFC_F64 Sleef_finz_erfcd2_u15advsimd
#else
#define LANES_F32 1
#define LANES_F64 1
#define SLEEF_F32(name) Sleef_cinz_##name##f1_u10purec
#define SLEEF_F64(name) Sleef_cinz_##name##d1_u10purec
#define SLEEF_ERFC_F64 Sleef_cinz_erfcd1_u15purec
#endif
#include "drivers/cpu/vector/vector_functions.h"
#include "drivers/cpu/vector/vector_loops.h"
