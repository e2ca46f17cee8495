/* Fourier transforms of lines by FFTW 3, which is opened when a transform first needs it: libfftw3f for float32, libfftw3 for float64. FFTW is under the GPL: it is never
 * linked and no header of it is used; who installs it lets programs use it. UNIMPLEMENTED, naming what to install, where it is not there. */
#ifndef BTI_DRIVERS_CPU_FFT_FFTW_H
#define BTI_DRIVERS_CPU_FFT_FFTW_H

#include "base/error.h"
#include "drivers/cpu/product/library.h"
#include "ir/fft.h"

/* from and to: the same memory (of FORWARD and BACKWARD alone), or memory that does not overlap. All cores; the bits depend on the lines alone. Waits until it is done. */
bt_status bti_fft_run(const bti_fft_lines *lines, const void *from, void *to);

/* The library of a part; `attempt`: it is opened if it was not tried yet. */
void bti_fft_look(bt_dtype part, bti_library_state *state, bool attempt);
/* For tests: the names that are tried from now on, of both; NULL: the usual ones. No transform may be running. */
void bti_fft_use(const char *const *names);
int bti_fft_plans(void); /* that are kept */

#endif
