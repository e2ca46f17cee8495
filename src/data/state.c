/* Where a loader is, as text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "data/loader.h"

/* What decides about batches beside the data. */
typedef struct identity {
    int64_t batch, rows;
    uint32_t key[2];
    int drop_last;
    bool shuffled;
} identity;

static identity identity_of(const bt_loader *l) {
    const bti_batcher *b = l->batcher;
    return (identity){b->batch, b->dataset->rows, {b->key[0], b->key[1]}, l->drop_last, b->shuffled};
}

enum { STATE = 200 }; /* bytes */

static void write_state(char text[STATE], const identity *of, int64_t epoch, int64_t next) {
    char key[17] = "none";
    if (of->shuffled) snprintf(key, sizeof key, "%08" PRIx32 "%08" PRIx32, of->key[0], of->key[1]);
    snprintf(text, STATE,
             "berth-loader-1 epoch=%" PRId64 " next=%" PRId64 " batch=%" PRId64 " examples=%" PRId64
             " shuffle=%s drop_last=%d",
             epoch, next, of->batch, of->rows, key, of->drop_last);
}

char *bt_loader_state(const bt_loader *loader) {
    BTI_CALL("bt_loader_state");
    bt_loader *l = (bt_loader *)(uintptr_t)loader;
    if (bti_loader_enter(l, "bt_loader_state") != BT_OK) return NULL;
    identity of = identity_of(l);
    char text[STATE];
    write_state(text, &of, l->over ? l->epoch + 1 : l->epoch, l->over ? 0 : l->next);
    bti_loader_leave(l);
    char *state = bti_strdup(text);
    if (!state) (void)!bti_no_memory();
    return state;
}

/* Only what write_state writes is a state: what was read is written again and compared. */
static bool read_state(const char *state, identity *of, int64_t *epoch, int64_t *next) {
    char key[17] = "";
    *of = (identity){0};
    if (sscanf(state,
               "berth-loader-1 epoch=%" SCNd64 " next=%" SCNd64 " batch=%" SCNd64 " examples=%" SCNd64
               " shuffle=%16[0-9a-fnone] drop_last=%d",
               epoch, next, &of->batch, &of->rows, key, &of->drop_last) != 6)
        return false;
    of->shuffled = sscanf(key, "%8" SCNx32 "%8" SCNx32, &of->key[0], &of->key[1]) == 2;
    char again[STATE];
    write_state(again, of, *epoch, *next);
    return !strcmp(again, state) && *epoch >= 0 && *epoch <= UINT32_MAX && *next >= 0;
}

static bt_status check_identity(const identity *state, const identity *own, int64_t next, int64_t batches) {
    if (state->rows != own->rows)
        return bti_fail(BT_FAILED_PRECONDITION, "the state is of a data set of %lld examples, this one has %lld",
                        (long long)state->rows, (long long)own->rows);
    if (state->batch != own->batch || state->drop_last != own->drop_last)
        return bti_fail(
            BT_FAILED_PRECONDITION,
            "the state is of batches of %lld examples with drop_last %s, these are of %lld with drop_last %s",
            (long long)state->batch, state->drop_last ? "true" : "false", (long long)own->batch,
            own->drop_last ? "true" : "false");
    if (state->shuffled != own->shuffled || memcmp(state->key, own->key, sizeof own->key))
        return bti_fail(BT_FAILED_PRECONDITION, "the state is of a loader that shuffles %s",
                        !state->shuffled ? "not at all"
                        : !own->shuffled ? "by a key, this one not at all"
                                         : "by another key");
    if (next <= batches) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "batch %lld of an epoch of %lld", (long long)next, (long long)batches);
}

bt_status bt_loader_restore(bt_loader *loader, const char *state) {
    BTI_CALL("bt_loader_restore");
    identity of, own;
    int64_t epoch, next;
    BTI_TRY(bti_loader_enter(loader, "bt_loader_restore"));
    own = identity_of(loader);
    bt_status status = BT_OK;
    if (!state || !read_state(state, &of, &epoch, &next))
        status = bti_fail(BT_INVALID_ARGUMENT, "\"%s\" is no state of a loader (bt_loader_state)",
                          bti_quote(state ? state : "NULL").text);
    else
        status = check_identity(&of, &own, next, loader->batcher->batches);
    if (status == BT_OK) bti_loader_go(loader, epoch, next);
    bti_loader_leave(loader);
    return status;
}
