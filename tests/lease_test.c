// Leases between programs, of simulated GPUs: `berth run` as a user runs it, and the calls.
// timeout: 120
#include "command.h"
#include "lease_board.h"

/* Runs `BEFORE berth run ARGUMENTS` in the shell; its output, errors among it, is in `output`. The exit code. */
static int run(const char *before, const char *arguments) {
    return run_line("%s " COMMAND " run %s 2>&1", before, arguments);
}

#define SHOW "sh -c 'echo [$CUDA_VISIBLE_DEVICES] [$CUDA_DEVICE_ORDER] [$BERTH_FLAGS]'"

/* --- what the program is given ---------------------------------------------------------------------------------------- */

static void a_program_sees_its_gpus_alone(void **state) {
    assert_int_equal(run("", "--gpus 2 -- " SHOW), 0);
    assert_string_equal(output, "[0,1] [PCI_BUS_ID] [devices=sim:gpu*4@1G]\n");
    assert_int_equal(run("", "--gpus 1 --mem 64M -- " SHOW), 0);
    assert_string_equal(output, "[0] [PCI_BUS_ID] [devices=sim:gpu*4@1G,gpu_memory_limit=67108864]\n");
    assert_int_equal(run("CUDA_VISIBLE_DEVICES=' 3,+1x,2'", "--gpus 2 -- " SHOW), 0);
    assert_says("[3,1]");
    assert_int_equal(
        run("CUDA_VISIBLE_DEVICES=GPU-51000000-0000-0000-0000-000000000002,GPU-51000000-0000-0000-0000-000000000000",
            "--gpus 2 -- " SHOW),
        0);
    assert_says("[GPU-51000000-0000-0000-0000-000000000002,GPU-51000000-0000-0000-0000-000000000000] []");
    assert_int_equal(run("", "--gpus 3 -- " COMMAND " devices"), 0);
    assert_says("GPU:2");
    assert_null(strstr(output, "GPU:3"));
}

static void a_share_limits_gpus_and_nothing_else(void **state) {
    assert_int_equal(run("", "--gpus 1 --mem 64M -- " COMMAND " devices --json"), 0);
    json_t *list = json_loads(output, 0, NULL);
    assert_true(json_array_size(list) >= 2);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *device = json_array_get(list, i),
               *limit = json_object_get(json_object_get(device, "memory"), "limit_bytes");
        if (!strcmp(json_string_value(json_object_get(device, "kind")), "GPU"))
            assert_int_equal(json_integer_value(limit), 64 * MIB);
        else /* none, or what the machine allows */
            assert_int_not_equal(json_integer_value(limit), 64 * MIB);
    }
    json_decref(list);
    assert_int_equal(
        run("BERTH_FLAGS='devices=sim:gpu*1@1G,memory_limit=32M'", "--gpus 1 --mem 64M -- " COMMAND " devices --json"),
        0);
    assert_null(strstr(output, "67108864")); /* what was less stays */
}

static void exit_codes(void **state) {
    assert_int_equal(run("", "--gpus 1 -- sh -c 'exit 7'"), 7);
    assert_int_equal(run("", "--gpus 1 -- sh -c 'kill -TERM $$'; echo $?"), 0);
    assert_says("143");
    assert_int_equal(run("", "--gpus 1 -- /there/is/none"), 127);
    assert_says("/there/is/none: No such file");
    assert_int_equal(run("", "--gpus 1 -- /tmp"), 126);
    assert_int_equal(run("", "--gpus 5 -- true"), 69);
    assert_says("5 GPUs asked for, and there are 4");
    assert_int_equal(run("CUDA_VISIBLE_DEVICES=1", "--gpus 2 --wait -- true"), 69); /* at once, as it can never be */
    assert_says("there is 1 (CUDA_VISIBLE_DEVICES=\"1\")");
    assert_int_equal(run("BERTH_FLAGS='devices=sim:gpu*2@1G;sim:gpu*1@2G'", "--gpus 2 --mem 1.5G --wait -- true"), 69);
    assert_says("2 GPUs with 1.5 GiB each asked for, and of 3 only 1 has so much memory");
    assert_int_equal(run("BERTH_FLAGS=devices=nonsense", "--gpus 1 -- true"), 69);
    static const char *const wrong[] = {
        "",         "--gpus 1",          "--gpus 0 -- true", "--gpus x -- true",
        "-- true",  "--gpus 1 true",     "--gpus 1 --",      "--gpus 1 --mem 8X -- true",
        "--mem 1G", "--gpus 1 --mem -1", "--list --gpus 1",  "--gpus 1 --timeout x -- true",
        "--json",   "--list true",       "--nonsense"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (run("", wrong[i]) != 64) fail_msg("berth run %s: not 64, and:\n%s", wrong[i], output);
}

/* A caller without standard files: the program's are not lock files, which it would read and write. */
static void standard_files_stay_closed(void **state) {
    static const char before[] = "sh -c 'exec \"$@\" <&- >&- 2>&-' sh";
    for (int file = 0; file < 3; file++) {
        char line[100];
        snprintf(line, sizeof line, "--gpus 4 -- sh -c 'test ! -e /proc/$$/fd/%d'", file);
        assert_int_equal(run(before, line), 0);
    }
}

/* --- released ---------------------------------------------------------------------------------------------------------- */

static void tells_of_release(int line) {
    char text[100];
    snprintf(text, sizeof text, "released by bt_lease_release at lease_test.c:%d", line);
    if (!strstr(bt_error_text(), "the lease made at lease_test.c:") || !strstr(bt_error_text(), text))
        fail_msg("not released at line %d: %s", line, bt_error_text());
    assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
    bt_error_clear();
}

static void released_leases_are_refused(void **state) {
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 2));
    int ids[2] = {7, 7};
    assert_non_null(lease);
    bt_lease_release(lease);
    int line = __LINE__ - 1;
    bt_error_clear();
    assert_int_equal(bt_lease_gpus(lease, ids, 2), 0);
    tells_of_release(line);
    assert_int_equal(ids[0], 7);
    assert_string_equal(bt_lease_mask(lease), "");
    tells_of_release(line);
    bt_lease *other = bt_lease_take(BT_LEASE(.num_gpus = GPUS));
    assert_non_null(other);
    bt_lease_release(lease);
    tells_of_release(line);
    for (int g = 0; g < GPUS; g++) assert_int_equal(count_of(g, "holders"), 1); /* a release too many took none */
    bt_lease_release(other);
    for (int g = 0; g < GPUS; g++) assert_int_equal(count_of(g, "holders"), 0);
    bt_lease_release(NULL);
    assert_int_equal(bt_error_status(), BT_OK);
}

/* --- free and not free ------------------------------------------------------------------------------------------------- */

static void who_holds_is_named(void **state) {
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 3, .memory_bytes = 768 * MIB, .command = "a\ttest \xff"));
    char pid[64];
    assert_non_null(lease);
    snprintf(pid, sizeof pid, "GPU 2 is held by process %d since ", (int)getpid());
    assert_int_equal(run("", "--gpus 2 -- true"), 75);
    assert_says("there are no 2 GPUs free: GPU 0 is held by");
    assert_says(pid);
    assert_says("(768 MiB, a?test ?)");
    assert_int_equal(run("", "--gpus 2 --timeout 0.2 -- true"), 75);
    assert_says("free after 0.2");
    assert_int_equal(run("", "--gpus 4 --mem 128M -- true"), 0);
    assert_int_equal(run("", "--gpus 1 -- " SHOW), 0);
    assert_says("[3]");
    assert_int_equal(run("", "--list"), 0);
    assert_says("GPU 2, 1 GiB: 256 MiB free\n  held by process ");
    assert_says("GPU 3, 1 GiB: free\n");
    assert_int_equal(count_of(0, "holders"), 1);
    assert_int_equal(count_of(3, "holders"), 0);
    bt_lease_release(lease);
    assert_int_equal(run("", "--gpus 4 -- true"), 0);
}

static void shares_fit_wherever_memory_is_free(void **state) {
    bt_lease *leases[3];
    setenv("BERTH_FLAGS", "devices=sim:gpu*1@1G", 1);
    for (int i = 0; i < 3; i++) assert_non_null(leases[i] = bt_lease_take(BT_LEASE(.memory_bytes = 300 * MIB)));
    assert_null(bt_lease_take(BT_LEASE(.memory_bytes = 300 * MIB)));
    bt_lease_release(leases[1]);
    leases[1] = bt_lease_take(BT_LEASE(.memory_bytes = 400 * MIB)); /* in two parts */
    assert_non_null(leases[1]);
    assert_null(bt_lease_take(BT_LEASE(.memory_bytes = 25 * MIB)));
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1)));
    assert_int_equal(bt_error_status(), BT_RESOURCE_EXHAUSTED);
    assert_int_equal(run("", "--gpus 1 --mem 24M -- true"), 0);
    for (int i = 0; i < 3; i++) bt_lease_release(leases[i]);
    assert_int_equal(run("", "--gpus 1 -- true"), 0);
}

static void shares_go_where_the_least_is_left(void **state) {
    int id;
    bt_lease *first = bt_lease_take(BT_LEASE(.num_gpus = 2, .memory_bytes = 100 * MIB)); /* 0 and 1 */
    bt_lease *more = bt_lease_take(BT_LEASE(.memory_bytes = 600 * MIB));                 /* 0 */
    bt_lease *large = bt_lease_take(BT_LEASE(.memory_bytes = 500 * MIB)); /* 1, as it does not fit on 0 */
    bt_lease *whole = bt_lease_take(BT_LEASE(.num_gpus = 2));
    assert_true(first && more && large && whole);
    assert_int_equal(bt_lease_gpus(more, &id, 1), 1);
    assert_int_equal(id, 0);
    assert_string_equal(bt_lease_mask(large), "1");
    assert_string_equal(bt_lease_mask(whole), "2,3");
    bt_lease_release(first);
    bt_lease_release(more);
    bt_lease_release(large);
    bt_lease_release(whole);
}

static void wrong_options(void **state) {
    bt_lease_options old = {.size = 4};
    assert_null(bt_lease_take(NULL));
    assert_null(bt_lease_take(&old));
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = -1)));
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 65)));
    assert_int_equal(bt_error_status(), BT_INVALID_ARGUMENT);
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 5)));
    assert_int_equal(bt_error_status(), BT_NOT_FOUND);
    assert_int_equal(bt_lease_gpus(NULL, NULL, 0), 0);
    bt_lease_release(NULL);
}

/* --- who keeps a lease ------------------------------------------------------------------------------------------------- */

static void a_killed_holder_frees_at_once(void **state) {
    for (int i = 0; i < 5; i++) {
        pid_t child = start("--gpus 4 -- sleep 100");
        await_count(3, "holders", 1);
        assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1)));
        kill(child, SIGKILL);
        assert_int_equal(end_of(child), 128 + SIGKILL);
        bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 4));
        if (!lease) fail_msg("%s", bt_error_text());
        bt_lease_release(lease);
    }
}

static void what_a_program_left_running_keeps_its_lease(void **state) {
    pid_t child = start("--gpus 4 -- sh -c 'sleep 100 & exit 3'"), left;
    assert_int_equal(end_of(child), 3);
    assert_int_equal(count_of(0, "holders"), 1);
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1)));
    int found = 0;
    for (int i = 0; found != 1 && i < 1000; i++) { /* the shell may be gone before its child has become sleep */
        FILE *children = popen("pgrep -P $PPID -x sleep", "r"); /* its reaper is this process */
        assert_non_null(children);
        found = fscanf(children, "%d", &left);
        pclose(children);
    }
    assert_int_equal(found, 1);
    kill(left, SIGKILL);
    assert_int_equal(end_of(left), 128 + SIGKILL);
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 4));
    assert_non_null(lease);
    bt_lease_release(lease);
}

static void only_the_owner_gives_back(void **state) {
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 4));
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        bt_lease_release(lease); /* closes what the child has */
        _exit(0);
    }
    assert_int_equal(end_of(child), 0);
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1)));
    child = fork();
    if (!child) pause();
    bt_lease_release(lease); /* the child has it open still */
    lease = bt_lease_take(BT_LEASE(.num_gpus = 4));
    assert_non_null(lease);
    bt_lease_release(lease);
    kill(child, SIGKILL);
    end_of(child);
}

/* A program that a holder starts has nothing of it, unless it is to inherit. */
static void leases_of_calls_end_at_exec(void **state) {
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 4));
    fflush(NULL);
    pid_t child = fork();
    if (!child) execlp("sleep", "sleep", "100", NULL);
    sleep_ms(50);
    bt_lease_release(lease);
    assert_int_equal(run("", "--gpus 4 -- true"), 0);
    kill(child, SIGKILL);
    end_of(child);
}

/* --- hostile files ------------------------------------------------------------------------------------------------------ */

static void in_place_of_gpu(int gpu, const char *make) {
    char line[700];
    snprintf(line, sizeof line,
             "f=%s/berth-GPU-51000000-0000-0000-0000-00000000000%d.lock; rm -rf --one-file-system $f; umask 0; %s",
             folder, gpu, make);
    assert_int_equal(system(line), 0);
}

static void what_files_say_is_not_believed(void **state) {
    static const char *const contents[] = {"head -c 65536 /dev/urandom > $f",
                                           "yes 'berth holds 1 1 1 1 none' | head -c 100000 > $f",
                                           "printf 'berth holds 99999999999999999999 9999999999999999999 "
                                           "99999999999999999999999 9999999999999 %0600d' 1 > $f",
                                           "truncate -s 1T $f", ": > $f"};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        for (int g = 0; g < GPUS; g++) in_place_of_gpu(g, contents[i]);
        assert_int_equal(count_of(0, "holders"), 0);
        bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 4));
        assert_non_null(lease);
        for (int g = 0; g < GPUS; g++) { /* what the holder wrote is overwritten */
            char line[700];
            snprintf(line, sizeof line, "f=%s/berth-GPU-51000000-0000-0000-0000-00000000000%d.lock; %s", folder, g,
                     contents[i]);
            assert_int_equal(system(line), 0);
        }
        assert_int_equal(run("", "--list"), 0);
        assert_says("held by ");
        assert_int_equal(run("", "--list --json"), 0);
        json_t *all = json_loads(output, 0, NULL);
        assert_non_null(all);
        json_decref(all);
        assert_int_equal(run("", "--gpus 1 -- true"), 75);
        bt_lease_release(lease);
        assert_int_equal(run("", "--gpus 4 -- true"), 0);
    }
}

static void what_is_no_file_is_left_alone(void **state) {
    static const char *const makers[] = {"ln -s /etc/passwd $f",
                                         "mkdir $f",
                                         "mkfifo $f",
                                         "ln -s nowhere $f",
                                         "echo mine > ${f%/*}/mine; ln ${f%/*}/mine $f",
                                         "echo mine > $f; chmod 644 $f"};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        in_place_of_gpu(0, makers[i]);
        assert_int_equal(run("", "--gpus 3 -- " SHOW), 0);
        assert_says("[1,2,3]");
        assert_int_equal(run("", "--gpus 4 --wait -- true"), 69);
        assert_says("GPU 0 cannot be leased: its lock file ");
        assert_int_equal(run("", "--list"), 0);
        assert_says("GPU 0, 1 GiB: cannot be leased");
        in_place_of_gpu(0, ":");
    }
    char line[300];
    snprintf(line, sizeof line, "grep -qx mine %s/mine", folder);
    assert_int_equal(system(line), 0);
}

static void folders_that_cannot_be_used(void **state) {
    assert_int_equal(run("BERTH_LEASES=/proc/there/is/none", "--gpus 1 -- true"), 69);
    assert_says("the folder of lock files, /proc/there/is/none, cannot be made: No such file");
    assert_int_equal(run("BERTH_LEASES=/etc/passwd", "--gpus 1 --wait -- true"), 69);
    assert_says("cannot be opened: Not a directory");
    assert_int_equal(run("BERTH_LEASES=/proc", "--gpus 1 -- true"), 69); /* nothing can be made there, by whom ever */
    assert_says("GPU 0 cannot be leased: its lock file /proc/berth-GPU-");
    assert_int_equal(run("BERTH_LEASES=/proc", "--list"), 0);
    char before[300];
    struct stat facts;
    snprintf(before, sizeof before, "umask 077; BERTH_LEASES=%s/new", folder);
    assert_int_equal(run(before, "--gpus 1 -- true"), 0);
    snprintf(before, sizeof before, "%s/new", folder);
    assert_int_equal(stat(before, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 01777);
    strcat(before, "/berth-GPU-51000000-0000-0000-0000-000000000000.lock");
    assert_int_equal(stat(before, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0666);
}

/* Where others than root and this user could put other files in the place of lock files. */
static void folders_of_others_are_refused(void **state) {
    char path[280], before[500];
    snprintf(path, sizeof path, "%s/new", folder);
    snprintf(before, sizeof before, "BERTH_LEASES=%s", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(run(before, "--gpus 1 -- true"), 0);
    static const mode_t refused[] = {0777, 0770, 0720, 0702};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(chmod(path, refused[i]), 0);
        assert_int_equal(run(before, "--gpus 1 -- true"), 69);
        assert_says("others may write to it, and without the sticky bit they could replace lock files");
        assert_int_equal(run(before, "--list"), 69);
        assert_int_equal(chmod(path, refused[i] | 01000), 0);
        assert_int_equal(run(before, "--gpus 1 -- true"), 0);
    }
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(run(before, "--gpus 1 -- true"), 69);
        assert_says("belongs to user 12345, who could replace lock files: it must belong to root or to user 0");
    }
    snprintf(before, sizeof before, "ln -s . %s/link; BERTH_LEASES=%s/link/", folder, folder);
    assert_int_equal(run(before, "--gpus 1 -- true"), 69);
    assert_says("is a symbolic link, which could be turned to another folder");
}

/* A folder that belongs to root is for all users: each takes what others have not, with files that others made. */
static void users_share_a_folder_of_root(void **state) {
    if (geteuid() != 0) skip();
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 2)); /* makes files of root's */
    assert_non_null(lease);
    assert_int_equal(chmod(folder, 01777), 0);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        if (setgid(12345) || setuid(12345)) _exit(2);
        bt_lease *own_lease = bt_lease_take(BT_LEASE(.num_gpus = 2));
        bool right = own_lease && !strcmp(bt_lease_mask(own_lease), "2,3");
        if (!right) fprintf(stderr, "%s\n", bt_error_text());
        bool none = !bt_lease_take(BT_LEASE(.num_gpus = 1)) && bt_error_status() == BT_RESOURCE_EXHAUSTED;
        if (!none) fprintf(stderr, "%s\n", bt_error_text());
        _exit(!(right && none));
    }
    assert_int_equal(end_of(child), 0);
    bt_lease_release(lease);
    lease = bt_lease_take(BT_LEASE(.num_gpus = 4)); /* two files are the other user's */
    assert_non_null(lease);
    bt_lease_release(lease);
}

static void a_lock_file_that_is_deleted_is_noticed(void **state) {
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 4));
    pid_t child = start("--gpus 1 --wait -- true 2>/dev/null");
    await_count(0, "waiters", 1);
    in_place_of_gpu(2, ":");
    assert_int_equal(end_of(child), 69);
    bt_lease_release(lease);
}

int main(void) {
    find_own_path();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_program_sees_its_gpus_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_share_limits_gpus_and_nothing_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exit_codes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(standard_files_stay_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(released_leases_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_holds_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shares_fit_wherever_memory_is_free, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shares_go_where_the_least_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_killed_holder_frees_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_program_left_running_keeps_its_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_owner_gives_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leases_of_calls_end_at_exec, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_files_say_is_not_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_that_cannot_be_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_of_others_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(users_share_a_folder_of_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_file_that_is_deleted_is_noticed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
