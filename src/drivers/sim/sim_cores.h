/* What launches ask of cores: what sim_estimate.h declares for all models. */
#ifndef BTI_DRIVERS_SIM_SIM_CORES_H
#define BTI_DRIVERS_SIM_SIM_CORES_H

#include "drivers/sim/sim_count.h"

bti_sim_demand bti_sim_cores_kernel(const bti_sim_model *model, const bti_kernel *kernel, const bti_box *box);
bti_sim_demand bti_sim_cores_work(const bti_sim_model *model, const bti_work *work, int precision);
bti_sim_demand bti_sim_cores_move(const bti_sim_model *model, double read_bytes, double written_bytes);

#endif
