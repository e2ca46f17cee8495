// Many processes after few simulated GPUs: never two on one, shares within the whole, in order of arrival, whoever is killed.
// labels: threads
// timeout: 300
#include "lease_board.h"

#include <time.h>

static uint64_t state_of_random;

static unsigned below(unsigned n) { /* xorshift */
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return (unsigned)(state_of_random >> 33) % n;
}

static bool is_short(void) { return getenv("BERTH_TEST_SHORT") && !getenv("BERTH_TEST_LONG"); }
static void seed(unsigned number) { state_of_random = (number + 1) * 0x9e3779b97f4a7c15u; }

/* --- as a program that a lease is for: OWN inside BOARD MS NUMBER ------------------------------------------------------- */

static int read_ids(int *ids) {
    int count = 0;
    for (const char *at = getenv("CUDA_VISIBLE_DEVICES"); at && *at; at += *at == ',')
        if (count < GPUS) ids[count++] = (int)strtol(at, (char **)&at, 10);
    return count;
}

static int be_inside(char **words) {
    int ids[GPUS], count = read_ids(ids);
    char limit[40] = "";
    const char *flag = strstr(getenv("BERTH_FLAGS"), "gpu_memory_limit=");
    if (flag) sscanf(flag, "gpu_memory_limit=%39s", limit);
    seen = open_board(words[0]);
    enter(seen, ids, count, atoll(limit));
    atomic_store(&seen->order[atomic_fetch_add(&seen->next, 1)], atoi(words[2]));
    sleep_ms(atoi(words[1]));
    go(seen, ids, count, atoll(limit));
    return 0;
}

/* --- fifty after four ---------------------------------------------------------------------------------------------------- */

static void take_by_call(int wanted, uint64_t share) {
    int ids[GPUS];
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = wanted, .memory_bytes = share, .wait = true));
    int count = bt_lease_gpus(lease, ids, GPUS);
    if (count != wanted) _exit(1);
    enter(seen, ids, count, (long long)share);
    usleep(below(4000));
    go(seen, ids, count, (long long)share);
    bt_lease_release(lease);
}

static void take_by_command(int wanted, uint64_t share) {
    char line[1000], memory[40] = "";
    if (share) snprintf(memory, sizeof memory, "--mem %llu", (unsigned long long)share);
    snprintf(line, sizeof line, "--gpus %d %s --wait -- %s inside %s %u 0 2>/dev/null", wanted, memory, own, board_path,
             below(4));
    if (end_of(start(line))) _exit(2);
}

static void fifty_processes_and_four_gpus(void **state) {
    enum { PROCESSES = 50 };
    const int rounds = is_short() ? 2 : 5;
    pid_t children[PROCESSES];
    fflush(NULL);
    for (unsigned i = 0; i < PROCESSES; i++) {
        if ((children[i] = fork())) continue;
        seed(i);
        for (int round = 0; round < rounds; round++) {
            int wanted = (int)below(GPUS) + 1;
            uint64_t share = below(2) ? (below(500) + 1) * MIB : 0;
            (below(4) ? take_by_call : take_by_command)(wanted, share);
        }
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) assert_int_equal(end_of(children[i]), 0);
    assert_int_equal(seen->faults, 0);
    assert_int_equal(seen->leases, PROCESSES * rounds);
    printf("%d leases, at most %d shares of a GPU at a time\n", seen->leases,
           seen->peak); /* a busy machine may keep them apart */
    for (int g = 0; g < GPUS; g++) assert_int_equal(count_of(g, "holders") + count_of(g, "waiters"), 0);
}

/* --- order ---------------------------------------------------------------------------------------------------------------- */

static pid_t start_in_line(int number, int gpus) {
    char line[700];
    snprintf(line, sizeof line, "--gpus %d --wait -- %s inside %s 1 %d 2>/dev/null", gpus, own, board_path, number);
    pid_t child = start(line);
    return child;
}

static void waiters_go_in_order_of_arrival(void **state) {
    enum { WAITERS = 12 };
    pid_t children[WAITERS];
    seed(1);
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = GPUS));
    for (int i = 0; i < WAITERS; i++) {
        children[i] = start_in_line(i, 3 + (int)below(2)); /* never two at a time */
        await_count(0, "waiters", i + 1);
    }
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1)));
    assert_non_null(strstr(bt_error_text(), "GPU 0 is waited for by 11 others"));
    for (int i = 0; i < WAITERS; i += 4) { /* the first, and some in the midst */
        kill(children[i], SIGKILL);
        assert_int_equal(end_of(children[i]), 128 + SIGKILL);
    }
    assert_int_equal(count_of(0, "waiters"), WAITERS - 3);
    bt_lease_release(lease);
    for (int i = 0; i < WAITERS; i++)
        if (i % 4) assert_int_equal(end_of(children[i]), 0);
    assert_int_equal(seen->next, WAITERS - 3);
    for (int i = 0, at = 0; i < WAITERS; i++)
        if (i % 4) assert_int_equal(seen->order[at++], i);
}

static void nobody_overtakes_who_wants_many(void **state) {
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 1));
    pid_t many = start_in_line(0, 4);
    await_count(3, "waiters", 1);
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1))); /* three are free, but not for him */
    assert_int_equal(bt_error_status(), BT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(bt_error_text(), "GPU 3 is waited for by process "));
    pid_t one = start_in_line(1, 1);
    await_count(3, "waiters", 2);
    bt_lease_release(lease);
    assert_int_equal(end_of(many), 0);
    assert_int_equal(end_of(one), 0);
    assert_int_equal(seen->order[0], 0);
    assert_int_equal(seen->order[1], 1);
}

static void who_wants_other_gpus_is_not_held_up(void **state) {
    setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = 2));
    pid_t waiter = start_in_line(0, 2);
    await_count(1, "waiters", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3,2", 1);
    bt_lease *other = bt_lease_take(BT_LEASE(.num_gpus = 2));
    assert_string_equal(bt_lease_mask(other), "3,2");
    unsetenv("CUDA_VISIBLE_DEVICES");
    bt_lease_release(lease);
    assert_int_equal(end_of(waiter), 0);
    bt_lease_release(other);
}

static void a_wait_ends_in_time(void **state) {
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = GPUS));
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1, .wait = true, .timeout_seconds = 0.1)));
    assert_int_equal(bt_error_status(), BT_DEADLINE_EXCEEDED);
    pid_t stopped = start_in_line(0, 1);
    await_count(0, "waiters", 1);
    kill(stopped, SIGSTOP); /* keeps his place, and others their deadlines */
    bt_lease_release(lease);
    assert_null(bt_lease_take(BT_LEASE(.num_gpus = 1, .wait = true, .timeout_seconds = 0.1)));
    kill(stopped, SIGCONT);
    assert_int_equal(end_of(stopped), 0);
    lease = bt_lease_take(BT_LEASE(.num_gpus = 4));
    assert_non_null(lease);
    bt_lease_release(lease);
}

/* --- killed at random ------------------------------------------------------------------------------------------------------ */

/* Takes whole GPUs again and again, until it is killed. While it holds some, nobody else may say so, but who is being killed. */
static _Noreturn void take_for_ever(int slot) {
    int ids[GPUS];
    seed((unsigned)slot);
    for (;;) {
        int mask = 0, wanted = (int)below(GPUS) + 1;
        bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = wanted, .wait = true));
        if (bt_lease_gpus(lease, ids, GPUS) != wanted) _exit(1);
        for (int i = 0; i < wanted; i++) mask |= 1 << ids[i];
        atomic_store(&seen->held[slot], mask);
        for (int other = 0; other < SLOTS; other++)
            if (other != slot && atomic_load(&seen->held[other]) & mask && !atomic_load(&seen->doomed[other]))
                atomic_fetch_add(&seen->faults, 1);
        atomic_fetch_add(&seen->leases, 1);
        usleep(below(40000));
        atomic_store(&seen->held[slot], 0);
        bt_lease_release(lease);
    }
}

static void the_killed_hold_nothing_and_block_nobody(void **state) {
    enum { PROCESSES = 16 };
    const int kills = is_short() ? 60 : 200;
    pid_t children[PROCESSES];
    int slots[PROCESSES], slot = 0, holders = 0;
    fflush(NULL);
    seed(7);
    for (int i = -PROCESSES; i < kills; i++) {
        int k = i < 0 ? i + PROCESSES : (int)below(PROCESSES);
        if (i >= 0) {
            usleep(below(20000));
            for (int j = 0; j < PROCESSES && i % 2; j++) /* each second time one that holds some */
                if (atomic_load(&seen->held[slots[j]])) k = j;
            atomic_store(&seen->doomed[slots[k]], true);
            kill(children[k], SIGKILL);
            assert_int_equal(end_of(children[k]), 128 + SIGKILL);
            holders += atomic_load(&seen->held[slots[k]]) != 0;
        }
        slots[k] = slot++;
        children[k] = fork();
        if (!children[k]) take_for_ever(slots[k]);
    }
    for (int k = 0; k < PROCESSES; k++) {
        atomic_store(&seen->doomed[slots[k]], true);
        kill(children[k], SIGKILL);
    }
    for (int k = 0; k < PROCESSES; k++) assert_int_equal(end_of(children[k]), 128 + SIGKILL);
    bt_lease *lease = bt_lease_take(BT_LEASE(.num_gpus = GPUS));
    if (!lease) fail_msg("%s", bt_error_text());
    bt_lease_release(lease);
    assert_int_equal(seen->faults, 0);
    assert_true(seen->leases > kills / 8 && holders);
    print_message("%d leases; %d of %d killed held one\n", seen->leases, holders, kills);
}

int main(int argc, char **argv) {
    if (argc == 5 && !strcmp(argv[1], "inside")) return be_inside(argv + 2);
    find_own_path();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fifty_processes_and_four_gpus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waiters_go_in_order_of_arrival, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_overtakes_who_wants_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_wants_other_gpus_is_not_held_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wait_ends_in_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_killed_hold_nothing_and_block_nobody, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
