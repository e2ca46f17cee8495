#include <stdio.h>
#include <string.h>

#include "drivers/cpu/cpu.h"

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
