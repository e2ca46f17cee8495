/* Where plugins lie: what the flag names, or Google's libtpu at its usual places. Looks at files, opens none. */
#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file_text.h"
#include "base/flags.h"
#include "base/quote.h"
#include "drivers/pjrt/device.h"

#define LIBRARY "libtpu.so"

/* --- the flag: "tpu:PATH;acc:PATH" ------------------------------------------------------------------------------------- */

static bool read_kind(const char **text, bt_kind *kind) {
    static const bt_kind kinds[] = {BT_TPU, BT_ACC};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *name = bti_kind_name(kinds[k]);
        size_t length = strlen(name);
        if (strncasecmp(*text, name, length) != 0 || (*text)[length] != ':') continue;
        *text += length + 1;
        *kind = kinds[k];
        return true;
    }
    return false;
}

/* Why nothing of the flag counts; NULL: it is well formed. */
static const char *add_named(const char *item, size_t length, bti_pjrt_named *named, int *count) {
    const char *path = item;
    bti_pjrt_named one;
    if (!length) return "there is nothing between two ; or at an end";
    if (!read_kind(&path, &one.kind)) return "a plugin is named by the kind of its devices, tpu: or acc:, and its path";
    length -= (size_t)(path - item);
    if (!length) return "there is no path behind the kind";
    if (length >= sizeof one.path) return "a path is too long";
    memcpy(one.path, path, length);
    one.path[length] = '\0';
    for (int i = 0; i < *count; i++)
        if (!strcmp(named[i].path, one.path)) return "a path is named twice";
    if (*count == BTI_PJRT_PLUGINS) return "it names more than 32 plugins";
    named[(*count)++] = one;
    return NULL;
}

static int parse(const char *flag, bti_pjrt_named *named, bti_str *reason) {
    int count = 0;
    for (const char *item = flag;; item++) {
        size_t length = strcspn(item, ";");
        const char *wrong = add_named(item, length, named, &count);
        if (wrong) {
            bti_str_addf(reason, "pjrt: flag pjrt_plugins=\"%s\": %s\n", bti_quote(flag).text, wrong);
            return 0;
        }
        item += length;
        if (!*item) return count;
    }
}

/* --- libtpu ------------------------------------------------------------------------------------------------------------ */

/* "accel0" in /dev, or "0" in /dev/vfio. */
static bool has_numbered_file(const char *folder, const char *beginning) {
    DIR *listing = opendir(folder);
    bool found = false;
    size_t length = strlen(beginning);
    for (struct dirent *row; listing && !found && (row = readdir(listing));)
        found = !strncmp(row->d_name, beginning, length) && row->d_name[length] >= '0' && row->d_name[length] <= '9';
    if (listing) closedir(listing);
    return found;
}

static bool has_tpu_files(void) { return has_numbered_file("/dev", "accel") || has_numbered_file("/dev/vfio", ""); }

/* Google's machines have a metadata server. Where the firmware's tables cannot be read, the machine may be one of them. */
bool bti_pjrt_may_be_on_cloud(void) {
    char name[64];
    if (!has_tpu_files()) return false;
    return !bti_file_text("/sys/class/dmi/id/product_name", name, sizeof name) || strstr(name, "Google");
}

static bool take_path(const char *path, bti_pjrt_named *named) {
    if (strlen(path) >= sizeof named->path || access(path, R_OK) != 0) return false;
    *named = (bti_pjrt_named){.kind = BT_TPU};
    memcpy(named->path, path, strlen(path) + 1);
    return true;
}

/* The first file that matches, below the folder of a Python's packages. */
static bool find_in_packages(const char *prefix, bti_pjrt_named *named) {
    static const char *const places[] = {
        "lib/python3*/site-packages/libtpu/" LIBRARY,        "lib/python3*/dist-packages/libtpu/" LIBRARY,
        "lib/python3/dist-packages/libtpu/" LIBRARY,         "local/lib/python3*/dist-packages/libtpu/" LIBRARY,
        "lib/python3*/site-packages/jax_plugins/*tpu*/*.so", "lib/" LIBRARY};
    bool found = false;
    for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
        char pattern[BTI_PJRT_PATH];
        glob_t matches = {0};
        if (snprintf(pattern, sizeof pattern, "%s/%s", prefix, places[i]) >= (int)sizeof pattern) continue;
        if (glob(pattern, 0, NULL, &matches) == 0 && matches.gl_pathc) found = take_path(matches.gl_pathv[0], named);
        globfree(&matches);
    }
    return found;
}

/* Of the Python that the shell would find: PATH has its folder `bin`. */
static bool find_by_path(bti_pjrt_named *named) {
    const char *path = getenv("PATH");
    for (const char *folder = path; folder && *folder; folder += *folder == ':') {
        char file[BTI_PJRT_PATH];
        size_t length = strcspn(folder, ":");
        bool fits = length && length + sizeof "/python3" <= sizeof file;
        if (fits) snprintf(file, sizeof file, "%.*s/python3", (int)length, folder);
        folder += length;
        if (!fits || access(file, X_OK) != 0) continue;
        file[strlen(file) - sizeof "/python3" + 1] = '\0';
        char *end = strrchr(file, '/');
        if (!end || strcmp(end, "/bin") != 0) continue;
        *end = '\0';
        if (find_in_packages(file, named)) return true;
    }
    return false;
}

static bool find_in_home(bti_pjrt_named *named) {
    char folder[BTI_PJRT_PATH];
    const char *home = getenv("HOME");
    if (!home || snprintf(folder, sizeof folder, "%s/.local", home) >= (int)sizeof folder) return false;
    return find_in_packages(folder, named);
}

static bool find_libtpu(bti_pjrt_named *named) {
    const char *path = getenv("TPU_LIBRARY_PATH"), *environment = getenv("VIRTUAL_ENV");
    if (path && *path) return take_path(path, named);
    return (environment && find_in_packages(environment, named)) || find_by_path(named) || find_in_home(named) ||
           find_in_packages("/usr", named) || find_in_packages("/usr/local", named);
}

static int search_default(unsigned kinds, bti_pjrt_named *named, bti_str *reason) {
    if (!(kinds & 1u << BT_TPU)) return 0;
    if (!has_tpu_files()) {
        bti_str_add(reason,
                    "pjrt: no TPU: there is no /dev/accel0, /dev/vfio/0 or the like, so no plugin was opened (the "
                    "flag pjrt_plugins names one)\n");
        return 0;
    }
    if (find_libtpu(named)) return 1;
    bti_str_add(reason,
                "pjrt: " LIBRARY " was not found: not at TPU_LIBRARY_PATH, nor among the packages of the Python "
                "on PATH; pip install libtpu, or name it by the flag pjrt_plugins=tpu:PATH\n");
    return 0;
}

int bti_pjrt_search(unsigned kinds, bti_pjrt_named *named, bti_str *reason) {
    char *flag = bti_flag_text(BTI_FLAG_pjrt_plugins);
    int count = 0, kept = 0;
    if (flag && !*flag)
        count = search_default(kinds, named, reason);
    else if (flag && strcmp(flag, "none") != 0)
        count = parse(flag, named, reason);
    bti_free(flag);
    for (int i = 0; i < count; i++)
        if (kinds & 1u << named[i].kind) named[kept++] = named[i];
    return kept;
}
