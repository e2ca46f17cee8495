#include "render/c.h"

#include <string.h>

#include "base/alloc.h"
#include "ir/dtype.h"
#include "render/c_writer.h"

static const char cuda_words[] = {
#include "c_cuda.inc"
    0};
static const char opencl_words[] = {
#include "c_opencl.inc"
    0};
static const char common_functions[] = {
#include "c_common.inc"
    0};
static const char accurate_functions[] = {
#include "c_accurate.inc"
    0};

static const char gather[] = {
#include "c_gather.inc"
    0};
static const char sort[] = {
#include "c_sort.inc"
    0};
static const char search[] = {
#include "c_search.inc"
    0};
static const char running[] = {
#include "c_running.inc"
    0};
static const char matmul[] = {
#include "c_matmul.inc"
    0};

void bti_render_c_words(bti_str *text, bti_target target) {
    if (target == BTI_OPENCL_C) bti_str_add(text, "#define HAS_F64\n");
    bti_str_add(text, target == BTI_CUDA_C ? cuda_words : opencl_words);
    bti_str_add(text, common_functions);
    if (target == BTI_CUDA_C) bti_str_add(text, accurate_functions);
}

/* --- fused kernels -------------------------------------------------------------------------------------------------- */

bool bti_render_c_body(bti_str *text, const bti_kernel *kernel, bti_target target) {
    bti_c *w = bti_calloc(1, sizeof *w);
    if (!w) return false;
    *w = (bti_c){.text = text, .kernel = kernel, .target = target};
    bti_c_functions(w);
    if (kernel->reduced)
        bti_c_reduction(w);
    else
        bti_c_map(w);
    bti_free(w);
    return !text->failed;
}

bool bti_render_c(bti_str *text, const bti_kernel *kernel, bti_target target) {
    bti_render_c_words(text, target);
    return bti_render_c_body(text, kernel, target);
}

/* --- primitives that are run whole: their texts are in c/; what depends on the dtypes is defined before them ---------- */

static const char *unsigned_type(size_t bytes) {
    return bytes == 8 ? "u64" : bytes == 4 ? "u32" : bytes == 2 ? "u16" : "u8";
}

static bool is_64_bit(bt_dtype dtype) { return bti_dtype_bits(dtype) == 64; }

/* KEY(x): unsigned numbers in the order of the elements. NaN is the last; -0 equals 0. */
static void define_sort_key(bti_str *text, bt_dtype dtype, bti_target target) {
    bti_str_addf(text, "#define IS_REAL %d\n", bti_dtype_is_float(dtype));
    if (!bti_dtype_is_float(dtype)) {
        bti_str_add(text, bti_dtype_is_signed(dtype) ? "#define KEY(x) ((u64)(i64)(x) ^ 1ul << 63)\n"
                                                     : "#define KEY(x) ((u64)(x))\n");
        return;
    }
    bool single = target == BTI_OPENCL_C_F32;
    bti_str_addf(text,
                 "FUNCTION u64 key_of_real(%s x) {\n"
                 "    if (x != x) return 0xfffffffffffffffful;\n"
                 "    const u64 bits = (u64)bits_of_%s(x == 0 ? 0 : x) << %d;\n"
                 "    return bits >> 63 ? ~bits : bits | 1ul << 63;\n"
                 "}\n",
                 single ? "f32" : "f64", single ? "f32" : "f64", single ? 32 : 0);
    if (bti_c_is_small(dtype))
        bti_str_addf(text, "#define KEY(x) key_of_real(f32_of_%s(x))\n", bti_c_small_name(dtype));
    else
        bti_str_add(text, "#define KEY(x) key_of_real(x)\n");
}

/* ADDED(x, y) of two stored elements. */
static void define_element_sum(bti_str *text, bt_dtype dtype) {
    if (bti_c_is_small(dtype))
        bti_str_addf(text, "#define ADDED(x, y) %s_of_f32(f32_of_%s(x) + f32_of_%s(y))\n", bti_c_small_name(dtype),
                     bti_c_small_name(dtype), bti_c_small_name(dtype));
    else if (dtype == BT_BOOL)
        bti_str_add(text, "#define ADDED(x, y) (u8)((x) | (y))\n");
    else if (bti_dtype_is_float(dtype))
        bti_str_add(text, "#define ADDED(x, y) ((x) + (y))\n");
    else
        bti_str_addf(text, "#define ADDED(x, y) (T)((%s)(x) + (%s)(y))\n", is_64_bit(dtype) ? "u64" : "u32",
                     is_64_bit(dtype) ? "u64" : "u32");
}

/* SUM, the type of the accumulator; VALUE(element) and STORED(sum) convert between it and elements. */
static void define_accumulator(bti_str *text, bt_dtype dtype, const char *sum) {
    bool wide = sum[0] == 'f' && sum[1] == '6';
    bti_str_addf(text, "#define SUM %s\n#define MADE(sum, x, y) ((sum) + (x) * (y))\n", sum);
    if (bti_c_is_small(dtype))
        bti_str_addf(text, "#define VALUE(x) (SUM)f32_of_%s(x)\n#define STORED(sum) %s_of_f32(%s(sum))\n",
                     bti_c_small_name(dtype), bti_c_small_name(dtype), wide ? "odd_of_f64" : "");
    else
        bti_str_add(text, "#define VALUE(x) (SUM)(x)\n#define STORED(sum) (T)(sum)\n");
}

static const char *cumsum_accumulator(bt_dtype dtype, bti_target target) {
    if (!bti_dtype_is_float(dtype)) return "u64";
    return target == BTI_OPENCL_C_F32 ? "f32" : "f64";
}

static const char *matmul_accumulator(bt_dtype dtype) {
    if (dtype == BT_F64) return "f64";
    return bti_dtype_is_float(dtype) ? "f32" : is_64_bit(dtype) ? "u64" : "u32";
}

bool bti_render_c_work(bti_str *text, bti_op op, const bt_dtype *dtypes, int count, bti_target target) {
    bt_dtype of = dtypes[0], index = count > 2 ? dtypes[1] : BT_I32;
    bti_render_c_words(text, target);
    bti_str_addf(text, "#define T %s\n#define E %s\n#define I %s\n#define LANE_THREADS %d\n", bti_c_stored_type(of),
                 unsigned_type(bt_dtype_size(of)), bti_c_stored_type(index), target == BTI_CUDA_C ? 256 : 32);
    const char *body = gather;
    switch (op) {
    case BTI_OP_take: bti_str_add(text, "#define TAKE\n"); break;
    case BTI_OP_gather_axis: bti_str_add(text, "#define GATHER\n"); break;
    case BTI_OP_scatter_axis:
        bti_str_add(text, "#define SCATTER\n");
        define_element_sum(text, of);
        break;
    case BTI_OP_argsort:
        bti_str_add(text, "#define SORT\n");
        define_sort_key(text, of, target);
        body = sort;
        break;
    case BTI_OP_scatter_add:
        bti_str_add(text, "#define ADD\n");
        define_element_sum(text, of);
        body = sort;
        break;
    case BTI_OP_argmin: bti_str_add(text, "#define LEAST\n"); __attribute__((fallthrough));
    case BTI_OP_argmax:
        define_sort_key(text, of, target);
        body = search;
        break;
    case BTI_OP_cumsum:
        define_accumulator(text, of, cumsum_accumulator(of, target));
        body = running;
        break;
    default: define_accumulator(text, of, matmul_accumulator(of)); body = matmul;
    }
    bti_str_add(text, body);
    return !text->failed;
}
