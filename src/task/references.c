/* The public functions that read references, wait for them and cancel calls. */
#include "base/vec.h"
#include "task/handles.h"
#include "task/value.h"

/* --- results ----------------------------------------------------------------------------------------------------------- */

/* The reference keeps its value pinned until it is released. */
static void keep_pinned(bt_ref *ref, void *pin) {
    void *none = NULL;
    if (pin && !atomic_compare_exchange_strong(&ref->pin, &none, pin)) bti_engine_now->unpin(pin);
}

static bt_status read_ref(bt_ref *ref, bt_value_type type, size_t bytes, void *out) {
    bti_reading reading = {0};
    if (type == BT_NOTHING && bti_engine_now->failure(ref->held) == BT_FAILURE_NONE) return BT_OK;
    BTI_TRY(bti_engine_now->read(ref->held, &reading));
    bt_status status = BT_OK;
    if (!reading.packed || !bti_packed_is_whole(reading.packed, reading.bytes))
        status = bti_fail(BT_INTERNAL, "the value of this reference is damaged");
    bti_unpacked_value value = bti_unpack(status == BT_OK ? reading.packed : NULL, 0);
    if (status == BT_OK) status = bti_value_to(&value, &(bti_value_place){.owner = reading.owner}, type, bytes, out);
    if (bti_points_into(type))
        keep_pinned(ref, reading.pin);
    else if (reading.pin)
        bti_engine_now->unpin(reading.pin);
    return status;
}

bt_status bti_get(bt_ref *ref, bt_value_type type, size_t bytes, void *out, double seconds) {
    BTI_CALL((seconds < 0 ? "bt_get" : "bt_get_within"));
    BTI_VISIT_AS(v, false); /* of the engine it reads no more than a value that is there */
    void *held = bti_held_by(ref, "reference");
    if (!held) return bt_error_status();
    for (;;) {
        bt_status status = bti_engine_now->is_done(held) ? BT_OK : bti_engine_now->wait(&held, 1, 1, seconds);
        if (status != BT_OK) return bti_cause(status);
        if (!bti_engine_now->is_done(held))
            return bti_fail(BT_DEADLINE_EXCEEDED, "not done within %g seconds", seconds);
        status = read_ref(ref, type, bytes, out);
        if (bti_engine_now->is_done(held)) return bti_cause(status);
    }
}

bt_failure bt_ref_failure(bt_ref *ref) {
    BTI_CALL("bt_ref_failure");
    BTI_VISIT(v);
    if (ref && !bti_owned_is_released(&ref->head) && ref->head.error)
        return ref->failure ? (bt_failure)ref->failure : BT_FAILURE_REFUSED;
    void *held = bti_held_by(ref, "reference");
    if (!held) return BT_FAILURE_NONE;
    return bti_engine_now->is_done(held) ? bti_engine_now->failure(held) : BT_FAILURE_NONE;
}

bool bt_failure_is_retryable(bt_failure failure) {
    switch (failure) {
    case BT_FAILURE_PROCESS_DIED:
    case BT_FAILURE_OUT_OF_MEMORY:
    case BT_FAILURE_OWNER_DIED:
    case BT_FAILURE_OBJECT_LOST:
    case BT_FAILURE_NODE_DIED: return true;
    default: return false;
    }
}

/* --- streams ----------------------------------------------------------------------------------------------------------- */

/* From now on the reference stands for the rest of the stream, after the link. */
static bt_ref *follow_stream(bt_ref *stream, bti_stream_link link) {
    void *item = bti_engine_now->hold(link.item), *next = item ? bti_engine_now->hold(link.next) : NULL;
    if (item && !next) bti_engine_now->release(item);
    if (!next) return bti_ref_handle(NULL);
    bti_engine_now->release(stream->held);
    stream->held = next;
    return bti_ref_handle(item);
}

/* The stream is done. NULL: it has ended. */
static bt_ref *next_stream_item(bt_ref *stream) {
    bti_reading reading = {0};
    bti_stream_link link = {0};
    bt_value_type type = BT_NOTHING;
    stream->ended = true;
    if (bti_engine_now->read(stream->held, &reading) != BT_OK) /* another reference to the failure */
        return bti_ref_handle(bti_engine_now->hold(bti_engine_now->id(stream->held)));
    if (reading.packed && bti_packed_is_whole(reading.packed, reading.bytes)) {
        bti_unpacked_value value = bti_unpack(reading.packed, 0);
        type = (bt_value_type)value.head.type;
        if (type == BT_STREAM_VALUE) memcpy(&link, value.data, sizeof link);
    }
    if (reading.pin) bti_engine_now->unpin(reading.pin);
    if (type == BT_NOTHING) return NULL;
    if (type != BT_STREAM_VALUE) {
        (void)bti_fail(BT_INVALID_ARGUMENT, "this is no stream: the call has returned a value, and yields nothing");
        return bti_ref_handle(NULL);
    }
    stream->ended = false;
    return follow_stream(stream, link);
}

/* The stream has ended. A static reference cannot be marked, so *stream is cleared. */
static bt_ref *end_stream(bt_ref **stream) {
    if (bti_owned_is_released(&(*stream)->head) || *stream == &bti_no_ref)
        *stream = NULL;
    else
        (*stream)->ended = true;
    return bti_ref_handle(NULL);
}

bt_ref *(bt_stream_next)(bt_ref **stream, double seconds) {
    BTI_CALL("bt_stream_next");
    BTI_VISIT(v);
    if (!stream) return (void)bti_fail(BT_INVALID_ARGUMENT, "the stream is NULL"), NULL;
    bt_ref *ref = *stream;
    if (!ref || (!bti_owned_is_released(&ref->head) && ref->ended)) return NULL;
    for (;;) {
        void *held = bti_held_by(ref, "stream");
        if (!held || !v.inside) return end_stream(stream);
        if (!bti_engine_now->is_done(held) && bti_cause(bti_engine_now->wait(&held, 1, 1, seconds)) != BT_OK)
            return end_stream(stream);
        if (!bti_engine_now->is_done(held)) {
            (void)bti_fail(BT_DEADLINE_EXCEEDED, "no item within %g seconds", seconds);
            return bti_ref_handle(NULL);
        }
        bt_ref *item = next_stream_item(ref);
        if (ref->held != held || bti_engine_now->is_done(held)) return item;
        ref->ended = false; /* the process that was settling it died midway: the result is pending again */
    }
}

static int count_done(bt_ref *const *refs, int count, bool *ready) {
    int done = 0;
    for (int i = 0; i < count; i++) {
        bool is = refs[i]->head.error || bti_engine_now->is_done(refs[i]->held);
        if (ready) ready[i] = is;
        done += is;
    }
    return done;
}

int bt_wait_refs(bt_ref *const *refs, int count, int wanted, bool *ready, double seconds) {
    BTI_VEC(void *) pending = {0};
    BTI_VISIT(v);
    if (bti_check_list(refs, count, "references") != BT_OK) return -1;
    if (!v.inside) return (void)bti_no_runtime(), -1;
    if (wanted > count || wanted < 0)
        return (void)bti_fail(BT_INVALID_ARGUMENT, "bt_wait_refs: %d of %d references are wanted", wanted, count), -1;
    bt_status status = BT_OK;
    for (int i = 0; i < count && status == BT_OK; i++) {
        if (refs[i] && !bti_owned_is_released(&refs[i]->head) && refs[i]->head.error)
            continue; /* a poisoned reference counts as done */
        if (!bti_held_by(refs[i], "reference"))
            status = bt_error_status();
        else if (!bti_engine_now->is_done(refs[i]->held) && !bti_vec_push(&pending, refs[i]->held))
            status = bti_no_memory();
    }
    int missing = wanted - (count - (int)pending.count);
    if (status == BT_OK && missing > 0)
        status = bti_engine_now->wait(pending.items, (int)pending.count, missing, seconds);
    bti_vec_free(&pending);
    return status == BT_OK ? count_done(refs, count, ready) : -1;
}

bt_status bt_cancel(bt_ref *ref, bool force) {
    BTI_CALL("bt_cancel");
    BTI_VISIT(v);
    void *held = bti_held_by(ref, "reference");
    return held ? bti_engine_now->cancel(held, force ? BTI_CANCEL_FORCE : 0) : bt_error_status();
}

bt_status bt_cancel_all(bt_ref *ref, bool force) {
    BTI_CALL("bt_cancel_all");
    BTI_VISIT(v);
    void *held = bti_held_by(ref, "reference");
    return held ? bti_engine_now->cancel(held, BTI_CANCEL_MADE | (force ? BTI_CANCEL_FORCE : 0)) : bt_error_status();
}
