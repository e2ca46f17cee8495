/* Calls and other requests as bytes:
 *
 *     frame    head; options of calls and bundles; texts, each with its end; packed values, at a multiple of 64
 *
 * Nothing in it is an address. */
#ifndef BERTH_TESTS_NODES_FRAME_H
#define BERTH_TESTS_NODES_FRAME_H

#include "task/engine.h"

typedef enum frame_kind { FRAME_CALL = 1, FRAME_CANCEL, FRAME_KILL, FRAME_FIND, FRAME_GROUP } frame_kind;

/* What a frame says. Read from bytes it lies in them, but for `options`. */
typedef struct frame {
    frame_kind kind;
    bti_call_kind call;
    unsigned how;                   /* of FRAME_CANCEL */
    uint64_t id;                    /* of what it makes, or is about */
    uint64_t actor, group;          /* ids; 0: none */
    const char *module, *name;      /* of a function; of an actor that is looked for */
    const bt_task_options *options; /* of a call, or of bundles; `group` in them is NULL */
    int count;                      /* of them */
    const char *packed;
    uint64_t bytes;
} frame;

/* A frame with room for `bytes` of packed values, which are written into *room. NULL: out of memory. The caller's to bti_free. */
char *frame_write(const frame *f, uint64_t bytes, uint64_t *size, char **room);
/* False with the cause in the error record: it is none. frame_end frees what *f has. */
bool frame_read(const char *bytes, uint64_t size, frame *f);
void frame_end(frame *f);

#endif
