#include "train/losses.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "ops/check.h"

/* --- sums that are no numbers ------------------------------------------------------------------------------------------- */

static bt_status fail_in_batch(const bti_losses *l, const bt_batch *batch, bt_status status) {
    bti_error *cause = bti_error_last();
    BTI_CALL(l->name);
    status = bti_fail(status, "in %sbatch %lld of epoch %lld: %s", l->of, (long long)batch->number + 1,
                      (long long)batch->epoch + 1, bti_error_message(cause));
    bti_error_release(cause);
    return status;
}

/* Says where the batch itself has a NaN. */
static bt_status find_nan(const bti_losses *l, const bt_batch *batch, bti_str *found) {
    bti_str where = {0};
    bt_status status = BT_OK;
    for (int c = 0; c < 2 && status == BT_OK && !where.length && !found->length; c++) {
        status = bti_add_nan(&where, batch->arrays[c]);
        if (where.length)
            bti_str_addf(found, "; %s of %sbatch %lld of epoch %lld has %s", c ? "y" : "x", l->of,
                         (long long)batch->number + 1, (long long)batch->epoch + 1, bti_str_text(&where));
    }
    bti_str_free(&where);
    return status;
}

/* Looks at the batches from one state of the loader to another of the same epoch, and comes back. found: the first NaN among them. */
static bt_status check_batches(bti_losses *l, const char *from, const char *to, bti_str *found) {
    bt_batch batch = {.size = sizeof batch};
    bt_status status = bt_loader_restore(l->loader, from);
    for (bool last = false; status == BT_OK && !last && bt_loader_next(l->loader, &batch);) {
        char *state = bt_loader_state(l->loader);
        last = !state || !strcmp(state, to);
        bt_free(state);
        status = bti_steps_check(l->steps, batch.arrays[0], batch.arrays[1]);
        if (status != BT_OK) status = fail_in_batch(l, &batch, status);
        if (status == BT_OK) status = find_nan(l, &batch, found);
    }
    return status == BT_OK ? bt_loader_restore(l->loader, to) : status;
}

/* Ends the run if the batches since the last sum that was a number have an index or a label that there is not. */
static bt_status explain_nan(bti_losses *l, int64_t steps) {
    char *known = l->known_state, *now = bt_loader_state(l->loader);
    l->known_state = NULL;
    bti_str found = {0};
    bt_status status = now ? check_batches(l, known, now, &found) : bt_error_status();
    if (status == BT_OK)
        bti_log("%s: %s is nan, after %lld steps%s; BERTH_FLAGS=check_nan=on names the operation that made it, and its "
                "line",
                l->name, l->what, (long long)steps, bti_str_text(&found));
    bti_str_free(&found);
    bt_free(known);
    bt_free(now);
    return status;
}

bt_status bti_losses_check(bti_losses *l, double sum, char *state, int64_t steps) {
    bool was_known = l->known_state;
    if (was_known && isnan(sum)) {
        bt_free(state);
        return explain_nan(l, steps);
    }
    if (was_known) {
        bt_free(l->known_state);
        l->known_state = state;
    } else
        bt_free(state);
    return was_known && !l->known_state ? bt_error_status() : BT_OK;
}

/* --- the loss that is shown --------------------------------------------------------------------------------------------- */

void bti_losses_drop_late(bti_losses *l) {
    bt_assign(&l->late_sum, NULL);
    bt_free(l->late_state);
    l->late_state = NULL;
}

bt_status bti_losses_show_late(bti_losses *l, bt_array *loss, int64_t steps) {
    bt_status status = l->late_loss ? bt_block(l->late_loss) : BT_OK;
    if (l->late_loss && status == BT_OK) l->shown = bt_item(l->late_loss);
    if (l->late_sum && status == BT_OK) status = bt_block(l->late_sum);
    if (l->late_sum && status == BT_OK) {
        char *state = l->late_state;
        l->late_state = NULL;
        status = bti_losses_check(l, bt_item(l->late_sum), state, steps);
    }
    bti_losses_drop_late(l);
    bt_assign(&l->late_loss, loss);
    bt_assign(&l->late_sum, l->sum);
    l->late_state = bt_loader_state(l->loader);
    if (status == BT_OK && !l->late_state) status = bt_error_status();
    return status;
}

void bti_losses_end(bti_losses *l) {
    bt_assign(&l->sum, NULL);
    bt_assign(&l->late_loss, NULL);
    bti_losses_drop_late(l);
    bt_free(l->known_state);
}
