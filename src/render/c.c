#include "render/c.h"

#include <string.h>

#include "base/alloc.h"
#include "ir/attention.h"
#include "ir/conv.h"
#include "ir/dtype.h"
#include "launch/attention_tile.h"
#include "launch/entry.h"
#include "launch/program.h"
#include "render/c_writer.h"

static const char cuda_words[] = {
#include "c_cuda.inc"
    0};
static const char opencl_words[] = {
#include "c_opencl.inc"
    0};
static const char half_functions[] = {
#include "c_half.inc"
    0};
static const char custom_words[] = {
#include "c_custom.inc"
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
static const char attention[] = {
#include "c_attention.inc"
    0};
static const char factor[] = {
#include "c_factor.inc"
    0};
static const char scan[] = {
#include "c_scan.inc"
    0};
static const char sort[] = {
#include "c_sort.inc"
    0};
static const char scatter[] = {
#include "c_scatter.inc"
    0};
static const char running[] = {
#include "c_running.inc"
    0};
static const char running_fold[] = {
#include "c_running_fold.inc"
    0};

static void add_language(bti_str *text, bti_target target) {
    if (target == BTI_OPENCL_C) bti_str_add(text, "#define HAS_F64\n");
    bti_str_add(text, target == BTI_CUDA_C ? cuda_words : opencl_words);
    bti_str_add(text, half_functions);
}

void bti_render_c_words(bti_str *text, bti_target target) {
    add_language(text, target);
    bti_str_add(text, common_functions);
    if (target == BTI_CUDA_C) bti_str_add(text, accurate_functions);
}

/* --- fused kernels -------------------------------------------------------------------------------------------------- */

static bool write_entries(bti_str *text, const bti_kernel *kernel, bti_entry only, bti_target target) {
    bti_c *w = bti_calloc(1, sizeof *w);
    if (!w) return false;
    *w = (bti_c){.text = text, .kernel = kernel, .target = target, .only = only};
    bti_c_functions(w);
    if (only == BTI_ENTRY_BOXES)
        bti_c_map_of_boxes(w);
    else if (kernel->reduced)
        bti_c_reduction(w);
    else
        bti_c_map(w);
    bti_free(w);
    return !text->failed;
}

bool bti_render_c_body(bti_str *text, const bti_kernel *kernel, bti_target target) {
    return write_entries(text, kernel, BTI_ENTRY_END, target);
}

bool bti_render_c(bti_str *text, const bti_kernel *kernel, bti_entry entry, bti_target target) {
    bti_render_c_words(text, target);
    return write_entries(text, kernel, entry, target);
}

/* --- primitives that are run whole: their texts are in c/; what depends on the dtypes is defined before them ---------- */

static const char *unsigned_type(size_t bytes) {
    return bytes == 8 ? "u64" : bytes == 4 ? "u32" : bytes == 2 ? "u16" : "u8";
}

static bool is_64_bit(bt_dtype dtype) { return bti_dtype_bits(dtype) == 64; }

static void define_keys(bti_str *text, size_t bytes) {
    bti_str_addf(text, "#define K_BYTES %d\n#define K %s\n", bytes == 8 ? 8 : 4, bytes == 8 ? "u64" : "u32");
}

/* KEY(x), and KEY_OF_BITS of the element's bits: unsigned numbers of its width in the order of the elements, or against it (`descending`). NaN is the
 * greatest; -0 equals 0. LAST: the bits of an element after which none comes. */
static void define_sort_key(bti_str *text, bt_dtype dtype, bool descending) {
    size_t bytes = bt_dtype_size(dtype);
    const char *type = unsigned_type(bytes), *suffix = bytes == 8 ? "ul" : "u", *turned = descending ? "~" : "";
    uint64_t sign = UINT64_C(1) << (bytes * 8 - 1), all = sign | (sign - 1);
    uint64_t infinity = dtype == BT_F16    ? 0x7c00
                        : dtype == BT_BF16 ? 0x7f80
                        : bytes == 4       ? 0x7f800000
                                           : UINT64_C(0x7ff0000000000000);
    bool is_float = bti_dtype_is_float(dtype), is_signed = bti_dtype_is_signed(dtype);
    uint64_t greatest = !is_float && is_signed ? all ^ sign : all, least = is_float ? sign | infinity : all ^ greatest;
    define_keys(text, bytes);
    bti_str_addf(text, "#define LAST (%s)0x%llx%s\n", type, (unsigned long long)(descending ? least : greatest),
                 suffix);
    if (!is_float) {
        bti_str_addf(text,
                     "#define KEY_OF_BITS(bits) ((%s)%s((bits) ^ (%s)0x%llx%s))\n#define KEY(x) KEY_OF_BITS((%s)(x))\n",
                     type, turned, type, (unsigned long long)(is_signed ? sign : 0), suffix, type);
        return;
    }
    const char *bits = bytes == 2 ? "" : bytes == 4 ? "bits_of_f32" : "bits_of_f64";
    bti_str_addf(text,
                 "FUNCTION %s key_of_bits(%s bits) {\n"
                 "    const %s sign = (%s)0x%llx%s, magnitude = bits & ~sign;\n"
                 "    const %s of_number = (bits & sign) && magnitude ? (%s)~bits : (%s)(magnitude | sign);\n"
                 "    return magnitude > 0x%llx%s ? (%s)~(%s)0 : of_number;\n"
                 "}\n"
                 "#define KEY_OF_BITS(bits) ((%s)%skey_of_bits(bits))\n"
                 "#define KEY(x) KEY_OF_BITS(%s(x))\n",
                 type, type, type, type, (unsigned long long)sign, suffix, type, type, type,
                 (unsigned long long)infinity, suffix, type, type, type, turned, bits);
}

/* COMBINED(x, y) of two stored elements: the greater or the smaller; NaN wins. */
static void define_extreme(bti_str *text, bt_dtype dtype, bool greater) {
    const char *sign = greater ? ">" : "<", *name = bti_c_is_small(dtype) ? bti_c_small_name(dtype) : "";
    if (bti_c_is_small(dtype))
        bti_str_addf(
            text, "#define COMBINED(x, y) (f32_of_%s(x) %s f32_of_%s(y) || f32_of_%s(x) != f32_of_%s(x) ? (x) : (y))\n",
            name, sign, name, name, name);
    else if (bti_dtype_is_float(dtype))
        bti_str_addf(text, "#define COMBINED(x, y) ((x) %s (y) || (x) != (x) ? (x) : (y))\n", sign);
    else
        bti_str_addf(text, "#define COMBINED(x, y) ((x) %s (y) ? (x) : (y))\n", sign);
}

/* COMBINED(x, y) of two stored elements: their sum. */
static void define_element_sum(bti_str *text, bt_dtype dtype) {
    if (bti_c_is_small(dtype))
        bti_str_addf(text, "#define COMBINED(x, y) %s_of_f32(f32_of_%s(x) + f32_of_%s(y))\n", bti_c_small_name(dtype),
                     bti_c_small_name(dtype), bti_c_small_name(dtype));
    else if (dtype == BT_BOOL)
        bti_str_add(text, "#define COMBINED(x, y) (u8)((x) | (y))\n");
    else if (bti_dtype_is_float(dtype))
        bti_str_add(text, "#define COMBINED(x, y) ((x) + (y))\n");
    else
        bti_str_addf(text, "#define COMBINED(x, y) (T)((%s)(x) + (%s)(y))\n", is_64_bit(dtype) ? "u64" : "u32",
                     is_64_bit(dtype) ? "u64" : "u32");
}

static void define_combination(bti_str *text, bti_op op, bt_dtype dtype) {
    if (op == BTI_OP_scatter_set)
        bti_str_add(text, "#define COMBINED(x, y) ((void)(x), (y))\n");
    else if (op == BTI_OP_scatter_max || op == BTI_OP_scatter_min)
        define_extreme(text, dtype, op == BTI_OP_scatter_max);
    else
        define_element_sum(text, dtype);
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

/* T_LEFT, T_RIGHT: elements of the matrices. */
static void begin_product(bti_str *text, bt_dtype left, bt_dtype right, bt_dtype dtype) {
    bti_str_addf(text, "#define T %s\n#define T_LEFT %s\n#define T_RIGHT %s\n", bti_c_stored_type(dtype),
                 bti_c_stored_type(left), bti_c_stored_type(right));
    define_accumulator(text, dtype, matmul_accumulator(dtype));
}

static bool render_product(bti_str *text, const bt_dtype *dtypes, bti_target target) {
    bti_render_c_words(text, target);
    begin_product(text, dtypes[0], dtypes[1], dtypes[2]);
    bti_c_plain_product(text);
    return !text->failed;
}

static bool render_conv(bti_str *text, bti_op op, bt_dtype dtype, bti_target target) {
    static const char *const makes[] = {[BTI_CONV_X] = "X", [BTI_CONV_W] = "W", [BTI_CONV_Y] = "Y"};
    bti_render_c_words(text, target);
    begin_product(text, dtype, dtype, dtype);
    bti_str_addf(text, "#define MAKES_%s\n", makes[bti_conv_made(op)]);
    bti_c_conv(text);
    return !text->failed;
}

static void define_tile(bti_str *text, const bti_attention_tile *tile) {
    bti_str_addf(text,
                 "#define GROUP_THREADS %d\n#define ACROSS %d\n#define EACH_ROWS %d\n#define EACH_COLUMNS %d\n"
                 "#define SPAN %d\n#define WIDTH %d\n",
                 tile->threads, tile->across, tile->each_rows, tile->each_columns, tile->span, tile->width);
}

/* The functions of elements: products and sums are contracted. */
static void define_attention(bti_str *text, bt_dtype dtype, bti_target target) {
    bool wide = dtype == BT_F64, cuda = target == BTI_CUDA_C;
    bti_str_addf(text, "#define T %s\n#define LOG(x) log(x)\n#define EXP2(x) %s(x)\n#define FMA(x, y, z) %s(x, y, z)\n",
                 bti_c_stored_type(dtype), cuda && !wide ? "exp2_flushed" : "exp2", cuda ? "fma" : "mad");
    bti_str_add(text, wide ? "#define VEC double2\n#define VECTOR 2\n#define SCALE f64_of_bits((u64)W(17))\n"
                             "#define LEAST f64_of_bits(0xfff0000000000000ul)\n"
                             "#define LOG2E 1.4426950408889634\n#define LN2 0.69314718055994531\n"
                           : "#define VEC float4\n#define VECTOR 4\n#define SCALE f32_of_bits((u32)W(17))\n"
                             "#define LEAST f32_of_bits(0xff800000u)\n"
                             "#define LOG2E 1.44269504f\n#define LN2 0.693147181f\n");
}

static bool render_attention(bti_str *text, bt_dtype dtype, bti_target target, int variant) {
    static const char *const wanted[] = {[BTI_ATTEND] = "ATTEND",
                                         [BTI_ATTEND_PAIR] = "ATTEND\n#define PACKED",
                                         [BTI_ATTEND_FEW] = "ATTEND\n#define PACKED",
                                         [BTI_ATTEND_SEVERAL] = "ATTEND\n#define PACKED",
                                         [BTI_ATTEND_JOIN] = "JOIN",
                                         [BTI_ATTEND_MEANS] = "MEANS",
                                         [BTI_ATTEND_QUERIES] = "QUERIES_SLOPE",
                                         [BTI_ATTEND_KEYS] = "KEYS_SLOPE"};
    bti_attention_text which = bti_attention_text_of(variant);
    bti_attention_tile tile = bti_attention_tile_of(which, bti_attention_size_of(variant), dtype);
    bti_render_c_words(text, target);
    define_attention(text, dtype, target);
    define_tile(text, &tile);
    bti_str_addf(text, "#define %s\n", wanted[which]);
    bti_str_add(text, attention);
    return !text->failed;
}

bool bti_render_c_product(bti_str *text, const bti_kernel *kernel, int made, bt_dtype dtype, bti_target target) {
    bti_c *w = bti_calloc(1, sizeof *w);
    bti_kernel *epilogue = bti_alloc(sizeof *epilogue);
    if (w && epilogue) {
        bti_epilogue_without_memory(kernel, made, epilogue);
        *w = (bti_c){.text = text, .kernel = epilogue, .target = target};
        bti_render_c_words(text, target);
        bti_c_functions(w);
        begin_product(text, dtype, dtype, dtype);
        bti_c_epilogue(w, made);
    }
    bool written = w && epilogue && !text->failed;
    bti_free(w);
    bti_free(epilogue);
    return written;
}

bool bti_render_c_work(bti_str *text, bti_op op, const bt_dtype *dtypes, int count, bti_target target, int variant) {
    bt_dtype of = dtypes[0], index = count > 2 ? dtypes[1] : BT_I32;
    if (op == BTI_OP_matmul) return render_product(text, dtypes, target);
    if (bti_op_is_conv(op)) return render_conv(text, op, of, target);
    if (bti_op_is_attention(op)) return render_attention(text, of, target, variant);
    bti_render_c_words(text, target);
    bti_str_addf(text, "#define T %s\n#define E %s\n#define I %s\n", bti_c_stored_type(of),
                 unsigned_type(bt_dtype_size(of)), bti_c_stored_type(index));
    if (target != BTI_CUDA_C) bti_str_add(text, "#define SERIAL\n");
    const char *body = gather;
    switch (op) {
    case BTI_OP_take: bti_str_add(text, "#define TAKE\n"); break;
    case BTI_OP_gather_axis: bti_str_add(text, "#define GATHER\n"); break;
    case BTI_OP_update_slice: bti_str_add(text, "#define UPDATE\n"); break;
    case BTI_OP_sort:
    case BTI_OP_top_k:
        bti_str_add(text, "#define SORT\n");
        define_sort_key(text, of, op == BTI_OP_top_k);
        body = sort;
        break;
    case BTI_OP_scatter_axis:
    case BTI_OP_scatter_set:
    case BTI_OP_scatter_max:
    case BTI_OP_scatter_min: bti_str_add(text, "#define LINES\n"); __attribute__((fallthrough));
    case BTI_OP_scatter_add:
        define_keys(text, bt_dtype_size(index));
        define_combination(text, op, of);
        bti_str_add(text, sort);
        body = scatter;
        break;
    case BTI_OP_cumsum:
        define_accumulator(text, of, cumsum_accumulator(of, target));
        bti_str_add(text, scan);
        body = running;
        break;
    case BTI_OP_cumprod:
        define_accumulator(text, of, cumsum_accumulator(of, target));
        bti_str_add(text, "#define COMBINED(x, y) ((x) * (y))\n");
        body = running_fold;
        break;
    case BTI_OP_cummax:
    case BTI_OP_cummin:
        bti_str_add(text, "#define SUM T\n#define VALUE(x) (x)\n#define STORED(x) (x)\n");
        define_extreme(text, of, op == BTI_OP_cummax);
        body = running_fold;
        break;
    default: break;
    }
    bti_str_add(text, body);
    return !text->failed;
}

/* --- around linear algebra ---------------------------------------------------------------------------------------------- */

bool bti_render_c_factor(bti_str *text, bt_dtype dtype, bti_target target) {
    bool wide = bti_dtype_of_part(dtype) == BT_F64;
    if (target != BTI_CUDA_C) return false;
    bti_render_c_words(text, target);
    bti_str_addf(text, "#define R %s\n#define NOT_A_NUMBER %s\n", wide ? "f64" : "f32",
                 wide ? "f64_of_bits(0x7ff8000000000000ul)" : "f32_of_bits(0x7fc00000u)");
    bti_str_add(text, factor);
    return !text->failed;
}

/* --- kernels of the program's ------------------------------------------------------------------------------------------ */

/* What the words of one operand stand for; sizes: the number of the first. */
static void define_operand(bti_str *text, const bti_custom_source *source, int operand, int sizes) {
    bool is_input = operand < source->input_count;
    const char *kind = is_input ? "INPUT" : "OUTPUT", *type = bti_c_stored_type(source->dtypes[operand]);
    int number = is_input ? operand : operand - source->input_count, rank = source->ranks[operand];
    bti_str_addf(text, "#define %s_TYPE_%d %s\n", kind, number, type);
    bti_str_addf(text, "#define %s_%d ((GLOBAL %s%s *)ADDRESS(%d, %d))\n", kind, number, is_input ? "const " : "", type,
                 operand, operand);
    bti_str_addf(text, "#define %s_RANK_%d %d\n#define %s_SIZES_%d %d\n#define %s_COUNT_%d ((i64)1", kind, number, rank,
                 kind, number, sizes, kind, number);
    for (int d = 0; d < rank; d++) bti_str_addf(text, " * W(%d)", sizes + d);
    bti_str_add(text, ")\n");
}

void bti_render_c_custom(bti_str *text, const bti_custom_source *source, bti_target target) {
    int operands = source->input_count + source->output_count, words = operands;
    add_language(text, target);
    bti_str_add(text, custom_words);
    for (int o = 0; o < operands; o++) {
        define_operand(text, source, o, words);
        words += source->ranks[o];
    }
    bti_str_addf(text, "#define INPUTS %d\n#define OUTPUTS %d\n#define ATTRIBUTES %d\n#define ATTRIBUTES_BEGIN %d\n",
                 source->input_count, source->output_count, source->attr_count, words);
    words += source->attr_count;
    bool by_value = bti_words_by_value(words, operands, target);
    if (by_value) bti_str_addf(text, "struct berth_words {\n    i64 at[%d];\n};\n", words);
    bti_str_addf(text, "#define KERNEL(entry) %s void entry(",
                 target == BTI_CUDA_C ? "extern \"C\" __global__" : "__kernel");
    for (int o = 0; o < operands; o++) bti_str_addf(text, "MEMORY(%d) ", o);
    bti_str_add(text, by_value ? "const struct berth_words words)\n"
                               : "WORDS_IN_MEMORY)\n#undef W\n#define W(number) words[number]\n");
    bti_str_addf(text, BTI_OWN_LINES "%s\n", source->text);
}
