/* Checkpoints and files of another model. */
#include "mistake.h"

static bt_status fit_into(const char *folder, bt_layer *model, bt_optimizer *optimizer, bool quiet) {
    return bt_fit(model, optimizer, some_x(64), some_classes(64), BT_FIT_OPTIONS(.checkpoints = folder, .quiet = quiet),
                  NULL);
}

int main(void) {
    BT_SCOPED;
    BT_CHECK(fit_into("run", some_model(8), bt_sgd(0.01), true));
    SECTION("checkpoint");
    TELL(fit_into("run", some_model(9), bt_sgd(0.01), true));
    TELL(fit_into("run", bt_chain(some_model(8), bt_dense(3, 3, NULL, bt_key(5))), bt_sgd(0.01), true));
    TELL(fit_into("run", some_model(8), bt_adam(0.01), true));
    SECTION("over");
    TELL(fit_into("run", some_model(8), bt_sgd(0.01), false));
    BT_CHECK(bt_save_model("model.safetensors", some_model(8)));
    SECTION("model");
    TELL(bt_load_model("model.safetensors", some_model(9)));
    TELL(bt_load_model("run/step-0000000002.safetensors", some_model(8)));
    return 0;
}
