/* Leases as handles of the public functions. */
#include <berth/task.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "array/handle.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/sized.h"
#include "lease/take.h"

typedef struct leased {
    int id;
    bti_lease_file file;
} leased;

struct bt_lease {
    bti_owned head;
    pid_t owner;
    int count;
    leased *gpus; /* allocated apart, since the memory of a released lease is kept for a while */
    bti_str mask;
    const char *variable;
};

static void clear_lease(void *object) {
    bt_lease *lease = object;
    bool own = lease->owner == getpid();
    for (int i = 0; i < lease->count; i++) {
        bti_lease_file *f = &lease->gpus[i].file;
        if (own &&
            !bti_lease_is_adopted(f, f->record + 1)) /* else a runtime keeps its GPU until the last worker has ended */
            bti_lease_file_close(f);
        else
            close(f->file);
    }
    bti_free(lease->gpus);
    bti_str_free(&lease->mask);
}
static const bti_handle_class lease_class = {BTI_OWNED_LEASE, sizeof(bt_lease), clear_lease, NULL};

/* --- the lease --------------------------------------------------------------------------------------------------------- */

#define MEMBER(name) BTI_MEMBER(bt_lease_options, name)
static const bti_member lease_option_members[] = {MEMBER(size),   MEMBER(num_gpus),        MEMBER(memory_bytes),
                                                  MEMBER(wait),   MEMBER(timeout_seconds), MEMBER(command),
                                                  MEMBER(inherit)};
#undef MEMBER
static const bti_sized_type lease_options_layout =
    BTI_SIZED_TYPE(bt_lease_options, "options", "BT_LEASE(.num_gpus = 1)", lease_option_members, NULL);

static bt_status check_lease_options(const bt_lease_options *o) {
    if (o->num_gpus < 0 || o->num_gpus > BTI_LEASE_MOST_GPUS)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_lease_take: %d GPUs; it can be 1 to %d", o->num_gpus,
                        BTI_LEASE_MOST_GPUS);
    if (o->memory_bytes > (uint64_t)1 << 60)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_lease_take: a share of more than an exbibyte");
    return BT_OK;
}

static bti_taking *new_taking(const bt_lease_options *o) {
    double seconds = !o->wait ? 0 : o->timeout_seconds > 0 ? o->timeout_seconds : -1;
    bti_taking *t = bti_taking_new(o->num_gpus ? o->num_gpus : 1, seconds, o->command);
    if (t) t->share = t->record.memory_bytes = o->memory_bytes;
    return t;
}

static void move_into(bt_lease *lease, bti_taking *t, bool inherit) {
    lease->owner = getpid();
    for (int i = 0; i < t->count; i++) {
        if (!t->chosen[i]) continue;
        if (inherit) fcntl(t->files[i].file, F_SETFD, 0);
        lease->variable = t->gpus[i].variable;
        bti_str_addf(&lease->mask, "%s%s", lease->count ? "," : "", t->gpus[i].entry);
        lease->gpus[lease->count++] = (leased){t->gpus[i].id, t->files[i]};
        t->files[i].file = -1;
    }
}

static bt_status take_lease(bt_lease *lease, const bt_lease_options *o) {
    BTI_TRY(check_lease_options(o));
    bti_taking *t = new_taking(o);
    if (!t) return bt_error_status();
    bt_status status = bti_lease_list_gpus(t->gpus, &t->count);
    if (status == BT_OK) status = bti_taking_take(t);
    if (status == BT_OK) move_into(lease, t, o->inherit);
    bti_taking_end(t);
    if (status == BT_OK && lease->mask.failed) status = bti_no_memory();
    return status;
}

bt_lease *(bt_lease_take)(const bt_lease_options *options) {
    bt_lease_options known;
    if (bti_options_take(&lease_options_layout, "bt_lease_take", options, &known) != BT_OK) return NULL;
    bt_lease *lease = bti_owned_new(BTI_OWNED_LEASE, sizeof *lease);
    if (lease) lease->gpus = bti_calloc(BTI_LEASE_MOST_GPUS, sizeof *lease->gpus);
    bt_status status = lease && lease->gpus ? take_lease(lease, &known) : bti_no_memory();
    if (status == BT_OK) return lease;
    bt_lease_release(lease);
    return NULL;
}

int bt_lease_gpus(const bt_lease *lease, int *ids, int capacity) {
    if (!lease || bti_handle_check(BTI_OWNED_LEASE, lease, "bt_lease_gpus") != BT_OK) return 0;
    for (int i = 0; ids && i < lease->count && i < capacity; i++) ids[i] = lease->gpus[i].id;
    return lease->count;
}

const char *bt_lease_mask(const bt_lease *lease) {
    if (!lease || bti_handle_check(BTI_OWNED_LEASE, lease, "bt_lease_mask") != BT_OK) return "";
    return bti_str_text(&lease->mask);
}

const char *bt_lease_variable(const bt_lease *lease) {
    if (!lease || bti_handle_check(BTI_OWNED_LEASE, lease, "bt_lease_variable") != BT_OK) return "";
    return lease->variable;
}

void bt_lease_release(bt_lease *lease) { bti_handle_release(&lease_class, lease, "bt_lease_release"); }
