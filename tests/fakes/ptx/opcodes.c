/* Opcodes and modifiers of PTX ("PTX ISA", chapter "Instruction Set"). */
#include <string.h>

#include "fakes/ptx/parse.h"

/* Kinds of modifiers; an opcode says which ones it takes. Types are taken by all. */
enum {
    ROUND = 1 << 0,
    APPROXIMATE = 1 << 1,
    FTZ = 1 << 2,
    SAT = 1 << 3,
    COMPARE = 1 << 4,
    COMBINE = 1 << 5,
    HALF = 1 << 6,
    CC = 1 << 7,
    DIRECTION = 1 << 8,
    CLAMP = 1 << 9,
    SHUFFLE = 1 << 10,
    VOTE = 1 << 11,
    OPERATION = 1 << 12,
    PERMUTE = 1 << 13,
    SPACE = 1 << 14,
    ORDER = 1 << 15,
    SCOPE = 1 << 16,
    CACHE = 1 << 17, /* how data is cached: without effect here */
    NC = 1 << 18,
    TO = 1 << 19,
    UNI = 1 << 20,
    VECTOR = 1 << 21,
    NAN_KEPT = 1 << 22,
    CLASS = 1 << 23,
    SHIFT_AMOUNT = 1 << 24,
    ALIGNED = 1 << 25,
    RELU = 1 << 26,
    SIGN = 1 << 27,    /* .xorsign.abs */
    NO_FTZ = 1 << 28,  /* .noftz of atom and red, where ftz does not exist */
    NO_TYPE = 1 << 29, /* of an opcode: it has no type */
};

#define MEMORY (SPACE | ORDER | SCOPE | CACHE | NO_FTZ)

/* The signature: what is written, ':', what is read. d: a register; D: a register, "|" and a predicate may follow; s: a value; S: one that
 * may be missing; a: an address; v: as many registers or values as the vector has; m: one, or two or four in braces; c: the size of
 * cp.async; l: a label. */
static const struct opcode {
    const char *name, *signature;
    ptx_opcode code;
    uint32_t modifiers;
} opcodes[] = {
    {"mov", "m:m", PTX_MOV, 0},
    {"add", "d:ss", PTX_ADD, ROUND | FTZ | SAT | CC},
    {"sub", "d:ss", PTX_SUB, ROUND | FTZ | SAT | CC},
    {"mul", "d:ss", PTX_MUL, ROUND | FTZ | SAT | HALF},
    {"mad", "d:sss", PTX_MAD, ROUND | FTZ | SAT | HALF | CC},
    {"fma", "d:sss", PTX_FMA, ROUND | FTZ | SAT | RELU},
    {"div", "d:ss", PTX_DIV, ROUND | FTZ | APPROXIMATE},
    {"rem", "d:ss", PTX_REM, 0},
    {"neg", "d:s", PTX_NEG, FTZ},
    {"abs", "d:s", PTX_ABS, FTZ},
    {"min", "d:ss", PTX_MIN, FTZ | NAN_KEPT | RELU | SIGN},
    {"max", "d:ss", PTX_MAX, FTZ | NAN_KEPT | RELU | SIGN},
    {"addc", "d:ss", PTX_ADDC, CC},
    {"subc", "d:ss", PTX_SUBC, CC},
    {"madc", "d:sss", PTX_MADC, CC | HALF},
    {"and", "d:ss", PTX_AND, 0},
    {"or", "d:ss", PTX_OR, 0},
    {"xor", "d:ss", PTX_XOR, 0},
    {"not", "d:s", PTX_NOT, 0},
    {"cnot", "d:s", PTX_CNOT, 0},
    {"lop3", "d:ssss", PTX_LOP3, 0},
    {"shl", "d:ss", PTX_SHL, 0},
    {"shr", "d:ss", PTX_SHR, 0},
    {"shf", "d:sss", PTX_SHF, DIRECTION | CLAMP},
    {"prmt", "d:sss", PTX_PRMT, PERMUTE},
    {"bfi", "d:ssss", PTX_BFI, 0},
    {"bfe", "d:sss", PTX_BFE, 0},
    {"popc", "d:s", PTX_POPC, 0},
    {"clz", "d:s", PTX_CLZ, 0},
    {"brev", "d:s", PTX_BREV, 0},
    {"bfind", "d:s", PTX_BFIND, SHIFT_AMOUNT},
    {"selp", "d:sss", PTX_SELP, 0},
    {"slct", "d:sss", PTX_SLCT, FTZ},
    {"setp", "D:ssS", PTX_SETP, COMPARE | COMBINE | FTZ},
    {"set", "d:ssS", PTX_SET, COMPARE | COMBINE | FTZ},
    {"copysign", "d:ss", PTX_COPYSIGN, 0},
    {"testp", "d:s", PTX_TESTP, CLASS},
    {"cvt", "d:sS", PTX_CVT, ROUND | FTZ | SAT | RELU},
    {"sqrt", "d:s", PTX_SQRT, ROUND | FTZ | APPROXIMATE},
    {"rsqrt", "d:s", PTX_RSQRT, FTZ | APPROXIMATE},
    {"rcp", "d:s", PTX_RCP, ROUND | FTZ | APPROXIMATE},
    {"sin", "d:s", PTX_SIN, FTZ | APPROXIMATE},
    {"cos", "d:s", PTX_COS, FTZ | APPROXIMATE},
    {"ex2", "d:s", PTX_EX2, FTZ | APPROXIMATE},
    {"lg2", "d:s", PTX_LG2, FTZ | APPROXIMATE},
    {"tanh", "d:s", PTX_TANH, APPROXIMATE},
    {"sad", "d:sss", PTX_SAD, 0},
    {"mul24", "d:ss", PTX_MUL24, HALF},
    {"mad24", "d:sss", PTX_MAD24, HALF | SAT},
    {"dp4a", "d:sss", PTX_DP4A, 0},
    {"cvta", "d:s", PTX_CVTA, TO | SPACE},
    {"isspacep", "d:s", PTX_ISSPACEP, SPACE | NO_TYPE},
    {"ld", "v:a", PTX_LD, MEMORY | NC | VECTOR},
    {"st", ":av", PTX_ST, MEMORY | VECTOR},
    {"ldu", "v:a", PTX_LDU, SPACE | VECTOR},
    {"cp.async", ":aacS", PTX_CP_ASYNC, SPACE | CACHE | NO_TYPE},
    {"cp.async.commit_group", ":", PTX_CP_ASYNC_COMMIT, NO_TYPE},
    {"cp.async.wait_group", ":s", PTX_CP_ASYNC_WAIT, NO_TYPE},
    {"cp.async.wait_all", ":", PTX_CP_ASYNC_WAIT, NO_TYPE},
    {"atom", "d:asS", PTX_ATOM, MEMORY | OPERATION},
    {"red", ":as", PTX_RED, MEMORY | OPERATION},
    {"prefetch", ":a", PTX_PREFETCH, SPACE | CACHE | NO_TYPE},
    {"prefetchu", ":a", PTX_PREFETCH, CACHE | NO_TYPE},
    {"bra", ":l", PTX_BRA, UNI | NO_TYPE},
    {"call", NULL, PTX_CALL, UNI | NO_TYPE},
    {"ret", ":", PTX_RET, UNI | NO_TYPE},
    {"exit", ":", PTX_EXIT, NO_TYPE},
    {"trap", ":", PTX_TRAP, NO_TYPE},
    {"bar.sync", ":sS", PTX_BAR_SYNC, NO_TYPE},
    {"bar.arrive", ":ss", PTX_BAR_ARRIVE, NO_TYPE},
    {"bar.red", "d:ssS", PTX_BAR_RED, OPERATION},
    {"bar.cta.sync", ":sS", PTX_BAR_SYNC, NO_TYPE},
    {"bar.cta.arrive", ":ss", PTX_BAR_ARRIVE, NO_TYPE},
    {"bar.cta.red", "d:ssS", PTX_BAR_RED, OPERATION},
    {"barrier.sync", ":sS", PTX_BAR_SYNC, ALIGNED | NO_TYPE},
    {"barrier.arrive", ":ss", PTX_BAR_ARRIVE, ALIGNED | NO_TYPE},
    {"barrier.red", "d:ssS", PTX_BAR_RED, OPERATION | ALIGNED},
    {"barrier.cta.sync", ":sS", PTX_BAR_SYNC, ALIGNED | NO_TYPE},
    {"barrier.cta.arrive", ":ss", PTX_BAR_ARRIVE, ALIGNED | NO_TYPE},
    {"barrier.cta.red", "d:ssS", PTX_BAR_RED, OPERATION | ALIGNED},
    {"bar.warp.sync", ":s", PTX_BAR_WARP, NO_TYPE},
    {"fence", ":", PTX_FENCE, ORDER | SCOPE | NO_TYPE},
    {"membar", ":", PTX_FENCE, SCOPE | NO_TYPE},
    {"shfl.sync", "D:ssss", PTX_SHFL, SHUFFLE},
    {"vote.sync", "d:ss", PTX_VOTE, VOTE},
    {"match.any.sync", "d:ss", PTX_MATCH, 0},
    {"match.all.sync", "D:ss", PTX_MATCH, 0},
    {"activemask", "d:", PTX_ACTIVEMASK, 0},
    {"redux.sync", "d:ss", PTX_REDUX, OPERATION},
    {"nanosleep", ":s", PTX_NANOSLEEP, 0},
    {"elect.sync", "D:s", PTX_ELECT, NO_TYPE},
};

static const struct modifier {
    const char *name;
    uint32_t kind;
    uint8_t value;
} modifiers[] = {
    {"rn", ROUND, PTX_RN},
    {"rz", ROUND, PTX_RZ},
    {"rm", ROUND, PTX_RM},
    {"rp", ROUND, PTX_RP},
    {"rni", ROUND, PTX_RNI},
    {"rzi", ROUND, PTX_RZI},
    {"rmi", ROUND, PTX_RMI},
    {"rpi", ROUND, PTX_RPI},
    {"approx", APPROXIMATE, PTX_APPROX},
    {"full", APPROXIMATE, PTX_FULL},
    {"ftz", FTZ, 1},
    {"sat", SAT, 1},
    {"eq", COMPARE, PTX_EQ},
    {"ne", COMPARE, PTX_NE},
    {"lt", COMPARE, PTX_LT},
    {"le", COMPARE, PTX_LE},
    {"gt", COMPARE, PTX_GT},
    {"ge", COMPARE, PTX_GE},
    {"lo", COMPARE, PTX_LO},
    {"ls", COMPARE, PTX_LS},
    {"hi", COMPARE, PTX_HI},
    {"hs", COMPARE, PTX_HS},
    {"equ", COMPARE, PTX_EQU},
    {"neu", COMPARE, PTX_NEU},
    {"ltu", COMPARE, PTX_LTU},
    {"leu", COMPARE, PTX_LEU},
    {"gtu", COMPARE, PTX_GTU},
    {"geu", COMPARE, PTX_GEU},
    {"num", COMPARE, PTX_NUM},
    {"nan", COMPARE, PTX_NAN},
    {"and", COMBINE, PTX_DO_AND},
    {"or", COMBINE, PTX_DO_OR},
    {"xor", COMBINE, PTX_DO_XOR},
    {"lo", HALF, PTX_LO_HALF},
    {"hi", HALF, PTX_HI_HALF},
    {"wide", HALF, PTX_WIDE},
    {"cc", CC, 1},
    {"l", DIRECTION, PTX_SHF_L},
    {"r", DIRECTION, PTX_SHF_R},
    {"clamp", CLAMP, PTX_CLAMP},
    {"wrap", CLAMP, PTX_WRAP},
    {"up", SHUFFLE, PTX_SHFL_UP},
    {"down", SHUFFLE, PTX_SHFL_DOWN},
    {"bfly", SHUFFLE, PTX_SHFL_BFLY},
    {"idx", SHUFFLE, PTX_SHFL_IDX},
    {"all", VOTE, PTX_ALL},
    {"any", VOTE, PTX_ANY},
    {"uni", VOTE, PTX_UNI},
    {"ballot", VOTE, PTX_BALLOT},
    {"add", OPERATION, PTX_DO_ADD},
    {"min", OPERATION, PTX_DO_MIN},
    {"max", OPERATION, PTX_DO_MAX},
    {"and", OPERATION, PTX_DO_AND},
    {"or", OPERATION, PTX_DO_OR},
    {"xor", OPERATION, PTX_DO_XOR},
    {"exch", OPERATION, PTX_DO_EXCH},
    {"cas", OPERATION, PTX_DO_CAS},
    {"inc", OPERATION, PTX_DO_INC},
    {"dec", OPERATION, PTX_DO_DEC},
    {"popc", OPERATION, PTX_DO_POPC},
    {"f4e", PERMUTE, PTX_PRMT_F4E},
    {"b4e", PERMUTE, PTX_PRMT_B4E},
    {"rc8", PERMUTE, PTX_PRMT_RC8},
    {"ecl", PERMUTE, PTX_PRMT_ECL},
    {"ecr", PERMUTE, PTX_PRMT_ECR},
    {"rc16", PERMUTE, PTX_PRMT_RC16},
    {"finite", CLASS, PTX_FINITE},
    {"infinite", CLASS, PTX_INFINITE},
    {"number", CLASS, PTX_NUM},
    {"notanumber", CLASS, PTX_NAN},
    {"normal", CLASS, PTX_NORMAL},
    {"subnormal", CLASS, PTX_SUBNORMAL},
    {"global", SPACE, PTX_GLOBAL},
    {"shared", SPACE, PTX_SHARED},
    {"shared::cta", SPACE, PTX_SHARED},
    {"local", SPACE, PTX_LOCAL},
    {"const", SPACE, PTX_CONST},
    {"param", SPACE, PTX_PARAM},
    {"param::entry", SPACE, PTX_PARAM},
    {"param::func", SPACE, PTX_PARAM},
    {"weak", ORDER, PTX_WEAK},
    {"relaxed", ORDER, PTX_RELAXED},
    {"acquire", ORDER, PTX_ACQUIRE},
    {"release", ORDER, PTX_RELEASE},
    {"acq_rel", ORDER, PTX_ACQ_REL},
    {"sc", ORDER, PTX_SC},
    {"volatile", ORDER, PTX_VOLATILE},
    {"mmio", ORDER, PTX_MMIO},
    {"cta", SCOPE, PTX_SCOPE_CTA},
    {"cluster", SCOPE, PTX_SCOPE_CLUSTER},
    {"gpu", SCOPE, PTX_SCOPE_GPU},
    {"gl", SCOPE, PTX_SCOPE_GPU}, /* of membar */
    {"sys", SCOPE, PTX_SCOPE_SYS},
    {"ca", CACHE, 0},
    {"cg", CACHE, 0},
    {"cs", CACHE, 0},
    {"lu", CACHE, 0},
    {"cv", CACHE, 0},
    {"wb", CACHE, 0},
    {"wt", CACHE, 0},
    {"L1", CACHE, 0},
    {"L2", CACHE, 0},
    {"L1::evict_normal", CACHE, 0},
    {"L1::evict_unchanged", CACHE, 0},
    {"L1::evict_first", CACHE, 0},
    {"L1::evict_last", CACHE, 0},
    {"L1::no_allocate", CACHE, 0},
    {"L2::evict_normal", CACHE, 0},
    {"L2::evict_first", CACHE, 0},
    {"L2::evict_last", CACHE, 0},
    {"L2::64B", CACHE, 0},
    {"L2::128B", CACHE, 0},
    {"L2::256B", CACHE, 0},
    {"nc", NC, 1},
    {"to", TO, 1},
    {"uni", UNI, 1},
    {"v2", VECTOR, 2},
    {"v4", VECTOR, 4},
    {"NaN", NAN_KEPT, 1},
    {"shiftamt", SHIFT_AMOUNT, PTX_SHIFTAMT},
    {"aligned", ALIGNED, 1},
    {"relu", RELU, 1},
    {"xorsign", SIGN, 1},
    {"abs", SIGN, 1},
    {"noftz", NO_FTZ, 1},
};

static const char *const type_names[] = {
    [PTX_NO_TYPE] = "",  [PTX_PRED] = "pred", [PTX_B8] = "b8",   [PTX_B16] = "b16",     [PTX_B32] = "b32",
    [PTX_B64] = "b64",   [PTX_U8] = "u8",     [PTX_U16] = "u16", [PTX_U32] = "u32",     [PTX_U64] = "u64",
    [PTX_S8] = "s8",     [PTX_S16] = "s16",   [PTX_S32] = "s32", [PTX_S64] = "s64",     [PTX_F16] = "f16",
    [PTX_BF16] = "bf16", [PTX_F32] = "f32",   [PTX_F64] = "f64", [PTX_F16X2] = "f16x2", [PTX_BF16X2] = "bf16x2"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

ptx_type ptx_type_of(ptx_word word) {
    for (size_t i = 1; i < COUNT(type_names); i++)
        if (ptx_is(word, type_names[i])) return (ptx_type)i;
    return PTX_NO_TYPE;
}

static void set_modifier(ptx_parser *p, ptx_instruction *i, uint32_t kind, uint8_t value, ptx_word word) {
    uint8_t *field = NULL;
    switch (kind) {
    case ROUND:
    case APPROXIMATE: field = &i->round; break;
    case COMPARE:
    case CLASS: field = &i->compare; break;
    case COMBINE: field = &i->combine; break;
    case HALF:
    case DIRECTION:
    case SHUFFLE:
    case VOTE:
    case OPERATION:
    case PERMUTE:
    case SHIFT_AMOUNT: field = &i->mode; break;
    case CLAMP: field = &i->clamp; break;
    case SPACE: field = i->space ? &i->space2 : &i->space; break;
    case ORDER: field = &i->order; break;
    case SCOPE: field = &i->scope; break;
    case FTZ: i->ftz = true; return;
    case SAT: i->sat = true; return;
    case CC: i->cc = true; return;
    case NC: i->nc = true; return;
    case NAN_KEPT: i->nan = true; return;
    case RELU: i->relu = true; return;
    case SIGN: i->xorsign = true; return;
    case ALIGNED: i->aligned = true; return;
    case TO: i->to_flag = true; return;
    case UNI: i->uni = true; return;
    case VECTOR: i->vector = value; return;
    default: return;
    }
    if (*field) ptx_refuse(p, "modifier .%.*s does not go with another one", (int)word.length, word.text);
    *field = value;
}

static void parse_modifier(ptx_parser *p, ptx_instruction *instruction, const struct opcode *opcode, ptx_word word) {
    ptx_type type = ptx_type_of(word);
    if (type != PTX_NO_TYPE && !(opcode->modifiers & NO_TYPE) && !instruction->type2) {
        *(instruction->type ? &instruction->type2 : &instruction->type) = (uint8_t)type;
        return;
    }
    for (size_t i = 0; i < COUNT(modifiers); i++) {
        const struct modifier *modifier = &modifiers[i];
        if (!(opcode->modifiers & modifier->kind) || !ptx_is(word, modifier->name)) continue;
        set_modifier(p, instruction, modifier->kind, modifier->value, word);
        return;
    }
    ptx_refuse(p, "unknown modifier .%.*s", (int)word.length, word.text);
}

/* What cannot be left out, beyond what ptx_compute_of checks. */
static void check_modifiers(ptx_parser *p, const ptx_instruction *i, const struct opcode *opcode) {
    uint32_t bytes = ptx_type_bytes(i->type), needed = opcode->modifiers & (SHUFFLE | VOTE | OPERATION);
    if (!(opcode->modifiers & NO_TYPE) && !i->type) ptx_refuse(p, "the type is missing");
    if ((needed && !i->mode) || (opcode->modifiers & (COMPARE | CLASS) && !i->compare))
        ptx_refuse(p, "a modifier is missing");
    if (opcode->modifiers & (MEMORY & ~SPACE) && opcode->modifiers & (VECTOR | OPERATION) && !bytes)
        ptx_refuse(p, "memory has no predicates");
    if (bytes * i->vector > 16) ptx_refuse(p, "a vector of more than 16 bytes");
    if (i->opcode == PTX_CP_ASYNC && (i->space != PTX_SHARED || i->space2 != PTX_GLOBAL))
        ptx_refuse(p, "cp.async is known from .global to .shared");
    if (i->space2 && i->opcode != PTX_CP_ASYNC) ptx_refuse(p, "two state spaces");
}

const char *ptx_parse_opcode(ptx_parser *p, ptx_word word, ptx_instruction *instruction) {
    const struct opcode *opcode = NULL;
    ptx_word name = word;
    while (name.length && !opcode) {
        for (size_t i = 0; i < COUNT(opcodes) && !opcode; i++)
            if (*opcodes[i].name == *name.text && ptx_is(name, opcodes[i].name)) opcode = &opcodes[i];
        if (opcode) break;
        do name.length--;
        while (name.length && name.text[name.length] != '.');
    }
    if (!opcode) ptx_refuse(p, "unknown instruction %.*s", (int)word.length, word.text);
    instruction->opcode = (uint8_t)opcode->code;
    instruction->vector = 1;
    instruction->guard = -1;
    for (uint32_t at = name.length; at < word.length;) {
        ptx_word modifier = {word.text + at + 1, 0};
        while (at + 1 + modifier.length < word.length && modifier.text[modifier.length] != '.') modifier.length++;
        parse_modifier(p, instruction, opcode, modifier);
        at += 1 + modifier.length;
    }
    if (!strncmp(name.text, "bar.", 4)) instruction->aligned = true;
    if (opcode->code == PTX_MATCH) instruction->mode = name.text[7] == 'l' ? PTX_ALL : PTX_ANY;
    if (opcode->code == PTX_FENCE && *name.text == 'm') instruction->order = PTX_SC;
    if (opcode->code == PTX_FENCE && !instruction->order) instruction->order = PTX_ACQ_REL;
    check_modifiers(p, instruction, opcode);
    return opcode->signature;
}
