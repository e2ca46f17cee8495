#include "device/name.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/flagtext.h"
#include "base/quote.h"
#include "drivers/driver.h"

const char *bt_kind_name(bt_kind kind) { return bti_kind_name(kind); }

void bti_name_short(bt_kind kind, int index, char *text, size_t size) {
    snprintf(text, size, "%s:%d", bti_kind_name(kind), index);
}
void bti_name_long(bt_kind kind, int index, char *text, size_t size) {
    snprintf(text, size, "/job:localhost/replica:0/task:0/device:%s:%d", bti_kind_name(kind), index);
}

/* A piece of the name being read. */
typedef struct piece {
    const char *at;
    size_t length;
} piece;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }
static bool is_hex(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

/* Takes `word` off the front, whatever its case. */
static bool skip_word(piece *p, const char *word) {
    size_t length = strlen(word);
    if (p->length < length || !bti_same_word(p->at, length, word)) return false;
    p->at += length;
    p->length -= length;
    return true;
}

static bool read_number(piece *p, int *number) {
    size_t digits = 0;
    int value = 0;
    while (digits < p->length && is_digit(p->at[digits])) {
        if (digits == 9) return false;
        value = value * 10 + (p->at[digits++] - '0');
    }
    if (!digits) return false;
    *number = value;
    p->at += digits;
    p->length -= digits;
    return true;
}

static bt_status refuse(const char *text, const char *why) {
    return bti_fail(BT_INVALID_ARGUMENT, "\"%s\" is not a device name: %s", bti_quote(text).text, why);
}

static bool take_kind(piece *p, bt_kind *kind) {
    for (int k = 0; k < BT_KIND_COUNT; k++)
        if (skip_word(p, bti_kind_name((bt_kind)k))) return *kind = (bt_kind)k, true;
    return false;
}

/* ":1" or nothing. */
static bool take_index(piece *p, bti_name *name) {
    name->index = 0;
    name->numbered = false;
    if (!p->length) return true;
    if (!skip_word(p, ":") || !read_number(p, &name->index)) return false;
    name->numbered = true;
    return p->length == 0;
}

/* --- "/job:localhost/replica:0/task:0/device:GPU:1" --------------------------------------------------------------- */

static bt_status parse_part(const char *text, piece part, bti_name *name, bool *has_device) {
    static const char *const here[] = {"job:", "replica:", "task:"};
    int number;
    for (int i = 0; i < 3; i++) {
        if (!skip_word(&part, here[i])) continue;
        if (!part.length) return refuse(text, "job:, replica: and task: need a value");
        if (i == 0)
            name->remote |= !bti_same_word(part.at, part.length, "localhost");
        else if (!read_number(&part, &number) || part.length)
            return refuse(text, "replica: and task: take a number");
        else
            name->remote |= number != 0;
        return BT_OK;
    }
    if (*has_device) return refuse(text, "it names two devices");
    *has_device = true;
    bool spelled_out = skip_word(&part, "device:") || skip_word(&part, "physical_device:");
    if (!take_kind(&part, &name->kind) || (part.length && *part.at != ':'))
        return refuse(text, spelled_out ? "the kind must be CPU, GPU, TPU or ACC"
                                        : "its parts are job:, replica:, task: and device:KIND:NUMBER");
    if (!take_index(&part, name)) return refuse(text, "after the kind comes a colon and a number of up to 9 digits");
    return BT_OK;
}

static bt_status parse_path(const char *text, bti_name *name) {
    bool has_device = false;
    const char *at = text + (*text == '/');
    name->form = BTI_NAME_KIND;
    for (;;) {
        piece part = {at, strcspn(at, "/")};
        if (!part.length) return refuse(text, "there is nothing between two slashes or after the last");
        BTI_TRY(parse_part(text, part, name, &has_device));
        at += part.length;
        if (!*at) break;
        at++;
    }
    return has_device ? BT_OK : refuse(text, "it has no device:KIND:NUMBER");
}

/* --- other spellings ---------------------------------------------------------------------------------------------- */

static bt_status parse_cuda(const char *text, piece rest, bti_name *name) {
    name->form = BTI_NAME_KIND;
    name->kind = BT_GPU;
    if (!rest.length) return BT_OK;
    skip_word(&rest, ":");
    name->numbered = true;
    if (!read_number(&rest, &name->index) || rest.length)
        return refuse(text, "what begins with cuda must be cuda, cudaN or cuda:N");
    return BT_OK;
}

static bt_status parse_opencl(const char *text, piece rest, bti_name *name) {
    name->form = BTI_NAME_OPENCL;
    if (!rest.length) return BT_OK;
    skip_word(&rest, ":");
    name->numbered = true;
    if (!read_number(&rest, &name->platform) || !skip_word(&rest, ":") || !read_number(&rest, &name->platform_device) ||
        rest.length)
        return refuse(text, "what begins with opencl must be opencl or openclPLATFORM:DEVICE, such as opencl0:0");
    return BT_OK;
}

static void keep_lower(bti_name *name, piece p) {
    if (p.length > sizeof name->text - 1) p.length = sizeof name->text - 1;
    for (size_t i = 0; i < p.length; i++) name->text[i] = lower(p.at[i]);
    name->text[p.length] = '\0';
}

/* "GPU-51000000-0000-...", its beginning, or the 36 characters without "GPU-". */
static bool parse_uuid(piece p, bti_name *name) {
    bool prefixed = skip_word(&p, "GPU-");
    if (!prefixed && p.length != 36) return false;
    if (!p.length || p.length > 36) return false;
    for (size_t i = 0; i < p.length; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? p.at[i] != '-' : !is_hex(p.at[i])) return false;
    }
    name->form = BTI_NAME_UUID;
    keep_lower(name, p);
    return true;
}

/* "0000:3b:00.0", "3b:00.0" or nvidia-smi's "00000000:3B:00.0". */
static bool parse_pci(piece p, bti_name *name) {
    unsigned value[4] = {0}; /* domain, bus, device, function */
    size_t digits = 0, colons = 0, i = 0;
    for (size_t k = 0; k < p.length; k++) colons += p.at[k] == ':';
    int field = colons == 2 ? 0 : 1;
    if (colons != 1 && colons != 2) return false;
    for (; i <= p.length; i++) {
        if (i < p.length && is_hex(p.at[i])) {
            if (++digits > 8) return false;
            unsigned digit = (unsigned)(is_digit(p.at[i]) ? p.at[i] - '0' : lower(p.at[i]) - 'a' + 10);
            value[field] = value[field] * 16 + digit;
            continue;
        }
        bool fits = field == 0 ? digits == 4 || digits == 8 : field == 3 ? digits == 1 : digits == 2;
        char end = i < p.length ? p.at[i] : '\0';
        if (!fits || end != (field == 3 ? '\0' : field == 2 ? '.' : ':')) return false;
        digits = 0;
        field++;
        if (field > 3) break;
    }
    if (field != 4 || i != p.length || value[2] > 31 || value[3] > 7) return false;
    name->form = BTI_NAME_PCI;
    snprintf(name->text, sizeof name->text, "%04x:%02x:%02x.%x", value[0], value[1], value[2], value[3]);
    return true;
}

bt_status bti_name_parse(const char *text, bti_name *name) {
    *name = (bti_name){0};
    if (!text || !*text) return refuse("", "it is empty");
    size_t length = strlen(text);
    if (length > 255) return refuse(text, "it is too long");
    piece whole = {text, length}, rest = whole;
    if (memchr(text, '/', length)) return parse_path(text, name);
    if (skip_word(&rest, "cuda")) return parse_cuda(text, rest, name);
    if (skip_word(&rest, "opencl")) return parse_opencl(text, rest, name);
    if (parse_uuid(whole, name) || parse_pci(whole, name)) return BT_OK;
    if (memchr(text, ':', length)) return parse_path(text, name);
    name->form = BTI_NAME_KIND;
    if (take_kind(&rest, &name->kind) && !rest.length) return BT_OK;
    if (length > sizeof name->text - 1) return refuse(text, "it is too long");
    *name = (bti_name){.form = BTI_NAME_CONTEXT};
    memcpy(name->text, text, length + 1);
    return BT_OK;
}
