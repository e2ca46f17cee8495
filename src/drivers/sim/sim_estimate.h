/* How long a card would take for a launch: a model, not a measurement. What a launch asks of a card is counted from the kernel, its box and its operands
 * alone (bti_sim_demand), as kernels are launched on cards (launch/gpu_kernel.c); a model of a card makes a time of it. Pure.
 *
 * A launch takes the longest of these, and model->start_ns for each of its kernels:
 *     memory        bytes that it touches / bandwidth
 *     cache         bytes that it asks for, again too / bandwidth of the second-level cache
 *     instructions  of threads, those on float64 counted f64_slowdown times / (multiprocessors at work x 128 x clock)
 *     latency       waits of warps for loads x load_ns / warps at once
 *     products      operations / the rate of products at that precision, of full waves of tiles */
#ifndef BTI_DRIVERS_SIM_SIM_ESTIMATE_H
#define BTI_DRIVERS_SIM_SIM_ESTIMATE_H

#include "drivers/sim/sim_model.h"
#include "ir/kernel.h"
#include "ir/work.h"

typedef enum bti_sim_rate { BTI_SIM_F64, BTI_SIM_F32, BTI_SIM_TF32, BTI_SIM_BF16, BTI_SIM_NO_LIBRARY } bti_sim_rate;

typedef struct bti_sim_demand {
    double kernels;
    double bytes, asked;          /* touched once; asked for */
    double instructions, doubles; /* of threads; of these, on float64 */
    double warps, waits;          /* side by side; waits of one for loads, summed over all of them */
    double tiles, operations;     /* of products: of 128 x 128 results; multiplications and additions */
    bti_sim_rate rate;
} bti_sim_demand;

/* `units`: multiprocessors of the card, by which reductions are cut. `made`: the operand that a product makes, which is in no memory; -1: none. */
bti_sim_demand bti_sim_demand_of_kernel(const bti_kernel *kernel, int made, const bti_box *box, double units);
/* float32 products: at `precision`, the flag matmul_precision. Whether they are written, or handed to an epilogue. */
bti_sim_demand bti_sim_demand_of_product(const bti_work *work, int precision, bool written);
bti_sim_demand bti_sim_demand_of_work(const bti_work *work, double units, int precision);
bti_sim_demand bti_sim_demand_of_move(double read_bytes, double written_bytes);
/* What one launch does side by side. */
void bti_sim_demand_add(bti_sim_demand *to, const bti_sim_demand *other);

double bti_sim_nanoseconds(const bti_sim_model *model, const bti_sim_demand *demand);

#endif
