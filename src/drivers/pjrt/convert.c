/* Bytes of the host made a buffer of a type, and a buffer made bytes. */
#include <string.h>

#include "base/alloc.h"
#include "drivers/pjrt/device.h"

/* --- to the host ------------------------------------------------------------------------------------------------------- */

bt_status bti_pjrt_fetch_into(bti_pjrt_device *device, const bti_pjrt_buffer *buffer, void *host) {
    int64_t axes[BTI_MAX_RANK];
    for (int a = 0; a < buffer->type.rank; a++) axes[a] = buffer->type.rank - 1 - a;
    bti_pjrt_layout layout = {
        .size = BTI_PJRT_SIZE(bti_pjrt_layout, type),
        .tiled = {.size = sizeof layout.tiled, .minor_to_major = axes, .rank = (size_t)buffer->type.rank}};
    bti_pjrt_to_host args = {.size = BTI_PJRT_SIZE(bti_pjrt_to_host, event),
                             .buffer = buffer->handle,
                             .layout = &layout,
                             .host = host,
                             .bytes = buffer->bytes};
    BTI_TRY(bti_pjrt_try(device, "a download", device->calls->buffer_to_host(&args)));
    return bti_pjrt_await(device, "a download", args.event);
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
                               .shape = buffer->type.shape,
                               .rank = (size_t)buffer->type.rank,
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

static bt_status make_buffer(bti_pjrt_device *device, bti_pjrt_store *store, bti_pjrt_buffer *buffer) {
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

bt_status bti_pjrt_typed(bti_pjrt_device *device, bti_pjrt_slot *slot, const bti_type *type, bti_pjrt_buffer **buffer) {
    bti_pjrt_contents seen;
    bti_pjrt_store *store = NULL;
    *buffer = NULL;
    BTI_TRY(bti_pjrt_look(device, slot, &seen));
    if (seen.buffer && bti_pjrt_same_type(&seen.buffer->type, type)) {
        *buffer = bti_pjrt_buffer_retain(seen.buffer);
        bti_pjrt_contents_release(&seen);
        return BT_OK;
    }
    bt_status status = bti_pjrt_buffer_new(device->calls, type, buffer);
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
