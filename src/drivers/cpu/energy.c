/* A zone is a folder with a counter: intel-rapl:0 is a processor ("package-0"; AMD's have the same names), intel-rapl:0:1 a part of it. Parts are contained in
 * their processor, except memory ("dram"). "psys" contains the processors, and intel-rapl-mmio counts them a second time, so neither is added. */
#include "drivers/cpu/energy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flags.h"
#include "base/lock.h"
#include "base/quote.h"

/* The most that a zone is taken to draw, in watts: when its counter may have gone round twice between two readings. */
enum { MOST_ZONES = 64, PACKAGE_WATTS = 500, MEMORY_WATTS = 150 };
#define ROOT "/sys/class/powercap"

typedef struct zone {
    char name[48];
    uint64_t range, last; /* microjoules: the greatest value of the counter; at the last reading */
    unsigned most_watts;
} zone;

BTI_STATIC_LOCK(lock, cpu_energy) /* of all that follows */
static zone zones[MOST_ZONES + 1];
static int zone_count;    /* 0: they are not listed */
static char listed[512];  /* the folder that they are of */
static double total;      /* joules */
static uint64_t since_ns; /* when `total` last missed something */
static uint64_t last_ns;  /* of the last reading */
static uint64_t time_set_ns;

void bti_cpu_energy_set_time(uint64_t ns) { time_set_ns = ns; }

/* --- files -------------------------------------------------------------------------------------------------------------- */

/* The first line of a file of the zone; 0, or errno. Never waits, whatever the file is. */
static int read_line(const char *name, const char *file, char *line, size_t size) {
    char path[sizeof listed + 128];
    snprintf(path, sizeof path, "%s/%s/%s", listed, name, file);
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = opened < 0 ? -1 : read(opened, line, size - 1);
    int error = length < 0 ? errno : 0;
    if (opened >= 0) close(opened);
    line[length > 0 ? length : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return error;
}

static bool parse_number(const char *text, uint64_t *number) {
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static bool read_number(const char *name, const char *file, uint64_t *number, bti_str *reason) {
    char line[64];
    int error = read_line(name, file, line, sizeof line);
    if (!error && parse_number(line, number)) return true;
    if (error == EACCES || error == EPERM)
        bti_str_addf(reason,
                     "%s/%s/%s may be read by root only, as Linux sets it since 5.10: "
                     "`sudo chmod a+r %s/intel-rapl:*/%s` lets all users read it until the next start",
                     listed, name, file, listed, file);
    else if (error)
        bti_str_addf(reason, "%s/%s/%s cannot be read: %s", listed, name, file, strerror(error));
    else
        bti_str_addf(reason, "%s/%s/%s says \"%s\", which is no number of microjoules", listed, name, file,
                     bti_quote(line).text);
    return false;
}

static bool read_counter(const zone *z, uint64_t *now, bti_str *reason) {
    if (!read_number(z->name, "energy_uj", now, reason)) return false;
    if (*now <= z->range) return true;
    bti_str_addf(reason, "%s/%s/energy_uj is above its greatest value (max_energy_range_uj)", listed, z->name);
    return false;
}

/* --- zones -------------------------------------------------------------------------------------------------------------- */

/* "intel-rapl:0" is 1, "intel-rapl:0:1" is 2; 0: another name. */
static int depth_of(const char *name) {
    static const char first[] = "intel-rapl";
    int depth = 0;
    if (strncmp(name, first, sizeof first - 1) != 0) return 0;
    for (name += sizeof first - 1; *name == ':'; depth++) {
        size_t digits = strspn(++name, "0123456789");
        if (!digits) return 0;
        name += digits;
    }
    return *name ? 0 : depth;
}

static bool add_zone(const char *name, bti_str *reason) {
    char title[32];
    int depth = depth_of(name);
    zone *z = &zones[zone_count]; /* one past the last when there are too many */
    if (!depth || strlen(name) >= sizeof z->name || read_line(name, "name", title, sizeof title)) return true;
    bool is_memory = depth == 2 && !strcmp(title, "dram");
    if (!is_memory && (depth != 1 || strncmp(title, "package", 7) != 0)) return true;
    if (zone_count == MOST_ZONES) {
        bti_str_addf(reason, "%s has more than %d zones of processors and memory", listed, MOST_ZONES);
        return false;
    }
    *z = (zone){.most_watts = is_memory ? MEMORY_WATTS : PACKAGE_WATTS};
    memcpy(z->name, name, strlen(name) + 1);
    if (!read_number(name, "max_energy_range_uj", &z->range, reason) || !read_counter(z, &z->last, reason))
        return false;
    zone_count++;
    return true;
}

static bool list_zones(bti_str *reason) {
    DIR *folder = opendir(listed);
    bool good = true;
    if (!folder) {
        bti_str_addf(reason,
                     "%s cannot be read (%s): virtual machines have none as a rule, and other kernels need "
                     "CONFIG_INTEL_RAPL",
                     listed, strerror(errno));
        return false;
    }
    zone_count = 0;
    for (struct dirent *entry; good && (entry = readdir(folder));) good = add_zone(entry->d_name, reason);
    closedir(folder);
    if (good && !zone_count) {
        bti_str_addf(
            reason,
            "%s shows no processor (intel-rapl:0): a virtual machine or a container that hides it, a CPU without "
            "RAPL, or the module intel_rapl_msr is not loaded",
            listed);
        good = false;
    }
    if (!good) zone_count = 0;
    return good;
}

/* --- reading ------------------------------------------------------------------------------------------------------------ */

static void begin_anew(uint64_t now_ns) {
    for (int z = 0; z < zone_count; z++) total += (double)zones[z].last * 1e-6;
    since_ns = last_ns = now_ns;
}

static bool add_zones(uint64_t now_ns, bti_str *reason) {
    uint64_t now[MOST_ZONES];
    double seconds = (double)(now_ns - last_ns) * 1e-9;
    for (int z = 0; z < zone_count; z++)
        if (!read_counter(&zones[z], &now[z], reason)) return false;
    for (int z = 0; z < zone_count; z++) {
        zone *one = &zones[z];
        uint64_t used = now[z] >= one->last ? now[z] - one->last : one->range - one->last + now[z];
        if (seconds * one->most_watts * 1e6 > (double)one->range) since_ns = now_ns;
        one->last = now[z];
        total += (double)used * 1e-6;
    }
    last_ns = now_ns;
    return true;
}

/* Under the lock. */
static bool read_energy(const char *root, bti_str *reason) {
    uint64_t now_ns = time_set_ns ? time_set_ns : bti_now_ns();
    if (strcmp(root, listed) != 0) zone_count = 0;
    if (strlen(root) >= sizeof listed) {
        bti_str_add(reason, "the path of the flag powercap is too long");
        return false;
    }
    memcpy(listed, root, strlen(root) + 1);
    if (zone_count && add_zones(now_ns, reason)) return true;
    if (zone_count) return zone_count = 0, false; /* listed again at the next reading */
    if (!list_zones(reason)) return false;
    begin_anew(now_ns);
    return true;
}

bool bti_cpu_energy(int ordinal, double *joules, uint64_t *since, bti_str *reason) {
    (void)ordinal;
    char *root = bti_flag_text(BTI_FLAG_powercap);
    if (!root) {
        bti_str_add(reason, "out of host memory");
        return false;
    }
    bti_lock_take(&lock);
    bool read = read_energy(*root ? root : ROOT, reason);
    *joules = total;
    *since = since_ns;
    bti_lock_give(&lock);
    bti_free(root);
    return read;
}
