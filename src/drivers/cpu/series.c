/* Steps of a loop: what is the same in each is resolved before the first. */
#include <string.h>

#include "drivers/cpu/engine.h"

/* The arguments of a launch's code. */
typedef struct code_call {
    bti_run_function *run;
    const int64_t *extent, *stride;
    const uint64_t *scalars;
    const void *const *functions;
    const uint64_t *address[2];
} code_call;

typedef struct steps {
    code_call calls[BTI_SERIES_LAUNCHES];
    const void *blocks[BTI_SERIES_LAUNCHES][2]; /* `functions` of run_blocks: the blocks and the box */
    bti_series_launch *moving[BTI_SERIES_LAUNCHES];
    int moving_count;
} steps;

static void run_blocks(const int64_t *extent, const uint64_t *scalars, const uint64_t *address, const int64_t *stride,
                       const void *const *functions) {
    (void)extent, (void)scalars, (void)stride;
    bti_series_launch *launch = (bti_series_launch *)functions[1];
    memcpy(launch->box.address, address, (size_t)launch->operand_count * sizeof *address);
    bti_blocks_run(functions[0], &launch->box);
}

/* Whether the code of all launches is settled. */
static bool resolve(bti_series *series, steps *s) {
    s->moving_count = 0;
    for (int i = 0; i < series->launch_count; i++) {
        bti_series_launch *launch = &series->launches[i];
        bti_settled code;
        if (!bti_cpu_settled(launch->program, &launch->box, &code)) return false;
        s->blocks[i][0] = code.blocks;
        s->blocks[i][1] = launch;
        s->calls[i] = (code_call){.run = code.run ? code.run : run_blocks,
                                  .extent = launch->box.extent,
                                  .stride = *launch->box.stride,
                                  .scalars = launch->box.scalars,
                                  .functions = code.run ? code.functions : s->blocks[i],
                                  .address = {launch->address[0], launch->address[1]}};
        if (launch->moves) s->moving[s->moving_count++] = launch;
    }
    return true;
}

static inline void make_calls(const code_call *call, const code_call *end, int place) {
    for (; call < end; call++)
        call->run(call->extent, call->scalars, call->address[place], call->stride, call->functions);
}

static inline void move(const steps *s, int place) {
    for (int m = 0; m < s->moving_count; m++) {
        bti_series_launch *launch = s->moving[m];
        for (int o = 0; o < launch->operand_count; o++) launch->address[place][o] += (uint64_t)launch->move[o];
    }
}

void bti_cpu_launch_series(void *device, bti_series *series) {
    (void)device;
    steps s;
    series->run = 0;
    series->ended = false;
    if (!resolve(series, &s)) return;
    const code_call *test = s.calls + (series->tested < 0 ? 0 : series->tested), *end = s.calls + series->launch_count;
    const uint8_t *goes_on = series->tested < 0 ? NULL : (const uint8_t *)(uintptr_t)series->test;
    int64_t step = 0;
    for (int place = 0; step < series->most; step++, place ^= 1) {
        make_calls(s.calls, test, place);
        series->ended = goes_on && !*goes_on;
        if (series->ended) break;
        make_calls(test, end, place);
        move(&s, place);
    }
    series->run = step;
}
