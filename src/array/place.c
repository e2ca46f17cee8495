/* Where an operation goes (SPEC 2): block, committed inputs, policy, default. */
#include "array/place.h"

#include <berth/grad.h>

#include <string.h>

#include "base/flags.h"
#include "base/thread.h"
#include "base/vec.h"
#include "device/device.h"

typedef struct block {
    int device; /* -1: unknown, every operation inside fails with `error` */
    bool softened;
    bti_error *error;
    bti_site site; /* of the block */
} block;

typedef struct placement_state {
    BTI_VEC(block) blocks;
    bti_error *no_default; /* why the innermost BT_DEFAULT block has no device */
    int lost;              /* blocks that there was no memory for: what is recorded inside is poisoned */
    int policy;            /* of the innermost BT_TRANSFERS block; -1: the flag's */
    bool policy_set;
    bti_forced forced;
    int replica; /* + 1; 0: outside of any */
    int replica_devices[BTI_MAX_REPLICAS];
    int replica_count;
    bti_checkpoint *checkpoint; /* the innermost block; the guards hold them */
} placement_state;
static _Thread_local placement_state own_placement;

/* --- blocks --------------------------------------------------------------------------------------------------------- */

bti_on_guard bti_on_begin(const char *device, const char *file, int line) {
    block b = {.device = -1, .site = {file, line}};
    if (bti_device_place(device, &b.device, &b.softened) != BT_OK) {
        b.device = -1;
        b.error = bti_error_last();
    }
    bool marked = bti_vec_push(&own_placement.blocks, b);
    if (!marked) {
        bti_error_release(b.error);
        own_placement.lost++;
    }
    return (bti_on_guard){.marked = marked};
}

bti_on_guard bti_on_refused(bti_error *error) {
    bool marked = error && bti_vec_push(&own_placement.blocks, ((block){.device = -1, .error = error}));
    if (!marked) {
        bti_error_release(error);
        own_placement.lost++;
    }
    return (bti_on_guard){.marked = marked};
}

void bti_on_end(bti_on_guard *guard) {
    if (!guard->marked) {
        own_placement.lost--;
        return;
    }
    bti_error_release(own_placement.blocks.items[--own_placement.blocks.count].error);
    if (!own_placement.blocks.count) bti_vec_free(&own_placement.blocks);
}

bti_default_guard bti_default_begin(const char *device) {
    bti_default_guard guard = {bti_default_device_own(), own_placement.no_default};
    int id;
    bool softened;
    if (bti_device_place(device, &id, &softened) == BT_OK) {
        own_placement.no_default = NULL;
        bti_default_device_enter(id);
    } else
        own_placement.no_default = bti_error_last();
    return guard;
}

void bti_default_end(bti_default_guard *guard) {
    bti_error_release(own_placement.no_default);
    own_placement.no_default = guard->refused;
    bti_default_device_enter(guard->before);
}

bool bti_in_device_block(void) {
    return own_placement.blocks.count || own_placement.no_default || bti_default_device_own() >= 0;
}

/* Whether committed inputs decide where operations of this thread go: no block does, nor placement=tensorflow. */
static bool is_placed_by_flow(void) {
    return !own_placement.blocks.count && !own_placement.lost && !own_placement.forced.on &&
           bti_flag_choice(BTI_FLAG_placement) != BTI_PLACEMENT_TENSORFLOW;
}

bti_checkpoint *bti_checkpoint_now(void) { return own_placement.checkpoint; }

bti_checkpoint *bti_checkpoint_enter(bti_checkpoint *entered) {
    bti_checkpoint *before = own_placement.checkpoint;
    own_placement.checkpoint = entered;
    return before;
}

bti_checkpoint_guard bti_checkpoint_begin(void) {
    bti_checkpoint *begun = bti_checkpoint_new(own_placement.checkpoint);
    if (begun)
        own_placement.checkpoint = begun;
    else
        (void)!bti_no_memory(); /* what is recorded inside is kept as outside */
    return (bti_checkpoint_guard){.marked = begun};
}

void bti_checkpoint_end(bti_checkpoint_guard *guard) {
    if (!guard->marked) return;
    bti_checkpoint *ended = own_placement.checkpoint;
    own_placement.checkpoint = ended->outer;
    bti_checkpoint_release(ended);
}

bti_transfers_guard bti_transfers_begin(bt_transfers policy) {
    bti_transfers_guard guard = {.before = own_placement.policy_set ? own_placement.policy : -1};
    if ((unsigned)policy > BT_TRANSFERS_ERROR) { /* the policy outside holds on */
        (void)!bti_fail(BT_INVALID_ARGUMENT, "BT_TRANSFERS: %d is not a policy (bt_transfers)", (int)policy);
        return guard;
    }
    own_placement.policy = (int)policy;
    own_placement.policy_set = true;
    return guard;
}

void bti_transfers_end(bti_transfers_guard *guard) {
    own_placement.policy = guard->before;
    own_placement.policy_set = guard->before >= 0;
}

static bt_transfers transfers_of(const placement_state *own) {
    return (bt_transfers)(own->policy_set ? own->policy : bti_flag_choice(BTI_FLAG_transfers));
}
bool bti_is_in_graphs(const bt_array *x) {
    const bti_node *node = bti_array_error(x) ? NULL : bti_node_of(x);
    return node && bti_device_target(node->device)->graphs;
}

bt_transfers bti_transfers_now(void) { return transfers_of(BTI_THREAD_OWN(own_placement)); }

bti_forced bti_force(bti_forced forced) {
    bti_forced before = own_placement.forced;
    own_placement.forced = forced;
    return before;
}
const bti_forced *bti_forced_now(void) { return &own_placement.forced; }

bti_recording_context bti_enter_context_of(const bti_node *node, bool of_gradient) {
    bti_forced there = {.on = true,
                        .gradient_in = of_gradient ? bti_public_nesting() : 0,
                        .of_block = of_gradient && node->checkpoint,
                        .device = node->device,
                        .committed = atomic_load(&node->committed),
                        .place = node->place};
    return (bti_recording_context){bti_force(there), bti_call_set_place(node->place)};
}
void bti_leave_context(bti_recording_context before) {
    bti_force(before.forced);
    bti_call_set_place(before.place);
}

int bti_replica(void) { return own_placement.replica ? own_placement.replica - 1 : 0; }
bool bti_in_replica(void) { return own_placement.replica != 0; }
int bti_set_replica(int replica) {
    int before = own_placement.replica - 1;
    own_placement.replica = replica + 1;
    return before;
}

bool bti_set_replica_devices(const int *devices, int count) {
    if (count > BTI_MAX_REPLICAS) return false;
    for (int i = 0; i < count; i++) own_placement.replica_devices[i] = devices[i];
    own_placement.replica_count = count;
    return true;
}

int bti_replica_devices(const int **devices) {
    *devices = own_placement.replica_devices;
    return own_placement.replica_count;
}

/* --- choosing ------------------------------------------------------------------------------------------------------- */

/* The user's array behind what the running call made of it (broadcast, cast). In a walk. */
static const bti_node *as_given(const bti_node *node) {
    bti_place here = bti_call_place();
    while (node->input_count == 1 && node->place.name == here.name && node->place.site.file == here.site.file &&
           node->place.site.line == here.site.line &&
           (bti_op_info((bti_op)node->op)->class == BTI_MOVEMENT || node->op == BTI_OP_cast))
        node = node->inputs[0];
    return node;
}

static void describe_array(bti_str *text, const bti_node *node) {
    bti_str_add(text, bt_dtype_name((bt_dtype)node->dtype));
    bti_str_add(text, " ");
    bti_shape_text(text, node->rank, node->shape);
    bti_str_addf(text, " on %s", bt_device_name(bti_device_at(node->device)));
    if (node->place.site.file)
        bti_str_addf(text, " (made by %s at %s:%d)",
                     node->place.name && *node->place.name ? node->place.name : "a call",
                     bti_site_file(node->place.site), node->place.site.line);
}

static const char *name_of_device(int device) { return bt_device_name(bti_device_at(device)); }

bool bti_transfer_refused(const bti_node *array, int device) {
    return array->device != device && atomic_load(&array->committed) && bti_transfers_now() == BT_TRANSFERS_ERROR;
}

bti_error *bti_transfer_error(const bti_node *array, int device, const char *name, const char *format, ...) {
    bti_str text = {0}, use = {0};
    va_list arguments;
    va_start(arguments, format);
    bti_str_addv(&use, format, arguments);
    va_end(arguments);
    int walk = bti_walk_begin();
    describe_array(&text, as_given(array));
    bti_walk_end(walk);
    bti_error *error = bti_error_new(BT_FAILED_PRECONDITION, "%s %s; transfers=error: move it first: bt_to(%s, \"%s\")",
                                     bti_str_text(&text), bti_str_text(&use), name, name_of_device(device));
    bti_str_free(&text);
    bti_str_free(&use);
    return error;
}

static bool is_committed(const bt_array *x) { return atomic_load(&bti_node_of(x)->committed); }

/* The device that holds most bytes of the committed inputs; ties go to the first. */
static int heaviest(bt_array *const *inputs, int count) {
    int64_t bytes[BTI_MAX_DEVICES] = {0};
    int best = -1;
    int walk = bti_walk_begin();
    for (int i = 0; i < count; i++) {
        const bti_node *node = bti_node_of(inputs[i]), *given = as_given(node);
        if (atomic_load(&node->committed)) bytes[node->device] += given->symbolic ? 0 : bti_node_bytes(given);
    }
    bti_walk_end(walk);
    for (int i = 0; i < count; i++) {
        const bti_node *node = bti_node_of(inputs[i]);
        if (atomic_load(&node->committed) && (best < 0 || bytes[node->device] > bytes[best])) best = node->device;
    }
    return best;
}

bt_status bti_refuse_input(const bti_node *array, const bti_node *user, const char *how) {
    const bti_place *place = &user->place;
    bti_error *error =
        bti_transfer_error(array, user->device, "x", "is used by %s on %s at %s:%d, %s",
                           place->name && *place->name ? place->name : "a call", name_of_device(user->device),
                           bti_site_file(place->site), place->site.line, how);
    bt_status status = bti_fail_with(error);
    bti_error_release(error);
    return status;
}

/* Committed inputs on several devices: those of the others go to the one with most bytes. */
static bt_array *refuse_mixed(bt_array *const *inputs, int device) {
    int stays = 0, moves = 0;
    while (!is_committed(inputs[stays]) || bti_node_of(inputs[stays])->device != device) stays++;
    while (!is_committed(inputs[moves]) || bti_node_of(inputs[moves])->device == device) moves++;
    int first = stays < moves ? stays : moves, second = stays < moves ? moves : stays;
    bti_str text = {0};
    int walk = bti_walk_begin();
    describe_array(&text, as_given(bti_node_of(inputs[first])));
    bti_str_add(&text, " and ");
    describe_array(&text, as_given(bti_node_of(inputs[second])));
    bti_walk_end(walk);
    bti_str_addf(&text, "; move the %s first: bt_to(%s, \"%s\")", moves == first ? "former" : "latter",
                 moves == first ? "x" : "y", name_of_device(device));
    bt_array *poison = bti_poisonf(BT_FAILED_PRECONDITION, "arrays on different devices: %s", bti_str_text(&text));
    bti_str_free(&text);
    return poison;
}

/* Inputs that a block, or placement=tensorflow, takes to its device whatever theirs is. */
static bt_array *check_input_transfers(bt_array *const *inputs, int count, int device, const block *b) {
    for (int i = 0; i < count; i++) {
        const bti_node *node = bti_node_of(inputs[i]);
        if (node->device == device || !bti_transfer_refused(node, device)) continue;
        if (!b)
            return bti_poison(bti_transfer_error(
                node, device, "x", "goes to %s, where placement=tensorflow puts operations outside of blocks",
                name_of_device(device)));
        if (!b->site.file)
            return bti_poison(
                bti_transfer_error(node, device, "x", "is used in a block on %s", name_of_device(device)));
        return bti_poison(bti_transfer_error(node, device, "x", "is used in the block on %s at %s:%d",
                                             name_of_device(device), bti_site_file(b->site), b->site.line));
    }
    return NULL;
}

void bti_place_node(bti_node *node, bti_placement placement) {
    const placement_state *own = BTI_THREAD_OWN(own_placement);
    node->device = (int16_t)placement.device;
    node->committed = placement.committed;
    node->rule = (uint8_t)placement.rule;
    node->checkpoint = bti_checkpoint_retain(own->checkpoint);
    node->summed_by_step = own->forced.of_block;
    node->log_copies = transfers_of(own) == BT_TRANSFERS_LOG;
    node->place = own->forced.on ? own->forced.place : bti_call_place();
}

bt_array *bti_choose_device(bt_array *const *inputs, int count, bti_placement *placement) {
    const placement_state *own = BTI_THREAD_OWN(own_placement);
    if (own->forced.on) {
        *placement = (bti_placement){own->forced.device, own->forced.committed, BTI_RULE_FORWARD};
        return NULL;
    }
    if (bti_device_count() <= 0) { /* flags or mask are faulty: the registry says how */
        bti_error *error = bti_error_last();
        return error ? bti_poison(error) : bti_poisonf(BT_UNAVAILABLE, "no devices");
    }
    if (own->lost) return bti_array_new(NULL);
    if (own->blocks.count) {
        const block *b = &own->blocks.items[own->blocks.count - 1];
        if (b->error) return bti_poisonf(bti_error_code(b->error), "%s", bti_error_message(b->error));
        *placement = (bti_placement){b->device, true, b->softened ? BTI_RULE_SOFT : BTI_RULE_EXPLICIT};
        return check_input_transfers(inputs, count, b->device, b);
    }
    *placement = (bti_placement){bti_default_device_id(), false, BTI_RULE_DEFAULT};
    bool by_default = bti_flag_choice(BTI_FLAG_placement) == BTI_PLACEMENT_TENSORFLOW;
    if (by_default && !own->no_default) return check_input_transfers(inputs, count, placement->device, NULL);
    const bti_node *first = NULL, *other = NULL;
    for (int i = 0; i < count && !by_default; i++) {
        const bti_node *node = bti_node_of(inputs[i]);
        if (!atomic_load(&node->committed)) continue;
        if (!first)
            first = node;
        else if (!other && node->device != first->device)
            other = node;
    }
    if (!first && own->no_default)
        return bti_poisonf(bti_error_code(own->no_default), "%s", bti_error_message(own->no_default));
    if (!first) return NULL;
    if (!other)
        *placement = (bti_placement){first->device, true, BTI_RULE_COMMITTED};
    else if (bti_transfers_now() == BT_TRANSFERS_ERROR)
        return refuse_mixed(inputs, heaviest(inputs, count));
    else
        *placement = (bti_placement){heaviest(inputs, count), true, BTI_RULE_BYTES};
    return NULL;
}

bool bti_may_work_on(int device) {
    if (is_placed_by_flow()) return true;
    if (own_placement.lost || own_placement.forced.on) return false;
    return device == (own_placement.blocks.count ? own_placement.blocks.items[own_placement.blocks.count - 1].device
                                                 : bti_default_device_id());
}
