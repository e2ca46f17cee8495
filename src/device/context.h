/* Context names, "dev0->cuda0;dev1->cuda1". */
#ifndef BTI_DEVICE_CONTEXT_H
#define BTI_DEVICE_CONTEXT_H

#include "base/vec.h"
#include "device/name.h"

typedef struct bti_context {
    char context[96], device_text[96];
    bti_name device;
} bti_context;
typedef BTI_VEC(bti_context) bti_context_list;
/* Parses the next mapping of *text, past which it moves, and adds it; at the end of the text none. */
bt_status bti_contexts_add(const char **text, bti_context_list *list);
/* The list becomes the map, and the map the list. */
void bti_contexts_swap(bti_context_list *list);
void bti_contexts_clear(void);
/* What a context name is mapped to; NOT_FOUND. */
bt_status bti_context_find(const char *context, bti_context *found);

#endif
