/* .npy (NumPy's NEP 1): "\x93NUMPY", version, length of the header, a Python dict literal, the elements. bfloat16, which
 * NumPy has not, is written as ml_dtypes writes it: two bytes without a meaning, "<V2". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "file/npy.h"

#include "array/handle.h"
#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"
#include "file/safetensors.h"
#include "file/strides.h"
#include "file/tensors.h"
#include "ir/dtype.h"

enum { MAX_HEADER = 1 << 20 };

static const struct {
    char kind;
    int bytes;
    bt_dtype dtype;
} kinds[] = {{'b', 1, BT_BOOL}, {'u', 1, BT_U8},  {'u', 2, BT_U16},  {'u', 4, BT_U32}, {'u', 8, BT_U64},
             {'i', 1, BT_I8},   {'i', 2, BT_I16}, {'i', 4, BT_I32},  {'i', 8, BT_I64}, {'f', 2, BT_F16},
             {'f', 4, BT_F32},  {'f', 8, BT_F64}, {'V', 2, BT_BF16}, {'c', 8, BT_C64}, {'c', 16, BT_C128}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* --- the header, read ------------------------------------------------------------------------------------------------ */

typedef struct cursor {
    const bti_npy *n;
    const char *start, *at, *end;
    uint64_t offset; /* of start in the file */
} cursor;

static bt_status npy_is_damaged(const cursor *c, const char *reason) {
    return bti_file_damaged(c->n->file, c->offset + (uint64_t)(c->at - c->start), "%s", reason);
}

static void skip_spaces(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n')) c->at++;
}
static bool take_token(cursor *c, const char *word) {
    skip_spaces(c);
    size_t length = strlen(word);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length)) return false;
    c->at += length;
    return true;
}

/* 'text' or "text", without escapes. */
static bool take_text(cursor *c, const char **text, size_t *length) {
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    const char *close = memchr(c->at + 1, *c->at, (size_t)(c->end - c->at - 1));
    if (!close || memchr(c->at, '\\', (size_t)(close - c->at))) return false;
    *text = c->at + 1;
    *length = (size_t)(close - *text);
    c->at = close + 1;
    return true;
}

/* A list or tuple, as records have it: to the bracket that closes it. */
static bool take_list(cursor *c, const char **text, size_t *length) {
    int depth = 0;
    char quote = 0;
    skip_spaces(c);
    *text = c->at;
    do {
        if (c->at == c->end) return false;
        char byte = *c->at++;
        if (quote)
            quote = byte == quote ? 0 : quote;
        else if (byte == '\'' || byte == '"')
            quote = byte;
        else
            depth += (byte == '[' || byte == '(') - (byte == ']' || byte == ')');
    } while (depth > 0);
    *length = (size_t)(c->at - *text);
    return depth == 0 && *length > 1;
}

/* In ASCII: headers of version 1 and 2 are Latin-1, those of version 3 UTF-8. */
static bti_quoted quote_descr(const char *text, size_t length) {
    bti_quoted quoted = bti_quote_bytes(text, length);
    for (char *at = quoted.text; *at; at++)
        if ((unsigned char)*at >= 0x80) *at = '?';
    return quoted;
}

static bt_status take_descr(cursor *c, bti_npy *n) {
    const char *text;
    size_t length;
    skip_spaces(c);
    n->descr_begin = c->offset + (uint64_t)(c->at - c->start);
    if (!take_text(c, &text, &length) && !take_list(c, &text, &length))
        return npy_is_damaged(c, "'descr' is neither a text nor a list");
    n->dtype = BT_DTYPE_COUNT;
    n->descr = quote_descr(text, length);
    if (length < 3 || length > 4 || !strchr("<>|=", text[0])) return BT_OK;
    for (int i = 0; i < KINDS; i++) {
        char bytes[4];
        int digits = snprintf(bytes, sizeof bytes, "%d", kinds[i].bytes);
        if (kinds[i].kind != text[1] || digits != (int)length - 2 || memcmp(bytes, text + 2, length - 2)) continue;
        n->dtype = kinds[i].dtype;
        n->big_endian = text[0] == '>';
        break;
    }
    return BT_OK;
}

static bool take_size(cursor *c, int64_t *size) {
    skip_spaces(c);
    const char *first = c->at;
    *size = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *c->at - '0', size)) return false;
    bool any = c->at > first;
    (void)take_token(c, "L"); /* Python 2 */
    return any;
}

static bt_status take_shape(cursor *c, bti_npy *n) {
    if (!take_token(c, "(")) return npy_is_damaged(c, "'shape' is no tuple");
    bool comma = true;
    while (!take_token(c, ")")) {
        int64_t size;
        if (!comma || !take_size(c, &size)) return npy_is_damaged(c, "'shape' is no tuple of whole numbers >= 0");
        if (n->shape.rank < BT_MAX_RANK) n->shape.size[n->shape.rank] = size;
        n->shape.rank++;
        comma = take_token(c, ",");
    }
    return n->shape.rank == 1 && !comma ? npy_is_damaged(c, "'shape' is a number, no tuple") : BT_OK;
}

static bt_status take_entry(cursor *c, bti_npy *n, unsigned *seen) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    const char *text;
    size_t length;
    if (!take_text(c, &text, &length)) return npy_is_damaged(c, "the header is no dict of texts");
    int key = 0;
    while (key < 3 && (strlen(keys[key]) != length || memcmp(keys[key], text, length))) key++;
    if (key == 3 || *seen & 1u << key)
        return npy_is_damaged(c, key == 3 ? "an unknown key before here" : "a key before here is given twice");
    *seen |= 1u << key;
    if (!take_token(c, ":")) return npy_is_damaged(c, "a colon is missing");
    if (key == 0) return take_descr(c, n);
    if (key == 2) return take_shape(c, n);
    n->fortran_order = take_token(c, "True");
    return n->fortran_order || take_token(c, "False") ? BT_OK
                                                      : npy_is_damaged(c, "'fortran_order' is neither True nor False");
}

static bt_status take_header(cursor *c, bti_npy *n) {
    unsigned seen = 0;
    if (!take_token(c, "{")) return npy_is_damaged(c, "the header is no dict");
    bool comma = true;
    while (!take_token(c, "}")) {
        if (!comma) return npy_is_damaged(c, "a comma is missing");
        BTI_TRY(take_entry(c, n, &seen));
        comma = take_token(c, ",");
    }
    if (seen != 7) return npy_is_damaged(c, "the header lacks one of 'descr', 'fortran_order' and 'shape'");
    skip_spaces(c);
    return c->at == c->end ? BT_OK : npy_is_damaged(c, "more after the header's dict");
}

bt_status bti_npy_read_any_header(bti_npy *n, const bti_file *file) {
    *n = (bti_npy){.file = file};
    unsigned char start[12];
    BTI_TRY(bti_file_read_start(file, start, sizeof start));
    if (!memcmp(start, "PK\3\4", 4))
        return bti_file_damaged(file, 0, "this is a zip archive, as .npz files are; bt_tensors_open opens those");
    if (file->size < 10 || memcmp(start, "\x93NUMPY", 6))
        return bti_file_damaged(file, 0, "does not begin as a .npy file does");
    if (start[6] < 1 || start[6] > 3 || start[7])
        return bti_file_damaged(n->file, 6, "version %d.%d; known are 1.0, 2.0 and 3.0", start[6], start[7]);
    unsigned length_bytes = start[6] == 1 ? 2 : 4;
    uint64_t length = 0;
    for (unsigned i = length_bytes; i-- > 0;) length = length << 8 | start[8 + i];
    n->data_begin = 8 + length_bytes + length;
    if (n->data_begin > n->file->size)
        return bti_file_damaged(n->file, 8, "a header of %" PRIu64 " bytes in a file of %" PRIu64, length,
                                n->file->size);
    if (length > MAX_HEADER)
        return bti_file_damaged(n->file, 8, "a header of %" PRIu64 " bytes; at most %d are allowed", length,
                                MAX_HEADER);
    char *text = bti_alloc((size_t)length);
    if (!text) return bti_no_memory();
    bt_status status = bti_file_read(n->file, 8 + length_bytes, text, (size_t)length);
    cursor c = {n, text, text, text + length, 8 + length_bytes};
    if (status == BT_OK) status = take_header(&c, n);
    bti_free(text);
    return status;
}

/* What NumPy stores under a dtype that berth has not; NULL: NumPy has no such dtype either. */
static const char *foreign_elements(const char *descr) {
    if (descr[0] == '[') return "records";
    if (!descr[0] || !strchr("<>|=", descr[0])) return NULL;
    switch (descr[1]) {
    case 'O': return "Python objects, a pickle that may run code";
    case 'S':
    case 'a':
    case 'U': return "texts";
    case 'M':
    case 'm': return "times";
    case 'V': return "bytes without a meaning";
    case 'f':
    case 'c': break;
    default: return NULL;
    }
    static const char *const long_doubles[] = {"f12", "f16", "c24", "c32"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(descr + 1, long_doubles[i])) return "long doubles";
    return NULL;
}

static bt_status refuse_dtype(const bti_npy *n) {
    const char *elements = foreign_elements(n->descr.text);
    if (!elements) return bti_file_damaged(n->file, n->descr_begin, "unknown dtype \"%s\"", n->descr.text);
    return bti_fail(BT_UNIMPLEMENTED,
                    "%s: byte %" PRIu64 ": dtype \"%s\" (%s), which berth has not; save numbers or bools, "
                    "in Python array.astype(\"float64\") for example",
                    n->file->path, n->descr_begin, n->descr.text, elements);
}

bt_status bti_npy_read_header(bti_npy *n, const bti_file *file) {
    BTI_TRY(bti_npy_read_any_header(n, file));
    if (n->dtype == BT_DTYPE_COUNT) return refuse_dtype(n);
    return n->shape.rank <= BT_MAX_RANK
               ? BT_OK
               : bti_fail(BT_UNIMPLEMENTED, "%s: more than %d dimensions", file->path, BT_MAX_RANK);
}

/* --- the elements, read ---------------------------------------------------------------------------------------------- */

static void swap_bytes(unsigned char *data, size_t bytes, size_t element) {
    for (size_t at = 0; at < bytes; at += element)
        for (size_t i = 0; i < element / 2; i++) {
            unsigned char byte = data[at + i];
            data[at + i] = data[at + element - 1 - i];
            data[at + element - 1 - i] = byte;
        }
}

/* From column-major to row-major order. */
static void reorder_to_rows(const unsigned char *from, unsigned char *to, const bti_npy *n) {
    int64_t stride[BT_MAX_RANK], count = 1;
    for (int d = 0; d < n->shape.rank; d++) {
        stride[d] = count;
        count *= n->shape.size[d];
    }
    bti_gather_strided(from, to, n->shape, stride, bt_dtype_size(n->dtype));
}

static bt_status read_npy_elements(const bti_npy *n, unsigned char **data) {
    uint64_t element = bt_dtype_size(n->dtype), bytes = element;
    for (int d = 0; d < n->shape.rank; d++)
        if (__builtin_mul_overflow(bytes, (uint64_t)n->shape.size[d], &bytes))
            return bti_file_damaged(n->file, 8, "the shape overflows");
    if (bytes != n->file->size - n->data_begin)
        return bti_file_damaged(n->file, n->data_begin,
                                "dtype and shape take %" PRIu64 " bytes, the file holds %" PRIu64, bytes,
                                n->file->size - n->data_begin);
    bool turn = n->fortran_order && n->shape.rank > 1 && bytes > 0;
    unsigned char *read = bti_alloc((size_t)bytes), *turned = turn ? bti_alloc((size_t)bytes) : NULL;
    bt_status status = BT_OK;
    if (!read || (turn && !turned))
        BTI_TRY_OR(bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %" PRIu64 " bytes of an array", bytes), end);
    BTI_TRY_OR(bti_file_read(n->file, n->data_begin, read, (size_t)bytes), end);
    if (n->dtype == BT_BOOL) BTI_TRY_OR(bti_file_check_bools(n->file, n->data_begin, read, (size_t)bytes), end);
    if (n->big_endian) swap_bytes(read, (size_t)bytes, bt_dtype_size(bti_dtype_of_part(n->dtype)));
    if (turn) reorder_to_rows(read, turned, n);
end:
    if (turn || status != BT_OK) bti_free(read);
    if (status != BT_OK) bti_free(turned);
    *data = turn ? turned : read;
    return status;
}

bt_array *bti_npy_read(const bti_npy *n) {
    unsigned char *data = NULL;
    if (read_npy_elements(n, &data) != BT_OK) return bti_file_poison();
    bt_array *array = bt_from(data, n->dtype, n->shape);
    bti_free(data);
    return array;
}

bt_array *bt_load_npy(const char *path) {
    BTI_PUBLIC("bt_load_npy");
    bti_file file;
    bti_npy n;
    bt_status status = bti_file_open(path, &file);
    if (status == BT_OK) status = bti_npy_read_header(&n, &file);
    bt_array *array = status == BT_OK ? bti_npy_read(&n) : bti_file_poison();
    bti_file_close(&file);
    BTI_RETURN(array);
}

/* --- as an archive of one array ------------------------------------------------------------------------------------- */

static bt_status describe_npy(const bt_tensors *t, int index, bti_tensor *tensor) {
    (void)index;
    const bti_npy *n = t->content;
    *tensor = (bti_tensor){bti_tensor_dtype_of(n->dtype)->name, n->dtype, n->shape.rank, n->shape};
    return BT_OK;
}
static bt_array *read_npy(const bt_tensors *t, int index) {
    (void)index;
    return bti_npy_read(t->content);
}
bt_status bti_open_npy(bt_tensors *t) {
    static const bti_archive_format npy = {"NumPy .npy",    describe_npy,         read_npy,
                                           bti_no_metadata, bti_no_metadata_name, bti_free};
    bti_npy *n = t->content = bti_calloc(1, sizeof *n);
    t->format = &npy;
    if (!n || !bti_names_make(&t->names, 1)) return bti_no_memory();
    t->names.names[0] = "";
    (void)bti_names_sort(&t->names);
    return bti_npy_read_header(n, &t->file);
}

/* --- writing -------------------------------------------------------------------------------------------------------- */

/* The same bytes that NumPy writes, with its spare room for the first size; the data begin at a multiple of 64. */
bt_status bti_npy_header(bt_dtype dtype, bt_shape shape, bti_str *text) {
    char kind = '?';
    if (bti_dtype_is_storage(dtype)) /* NumPy's header has one text for both */
        return bti_fail(BT_UNIMPLEMENTED,
                        "NumPy's formats cannot say that an array is %s; bt_save writes it, or bt_bitcast it to BT_U8",
                        bt_dtype_name(dtype));
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].dtype == dtype) kind = kinds[i].kind;
    size_t element = bt_dtype_size(dtype);
    bti_str_add_bytes(text, "\x93NUMPY\x01\x00\x00\x00", 10);
    bti_str_addf(text, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (", element == 1 ? '|' : '<', kind,
                 element);
    for (int d = 0; d < shape.rank; d++) bti_str_addf(text, "%s%" PRId64, d ? ", " : "", shape.size[d]);
    bti_str_add(text, shape.rank == 1 ? ",), }" : "), }");
    if (shape.rank) bti_str_addf(text, "%*s", 21 - snprintf(NULL, 0, "%" PRId64, shape.size[0]), "");
    bti_str_addf(text, "%*s\n", (int)(63 - text->length % 64), "");
    if (text->failed) return bti_no_memory();
    text->text[8] = (char)((text->length - 10) & 0xff);
    text->text[9] = (char)((text->length - 10) >> 8);
    return BT_OK;
}

bt_status bt_save_npy(const char *path, bt_array *array) {
    BTI_PUBLIC("bt_save_npy");
    if (!array) return bti_fail(BT_INVALID_ARGUMENT, "the array is NULL");
    BTI_TRY(bt_block(array));
    bti_str header = {0};
    bti_writer writer;
    bt_status status = bti_writer_open(&writer, path);
    if (status == BT_OK) status = bti_npy_header(bt_dtype_of(array), bt_shape_of(array), &header);
    if (status == BT_OK) status = bti_writer_add(&writer, header.text, header.length);
    if (status == BT_OK) status = bti_writer_add_array(&writer, array);
    if (status == BT_OK) status = bti_writer_commit(&writer);
    bti_writer_discard(&writer);
    bti_str_free(&header);
    return status;
}
