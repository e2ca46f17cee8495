// labels: valgrind
/* safetensors: what is saved comes back, damage of every kind is refused with its offset, and an interrupted save leaves the
 * old file. */
#include "file_cases.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void every_dtype_and_shape_comes_back(void **state) {
    (void)state;
    static const bt_shape shapes[] = {{0, {0}},       {1, {5}}, {2, {2, 3}},
                                      {3, {2, 0, 3}}, {1, {0}}, {8, {1, 2, 1, 2, 1, 2, 1, 1}}};
    enum { SHAPES = sizeof shapes / sizeof *shapes, DTYPES = BT_C128 /* all but that one */, COUNT = SHAPES * DTYPES };
    char names[COUNT][64];
    const char *pointers[COUNT];
    BT_SCOPE {
        bt_array *arrays[COUNT];
        for (int i = 0; i < COUNT; i++) {
            bt_dtype dtype = (bt_dtype)(i % DTYPES);
            snprintf(names[i], sizeof names[i], "%s \"%d\" \xc3\xa9", bt_dtype_name(dtype), i / DTYPES);
            pointers[i] = names[i];
            arrays[i] = numbered(dtype, shapes[i / DTYPES]);
        }
        static const char *const metadata[] = {"format", "pt", "k\xc3\xa9y", "a \"text\"\n", NULL};
        bt_array *wide = bt_zeros(BT_C128, 2);
        assert_int_equal(bt_save(path_of("wide"), pointers, &wide, 1, NULL), BT_UNIMPLEMENTED);
        assert_non_null(strstr(bt_error_text(), "which safetensors has not"));
        OK(bt_save(path_of("all"), pointers, arrays, COUNT, metadata));
        bt_tensors *tensors;
        OK(bt_tensors_open(path_of("all"), &tensors));
        assert_int_equal(bt_tensors_count(tensors), COUNT);
        assert_string_equal(bt_tensors_metadata(tensors, "format"), "pt");
        assert_string_equal(bt_tensors_metadata(tensors, "k\xc3\xa9y"), "a \"text\"\n");
        assert_null(bt_tensors_metadata(tensors, "absent"));
        for (int i = 0; i < COUNT; i++) expect_same(bt_tensors_get(tensors, names[i]), arrays[i]);
        expect_poison(bt_tensors_get(tensors, "absent"), BT_NOT_FOUND, "no tensor \"absent\"");
        assert_null(bt_tensors_name(tensors, COUNT));
        assert_null(bt_tensors_name(tensors, -1));
        bt_tensors_close(tensors);
    }
}

static void an_empty_file_is_16_bytes(void **state) {
    (void)state;
    OK(bt_save(path_of("none"), NULL, NULL, 0, NULL));
    bt_tensors *tensors;
    OK(bt_tensors_open(path_of("none"), &tensors));
    assert_int_equal(bt_tensors_count(tensors), 0);
    bt_tensors_close(tensors);
    expect_bytes("none", "\x08\0\0\0\0\0\0\0{}      ", 16);
    bt_tensors_close(NULL);
}

static void bad_arguments_write_nothing(void **state) {
    (void)state;
    write_bytes("kept", "old", 3);
    BT_SCOPE {
        bt_array *x = bt_zeros(BT_F32, 2), *two[] = {x, x}, *one_null[] = {x, NULL};
        bt_array *poisoned = bt_reshape(x, 3), *with_poison[] = {x, poisoned};
        const char *path = path_of("kept");
        static const char *const same[] = {"a", "a"}, *const reserved[] = {"__metadata__", "b"},
                                 *const bad[] = {"\xff", "b"}, *const missing[] = {"a", NULL},
                                 *const good[] = {"a", "b"}, *const odd[] = {"k", "\xff", NULL};
        expect_error(bt_save(path, same, two, 2, NULL), BT_INVALID_ARGUMENT, "given twice");
        expect_error(bt_save(path, reserved, two, 2, NULL), BT_INVALID_ARGUMENT, "belongs to the format");
        expect_error(bt_save(path, bad, two, 2, NULL), BT_INVALID_ARGUMENT, "not UTF-8");
        expect_error(bt_save(path, missing, two, 2, NULL), BT_INVALID_ARGUMENT, "name 2 of 2 is NULL");
        expect_error(bt_save(path, good, one_null, 2, NULL), BT_INVALID_ARGUMENT, "\"b\" is NULL");
        expect_error(bt_save(path, good, with_poison, 2, NULL), BT_INVALID_ARGUMENT, "bt_reshape");
        expect_error(bt_save(path, good, two, 2, odd), BT_INVALID_ARGUMENT, "metadata");
        expect_error(bt_save(path, good, two, -1, NULL), BT_INVALID_ARGUMENT, "-1 arrays");
        expect_error(bt_save(NULL, good, two, 2, NULL), BT_INVALID_ARGUMENT, "NULL");
        expect_error(bt_save(path_of("no/such/folder"), good, two, 2, NULL), BT_NOT_FOUND, "there is no folder");
        expect_error(bt_save(path_of(""), good, two, 2, NULL), BT_FAILED_PRECONDITION, "directory");
    }
    expect_bytes("kept", "old", 3);
    expect_files(1);
}

/* --- damage --------------------------------------------------------------------------------------------------------- */

#define TENSOR(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *place, *reason;
} damaged[] = {
    {"[]", 0, "byte 8", "does not begin with {"},
    {" {}", 0, "byte 8", "does not begin with {"},
    {"{}x", 0, "byte 1", "no JSON"},
    {"{\"a\":}", 0, "byte 1", "no JSON"},
    {"{\"a\xff\":1}", 0, "byte 1", "no JSON: unable to decode"},
    {"{\"a\\u0000\":1}", 0, "byte ", "no JSON"},
    {"{\"a\":1}", 0, "byte 9", "no object"},
    {"{\"a\":{}}", 0, "byte 9", "no dtype"},
    {"{\"a\":{\"dtype\":3,\"shape\":[],\"data_offsets\":[0,0]}}", 0, "byte 9", "no dtype"},
    {"{\"a\":" TENSOR("F33", "[1]", "[0,4]") "}", 4, "byte 9", "unknown dtype \"F33\""},
    {"{\"a\":" TENSOR("F32", "1", "[0,4]") "}", 4, "byte 9", "no list"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "byte 9", "no list"},
    {"{\"a\":" TENSOR("F32", "[-1]", "[0,4]") "}", 4, "byte 9", ">= 0"},
    {"{\"a\":" TENSOR("F32", "[1.0]", "[0,4]") "}", 4, "byte 9", ">= 0"},
    {"{\"a\":" TENSOR("F32", "[9223372036854775808]", "[0,4]") "}", 4, "byte ", "no JSON: too big integer"},
    {"{\"a\":" TENSOR("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "byte 9", "overflows"},
    {"{\"a\":" TENSOR("F32", "[4611686018427387905]", "[0,4]") "}", 4, "byte 9", "overflows"},
    {"{\"a\":" TENSOR("F32", "[1]", "[0]") "}", 4, "byte 9", "no pair"},
    {"{\"a\":" TENSOR("F32", "[1]", "[0,\"4\"]") "}", 4, "byte 9", "no pair"},
    {"{\"a\":" TENSOR("F32", "[1]", "[-4,0]") "}", 4, "byte 9", "no pair"},
    {"{\"a\":" TENSOR("F32", "[1]", "[4,0]") "}", 4, "byte 9", "not within"},
    {"{\"a\":" TENSOR("F32", "[2]", "[0,8]") "}", 4, "byte 9", "not within the 4 bytes"},
    {"{\"a\":" TENSOR("F32", "[1]", "[0,3]") "}", 3, "byte 9", "take 4 bytes, its data_offsets hold 3"},
    {"{\"a\":" TENSOR("F4", "[1]", "[0,1]") "}", 1, "byte 9", "take 0 bytes"},
    {"{\"a\":" TENSOR("U8", "[1]", "[1,2]") "}", 2, "byte 62", "gap"},
    {"{\"a\":" TENSOR("U8", "[2]", "[0,2]") ",\"b\":" TENSOR("U8", "[2]", "[1,3]") "}", 3, "byte ",
     "within those before"},
    {"{\"a\":" TENSOR("U8", "[1]", "[0,1]") ",\"b\":" TENSOR("U8", "[1]", "[0,1]") "}", 1, "byte ",
     "within those before"},
    {"{\"a\":" TENSOR("U8", "[1]", "[0,1]") "}", 2, "byte 62", "1 bytes after the last"},
    {"{}", 1, "byte 10", "1 bytes after the last"},
    {"{\"a\":" TENSOR("U8", "[]", "[0,1]") ",\"a\":" TENSOR("U8", "[]", "[0,1]") "}", 1, "byte ", "duplicate"},
    {"{\"__metadata__\":{\"k\":\"v\",\"k\":\"w\"}}", 0, "byte ", "duplicate"},
    {"{\"__metadata__\":[]}", 0, "byte 9", "no object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "byte 25", "metadata \"k\" is no text"},
};

static void damage_is_refused_with_its_place(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        bt_tensors *tensors = (bt_tensors *)&tensors;
        write_tensors("bad", damaged[i].header, strlen(damaged[i].header), damaged[i].data_bytes);
        expect_error(bt_tensors_open(path_of("bad"), &tensors), BT_DATA_LOSS, damaged[i].reason);
        if (!strstr(bt_error_text(), damaged[i].place)) fail_msg("not at %s: %s", damaged[i].place, bt_error_text());
        assert_null(tensors);
    }
}

static void damaged_lengths_are_refused(void **state) {
    (void)state;
    bt_tensors *tensors;
    static const struct {
        const char *bytes;
        size_t count;
        const char *reason;
    } cases[] = {
        {"", 0, "too short"},
        {"\2\0\0", 3, "too short"},
        {"\0\0\0\0\0\0\0\0", 8, "header of 0 bytes"},
        {"\3\0\0\0\0\0\0\0{}", 10, "header of 3 bytes in a file of 10"},
        {"\2\0\0\0\0\0\0\x80{}", 10, "at most 100000000"},
        {"\1\xe1\xf5\5\0\0\0\0{}", 10, "header of 100000001 bytes; at most"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "at most 100000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bytes("bad", cases[i].bytes, cases[i].count);
        expect_error(bt_tensors_open(path_of("bad"), &tensors), BT_DATA_LOSS, cases[i].reason);
    }
    expect_error(bt_tensors_open(path_of("absent"), &tensors), BT_NOT_FOUND, "No such file");
    expect_error(bt_tensors_open(path_of(""), &tensors), BT_FAILED_PRECONDITION, "not a regular file");
    expect_error(bt_tensors_open(NULL, &tensors), BT_INVALID_ARGUMENT, "NULL");
}

/* Every file cut short, and every bit of a header turned over, is read or refused: nothing else. */
static void cut_and_flipped_files_are_read_or_refused(void **state) {
    (void)state;
    unsigned char bytes[4096];
    BT_SCOPE {
        static const char *const names[] = {"weight", "bias"};
        bt_array *arrays[] = {bt_ones(BT_F32, 2, 3), bt_ones(BT_BOOL, 5)};
        OK(bt_save(path_of("whole"), names, arrays, 2, NULL));
    }
    size_t size = read_bytes("whole", bytes, sizeof bytes), header = size - 29;
    bt_tensors *tensors;
    for (size_t cut = 0; cut < size; cut++) {
        write_bytes("bad", bytes, cut);
        assert_int_equal(bt_tensors_open(path_of("bad"), &tensors), BT_DATA_LOSS);
    }
    for (size_t bit = 0; bit < header * 8; bit++)
        BT_SCOPE {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            write_bytes("bad", bytes, size);
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            bt_status status = bt_tensors_open(path_of("bad"), &tensors);
            assert_true(status == BT_OK || status == BT_DATA_LOSS);
            for (int i = 0; status == BT_OK && i < bt_tensors_count(tensors); i++)
                (void)!bt_block(bt_tensors_get(tensors, bt_tensors_name(tensors, i)));
            bt_tensors_close(tensors);
        }
}

static void what_berth_has_not_is_refused_when_asked_for(void **state) {
    (void)state;
    bt_tensors *tensors;
    static const char header[] = "{\"a\":" TENSOR("F8_E8M0", "[2]", "[0,2]") ",\"b\":" TENSOR(
        "U8", "[1,1,1,1,1,1,1,1,1]", "[2,3]") ",\"c\":" TENSOR("BOOL", "[2]", "[3,5]") ",\"d\":" TENSOR("I8", "[2]",
                                                                                                        "[5,7]") "}";
    write_tensors("odd", header, sizeof header - 1, 7);
    BT_SCOPE {
        OK(bt_tensors_open(path_of("odd"), &tensors));
        assert_string_equal(bt_tensors_name(tensors, 3), "d");
        expect_poison(bt_tensors_get(tensors, "a"), BT_UNIMPLEMENTED, "F8_E8M0");
        expect_poison(bt_tensors_get(tensors, "b"), BT_UNIMPLEMENTED, "9 dimensions");
        expect_poison(bt_tensors_get(tensors, "c"), BT_DATA_LOSS, "a bool is 0 or 1"); /* the data count up */
        expect_same(bt_tensors_get(tensors, "d"), BT_ARRAY(int8_t, (2), 5, 6));
        write_tensors("odd", header, sizeof header - 1, 2); /* cut while it is open */
        expect_poison(bt_tensors_get(tensors, "d"), BT_DATA_LOSS, "ends here");
        bt_tensors_close(tensors);
    }
}

/* --- interrupted saves ----------------------------------------------------------------------------------------------- */

static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    write_bytes("model", "old", 3);
    BT_SCOPE {
        static const char *const names[] = {"a"};
        bt_array *x = bt_ones(BT_F32, 100000);
        OK(bt_block(x));
        struct rlimit before, small = {5000, 5000};
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        small.rlim_max = before.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        bt_status status = bt_save(path_of("model"), names, &x, 1, NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        sigset_t pending;
        assert_int_equal(sigpending(&pending), 0);
        assert_false(sigismember(&pending, SIGXFSZ));
        assert_int_equal(status, BT_RESOURCE_EXHAUSTED);
    }
    expect_bytes("model", "old", 3);
    expect_files(1);
}

/* In place of libc's: a process that is to be killed at a byte of a file is. */
static int64_t killed_at = -1;
__attribute__((visibility("default"))) ssize_t write(int fd, const void *data, size_t bytes) {
    if (killed_at >= 0 && (int64_t)bytes > killed_at) {
        if (killed_at) (void)!syscall(SYS_write, fd, data, (size_t)killed_at);
        raise(SIGKILL);
    }
    ssize_t put = syscall(SYS_write, fd, data, bytes);
    if (killed_at >= 0 && put > 0) killed_at -= put;
    return put;
}

/* A child is killed at each of these bytes of the file. The children come before this process opens a device. */
static void a_kill_at_any_byte_leaves_the_old_file(void **state) {
    (void)state;
    write_bytes("model", "old", 3);
    for (int64_t at = 0; at < 400; at += at < 100 ? 7 : 50) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            static const char *const names[] = {"a"};
            bt_array *x = bt_ones(BT_F32, 100);
            if (bt_block(x) != BT_OK) _exit(3);
            bt_layer *dense = bt_dense_from(bt_ones(BT_F32, 10, 10), NULL, NULL);
            if (bt_layer_status(dense) != BT_OK) _exit(4);
            killed_at = at;
            bt_status saved =
                at % 2 ? bt_save_bson(path_of("model"), "m", dense) : bt_save(path_of("model"), names, &x, 1, NULL);
            _exit(saved == BT_OK ? 1 : 2);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) fail_msg("byte %d: wait status %d", (int)at, status);
        expect_bytes("model", "old", 3);
    }
    BT_SCOPE
        OK(bt_save(path_of("model"), (const char *const[]){"a"}, (bt_array *const[]){bt_ones(BT_F32, 100)}, 1, NULL));
    unsigned char bytes[1024];
    assert_int_equal(read_bytes("model", bytes, sizeof bytes), 8 + 64 + 400);
}

static void links_and_modes_stay(void **state) {
    (void)state;
    write_bytes("model", "old", 3);
    assert_int_equal(chmod(path_of("model"), 0640), 0);
    char link_path[512];
    snprintf(link_path, sizeof link_path, "%s", path_of("link"));
    assert_int_equal(symlink("model", link_path), 0);
    OK(bt_save(link_path, NULL, NULL, 0, NULL));
    struct stat stat_;
    assert_int_equal(lstat(link_path, &stat_), 0);
    assert_true(S_ISLNK(stat_.st_mode));
    assert_int_equal(stat(path_of("model"), &stat_), 0);
    assert_int_equal(stat_.st_mode & 0777, 0640);
    assert_int_equal(stat_.st_size, 16);
}

/* A chain of links to what is not there yet, the second relative to its own folder. */
static void links_that_dangle_are_written_through(void **state) {
    (void)state;
    char first[512], second[512];
    assert_int_equal(mkdir(path_of("deep"), 0700), 0);
    snprintf(first, sizeof first, "%s", path_of("first"));
    snprintf(second, sizeof second, "%s", path_of("deep/second"));
    assert_int_equal(symlink(second, first), 0);
    assert_int_equal(symlink("model", second), 0);
    OK(bt_save(first, NULL, NULL, 0, NULL));
    struct stat stat_;
    assert_int_equal(lstat(first, &stat_), 0);
    assert_true(S_ISLNK(stat_.st_mode));
    assert_int_equal(lstat(second, &stat_), 0);
    assert_true(S_ISLNK(stat_.st_mode));
    assert_int_equal(lstat(path_of("deep/model"), &stat_), 0);
    assert_true(S_ISREG(stat_.st_mode));
    assert_int_equal(unlink(path_of("deep/model")), 0);
    assert_int_equal(unlink(second), 0);
    assert_int_equal(symlink("second", second), 0); /* to itself */
    expect_error(bt_save(first, NULL, NULL, 0, NULL), BT_INVALID_ARGUMENT, "first: cannot be written");
    assert_int_equal(unlink(first), 0);
    assert_int_equal(unlink(second), 0);
    assert_int_equal(rmdir(path_of("deep")), 0);
    expect_error(bt_save(path_of("none/model"), NULL, NULL, 0, NULL), BT_NOT_FOUND,
                 "none/model: cannot be written: there is no folder ");
    assert_null(strstr(bt_error_text(), ".tmp"));
}

static void other_formats_are_named(void **state) {
    (void)state;
    static const unsigned char pickle[40] = {0x80, 2, 0x8a, 0x0a}, zip[40] = "PK\3\4\0\0\x08\x08";
    bt_tensors *tensors = NULL;
    write_bytes("model", pickle, sizeof pickle);
    expect_error(bt_tensors_open(path_of("model"), &tensors), BT_DATA_LOSS, "as PyTorch wrote .pt files before");
    write_bytes("model", "\x93NUMPY\1\0", 8);
    expect_error(bt_tensors_open(path_of("model"), &tensors), BT_DATA_LOSS, "does not begin as a .npy file");
    BT_SCOPE {
        write_bytes("model", zip, sizeof zip);
        expect_error(bt_block(bt_load_npy(path_of("model"))), BT_DATA_LOSS, "bt_tensors_open opens those");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_kill_at_any_byte_leaves_the_old_file), /* first */
        FILE_TEST(every_dtype_and_shape_comes_back),
        FILE_TEST(an_empty_file_is_16_bytes),
        FILE_TEST(bad_arguments_write_nothing),
        FILE_TEST(damage_is_refused_with_its_place),
        FILE_TEST(damaged_lengths_are_refused),
        FILE_TEST(cut_and_flipped_files_are_read_or_refused),
        FILE_TEST(what_berth_has_not_is_refused_when_asked_for),
        FILE_TEST(a_full_disk_leaves_the_old_file),
        FILE_TEST(links_and_modes_stay),
        FILE_TEST(links_that_dangle_are_written_through),
        FILE_TEST(other_formats_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
