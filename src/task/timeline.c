#include "task/timeline.h"

#include "base/clock.h"
#include "task/mailbox.h"

bt_status bti_timeline_open(bti_state *state) {
    return bti_arena_room(state->arena, sizeof *state->timeline, (void **)&state->timeline);
}

bti_span bti_span_of(const bti_task_record *task) {
    bti_span span = {.submitted_ns = task->submitted_ns,
                     .begun_ns = bti_task_begun_ns(task),
                     .task = task->sequence,
                     .gpus = task->gpus,
                     .function = task->function,
                     .is_actor = task->makes_actor,
                     .thread = bti_task_thread(task),
                     .status = task->result ? task->result->status : BT_OK};
    if (task->actor) memcpy(span.actor, task->actor->name, sizeof span.actor);
    if (task->client) span.worker = task->client->number, span.pid = task->client->pid;
    return span;
}

void bti_timeline_note(bti_state *state, const bti_task_record *task) {
    bti_timeline *timeline = state->timeline;
    bti_span *span = &timeline->spans[timeline->count % BTI_TIMELINE_SPANS];
    *span = bti_span_of(task);
    span->ended_ns = bti_now_ns();
    BTI_SET(state->arena, timeline->count, timeline->count + 1);
}
