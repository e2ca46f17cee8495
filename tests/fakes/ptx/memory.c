/* Loads and stores of a warp in all spaces, and addresses. */
#include <stdlib.h>
#include <string.h>

#include "fakes/ptx/engine.h"

#define LANE_BIT(lane) (UINT32_C(1) << (lane))

/* --- requests ------------------------------------------------------------------------------------------------------- */

/* The lowest lane of the mask whose address is not below `end`. -1: none. */
static int lane_outside(const uint64_t *address, uint32_t mask, uint64_t bytes, uint64_t end) {
    EACH_LANE(lane, mask) {
        if (address[lane] > end || bytes > end - address[lane]) return (int)lane;
    }
    return -1;
}

static bool misaligned(engine *e, const warp *w, const ptx_instruction *in, const uint64_t *address, uint32_t mask,
                       uint32_t bytes, uint32_t alignment) {
    uint64_t all = 0;
    if (mask == UINT32_MAX) {
        for (int lane = 0; lane < PTX_WARP; lane++) all |= address[lane];
    } else {
        EACH_LANE(lane, mask) all |= address[lane];
    }
    if (!(all & (alignment - 1))) return false;
    EACH_LANE(lane, mask) {
        if (!(address[lane] & (alignment - 1))) continue;
        ptx_fail(e, w, in, (int)lane, "misaligned: %u bytes at address 0x%llx, which is not a multiple of %u", bytes,
                 (unsigned long long)address[lane], alignment);
        break;
    }
    return true;
}

static bool reach_shared(engine *e, const warp *w, const ptx_instruction *in, ptx_access access, const uint64_t *offset,
                         uint32_t mask, uint32_t bytes, unsigned char **host) {
    int lane = lane_outside(offset, mask, bytes, e->shared_bytes);
    if (lane >= 0)
        return ptx_fail(e, w, in, lane, "%u bytes at offset %lld of shared memory, which has %u bytes", bytes,
                        (long long)offset[lane], e->shared_bytes);
    watch_request request = {e->block, w->first_thread, mask, bytes, access, in, offset};
    char *problem = NULL;
    if (!watch_shared(e->watched, &request, &lane, &problem)) {
        ptx_fail(e, w, in, lane, "%s", problem);
        free(problem);
        return false;
    }
    EACH_LANE(l, mask) host[l] = e->shared + offset[l];
    if (e->counting) ptx_count_shared(e, offset, mask, bytes);
    return true;
}

static bool reach_global(engine *e, const warp *w, const ptx_instruction *in, ptx_access access,
                         const uint64_t *address, uint32_t mask, uint32_t bytes, unsigned char **host) {
    watch_request request = {e->block, w->first_thread, mask, bytes, access, in, address};
    char *problem = NULL;
    int lane = -1;
    if (!watch_global(e->watched, &request, host, &lane, &problem)) {
        ptx_fail(e, w, in, lane, "%s", problem);
        free(problem);
        return false;
    }
    if (e->counting) ptx_count_global(e, address, mask, bytes);
    return true;
}

static bool reach_local(engine *e, const warp *w, const group *g, const ptx_instruction *in, const uint64_t *address,
                        uint32_t mask, uint32_t bytes, unsigned char **host) {
    uint32_t end = g->frame + e->codes[g->function].function->frame_bytes;
    int lane = lane_outside(address, mask, bytes, end);
    if (lane >= 0)
        return ptx_fail(e, w, in, lane, "%u bytes at offset %lld of local memory, which has %u bytes", bytes,
                        (long long)address[lane], end);
    EACH_LANE(l, mask) host[l] = e->local + (w->first_thread + l) * e->local_stride + address[l];
    if (in->space != PTX_PARAM) e->counts.local_bytes += bytes * (uint64_t)__builtin_popcount(mask);
    return true;
}

static uint64_t window_of(ptx_space space) {
    return space == PTX_SHARED ? PTX_SHARED_WINDOW : space == PTX_LOCAL ? PTX_LOCAL_WINDOW : 0;
}

static uint32_t lanes_in_window(const uint64_t *address, uint32_t mask, ptx_space space) {
    uint32_t inside = 0;
    EACH_LANE(lane, mask) {
        if (address[lane] - window_of(space) < PTX_WINDOW_BYTES) inside |= LANE_BIT(lane);
    }
    return inside;
}

/* Lanes of one instruction may reach different spaces. */
static bool reach_generic(engine *e, const warp *w, const group *g, const ptx_instruction *in, ptx_access access,
                          const uint64_t *address, uint32_t mask, uint32_t bytes, unsigned char **host) {
    uint64_t offset[PTX_WARP];
    uint32_t shared = lanes_in_window(address, mask, PTX_SHARED), local = lanes_in_window(address, mask, PTX_LOCAL);
    EACH_LANE(lane, shared) offset[lane] = address[lane] - PTX_SHARED_WINDOW;
    EACH_LANE(lane, local) offset[lane] = address[lane] - PTX_LOCAL_WINDOW;
    if (shared && !reach_shared(e, w, in, access, offset, shared, bytes, host)) return false;
    if (local && !reach_local(e, w, g, in, offset, local, bytes, host)) return false;
    mask &= ~(shared | local);
    return !mask || reach_global(e, w, in, access, address, mask, bytes, host);
}

static bool reach_argument(engine *e, const warp *w, const ptx_instruction *in, ptx_access access,
                           const uint64_t *offset, uint32_t mask, uint32_t bytes, unsigned char **host) {
    uint32_t end = e->launch->function->parameter_bytes;
    int lane = lane_outside(offset, mask, bytes, end);
    if (access != PTX_READ) return ptx_fail(e, w, in, __builtin_ctz(mask), "arguments of a kernel cannot be written");
    if (lane >= 0)
        return ptx_fail(e, w, in, lane, "%u bytes at offset %lld of the arguments, which have %u bytes", bytes,
                        (long long)offset[lane], end);
    EACH_LANE(l, mask) host[l] = (unsigned char *)(uintptr_t)(e->launch->arguments + offset[l]); /* only read */
    return true;
}

bool ptx_reach(engine *e, const warp *w, const group *g, const ptx_instruction *in, ptx_space space, ptx_access access,
               const uint64_t *address, uint32_t mask, uint32_t bytes, uint32_t alignment, unsigned char **host) {
    if (misaligned(e, w, in, address, mask, bytes, alignment)) return false;
    switch (space) {
    case PTX_SHARED: return reach_shared(e, w, in, access, address, mask, bytes, host);
    case PTX_LOCAL: return reach_local(e, w, g, in, address, mask, bytes, host);
    case PTX_PARAM: return reach_argument(e, w, in, access, address, mask, bytes, host);
    case PTX_CONST:
        if (access != PTX_READ) return ptx_fail(e, w, in, __builtin_ctz(mask), "constants cannot be written");
        return reach_global(e, w, in, access, address, mask, bytes, host);
    case PTX_GLOBAL: return reach_global(e, w, in, access, address, mask, bytes, host);
    case PTX_GENERIC: break;
    }
    return reach_generic(e, w, g, in, access, address, mask, bytes, host);
}

/* --- loads and stores ----------------------------------------------------------------------------------------------- */

/* Parameters of functions and of calls are local memory; the arguments of the kernel are not. */
static ptx_space space_of(const engine *e, const group *g, const ptx_instruction *in) {
    if (in->space != PTX_PARAM) return (ptx_space)in->space;
    bool of_entry =
        in->from[0].kind == PTX_PARAM_AT || (in->from[0].kind == PTX_REGISTER && e->codes[g->function].function->entry);
    return of_entry ? PTX_PARAM : PTX_LOCAL;
}

static bool reach_operand(engine *e, warp *w, group *g, const step *s, ptx_access access, uint32_t mask,
                          unsigned char **host) {
    uint64_t address[PTX_WARP];
    const ptx_instruction *in = s->in;
    uint32_t bytes = ptx_type_bytes(in->type) * (in->vector ? in->vector : 1);
    if (!bytes) return ptx_fail(e, w, in, -1, "an access without a type");
    ptx_address(w, g, s, 0, address);
    return ptx_reach(e, w, g, in, space_of(e, g, in), access, address, mask, bytes, bytes, host);
}

/* All lanes, or those of the mask: the first loop has no branches. */
#define EACH_OF(mask, body)                                   \
    if ((mask) == UINT32_MAX) {                               \
        for (uint32_t lane = 0; lane < PTX_WARP; lane++) body \
    } else {                                                  \
        EACH_LANE(lane, mask) body                            \
    }

#define LOAD(type)                                         \
    EACH_OF(mask, {                                        \
        type value;                                        \
        memcpy(&value, host[lane] + offset, sizeof value); \
        to[lane] = (uint64_t)(value);                      \
    })

#define STORE(type)                                        \
    EACH_OF(mask, {                                        \
        type value = (type)from[lane];                     \
        memcpy(host[lane] + offset, &value, sizeof value); \
    })

static void load_element(uint64_t *to, unsigned char *const *host, uint32_t mask, uint32_t offset, ptx_type type) {
    switch (type) {
    case PTX_S8: LOAD(int8_t) break;
    case PTX_S16: LOAD(int16_t) break;
    case PTX_S32: LOAD(int32_t) break;
    default:
        switch (ptx_type_bytes(type)) {
        case 1: LOAD(uint8_t) break;
        case 2: LOAD(uint16_t) break;
        case 4: LOAD(uint32_t) break;
        default: LOAD(uint64_t) break;
        }
    }
}

bool ptx_load(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    unsigned char *host[PTX_WARP];
    const ptx_instruction *in = s->in;
    ptx_type type = (ptx_type)in->type;
    if (!reach_operand(e, w, g, s, in->nc || in->opcode == PTX_LDU ? PTX_READ_NC : PTX_READ, mask, host)) return false;
    uint32_t bytes = ptx_type_bytes(type), bits = in->to_bits ? in->to_bits : bytes > 4 ? 64 : 32;
    for (int k = 0; k < in->to_count; k++) {
        if (in->to[k].kind != PTX_REGISTER) continue;
        uint64_t *to = register_lanes(w, g, in->to[k].number);
        load_element(to, host, mask, (uint32_t)k * bytes, type);
        if (bits < 64 && (type == PTX_S8 || type == PTX_S16 || type == PTX_S32))
            EACH_LANE(lane, mask) to[lane] &= (UINT64_C(1) << bits) - 1;
    }
    return true;
}

bool ptx_store(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    unsigned char *host[PTX_WARP];
    uint64_t scratch[PTX_WARP];
    const ptx_instruction *in = s->in;
    if (!reach_operand(e, w, g, s, PTX_WRITE, mask, host)) return false;
    uint32_t bytes = ptx_type_bytes(in->type);
    for (int k = 1; k < in->from_count; k++) {
        const uint64_t *from = ptx_source(e, w, g, s, k, scratch);
        uint32_t offset = (uint32_t)(k - 1) * bytes;
        switch (bytes) {
        case 1: STORE(uint8_t) break;
        case 2: STORE(uint16_t) break;
        case 4: STORE(uint32_t) break;
        default: STORE(uint64_t) break;
        }
    }
    return true;
}

/* --- addresses ------------------------------------------------------------------------------------------------------ */

bool ptx_cvta(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    uint64_t scratch[PTX_WARP];
    const ptx_instruction *in = s->in;
    if (in->space == PTX_PARAM) return ptx_fail(e, w, in, -1, "generic addresses of parameters are not emulated");
    const uint64_t *from = ptx_source(e, w, g, s, 0, scratch);
    uint64_t *to = register_lanes(w, g, in->to[0].number), window = window_of((ptx_space)in->space);
    EACH_LANE(lane, mask) to[lane] = in->to_flag ? from[lane] - window : from[lane] + window;
    return true;
}

bool ptx_isspacep(engine *e, warp *w, group *g, const step *s, uint32_t mask) {
    uint64_t scratch[PTX_WARP];
    const uint64_t *from = ptx_source(e, w, g, s, 0, scratch);
    ptx_space space = (ptx_space)s->in->space;
    uint32_t inside = space == PTX_SHARED || space == PTX_LOCAL ? lanes_in_window(from, mask, space) : 0;
    if (space == PTX_GLOBAL)
        inside = mask & ~(lanes_in_window(from, mask, PTX_SHARED) | lanes_in_window(from, mask, PTX_LOCAL));
    uint64_t *to = register_lanes(w, g, s->in->to[0].number);
    EACH_LANE(lane, mask) to[lane] = inside >> lane & 1;
    return true;
}
