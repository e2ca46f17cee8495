#include "task/mailbox.h"

#include <stdio.h>

#include "task/process.h"
#include "base/lock.h"

static uint32_t client_index(const bti_state *state, const bti_client *client) {
    const bti_records *clients = &state->arena->records[BTI_CLIENTS];
    return (uint32_t)(((const char *)client - clients->first) / (ptrdiff_t)clients->bytes);
}

/* --- in a worker: up -------------------------------------------------------------------------------------------------- */

static bti_lock sending = BTI_LOCK_INIT(task_mail); /* protects `written` and the ring of messages up */

static uint32_t unread_bytes(const bti_mailbox *mail) { return atomic_load(&mail->written) - atomic_load(&mail->read); }

/* Enough calls after that one are given and not claimed: a scheduler need not hurry. */
static bool has_calls_ahead(const bti_mailbox *mail, uint32_t number) {
    int ahead = 0;
    uint32_t end = atomic_load(&mail->bell);
    for (int i = 0; i < BTI_AHEAD && ++number != end; i++)
        ahead += (atomic_load(&mail->tag[number % BTI_GIVEN_SLOTS]) & 3) == BTI_GIVEN;
    return ahead > BTI_AHEAD / 4;
}

/* Does a thread or task wait for the result of the call by now? One that begins to wait later reads all mailboxes first. */
static bool is_awaited(const bti_object *result) {
    bti_fence();
    if (!result || !result->results) return !result || result->waits || result->links;
    for (uint32_t i = 0; i < result->results->count; i++) {
        const bti_object *one = result->results->of[i];
        if (one && (one->waits || one->links)) return true;
    }
    return false;
}

static bool need_not_ring(const bti_mailbox *mail, const bti_message *message, const bti_object *result) {
    if (!message || unread_bytes(mail) >= BTI_UP_BYTES / 2) return false;
    if (message->kind == BTI_SAYS_RELEASE || message->kind == BTI_SAYS_PUT) return true;
    return message->kind == BTI_SAYS_DONE && has_calls_ahead(mail, message->number) && !is_awaited(result);
}

/* Calls a scheduler: a thread of the program that reads mailboxes, else the nest. */
static void ring_bell(bti_state *state, const bti_client *me, const bti_message *message, const bti_object *result) {
    uint32_t index = client_index(state, me);
    bti_bells *bells = state->bells;
    uint64_t bit = (uint64_t)1 << (index % 64), word = (uint64_t)1 << (index / 64 % 64);
    if (!(atomic_load(&bells->ready[index / 64]) & bit)) {
        atomic_fetch_or(&bells->ready[index / 64], bit);
        atomic_fetch_or(&bells->any[index / 64 / 64], word);
    }
    if (need_not_ring(me->mail, message, result)) return;
    if (atomic_load(state->listening) == BTI_PROGRAM_LISTENS) {
        atomic_fetch_add(&bells->program, 1);
        if (atomic_exchange(&bells->program_sleeps, 0)) bti_wake_now(&bells->program);
    } else if (!atomic_exchange(&bells->nest_rung, 1)) {
        bti_nest_call();
    }
}

static void wait_for_room(bti_state *state, bti_client *me, uint32_t bytes) {
    bti_mailbox *mail = me->mail;
    while (BTI_UP_BYTES - unread_bytes(mail) < bytes) {
        atomic_store(&mail->wants_room, 1);
        uint32_t seen = atomic_load(&mail->read);
        if (BTI_UP_BYTES - unread_bytes(mail) >= bytes) break;
        ring_bell(state, me, NULL, NULL);
        bti_sleep_on(&mail->read, seen, bti_now_ns() + 100000000);
    }
}

void bti_mail_send(bti_state *state, bti_client *me, const bti_message *head, const void *bytes,
                   const bti_object *result) {
    bti_mailbox *mail = me->mail;
    bti_message whole = *head;
    whole.bytes = (uint32_t)((sizeof whole + whole.length + 15) / 16 * 16);
    bti_lock_take(&sending);
    uint32_t at = atomic_load(&mail->written) % BTI_UP_BYTES, rest = BTI_UP_BYTES - at;
    uint32_t skipped = rest < whole.bytes ? rest : 0;
    wait_for_room(state, me, whole.bytes + skipped);
    if (skipped) {
        memset(mail->up + at, 0, sizeof(uint32_t));
        atomic_fetch_add(&mail->written, skipped);
        at = 0;
    }
    memcpy(mail->up + at, &whole, sizeof whole);
    if (whole.length) memcpy(mail->up + at + sizeof whole, bytes, whole.length);
    atomic_fetch_add(&mail->written, whole.bytes);
    bti_lock_give(&sending);
    ring_bell(state, me, &whole, result);
}

/* --- in a worker: replies ---------------------------------------------------------------------------------------------- */

static bti_lock slots_lock = BTI_LOCK_INIT(task_reply_slots); /* protects `taken`, `taken_count` and `begun` */
static pthread_cond_t slot_free = PTHREAD_COND_INITIALIZER;
static bool taken[BTI_REPLIES];
static int taken_count;
static unsigned begun[BTI_REPLIES]; /* the word of each slot when it was taken */

/* With slots_lock; a slot is free. */
static uint16_t take_free_slot(const bti_mailbox *mail) {
    int slot = 0;
    while (taken[slot]) slot++;
    taken[slot] = true;
    taken_count++;
    begun[slot] = atomic_load(&mail->replies[slot].word);
    return (uint16_t)slot;
}

static uint16_t take_reply_slot(const bti_mailbox *mail) {
    bti_lock_take(&slots_lock);
    while (taken_count == BTI_REPLIES) bti_lock_wait(&slots_lock, &slot_free);
    uint16_t slot = take_free_slot(mail);
    bti_lock_give(&slots_lock);
    return slot;
}

uint16_t bti_mail_wait_slot(bti_client *me) {
    bti_lock_take(&slots_lock);
    uint16_t slot = taken_count < BTI_WAITS_AT_ONCE ? take_free_slot(me->mail) : BTI_NO_REPLY;
    bti_lock_give(&slots_lock);
    return slot;
}

bool bti_mail_sleep(bti_client *me, uint16_t slot, uint64_t until_ns) {
    bti_reply *reply = &me->mail->replies[slot];
    while (atomic_load(&reply->word) == begun[slot]) {
        atomic_store(&reply->sleeping, 1);
        if (!bti_sleep_on(&reply->word, begun[slot], until_ns)) return false;
    }
    return true;
}

bti_answer bti_mail_end(bti_client *me, uint16_t slot) {
    const bti_reply *reply = &me->mail->replies[slot];
    bti_answer answer = {(bt_status)reply->status, reply->value};
    if (answer.status != BT_OK) (void)bti_fail(answer.status, "%.*s", BTI_REPLY_TEXT - 1, reply->text);
    bti_lock_take(&slots_lock);
    taken[slot] = false;
    taken_count--;
    pthread_cond_signal(&slot_free);
    bti_lock_give(&slots_lock);
    return answer;
}

bti_answer bti_mail_ask(bti_state *state, bti_client *me, bti_message *head, const void *bytes) {
    head->slot = take_reply_slot(me->mail);
    bti_mail_send(state, me, head, bytes, NULL);
    bti_mail_sleep(me, head->slot, 0);
    return bti_mail_end(me, head->slot);
}

/* --- in a scheduler ---------------------------------------------------------------------------------------------------- */

bool bti_has_messages(const bti_state *state) {
    for (int i = 0; i < BTI_MOST_CLIENTS / 64 / 64; i++)
        if (atomic_load(&state->bells->any[i])) return true;
    return false;
}

const bti_message *bti_mail_next(bti_state *state, bti_client *client, bool *sane) {
    static _Alignas(16) char copy[BTI_MESSAGE_MOST];
    bti_mailbox *mail = client->mail;
    bti_message *message = (bti_message *)(void *)copy;
    for (;;) {
        uint32_t there = atomic_load(&mail->written) - client->read, at = client->read % BTI_UP_BYTES;
        *sane = there <= BTI_UP_BYTES && there % 16 == 0;
        if (!there || !*sane) return NULL;
        memcpy(copy, mail->up + at, sizeof *message);
        uint32_t bytes = message->bytes ? message->bytes : BTI_UP_BYTES - at;
        *sane = bytes <= there && bytes <= BTI_UP_BYTES - at && bytes % 16 == 0 &&
                (!message->bytes ||
                 (bytes >= sizeof *message && bytes <= BTI_MESSAGE_MOST && message->length <= bytes - sizeof *message));
        if (!*sane) return NULL;
        if (message->bytes) memcpy(copy + sizeof *message, mail->up + at + sizeof *message, bytes - sizeof *message);
        BTI_SET(state->arena, client->read, client->read + bytes);
        atomic_store(&mail->read, client->read);
        if (!message->bytes) continue;
        message->bytes = bytes;
        return message;
    }
}

void bti_mail_reply(bti_client *client, uint16_t slot, bt_status status, void *value, const char *text,
                    bti_wakes *wakes) {
    if (slot >= BTI_REPLIES) return;
    bti_reply *reply = &client->mail->replies[slot];
    reply->status = (uint32_t)status;
    reply->value = value;
    snprintf(reply->text, sizeof reply->text, "%s", text ? text : "");
    atomic_fetch_add(&reply->word, 1);
    if (atomic_exchange(&reply->sleeping, 0)) bti_wake_word_later(wakes, &reply->word);
}

void bti_mail_open(bti_state *state, bti_client *client) {
    client->mail = state->mailboxes + client_index(state, client);
    bti_mailbox *mail = client->mail;
    atomic_store(&mail->bell, 0);
    for (int i = 0; i < BTI_GIVEN_SLOTS; i++) {
        atomic_store(&mail->tag[i], 0);
        mail->task[i] = NULL;
        mail->thread[i] = 0;
    }
    atomic_store(&mail->errors_mark, 0);
    atomic_store(&mail->sleeping, 0);
    atomic_store(&mail->written, 0);
    atomic_store(&mail->read, 0);
    atomic_store(&mail->wants_room, 0);
    atomic_store(&mail->stocked, 0);
}

/* --- how far a worker is with its calls ---------------------------------------------------------------------------- */

static bool has_given_tag(const bti_task_record *task, bti_given_state as) {
    return atomic_load(&task->client->mail->tag[task->number % BTI_GIVEN_SLOTS]) == bti_given_tag(task->number, as);
}

bool bti_given_is_waiting(const bti_task_record *task) { return has_given_tag(task, BTI_GIVEN); }
bool bti_given_is_taken(const bti_task_record *task) { return has_given_tag(task, BTI_TAKEN); }

bool bti_task_runs(const bti_task_record *task) {
    const bti_client *worker = task->client;
    return task->state == BTI_TASK_GIVEN && worker && (worker->at_once > 1 || worker->task == task) &&
           bti_given_is_taken(task);
}

uint64_t bti_task_begun_ns(const bti_task_record *task) {
    return bti_task_runs(task) ? task->client->mail->begun_ns[task->number % BTI_GIVEN_SLOTS] : task->begun_ns;
}

uint8_t bti_task_thread(const bti_task_record *task) {
    return bti_task_runs(task) ? task->client->mail->thread[task->number % BTI_GIVEN_SLOTS] % (BTI_MOST_AT_ONCE + 1)
                               : 0;
}
