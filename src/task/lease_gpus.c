#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <berth/device.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "task/lease.h"

/* What the child finds, through a pipe. */
typedef struct answer {
    bt_status status;
    char error[512];
    int count;
    bti_lease_gpu gpus[BTI_LEASE_MOST_GPUS];
} answer;

/* --- in the child ---------------------------------------------------------------------------------------------------- */

static bt_status ask(answer *a) {
    bt_device *devices[BTI_LEASE_MOST_GPUS], *cpu;
    BTI_TRY(bt_device_find("cpu", &cpu)); /* fails when the settings are faulty */
    int count = bt_device_list(BT_GPU, devices, BTI_LEASE_MOST_GPUS);
    for (int i = 0; i < count && i < BTI_LEASE_MOST_GPUS; i++) {
        bt_device_info info = BT_DEVICE_INFO_INIT;
        bti_lease_gpu *gpu = &a->gpus[a->count];
        BTI_TRY(bt_device_describe(devices[i], &info));
        if (!strcmp(info.driver, "opencl")) continue; /* the mask does not speak of them */
        const char *name = *info.uuid ? info.uuid : *info.pci_bus_id ? info.pci_bus_id : info.name;
        snprintf(gpu->name, sizeof gpu->name, "%s", name);
        gpu->memory_bytes = info.memory_bytes;
        a->count++;
    }
    return BT_OK;
}

static _Noreturn void answer_into(int pipe_end, answer *a) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    a->status = ask(a);
    if (a->status != BT_OK) snprintf(a->error, sizeof a->error, "%s", bt_error_text());
    const char *at = (const char *)a;
    size_t left = sizeof *a;
    for (ssize_t n; left && (n = write(pipe_end, at, left)) > 0; at += n) left -= (size_t)n;
    _exit(0);
}

/* --- in the parent --------------------------------------------------------------------------------------------------- */

static bool receive(int pipe_end, answer *a) {
    char *at = (char *)a;
    size_t left = sizeof *a;
    while (left) {
        ssize_t n = read(pipe_end, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        left -= (size_t)n;
    }
    return true;
}

static bt_status ask_in_child(answer *a) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return bti_fail(BT_RESOURCE_EXHAUSTED, "no pipe to a child: %s", strerror(errno));
    pid_t child = fork();
    if (!child) answer_into(ends[1], a);
    int fault = errno;
    close(ends[1]);
    bool whole = child > 0 && receive(ends[0], a);
    close(ends[0]);
    if (child < 0) return bti_fail(BT_RESOURCE_EXHAUSTED, "no child to look for GPUs: %s", strerror(fault));
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
    if (!whole) return bti_fail(BT_UNAVAILABLE, "the child that looked for GPUs ended before it told of them");
    return a->status == BT_OK ? BT_OK : bti_fail(a->status, "%s", a->error);
}

/* The mask's entries before the first that is no device are those shown (docs/visibility.md). */
static void number(bti_lease_gpu *gpus, int count, const char *mask) {
    for (int i = 0; i < count; i++) {
        char *end;
        gpus[i].id = i;
        snprintf(gpus[i].entry, sizeof gpus[i].entry, "%d", i);
        if (!mask) continue;
        mask += strspn(mask, " \t\n\v\f\r");
        snprintf(gpus[i].entry, sizeof gpus[i].entry, "%.*s", (int)strcspn(mask, ","), mask);
        long id = strtol(mask, &end, 10);
        if (end > mask) {
            gpus[i].id = (int)id;
            snprintf(gpus[i].entry, sizeof gpus[i].entry, "%ld", id);
        }
        mask += strcspn(mask, ",");
        mask += *mask == ',';
    }
}

bt_status bti_lease_list_gpus(bti_lease_gpu *gpus, int *count) {
    answer *a = bti_calloc(1, sizeof *a);
    if (!a) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
    bt_status status = ask_in_child(a);
    *count = status == BT_OK ? a->count : 0;
    memcpy(gpus, a->gpus, (size_t)*count * sizeof *gpus);
    bti_free(a);
    number(gpus, *count, getenv("CUDA_VISIBLE_DEVICES"));
    return status;
}
