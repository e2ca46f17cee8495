/* What was launched and is not complete. A device need not run launches in their order, so an event of the driver's is a number: it is complete when all launches that
 * were noted before it was recorded are. An error of a launch is that of the first event recorded after it, and of no other: what reads the launch's results fails by itself. */
#include "base/alloc.h"
#include "drivers/pjrt/device.h"

struct bti_pjrt_launch {
    bti_pjrt_launch *previous, *next;
    void *event;       /* the plugin's */
    uint64_t recorded; /* the number of the first event after it */
    int users;         /* the list, threads that wait */
    bool listed;
};

struct bti_pjrt_fault {
    bti_pjrt_fault *next;
    uint64_t recorded;
    bti_error *error;
};

bti_pjrt_launch *bti_pjrt_launch_new(void) { return bti_calloc(1, sizeof(bti_pjrt_launch)); }
void bti_pjrt_launch_free(bti_pjrt_launch *launch) { bti_free(launch); }

void bti_pjrt_note_launch(bti_pjrt_device *device, bti_pjrt_launch *launch, void *event) {
    launch->event = event;
    launch->users = 1;
    launch->listed = true;
    bti_lock_take(&device->events_lock);
    launch->recorded = device->recorded + 1;
    launch->previous = device->last;
    if (device->last)
        device->last->next = launch;
    else
        device->first = launch;
    device->last = launch;
    bti_lock_give(&device->events_lock);
}

/* The first error of an event is kept until somebody waits for that. Under the lock. */
static void keep_fault(bti_pjrt_device *device, uint64_t recorded, bti_error *error) {
    for (const bti_pjrt_fault *fault = device->faults; fault; fault = fault->next)
        if (fault->recorded == recorded) return;
    bti_pjrt_fault *fault = bti_alloc(sizeof *fault);
    if (!fault) return;
    *fault = (bti_pjrt_fault){device->faults, recorded, bti_error_retain(error)};
    device->faults = fault;
}

/* The oldest launch up to an event, retained; NULL: all are complete. */
static bti_pjrt_launch *oldest(bti_pjrt_device *device, uint64_t recorded) {
    bti_lock_take(&device->events_lock);
    bti_pjrt_launch *launch = device->first;
    if (launch && launch->recorded > recorded) launch = NULL;
    if (launch) launch->users++;
    bti_lock_give(&device->events_lock);
    return launch;
}

/* Gives back what `oldest` retained. */
static void release(bti_pjrt_device *device, bti_pjrt_launch *launch) {
    bti_lock_take(&device->events_lock);
    bool last = --launch->users == 0;
    bti_lock_give(&device->events_lock);
    if (!last) return;
    bti_pjrt_drop(device->calls, device->calls->event_destroy, launch->event);
    bti_free(launch);
}

/* It is complete, with an error or NULL. */
static void take_out(bti_pjrt_device *device, bti_pjrt_launch *launch, bti_error *error) {
    bti_lock_take(&device->events_lock);
    bool first = launch->listed;
    if (first) {
        *(launch->previous ? &launch->previous->next : &device->first) = launch->next;
        *(launch->next ? &launch->next->previous : &device->last) = launch->previous;
        launch->listed = false;
        if (error) keep_fault(device, launch->recorded, error);
    }
    bti_lock_give(&device->events_lock);
    if (first) release(device, launch);
}

static bti_pjrt_error *await_event(const bti_pjrt_device *device, void *event) {
    bti_pjrt_one args = {.size = BTI_PJRT_SIZE(bti_pjrt_one, object), .object = event};
    return device->calls->event_await(&args);
}

bt_status bti_pjrt_await(bti_pjrt_device *device, const char *what, void *event) {
    if (!event) return BT_OK;
    bt_status status = bti_pjrt_try(device, what, await_event(device, event));
    bti_pjrt_drop(device->calls, device->calls->event_destroy, event);
    return status;
}

/* Waits for it and takes it out. */
static void complete(bti_pjrt_device *device, bti_pjrt_launch *launch) {
    bti_errors_aside aside = bti_errors_aside_begin();
    bt_status status = bti_pjrt_try(device, "work that was launched", await_event(device, launch->event));
    bti_error *error = status == BT_OK ? NULL : bti_error_last();
    bti_errors_aside_end(aside);
    take_out(device, launch, error);
    bti_error_release(error);
}

static void wait_for_launches(bti_pjrt_device *device, uint64_t recorded) {
    for (bti_pjrt_launch *launch; (launch = oldest(device, recorded));) {
        complete(device, launch);
        release(device, launch);
    }
}

/* The error of an event, taken out; NULL: there is none. */
static bti_error *take_fault(bti_pjrt_device *device, uint64_t recorded) {
    bti_error *error = NULL;
    bti_lock_take(&device->events_lock);
    for (bti_pjrt_fault **at = &device->faults; *at; at = &(*at)->next) {
        bti_pjrt_fault *fault = *at;
        if (fault->recorded != recorded) continue;
        error = fault->error;
        *at = fault->next;
        bti_free(fault);
        break;
    }
    bti_lock_give(&device->events_lock);
    return error;
}

bt_status bti_pjrt_record(void *opened, bti_event *event) {
    bti_pjrt_device *device = opened;
    bti_lock_take(&device->events_lock);
    event->value = ++device->recorded;
    bti_lock_give(&device->events_lock);
    return BT_OK;
}

/* Takes it over. */
static bt_status fail_with(bti_error *error) {
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    return status;
}

bt_status bti_pjrt_wait(void *opened, bti_event event) {
    wait_for_launches(opened, event.value);
    return fail_with(take_fault(opened, event.value));
}

static bool has_ended(const bti_pjrt_device *device, void *event) {
    bti_pjrt_bool args = {.size = BTI_PJRT_SIZE(bti_pjrt_bool, result), .object = event};
    bti_pjrt_error *error = device->calls->event_is_ready(&args);
    bti_pjrt_ignore(device->calls, error);
    return error || args.result; /* of an event that cannot be asked, the wait tells */
}

bt_status bti_pjrt_query(void *opened, bti_event event, bool *done) {
    bti_pjrt_device *device = opened;
    *done = true;
    for (bti_pjrt_launch *launch; *done && (launch = oldest(device, event.value));) {
        *done = has_ended(device, launch->event);
        if (*done) complete(device, launch);
        release(device, launch);
    }
    return BT_OK;
}

/* The errors of events that nobody has waited for stay theirs. */
bt_status bti_pjrt_sync(void *opened) {
    bti_pjrt_device *device = opened;
    bti_error *oldest_error = NULL;
    bti_pjrt_finish_launches(device);
    bti_lock_take(&device->events_lock);
    for (const bti_pjrt_fault *fault = device->faults; fault; fault = fault->next)
        if (!fault->next) oldest_error = bti_error_retain(fault->error);
    bti_lock_give(&device->events_lock);
    return oldest_error ? fail_with(oldest_error) : bti_pjrt_check_lost(device);
}

bool bti_pjrt_has_launches(bti_pjrt_device *device) {
    bti_lock_take(&device->events_lock);
    bool any = device->first;
    bti_lock_give(&device->events_lock);
    return any;
}

void bti_pjrt_finish_launches(bti_pjrt_device *device) { wait_for_launches(device, UINT64_MAX); }

void bti_pjrt_forget_launches(bti_pjrt_device *device) {
    bti_pjrt_finish_launches(device);
    for (bti_pjrt_fault *fault; (fault = device->faults);) {
        device->faults = fault->next;
        bti_error_release(fault->error);
        bti_free(fault);
    }
}

bool bti_pjrt_is_idle(bti_pjrt_device *device) {
    bool done;
    return bti_pjrt_query(device, (bti_event){UINT64_MAX}, &done) != BT_OK || done;
}
