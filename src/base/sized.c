#include "base/sized.h"

#include <string.h>

static size_t size_of(const void *given) {
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

bt_status bti_sized_check(const bti_sized_type *layout, const char *call, const void *given) {
    BTI_CALL(call);
    if (!given) return bti_fail(BT_INVALID_ARGUMENT, "the %s are NULL: use %s", layout->what, layout->made_by);
    size_t size = size_of(given);
    if (!size) return bti_fail(BT_INVALID_ARGUMENT, "the %s have no size: use %s", layout->what, layout->made_by);
    bool cuts = size < sizeof size;
    for (int i = 0; i < layout->count; i++)
        cuts = cuts || (layout->members[i].begin < size && size < layout->members[i].end);
    if (!cuts) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "the size of the %s is %zu, which ends inside of a member: use %s",
                    layout->what, size, layout->made_by);
}

bt_status bti_options_take(const bti_sized_type *layout, const char *call, const void *given, void *known) {
    BTI_CALL(call);
    BTI_TRY(bti_sized_check(layout, call, given));
    size_t size = size_of(given), common = size < layout->size ? size : layout->size;
    const char *bytes = given;
    for (size_t i = layout->size; i < size; i++)
        if (bytes[i])
            return bti_fail(BT_INVALID_ARGUMENT,
                            "the %s set something that this version of berth does not have: their size is %zu, "
                            "here it is %zu, and byte %zu is not 0",
                            layout->what, size, layout->size, i);
    if (layout->unsaid)
        memcpy(known, layout->unsaid, layout->size);
    else
        memset(known, 0, layout->size);
    memcpy(known, given, common);
    memcpy(known, &layout->size, sizeof layout->size);
    return BT_OK;
}

void bti_info_give(const bti_sized_type *layout, const void *known, void *given) {
    size_t size = size_of(given), common = size < layout->size ? size : layout->size;
    memcpy(given, known, common);
    if (size > layout->size) memset((char *)given + layout->size, 0, size - layout->size);
    memcpy(given, &size, sizeof size);
}
