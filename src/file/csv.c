/* Numbers in rows of equal length, separated by commas. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <berth/file.h>
#include <berth/ops.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "base/vec.h"
#include "file/csv.h"
#include "file/io.h"
#include "ir/dtype.h"

typedef BTI_VEC(double) doubles;
typedef BTI_VEC(int64_t) integers;

typedef struct reader {
    bti_file file;
    char *text; /* ends with a NUL */
    locale_t c_locale;
    bt_dtype dtype;
    bool is_float;
    doubles floats;
    integers ints; /* uint64: the same bits */
    int64_t rows, columns;
    const bti_csv_column *typed; /* NULL: any number may be in any column */
    int typed_count;
} reader;

typedef struct field {
    const char *text;
    size_t length;
} field;

/* --- one number ------------------------------------------------------------------------------------------------------ */

static bool read_float(const reader *r, field f, double *value) {
    for (size_t i = 0; i < f.length; i++)
        if (strchr("xXpP(_", f.text[i]) || f.text[i] == '\0') return false; /* hexadecimal, nan(...) */
    char *end;
    *value = strtod_l(f.text, &end, r->c_locale);
    return f.length && end == f.text + f.length;
}

static bool read_digits(field f, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < f.length; i++) {
        if (f.text[i] < '0' || f.text[i] > '9' || __builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(f.text[i] - '0'), value))
            return false;
    }
    return f.length > 0;
}

/* Whether the number is a whole number that the dtype has. */
static bool read_integer(const reader *r, field f, int64_t *value) {
    bool negative = f.length && f.text[0] == '-';
    if (negative || (f.length && f.text[0] == '+')) f = (field){f.text + 1, f.length - 1};
    uint64_t size, greatest;
    if (!read_digits(f, &size)) return false;
    unsigned bits = (unsigned)bt_dtype_size(r->dtype) * 8;
    bool is_signed = bti_dtype_is_int(r->dtype) && bti_dtype_is_signed(r->dtype);
    if (r->dtype == BT_BOOL)
        greatest = 1;
    else
        greatest = UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0));
    if (negative && size > (is_signed ? greatest + 1 : 0)) return false;
    if (!negative && size > greatest) return false;
    *value = (int64_t)(negative ? -size : size);
    return true;
}

/* The least number above those of 64 bits is taken too: it may be their greatest, read as a float. */
static bool has_number_in(bt_dtype dtype, double value) {
    if (dtype >= BT_F16) return true;
    if (dtype == BT_BOOL) return value == 0 || value == 1;
    bool is_signed = bti_dtype_is_signed(dtype);
    int bits = (int)bt_dtype_size(dtype) * 8;
    double above = ldexp(1, bits - is_signed);
    return value == trunc(value) && value >= (is_signed ? -above : 0) && (bits == 64 ? value <= above : value < above);
}

/* --- lines ---------------------------------------------------------------------------------------------------------- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static field trim_field(const char *from, const char *to) {
    while (from < to && is_blank(*from)) from++;
    while (to > from && is_blank(to[-1])) to--;
    return (field){from, (size_t)(to - from)};
}

/* The field that begins at *at; *at moves past its comma, or becomes NULL after the last field of the line. */
static field next_field(const char **at, const char *line_end) {
    const char *from = *at, *comma = memchr(from, ',', (size_t)(line_end - from));
    *at = comma ? comma + 1 : NULL;
    return trim_field(from, comma ? comma : line_end);
}

/* A damaged number counts as a number: its line is refused, not taken for a line of names. */
static bool begins_as_number(field f) {
    size_t i = 0;
    while (i < f.length && strchr("+-.", f.text[i])) i++;
    return i < f.length && f.text[i] >= '0' && f.text[i] <= '9';
}
static bool has_number(const reader *r, const char *line, const char *line_end) {
    double value;
    for (const char *at = line; at;) {
        field f = next_field(&at, line_end);
        if (begins_as_number(f) || read_float(r, f, &value)) return true;
    }
    return false;
}
static int64_t count_fields(const char *line, const char *line_end) {
    int64_t count = 0;
    for (const char *at = line; at; count++) next_field(&at, line_end);
    return count;
}

static bt_status fail_at_field(const reader *r, field f, int64_t line, int64_t column) {
    uint64_t at = (uint64_t)(f.text - r->text);
    if (!f.length)
        return bti_file_damaged(&r->file, at, "line %lld, column %lld: the field is empty; it must be a number (%s)",
                                (long long)line, (long long)column, bt_dtype_name(r->dtype));
    return bti_file_damaged(&r->file, at, "line %lld, column %lld: \"%s\" is no %s", (long long)line, (long long)column,
                            bti_quote_bytes(f.text, f.length).text, bt_dtype_name(r->dtype));
}

/* Whether the typed columns take the whole line; if not, that is what is wrong with the table. */
static bool types_fit(const reader *r, const char *line, const char *line_end) {
    uint64_t numbers = 0;
    for (int i = 0; i < r->typed_count; i++) numbers += (uint64_t)r->typed[i].numbers;
    return r->typed && numbers == (uint64_t)(r->columns ? r->columns : count_fields(line, line_end));
}

/* Number `column` of a line is not one that its typed column has. */
static bt_status fail_at_typed(const reader *r, field f, int64_t line, int64_t column, const bti_csv_column *typed) {
    return bti_file_damaged(&r->file, (uint64_t)(f.text - r->text),
                            "line %lld, column %lld: \"%s\" is no %s, as column \"%s\" has", (long long)line,
                            (long long)column, bti_quote_bytes(f.text, f.length).text, bt_dtype_name(typed->dtype),
                            bti_quote(typed->name).text);
}

static bt_status read_csv_line(reader *r, const char *line, const char *line_end, int64_t number) {
    int64_t column = 0, typed_end = 0;
    int typed = -1, last = types_fit(r, line, line_end) ? r->typed_count : 0;
    for (const char *at = line; at;) {
        field f = next_field(&at, line_end);
        double value = 0;
        int64_t whole = 0;
        if (r->is_float ? !read_float(r, f, &value) : !read_integer(r, f, &whole))
            return fail_at_field(r, f, number, column + 1);
        while (typed < last && column >= typed_end)
            if (++typed < last) typed_end += r->typed[typed].numbers;
        if (typed < last && !has_number_in(r->typed[typed].dtype, value))
            return fail_at_typed(r, f, number, column + 1, &r->typed[typed]);
        if (r->is_float ? !bti_vec_push(&r->floats, value) : !bti_vec_push(&r->ints, whole)) return bti_no_memory();
        column++;
    }
    if (r->rows++ == 0 && r->columns == 0) r->columns = column;
    if (column == r->columns) return BT_OK;
    return bti_file_damaged(&r->file, (uint64_t)(line - r->text), "line %lld has %lld columns, those before have %lld",
                            (long long)number, (long long)column, (long long)r->columns);
}

static bt_status read_csv_lines(reader *r) {
    const char *at = r->text, *end = r->text + r->file.size;
    if (r->file.size >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) at += 3; /* a byte order mark */
    for (int64_t number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *line_end = newline ? newline : end;
        if (trim_field(at, line_end).length) {
            if (number == 1 && !has_number(r, at, line_end))
                r->columns = count_fields(at, line_end);
            else
                BTI_TRY(read_csv_line(r, at, line_end, number));
        }
        at = newline ? newline + 1 : end;
    }
    return BT_OK;
}

static bt_status read_csv(reader *r, const char *path) {
    if (bt_dtype_size(r->dtype) == 0) return bti_fail(BT_INVALID_ARGUMENT, "%d is no dtype", (int)r->dtype);
    BTI_TRY(bti_file_open(path, &r->file));
    r->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    r->text = bti_alloc((size_t)r->file.size + 1);
    if (!r->text || !r->c_locale)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %s has %llu bytes", path,
                        (unsigned long long)r->file.size);
    BTI_TRY(bti_file_read(&r->file, 0, r->text, (size_t)r->file.size));
    r->text[r->file.size] = '\0';
    return read_csv_lines(r);
}

/* In place: the elements written are narrower than those read, so they never overtake them. */
static bt_array *make_array(reader *r) {
    bt_shape shape = BT_SHAPE(r->rows, r->columns);
    if (r->dtype == BT_F64) return bt_from(r->floats.items, BT_F64, shape);
    if (r->dtype == BT_F32) {
        char *to = (char *)r->floats.items;
        for (size_t i = 0; i < r->floats.count; i++) {
            float value = (float)r->floats.items[i];
            memcpy(to + i * sizeof value, &value, sizeof value);
        }
        return bt_from(to, BT_F32, shape);
    }
    if (r->is_float) return bt_cast(bt_from(r->floats.items, BT_F64, shape), r->dtype);
    char *to = (char *)r->ints.items;
    size_t element = bt_dtype_size(r->dtype);
    for (size_t i = 0; i < r->ints.count; i++) {
        int64_t value = r->ints.items[i];
        memcpy(to + i * element, &value, element); /* little-endian: the low bytes */
    }
    return bt_from(to, r->dtype, shape);
}

static bt_array *load_csv(reader *r, const char *path) {
    bt_status status = read_csv(r, path);
    bt_array *array = status == BT_OK ? make_array(r) : bti_file_poison();
    if (r->c_locale) freelocale(r->c_locale);
    bti_file_close(&r->file);
    bti_free(r->text);
    bti_vec_free(&r->floats);
    bti_vec_free(&r->ints);
    return array;
}

bt_array *bt_load_csv(const char *path, bt_dtype dtype) {
    BTI_PUBLIC("bt_load_csv");
    reader r = {.file = {.fd = -1}, .dtype = dtype, .is_float = bti_dtype_is_float(dtype)};
    if (bti_dtype_is_storage(dtype) || bti_dtype_is_complex(dtype))
        BTI_RETURN(
            bti_poisonf(BT_INVALID_ARGUMENT, "numbers are read as %s by bt_cast of floats", bt_dtype_name(dtype)));
    BTI_RETURN(load_csv(&r, path));
}

bt_array *bti_load_csv_columns(const char *path, const bti_csv_column *columns, int count) {
    reader r = {.file = {.fd = -1}, .dtype = BT_F64, .is_float = true, .typed = columns, .typed_count = count};
    return load_csv(&r, path);
}
