/* berth/fft.h: Fourier transforms.
 *
 * NVIDIA's GPUs compute them by cuFFT (11 or 12, of CUDA 12 and 13) where it is found. Else the host does by FFTW 3 (Debian: libfftw3-single3 for float32 and complex64, libfftw3-double3 for
 * float64 and complex128): arrays of other devices are copied to it and back; without it they are UNIMPLEMENTED. FFTW is under the GPL and is not part of berth: it is opened when a transform needs it, where the flag `fftw_path`
 * or the loader finds it. Transforms are cut into lines that cores share; results do not depend on the number of threads.
 *
 * Floats and complex numbers (integers become floats): float32 and complex64, float64 and complex128; float16 and bfloat16 are computed in float32. Transformed axes
 * have known sizes, at least 1; others may have unknown ones. Lengths may be any numbers, primes too. Gradients, bt_jvp and bt_vmap work through all of them.
 *
 * As numpy.fft: X[k] = sum of x[j] e**(-2 pi i j k / n) over j, and the inverse x[j] = (1/n) sum of X[k] e**(2 pi i j k / n) over k. */
#ifndef BERTH_FFT_H
#define BERTH_FFT_H

#include <berth/complex.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is divided by n, the number of points of all transformed axes: the inverse (backward, NumPy's default), both by sqrt(n) (ortho), or the transform (forward). */
typedef enum bt_fft_norm { BT_FFT_BACKWARD, BT_FFT_ORTHO, BT_FFT_FORWARD } bt_fft_norm;

/* By name: `bt_fft(x, .sizes = {64}, .axes = BT_AXES(0), .norm = BT_FFT_ORTHO)`. */
typedef struct bt_fft_options {
    size_t size BTI_INITIALLY(sizeof(bt_fft_options)); /* set by the macro */
    BTI_BY_NAME
    /* Points of each transformed axis, in the order of `axes`: x is cut to them or filled up with zeros at the end; of an inverse of half a transform those of the
     * result [0: as x has; of bt_irfft and its like 2 (m - 1) of m] */
    int64_t sizes[BT_MAX_RANK] BTI_INITIALLY({});
    bt_axes
        axes BTI_INITIALLY({}); /* [the last one; the last two of bt_fft2 and its like; all of bt_fftn and its like] */
    bt_fft_norm norm BTI_INITIALLY(BT_FFT_BACKWARD);
} bt_fft_options;
#define BT_FFT(...) BTI_OPTIONS(bt_fft_options, __VA_ARGS__)

/* Of the functions themselves NULL means the default options. */

/* The transform along one axis: complex, of x's shape but for `sizes`. */
BT_API bt_array *bt_fft(bt_array *x, const bt_fft_options *options);
/* The inverse of bt_fft: complex. */
BT_API bt_array *bt_ifft(bt_array *x, const bt_fft_options *options);
/* The transform along one axis of a real x, its first n/2 + 1 places, of which the others are the conjugates: half the work. Complex x: INVALID_ARGUMENT. */
BT_API bt_array *bt_rfft(bt_array *x, const bt_fft_options *options);
/* The inverse of bt_rfft: real, of n places. An odd n is given by `sizes`. The imaginary parts of place 0 and, of an even n, of the last one do not count. */
BT_API bt_array *bt_irfft(bt_array *x, const bt_fft_options *options);
/* The transform along two axes: complex. */
BT_API bt_array *bt_fft2(bt_array *x, const bt_fft_options *options);
/* The inverse of bt_fft2: complex. */
BT_API bt_array *bt_ifft2(bt_array *x, const bt_fft_options *options);
/* The transform along two axes of a real x, of whose last one the first n/2 + 1 places, as of bt_rfft. */
BT_API bt_array *bt_rfft2(bt_array *x, const bt_fft_options *options);
/* The inverse of bt_rfft2: real. */
BT_API bt_array *bt_irfft2(bt_array *x, const bt_fft_options *options);
/* The transform along any axes: complex. */
BT_API bt_array *bt_fftn(bt_array *x, const bt_fft_options *options);
/* The inverse of bt_fftn: complex. */
BT_API bt_array *bt_ifftn(bt_array *x, const bt_fft_options *options);
/* The transform along any axes of a real x, of whose last one the first n/2 + 1 places, as of bt_rfft. */
BT_API bt_array *bt_rfftn(bt_array *x, const bt_fft_options *options);
/* The inverse of bt_rfftn: real. */
BT_API bt_array *bt_irfftn(bt_array *x, const bt_fft_options *options);
#ifndef BERTH_BUILDING
#define BTI_FFT(function, x, ...) function(x, BT_FFT(__VA_ARGS__))
#define bt_fft(...) BTI_AT(bt_array *, BTI_FFT(bt_fft, __VA_ARGS__, ))
#define bt_ifft(...) BTI_AT(bt_array *, BTI_FFT(bt_ifft, __VA_ARGS__, ))
#define bt_rfft(...) BTI_AT(bt_array *, BTI_FFT(bt_rfft, __VA_ARGS__, ))
#define bt_irfft(...) BTI_AT(bt_array *, BTI_FFT(bt_irfft, __VA_ARGS__, ))
#define bt_fft2(...) BTI_AT(bt_array *, BTI_FFT(bt_fft2, __VA_ARGS__, ))
#define bt_ifft2(...) BTI_AT(bt_array *, BTI_FFT(bt_ifft2, __VA_ARGS__, ))
#define bt_rfft2(...) BTI_AT(bt_array *, BTI_FFT(bt_rfft2, __VA_ARGS__, ))
#define bt_irfft2(...) BTI_AT(bt_array *, BTI_FFT(bt_irfft2, __VA_ARGS__, ))
#define bt_fftn(...) BTI_AT(bt_array *, BTI_FFT(bt_fftn, __VA_ARGS__, ))
#define bt_ifftn(...) BTI_AT(bt_array *, BTI_FFT(bt_ifftn, __VA_ARGS__, ))
#define bt_rfftn(...) BTI_AT(bt_array *, BTI_FFT(bt_rfftn, __VA_ARGS__, ))
#define bt_irfftn(...) BTI_AT(bt_array *, BTI_FFT(bt_irfftn, __VA_ARGS__, ))
#endif

/* The frequencies of bt_fft's n >= 1 places, of samples `spacing` apart: 0, 1, ... (n-1)/2, -(n/2), ... -1, each over n * spacing; a dtype of floats. [n] */
BT_API bt_array *bt_fftfreq(int64_t n, double spacing, bt_dtype dtype);
#define bt_fftfreq(...) BTI_AT(bt_array *, bt_fftfreq(__VA_ARGS__))
/* Those of bt_rfft's places: 0, 1, ... n/2, each over n * spacing. [n/2 + 1] */
BT_API bt_array *bt_rfftfreq(int64_t n, double spacing, bt_dtype dtype);
#define bt_rfftfreq(...) BTI_AT(bt_array *, bt_rfftfreq(__VA_ARGS__))
/* x with place 0 of the axes moved to their middle. */
BT_API bt_array *bt_fftshift(bt_array *x, bt_axes axes);
#define bt_fftshift(...) BTI_AT(bt_array *, bt_fftshift(__VA_ARGS__))
/* The inverse of bt_fftshift: the middle of the axes moved to place 0. */
BT_API bt_array *bt_ifftshift(bt_array *x, bt_axes axes);
#define bt_ifftshift(...) BTI_AT(bt_array *, bt_ifftshift(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
