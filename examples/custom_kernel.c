// An operation of the program's own with a kernel for GPUs: the least and the greatest element of each row. One text serves GPUs of NVIDIA's and devices of
// OpenCL; on all others the C function computes it.
#include <berth.h>
#include <stdio.h>

// A group of threads for each row. INPUT(0) is x; the words are listed in docs/own-operations.md.
static const char text[] = "FUNCTION f32 lesser(f32 x, f32 y) { return x < y ? x : y; }\n"
                           "KERNEL(range) {\n"
                           "    LOCAL_ARRAY f32 low[64];\n"
                           "    LOCAL_ARRAY f32 high[64];\n"
                           "    i64 columns = INPUT_SIZE(0, 1);\n"
                           "    GLOBAL const f32 *row = INPUT(0) + GROUP * columns;\n"
                           "    f32 least = row[0], most = -row[0];\n"
                           "    for (i64 j = THREAD; j < columns; j += THREADS)\n"
                           "        least = lesser(least, row[j]), most = lesser(most, -row[j]);\n"
                           "    low[THREAD] = least, high[THREAD] = most;\n"
                           "    for (u32 left = THREADS / 2; left; left /= 2) {\n"
                           "        BARRIER();\n"
                           "        if (THREAD < left) {\n"
                           "            low[THREAD] = lesser(low[THREAD], low[THREAD + left]);\n"
                           "            high[THREAD] = lesser(high[THREAD], high[THREAD + left]);\n"
                           "        }\n"
                           "    }\n"
                           "    if (THREAD == 0) OUTPUT(0)[GROUP] = low[0], OUTPUT(1)[GROUP] = -high[0];\n"
                           "}\n";

static bt_status grid(const bt_elements *inputs, int count, const bt_elements *outputs, bt_custom_grid *grid,
                      const bt_custom_args *args) {
    (void)inputs, (void)count, (void)args;
    *grid = (bt_custom_grid){.groups = outputs[0].shape.size[0], .threads = 64};
    return BT_OK;
}

// The same in C.
static bt_status range(const bt_elements *inputs, int count, const bt_elements *outputs, const bt_custom_args *args) {
    (void)count, (void)args;
    const float *row = inputs[0].data;
    float *least = outputs[0].data, *most = outputs[1].data;
    for (int64_t i = 0; i < outputs[0].shape.size[0]; i++) {
        least[i] = most[i] = *row;
        for (int64_t j = 0; j < inputs[0].shape.size[1]; j++, row++) {
            if (*row < least[i]) least[i] = *row;
            if (*row > most[i]) most[i] = *row;
        }
    }
    return BT_OK;
}

static bt_status range_shape(const bt_elements *inputs, int count, bt_elements *outputs, const bt_custom_args *args) {
    (void)args;
    if (count != 1 || inputs[0].dtype != BT_F32 || inputs[0].shape.rank != 2) return BT_INVALID_ARGUMENT;
    if (inputs[0].shape.size[1] == 0) return BT_INVALID_ARGUMENT; // there is none
    outputs[0].shape = outputs[1].shape = BT_SHAPE(inputs[0].shape.size[0]);
    return BT_OK;
}

// A gradient goes to the elements that are the least and the greatest. Of a result that nothing was made of there is none.
static void range_gradient(bt_array *const *inputs, int count, bt_array *const *outputs, bt_array *const *cotangents,
                           bt_array **gradients, const bt_custom_args *args) {
    (void)count, (void)args;
    for (int i = 0; i < 2; i++) {
        if (!cotangents[i]) continue;
        bt_array *is_it = bt_cast(bt_eq(inputs[0], bt_expand_dims(outputs[i], 1)), BT_F32);
        bt_array *part = bt_mul(is_it, bt_expand_dims(cotangents[i], 1));
        gradients[0] = gradients[0] ? bt_add(gradients[0], part) : part;
    }
}

int main(void) {
    BT_SCOPE {
        bt_custom *op =
            bt_custom_new(BT_CUSTOM(.name = "range", .results = 2, .run = range, .cuda = text, .opencl = text,
                                    .grid = grid, .shape = range_shape, .gradient = range_gradient));
        bt_array *x = BT_ARRAY(float, (2, 4), 5, 1, 3, 2, 9, 4, 7, 8), *ends[2];
        if (bt_custom_call_all(op, &x, 1, NULL, 0, ends, 2) != BT_OK) puts(bt_error_text());
        bt_print(ends[0]);
        bt_print(ends[1]);
        bt_array *width = bt_sub(ends[1], ends[0]);
        bt_print(bt_grad1(bt_sum(bt_mul(width, width)), x));

        bt_array *large = bt_reshape(bt_arange(0, 1000000, 1, BT_F32), 1000, 1000);
        if (bt_custom_call_all(op, &large, 1, NULL, 0, ends, 2) != BT_OK) puts(bt_error_text());
        bt_print(bt_max(bt_sub(ends[1], ends[0])));
    }
}
