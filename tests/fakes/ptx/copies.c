/* cp.async: the bytes are read at once and arrive in shared memory when the thread waits for them; until then there is poison, so that
 * code shows that reads them too early. */
#include <string.h>

#include "fakes/ptx/engine.h"

static void add_copy(warp *w, uint32_t lane, uint64_t offset, uint32_t bytes, const unsigned char *from,
                     uint32_t given) {
    if (w->copy_count == w->copy_capacity) {
        w->copy_capacity = w->copy_capacity ? w->copy_capacity * 2 : 64;
        w->copies = ptx_need(w->copies, w->copy_capacity, sizeof *w->copies);
    }
    pending_copy *c = &w->copies[w->copy_count++];
    *c = (pending_copy){lane, w->batches[lane], (uint32_t)offset, bytes, {0}};
    if (given) memcpy(c->data, from, given);
}

/* The bytes that each lane reads: all, or as many as its last operand says; zeros fill the rest. */
static bool copy_sizes(engine *e, const warp *w, const group *g, const step *s, uint32_t mask,
                       uint32_t given[PTX_WARP]) {
    uint64_t scratch[PTX_WARP];
    const uint64_t *size = s->in->from_count > 2 ? ptx_source(e, w, g, s, 2, scratch) : NULL;
    EACH_LANE(lane, mask) {
        given[lane] = size ? (uint32_t)size[lane] : s->in->bytes;
        if (given[lane] > s->in->bytes)
            return ptx_fail(e, w, s->in, (int)lane, "a source size of %u bytes in a copy of %u", given[lane],
                            s->in->bytes);
    }
    return true;
}

bool ptx_copy_start(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    uint64_t to[PTX_WARP], from[PTX_WARP];
    unsigned char *to_host[PTX_WARP], *from_host[PTX_WARP];
    uint32_t given[PTX_WARP];
    const ptx_instruction *in = s->in;
    ptx_address(w, g, s, 0, to);
    ptx_address(w, g, s, 1, from);
    if (!copy_sizes(e, w, g, s, mask, given)) return false;
    for (uint32_t left = mask; left;) { /* lanes that read as many bytes are one request */
        uint32_t bytes = given[__builtin_ctz(left)], same = 0;
        EACH_LANE(lane, left) {
            if (given[lane] == bytes) same |= UINT32_C(1) << lane;
        }
        left &= ~same;
        if (bytes && !ptx_reach(e, w, g, in, PTX_GLOBAL, PTX_READ, from, same, bytes, in->bytes, from_host))
            return false;
    }
    if (!ptx_reach(e, w, g, in, PTX_SHARED, PTX_ASYNC_WRITE, to, mask, in->bytes, in->bytes, to_host)) return false;
    EACH_LANE(lane, mask) {
        add_copy(w, lane, to[lane], in->bytes, given[lane] ? from_host[lane] : NULL, given[lane]);
        memset(to_host[lane], ENGINE_POISON, in->bytes);
    }
    return true;
}

void ptx_copy_commit(engine *e, warp *w, const step *s, uint32_t mask) {
    EACH_LANE(lane, mask) {
        watch_place place = {e->block, w->first_thread + lane, s->in};
        watch_async_commit(e->watched, &place);
        w->batches[lane]++;
    }
}

/* wait_group N leaves the last N batches that were committed; wait_all leaves nothing, not even what was not committed. */
void ptx_copy_wait(engine *e, warp *w, const step *s, uint32_t mask) {
    bool all = !s->in->from_count;
    uint32_t left = all ? UINT32_MAX : (uint32_t)s->in->from[0].value;
    size_t kept = 0;
    for (size_t i = 0; i < w->copy_count; i++) {
        pending_copy *c = &w->copies[i];
        bool arrives = (mask >> c->lane & 1) && (all || (uint64_t)c->batch + left < w->batches[c->lane]);
        if (arrives) {
            memcpy(e->shared + c->offset, c->data, c->bytes);
        } else {
            w->copies[kept++] = *c;
        }
    }
    w->copy_count = kept;
    EACH_LANE(lane, mask) {
        watch_place place = {e->block, w->first_thread + lane, s->in};
        watch_async_wait(e->watched, &place, left);
    }
}
