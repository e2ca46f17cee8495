#include "base/cgroup.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT "/sys/fs/cgroup"

static bool read_line(const char *folder, const char *name, char *text, int size) {
    char path[1300];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "re");
    bool read = file && fgets(text, size, file);
    if (file) fclose(file);
    return read;
}

/* A file with one number; SIZE_MAX for "max" and when it is not there. */
static size_t read_bytes(const char *folder, const char *name) {
    char text[64], *end;
    if (!read_line(folder, name, text, sizeof text)) return SIZE_MAX;
    unsigned long long number = strtoull(text, &end, 10);
    return end == text ? SIZE_MAX : (size_t)number;
}

static void limit_cpus(bti_cgroup *group, const char *folder) {
    char text[64];
    double quota = 0, period = 0;
    if (read_line(folder, "cpu.max", text, sizeof text)) {
        if (sscanf(text, "%lf %lf", &quota, &period) != 2) return;
    } else if (read_line(folder, "cpu.cfs_quota_us", text, sizeof text)) {
        quota = strtod(text, NULL); /* -1: none */
        if (read_line(folder, "cpu.cfs_period_us", text, sizeof text)) period = strtod(text, NULL);
    }
    if (quota > 0 && period > 0 && (group->cpus == 0 || quota / period < group->cpus)) group->cpus = quota / period;
}

static void limit_memory(bti_cgroup *group, const char *folder) {
    size_t limit = read_bytes(folder, "memory.max"), used = read_bytes(folder, "memory.current");
    if (limit == SIZE_MAX) limit = read_bytes(folder, "memory.limit_in_bytes");
    if (used == SIZE_MAX) used = read_bytes(folder, "memory.usage_in_bytes");
    if (limit >= SIZE_MAX / 4) return; /* version 1 says "none" by a great number */
    if (limit < group->memory_bytes) group->memory_bytes = limit;
    size_t left = used < limit ? limit - used : 0;
    if (used != SIZE_MAX && left < group->memory_free_bytes) group->memory_free_bytes = left;
}

static void walk_up(bti_cgroup *group, const char *start, const char *root,
                    void (*look)(bti_cgroup *group, const char *folder)) {
    char folder[1200];
    snprintf(folder, sizeof folder, "%s", start);
    for (;;) {
        look(group, folder);
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= strlen(root) || !slash) return;
        *slash = '\0';
    }
}

/* Whether a list such as "cpu,cpuacct" has the name. */
static bool lists(const char *names, const char *name) {
    size_t length = strlen(name);
    for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && (at[length] == ',' || !at[length])) return true;
    return false;
}

void bti_cgroup_read(bti_cgroup *group) {
    *group = (bti_cgroup){.memory_bytes = SIZE_MAX, .memory_free_bytes = SIZE_MAX};
    char line[1100];
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups && fgets(line, sizeof line, groups)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *names++ = *path++ = '\0';
        bool all = !*names; /* version 2: one group for everything */
        if (all || lists(names, "cpu")) {
            const char *root = all ? ROOT : ROOT "/cpu";
            snprintf(group->cpu_folder, sizeof group->cpu_folder, "%s%s", root, path);
            walk_up(group, group->cpu_folder, root, limit_cpus);
        }
        if (all || lists(names, "memory")) {
            const char *root = all ? ROOT : ROOT "/memory";
            snprintf(group->memory_folder, sizeof group->memory_folder, "%s%s", root, path);
            walk_up(group, group->memory_folder, root, limit_memory);
        }
    }
    if (groups) fclose(groups);
}
