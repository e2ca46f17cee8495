/* Pools of actors: which actors are busy, and the calls that wait for one. Made of public functions alone. */

#include "array/handle.h"
#include "base/lock.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/vec.h"
#include "task/handles.h"
#include "task/wake.h"

/* A call whose result was not taken yet. In a list in the order of submission. */
typedef struct pool_call {
    struct pool_call *next, *before;
    const bt_remote_entry *entry;
    bt_item_value *arguments; /* while it waits: owned, large values in the store */
    int count;
    bt_ref *result; /* owned; NULL: it waits */
} pool_call;

typedef struct member {
    bt_actor *actor;    /* owned */
    pool_call *running; /* NULL: it is idle. Never a call whose result was taken */
} member;

struct bt_pool {
    bti_owned head;
    bti_lock lock; /* protects all that follows; calls of the runtime are made under it, waits are not */
    bool has_lock;
    BTI_VEC(member) members;
    pool_call *first, *last;
    pool_call *waiting; /* the first one without a result; those after it have none either */
    int waiting_count;
};

/* --- calls ------------------------------------------------------------------------------------------------------------- */

static void free_arguments(pool_call *c) {
    for (int i = 0; i < c->count; i++) {
        if (c->arguments[i].type == BT_REFERENCE) bt_ref_release(c->arguments[i].as.ref);
        if (c->arguments[i].type == BT_ACTOR_VALUE) bt_actor_release(c->arguments[i].as.actor);
    }
    bti_free(c->arguments);
    c->arguments = NULL;
    c->count = 0;
}

static void free_call(pool_call *c) {
    free_arguments(c);
    bt_ref_release(c->result);
    bti_free(c);
}

/* A copy of the value that lasts beyond the call that it was given to. */
static bt_status keep_value(const bt_item_value *value, bt_item_value *kept) {
    *kept = *value;
    if (value->type == BT_REFERENCE) kept->as.ref = bt_ref_retain(value->as.ref);
    if (value->type == BT_ACTOR_VALUE) kept->as.actor = bt_actor_retain(value->as.actor);
    if (value->type != BT_TEXT_VALUE && value->type != BT_BYTES && value->type != BT_ARRAY_VALUE &&
        value->type != BT_LIST_VALUE)
        return BT_OK;
    bt_ref *stored = bti_put(value); /* of the caller's scope */
    const bti_owned *head = (const void *)stored;
    if (head->error) return kept->type = BT_NOTHING, bti_fail_with(head->error);
    *kept = (bt_item_value){.type = BT_REFERENCE, .as.ref = bt_ref_retain(stored)};
    return BT_OK;
}

static bt_status keep_arguments(pool_call *c, const bt_item_value *arguments, int count) {
    if (!(c->arguments = bti_calloc((size_t)count + 1, sizeof *arguments))) return bti_no_memory();
    for (; c->count < count; c->count++) {
        bt_status status = keep_value(&arguments[c->count], &c->arguments[c->count]);
        if (status != BT_OK) return status;
    }
    return BT_OK;
}

/* Poisoned when it cannot be made. */
static bt_ref *begin_call(bt_actor *actor, const bt_remote_entry *entry, const bt_item_value *arguments, int count) {
    bt_ref *result = NULL;
    BT_SCOPE
        result = bt_ref_retain(bti_method(actor, entry, NULL, arguments, count));
    return result;
}

static void append_call(bt_pool *pool, pool_call *c) {
    c->before = pool->last;
    if (pool->last)
        pool->last->next = c;
    else
        pool->first = c;
    pool->last = c;
    if (c->result) return;
    if (!pool->waiting) pool->waiting = c;
    pool->waiting_count++;
}

static void unlink_call(bt_pool *pool, pool_call *c) {
    if (c->next)
        c->next->before = c->before;
    else
        pool->last = c->before;
    if (c->before)
        c->before->next = c->next;
    else
        pool->first = c->next;
}

/* --- members ----------------------------------------------------------------------------------------------------------- */

static bool result_is_done(bt_ref *result) { return bt_wait_refs(&result, 1, 0, (bool[1]){false}, 0) != 0; }

static bool has_ended(bt_actor *actor) {
    bti_error *before = bti_error_last();
    bool is = bt_actor_status(actor) != BT_OK;
    return bti_error_put_back(before), is;
}

static void remove_member(bt_pool *pool, size_t m) {
    bt_actor_release(pool->members.items[m].actor);
    pool->members.items[m] = pool->members.items[--pool->members.count];
}

/* The last actor stays, so that calls fail with the cause of its end. */
static void drop_ended_members(bt_pool *pool) {
    for (size_t m = pool->members.count; m-- > 0 && pool->members.count > 1;)
        if (!pool->members.items[m].running && has_ended(pool->members.items[m].actor)) remove_member(pool, m);
}

/* Members whose call is done are idle; idle ones begin calls that wait. */
static void advance_pool(bt_pool *pool) {
    for (size_t m = 0; m < pool->members.count; m++) {
        member *at = &pool->members.items[m];
        if (at->running && result_is_done(at->running->result)) at->running = NULL;
    }
    drop_ended_members(pool);
    for (size_t m = 0; m < pool->members.count && pool->waiting; m++) {
        member *at = &pool->members.items[m];
        if (at->running) continue;
        pool_call *c = at->running = pool->waiting;
        c->result = begin_call(at->actor, c->entry, c->arguments, c->count);
        free_arguments(c);
        pool->waiting = c->next;
        pool->waiting_count--;
    }
}

static int count_idle(const bt_pool *pool) {
    int idle = 0;
    for (size_t m = 0; m < pool->members.count; m++) idle += !pool->members.items[m].running;
    return idle;
}

/* --- handles ----------------------------------------------------------------------------------------------------------- */

static void clear_pool(void *object) {
    bt_pool *pool = object;
    while (pool->first) {
        pool_call *c = pool->first;
        pool->first = c->next;
        free_call(c);
    }
    for (size_t m = 0; m < pool->members.count; m++) bt_actor_release(pool->members.items[m].actor);
    bti_vec_free(&pool->members);
    if (pool->has_lock) bti_lock_destroy(&pool->lock);
    pool->has_lock = false;
}

static bt_pool no_pool = {.head = BTI_NO_MEMORY};
static const bti_handle_class pool_class = {BTI_OWNED_POOL, sizeof(bt_pool), clear_pool, &no_pool};

bt_pool *bt_pool_retain(bt_pool *pool) { return bti_handle_retain(&pool_class, pool, "bt_pool_retain"); }
void bt_pool_release(bt_pool *pool) { bti_handle_release(&pool_class, pool, "bt_pool_release"); }

/* Locked until the end of the block, and kept as long; `is` NULL: the cause is in the error record. */
typedef struct use {
    bt_pool *is;
} use;

static use begin_use(bt_pool *pool, const char *name) {
    if (bti_handle_check(BTI_OWNED_POOL, pool, name) != BT_OK) return (use){NULL};
    if (!bti_owned_retain(&pool->head)) return (void)!bti_handle_check(BTI_OWNED_POOL, pool, name), (use){NULL};
    bti_lock_take(&pool->lock);
    return (use){pool};
}

static void end_use(use *of) {
    if (!of->is) return;
    bti_lock_give(&of->is->lock);
    bti_handle_release(&pool_class, of->is, "bt_pool_release");
}
#define USE(u, pool, name) \
    BTI_CALL(name);        \
    use u __attribute__((cleanup(end_use), unused)) = begin_use(pool, name)

static bt_status add_actor(bt_pool *pool, bt_actor *actor) {
    BTI_TRY(bti_handle_check(BTI_OWNED_ACTOR, actor, bti_call_name()));
    for (size_t m = 0; m < pool->members.count; m++)
        if (pool->members.items[m].actor == actor)
            return bti_fail(BT_ALREADY_EXISTS, "the pool has this actor already");
    if (!bti_vec_push(&pool->members, ((member){actor, NULL}))) return bti_no_memory();
    bt_actor_retain(actor);
    return BT_OK;
}

bt_pool *bt_pool_new(bt_actor *const *actors, int count) {
    BTI_CALL("bt_pool_new");
    bt_pool *pool = NULL;
    bt_status status = bti_check_list(actors, count, "actors");
    if (status == BT_OK && !(pool = bti_owned_new(BTI_OWNED_POOL, sizeof *pool))) status = bti_no_memory();
    if (pool) {
        bti_lock_init(&pool->lock, BTI_LOCK_task_pool);
        pool->has_lock = true;
    }
    for (int i = 0; i < count && status == BT_OK; i++) status = add_actor(pool, actors[i]);
    if (status == BT_OK) return bti_scope_own(&pool_class, pool);
    bti_error *why = bti_error_last();
    bt_pool_release(pool);
    bti_error_put_back(why);
    return bti_scope_own(&pool_class, NULL);
}

/* --- calls of users ---------------------------------------------------------------------------------------------------- */

static bt_status submit_to_pool(bt_pool *pool, pool_call *c, const bt_item_value *arguments, int count) {
    advance_pool(pool);
    for (size_t m = 0; m < pool->members.count && !c->result; m++) {
        member *at = &pool->members.items[m];
        if (at->running) continue;
        c->result = begin_call(at->actor, c->entry, arguments, count);
        at->running = c;
    }
    bt_status status = BT_OK;
    if (!c->result)
        BT_SCOPE
            status = keep_arguments(c, arguments, count);
    if (status == BT_OK) append_call(pool, c);
    return status;
}

bt_status bti_pool_submit(bt_pool *pool, const bt_remote_entry *entry, const bt_item_value *arguments, int count) {
    USE(u, pool, "bt_pool_submit");
    if (!u.is) return bt_error_status();
    BTI_TRY(bti_check_values(entry ? entry->name : "bt_pool_submit", arguments, count));
    pool_call *c = bti_calloc(1, sizeof *c);
    if (!c) return bti_no_memory();
    c->entry = entry;
    bt_status status = submit_to_pool(u.is, c, arguments, count);
    if (status != BT_OK) free_call(c);
    return status;
}

/* The call whose result is returned next, if it is done. */
static pool_call *done_call(const bt_pool *pool, bt_pool_order order) {
    for (pool_call *c = pool->first; c && c->result; c = c->next) {
        if (result_is_done(c->result)) return c;
        if (order == BT_IN_ORDER) break;
    }
    return NULL;
}

/* Waits, without the lock, until a member is done. False: the time has come or the wait has failed; the cause is in the error record. */
static bool wait_for_any(bt_pool *pool, uint64_t until_ns) {
    BTI_VEC(bt_ref *) running = {0};
    for (size_t m = 0; m < pool->members.count; m++) {
        pool_call *c = pool->members.items[m].running;
        if (c && bti_vec_push(&running, c->result)) bt_ref_retain(c->result);
    }
    uint64_t now = bti_now_ns();
    double left = !until_ns ? -1 : until_ns > now ? (double)(until_ns - now) * 1e-9 : 0;
    bti_lock_give(&pool->lock);
    int done = bt_wait_refs(running.items, (int)running.count, running.count > 0, NULL, left);
    bti_error *why = done < 0 ? bti_error_last() : NULL;
    for (size_t i = 0; i < running.count; i++) bt_ref_release(running.items[i]);
    bti_vec_free(&running);
    if (why) bti_error_put_back(why);
    if (!done) (void)bti_fail(BT_DEADLINE_EXCEEDED, "no result within the time");
    bti_lock_take(&pool->lock);
    return done > 0;
}

bt_ref *(bt_pool_next)(bt_pool *pool, bt_pool_order order, double seconds) {
    USE(u, pool, "bt_pool_next");
    if (!u.is) return bti_ref_give(NULL);
    if (order != BT_IN_ORDER && order != BT_AS_COMPLETED)
        return (void)bti_fail(BT_INVALID_ARGUMENT, "%d is no order: BT_IN_ORDER or BT_AS_COMPLETED", (int)order),
               bti_ref_give(NULL);
    uint64_t until_ns = bti_until_ns(seconds);
    for (;;) {
        advance_pool(pool);
        pool_call *c = done_call(pool, order);
        if (c) {
            bt_ref *result = c->result;
            for (size_t m = 0; m < pool->members.count; m++)
                if (pool->members.items[m].running == c) pool->members.items[m].running = NULL;
            unlink_call(pool, c);
            c->result = NULL;
            free_call(c);
            advance_pool(pool);
            return bti_ref_give(result);
        }
        if (!pool->first) return (void)bti_fail(BT_OUT_OF_RANGE, "the pool has no results left"), bti_ref_give(NULL);
        if (!pool->members.count)
            return (void)bti_fail(BT_FAILED_PRECONDITION, "calls wait, and the pool has no actor: bt_pool_push"),
                   bti_ref_give(NULL);
        if (!wait_for_any(pool, until_ns)) return bti_ref_give(NULL);
    }
}

bool bt_pool_has_next(bt_pool *pool) {
    USE(u, pool, "bt_pool_has_next");
    if (u.is) advance_pool(pool);
    return u.is && pool->first;
}

int bt_pool_idle(bt_pool *pool) {
    USE(u, pool, "bt_pool_idle");
    if (!u.is) return 0;
    advance_pool(pool);
    return count_idle(pool);
}

bt_status(bt_pool_push)(bt_pool *pool, bt_actor *actor) {
    USE(u, pool, "bt_pool_push");
    if (!u.is) return bt_error_status();
    BTI_TRY(add_actor(pool, actor));
    advance_pool(pool);
    return BT_OK;
}

bt_actor *(bt_pool_pop_idle)(bt_pool *pool) {
    USE(u, pool, "bt_pool_pop_idle");
    if (!u.is) return NULL;
    advance_pool(pool);
    for (size_t m = 0; m < pool->members.count; m++) {
        if (pool->members.items[m].running) continue;
        bt_actor *actor = bt_actor_retain(pool->members.items[m].actor);
        return remove_member(pool, m), actor;
    }
    return NULL;
}
