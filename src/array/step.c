#include "array/step.h"

#include "base/lock.h"
#include "base/recycle.h"
#include "exec/exec.h"

/* Protects all steps, and the versions and the list of shared variables. Recursive: releasing a node may release a function, and that a
 * variable. */
BTI_STATIC_LOCK_RECURSIVE(versions_lock, versions)
void bti_versions_lock(void) { bti_lock_take(&versions_lock); }
void bti_versions_unlock(void) { bti_lock_give(&versions_lock); }

/* --- failures ----------------------------------------------------------------------------------------------------------- */

bti_set_failure *bti_set_failure_new(bti_error *cause) {
    bti_set_failure *failure = bti_recycled_new(sizeof *failure);
    if (!failure) return NULL;
    atomic_init(&failure->refs, 1);
    failure->cause = bti_error_retain(cause);
    return failure;
}

bti_set_failure *bti_set_failure_retain(bti_set_failure *failure) {
    if (failure) atomic_fetch_add_explicit(&failure->refs, 1, memory_order_relaxed);
    return failure;
}

void bti_set_failure_release(bti_set_failure *failure) {
    if (!failure || atomic_fetch_sub_explicit(&failure->refs, 1, memory_order_acq_rel) != 1) return;
    bti_error_release(failure->cause);
    bti_recycled_free(failure, sizeof *failure);
}

/* --- making and freeing ----------------------------------------------------------------------------------------------- */

static bti_gate *join_gates(bti_gate *a, bti_gate *b);
static void free_step(bti_gate *gate);
static const bti_gate_functions gate_functions = {join_gates, free_step};

static bti_set_step *allocate_step(int parents, int members) {
    size_t bytes =
        sizeof(bti_set_step) + (size_t)parents * sizeof(bti_set_step *) + (size_t)members * sizeof(bti_set_member);
    bti_set_step *step = bti_recycled_new(bytes);
    if (!step) return NULL;
    step->gate.functions = &gate_functions;
    atomic_init(&step->gate.refs, 1);
    step->bytes = bytes;
    step->room = members;
    return step;
}

bti_set_step *bti_set_step_alloc(int count) { return allocate_step(1, count); }

bti_set_member *bti_set_step_members(bti_set_step *step) { return (bti_set_member *)(void *)(step->parents + 1); }

void bti_set_member_drop(bti_set_member *member) {
    bti_node_release(member->node);
    bti_buffer_release(member->buffer);
    *member = (bti_set_member){0};
}

/* The outcome is known: parents and members are not needed any more. */
static void drop_dependencies(bti_set_step *step) {
    int parents = step->parent_count, count = step->count;
    step->parent_count = step->count = 0;
    for (int i = step->good; i < count; i++) bti_set_member_drop(&bti_set_step_members(step)[i]);
    for (int i = 0; i < parents; i++) bti_gate_release(&step->parents[i]->gate);
}

/* Freeing a step may release the last reference to another: a loop, not recursion. */
static _Thread_local bti_set_step *unused_steps;
static _Thread_local bool freeing;

static void free_step(bti_gate *gate) {
    bti_set_step *step = (bti_set_step *)gate;
    step->back = unused_steps;
    unused_steps = step;
    if (freeing) return;
    freeing = true;
    while ((step = unused_steps)) {
        unused_steps = step->back;
        drop_dependencies(step);
        bti_error_release(step->gate.cause);
        bti_set_failure_release(step->failure);
        bti_recycled_free(step, step->bytes);
    }
    freeing = false;
}

/* --- several in one --------------------------------------------------------------------------------------------------- */

static bool is_step(const bti_set_step *step) { return step->room > 0; }

static int steps_of(bti_set_step **gate, bti_set_step ***steps) {
    *steps = is_step(*gate) ? gate : (*gate)->parents;
    return is_step(*gate) ? 1 : (*gate)->parent_count;
}

static bool is_among(bti_set_step *step, bti_set_step *const *steps, int count) {
    for (int i = 0; i < count; i++)
        if (steps[i] == step) return true;
    return false;
}

/* The steps of both; a or b itself when it has those of the other. Under the versions lock. */
static bti_set_step *join_gates_locked(bti_set_step *a, bti_set_step *b) {
    bti_set_step **of_a, **of_b;
    int count_a = steps_of(&a, &of_a), count_b = steps_of(&b, &of_b), more = 0;
    if (!bti_gate_matters(&a->gate) || bti_gate_error(&b->gate)) return b;
    if (!bti_gate_matters(&b->gate) || bti_gate_error(&a->gate)) return a;
    for (int i = 0; i < count_b; i++) more += !is_among(of_b[i], of_a, count_a);
    if (more == 0) return a;
    if (more + count_a == count_b) return b;
    bti_set_step *both = allocate_step(count_a + more, 0);
    if (!both) return NULL;
    for (int i = 0; i < count_a; i++) both->parents[both->parent_count++] = of_a[i];
    for (int i = 0; i < count_b; i++)
        if (!is_among(of_b[i], of_a, count_a)) both->parents[both->parent_count++] = of_b[i];
    for (int i = 0; i < both->parent_count; i++) bti_gate_retain(&both->parents[i]->gate);
    return both;
}

static bti_gate *join_gates(bti_gate *a, bti_gate *b) {
    bti_versions_lock();
    bti_set_step *both = join_gates_locked((bti_set_step *)a, (bti_set_step *)b);
    bool is_new = both && &both->gate != a && &both->gate != b;
    if (both && !is_new) bti_gate_retain(&both->gate);
    bti_versions_unlock();
    return both ? &both->gate : NULL;
}

bool bti_set_step_depend(bti_set_step *step, bti_gate *gate) {
    bti_gate *all = step->parent_count ? &step->parents[0]->gate : NULL;
    if (!bti_gate_join(&all, gate)) return false;
    step->parents[0] = (bti_set_step *)all;
    step->parent_count = all != NULL;
    return true;
}

/* --- outcomes; under the versions lock -------------------------------------------------------------------------------- */

static void succeed_step(bti_set_step *step) {
    atomic_store(&step->gate.outcome, BTI_GOOD);
    drop_dependencies(step);
}

static void fail_step(bti_set_step *step, bti_error *cause, bti_set_failure *failure) {
    step->gate.cause = bti_error_retain(cause);
    step->failure = bti_set_failure_retain(failure);
    atomic_store(&step->gate.outcome, BTI_BAD);
    drop_dependencies(step);
}

static bti_outcome member_outcome(const bti_set_member *member, bti_error **cause) {
    int state = member->node ? atomic_load(&member->node->state) : BTI_DONE;
    if (state == BTI_FAILED) *cause = member->node->error;
    if (state != BTI_DONE) return state == BTI_FAILED ? BTI_BAD : BTI_UNKNOWN;
    bti_buffer *buffer = member->node ? member->node->buffer : member->buffer;
    if (!(*cause = bti_buffer_error(buffer)) && !bti_buffer_done(buffer)) return BTI_UNKNOWN;
    if (!*cause) *cause = bti_buffer_error(buffer);
    return *cause ? BTI_BAD : BTI_GOOD;
}

/* A member that could not even be planned, while others may be in flight; NULL: none. */
static bti_node *find_refused(bti_set_step *step) {
    bool pending = false;
    for (int i = step->good; i < step->count && !step->all_planned; i++) {
        bti_node *node = bti_set_step_members(step)[i].node;
        int state = node ? atomic_load(&node->state) : BTI_DONE;
        if (state == BTI_FAILED) return node;
        pending = pending || state != BTI_DONE;
    }
    step->all_planned = !pending;
    return NULL;
}

/* Updates the step from its own members: it fails when one failed. */
static void look_at_members(bti_set_step *step) {
    bti_node *refused = find_refused(step);
    if (refused) {
        fail_step(step, refused->error, NULL); /* the call that evaluated it returned the status */
        return;
    }
    for (; step->good < step->count; step->good++) {
        bti_set_member *member = &bti_set_step_members(step)[step->good];
        bti_error *cause = NULL;
        bti_outcome outcome = member_outcome(member, &cause);
        if (outcome == BTI_BAD) {
            bti_set_failure *failure = bti_set_failure_new(cause);
            fail_step(step, cause, failure);
            bti_set_failure_release(failure);
        }
        if (outcome != BTI_GOOD) return;
        bti_set_member_drop(member);
    }
}

static bti_outcome known_outcome(const bti_set_step *step) { return (bti_outcome)atomic_load(&step->gate.outcome); }

/* The next parent to visit on this walk, or NULL. The step fails when a parent failed. */
static bti_set_step *next_parent(bti_set_step *step, uint64_t mark) {
    for (; known_outcome(step) == BTI_UNKNOWN && step->next < step->parent_count; step->next++) {
        bti_set_step *parent = step->parents[step->next];
        if (known_outcome(parent) == BTI_BAD) {
            fail_step(step, parent->gate.cause, parent->failure);
            return NULL;
        }
        if (known_outcome(parent) == BTI_UNKNOWN && parent->mark != mark) return parent;
    }
    return NULL;
}

static void conclude_step(bti_set_step *step) {
    bool good = known_outcome(step) == BTI_UNKNOWN && step->good == step->count;
    for (int i = 0; i < step->parent_count && good; i++) good = known_outcome(step->parents[i]) == BTI_GOOD;
    if (good) succeed_step(step);
}

static void enter_step(bti_set_step *step, bti_set_step *from, uint64_t mark) {
    step->mark = mark;
    step->next = 0;
    step->back = from;
    look_at_members(step);
}

/* Resolves all that it depends on, as far as known; depth first, without recursion. *open (NULL: not asked for): one step whose
 * members are not all known. */
static bti_outcome resolve_step(bti_set_step *first, bti_set_step **open) {
    static uint64_t last_mark;
    uint64_t mark = ++last_mark;
    if (known_outcome(first) == BTI_UNKNOWN) enter_step(first, NULL, mark);
    for (bti_set_step *step = first; step && known_outcome(first) == BTI_UNKNOWN;) {
        bti_set_step *parent = next_parent(step, mark), *back = step->back;
        if (parent) {
            enter_step(parent, step, mark);
            step = parent;
            continue;
        }
        if (known_outcome(step) == BTI_UNKNOWN && step->good < step->count && open) *open = step;
        conclude_step(step);
        step = back;
    }
    return known_outcome(first);
}

bti_outcome bti_set_step_outcome(bti_set_step *step) { return step ? resolve_step(step, NULL) : BTI_GOOD; }

bool bti_set_step_open_member(bti_set_step *step, bti_set_member *member) {
    bti_set_step *open = NULL;
    *member = (bti_set_member){0};
    bti_versions_lock();
    if (resolve_step(step, &open) == BTI_UNKNOWN && open) {
        *member = bti_set_step_members(open)[open->good];
        bti_node_retain(member->node);
        bti_buffer_retain(member->buffer);
    }
    bti_versions_unlock();
    return member->node || member->buffer;
}
