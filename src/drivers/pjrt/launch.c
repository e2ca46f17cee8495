/* One run of a program: buffers of its inputs, one call, and buffers of its outputs put into their slots. */
#include <string.h>

#include "base/alloc.h"
#include "base/libraries.h"
#include "drivers/pjrt/device.h"

enum { FEW = 512 }; /* bytes */

typedef struct run {
    uint64_t few[FEW / sizeof(uint64_t)]; /* in place of memory of its own */
    bti_pjrt_device *device;
    bti_pjrt_program *program;
    const uint64_t *addresses;
    const bti_type *types; /* of the arrays */
    bti_pjrt_launch *launch;
    bti_pjrt_slot **slots;     /* of inputs, of outputs */
    bti_pjrt_buffer **buffers; /* likewise, retained */
    void **handles;            /* likewise; the plugin sets those of outputs */
    int64_t *kept;             /* inputs that keep their memory */
    size_t kept_count;
    void *event;
} run;

static size_t count_of(const bti_pjrt_program *program) {
    return (size_t)(program->input_count + program->output_count);
}

static bt_status begin_run(run *r) {
    size_t count = count_of(r->program), inputs = (size_t)r->program->input_count;
    size_t bytes = count * 3 * sizeof(void *) + inputs * sizeof(int64_t);
    void *memory = bytes <= sizeof r->few ? r->few : bti_alloc(bytes);
    if (!memory) return bti_no_memory();
    memset(memory, 0, bytes);
    r->slots = (bti_pjrt_slot **)memory;
    r->buffers = (bti_pjrt_buffer **)(r->slots + count);
    r->handles = (void **)(r->buffers + count);
    r->kept = (int64_t *)(r->handles + count);
    r->launch = bti_pjrt_launch_new();
    return r->launch ? BT_OK : bti_no_memory();
}

static void end_run(run *r) {
    for (size_t i = 0; r->slots && i < count_of(r->program); i++) bti_pjrt_buffer_release(r->buffers[i]);
    bti_pjrt_launch_free(r->launch);
    if ((void *)r->slots != r->few) bti_free(r->slots);
}

static bt_status find_slots(run *r) {
    size_t inputs = (size_t)r->program->input_count;
    for (size_t i = 0; i < count_of(r->program); i++) {
        const bti_type *type = &r->types[i];
        size_t bytes, offset;
        if (!bti_pjrt_bytes(type, &bytes))
            return bti_fail(BT_INTERNAL, "%s: an array of a segment is too large", r->device->name);
        BTI_TRY(bti_pjrt_find(r->device, r->addresses[i], bytes, &r->slots[i], &offset));
        if (offset)
            return bti_fail(BT_INTERNAL, "%s: an array of a segment does not begin an allocation", r->device->name);
        if (i >= inputs) BTI_TRY(bti_pjrt_buffer_new(r->device->calls, type, &r->program->types[i], &r->buffers[i]));
    }
    return BT_OK;
}

static bt_status make_inputs(run *r) {
    for (int i = 0; i < r->program->input_count; i++) {
        BTI_TRY(bti_pjrt_typed(r->device, r->slots[i], &r->types[i], &r->program->types[i], &r->buffers[i]));
        r->handles[i] = r->buffers[i]->handle;
    }
    return BT_OK;
}

/* An input gives its memory to the output at its address, unless somebody else holds its buffer: a copy, another input, a reader. */
static bool gives_memory(const run *r, int i) {
    int output = r->program->aliases[i];
    if (output < 0 || r->slots[i] != r->slots[r->program->input_count + output]) return false;
    return atomic_load(&r->buffers[i]->users) == 2; /* the slot and this run */
}

static void choose_kept(run *r) {
    for (int i = 0; i < r->program->input_count; i++)
        if (!gives_memory(r, i)) r->kept[r->kept_count++] = i;
}

static bt_status execute(run *r, void *executable, void *device) {
    void *const *inputs = r->handles;
    void **outputs = r->handles + r->program->input_count;
    bti_pjrt_execute_options options = {
        .size = BTI_PJRT_SIZE(bti_pjrt_execute_options, later), .kept = r->kept, .kept_count = r->kept_count};
    bti_pjrt_execute args = {.size = BTI_PJRT_SIZE(bti_pjrt_execute, device),
                             .executable = executable,
                             .options = &options,
                             .inputs = &inputs,
                             .device_count = 1,
                             .input_count = (size_t)r->program->input_count,
                             .outputs = &outputs,
                             .events = &r->event,
                             .device = device};
    return bti_pjrt_try(r->device, "running a segment", r->device->calls->execute(&args));
}

static bool is_deleted(const bti_pjrt_device *device, void *buffer) {
    bti_pjrt_bool args = {.size = BTI_PJRT_SIZE(bti_pjrt_bool, result), .object = buffer};
    if (!device->calls->buffer_is_deleted) return false;
    bti_pjrt_error *error = device->calls->buffer_is_deleted(&args);
    bti_pjrt_ignore(device->calls, error);
    return !error && args.result;
}

/* --- programs that turn out not to run on each device --------------------------------------------------------------------- */

static bt_status compile_own(void *context) {
    run *r = context;
    return bti_pjrt_compile_own(r->device, r->program);
}

static bool lacks_inputs(const run *r) {
    for (int i = 0; i < r->program->input_count; i++)
        if (is_deleted(r->device, r->handles[i])) return true;
    return false;
}

/* A plugin may compile a program for any device, and then refuse to run it on the one that is asked for. It is compiled again for that one; if that runs, later programs are compiled for
 * their devices at once. */
static bt_status execute_own(run *r) {
    bti_pjrt_client *client = r->device->client;
    bti_error *refusal = bti_error_last();
    bt_status status = bti_libraries_open(compile_own, r);
    if (status == BT_OK) status = execute(r, r->program->own[r->device->index], NULL);
    if (status == BT_OK)
        atomic_store(&client->portable, -1);
    else
        status = bti_fail_with(refusal);
    bti_error_release(refusal);
    return status;
}

static bt_status execute_here(run *r) {
    bti_pjrt_client *client = r->device->client;
    void *own = r->program->own[r->device->index];
    if (own || !r->program->is_portable) return execute(r, own ? own : r->program->executable, NULL);
    int known = atomic_load(&client->portable);
    bt_status status = execute(r, r->program->executable, r->device->handle);
    if (status == BT_OK && !known) atomic_store(&client->portable, 1);
    bool refused = known <= 0 && (status == BT_UNIMPLEMENTED || status == BT_INVALID_ARGUMENT);
    return refused && !lacks_inputs(r) ? execute_own(r) : status;
}

/* Arrays that nobody names any more keep their memory until the launches that read them are over. So one that finds too little waits for these, and tries once more. */
static bt_status execute_with_room(run *r) {
    bool alone = !bti_pjrt_has_launches(r->device);
    bt_status status = execute_here(r);
    if (status != BT_RESOURCE_EXHAUSTED || alone || lacks_inputs(r)) return status;
    bti_pjrt_finish_launches(r->device);
    return execute_here(r);
}

/* --- what comes of it ------------------------------------------------------------------------------------------------------- */

/* Inputs whose memory the failed run has used up are lost; all else is as before. */
static void mark_lost(run *r) {
    bti_error *cause = bti_error_last();
    bti_errors_aside aside = bti_errors_aside_begin();
    for (int i = 0; i < r->program->input_count; i++) {
        if (!gives_memory(r, i) || !is_deleted(r->device, r->handles[i])) continue;
        bti_error *failure = bti_error_new(
            BT_INTERNAL, "%s: these elements are lost: their memory was given to a segment that failed: %s",
            r->device->name, cause ? bti_error_message(cause) : "");
        bti_pjrt_put(r->device, r->slots[i], (bti_pjrt_contents){.failure = failure});
    }
    bti_errors_aside_end(aside);
    bti_error_release(cause);
}

static bt_status check_results(run *r) {
    int missing = 0;
    for (int o = 0; o < r->program->output_count; o++) missing += !r->handles[r->program->input_count + o];
    if (!missing && r->event) return BT_OK;
    const bti_pjrt_calls *calls = r->device->calls;
    for (int o = 0; o < r->program->output_count; o++)
        bti_pjrt_drop(calls, calls->buffer_destroy, r->handles[r->program->input_count + o]);
    bti_pjrt_drop(calls, calls->event_destroy, r->event);
    return bti_fail(BT_INTERNAL, "%s: running a segment gave %s", r->device->name,
                    missing ? "too few results" : "no event");
}

static void put_outputs(run *r) {
    for (size_t i = (size_t)r->program->input_count; i < count_of(r->program); i++) {
        r->buffers[i]->handle = r->handles[i];
        bti_pjrt_put(r->device, r->slots[i], (bti_pjrt_contents){.buffer = r->buffers[i]});
        r->buffers[i] = NULL;
    }
}

static bt_status run_segment(run *r) {
    BTI_TRY(begin_run(r));
    BTI_TRY(find_slots(r));
    BTI_TRY(make_inputs(r));
    choose_kept(r);
    bt_status status = execute_with_room(r);
    if (status == BT_OK) status = check_results(r);
    if (status != BT_OK) {
        mark_lost(r);
        return status;
    }
    bti_pjrt_note_launch(r->device, r->launch, r->event);
    r->launch = NULL;
    put_outputs(r);
    return BT_OK;
}

bt_status bti_pjrt_launch_segment(void *opened, void *program, const uint64_t *addresses, const bti_type *types) {
    run r;
    r.device = opened, r.program = program, r.addresses = addresses;
    r.types = types ? types : r.program->types;
    r.launch = NULL, r.slots = NULL, r.event = NULL, r.kept_count = 0;
    BTI_TRY(bti_pjrt_check_lost(r.device));
    bt_status status = run_segment(&r);
    end_run(&r);
    return status;
}
