/* What a worker and the schedulers (the program and the nest) say to each other. A worker maps the records of the runtime read-only and
 * never takes their lock; it writes only here, in a mailbox of its own, and in room for a value that it was granted.
 *
 *     down     calls that it is given, several ahead, in the order of their numbers: it claims each (GIVEN -> TAKEN), a scheduler may revoke one that is
 *              not claimed yet. Numbers whose slot is still in use are skipped
 *     up       messages: results, and requests
 *     replies  answers to requests that wait for one, a slot per waiting thread
 *     stock    references that the worker may use for new calls and values without asking
 *
 * A worker may write anything into its mailbox, by mistake: schedulers keep what they rely on in its bti_client, copy a message before they
 * read it, and check each pointer in it. A worker whose messages make no sense is ended.
 */
#ifndef BTI_TASK_MAILBOX_H
#define BTI_TASK_MAILBOX_H

#include "task/state.h"
#include "task/wake.h"

enum {
    BTI_UP_BYTES = 16 << 10,
    BTI_MESSAGE_MOST = 8 << 10, /* bytes of one, with its head */
    BTI_REPLIES = 256,
    BTI_WAITS_AT_ONCE =
        240, /* threads of a worker that wait for objects: the other slots are for requests that end soon */
    BTI_STOCK = 32,
    BTI_REPLY_TEXT = 1000,
    BTI_NO_REPLY = 0xffff
};

/* The state of a call in `down`, beside its number (tag = number << 2 | state). */
typedef enum bti_given_state { BTI_GIVEN_NOT, BTI_GIVEN, BTI_TAKEN, BTI_REVOKED } bti_given_state;
static inline uint32_t bti_given_tag(uint32_t number, bti_given_state as) { return number << 2 | (uint32_t)as; }

typedef enum bti_message_kind {
    BTI_SAYS_DONE =
        1, /* a call has ended: number, status; bytes: the result or the text of the failure. Of several results: for each 8 bytes that
                          say how many follow (0: they are in its room), and those */
    BTI_SAYS_RELEASE,  /* hold */
    BTI_SAYS_SUBMIT,   /* bytes: a bti_call_order and its arguments; hold: the result */
    BTI_SAYS_PUT,      /* hold: pending; bytes: its value */
    BTI_SAYS_MADE,     /* hold: its room is filled: it is ready */
    BTI_SAYS_YIELD,    /* hold: the next item of call `number`, which is there; it is given back */
    BTI_SAYS_KEEP,     /* bytes: ids that the result of call `number` refers to */
    BTI_ASKS_STOCK,    /* reply: when it is filled */
    BTI_ASKS_ROOM,     /* hold, or NULL: result `status` of call `number`; count: bytes. Reply: the room */
    BTI_ASKS_PIN,      /* hold. Reply: a hold that keeps its value in memory */
    BTI_ASKS_PIN_TASK, /* number: the arguments of that call stay in memory. Reply */
    /* bytes: holds; status: how many there are, with those of BTI_ASKS_WAIT_MORE; count: how many are wanted; number: of the call that waits;
     * begun_ns: when it ends by itself, 0: never. Reply: when they are done */
    BTI_ASKS_WAIT,
    BTI_ASKS_WAIT_MORE, /* bytes: more holds of a wait that is sent after this */
    BTI_ASKS_WAIT_END,  /* the wait of that reply slot ends without being answered. Reply */
    BTI_ASKS_CANCEL,    /* hold; count: bti_cancel_how. Reply */
    BTI_ASKS_HOLD,      /* bytes: the id of an object that a value of its names. Reply: a hold of it */
    BTI_ASKS_RESULT,    /* hold; count: which result. Reply: a hold of it */
    BTI_ASKS_ACTOR,     /* bytes: a name. Reply: a hold */
    BTI_ASKS_KILL,      /* hold: of an actor. Reply */
    BTI_ASKS_GROUP      /* bytes: supplies of bundles; count: how many. Reply: a hold */
} bti_message_kind;

typedef struct bti_message {
    uint32_t bytes; /* of all of it, a multiple of 16; 0: the rest of the ring is skipped */
    uint16_t kind;
    uint16_t slot;           /* of the reply; BTI_NO_REPLY */
    uint32_t number, status; /* number: of a call of the sender, or BTI_NO_CALL */
    uint64_t count;
    bti_hold *hold;
    uint64_t begun_ns;
    uint64_t length; /* of what follows */
} bti_message;

typedef struct bti_reply {
    atomic_uint word;     /* counts up with each answer */
    atomic_uint sleeping; /* the worker waits in the kernel */
    uint32_t status;
    void *value;
    char text[BTI_REPLY_TEXT]; /* of a failure */
} bti_reply;

struct bti_mailbox {
    /* the number after the last one that was given; a thread of the worker sleeps on it when `down` has nothing */
    atomic_uint bell, sleeping;
    atomic_uint tag[BTI_GIVEN_SLOTS];
    bti_task_record *task[BTI_GIVEN_SLOTS]; /* NULL: the worker is to end */
    uint64_t begun_ns[BTI_GIVEN_SLOTS];
    uint8_t thread[BTI_GIVEN_SLOTS]; /* that runs it: 0: the first one of the process */
    atomic_ullong errors_mark;       /* bytes of standard error that were written before the call that it runs */
    /* positions count bytes without end; the schedulers' own copy of `read` is in the client */
    _Alignas(64) atomic_uint written;
    atomic_uint read, wants_room;
    _Alignas(64) atomic_uint stocked; /* references put into `stock` so far */
    bti_hold *stock[BTI_STOCK];
    _Alignas(4096) char up[BTI_UP_BYTES];
    _Alignas(4096) bti_reply replies[BTI_REPLIES];
};

/* Written by all workers. Wrong values do no harm: lost bits are found when all mailboxes are read, once a second. */
struct bti_bells {
    atomic_uint program_sleeps;
    atomic_uint program;                                        /* a thread of the program sleeps on it */
    atomic_uint nest_rung;                                      /* the nest was signalled, and has not looked yet */
    _Alignas(64) atomic_ullong any[BTI_MOST_CLIENTS / 64 / 64]; /* bits: words of `ready` that are not 0 */
    atomic_ullong ready[BTI_MOST_CLIENTS / 64];                 /* bits: mailboxes with messages */
};

/* Writes of this thread are visible before its next reads. */
static inline void bti_fence(void) {
#ifndef __SANITIZE_THREAD__ /* which knows no fences, and does not need them */
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* --- in a worker ------------------------------------------------------------------------------------------------------- */

/* Sends a message up, with `length` bytes after its head; waits while the ring is full. Any thread. `result`: of the call that has ended; else NULL. */
void bti_mail_send(bti_state *state, bti_client *me, const bti_message *head, const void *bytes,
                   const bti_object *result);
/* An answer; a failure is in the error record too. */
typedef struct bti_answer {
    bt_status status;
    void *value;
} bti_answer;
/* Sends it and waits for the answer. */
bti_answer bti_mail_ask(bti_state *state, bti_client *me, bti_message *head, const void *bytes);
/* The same in steps, for a wait for objects: a slot for the message, BTI_NO_REPLY when too many threads wait; false when the time has come; takes the
 * answer, which has come, and gives the slot back. */
uint16_t bti_mail_wait_slot(bti_client *me);
bool bti_mail_sleep(bti_client *me, uint16_t slot, uint64_t until_ns);
bti_answer bti_mail_end(bti_client *me, uint16_t slot);

/* --- in a scheduler, with the lock --------------------------------------------------------------------------------------- */

/* Does a bell ring: has a mailbox messages? Also without the lock. */
bool bti_has_messages(const bti_state *state);
/* The next message of a client, copied; NULL: none. What it says of itself is checked: false in *sane otherwise. */
const bti_message *bti_mail_next(bti_state *state, bti_client *client, bool *sane);
static inline const char *bti_message_bytes(const bti_message *message) { return (const char *)(message + 1); }
/* Answers a request; `text`: of a failure, or NULL. */
void bti_mail_reply(bti_client *client, uint16_t slot, bt_status status, void *value, const char *text,
                    bti_wakes *wakes);
/* A mailbox for a new worker. */
void bti_mail_open(bti_state *state, bti_client *client);

/* --- how far a worker is with a call ------------------------------------------------------------------------------------ */

/* Whether the worker has claimed a call that it was given; whether it has not. Both are false when it has damaged its mailbox. */
bool bti_given_is_taken(const bti_task_record *task);
bool bti_given_is_waiting(const bti_task_record *task);
/* The worker runs it. */
bool bti_task_runs(const bti_task_record *task);
/* When it began; 0: it has not. */
uint64_t bti_task_begun_ns(const bti_task_record *task);
/* The thread of the worker that runs it; 0: the first one. */
uint8_t bti_task_thread(const bti_task_record *task);

#endif
