#include "file/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

_Bool bti_names_make(bti_names *names, int count) {
    *names = (bti_names){bti_calloc((size_t)count + 1, sizeof *names->names),
                         bti_calloc((size_t)count + 1, sizeof *names->sorted), count};
    return names->names && names->sorted;
}

void bti_names_free(bti_names *names) {
    bti_free(names->names);
    bti_free(names->sorted);
    *names = (bti_names){0};
}

static int compare_names(const void *a, const void *b, void *names) {
    return strcmp(((const char **)names)[*(const int *)a], ((const char **)names)[*(const int *)b]);
}

const char *bti_names_sort(bti_names *names) {
    for (int i = 0; i < names->count; i++) names->sorted[i] = i;
    qsort_r(names->sorted, (size_t)names->count, sizeof *names->sorted, compare_names, names->names);
    for (int i = 1; i < names->count; i++) {
        const char *name = names->names[names->sorted[i]];
        if (!strcmp(name, names->names[names->sorted[i - 1]])) return name;
    }
    return NULL;
}

int bti_names_find(const bti_names *names, const char *name) {
    int low = 0, high = names->count;
    while (low < high) {
        int middle = low + (high - low) / 2, index = names->sorted[middle];
        int order = strcmp(name, names->names[index]);
        if (order == 0) return index;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}
