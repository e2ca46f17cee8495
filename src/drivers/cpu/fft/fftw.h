/* Fourier transforms of lines by FFTW 3, which is opened when a transform first needs it: libfftw3f for float32, libfftw3 for float64. FFTW is under the GPL: it is never
 * linked and no header of it is used; who installs it lets programs use it. UNIMPLEMENTED, naming what to install, where it is not there. */
#ifndef BTI_DRIVERS_CPU_FFT_FFTW_H
#define BTI_DRIVERS_CPU_FFT_FFTW_H

#include <berth/dtype.h>

#include "base/error.h"
#include "drivers/cpu/product/library.h"

/* Numbers of FORWARD are multiplied by e**(-2 pi i j k / n) and added, of BACKWARD by e**(2 pi i j k / n); neither is scaled. HALF: FORWARD of n real numbers, of which
 * the first n/2 + 1 results are kept; WHOLE: BACKWARD to n real numbers of the first n/2 + 1 of a symmetric line. */
typedef enum bti_fft_kind { BTI_FFT_FORWARD, BTI_FFT_BACKWARD, BTI_FFT_HALF, BTI_FFT_WHOLE } bti_fft_kind;

/* Lines of n points along the middle axis of dense arrays [outer, n, inner]; the half lines have n/2 + 1 points. */
typedef struct bti_fft_lines {
    bti_fft_kind kind;
    bt_dtype part; /* float32 or float64 */
    int64_t outer, n, inner;
} bti_fft_lines;

/* from and to: the same memory (of FORWARD and BACKWARD alone), or memory that does not overlap. All cores; the bits depend on the lines alone. Waits until it is done. */
bt_status bti_fft_run(const bti_fft_lines *lines, const void *from, void *to);

/* The library of a part; `attempt`: it is opened if it was not tried yet. */
void bti_fft_look(bt_dtype part, bti_library_state *state, bool attempt);
/* For tests: the names that are tried from now on, of both; NULL: the usual ones. No transform may be running. */
void bti_fft_use(const char *const *names);
int bti_fft_plans(void); /* that are kept */

#endif
