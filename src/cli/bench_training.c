#include "cli/bench_training.h"

enum { CHECKED_STEPS = 5 };

static int count_inputs(const bench_work *work) {
    int count = 0;
    while (count < BENCH_INPUTS && work->inputs[count]) count++;
    return count;
}

bool bench_prepare_training(bench_work *work, const bench_trained *model, bt_dtype dtype) {
    bt_shared **variables = work->parameters;
    bt_array *values[BENCH_PARAMETERS], *grads[BENCH_PARAMETERS], *inputs[BENCH_INPUTS] = {NULL}, *loss;
    bt_update updates[BENCH_PARAMETERS];
    int count = model->parameters, input_count = count_inputs(work);
    for (int i = 0; i < input_count; i++)
        inputs[i] = bt_input_shape(bt_dtype_of(work->inputs[i]), bt_shape_of(work->inputs[i]));
    for (int i = 0; i < count; i++) {
        variables[i] = bt_shared_new(model->initial(i), NULL);
        values[i] = bt_value(variables[i]);
    }
    BT_AUTOCAST(dtype) loss = model->loss(values, inputs);
    if (bt_grad_shared(loss, variables, count, grads) != BT_OK) return false;
    for (int i = 0; i < count; i++)
        updates[i] = (bt_update){variables[i], bt_sub(values[i], bt_mul(grads[i], bt_num(model->rate)))};
    work->function = bt_function_new(inputs, input_count, &loss, 1, updates, count);
    return bt_function_status(work->function) == BT_OK;
}

bt_array *bench_train(bench_work *work) {
    bt_array *loss = bt_call1(work->function, work->inputs, count_inputs(work));
    if (bt_block(loss) != BT_OK) return loss;
    for (int i = 0; i < BENCH_PARAMETERS && work->parameters[i]; i++) {
        bt_array *parameter = bt_value(work->parameters[i]);
        if (bt_block(parameter) != BT_OK) return parameter;
    }
    return loss;
}

bt_array *bench_first_losses(bench_work *work, const bench_trained *model) {
    bt_array *values[BENCH_PARAMETERS], *losses[CHECKED_STEPS];
    for (int i = 0; i < model->parameters; i++) values[i] = model->initial(i);
    (void)bt_set_all(work->parameters, values, model->parameters);
    for (int i = 0; i < CHECKED_STEPS; i++) losses[i] = bench_train(work);
    return bt_stack(losses, CHECKED_STEPS, 0);
}
