/* Arguments of commands. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static int print_help_hint(char **argv) {
    fprintf(stderr, "see \"%s --help\"\n", argv[0]);
    return '?';
}

int cli_option(int argc, char **argv, const struct option *options) {
    int option = getopt_long(argc, argv, "", options, NULL);
    return option == '?' ? print_help_hint(argv) : option;
}

bool cli_no_more(int argc, char **argv) {
    if (optind == argc) return true;
    fprintf(stderr, "%s: unexpected argument \"%s\"\n", argv[0], argv[optind]);
    print_help_hint(argv);
    return false;
}

bool cli_number(char **argv, const char *option, const char *text, int low, int high, int *number) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high) {
        fprintf(stderr, "%s: %s takes a whole number from %d to %d, not \"%s\"\n", argv[0], option, low, high, text);
        return false;
    }
    *number = (int)value;
    return true;
}

bool cli_byte_count(char **argv, const char *option, const char *text, uint64_t *bytes) {
    static const char units[] = "KMGTP";
    char *end;
    double value = *text >= '0' && *text <= '9' ? strtod(text, &end) : -1;
    if (value >= 0) {
        const char *unit = *end ? strchr(units, toupper(*end)) : NULL;
        for (const char *u = units; unit && u <= unit; u++) value *= 1024;
        if (unit) end++;
        if (unit && *end == 'i') end++;
        if (*end == 'B') end++;
        if (*end) value = -1;
    }
    if (value < 1 || value > 1e18) {
        fprintf(stderr, "%s: %s takes a number of bytes, such as 8G or 512M, not \"%s\"\n", argv[0], option, text);
        return false;
    }
    *bytes = (uint64_t)value;
    return true;
}

/* The Levenshtein distance; longer names are cut. */
static int edit_distance(const char *a, const char *b) {
    enum { LONGEST = 63 };
    int counts[LONGEST + 1], length = (int)strnlen(b, LONGEST);
    for (int j = 0; j <= length; j++) counts[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = counts[0]++;
        for (int j = 0; j < length; j++) {
            int least = diagonal + (a[i] != b[j]);
            diagonal = counts[j + 1];
            if (counts[j] + 1 < least) least = counts[j] + 1;
            if (diagonal + 1 < least) least = diagonal + 1;
            counts[j + 1] = least;
        }
    }
    return counts[length];
}

const char *cli_nearest(const char *name, const char *const *names, int count) {
    const char *nearest = NULL;
    int least = (int)strlen(name) / 2 + 1;
    for (int i = 0; i < count; i++) {
        int distance = edit_distance(name, names[i]);
        if (distance < least) least = distance, nearest = names[i];
    }
    return nearest;
}

bool cli_process(int argc, char **argv, int *pid) {
    *pid = 0;
    if (optind == argc) return true;
    if (!cli_number(argv, "PROCESS", argv[optind], 1, INT_MAX, pid)) return false;
    optind++;
    return cli_no_more(argc, argv);
}

int cli_json_option(int argc, char **argv, bool *json) {
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {0}};
    *json = false;
    for (int option; (option = cli_option(argc, argv, options)) != -1;) {
        if (option == '?') return CLI_USAGE;
        *json = true;
    }
    return CLI_OK;
}

int cli_only_json(int argc, char **argv, bool *json) {
    int code = cli_json_option(argc, argv, json);
    return code == CLI_OK && !cli_no_more(argc, argv) ? CLI_USAGE : code;
}
