// Tasks and actors in C++17, spelt as in C: tests/task_cxx.sh compiles this against installed headers and runs it.
#include <berth.h>
#include <cstdio>
#include <cstdlib>
#include <string>

#define CHECK(condition)                                                                            \
    do {                                                                                            \
        if (!(condition)) {                                                                         \
            std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, bt_error_text());       \
            std::exit(1);                                                                           \
        }                                                                                           \
    } while (0)

enum plain { ONE = 1, TWO };
enum class small : unsigned char { THREE = 3, LARGEST = 255 };

// --- functions -------------------------------------------------------------------------------------------------------------

static bt_status add(bt_task *task) {
    double a, b;
    bt_status status = bt_arguments(task, &a, &b);
    return status == BT_OK ? bt_return(task, a + b) : status;
}
BT_REMOTE(add);

static bt_status nothing(bt_task *task) { return bt_arguments(task); }
BT_REMOTE(nothing, .num_cpus = 0.5, .max_retries = 1);

// A function that calls itself is declared before it is defined.
static bt_status fibonacci(bt_task *task);
BT_REMOTE(fibonacci);
static bt_status fibonacci(bt_task *task) {
    int n;
    int64_t a, b;
    bt_status status = bt_argument(task, 0, &n);
    if (status != BT_OK || n < 2) return status == BT_OK ? bt_return(task, n) : status;
    bt_ref *first = bt_remote(fibonacci, n - 1), *second = bt_remote(fibonacci, n - 2);
    if ((status = bt_get(first, &a)) != BT_OK || (status = bt_get(second, &b)) != BT_OK) return status;
    return bt_return(task, a + b);
}

// Each kind of value, out of each kind of variable.
static bt_status describe(bt_task *task) {
    bool yes;
    char letter;
    signed char least;
    unsigned short port;
    unsigned long long large;
    float half;
    plain two;
    small three;
    const char *literal, *text;
    bt_bytes bytes;
    bt_array *array;
    bt_status status = bt_arguments(task, &yes, &letter, &least, &port, &large, &half, &two, &three, &literal, &text, &bytes, &array);
    if (status != BT_OK) return status;
    std::string all = std::to_string(yes) + letter + std::to_string(least) + ' ' + std::to_string(port) + ' ' +
                      std::to_string(large) + (half == 0.5f ? " half " : " ? ") + std::to_string(two) +
                      std::to_string(static_cast<int>(three)) + literal + text +
                      std::string(static_cast<const char *>(bytes.data), bytes.size) + std::to_string(bt_count(array));
    return bt_return(task, all);
}
BT_REMOTE(describe);

// Lists, what stands in them, and a reference and an actor that are passed on.
static bt_status sum_list(bt_task *task) {
    bt_list list, inner;
    bt_ref *ref;
    int number, referred;
    double real;
    const char *text;
    bt_status status = bt_arguments(task, &list);
    if (status == BT_OK && bt_list_count(list) != 3) status = bt_task_fail(task, BT_INTERNAL, "count");
    if (status == BT_OK) status = bt_list_get(list, 0, &number);
    if (status == BT_OK) status = bt_list_get(list, 1, &ref);
    if (status == BT_OK) status = bt_get(ref, &referred);
    if (status == BT_OK) status = bt_list_get(list, 2, &inner);
    if (status == BT_OK) status = bt_list_get(inner, 0, &real);
    if (status == BT_OK) status = bt_list_get(inner, 1, &text);
    return status == BT_OK ? bt_return(task, BT_LIST(number + referred + real, text, BT_LIST(), ref)) : status;
}
BT_REMOTE(sum_list);

static bt_status add_all(bt_task *task) {
    long sum = 0;
    for (int i = 0; i < bt_argument_count(task); i++) {
        int x;
        bt_status status = bt_argument(task, i, &x);
        if (status != BT_OK) return status;
        sum += x;
    }
    return bt_return(task, sum);
}
BT_REMOTE(add_all);

// Functions of a namespace are called inside of it; by name from anywhere.
namespace counters {
struct counter {
    int64_t count;
};
static bt_status make(bt_task *task) {
    auto *made = new counter{0};
    bt_set_state(task, made, [](void *state) { delete static_cast<counter *>(state); });
    return bt_arguments(task, &made->count);
}
BT_REMOTE(make);
static bt_status increase(bt_task *task) {
    int by = 1;
    auto *state = static_cast<counter *>(bt_state(task));
    bt_status status = bt_argument_count(task) ? bt_arguments(task, &by) : BT_OK;
    return status == BT_OK ? bt_return(task, state->count += by) : status;
}
BT_REMOTE(increase);
static bt_actor *begin_at(int64_t count) {
    return count ? bt_actor_new(make, count) : bt_actor_new_with(BT_OPTIONS(.name = "zero"), make, count);
}
static bt_ref *increase_by(bt_actor *actor, int by) {
    return by == 1 ? bt_method(actor, increase) : bt_method_with(BT_OPTIONS(.max_retries = 1), actor, increase, by);
}
static bt_status submit_to(bt_pool *pool, int by) { return bt_pool_submit(pool, increase, by); }
} // namespace counters

static bt_status through_a_task(bt_task *task) {
    bt_actor *actor;
    int64_t count;
    bt_status status = bt_arguments(task, &actor);
    if (status == BT_OK) status = bt_get(counters::increase_by(actor, 3), &count);
    return status == BT_OK ? bt_return(task, count) : status;
}
BT_REMOTE(through_a_task);

// --- the program -------------------------------------------------------------------------------------------------------------

static void pass_lists() {
    bt_list list;
    bt_ref *inner;
    double sum;
    const char *text;
    int number;
    bt_ref *result = bt_remote(sum_list, BT_LIST(1, bt_put(20), BT_LIST(0.5, std::string("text"))));
    CHECK(bt_get(result, &list) == BT_OK && bt_list_count(list) == 4);
    CHECK(bt_list_get(list, 0, &sum) == BT_OK && sum == 21.5);
    CHECK(bt_list_get(list, 1, &text) == BT_OK && std::string(text) == "text");
    CHECK(bt_list_type(list, 2) == BT_LIST_VALUE);
    CHECK(bt_list_get(list, 3, &inner) == BT_OK && bt_get(inner, &number) == BT_OK && number == 20);
    bt_ref *refs[] = {bt_put(1), bt_put(2)};
    CHECK(bt_get(bt_put(bt_list_of(refs, 2)), &list) == BT_OK && bt_list_count(list) == 2);
    CHECK(bt_get(bt_put(inner), &inner) == BT_OK);
}

static bt_status divide(bt_task *task) {
    int a, b;
    bt_status status = bt_arguments(task, &a, &b);
    return status == BT_OK ? bt_return(task, a / b, a % b, std::string("text")) : status;
}
BT_REMOTE(divide, .num_returns = 3);

static void get_several() {
    int number;
    bt_ref *first = bt_remote(divide, 17, 5);
    CHECK(bt_get(bt_result(first, 1), &number) == BT_OK && number == 2);
    CHECK(bt_get(first, &number) == BT_OK && number == 3);
}

static bt_status count_up(bt_task *task) {
    int n;
    bt_status status = bt_arguments(task, &n);
    for (int i = 0; i < n && status == BT_OK; i++) status = bt_yield(task, BT_LIST(i, std::to_string(i)));
    return status;
}
BT_REMOTE(count_up);

static void read_stream() {
    int count = 0, number;
    bt_list list;
    bt_ref *stream = bt_remote(count_up, 5);
    for (bt_ref *item; (item = bt_stream_next(&stream, -1)) != nullptr; count++)
        CHECK(bt_get(item, &list) == BT_OK && bt_list_get(list, 0, &number) == BT_OK && number == count);
    CHECK(count == 5);
}

static void call_functions() {
    double sum;
    int64_t number;
    const char *text;
    CHECK(bt_get_within(bt_remote(nothing), 30, nullptr) == BT_OK);
    CHECK(bt_get(bt_remote(add, 1, 2), &sum) == BT_OK && sum == 3);
    CHECK(bt_get(bt_remote(add, bt_remote(add, 1, 2.5f), bt_put(3L)), &sum) == BT_OK && sum == 6.5);
    CHECK(bt_get(bt_remote_with(BT_OPTIONS(.num_cpus = 2, .priority = 3), nothing), NULL) == BT_OK);
    CHECK(bt_get(bt_remote(fibonacci, 6), &number) == BT_OK && number == 8);
    std::string word = "word,";
    bt_array *array = bt_zeros(BT_F32, 2, 3);
    bt_ref *all = bt_remote(describe, true, 'x', static_cast<signed char>(-128), 65535u, 1ull << 62, 0.5, TWO, small::THREE, "text,",
                            word, bt_bytes{"bytes", 2}, array);
    CHECK(bt_get(all, &text) == BT_OK && text == std::string("1x-128 65535 4611686018427387904 half 23text,word,by6"));
    CHECK(bt_get(bt_remote(add_all, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
                           28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55,
                           56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80),
                 &number) == BT_OK &&
          number == 3240);
    bt_item_value list[] = {BT_ITEM(1), BT_ITEM(small::LARGEST), BT_ITEM(bt_remote(fibonacci, 3))};
    CHECK(bt_get(bt_remote_named(nullptr, "add_all", BT_OPTIONS(.priority = 1), list, 3), &number) == BT_OK && number == 258);
}

static void call_actors() {
    int64_t count;
    bt_actor *actor = counters::begin_at(40), *zero = counters::begin_at(0);
    CHECK(bt_get(counters::increase_by(actor, 2), &count) == BT_OK && count == 42);
    CHECK(bt_get(bt_remote(through_a_task, actor), &count) == BT_OK && count == 45);
    CHECK(bt_get(counters::increase_by(zero, 1), &count) == BT_OK && count == 1);
    CHECK(bt_get(bt_method_named(bt_actor_find("zero"), nullptr, "increase", nullptr, nullptr, 0), &count) == BT_OK && count == 2);
}

static void use_pool() {
    bt_actor *actors[] = {counters::begin_at(1), counters::begin_at(2)};
    bt_pool *pool = bt_pool_new(actors, 2);
    int64_t count, sum = 0;
    for (int i = 0; i < 6; i++) CHECK(counters::submit_to(pool, i) == BT_OK);
    while (bt_pool_has_next(pool)) {
        CHECK(bt_get(bt_pool_next(pool, BT_AS_COMPLETED, -1), &count) == BT_OK);
        sum += count > 0;
    }
    CHECK(sum == 6 && bt_pool_idle(pool) == 2);
}

static void call_wrongly() {
    int64_t number;
    small letter;
    CHECK(bt_get(bt_put("text"), &number) == BT_INVALID_ARGUMENT);
    CHECK(bt_get(bt_put(256), &letter) == BT_OUT_OF_RANGE);
    CHECK(bt_get(bt_remote(add, 1), &number) == BT_OUT_OF_RANGE);
    CHECK(std::string(bt_error_text()).find("add wants argument 2") != std::string::npos);
    CHECK(bt_get(bt_remote(add_all, static_cast<bt_ref *>(nullptr)), &number) == BT_INVALID_ARGUMENT);
}

int main() {
    CHECK(bt_runtime_init() == BT_OK);
    CHECK(bt_runtime_shutdown() == BT_OK);
    CHECK(bt_runtime_init(.num_cpus = 4, .resources = {{"license", 1}}, .store_bytes = 64 << 20) == BT_OK);
    BT_SCOPE {
        pass_lists();
        read_stream();
        get_several();
        call_functions();
        call_actors();
        use_pool();
        call_wrongly();
    }
    CHECK(bt_runtime_shutdown() == BT_OK);
}
