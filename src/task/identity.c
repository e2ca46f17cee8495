#include "task/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "task/dispatch.h"
#include "base/file_text.h"
#include "base/lock.h"

enum { STATUS_BYTES = 8192, MOST_GROUPS = 1024, LOOK_AT_GROUPS_NS = 1000000 };

/* --- the program ------------------------------------------------------------------------------------------------------- */

typedef struct numbers {
    uid_t users[3];
    gid_t groups[3];
    int others;
    uint64_t hash; /* of the other groups */
} numbers;

static struct {
    numbers known;
    uint64_t looked_ns; /* when the groups were read last */
    bti_lock lock;      /* protects the rest; the lock of the arena is taken under it */
} program = {.lock = BTI_LOCK_INIT(task_identity)};

static void read_users(numbers *now) { getresuid(&now->users[0], &now->users[1], &now->users[2]); }

static void read_groups(numbers *now) {
    gid_t others[MOST_GROUPS];
    getresgid(&now->groups[0], &now->groups[1], &now->groups[2]);
    now->others = getgroups(MOST_GROUPS, others);
    now->hash = 1469598103934665603u;
    for (int i = 0; i < now->others; i++) now->hash = (now->hash ^ others[i]) * 1099511628211u;
}

static bool may_change_identity(const numbers *now) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {{0}};
    const uint32_t wanted = 1u << CAP_SETUID | 1u << CAP_SETGID;
    if (syscall(SYS_capget, &head, sets) == 0 && (sets[0].permitted & wanted)) return true;
    return now->users[0] != now->users[1] || now->users[1] != now->users[2] || now->groups[0] != now->groups[1] ||
           now->groups[1] != now->groups[2];
}

void bti_identity_begin(bti_state *state) {
    program.known = (numbers){0};
    read_users(&program.known);
    read_groups(&program.known);
    program.looked_ns = bti_now_ns();
    state->identity_may_change = may_change_identity(&program.known);
    atomic_store(&state->program_user, program.known.users[1]);
}

/* With the lock. Workers that were forked with other rights get no more calls. */
static void retire_workers(bti_state *state) {
    for (bti_client *client = state->clients; client; client = client->next) {
        if (client->is_program || client->actor) continue;
        if (client->state == BTI_CLIENT_IDLE) {
            bti_idle_remove(state, client);
            BTI_SET(state->arena, client->kill, true);
        }
        BTI_SET(state->arena, client->ends_after, true);
        BTI_SET(state->arena, client->outdated, true);
    }
}

static void apply_identity(bti_state *state, const numbers *now) {
    bti_wakes wakes = {.nest = true};
    program.known = *now;
    atomic_store(&state->program_user, now->users[1]);
    bti_arena_lock(state->arena);
    retire_workers(state);
    bti_arena_unlock(state->arena);
    bti_wake(state, &wakes);
}

void bti_identity_check(bti_state *state) {
    if (!state->identity_may_change || !bti_process_now.me->is_program) return;
    bti_lock_take(&program.lock);
    numbers now = program.known;
    uint64_t time = bti_now_ns();
    read_users(&now);
    if (time - program.looked_ns > LOOK_AT_GROUPS_NS || memcmp(now.users, program.known.users, sizeof now.users) != 0) {
        program.looked_ns = time;
        read_groups(&now);
    }
    if (memcmp(&now, &program.known, sizeof now) != 0) apply_identity(state, &now);
    bti_lock_give(&program.lock);
}

/* --- a worker ------------------------------------------------------------------------------------------------------------ */

typedef struct rights {
    uint32_t users[4], groups[4]; /* real, effective, saved, of files */
    int count;
    gid_t others[MOST_GROUPS];
    uint64_t inheritable, permitted, effective, bounding, ambient;
    int no_new; /* no_new_privs */
} rights;

static void read_row(const char *text, const char *name, int count, int base, uint64_t *row_numbers) {
    const char *row = strstr(text, name);
    char *end = row ? (char *)(uintptr_t)row + strlen(name) : NULL;
    for (int i = 0; end && i < count; i++) row_numbers[i] = strtoull(end, &end, base);
}

static void read_other_groups(const char *text, rights *r) {
    const char *row = strstr(text, "\nGroups:"), *at = row ? row + 8 : "";
    while (r->count < MOST_GROUPS) {
        while (*at == ' ' || *at == '\t') at++;
        if (*at < '0' || *at > '9') return;
        char *end;
        r->others[r->count++] = (gid_t)strtoul(at, &end, 10);
        at = end;
    }
}

static bool read_rights(const char *process, rights *r) {
    static char text[STATUS_BYTES + 16 * MOST_GROUPS];
    char path[64];
    uint64_t row[4];
    snprintf(path, sizeof path, "/proc/%s/status", process);
    if (!bti_file_text(path, text, sizeof text)) return false;
    memset(r, 0, sizeof *r);
    read_row(text, "\nUid:", 4, 10, row);
    for (int i = 0; i < 4; i++) r->users[i] = (uint32_t)row[i];
    read_row(text, "\nGid:", 4, 10, row);
    for (int i = 0; i < 4; i++) r->groups[i] = (uint32_t)row[i];
    read_other_groups(text, r);
    read_row(text, "\nCapInh:", 1, 16, &r->inheritable);
    read_row(text, "\nCapPrm:", 1, 16, &r->permitted);
    read_row(text, "\nCapEff:", 1, 16, &r->effective);
    read_row(text, "\nCapBnd:", 1, 16, &r->bounding);
    read_row(text, "\nCapAmb:", 1, 16, &r->ambient);
    read_row(text, "\nNoNewPrivs:", 1, 10, row);
    r->no_new = row[0] == 1;
    return true;
}

static bool report_failed_change(const char *what) {
    char text[200];
    int length =
        snprintf(text, sizeof text, "berth: a worker cannot take the rights that the program has now: %s: %s\n", what,
                 strerror(errno));
    if (write(STDERR_FILENO, text, (size_t)length) < 0) errno = 0;
    return false;
}

static bool set_capabilities(const rights *r) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    for (int i = 0; i < 2; i++)
        sets[i] = (struct __user_cap_data_struct){.effective = (uint32_t)(r->effective >> 32 * i),
                                                  .permitted = (uint32_t)(r->permitted >> 32 * i),
                                                  .inheritable = (uint32_t)(r->inheritable >> 32 * i)};
    if (syscall(SYS_capset, &head, sets) != 0) return report_failed_change("capset");
    for (unsigned c = 0; c < 64; c++)
        if (r->ambient >> c & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0) != 0)
            return report_failed_change("PR_CAP_AMBIENT_RAISE");
    return true;
}

static bool change_rights(const rights *r, const rights *mine) {
    for (unsigned c = 0; c < 64; c++)
        if (mine->bounding & ~r->bounding & (uint64_t)1 << c && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) != 0)
            return report_failed_change("PR_CAPBSET_DROP");
    if ((r->count != mine->count || memcmp(r->others, mine->others, (size_t)r->count * sizeof *r->others) != 0) &&
        setgroups((size_t)r->count, r->others) != 0)
        return report_failed_change("setgroups");
    if (setresgid(r->groups[0], r->groups[1], r->groups[2]) != 0) return report_failed_change("setresgid");
    if (r->permitted && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return report_failed_change("PR_SET_KEEPCAPS");
    if (setresuid(r->users[0], r->users[1], r->users[2]) != 0) return report_failed_change("setresuid");
    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    if (!set_capabilities(r)) return false;
    if (r->no_new && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return report_failed_change("PR_SET_NO_NEW_PRIVS");
    return true;
}

bool bti_identity_take(const bti_state *state) {
    static rights theirs, mine, now;
    char process[16];
    if (!state->identity_may_change) return true;
    snprintf(process, sizeof process, "%d", (int)state->program->pid);
    bool read = read_rights(process, &theirs) && read_rights("self", &mine);
    int cause = errno;
    if (!read && kill(state->program->pid, 0) != 0 && errno == ESRCH) return false; /* it has ended: so does this one */
    errno = cause;
    if (!read) return report_failed_change("/proc");
    if (!memcmp(&theirs, &mine, sizeof mine)) return true;
    if (!change_rights(&theirs, &mine)) return false;
    if (!read_rights("self", &now)) return report_failed_change("/proc");
    errno = EPERM;
    return !memcmp(&theirs, &now, sizeof now) || report_failed_change("they are others still");
}
