/* Where tests look for NVIDIA's compiler, NVRTC 12 or 13: in the folder BERTH_NVRTC, by the loader, in /usr/local/cuda*, in this order. */
#ifndef BERTH_TESTS_SUPPORT_FIND_NVRTC_H
#define BERTH_TESTS_SUPPORT_FIND_NVRTC_H

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct found_nvrtc {
    char path[1024];
    int major, minor;
} found_nvrtc;

/* A path, or a name for the loader. The stub of the fake machine is none. */
static inline bool try_nvrtc(const char *name, found_nvrtc *found) {
    struct link_map *map;
    int (*version)(int *major, int *minor);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    *(void **)(void *)&version = dlsym(library, "nvrtcVersion");
    bool usable = version && !dlinfo(library, RTLD_DI_LINKMAP, &map) && !strstr(map->l_name, "/fakes/") &&
                  strlen(map->l_name) < sizeof found->path && !version(&found->major, &found->minor);
    if (usable) snprintf(found->path, sizeof found->path, "%s", map->l_name);
    dlclose(library);
    return usable;
}

static inline bool try_nvrtc_pattern(const char *pattern, found_nvrtc *found) {
    glob_t paths = {0};
    bool usable = false;
    glob(pattern, 0, NULL, &paths);
    for (size_t i = paths.gl_pathc; i-- > 0 && !usable;)
        usable = try_nvrtc(paths.gl_pathv[i], found); /* the newest first */
    globfree(&paths);
    return usable;
}

static inline bool find_nvrtc(found_nvrtc *found) {
    char own[1024];
    const char *folder = getenv("BERTH_NVRTC");
    if (folder) {
        snprintf(own, sizeof own, "%s/libnvrtc.so.1[23]", folder);
        if (try_nvrtc_pattern(own, found)) return true;
    }
    return try_nvrtc("libnvrtc.so.13", found) || try_nvrtc("libnvrtc.so.12", found) ||
           try_nvrtc_pattern("/usr/local/cuda*/lib64/libnvrtc.so.1[23]", found);
}

#endif
