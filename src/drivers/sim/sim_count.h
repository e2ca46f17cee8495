/* What models of cards and of CPUs count alike: instructions of a kernel's sweeps, bytes of its operands, elements of a primitive's. */
#ifndef BTI_DRIVERS_SIM_SIM_COUNT_H
#define BTI_DRIVERS_SIM_SIM_COUNT_H

#include "drivers/sim/sim_demand.h"
#include "drivers/sim/sim_model.h"
#include "ir/kernel.h"
#include "ir/work.h"

/* A kernel over a box: all points, and of these the kept ones. */
typedef struct bti_sim_nest {
    const bti_kernel *kernel;
    const bti_box *box;
    double points, rows;
} bti_sim_nest;
bti_sim_nest bti_sim_nest_of(const bti_kernel *kernel, const bti_box *box);

/* Of cores. APART: clocks in which one element is loaded that lies apart from the next one: from the second cache, a few at once. LINE: clocks in which a line is begun, in
 * each sweep. VECTOR: elements of AVX2's vectors of float32. */
enum { BTI_SIM_APART = 5, BTI_SIM_LINE = 25, BTI_SIM_VECTOR = 8 };

static inline bool bti_sim_is_cpu(const bti_sim_model *model) { return model->kind == BT_CPU; }
static inline double bti_sim_ceiling(double value, double by) {
    double whole = (double)(long long)(value / by);
    return whole * by < value ? whole + 1 : whole < 1 ? 1 : whole;
}

/* The bytes that an operand's elements are moved in, as sectors or lines of so many. */
double bti_sim_operand_bytes(const bti_sim_nest *nest, int operand, double line);
/* Of all sweeps; and the bytes that are loaded again in a later one, into *again. */
void bti_sim_count_sweeps(bti_sim_demand *d, const bti_sim_model *model, const bti_sim_nest *nest, double *again);

double bti_sim_elements_of(const bti_operand *operand);
double bti_sim_bytes_of(const bti_operand *operand); /* in memory: an axis that stands still counts once */
double bti_sim_length_of_axis(const bti_work *work, const bti_operand *operand);
bti_sim_rate bti_sim_rate_of(bt_dtype dtype, int precision);

#endif
