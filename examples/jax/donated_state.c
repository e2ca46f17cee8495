// A state that each step takes and returns: donated, it needs its memory once (donate_argnums).
#include <berth.h>
#include <stdio.h>

enum { COUNT = 1 << 20 }; // 4 MiB

// The position moves with the speed, which a spring slows down.
static bt_function *step_of_spring(bool donates) {
    bt_array *position = bt_input(BT_F32, COUNT), *speed = bt_input(BT_F32, COUNT);
    bt_array *faster = bt_sub(speed, bt_mul(position, 0.25));
    bt_function *step = bt_function_new((bt_array *[]){position, speed}, 2,
                                        (bt_array *[]){bt_add(position, faster), faster}, 2, NULL, 0);
    for (int i = 0; i < 2 && donates; i++)
        if (bt_function_donate(step, i) != BT_OK) puts(bt_error_text());
    return step;
}

// Eight steps; what the second element comes to, and the memory that the steps needed.
static void run(bool donates) {
    bt_function *step = step_of_spring(donates);
    bt_array *state[2] = {NULL, NULL};
    BT_SCOPE
        for (int k = 0; k < 2; k++) {
            bt_assign(&state[k], bt_arange(0, COUNT, 1, BT_F32));
            if (bt_block(state[k]) != BT_OK) puts(bt_error_text());
        }
    const bt_device *device = bt_device_of(state[0]);
    bt_memory_reset_peak(device);
    for (int i = 0; i < 8; i++)
        BT_SCOPE {
            bt_array *next[2];
            if (bt_call(step, state, 2, next, 2) != BT_OK) puts(bt_error_text());
            for (int k = 0; k < 2; k++) bt_assign(&state[k], next[k]); // the call has taken the old ones
        }
    if (bt_block(state[0]) != BT_OK) puts(bt_error_text());
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    if (bt_memory(device, &memory) != BT_OK) puts(bt_error_text());
    double second = 0;
    BT_SCOPE
        second = bt_item(bt_slice(state[0], (int64_t[]){1}, (int64_t[]){2}, NULL));
    printf("%s: the second is %.4f; %zu MiB\n", donates ? "donated" : "kept", second, memory.peak >> 20);
    for (int k = 0; k < 2; k++) bt_release(state[k]);
}

int main(void) {
    BT_SCOPE {
        run(false);
        run(true);
        bt_array *state[2] = {bt_ones(BT_F32, COUNT), bt_ones(BT_F32, COUNT)}, *next[2], *position = state[0];
        if (bt_call(step_of_spring(true), state, 2, next, 2) != BT_OK) puts(bt_error_text());
        if (bt_eval(position) != BT_OK) puts(bt_error_text());
        if (bt_block(next[0]) != BT_OK) puts(bt_error_text());
    }
    return 0;
}
