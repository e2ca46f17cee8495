#include "device/visibility.h"

#include <stdbool.h>
#include <string.h>

#include "base/flagtext.h"

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* As strtoul reads: leading blanks, a sign, digits; what follows them is not looked at. -1: no number or below 0. */
static int read_index(const char *entry, size_t length) {
    size_t i = 0;
    int value = 0;
    while (i < length && is_space(entry[i])) i++;
    if (i < length && entry[i] == '+') i++;
    if (i == length || entry[i] < '0' || entry[i] > '9') return -1;
    for (; i < length && entry[i] >= '0' && entry[i] <= '9'; i++) {
        if (value > 100000) return 1000000;
        value = value * 10 + (entry[i] - '0');
    }
    return value;
}

/* The one device whose uuid begins so; -1: none, or several. */
static int find_uuid(const char *entry, size_t length, const char *const *uuids, int count) {
    int found = -1;
    for (int i = 0; i < count; i++) {
        size_t whole = strlen(uuids[i]);
        char start[96];
        if (!whole || length > whole || length >= sizeof start) continue;
        memcpy(start, uuids[i], length);
        start[length] = '\0';
        if (!bti_same_word(entry, length, start)) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

typedef enum entry_sort { A_NUMBER, A_GPU, AN_INSTANCE } entry_sort;

static entry_sort sort_of(const char *entry, size_t length) {
    if (length < 4) return A_NUMBER;
    return bti_same_word(entry, 4, "GPU-") ? A_GPU : bti_same_word(entry, 4, "MIG-") ? AN_INSTANCE : A_NUMBER;
}

int bti_visible_devices(const char *mask, const char *const *uuids, int count, int *visible) {
    int shown = 0;
    if (!mask) {
        for (; shown < count; shown++) visible[shown] = shown;
        return shown;
    }
    entry_sort sort = A_NUMBER;
    for (bool first = true;; first = false) {
        size_t length = strcspn(mask, ",");
        const char *entry = mask;
        while (length && is_space(*entry)) entry++, length--;
        while (length && is_space(entry[length - 1])) length--;
        entry_sort now = sort_of(entry, length);
        if (first) sort = now;
        int index = now == A_NUMBER ? read_index(entry, length) : find_uuid(entry, length, uuids, count);
        if (now != sort || index < 0 || index >= count) return shown;
        for (int i = 0; i < shown; i++)
            if (visible[i] == index) return 0;
        visible[shown++] = index;
        mask += strcspn(mask, ",");
        if (!*mask) return shown;
        mask++;
    }
}
