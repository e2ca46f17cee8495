#include "fakes/machine.h"

#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/order.h"

#define FAKE_INSTANCES 8

typedef struct fault {
    char name[64];
    long nth, calls;
    int code;
} fault;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static fake_machine machine;
static bool ready, fault_happened;
static fault faults[FAKE_MOST];
static int fault_count, contexts_made, alive, calls, any_code, late_code, synchronisations;
static long any_nth, late_nth;
static fault set;                 /* by fake_set_fault */
static int set_device, hung = -1; /* hung: that completes nothing */
static char *log_text;
static size_t log_length;

void fake_lock(void) { pthread_mutex_lock(&lock); }
void fake_unlock(void) { pthread_mutex_unlock(&lock); }

/* --- the file ------------------------------------------------------------------------------------------------------ */

static fake_device instances[FAKE_MOST * FAKE_INSTANCES];
static int instance_count;

fake_device *fake_instance(int number) { return &instances[number]; }

static void read_device(json_t *from, fake_device *d);

static void read_instances(json_t *from, fake_device *d) {
    if (!d->instance_count) d->first_instance = instance_count;
    d->instance_count = (int)json_array_size(from);
    if (d->first_instance == instance_count) instance_count += d->instance_count;
    for (int i = 0; i < d->instance_count; i++) {
        fake_device *instance = &instances[d->first_instance + i];
        json_t *row = json_array_get(from, (size_t)i);
        memset(instance, 0, sizeof *instance);
        if (json_is_object(row)) read_device(row, instance);
    }
}

static void read_device(json_t *from, fake_device *d) {
    json_t *processes = json_object_get(from, "processes"), *capability = json_object_get(from, "capability");
    const char *name = json_string_value(json_object_get(from, "name"));
    const char *uuid = json_string_value(json_object_get(from, "uuid"));
    const char *pci = json_string_value(json_object_get(from, "pci"));
    snprintf(d->name, sizeof d->name, "%s", name ? name : "NVIDIA Fake");
    snprintf(d->uuid, sizeof d->uuid, "%s", uuid ? uuid : "GPU-00000000-0000-0000-0000-000000000000");
    snprintf(d->pci, sizeof d->pci, "%s", pci ? pci : "0000:01:00.0");
    (void)!sscanf(d->pci, "%x:%x:%x", &d->domain, &d->bus, &d->slot);
    d->memory = (uint64_t)json_integer_value(json_object_get(from, "memory"));
    d->major = capability ? (int)json_integer_value(json_array_get(capability, 0)) : 9;
    d->minor = capability ? (int)json_integer_value(json_array_get(capability, 1)) : 0;
    json_t *multiprocessors = json_object_get(from, "multiprocessors");
    d->multiprocessors = multiprocessors ? (int)json_integer_value(multiprocessors) : 4;
    json_t *energy = json_object_get(from, "millijoules");
    d->millijoules = energy ? (long)json_integer_value(json_array_get(energy, 0)) : -1;
    d->millijoules_step = (long)json_integer_value(json_array_get(energy, 1));
    d->mig = json_is_true(json_object_get(from, "mig"));
    if (json_object_get(from, "instances")) read_instances(json_object_get(from, "instances"), d);
    d->island = (int)json_integer_value(json_object_get(from, "island"));
    for (size_t i = 0; i < json_array_size(processes) && i < FAKE_PROCESSES; i++, d->process_count++) {
        json_t *process = json_array_get(processes, i);
        d->processes[i].pid = (unsigned)json_integer_value(json_object_get(process, "pid"));
        d->processes[i].bytes = (uint64_t)json_integer_value(json_object_get(process, "bytes"));
        const char *type = json_string_value(json_object_get(process, "type"));
        d->processes[i].compute = !type || strchr(type, 'C');
        d->processes[i].graphics = type && strchr(type, 'G');
        d->used += d->processes[i].bytes;
    }
}

static void read_pair(json_t *pair, long *nth, int *code) {
    *nth = (long)json_integer_value(json_array_get(pair, 0));
    *code = (int)json_integer_value(json_array_get(pair, 1));
}

static void read_machine(json_t *from) {
    json_t *devices = json_object_get(from, "devices"), *order = json_object_get(from, "order"), *code;
    json_t *nvrtc = json_object_get(from, "nvrtc"), *cuda = json_object_get(from, "cuda");
    const char *driver = json_string_value(json_object_get(from, "driver")), *name;
    const char *library = json_string_value(json_object_get(from, "nvrtc_library"));
    snprintf(machine.driver, sizeof machine.driver, "%s", driver ? driver : "580.65.06");
    snprintf(machine.nvrtc_library, sizeof machine.nvrtc_library, "%s", library ? library : "");
    machine.cuda = cuda ? (int)json_integer_value(cuda) : 13000;
    machine.nvrtc_major = nvrtc ? (int)json_integer_value(json_array_get(nvrtc, 0)) : 13;
    machine.nvrtc_minor = nvrtc ? (int)json_integer_value(json_array_get(nvrtc, 1)) : 0;
    for (size_t i = 0; i < json_array_size(devices) && i < FAKE_MOST; i++)
        read_device(json_array_get(devices, i), &machine.devices[machine.count++]);
    for (size_t i = 0; i < json_array_size(order) && i < FAKE_MOST; i++)
        machine.order[machine.order_count++] = (int)json_integer_value(json_array_get(order, i));
    for (int i = 0; !order && i < machine.count; i++) machine.order[machine.order_count++] = i;
    machine.lists_own = json_is_true(json_object_get(from, "lists_own"));
    machine.live = json_is_true(json_object_get(from, "live"));
    machine.no_context = json_is_true(json_object_get(from, "no_context"));
    json_object_foreach(json_object_get(from, "fail"), name, code) {
        if (fault_count == FAKE_MOST) break;
        fault *f = &faults[fault_count++];
        snprintf(f->name, sizeof f->name, "%s", name);
        read_pair(code, &f->nth, &f->code);
    }
    read_pair(json_object_get(from, "fail_any"), &any_nth, &any_code);
    read_pair(json_object_get(from, "late"), &late_nth, &late_code);
}

/* CUDA C++ Programming Guide, technical specifications per compute capability. */
int fake_shared_bytes(const fake_device *d) {
    int capability = d->major * 10 + d->minor;
    if (capability < 80) return 65536;
    if (capability == 80 || capability == 87) return 166912;
    return capability == 86 || capability == 89 || capability >= 120 ? 101376 : 232448;
}

fake_machine *fake(void) {
    fake_lock();
    if (!ready) {
        const char *path = getenv("BERTH_FAKE_MACHINE");
        json_error_t error;
        json_t *from = path ? json_load_file(path, 0, &error) : NULL;
        if (from) read_machine(from);
        json_decref(from);
        ready = true;
    }
    fake_unlock();
    return &machine;
}

void fake_processes_now(void) {
    json_error_t error;
    fake_lock();
    json_t *from = machine.live ? json_load_file(getenv("BERTH_FAKE_MACHINE"), 0, &error) : NULL;
    for (int i = 0; from && i < machine.count; i++) {
        machine.devices[i].process_count = 0;
        machine.devices[i].used = 0;
        read_device(json_array_get(json_object_get(from, "devices"), (size_t)i), &machine.devices[i]);
    }
    json_decref(from);
    fake_unlock();
}

void fake_reset(void) {
    fake_lock();
    fake_memory_reset();
    fake_order_reset();
    fake_stream_new_machine();
    fake_findings_new_machine();
    memset(&machine, 0, sizeof machine);
    instance_count = 0;
    memset(faults, 0, sizeof faults);
    ready = fault_happened = false;
    any_nth = late_nth = 0;
    set = (fault){0};
    hung = -1;
    fault_count = contexts_made = alive = calls = synchronisations = 0;
    free(log_text);
    log_text = NULL;
    log_length = 0;
    fake_unlock();
}

/* --- faults that tests set ------------------------------------------------------------------------------------------------ */

void fake_set_fault(const char *name, int device, long nth, int code) {
    fake_lock();
    if (!strcmp(set.name, "late")) machine.devices[set_device].sticky = 0;
    set = (fault){.nth = nth, .code = code};
    snprintf(set.name, sizeof set.name, "%s", name);
    set_device = device;
    hung = -1;
    fake_unlock();
}

/* Under the lock: whether it is the call that the fault is about. */
static bool is_set_call(const char *name, int device) {
    return set.nth && device == set_device && !strcmp(set.name, name) && ++set.calls == set.nth;
}

bool fake_hangs(int device) {
    fake_lock();
    bool hangs = device == hung;
    fake_unlock();
    return hangs;
}

void fake_recorded(int device) {
    fake_lock();
    if (is_set_call("hang", device)) hung = device;
    fake_unlock();
}

/* --- faults and counts ---------------------------------------------------------------------------------------------- */

int fake_call(const char *name, bool release) {
    int code = 0;
    fake();
    fake_lock();
    if (!release && !strncmp(name, "cu", 2) && strncmp(name, "cublas", 6) && ++calls == any_nth) code = any_code;
    for (int i = 0; i < fault_count; i++)
        if (!strcmp(faults[i].name, name) && ++faults[i].calls == faults[i].nth) code = faults[i].code;
    if (is_set_call(name, -1)) code = set.code;
    if (code) fault_happened = true;
    fake_unlock();
    return code;
}

bool fake_fault_happened(void) { return fault_happened; }

int fake_synchronised(int device) {
    fake_lock();
    if (++synchronisations == late_nth) machine.devices[device].sticky = late_code;
    if (is_set_call("late", device)) machine.devices[device].sticky = set.code, fault_happened = true;
    int code = machine.devices[device].sticky;
    fake_unlock();
    return code;
}

int fake_contexts_made(void) { return contexts_made; }
int fake_alive(void) { return alive; }
int fake_calls(void) { return calls; }
const char *fake_log_text(void) { return log_text ? log_text : ""; }

void fake_live(int change) {
    fake_lock();
    alive += change;
    fake_unlock();
}

/* The lock is never given back then. */
bool fake_ends_in_use(void) {
    fake_lock();
    bool in_use = alive > 0;
    if (!in_use) fake_unlock();
    return in_use;
}

void fake_context_made(void) {
    fake_lock();
    contexts_made++;
    fake_unlock();
}

void fake_log(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fake_lock();
    size_t length = strlen(line);
    char *grown = realloc(log_text, log_length + length + 2);
    if (grown) {
        log_text = grown;
        memcpy(log_text + log_length, line, length);
        memcpy(log_text + log_length + length, "\n", 2);
        log_length += length + 1;
    }
    fake_unlock();
}
