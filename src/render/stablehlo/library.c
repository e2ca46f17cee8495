/* What the host, or a library of a device's, computes elsewhere, as far as StableHLO has it: Fourier transforms. */
#include "ir/dtype.h"
#include "render/stablehlo/writer.h"

/* Lines lie along the last axis there, and what goes backwards is divided by their points. */
static bti_hlo_value transform(bti_hlo *w, const bti_fft_lines *lines, bti_hlo_value x, bti_type type) {
    static const char *const kinds[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    static const int turned[] = {0, 2, 1};
    const int64_t read[] = {lines->outer, bti_fft_points_read(lines), lines->inner},
                  written[] = {lines->outer, lines->inner, bti_fft_points_written(lines)};
    bool backwards = lines->kind == BTI_FFT_BACKWARD || lines->kind == BTI_FFT_WHOLE;
    bti_type made = {.dtype = type.dtype, .rank = 3, .shape = {written[0], written[1], written[2]}};
    x = bti_hlo_permute(w, bti_hlo_reshape(w, x, 3, read), turned);
    bti_str_addf(bti_hlo_attribute(w, "fft_type"), "#stablehlo<fft_type %s>", kinds[lines->kind]);
    bti_hlo_attribute_list(w, "fft_length", &lines->n, 1);
    bti_hlo_value y = bti_hlo_line(w, "fft", made, 1, &x);
    if (backwards) y = bti_hlo_binary(w, "multiply", y, bti_hlo_number(w, made, (double)lines->n));
    return bti_hlo_reshape(w, bti_hlo_permute(w, y, turned), type.rank, type.shape);
}

bool bti_hlo_library(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    bti_host_function *host = node->host;
    if (!host || !bti_host_has_graph(host)) return false;
    const bti_type *type = bti_tuple_type(node->tuple, 0);
    const bt_elements elements = {.dtype = in[0].type.dtype,
                                  .shape = bti_shape_of(in[0].type.shape, (size_t)in[0].type.rank)};
    bti_fft_lines lines;
    host->lines(&elements, node->attr, &lines);
    bti_hlo_value made = transform(w, &lines, in[0], *type);
    bti_hlo_set(w, node, 1, &made);
    return true;
}
