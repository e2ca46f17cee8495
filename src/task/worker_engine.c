#include "task/worker_engine.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/alloc.h"
#include "base/cores.h"
#include "task/call.h"
#include "task/held.h"
#include "task/loan.h"
#include "task/mailbox.h"
#include "task/options.h"
#include "task/peers.h"
#include "task/placement.h"
#include "task/run.h"
#include "task/store.h"
#include "task/tasks.h"
#include "task/value.h"

static _Thread_local uint32_t runs = BTI_NO_CALL; /* the number of the call that this thread runs */
void bti_worker_runs(uint32_t number) { runs = number; }

static void send_message(bti_message *head, const void *bytes) {
    bti_mail_send(bti_process_now.state, bti_process_now.me, head, bytes, NULL);
}
static bti_answer ask_scheduler(bti_message *head, const void *bytes) {
    return bti_mail_ask(bti_process_now.state, bti_process_now.me, head, bytes);
}

/* --- memory --------------------------------------------------------------------------------------------------------------- */

enum { PAGE = 4096 };

static bt_status protect_pages(void *from, uint64_t bytes, int how) {
    uintptr_t begin = (uintptr_t)from / PAGE * PAGE, end = ((uintptr_t)from + bytes + PAGE - 1) / PAGE * PAGE;
    if (mprotect((void *)begin, end - begin, how) == 0) return BT_OK;
    return bti_fail(BT_RESOURCE_EXHAUSTED, "the memory of the runtime cannot be protected (mprotect)");
}

/* Valgrind takes more than a minute to protect this many addresses. */
static bool is_under_valgrind(void) {
    const char *loaded = getenv("LD_PRELOAD");
    return loaded && strstr(loaded, "/vgpreload_");
}

bt_status bti_worker_protect(bti_state *state, bti_client *client) {
    if (is_under_valgrind()) return BT_OK;
    BTI_TRY(protect_pages(state->arena, state->arena->bytes, PROT_READ));
    BTI_TRY(protect_pages(state->bells, sizeof *state->bells, PROT_READ | PROT_WRITE));
    return protect_pages(client->mail, sizeof *client->mail, PROT_READ | PROT_WRITE);
}

void bti_worker_seal(char *room, uint64_t bytes) { (void)protect_pages(room, bytes, PROT_READ); }

/* Small values go with a message and are copied. They may exceed the limit of the store by little, so not when it is nearly full. */
bool bti_worker_goes_along(const bti_state *state, uint64_t bytes) {
    uint64_t used = *(volatile const uint64_t *)&state->store_used;
    return bytes <= sizeof((bti_object *)0)->small ||
           (bytes < BTI_RUN_SMALL && used + bytes < state->store_limit - state->store_limit / 16);
}

static bt_status ask_room(bti_message *m, uint64_t bytes, char **room) {
    m->kind = BTI_ASKS_ROOM;
    m->count = bytes < BTI_PAGED_BYTES ? BTI_PAGED_BYTES : bytes; /* whole pages, since it is made writable by pages */
    bti_answer answer = ask_scheduler(m, NULL);
    if (answer.status != BT_OK) return answer.status;
    *room = answer.value;
    return protect_pages(*room, bytes, PROT_READ | PROT_WRITE);
}

bt_status bti_worker_result_room(uint32_t number, uint32_t index, uint64_t bytes, char **room) {
    bti_message m = {.number = number, .status = index};
    return ask_room(&m, bytes, room);
}

bt_status bti_worker_pin_arguments(uint32_t number, const bti_task_record *task) {
    bti_objects_at at = {.task = task};
    if (task->pinned || !bti_task_next_stored(&at)) return BT_OK;
    bti_message m = {.kind = BTI_ASKS_PIN_TASK, .number = number};
    return ask_scheduler(&m, NULL).status;
}

/* A message with ids that is being filled. */
typedef struct ids {
    bti_message message;
    uint64_t id[512];
} ids;

static void send_ids(ids *kept) {
    if (kept->message.length) send_message(&kept->message, kept->id);
    kept->message.length = 0;
}

static bool collect_id(void *data, const bti_packed_value *head, bool in_list) {
    ids *kept = data;
    (void)in_list;
    kept->id[kept->message.length / sizeof *kept->id] = head->as.id;
    kept->message.length += sizeof *kept->id;
    if (kept->message.length == sizeof kept->id) send_ids(kept);
    return true;
}

void bti_worker_keep(uint32_t number, const char *packed) {
    ids kept;
    kept.message = (bti_message){.kind = BTI_SAYS_KEEP, .number = number, .slot = BTI_NO_REPLY};
    (void)bti_packed_each(packed, collect_id, &kept);
    send_ids(&kept);
}

/* --- references without asking ---------------------------------------------------------------------------------------------- */

static bti_lock stock_lock = BTI_LOCK_INIT(task_stock); /* protects `used`; a request may be made under it */
static uint32_t used;

static bti_hold *hold_from_stock(void) {
    bti_mailbox *mail = bti_process_now.me->mail;
    bti_hold *hold = NULL;
    bti_lock_take(&stock_lock);
    bti_message m = {.kind = BTI_ASKS_STOCK};
    if (atomic_load(&mail->stocked) != used || ask_scheduler(&m, NULL).status == BT_OK)
        hold = mail->stock[used++ % BTI_STOCK];
    bti_lock_give(&stock_lock);
    return hold;
}

static void worker_release_hold(bti_hold *hold) {
    bti_message m = {.kind = BTI_SAYS_RELEASE, .hold = hold};
    send_message(&m, NULL);
}
static void worker_release(void *held) { worker_release_hold(held); }

static bti_hold *ask_hold(uint64_t id, bool pinned) {
    bti_message m = {.kind = BTI_ASKS_HOLD, .length = sizeof id, .count = pinned};
    bti_answer answer = ask_scheduler(&m, &id);
    return answer.status == BT_OK ? answer.value : NULL;
}

static bti_hold *worker_hold_object(bti_object *object, bool pinned) {
    return ask_hold(bti_object_id(bti_process_now.state, object), pinned);
}

static void *worker_hold(uint64_t id) { return ask_hold(id, false); }

/* --- values ------------------------------------------------------------------------------------------------------------------ */

static bt_status fill_object(bti_hold *hold, const bti_values *values, uint64_t bytes) {
    char small[BTI_RUN_SMALL], *room = small;
    bti_message m = {.kind = BTI_SAYS_PUT, .hold = hold, .length = bytes};
    bool along = bti_worker_goes_along(bti_process_now.state, bytes);
    if (!along) {
        bti_message asks = {.hold = hold};
        BTI_TRY(ask_room(&asks, bytes, &room));
        m = (bti_message){.kind = BTI_SAYS_MADE, .hold = hold};
    }
    bt_status status = bti_values_pack(values, room);
    if (!along) bti_worker_seal(room, bytes);
    if (status == BT_OK) send_message(&m, small);
    return status;
}

static bti_hold *pack_and_seal(const bti_values *values, uint64_t bytes) {
    bti_hold *hold = hold_from_stock();
    if (!hold || fill_object(hold, values, bytes) == BT_OK) return hold;
    worker_release(hold);
    return NULL;
}

bt_status bti_worker_yield(uint32_t number, const bti_values *value) {
    bti_message m = {.kind = BTI_SAYS_YIELD, .number = number, .slot = BTI_NO_REPLY};
    if (!(m.hold = pack_and_seal(value, bti_values_bytes(value)))) return bt_error_status();
    send_message(&m, NULL);
    return BT_OK;
}

static void *worker_put(const bti_values *value) { return pack_and_seal(value, bti_values_bytes(value)); }

static bt_status worker_read(void *held, bti_reading *reading) {
    bti_object *object = bti_held_object(held);
    bti_answer pin = {0};
    if (atomic_load(&object->state) == BTI_OBJECT_FAILED) return bti_object_failure(object);
    if (object->bytes > sizeof object->small) {
        bti_message m = {.kind = BTI_ASKS_PIN, .hold = held};
        if ((pin = ask_scheduler(&m, NULL)).status != BT_OK) return pin.status;
    }
    *reading = (bti_reading){bti_object_value(object), object->bytes, object, pin.value};
    return BT_OK;
}

/* --- waiting ----------------------------------------------------------------------------------------------------------------- */

static void send_wait(bti_message *m, void *const *held, int count) {
    enum { AT_ONCE = (BTI_MESSAGE_MOST - sizeof(bti_message)) / sizeof(void *) };
    for (int from = 0;; from += AT_ONCE) {
        bool last = count - from <= (int)AT_ONCE;
        m->kind = last ? BTI_ASKS_WAIT : BTI_ASKS_WAIT_MORE;
        m->status = (uint32_t)count;
        m->length = (uint64_t)(last ? count - from : (int)AT_ONCE) * sizeof *held;
        send_message(m, held + from);
        if (last) return;
    }
}

static bt_status worker_wait(void *const *held, int count, int wanted, double seconds) {
    uint64_t until = bti_until_ns(seconds);
    int missing = wanted;
    for (int i = 0; i < count && missing > 0; i++) missing -= bti_held_is_done(held[i]);
    if (missing <= 0) return BT_OK;
    bti_message m = {.count = (uint64_t)wanted, .number = runs, .begun_ns = until};
    if ((m.slot = bti_mail_wait_slot(bti_process_now.me)) == BTI_NO_REPLY)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "a task waits in at most %d threads at once", BTI_WAITS_AT_ONCE);
    send_wait(&m, held, count);
    if (!bti_mail_sleep(bti_process_now.me, m.slot, until)) {
        bti_message end = {.kind = BTI_ASKS_WAIT_END, .slot = m.slot};
        send_message(&end, NULL);
        bti_mail_sleep(bti_process_now.me, m.slot, 0);
    }
    return bti_mail_end(bti_process_now.me, m.slot).status;
}

/* --- calls ------------------------------------------------------------------------------------------------------------------- */

enum { MOST_ARGUMENTS = BTI_MESSAGE_MOST - sizeof(bti_message) - sizeof(bti_call_order) - 16 };

static void *worker_submit(const bti_engine_call *asked) {
    struct {
        bti_call_order order;
        char arguments[MOST_ARGUMENTS];
    } whole;
    bool makes_actor = asked->kind == BTI_CALL_ACTOR;
    bti_hold *result = NULL;
    if (asked->kind == BTI_CALL_METHOD && bti_held_status(asked->actor) != BT_OK) return NULL;
    if (bti_order_of(bti_process_now.state, asked, &whole.order, whole.arguments, sizeof whole.arguments) != BT_OK)
        return NULL;
    if (whole.order.bytes > sizeof whole.arguments &&
        !(whole.order.pack = pack_and_seal(&asked->arguments, whole.order.bytes)))
        return NULL;
    whole.order.call = runs;
    bti_message m = {.kind = BTI_SAYS_SUBMIT,
                     .slot = BTI_NO_REPLY,
                     .length = sizeof whole.order + (whole.order.pack ? 0 : whole.order.bytes)};
    if (makes_actor) return ask_scheduler(&m, &whole).value;
    if (!(result = hold_from_stock())) return NULL;
    m.hold = result;
    send_message(&m, &whole);
    return result;
}

static void *worker_result(void *held, int index) {
    bti_message m = {.kind = BTI_ASKS_RESULT, .hold = held, .count = (uint64_t)index};
    return ask_scheduler(&m, NULL).value;
}

static bt_status worker_cancel(void *held, unsigned how) {
    bti_message m = {.kind = BTI_ASKS_CANCEL, .hold = held, .count = how};
    return ask_scheduler(&m, NULL).status;
}

static void *worker_find_actor(const char *name) {
    bti_message m = {.kind = BTI_ASKS_ACTOR, .length = strlen(name) + 1};
    if (m.length > 64) return (void)bti_fail(BT_NOT_FOUND, "there is no actor \"%s\"", name), NULL;
    return ask_scheduler(&m, name).value;
}

static bt_status worker_kill_actor(void *held) {
    bti_message m = {.kind = BTI_ASKS_KILL, .hold = held};
    return ask_scheduler(&m, NULL).status;
}

static void *worker_group(const bt_task_options *bundles, int count) {
    bti_supply supplies[BTI_MOST_BUNDLES] = {0};
    bti_amounts amounts[BTI_MOST_BUNDLES];
    if (bti_group_read(bti_process_now.state, bundles, count, supplies) != BT_OK) return NULL;
    for (int i = 0; i < count; i++) amounts[i] = supplies[i].total;
    bti_message m = {.kind = BTI_ASKS_GROUP, .count = (uint64_t)count, .length = (uint64_t)count * sizeof *amounts};
    return ask_scheduler(&m, amounts).value;
}

/* --- the rest ---------------------------------------------------------------------------------------------------------------- */

static const bti_task_record *current; /* the call that this process runs; of an actor its making */
void bti_worker_set_task(const bti_task_record *task) { current = task; }

static int worker_gpus(int *numbers, int capacity) {
    const bti_state *state = bti_process_now.state;
    const bti_task_record *task = state ? current : NULL;
    int count = 0;
    for (int g = 0; task && g < state->gpu_count; g++) {
        if (!(task->gpus >> g & 1)) continue;
        if (numbers && count < capacity) numbers[count] = state->gpu_number[g];
        count++;
    }
    return count;
}

static double worker_resource(const char *name, bool only_free) {
    int r = bti_resource_of(bti_process_now.state, name);
    return r < 0 ? NAN : bti_machine_amount(bti_process_now.state, r, only_free);
}

static bt_array *worker_array_in(void *owner, bool is_argument, const void *data, uint64_t bytes, bt_dtype dtype,
                                 bt_shape shape) {
    static const bti_lender lender = {worker_hold_object, worker_release_hold};
    return bti_array_lend(&lender, owner, is_argument, data, bytes, dtype, shape);
}

static bt_status worker_start(const bt_runtime_options *options) {
    (void)options;
    return bti_fail(BT_FAILED_PRECONDITION, "bt_runtime_init: this is a worker of a runtime");
}

static bt_status worker_stop(void) {
    return bti_fail(BT_FAILED_PRECONDITION, "bt_runtime_shutdown: a worker cannot end the runtime; the program does");
}

static void worker_close(void) {}

static char *worker_view(const char *what) {
    int32_t program = bti_process_now.state->program->pid;
    char *text = bti_peer_text(program, what);
    if (!text) (void)bti_fail(BT_DEADLINE_EXCEEDED, "process %d does not answer", (int)program);
    return text;
}

const bti_engine bti_engine_worker = {
    .name = "worker",
    .start = worker_start,
    .stop = worker_stop,
    .close = worker_close,
    .submit = worker_submit,
    .put = worker_put,
    .result = worker_result,
    .read = worker_read,
    .unpin = worker_release,
    .wait = worker_wait,
    .is_done = bti_held_is_done,
    .failure = bti_held_failure,
    .cancel = worker_cancel,
    .release = worker_release,
    .actor_status = bti_held_status,
    .actor_find = worker_find_actor,
    .actor_kill = worker_kill_actor,
    .group = worker_group,
    .resource = worker_resource,
    .gpus = worker_gpus,
    .id = bti_held_id,
    .hold = worker_hold,
    .array_in = worker_array_in,
    .view = worker_view,
};
