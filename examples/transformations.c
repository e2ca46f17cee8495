// Functions of functions: the gradient of each example of a batch, and a step of Newton's method by Hessian-vector products.
#include <berth.h>

// The squared error of one example x [2] -> y [] under the weights w [2].
static bt_array *loss_of(bt_array *w, bt_array *x, bt_array *y) { return bt_square(bt_sub(bt_matmul(w, x), y)); }

// Solves H d = g for d, where H is the Hessian of the loss, by conjugate gradients: two steps for two weights.
static bt_array *newton_direction(bt_array *loss, bt_array *w) {
    bt_array *residual = bt_grad1(loss, w), *direction = residual, *solution = bt_zeros_like(w);
    for (int i = 0; i < 2; i++) {
        bt_array *curved;
        bt_hvp(loss, &w, &direction, 1, &curved);
        bt_array *size = bt_matmul(residual, residual), *step = bt_div(size, bt_matmul(direction, curved));
        solution = bt_add(solution, bt_mul(step, direction));
        residual = bt_sub(residual, bt_mul(step, curved));
        direction = bt_add(residual, bt_mul(bt_div(bt_matmul(residual, residual), size), direction));
    }
    return solution;
}

int main(void) {
    BT_SCOPE {
        bt_array *xs = BT_ARRAY(float, (4, 2), 1, 2, 2, 1, 1, 1, 3, 1), *ys = BT_ARRAY(float, (4), 5, 4, 3, 5);
        bt_array *start = bt_zeros(BT_F32, 2);

        // Written for one example; called with a batch. The weights are shared.
        bt_array *w = bt_input(BT_F32, 2), *x = bt_input(BT_F32, 2), *y = bt_input(BT_F32);
        bt_array *of_one = loss_of(w, x, y);
        bt_array *inputs[] = {w, x, y}, *outputs[] = {of_one, bt_grad1(of_one, w)};
        bt_function *one = bt_function_new(inputs, 3, outputs, 2, NULL, 0);
        bt_function *batch = bt_vmap(one, (const int[]){BT_NOT_BATCHED, 0, 0}, NULL);
        bt_array *arguments[] = {start, xs, ys}, *results[2];
        bt_call(batch, arguments, 3, results, 2);
        bt_print(results[0]); // [B]
        bt_print(results[1]); // [B, 2]: the gradient of each

        // The loss is a parabola, so one step reaches its minimum.
        bt_array *loss = bt_mean(bt_square(bt_sub(bt_matmul(xs, start), ys)), BT_ALL, false);
        bt_print(bt_hessian(loss, start));
        bt_print(bt_round(bt_sub(start, newton_direction(loss, start))));

        // How the predictions turn with the angle of the weights: forward mode, one input and many results.
        bt_array *angle = bt_f32(0), *turned = bt_stack((bt_array *[]){bt_cos(angle), bt_sin(angle)}, 2, 0);
        bt_array *predictions = bt_matmul(xs, turned), *tangent;
        bt_jvp(&predictions, 1, &angle, (bt_array *[]){bt_f32(1)}, 1, &tangent);
        bt_print(tangent);
    }
}
