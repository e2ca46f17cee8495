/* Names for devices, "dev0->cuda0;dev1->cuda1": the map is parsed, kept and searched. */
#include <string.h>

#include "base/alloc.h"
#include "base/flagtext.h"
#include "base/lock.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/str.h"
#include "base/vec.h"
#include "device/context.h"

BTI_STATIC_LOCK(contexts_lock, contexts) /* protects `map`; a leaf */
static bti_context_list map;

static bt_status refuse(const char *context, size_t length, const char *rule) {
    return bti_fail(BT_INVALID_ARGUMENT, "context name \"%s\" is refused: %s", bti_quote_bytes(context, length).text,
                    rule);
}

static const char *find_last(const char *text, size_t length, const char *two) {
    for (size_t i = length; i >= 2; i--)
        if (text[i - 2] == two[0] && text[i - 1] == two[1]) return text + i - 2;
    return NULL;
}

static void trim(const char **text, size_t *length) {
    while (*length && **text == ' ') (*text)++, (*length)--;
    while (*length && (*text)[*length - 1] == ' ') (*length)--;
}

static bt_status check_context(const char *context, size_t length, const bti_context_list *others) {
    bti_name name;
    char text[96];
    if (!length) return refuse(context, length, "it is empty");
    if (find_last(context, length, "->")) return refuse(context, length, "it may not contain \"->\"");
    if (length >= 4 && bti_same_word(context, 4, "cuda"))
        return refuse(context, length, "it may not begin with \"cuda\"");
    if (length >= 6 && bti_same_word(context, 6, "opencl"))
        return refuse(context, length, "it may not begin with \"opencl\"");
    if (length >= sizeof text) return refuse(context, length, "it is longer than 95 bytes");
    memcpy(text, context, length);
    text[length] = '\0';
    for (size_t i = 0; i < others->count; i++)
        if (bti_same_word(context, length, others->items[i].context))
            return refuse(context, length, "it is mapped twice (case does not count)");
    if (bti_name_parse(text, &name) != BT_OK || name.form != BTI_NAME_CONTEXT)
        return refuse(context, length, "it reads as the name of a device");
    return BT_OK;
}

/* "dev0->cuda0" */
static bt_status add_mapping(const char *part, size_t length, bti_context_list *list) {
    bti_context new = {0};
    const char *arrow = find_last(part, length, "->"), *context = part;
    if (!arrow)
        return bti_fail(BT_INVALID_ARGUMENT, "contexts: \"%s\" is not of the form name->device",
                        bti_quote_bytes(part, length).text);
    size_t context_length = (size_t)(arrow - part), target_length = length - context_length - 2;
    const char *target = arrow + 2;
    trim(&context, &context_length);
    trim(&target, &target_length);
    BTI_TRY(check_context(context, context_length, list));
    if (target_length >= sizeof new.device_text) target_length = sizeof new.device_text - 1;
    memcpy(new.context, context, context_length);
    memcpy(new.device_text, target, target_length);
    BTI_TRY(bti_name_parse(new.device_text, &new.device));
    if (new.device.form == BTI_NAME_CONTEXT)
        return bti_fail(BT_INVALID_ARGUMENT, "context %s: \"%s\" is not the name of a device", new.context,
                        bti_quote(new.device_text).text);
    return bti_vec_push(list, new) ? BT_OK : bti_no_memory();
}

bt_status bti_contexts_add(const char **text, bti_context_list *list) {
    size_t count = list->count;
    while (**text && list->count == count) {
        size_t length = strcspn(*text, ";"), inner = length;
        const char *part = *text;
        trim(&part, &inner);
        if (inner) BTI_TRY(add_mapping(part, inner, list));
        *text += length + ((*text)[length] == ';');
    }
    return BT_OK;
}

void bti_contexts_swap(bti_context_list *list) {
    bti_lock_take(&contexts_lock);
    bti_context_list old = map;
    map = *list;
    *list = old;
    bti_lock_give(&contexts_lock);
}

void bti_contexts_clear(void) {
    bti_lock_take(&contexts_lock);
    bti_vec_free(&map);
    bti_lock_give(&contexts_lock);
}

bt_status bti_context_find(const char *context, bti_context *found) {
    bti_str known = {0};
    *found = (bti_context){0};
    bti_lock_take(&contexts_lock);
    for (size_t i = 0; i < map.count; i++) {
        bti_str_addf(&known, "%s%s", i ? ", " : "", map.items[i].context);
        if (bti_same_word(context, strlen(context), map.items[i].context)) *found = map.items[i];
    }
    bti_lock_give(&contexts_lock);
    bt_status status = BT_OK;
    if (!found->context[0] && known.length)
        status = bti_fail(BT_NOT_FOUND, "context name \"%s\" is not mapped; mapped are %s", bti_quote(context).text,
                          bti_quote(known.text).text);
    else if (!found->context[0])
        status =
            bti_fail(BT_NOT_FOUND,
                     "\"%s\" is neither a device (cpu, gpu:1, cuda0, /device:GPU:1) nor a mapped context name (no map "
                     "is set: flag contexts, bt_set_contexts)",
                     bti_quote(context).text);
    bti_str_free(&known);
    return status;
}
