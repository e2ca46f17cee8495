#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cards.h"
#include "lease/lease.h"

/* The mask's entries before the first that is no device are those shown (docs/visibility.md). */
static void number(bti_lease_gpu *gpus, int count, const char *mask) {
    for (int i = 0; i < count; i++) {
        char *end;
        gpus[i].id = i;
        snprintf(gpus[i].entry, sizeof gpus[i].entry, "%d", i);
        if (!mask) continue;
        mask += strspn(mask, " \t\n\v\f\r");
        snprintf(gpus[i].entry, sizeof gpus[i].entry, "%.*s", (int)strcspn(mask, ","), mask);
        long id = strtol(mask, &end, 10);
        if (end > mask) {
            gpus[i].id = (int)id;
            snprintf(gpus[i].entry, sizeof gpus[i].entry, "%ld", id);
        }
        mask += strcspn(mask, ",");
        mask += *mask == ',';
    }
}

bt_status bti_lease_list_gpus(bti_lease_gpu *gpus, int *count) {
    bti_card *cards = bti_calloc(BTI_LEASE_MOST_GPUS, sizeof *cards);
    *count = 0;
    if (!cards) return bti_no_memory();
    bt_status status = bti_cards_ask(cards, BTI_LEASE_MOST_GPUS, count);
    if (*count > BTI_LEASE_MOST_GPUS) *count = BTI_LEASE_MOST_GPUS;
    bti_mask mask = bti_mask_of(*count ? cards[0].vendor : BTI_NVIDIA);
    for (int i = 0; i < *count; i++) {
        gpus[i] = (bti_lease_gpu){.memory_bytes = cards[i].memory_bytes, .variable = mask.variable};
        memcpy(gpus[i].name, cards[i].name, sizeof gpus[i].name);
    }
    number(gpus, *count, mask.list);
    for (int i = 0; i < *count && !mask.list && bti_cards_are_split(cards, *count); i++)
        snprintf(gpus[i].entry, sizeof gpus[i].entry, "%s", cards[i].name);
    bti_free(cards);
    return status;
}
