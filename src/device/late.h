/* Devices that are late: they have not completed work within the flag device_seconds. The device may still write to the memory of that work, so the runs that own the memory
 * are held until the work is complete. Meanwhile every use of the device fails with the error that was made when it became late, and its pool neither hands out memory nor
 * frees any. When all that is held is complete, the device is used again. */
#ifndef BTI_DEVICE_LATE_H
#define BTI_DEVICE_LATE_H

#include "device/device.h"

typedef struct bti_held bti_held;
struct bti_held {
    int device; /* that is late */
    bool has_event;
    bti_event event; /* after its work; without: it is complete when the device has completed everything */
    void (*release)(bti_held *held);
    bti_held *next;
};

/* The time that limits count: of the virtual clock for devices that have it, else the wall's. */
uint64_t bti_device_now_ns(int id);
uint64_t bti_device_limit_ns(void); /* 0: none */
/* Of work that is not complete and has been the first of its device since then (0: unknown): whether a wait for it would give up at once. */
bool bti_device_is_overdue(int id, uint64_t since_ns);

/* As bti_device_wait, with a limit that counts from `since_ns` (0: from now). *gave_up: the event is not complete, and the device is late; the status is that of its
 * error, which names `of` (NULL: the place of the running call). */
bt_status bti_device_wait_since(int id, bti_event event, uint64_t since_ns, const bti_place *of, bool *gave_up);
/* The same for an event after which nothing was recorded on the device; the limit counts from now. */
bt_status bti_device_wait_last(int id, bti_event event);
/* If the device `cause` is late, and this event of another device is not complete as it waits for that one: the other device is late too, with the same error. */
void bti_device_share_lateness(int id, bti_event event, int cause);

bool bti_device_is_late(int id);
/* Never blocks. The error of a late device, unless it has completed its work meanwhile. */
bt_status bti_device_check_late(int id);
/* The same for all devices; then nothing is held any more. Under no lock. */
bt_status bti_devices_check_late(void);
/* After a wait that gave up: calls release when the work is complete. */
void bti_device_hold(bti_held *held);
/* Releases what is held for work that is complete by now, on all devices that have no clock, or on all. Under no lock. Whether anything is held still. */
bool bti_devices_release_held(bool with_clock);

#endif
