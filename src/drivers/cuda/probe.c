/* Enumeration of GPUs, by NVML, which creates no context and ignores CUDA_VISIBLE_DEVICES. Without NVML, and where GPUs are split by MIG
 * (only libcuda knows which instances a program gets), by libcuda, without a context either. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/lock.h"
#include "drivers/cuda/device.h"

#define MOST 64

typedef struct card {
    bti_device_facts facts;
    unsigned location[3]; /* PCI domain, bus, device */
    int number;           /* NVML's index, or libcuda's if it listed the cards */
} card;

BTI_STATIC_LOCK(lock, cuda_probe) /* of all static variables of this file */
static card cards[MOST];
static int card_count;
static bool listed, by_libcuda, nvml_ready, cuda_ready;
static bool failed; /* enumeration failed: no device is listed although there may be some */

static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/nvhost-gpu",
                                    "/dev/nvgpu/igpu0"};
static bool has_node(void) {
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        if (!access(nodes[i], F_OK)) return true;
    return false;
}

bool bti_cuda_detect(unsigned kinds, bti_str *reason) {
    if (!(kinds & 1u << BT_GPU)) return false;
    if (bti_flag_bool(BTI_FLAG_cuda_path)) return true;
    if (has_node() || !access("/proc/driver/nvidia/version", F_OK)) return true;
    bti_str_add(reason, "cuda: no NVIDIA driver is loaded (there is no /dev/nvidiactl)\n");
    return false;
}

static void read_location(card *c) {
    c->location[0] = c->location[1] = c->location[2] = 0;
    (void)!sscanf(c->facts.pci_bus_id, "%x:%x:%x", &c->location[0], &c->location[1], &c->location[2]);
}

/* As nvidia-smi and CUDA write it: "0000:3b:00.0". */
static void set_location(card *c, unsigned domain, unsigned bus, unsigned device) {
    snprintf(c->facts.pci_bus_id, sizeof c->facts.pci_bus_id, "%04x:%02x:%02x.0", domain, bus, device);
    read_location(c);
}

static int by_location(const void *a, const void *b) {
    const card *x = a, *y = b;
    for (int i = 0; i < 3; i++)
        if (x->location[i] != y->location[i]) return x->location[i] < y->location[i] ? -1 : 1;
    return x->number - y->number;
}

/* --- NVML --------------------------------------------------------------------------------------------------------- */

static bool nvml_failed(nvmlReturn_t result, const char *call, bti_str *reason) {
    if (result == NVML_SUCCESS) return false;
    bti_str_addf(reason, "cuda: %s: %s%s\n", call, bti_nvml.nvmlErrorString(result),
                 result == NVML_ERROR_LIB_RM_VERSION_MISMATCH
                     ? "; the kernel driver and its libraries are of different versions: restart the machine"
                 : result == NVML_ERROR_NO_PERMISSION ? "; may this user open /dev/nvidiactl and /dev/nvidia0?"
                                                      : "");
    return true;
}

static bool start_nvml(bti_str *reason) {
    if (nvml_ready) return true;
    if (!bti_cuda_has(BTI_CUDA_NVML)) {
        bti_str_addf(reason, "cuda: NVML is not available: %s\n", bti_cuda_library_look(BTI_CUDA_NVML)->reason);
        return false;
    }
    if (nvml_failed(bti_nvml.nvmlInit(), "nvmlInit", reason)) return false;
    return nvml_ready = true;
}

/* False: the card cannot be used. *split: MIG splits it. */
static bool nvml_card(unsigned index, const char *version, card *c, bool *split, bti_str *reason) {
    nvmlDevice_t device;
    nvmlPciInfo_t pci;
    nvmlMemory_t memory;
    unsigned mode = 0, pending;
    char call[64];
    *c = (card){.number = (int)index, .facts.kind = BT_GPU};
    snprintf(call, sizeof call, "NVML, of device %u", index);
    if (nvml_failed(bti_nvml.nvmlDeviceGetHandleByIndex(index, &device), call, reason) ||
        nvml_failed(bti_nvml.nvmlDeviceGetName(device, c->facts.description, sizeof c->facts.description), call,
                    reason) ||
        nvml_failed(bti_nvml.nvmlDeviceGetUUID(device, c->facts.uuid, sizeof c->facts.uuid), call, reason) ||
        nvml_failed(bti_nvml.nvmlDeviceGetPciInfo(device, &pci), call, reason) ||
        nvml_failed(
            bti_nvml.nvmlDeviceGetCudaComputeCapability(device, &c->facts.capability_major, &c->facts.capability_minor),
            call, reason))
        return false;
    set_location(c, pci.domain, pci.bus, pci.device);
    if (bti_nvml.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS) c->facts.memory_bytes = memory.total;
    snprintf(c->facts.driver_version, sizeof c->facts.driver_version, "%s", version);
    if (bti_nvml.nvmlDeviceGetMigMode && bti_nvml.nvmlDeviceGetMigMode(device, &mode, &pending) == NVML_SUCCESS)
        *split |= mode == NVML_DEVICE_MIG_ENABLE;
    return true;
}

static bool list_by_nvml(bti_str *reason) {
    char version[48] = "";
    unsigned count = 0;
    bool split = false;
    if (!start_nvml(reason) || nvml_failed(bti_nvml.nvmlDeviceGetCount(&count), "nvmlDeviceGetCount", reason))
        return false;
    (void)bti_nvml.nvmlSystemGetDriverVersion(version, sizeof version);
    card_count = 0;
    for (unsigned i = 0; i < count && card_count < MOST; i++)
        card_count += nvml_card(i, version, &cards[card_count], &split, reason);
    failed = count && !card_count;
    if (split)
        bti_str_add(reason,
                    "cuda: a GPU is split by MIG: of its parts those are listed that libcuda shows, one as a rule "
                    "(CUDA_VISIBLE_DEVICES=MIG-... chooses which)\n");
    else if (!count)
        bti_str_add(reason, "cuda: NVML lists no GPU\n");
    return !split;
}

/* --- libcuda ------------------------------------------------------------------------------------------------------ */

/* Numbers in CUDA_VISIBLE_DEVICES are in PCI bus order here, so libcuda must use that order too; its default is the fastest first. It
 * reads both variables at cuInit and never again. */
static CUresult initialise_libcuda(void) {
    static const char order[] = "CUDA_DEVICE_ORDER";
    const char *mask = getenv("CUDA_VISIBLE_DEVICES"), *now = getenv(order);
    bool counts = mask && strncasecmp(mask, "GPU-", 4) != 0 && strncasecmp(mask, "MIG-", 4) != 0;
    if (!counts || (now && !strcmp(now, "PCI_BUS_ID"))) return bti_cu.cuInit(0);
    char *before = now ? bti_strdup(now) : NULL;
    setenv(order, "PCI_BUS_ID", 1);
    CUresult result = bti_cu.cuInit(0);
    if (before)
        setenv(order, before, 1);
    else
        unsetenv(order);
    bti_free(before);
    return result;
}

static bt_status start_libcuda(void) {
    if (cuda_ready) return BT_OK;
    BTI_TRY(bti_cuda_need(BTI_CUDA_DRIVER));
    int version = bti_cuda_driver_version();
    if (version && version < 12000)
        return bti_fail(
            BT_UNAVAILABLE,
            "the driver is too old: it is of CUDA %d.%d, and 12.0 is the least (install driver 525 or newer)",
            version / 1000, version % 1000 / 10);
    BTI_TRY(bti_cuda_check(NULL, "cuInit", initialise_libcuda()));
    cuda_ready = true;
    return BT_OK;
}

static void write_uuid(char text[64], const char *prefix, const CUuuid *uuid) {
    int length = snprintf(text, 64, "%s", prefix);
    for (int i = 0; i < 16; i++)
        length += snprintf(text + length, 64 - (size_t)length, "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid->bytes[i]);
}

static bt_status cuda_card(int ordinal, card *c) {
    CUdevice device;
    CUuuid uuid;
    int domain = 0, bus = 0, slot = 0;
    bti_device_facts *f = &c->facts;
    *c = (card){.number = ordinal, .facts.kind = BT_GPU};
    BTI_CUDA_TRY(NULL, cuDeviceGet, &device, ordinal);
    BTI_CUDA_TRY(NULL, cuDeviceGetName, f->description, sizeof f->description, device);
    BTI_CUDA_TRY(NULL, cuDeviceGetUuid, &uuid, device);
    BTI_CUDA_TRY(NULL, cuDeviceTotalMem, &f->memory_bytes, device);
    BTI_CUDA_TRY(NULL, cuDeviceGetAttribute, &domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device);
    BTI_CUDA_TRY(NULL, cuDeviceGetAttribute, &bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device);
    BTI_CUDA_TRY(NULL, cuDeviceGetAttribute, &slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device);
    BTI_CUDA_TRY(NULL, cuDeviceGetAttribute, &f->capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                 device);
    BTI_CUDA_TRY(NULL, cuDeviceGetAttribute, &f->capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                 device);
    write_uuid(f->uuid, strstr(f->description, " MIG ") ? "MIG-" : "GPU-", &uuid);
    set_location(c, (unsigned)domain, (unsigned)bus, (unsigned)slot);
    snprintf(f->driver_version, sizeof f->driver_version, "CUDA %s", bti_cuda_library_look(BTI_CUDA_DRIVER)->version);
    f->masked = true;
    return BT_OK;
}

static bt_status list_by_libcuda(void) {
    int count = 0;
    card_count = 0;
    by_libcuda = true;
    BTI_TRY(start_libcuda());
    BTI_CUDA_TRY(NULL, cuDeviceGetCount, &count);
    for (int i = 0; i < count && i < MOST; i++) {
        BTI_TRY(cuda_card(i, &cards[i]));
        card_count = i + 1;
    }
    return BT_OK;
}

/* Which cards have NVLink to each other, directly or through switches. */
static void read_links(void) {
    nvmlDevice_t devices[MOST];
    if (by_libcuda || !nvml_ready || !bti_nvml.nvmlDeviceGetP2PStatus) return;
    for (int i = 0; i < card_count; i++)
        if (bti_nvml.nvmlDeviceGetHandleByIndex((unsigned)cards[i].number, &devices[i]) != NVML_SUCCESS) return;
    for (int i = 0; i < card_count; i++)
        for (int j = 0; j < i; j++) {
            int status = 0;
            nvmlReturn_t result =
                bti_nvml.nvmlDeviceGetP2PStatus(devices[i], devices[j], NVML_P2P_CAPS_INDEX_NVLINK, &status);
            if (result != NVML_SUCCESS || status != NVML_P2P_STATUS_OK) continue;
            cards[i].facts.linked |= (uint64_t)1 << j;
            cards[j].facts.linked |= (uint64_t)1 << i;
        }
}

/* --- both --------------------------------------------------------------------------------------------------------- */

/* Under the lock. libcuda lists devices in the order of the mask already. */
static void list_cards(bti_str *reason) {
    if (listed) return;
    by_libcuda = false;
    bti_without_site without_site = bti_without_site_begin();
    failed = false;
    if (!list_by_nvml(reason) && list_by_libcuda() != BT_OK) {
        bti_str_addf(reason, "cuda: %s\n", bt_error_text());
        failed = true;
    }
    bti_without_site_end(without_site);
    if (!by_libcuda || !getenv("CUDA_VISIBLE_DEVICES")) qsort(cards, (size_t)card_count, sizeof *cards, by_location);
    for (int i = 0; i < card_count; i++) cards[i].facts.ordinal = i;
    read_links();
    listed = card_count > 0;
}

/* A container on a machine with the driver may have its device files without libraries or devices. A mask that hides all devices is not
 * a fault. */
bool bti_cuda_broken_install(void) {
    bti_lock_take(&lock);
    bool broken = failed && !getenv("CUDA_VISIBLE_DEVICES");
    bti_lock_give(&lock);
    return broken && (has_node() || bti_cuda_has(BTI_CUDA_NVML) || bti_cuda_has(BTI_CUDA_DRIVER));
}

bt_status bti_cuda_check_usable(void) {
    bti_lock_take(&lock);
    bt_status status = start_libcuda();
    const bti_device_facts *first = &cards[0].facts;
    if (status == BT_OK && card_count)
        status = bti_cuda_compiler_check(first->capability_major * 10 + first->capability_minor);
    bti_lock_give(&lock);
    return status;
}

bt_status bti_cuda_probe(unsigned kinds, bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    *count = 0;
    if (!(kinds & 1u << BT_GPU)) return BT_OK;
    bti_lock_take(&lock);
    listed = false;
    list_cards(reason);
    for (; *count < card_count; ++*count)
        if (*count < capacity) facts[*count] = cards[*count].facts;
    bti_lock_give(&lock);
    return BT_OK;
}

/* --- instances ---------------------------------------------------------------------------------------------------- */

enum { FIRST_PARTITION = MOST }; /* ordinals of partitions follow those of cards */
static bti_device_facts partitions[MOST];
static nvmlDevice_t partition_handles[MOST];
static int partition_count;

static void add_partition(const bti_device_facts *facts, nvmlDevice_t handle) {
    if (partition_count == MOST) return;
    partition_handles[partition_count] = handle;
    partitions[partition_count] = *facts;
    partitions[partition_count].ordinal = FIRST_PARTITION + partition_count;
    partition_count++;
}

/* Adds the instances of a GPU that MIG splits; empty slots are skipped. */
static void add_instances(const card *parent, nvmlDevice_t device, bti_str *reason) {
    unsigned most = 0;
    if (nvml_failed(bti_nvml.nvmlDeviceGetMaxMigDeviceCount(device, &most), "nvmlDeviceGetMaxMigDeviceCount", reason))
        return;
    for (unsigned i = 0; i < most; i++) {
        nvmlDevice_t instance;
        nvmlMemory_t memory;
        bti_device_facts facts = parent->facts;
        if (bti_nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, i, &instance) != NVML_SUCCESS) continue;
        if (nvml_failed(bti_nvml.nvmlDeviceGetUUID(instance, facts.uuid, sizeof facts.uuid), "NVML, of an instance",
                        reason))
            continue;
        (void)bti_nvml.nvmlDeviceGetName(instance, facts.description, sizeof facts.description);
        facts.memory_bytes =
            bti_nvml.nvmlDeviceGetMemoryInfo(instance, &memory) == NVML_SUCCESS ? (size_t)memory.total : 0;
        add_partition(&facts, instance);
    }
}

/* Lists the partitions in PCI bus order. False: no GPU is split, or it is unknown. */
static bool list_instances(bti_str *reason) {
    unsigned count = 0;
    int found = 0;
    bool any = false;
    card whole[MOST];
    bool split[MOST] = {false};
    partition_count = 0;
    if (!start_nvml(reason) || !bti_nvml.nvmlDeviceGetMaxMigDeviceCount ||
        !bti_nvml.nvmlDeviceGetMigDeviceHandleByIndex)
        return false;
    if (nvml_failed(bti_nvml.nvmlDeviceGetCount(&count), "nvmlDeviceGetCount", reason)) return false;
    for (unsigned i = 0; i < count && found < MOST; i++) found += nvml_card(i, "", &whole[found], &split[i], reason);
    qsort(whole, (size_t)found, sizeof *whole, by_location);
    for (int i = 0; i < found; i++) {
        nvmlDevice_t device;
        if (bti_nvml.nvmlDeviceGetHandleByIndex((unsigned)whole[i].number, &device) != NVML_SUCCESS) continue;
        any |= split[whole[i].number];
        if (split[whole[i].number])
            add_instances(&whole[i], device, reason);
        else
            add_partition(&whole[i].facts, device);
    }
    return any;
}

bt_status bti_cuda_list_partitions(bti_device_facts *facts, int capacity, int *count, bti_str *reason) {
    bti_lock_take(&lock);
    bool split = list_instances(reason);
    *count = partition_count;
    for (int i = 0; split && i < partition_count && i < capacity; i++) facts[i] = partitions[i];
    bti_lock_give(&lock);
    return split ? BT_OK : bti_cuda_probe(1u << BT_GPU, facts, capacity, count, reason);
}

static bt_status find_card(int ordinal, card *found) {
    bti_str reason = {0};
    list_cards(&reason);
    bt_status status = BT_OK;
    if (ordinal >= card_count)
        status = bti_fail(BT_UNAVAILABLE, "GPU %d no longer exists: %s", ordinal, bti_str_text(&reason));
    else
        *found = cards[ordinal];
    bti_str_free(&reason);
    return status;
}

/* libcuda numbers devices by the CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER of the time of cuInit, so a device is identified by its UUID
 * or its PCI bus ID. */
static bt_status match_cuda_ordinal(const card *wanted, int *cuda_ordinal) {
    int count;
    card seen;
    BTI_CUDA_TRY(NULL, cuDeviceGetCount, &count);
    for (*cuda_ordinal = 0; *cuda_ordinal < count; ++*cuda_ordinal) {
        BTI_TRY(cuda_card(*cuda_ordinal, &seen));
        if (!strcasecmp(seen.facts.uuid, wanted->facts.uuid) ||
            !strcmp(seen.facts.pci_bus_id, wanted->facts.pci_bus_id))
            return BT_OK;
    }
    return bti_fail(BT_UNAVAILABLE,
                    "libcuda does not show %s (%s), which NVML lists: was CUDA_VISIBLE_DEVICES changed?",
                    wanted->facts.description, wanted->facts.pci_bus_id);
}

static bt_status find_device(int ordinal, bti_device_facts *facts, int *cuda_ordinal) {
    card found;
    BTI_TRY(start_libcuda());
    BTI_TRY(find_card(ordinal, &found));
    *facts = found.facts;
    *cuda_ordinal = found.number;
    return by_libcuda ? BT_OK : match_cuda_ordinal(&found, cuda_ordinal);
}

bt_status bti_cuda_find(int ordinal, bti_device_facts *facts, int *cuda_ordinal) {
    bti_lock_take(&lock);
    bt_status status = find_device(ordinal, facts, cuda_ordinal);
    bti_lock_give(&lock);
    return status;
}

bt_status bti_cuda_nvml_failed(const char *what, const char *description, nvmlReturn_t result) {
    return bti_fail(result == NVML_ERROR_GPU_IS_LOST ? BT_UNAVAILABLE : BT_UNIMPLEMENTED,
                    "NVML does not report %s %s: %s", what, description, bti_nvml.nvmlErrorString(result));
}

/* NVML's handle of a device or partition, and its description. */
static bt_status find_nvml_handle(int ordinal, const char *what, nvmlDevice_t *device, char description[96]) {
    card asked;
    if (ordinal >= FIRST_PARTITION && ordinal - FIRST_PARTITION < partition_count) {
        *device = partition_handles[ordinal - FIRST_PARTITION];
        memcpy(description, partitions[ordinal - FIRST_PARTITION].description, 96);
        return BT_OK;
    }
    BTI_TRY(find_card(ordinal, &asked));
    memcpy(description, asked.facts.description, 96);
    nvmlReturn_t result = NVML_ERROR_NOT_SUPPORTED;
    if (!by_libcuda) result = bti_nvml.nvmlDeviceGetHandleByIndex((unsigned)asked.number, device);
    if (result == NVML_SUCCESS) return BT_OK;
    return bti_cuda_nvml_failed(what, description, result);
}

static bt_status ask_nvml(int ordinal, const char *what, bti_cuda_nvml_question *ask, void *data) {
    nvmlDevice_t device;
    char description[96];
    bti_str reason = {0};
    bool started = start_nvml(&reason);
    bt_status status = started ? BT_OK : bti_fail(BT_UNIMPLEMENTED, "%s", bti_str_text(&reason));
    bti_str_free(&reason);
    if (status == BT_OK) status = find_nvml_handle(ordinal, what, &device, description);
    return status == BT_OK ? ask(device, description, data) : status;
}

bt_status bti_cuda_ask_nvml(int ordinal, const char *what, bti_cuda_nvml_question *ask, void *data) {
    bti_lock_take(&lock);
    bt_status status = ask_nvml(ordinal, what, ask, data);
    bti_lock_give(&lock);
    return status;
}

void bti_cuda_probe_reset(void) {
    bti_lock_take(&lock);
    if (nvml_ready) (void)bti_nvml.nvmlShutdown();
    listed = nvml_ready = cuda_ready = false;
    card_count = partition_count = 0;
    bti_lock_give(&lock);
}
