/* Public operations and what the placement log calls them. */
#ifndef BTI_ARRAY_NAMES_H
#define BTI_ARRAY_NAMES_H

typedef struct bti_name {
    const char *public_name; /* "bt_matmul", as in the header; of a macro, the macro */
    const char *log_name;    /* "MatMul" */
} bti_name;

/* Row i of names.def, in alphabetical order; NULL past the last. */
const bti_name *bti_name_at(int i);

/* What the placement log calls a public operation; NULL when it is not in the table: constants, which have no line. */
const char *bti_log_name(const char *public_name);

#endif
