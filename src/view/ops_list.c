/* The tables of operations, for people. */
#include <berth/view.h>

#include "array/plan_log.h"
#include "base/sized.h"
#include "ir/op.h"

static const char *const families[] = {
    [BTI_SOURCE] = "source",     [BTI_ELEMENTWISE] = "elementwise", [BTI_REDUCE] = "reduce", [BTI_SCAN] = "scan",
    [BTI_MOVEMENT] = "movement", [BTI_GATHER] = "gather",           [BTI_HEAVY] = "heavy",   [BTI_EFFECT] = "effect"};

static const char *const dtype_rules[] = {
    [BTI_ANY] = "any",   [BTI_NUMBER] = "number",       [BTI_FLOAT] = "float",
    [BTI_BITS] = "bits", [BTI_COMPARE] = "any to bool", [BTI_INDEX_OUT] = "any to int32",
    [BTI_OWN] = "own"};

int bt_primitive_count(void) { return BTI_OP_COUNT; }

#define MEMBER(name) BTI_MEMBER(bt_primitive_info, name)
static const bti_member members[] = {MEMBER(size),   MEMBER(name),     MEMBER(family), MEMBER(inputs),
                                     MEMBER(dtypes), MEMBER(gradient), MEMBER(doc)};
#undef MEMBER
static const bti_sized_type layout = BTI_SIZED_TYPE(bt_primitive_info, "contents of info",
                                                    "bt_primitive_info info = BT_PRIMITIVE_INFO_INIT", members, NULL);

bt_status bt_primitive_describe(int index, bt_primitive_info *info) {
    BTI_TRY(bti_sized_check(&layout, "bt_primitive_describe", info));
    if (index < 0 || index >= BTI_OP_COUNT)
        return bti_fail(BT_OUT_OF_RANGE, "bt_primitive_describe: there are %d primitives, not number %d", BTI_OP_COUNT,
                        index);
    const bti_op_row *row = bti_op_info((bti_op)index);
    bt_primitive_info known = {sizeof known,  row->name, families[row->class], row->arity, dtype_rules[row->dtype_rule],
                               row->gradient, row->doc};
    bti_info_give(&layout, &known, info);
    return BT_OK;
}

int bt_operation_count(void) {
    int count = 0;
    while (bti_name_at(count)) count++;
    return count;
}

const char *bt_operation_name(int index, const char **log_name) {
    const bti_op_name *row = bti_name_at(index);
    if (log_name) *log_name = row ? row->log_name : NULL;
    return row ? row->public_name : NULL;
}
