/* Where elements come from, and what only passes them on: sources, copies, variables. */
#include <string.h>

#include "support/conformance.h"

/* --- sources -------------------------------------------------------------------------------------------------------------- */

static void run_leaf(const row *of) {
    unsigned seed = 6;
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < edge_shape_count; s++) EACH_LAYOUT(lies) {
            if (!case_begin("leaf/%s/%s %s", bt_dtype_name(dtype), layout_names[lies], shape_text(edge_shapes[s])))
                continue;
            host x = host_draw(dtype, edge_shapes[s], -4, 4, (layout)lies, &seed);
            BT_SCOPE
                case_end(host_place(&x, (layout)lies), &x, 0);
        }
}

static void run_const(const row *of) {
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < edge_shape_count; s++) {
        if (!case_begin("const/%s %s", bt_dtype_name(dtype), shape_text(edge_shapes[s]))) continue;
        host want = host_new(dtype, edge_shapes[s]);
        for (int64_t i = 0; i < want.count; i++) want.at[i] = dtype == BT_BOOL ? 1 : 3;
        BT_SCOPE
            case_end(bt_full_shape(3, dtype, edge_shapes[s]), &want, 0);
    }
}

static void run_iota(const row *of) {
    EACH_DTYPE(dtype, of)
    for (int64_t n = 0; n < 70; n += 23) {
        if (dtype == BT_BOOL || !case_begin("iota/%s %lld", bt_dtype_name(dtype), (long long)n)) continue;
        host want = host_new(dtype, BT_SHAPE(n));
        for (int64_t i = 0; i < n; i++) want.at[i] = (double)i;
        BT_SCOPE
            case_end(bt_arange(0, (double)n, 1, dtype), &want, 0);
    }
}

/* A size that is known at the call only. */
static void run_size(const row *of) {
    (void)of;
    for (int64_t n = 1; n < 9; n += 3) {
        if (!case_begin("size %lld", (long long)n)) continue;
        host want = host_new(BT_F32, BT_SHAPE());
        want.at[0] = 2.5;
        BT_SCOPE {
            bt_array *x = bt_input(BT_F32, -1), *mean = bt_mean(x, BT_ALL, false), *argument = bt_full(2.5, BT_F32, n);
            case_end(bt_call1(bt_function_new(&x, 1, &mean, 1, NULL, 0), &argument, 1), &want, 0);
        }
    }
}

/* --- effects -------------------------------------------------------------------------------------------------------------- */

static void run_copy(const row *of) {
    unsigned seed = 21;
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < edge_shape_count; s++) EACH_LAYOUT(lies) {
            if (!case_begin("copy/%s/%s %s", bt_dtype_name(dtype), layout_names[lies], shape_text(edge_shapes[s])))
                continue;
            host x = host_draw(dtype, edge_shapes[s], of->low, of->high, (layout)lies, &seed);
            BT_SCOPE {
                bt_array *here = host_place(&x, (layout)lies), *there = bt_to(here, case_other_device());
                (void)!bt_block(there);
                case_end(bt_to(there, bt_device_name(bt_device_of(here))), &x, 0);
            }
        }
}

/* On both devices; the second part lies there, dense. */
static void run_all_reduce(const row *of) {
    unsigned seed = 26;
    EACH_DTYPE(dtype, of)
    for (int s = 0; s < edge_shape_count; s++) EACH_LAYOUT(lies) {
            if (!case_begin("all_reduce/%s/%s %s", bt_dtype_name(dtype), layout_names[lies],
                            shape_text(edge_shapes[s])))
                continue;
            bool positive = dtype_is_unsigned(dtype);
            host x = host_draw(dtype, edge_shapes[s], positive ? 0 : of->low, of->high, (layout)lies, &seed), want = x;
            for (int64_t i = 0; i < x.count; i++) want.at[i] = host_round(dtype, 2 * x.at[i]);
            BT_SCOPE {
                bt_array *parts[2] = {host_place(&x, (layout)lies)};
                const char *here = bt_device_name(bt_device_of(parts[0])), *names[2] = {here, case_other_device()};
                parts[1] = bt_to(host_place(&x, DENSE), names[1]);
                bt_all_reduce(bt_mirrored(names, 2), parts);
                case_end(bt_to(parts[1], here), &want, 0);
            }
        }
}

static void run_value(const row *of) {
    unsigned seed = 22;
    EACH_DTYPE(dtype, of)
    EACH_LAYOUT(lies) {
        if (!case_begin("value/%s/%s", bt_dtype_name(dtype), layout_names[lies])) continue;
        host x = host_draw(dtype, BT_SHAPE(2, 3), 0, 4, (layout)lies, &seed);
        BT_SCOPE {
            bt_shared *w = bt_shared_new(bt_zeros_like(host_place(&x, DENSE)), NULL);
            (void)!bt_set(w, host_place(&x, (layout)lies));
            case_end(bt_value(w), &x, 0);
        }
    }
}

/* The first call makes the plan; also an argument of the next one, which then is not recorded. */
static void run_call(const row *of) {
    unsigned seed = 25;
    EACH_DTYPE(dtype, of)
    EACH_LAYOUT(lies) {
        if (!case_begin("call/%s/%s", bt_dtype_name(dtype), layout_names[lies])) continue;
        host x = host_draw(dtype, BT_SHAPE(2, 3), of->low, of->high, (layout)lies, &seed);
        BT_SCOPE {
            bt_array *input = bt_input(dtype, 2, 3), *same = bt_add(input, bt_zeros_like(input));
            bt_function *f = bt_function_new(&input, 1, &same, 1, NULL, 0);
            bt_array *here = host_place(&x, (layout)lies);
            for (int i = 0; i < 3; i++) here = bt_call1(f, &here, 1);
            bt_function_release(f);
            case_end(here, &x, 0);
        }
    }
}

/* Only blocks that are computed again have barriers: the gradient of f * x by f is x once more, computed from a barrier. */
static void run_barrier(const row *of) {
    unsigned seed = 24;
    EACH_DTYPE(dtype, of)
    EACH_LAYOUT(lies) {
        if (!case_begin("barrier/%s/%s", bt_dtype_name(dtype), layout_names[lies])) continue;
        host x = host_draw(dtype, BT_SHAPE(2, 3), of->low, of->high, (layout)lies, &seed);
        BT_SCOPE {
            bt_array *here = host_place(&x, (layout)lies), *y = NULL, *again;
            bt_array *f = bt_ones(dtype == BT_F64 ? BT_F64 : BT_F32, 2, 3);
            BT_CHECKPOINT y = bt_mul(f, bt_cast(bt_maximum(here, here), bt_dtype_of(f)));
            (void)!bt_vjp(y, bt_ones_like(f), &f, 1, &again);
            case_end(bt_cast(again, dtype), &x, 0);
        }
    }
}

static void take_elements(const bt_elements *value, void *data) {
    size_t bytes = bt_dtype_size(value->dtype);
    for (int i = 0; i < value->shape.rank; i++) bytes *= (size_t)value->shape.size[i];
    if (bytes) memcpy(data, value->data, bytes);
}

/* The result, and what the host is told. */
static void run_callback(const row *of) {
    unsigned seed = 25;
    EACH_DTYPE(dtype, of)
    EACH_LAYOUT(lies)
    for (int s = 0; s < edge_shape_count; s++) {
        if (!case_begin("callback/%s/%s %s", bt_dtype_name(dtype), layout_names[lies], shape_text(edge_shapes[s])))
            continue;
        host x = host_draw(dtype, edge_shapes[s], of->low, of->high, (layout)lies, &seed);
        static unsigned char told[1 << 16];
        BT_SCOPE {
            bt_array *y = bt_debug_callback(take_elements, told, host_place(&x, (layout)lies));
            (void)!bt_block(y);
            bt_synchronize();
            case_end(s % 2 ? y : bt_from(told, dtype, edge_shapes[s]), &x, 0);
        }
    }
}

static bt_status copy_elements(const bt_elements *inputs, int count, const bt_elements *output,
                               const bt_custom_args *args) {
    (void)count, (void)args;
    take_elements(inputs, output->data);
    return BT_OK;
}
static bt_status same_type(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    (void)inputs, (void)count, (void)output, (void)args;
    return BT_OK;
}

/* An operation of the program's that copies. */
static void run_custom(const row *of) {
    unsigned seed = 27;
    EACH_DTYPE(dtype, of)
    EACH_LAYOUT(lies)
    for (int s = 0; s < edge_shape_count; s++) {
        if (!case_begin("custom/%s/%s %s", bt_dtype_name(dtype), layout_names[lies], shape_text(edge_shapes[s])))
            continue;
        host x = host_draw(dtype, edge_shapes[s], of->low, of->high, (layout)lies, &seed);
        BT_SCOPE {
            bt_custom *op = bt_custom_new(BT_CUSTOM(.name = "copied", .run = copy_elements, .shape = same_type));
            bt_array *here = host_place(&x, (layout)lies);
            case_end(bt_custom_call(op, &here, 1, NULL, 0), &x, 0);
        }
    }
}

static void run_stop(const row *of) {
    unsigned seed = 23;
    EACH_DTYPE(dtype, of)
    EACH_LAYOUT(lies) {
        if (!case_begin("stop/%s/%s", bt_dtype_name(dtype), layout_names[lies])) continue;
        host x = host_draw(dtype, BT_SHAPE(2, 3), 0, 4, (layout)lies, &seed);
        BT_SCOPE
            case_end(bt_stop_gradient(host_place(&x, (layout)lies)), &x, 0);
    }
}

const cases source_cases[] = {
    {"leaf", run_leaf},
    {"const", run_const},
    {"size", run_size},
    {"iota", run_iota},
    {"copy", run_copy},
    {"all_reduce", run_all_reduce},
    {"call", run_call},
    {"value", run_value},
    {"barrier", run_barrier},
    {"callback", run_callback},
    {"custom", run_custom},
    {"stop", run_stop},
    {NULL, NULL},
};
