/* What calls are given is checked once, here, before any engine sees it. */
#include <stdio.h>

#include "array/handle.h"
#include "task/handles.h"
#include "task/value.h"

typedef struct check {
    int path[BTI_MOST_DEPTH + 1], depth; /* places, from 0: of the value, of that in the list, and so on */
    int64_t in_lists, references;
    uint64_t bytes;
} check;

typedef struct place_text {
    char text[16 * (BTI_MOST_DEPTH + 1)];
} place_text;

/* "value 2.1": the first of the list that is the second. */
static place_text value_path(const check *c) {
    place_text p;
    int length = snprintf(p.text, sizeof p.text, "value");
    for (int i = 0; i <= c->depth; i++)
        length += snprintf(p.text + length, sizeof p.text - (size_t)length, "%c%d", i ? '.' : ' ', c->path[i] + 1);
    return p;
}

static bt_status check_value(check *c, const bt_item_value *value);

static bool count_reference(void *references, const bti_packed_value *head, bool in_list) {
    (void)head;
    (void)in_list;
    ++*(int64_t *)references;
    return true;
}

static bt_status too_deep(const check *c) {
    return bti_fail(BT_INVALID_ARGUMENT, "%.40s... is a list in more than %d lists", value_path(c).text,
                    BTI_MOST_DEPTH - 1);
}

static bt_status check_list(check *c, const bt_list *list) {
    if (list->kind < 0 || list->kind >= BTI_LIST_KINDS)
        return bti_fail(BT_INVALID_ARGUMENT, "%s is no list", value_path(c).text);
    if (list->count < 0 || (list->count && !list->items))
        return bti_fail(BT_INVALID_ARGUMENT, "%s is a list of %d values%s", value_path(c).text, list->count,
                        list->count < 0 ? "" : " at NULL");
    if (c->depth == BTI_MOST_DEPTH) return too_deep(c);
    if ((c->in_lists += list->count) > BTI_MOST_IN_LISTS)
        return bti_fail(BT_INVALID_ARGUMENT, "%s: more than %d values in lists", value_path(c).text, BTI_MOST_IN_LISTS);
    if (bti_list_is_read(list)) {
        if (c->depth + 1 + bti_packed_depth(list->items) > BTI_MOST_DEPTH) return too_deep(c);
        (void)bti_packed_each(list->items, count_reference, &c->references);
        return BT_OK;
    }
    c->depth++;
    for (int i = 0; i < list->count; i++) {
        bt_item_value value = bti_list_item(list, i);
        c->path[c->depth] = i;
        BTI_TRY(check_value(c, &value));
    }
    c->depth--;
    return BT_OK;
}

static bt_status check_value(check *c, const bt_item_value *value) {
    switch (value->type) {
    case BT_TEXT_VALUE:
        return value->as.text ? BT_OK : bti_fail(BT_INVALID_ARGUMENT, "%s is a text that is NULL", value_path(c).text);
    case BT_BYTES:
        if (value->as.bytes.size > INT64_MAX)
            return bti_fail(BT_INVALID_ARGUMENT, "%s has %zu bytes, more than any memory", value_path(c).text,
                            value->as.bytes.size);
        c->bytes += value->as.bytes.size; /* of each: at most INT64_MAX */
        if (c->bytes > INT64_MAX)
            return bti_fail(BT_INVALID_ARGUMENT, "%s: all values have more bytes than any memory", value_path(c).text);
        return value->as.bytes.data || !value->as.bytes.size
                   ? BT_OK
                   : bti_fail(BT_INVALID_ARGUMENT, "%s is bytes at NULL", value_path(c).text);
    case BT_ARRAY_VALUE:
        if (!value->as.array) return bti_fail(BT_INVALID_ARGUMENT, "%s is an array that is NULL", value_path(c).text);
        return bt_peek_status(value->as.array) == BT_OK ? BT_OK : bti_fail_with(bti_array_error(value->as.array));
    case BT_REFERENCE: return c->references++, bti_check_handle(value->as.ref, "reference");
    case BT_ACTOR_VALUE: return c->references++, bti_check_handle(value->as.actor, "actor");
    case BT_LIST_VALUE: return check_list(c, &value->as.list);
    case BT_NOTHING:
    case BT_INTEGER:
    case BT_REAL: return BT_OK;
    default: return bti_fail(BT_INVALID_ARGUMENT, "%s is of no type: %d", value_path(c).text, (int)value->type);
    }
}

bt_status bti_check_values(const char *name, const bt_item_value *values, int count) {
    check c = {.depth = 0};
    BTI_TRY(bti_check_list(values, count, "values"));
    for (int i = 0; i < count; i++) {
        c.path[0] = i;
        BTI_TRY(check_value(&c, &values[i]));
    }
    if (c.references <= BTI_MOST_REFERENCES) return BT_OK;
    return bti_fail(BT_INVALID_ARGUMENT, "%s: %lld references and actors among its values; at most %d", name,
                    (long long)c.references, BTI_MOST_REFERENCES);
}
