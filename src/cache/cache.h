/* Compiled kernels on disk, for this process and those after it: one file each, in a folder of the user's own. The flags
 * `cache` and `cache_bytes` say where, and how much. Whatever is wrong with the folder or a file, a kernel is then not found, or
 * not kept, and a reason stands in the state: nothing here fails. Any thread, any number of processes. */
#ifndef BTI_CACHE_CACHE_H
#define BTI_CACHE_CACHE_H

#include "base/str.h"
#include "launch/functions.h"

typedef struct bti_cache_key {
    uint64_t high, low;
} bti_cache_key;

/* Of a kernel's text for a target and a `device`, whatever tells apart what cannot load each other's objects ("" for CPUs: not
 * even LLVM's version, which need not be open to find a kernel), and of this version of berth. */
bti_cache_key bti_cache_key_of(const bti_str *text, bti_target target, const char *device);

/* Adds the object kept under the key; false when there is none. A file that is damaged is deleted. */
bool bti_cache_find(bti_cache_key key, bti_str *object);
/* Keeps an object; what was used longest ago goes when room is short. `compiler`: its version, for whoever looks. */
void bti_cache_store(bti_cache_key key, const bti_str *object, const unsigned compiler[3]);
/* What was found under the key is no good after all. */
void bti_cache_refuse(bti_cache_key key);

typedef struct bti_cache_state {
    char folder[1024]; /* cut to fit; "" when there is none */
    char reason[400];  /* why it could not be used last time; "" when nothing was wrong */
    uint64_t hits, misses, stores, refused, evictions; /* of this process; refused: damaged files */
    uint64_t files, bytes;                             /* in the folder, when asked for */
} bti_cache_state;

/* How things stand. `attempt`: makes the folder if it is missing, tries to write there and counts what is in it. */
void bti_cache_look(bti_cache_state *state, bool attempt);

/* For tests: everything as at the start; the environment is read again at the next use. */
void bti_cache_reset(void);

#endif
