/* A model in stages on 1 to 4 cards, and batches in micro-batches: the time of a step, the part of it that the cards are idle beside that of theory, and memory. Of cards with a
 * model the times are virtual.
 *     BERTH_FLAGS=devices=sim:h200*4,sim_data=off stages [WIDTH [ROWS]] */
#include <berth.h>

#include <stdio.h>
#include <stdlib.h>

enum { CARDS = 4, LAYERS = 12, MOST = 32 };

typedef struct step {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_array *x;
    bt_status status;
} step;

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_mse(bt_apply(model, x), y);
}

static void run(void *data) {
    step *s = data;
    BT_SCOPE
        s->status = bt_block(bt_train_step(s->strategy, s->model, s->optimizer, loss_of, NULL, s->x, s->x));
    bt_synchronize();
}

static double most_memory(int cards) {
    size_t most = 0;
    for (int d = 0; d < cards; d++) {
        bt_memory_info info = BT_MEMORY_INFO_INIT;
        if (bt_memory(bt_device_get(BT_GPU, d), &info) == BT_OK && info.peak > most) most = info.peak;
        bt_memory_reset_peak(bt_device_get(BT_GPU, d));
    }
    return (double)most / (1 << 20);
}

/* The second step's: memory is taken then. */
static double time_step(step *s, int cards, int micro_batches, double *mebibytes) {
    double seconds = 0;
    BT_SCOPE {
        s->strategy = bt_pipelined(micro_batches);
        for (int i = 0; i < 2; i++) seconds = bt_time(run, s);
        *mebibytes = most_memory(cards);
    }
    return seconds;
}

static bt_status print_rows(int cards, int64_t width, int64_t rows, const double *alone) {
    static const char *const names[CARDS] = {"gpu:0", "gpu:1", "gpu:2", "gpu:3"};
    step s = {.status = BT_OK};
    BT_SCOPE {
        bt_layer *layers[LAYERS];
        for (int i = 0; i < LAYERS; i++) layers[i] = bt_dense(width, width, bt_tanh, bt_key((uint64_t)i));
        s.model = bt_layer_to_stages(bt_chain_of(layers, LAYERS), names, cards, NULL);
        s.optimizer = bt_sgd(0.01);
        s.x = bt_to(bt_normal(bt_key(0), BT_F32, rows, width), names[0]);
        s.status = bt_block(s.x);
        for (int number = 1, row = 0; number <= MOST && s.status == BT_OK; number *= 2, row++) {
            double mebibytes, seconds = time_step(&s, cards, number, &mebibytes);
            double idle = 1 - alone[row] / (cards * seconds), theory = (cards - 1.0) / (number + cards - 1);
            printf("| %d | %d | %.1f | %.3f | %.3f | %.0f |\n", cards, number, seconds * 1e3, idle, theory, mebibytes);
        }
    }
    return s.status;
}

/* What the same micro-batches take on one card: smaller ones are slower. */
static bt_status time_alone(int64_t width, int64_t rows, double *alone) {
    step s = {.status = BT_OK};
    BT_SCOPE {
        bt_layer *layers[LAYERS];
        double unused;
        for (int i = 0; i < LAYERS; i++)
            BT_ON("gpu:0") layers[i] = bt_dense(width, width, bt_tanh, bt_key((uint64_t)i));
        s.model = bt_chain_of(layers, LAYERS);
        s.optimizer = bt_sgd(0.01);
        s.x = bt_to(bt_normal(bt_key(0), BT_F32, rows, width), "gpu:0");
        s.status = bt_block(s.x);
        for (int number = 1, row = 0; number <= MOST; number *= 2, row++)
            alone[row] = time_step(&s, 1, number, &unused);
    }
    return s.status;
}

int main(int count, char **argument) {
    int64_t width = count > 1 ? atoll(argument[1]) : 4096, rows = count > 2 ? atoll(argument[2]) : 32768;
    double alone[MOST] = {0};
    if (width < 1 || rows < 1 || bt_device_count(BT_GPU) < CARDS) {
        fprintf(stderr, "stages [WIDTH [ROWS]], with %d GPUs\n", CARDS);
        return 2;
    }
    printf("| stages | micro-batches | step, ms | idle | (S - 1) / (M + S - 1) | most memory of a card, MiB |\n");
    printf("| --- | --- | ---: | ---: | ---: | ---: |\n");
    bt_status status = time_alone(width, rows, alone);
    for (int cards = 1; cards <= CARDS && status == BT_OK; cards++) status = print_rows(cards, width, rows, alone);
    if (status != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
    return status != BT_OK;
}
