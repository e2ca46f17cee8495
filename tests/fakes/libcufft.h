/* Shared by the files of the fake libcufft. */
#ifndef BERTH_TESTS_FAKES_LIBCUFFT_H
#define BERTH_TESTS_FAKES_LIBCUFFT_H

#include <stdbool.h>

#include "drivers/cuda/cufft.h"
#include "fakes/stream.h"

/* Lines as cufftMakePlanMany64 gets them; [0] of what is read, [1] of what is written, in their elements. */
typedef struct fake_fft_plan {
    bool is_made, manual; /* manual: cuFFT allocates no workspace */
    int handle, device, type;
    int64_t n, lines, step[2], apart[2];
    uint64_t workspace_bytes, workspace;
    CUstream stream;
} fake_fft_plan;

/* One call, as an operation of a stream gets it. */
typedef struct fake_fft {
    fake_fft_plan plan;
    uint64_t address[2];
    int direction;
} fake_fft;

bool fake_fft_is_wide(int type);
bool fake_fft_is_real(int type, int side);
int64_t fake_fft_points(const fake_fft_plan *plan, int side); /* of a line */
uint64_t fake_fft_bytes(const fake_fft_plan *plan, int side); /* of all lines, from the first element to the last */
void fake_run_fft(void *fft);

#endif
