/* Versions of shared variables: what is set in a step, whether it succeeded, and what is read meanwhile. */
#include <pthread.h>
#include <string.h>

#include "array/build.h"
#include "array/eval.h"
#include "array/shared_parts.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/recycle.h"
#include "exec/exec.h"

#define STEPS_AHEAD 8 /* versions that may be unsettled before a set waits for the oldest */

typedef bti_set_step step;
typedef bti_version version;
typedef bti_shared_replica replica;

/* Recursive: a node that is let go of may be the last to know a function, and that a variable. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
BTI_RENEW_IN_CHILD_AS(lock, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP)
void bti_versions_lock(void) { pthread_mutex_lock(&lock); }
void bti_versions_unlock(void) { pthread_mutex_unlock(&lock); }

/* --- steps and versions; under the lock ------------------------------------------------------------------------------ */

static bti_outcome node_outcome(bti_node *node) {
    switch (atomic_load(&node->state)) {
    case BTI_FAILED: return BTI_BAD;
    case BTI_DONE:
        if (bti_buffer_error(node->buffer)) return BTI_BAD;
        if (!bti_buffer_done(node->buffer)) return BTI_UNKNOWN;
        return bti_buffer_error(node->buffer) ? BTI_BAD : BTI_GOOD;
    default: return BTI_UNKNOWN;
    }
}

/* Whether one of them could not even be planned, while others may be in flight. */
static bool is_refused(step *s) {
    bool pending = false;
    for (int i = s->good; i < s->count && !s->all_planned; i++) {
        int state = atomic_load(&s->nodes[i]->state);
        if (state == BTI_FAILED) return true;
        pending = pending || state != BTI_DONE;
    }
    s->all_planned = !pending;
    return false;
}

static bti_outcome step_outcome(step *s) {
    if (!s) return BTI_GOOD;
    if (s->outcome != BTI_UNKNOWN) return s->outcome;
    if (is_refused(s)) return s->outcome = BTI_BAD;
    bti_outcome next = BTI_GOOD;
    while (s->good < s->count && (next = node_outcome(s->nodes[s->good])) == BTI_GOOD) s->good++;
    return s->outcome = next;
}

static void step_release(step *s) {
    if (!s || --s->refs) return;
    for (int i = 0; i < s->count; i++) bti_node_release(s->nodes[i]);
    bti_recycled_free(s, sizeof *s + (size_t)s->room * sizeof *s->nodes);
}

void bti_version_drop(bti_version *v) {
    bti_node_release(v->node);
    bti_node_release(v->value);
    step_release(v->step);
}

/* Why a step failed behind everybody's back, the first time that anybody looks (retained); else NULL. */
static bti_error *tell(step *s) {
    bti_error *cause = NULL;
    for (int i = 0; i < s->count && !s->told && !cause; i++)
        if (atomic_load(&s->nodes[i]->state) == BTI_DONE) cause = bti_buffer_error(s->nodes[i]->buffer);
    s->told = true;
    return bti_error_retain(cause);
}

/* Takes failed versions off the top, and forgets those under the newest that succeeded. *lost: the cause, to be logged. */
static void settle(replica *r, bti_error **lost) {
    *lost = NULL;
    while (r->versions.count > 1 && step_outcome(r->versions.items[r->versions.count - 1].step) == BTI_BAD) {
        version *top = &r->versions.items[--r->versions.count];
        if (!*lost) *lost = tell(top->step);
        bti_version_drop(top);
    }
    size_t good = r->versions.count - 1;
    while (good > 0 && step_outcome(r->versions.items[good].step) != BTI_GOOD) good--;
    if (good == 0) return;
    for (size_t i = 0; i < good; i++) bti_version_drop(&r->versions.items[i]);
    memmove(r->versions.items, r->versions.items + good, (r->versions.count - good) * sizeof(version));
    r->versions.count -= good;
}

/* A step was taken back: the log says so now, the next set of the variable by its status. Not under the lock: a log's sink
 * may ask for variables. */
static void note_lost(bt_shared *shared, bti_error *cause) {
    if (!cause) return;
    bti_log("berth: variable %s%skeeps its value, the step that set it failed: %s", bt_shared_name(shared),
            *bt_shared_name(shared) ? " " : "", bti_error_message(cause));
    pthread_mutex_lock(&lock);
    bti_error *before = shared->lost;
    shared->lost = cause;
    pthread_mutex_unlock(&lock);
    bti_error_release(before);
}

static bt_status tell_lost(bt_shared *shared) {
    pthread_mutex_lock(&lock);
    bti_error *cause = shared->lost;
    shared->lost = NULL;
    pthread_mutex_unlock(&lock);
    bt_status status = bti_fail_with(cause);
    bti_error_release(cause);
    return status;
}

static void own_by(bti_node *node, const bt_shared *shared, int index) {
    node->device = (int16_t)shared->replicas[index].device;
    node->committed = shared->replicas[index].committed;
    node->rule = BTI_RULE_COMMITTED;
    node->forget = true;
    node->place = bti_call_place();
}

bti_node *bti_shared_alias(const bt_shared *shared, int index, bti_node *node, bti_op op, const int64_t *attr,
                           int attr_count) {
    bool done = atomic_load(&node->state) == BTI_DONE;
    bti_node *own = bti_node_new(op, shared->dtype, shared->rank, shared->shape, done ? 0 : 1, &node, attr_count, attr);
    if (!own) return NULL;
    own_by(own, shared, index);
    if (done) {
        own->buffer = bti_buffer_retain(node->buffer);
        own->layout = node->layout;
        atomic_store(&own->state, BTI_DONE);
    }
    return own;
}

/* --- reading ---------------------------------------------------------------------------------------------------------- */

static bti_node *make_value(const bt_shared *shared, int index, bti_node *node) {
    int64_t attr[2] = {index, shared->number};
    bti_node *value = bti_shared_alias(shared, index, node, BTI_OP_value, attr, 2);
    if (value) value->extra = shared;
    return value;
}

/* Takes failed steps off all of them, until none of the steps that remain on one was taken off another. Under the lock. */
static void settle_all(bt_shared *const *shared, const int *replicas, size_t count, bti_error **lost) {
    *lost = NULL;
    for (bool dropped = true; dropped;) {
        dropped = false;
        for (size_t i = 0; i < count; i++) {
            replica *r = &shared[i]->replicas[replicas[i] < shared[i]->replica_count ? replicas[i] : 0];
            const version *top = &r->versions.items[r->versions.count - 1];
            bool failed = r->versions.count > 1 && step_outcome(top->step) == BTI_BAD;
            bti_error *cause;
            settle(r, &cause);
            dropped = dropped || failed;
            if (*lost)
                bti_error_release(cause);
            else
                *lost = cause;
        }
    }
}

bool bti_shared_values(bt_shared *const *shared, const int *replicas, size_t count, bti_node **values) {
    bti_error *lost;
    bool all = true;
    pthread_mutex_lock(&lock);
    settle_all(shared, replicas, count, &lost);
    for (size_t i = 0; i < count; i++) {
        int index = replicas[i] < shared[i]->replica_count ? replicas[i] : 0;
        replica *r = &shared[i]->replicas[index];
        version *top = &r->versions.items[r->versions.count - 1];
        if (!top->value) top->value = make_value(shared[i], index, top->node);
        values[i] = bti_node_retain(top->value);
        all = all && values[i];
    }
    pthread_mutex_unlock(&lock);
    if (count) note_lost(shared[0], lost);
    return all;
}

bti_node *bti_shared_value(bt_shared *shared, int index) {
    bti_node *value;
    (void)bti_shared_values(&shared, &index, 1, &value);
    return value;
}

/* --- setting ---------------------------------------------------------------------------------------------------------- */

/* Says once that an earlier set was lost. What it left unsettled: starts it, and waits when the caller is far ahead. */
bt_status bti_shared_pace(bt_shared *shared, int index) {
    pthread_mutex_lock(&lock);
    replica *r = &shared->replicas[index];
    bti_error *lost;
    settle(r, &lost);
    bti_node *top = bti_node_retain(r->versions.items[r->versions.count - 1].node);
    bti_node *oldest = r->versions.count > STEPS_AHEAD ? bti_node_retain(r->versions.items[1].node) : NULL;
    pthread_mutex_unlock(&lock);
    note_lost(shared, lost);
    if (atomic_load(&top->state) == BTI_PENDING) { /* whoever set it; its failure takes it back */
        bti_error *before = bti_error_last();
        if (bti_eval_note_set(top) && bti_eval_nodes(NULL, 0, true) != BT_OK) note_lost(shared, bti_error_last());
        bti_error_put_back(before);
    }
    if (oldest) (void)!bti_block_node(oldest);
    bti_node_release(top);
    bti_node_release(oldest);
    return tell_lost(shared);
}

/* A step of aliases of the values, with no version made by it yet; NULL when memory is short. */
static step *make_step(bt_shared *const *shared, bti_node *const *values, const int *replicas, int count) {
    step *s = bti_set_step_new(count);
    bool room = s;
    for (int i = 0; i < count && room; i++) {
        s->nodes[i] = bti_shared_alias(shared[i], replicas[i], values[i], BTI_OP_stop, NULL, 0);
        room = s->nodes[i];
        s->count += room;
    }
    if (room) return s;
    step_release(s);
    return NULL;
}

/* Its versions become the values. */
static bt_status publish(step *s, bt_shared *const *shared, const int *replicas) {
    pthread_mutex_lock(&lock);
    bool room = true;
    for (int i = 0; i < s->count && room; i++)
        room = bti_vec_reserve(&shared[i]->replicas[replicas[i]].versions, (size_t)s->count);
    for (int i = 0; i < s->count && room; i++) room = bti_eval_note_set(s->nodes[i]);
    for (int i = 0; i < s->count && room; i++) {
        s->refs++;
        replica *r = &shared[i]->replicas[replicas[i]];
        version fresh = {.node = bti_node_retain(s->nodes[i]), .step = s};
        if (fresh.node->op == BTI_OP_value) fresh.value = bti_node_retain(fresh.node);
        r->versions.items[r->versions.count++] = fresh;
    }
    step_release(s);
    pthread_mutex_unlock(&lock);
    return room ? BT_OK : bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
}

bti_set_step *bti_set_step_new(int count) {
    step *s = bti_recycled_new(sizeof *s + (size_t)count * sizeof *s->nodes);
    if (!s) return NULL;
    s->refs = 1;
    s->room = count;
    return s;
}

bool bti_set_step_give(step *s, const bt_shared *shared, int index, bti_buffer *buffer, const bti_layout *layout) {
    int64_t attr[2] = {index, shared->number};
    bti_node *node = bti_node_done(BTI_OP_value, shared->dtype, shared->rank, shared->shape, 2, attr,
                                   bti_buffer_retain(buffer), layout);
    if (!node) {
        bti_buffer_release(buffer);
        return false;
    }
    own_by(node, shared, index);
    node->extra = shared;
    s->nodes[s->count++] = node;
    return true;
}

void bti_set_step_drop(step *s) { step_release(s); /* nobody else has it yet: no lock */ }

bt_status bti_set_step_commit(step *s, bt_shared *const *shared, const int *replicas) {
    return publish(s, shared, replicas);
}

bt_status bti_shared_commit(bt_shared *const *shared, bti_node *const *values, const int *replicas, int count) {
    for (int i = 0; i < count; i++) BTI_TRY(bti_shared_pace(shared[i], replicas[i]));
    step *s = make_step(shared, values, replicas, count);
    return s ? publish(s, shared, replicas) : bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory");
}
