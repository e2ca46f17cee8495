/* Versions of shared variables: what is set in a step, and what is read before the step is known to have succeeded. */
#include <string.h>

#include "array/eval.h"
#include "base/flags.h"
#include "base/log.h"
#include "exec/exec.h"
#include "function/versions.h"

#define STEPS_AHEAD 8 /* versions that are not settled: more take turns in memory that no cache holds */

typedef bti_set_step step;
typedef bti_version version;
typedef bti_shared_replica replica;

/* --- steps and versions; under the lock ------------------------------------------------------------------------------ */

void bti_version_drop(bti_version *v) {
    bti_node_release(v->node);
    bti_node_release(v->value);
    if (v->step) bti_gate_release(&v->step->gate);
}

/* The variable was set by a step that failed. *unlogged: the failure when it is to be logged. */
static void note_failure(bt_shared *shared, bti_set_failure *failure, bti_set_failure **unlogged) {
    if (!failure) return;
    if (!failure->logged && !*unlogged) *unlogged = bti_set_failure_retain(failure);
    failure->logged = true;
    bti_set_failure *before = shared->failure;
    shared->failure = bti_set_failure_retain(failure);
    bti_set_failure_release(before);
}

void bti_shared_forget_replaced(bt_shared *shared, int index) {
    replica *r = &shared->replicas[index];
    size_t good = r->versions.count - 1;
    while (good > 0 && bti_set_step_outcome(r->versions.items[good].step) != BTI_GOOD) good--;
    if (good == 0) return;
    for (size_t i = 0; i < good; i++) bti_version_drop(&r->versions.items[i]);
    memmove(r->versions.items, r->versions.items + good, (r->versions.count - good) * sizeof(version));
    r->versions.count -= good;
}

/* Takes failed versions off the top, and forgets replaced ones. Whether it took any. */
static bool settle_versions(bt_shared *shared, int index, bti_set_failure **unlogged) {
    replica *r = &shared->replicas[index];
    bool dropped = false;
    while (r->versions.count > 1 && bti_set_step_outcome(r->versions.items[r->versions.count - 1].step) == BTI_BAD) {
        version *top = &r->versions.items[--r->versions.count];
        note_failure(shared, top->step->failure, unlogged);
        bti_version_drop(top);
        dropped = true;
    }
    bti_shared_forget_replaced(shared, index);
    return dropped;
}

/* One log line for a step that was taken back; takes the failure over. Not under the lock: a log's sink may ask for variables. */
static void log_failure(const bt_shared *shared, bti_set_failure *failure) {
    if (!failure) return;
    const char *name = shared->name ? shared->name : "";
    bti_log("berth: variable %s%skeeps its value, the step that set it failed: %s", name, *name ? " " : "",
            bti_error_message(failure->cause));
    bti_set_failure_release(failure);
}

/* An evaluation of this thread failed and took a step of the variable back. */
static void note_failed_step(bt_shared *shared, bti_error *cause) {
    bti_set_failure *failure = bti_set_failure_new(cause), *unlogged = NULL;
    bti_versions_lock();
    note_failure(shared, failure, &unlogged);
    bti_versions_unlock();
    log_failure(shared, unlogged);
    bti_set_failure_release(failure);
    bti_error_release(cause);
}

bt_status bti_shared_report(bt_shared *shared) {
    bti_versions_lock();
    bti_set_failure *failure = shared->failure;
    bool tell = failure && !failure->told;
    shared->failure = NULL;
    if (tell) failure->told = true;
    bti_versions_unlock();
    bt_status status = tell ? bti_fail_with(failure->cause) : BT_OK;
    bti_set_failure_release(failure);
    return status;
}

static void own_by(bti_node *node, const bt_shared *shared, int index) {
    node->device = (int16_t)shared->replicas[index].device;
    node->committed = shared->replicas[index].committed;
    node->rule = BTI_RULE_COMMITTED;
    node->forget = true;
    node->place = bti_call_place();
}

bti_node *bti_shared_alias(const bt_shared *shared, int index, bti_node *node, bti_op op, const bti_attr *attr) {
    bool done = atomic_load(&node->state) == BTI_DONE;
    bti_node *own = bti_node_new(op, shared->dtype, shared->rank, shared->shape, done ? 0 : 1, &node, attr);
    if (!own) return NULL;
    own_by(own, shared, index);
    if (done) {
        own->buffer = bti_buffer_retain(node->buffer);
        own->layout = node->layout;
        own->gate = bti_gate_retain(node->gate);
        atomic_store(&own->state, BTI_DONE);
    }
    return own;
}

/* --- reading ---------------------------------------------------------------------------------------------------------- */

/* Nobody reads the value before the whole step is known to have succeeded. A step of one is as good as its value. */
static void wait_for_step(bti_node *value, step *s) {
    if (!s || s->room < 2 || !bti_gate_matters(&s->gate)) return;
    bti_gate_release(value->gate); /* the step depends on it too */
    value->gate = bti_gate_retain(&s->gate);
}

static bti_node *make_value(const bt_shared *shared, int index, const version *of) {
    bti_attr attr = {.value = {index, (int64_t)shared->number}};
    bti_node *value = bti_shared_alias(shared, index, of->node, BTI_OP_value, &attr);
    if (!value) return NULL;
    value->extra = shared;
    wait_for_step(value, of->step);
    return value;
}

static int replica_index(const bt_shared *shared, int wanted) { return wanted < shared->replica_count ? wanted : 0; }

/* Takes failed steps off all of them, until none of the steps that remain on one was taken off another. Under the lock. */
static void settle_all_versions(bt_shared *const *shared, const int *replicas, size_t count,
                                bti_set_failure **unlogged) {
    for (bool dropped = true; dropped;) {
        dropped = false;
        for (size_t i = 0; i < count; i++)
            if (settle_versions(shared[i], replica_index(shared[i], replicas[i]), unlogged)) dropped = true;
    }
}

bool bti_shared_values(bt_shared *const *shared, const int *replicas, size_t count, bti_node **values) {
    bti_set_failure *unlogged = NULL;
    bool all = true;
    bti_versions_lock();
    settle_all_versions(shared, replicas, count, &unlogged);
    for (size_t i = 0; i < count; i++) {
        int index = replica_index(shared[i], replicas[i]);
        replica *r = &shared[i]->replicas[index];
        version *top = &r->versions.items[r->versions.count - 1];
        if (!top->value) top->value = make_value(shared[i], index, top);
        values[i] = bti_node_retain(top->value);
        all = all && values[i];
    }
    bti_versions_unlock();
    if (count) log_failure(shared[0], unlogged);
    return all;
}

bti_node *bti_shared_value(bt_shared *shared, int index) {
    bti_node *value;
    (void)bti_shared_values(&shared, &index, 1, &value);
    return value;
}

/* --- setting ---------------------------------------------------------------------------------------------------------- */

/* A set that is pending begins now: another call made it, and its failure takes it back. */
static void begin_pending(bt_shared *shared, int index) {
    bti_versions_lock();
    replica *r = &shared->replicas[index];
    bti_set_failure *unlogged = NULL;
    settle_versions(shared, index, &unlogged);
    bti_node *top = bti_node_retain(r->versions.items[r->versions.count - 1].node);
    bti_versions_unlock();
    log_failure(shared, unlogged);
    if (atomic_load(&top->state) == BTI_PENDING) {
        bti_error *before = bti_error_last();
        if (bti_eval_note_set(top) && bti_eval_nodes(NULL, 0, true) != BT_OK)
            note_failed_step(shared, bti_error_last());
        bti_error_put_back(before);
    }
    bti_node_release(top);
}

int64_t bti_shared_bytes(const bt_shared *shared) {
    int64_t bytes = (int64_t)bt_dtype_size(shared->dtype);
    for (int i = 0; i < shared->rank; i++) bytes *= shared->shape[i];
    return bytes;
}

/* With one more version of each, those of a device that are not settled have more bytes than may be ahead, or are too many: the gate of
 * the oldest (retained) of the variable with the most; else NULL. */
static bti_gate *too_far_ahead(bt_shared *const *shared, const int *replicas, int count) {
    int64_t bytes[BTI_MAX_DEVICES] = {0}, most = bti_flag_int(BTI_FLAG_ahead_bytes);
    const replica *longest = NULL;
    for (int i = 0; i < count; i++) {
        const replica *r = &shared[i]->replicas[replicas[i]];
        bytes[r->device] += ((int64_t)r->versions.count + 1) * bti_shared_bytes(shared[i]);
        if (r->versions.count > 1 && (!longest || r->versions.count > longest->versions.count)) longest = r;
    }
    bool far = longest && longest->versions.count > STEPS_AHEAD;
    for (int i = 0; i < count && longest && !far; i++) far = bytes[shared[i]->replicas[replicas[i]].device] > most;
    for (size_t v = 1; far && v < longest->versions.count; v++) { /* failed ones are dropped with the next good one */
        bti_gate *gate = &longest->versions.items[v].step->gate;
        if (atomic_load(&gate->outcome) == BTI_UNKNOWN) return bti_gate_retain(gate);
    }
    return NULL;
}

static void settle_each(bt_shared *const *shared, const int *replicas, int count) {
    bti_set_failure *unlogged = NULL;
    bti_versions_lock();
    for (int i = 0; i < count; i++) settle_versions(shared[i], replicas[i], &unlogged);
    bti_versions_unlock();
    log_failure(shared[0], unlogged);
}

static bti_gate *find_gate_ahead(bt_shared *const *shared, const int *replicas, int count) {
    bti_versions_lock();
    bti_gate *gate = too_far_ahead(shared, replicas, count);
    bti_versions_unlock();
    return gate;
}

/* A failed step is taken back by the settling that follows the wait. */
static void wait_while_ahead(bt_shared *const *shared, const int *replicas, int count) {
    bti_error *before = bti_error_last();
    bti_gate *gate;
    while ((gate = find_gate_ahead(shared, replicas, count))) {
        (void)!bti_gate_wait(gate);
        bti_gate_release(gate);
        settle_each(shared, replicas, count);
    }
    bti_error_put_back(before);
}

bt_status bti_shared_throttle(bt_shared *const *shared, const int *replicas, int count) {
    for (int i = 0; i < count; i++) begin_pending(shared[i], replicas[i]);
    if (count) wait_while_ahead(shared, replicas, count);
    for (int i = 0; i < count; i++) BTI_TRY(bti_shared_report(shared[i]));
    return BT_OK;
}

bt_status bti_shared_settle(bt_shared *shared) {
    bti_error *before = bti_error_last();
    for (int r = 0; r < shared->replica_count; r++) {
        bti_node *value = bti_shared_value(shared, r);
        if (value) (void)!bti_block_node(value); /* a failed step is taken back, and reported below */
        bti_node_release(value);
    }
    bti_error_put_back(before);
    return bti_shared_throttle(&shared, &(int){0}, 1);
}

/* Its versions become the values. Takes the step over. */
static bt_status publish_step(step *s, bt_shared *const *shared, const int *replicas) {
    bti_set_member *members = bti_set_step_members(s);
    bti_versions_lock();
    bool room = true;
    for (int i = 0; i < s->count && room; i++)
        room = bti_vec_reserve(&shared[i]->replicas[replicas[i]].versions, (size_t)s->count);
    for (int i = 0; i < s->count && room; i++) room = bti_eval_note_set(members[i].node);
    for (int i = 0; i < s->count && room; i++) {
        bti_gate_retain(&s->gate);
        replica *r = &shared[i]->replicas[replicas[i]];
        version fresh = {.node = bti_node_retain(members[i].node), .step = s};
        if (fresh.node->op == BTI_OP_value) { /* the step keeps the buffer only: the value is going to keep the step */
            fresh.value = members[i].node;
            members[i] = (bti_set_member){.buffer = bti_buffer_retain(fresh.value->buffer)};
            wait_for_step(fresh.value, s);
        }
        r->versions.items[r->versions.count++] = fresh;
    }
    bti_gate_release(&s->gate);
    bti_versions_unlock();
    return room ? BT_OK : bti_no_memory();
}

bti_set_step *bti_set_step_new(int count, bti_gate *gate) {
    step *s = bti_set_step_alloc(count);
    if (!s || bti_set_step_depend(s, gate)) return s;
    bti_gate_release(&s->gate);
    return NULL;
}

bool bti_set_step_add(step *s, const bt_shared *shared, int index, bti_buffer *buffer, const bti_layout *layout) {
    bti_attr attr = {.value = {index, (int64_t)shared->number}};
    bti_node *node = bti_node_done(BTI_OP_value, shared->dtype, shared->rank, shared->shape, &attr,
                                   bti_buffer_retain(buffer), layout);
    if (!node) {
        bti_buffer_release(buffer);
        return false;
    }
    own_by(node, shared, index);
    node->extra = shared;
    node->gate = bti_gate_retain(s->parent_count ? &s->parents[0]->gate : NULL);
    bti_set_step_members(s)[s->count++].node = node;
    return true;
}

void bti_set_step_drop(step *s) { bti_gate_release(&s->gate); }

bt_status bti_set_step_commit(step *s, bt_shared *const *shared, const int *replicas) {
    return publish_step(s, shared, replicas);
}

static bt_status drop_unmade_step(step *s) {
    if (s) bti_gate_release(&s->gate);
    return bti_no_memory();
}

bt_status bti_shared_commit(bt_shared *const *shared, bti_node *const *values, const int *replicas, int count) {
    BTI_TRY(bti_shared_throttle(shared, replicas, count));
    step *s = bti_set_step_alloc(count);
    for (int i = 0; i < count && s; i++) {
        bti_node *alias = bti_shared_alias(shared[i], replicas[i], values[i], BTI_OP_stop, NULL);
        bti_set_step_members(s)[i].node = alias;
        s->count += alias != NULL;
        if (!alias || !bti_set_step_depend(s, alias->gate)) return drop_unmade_step(s);
    }
    if (!s) return drop_unmade_step(s);
    bti_error *cause = s->parent_count ? bti_gate_error(&s->parents[0]->gate) : NULL;
    if (!cause) return publish_step(s, shared, replicas);
    bt_status status = bti_fail_with(cause);
    bti_gate_release(&s->gate);
    return status;
}
