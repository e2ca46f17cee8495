#include "nodes/frame.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "task/value.h"

enum { MAGIC = 0x6672616d, MOST_OPTIONS = 4096, TEXTS = 10 };

typedef struct frame_head {
    uint32_t magic, kind, call, how;
    uint64_t size, id, actor, group, packed_at, packed_bytes;
    uint32_t count, module_at, name_at, unused; /* texts: from the begin of the frame; 0: none */
} frame_head;

typedef struct plain_options {
    bt_task_options options; /* without its addresses */
    uint32_t text_at[TEXTS]; /* those of the resources, then the others */
} plain_options;

static const char **text_of(bt_task_options *o, int t) {
    return t < 8 ? &o->resources[t].name : t == 8 ? &o->name : &o->accelerator;
}

/* --- writing ----------------------------------------------------------------------------------------------------------- */

static uint64_t text_bytes(const char *text) { return text ? strlen(text) + 1 : 0; }

static uint32_t add_text(char *whole, uint64_t *at, const char *text) {
    uint64_t bytes = text_bytes(text), begin = *at;
    if (!bytes) return 0;
    memcpy(whole + begin, text, bytes);
    *at += bytes;
    return (uint32_t)begin;
}

char *frame_write(const frame *f, uint64_t bytes, uint64_t *size, char **room) {
    uint64_t at = sizeof(frame_head) + (uint64_t)f->count * sizeof(plain_options), texts = at;
    texts += text_bytes(f->module) + text_bytes(f->name);
    for (int i = 0; i < f->count; i++) {
        bt_task_options o = f->options[i];
        for (int t = 0; t < TEXTS; t++) texts += text_bytes(*text_of(&o, t));
    }
    frame_head head = {.magic = MAGIC,
                       .kind = f->kind,
                       .call = f->call,
                       .how = f->how,
                       .id = f->id,
                       .actor = f->actor,
                       .group = f->group,
                       .count = (uint32_t)f->count,
                       .packed_at = (texts + 63) / 64 * 64,
                       .packed_bytes = bytes};
    if (__builtin_add_overflow(head.packed_at, bytes, &head.size)) return NULL;
    char *whole = bti_calloc(1, head.size);
    if (!whole) return NULL;
    head.module_at = add_text(whole, &at, f->module);
    head.name_at = add_text(whole, &at, f->name);
    for (int i = 0; i < f->count; i++) {
        plain_options plain;
        memset(&plain, 0, sizeof plain);
        plain.options = f->options[i];
        plain.options.group = NULL;
        for (int t = 0; t < TEXTS; t++) {
            plain.text_at[t] = add_text(whole, &at, *text_of(&plain.options, t));
            *text_of(&plain.options, t) = NULL;
        }
        memcpy(whole + sizeof head + (uint64_t)i * sizeof plain, &plain, sizeof plain);
    }
    memcpy(whole, &head, sizeof head);
    *size = head.size;
    *room = whole + head.packed_at;
    return whole;
}

/* --- reading ----------------------------------------------------------------------------------------------------------- */

static bool none(const char *what) {
    return (void)bti_fail(BT_INVALID_ARGUMENT, "nodes: a frame with %s", what), false;
}

static bool read_text(const char *whole, uint64_t end, uint32_t at, const char **text) {
    *text = at ? whole + at : NULL;
    return !at || (at >= sizeof(frame_head) && at < end && memchr(whole + at, 0, end - at));
}

static bool is_bool(const char *options, size_t offset) {
    unsigned char byte;
    memcpy(&byte, options + offset, 1);
    return byte <= 1;
}

static bool read_options(const char *whole, const frame_head *head, int i, bt_task_options *o) {
    const char *from = whole + sizeof *head + (uint64_t)i * sizeof(plain_options);
    uint32_t text_at[TEXTS];
    if (!is_bool(from, offsetof(bt_task_options, zeros_set)) ||
        !is_bool(from, offsetof(bt_task_options, get_if_exists)) || !is_bool(from, offsetof(bt_task_options, detached)))
        return false;
    memcpy(o, from, sizeof *o);
    memcpy(text_at, from + offsetof(plain_options, text_at), sizeof text_at);
    o->group = NULL;
    for (int t = 0; t < TEXTS; t++)
        if (!read_text(whole, head->packed_at, text_at[t], text_of(o, t))) return false;
    return true;
}

static bool read_body(const char *bytes, const frame_head *head, frame *f) {
    bt_task_options *options = NULL;
    bool call = head->kind == FRAME_CALL, group = head->kind == FRAME_GROUP;
    if (head->count > MOST_OPTIONS || (call && head->count != 1) || (!call && !group && head->count))
        return none("options of nothing");
    if (head->packed_at > head->size || head->packed_bytes != head->size - head->packed_at || head->packed_at % 64 ||
        sizeof *head + head->count * sizeof(plain_options) > head->packed_at)
        return none("wrong sizes");
    if (!read_text(bytes, head->packed_at, head->module_at, &f->module) ||
        !read_text(bytes, head->packed_at, head->name_at, &f->name))
        return none("texts that have no end");
    if ((call && (!f->module || !f->name || head->call > BTI_CALL_METHOD)) || (head->kind == FRAME_FIND && !f->name))
        return none("no name");
    f->packed = bytes + head->packed_at;
    f->bytes = head->packed_bytes;
    if (call && !bti_packed_is_whole(f->packed, f->bytes)) return none("damaged values");
    if (head->count && !(options = bti_calloc(head->count, sizeof *options)))
        return (void)bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory"), false;
    f->options = options;
    for (uint32_t i = 0; i < head->count; i++)
        if (!read_options(bytes, head, (int)i, &options[i])) return frame_end(f), none("damaged options");
    f->count = (int)head->count;
    return true;
}

bool frame_read(const char *bytes, uint64_t size, frame *f) {
    frame_head head;
    *f = (frame){0};
    if (size < sizeof head) return none("too few bytes");
    memcpy(&head, bytes, sizeof head);
    if (head.magic != MAGIC || head.size != size) return none("another size than it says");
    if (head.kind < FRAME_CALL || head.kind > FRAME_GROUP) return none("no known kind");
    f->kind = (frame_kind)head.kind;
    f->how = head.how;
    f->id = head.id;
    f->actor = head.actor;
    f->group = head.group;
    if (!read_body(bytes, &head, f)) return false;
    f->call = (bti_call_kind)head.call;
    return true;
}

void frame_end(frame *f) {
    bti_free((void *)f->options);
    f->options = NULL;
}
