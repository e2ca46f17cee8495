/* A fake CLBlast: each call fails with a given status and is counted. */
#define API __attribute__((visibility("default")))

API int clblast_status, clblast_calls;
static int fail(void) {
    clblast_calls++;
    return clblast_status;
}
API int CLBlastSgemm(void) { return fail(); }
API int CLBlastDgemm(void) { return fail(); }
API int CLBlastSgemmStridedBatched(void) { return fail(); }
API int CLBlastDgemmStridedBatched(void) { return fail(); }
