/* Parts of complex numbers, and Fourier transforms. */
#include "golden/golden.h"

#include <string.h>

bt_array *golden_of_pairs(bt_array *pairs) { return bt_complex(bt_index(pairs, -1, 0), bt_index(pairs, -1, 1)); }

bt_array *golden_pairs_of(bt_array *numbers) {
    bt_array *parts[2] = {bt_real(numbers), bt_imag(numbers)};
    return bt_stack(parts, 2, -1);
}

static bt_array *do_complex(call *c) { return bt_complex(c->in[0], c->in[1]); }
static bt_array *do_polar(call *c) { return bt_polar(c->in[0], c->in[1]); }
static bt_array *do_real(call *c) { return bt_real(c->in[0]); }
static bt_array *do_imag(call *c) { return bt_imag(c->in[0]); }
static bt_array *do_conj(call *c) { return bt_conj(c->in[0]); }
static bt_array *do_angle(call *c) { return bt_angle(c->in[0]); }
static bt_array *do_fftshift(call *c) { return bt_fftshift(c->in[0], attr_axes(c)); }
static bt_array *do_ifftshift(call *c) { return bt_ifftshift(c->in[0], attr_axes(c)); }

static const struct {
    const char *name;
    bt_array *(*call)(call *c);
} parts[] = {{"complex", do_complex}, {"polar", do_polar}, {"real", do_real},         {"imag", do_imag},
             {"conj", do_conj},       {"angle", do_angle}, {"fftshift", do_fftshift}, {"ifftshift", do_ifftshift}};

static const struct {
    const char *name;
    bt_array *(*call)(bt_array *x, const bt_fft_options *options);
} transforms[] = {{"fft", bt_fft},   {"ifft", bt_ifft},   {"rfft", bt_rfft},   {"irfft", bt_irfft},
                  {"fft2", bt_fft2}, {"ifft2", bt_ifft2}, {"rfft2", bt_rfft2}, {"irfft2", bt_irfft2},
                  {"fftn", bt_fftn}, {"ifftn", bt_ifftn}, {"rfftn", bt_rfftn}, {"irfftn", bt_irfftn}};

static bt_array *transformed(call *c, bt_array *(*transform)(bt_array *, const bt_fft_options *)) {
    static const char *const norms[] = {"backward", "ortho", "forward"};
    bt_fft_options options = {.size = sizeof options, .axes = attr_axes(c)};
    const char *norm = json_string_value(attr(c, "norm"));
    bt_shape sizes = attr_shape(c, "sizes");
    for (int i = 0; i < sizes.rank; i++) options.sizes[i] = sizes.size[i];
    while (norm && options.norm < BT_FFT_FORWARD && strcmp(norm, norms[options.norm])) options.norm++;
    return transform(c->in[0], &options);
}

bt_array *golden_complex(const char *op, call *c) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(op, parts[i].name)) return parts[i].call(c);
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        if (!strcmp(op, transforms[i].name)) return transformed(c, transforms[i].call);
    bt_dtype dtype = strstr(op, "fftfreq") ? attr_dtype(c, "dtype", BT_F64) : BT_F64;
    if (!strcmp(op, "fftfreq")) return bt_fftfreq(attr_int(c, "n", 0), attr_double(c, "spacing", 1), dtype);
    if (!strcmp(op, "rfftfreq")) return bt_rfftfreq(attr_int(c, "n", 0), attr_double(c, "spacing", 1), dtype);
    return NULL;
}
