/* What a launch asks of a card or of cores. */
#ifndef BTI_DRIVERS_SIM_SIM_DEMAND_H
#define BTI_DRIVERS_SIM_SIM_DEMAND_H

typedef enum bti_sim_rate { BTI_SIM_F64, BTI_SIM_F32, BTI_SIM_TF32, BTI_SIM_BF16, BTI_SIM_NO_LIBRARY } bti_sim_rate;

typedef struct bti_sim_demand {
    double kernels, calls;        /* calls: of a library on cores */
    double bytes, written, asked; /* touched once; of these, written; asked for */
    double streamed;              /* by a core, past its caches; of `written` */
    double instructions, doubles; /* of threads, of elements of vectors; of these, on float64 */
    double
        later; /* of a core: instructions, of these, of sweeps after the first, when the memory has given what it has */
    double warps, waits;      /* side by side; waits of one for loads, summed over all of them */
    double tiles, operations; /* of products: of 128 x 128 results, on cards; multiplications and additions */
    bti_sim_rate rate;
} bti_sim_demand;

/* What one launch does side by side. */
static inline void bti_sim_demand_add(bti_sim_demand *to, const bti_sim_demand *other) {
    to->bytes += other->bytes;
    to->written += other->written;
    to->streamed += other->streamed;
    to->asked += other->asked;
    to->instructions += other->instructions;
    to->doubles += other->doubles;
    to->later += other->later;
    to->warps += other->warps;
    to->waits += other->waits;
}

#endif
