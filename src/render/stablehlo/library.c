/* What the host, or a library of a device's, computes elsewhere, as far as StableHLO has it: Fourier transforms, Cholesky's factor and triangular systems. */
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

static bt_elements elements_of(bti_hlo_value x) {
    return (bt_elements){.dtype = x.type.dtype, .shape = bti_shape_of(x.type.shape, (size_t)x.type.rank)};
}

static void add_flag(bti_hlo *w, const char *name, bool on) {
    bti_str_add(bti_hlo_attribute(w, name), on ? "true" : "false");
}

/* The other half of XLA's factor is anything. */
static bti_hlo_value cholesky(bti_hlo *w, bti_hlo_value a) {
    bti_type numbers = bti_hlo_like(&a.type, BT_I32);
    add_flag(w, "lower", true);
    bti_hlo_value l = bti_hlo_line(w, "cholesky", a.type, 1, &a);
    bti_hlo_value row = bti_hlo_iota(w, numbers, a.type.rank - 2), column = bti_hlo_iota(w, numbers, a.type.rank - 1);
    return bti_hlo_select(w, bti_hlo_compare(w, "GE", row, column), l, bti_hlo_number(w, a.type, 0));
}

static bti_hlo_value triangular_solve(bti_hlo *w, bti_triangle how, const bti_hlo_value *in) {
    add_flag(w, "left_side", true);
    add_flag(w, "lower", !how.upper);
    add_flag(w, "unit_diagonal", how.unit);
    bti_str_addf(bti_hlo_attribute(w, "transpose_a"), "#stablehlo<transpose %s>",
                 how.transposed ? "TRANSPOSE" : "NO_TRANSPOSE");
    return bti_hlo_line(w, "triangular_solve", in[1].type, 2, in);
}

static bti_hlo_value factor_of(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    const bt_elements elements[2] = {elements_of(in[0]), elements_of(in[node->input_count > 1])};
    bti_factor factor;
    node->host->factor(node->host, elements, node->input_count, node->attr, &factor);
    return factor.kind == BTI_FACTOR_CHOLESKY ? cholesky(w, in[0]) : triangular_solve(w, factor.triangle, in);
}

static bti_hlo_value lines_of(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    const bt_elements elements = elements_of(in[0]);
    bti_fft_lines lines;
    node->host->lines(&elements, node->attr, &lines);
    return transform(w, &lines, in[0], *bti_tuple_type(node->tuple, 0));
}

bool bti_hlo_library(bti_hlo *w, const bti_node *node, const bti_hlo_value *in) {
    if (!node->host || !node->host->in_graphs) return false;
    bti_hlo_value made = node->host->lines ? lines_of(w, node, in) : factor_of(w, node, in);
    bti_hlo_set(w, node, 1, &made);
    return true;
}
