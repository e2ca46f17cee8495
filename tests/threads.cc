// What a nest that is a program started again has of C++: static objects are constructed in it, main is not run.
#include <berth.h>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

struct Table {
    std::string word = "made by a constructor";
};
static Table table;

static bt_status word(bt_task *task) {
    return bt_return(task, table.word);
}
BT_REMOTE(word);

int main() {
    bool done = false;
    table.word = "changed by main";
    std::thread thread([&done] {
        while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) std::this_thread::yield();
    });
    bt_runtime_options options = {};
    const char *text = "";
    bt_status status = bt_runtime_start(&options);
    if (status == BT_OK) {
        bt_ref *ref = bt_remote_named(NULL, "word", NULL, NULL, 0);
        status = bti_get(ref, BT_TEXT_VALUE, sizeof text, &text, 20);
    }
    bool right = status == BT_OK && !std::strcmp(text, "made by a constructor");
    if (!right) std::fprintf(stderr, "\"%s\" %s\n", text, bt_error_text());
    right = bt_runtime_shutdown() == BT_OK && right;
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
    thread.join();
    return right ? 0 : 1;
}
