#include "fakes/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 32
#define MOST_KEPT 100 /* later ones are counted only */

typedef struct finding {
    int device, code, era;
    bool reported;
    char *text;
} finding;

static finding findings[MOST_KEPT];
static int finding_count, era;
static char *all_texts, *waits_text;
static struct {
    char call[60];
    long count;
} waits[CALLS];

void fake_find(int device, int code, const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) abort();
    va_end(arguments);
    fake_lock();
    if (device >= 0 && !fake()->devices[device].sticky) fake()->devices[device].sticky = code;
    fprintf(stderr, "fake machine: %s\n", text);
    if (finding_count < MOST_KEPT)
        findings[finding_count] = (finding){.device = device, .code = code, .era = era, .text = text};
    else
        free(text);
    finding_count++;
    fake_unlock();
}

const char *fake_finding_of(int device, int code) {
    const char *text = NULL;
    fake_lock();
    for (int i = 0; i < finding_count && i < MOST_KEPT; i++) {
        finding *f = &findings[i];
        if (f->era != era || f->device != device) continue;
        if (!text && f->code == code) text = f->text;
        f->reported = true; /* later findings follow from the first, whose device is lost */
    }
    fake_unlock();
    return text;
}

void fake_findings_new_machine(void) { era++; }

int fake_findings(const char **text) {
    fake_lock();
    size_t length = 0;
    free(all_texts);
    all_texts = calloc(1, 1);
    for (int i = 0; i < finding_count && i < MOST_KEPT; i++) {
        size_t added = strlen(findings[i].text);
        all_texts = realloc(all_texts, length + added + 2);
        if (!all_texts) abort();
        memcpy(all_texts + length, findings[i].text, added);
        memcpy(all_texts + length + added, "\n", 2);
        length += added + 1;
        findings[i].reported = true;
    }
    if (text) *text = all_texts;
    int count = finding_count;
    fake_unlock();
    return count;
}

void fake_findings_clear(void) {
    fake_lock();
    for (int i = 0; i < finding_count && i < MOST_KEPT; i++) free(findings[i].text);
    memset(findings, 0, sizeof findings);
    finding_count = 0;
    free(all_texts);
    all_texts = NULL;
    fake_unlock();
}

/* --- implicit waits ------------------------------------------------------------------------------------------------- */

void fake_count_wait(const char *call) {
    fake_lock();
    for (int i = 0; i < CALLS; i++) {
        if (*waits[i].call && strcmp(waits[i].call, call) != 0) continue;
        snprintf(waits[i].call, sizeof waits[i].call, "%s", call);
        waits[i].count++;
        break;
    }
    fake_unlock();
}

const char *fake_waits_text(void) {
    size_t bytes = 1;
    fake_lock();
    for (int i = 0; i < CALLS && *waits[i].call; i++) bytes += strlen(waits[i].call) + 24;
    free(waits_text);
    waits_text = calloc(1, bytes);
    if (!waits_text) abort();
    for (int i = 0; i < CALLS && *waits[i].call; i++)
        sprintf(waits_text + strlen(waits_text), "%s %ld\n", waits[i].call, waits[i].count);
    fake_unlock();
    return waits_text;
}

static void print_waits(void) {
    const char *asked = getenv("BERTH_FAKE_WAITS");
    if (!asked || strcmp(asked, "on") != 0) return;
    for (int i = 0; i < CALLS && *waits[i].call; i++)
        fprintf(stderr, "fake machine: calls that may have waited for work: %s %ld\n", waits[i].call, waits[i].count);
}

/* --- the end -------------------------------------------------------------------------------------------------------- */

static __attribute__((destructor)) void end(void) {
    print_waits();
    int unreported = finding_count > MOST_KEPT;
    for (int i = 0; i < finding_count && i < MOST_KEPT; i++) unreported += !findings[i].reported;
    if (unreported) {
        fprintf(stderr, "fake machine: %d findings that no call reported\n", unreported);
        for (int i = 0; i < finding_count && i < MOST_KEPT; i++)
            if (!findings[i].reported) fprintf(stderr, "    %s\n", findings[i].text);
        fflush(NULL);
        _exit(99);
    }
    fake_findings_clear();
    free(waits_text);
    waits_text = NULL;
}
