#include "cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/lock.h"
#include "base/files.h"
#include "cache/folder.h"

#define FORMAT 2 /* of files, and of what their code expects of its callers */
#define LARGEST ((size_t)16 << 20)
#define DAY_SECONDS (24 * 60 * 60)
/* A process scans the whole folder when it has added 1/64 of the limit, and at about every 64th file, because many short processes
 * may add a little each. */
#define SCAN_PART 64

typedef struct file_header {
    char magic[8];
    uint64_t hash_high, hash_low; /* of all that follows, the object too */
    uint64_t key_high, key_low;
    uint64_t object_bytes;
    uint32_t compiler[3], unused;
} file_header;
static const char magic[8] = "berth.k";
enum { HASHED_FROM = offsetof(file_header, key_high) };

static atomic_uint_fast64_t hits, misses, stores, refused, evictions;
static atomic_uint_fast64_t temporaries, added_bytes;

BTI_STATIC_LOCK(reason_lock, cache_reason) /* of last_reason */
static char last_reason[sizeof((bti_cache_state *)0)->reason];

static const char no_room[] = "the flag cache_bytes is 0: no kernel is kept";

static void set_reason(const char *reason) {
    bti_lock_take(&reason_lock);
    snprintf(last_reason, sizeof last_reason, "%s", reason);
    bti_lock_give(&reason_lock);
}

/* --- keys and names ----------------------------------------------------------------------------------------------- */

bti_cache_key bti_cache_key_of(const bti_str *text, bti_target target, const char *device) {
    char versions[400];
    snprintf(versions, sizeof versions, "%s %d %d %s", BERTH_VERSION, FORMAT, (int)target, device);
    XXH64_hash_t seed = XXH3_64bits(versions, strlen(versions));
    XXH128_hash_t hash = XXH3_128bits_withSeed(bti_str_text(text), text->length, seed);
    return (bti_cache_key){hash.high64, hash.low64};
}

static void kernel_file_name(bti_cache_key key, char name[BTI_CACHE_NAME]) {
    snprintf(name, BTI_CACHE_NAME, "%016llx%016llx", (unsigned long long)key.high, (unsigned long long)key.low);
}

static XXH128_hash_t hash_of_file(const file_header *header, const void *object, size_t bytes) {
    XXH64_hash_t seed = XXH3_64bits((const char *)header + HASHED_FROM, sizeof *header - HASHED_FROM);
    return XXH3_128bits_withSeed(object, bytes, seed);
}

/* The open folder; else -1, with the reason set. */
static int open_cache_folder(bool make) {
    bti_str path = {0}, reason = {0};
    int folder = bti_folder_path(&path, &reason) ? bti_folder_open(path.text, make, &reason) : -1;
    if (folder < 0 && reason.length) set_reason(reason.text);
    bti_str_free(&path);
    bti_str_free(&reason);
    return folder;
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static bool read_fully(int file, char *to, size_t bytes) {
    while (bytes > 0) {
        ssize_t got = read(file, to, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        to += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool is_intact(const char *bytes, size_t size, bti_cache_key key) {
    file_header header;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) || header.object_bytes != size - sizeof header ||
        header.key_high != key.high || header.key_low != key.low)
        return false;
    XXH128_hash_t hash = hash_of_file(&header, bytes + sizeof header, size - sizeof header);
    return hash.high64 == header.hash_high && hash.low64 == header.hash_low;
}

/* False if the file is damaged. When memory is short: true, and nothing is added. */
static bool read_kernel(int file, bti_cache_key key, bti_str *object) {
    struct stat facts;
    if (fstat(file, &facts) || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
        facts.st_size <= (off_t)sizeof(file_header) || facts.st_size > (off_t)(LARGEST + sizeof(file_header)))
        return false;
    size_t size = (size_t)facts.st_size;
    char *bytes = bti_alloc(size);
    if (!bytes) return true;
    bool intact = read_fully(file, bytes, size) && is_intact(bytes, size, key);
    if (intact) bti_str_add_bytes(object, bytes + sizeof(file_header), size - sizeof(file_header));
    bti_free(bytes);
    if (intact && time(NULL) - facts.st_mtime > DAY_SECONDS) futimens(file, NULL); /* marks the use, for eviction */
    return intact;
}

static void delete_refused(int folder, const char *name) {
    atomic_fetch_add(&refused, 1);
    unlinkat(folder, name, 0);
}

bool bti_cache_find(bti_cache_key key, bti_str *object) {
    char name[BTI_CACHE_NAME];
    size_t before = object->length;
    int folder = open_cache_folder(false);
    if (folder >= 0) {
        kernel_file_name(key, name);
        int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0 ? errno == ELOOP : !read_kernel(file, key, object)) delete_refused(folder, name);
        if (file >= 0) close(file);
        close(folder);
    }
    bool found = object->length > before && !object->failed;
    atomic_fetch_add(found ? &hits : &misses, 1);
    return found;
}

void bti_cache_refuse(bti_cache_key key) {
    char name[BTI_CACHE_NAME];
    int folder = open_cache_folder(false);
    if (folder < 0) return;
    kernel_file_name(key, name);
    delete_refused(folder, name);
    close(folder);
}

/* --- storing ------------------------------------------------------------------------------------------------------ */

static bool write_fully(int file, const void *from, size_t bytes) {
    while (bytes > 0) {
        ssize_t written = write(file, from, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        from = (const char *)from + written;
        bytes -= (size_t)written;
    }
    return true;
}

/* A new file with a unique name. */
static int open_temporary(int folder, char name[BTI_CACHE_NAME]) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, BTI_CACHE_NAME, BTI_CACHE_TEMPORARY "%x-%x-%x", (unsigned)getpid(),
             (unsigned)atomic_fetch_add(&temporaries, 1) & 0xffff, (unsigned)now.tv_nsec);
    return openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Atomic: readers see the whole file or none. */
static bool write_kernel(int folder, const char *name, const file_header *header, const bti_str *object) {
    char temporary[BTI_CACHE_NAME];
    BTI_WRITES;
    int file = open_temporary(folder, temporary);
    if (file < 0) return false;
    bool written = write_fully(file, header, sizeof *header) && write_fully(file, object->text, object->length);
    int cause = errno;
    if (close(file) && written) written = false, cause = errno;
    if (written && renameat(folder, temporary, folder, name)) written = false, cause = errno;
    if (!written) unlinkat(folder, temporary, 0);
    errno = cause;
    return written;
}

static void keep_bounded(int folder, bti_cache_key key, size_t limit, size_t bytes) {
    uint64_t added = atomic_fetch_add(&added_bytes, bytes) + bytes;
    if (added <= limit / SCAN_PART && key.low % SCAN_PART) return;
    atomic_store(&added_bytes, 0);
    bti_cache_contents contents = bti_folder_evict(folder, limit);
    atomic_fetch_add(&evictions, contents.evicted);
}

void bti_cache_store(bti_cache_key key, const bti_str *object, const unsigned compiler[3]) {
    char name[BTI_CACHE_NAME];
    size_t limit = bti_flag_bytes(BTI_FLAG_cache_bytes), bytes = sizeof(file_header) + object->length;
    if (limit == 0) set_reason(no_room);
    if (object->length == 0 || object->length > LARGEST || bytes > limit) return;
    file_header header = {.key_high = key.high, .key_low = key.low, .object_bytes = object->length};
    memcpy(header.magic, magic, sizeof magic);
    for (int i = 0; i < 3; i++) header.compiler[i] = compiler[i];
    XXH128_hash_t hash = hash_of_file(&header, object->text, object->length);
    header.hash_high = hash.high64;
    header.hash_low = hash.low64;
    int folder = open_cache_folder(true);
    if (folder < 0) return;
    kernel_file_name(key, name);
    if (write_kernel(folder, name, &header, object)) {
        atomic_fetch_add(&stores, 1);
        set_reason("");
        keep_bounded(folder, key, limit, bytes);
    } else {
        char text[200];
        snprintf(text, sizeof text, "a kernel could not be written: %s", strerror(errno));
        set_reason(text);
    }
    close(folder);
}

/* --- state -------------------------------------------------------------------------------------------------------- */

static void attempt_folder(bti_cache_state *state) {
    char name[BTI_CACHE_NAME], text[200];
    set_reason("");
    int folder = open_cache_folder(true);
    if (folder < 0) return;
    int file = open_temporary(folder, name);
    if (file < 0) {
        snprintf(text, sizeof text, "it is read, but not written: %s", strerror(errno));
        set_reason(text);
    } else {
        close(file);
        unlinkat(folder, name, 0);
    }
    size_t limit = bti_flag_bytes(BTI_FLAG_cache_bytes);
    if (limit == 0) set_reason(no_room);
    bti_cache_contents contents = bti_folder_evict(folder, limit);
    state->files = contents.files;
    state->bytes = contents.bytes;
    close(folder);
}

void bti_cache_look(bti_cache_state *state, bool attempt) {
    bti_str path = {0}, reason = {0};
    *state = (bti_cache_state){.hits = hits, .misses = misses, .stores = stores, .refused = refused};
    if (bti_folder_path(&path, &reason)) {
        snprintf(state->folder, sizeof state->folder, "%s", path.text);
        if (attempt) attempt_folder(state);
    } else {
        set_reason(bti_str_text(&reason));
    }
    state->evictions = evictions;
    bti_str_free(&path);
    bti_str_free(&reason);
    bti_lock_take(&reason_lock);
    memcpy(state->reason, last_reason, sizeof last_reason);
    bti_lock_give(&reason_lock);
}

void bti_cache_reset(void) {
    atomic_uint_fast64_t *const counters[] = {&hits, &misses, &stores, &refused, &evictions, &added_bytes};
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) atomic_store(counters[i], 0);
    set_reason("");
    bti_folder_reset();
}
