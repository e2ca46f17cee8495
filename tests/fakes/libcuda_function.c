/* Attributes of functions of the fake libcuda, and how many threads and blocks of a kernel fit on a multiprocessor. The limits are those of NVIDIA's CUDA programming guide, table "Technical
 * Specifications per Compute Capability"; registers are given to warps in units of 256, and each of the 4 parts of a multiprocessor has its
 * own; shared memory is given in units of 128 bytes (before 8.0: 256), and from 8.0 on the system takes 1 KiB for each block. */
#include "fakes/libcuda.h"

#define REGISTERS 65536 /* of a multiprocessor, and the most of a block */
#define PARTS 4
#define REGISTER_UNIT 256
#define GUESSED_REGISTERS 32 /* of a thread, where the compiler's log does not say it: PTX that the driver compiles */

/* CUfunction_attribute beyond what driver_api.h names. */
enum { LOCAL_BYTES = 3, FUNCTION_REGISTERS = 4 };

typedef struct limits {
    int capability, blocks, warps, shared_bytes; /* of a multiprocessor */
} limits;

static const limits known[] = {
    {75, 16, 32, 65536},  {80, 32, 64, 167936},  {86, 16, 48, 102400},  {87, 16, 48, 167936},  {89, 24, 48, 102400},
    {90, 32, 64, 233472}, {100, 32, 64, 233472}, {103, 32, 64, 233472}, {120, 24, 48, 102400}, {121, 24, 48, 102400},
};

/* Of the device; of the newest one before it, if it is unknown. */
static const limits *limits_of(int device) {
    int capability = fake()->devices[device].major * 10 + fake()->devices[device].minor;
    const limits *found = known;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].capability <= capability) found = &known[i];
    return found;
}

static int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

/* Of a thread. */
static int registers_of(CUfunction function) {
    const ptx_function *f = function->ptx;
    return f && f->hardware_registers ? (int)f->hardware_registers : GUESSED_REGISTERS;
}

static int static_bytes(CUfunction function) { return function->ptx ? (int)function->ptx->shared_bytes : 64; }

/* Warps whose registers fit on a multiprocessor. */
static int warps_by_registers(CUfunction function) {
    return REGISTERS / PARTS / round_up(registers_of(function) * PTX_WARP, REGISTER_UNIT) * PARTS;
}

unsigned fake_most_threads(CUfunction function) {
    if (!function->ptx) return 512;
    int most = warps_by_registers(function) * PTX_WARP, given = (int)function->ptx->max_threads;
    if (most > 1024) most = 1024;
    return (unsigned)(given && given < most ? given : most);
}

FAKE_API CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    ENTER_IN_CONTEXT(cuFuncGetAttribute);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)fake_most_threads(function); return 0;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_bytes(function); return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->dynamic_bytes ? function->dynamic_bytes : FAKE_SHARED - static_bytes(function);
        return 0;
    case LOCAL_BYTES:
        *value = function->ptx ? (int)(function->ptx->frame_bytes + function->ptx->spill_bytes) : 0;
        return 0;
    case FUNCTION_REGISTERS: *value = registers_of(function); return 0;
    default: return 1;
    }
}
FAKE_API CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    ENTER_IN_CONTEXT(cuFuncSetAttribute);
    int most = fake_shared_bytes(&fake()->devices[fake_current()->device]);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0) return 1;
    if (value + static_bytes(function) > most) return 1;
    function->dynamic_bytes = value;
    return 0;
}

/* Blocks of so many warps, by each limit; the smallest one holds. */
static int blocks_of(const limits *l, CUfunction function, int warps, size_t bytes) {
    size_t shared = (size_t)static_bytes(function) + bytes + (l->capability < 80 ? 0 : 1024);
    int blocks = l->blocks, by_warps = l->warps / warps, by_registers = warps_by_registers(function) / warps;
    if (by_warps < blocks) blocks = by_warps;
    if (by_registers < blocks) blocks = by_registers;
    if (shared > (size_t)l->shared_bytes) return 0;
    int by_shared = shared ? l->shared_bytes / round_up((int)shared, l->capability < 80 ? 256 : 128) : blocks;
    return by_shared < blocks ? by_shared : blocks;
}

int fake_resident_blocks(int device, CUfunction function, int threads, size_t dynamic_bytes) {
    if ((unsigned)threads > fake_most_threads(function)) return 0;
    return blocks_of(limits_of(device), function, (threads + PTX_WARP - 1) / PTX_WARP, dynamic_bytes);
}

FAKE_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                              size_t bytes) {
    ENTER_IN_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    if (threads <= 0) return 1;
    *blocks = fake_resident_blocks(fake_current()->device, function, threads, bytes);
    return 0;
}
