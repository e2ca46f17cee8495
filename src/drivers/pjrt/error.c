/* Errors of plugins. */
#include <string.h>

#include "drivers/pjrt/device.h"

/* Bytes of a message: XLA's may contain a whole module, or words for each run since the one that failed, and the cause after them. */
enum { HEAD_SHOWN = 3000, TAIL_SHOWN = 1000, MOST_READ = 1 << 20 };

void bti_pjrt_ignore(const bti_pjrt_calls *calls, bti_pjrt_error *error) {
    if (!error) return;
    bti_pjrt_one args = {.size = BTI_PJRT_SIZE(bti_pjrt_one, object), .object = error};
    calls->error_destroy(&args);
}

void bti_pjrt_drop(const bti_pjrt_calls *calls, bti_pjrt_error *(*destroy)(bti_pjrt_one *), void *object) {
    if (!object) return;
    bti_pjrt_one args = {.size = BTI_PJRT_SIZE(bti_pjrt_one, object), .object = object};
    bti_pjrt_ignore(calls, destroy(&args));
}

static bt_status code_of(const bti_pjrt_calls *calls, bti_pjrt_error *error) {
    bti_pjrt_int args = {.size = BTI_PJRT_SIZE(bti_pjrt_int, result), .object = error};
    bti_pjrt_ignore(calls, calls->error_code(&args));
    return args.result > BT_OK && bti_is_status(args.result) ? (bt_status)args.result : BT_INTERNAL;
}

/* The message without the line's end; lines stay. */
static void add_message(const bti_pjrt_calls *calls, bti_pjrt_error *error, bti_str *text) {
    bti_pjrt_text args = {.size = BTI_PJRT_SIZE(bti_pjrt_text, length), .object = error};
    calls->error_message(&args);
    size_t length = !args.text ? 0 : args.length < MOST_READ ? args.length : MOST_READ;
    if (length) length = strnlen(args.text, length);
    while (length && (unsigned char)args.text[length - 1] <= ' ') length--;
    size_t head = length <= HEAD_SHOWN + TAIL_SHOWN ? length : HEAD_SHOWN;
    if (!length) bti_str_add(text, "the plugin gives no reason");
    if (head) bti_str_add_bytes(text, args.text, head);
    if (head == length) return;
    bti_str_addf(text, " (%zu bytes left out) ", length - HEAD_SHOWN - TAIL_SHOWN);
    bti_str_add_bytes(text, args.text + length - TAIL_SHOWN, TAIL_SHOWN);
}

bt_status bti_pjrt_check(const bti_pjrt_calls *calls, const char *whom, const char *what, bti_pjrt_error *error) {
    if (!error) return BT_OK;
    bti_str text = {0};
    bt_status status = code_of(calls, error);
    add_message(calls, error, &text);
    bti_pjrt_ignore(calls, error);
    status = bti_fail(status, "%s: %s: %s", whom, what, bti_str_text(&text));
    bti_str_free(&text);
    return status;
}

void bti_pjrt_read_text(const bti_pjrt_calls *calls, bti_pjrt_error *(*entry)(bti_pjrt_text *), void *object,
                        char *text, size_t size) {
    bti_pjrt_text args = {.size = BTI_PJRT_SIZE(bti_pjrt_text, length), .object = object};
    size_t length = 0;
    if (entry) {
        bti_pjrt_error *error = entry(&args);
        bti_pjrt_ignore(calls, error);
        if (!error && args.text) length = strnlen(args.text, args.length < size - 1 ? args.length : size - 1);
    }
    if (length) memcpy(text, args.text, length);
    text[length] = '\0';
    for (char *c = text; *c; c++)
        if (*c > 0 && *c < ' ') *c = ' ';
}

bt_status bti_pjrt_check_lost(bti_pjrt_device *device) {
    bti_error *lost = atomic_load(&device->lost);
    if (!lost) return BT_OK;
    return bti_fail(BT_UNAVAILABLE, "%s is lost since an earlier failure (%s); other devices are not touched by it",
                    device->name, bti_error_message(lost));
}

bt_status bti_pjrt_try(bti_pjrt_device *device, const char *what, bti_pjrt_error *error) {
    bt_status status = bti_pjrt_check(device->calls, device->name, what, error);
    if (status != BT_UNAVAILABLE) return status;
    bti_error *cause = bti_error_last(), *none = NULL;
    if (!atomic_compare_exchange_strong(&device->lost, &none, cause)) bti_error_release(cause);
    return status;
}
