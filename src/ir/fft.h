/* Fourier transforms of lines, as operations of the library's own and the libraries that compute them have them (ops/fft.c; drivers/cpu/fft, drivers/cuda/fft.c). */
#ifndef BTI_IR_FFT_H
#define BTI_IR_FFT_H

#include <berth/dtype.h>

/* Numbers of FORWARD are multiplied by e**(-2 pi i j k / n) and added, of BACKWARD by e**(2 pi i j k / n); neither is scaled. HALF: FORWARD of n real numbers, of which
 * the first n/2 + 1 results are kept; WHOLE: BACKWARD to n real numbers of the first n/2 + 1 of a symmetric line. */
typedef enum bti_fft_kind { BTI_FFT_FORWARD, BTI_FFT_BACKWARD, BTI_FFT_HALF, BTI_FFT_WHOLE } bti_fft_kind;

/* Lines of n points along the middle axis of dense arrays [outer, n, inner]; the half lines have n/2 + 1 points. */
typedef struct bti_fft_lines {
    bti_fft_kind kind;
    bt_dtype part; /* float32 or float64 */
    int64_t outer, n, inner;
} bti_fft_lines;

static inline int64_t bti_fft_points_read(const bti_fft_lines *lines) {
    return lines->kind == BTI_FFT_WHOLE ? lines->n / 2 + 1 : lines->n;
}
static inline int64_t bti_fft_points_written(const bti_fft_lines *lines) {
    return lines->kind == BTI_FFT_HALF ? lines->n / 2 + 1 : lines->n;
}

#endif
