// labels: threads
// timeout: 300
/* Workers that are stopped, write where they should not, or say what makes no sense: their own call fails, all others go on. */
#include <signal.h>
#include <unistd.h>

#include "support/programs.h"
#include "task/given.h"
#include "task/tasks.h"
#include "task/process.h"

/* --- functions --------------------------------------------------------------------------------------------------------- */

static bt_status twice(bt_task *task) {
    int64_t n;
    bt_status status = bt_argument(task, 0, &n);
    return status == BT_OK ? bt_return(task, 2 * n) : status;
}
BT_REMOTE(twice);

static bt_status stop(bt_task *task) { return raise(SIGSTOP), bt_return(task, (int)getpid()); }
BT_REMOTE(stop);

static bt_status stop_actor(bt_task *task) {
    bt_set_state(task, NULL, NULL);
    return BT_OK;
}
BT_REMOTE(stop_actor);

static bt_status number_of(bt_task *task) { return bt_return(task, (int)getpid()); }
BT_REMOTE(number_of);

/* Writes at random into what all processes of the runtime share. */
static bt_status write_records(bt_task *task) {
    memset(bti_process_now.state, 0x5a, 64);
    return bt_return(task, 1);
}
BT_REMOTE(write_records);

static bt_status write_lock(bt_task *task) {
    memset(&bti_process_now.state->arena->lock, 0x5a, sizeof bti_process_now.state->arena->lock);
    return bt_return(task, 1);
}
BT_REMOTE(write_lock);

/* The value of an argument is everybody's. */
static bt_status write_argument(bt_task *task) {
    bt_bytes bytes;
    bt_status status = bt_argument(task, 0, &bytes);
    if (status == BT_OK) memset((void *)(uintptr_t)bytes.data, 0x5a, bytes.size);
    return status;
}
BT_REMOTE(write_argument);

static bt_status write_other_mailbox(bt_task *task) {
    bti_mailbox *mine = bti_process_now.me->mail, *first = bti_process_now.state->mailboxes;
    memset(mine == first ? first + 1 : first, 0x5a, sizeof *mine);
    return bt_return(task, 1);
}
BT_REMOTE(write_other_mailbox);

/* What it may write: its own mailbox, and the bells. */
static bt_status write_mailbox(bt_task *task) {
    int64_t seed;
    if (bt_argument(task, 0, &seed) != BT_OK) return bt_error_status();
    bti_mailbox *mine = bti_process_now.me->mail;
    uint64_t random = (uint64_t)seed * 2 + 1;
    for (size_t i = 0; i < sizeof *mine; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (random >> 33 & 1) ((volatile char *)mine)[i] = (char)(random >> 40);
    }
    kill(getppid(), BTI_NEST_SIGNAL);
    usleep(1000);
    return bt_return(task, 1);
}
BT_REMOTE(write_mailbox);

static bt_status write_bells(bt_task *task) {
    memset(bti_process_now.state->bells, 0xff, sizeof *bti_process_now.state->bells);
    return bt_return(task, 1);
}
BT_REMOTE(write_bells);

/* Messages with a kind that may be, and anything else in them. */
static bt_status say_nonsense(bt_task *task) {
    int64_t seed;
    char bytes[4096];
    if (bt_argument(task, 0, &seed) != BT_OK) return bt_error_status();
    uint64_t random = (uint64_t)seed * 2 + 1;
    for (int n = 0; n < 20; n++) {
        uint64_t words[8];
        for (int i = 0; i < 8; i++) words[i] = random = random * 6364136223846793005u + 1442695040888963407u;
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(words[i % 8] >> i % 32);
        bti_message m = {.kind = (uint16_t)(words[0] >> 40) % 24,
                         .slot = (uint16_t)(words[1] >> 40) % 40,
                         .number = (uint32_t)(words[2] >> 60),
                         .status = (uint32_t)(words[3] >> 60),
                         .count = words[4] >> (words[4] & 63),
                         .length = words[5] % sizeof bytes};
        if (words[6] >> 62 == 0) m.hold = (bti_hold *)(uintptr_t)words[7];
        if (words[6] >> 62 == 1) m.hold = bti_process_now.me->holds;
        if (words[6] >> 62 == 2) m.hold = bti_process_now.state->program->holds;
        bti_mail_send(bti_process_now.state, bti_process_now.me, &m, bytes, NULL);
    }
    return bt_return(task, 1);
}
BT_REMOTE(say_nonsense);

/* In a thread of an actor that runs several methods: says the end of a call that it does not run, or more than once. */
static bt_status say_done(bt_task *task) {
    int which;
    if (bt_argument(task, 0, &which) != BT_OK) return bt_error_status();
    bti_client *me = bti_process_now.me;
    const bti_task_record *given, *mine = NULL, *waiting = NULL;
    while (!mine || !waiting) {
        usleep(1000);
        for (uint32_t at = 0; (given = bti_given_next(me, &at)) != NULL;) {
            if (!strcmp(given->function->name, "say_done")) mine = given;
            if (bti_given_is_waiting(given)) waiting = given;
        }
    }
    uint32_t numbers[] = {mine->number, mine->number + 1000, mine->number + BTI_GIVEN_SLOTS, waiting->number,
                          mine->number};
    char nothing[8] = {0};
    bti_message m = {.kind = BTI_SAYS_DONE, .number = numbers[which], .slot = BTI_NO_REPLY, .length = sizeof nothing};
    if (which == 4) m = (bti_message){.kind = BTI_ASKS_ROOM, .number = waiting->number, .slot = 100, .count = 100000};
    bti_mail_send(bti_process_now.state, me, &m, nothing, NULL);
    if (which == 0) bti_mail_send(bti_process_now.state, me, &m, nothing, NULL);
    usleep(20000000);
    return bt_return(task, 1);
}
BT_REMOTE(say_done);

static bt_status sleep_long(bt_task *task) { return usleep(20000000), bt_return(task, 1); }
BT_REMOTE(sleep_long);

/* --- programs ------------------------------------------------------------------------------------------------------------ */

static int others_go_on(int count) {
    for (int i = 0; i < count; i++) {
        int64_t y = 0;
        BT_SCOPE
            if (bt_get_within(bt_remote(twice, i), SOON, &y) != BT_OK || y != 2 * i) {
                fprintf(stderr, "twice(%d) is %lld: %s\n", i, (long long)y, bt_error_text());
                return 1;
            }
    }
    return 0;
}

static bool is_stopped(int pid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file && !fgets(text, sizeof text, file)) *text = 0;
    if (file) fclose(file);
    const char *at = strrchr(text, ')');
    return at && at[2] == 'T';
}

/* A worker that is stopped in its call, another in none, and an actor: nobody else waits. */
static int stopped_workers(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        int pid = 0, back = 0;
        bt_actor *actor = bt_actor_new(stop_actor);
        if (bt_get(bt_method(actor, number_of), &pid) != BT_OK) return 1;
        kill(pid, SIGSTOP);
        bt_ref *of_actor = bt_method(actor, number_of), *of_task = bt_remote(stop);
        if (bt_get_within(of_task, 0.5, NULL) != BT_DEADLINE_EXCEEDED) return 2;
        if (others_go_on(500)) return 1;
        if (bt_get_within(of_actor, 0.01, NULL) != BT_DEADLINE_EXCEEDED) return 3;
        kill(pid, SIGCONT);
        if (bt_get_within(of_actor, SOON, &back) != BT_OK || back != pid) return 4;
        if (bt_cancel(of_task, true) != BT_OK) return 5;
    }
    return bt_runtime_shutdown() != BT_OK;
}

/* An idle one that is stopped is given a call: another does it. */
static int stopped_while_idle(void) {
    if (bt_runtime_init(.num_cpus = 1) != BT_OK) return 1;
    BT_SCOPE {
        int pid = 0;
        if (bt_get(bt_remote(number_of), &pid) != BT_OK) return 1;
        kill(pid, SIGSTOP);
        if (others_go_on(100)) return 2;
    }
    return bt_runtime_shutdown() != BT_OK;
}

static int writers(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        static char large[100000];
        CHECK_FAILS(bt_get(bt_remote(write_records), NULL), BT_ABORTED, "signal 11");
        CHECK_FAILS(bt_get(bt_remote(write_lock), NULL), BT_ABORTED, "signal 11");
        CHECK_FAILS(bt_get(bt_remote(write_other_mailbox), NULL), BT_ABORTED, "signal 11");
        bt_ref *value = bt_put(((bt_bytes){large, sizeof large}));
        CHECK_FAILS(bt_get(bt_remote(write_argument, value), NULL), BT_ABORTED, "signal 11");
        bt_bytes got = {0};
        if (bt_get(value, &got) != BT_OK || memcmp(got.data, large, sizeof large) != 0) return 2;
        if (others_go_on(100)) return 1;
    }
    return bt_runtime_shutdown() != BT_OK;
}

static int damaged_mailboxes(void) {
    if (bt_runtime_init(.num_cpus = 3) != BT_OK) return 1;
    for (int seed = 0; seed < (is_slow() ? 10 : 60); seed++)
        BT_SCOPE {
            bt_status status = bt_get_within(bt_remote(write_mailbox, seed), SOON, NULL);
            if (status != BT_ABORTED && status != BT_OK) return fprintf(stderr, "%d: %s\n", seed, bt_error_text()), 2;
            if (others_go_on(5)) return 1;
        }
    BT_SCOPE
        if (bt_get_within(bt_remote(write_bells), SOON, NULL) != BT_OK || others_go_on(50)) return 3;
    return bt_runtime_shutdown() != BT_OK;
}

static int nonsense(void) {
    if (bt_runtime_init(.num_cpus = 3) != BT_OK) return 1;
    BT_SCOPE {
        bt_ref *kept = bt_put(7);
        for (int seed = 0; seed < (is_slow() ? 20 : 200); seed++)
            BT_SCOPE {
                int seven = 0;
                bt_status status = bt_get_within(bt_remote(say_nonsense, seed), SOON, NULL);
                if (status == BT_DEADLINE_EXCEEDED) return fprintf(stderr, "%d: %s\n", seed, bt_error_text()), 2;
                if (others_go_on(3) || bt_get(kept, &seven) != BT_OK || seven != 7) return 1;
            }
    }
    return bt_runtime_shutdown() != BT_OK;
}

/* What a thread of an actor says of calls that it does not run is not believed: the actor ends, and with it the calls that it ran. */
static int nonsense_of_threads(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    for (int which = 0; which < 5; which++)
        BT_SCOPE {
            bt_actor *actor = bt_actor_new_with(BT_OPTIONS(.max_concurrency = 2), stop_actor);
            bt_ref *runs = bt_method(actor, sleep_long), *wild = bt_method(actor, say_done, which);
            bt_ref *waits[] = {bt_method(actor, number_of), bt_method(actor, number_of)};
            bt_status ended = bt_get_within(wild, SOON, NULL);
            if (ended != (which ? BT_ABORTED : BT_OK)) return fprintf(stderr, "%d: %s\n", which, bt_error_text()), 2;
            CHECK_FAILS(bt_get_within(runs, SOON, NULL), BT_ABORTED, "makes no sense");
            for (int i = 0; i < 2; i++) CHECK_FAILS(bt_get_within(waits[i], SOON, NULL), BT_ABORTED, "makes no sense");
            if (others_go_on(20)) return 1;
        }
    return bt_runtime_shutdown() != BT_OK;
}

/* The program is stopped for longer than anything waits: its workers live, and go on with it. */
static int stopped_program(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    BT_SCOPE {
        int pid = 0;
        bt_actor *actor = bt_actor_new(stop_actor);
        if (bt_get(bt_method(actor, number_of), &pid) != BT_OK) return 1;
        tell_ready(pid);
        double until = seconds_now() + 4;
        while (seconds_now() < until)
            if (others_go_on(10)) return 2;
        int same = 0;
        if (bt_get(bt_method(actor, number_of), &same) != BT_OK || same != pid) return 3;
    }
    return bt_runtime_shutdown() != BT_OK;
}

static void stop_for_a_while(int pid) {
    int worker = told_number();
    kill(pid, SIGSTOP);
    if (!comes_true(is_stopped, pid, SOON)) fail_drive("it does not stop");
    sleep_seconds(2.5);
    if (!process_lives(worker)) fail_drive("a worker of a stopped program ended");
    kill(pid, SIGCONT);
}

/* It is stopped and then killed: everything ends. */
static int killed_while_stopped(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return 1;
    int pid = 0;
    bt_actor *actor = bt_actor_new(stop_actor);
    if (bt_get(bt_method(actor, number_of), &pid) != BT_OK) return 1;
    tell_ready(pid);
    for (;;) others_go_on(10);
}

static bool is_gone(int pid) { return !process_lives(pid); }

static void stop_and_kill(int pid) {
    int worker = told_number();
    kill(pid, SIGSTOP);
    sleep_seconds(0.3);
    kill(pid, SIGKILL);
    if (!comes_true(is_gone, worker, SOON)) fail_drive("a worker outlives its program");
}

static const test_program programs[] = {
    {.name = "stopped_workers", .run = stopped_workers},
    {.name = "stopped_while_idle", .run = stopped_while_idle},
    {.name = "writers", .run = writers},
    {.name = "damaged_mailboxes", .run = damaged_mailboxes, .seconds = 120},
    {.name = "nonsense", .run = nonsense, .seconds = 120},
    {.name = "nonsense_of_threads", .run = nonsense_of_threads},
    {.name = "stopped_program", .run = stopped_program, .drive = stop_for_a_while},
    {.name = "killed_while_stopped", .run = killed_while_stopped, .drive = stop_and_kill, .ends_by = SIGKILL},
};

int main(int argc, char **argv) {
    return run_test_programs(argc, argv, programs, (int)(sizeof programs / sizeof *programs));
}
