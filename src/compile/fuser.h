/* What the parts of fusing share: which steps of a plan become one kernel. */
#ifndef BTI_COMPILE_FUSER_H
#define BTI_COMPILE_FUSER_H

#include "compile/planner.h"

/* The points that a kernel runs over: a shape, refined until the shapes of all its members are groupings of its axes. */
typedef struct bti_domain {
    uint8_t rank;
    uint8_t reduced; /* mask of the axes that its reductions fold; 0: a map */
    bool rows;       /* the line is reduced (rows), or kept (columns) */
    bool again;      /* its rows may be gone over again */
    const bti_target_facts *target;
    int64_t shape[BTI_MAX_RANK];
} bti_domain;

#define BTI_GROUP_INSTRS (BTI_KERNEL_INSTRS - BTI_KERNEL_OPERANDS) /* each output may take one */
#define BTI_GROUP_OPERANDS (BTI_KERNEL_OPERANDS - 4)

/* A kernel in the making, or one step that is none. */
typedef struct bti_group {
    int32_t parent; /* itself; of one that was merged into another: that one */
    int32_t depth;  /* greater than that of every group whose memory it reads */
    int device;
    bool kernel;                       /* others may join */
    bool read;                         /* its memory is read by another group: its depth cannot change any more */
    bool scattered;                    /* it takes rows of one element along its line: it does not go over them again */
    bool emitted;                      /* by write.c */
    int32_t instrs, operands;          /* at most */
    int32_t first_external;            /* into fuser->externals; -1: none */
    int32_t first_member, last_member; /* steps, linked in order */
    bti_domain domain;
} bti_group;

/* What does a step. */
typedef enum bti_doer {
    BTI_WHOLE,     /* a routine that runs one primitive, or a copy between devices */
    BTI_BY_KERNEL, /* a kernel */
    BTI_INLINED    /* a constant or an index: each kernel that reads it */
} bti_doer;

typedef struct bti_group_member {
    int32_t group;         /* -1: inlined */
    int32_t next;          /* step of the same group; -1: the last */
    int32_t instr;         /* in the kernel being written */
    uint8_t level, stage;  /* bti_level; sweeps before it is known */
    uint8_t why;           /* bti_why it is in memory */
    uint8_t doer;          /* bti_doer */
    bool scattered;        /* of a take by a kernel: each point of the line is an element from elsewhere */
    bool again;            /* another group makes the same value (recompute.c) */
    int32_t rows, numbers; /* of a take by a kernel: views of what it reads, under its shape; else -1 */
} bti_group_member;

typedef struct bti_external {
    int32_t value, next;
} bti_external;

/* What choose and fuse leave for schedule. */
typedef struct bti_fuser {
    bti_planner *planner;
    bti_plan *plan;            /* one step per operation */
    bti_group_member *members; /* one per step; NULL before choose */
    size_t member_room;        /* of recompute.c, which adds steps */
    BTI_VEC(bti_group) groups;
    BTI_VEC(bti_external) externals;
} bti_fuser;

static inline int32_t bti_maker(const bti_fuser *fuser, int32_t value) {
    const bti_plan *plan = fuser->plan;
    return plan->storages.items[plan->values.items[value].storage].first_step;
}
/* The value that must be there before this one is read; -1: none but itself. */
static inline int32_t bti_read_after(const bti_fuser *fuser, int32_t value) {
    return fuser->planner->after.items[value];
}
int32_t bti_group_of(bti_fuser *fuser, int32_t step); /* the root of its group; -1 */

/* --- domain.c --- */
int64_t bti_domain_count(const bti_domain *domain);
/* Splits axes until `shape` (of as many points, or of as many as are kept) is a grouping of them; false when that is not
 * possible: the domain is then undefined. */
bool bti_domain_refine(bti_domain *domain, int rank, const int64_t *shape, bti_level level);
/* Makes it the domain of a reduction of `shape` over `axes`, which is a grouping of its axes; false if it has others. */
bool bti_domain_reduce(bti_domain *domain, int rank, const int64_t *shape, uint64_t axes);
/* Splits both until they are the same; false when they cannot be. */
bool bti_domain_unite(bti_domain *domain, const bti_domain *other);
/* The value's stride along each axis of the domain, elements. Its shape is a grouping of the axes (POINT) or of the kept
 * ones (ROW: 0 along the others). False for a value whose points are in another order than its strides can say. */
bool bti_domain_strides(const bti_domain *domain, const bti_value *value, bti_level level, int64_t *stride);
/* Whether what has these strides can be read along the reduced axes as the order of folding demands: neighbours that are
 * folded are one axis. */
bool bti_domain_folds(const bti_domain *domain, const int64_t *stride);

/* The value that a step reads as a kernel reads it. */
static inline int32_t bti_read_value(const bti_fuser *fuser, const bti_step *step, int input) {
    const bti_group_member *member = &fuser->members[step - fuser->plan->steps.items];
    if (member->rows >= 0) return input ? member->numbers : member->rows;
    return fuser->plan->operands.items[step->first_operand + input];
}
/* Whether an input of the step is taken from: a kernel finds it in memory. */
static inline bool bti_reads_rows(const bti_fuser *fuser, const bti_step *step, int input) {
    return input == 0 && fuser->members[step - fuser->plan->steps.items].rows >= 0;
}

/* --- choose.c --- */
/* Whether a kernel does the step, whatever its readers are; else it is run whole, or with its readers (take.c). */
bool bti_is_fusable(const bti_step *step);

/* --- take.c --- */
static inline bool bti_is_take(const bti_step *step) {
    return step->kind == BTI_STEP_WORK && (step->op == BTI_OP_take || step->op == BTI_OP_gather_axis);
}
/* Whether a kernel may take the rows for its other members; fills in how it reads them. */
bool bti_choose_take(bti_planner *planner, const bti_step *step, bti_group_member *member);
/* Takes that no reader joined are run whole. */
void bti_leave_lone_takes(bti_fuser *fuser);
/* What the program holds of rows that are in memory anyway is kept. */
void bti_keep_takes(bti_fuser *fuser);

/* --- join.c --- */
/* Puts a step into a group: that of one of its inputs, or one of its own. */
void bti_join_step(bti_fuser *fuser, int32_t number);
void bti_begin_group(bti_fuser *fuser, int32_t number, const bti_step *step, bti_why why);

/* --- split.c --- */
void bti_split_groups(bti_fuser *fuser);

/* --- write.c --- */
/* Steps to run, and their operands. */
typedef struct bti_written {
    BTI_VEC(bti_step) steps;
    BTI_VEC(int32_t) operands;
} bti_written;
/* Appends the group's kernel, or its step that is none; false when memory is short. */
bool bti_write_group(bti_fuser *fuser, bti_written *out, int32_t group);
/* The number of the kernel in the plan, which has each once. */
int32_t bti_intern_kernel(bti_planner *planner, const bti_kernel *kernel);
/* The plan's steps and operands are then these, which it takes over. */
void bti_put_steps(bti_plan *plan, bti_written *written);

#endif
