#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "drivers/cpu/cpu.h"

#define NO_LIMIT SIZE_MAX

/* "MemTotal:  123 kB" and the like; 0 when the line is not there. */
static size_t meminfo(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at ? (size_t)strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

static bool read_file(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t length = fread(text, 1, size - 1, file);
    fclose(file);
    text[length] = '\0';
    return length > 0;
}

void bti_cpu_memory(size_t *total_bytes, size_t *free_bytes) {
    char text[4096] = "";
    bti_cgroup group;
    read_file("/proc/meminfo", text, sizeof text);
    *total_bytes = meminfo(text, "MemTotal:");
    *free_bytes = meminfo(text, "MemAvailable:");
    bti_cgroup_read(&group);
    size_t limit = group.memory_bytes, left = group.memory_free_bytes;
    if (limit != NO_LIMIT && (!*total_bytes || limit < *total_bytes)) *total_bytes = limit;
    if (left != NO_LIMIT && (!*free_bytes || left < *free_bytes)) *free_bytes = left;
}

void bti_cpu_model(char *text, size_t size) {
    char line[512];
    snprintf(text, size, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        if (*colon) snprintf(text, size, "%s", colon);
        break;
    }
    if (file) fclose(file);
}
