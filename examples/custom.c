// An operation of the program's own: the median of each row, in C, with its gradient. It works where built-in ones do: lazily, in functions, in
// batches, with gradients.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// x [rows, columns] -> [rows]
static bt_status median(const bt_elements *inputs, int count, const bt_elements *output, const bt_custom_args *args) {
    (void)count, (void)args;
    int64_t columns = inputs[0].shape.size[1];
    float *row = malloc((size_t)columns * sizeof *row);
    if (!row) return BT_RESOURCE_EXHAUSTED;
    for (int64_t i = 0; i < output->shape.size[0]; i++) {
        for (int64_t j = 0; j < columns; j++) row[j] = ((const float *)inputs[0].data)[i * columns + j];
        qsort(row, (size_t)columns, sizeof *row, ascending);
        ((float *)output->data)[i] = row[columns / 2];
    }
    free(row);
    return BT_OK;
}

// Also of inputs in functions, whose number of rows is not known yet: it is passed on. The output is like the first input but for what is set.
static bt_status median_shape(const bt_elements *inputs, int count, bt_elements *output, const bt_custom_args *args) {
    (void)args;
    if (count != 1 || inputs[0].dtype != BT_F32 || inputs[0].shape.rank != 2) return BT_INVALID_ARGUMENT;
    if (inputs[0].shape.size[1] % 2 == 0) return BT_INVALID_ARGUMENT; // none is in the middle
    output->shape = BT_SHAPE(inputs[0].shape.size[0]);
    return BT_OK;
}

// The gradient goes to the element that is the median, with berth's operations.
static void median_gradient(bt_array *const *inputs, int count, bt_array *const *outputs, bt_array *const *cotangents,
                            bt_array **gradients, const bt_custom_args *args) {
    (void)count, (void)args;
    bt_array *is_median = bt_eq(inputs[0], bt_expand_dims(outputs[0], 1));
    gradients[0] = bt_mul(bt_cast(is_median, BT_F32), bt_expand_dims(cotangents[0], 1));
}

int main(void) {
    BT_SCOPE {
        bt_custom *op = bt_custom_new(
            BT_CUSTOM(.name = "median", .run = median, .shape = median_shape, .gradient = median_gradient));
        bt_array *x = BT_ARRAY(float, (2, 3), 5, 1, 3, 2, 9, 4), *y = bt_custom_call(op, &x, 1, NULL, 0);
        bt_print(y);
        bt_print(bt_grad1(bt_sum(bt_mul(y, y)), x));

        bt_array *rows = bt_input(BT_F32, -1, 3), *of_rows = bt_custom_call(op, &rows, 1, NULL, 0), *result;
        bt_function *function = bt_function_new(&rows, 1, &of_rows, 1, NULL, 0);
        bt_array *batch = bt_reshape(bt_arange(0, 12, 1, BT_F32), 2, 2, 3);
        if (bt_call(bt_vmap(function, NULL, NULL), &batch, 1, &result, 1) == BT_OK) bt_print(result);

        bt_array *even = bt_ones(BT_F32, 2, 4);
        if (bt_eval(bt_custom_call(op, &even, 1, NULL, 0)) != BT_OK) puts(bt_error_text());
    }
}
