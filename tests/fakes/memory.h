/* Device memory of the fake machine: allocations, and for each of their bytes which operation wrote it last and which read it since
 * (shadow memory, made when a page is first touched). Addresses are not pointers and are never used twice. All is called under
 * fake_lock. */
#ifndef BERTH_TESTS_FAKES_MEMORY_H
#define BERTH_TESTS_FAKES_MEMORY_H

#include "fakes/machine.h"

#define FAKE_PAGE 4096
#define FAKE_WHOLE_PAGE 12 /* shift of a page of which all bytes were accessed together */

/* One access, or several of one launch that are equal in what orders them. */
typedef struct fake_cell {
    uint32_t op;     /* the operation: a number of order.h, or a set of them (readers); 0: none */
    uint32_t thread; /* of a launch: the block's number << 10 | the thread's number within it */
    uint32_t when;   /* of a launch: barriers of the block << 16 | barriers of the warp */
    uint32_t what;   /* the source line << 12 | FAKE_CELL_ flags */
} fake_cell;

enum {
    FAKE_CELL_UNWRITTEN = 1,   /* the write copied bytes that were never written */
    FAKE_CELL_ATOMIC = 2,      /* by an atomic, volatile, acquiring or releasing instruction */
    FAKE_CELL_ASYNC = 4,       /* a cp.async that its thread has not waited for */
    FAKE_CELL_NC = 8,          /* some of the reads were ld.global.nc */
    FAKE_CELL_MANY_WARP = 16,  /* reads by several threads of the warp */
    FAKE_CELL_MANY_BLOCK = 32, /* reads by several warps of the block */
    FAKE_CELL_MANY_GRID = 64,  /* reads by several blocks */
    FAKE_CELL_FLAGS = 4095,
};

/* 1 << shift bytes of a page. */
typedef struct fake_granule {
    fake_cell write, read;
} fake_granule;

typedef struct fake_page {
    int shift; /* 0 to 12 */
    fake_granule *granules;
} fake_page;

typedef struct fake_allocation {
    uint64_t address, bytes;
    char *host; /* NULL: it was freed */
    fake_page *pages;
    int device;
    bool variable;                    /* of a module: not of the memory that programs ask for */
    uint32_t stream_count, *last_ops; /* the last operation of each stream that accessed it; 0: none */
} fake_allocation;

/* The allocation with the highest address up to `address`, freed ones too; NULL: there is none. */
FAKE_API fake_allocation *fake_allocation_at(uint64_t address);
/* The running operation accesses the allocation. */
FAKE_API void fake_allocation_use(fake_allocation *allocation);
/* The name of an operation that accessed the allocation at this address and that the host has not waited for; NULL: there is none. */
FAKE_API const char *fake_allocation_user(uint64_t address);
/* Memory for a variable of a module, which programs do not see as used. */
FAKE_API uint64_t fake_alloc_variable(int device, uint64_t bytes);
/* Says in words where an address lies that is in no allocation: "64 bytes after the allocation of ...". */
FAKE_API void fake_describe_address(uint64_t address, uint64_t bytes, char *text, size_t text_bytes);
/* The granule of the byte at `offset` of a page, of at most `bytes` bytes at a multiple of `bytes` (a power of 2); splits where needed. */
FAKE_API fake_granule *fake_page_granule(fake_page *page, uint32_t offset, uint32_t bytes);
FAKE_API void fake_page_split(fake_page *page, int shift);
FAKE_API void fake_page_free(fake_page *page);

/* --- accesses of copies, fills and the stand-ins of libraries -------------------------------------------------------- */

/* The host memory of `bytes` bytes that the running operation reads or writes; NULL after a finding. Other operations that are not
 * ordered before it and access the same bytes are findings, as are reads of bytes never written. */
FAKE_API void *fake_read_memory(uint64_t address, uint64_t bytes);
FAKE_API void *fake_write_memory(uint64_t address, uint64_t bytes);
/* After fake_write_memory: bytes that were copied from bytes never written count as never written. */
FAKE_API void fake_copy_unwritten(uint64_t to, uint64_t from, uint64_t bytes);
/* Whether the byte at an address of an allocation was never written; *run: how many bytes from there on share that. */
FAKE_API bool fake_is_unwritten(uint64_t address, uint64_t *run);
FAKE_API void fake_mark_unwritten(uint64_t address, uint64_t bytes);
/* Reads of a copy: as fake_read_memory, but bytes never written may be copied. */
FAKE_API void *fake_read_for_copy(uint64_t address, uint64_t bytes);

/* Something wrote where it pleased (a sampled launch, a kernel that nothing runs): reads of bytes never written are no findings from now on. */
FAKE_API void fake_memory_lost_track(void);
FAKE_API bool fake_memory_tracked(void);

#endif
