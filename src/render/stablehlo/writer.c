#include "render/stablehlo/writer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "ir/dtype.h"
#include "ir/half.h"

/* --- types ------------------------------------------------------------------------------------------------------------- */

static const char *element_name(bt_dtype dtype) {
    switch (dtype) {
    case BT_BOOL: return "i1";
    case BT_U8:
    case BT_F8E4M3:
    case BT_F8E5M2: return "ui8"; /* 8-bit floats are bytes below ops/ */
    case BT_U16: return "ui16";
    case BT_U32: return "ui32";
    case BT_U64: return "ui64";
    case BT_I8: return "i8";
    case BT_I16: return "i16";
    case BT_I32: return "i32";
    case BT_I64: return "i64";
    case BT_F16: return "f16";
    case BT_BF16: return "bf16";
    case BT_F64: return "f64";
    case BT_C64: return "complex<f32>";
    case BT_C128: return "complex<f64>";
    default: return "f32";
    }
}

void bti_hlo_add_type(bti_str *text, const bti_type *type) {
    bti_str_add(text, "tensor<");
    for (int i = 0; i < type->rank; i++) bti_str_addf(text, "%" PRId64 "x", type->shape[i]);
    bti_str_addf(text, "%s>", element_name(type->dtype));
}

void bti_hlo_add_value(bti_str *text, bti_hlo_value value) {
    bti_str_addf(text, "%%%d", value.id);
    if (value.of >= 0) bti_str_addf(text, "#%d", value.of);
}

bti_type bti_hlo_like(const bti_type *type, bt_dtype dtype) {
    bti_type other = *type;
    other.dtype = dtype;
    return other;
}

bti_type bti_hlo_scalar(bt_dtype dtype) { return (bti_type){.dtype = dtype}; }

/* --- attributes --------------------------------------------------------------------------------------------------------- */

bti_str *bti_hlo_attribute(bti_hlo *w, const char *name) {
    bti_str_addf(&w->attributes, "%s%s = ", w->attributes.length ? ", " : " {", name);
    return &w->attributes;
}

void bti_hlo_attribute_list(bti_hlo *w, const char *name, const int64_t *numbers, int count) {
    bti_str *text = bti_hlo_attribute(w, name);
    bti_str_add(text, "array<i64");
    for (int i = 0; i < count; i++) bti_str_addf(text, "%s%" PRId64, i ? ", " : ": ", numbers[i]);
    bti_str_add(text, ">");
}

void bti_hlo_attribute_pairs(bti_hlo *w, const char *name, const int64_t (*pairs)[2], int count) {
    bti_str *text = bti_hlo_attribute(w, name);
    bti_str_add(text, "dense<[");
    for (int i = 0; i < count; i++)
        bti_str_addf(text, "%s[%" PRId64 ", %" PRId64 "]", i ? ", " : "", pairs[i][0], pairs[i][1]);
    bti_str_addf(text, "]> : tensor<%dx2xi64>", count);
}

static void write_attributes(bti_hlo *w) {
    w->text.failed |= w->attributes.failed;
    if (!w->attributes.length) return;
    bti_str_add_bytes(&w->text, w->attributes.text, w->attributes.length);
    bti_str_add(&w->text, "}");
    w->attributes.length = 0;
}

/* --- lines ------------------------------------------------------------------------------------------------------------- */

void bti_hlo_indent(bti_hlo *w) {
    for (int i = 0; i < w->depth; i++) bti_str_add(&w->text, "  ");
}

static void add_values(bti_str *text, int count, const bti_hlo_value *values) {
    for (int i = 0; i < count; i++) {
        if (i) bti_str_add(text, ", ");
        bti_hlo_add_value(text, values[i]);
    }
}

static void add_types(bti_str *text, int count, const bti_hlo_value *values) {
    for (int i = 0; i < count; i++) {
        if (i) bti_str_add(text, ", ");
        bti_hlo_add_type(text, &values[i].type);
    }
}

bti_hlo_value bti_hlo_line(bti_hlo *w, const char *name, bti_type type, int count, const bti_hlo_value *inputs) {
    bti_hlo_value made = {w->next++, -1, type};
    bti_hlo_indent(w);
    bti_str_addf(&w->text, "%%%d = \"stablehlo.%s\"(", made.id, name);
    add_values(&w->text, count, inputs);
    bti_str_add(&w->text, ")");
    write_attributes(w);
    bti_str_add(&w->text, " : (");
    add_types(&w->text, count, inputs);
    bti_str_add(&w->text, ") -> ");
    bti_hlo_add_type(&w->text, &type);
    bti_str_add(&w->text, "\n");
    return made;
}

int bti_hlo_begin(bti_hlo *w, const char *name, int results, int count, const bti_hlo_value *inputs) {
    int id = w->next++;
    bti_hlo_indent(w);
    bti_str_addf(&w->text, "%%%d", id);
    if (results > 1) bti_str_addf(&w->text, ":%d", results);
    bti_str_addf(&w->text, " = \"stablehlo.%s\"(", name);
    add_values(&w->text, count, inputs);
    bti_str_add(&w->text, ")");
    return id;
}

static bool ends_with(const bti_hlo *w, char last) {
    return w->text.length && w->text.text[w->text.length - 1] == last;
}

void bti_hlo_region(bti_hlo *w, int count, bti_hlo_value *arguments) {
    bti_str_add(&w->text, ends_with(w, '}') ? ", {\n" : " ({\n");
    if (count) {
        bti_hlo_indent(w);
        bti_str_add(&w->text, "^bb0(");
        for (int i = 0; i < count; i++) {
            arguments[i].id = w->next++;
            arguments[i].of = -1;
            bti_str_addf(&w->text, "%s%%%d: ", i ? ", " : "", arguments[i].id);
            bti_hlo_add_type(&w->text, &arguments[i].type);
        }
        bti_str_add(&w->text, "):\n");
    }
    w->depth++;
}

void bti_hlo_return(bti_hlo *w, int count, const bti_hlo_value *values) {
    bti_hlo_indent(w);
    bti_str_add(&w->text, "\"stablehlo.return\"(");
    add_values(&w->text, count, values);
    bti_str_add(&w->text, ") : (");
    add_types(&w->text, count, values);
    bti_str_add(&w->text, ") -> ()\n");
    w->depth--;
    bti_hlo_indent(w);
    bti_str_add(&w->text, "}");
}

void bti_hlo_end(bti_hlo *w, int count, const bti_hlo_value *inputs, int results, bti_hlo_value *made, int id) {
    if (ends_with(w, '}')) bti_str_add(&w->text, ")");
    write_attributes(w);
    bti_str_add(&w->text, " : (");
    add_types(&w->text, count, inputs);
    bti_str_add(&w->text, ") -> ");
    for (int i = 0; i < results; i++) {
        made[i].id = id;
        made[i].of = results > 1 ? i : -1;
    }
    if (results != 1) bti_str_add(&w->text, "(");
    add_types(&w->text, results, made);
    bti_str_add(&w->text, results != 1 ? ")\n" : "\n");
}

/* --- what most operations are made of ---------------------------------------------------------------------------------- */

bti_hlo_value bti_hlo_unary(bti_hlo *w, const char *name, bti_hlo_value x) {
    return bti_hlo_line(w, name, x.type, 1, &x);
}

bti_hlo_value bti_hlo_binary(bti_hlo *w, const char *name, bti_hlo_value x, bti_hlo_value y) {
    return bti_hlo_line(w, name, x.type, 2, (bti_hlo_value[]){x, y});
}

bti_hlo_value bti_hlo_compare(bti_hlo *w, const char *direction, bti_hlo_value x, bti_hlo_value y) {
    bt_dtype dtype = x.type.dtype;
    const char *kind = bti_dtype_is_float(dtype) || bti_dtype_is_complex(dtype) ? "FLOAT"
                       : bti_dtype_is_signed(dtype)                             ? "SIGNED"
                                                                                : "UNSIGNED";
    bti_str_addf(bti_hlo_attribute(w, "comparison_direction"), "#stablehlo<comparison_direction %s>", direction);
    bti_str_addf(bti_hlo_attribute(w, "compare_type"), "#stablehlo<comparison_type %s>", kind);
    return bti_hlo_line(w, "compare", bti_hlo_like(&x.type, BT_BOOL), 2, (bti_hlo_value[]){x, y});
}

bti_hlo_value bti_hlo_select(bti_hlo *w, bti_hlo_value condition, bti_hlo_value x, bti_hlo_value y) {
    return bti_hlo_line(w, "select", x.type, 3, (bti_hlo_value[]){condition, x, y});
}

bti_hlo_value bti_hlo_convert(bti_hlo *w, bti_hlo_value x, bt_dtype dtype) {
    if (x.type.dtype == dtype) return x;
    return bti_hlo_line(w, "convert", bti_hlo_like(&x.type, dtype), 1, &x);
}

/* A splat, as its text. */
static bti_hlo_value splat(bti_hlo *w, bti_type type, const char *number) {
    bti_str *value = bti_hlo_attribute(w, "value");
    bti_str_addf(value, "dense<%s> : ", number);
    bti_hlo_add_type(value, &type);
    return bti_hlo_line(w, "constant", type, 0, NULL);
}

bti_hlo_value bti_hlo_number(bti_hlo *w, bti_type type, double number) {
    char text[64];
    switch (type.dtype) {
    case BT_F16: return bti_hlo_bits(w, type, bti_f16_from_f64(number));
    case BT_BF16: return bti_hlo_bits(w, type, bti_bf16_from_f64(number));
    case BT_F32: {
        union {
            float number;
            uint32_t bits;
        } as = {.number = (float)number};
        return bti_hlo_bits(w, type, as.bits);
    }
    case BT_F64: {
        union {
            double number;
            uint64_t bits;
        } as = {.number = number};
        return bti_hlo_bits(w, type, as.bits);
    }
    case BT_C64:
    case BT_C128: snprintf(text, sizeof text, "(%.17e, 0.0)", number); break;
    case BT_BOOL: snprintf(text, sizeof text, number != 0 ? "true" : "false"); break;
    default: snprintf(text, sizeof text, "%.0f", number);
    }
    return splat(w, type, text);
}

bti_hlo_value bti_hlo_bits(bti_hlo *w, bti_type type, uint64_t bits) {
    char text[32];
    int width = 8 * (int)bt_dtype_size(type.dtype);
    if (width < 64) bits &= (UINT64_C(1) << width) - 1;
    if (bti_dtype_is_float(type.dtype))
        snprintf(text, sizeof text, "0x%0*" PRIX64, width / 4, bits);
    else if (type.dtype == BT_BOOL)
        snprintf(text, sizeof text, bits ? "true" : "false");
    else if (bti_dtype_is_signed(type.dtype))
        snprintf(text, sizeof text, "%" PRId64, (int64_t)(bits << (64 - width)) >> (64 - width));
    else
        snprintf(text, sizeof text, "%" PRIu64, bits);
    return splat(w, type, text);
}

bti_hlo_value bti_hlo_reshape(bti_hlo *w, bti_hlo_value x, int rank, const int64_t *shape) {
    bti_type type = {.dtype = x.type.dtype, .rank = rank};
    for (int i = 0; i < rank; i++) type.shape[i] = shape[i];
    return bti_hlo_line(w, "reshape", type, 1, &x);
}

bti_hlo_value bti_hlo_permute(bti_hlo *w, bti_hlo_value x, const int *axes) {
    bti_type type = x.type;
    int64_t wide[BTI_MAX_RANK + 2];
    for (int i = 0; i < type.rank; i++) {
        type.shape[i] = x.type.shape[axes[i]];
        wide[i] = axes[i];
    }
    bti_hlo_attribute_list(w, "permutation", wide, type.rank);
    return bti_hlo_line(w, "transpose", type, 1, &x);
}

bti_hlo_value bti_hlo_broadcast(bti_hlo *w, bti_hlo_value x, const int64_t *dims, bti_type type) {
    bti_hlo_attribute_list(w, "broadcast_dimensions", dims, x.type.rank);
    return bti_hlo_line(w, "broadcast_in_dim", type, 1, &x);
}

bti_hlo_value bti_hlo_iota(bti_hlo *w, bti_type type, int axis) {
    bti_str_addf(bti_hlo_attribute(w, "iota_dimension"), "%d : i64", axis);
    return bti_hlo_line(w, "iota", type, 0, NULL);
}

static void name_axes(bti_hlo *w, uint32_t axes) {
    int64_t list[32];
    int count = 0;
    for (int i = 0; i < 32; i++)
        if (axes >> i & 1) list[count++] = i;
    bti_hlo_attribute_list(w, "dimensions", list, count);
}

bti_hlo_value bti_hlo_reverse(bti_hlo *w, bti_hlo_value x, uint32_t axes) {
    if (!axes) return x;
    name_axes(w, axes);
    return bti_hlo_line(w, "reverse", x.type, 1, &x);
}

bti_hlo_value bti_hlo_slice(bti_hlo *w, bti_hlo_value x, bti_type type, const int64_t *starts, const int64_t *ends,
                            const int64_t *steps) {
    bti_hlo_attribute_list(w, "start_indices", starts, type.rank);
    bti_hlo_attribute_list(w, "limit_indices", ends, type.rank);
    bti_hlo_attribute_list(w, "strides", steps, type.rank);
    return bti_hlo_line(w, "slice", type, 1, &x);
}

void bti_hlo_combine(bti_hlo *w, const char *name, bt_dtype dtype) {
    bti_hlo_value pair[2] = {{.type = bti_hlo_scalar(dtype)}, {.type = bti_hlo_scalar(dtype)}};
    bti_hlo_region(w, 2, pair);
    bti_hlo_value made = name ? bti_hlo_binary(w, name, pair[0], pair[1]) : pair[1];
    bti_hlo_return(w, 1, &made);
}

bti_hlo_value bti_hlo_reduce(bti_hlo *w, const char *name, bti_hlo_value x, bti_hlo_value start, uint32_t axes) {
    bti_hlo_value inputs[2] = {x, start}, made = {.type = {.dtype = x.type.dtype}};
    for (int i = 0; i < x.type.rank; i++)
        if (!(axes >> i & 1)) made.type.shape[made.type.rank++] = x.type.shape[i];
    int id = bti_hlo_begin(w, "reduce", 1, 2, inputs);
    bti_hlo_combine(w, name, x.type.dtype);
    name_axes(w, axes);
    bti_hlo_end(w, 2, inputs, 1, &made, id);
    return made;
}

/* --- nodes ------------------------------------------------------------------------------------------------------------- */

bti_hlo_value bti_hlo_of(bti_hlo *w, const bti_node *node) {
    int64_t at = bti_number_of(&w->numbers, node);
    if (at >= 0 && (size_t)at < w->values.count) return w->values.items[at];
    bti_hlo_refuse(w, node, "it is not part of what is written");
    return (bti_hlo_value){0, -1, bti_type_of(node)};
}

void bti_hlo_set(bti_hlo *w, const bti_node *node, int count, const bti_hlo_value *values) {
    bool there = bti_number_put(&w->numbers, node, (int64_t)w->values.count) && bti_vec_reserve(&w->values, count);
    for (int i = 0; i < count && there; i++) w->values.items[w->values.count++] = values[i];
    if (!there && w->status == BT_OK) w->status = bti_no_memory();
}

void bti_hlo_refuse(bti_hlo *w, const bti_node *node, const char *why) {
    if (w->status != BT_OK) return;
    const bti_op_row *op = bti_op_info((bti_op)node->op);
    bti_error *error = bti_error_at(node->place, BT_UNIMPLEMENTED, "%s cannot be written as StableHLO: %s",
                                    op->class == BTI_HOST ? "this" : op->name, why);
    w->status = bti_fail_with(error);
    bti_error_release(error);
}
