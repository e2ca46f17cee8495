/* A model's structure as text in the metadata of its file: JSON of layers by name and options. */
#ifndef BTI_FILE_STRUCTURE_H
#define BTI_FILE_STRUCTURE_H

#include <berth/nn.h>

#include "file/tensors.h"

#define BTI_STRUCTURE "berth.model"

/* {"version": 1, "layer": LAYER, "names": {"2.weight": "0.weight"}}
 *
 * LAYER: {"layer": "Dense", "text": "(4 => 3, relu)", "options": {"in": "4", ...}, "children": [LAYER...], "names": ["query", ...]}; `names` are those of the children where they are not "0", "1"...
 * A layer that was there before is {"same": N}, N from 0 in the order in which layers begin. `names`, beside the layer: the tensors of variables whose path in the tree is another name, tied
 * ones among them. */
/* The caller frees *text. */
bt_status bti_structure_write(const bt_layer *model, char **text);
/* The model of an archive, of the innermost scope, with the values of its tensors. Nothing of the text is trusted. */
bt_status bti_structure_open(const bt_tensors *file, const char *text, bt_layer **model);

#endif
