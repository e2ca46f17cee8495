/* Two cards as a pipeline: the first one multiplies, the second one works on what it is sent; or a card and the host, which only gets it. Prints the time of 16 parts,
 * of cards with a model the virtual one.
 *     BERTH_FLAGS=devices=sim:h200*2,sim_data=off pipeline SIDE
 *     pipeline SIDE cpu */
#include <berth.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 16 };

typedef struct pipeline {
    bool to_host;
    bt_array *x[PARTS], *w[2];
    bt_status status;
} pipeline;

static bt_array *layer(bt_array *x, bt_array *w) { return bt_tanh(bt_matmul(x, w)); }

static void run(void *data) {
    pipeline *p = data;
    bt_array *y[PARTS];
    BT_SCOPE {
        for (int i = 0; i < PARTS && p->status == BT_OK; i++) {
            y[i] = bt_to(layer(p->x[i], p->w[0]), p->to_host ? "cpu" : "gpu:1");
            if (!p->to_host) y[i] = layer(y[i], p->w[1]);
            p->status = bt_eval(y[i]);
        }
        for (int i = 0; i < PARTS && p->status == BT_OK; i++) p->status = bt_block(y[i]);
    }
}

int main(int count, char **argument) {
    pipeline p = {0};
    int64_t side = count >= 2 ? atoll(argument[1]) : 0;
    p.to_host = count == 3 && !strcmp(argument[2], "cpu");
    if (side < 1 || count > 2 + p.to_host) {
        fprintf(stderr, "pipeline SIDE [cpu]\n");
        return 2;
    }
    BT_SCOPE {
        for (int i = 0; i < PARTS; i++)
            BT_ON("gpu:0") p.x[i] = bt_normal(bt_key((uint64_t)i), BT_F32, side, side);
        BT_ON("gpu:0") p.w[0] = bt_normal(bt_key(PARTS), BT_F32, side, side);
        BT_ON(p.to_host ? "gpu:0" : "gpu:1") p.w[1] = bt_normal(bt_key(PARTS + 1), BT_F32, side, side);
        p.status = bt_eval_all(p.x, PARTS);
        if (p.status == BT_OK) p.status = bt_eval_all(p.w, 2);
        run(&p); /* memory is taken */
        bt_synchronize();
        double seconds = bt_time(run, &p);
        if (p.status == BT_OK) printf("%.1f us\n", seconds * 1e6);
    }
    if (p.status != BT_OK) fprintf(stderr, "%s\n", bt_error_text());
    return p.status != BT_OK;
}
