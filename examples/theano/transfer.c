// A matrix that has no value yet is sent to the device "gpudev", worked on there, and brought back. After Theano's
// "Explicit transfers of data".
#include <berth.h>
#include <stdio.h>

static void show(const char *name, const bt_array *x) {
    BT_TEXT devices = bt_devices_text(x);
    printf("%s on %s\n", name, devices);
}

int main(void) {
    bt_array *v, *m;
    BT_ON("cpu") {
        v = bt_input(BT_F32, -1, -1); // a matrix of any size
        m = BT_ARRAY(float, (2, 2), 1, 2, 3, 4);
    }
    bt_array *there = bt_to(v, "gpudev");
    bt_array *doubled = bt_add(there, there);
    bt_array *back = bt_to(doubled, "cpu");
    if (bt_peek_status(back) != BT_OK) {
        fprintf(stderr, "%s\nmap it: BERTH_FLAGS=\"contexts=gpudev->cuda0\"\n", bt_error_text());
        return 1;
    }
    show("v", v), show("there", there), show("doubled", doubled), show("back", back);

    bt_function *function = bt_function_new(&v, 1, &back, 1, NULL, 0);
    if (bt_function_status(function) != BT_OK) {
        fprintf(stderr, "%s\n", bt_error_text());
        return 1;
    }
    bt_print(bt_call1(function, &m, 1));
}
