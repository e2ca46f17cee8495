#if defined(__x86_64__)
#define CODE bti_vector_avx2
#define LANES_F32 8
#define LANES_F64 4
#define SLEEF_F32(name) Sleef_finz_##name##f8_u10avx2
#define SLEEF_F64(name) Sleef_finz_##name##d4_u10avx2
#define SLEEF_ERFC_F64 Sleef_finz_erfcd4_u15avx2
#include "drivers/cpu/vector/vector_functions.h"
#include "drivers/cpu/vector/vector_loops.h"
#endif
