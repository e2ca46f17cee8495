#include "exec/series.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/boxes.h"

enum {
    LEAST = 5,   /* steps of a scan's series: fewer are launched as fast one by one */
    MOST = 1024, /* steps after which it is looked again whether a trace is recorded, or a flag was set */
    AGAIN = 64   /* steps until the next attempt, if the device ran none */
};

/* --- making a series -------------------------------------------------------------------------------------------------- */

/* How many launches the region's plan makes; more than BTI_SERIES_LAUNCHES: too many, or not all of them are of fused kernels. Where a launch takes several boxes it costs more than a call: devices
 * that run series have no such steps. */
static size_t launches_of(const bti_plan *plan) {
    for (size_t s = 0; s < plan->steps.count; s++)
        if (plan->steps.items[s].kind != BTI_STEP_KERNEL || plan->steps.items[s].box_count > 1)
            return BTI_SERIES_LAUNCHES + 1;
    return plan->steps.count;
}

/* NULL: a step is no series, or memory is short. */
static bti_series *new_series(const bti_loop_steps *loop) {
    size_t launches = 0;
    int tested = -1;
    for (int r = 0; r < loop->region_count && launches <= BTI_SERIES_LAUNCHES; r++) {
        launches += launches_of(&loop->regions[r]->prepared->plan);
        if (r == 0 && loop->tested) tested = (int)launches;
    }
    if (launches < 1 || launches > BTI_SERIES_LAUNCHES) return NULL;
    bti_series *series = bti_alloc(sizeof *series + launches * sizeof *series->launches);
    if (!series) return NULL;
    series->launch_count = (int)launches;
    series->tested = tested;
    series->test = loop->test;
    return series;
}

/* The box is that of the step that the regions are bound for, `after` (0, 1, 2) steps from the next one of the series. */
static void place_launch(bti_series_launch *launch, int after) {
    const uint64_t *now = launch->box.address;
    launch->moves = false;
    if (after < 2) {
        memcpy(launch->address[after], now, (size_t)launch->operand_count * sizeof *now);
        return;
    }
    for (int o = 0; o < launch->operand_count; o++) {
        launch->move[o] = (int64_t)(now[o] - launch->address[0][o]);
        launch->moves = launch->moves || launch->move[o];
    }
}

/* The launch behind those of the region. */
static bti_series_launch *place_region(const bti_run *region, bti_series_launch *launch, int after) {
    const bti_prepared *prepared = region->prepared;
    for (size_t s = 0; s < prepared->plan.steps.count; s++, launch++) {
        const bti_program *program = prepared->steps[s].program;
        launch->program = program->state;
        launch->operand_count = bti_kernel_operands(program->source.kernel); /* in halves it has more than the plan's */
        bti_run_box(&prepared->plan, region, &prepared->plan.steps.items[s], 0, &launch->box);
        place_launch(launch, after);
    }
    return launch;
}

/* Where operands lie from this step on. */
static void place_series(const bti_loop_steps *loop, int64_t step) {
    for (int after = 0; after < (loop->rows ? 3 : 2); after++) {
        bti_series_launch *launch = loop->series->launches;
        loop->bind(loop->context, step + after);
        for (int r = 0; r < loop->region_count; r++) launch = place_region(loop->regions[r], launch, after);
    }
}

/* --- running it ------------------------------------------------------------------------------------------------------- */

/* Whether the device can be asked. A trace has an event for each launch. */
static bool is_ready(bti_loop_steps *loop) {
    if (bti_trace_on()) return false;
    if (!loop->series && bti_device_runs_series(loop->device)) loop->series = new_series(loop);
    if (!loop->series) loop->next = -1;
    return loop->series != NULL;
}

int64_t bti_loop_run_series_(bti_loop_steps *loop, int64_t step, int64_t most, bool *ended) {
    loop->next = step + AGAIN;
    if (most < LEAST || !is_ready(loop)) return 0;
    place_series(loop, step);
    loop->series->most = most < MOST ? most : MOST;
    bti_device_launch_series(loop->device, loop->series);
    int64_t run = loop->series->run;
    if (run) loop->next = step + run + 1;
    *ended = loop->series->ended;
    if (loop->tested) bti_device_count_copy(loop->device, -1, (size_t)run + *ended); /* tests that were read */
    return run;
}
