// Pi by random points in a square: tasks sample, an actor knows how far they are, and the program asks it until they are done.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TASKS = 8, STEPS = 10, POINTS = 20000 }; // points in a step

static bt_status progress_new(bt_task *task) {
    int *steps = calloc(1, sizeof *steps);
    bt_set_state(task, steps, free);
    return steps ? BT_OK : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
}
BT_REMOTE(progress_new);

static bt_status progress_step(bt_task *task) { return bt_return(task, ++*(int *)bt_state(task)); }
BT_REMOTE(progress_step);

static bt_status progress_get(bt_task *task) {
    return bt_return(task, *(int *)bt_state(task) / (double)(TASKS * STEPS));
}
BT_REMOTE(progress_get);

static double random_number(uint64_t *state) { // xorshift
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) / (double)(1ull << 53);
}

static bt_status sample(bt_task *task) {
    int seed, inside = 0;
    bt_actor *progress;
    bt_status status = bt_arguments(task, &seed, &progress);
    if (status != BT_OK) return status;
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(seed + 1);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < POINTS; i++) {
            double x = random_number(&state), y = random_number(&state);
            inside += x * x + y * y < 1;
        }
        bt_method(progress, progress_step); // nobody waits for it
    }
    return bt_return(task, inside);
}
BT_REMOTE(sample);

int main(void) {
    if (bt_runtime_init(.num_cpus = 4) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        bt_ref *samples[TASKS];
        bt_actor *progress = bt_actor_new(progress_new);
        for (int i = 0; i < TASKS; i++) samples[i] = bt_remote(sample, i, progress);
        double done = 0;
        while (done < 1) {
            usleep(10000);
            if (bt_get(bt_method(progress, progress_get), &done) != BT_OK) return puts(bt_error_text()), 1;
        }
        printf("progress: %g %%\n", done * 100);
        double inside = 0;
        for (int i = 0; i < TASKS; i++) {
            int count;
            if (bt_get(samples[i], &count) != BT_OK) return puts(bt_error_text()), 1;
            inside += count;
        }
        printf("pi is about %.2f\n", 4 * inside / ((double)TASKS * STEPS * POINTS));
    }
    return bt_runtime_shutdown();
}
