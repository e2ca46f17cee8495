/* What berth and Python tell each other about a cluster (session.py has the other side): frames of little-endian numbers and bytes.
 *
 *     frame     u32 bytes after it; u32 kind; u64 request, 0: no answer is wanted; the body
 *     text      u32 bytes; the bytes
 *     answer    i32 status; u32 failure; u64 number; f64 real; text; u32 count; what is done of references, actors and groups:
 *               u64 id; u32 state; i32 status; u32 failure; u64 bytes; text (of a small value: its bytes; of a failure: its text) */
#ifndef BTI_TASK_RAY_FRAME_H
#define BTI_TASK_RAY_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* As in session.py. */
typedef enum bti_ray_kind {
    BTI_RAY_ANSWER = 1,
    BTI_RAY_START,
    BTI_RAY_PROFILE,
    BTI_RAY_CALL,
    BTI_RAY_PUT,
    BTI_RAY_WAIT,
    BTI_RAY_FETCH,
    BTI_RAY_CANCEL,
    BTI_RAY_KILL,
    BTI_RAY_FIND,
    BTI_RAY_GROUP,
    BTI_RAY_RESOURCE,
    BTI_RAY_VIEW,
    BTI_RAY_STATUS,
    BTI_RAY_HOLD,
    BTI_RAY_RELEASE,
    BTI_RAY_UNMAP,
    BTI_RAY_STOP,
    BTI_RAY_CANCELLED
} bti_ray_kind;

enum {
    BTI_RAY_HEAD = 16,            /* bytes of a frame before its body */
    BTI_RAY_MOST_FRAME = 1 << 30, /* bytes */
    BTI_RAY_LARGE = 128 << 10     /* packed values of more bytes pass through memory that both processes map */
};

/* Writing. Check `failed` of the str once, at the end. */
void bti_ray_begin(bti_str *frame, bti_ray_kind kind, uint64_t request);
void bti_ray_add32(bti_str *frame, uint32_t number);
void bti_ray_add64(bti_str *frame, uint64_t number);
void bti_ray_add_real(bti_str *frame, double number);
void bti_ray_add_text(bti_str *frame, const char *text);
/* Writes its size. False: it has too many bytes, or memory is short; the cause is in the error record. */
bool bti_ray_finish(bti_str *frame);

/* Reading. After a read past the end `is_short` is set, and everything read since is 0. */
typedef struct bti_ray_reader {
    const char *at;
    uint64_t left;
    bool is_short;
} bti_ray_reader;
uint32_t bti_ray_read32(bti_ray_reader *reader);
uint64_t bti_ray_read64(bti_ray_reader *reader);
double bti_ray_read_real(bti_ray_reader *reader);
/* A text, which lies in the frame and has no end. */
const char *bti_ray_read_text(bti_ray_reader *reader, uint32_t *bytes);

/* The bytes of the first frame of a stream, 0: it is not whole yet; -1: it is none. */
int64_t bti_ray_frame_bytes(const char *stream, uint64_t bytes);

#endif
