/* Primitives that are run whole: their texts stand in c/; what differs by dtype is defined before them. */
#include "ir/dtype.h"
#include "render/c.h"
#include "render/c_parts.h"

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

static const char *element_of_size(size_t bytes) {
    return bytes == 8 ? "u64" : bytes == 4 ? "u32" : bytes == 2 ? "u16" : "u8";
}

static const char *small_of(bt_dtype dtype) { return dtype == BT_F16 ? "f16" : "bf16"; }
static bool is_wide(bt_dtype dtype) { return bti_dtype_bits(dtype) == 64; }

/* KEY(x): as unsigned numbers they order as the elements do; NaN is the last, -0 equals 0. */
static void define_key(bti_str *text, bt_dtype dtype, bti_target target) {
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
        bti_str_addf(text, "#define KEY(x) key_of_real(f32_of_%s(x))\n", small_of(dtype));
    else
        bti_str_add(text, "#define KEY(x) key_of_real(x)\n");
}

/* ADDED(x, y) of two stored elements. */
static void define_sum(bti_str *text, bt_dtype dtype) {
    if (bti_c_is_small(dtype))
        bti_str_addf(text, "#define ADDED(x, y) %s_of_f32(f32_of_%s(x) + f32_of_%s(y))\n", small_of(dtype),
                     small_of(dtype), small_of(dtype));
    else if (dtype == BT_BOOL)
        bti_str_add(text, "#define ADDED(x, y) (u8)((x) | (y))\n");
    else if (bti_dtype_is_float(dtype))
        bti_str_add(text, "#define ADDED(x, y) ((x) + (y))\n");
    else
        bti_str_addf(text, "#define ADDED(x, y) (T)((%s)(x) + (%s)(y))\n", is_wide(dtype) ? "u64" : "u32",
                     is_wide(dtype) ? "u64" : "u32");
}

/* SUM, and VALUE(stored) and STORED(sum) between it and elements. */
static void define_total(bti_str *text, bt_dtype dtype, const char *sum) {
    bool wide = sum[0] == 'f' && sum[1] == '6';
    bti_str_addf(text, "#define SUM %s\n#define MADE(sum, x, y) ((sum) + (x) * (y))\n", sum);
    if (bti_c_is_small(dtype))
        bti_str_addf(text, "#define VALUE(x) (SUM)f32_of_%s(x)\n#define STORED(sum) %s_of_f32(%s(sum))\n",
                     small_of(dtype), small_of(dtype), wide ? "odd_of_f64" : "");
    else
        bti_str_add(text, "#define VALUE(x) (SUM)(x)\n#define STORED(sum) (T)(sum)\n");
}

static const char *running_sum(bt_dtype dtype, bti_target target) {
    if (!bti_dtype_is_float(dtype)) return "u64";
    return target == BTI_OPENCL_C_F32 ? "f32" : "f64";
}

static const char *product_sum(bt_dtype dtype) {
    if (dtype == BT_F64) return "f64";
    return bti_dtype_is_float(dtype) ? "f32" : is_wide(dtype) ? "u64" : "u32";
}

bool bti_render_c_work(bti_str *text, bti_op op, const bt_dtype *dtypes, int count, bti_target target) {
    bt_dtype of = dtypes[0], index = count > 2 ? dtypes[1] : BT_I32;
    bti_render_c_words(text, target);
    bti_str_addf(text, "#define T %s\n#define E %s\n#define I %s\n#define LANE_THREADS %d\n", bti_c_stored_type(of),
                 element_of_size(bt_dtype_size(of)), bti_c_stored_type(index), target == BTI_CUDA_C ? 256 : 32);
    const char *body = gather;
    switch (op) {
    case BTI_OP_take: bti_str_add(text, "#define TAKE\n"); break;
    case BTI_OP_gather_axis: bti_str_add(text, "#define GATHER\n"); break;
    case BTI_OP_scatter_axis:
        bti_str_add(text, "#define SCATTER\n");
        define_sum(text, of);
        break;
    case BTI_OP_argsort:
        bti_str_add(text, "#define SORT\n");
        define_key(text, of, target);
        body = sort;
        break;
    case BTI_OP_scatter_add:
        bti_str_add(text, "#define ADD\n");
        define_sum(text, of);
        body = sort;
        break;
    case BTI_OP_argmin:
        bti_str_add(text, "#define LEAST\n"); /* and */
        __attribute__((fallthrough));
    case BTI_OP_argmax:
        define_key(text, of, target);
        body = search;
        break;
    case BTI_OP_cumsum:
        define_total(text, of, running_sum(of, target));
        body = running;
        break;
    default: define_total(text, of, product_sum(of)); body = matmul;
    }
    bti_str_add(text, body);
    return !text->failed;
}
