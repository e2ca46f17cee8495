/* Bytes of the host made a buffer of a type, and a buffer made bytes. */
#include <string.h>

#include "base/alloc.h"
#include "drivers/pjrt/device.h"

/* --- arrays that the plugin holds in longer ones -------------------------------------------------------------------------- */

/* Copies what two row-major arrays of these types have in common; the last axes that are as long in both are one piece. */
static void copy_common(char *to, const bti_type *to_type, const char *from, const bti_type *from_type) {
    size_t piece = bt_dtype_size(to_type->dtype), to_step[BTI_MAX_RANK], from_step[BTI_MAX_RANK];
    int64_t at[BTI_MAX_RANK] = {0}, common[BTI_MAX_RANK];
    int last = to_type->rank;
    for (; last > 0 && to_type->shape[last - 1] == from_type->shape[last - 1]; last--)
        piece *= (size_t)to_type->shape[last - 1];
    size_t to_bytes = piece, from_bytes = piece;
    for (int a = last; a-- > 0;) {
        to_step[a] = to_bytes, to_bytes *= (size_t)to_type->shape[a];
        from_step[a] = from_bytes, from_bytes *= (size_t)from_type->shape[a];
        common[a] = to_type->shape[a] < from_type->shape[a] ? to_type->shape[a] : from_type->shape[a];
        if (!common[a]) return;
    }
    size_t run = last ? piece * (size_t)common[--last] : piece;
    for (int a = 0; a >= 0;) {
        memcpy(to, from, run);
        for (a = last - 1; a >= 0; a--) { /* the next place, by the axes before the run */
            to += to_step[a], from += from_step[a];
            if (++at[a] < common[a]) break;
            to -= to_step[a] * (size_t)common[a], from -= from_step[a] * (size_t)common[a];
            at[a] = 0;
        }
    }
}

static bool is_longer(const bti_pjrt_buffer *buffer) { return !bti_pjrt_same_type(&buffer->type, &buffer->held); }

static bti_pjrt_store *new_held(bti_pjrt_device *device, const bti_pjrt_buffer *buffer) {
    size_t bytes = 0;
    bti_pjrt_store *store = bti_pjrt_bytes(&buffer->held, &bytes) ? bti_pjrt_store_new(bytes) : NULL;
    if (!store) (void)!bti_fail(BT_RESOURCE_EXHAUSTED, "%s: out of host memory for %zu bytes", device->name, bytes);
    return store;
}

/* --- to the host ------------------------------------------------------------------------------------------------------- */

static bt_status fetch_held(bti_pjrt_device *device, const bti_pjrt_buffer *buffer, void *host, size_t bytes) {
    int64_t axes[BTI_MAX_RANK];
    for (int a = 0; a < buffer->type.rank; a++) axes[a] = buffer->type.rank - 1 - a;
    bti_pjrt_layout layout = {
        .size = BTI_PJRT_SIZE(bti_pjrt_layout, type),
        .tiled = {.size = sizeof layout.tiled, .minor_to_major = axes, .rank = (size_t)buffer->type.rank}};
    bti_pjrt_to_host args = {.size = BTI_PJRT_SIZE(bti_pjrt_to_host, event),
                             .buffer = buffer->handle,
                             .layout = &layout,
                             .host = host,
                             .bytes = bytes};
    BTI_TRY(bti_pjrt_try(device, "a download", device->calls->buffer_to_host(&args)));
    return bti_pjrt_await(device, "a download", args.event);
}

bt_status bti_pjrt_fetch_into(bti_pjrt_device *device, const bti_pjrt_buffer *buffer, void *host) {
    if (!is_longer(buffer)) return fetch_held(device, buffer, host, buffer->bytes);
    bti_pjrt_store *held = new_held(device, buffer);
    if (!held) return BT_RESOURCE_EXHAUSTED;
    bt_status status = fetch_held(device, buffer, held->at, held->bytes);
    if (status == BT_OK) copy_common(host, &buffer->type, held->at, &buffer->held);
    bti_pjrt_store_release(held);
    return status;
}

bt_status bti_pjrt_bytes_of(bti_pjrt_device *device, const bti_pjrt_contents *contents, size_t bytes,
                            bti_pjrt_store **store) {
    size_t there = contents->host ? contents->host->bytes : contents->buffer ? contents->buffer->bytes : 0;
    *store = NULL;
    if (there < bytes)
        return bti_fail(BT_INTERNAL, "%s: %zu bytes are asked for where %zu were written", device->name, bytes, there);
    if (contents->host) {
        *store = bti_pjrt_store_retain(contents->host);
        return BT_OK;
    }
    *store = bti_pjrt_store_new(there);
    if (!*store) return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: out of host memory for %zu bytes", device->name, there);
    bt_status status = bti_pjrt_fetch_into(device, contents->buffer, (*store)->at);
    if (status != BT_OK) bti_pjrt_store_release(*store), *store = NULL;
    return status;
}

/* --- from the host ----------------------------------------------------------------------------------------------------- */

typedef struct loan {
    const bti_pjrt_calls *calls;
    bti_pjrt_store *store;
} loan;

/* On any thread, of the plugin's too. */
static void end_loan(bti_pjrt_error *error, void *data) {
    loan *ended = data;
    bti_pjrt_ignore(ended->calls, error);
    bti_pjrt_store_release(ended->store);
    bti_free(ended);
}

/* The store is the plugin's to read until the event. An error of the transfer is one of the buffer, too. */
static bt_status lend_until(bti_pjrt_device *device, loan *lent, void *event) {
    bti_pjrt_on_ready args = {
        .size = BTI_PJRT_SIZE(bti_pjrt_on_ready, data), .event = event, .call = end_loan, .data = lent};
    bt_status status = bti_pjrt_try(device, "an upload", device->calls->event_on_ready(&args));
    if (status == BT_OK) bti_pjrt_drop(device->calls, device->calls->event_destroy, event);
    return status;
}

/* An event that takes no function is waited for; of zero copy it comes when the buffer goes. */
static void undo_transfer(bti_pjrt_device *device, loan *lent, bti_pjrt_buffer *buffer, void *event) {
    bti_pjrt_drop(device->calls, device->calls->buffer_destroy, buffer->handle);
    buffer->handle = NULL;
    bti_error *cause = bti_error_last();
    (void)!bti_pjrt_await(device, "an upload", event);
    bti_error_put_back(cause);
    end_loan(NULL, lent);
}

static bt_status send_bytes(bti_pjrt_device *device, const bti_pjrt_store *store, bti_pjrt_buffer *buffer,
                            int semantics, void **event) {
    int type;
    BTI_TRY(bti_pjrt_type(buffer->type.dtype, &type));
    bti_pjrt_from_host args = {.size = BTI_PJRT_SIZE(bti_pjrt_from_host, buffer),
                               .client = device->client->handle,
                               .data = store->at,
                               .type = type,
                               .shape = buffer->held.shape,
                               .rank = (size_t)buffer->held.rank,
                               .semantics = semantics,
                               .device = device->handle};
    BTI_TRY(bti_pjrt_try(device, "an upload", device->calls->buffer_from_host(&args)));
    buffer->handle = args.buffer;
    *event = args.done;
    if (args.buffer && args.done) return BT_OK;
    if (args.done) (void)bti_pjrt_await(device, "an upload", args.done); /* it reads the bytes until then */
    *event = NULL;
    return bti_fail(BT_INTERNAL, "%s: an upload gave no buffer", device->name);
}

static bt_status send_store(bti_pjrt_device *device, bti_pjrt_store *store, bti_pjrt_buffer *buffer) {
    void *event = NULL;
    if (!device->calls->event_on_ready) {
        BTI_TRY(send_bytes(device, store, buffer, BTI_PJRT_DURING_CALL, &event));
        return bti_pjrt_await(device, "an upload", event);
    }
    loan *lent = bti_alloc(sizeof *lent);
    if (!lent) return bti_no_memory();
    *lent = (loan){device->calls, bti_pjrt_store_retain(store)};
    int semantics = device->client->is_cpu ? BTI_PJRT_ZERO_COPY : BTI_PJRT_UNTIL_COPIED;
    bt_status status = send_bytes(device, store, buffer, semantics, &event);
    if (status != BT_OK) {
        end_loan(NULL, lent);
        return status;
    }
    status = lend_until(device, lent, event);
    if (status != BT_OK) undo_transfer(device, lent, buffer, event);
    return status;
}

static bt_status make_buffer(bti_pjrt_device *device, bti_pjrt_store *store, bti_pjrt_buffer *buffer) {
    if (!is_longer(buffer)) return send_store(device, store, buffer);
    bti_pjrt_store *held = new_held(device, buffer);
    if (!held) return BT_RESOURCE_EXHAUSTED;
    copy_common(held->at, &buffer->held, store->at, &buffer->type);
    bt_status status = send_store(device, held, buffer);
    bti_pjrt_store_release(held);
    return status;
}

bt_status bti_pjrt_typed(bti_pjrt_device *device, bti_pjrt_slot *slot, const bti_type *type, const bti_type *held,
                         bti_pjrt_buffer **buffer) {
    bti_pjrt_contents seen;
    bti_pjrt_store *store = NULL;
    *buffer = NULL;
    BTI_TRY(bti_pjrt_look(device, slot, &seen));
    if (seen.buffer && bti_pjrt_same_type(&seen.buffer->type, type) && bti_pjrt_same_type(&seen.buffer->held, held)) {
        *buffer = bti_pjrt_buffer_retain(seen.buffer);
        bti_pjrt_contents_release(&seen);
        return BT_OK;
    }
    bt_status status = bti_pjrt_buffer_new(device->calls, type, held, buffer);
    if (status == BT_OK) status = bti_pjrt_bytes_of(device, &seen, (*buffer)->bytes, &store);
    if (status == BT_OK) status = make_buffer(device, store, *buffer);
    if (status == BT_OK) {
        if (seen.buffer) atomic_fetch_add(&device->retyped, 1);
        bti_pjrt_replace(device, slot, &seen, (bti_pjrt_contents){.buffer = bti_pjrt_buffer_retain(*buffer)});
    } else {
        bti_pjrt_buffer_release(*buffer);
        *buffer = NULL;
    }
    bti_pjrt_store_release(store);
    bti_pjrt_contents_release(&seen);
    return status;
}
