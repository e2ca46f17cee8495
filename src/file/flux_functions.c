/* Functions by name. */
#include "file/flux.h"

static const bti_flux_function flux_functions[] = {
    {"identity", "Base", "#identity"},
    {"relu", "NNlib", "#relu"},
    {"sigmoid", "NNlib", "#σ"},
    {"sigmoid", "NNlib", "#sigmoid"},
    {"sigmoid", "NNlib", "#sigmoid_fast"},
    {"tanh", "Base", "#tanh"},
    {"tanh", "NNlib", "#tanh_fast"},
    {"softmax", "NNlib", "#softmax"},
    {"log_softmax", "NNlib", "#logsoftmax"},
    {"gelu_tanh", "NNlib", "#gelu_tanh"},
    {"gelu_tanh", "NNlib", "#gelu"}, /* NNlib's gelu is the approximation */
    {"gelu", "NNlib", "#gelu_erf"},
    {"silu", "NNlib", "#swish"},
    {"softplus", "NNlib", "#softplus"},
    {"leaky_relu", "NNlib", "#leakyrelu"},
    {"elu", "NNlib", "#elu"},
};
enum { FUNCTIONS = sizeof flux_functions / sizeof *flux_functions };

const bti_flux_function *bti_flux_function_of(const bti_julia_value *type) {
    for (int i = 0; i < FUNCTIONS; i++)
        if (bti_julia_is(type, flux_functions[i].name)) return &flux_functions[i];
    return NULL;
}

const bti_flux_function *bti_flux_function_named(const char *berth) {
    if (!*berth) return &flux_functions[0];
    for (int i = 0; i < FUNCTIONS; i++)
        if (!strcmp(flux_functions[i].berth, berth)) return &flux_functions[i];
    return NULL;
}
