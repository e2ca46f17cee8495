#include "file/pickle.h"

#include <limits.h>
#include <string.h>

#include "base/quote.h"

/* --- globals --------------------------------------------------------------------------------------------------------- */

typedef enum global_role { ORDERED_DICT, TENSOR_V2, TENSOR_V3, PARAMETER, STORAGE, DTYPE } global_role;

static const struct {
    const char *module, *name;
    global_role role;
    bt_dtype dtype; /* BT_DTYPE_COUNT: bytes */
} globals[] = {
    {"collections", "OrderedDict", ORDERED_DICT, BT_DTYPE_COUNT},
    {"torch._utils", "_rebuild_tensor_v2", TENSOR_V2, BT_DTYPE_COUNT},
    {"torch._utils", "_rebuild_tensor_v3", TENSOR_V3, BT_DTYPE_COUNT},
    {"torch._utils", "_rebuild_parameter", PARAMETER, BT_DTYPE_COUNT},
    {"torch.storage", "UntypedStorage", STORAGE, BT_DTYPE_COUNT},
    {"torch", "BoolStorage", STORAGE, BT_BOOL},
    {"torch", "ByteStorage", STORAGE, BT_U8},
    {"torch", "CharStorage", STORAGE, BT_I8},
    {"torch", "ShortStorage", STORAGE, BT_I16},
    {"torch", "IntStorage", STORAGE, BT_I32},
    {"torch", "LongStorage", STORAGE, BT_I64},
    {"torch", "HalfStorage", STORAGE, BT_F16},
    {"torch", "BFloat16Storage", STORAGE, BT_BF16},
    {"torch", "FloatStorage", STORAGE, BT_F32},
    {"torch", "DoubleStorage", STORAGE, BT_F64},
    {"torch", "ComplexFloatStorage", STORAGE, BT_C64},
    {"torch", "ComplexDoubleStorage", STORAGE, BT_C128},
    {"torch", "bool", DTYPE, BT_BOOL},
    {"torch", "uint8", DTYPE, BT_U8},
    {"torch", "uint16", DTYPE, BT_U16},
    {"torch", "uint32", DTYPE, BT_U32},
    {"torch", "uint64", DTYPE, BT_U64},
    {"torch", "int8", DTYPE, BT_I8},
    {"torch", "int16", DTYPE, BT_I16},
    {"torch", "int32", DTYPE, BT_I32},
    {"torch", "int64", DTYPE, BT_I64},
    {"torch", "float16", DTYPE, BT_F16},
    {"torch", "bfloat16", DTYPE, BT_BF16},
    {"torch", "float32", DTYPE, BT_F32},
    {"torch", "float64", DTYPE, BT_F64},
    {"torch", "float8_e4m3fn", DTYPE, BT_F8E4M3},
    {"torch", "float8_e5m2", DTYPE, BT_F8E5M2},
    {"torch", "complex64", DTYPE, BT_C64},
    {"torch", "complex128", DTYPE, BT_C128},
};
enum { GLOBALS = sizeof globals / sizeof *globals };

/* --- the machine ----------------------------------------------------------------------------------------------------- */

enum { MARK = -1 };

typedef struct machine {
    bti_pickle *p;
    const bti_file *file;
    const unsigned char *bytes;
    size_t size, at, op; /* op: where the running opcode stands */
    BTI_VEC(int) stack;  /* values and marks */
    BTI_VEC(int) memo;   /* values; -1: none */
} machine;

static bt_status is_damaged(const machine *m, const char *reason) {
    return bti_file_damaged(m->file, m->op, "%s", reason);
}

static bt_status take_bytes(machine *m, size_t count, const unsigned char **bytes) {
    if (count > m->size - m->at) return is_damaged(m, "the pickle ends within this opcode");
    *bytes = m->bytes + m->at;
    m->at += count;
    return BT_OK;
}

static bt_status take_number(machine *m, int count, uint64_t *number) {
    const unsigned char *bytes = NULL;
    BTI_TRY(take_bytes(m, (size_t)count, &bytes));
    *number = 0;
    while (count-- > 0) *number = *number << 8 | bytes[count];
    return BT_OK;
}

static bt_status push(machine *m, bti_pickle_value value) {
    if (m->p->values.count >= INT_MAX || !bti_vec_push(&m->p->values, value) ||
        !bti_vec_push(&m->stack, (int)m->p->values.count - 1))
        return bti_no_memory();
    return BT_OK;
}

static bti_pickle_value *value_of_pickle(const machine *m, int value) { return &m->p->values.items[value]; }

static bt_status pop(machine *m, int *value) {
    if (!m->stack.count || m->stack.items[m->stack.count - 1] == MARK)
        return is_damaged(m, "an opcode that needs more values than there are");
    *value = m->stack.items[--m->stack.count];
    return BT_OK;
}

/* The value on top, of this kind. */
static bt_status peek_at(machine *m, size_t depth, bti_pickle_kind kind, int *value) {
    *value = m->stack.count > depth ? m->stack.items[m->stack.count - 1 - depth] : MARK;
    if (*value == MARK || value_of_pickle(m, *value)->kind != kind)
        return is_damaged(m, "an opcode for a value of another kind");
    return BT_OK;
}

static bt_status append(machine *m, int container, int value) {
    int cell = (int)m->p->cells.count;
    if (m->p->cells.count >= INT_MAX || !bti_vec_push(&m->p->cells, ((bti_pickle_cell){value, -1})))
        return bti_no_memory();
    bti_pickle_value *of = value_of_pickle(m, container);
    if (of->last >= 0)
        m->p->cells.items[of->last].next = cell;
    else
        of->first = cell;
    of->last = cell;
    of->count++;
    return BT_OK;
}

static bt_status push_container(machine *m, bti_pickle_kind kind) {
    return push(m, (bti_pickle_value){.kind = kind, .first = -1, .last = -1});
}

/* How many values are above the last mark. */
static bt_status count_to_mark(machine *m, size_t *count) {
    for (*count = 0; *count < m->stack.count; ++*count)
        if (m->stack.items[m->stack.count - 1 - *count] == MARK) return BT_OK;
    return is_damaged(m, "an opcode that needs a mark, and there is none");
}

/* Puts the top `count` values into the container; they, and a mark below them, go. */
static bt_status append_top(machine *m, int container, size_t count, bool mark) {
    for (size_t i = m->stack.count - count; i < m->stack.count; i++) BTI_TRY(append(m, container, m->stack.items[i]));
    m->stack.count -= count + mark;
    return BT_OK;
}

static bt_status make_tuple(machine *m, size_t count, bool mark) {
    for (size_t i = 0; i < count; i++)
        if (m->stack.count <= i || m->stack.items[m->stack.count - 1 - i] == MARK)
            return is_damaged(m, "a tuple of more values than there are");
    bti_pickle_value tuple = {.kind = BTI_PICKLE_TUPLE, .first = -1, .last = -1};
    if (m->p->values.count >= INT_MAX || !bti_vec_push(&m->p->values, tuple)) return bti_no_memory();
    int made = (int)m->p->values.count - 1;
    BTI_TRY(append_top(m, made, count, mark));
    return bti_vec_push(&m->stack, made) ? BT_OK : bti_no_memory();
}

static bt_status add_items(machine *m, bti_pickle_kind kind, bool marked) {
    size_t count = kind == BTI_PICKLE_DICT ? 2 : 1;
    int container = MARK;
    if (marked) BTI_TRY(count_to_mark(m, &count));
    for (size_t i = 0; i < count; i++)
        if (m->stack.count <= i || m->stack.items[m->stack.count - 1 - i] == MARK)
            return is_damaged(m, "an opcode that needs more values than there are");
    if (kind == BTI_PICKLE_DICT && count % 2) return is_damaged(m, "a key without a value");
    BTI_TRY(peek_at(m, count + marked, kind, &container));
    return append_top(m, container, count, marked);
}

/* --- constants ------------------------------------------------------------------------------------------------------- */

static bt_status push_int(machine *m, int bytes, bool is_signed) {
    uint64_t number = 0;
    BTI_TRY(take_number(m, bytes, &number));
    int64_t value = is_signed ? (int32_t)number : (int64_t)number;
    return push(m, (bti_pickle_value){.kind = BTI_PICKLE_INT, .integer = value});
}

/* Little-endian, in two's complement. */
static bt_status push_long(machine *m) {
    uint64_t count = 0, value = 0;
    const unsigned char *bytes = NULL;
    BTI_TRY(take_number(m, 1, &count));
    BTI_TRY(take_bytes(m, (size_t)count, &bytes));
    if (count > 8) return push(m, (bti_pickle_value){.kind = BTI_PICKLE_NONE});
    if (count && bytes[count - 1] & 0x80) value = UINT64_MAX;
    for (size_t i = (size_t)count; i-- > 0;) value = value << 8 | bytes[i];
    return push(m, (bti_pickle_value){.kind = BTI_PICKLE_INT, .integer = (int64_t)value});
}

static bt_status push_real(machine *m) {
    const unsigned char *bytes = NULL;
    uint64_t bits = 0;
    BTI_TRY(take_bytes(m, 8, &bytes));
    for (int i = 0; i < 8; i++) bits = bits << 8 | bytes[i]; /* big-endian */
    bti_pickle_value value = {.kind = BTI_PICKLE_REAL};
    memcpy(&value.real, &bits, sizeof bits);
    return push(m, value);
}

static bt_status push_text(machine *m, int length_bytes) {
    uint64_t length = 0;
    const unsigned char *bytes = NULL;
    BTI_TRY(take_number(m, length_bytes, &length));
    BTI_TRY(take_bytes(m, (size_t)length, &bytes));
    return push(m, (bti_pickle_value){.kind = BTI_PICKLE_TEXT, .text = (const char *)bytes, .length = (size_t)length});
}

static bt_status take_line(machine *m, const char **line, size_t *length) {
    const unsigned char *from = m->bytes + m->at, *end = memchr(from, '\n', m->size - m->at);
    if (!end) return is_damaged(m, "the pickle ends within the name of a global");
    *line = (const char *)from;
    *length = (size_t)(end - from);
    m->at += *length + 1;
    return BT_OK;
}

static bt_status push_global(machine *m) {
    const char *module = NULL, *name = NULL;
    size_t module_length = 0, name_length = 0;
    BTI_TRY(take_line(m, &module, &module_length));
    BTI_TRY(take_line(m, &name, &name_length));
    for (int g = 0; g < GLOBALS; g++)
        if (strlen(globals[g].module) == module_length && !memcmp(globals[g].module, module, module_length) &&
            strlen(globals[g].name) == name_length && !memcmp(globals[g].name, name, name_length))
            return push(m, (bti_pickle_value){.kind = BTI_PICKLE_GLOBAL, .global = g});
    return bti_fail(
        BT_UNIMPLEMENTED,
        "%s: byte %zu: it needs \"%s.%s\"; only tensors in dicts, lists and tuples are read, and no code is "
        "run. In Python, torch.save of a dict of plain tensors (model.state_dict()) makes such a file",
        m->file->path, m->op, bti_quote_bytes(module, module_length).text, bti_quote_bytes(name, name_length).text);
}

/* --- the memo -------------------------------------------------------------------------------------------------------- */

static bt_status put(machine *m, int key_bytes) {
    uint64_t key = 0;
    int top = m->stack.count ? m->stack.items[m->stack.count - 1] : MARK;
    BTI_TRY(take_number(m, key_bytes, &key));
    if (top == MARK || key >= m->size) return is_damaged(m, "a value that cannot be kept");
    while (m->memo.count <= key)
        if (!bti_vec_push(&m->memo, -1)) return bti_no_memory();
    m->memo.items[key] = top;
    return BT_OK;
}

static bt_status get(machine *m, int key_bytes) {
    uint64_t key = 0;
    BTI_TRY(take_number(m, key_bytes, &key));
    if (key >= m->memo.count || m->memo.items[key] < 0) return is_damaged(m, "a value that was not kept");
    return bti_vec_push(&m->stack, m->memo.items[key]) ? BT_OK : bti_no_memory();
}

/* --- storages and tensors --------------------------------------------------------------------------------------------- */

/* Items of a tuple; false: there are fewer, or one is of another kind. */
static bool item_at(const machine *m, int tuple, int index, bti_pickle_kind kind, int *value) {
    int cell = value_of_pickle(m, tuple)->first;
    while (cell >= 0 && index-- > 0) cell = m->p->cells.items[cell].next;
    if (cell < 0) return false;
    *value = m->p->cells.items[cell].value;
    return value_of_pickle(m, *value)->kind == kind;
}

static bool text_is(const bti_pickle_value *v, const char *text) {
    return v->kind == BTI_PICKLE_TEXT && v->length == strlen(text) && !memcmp(v->text, text, v->length);
}

/* ("storage", class, key, place, elements) */
static bt_status push_storage(machine *m) {
    int tuple = 0, kind = 0, class = 0, key = 0, elements = 0;
    BTI_TRY(peek_at(m, 0, BTI_PICKLE_TUPLE, &tuple));
    m->stack.count--;
    if (!item_at(m, tuple, 0, BTI_PICKLE_TEXT, &kind) || !item_at(m, tuple, 1, BTI_PICKLE_GLOBAL, &class) ||
        !item_at(m, tuple, 2, BTI_PICKLE_TEXT, &key) || !item_at(m, tuple, 4, BTI_PICKLE_INT, &elements) ||
        !text_is(value_of_pickle(m, kind), "storage") || globals[value_of_pickle(m, class)->global].role != STORAGE ||
        value_of_pickle(m, elements)->integer < 0)
        return is_damaged(m, "a persistent object that is no storage");
    return push(m, (bti_pickle_value){.kind = BTI_PICKLE_STORAGE,
                                      .dtype = globals[value_of_pickle(m, class)->global].dtype,
                                      .text = value_of_pickle(m, key)->text,
                                      .length = value_of_pickle(m, key)->length,
                                      .integer = value_of_pickle(m, elements)->integer});
}

static bool take_sizes(const machine *m, int tuple, int64_t sizes[BT_MAX_RANK]) {
    int i = 0;
    for (int cell = value_of_pickle(m, tuple)->first; cell >= 0; cell = m->p->cells.items[cell].next, i++) {
        const bti_pickle_value *size = value_of_pickle(m, m->p->cells.items[cell].value);
        if (size->kind != BTI_PICKLE_INT || size->integer < 0) return false;
        if (i < BT_MAX_RANK) sizes[i] = size->integer;
    }
    return true;
}

/* {"conj": True, "neg": True}: PyTorch's lazy conjugates and negatives. Others change what the elements mean. */
static bt_status take_metadata(const machine *m, int dict, bti_pickle_tensor *t) {
    if (value_of_pickle(m, dict)->count > 16) return is_damaged(m, "more than 8 metadata of a tensor");
    for (int cell = value_of_pickle(m, dict)->first, next; cell >= 0; cell = m->p->cells.items[next].next) {
        next = m->p->cells.items[cell].next;
        const bti_pickle_value *key = value_of_pickle(m, m->p->cells.items[cell].value);
        const bti_pickle_value *value = value_of_pickle(m, m->p->cells.items[next].value);
        if (key->kind != BTI_PICKLE_TEXT || value->kind != BTI_PICKLE_BOOL)
            return is_damaged(m, "the metadata of a tensor are no bools under texts");
        if (text_is(key, "conj"))
            t->conj = value->integer;
        else if (text_is(key, "neg"))
            t->neg = value->integer;
        else
            return bti_fail(BT_UNIMPLEMENTED, "%s: byte %zu: a tensor with the metadata \"%s\"; conj and neg are read",
                            m->file->path, m->op, bti_quote_bytes(key->text, key->length).text);
    }
    return BT_OK;
}

/* (storage, offset, sizes, strides, requires_grad, hooks), for v3 a dtype, and maybe metadata. */
static bt_status push_tensor(machine *m, int tuple, bool has_dtype) {
    int offset = 0, sizes = 0, strides = 0, dtype = 0, metadata = 0, last = has_dtype ? 7 : 6;
    bti_pickle_tensor t = {0};
    if (!item_at(m, tuple, 0, BTI_PICKLE_STORAGE, &t.storage) || !item_at(m, tuple, 1, BTI_PICKLE_INT, &offset) ||
        !item_at(m, tuple, 2, BTI_PICKLE_TUPLE, &sizes) || !item_at(m, tuple, 3, BTI_PICKLE_TUPLE, &strides) ||
        (has_dtype && (!item_at(m, tuple, 6, BTI_PICKLE_GLOBAL, &dtype) ||
                       globals[value_of_pickle(m, dtype)->global].role != DTYPE)))
        return is_damaged(m, "a tensor without its storage, offset, sizes, strides or dtype");
    t.rank = value_of_pickle(m, sizes)->count;
    t.shape.rank = t.rank;
    t.offset = value_of_pickle(m, offset)->integer;
    if (t.offset < 0 || t.rank != value_of_pickle(m, strides)->count || !take_sizes(m, sizes, t.shape.size) ||
        !take_sizes(m, strides, t.stride))
        return is_damaged(m, "a tensor whose offset, sizes and strides are no whole numbers >= 0");
    t.dtype = has_dtype ? globals[value_of_pickle(m, dtype)->global].dtype : value_of_pickle(m, t.storage)->dtype;
    if (t.dtype == BT_DTYPE_COUNT) return is_damaged(m, "a tensor without a dtype");
    if (value_of_pickle(m, tuple)->count > last) {
        if (!item_at(m, tuple, last, BTI_PICKLE_DICT, &metadata))
            return is_damaged(m, "the metadata of a tensor are no dict");
        BTI_TRY(take_metadata(m, metadata, &t));
    }
    if (!bti_vec_push(&m->p->tensors, t)) return bti_no_memory();
    return push(m, (bti_pickle_value){.kind = BTI_PICKLE_TENSOR, .integer = (int64_t)m->p->tensors.count - 1});
}

static bt_status call_global(machine *m) {
    int function = 0, arguments = 0, tensor = 0;
    BTI_TRY(peek_at(m, 0, BTI_PICKLE_TUPLE, &arguments));
    BTI_TRY(peek_at(m, 1, BTI_PICKLE_GLOBAL, &function));
    m->stack.count -= 2;
    switch (globals[value_of_pickle(m, function)->global].role) {
    case ORDERED_DICT:
        if (value_of_pickle(m, arguments)->count) return is_damaged(m, "an OrderedDict with arguments");
        return push_container(m, BTI_PICKLE_DICT);
    case TENSOR_V2: return push_tensor(m, arguments, false);
    case TENSOR_V3: return push_tensor(m, arguments, true);
    case PARAMETER:
        if (!item_at(m, arguments, 0, BTI_PICKLE_TENSOR, &tensor)) return is_damaged(m, "a parameter without a tensor");
        return bti_vec_push(&m->stack, tensor) ? BT_OK : bti_no_memory();
    default: return is_damaged(m, "a call of what is no function");
    }
}

/* Attributes of an OrderedDict, such as the versions in a state_dict, are of no interest. */
static bt_status drop_attributes(machine *m) {
    int attributes = MARK, dict = MARK;
    BTI_TRY(pop(m, &attributes));
    return peek_at(m, 0, BTI_PICKLE_DICT, &dict);
}

/* --- opcodes --------------------------------------------------------------------------------------------------------- */

static bt_status check_protocol(machine *m) {
    uint64_t version = 0;
    BTI_TRY(take_number(m, 1, &version));
    return version == 2 ? BT_OK
                        : bti_fail(BT_UNIMPLEMENTED, "%s: a pickle of protocol %d; torch.save's own, 2, is read",
                                   m->file->path, (int)version);
}

static bt_status run_opcode(machine *m, int opcode) {
    size_t count = 0;
    switch (opcode) {
    case 0x80: return check_protocol(m);
    case '(': return bti_vec_push(&m->stack, MARK) ? BT_OK : bti_no_memory();
    case 'N': return push(m, (bti_pickle_value){.kind = BTI_PICKLE_NONE});
    case 0x88:
    case 0x89: return push(m, (bti_pickle_value){.kind = BTI_PICKLE_BOOL, .integer = opcode == 0x88});
    case 'J': return push_int(m, 4, true);
    case 'K': return push_int(m, 1, false);
    case 'M': return push_int(m, 2, false);
    case 0x8a: return push_long(m);
    case 'G': return push_real(m);
    case 'X':
    case 'T': return push_text(m, 4);
    case 'U': return push_text(m, 1);
    case 'c': return push_global(m);
    case '}': return push_container(m, BTI_PICKLE_DICT);
    case ']': return push_container(m, BTI_PICKLE_LIST);
    case ')': return push_container(m, BTI_PICKLE_TUPLE);
    case 't': BTI_TRY(count_to_mark(m, &count)); return make_tuple(m, count, true);
    case 0x85:
    case 0x86:
    case 0x87: return make_tuple(m, (size_t)opcode - 0x84, false);
    case 's': return add_items(m, BTI_PICKLE_DICT, false);
    case 'u': return add_items(m, BTI_PICKLE_DICT, true);
    case 'a': return add_items(m, BTI_PICKLE_LIST, false);
    case 'e': return add_items(m, BTI_PICKLE_LIST, true);
    case 'q': return put(m, 1);
    case 'r': return put(m, 4);
    case 'h': return get(m, 1);
    case 'j': return get(m, 4);
    case 'Q': return push_storage(m);
    case 'R': return call_global(m);
    case 'b': return drop_attributes(m);
    default:
        return bti_fail(BT_UNIMPLEMENTED, "%s: byte %zu: opcode 0x%02x, which plain tensors do not need", m->file->path,
                        m->op, opcode);
    }
}

static bt_status run_machine(machine *m) {
    for (;;) {
        uint64_t opcode = 0;
        m->op = m->at;
        BTI_TRY(take_number(m, 1, &opcode));
        if (opcode == '.') break;
        BTI_TRY(run_opcode(m, (int)opcode));
    }
    BTI_TRY(pop(m, &m->p->root));
    if (m->stack.count) return is_damaged(m, "more than one value is left at the end");
    return m->at == m->size ? BT_OK : bti_file_damaged(m->file, m->at, "more after the end of the pickle");
}

bt_status bti_pickle_load(bti_pickle *pickle, const bti_file *file) {
    *pickle = (bti_pickle){0};
    machine m = {.p = pickle, .file = file, .bytes = (const unsigned char *)file->memory, .size = (size_t)file->size};
    bt_status status = run_machine(&m);
    bti_vec_free(&m.stack);
    bti_vec_free(&m.memo);
    return status;
}

void bti_pickle_free(bti_pickle *pickle) {
    bti_vec_free(&pickle->values);
    bti_vec_free(&pickle->cells);
    bti_vec_free(&pickle->tensors);
}
