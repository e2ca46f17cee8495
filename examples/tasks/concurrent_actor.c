// An actor whose methods run at once, in threads of its process: up to as many as .max_concurrency says. Here two methods wait for numbers that
// another one brings, which could not begin while they wait if the actor ran one method at a time.
#include <berth.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// Methods that run at once share the state: it has a lock.
typedef struct board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t numbers[16], count, taken;
} board;

static bt_status board_new(bt_task *task) {
    board *b = calloc(1, sizeof *b);
    if (!b) return bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    bt_set_state(task, b, free);
    return BT_OK;
}
BT_REMOTE(board_new, .max_concurrency = 3);

// Waits until there is a number that nobody has taken.
static bt_status board_take(bt_task *task) {
    board *b = bt_state(task);
    pthread_mutex_lock(&b->lock);
    while (b->taken == b->count) pthread_cond_wait(&b->changed, &b->lock);
    int64_t number = b->numbers[b->taken++];
    pthread_mutex_unlock(&b->lock);
    return bt_return(task, number);
}
BT_REMOTE(board_take);

static bt_status board_put(bt_task *task) {
    board *b = bt_state(task);
    int64_t number;
    bt_status status = bt_arguments(task, &number);
    if (status != BT_OK) return status;
    pthread_mutex_lock(&b->lock);
    if (b->count < 16) b->numbers[b->count++] = number;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return BT_OK;
}
BT_REMOTE(board_put);

int main(void) {
    if (bt_runtime_init(.num_cpus = 1) != BT_OK) return puts(bt_error_text()), 1;
    BT_SCOPE {
        int64_t sum = 0, number;
        bt_actor *shared = bt_actor_new(board_new);
        bt_ref *taken[] = {bt_method(shared, board_take), bt_method(shared, board_take)}; // both wait
        bt_method(shared, board_put, 40);
        bt_method(shared, board_put, 2);
        for (int i = 0; i < 2; i++, sum += number)
            if (bt_get(taken[i], &number) != BT_OK) return puts(bt_error_text()), 1;
        printf("%d\n", (int)sum);
    }
    return bt_runtime_shutdown();
}
