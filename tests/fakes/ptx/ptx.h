/* An emulator of PTX, the assembly language that NVRTC writes (NVIDIA, "Parallel Thread Execution ISA"): modules are parsed (parse.c)
 * into decoded instructions, of which those that compute are functions over the 32 lanes of a warp (arithmetic.c, convert.c,
 * approximate.c), and launches are run warp by warp (run.c). It covers what berth's kernels are compiled to; anything else is an
 * error that names the instruction. */
#ifndef BERTH_TESTS_FAKES_PTX_PTX_H
#define BERTH_TESTS_FAKES_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_WARP 32

/* --- instructions -------------------------------------------------------------------------------------------------- */

typedef enum ptx_type {
    PTX_NO_TYPE,
    PTX_PRED,
    PTX_B8,
    PTX_B16,
    PTX_B32,
    PTX_B64,
    PTX_U8,
    PTX_U16,
    PTX_U32,
    PTX_U64,
    PTX_S8,
    PTX_S16,
    PTX_S32,
    PTX_S64,
    PTX_F16,
    PTX_BF16,
    PTX_F32,
    PTX_F64,
    PTX_F16X2,
    PTX_BF16X2,
} ptx_type;

/* 0: PTX_PRED, PTX_NO_TYPE. */
static inline uint32_t ptx_type_bytes(uint32_t type) {
    switch (type) {
    case PTX_NO_TYPE:
    case PTX_PRED: return 0;
    case PTX_B8:
    case PTX_U8:
    case PTX_S8: return 1;
    case PTX_B16:
    case PTX_U16:
    case PTX_S16:
    case PTX_F16:
    case PTX_BF16: return 2;
    case PTX_B64:
    case PTX_U64:
    case PTX_S64:
    case PTX_F64: return 8;
    default: return 4;
    }
}

/* Opcodes without their modifiers; the modifiers are fields of the instruction. The instructions after PTX_CONTROL are run.c's. */
typedef enum ptx_opcode {
    PTX_MOV,
    PTX_ADD,
    PTX_SUB,
    PTX_MUL,
    PTX_MAD,
    PTX_FMA,
    PTX_DIV,
    PTX_REM,
    PTX_NEG,
    PTX_ABS,
    PTX_MIN,
    PTX_MAX,
    PTX_ADDC,
    PTX_SUBC,
    PTX_MADC, /* carry chains: .cc sets, addc and so on read the lane's carry flag */
    PTX_AND,
    PTX_OR,
    PTX_XOR,
    PTX_NOT,
    PTX_CNOT,
    PTX_LOP3,
    PTX_SHL,
    PTX_SHR,
    PTX_SHF,
    PTX_PRMT,
    PTX_BFI,
    PTX_BFE,
    PTX_POPC,
    PTX_CLZ,
    PTX_BREV,
    PTX_BFIND,
    PTX_SELP,
    PTX_SLCT,
    PTX_SETP,
    PTX_SET,
    PTX_COPYSIGN,
    PTX_TESTP,
    PTX_CVT,
    PTX_SQRT,
    PTX_RSQRT,
    PTX_RCP,
    PTX_SIN,
    PTX_COS,
    PTX_EX2,
    PTX_LG2,
    PTX_TANH,
    PTX_SAD,
    PTX_MUL24,
    PTX_MAD24,
    PTX_DP4A,
    PTX_CONTROL,
    PTX_CVTA,
    PTX_ISSPACEP,
    PTX_LD,
    PTX_ST,
    PTX_LDU,
    PTX_CP_ASYNC,
    PTX_CP_ASYNC_COMMIT,
    PTX_CP_ASYNC_WAIT,
    PTX_ATOM,
    PTX_RED,
    PTX_PREFETCH,
    PTX_BRA,
    PTX_CALL,
    PTX_RET,
    PTX_EXIT,
    PTX_TRAP,
    PTX_BAR_SYNC,
    PTX_BAR_ARRIVE,
    PTX_BAR_RED,
    PTX_BAR_WARP,
    PTX_FENCE,
    PTX_SHFL,
    PTX_VOTE,
    PTX_MATCH,
    PTX_ACTIVEMASK,
    PTX_REDUX,
    PTX_NANOSLEEP,
    PTX_ELECT,
} ptx_opcode;

typedef enum ptx_round {
    PTX_NO_ROUND,
    PTX_RN,
    PTX_RZ,
    PTX_RM,
    PTX_RP,
    PTX_RNI,
    PTX_RZI,
    PTX_RMI,
    PTX_RPI,
    PTX_APPROX,
    PTX_FULL
} ptx_round;
typedef enum ptx_compare {
    PTX_NO_COMPARE,
    PTX_EQ,
    PTX_NE,
    PTX_LT,
    PTX_LE,
    PTX_GT,
    PTX_GE,
    PTX_LO,
    PTX_LS,
    PTX_HI,
    PTX_HS,
    PTX_EQU,
    PTX_NEU,
    PTX_LTU,
    PTX_LEU,
    PTX_GTU,
    PTX_GEU,
    PTX_NUM, /* and testp.number */
    PTX_NAN, /* and testp.notanumber */
    PTX_FINITE,
    PTX_INFINITE,
    PTX_NORMAL,
    PTX_SUBNORMAL, /* testp */
} ptx_compare;
typedef enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_CONST, PTX_PARAM } ptx_space;
/* What a modifier names besides: the mode of shfl, vote, atom, red, redux, shf, mul and prmt. */
typedef enum ptx_mode {
    PTX_NO_MODE,
    PTX_LO_HALF,
    PTX_HI_HALF,
    PTX_WIDE, /* mul, mad */
    PTX_SHF_L,
    PTX_SHF_R,
    PTX_CLAMP,
    PTX_WRAP, /* shf: mode is the direction, clamp of the instruction the rest */
    PTX_SHFL_UP,
    PTX_SHFL_DOWN,
    PTX_SHFL_BFLY,
    PTX_SHFL_IDX, /* shfl */
    PTX_ALL,
    PTX_ANY,
    PTX_UNI,
    PTX_BALLOT, /* vote, match, bar.red's and, or: PTX_DO_AND, PTX_DO_OR */
    PTX_DO_ADD,
    PTX_DO_MIN,
    PTX_DO_MAX,
    PTX_DO_AND,
    PTX_DO_OR,
    PTX_DO_XOR,
    PTX_DO_EXCH,
    PTX_DO_CAS,
    PTX_DO_INC,
    PTX_DO_DEC,
    PTX_DO_POPC, /* atom, red, redux, bar.red */
    PTX_PRMT_F4E,
    PTX_PRMT_B4E,
    PTX_PRMT_RC8,
    PTX_PRMT_ECL,
    PTX_PRMT_ECR,
    PTX_PRMT_RC16,
    PTX_SHIFTAMT, /* bfind */
} ptx_mode;
typedef enum ptx_order {
    PTX_WEAK,
    PTX_RELAXED,
    PTX_ACQUIRE,
    PTX_RELEASE,
    PTX_ACQ_REL,
    PTX_SC,
    PTX_VOLATILE,
    PTX_MMIO
} ptx_order;
typedef enum ptx_scope { PTX_NO_SCOPE, PTX_SCOPE_CTA, PTX_SCOPE_CLUSTER, PTX_SCOPE_GPU, PTX_SCOPE_SYS } ptx_scope;

typedef enum ptx_special {
    PTX_TID_X,
    PTX_TID_Y,
    PTX_TID_Z,
    PTX_NTID_X,
    PTX_NTID_Y,
    PTX_NTID_Z,
    PTX_CTAID_X,
    PTX_CTAID_Y,
    PTX_CTAID_Z,
    PTX_NCTAID_X,
    PTX_NCTAID_Y,
    PTX_NCTAID_Z,
    PTX_LANEID,
    PTX_WARPID,
    PTX_NWARPID,
    PTX_SMID,
    PTX_NSMID,
    PTX_CLOCK,
    PTX_CLOCK64,
    PTX_LANEMASK_EQ,
    PTX_LANEMASK_LT,
    PTX_LANEMASK_LE,
    PTX_LANEMASK_GT,
    PTX_LANEMASK_GE,
    PTX_DYNAMIC_SMEM_SIZE,
} ptx_special;

typedef enum ptx_kind {
    PTX_NOTHING,
    PTX_REGISTER,  /* number: of the function's registers */
    PTX_IMMEDIATE, /* value: bits, sign- or zero-extended to 64 for integers; of the instruction's type for floats */
    PTX_SPECIAL,   /* number: a ptx_special */
    PTX_SHARED_AT, /* value: an offset in the block's shared memory */
    PTX_LOCAL_AT,  /* value: an offset in the function's frame of local memory */
    PTX_GLOBAL_AT, /* number: a variable of the module, value: an offset; the loader replaces it by PTX_IMMEDIATE */
    PTX_PARAM_AT, /* value: an offset in the entry's arguments; parameters of other functions and of calls are PTX_LOCAL_AT */
} ptx_kind;

/* A register's value stands in the low bits of 64, zero above; a predicate is 0 or 1. `negate`: of a predicate (!%p1), which run.c
 * applies before it calls ptx_compute. An
 * address ([%rd1+8]) is the register plus value, or one of the kinds that end in _AT. */
typedef struct ptx_operand {
    uint8_t kind; /* a ptx_kind */
    bool negate;
    uint32_t number;
    uint64_t value;
} ptx_operand;

typedef struct ptx_instruction ptx_instruction;
typedef struct ptx_function ptx_function;

/* Computes the lanes of `mask`; others stay. a, b, c: the lanes of the sources, in order; carry: bit of each lane (carry chains only).
 * to[1] of an instruction (setp's second predicate) is written through `to2`. `seed`: for approximate instructions. Aliasing of `to`
 * with a source is allowed. The caller negates operands. Immediates may have bits above the type. lop3's table is d[0]; setp's and set's
 * third predicate is c; to2 may be NULL. The host's floating-point environment must be FE_DFL_ENV (a launch sets and restores it). */
typedef void ptx_compute(const ptx_instruction *instruction, uint64_t *to, uint64_t *to2, const uint64_t *a,
                         const uint64_t *b, const uint64_t *c, const uint64_t *d, uint32_t mask, uint32_t *carry,
                         uint64_t seed);

/* Operands: to[] are the registers that are written, in the order of the text (shfl, match.all and elect: to[1] is the predicate;
 * a `_` is PTX_NOTHING). from[] are all others in the order of the text, addresses too:
 *   ld a: from[0] = address, to[] = elements of the vector      st: from[0] = address, from[1...] = elements
 *   atom, red: from[0] = address, from[1], from[2] = operands   cp.async: from[0] = shared address, from[1] = global address,
 *   from[2] = source size if given                              cp.async.wait_group: from[0]; wait_all: from_count is 0
 *   shfl: from[] = value, lane, c, members                      vote, match, redux: from[] = value, members
 *   bar.warp.sync, elect: from[0] = members                     bar.*: from[0] = number, from[1] = threads if given; bar.red: then the
 *   predicate, the last of from[]                               mov of vectors: to_count or from_count is 2 or 4 */
struct ptx_instruction {
    ptx_compute *compute;        /* of opcodes below PTX_CONTROL, but mov of vectors and addresses */
    uint8_t opcode, type, type2; /* type2: the source's (cvt, setp and slct where a second one is written) */
    uint8_t round, compare, combine, mode, clamp, space, space2, order,
        scope;                           /* combine: and, or, xor of setp (PTX_DO_AND ...) */
    uint8_t vector;                      /* elements: 1, 2, 4 */
    bool ftz, sat, cc, nc, to_flag, uni; /* cc: sets the carry; nc: ld.global.nc; uni: bra.uni, call.uni */
    bool nan, relu, xorsign;             /* min.NaN, fma.rn.relu, min.xorsign.abs */
    bool aligned; /* bar.* and barrier.*.aligned: all threads of a warp execute the same barrier */
    uint8_t
        to_bits; /* width of the registers to[]: ld.s8 and cvt.s8 extend the sign to it, zeros above; 0 for predicates */
    uint8_t bytes; /* of cp.async */
    int8_t to_count, from_count;
    int32_t guard; /* register of the predicate; -1: none */
    bool guard_not;
    uint32_t target;  /* bra: index of an instruction; call: index of a function of the module */
    uint32_t line;    /* of the .cu text, by .loc; 0: unknown */
    uint32_t text_at; /* offset of the instruction in the module's text, for messages */
    ptx_operand to[4], from[6];
    /* call: arguments and results as frame offsets of the caller, in the order of the callee's */
    uint32_t *call_arguments, *call_results;
    int call_argument_count, call_result_count;
};

/* --- modules --------------------------------------------------------------------------------------------------------- */

typedef struct ptx_parameter {
    uint32_t offset, bytes; /* offset: in the arguments of an entry, or in the frame of another function */
} ptx_parameter;

struct ptx_function {
    char *name;
    bool entry;
    ptx_instruction *instructions; /* ends with PTX_RET (an entry's acts as exit) */
    uint32_t count;
    uint32_t registers; /* in this numbering */
    ptx_parameter *parameters, *results;
    int parameter_count, result_count;
    uint32_t parameter_bytes;         /* of an entry's arguments */
    uint32_t frame_bytes;             /* local memory of one call: .local variables, parameters, arguments of calls */
    uint32_t shared_bytes;            /* static; the dynamic shared memory begins at the next multiple of 16 */
    uint32_t max_threads, min_blocks; /* .maxntid, .minnctapersm; 0: not given */
    uint32_t hardware_registers, spill_bytes; /* as the compiler's log says; 0: unknown */
};

typedef struct ptx_variable {
    char *name;
    uint64_t bytes, alignment;
    unsigned char *initial; /* NULL: zeros */
    uint64_t address;       /* set by the loader */
    bool constant;
} ptx_variable;

/* Where an initial value is an address: `bytes` bytes at `at` of a variable are the masked bits of the address of variable `of`. */
typedef struct ptx_relocation {
    uint32_t variable, of, bytes;
    uint64_t at, offset, mask;
} ptx_relocation;

typedef struct ptx_module {
    char *text, *file; /* file: of the .cu text ("mul+add.cu"), or "" */
    int architecture;  /* .target: 80, 90 */
    ptx_function *functions;
    int function_count;
    ptx_variable *variables;
    int variable_count;
    ptx_relocation *relocations;
    int relocation_count;
} ptx_module;

/* NULL with *problem (of the caller to free) where the text is not understood: "line 71: unknown instruction: wgmma.fence". */
ptx_module *ptx_parse(const char *text, char **problem);
void ptx_free(ptx_module *module);
ptx_function *ptx_find(const ptx_module *module, const char *name);
/* Puts the address of each variable into the instructions and initial values that name it. Called once. */
void ptx_place_variables(ptx_module *module);
/* The line of an instruction's text, for messages; shortened to `bytes`. */
void ptx_text(const ptx_module *module, const ptx_instruction *instruction, char *text, size_t bytes);

/* The function that computes an instruction; NULL: there is none, which ptx_parse reports. Uses opcode, type, type2 and the modifiers. */
ptx_compute *ptx_compute_of(const ptx_instruction *instruction);

/* --- launches -------------------------------------------------------------------------------------------------------- */

typedef struct ptx_counts {
    uint64_t instructions; /* of warps */
    uint64_t divergent;    /* of these, with less than the threads of the warp that have not ended */
    uint64_t global_requests, sectors,
        sectors_needed;        /* 32-byte sectors per request of a warp; needed: distinct bytes / 32, rounded up */
    uint64_t sectors_distinct; /* of the whole launch: what is above it in `sectors` was requested more than once */
    uint64_t shared_requests, bank_conflicts; /* additional passes */
    uint64_t local_bytes;
    uint64_t barriers, atomics;
    uint64_t load_waits; /* of a warp: for data of global memory that is under way when an instruction reads it */
} ptx_counts;

/* The kind of one access, for what watches memory (watch.h). */
typedef enum ptx_access { PTX_READ, PTX_WRITE, PTX_READ_NC, PTX_ATOMIC, PTX_ASYNC_WRITE } ptx_access;

typedef struct ptx_launch {
    const ptx_module *module;
    const ptx_function *function;
    uint32_t grid[3], block[3], dynamic_bytes;
    const unsigned char *arguments;
    uint64_t seed; /* order of warps */
    uint64_t
        error_seed; /* errors of approximate instructions: the same operands give the same bits in each launch, as on a card */
    uint64_t most_steps; /* instructions of warps, against endless loops; 0: no limit */
    int sample;   /* 0: all blocks; else the first, the last and so many drawn ones are run, and counts are scaled */
    void *memory; /* passed to watch.h's functions */
} ptx_launch;

/* Runs the launch to its end. counts may be NULL. False with *problem (of the caller to free): "bti_run, line 41 of mul+add.cu: ..." */
bool ptx_run(const ptx_launch *launch, ptx_counts *counts, char **problem);

/* Generic addresses: windows of shared and local memory, below all addresses of the fake machine's allocations. */
#define PTX_SHARED_WINDOW UINT64_C(0x1000000)
#define PTX_LOCAL_WINDOW UINT64_C(0x2000000)
#define PTX_WINDOW_BYTES UINT64_C(0x1000000)

#endif
