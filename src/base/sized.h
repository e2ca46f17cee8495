/* Structures that cross the public interface and begin with their size: options, which the caller fills, and information, which berth
 * fills. A program may be compiled with an older or a newer header than the library, so its structure may be smaller or larger than the
 * library's. */
#ifndef BTI_BASE_SIZED_H
#define BTI_BASE_SIZED_H

#include <stddef.h>

#include "base/error.h"

typedef struct bti_member {
    size_t begin, end;
} bti_member;

typedef struct bti_sized_type {
    const char *what;    /* "options" */
    const char *made_by; /* "BT_FIT_OPTIONS(.epochs = 5)" */
    size_t size;         /* as this library knows it */
    const bti_member *members;
    int count;
    const void *unsaid; /* what a smaller structure lacks is taken from here; NULL: zeros */
} bti_sized_type;

#define BTI_MEMBER(type, name) \
    { offsetof(type, name), offsetof(type, name) + sizeof(((type *)0)->name) }
#define BTI_SIZED_TYPE(type, what, made_by, members, unsaid) \
    { what, made_by, sizeof(type), members, (int)(sizeof(members) / sizeof *(members)), unsaid }

/* INVALID_ARGUMENT, naming the initialiser, when the structure is NULL, has no size, has a size that cuts a member. `call`: "bt_fit". */
bt_status bti_sized_check(const bti_sized_type *layout, const char *call, const void *given);
/* The caller's options into `known`, a structure of the library's size. INVALID_ARGUMENT as above, and when a larger structure holds
 * something past what the library knows. */
bt_status bti_options_take(const bti_sized_type *layout, const char *call, const void *given, void *known);
/* What is known into the caller's structure, which was checked: as much as fits; its size stays, what it has beyond becomes zeros. */
void bti_info_give(const bti_sized_type *layout, const void *known, void *given);

#endif
