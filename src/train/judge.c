#include "train/judge.h"

#include <berth/train.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "nn/layer.h"
#include "train/confusion.h"
#include "train/rows.h"

enum { CONFUSION_CLASSES = 100, BATCHES_AHEAD = 8, USUAL_BATCH = 256 };

bt_status bti_metrics_check(const bt_metric *metrics, int count) {
    if (count < 0 || count > BTI_METRICS_MOST)
        return bti_fail(BT_INVALID_ARGUMENT, "%d metrics; there may be up to %d", count, BTI_METRICS_MOST);
    if (count && !metrics) return bti_fail(BT_INVALID_ARGUMENT, "the list of %d metrics is NULL", count);
    for (int m = 0; m < count; m++)
        if (!metrics[m].name || !metrics[m].sums || !metrics[m].value)
            return bti_fail(BT_INVALID_ARGUMENT, "metric %d has no %s", m,
                            !metrics[m].name   ? "name"
                            : !metrics[m].sums ? "function `sums`"
                                               : "function `value`");
    return BT_OK;
}

/* --- one batch -------------------------------------------------------------------------------------------------------- */

/* What a batch adds: computed ahead, and read some batches later. */
typedef struct judged_batch {
    bt_array *sums[BTI_METRICS_MOST + 2]; /* retained; of the metrics, the confusion matrix, the loss; NULL: none */
    double rows;
} judged_batch;

static bool is_of_classes(const bt_array *output, const bt_array *y) {
    bt_dtype dtype = bt_dtype_of(y);
    bool numbers = dtype == BT_I32 || dtype == BT_I64 || dtype == BT_U8 || dtype == BT_I16 || dtype == BT_U32;
    return bt_rank(output) >= 2 && bt_rank(y) == bt_rank(output) - 1 && numbers &&
           bt_size(output, -1) <= CONFUSION_CLASSES && bt_size(output, -1) > 1;
}

static bt_status fail_in_metric(const bt_metric *metric, bt_array *sums) {
    if (!sums) return bti_fail(BT_INVALID_ARGUMENT, "the metric \"%s\" gave NULL", metric->name);
    bt_status status = bt_peek_status(sums);
    if (status != BT_OK) status = bt_block(sums); /* the first cause */
    return status == BT_OK ? BT_OK : bti_fail(status, "the metric \"%s\": %s", metric->name, bt_error_text());
}

static bt_array *kept(bt_array *x) { return bt_retain(bt_cast(bt_flatten(x, 0), BT_F64)); }

static bt_status record_batch(bti_judge *j, judged_batch *b, bt_array *x, bt_array *y) {
    x = bti_bring_batch(x, j->model);
    bt_array *output = j->count || j->confuses ? bt_apply(j->model, x) : NULL;
    if (output && bt_peek_status(output) != BT_OK) return bt_block(output); /* the first cause */
    if (output) y = bti_bring_beside(y, output);
    b->rows = (double)bt_size(x, 0);
    for (int m = 0; m < j->count; m++) {
        bt_array *sums = j->metrics[m].sums(output, y, j->metrics[m].data);
        BTI_TRY(fail_in_metric(&j->metrics[m], sums));
        b->sums[m] = kept(bt_cpu(sums));
    }
    if (j->confuses && is_of_classes(output, y)) b->sums[j->count] = kept(bt_cpu(bti_confusion_sums(output, y, NULL)));
    if (j->loss) {
        bt_array *loss = j->loss(j->model, x, y, j->loss_data);
        if (!loss) return bti_fail(BT_INVALID_ARGUMENT, "the loss gave NULL");
        b->sums[j->count + 1] = kept(bt_cpu(bt_mul(loss, bt_num(b->rows))));
    }
    return bt_eval_all(b->sums, j->count + 2);
}

static void drop_batch(bti_judge *j, judged_batch *b) {
    for (int s = 0; s < j->count + 2; s++) bt_assign(&b->sums[s], NULL);
}

/* --- adding up -------------------------------------------------------------------------------------------------------- */

static bt_status add_sums(bti_tally *to, bt_array *sums, const char *name) {
    int64_t count = bt_count(sums);
    const double *numbers = bt_map(sums);
    if (!numbers && count) return bt_error_status();
    if (!to->list.count)
        for (int64_t i = 0; i < count; i++)
            if (!bti_vec_push(&to->list, 0)) return bti_no_memory();
    if ((int64_t)to->list.count != count || !count)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "the metric \"%s\" gave %lld sums for one batch and %lld for another; it must give as many for "
                        "each, at least one",
                        name, (long long)to->list.count, (long long)count);
    for (int64_t i = 0; i < count; i++) to->list.items[i] += numbers[i];
    return BT_OK;
}

static bt_status add_batch(bti_judge *j, judged_batch *b) {
    bti_tally loss = {0};
    bt_status status = BT_OK;
    for (int m = 0; m < j->count && status == BT_OK; m++)
        status = add_sums(&j->sums[m], b->sums[m], j->metrics[m].name);
    if (status == BT_OK && b->sums[j->count])
        status = add_sums(&j->sums[BTI_METRICS_MOST], b->sums[j->count], "confusion");
    if (status == BT_OK && j->loss) status = add_sums(&loss, b->sums[j->count + 1], "loss");
    if (status == BT_OK && j->loss) j->loss_sum += loss.list.items[0];
    bti_vec_free(&loss.list);
    j->rows += b->rows;
    drop_batch(j, b);
    return status;
}

bt_status bti_judge_add(bti_judge *j, bt_loader *loader) {
    judged_batch ahead[BATCHES_AHEAD] = {0};
    bt_batch batch = {.size = sizeof batch};
    bt_status status = BT_OK;
    int64_t made = 0, added = 0;
    bool more = true;
    while (status == BT_OK && (more || added < made)) {
        BT_SCOPE {
            more = more && bt_loader_next(loader, &batch);
            if (more) status = record_batch(j, &ahead[made++ % BATCHES_AHEAD], batch.arrays[0], batch.arrays[1]);
        }
        if (status == BT_OK && (!more || made - added == BATCHES_AHEAD) && added < made)
            status = add_batch(j, &ahead[added++ % BATCHES_AHEAD]);
    }
    for (int i = 0; i < BATCHES_AHEAD; i++) drop_batch(j, &ahead[i]);
    return status == BT_OK ? bt_loader_status(loader) : status;
}

double bti_judge_loss(const bti_judge *j) { return j->loss && j->rows > 0 ? j->loss_sum / j->rows : NAN; }

double bti_judge_value(const bti_judge *j, int metric) {
    const bt_metric *m = &j->metrics[metric];
    size_t count = j->sums[metric].list.count;
    return count ? m->value(j->sums[metric].list.items, (int64_t)count, m->data) : NAN;
}

void bti_judge_clear(bti_judge *j) {
    for (int m = 0; m <= BTI_METRICS_MOST; m++) {
        bti_vec_free(&j->sums[m].list);
        j->sums[m] = (bti_tally){0};
    }
    j->rows = j->loss_sum = 0;
}

/* --- the public call -------------------------------------------------------------------------------------------------- */

bt_status bt_evaluate(bt_layer *model, bt_array *x, bt_array *y, const bt_metric *metrics, int count, double *values,
                      int64_t batch) {
    BTI_CALL("bt_evaluate");
    BTI_TRY(bti_metrics_check(metrics, count));
    if (count && !values) return bti_fail(BT_INVALID_ARGUMENT, "the list for the figures is NULL");
    for (int m = 0; m < count; m++) values[m] = NAN;
    if (!model) return bti_fail(BT_INVALID_ARGUMENT, "the model is NULL");
    BTI_TRY(bt_layer_status(model));
    BTI_TRY(bti_rows_check("", x, y));
    if (batch < 0) return bti_fail(BT_INVALID_ARGUMENT, "batches of %lld rows", (long long)batch);
    bti_judge *judge = bti_calloc(1, sizeof *judge);
    if (!judge) return bti_no_memory();
    *judge = (bti_judge){.model = model, .metrics = metrics, .count = count};
    bt_status status = BT_OK;
    BT_SCOPE
        status = bti_judge_add(judge, bti_rows_loader(x, y, batch ? batch : USUAL_BATCH, NULL));
    for (int m = 0; m < count && status == BT_OK; m++) values[m] = bti_judge_value(judge, m);
    bti_judge_clear(judge);
    bti_free(judge);
    return status;
}

static bt_status check_classes(bt_array *logits, bt_array *y) {
    if (!logits || !y)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_accuracy: the %s is NULL", logits ? "array y" : "model");
    if (bt_peek_status(logits) != BT_OK || bt_peek_status(y) != BT_OK)
        return bt_block(bt_peek_status(logits) != BT_OK ? logits : y); /* the first cause */
    if (bt_size(logits, 0) == 0) return bti_fail(BT_INVALID_ARGUMENT, "bt_accuracy: there are no rows to judge");
    if (bt_rank(logits) == 2 && bt_rank(y) == 1 && bt_size(logits, 0) == bt_size(y, 0)) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT,
                    "bt_accuracy: the model gives %lld rows of %d axes, y has %lld of %d; they must be [N, C] and [N]",
                    (long long)bt_size(logits, 0), bt_rank(logits), (long long)bt_size(y, 0), bt_rank(y));
}

double bt_accuracy(bt_layer *model, bt_array *x, bt_array *y) {
    double part = NAN;
    BT_SCOPE {
        bt_array *logits = model ? bt_apply(model, bti_bring_batch(x, model)) : NULL;
        if (check_classes(logits, y) == BT_OK) {
            y = bti_bring_beside(y, logits);
            part = bt_item(bt_mean(bt_cast(bt_eq(bt_argmax(logits, -1), y), BT_F64), BT_ALL, false));
        }
    }
    return part;
}
