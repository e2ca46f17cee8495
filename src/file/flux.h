/* Models of Flux's in BSON: their structs, as layers of berth, and back. */
#ifndef BTI_FILE_FLUX_H
#define BTI_FILE_FLUX_H

#include <berth/nn.h>

#include "file/julia.h"

/* The model under `key` (NULL: the only one), of the innermost scope. */
bt_status bti_flux_open(const bti_julia *julia, const char *key, bt_layer **model);

/* Functions that both have, by berth's name and by Julia's: "relu", {"NNlib", "#relu"}. */
typedef struct bti_flux_function {
    const char *berth, *module, *name;
} bti_flux_function;
/* Of a type such as "NNlib.#relu" or "Base.#tanh", whatever its module; NULL: berth has none. */
const bti_flux_function *bti_flux_function_of(const bti_julia_value *type);
/* Of berth's name ("": identity); NULL: Flux has none. */
const bti_flux_function *bti_flux_function_named(const char *berth);

#endif
