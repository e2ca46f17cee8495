/* Notes what runs were predicted to take of each device's memory, and what was in use, while the flag `memory_forecast` names a file. */
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/files.h"
#include "exec/exec.h"

/* A reservation that takes memory of a device. */
typedef struct reservation {
    const char *device; /* its name */
    uint64_t in_use;    /* before it */
    uint64_t added;     /* that it takes; 0: it takes none of the device */
    uint64_t largest;   /* of the pieces that it takes ... */
    bti_place place;    /* ... what for */
} reservation;

typedef struct device_record {
    char device[64];
    uint64_t measured, refused;
    reservation greatest; /* of the greatest prediction */
} device_record;

BTI_STATIC_LOCK(record_lock, forecast_record) /* protects `records`; a leaf */
static device_record records[BTI_MAX_DEVICES];

/* Held from the begin of a reservation to its end, so that no other takes memory between; protects `current`. */
BTI_STATIC_LOCK(reservation_lock, forecast_reservation)
static reservation current[BTI_MAX_DEVICES];

BTI_STATIC_LOCK(file_lock, forecast_file) /* protects `file`; taken before record_lock */
static char *file;
static bool forked; /* since it was named */

/* --- noting --------------------------------------------------------------------------------------------------------- */

static void note_used(int device, uint64_t in_use) {
    bti_lock_take(&record_lock);
    if (in_use > records[device].measured) records[device].measured = in_use;
    bti_lock_give(&record_lock);
}

static void begin_device(int device, size_t added) {
    bt_memory_info memory = BT_MEMORY_INFO_INIT;
    bt_device *named = bti_device_at(device);
    if (bt_memory(named, &memory) != BT_OK) bt_error_clear();
    current[device] = (reservation){.device = bt_device_name(named), .in_use = memory.used, .added = added};
}

static void begin_run(const bti_plan *plan) {
    int64_t added[BTI_MAX_DEVICES];
    bti_plan_memory(plan, bti_block_bytes, added, BTI_MAX_DEVICES);
    bti_lock_take(&reservation_lock);
    for (int d = 0; d < BTI_MAX_DEVICES; d++)
        if (added[d]) begin_device(d, (size_t)added[d]);
    for (size_t s = 0; s < plan->storages.count; s++) {
        const bti_storage *storage = &plan->storages.items[s];
        reservation *of = &current[storage->device];
        bool taken = storage->offset >= 0 || bti_plan_reserves(plan, storage);
        if (!taken || (uint64_t)storage->bytes <= of->largest) continue;
        of->largest = (uint64_t)storage->bytes;
        of->place = storage->node->place;
    }
}

static void begin_upload(const bti_buffer *buffer) {
    bti_lock_take(&reservation_lock);
    if (!buffer->bytes) return;
    begin_device(buffer->device, bti_block_bytes(buffer->device, buffer->bytes));
    current[buffer->device].largest = buffer->bytes;
    current[buffer->device].place = buffer->place;
}

/* Of a refused one the record keeps how much was wanted. */
static void note_reservation(device_record *of, const reservation *r, bool reserved) {
    uint64_t peak = r->in_use + r->added;
    snprintf(of->device, sizeof of->device, "%s", r->device);
    if (!reserved && peak > of->refused) of->refused = peak;
    if (reserved && peak > of->greatest.in_use + of->greatest.added) of->greatest = *r;
}

static void end_reservation(bool reserved) {
    bti_lock_take(&record_lock);
    for (int d = 0; d < BTI_MAX_DEVICES; d++) {
        if (current[d].added) note_reservation(&records[d], &current[d], reserved);
        current[d] = (reservation){0};
    }
    bti_lock_give(&record_lock);
    bti_lock_give(&reservation_lock);
}

static void observe(bool on) {
    static const bti_reserve_observer observer = {begin_run, begin_upload, end_reservation};
    bti_device_observe_memory(on ? note_used : NULL);
    bti_exec_observe_reserve(on ? &observer : NULL);
}

/* --- the file ------------------------------------------------------------------------------------------------------- */

static json_t *step_json(const reservation *step) {
    const bti_place *place = &step->place;
    json_t *of = json_object();
    json_object_set_new(of, "in_use_bytes", json_integer((json_int_t)step->in_use));
    json_object_set_new(of, "added_bytes", json_integer((json_int_t)step->added));
    json_object_set_new(of, "largest_bytes", json_integer((json_int_t)step->largest));
    json_object_set_new(of, "operation", json_string(place->name ? place->name : ""));
    json_object_set_new(of, "file", json_string(place->site.file ? bti_site_file(place->site) : ""));
    json_object_set_new(of, "line", json_integer(place->site.file ? place->site.line : 0));
    return of;
}

static json_t *device_json(const device_record *device) {
    uint64_t predicted = device->greatest.in_use + device->greatest.added;
    double difference =
        device->measured ? 100.0 * ((double)predicted - (double)device->measured) / (double)device->measured : 0;
    json_t *of = json_object();
    json_object_set_new(of, "device", json_string(device->device));
    json_object_set_new(of, "predicted_bytes", json_integer((json_int_t)predicted));
    json_object_set_new(of, "measured_bytes", json_integer((json_int_t)device->measured));
    json_object_set_new(of, "difference_percent", json_real(difference));
    json_object_set_new(of, "refused_bytes", json_integer((json_int_t)device->refused));
    json_object_set_new(of, "step", step_json(&device->greatest));
    return of;
}

static void write_records(const char *path) {
    json_t *root = json_object(), *devices = json_array();
    bti_lock_take(&record_lock);
    for (int d = 0; d < BTI_MAX_DEVICES; d++)
        if (*records[d].device) json_array_append_new(devices, device_json(&records[d]));
    memset(records, 0, sizeof records);
    bti_lock_give(&record_lock);
    json_object_set_new(root, "devices", devices);
    BTI_WRITES;
    if (!root || json_dump_file(root, path, JSON_COMPACT))
        bti_log("flag \"memory_forecast\": %s could not be written", path);
    json_decref(root);
}

static void record_into(const char *path);
static void at_end(void) { record_into(""); }

/* The record is of the process that began it. */
static void stop_recording(void) {
    forked = forked || file;
    observe(false);
}
static void watch_process(void) {
    atexit(at_end);
    pthread_atfork(NULL, NULL, stop_recording);
}

/* What was recorded for the file before is written. */
static void record_into(const char *path) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    bti_lock_take(&file_lock);
    if (!forked && strcmp(path, file ? file : "")) {
        char *written = file;
        file = *path ? bti_strdup(path) : NULL;
        if (*path && !file) bti_log("flag \"memory_forecast\": out of host memory");
        observe(file != NULL);
        if (written) write_records(written);
        bti_free(written);
        if (file) pthread_once(&watched, watch_process);
    }
    bti_lock_give(&file_lock);
}

static void follow_flag(void) {
    char *path = bti_flag_text(BTI_FLAG_memory_forecast);
    if (path) record_into(path);
    bti_free(path);
}
__attribute__((constructor)) static void watch_flag(void) { bti_flag_watch(BTI_FLAG_memory_forecast, follow_flag); }
