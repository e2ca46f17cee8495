#include "task/gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/quote.h"
#include "device/cards.h"
#include "device/device.h"
#include "device/visibility.h"
#include "lease/take.h"

/* --- a clean process -------------------------------------------------------------------------------------------------- */

/* A library that has begun to use a GPU holds its file open; being linked to one does no harm. */
static bool is_device(const char *number) {
    static const char *const files[] = {"/dev/nvidia", "/dev/kfd", "/dev/dri/render"};
    char link[300], path[128];
    snprintf(link, sizeof link, "/proc/self/fd/%s", number);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strncmp(path, files[i], strlen(files[i]))) return true;
    return false;
}

bool bti_gpus_are_unused(void) {
    bool used = bti_devices_asked();
    DIR *files = opendir("/proc/self/fd");
    for (struct dirent *row; !used && files && (row = readdir(files)) != NULL;) used = is_device(row->d_name);
    if (files) closedir(files);
    return !used;
}

/* --- what a mask names ------------------------------------------------------------------------------------------------ */

typedef enum entry_kind { NUMBER, UUID, MIG } entry_kind;

static bool same_entry(const char *a, const char *b) { return !strcasecmp(a, b); }

/* An entry without the blanks around it; false: it is too long for one. */
static bool cut_entry(const char *from, size_t length, char *entry) {
    while (length && isspace((unsigned char)*from)) from++, length--;
    while (length && isspace((unsigned char)from[length - 1])) length--;
    if (length >= BTI_GPU_NAME) return false;
    memcpy(entry, from, length);
    entry[length] = '\0';
    return true;
}

/* False: it ends the list. */
static bool read_entry(const char *entry, entry_kind *kind, int *number) {
    enum { ANY = 1 << 16 }; /* any number will do: how many there are is not asked here */
    *kind = !strncasecmp(entry, "GPU-", 4) ? UUID : !strncasecmp(entry, "MIG-", 4) ? MIG : NUMBER;
    return *kind != NUMBER ? entry[4] != '\0' : bti_visible_devices(entry, NULL, ANY, number) == 1;
}

int bti_gpus_of_mask(const char *mask, int32_t *numbers, char (*names)[BTI_GPU_NAME], int capacity) {
    entry_kind first = NUMBER, kind;
    int count = 0, number = 0;
    for (const char *at = mask;; at++) {
        char entry[BTI_GPU_NAME];
        size_t length = strcspn(at, ",");
        if (!cut_entry(at, length, entry) || !read_entry(entry, &kind, &number)) return count;
        if (count == 0) first = kind;
        if (kind != first) return count;
        for (int i = 0; i < count; i++)
            if (kind == NUMBER ? numbers[i] == number : same_entry(names[i], entry)) return 0;
        if (count == capacity) return count;
        numbers[count] = kind == NUMBER ? number : count;
        if (kind == NUMBER)
            snprintf(names[count], BTI_GPU_NAME, "%d", number);
        else
            memcpy(names[count], entry, sizeof entry);
        count++;
        at += length;
        if (!*at) return count;
    }
}

/* --- counting --------------------------------------------------------------------------------------------------------- */

/* AMD and Intel take numbers, UUIDs and parts of a GPU ("0.1") in one list; an entry that is no number is known by its place. */
static int name_entries(bti_state *state, const char *list) {
    int count = 0;
    for (const char *at = list; count < BTI_MOST_GPUS; at++) {
        char *name = state->gpu_name[count];
        size_t length = strcspn(at, ",");
        if (!cut_entry(at, length, name) || (!isdigit((unsigned char)*name) && strncasecmp(name, "GPU-", 4))) break;
        state->gpu_number[count] = name[strspn(name, "0123456789")] ? count : atoi(name);
        count++;
        at += length;
        if (!*at) break;
    }
    return count;
}

/* Those that the environment shows, whether or not they are there; how many. */
static int name_shown(bti_state *state, const char *mask) {
    if (mask && (state->gpu_vendor == BTI_INTEL || state->gpu_vendor == BTI_AMD)) return name_entries(state, mask);
    if (mask) return bti_gpus_of_mask(mask, state->gpu_number, state->gpu_name, BTI_MOST_GPUS);
    for (int g = 0; g < BTI_MOST_GPUS; g++) {
        state->gpu_number[g] = g;
        snprintf(state->gpu_name[g], BTI_GPU_NAME, "%d", g);
    }
    return BTI_MOST_GPUS;
}

/* Those of the machine among them, which come first: an entry of the mask that is no device ends it. */
static int find_machine_cards(bti_card *cards, int shown) {
    int count;
    if (bti_cards_ask(cards, BTI_MOST_GPUS, &count) != BT_OK) {
        bti_log("no GPU of the machine is counted: %s", bt_error_text());
        bt_error_clear();
    }
    return count < shown ? count : shown;
}

/* Without a mask GPUs are named by numbers, except where MIG has split one. */
static void name_by_uuid(bti_state *state, const bti_card *cards, int there) {
    for (int g = 0; g < there; g++) memcpy(state->gpu_name[g], cards[g].name, sizeof cards[g].name);
}

/* Notes facts of the GPUs that the runtime has; `chosen`: which of the cards they are, NULL: the first. */
static void note_cards(bti_state *state, const bti_card *cards, int there, const bool *chosen) {
    int place[BTI_MOST_GPUS], count = 0;
    for (int g = 0; g < there && count < state->gpu_count; g++)
        if (!chosen || chosen[g]) place[count++] = g;
    for (int i = 0; i < count; i++) {
        const bti_card *card = &cards[place[i]];
        state->gpu_bytes[i] = card->memory_bytes;
        memcpy(state->gpu_model[i], card->model, sizeof card->model);
        for (int j = 0; j < count; j++) state->gpu_linked[i] |= (card->linked >> place[j] & 1) << j;
    }
}

/* Moves the chosen ones of the first `there` GPUs, which are of the machine, to the front. */
static void keep_chosen(bti_state *state, int there, const bool *chosen) {
    int kept = 0;
    for (int g = 0; g < there; g++) {
        if (!chosen[g]) continue;
        state->gpu_number[kept] = state->gpu_number[g];
        memmove(state->gpu_name[kept++], state->gpu_name[g], BTI_GPU_NAME);
    }
}

static bt_status take_leases(bti_state *state, const bti_card *cards, int there, double wait_seconds) {
    static bti_lease_gpu gpus[BTI_LEASE_MOST_GPUS];
    bool chosen[BTI_LEASE_MOST_GPUS];
    int wanted = state->gpu_count < there ? state->gpu_count : there;
    if (state->lease_file_count + wanted > BTI_MOST_LEASE_FILES)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "bt_runtime_init: this process has %d lock files of leases open",
                        state->lease_file_count);
    for (int g = 0; g < there; g++) {
        gpus[g] = (bti_lease_gpu){.memory_bytes = cards[g].memory_bytes, .id = state->gpu_number[g]};
        memcpy(gpus[g].name, cards[g].name, sizeof gpus[g].name);
    }
    BTI_TRY(bti_lease_take_for_runtime(gpus, there, wanted, wait_seconds, chosen,
                                       state->lease_files + state->lease_file_count));
    state->leases_taken = wanted;
    state->lease_file_count += wanted;
    keep_chosen(state, there, chosen);
    note_cards(state, cards, there, chosen);
    return BT_OK;
}

bt_status bti_gpus_count(bti_state *state, int asked, double wait_seconds) {
    static bti_card cards[BTI_MOST_GPUS];
    if (asked < BT_DETECT || asked > BTI_MOST_GPUS)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_runtime_init: num_gpus is %d; it can be 0 to %d, or BT_DETECT", asked,
                        BTI_MOST_GPUS);
    state->gpu_vendor = (int32_t)(asked ? bti_cards_vendor() : BTI_NVIDIA);
    bti_mask mask = bti_mask_of((bti_vendor)state->gpu_vendor);
    int shown = name_shown(state, mask.list);
    if (asked > shown)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_runtime_init: num_gpus is %d, but %s=\"%s%s\" shows %d", asked,
                        mask.variable, mask.prefix, bti_quote(mask.list).text, shown);
    state->lease_file_count = bti_lease_find_open(state->lease_files, BTI_MOST_LEASE_FILES);
    int there = asked == BT_DETECT || (asked && bti_cards_likely()) ? find_machine_cards(cards, shown) : 0;
    state->gpu_count = asked == BT_DETECT ? there : asked;
    if (!mask.list && bti_cards_are_split(cards, there)) name_by_uuid(state, cards, there);
    state->gpu_users_listed = state->gpu_count && bti_cards_list_users();
    note_cards(state, cards, cards[0].simulated ? there : 0, NULL);
    if (!there || cards[0].simulated)
        return BT_OK; /* simulated ones are just numbers: another program may have the same */
    return take_leases(state, cards, there, wait_seconds);
}

void bti_gpus_leave(const bti_state *state) {
    for (int i = state->lease_file_count - state->leases_taken; i < state->lease_file_count; i++)
        close(state->lease_files[i]);
}
