#include "task/energy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/cards.h"
#include "device/trial.h"
#include "task/gpu_use.h"

enum { READING_MS = 1000, IDLE_READINGS = 20 };

/* --- the board ---------------------------------------------------------------------------------------------------------- */

static const char why_not_read[] = "the runtime's GPUs are simulated, or no driver reads their energy";

void bti_energy_board_begin(bti_state *state) {
    state->gpu_energy_is_read = state->gpu_count && bti_cards_have_energy();
    if (!state->gpu_energy_is_read) memcpy(state->energy->why, why_not_read, sizeof why_not_read);
}

/* The reader tries again while it is written, which takes microseconds. */
void bti_energy_board_copy(const bti_state *state, bti_energy_board *copy) {
    const struct timespec pause = {0, 100000};
    for (int tries = 0; tries < 100; tries++) {
        unsigned turn = atomic_load(&state->energy->turn);
        memcpy(copy, state->energy, sizeof *copy);
        atomic_thread_fence(memory_order_acquire);
        if (!(turn & 1) && atomic_load(&state->energy->turn) == turn) return;
        nanosleep(&pause, NULL);
    }
    *copy = (bti_energy_board){.why = "the process that reads it was ended while it wrote"};
}

static void write_board(const bti_state *state, const bti_energy_board *now) {
    bti_energy_board *board = state->energy;
    const size_t first = offsetof(bti_energy_board, read_ns);
    atomic_fetch_or(&board->turn, 1u); /* it may be odd, if a process before was ended */
    atomic_thread_fence(memory_order_release);
    memcpy((char *)board + first, (const char *)now + first, sizeof *now - first);
    atomic_fetch_add(&board->turn, 1u);
}

/* --- in the process that reads ------------------------------------------------------------------------------------------ */

typedef struct reading {
    bti_energy_board *now;
    const bti_energy_board *before;
    double used[BTI_MOST_GPUS];    /* joules since the reading before; negative: not known */
    int64_t shares[BTI_MOST_GPUS]; /* of all tasks that have the GPU */
    bool divides;                  /* the shares are counted, and tasks get their parts */
    bool any;
} reading;

static void read_gpus(reading *r, int count) {
    static bti_card_energy cards[BTI_MOST_GPUS];
    int found;
    bti_cards_energy(cards, count, &found);
    uint64_t now_ns = bti_now_ns();
    double seconds = r->before->read_ns ? (double)(now_ns - r->before->read_ns) * 1e-9 : 0;
    for (int g = 0; g < count; g++) {
        bti_gpu_energy *gpu = &r->now->gpus[g];
        const bti_gpu_energy *before = &r->before->gpus[g];
        bool known = g < found && !*cards[g].why;
        r->used[g] = known && before->known ? cards[g].joules - before->counter : -1;
        *gpu = (bti_gpu_energy){.known = known, .joules = before->joules};
        if (g >= found)
            snprintf(gpu->why, sizeof gpu->why, "the GPU is no longer there");
        else if (!known)
            snprintf(gpu->why, sizeof gpu->why, "%.159s", cards[g].why);
        else
            gpu->counter = cards[g].joules;
        if (r->used[g] < 0) continue;
        gpu->joules += r->used[g];
        gpu->watts = seconds > 0 ? r->used[g] / seconds : 0;
    }
    r->now->read_ns = now_ns;
}

static const bti_task_energy *energy_before(const reading *r, uint64_t sequence) {
    for (int i = 0; i < r->before->task_count; i++)
        if (r->before->tasks[i].sequence == sequence) return &r->before->tasks[i];
    return NULL;
}

/* The part of the time since the reading before in which it had its GPUs. */
static double part_of_time(const reading *r, uint64_t begun_ns) {
    uint64_t from = r->before->read_ns, to = r->now->read_ns;
    if (begun_ns <= from) return 1;
    return begun_ns < to ? (double)(to - begun_ns) / (double)(to - from) : 0;
}

static void visit_holder(const bti_gpu_holder *holder, void *data) {
    reading *r = data;
    r->any = true;
    if (!r->divides) {
        for (int g = 0; g < BTI_MOST_GPUS; g++)
            if (holder->gpus >> g & 1) r->shares[g] += holder->share;
        return;
    }
    if (r->now->task_count == BTI_METERED_MOST) return;
    const bti_task_energy *before = energy_before(r, holder->sequence);
    bti_task_energy *task = &r->now->tasks[r->now->task_count++];
    *task = before ? *before : (bti_task_energy){.sequence = holder->sequence, .known = true};
    for (int g = 0; g < BTI_MOST_GPUS; g++) {
        if (!(holder->gpus >> g & 1)) continue;
        if (!r->now->gpus[g].known || (r->before->gpus[g].known && r->used[g] < 0)) task->known = false;
        if (r->used[g] > 0 && r->shares[g] > 0)
            task->joules +=
                r->used[g] * part_of_time(r, holder->begun_ns) * (double)holder->share / (double)r->shares[g];
    }
}

/* Whether a task has a GPU. */
static bool read_once(const bti_state *state) {
    static bti_energy_board boards[2];
    memcpy(&boards[0], state->energy, sizeof boards[0]); /* nobody else writes it */
    memset(&boards[1], 0, sizeof boards[1]);
    reading r = {.now = &boards[1], .before = &boards[0]};
    read_gpus(&r, state->gpu_count);
    bti_gpus_each_holder(state, visit_holder, &r);
    r.divides = true;
    bti_gpus_each_holder(state, visit_holder, &r);
    write_board(state, r.now);
    return r.any;
}

static _Noreturn void keep_reading(const bti_state *state) {
    bti_trial_begin_child(-1);
    if (getppid() != state->nest_pid) _exit(1);
    prctl(PR_SET_NAME, "berth energy");
    signal(SIGCHLD, SIG_DFL);
    bti_gpus_show_all(state);
    for (int idle = 0; idle < IDLE_READINGS;) {
        idle = read_once(state) ? 0 : idle + 1;
        nanosleep(&(struct timespec){READING_MS / 1000, READING_MS % 1000 * 1000000}, NULL);
    }
    _exit(0);
}

/* --- in the nest -------------------------------------------------------------------------------------------------------- */

static pid_t reader; /* 0: there is none */

static bool is_any_used(const bti_state *state) {
    for (int g = 0; g < state->gpu_count; g++)
        if (state->machine.gpu_free[g] < BTI_UNIT) return true;
    return false;
}

void bti_energy_check(bti_state *state) {
    if (reader || !state->gpu_energy_is_read || *state->energy->why || !is_any_used(state)) return;
    pid_t child = fork();
    if (!child) keep_reading(state);
    if (child > 0) reader = child;
}

/* A library that crashes is not tried again. */
bool bti_energy_ended(const bti_state *state, pid_t pid, int status) {
    static bti_energy_board last;
    if (!reader || pid != reader) return false;
    reader = 0;
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return true;
    memset(&last, 0, sizeof last);
    if (WIFSIGNALED(status))
        snprintf(last.why, sizeof last.why, "the process that reads it was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(last.why, sizeof last.why, "the process that reads it ended with exit code %d", WEXITSTATUS(status));
    write_board(state, &last);
    return true;
}

void bti_energy_end(void) {
    if (reader) kill(reader, SIGKILL);
}
