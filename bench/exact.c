/* The time of exact mode beside the plain mode: a training step of a small GPT (that of `berth demo gpt`) over the GPUs that there are, simulated ones with or without a model (bt_time reads their clock).
 *     exact [ROWS] [PLACES] [STEPS] [MOST]     rows of a batch (1024), tokens of a row (128), steps of each mode (5)
 * Writes the medians, their ratio, and the same with sharded states. Exits with 1 if the ratio is more than MOST. */
#include <berth.h>

#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 160, HEADS = 5, BLOCKS = 4, WORDS = 96, MODES = 4, MOST_STEPS = 99 };

typedef struct work {
    bt_strategy *strategy;
    bt_layer *model;
    bt_optimizer *optimizer;
    bt_array *x, *y;
    bt_status status;
} work;

static bt_array *add_places(bt_layer *layer, bt_array *x, void *unused) {
    (void)unused;
    return bt_add(x, bt_layer_parameter(layer, "places"));
}

static bt_layer *make_block(uint64_t seed) {
    bt_layer *attend =
        bt_chain(bt_layer_norm_layer(WIDTH), bt_attention_layer(WIDTH, HEADS, bt_key(seed), .causal = true));
    bt_layer *think = bt_chain(bt_layer_norm_layer(WIDTH), bt_dense(WIDTH, 4 * WIDTH, bt_gelu, bt_key(seed + 1)),
                               bt_dense(4 * WIDTH, WIDTH, NULL, bt_key(seed + 2)));
    return bt_chain(bt_skip(attend, bt_combine_sum), bt_skip(think, bt_combine_sum));
}

static bt_layer *make_gpt(int64_t places) {
    bt_array *small = bt_mul(bt_normal(bt_key(1), BT_F32, places, WIDTH), 0.02);
    bt_layer *layers[BLOCKS + 4] = {
        bt_embedding_layer(WORDS, WIDTH, bt_key(2)),
        bt_layer_new("Places", add_places, .text = "()", .parameters = {{"places", small}})};
    for (uint64_t b = 0; b < BLOCKS; b++) layers[2 + b] = make_block(10 + 3 * b);
    layers[BLOCKS + 2] = bt_layer_norm_layer(WIDTH);
    layers[BLOCKS + 3] = bt_dense(WIDTH, WORDS, NULL, bt_key(3));
    return bt_chain_of(layers, BLOCKS + 4);
}

static bt_array *loss_of(bt_layer *model, bt_array *x, bt_array *y, void *unused) {
    (void)unused;
    return bt_cross_entropy(bt_apply(model, x), y);
}

/* A step with its updates. */
static void step(void *data) {
    work *w = data;
    BT_SCOPE {
        bt_array *loss = bt_train_step(w->strategy, w->model, w->optimizer, loss_of, NULL, w->x, w->y);
        w->status = bt_block(loss);
        bt_shared *first = NULL;
        (void)bt_parameters(w->model, &first, 1);
        if (w->status == BT_OK) w->status = bt_block(bt_value(first));
        bt_synchronize();
    }
}

static bt_status prepare(work *w, int mode, int64_t rows, int64_t places) {
    w->strategy = bt_mirrored(NULL, 0);
    BT_TRY(bt_strategy_status(w->strategy));
    BT_TRY(bt_strategy_set_exact(w->strategy, mode % 2));
    BT_TRY(bt_strategy_set_sharded(w->strategy, mode / 2));
    BT_STRATEGY(w->strategy) w->model = make_gpt(places);
    w->optimizer = bt_adamw(1e-3, .clip_norm = 1);
    BT_ON("cpu") {
        w->x = bt_randint(bt_key(4), 0, WORDS, BT_I32, rows, places);
        w->y = bt_randint(bt_key(5), 0, WORDS, BT_I32, rows, places);
    }
    BT_TRY(bt_eval_all((bt_array *[]){w->x, w->y}, 2));
    for (int i = 0; i < 2 && w->status == BT_OK; i++) step(w);
    return w->status;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bt_status measure(int64_t rows, int64_t places, int steps, double *ratio) {
    static const char *const names[MODES] = {"plain", "exact", "plain, sharded", "exact, sharded"};
    work works[MODES] = {{.status = BT_OK}};
    double seconds[MODES][MOST_STEPS];
    for (int m = 0; m < MODES; m++) BT_TRY(prepare(&works[m], m, rows, places));
    for (int i = 0; i < steps; i++)
        for (int m = 0; m < MODES; m++) {
            seconds[m][i] = bt_time(step, &works[m]);
            BT_TRY(works[m].status);
        }
    printf("%d devices, %lld rows of %lld tokens\n", bt_strategy_count(works[0].strategy), (long long)rows,
           (long long)places);
    for (int m = 0; m < MODES; m++) {
        qsort(seconds[m], (size_t)steps, sizeof seconds[m][0], by_size);
        printf("%-16s %10.3f ms  %.2f of plain\n", names[m], 1e3 * seconds[m][steps / 2],
               seconds[m][steps / 2] / seconds[0][steps / 2]);
    }
    *ratio =
        seconds[1][0] /
        seconds[0]
               [0]; /* the least: threads that come late on a busy machine move the clock of simulated devices, too */
    return BT_OK;
}

int main(int count, char **argument) {
    long long rows = count > 1 ? atoll(argument[1]) : 1024, places = count > 2 ? atoll(argument[2]) : 128;
    int steps = count > 3 ? atoi(argument[3]) : 5;
    double most = count > 4 ? atof(argument[4]) : 0, ratio = 0;
    if (count > 5 || rows < 1 || places < 1 || steps < 1 || steps > MOST_STEPS) {
        fprintf(stderr, "exact [ROWS] [PLACES] [STEPS] [MOST]\n");
        return 2;
    }
    bt_status status = BT_OK;
    BT_SCOPE
        status = measure(rows, places, steps, &ratio);
    if (status != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
    return status != BT_OK || (most > 0 && ratio > most);
}
