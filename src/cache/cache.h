/* Compiled kernels on disk, for this process and later ones: one file each, in a folder of the user. The flags `cache` and
 * `cache_bytes` set the path and the size. Nothing here fails: if something is wrong with the folder or a file, a kernel is not found
 * or not kept, and the state has the reason. Any thread, any number of processes. */
#ifndef BTI_CACHE_CACHE_H
#define BTI_CACHE_CACHE_H

#include "base/str.h"
#include "launch/functions.h"

typedef struct bti_cache_key {
    uint64_t high, low;
} bti_cache_key;

/* The key of a kernel's text for a target, a `device` and this version of berth. Devices that cannot load each other's objects have
 * different texts `device`; for CPUs it is "" (without LLVM's version, so that a kernel is found without opening LLVM). */
bti_cache_key bti_cache_key_of(const bti_str *text, bti_target target, const char *device);

/* Appends the object of the key; false when there is none. A damaged file is deleted. */
bool bti_cache_find(bti_cache_key key, bti_str *object);
/* Stores an object; the least recently used ones are evicted. `compiler`: its version, for information. */
void bti_cache_store(bti_cache_key key, const bti_str *object, const unsigned compiler[3]);
/* Deletes the object of the key, because it turned out to be unusable. */
void bti_cache_refuse(bti_cache_key key);

typedef struct bti_cache_state {
    char folder[1024];                                 /* cut to fit; "" when there is none */
    char reason[400];                                  /* why the last use failed; "" if it did not */
    uint64_t hits, misses, stores, refused, evictions; /* of this process; refused: damaged or unusable files */
    uint64_t files, bytes;                             /* in the folder; only with `attempt` */
} bti_cache_state;

/* The state. `attempt`: creates the folder if it is missing, tries to write there and counts its contents. */
void bti_cache_look(bti_cache_state *state, bool attempt);

/* For tests: resets all counters; the environment is read again at the next use. */
void bti_cache_reset(void);

#endif
