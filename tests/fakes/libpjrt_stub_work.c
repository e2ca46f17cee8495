/* The stub's buffers and events, and its work, which is complete in an order that is drawn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/libpjrt_stub.h"

enum { MOST_EVENTS = 16 };

typedef struct stub_work {
    struct stub_work *next;
    stub_data *inputs[STUB_INPUTS], *outputs[STUB_INPUTS];
    int input_count, output_count, event_count, fails;
    stub_event *events[MOST_EVENTS];
    char rule[16]; /* add, copy, upload, download */
    const char *from;
    char *to;
    size_t bytes;
    uint64_t hash;
    bool turned; /* downloads: the order of the device */
    size_t rank, element;
    int64_t shape[STUB_RANK];
} stub_work;

static stub_work *pending;
static unsigned drawn_state;

/* Functions to call when the lock is given back. */
typedef struct callback {
    struct callback *next;
    void (*call)(bti_pjrt_error *error, void *data);
    void *data;
    int failed;
} callback;
static _Thread_local callback *callbacks;

static uint64_t hash_of(const char *bytes, size_t count) {
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < count; i++) hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
    return hash;
}

static unsigned draw(unsigned below) {
    if (!drawn_state) drawn_state = stub.seed * 2654435761u | 1;
    drawn_state ^= drawn_state << 13, drawn_state ^= drawn_state >> 17, drawn_state ^= drawn_state << 5;
    return drawn_state % below;
}

/* --- events ------------------------------------------------------------------------------------------------------------------------ */

static stub_event *new_event(stub_work *of) {
    stub_event *event = stub_new(STUB_EVENT, sizeof *event);
    event->of = of;
    event->ready = !of;
    if (of) of->events[of->event_count++] = event;
    return event;
}

static void call_later(stub_event *event) {
    callback *later = malloc(sizeof *later);
    *later = (callback){callbacks, event->call, event->data, event->failed};
    callbacks = later;
    event->call = NULL;
}

static void set_ready(stub_event *event, int failed) {
    event->ready = true;
    event->failed = failed;
    event->of = NULL;
    if (event->call) call_later(event);
}

void stub_call_back(void) {
    for (callback *one; (one = callbacks);) {
        callbacks = one->next;
        bti_pjrt_error *error = NULL;
        if (one->failed) {
            (void)!stub_enter("callback Destroy", 0, 0);
            error = stub_fail(one->failed, "the stub fails late");
            stub_leave();
        }
        one->call(error, one->data);
        free(one);
    }
}

/* --- data -------------------------------------------------------------------------------------------------------------------------- */

static stub_data *new_data(size_t bytes, stub_work *maker) {
    stub_data *data = calloc(1, sizeof *data);
    data->users = 1;
    data->bytes = bytes;
    data->maker = maker;
    return data;
}

void stub_drop_data(stub_data *data) {
    if (--data->users) return;
    if (data->until) set_ready(data->until, 0);
    if (data->host) stub_counted.lent -= (int)data->bytes;
    free(data->at);
    free(data);
}

static const char *bytes_of(const stub_data *data) {
    if (!data->host) return data->at;
    if (hash_of(data->host, data->bytes) != data->hash)
        stub_misused("bytes of the host have changed while a buffer reads them");
    return data->host;
}

/* --- work -------------------------------------------------------------------------------------------------------------------------- */

static bool is_runnable(const stub_work *work) {
    for (int i = 0; i < work->input_count; i++)
        if (work->inputs[i]->maker) return false;
    return true;
}

/* Of an array whose first axis varies fastest. */
static void turn(const stub_work *work, const char *from) {
    size_t count = work->bytes / work->element;
    for (size_t i = 0; i < count; i++) {
        size_t rest = i, at = 0, stride = 1;
        int64_t index[STUB_RANK];
        for (size_t a = work->rank; a--; rest /= (size_t)work->shape[a])
            index[a] = (int64_t)(rest % (size_t)work->shape[a]);
        for (size_t a = 0; a < work->rank; stride *= (size_t)work->shape[a++]) at += (size_t)index[a] * stride;
        memcpy(work->to + at * work->element, from + i * work->element, work->element);
    }
}

static void compute(stub_work *work) {
    if (!strcmp(work->rule, "upload")) {
        if (hash_of(work->from, work->bytes) != work->hash)
            stub_misused("bytes of the host have changed before they were copied");
        memcpy(work->outputs[0]->at, work->from, work->bytes);
    } else if (!strcmp(work->rule, "download")) {
        const char *from = bytes_of(work->inputs[0]);
        if (work->turned)
            turn(work, from);
        else
            memcpy(work->to, from, work->bytes);
    } else if (!strcmp(work->rule, "add")) {
        const char *a = bytes_of(work->inputs[0]), *b = bytes_of(work->inputs[1]);
        for (size_t i = 0; i + 4 <= work->outputs[0]->bytes; i += 4) {
            float x, y;
            memcpy(&x, a + i, 4), memcpy(&y, b + i, 4);
            x += y;
            memcpy(work->outputs[0]->at + i, &x, 4);
        }
    } else {
        for (int i = 0; i < work->output_count; i++)
            memcpy(work->outputs[i]->at, bytes_of(work->inputs[i]), work->outputs[i]->bytes);
    }
}

static void complete(stub_work *work) {
    for (stub_work **at = &pending; *at; at = &(*at)->next)
        if (*at == work) {
            *at = work->next;
            break;
        }
    stub_counted.pending--;
    for (int i = 0; i < work->input_count && !work->fails; i++) work->fails = work->inputs[i]->failed;
    for (int i = 0; i < work->output_count; i++) work->outputs[i]->at = calloc(1, work->outputs[i]->bytes + 1);
    if (!work->fails) compute(work);
    for (int i = 0; i < work->event_count; i++) set_ready(work->events[i], work->fails);
    for (int i = 0; i < work->output_count; i++) {
        work->outputs[i]->maker = NULL;
        work->outputs[i]->failed = work->fails;
        stub_drop_data(work->outputs[i]);
    }
    for (int i = 0; i < work->input_count; i++) stub_drop_data(work->inputs[i]);
    free(work);
}

static void complete_one(void) {
    int count = 0;
    for (const stub_work *work = pending; work; work = work->next) count += is_runnable(work);
    if (!count) return;
    int at = stub.seed ? (int)draw((unsigned)count) : count - 1; /* the newest stands first */
    for (stub_work *work = pending; work; work = work->next)
        if (is_runnable(work) && at-- == 0) {
            complete(work);
            return;
        }
}

void stub_draw(void) {
    if (stub.seed && pending && draw(3) == 0) complete_one();
}

void stub_finish(const stub_event *event) {
    while (!event->ready && pending) complete_one();
}

void stub_finish_all(void) {
    while (pending) complete_one();
}

static void begin(stub_work *work) {
    work->next = pending;
    pending = work;
    stub_counted.pending++;
    for (int i = 0; i < work->input_count; i++) work->inputs[i]->users++;
    for (int i = 0; i < work->output_count; i++) work->outputs[i]->users++;
    while (!stub.seed && pending) complete_one();
}

static stub_work *new_work(const char *rule) {
    stub_work *work = calloc(1, sizeof *work);
    snprintf(work->rule, sizeof work->rule, "%s", rule);
    return work;
}

/* --- the functions ------------------------------------------------------------------------------------------------------------------ */

#define ENTER(title, type, last)                                                        \
    bti_pjrt_error *failed_ = stub_enter(title, args->size, BTI_PJRT_SIZE(type, last)); \
    if (failed_) return stub_leave(), failed_
#define LEAVE(result) return stub_leave(), (result)
#define REFUSE(...) LEAVE(stub_fail(3, __VA_ARGS__))

bti_pjrt_error *stub_event_destroy(bti_pjrt_one *args) {
    ENTER("PJRT_Event_Destroy", bti_pjrt_one, object);
    if (stub_is(args->object, STUB_EVENT, "PJRT_Event_Destroy")) stub_end(args->object);
    LEAVE(NULL);
}
bti_pjrt_error *stub_event_is_ready(bti_pjrt_bool *args) {
    ENTER("PJRT_Event_IsReady", bti_pjrt_bool, result);
    if (!stub_is(args->object, STUB_EVENT, "PJRT_Event_IsReady")) REFUSE("no event");
    args->result = ((stub_event *)args->object)->ready;
    LEAVE(NULL);
}
bti_pjrt_error *stub_event_await(bti_pjrt_one *args) {
    bti_pjrt_error *failed = stub_enter("PJRT_Event_Await", args->size, BTI_PJRT_SIZE(bti_pjrt_one, object));
    if (!stub_is(args->object, STUB_EVENT, "PJRT_Event_Await")) REFUSE("no event");
    const stub_event *event = args->object;
    stub_finish(event);
    if (!event->ready) stub_misused("PJRT_Event_Await: an event that never comes");
    if (failed) LEAVE(failed); /* as if that were the event's */
    LEAVE(event->failed ? stub_fail(event->failed, "the stub fails late") : NULL);
}
bti_pjrt_error *stub_event_on_ready(bti_pjrt_on_ready *args) {
    ENTER("PJRT_Event_OnReady", bti_pjrt_on_ready, data);
    if (!stub_is(args->event, STUB_EVENT, "PJRT_Event_OnReady")) REFUSE("no event");
    stub_event *event = args->event;
    if (event->call) stub_misused("PJRT_Event_OnReady: it has a function");
    event->call = args->call;
    event->data = args->data;
    if (event->ready) call_later(event);
    LEAVE(NULL);
}

static const unsigned char element_bytes[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 8, 16, 1, 1};

static size_t size_of(int type, const int64_t *shape, size_t rank) {
    size_t bytes = element_bytes[type];
    for (size_t a = 0; a < rank; a++) bytes *= (size_t)shape[a];
    return bytes;
}

static stub_buffer *new_buffer(int type, const int64_t *shape, size_t rank, int device, stub_data *data) {
    stub_buffer *buffer = stub_new(STUB_BUFFER, sizeof *buffer);
    buffer->type = type;
    buffer->rank = rank;
    buffer->device = device;
    buffer->data = data;
    for (size_t a = 0; a < rank; a++) buffer->shape[a] = shape[a];
    return buffer;
}

bti_pjrt_error *stub_buffer_from_host(bti_pjrt_from_host *args) {
    ENTER("PJRT_Client_BufferFromHostBuffer", bti_pjrt_from_host, buffer);
    if (!stub_is(args->client, STUB_CLIENT, "PJRT_Client_BufferFromHostBuffer")) REFUSE("no client");
    if (args->type < 1 || args->type > BTI_PJRT_F8E4M3FN || args->rank > STUB_RANK) REFUSE("no such type");
    size_t bytes = size_of(args->type, args->shape, args->rank);
    int device = ((stub_device *)args->device)->index, fails = 0;
    if (stub.late_upload[0] > 0 && --stub.late_upload[0] == 0) fails = stub.late_upload[1];
    stub_data *data = new_data(bytes, NULL);
    stub_buffer *buffer = new_buffer(args->type, args->shape, args->rank, device, data);
    args->buffer = buffer;
    if (args->semantics == BTI_PJRT_ZERO_COPY && !fails) {
        data->host = args->data;
        data->hash = hash_of(args->data, bytes);
        stub_counted.lent += (int)bytes;
        stub_event *event = stub_new(STUB_EVENT, sizeof *event);
        data->until = event;
        args->done = event;
        LEAVE(NULL);
    }
    if (args->semantics == BTI_PJRT_DURING_CALL) {
        data->at = malloc(bytes + 1);
        data->failed = fails;
        memcpy(data->at, args->data, bytes);
        args->done = new_event(NULL);
        LEAVE(NULL);
    }
    stub_work *work = new_work("upload");
    work->outputs[work->output_count++] = data;
    data->maker = work;
    work->from = args->data;
    work->bytes = bytes;
    work->hash = hash_of(args->data, bytes);
    work->fails = fails;
    args->done = new_event(work);
    begin(work);
    LEAVE(NULL);
}

static stub_buffer *usable(void *object, const char *where) {
    stub_buffer *buffer = object;
    if (!stub_is(object, STUB_BUFFER, where)) return NULL;
    if (!buffer->deleted) return buffer;
    stub_misused("%s: the buffer was given to a run", where);
    return NULL;
}

bti_pjrt_error *stub_buffer_destroy(bti_pjrt_one *args) {
    ENTER("PJRT_Buffer_Destroy", bti_pjrt_one, object);
    if (stub_is(args->object, STUB_BUFFER, "PJRT_Buffer_Destroy")) {
        stub_buffer *buffer = args->object;
        if (!buffer->deleted) stub_drop_data(buffer->data);
        stub_end(buffer);
    }
    LEAVE(NULL);
}
bti_pjrt_error *stub_buffer_is_deleted(bti_pjrt_bool *args) {
    ENTER("PJRT_Buffer_IsDeleted", bti_pjrt_bool, result);
    if (!stub_is(args->object, STUB_BUFFER, "PJRT_Buffer_IsDeleted")) REFUSE("no buffer");
    args->result = ((stub_buffer *)args->object)->deleted;
    LEAVE(NULL);
}
bti_pjrt_error *stub_buffer_ready(bti_pjrt_get *args) {
    ENTER("PJRT_Buffer_ReadyEvent", bti_pjrt_get, result);
    stub_buffer *buffer = usable(args->object, "PJRT_Buffer_ReadyEvent");
    if (!buffer) REFUSE("no buffer");
    stub_work *maker = buffer->data->maker;
    stub_event *event = new_event(maker && maker->event_count < MOST_EVENTS ? maker : NULL);
    if (event->ready) event->failed = buffer->data->failed;
    args->result = event;
    LEAVE(NULL);
}

/* Without a layout the bytes come as the device has them: here the first axis varies fastest. */
bti_pjrt_error *stub_buffer_to_host(bti_pjrt_to_host *args) {
    ENTER("PJRT_Buffer_ToHostBuffer", bti_pjrt_to_host, event);
    stub_buffer *buffer = usable(args->buffer, "PJRT_Buffer_ToHostBuffer");
    if (!buffer) REFUSE("no buffer");
    if (args->bytes < buffer->data->bytes) REFUSE("%zu bytes are too few", args->bytes);
    if (args->layout && (args->layout->type != 0 || args->layout->tiled.rank != buffer->rank))
        stub_misused("PJRT_Buffer_ToHostBuffer: a layout of another rank");
    for (size_t a = 0; args->layout && a < buffer->rank; a++)
        if (args->layout->tiled.minor_to_major[a] != (int64_t)(buffer->rank - 1 - a))
            stub_misused("PJRT_Buffer_ToHostBuffer: a layout that is not row-major");
    stub_work *work = new_work("download");
    work->inputs[work->input_count++] = buffer->data;
    work->to = args->host;
    work->bytes = buffer->data->bytes;
    work->turned = !args->layout;
    work->rank = buffer->rank;
    work->element = element_bytes[buffer->type];
    memcpy(work->shape, buffer->shape, sizeof work->shape);
    args->event = new_event(work);
    begin(work);
    LEAVE(NULL);
}

static bti_pjrt_error *copy_to(bti_pjrt_copy_to *args, bool refused) {
    stub_buffer *buffer = usable(args->buffer, "a copy between devices");
    if (refused) return stub_fail(12, "the stub does not copy so");
    if (!buffer) return stub_fail(3, "no buffer");
    int device = ((stub_device *)args->target)->index;
    if (device == buffer->device) stub_misused("a copy between devices: it is there");
    stub_work *work = new_work("copy");
    stub_data *data = new_data(buffer->data->bytes, work);
    work->inputs[work->input_count++] = buffer->data;
    work->outputs[work->output_count++] = data;
    args->result = new_buffer(buffer->type, buffer->shape, buffer->rank, device, data);
    begin(work);
    return NULL;
}
bti_pjrt_error *stub_buffer_to_device(bti_pjrt_copy_to *args) {
    ENTER("PJRT_Buffer_CopyToDevice", bti_pjrt_copy_to, result);
    LEAVE(copy_to(args, stub.no_device_copy));
}
bti_pjrt_error *stub_buffer_to_memory(bti_pjrt_copy_to *args) {
    ENTER("PJRT_Buffer_CopyToMemory", bti_pjrt_copy_to, result);
    LEAVE(copy_to(args, stub.no_memory_copy));
}

/* --- runs --------------------------------------------------------------------------------------------------------------------------- */

static bool is_kept(const bti_pjrt_execute_options *options, int64_t input) {
    for (size_t i = 0; i < options->kept_count; i++)
        if (options->kept[i] == input) return true;
    return false;
}

/* Why it cannot run; NULL: it can. */
static const char *check(const bti_pjrt_execute *args, const stub_program *program, int device) {
    void *const *inputs = args->inputs[0];
    for (size_t i = 0; i < args->input_count; i++) {
        const stub_buffer *buffer = usable(inputs[i], "PJRT_LoadedExecutable_Execute");
        if (!buffer) return "a buffer is gone";
        if (buffer->device != device) return "a buffer is on another device";
        for (size_t k = 0; k < i && (int)i == program->gives && !is_kept(args->options, (int64_t)i); k++)
            if (inputs[k] == inputs[i])
                stub_misused("PJRT_LoadedExecutable_Execute: a buffer is given that is read too");
    }
    if (!strcmp(program->rule, "add") &&
        (args->input_count != 2 || ((stub_buffer *)inputs[0])->data->bytes != ((stub_buffer *)inputs[1])->data->bytes))
        return "arrays of other sizes were expected";
    if (!strcmp(program->rule, "copy") && (int)args->input_count < program->results) return "more arrays were expected";
    return NULL;
}

static void give(stub_buffer *buffer) {
    if (buffer->deleted) return;
    buffer->deleted = true;
    stub_drop_data(buffer->data);
    buffer->data = NULL;
    stub_counted.given++;
}

static void run(bti_pjrt_execute *args, const stub_program *program, int device) {
    void *const *inputs = args->inputs[0];
    stub_work *work = new_work(program->rule);
    if (stub.late[0] > 0 && --stub.late[0] == 0) work->fails = stub.late[1];
    for (size_t i = 0; i < args->input_count; i++) work->inputs[work->input_count++] = ((stub_buffer *)inputs[i])->data;
    for (int o = 0; o < program->results; o++) {
        const stub_buffer *like = inputs[o];
        stub_data *data = new_data(like->data->bytes, work);
        work->outputs[work->output_count++] = data;
        args->outputs[0][o] = new_buffer(like->type, like->shape, like->rank, device, data);
    }
    if (args->events) args->events[0] = new_event(work);
    stub_buffer *given = program->gives >= 0 && !is_kept(args->options, program->gives) ? inputs[program->gives] : NULL;
    if (given) given->data->users++; /* until the work holds it */
    stub_data *data = given ? given->data : NULL;
    if (given) give(given);
    begin(work);
    if (data) stub_drop_data(data);
}

bti_pjrt_error *stub_execute(bti_pjrt_execute *args) {
    ENTER("PJRT_LoadedExecutable_Execute", bti_pjrt_execute, device);
    if (!stub_is(args->executable, STUB_PROGRAM, "PJRT_LoadedExecutable_Execute")) REFUSE("no program");
    const stub_program *program = args->executable;
    if (args->options->size < 112 || args->device_count != 1)
        stub_misused("PJRT_LoadedExecutable_Execute: options that are too small");
    if (program->portable != !!args->device) REFUSE("a device for a program that has one, or none for one without");
    if (program->portable && stub.refuses_run)
        LEAVE(stub_fail(12, "the stub runs programs where they were compiled for"));
    int device = args->device ? ((stub_device *)args->device)->index : program->device;
    const char *wrong = check(args, program, device);
    stub_counted.runs++;
    if (stub.lost_after > 0 && --stub.lost_after == 0) stub.lost_after = -1, wrong = "the device is gone";
    if (wrong) {
        if (stub.uses_up && program->gives >= 0 && !is_kept(args->options, program->gives))
            give(args->inputs[0][program->gives]);
        LEAVE(stub_fail(stub.lost_after < 0 ? 14 : 3, "%s", wrong));
    }
    if (stub.no_results) LEAVE(NULL);
    run(args, program, device);
    LEAVE(NULL);
}
