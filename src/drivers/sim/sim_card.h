/* What launches ask of a card: what sim_estimate.h declares for all models. */
#ifndef BTI_DRIVERS_SIM_SIM_CARD_H
#define BTI_DRIVERS_SIM_SIM_CARD_H

#include "drivers/sim/sim_count.h"

bti_sim_demand bti_sim_card_kernel(const bti_sim_model *model, const bti_kernel *kernel, int made, const bti_box *box);
/* `written`: not handed to an epilogue. */
bti_sim_demand bti_sim_card_product(const bti_work *work, int precision, bool written);
bti_sim_demand bti_sim_card_work(const bti_sim_model *model, const bti_work *work, int precision);
bti_sim_demand bti_sim_card_move(double read_bytes, double written_bytes);

#endif
