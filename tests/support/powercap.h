/* Fake trees of energy counters, as Linux's powercap has them. Included once by a test. */
#ifndef BERTH_TESTS_SUPPORT_POWERCAP_H
#define BERTH_TESTS_SUPPORT_POWERCAP_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char powercap[64];

static inline void new_powercap(void) {
    snprintf(powercap, sizeof powercap, "/tmp/berth-powercap-XXXXXX");
    assert_non_null(mkdtemp(powercap));
}

static inline void put_text(const char *zone, const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s/%s", powercap, zone, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static inline void put_joules(const char *zone, double joules) {
    char text[32];
    snprintf(text, sizeof text, "%.0f\n", joules * 1e6);
    put_text(zone, "energy_uj", text);
}

/* A zone such as intel-rapl:0:1 with a title such as "dram"; in joules: its greatest value, and what it shows. */
static inline void put_zone(const char *zone, const char *title, double range, double joules) {
    char text[200];
    snprintf(text, sizeof text, "%s/%s", powercap, zone);
    assert_int_equal(mkdir(text, 0777), 0);
    snprintf(text, sizeof text, "%s\n", title);
    put_text(zone, "name", text);
    snprintf(text, sizeof text, "%.0f\n", range * 1e6);
    put_text(zone, "max_energy_range_uj", text);
    put_joules(zone, joules);
}

static inline int drop_one(const char *path, const struct stat *is, int kind, struct FTW *at) {
    (void)is, (void)kind, (void)at;
    return remove(path);
}

static inline void drop_powercap(void) {
    if (*powercap) nftw(powercap, drop_one, 8, FTW_DEPTH | FTW_PHYS);
    *powercap = '\0';
}

#endif
