// Exceptions that leave the arguments of calls: later errors name their own lines. tests/cxx_program.sh compiles and runs this.
#include <berth.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

static bt_array *throws() { throw std::runtime_error("no"); }
static bt_status throws_status() { throw std::runtime_error("no"); }

static int line_of_error() {
    const char *colon = std::strchr(bt_error_text(), ':');
    return colon ? std::atoi(colon + 1) : -1;
}
static int fails = 0;
#define NAMES_LINE(line)                                                           \
    if (line_of_error() != line) {                                                 \
        std::printf("line %d, not %d: %s\n", line_of_error(), line, bt_error_text()); \
        fails++;                                                                   \
    }

int main() {
    for (int i = 0; i < 100; i++) {
        try {
            BT_SCOPE bt_print(bt_neg(bt_add(bt_num(1), throws())));
        } catch (std::exception &) {
        }
        try {
            if (bt_eval((throws_status(), throws())) != BT_OK) return 1;
        } catch (std::exception &) {
        }
        if (bt_device_get(BT_GPU, 77)) return 1;
        NAMES_LINE(__LINE__ - 1)
        bt_device *device;
        if ((bt_device_find)("gpu:77", &device) == BT_OK) return 1; // the function itself: no place, least of all a stale one
        if (std::strstr(bt_error_text(), "exceptions.cc")) std::printf("a stale place: %s\n", bt_error_text()), fails++;
    }
    BT_SCOPE {
        bt_array *x = bt_reshape(bt_neg(
                                     bt_ones(BT_F32, 3)),
                                 2);
        if (bt_block(x) == BT_OK) return 1;
        NAMES_LINE(__LINE__ - 4)
    }
    if (!fails) std::puts("exceptions: right lines");
    return fails != 0;
}
