#include "base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_text.h"

#define ROOT "/sys/fs/cgroup"

static const char *groups_path = "/proc/self/cgroup", *root_path = ROOT;

void bti_cgroup_look_at(const char *groups, const char *root) {
    groups_path = groups ? groups : "/proc/self/cgroup";
    root_path = root ? root : ROOT;
}

enum { NUMBER = 64, LINES = 8192 }; /* bytes of files with a number or two, and with many lines */

static bool read_file(const char *folder, const char *name, char *text, size_t size) {
    char path[1300];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && bti_file_text(path, text, size);
}

static const char *next_line(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* A file with one number; SIZE_MAX for "max" and when it is not there. */
static size_t read_bytes(const char *folder, const char *name) {
    char text[NUMBER], *end;
    if (!read_file(folder, name, text, sizeof text)) return SIZE_MAX;
    unsigned long long number = strtoull(text, &end, 10);
    return end == text ? SIZE_MAX : (size_t)number;
}

static void limit_cpus(bti_cgroup *group, const char *folder) {
    char text[NUMBER];
    double quota = 0, period = 0;
    if (read_file(folder, "cpu.max", text, sizeof text)) {
        if (sscanf(text, "%lf %lf", &quota, &period) != 2) return;
    } else if (read_file(folder, "cpu.cfs_quota_us", text, sizeof text)) {
        quota = strtod(text, NULL); /* -1: none */
        if (read_file(folder, "cpu.cfs_period_us", text, sizeof text)) period = strtod(text, NULL);
    }
    if (quota > 0 && period > 0 && (group->cpus == 0 || quota / period < group->cpus)) group->cpus = quota / period;
}

/* Bytes of the page cache, which the system takes back before it ends a process; version 1 counts the groups below in "total_". */
static size_t reclaimable(const char *folder) {
    static const char *const keys[] = {"active_file ", "inactive_file ", "slab_reclaimable "};
    char text[LINES];
    size_t sums[2] = {0, 0};
    if (!read_file(folder, "memory.stat", text, sizeof text)) return 0;
    for (const char *line = text; *line; line = next_line(line)) {
        int total = !strncmp(line, "total_", 6);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            size_t length = strlen(keys[i]);
            if (!strncmp(line + 6 * total, keys[i], length))
                sums[total] += (size_t)strtoull(line + 6 * total + length, NULL, 10);
        }
    }
    return sums[1] ? sums[1] : sums[0];
}

/* Above memory.high the kernel slows a process down until it is hardly there: it counts as a limit. */
static void limit_memory(bti_cgroup *group, const char *folder) {
    static const char *const files[] = {"memory.max", "memory.high", "memory.limit_in_bytes"};
    size_t limit = SIZE_MAX, used = read_bytes(folder, "memory.current");
    const char *from = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t bytes = read_bytes(folder, files[i]);
        if (bytes < limit) limit = bytes, from = files[i];
    }
    if (used == SIZE_MAX) used = read_bytes(folder, "memory.usage_in_bytes");
    if (limit >= SIZE_MAX / 4) return; /* version 1 says "none" by a great number */
    if (limit < group->memory_bytes) {
        group->memory_bytes = limit;
        snprintf(group->memory_file, sizeof group->memory_file, "%s/%s", folder, from);
    }
    if (used == SIZE_MAX) return;
    size_t kept = reclaimable(folder);
    used = used > kept ? used - kept : 0;
    size_t left = used < limit ? limit - used : 0;
    if (left < group->memory_free_bytes) group->memory_free_bytes = left;
}

static void limit_processes(bti_cgroup *group, const char *folder) {
    size_t most = read_bytes(folder, "pids.max"), used = read_bytes(folder, "pids.current");
    if (most == SIZE_MAX) return;
    size_t left = used == SIZE_MAX ? most : used < most ? most - used : 0;
    if (left < group->processes_left) group->processes_left = left;
}

/* "oom_kill 3", among other lines. */
static uint64_t count_oom_kills(const char *folder) {
    static const char *const files[] = {"memory.events", "memory.oom_control"};
    char text[LINES];
    unsigned long long count = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files && !count; i++)
        if (read_file(folder, files[i], text, sizeof text))
            for (const char *line = text; *line && sscanf(line, "oom_kill %llu", &count) != 1;) line = next_line(line);
    return count;
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
    *group = (bti_cgroup){.memory_bytes = SIZE_MAX, .memory_free_bytes = SIZE_MAX, .processes_left = SIZE_MAX};
    char line[1100], root[600], folder[1200];
    FILE *groups = fopen(groups_path, "re");
    while (groups && fgets(line, sizeof line, groups)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *names++ = *path++ = '\0';
        bool all = !*names; /* version 2: one group for everything */
        if (all || lists(names, "cpu")) {
            snprintf(root, sizeof root, "%s%s", root_path, all ? "" : "/cpu");
            snprintf(group->cpu_folder, sizeof group->cpu_folder, "%s%s", root, path);
            walk_up(group, group->cpu_folder, root, limit_cpus);
        }
        if (all || lists(names, "memory")) {
            snprintf(root, sizeof root, "%s%s", root_path, all ? "" : "/memory");
            snprintf(group->memory_folder, sizeof group->memory_folder, "%s%s", root, path);
            walk_up(group, group->memory_folder, root, limit_memory);
            group->oom_kills = count_oom_kills(group->memory_folder);
        }
        if (all || lists(names, "pids")) {
            snprintf(root, sizeof root, "%s%s", root_path, all ? "" : "/pids");
            if (snprintf(folder, sizeof folder, "%s%s", root, path) < (int)sizeof folder)
                walk_up(group, folder, root, limit_processes);
        }
    }
    if (groups) fclose(groups);
}
