/* Names and where each stands: looked up by binary search. */
#ifndef BTI_FILE_NAMES_H
#define BTI_FILE_NAMES_H

typedef struct bti_names {
    const char **names; /* in the order of the file; their texts belong to the owner */
    int *sorted;        /* indices of `names` */
    int count;
} bti_names;

/* Room for `count` names, which the caller sets before bti_names_sort; false: out of memory. */
_Bool bti_names_make(bti_names *names, int count);
void bti_names_free(bti_names *names);
/* Prepares bti_names_find; returns a name that stands twice, or NULL. */
const char *bti_names_sort(bti_names *names);
/* The index, or -1. */
int bti_names_find(const bti_names *names, const char *name);

#endif
