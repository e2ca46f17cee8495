/* The host's ways to elements: items, maps, printing; asking. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <berth/view.h>

#include "array/eval.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/numtext.h"
#include "base/files.h"
#include "exec/exec.h"
#include "ir/dtype.h"
#include "ir/float8.h"
#include "ir/half.h"
#include "ir/print.h"

/* --- asking ----------------------------------------------------------------------------------------------------------- */

/* The node of an array that may be NULL or released: NULL, in the second case with the cause in the error record. */
static const bti_node *node_of(const bt_array *x) {
    if (!x || !bti_owned_is_released(&x->head)) return x ? bti_node_of(x) : NULL;
    (void)!bti_fail_with(bti_array_error(x));
    return NULL;
}

bt_dtype bt_dtype_of(const bt_array *x) {
    const bti_node *node = node_of(x);
    return node ? (bt_dtype)node->dtype : BT_DTYPE_COUNT;
}

int bt_rank(const bt_array *x) {
    const bti_node *node = node_of(x);
    return node ? node->rank : -1;
}

bt_shape bt_shape_of(const bt_array *x) {
    const bti_node *node = node_of(x);
    return node ? bti_shape_of(node->shape, node->rank) : (bt_shape){0};
}

int64_t bt_size(const bt_array *x, int axis) {
    int rank = bt_rank(x);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || bti_size_is_symbolic(bti_node_of(x)->shape[axis])) return -1;
    return bti_node_of(x)->shape[axis];
}

int64_t bt_count(const bt_array *x) {
    int rank = bt_rank(x);
    int64_t count = rank < 0 ? -1 : 1;
    for (int i = 0; i < rank; i++) {
        if (bt_size(x, i) < 0) return -1;
        count *= bt_size(x, i);
    }
    return count;
}

/* --- items ------------------------------------------------------------------------------------------------------------ */

static double as_double(const void *element, bt_dtype dtype) {
    switch (dtype) {
    case BT_BOOL:
    case BT_U8: return *(const uint8_t *)element;
    case BT_U16: return *(const uint16_t *)element;
    case BT_U32: return *(const uint32_t *)element;
    case BT_U64: return (double)*(const uint64_t *)element;
    case BT_I8: return *(const int8_t *)element;
    case BT_I16: return *(const int16_t *)element;
    case BT_I32: return *(const int32_t *)element;
    case BT_I64: return (double)*(const int64_t *)element;
    case BT_F16: return (double)bti_f32_from_f16(*(const uint16_t *)element);
    case BT_BF16: return (double)bti_f32_from_bf16(*(const uint16_t *)element);
    case BT_F32: return (double)*(const float *)element;
    case BT_F8E4M3:
    case BT_F8E5M2: return (double)bti_f32_from_f8(dtype, *(const uint8_t *)element);
    default: return *(const double *)element;
    }
}

/* Reading a device's array element by element is slow without looking slow. */
static bt_status may_read_scalars(const bti_node *node) {
    if (node->device < 0 || bt_device_kind(bti_device_at(node->device)) == BT_CPU || bti_node_count(node) == 1)
        return BT_OK;
    if (!bti_flag_bool(BTI_FLAG_allow_scalar))
        return bti_fail(
            BT_FAILED_PRECONDITION,
            "reading one element of an array on %s copies from the device each time; read it whole (bt_read), "
            "bring it over (bt_cpu), or allow it (flag allow_scalar=on)",
            bt_device_name(bti_device_at(node->device)));
    static atomic_bool warned;
    bti_site site = bti_here();
    if (!atomic_exchange(&warned, true))
        bti_log("berth: reading single elements from %s (first at %s:%d) copies from the device each time",
                bt_device_name(bti_device_at(node->device)), bti_site_file(site), site.line);
    return BT_OK;
}

bt_status bt_item_at(bt_array *x, const int64_t *index, double *value) {
    BTI_PUBLIC("bt_item_at");
    bti_error *error = bti_array_error(x);
    if (error) return bti_fail_with(error);
    bti_node *node = bti_node_of(x);
    if (!node->symbolic) BTI_TRY(may_read_scalars(node));
    BTI_TRY(bti_block_node(node));
    if (bti_dtype_is_complex((bt_dtype)node->dtype))
        return bti_fail(BT_INVALID_ARGUMENT, "an element is %s, no double; read bt_real and bt_imag of the array",
                        bt_dtype_name((bt_dtype)node->dtype));
    if (!value || (node->rank && !index))
        return bti_fail(BT_INVALID_ARGUMENT, "%s is NULL", value ? "the index" : "the place for the value");
    int64_t at = node->layout.offset;
    for (int i = 0; i < node->rank; i++) {
        int64_t k = index[i] < 0 ? index[i] + node->shape[i] : index[i];
        if (k < 0 || k >= node->shape[i])
            return bti_fail(BT_OUT_OF_RANGE, "index %lld of axis %d, which has %lld elements", (long long)index[i], i,
                            (long long)node->shape[i]);
        at += k * node->layout.stride[i];
    }
    size_t size = bt_dtype_size((bt_dtype)node->dtype);
    uint64_t element = 0;
    BTI_TRY(bti_buffer_read(node->buffer, (size_t)at * size, &element, size));
    *value = as_double(&element, (bt_dtype)node->dtype);
    return BT_OK;
}

double bt_item(bt_array *x) {
    BTI_PUBLIC_WAITING("bt_item");
    static const int64_t origin[BTI_MAX_RANK];
    double value = NAN;
    if (!bti_array_error(x) && bt_count(x) != 1) {
        bti_str shape = {0};
        bti_shape_text(&shape, bti_node_of(x)->rank, bti_node_of(x)->shape);
        (void)!bti_fail(BT_INVALID_ARGUMENT, "an array of shape %s is not one element", bti_str_text(&shape));
        bti_str_free(&shape);
        return NAN;
    }
    return bt_item_at(x, origin, &value) == BT_OK ? value : NAN;
}

/* Room on the host for its elements, once they are known to be there to read: a cause of theirs goes first. */
static bool host_copy(bti_node *node, size_t element_bytes, void **copy) {
    *copy = NULL;
    if (bti_block_node(node) != BT_OK) return false;
    size_t bytes;
    bool fits = !__builtin_mul_overflow((size_t)bti_node_count(node), element_bytes, &bytes);
    if (fits) *copy = bti_alloc(bytes);
    if (!*copy)
        (void)!bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory for the %lld bytes of the array",
                        (long long)bti_node_bytes(node));
    return *copy;
}

/* Where the host can read them without a copy; NULL: nowhere, or they failed. */
static const void *elements_in_place(bti_node *node) {
    if (node->symbolic || node->device < 0 || !bti_device_has_host_memory(node->device) ||
        bti_block_node(node) != BT_OK)
        return NULL;
    if (!bti_layout_is_dense(node->rank, node->shape, &node->layout)) return NULL;
    if (bti_buffer_map(node->buffer) != BT_OK) return NULL;
    size_t offset = (size_t)node->layout.offset * bt_dtype_size((bt_dtype)node->dtype);
    return (const void *)(uintptr_t)(node->buffer->address + offset);
}

const void *bt_map(bt_array *x) {
    BTI_PUBLIC("bt_map");
    bti_error *error = bti_array_error(x);
    if (error) {
        (void)!bti_fail_with(error);
        return NULL;
    }
    if (x->mapped) return x->mapped;
    bti_node *node = bti_node_of(x);
    const void *in_place = elements_in_place(node);
    if (in_place) return in_place;
    void *copy;
    if (!host_copy(node, bt_dtype_size((bt_dtype)node->dtype), &copy)) return NULL;
    if (bti_read_node(node, copy) != BT_OK) {
        bti_free(copy);
        return NULL;
    }
    x->mapped = copy;
    return copy;
}

const void *bti_array_in_place(bt_array *x, bt_array **holder) {
    bti_node *node = bti_node_of(x);
    const void *elements = elements_in_place(node);
    *holder = NULL;
    if (!elements) return NULL;
    bti_node *held = bti_node_new(BTI_OP_leaf, (bt_dtype)node->dtype, node->rank, node->shape, 0, NULL, NULL);
    if (!held) return NULL;
    held->device = node->device;
    held->committed = true;
    held->place = bti_call_place();
    held->buffer = bti_buffer_retain(node->buffer);
    held->layout = node->layout;
    atomic_store(&held->state, BTI_DONE);
    *holder = bti_array_new(held);
    return bti_array_error(*holder) ? NULL : elements;
}

/* --- printing --------------------------------------------------------------------------------------------------------- */

static char *element_text(bt_array *x, bti_text_style style) {
    bti_error *error = bti_array_error(x);
    if (error) {
        (void)!bti_fail_with(error);
        return NULL;
    }
    bti_node *node = bti_node_of(x);
    bt_dtype dtype = (bt_dtype)node->dtype;
    void *data;
    if (!host_copy(node, bt_dtype_size(dtype), &data)) return NULL;
    char *text = NULL;
    if (bti_read_node(node, data) == BT_OK) {
        text = bti_elements_text(&(bt_elements){data, dtype, bti_shape_of(node->shape, node->rank)}, style);
        if (!text) (void)!bti_no_memory();
    }
    bti_free(data);
    return text;
}

char *bt_to_text(bt_array *x) {
    BTI_PUBLIC("bt_to_text");
    return element_text(x, BTI_TEXT_STR);
}

char *bt_repr(bt_array *x) {
    BTI_PUBLIC("bt_repr");
    return element_text(x, BTI_TEXT_REPR);
}

static void add_shape_tuple(bti_str *text, const bti_node *node) { bti_shape_text(text, node->rank, node->shape); }

void bt_print(bt_array *x) {
    BTI_PUBLIC("bt_print");
    char *elements = element_text(x, BTI_TEXT_STR);
    bti_str text = {0};
    if (!elements) {
        BTI_WRITES;
        fflush(stdout); /* what was printed before comes first */
        fprintf(stderr, "bt_array(poisoned: %s)\n", bt_error_text());
    } else {
        bti_str_addf(&text, "bt_array(%s%s, shape=", strchr(elements, '\n') ? "\n" : "", elements);
        add_shape_tuple(&text, bti_node_of(x));
        bti_str_addf(&text, ", dtype=%s", bt_dtype_name(bt_dtype_of(x)));
        if (bti_flag_bool(BTI_FLAG_print_device)) bti_str_addf(&text, ", device=%s", bt_device_name(bt_device_of(x)));
        bti_str_add(&text, ")");
        printf("%s\n", bti_str_text(&text));
    }
    bti_str_free(&text);
    bti_free(elements);
}
