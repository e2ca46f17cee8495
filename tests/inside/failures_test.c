// labels: threads
/* What kind of failure a reference tells of, and which of them are worth another try. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "support/calls.h"
#include "support/programs.h"

static bt_status refuse(bt_task *task) { return bt_task_fail(task, BT_UNAVAILABLE, "not today"); }
BT_REMOTE(refuse);

static bt_status die(bt_task *task) {
    (void)task;
    raise(SIGKILL);
    return BT_OK;
}
BT_REMOTE(die);

static int expect(bt_ref *ref, bt_failure failure, bool again, const char *text) {
    bt_status status = bt_get_within(ref, SOON, NULL);
    if (bt_ref_failure(ref) == failure && bt_failure_is_retryable(failure) == again &&
        (status == BT_OK) == (failure == BT_FAILURE_NONE) && strstr(bt_error_text(), text))
        return 0;
    fprintf(stderr, "not %d, \"%s\": %d, %s, \"%s\"\n", (int)failure, text, (int)bt_ref_failure(ref),
            bt_status_name(status), bt_error_text());
    return 1;
}

static int kinds(void) {
    int wrong = 0;
    if (bt_runtime_init(.num_cpus = 2, .store_bytes = 1 << 20) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *refused = bt_remote(refuse), *died = bt_remote(die), *slow = bt_remote(nap, 60000);
        wrong += bt_ref_failure(slow) != BT_FAILURE_NONE;
        wrong += expect(bt_remote(nothing), BT_FAILURE_NONE, false, "");
        wrong += expect(refused, BT_FAILURE_RETURNED, false, "not today");
        wrong += expect(bt_remote(nothing, refused), BT_FAILURE_RETURNED, false, "not today");
        wrong += expect(died, BT_FAILURE_PROCESS_DIED, true, "signal 9");
        wrong += expect(bt_remote(nothing, died), BT_FAILURE_PROCESS_DIED, true, "signal 9");
        wrong += expect(bt_remote_with(BT_OPTIONS(.num_gpus = 7), nothing), BT_FAILURE_REFUSED, false, "7 GPU");
        wrong += bt_cancel(slow, true) != BT_OK;
        wrong += expect(slow, BT_FAILURE_CANCELLED, false, "cancelled");
        wrong += expect(bt_remote_with(BT_OPTIONS(.deadline_seconds = 0.05), nap, 60000), BT_FAILURE_DEADLINE, false,
                        "deadline");
    }
    BT_SCOPE {
        bt_actor *actor = bt_actor_new(actor_new), *other = bt_actor_new(refuse);
        wrong += expect(bt_method(other, nothing), BT_FAILURE_RETURNED, false, "not today");
        bt_ref *running = bt_method(actor, die), *next = bt_method(actor, nothing);
        wrong += expect(running, BT_FAILURE_PROCESS_DIED, true, "signal 9");
        wrong += expect(next, BT_FAILURE_PROCESS_DIED, true, "signal 9");
        actor = bt_actor_new(actor_new);
        running = bt_method(actor, nap, 60000);
        wrong += bt_actor_kill(actor) != BT_OK;
        wrong += expect(running, BT_FAILURE_CANCELLED, false, "killed");
    }
    bt_error_clear();
    wrong += bt_ref_failure(NULL) != BT_FAILURE_NONE || !strstr(bt_error_text(), "bt_ref_failure: ");
    return wrong + (bt_runtime_shutdown() != BT_OK);
}

/* --- as if the kernel had ended it for want of memory -------------------------------------------------------------------- */

static char events[200];

static void tell_kills(int count) {
    FILE *file = fopen(events, "we");
    if (!file) exit(1);
    fprintf(file, "low 0\nhigh 0\nmax 12\noom %d\noom_kill %d\noom_group_kill 0\n", count, count);
    fclose(file);
}

static bt_status run_out(bt_task *task) {
    int64_t kills;
    bt_status status = bt_argument(task, 0, &kills);
    if (status != BT_OK) return status;
    tell_kills((int)kills);
    raise(SIGKILL);
    return BT_OK;
}
BT_REMOTE(run_out);

static int out_of_memory(void) {
    char folder[] = "/tmp/berth-cgroup-XXXXXX", groups[100];
    int wrong = 0;
    if (!mkdtemp(folder)) return 1;
    snprintf(events, sizeof events, "%s/memory.events", folder);
    snprintf(groups, sizeof groups, "%s/groups", folder);
    FILE *file = fopen(groups, "we");
    if (!file) return 1;
    fputs("0::/\n", file);
    fclose(file);
    tell_kills(3);
    bti_cgroup_look_at(groups, folder);
    if (bt_runtime_init(.num_cpus = 1) != BT_OK) return 1;
    BT_SCOPE {
        wrong += expect(bt_remote(die), BT_FAILURE_PROCESS_DIED, true, "signal 9");
        wrong += expect(bt_remote(run_out, 4), BT_FAILURE_OUT_OF_MEMORY, true, "no memory left");
        wrong += expect(bt_remote(die), BT_FAILURE_PROCESS_DIED, true, "signal 9");
        bt_actor *actor = bt_actor_new(actor_new);
        wrong += expect(bt_method(actor, run_out, 5), BT_FAILURE_OUT_OF_MEMORY, true, "no memory left");
        wrong += expect(bt_method(actor, nothing), BT_FAILURE_OUT_OF_MEMORY, true, "no memory left");
    }
    wrong += bt_runtime_shutdown() != BT_OK;
    unlink(events);
    unlink(groups);
    rmdir(folder);
    return wrong;
}

static const test_program programs[] = {
    {.name = "kinds", .run = kinds},
    {.name = "out_of_memory", .run = out_of_memory},
};

int main(int argc, char **argv) {
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}
