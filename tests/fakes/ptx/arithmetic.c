/* Which function computes an instruction. */
#include "fakes/ptx/lanes.h"

static ptx_compute *arithmetic_of(const ptx_instruction *instruction) {
    if (instruction->round == PTX_APPROX || instruction->round == PTX_FULL) return ptx_approximate_of(instruction);
    switch (instruction->type) {
    case PTX_F32:
    case PTX_F64: return ptx_float_of(instruction);
    case PTX_F16:
    case PTX_BF16:
    case PTX_F16X2:
    case PTX_BF16X2: return ptx_half_of(instruction);
    default: return ptx_integer_of(instruction);
    }
}

ptx_compute *ptx_compute_of(const ptx_instruction *instruction) {
    switch (instruction->opcode) {
    case PTX_MOV:
    case PTX_AND:
    case PTX_OR:
    case PTX_XOR:
    case PTX_NOT:
    case PTX_CNOT:
    case PTX_LOP3:
    case PTX_SHL:
    case PTX_SHR:
    case PTX_SHF:
    case PTX_PRMT:
    case PTX_BFI:
    case PTX_BFE:
    case PTX_POPC:
    case PTX_CLZ:
    case PTX_BREV:
    case PTX_BFIND: return ptx_bits_of(instruction);
    case PTX_SELP:
    case PTX_SLCT:
    case PTX_SETP:
    case PTX_SET:
    case PTX_TESTP: return ptx_compare_of(instruction);
    case PTX_CVT: return ptx_convert_of(instruction);
    default: return instruction->opcode < PTX_CONTROL ? arithmetic_of(instruction) : NULL;
    }
}
