#if defined(__x86_64__)
#define CODE bti_vector_avx512
#define LANES_F32 16
#define LANES_F64 8
#define SLEEF_F32(name) Sleef_finz_##name##f16_u10avx512f
#define SLEEF_F64(name) Sleef_finz_##name##d8_u10avx512f
#define SLEEF_ERFC_F64 Sleef_finz_erfcd8_u15avx512f
#include "drivers/cpu/vector/vector_functions.h"
#include "drivers/cpu/vector/vector_loops.h"
#endif
