/* A file per driver and kinds in the folder of the disk cache:
 *     berth 1 <kinds> <good|bad> <machine's boot> <hash of the environment>
 *     the reason, one line
 *     <bytes> <seconds of its last change> <path of a library that was loaded>, one a line */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "base/files.h"
#include "base/file_text.h"
#include "device/verdict.h"
#include "cache/folder.h"

#define MOST_BYTES 65536

static int open_folder(bool make) {
    bti_str path = {0}, reason = {0};
    int folder = bti_folder_path(&path, &reason) ? bti_folder_open(bti_str_text(&path), make, &reason) : -1;
    bti_str_free(&path);
    bti_str_free(&reason);
    return folder;
}

static bool is_read_by_libraries(const char *variable) {
    static const char *const beginnings[] = {"LD_",  "CUDA", "NVIDIA", "OCL_", "OPENCL",    "POCL",
                                             "HSA_", "ROC",  "TPU_",   "PJRT", "BERTH_FAKE"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (!strncmp(variable, beginnings[i], strlen(beginnings[i]))) return true;
    return false;
}

static uint64_t environment_hash(void) {
    uint64_t hash = 0;
    for (char **variable = environ; variable && *variable; variable++)
        if (is_read_by_libraries(*variable)) hash += XXH3_64bits(*variable, strlen(*variable)); /* in any order */
    static const bti_flag read[] = {BTI_FLAG_cuda_path, BTI_FLAG_pjrt_plugins};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        char *value = bti_flag_text(read[i]);
        if (value) hash += XXH3_64bits_withSeed(value, strlen(value), i);
        bti_free(value);
    }
    return hash;
}

static void add_head(bti_str *text, unsigned kinds, bti_verdict verdict) {
    char boot[40];
    if (!bti_file_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) strcpy(boot, "unknown");
    boot[strcspn(boot, "\n")] = '\0';
    bti_str_addf(text, "berth 1 %u %s %s %016" PRIx64 "\n", kinds, verdict == BTI_GOOD ? "good" : "bad", boot,
                 environment_hash());
}

static bool add_library(bti_str *text, const char *path) {
    struct stat facts;
    if (stat(path, &facts)) return false;
    bti_str_addf(text, "%lld %lld %s\n", (long long)facts.st_size, (long long)facts.st_mtime, path);
    return true;
}

static bool read_file(const char *driver, unsigned kinds, char *text) {
    char name[64];
    int folder = open_folder(false);
    if (folder < 0) return false;
    snprintf(name, sizeof name, "probe-%s-%u", driver, kinds);
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    close(folder);
    if (file < 0) return false;
    ssize_t length = read(file, text, MOST_BYTES - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 && length < MOST_BYTES - 1;
}

/* Every library is the file that it was. */
static bool libraries_hold(const char *lines) {
    while (*lines) {
        char path[4096];
        size_t length = strcspn(lines, "\n");
        long long bytes, changed;
        int at = 0;
        struct stat facts;
        if (sscanf(lines, "%lld %lld %n", &bytes, &changed, &at) != 2 || !at || length - (size_t)at >= sizeof path)
            return false;
        memcpy(path, lines + at, length - (size_t)at);
        path[length - (size_t)at] = '\0';
        if (stat(path, &facts) || facts.st_size != bytes || facts.st_mtime != changed) return false;
        lines += length + (lines[length] == '\n');
    }
    return true;
}

bti_verdict bti_verdict_find(const char *driver, unsigned kinds, bti_str *reason) {
    char *text = bti_alloc(MOST_BYTES);
    bti_verdict found = BTI_NO_VERDICT;
    if (!text) return found;
    for (int v = BTI_GOOD; v <= BTI_BAD && read_file(driver, kinds, text); v++) {
        bti_str head = {0};
        add_head(&head, kinds, (bti_verdict)v);
        size_t length = head.length;
        bool same = !head.failed && !strncmp(text, bti_str_text(&head), length);
        bti_str_free(&head);
        if (!same) continue;
        size_t line = strcspn(text + length, "\n");
        if (!text[length + line] || !libraries_hold(text + length + line + 1)) break;
        bti_str_add_bytes(reason, text + length, line);
        found = (bti_verdict)v;
        break;
    }
    bti_free(text);
    return found;
}

static void add_libraries(bti_str *text, const char *maps) {
    const char *last = "";
    size_t last_length = 0;
    for (const char *line = maps; *line;) {
        size_t length = strcspn(line, "\n");
        const char *path = memchr(line, '/', length);
        size_t path_length = path ? (size_t)(line + length - path) : 0;
        if (path && (path_length != last_length || strncmp(path, last, path_length) != 0)) {
            char *copy = bti_alloc(path_length + 1);
            if (copy) {
                memcpy(copy, path, path_length);
                copy[path_length] = '\0';
                if (strstr(copy, ".so")) (void)!add_library(text, copy);
            }
            bti_free(copy);
            last = path;
            last_length = path_length;
        }
        line += length + (line[length] == '\n');
    }
}

void bti_verdict_keep(const char *driver, unsigned kinds, bti_verdict verdict, const char *reason, const char *maps) {
    char name[64], temporary[96];
    if (!*maps) return; /* of a crash nothing is known that could hold */
    int folder = open_folder(true);
    if (folder < 0) return;
    bti_str text = {0};
    add_head(&text, kinds, verdict);
    bti_str_addf(&text, "%s\n", reason);
    add_libraries(&text, maps);
    snprintf(name, sizeof name, "probe-%s-%u", driver, kinds);
    snprintf(temporary, sizeof temporary, "%s.%ld", name, (long)getpid());
    int file = text.failed || text.length >= MOST_BYTES
                   ? -1
                   : openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0) {
        BTI_WRITES;
        bool written = write(file, text.text, text.length) == (ssize_t)text.length;
        written = !close(file) && written;
        if (!written || renameat(folder, temporary, folder, name)) unlinkat(folder, temporary, 0);
    }
    bti_str_free(&text);
    close(folder);
}
