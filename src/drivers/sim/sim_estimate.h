/* How long a card or a CPU would take for a launch: a model, not a measurement. What a launch asks for is counted from the kernel, its box and its operands
 * alone (bti_sim_demand), as kernels are launched on cards (sim_card.c; launch/gpu_kernel.c) and on cores (sim_cores.c; drivers/cpu/launch.c); the figures of a
 * model make a time of it. Pure.
 *
 * A launch takes the longest of these, and model->start_ns for each of its kernels, product_ns for each call of a library:
 *     memory        bytes that it touches / bandwidth; of what is read, or written, what the units at work take
 *     cache         bytes that it asks for, again too / bandwidth of the cache
 *     instructions  those on float64 counted f64_slowdown times / (units at work x lanes x clock)
 *     latency       waits for loads x load_ns / waits at once
 *     products      operations / the rate of products at that precision, of full waves of tiles
 * Cores compute products with the instructions that compute all else: there the two add up, as do what the memory gives and the sweeps that go over it again. What is small
 * enough for the last cache of a CPU is in no memory. */
#ifndef BTI_DRIVERS_SIM_SIM_ESTIMATE_H
#define BTI_DRIVERS_SIM_SIM_ESTIMATE_H

#include "drivers/sim/sim_demand.h"
#include "drivers/sim/sim_model.h"
#include "ir/kernel.h"
#include "ir/work.h"

/* `made`: the operand that a product makes, which is in no memory; -1: none. */
bti_sim_demand bti_sim_demand_of_kernel(const bti_sim_model *model, const bti_kernel *kernel, int made,
                                        const bti_box *box);
/* float32 products: at `precision`, the flag matmul_precision. */
bti_sim_demand bti_sim_demand_of_work(const bti_sim_model *model, const bti_work *work, int precision);
/* Of a card: a product that is handed to an epilogue. */
bti_sim_demand bti_sim_demand_of_product(const bti_work *work, int precision);
bti_sim_demand bti_sim_demand_of_move(const bti_sim_model *model, double read_bytes, double written_bytes);
double bti_sim_nanoseconds(const bti_sim_model *model, const bti_sim_demand *demand);

#endif
