#if defined(__x86_64__)
#define CODE bti_vector_sse2
#define LANES_F32 1
#define LANES_F64 1
#define SLEEF_F32(name) Sleef_finz_##name##f1_u10purecfma
#define SLEEF_F64(name) Sleef_finz_##name##d1_u10purecfma
#define SLEEF_ERFC_F64 Sleef_finz_erfcd1_u15purecfma
/* sleef.h declares them only if the compiler flags enable FMA. */
#define ARGUMENTS_1(type) type
#define ARGUMENTS_2(type) type, type
#define BTI_VECTOR_FUNCTION(name, arity)             \
    float SLEEF_F32(name)(ARGUMENTS_##arity(float)); \
    double SLEEF_F64(name)(ARGUMENTS_##arity(double));
double SLEEF_ERFC_F64(double);
#define BTI_SCALAR_FUNCTION(...)
#include "launch/functions.def"
#include "drivers/cpu/vector/vector_functions.h"
#include "drivers/cpu/vector/vector_loops.h"
#endif
