#include "task/loan.h"

#include <unistd.h>

#include "array/handle.h"
#include "base/lock.h"
#include "base/alloc.h"
#include "task/object.h"
#include "task/process.h"
#include "task/tasks.h"

enum { LEAST_BYTES = 1 << 14 }; /* copying less is faster than lending it */

typedef struct loan {
    const bti_lender *lender;
    bti_state *state;
    bti_hold *hold; /* NULL: an argument of the call that runs keeps it (in `borrowed`) */
    bti_object *owner;
    uint64_t runtime; /* as in a reference */
    pid_t
        program; /* the program whose mapping must stay; 0 in a worker, which ends with its mapping. Processes that the program forks differ from it */
    struct loan *next, *before;
} loan;

static bti_lock loans_lock = BTI_LOCK_INIT(task_loans); /* protects `borrowed`; nothing is called under it */
static loan *borrowed;

static void list_loan(loan *l) {
    bti_lock_take(&loans_lock);
    l->next = borrowed;
    if (borrowed) borrowed->before = l;
    borrowed = l;
    bti_lock_give(&loans_lock);
}

static void unlist_loan(loan *l) {
    if (l->next) l->next->before = l->before;
    if (l->before)
        l->before->next = l->next;
    else if (borrowed == l)
        borrowed = l->next;
    l->next = l->before = NULL;
}

static void end_loan(void *lent) {
    loan *l = lent;
    bti_lock_take(&loans_lock);
    unlist_loan(l);
    bti_hold *hold = l->hold;
    bti_lock_give(&loans_lock);
    if (hold && bti_process_now.state == l->state && bti_process_now.runtime == l->runtime) l->lender->release(hold);
    if (l->program == getpid()) bti_state_release(l->state);
    bti_free(l);
}

/* A loan in an argument of this call; NULL: there is none. With the lock. */
static loan *find_loan_of_call(const bti_task_record *task) {
    for (loan *l = borrowed; l; l = l->next) {
        bti_objects_at at = {.task = task};
        for (const bti_object *object; (object = bti_task_next_stored(&at)) != NULL;)
            if (object == l->owner) return l;
    }
    return NULL;
}

/* Whether it is still the same loan: another may have got its memory meanwhile. With the lock. */
static bool is_same_loan(const loan *one, const bti_object *owner) {
    const loan *l = borrowed;
    while (l && l != one) l = l->next;
    return l && l->owner == owner;
}

void bti_loans_keep(const bti_task_record *task) {
    for (;;) {
        bti_lock_take(&loans_lock);
        loan *l = find_loan_of_call(task);
        bti_object *owner = l ? l->owner : NULL;
        const bti_lender *lender = l ? l->lender : NULL;
        bti_lock_give(&loans_lock);
        if (!owner) return;
        bti_hold *hold = lender->hold(owner, true);
        bti_lock_take(&loans_lock);
        bool still = is_same_loan(l, owner);
        if (still) unlist_loan(l), l->hold = hold;
        bti_lock_give(&loans_lock);
        if (!still && hold) lender->release(hold);
    }
}

bt_array *bti_array_lend(const bti_lender *lender, void *owner, bool is_argument, const void *data, uint64_t bytes,
                         bt_dtype dtype, bt_shape shape) {
    bti_state *state = bti_process_now.state;
    if (!owner || bytes < LEAST_BYTES) return bt_from(data, dtype, shape);
    loan *l = bti_calloc(1, sizeof *l);
    bti_hold *hold = l && !is_argument ? lender->hold(owner, true) : NULL;
    if (!l || (!hold && !is_argument)) return bti_free(l), bt_from(data, dtype, shape);
    *l = (loan){lender, state, hold, owner, bti_process_now.runtime, bti_process_now.me->is_program ? getpid() : 0,
                NULL,   NULL};
    if (l->program) atomic_fetch_add(&state->users, 1);
    if (is_argument) list_loan(l);
    return bt_from_lent(data, dtype, shape, end_loan, l);
}
