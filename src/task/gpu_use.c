#include "task/gpu_use.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "device/cards.h"
#include "device/table.h"
#include "device/visibility.h"
#include "task/gpus.h"
#include "task/mailbox.h"
#include "task/object.h"
#include "task/process.h"
#include "task/supply.h"

static const void *checked_record(const bti_state *state, int kind, const void *address) {
    const bti_records *r = &state->arena->records[kind];
    uintptr_t offset = (uintptr_t)address - (uintptr_t)r->first;
    return address && offset < r->used * r->bytes && offset % r->bytes == 0 ? address : NULL;
}

/* As bti_gpus_holder, of a client that may change. */
static const bti_task_record *holder_of(const bti_state *state, const bti_client *client) {
    const bti_actor_record *actor = checked_record(state, BTI_ACTORS, client->actor);
    return checked_record(state, BTI_TASKS, actor ? actor->maker : client->task);
}

static void read_name(const bti_state *state, const bti_task_record *task, char name[64]) {
    const bti_function_record *f = task ? checked_record(state, BTI_FUNCTIONS, task->function) : NULL;
    memset(name, 0, 64);
    if (f) memcpy(name, f->name, 63);
}

static const bti_client *client_at(const bti_state *state, uint32_t index) {
    const bti_records *r = &state->arena->records[BTI_CLIENTS];
    const bti_client *client = (const void *)(r->first + (uint64_t)index * r->bytes);
    return client->state == BTI_CLIENT_ENDED || client->is_program || client->pid <= 0 ? NULL : client;
}

/* A worker that has one of these GPUs; NULL: none has. */
static const bti_client *find_holder(const bti_state *state, uint64_t gpus, char name[64]) {
    for (uint32_t i = 0; i < state->arena->records[BTI_CLIENTS].used; i++) {
        const bti_client *client = client_at(state, i);
        const bti_task_record *task = client ? holder_of(state, client) : NULL;
        if (!task || !(task->gpus & gpus)) continue;
        if (task->state == BTI_TASK_KEPT && !task->makes_actor) continue; /* done: its process ends */
        read_name(state, task, name);
        return client;
    }
    return NULL;
}

/* --- in a worker: devices that berth opens ----------------------------------------------------------------------------- */

static _Atomic uint64_t opened, warned; /* a bit per GPU of the runtime */

/* The runtime's number of a device: the worker sees what the program's mask shows, in its order. -1: it has no such GPU. */
static int gpu_of(const bti_state *state, const bt_device *device) {
    int32_t numbers[BTI_MOST_GPUS];
    char names[BTI_MOST_GPUS][BTI_GPU_NAME];
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    if (!device || device->kind != BT_GPU || !strcmp(device->driver->name, "opencl")) return -1;
    for (int g = 0; g < state->gpu_count && *device->facts.uuid; g++)
        if (!strcasecmp(state->gpu_name[g], device->facts.uuid)) return g;
    if (device->index < 0 || device->index >= BTI_MOST_GPUS) return -1;
    if (!mask)
        snprintf(names[device->index], BTI_GPU_NAME, "%d", device->index);
    else if (device->index >= bti_gpus_of_mask(mask, numbers, names, BTI_MOST_GPUS))
        return -1;
    for (int g = 0; g < state->gpu_count; g++)
        if (!strcasecmp(state->gpu_name[g], names[device->index])) return g;
    return -1;
}

static void warn_if_held(const bti_state *state, const bti_client *me, int gpu) {
    char holder[64], own[64];
    uint64_t bit = (uint64_t)1 << gpu;
    if (atomic_load(&warned) & bit) return;
    const bti_client *other = find_holder(state, bit, holder);
    if (!other || other == me || atomic_fetch_or(&warned, bit) & bit) return;
    read_name(state, me->task, own);
    bti_log("%s (process %d) uses GPU %d, which %s (process %d) holds: .num_gpus gives a task GPUs of its own, "
            ".num_gpus = 0 "
            "hides all",
            own, me->pid, state->gpu_number[gpu], holder, other->pid);
}

static void on_opened(int id) {
    const bti_state *state = bti_process_now.state;
    const bti_client *me = bti_process_now.me;
    const bti_task_record *task = state && !me->is_program ? bti_gpus_holder(me) : NULL;
    int gpu = task && !task->gpus ? gpu_of(state, bti_registry_at(id)) : -1;
    if (gpu < 0) return;
    atomic_fetch_or(&opened, (uint64_t)1 << gpu);
    warn_if_held(state, me, gpu);
}

/* Should the worker use a GPU that another task holds, one line of the log names both. */
static void warn_of_use(const bti_state *state, const bti_task_record *task) {
    bti_device_set_opened(on_opened);
    if (task->gpus) return;
    for (int g = 0; atomic_load(&opened) & ~atomic_load(&warned) && g < state->gpu_count; g++)
        if (atomic_load(&opened) >> g & 1) warn_if_held(state, bti_process_now.me, g);
}

/* --- in a worker: what it sees ------------------------------------------------------------------------------------------ */

const bti_task_record *bti_gpus_holder(const bti_client *client) {
    return client->actor ? client->actor->maker : client->task;
}

/* A worker looks once: many tasks may ask for no GPU. */
static void hide_others(bti_vendor vendor) {
    static bool looked, amd, intel;
    if (!looked) {
        amd = bti_amd_list(bti_vendor_root, NULL, 0) > 0;
        intel = bti_intel_find(bti_vendor_root, true);
        looked = true;
    }
    if (amd && vendor != BTI_AMD) bti_mask_hide(BTI_AMD);
    if (intel && vendor != BTI_INTEL) bti_mask_hide(BTI_INTEL);
}

/* Programs that the task starts hold the leases of its GPUs, and may hand them out; not those of other tasks. */
static void inherit_leases(const bti_state *state, uint64_t gpus) {
    for (int g = 0; g < state->leases_taken; g++)
        if (gpus >> g & 1) fcntl(state->lease_files[state->lease_file_count - state->leases_taken + g], F_SETFD, 0);
}

static void show(const bti_state *state, uint64_t gpus) {
    char list[BTI_MOST_GPUS * BTI_GPU_NAME] = "";
    size_t length = 0;
    for (int g = 0; g < state->gpu_count; g++)
        if (gpus >> g & 1)
            length +=
                (size_t)snprintf(list + length, sizeof list - length, "%s%s", length ? "," : "", state->gpu_name[g]);
    bti_mask mask = bti_mask_of((bti_vendor)state->gpu_vendor);
    bti_mask_set(&mask, list);
}

void bti_gpus_show_all(const bti_state *state) { show(state, UINT64_MAX); }

void bti_gpus_show(const bti_state *state, const bti_task_record *task) {
    warn_of_use(state, task);
    if (!task->gpus && !task->hides_gpus) return;
    show(state, task->gpus);
    inherit_leases(state, task->gpus);
    hide_others((bti_vendor)state->gpu_vendor);
    int32_t share = task->gpus ? bti_gpu_share(state, &task->queue->amounts, __builtin_ctzll(task->gpus)) : BTI_UNIT;
    if (share < BTI_UNIT) bti_memory_share((double)share / BTI_UNIT);
}

/* --- in a process that reads their energy ------------------------------------------------------------------------------ */

static uint64_t begun_ns(const bti_client *client, const bti_task_record *task) {
    if (task->begun_ns || !client->mail) return task->begun_ns;
    return client->mail->begun_ns[task->number % BTI_GIVEN_SLOTS];
}

void bti_gpus_each_holder(const bti_state *state, void (*visit)(const bti_gpu_holder *holder, void *data), void *data) {
    for (uint32_t i = 0; i < state->arena->records[BTI_CLIENTS].used; i++) {
        const bti_client *client = client_at(state, i);
        const bti_task_record *task = client ? holder_of(state, client) : NULL;
        if (!task) continue;
        bti_gpu_holder holder = {task->sequence, task->gpus, begun_ns(client, task), BTI_UNIT};
        const bti_queue *queue = checked_record(state, BTI_QUEUES, task->queue);
        if (!holder.gpus) continue; /* it has ended just now */
        if (queue) holder.share = bti_gpu_share(state, &queue->amounts, __builtin_ctzll(holder.gpus));
        visit(&holder, data);
    }
}

/* --- in a process that asks NVML: whatever library uses them --------------------------------------------------------------- */

static const bti_client *client_of(const bti_state *state, int pid) {
    for (uint32_t i = 0; i < state->arena->records[BTI_CLIENTS].used; i++) {
        const bti_client *client = client_at(state, i);
        if (client && client->pid == pid) return client;
    }
    return NULL;
}

bool bti_gpus_warn_of_user(const bti_state *state, const bti_task_record *held, int holder, int user) {
    char names[2][64];
    const bti_client *client = user == holder ? NULL : client_of(state, user);
    const bti_task_record *task = client ? holder_of(state, client) : NULL;
    if (!client || (task && task->gpus)) return false; /* its mask names GPUs of its own */
    read_name(state, checked_record(state, BTI_TASKS, client->task), names[0]);
    read_name(state, held, names[1]);
    bti_log("%s (process %d) has memory of CUDA_VISIBLE_DEVICES=%s, which %s (process %d) held: .num_gpus gives a task "
            "GPUs of its "
            "own, .num_gpus = 0 hides all",
            *names[0] ? names[0] : "an idle worker", user, getenv("CUDA_VISIBLE_DEVICES"), names[1], holder);
    return true;
}
