#include "task/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/files.h"
#include "task/process.h"

enum { LEAST_ORDER = 12, TRIM_BYTES = 64 << 20 /* at once */ };

/* --- the file ------------------------------------------------------------------------------------------------------------- */

static int open_file(const char *folder) {
    char path[sizeof((bti_state *)0)->spill_folder + 16];
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
    snprintf(path, sizeof path, "%s/berth-XXXXXX", folder);
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0) unlink(path);
    return file;
}

bt_status bti_spill_open(bti_state *state, const char *folder, uint64_t limit) {
    struct statvfs disk;
    if (!folder) folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    if (strlen(folder) >= sizeof state->spill_folder)
        return bti_fail(BT_INVALID_ARGUMENT, "the path of the folder to spill to has more than %zu bytes",
                        sizeof state->spill_folder - 1);
    strcpy(state->spill_folder, folder);
    state->spill_file = bti_file_above_standard(open_file(folder));
    state->spill_errno = state->spill_file < 0 ? errno : 0;
    bti_file_identity file;
    if (state->spill_file >= 0 && bti_file_know(&file, state->spill_file))
        state->spill_device = file.device, state->spill_inode = file.inode;
    if (!limit && state->spill_file >= 0 && fstatvfs(state->spill_file, &disk) == 0)
        limit = (uint64_t)disk.f_bavail * disk.f_frsize / 2;
    state->spill_limit = state->spill_file < 0 ? 0 : limit;
    return BT_OK;
}

static bool has_file(const bti_state *state) {
    const bti_file_identity file = {state->spill_file, state->spill_device, state->spill_inode};
    return bti_file_is_same(&file);
}

static bt_status check_file(const bti_state *state) {
    return has_file(state)
               ? BT_OK
               : bti_fail(BT_FAILED_PRECONDITION,
                          "a value lies on disk (in %s), but this process has closed the file of the runtime",
                          state->spill_folder);
}

void bti_spill_close(bti_state *state) {
    if (has_file(state)) close(state->spill_file);
    state->spill_file = -1;
}

bt_status bti_spill_write(const bti_state *state, const bti_slot *slot, const char *value) {
    BTI_WRITES;
    BTI_TRY(check_file(state));
    for (uint64_t done = 0; done < slot->bytes;) {
        ssize_t length = pwrite(state->spill_file, value + done, slot->bytes - done, (off_t)(slot->at + done));
        if (length < 0 && errno == EINTR) continue;
        if (length <= 0)
            return bti_fail(BT_RESOURCE_EXHAUSTED, "%llu bytes could not be written to %s: %s",
                            (unsigned long long)slot->bytes, state->spill_folder, strerror(errno));
        done += (uint64_t)length;
    }
    return BT_OK;
}

bt_status bti_spill_read(const bti_state *state, const bti_slot *slot, char *value) {
    BTI_TRY(check_file(state));
    for (uint64_t done = 0; done < slot->bytes;) {
        ssize_t length = pread(state->spill_file, value + done, slot->bytes - done, (off_t)(slot->at + done));
        if (length < 0 && errno == EINTR) continue;
        if (length <= 0)
            return bti_fail(BT_INTERNAL, "a value of %llu bytes could not be read back from %s: %s",
                            (unsigned long long)slot->bytes, state->spill_folder,
                            length ? strerror(errno) : "the file is shorter");
        done += (uint64_t)length;
    }
    return BT_OK;
}

/* --- slots ---------------------------------------------------------------------------------------------------------------- */

static bti_slot *new_slot(bti_state *state, uint32_t order) {
    bti_slot *slot = bti_record_new(state->arena, BTI_SLOTS);
    if (!slot) return NULL;
    slot->order = order;
    slot->at = state->store->file_end;
    BTI_SET(state->arena, state->store->file_end, slot->at + ((uint64_t)1 << order));
    return slot;
}

bti_slot *bti_slot_take(bti_state *state, uint64_t bytes) {
    bti_store *store = state->store;
    uint32_t order = LEAST_ORDER;
    while (((uint64_t)1 << order) < bytes) order++;
    if (state->spill_file < 0 || order >= BTI_ORDERS ||
        state->spilled_bytes + store->dirty_bytes + bytes > state->spill_limit)
        return NULL;
    bti_slot *slot = store->slots[order];
    if (slot)
        BTI_SET(state->arena, store->slots[order], slot->next);
    else if (!(slot = new_slot(state, order)))
        return NULL;
    BTI_SET(state->arena, slot->bytes, bytes);
    BTI_SET(state->arena, state->spilled_bytes, state->spilled_bytes + bytes);
    BTI_SET(state->arena, state->spilled_count, state->spilled_count + 1);
    return slot;
}

void bti_slot_give(bti_state *state, bti_slot *slot) {
    bti_arena *arena = state->arena;
    BTI_SET(arena, state->spilled_bytes, state->spilled_bytes - slot->bytes);
    BTI_SET(arena, state->spilled_count, state->spilled_count - 1);
    BTI_SET(arena, state->store->dirty_bytes, state->store->dirty_bytes + slot->bytes);
    BTI_SET(arena, slot->dirty, slot->bytes);
    BTI_SET(arena, slot->record.turn, arena->turn);
    BTI_SET(arena, slot->next, state->store->dirty);
    BTI_SET(arena, state->store->dirty, slot);
}

/* A slot that was freed since the last commit is left alone: that change may be taken back. */
bool bti_slot_trim(bti_state *state) {
    bti_slot *slot = state->store->dirty;
    if (!slot || slot->record.turn == state->arena->turn) return false;
    uint64_t left = slot->dirty > TRIM_BYTES ? slot->dirty - TRIM_BYTES : 0, end = (slot->dirty + 4095) / 4096 * 4096;
    while (has_file(state) &&
           fallocate(state->spill_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(slot->at + left),
                     (off_t)(end - left)) < 0 &&
           errno == EINTR)
        continue; /* a file system without holes keeps the room for the next value */
    BTI_SET(state->arena, state->store->dirty_bytes, state->store->dirty_bytes - (slot->dirty - left));
    BTI_SET(state->arena, slot->dirty, left);
    if (left) return true;
    BTI_SET(state->arena, state->store->dirty, slot->next);
    BTI_SET(state->arena, slot->next, state->store->slots[slot->order]);
    BTI_SET(state->arena, state->store->slots[slot->order], slot);
    return true;
}
