#include "task/ray/frame.h"

#include <string.h>

#include "base/error.h"

/* --- writing ----------------------------------------------------------------------------------------------------------- */

void bti_ray_add32(bti_str *frame, uint32_t number) { bti_str_add_bytes(frame, &number, sizeof number); }
void bti_ray_add64(bti_str *frame, uint64_t number) { bti_str_add_bytes(frame, &number, sizeof number); }
void bti_ray_add_real(bti_str *frame, double number) { bti_str_add_bytes(frame, &number, sizeof number); }

void bti_ray_add_text(bti_str *frame, const char *text) {
    size_t bytes = text ? strlen(text) : 0;
    bti_ray_add32(frame, (uint32_t)bytes);
    bti_str_add_bytes(frame, text ? text : "", bytes);
}

void bti_ray_begin(bti_str *frame, bti_ray_kind kind, uint64_t request) {
    frame->length = 0;
    bti_ray_add32(frame, 0);
    bti_ray_add32(frame, (uint32_t)kind);
    bti_ray_add64(frame, request);
}

bool bti_ray_finish(bti_str *frame) {
    if (frame->failed) return (void)bti_no_memory(), false;
    if (frame->length > BTI_RAY_MOST_FRAME)
        return (void)bti_fail(BT_INVALID_ARGUMENT, "the call has %zu bytes of references and options; at most %d",
                              frame->length, BTI_RAY_MOST_FRAME),
               false;
    uint32_t after = (uint32_t)(frame->length - sizeof after);
    memcpy(frame->text, &after, sizeof after);
    return true;
}

/* --- reading ----------------------------------------------------------------------------------------------------------- */

static const char *take_bytes(bti_ray_reader *reader, uint64_t bytes) {
    if (bytes > reader->left) {
        reader->is_short = true;
        reader->left = 0;
        return NULL;
    }
    const char *at = reader->at;
    reader->at += bytes;
    reader->left -= bytes;
    return at;
}

uint32_t bti_ray_read32(bti_ray_reader *reader) {
    uint32_t number = 0;
    const char *at = take_bytes(reader, sizeof number);
    if (at) memcpy(&number, at, sizeof number);
    return number;
}

uint64_t bti_ray_read64(bti_ray_reader *reader) {
    uint64_t number = 0;
    const char *at = take_bytes(reader, sizeof number);
    if (at) memcpy(&number, at, sizeof number);
    return number;
}

double bti_ray_read_real(bti_ray_reader *reader) {
    uint64_t bits = bti_ray_read64(reader);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

const char *bti_ray_read_text(bti_ray_reader *reader, uint32_t *bytes) {
    *bytes = bti_ray_read32(reader);
    const char *text = take_bytes(reader, *bytes);
    if (!text) *bytes = 0;
    return text ? text : "";
}

int64_t bti_ray_frame_bytes(const char *stream, uint64_t bytes) {
    uint32_t after;
    if (bytes < sizeof after) return 0;
    memcpy(&after, stream, sizeof after);
    if (after < BTI_RAY_HEAD - sizeof after || after > BTI_RAY_MOST_FRAME) return -1;
    return bytes >= sizeof after + after ? (int64_t)(sizeof after + after) : 0;
}
