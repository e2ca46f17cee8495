#include "lease/lock_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/quote.h"

#define MEMORY_END ((int64_t)1 << 60)
#define TICKETS MEMORY_END
#define TICKETS_END ((int64_t)1 << 61)
#define RECORDS TICKETS_END
#define ADOPTED (RECORDS + (1 << 20))
#define GATE ((int64_t)1 << 62)
#define PREFIX "berth-"
#define SUFFIX ".lock"

enum { MOST_RECORDS = 4096, RECORD_BYTES = 512 };

/* --- ranges ---------------------------------------------------------------------------------------------------------- */

static int set_lock(int file, int type, int64_t start, int64_t end) {
    struct flock range = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = end - start};
    return fcntl(file, F_OFD_SETLK, &range) ? errno : 0;
}

static bool lock_range(int file, int64_t start, int64_t end) { return set_lock(file, F_WRLCK, start, end) == 0; }
static void unlock_range(int file, int64_t start, int64_t end) { (void)!set_lock(file, F_UNLCK, start, end); }

/* Whether others lock a part of [start, end), and one such part, not always the first. If the kernel does not answer, all of it counts as
 * locked. */
static bool find_held_range(int file, int64_t start, int64_t end, int64_t *from, int64_t *to) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = end - start};
    *from = start;
    *to = end;
    if (fcntl(file, F_OFD_GETLK, &range)) return true;
    if (range.l_type == F_UNLCK) return false;
    if (range.l_start > start) *from = range.l_start;
    if (range.l_len && range.l_start + range.l_len < end) *to = range.l_start + range.l_len;
    return true;
}

static bool range_is_held(int file, int64_t start, int64_t end) {
    int64_t from, to;
    return find_held_range(file, start, end, &from, &to);
}

/* The first part of [start, end) that others do not lock; false: there is none. */
static bool find_free_range(int file, int64_t start, int64_t end, int64_t *from, int64_t *to) {
    int64_t held_from, held_to;
    for (*from = start, *to = end; *from < end;) {
        if (!find_held_range(file, *from, *to, &held_from, &held_to)) return true;
        if (held_from > *from)
            *to = held_from;
        else
            *from = held_to, *to = end;
    }
    return false;
}

/* --- folder and file ------------------------------------------------------------------------------------------------- */

/* A folder that depends on the machine alone, so that all users have the same; of root, so that nobody deletes the files of others. */
static const char *shared_folder(void) {
    struct stat facts;
    bool everybody = !lstat("/run/lock", &facts) && S_ISDIR(facts.st_mode) && (facts.st_mode & 01777) == 01777;
    return everybody && !facts.st_uid ? "/run/lock" : "/tmp";
}

/* The owner of a folder may delete and replace every file in it; without the sticky bit everyone who may write to it can. Then two programs
 * would lock different files. */
static bt_status check_folder(int folder, const char *path) {
    struct stat facts;
    if (fstat(folder, &facts))
        return bti_fail(BT_UNAVAILABLE, "the folder of lock files, %s: %s", path, strerror(errno));
    if (facts.st_uid && facts.st_uid != geteuid())
        return bti_fail(
            BT_UNAVAILABLE,
            "the folder of lock files, %s, belongs to user %u, who could replace lock files: it must belong to root "
            "or to user %u (BERTH_LEASES names another)",
            path, (unsigned)facts.st_uid, (unsigned)geteuid());
    if ((facts.st_mode & 022) && !(facts.st_mode & S_ISVTX))
        return bti_fail(
            BT_UNAVAILABLE,
            "the folder of lock files, %s, has mode %04o: others may write to it, and without the sticky bit they "
            "could replace lock files (\"chmod +t\" sets it)",
            path, (unsigned)facts.st_mode & 07777);
    return BT_OK;
}

static bt_status fail_to_open(const char *wanted, const char *path, int not_made, int not_opened) {
    struct stat facts;
    bool absent = not_opened == ENOENT;
    if (!absent && !lstat(wanted, &facts) && S_ISLNK(facts.st_mode))
        return bti_fail(BT_UNAVAILABLE,
                        "the folder of lock files, %s, is a symbolic link, which could be turned to another folder "
                        "(BERTH_LEASES names another)",
                        path);
    return bti_fail(BT_UNAVAILABLE, "the folder of lock files, %s, cannot be %s: %s (BERTH_LEASES names another)", path,
                    absent ? "made" : "opened", strerror(absent ? not_made : not_opened));
}

bt_status bti_lease_folder_open(int *folder, char path[static 256]) {
    const char *own = getenv("BERTH_LEASES");
    char wanted[PATH_MAX];
    int length = snprintf(wanted, sizeof wanted, "%s", own && *own ? own : shared_folder());
    snprintf(path, 256, "%s", bti_quote(wanted).text);
    if (length >= (int)sizeof wanted) return fail_to_open("", path, 0, ENAMETOOLONG);
    while (length > 1 && wanted[length - 1] == '/')
        wanted[--length] = '\0'; /* "link/" would name the target of the link */
    bool made = mkdir(wanted, 01777) == 0;
    int not_made = made ? 0 : errno;
    *folder = open(wanted, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (*folder < 0) return fail_to_open(wanted, path, not_made, errno);
    if (made) (void)!fchmod(*folder, 01777);
    bt_status status = check_folder(*folder, path);
    if (status != BT_OK) close(*folder), *folder = -1;
    return status;
}

static void pause_briefly(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

/* An existing file is opened without O_CREAT: in a shared folder the kernel may refuse that for files of others (fs.protected_regular). */
static int open_or_make(int folder, const char *name) {
    int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    for (int tries = 0;; tries++) {
        int file = openat(folder, name, flags);
        if (file >= 0) return file;
        if (errno == ENOENT) {
            file = openat(folder, name, flags | O_CREAT | O_EXCL, 0666);
            if (file >= 0) return (void)!fchmod(file, 0666), file;
            if (errno != EEXIST) return -1;
        } else if (errno != EACCES) {
            return -1;
        }
        if (tries == 5) return -1; /* another user is just making it: its mode is set in a moment */
        pause_briefly();
    }
}

/* Refuses a file that was put there for another purpose, whose content would be overwritten: a lock file is regular, has one name and mode
 * 0666. */
static int check_lock_file(const bti_lease_file *f, const struct stat *facts) {
    struct flock range = {.l_type = F_WRLCK, .l_start = GATE, .l_len = 1};
    if (!S_ISREG(facts->st_mode) || facts->st_nlink != 1) return EINVAL;
    if ((facts->st_mode & 0777) != 0666) return EPERM;
    return fcntl(f->file, F_OFD_GETLK, &range) ? errno : 0;
}

void bti_lease_file_open(bti_lease_file *f, int folder, const char *gpu) {
    struct stat facts = {0};
    *f = (bti_lease_file){.folder = folder, .ticket = -1, .record = -1};
    int length = snprintf(f->name, sizeof f->name, PREFIX "%s" SUFFIX, gpu);
    for (int i = 0; i < length; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.", f->name[i])) f->name[i] = '_';
    f->file = bti_file_above_standard(open_or_make(folder, f->name));
    if (f->file < 0) {
        f->fault = errno;
        return;
    }
    for (int tries = 0;; tries++) { /* another process is just making it: its mode is set in a moment */
        f->fault = fstat(f->file, &facts) ? errno : check_lock_file(f, &facts);
        if (f->fault != EPERM || tries == 5) break;
        pause_briefly();
    }
    f->inode = facts.st_ino;
    f->device = facts.st_dev;
    if (f->fault) bti_lease_file_close(f);
}

const char *bti_lease_file_fault(const bti_lease_file *f) {
    return f->fault == EINVAL  ? "is no file of its own"
           : f->fault == EPERM ? "is no lock file: its mode is not 0666"
                               : strerror(f->fault);
}

int bti_lease_find_open(int *files, int capacity) {
    int count = 0;
    DIR *rows = opendir("/proc/self/fd");
    for (struct dirent *row; rows && count < capacity && (row = readdir(rows)) != NULL;) {
        char path[PATH_MAX];
        struct stat facts;
        ssize_t length = readlinkat(dirfd(rows), row->d_name, path, sizeof path - 1);
        if (length < (ssize_t)strlen(SUFFIX)) continue;
        path[length] = '\0';
        const char *name = strrchr(path, '/');
        if (!name || strncmp(name + 1, PREFIX, strlen(PREFIX)) || strcmp(path + length - strlen(SUFFIX), SUFFIX))
            continue;
        int file = atoi(row->d_name);
        if (!fstat(file, &facts) && S_ISREG(facts.st_mode)) files[count++] = file;
    }
    if (rows) closedir(rows);
    return count;
}

void bti_lease_file_close(bti_lease_file *f) {
    if (f->file < 0) return;
    unlock_range(
        f->file, 0,
        GATE + 1); /* a child that was forked meanwhile has it open too, so closing alone would not release the locks */
    close(f->file);
    f->file = -1;
}

bool bti_lease_file_stands(const bti_lease_file *f) {
    struct stat facts;
    return !fstatat(f->folder, f->name, &facts, AT_SYMLINK_NOFOLLOW) && facts.st_ino == f->inode;
}

/* --- the queue -------------------------------------------------------------------------------------------------------- */

bool bti_lease_gate_try(const bti_lease_file *f) { return lock_range(f->file, GATE, GATE + 1); }
void bti_lease_gate_open(const bti_lease_file *f) { unlock_range(f->file, GATE, GATE + 1); }

int64_t bti_lease_next_ticket(const bti_lease_file *f) {
    int64_t next = TICKETS, from, to;
    while (next < TICKETS_END && find_held_range(f->file, next, TICKETS_END, &from, &to)) next = to;
    return next - TICKETS;
}

bool bti_lease_draw_ticket(bti_lease_file *f, int64_t ticket) {
    if (!lock_range(f->file, TICKETS + ticket, TICKETS + ticket + 1)) return false;
    f->ticket = ticket;
    return true;
}

void bti_lease_drop_ticket(bti_lease_file *f) {
    if (f->ticket >= 0) unlock_range(f->file, TICKETS + f->ticket, TICKETS + f->ticket + 1);
    f->ticket = -1;
}

bool bti_lease_is_behind(const bti_lease_file *f) {
    return f->ticket > 0 && range_is_held(f->file, TICKETS, TICKETS + f->ticket);
}

/* --- memory ----------------------------------------------------------------------------------------------------------- */

uint64_t bti_lease_free_bytes(const bti_lease_file *f, uint64_t whole) {
    uint64_t bytes = 0;
    int64_t from, to = 0;
    while (find_free_range(f->file, to, (int64_t)whole, &from, &to)) bytes += (uint64_t)(to - from);
    return bytes;
}

bool bti_lease_is_free(const bti_lease_file *f) { return !range_is_held(f->file, 0, MEMORY_END); }

void bti_lease_let_go(const bti_lease_file *f) {
    unlock_range(f->file, 0, MEMORY_END);
    unlock_range(f->file, ADOPTED, ADOPTED + MOST_RECORDS);
}

bool bti_lease_hold(const bti_lease_file *f, uint64_t bytes, uint64_t whole) {
    int64_t from, to = 0, left = (int64_t)bytes;
    if (!bytes) return lock_range(f->file, 0, MEMORY_END);
    while (left && find_free_range(f->file, to, (int64_t)whole, &from, &to)) {
        if (to - from > left) to = from + left;
        if (lock_range(f->file, from, to)) left -= to - from;
    }
    if (left) bti_lease_let_go(f);
    return !left;
}

/* --- records ---------------------------------------------------------------------------------------------------------- */

static int lock_new_record(int file) {
    int64_t from, to = RECORDS;
    while (find_free_range(file, to, RECORDS + MOST_RECORDS, &from, &to)) {
        if (lock_range(file, from, from + 1)) return (int)(from - RECORDS);
        to = from + 1;
    }
    return -1;
}

void bti_lease_tell(bti_lease_file *f, const bti_lease_record *record) {
    char text[RECORD_BYTES] = {0};
    if (f->record < 0) f->record = lock_new_record(f->file);
    if (f->record < 0) return;
    snprintf(text, sizeof text, "berth %s %ld %" PRId64 " %" PRIu64 " %d %s\n", record->waits ? "waits" : "holds",
             record->pid, record->since, record->memory_bytes, record->num_gpus, record->command);
    BTI_WRITES;
    (void)!pwrite(f->file, text, sizeof text, (off_t)f->record * RECORD_BYTES);
}

static void read_record(int file, int number, bti_lease_record *record) {
    char text[RECORD_BYTES + 1] = {0}, state[6] = "";
    int at = 0;
    *record = (bti_lease_record){0};
    if (pread(file, text, RECORD_BYTES, (off_t)number * RECORD_BYTES) <= 0) return;
    text[strcspn(text, "\n")] = '\0';
    int read = sscanf(text, "berth %5s %ld %" SCNd64 " %" SCNu64 " %d %n", state, &record->pid, &record->since,
                      &record->memory_bytes, &record->num_gpus, &at);
    record->waits = !strcmp(state, "waits");
    record->readable = read == 5 && at && record->pid > 0 && (record->waits || !strcmp(state, "holds"));
    memcpy(record->command, bti_quote(text + at).text, sizeof record->command);
    for (char *c = record->command; *c; c++)
        if ((unsigned char)*c > 0x7e) *c = '?';
}

bool bti_lease_next_record(const bti_lease_file *f, int *at, bti_lease_record *record) {
    for (; *at < MOST_RECORDS; ++*at) {
        int64_t from, to, until = RECORDS + MOST_RECORDS;
        if (!find_held_range(f->file, RECORDS + *at, until, &from, &to)) return false;
        if (!range_is_held(f->file, RECORDS + *at, RECORDS + *at + 1)) continue;
        read_record(f->file, (*at)++, record);
        return true;
    }
    return false;
}

/* --- leases within leases ------------------------------------------------------------------------------------------------ */

/* The number, from 1, of the record that `file`, another open file of the same lock file, locks; 0: none. The byte is locked for f and free
 * for `file`. */
static int find_record_of(int file, const bti_lease_file *f) {
    int64_t from, to, end = RECORDS + MOST_RECORDS;
    for (int64_t at = RECORDS; at < end && find_held_range(f->file, at, end, &from, &to); at++)
        if (range_is_held(f->file, at, at + 1) && !range_is_held(file, at, at + 1)) return (int)(at - RECORDS) + 1;
    return 0;
}

int bti_lease_find_enclosing(const bti_lease_file *f, const int *files, int count) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        struct stat facts;
        if (fstat(files[i], &facts) || facts.st_ino != f->inode || facts.st_dev != f->device) continue;
        int record = find_record_of(files[i], f);
        if (record && !bti_lease_is_adopted(f, record)) return record;
        if (record) found = record;
    }
    return found;
}

bool bti_lease_is_adopted(const bti_lease_file *f, int lease) {
    return lease > 0 && range_is_held(f->file, ADOPTED + lease - 1, ADOPTED + lease);
}

bool bti_lease_adopt(const bti_lease_file *f, int lease) {
    return lock_range(f->file, ADOPTED + lease - 1, ADOPTED + lease);
}
