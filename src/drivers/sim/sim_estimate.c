#include "drivers/sim/sim_estimate.h"

#include <math.h>

#include "drivers/sim/sim_card.h"
#include "drivers/sim/sim_cores.h"

enum {
    BYTES_OF_UNIT = 64, /* that a unit takes from its own cache in a clock */
    WARPS_OF_GROUP = 8, /* of a card, so that few warps leave multiprocessors idle */
};

/* --- what is asked for --------------------------------------------------------------------------------------------------- */

bti_sim_demand bti_sim_demand_of_kernel(const bti_sim_model *model, const bti_kernel *kernel, int made,
                                        const bti_box *box) {
    return bti_sim_is_cpu(model) ? bti_sim_cores_kernel(model, kernel, box)
                                 : bti_sim_card_kernel(model, kernel, made, box);
}

bti_sim_demand bti_sim_demand_of_work(const bti_sim_model *model, const bti_work *work, int precision) {
    bti_work change = *work;
    bti_operand inputs[3];
    if (bti_op_updates(work->op) && bti_work_is_in_place(work)) { /* what is changed is moved, not the rest */
        for (int i = 0; i < 3; i++) inputs[i] = work->inputs[i];
        inputs[0] = change.output = inputs[2];
        change.inputs = inputs;
    }
    return bti_sim_is_cpu(model) ? bti_sim_cores_work(model, &change, precision)
                                 : bti_sim_card_work(model, &change, precision);
}

bti_sim_demand bti_sim_demand_of_product(const bti_work *work, int precision) {
    return bti_sim_card_product(work, precision, false);
}

bti_sim_demand bti_sim_demand_of_move(const bti_sim_model *model, double read_bytes, double written_bytes) {
    return bti_sim_is_cpu(model) ? bti_sim_cores_move(model, read_bytes, written_bytes)
                                 : bti_sim_card_move(read_bytes, written_bytes);
}

/* --- time ---------------------------------------------------------------------------------------------------------------- */

/* Where no library computes them, products take so many times as long. */
static double slowdown_of_own(const bti_sim_model *model) { return bti_sim_is_cpu(model) ? 3 : 4; }

static double seconds_of_product(const bti_sim_model *model, const bti_sim_demand *d, double busy) {
    const double rates[] = {[BTI_SIM_F64] = model->f64,
                            [BTI_SIM_F32] = model->f32,
                            [BTI_SIM_TF32] = model->tf32,
                            [BTI_SIM_BF16] = model->bf16,
                            [BTI_SIM_NO_LIBRARY] = model->f32 / slowdown_of_own(model)};
    if (d->operations <= 0) return 0;
    double waves = ceil(d->tiles / model->units);
    double full = bti_sim_is_cpu(model) ? busy / model->units : d->tiles / (waves * model->units);
    return d->operations / (rates[d->rate] * 1e12 * full);
}

static double seconds_of_memory(const bti_sim_model *model, const bti_sim_demand *d, double busy) {
    bool cached = d->bytes <= model->cache * 1e6; /* but for what bypasses it */
    double bytes = cached ? d->streamed : d->bytes;
    double one_way = cached ? d->streamed : fmax(d->bytes - d->written, d->written);
    double seconds = bytes / (model->bandwidth * 1e9);
    return model->unit_bandwidth > 0 ? fmax(seconds, one_way / (busy * model->unit_bandwidth * 1e9)) : seconds;
}

static double seconds_of_cache(const bti_sim_model *model, const bti_sim_demand *d, double busy) {
    double share = bti_sim_is_cpu(model) ? busy / model->units : 1;
    double seconds = d->asked / (model->cache_bandwidth * share * 1e9);
    return d->operations > 0 ? seconds : fmax(seconds, d->asked / (busy * BYTES_OF_UNIT * model->clock * 1e9));
}

static double seconds_of_latency(const bti_sim_model *model, const bti_sim_demand *d) {
    double at_once = fmax(1, fmin(d->warps, model->units * model->warps));
    return d->waits * model->load_ns * 1e-9 / at_once;
}

double bti_sim_nanoseconds(const bti_sim_model *model, const bti_sim_demand *d) {
    double group = bti_sim_is_cpu(model) ? model->warps : WARPS_OF_GROUP;
    double busy = fmax(1, fmin(model->units, ceil(d->warps / group)));
    double rate = busy * model->lanes * model->clock * 1e9, later = d->later / rate;
    double issue = (d->instructions + d->doubles * (model->f64_slowdown - 1)) / rate - later;
    double product = seconds_of_product(model, d, busy), memory = seconds_of_memory(model, d, busy);
    double seconds = fmax(memory, seconds_of_cache(model, d, busy));
    if (bti_sim_is_cpu(model)) {
        seconds = fmax(seconds, issue + product);
        if (memory > 0)
            seconds = fmax(seconds, seconds_of_latency(model, d)); /* nothing is waited for that the cache has */
    } else {
        seconds = fmax(fmax(seconds, issue), fmax(product, seconds_of_latency(model, d)));
    }
    return d->kernels * model->start_ns + d->calls * model->product_ns + (seconds + later) * 1e9;
}
