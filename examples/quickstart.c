// The README's program: a product, a model that learns two numbers, an error that names its line.
#include <berth.h>

int main(void) {
    BT_SCOPE { // what is made inside is released at its end
        bt_array *a = BT_ARRAY(float, (2, 3), 1, 2, 3, 4, 5, 6);
        bt_array *b = BT_ARRAY(float, (3, 2), 1, 2, 3, 4, 5, 6);
        bt_print(bt_matmul(a, b)); // on the lowest GPU, else on the CPU

        bt_array *x = bt_uniform(bt_key(0), BT_F32, 2, 3); // the same numbers on every device
        bt_shared *w = bt_shared_new(bt_zeros(BT_F32, 3, 1), NULL);
        for (int i = 0; i < 100; i++)
            BT_SCOPE {
                bt_array *loss = bt_mse(bt_matmul(x, bt_value(w)), BT_ARRAY(float, (2, 1), 1, 0));
                bt_set(w, bt_sub(bt_value(w), bt_mul(0.5, bt_grad1(loss, w))));
            }
        bt_print(bt_round(bt_matmul(x, bt_value(w))));

        bt_print(bt_matmul(a, a)); // does not fit: says what, where, and why
    }
}
