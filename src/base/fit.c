#include "base/fit.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/writes.h"

atomic_bool bti_fit_on_;

typedef struct noted {
    char device[64];
    uint64_t measured, refused;
    bti_fit_step step; /* of the greatest prediction */
} noted;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
BTI_RENEW_IN_CHILD(lock)
static noted all[BTI_FIT_DEVICES];

static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER; /* before the other */
BTI_RENEW_IN_CHILD(file_lock)
static char *file;
static bool forked; /* since it was named */

/* --- noting --------------------------------------------------------------------------------------------------------- */

void bti_fit_predict(int device, const bti_fit_step *step, bool reserved) {
    if (device < 0 || device >= BTI_FIT_DEVICES) return;
    pthread_mutex_lock(&lock);
    noted *of = &all[device];
    uint64_t peak = step->in_use + step->added;
    snprintf(of->device, sizeof of->device, "%s", step->device);
    if (!reserved && peak > of->refused) of->refused = peak;
    if (reserved && peak > of->step.in_use + of->step.added) of->step = *step;
    pthread_mutex_unlock(&lock);
}

void bti_fit_note_memory(int device, uint64_t in_use) {
    if (device < 0 || device >= BTI_FIT_DEVICES) return;
    pthread_mutex_lock(&lock);
    if (in_use > all[device].measured) all[device].measured = in_use;
    pthread_mutex_unlock(&lock);
}

/* --- the file ------------------------------------------------------------------------------------------------------- */

static json_t *step_json(const bti_fit_step *step) {
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

static json_t *device_json(const noted *device) {
    uint64_t predicted = device->step.in_use + device->step.added;
    double difference =
        device->measured ? 100.0 * ((double)predicted - (double)device->measured) / (double)device->measured : 0;
    json_t *of = json_object();
    json_object_set_new(of, "device", json_string(device->device));
    json_object_set_new(of, "predicted_bytes", json_integer((json_int_t)predicted));
    json_object_set_new(of, "measured_bytes", json_integer((json_int_t)device->measured));
    json_object_set_new(of, "difference_percent", json_real(difference));
    json_object_set_new(of, "refused_bytes", json_integer((json_int_t)device->refused));
    json_object_set_new(of, "step", step_json(&device->step));
    return of;
}

static void write_noted(const char *path) {
    json_t *root = json_object(), *devices = json_array();
    pthread_mutex_lock(&lock);
    for (int d = 0; d < BTI_FIT_DEVICES; d++)
        if (*all[d].device) json_array_append_new(devices, device_json(&all[d]));
    memset(all, 0, sizeof all);
    pthread_mutex_unlock(&lock);
    json_object_set_new(root, "devices", devices);
    BTI_WRITES;
    if (!root || json_dump_file(root, path, JSON_COMPACT)) bti_log("flag \"fit\": %s could not be written", path);
    json_decref(root);
}

static void at_end(void) { bti_fit_record_into(""); }

/* What is noted is of the process that began. */
static void in_child(void) {
    forked = forked || file;
    atomic_store(&bti_fit_on_, false);
}
static void watch(void) {
    atexit(at_end);
    pthread_atfork(NULL, NULL, in_child);
}

void bti_fit_record_into(const char *path) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_mutex_lock(&file_lock);
    if (!forked && strcmp(path, file ? file : "")) {
        char *written = file;
        file = *path ? bti_strdup(path) : NULL;
        if (*path && !file) bti_log("flag \"fit\": out of host memory");
        atomic_store(&bti_fit_on_, file != NULL);
        if (written) write_noted(written);
        bti_free(written);
        if (file) pthread_once(&watched, watch);
    }
    pthread_mutex_unlock(&file_lock);
}
