/* berth/call.h: the macros of task.h that make calls from C and C++ values: bt_remote, bt_actor_new, bt_method,
 * bt_pool_submit, bt_get, bt_put, bt_arguments, bt_argument, bt_return, bt_yield, bt_list_get, and lists (BT_LIST).
 * They are written in the same way in both languages. task.h includes this file and documents the calls.
 *
 * Values are integers, enumerations, real numbers, `char *`, bt_bytes, bt_array *, bt_list, bt_ref * and bt_actor *; in
 * C++ also anything with a c_str() (std::string), as a text. In C a macro takes up to 64 values, in C++ any number;
 * bt_remote_named and the like take a list of any length in both: `bt_item_value list[] = {BT_ITEM(1),
 * BT_ITEM("text")}`. A variable that receives a value has one of the types that bt_get names; other types do not
 * compile.
 */
#ifndef BERTH_CALL_H
#define BERTH_CALL_H

#include <berth/task.h>

#ifdef __cplusplus
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#endif

static inline bt_item_value bti_of_integer(int64_t x) {
    bt_item_value value = {BT_INTEGER, {0}};
    value.as.integer = x;
    return value;
}
static inline bt_item_value bti_of_real(double x) {
    bt_item_value value = {BT_REAL, {0}};
    value.as.real = x;
    return value;
}
static inline bt_item_value bti_of_text(const char *x) {
    bt_item_value value = {BT_TEXT_VALUE, {0}};
    value.as.text = x;
    return value;
}
static inline bt_item_value bti_of_bytes(bt_bytes x) {
    bt_item_value value = {BT_BYTES, {0}};
    value.as.bytes = x;
    return value;
}
static inline bt_item_value bti_of_array(bt_array *x) {
    bt_item_value value = {BT_ARRAY_VALUE, {0}};
    value.as.array = x;
    return value;
}
static inline bt_item_value bti_of_ref(bt_ref *x) {
    bt_item_value value = {BT_REFERENCE, {0}};
    value.as.ref = x;
    return value;
}
static inline bt_item_value bti_of_actor(bt_actor *x) {
    bt_item_value value = {BT_ACTOR_VALUE, {0}};
    value.as.actor = x;
    return value;
}
static inline bt_item_value bti_of_list(bt_list x) {
    bt_item_value value = {BT_LIST_VALUE, {0}};
    value.as.list = x;
    return value;
}
static inline bt_list bti_list_of_items(const bt_item_value *items, int count) {
    bt_list list = {items, NULL, count, 0};
    return list;
}
static inline bt_list bti_list_of_refs(bt_ref *const *refs, int count) {
    bt_list list = {refs, NULL, count, 1};
    return list;
}
static inline bt_list bti_list_of_actors(bt_actor *const *actors, int count) {
    bt_list list = {actors, NULL, count, 2};
    return list;
}

/* All macros are variadic, because in C17 and C++17 a macro with `...` must get at least one argument for it. The first
 * of __VA_ARGS__ is the function; a trailing comma adds an empty argument where there may be none. */
#define BTI_ENTRY(...) BTI_ENTRY_(__VA_ARGS__, )
#define BTI_ENTRY_(function, ...) (&bti_remote_##function)

#ifdef __cplusplus
/* --- C++ ---------------------------------------------------------------------------------------------------------------- */

/* Converts any supported type to a value, for lists in braces. */
struct bti_item : bt_item_value {
    bti_item(const char *x) : bt_item_value(bti_of_text(x)) {}
    bti_item(bt_bytes x) : bt_item_value(bti_of_bytes(x)) {}
    bti_item(bt_array *x) : bt_item_value(bti_of_array(x)) {}
    bti_item(bt_ref *x) : bt_item_value(bti_of_ref(x)) {}
    bti_item(bt_actor *x) : bt_item_value(bti_of_actor(x)) {}
    bti_item(bt_list x) : bt_item_value(bti_of_list(x)) {}
    template <class T, std::enable_if_t<std::is_integral<T>::value || std::is_enum<T>::value, int> = 0>
    bti_item(T x) : bt_item_value(bti_of_integer(static_cast<int64_t>(x))) {}
    template <class T, std::enable_if_t<std::is_floating_point<T>::value, int> = 0>
    bti_item(T x) : bt_item_value(bti_of_real(static_cast<double>(x))) {}
    template <class T,
              std::enable_if_t<std::is_convertible<decltype(std::declval<const T &>().c_str()), const char *>::value,
                               int> = 0>
    bti_item(const T &x) : bt_item_value(bti_of_text(x.c_str())) {}
};

template <class T, bool = std::is_enum<T>::value> struct bti_number { using type = T; };
template <class T> struct bti_number<T, true> { using type = std::underlying_type_t<T>; };

/* The type of value that a variable of type T receives. */
template <class T> constexpr bt_value_type bti_type_of() {
    using number = typename bti_number<T>::type;
    if (std::is_void<T>::value) return BT_NOTHING;
    if (std::is_same<T, const char *>::value || std::is_same<T, char *>::value) return BT_TEXT_VALUE;
    if (std::is_same<T, bt_bytes>::value) return BT_BYTES;
    if (std::is_same<T, bt_array *>::value) return BT_ARRAY_VALUE;
    if (std::is_same<T, bt_actor *>::value) return BT_ACTOR_VALUE;
    if (std::is_same<T, bt_ref *>::value) return BT_REFERENCE;
    if (std::is_same<T, bt_list>::value) return BT_LIST_VALUE;
    if (std::is_same<T, float>::value || std::is_same<T, double>::value) return BT_REAL;
    if (!std::is_integral<number>::value) return BT_NOTHING; /* no variable is of this type */
    return std::is_signed<number>::value || std::is_same<T, char>::value ? BT_INTEGER : BT_UNSIGNED;
}
template <class T> constexpr size_t bti_bytes_of() {
    return sizeof(std::conditional_t<std::is_void<T>::value, char, T>);
}

/* A variable that receives a value; nullptr: none. */
struct bti_target : bti_variable {
    bti_target(std::nullptr_t) : bti_variable{BT_NOTHING, 0, nullptr} {}
    template <class T> bti_target(T *variable) : bti_variable{bti_type_of<T>(), bti_bytes_of<T>(), variable} {
        static_assert(bti_type_of<T>() != BT_NOTHING || std::is_void<T>::value,
                      "a value cannot be written to a variable of this type: see bt_get");
    }
};

using bti_items = std::initializer_list<bti_item>;
static_assert(sizeof(bti_item) == sizeof(bt_item_value) && sizeof(bti_target) == sizeof(bti_variable),
              "lists of them are lists of what they are derived from");

inline bt_ref *bti_remote_items(const bt_remote_entry *entry, const bt_task_options *options, bti_items items) {
    return bti_remote(entry, options, items.begin(), static_cast<int>(items.size()));
}
inline bt_actor *bti_actor_items(const bt_remote_entry *entry, const bt_task_options *options, bti_items items) {
    return bti_actor(entry, options, items.begin(), static_cast<int>(items.size()));
}
inline bt_ref *bti_method_items(bt_actor *actor, const bt_remote_entry *entry, const bt_task_options *options,
                                bti_items items) {
    return bti_method(actor, entry, options, items.begin(), static_cast<int>(items.size()));
}
BT_MUST_USE inline bt_status bti_pool_submit_items(bt_pool *pool, const bt_remote_entry *entry, bti_items items) {
    return bti_pool_submit(pool, entry, items.begin(), static_cast<int>(items.size()));
}
inline bt_ref *bti_put_item(const bti_item &item) { return bti_put(&item); }
BT_MUST_USE inline bt_status bti_return_items(bt_task *task, bti_items items) {
    return bti_return(task, items.begin(), static_cast<int>(items.size()));
}
BT_MUST_USE inline bt_status bti_yield_item(bt_task *task, const bti_item &item) { return bti_yield(task, &item); }
BT_MUST_USE inline bt_status bti_get_into(bt_ref *ref, const bti_target &target, double seconds) {
    return bti_get(ref, target.type, target.bytes, target.out, seconds);
}
BT_MUST_USE inline bt_status bti_list_into(bt_list list, int index, const bti_target &target) {
    return bti_list_get(list, index, target.type, target.bytes, target.out);
}
inline bt_list bti_list_of_items(bti_items items) {
    return bti_list_of_items(items.begin(), static_cast<int>(items.size()));
}
inline bt_list bt_list_of(const bt_item_value *items, int count) { return bti_list_of_items(items, count); }
inline bt_list bt_list_of(bt_ref *const *refs, int count) { return bti_list_of_refs(refs, count); }
inline bt_list bt_list_of(bt_actor *const *actors, int count) { return bti_list_of_actors(actors, count); }
BT_MUST_USE inline bt_status bti_argument_into(bt_task *task, int index, const bti_target &target) {
    return bti_argument(task, index, target.type, target.bytes, target.out);
}
BT_MUST_USE inline bt_status bti_arguments_into(bt_task *task, std::initializer_list<bti_target> targets) {
    return bti_arguments(task, targets.begin(), static_cast<int>(targets.size()));
}

constexpr uint32_t bti_failures(std::initializer_list<bt_status> failures) {
    uint32_t set = 0;
    for (bt_status failure : failures) set |= uint32_t{1} << failure;
    return set;
}
#define BT_FAILURES(...) bti_failures({__VA_ARGS__})

#define BTI_ITEMS(...) BTI_ITEMS_(__VA_ARGS__, )
#define BTI_ITEMS_(function, ...) \
    { __VA_ARGS__ }
#define BT_ITEM(...) bt_item_value(bti_item(__VA_ARGS__))
#define bt_remote(...) BTI_AT(bt_ref *, bti_remote_items(BTI_ENTRY(__VA_ARGS__), nullptr, BTI_ITEMS(__VA_ARGS__)))
#define bt_remote_with(options, ...) \
    BTI_AT(bt_ref *, bti_remote_items(BTI_ENTRY(__VA_ARGS__), options, BTI_ITEMS(__VA_ARGS__)))
#define bt_actor_new(...) BTI_AT(bt_actor *, bti_actor_items(BTI_ENTRY(__VA_ARGS__), nullptr, BTI_ITEMS(__VA_ARGS__)))
#define bt_actor_new_with(options, ...) \
    BTI_AT(bt_actor *, bti_actor_items(BTI_ENTRY(__VA_ARGS__), options, BTI_ITEMS(__VA_ARGS__)))
#define bt_method(actor, ...) \
    BTI_AT(bt_ref *, bti_method_items(actor, BTI_ENTRY(__VA_ARGS__), nullptr, BTI_ITEMS(__VA_ARGS__)))
#define bt_method_with(options, actor, ...) \
    BTI_AT(bt_ref *, bti_method_items(actor, BTI_ENTRY(__VA_ARGS__), options, BTI_ITEMS(__VA_ARGS__)))
#define bt_pool_submit(pool, ...) \
    BTI_AT_MUST(bti_pool_submit_items(pool, BTI_ENTRY(__VA_ARGS__), BTI_ITEMS(__VA_ARGS__)))
#define BT_LIST(...) bti_list_of_items({__VA_ARGS__})
#define bt_list_get(list, index, out) BTI_AT_MUST(bti_list_into(list, index, out))
#define bt_put(...) BTI_AT(bt_ref *, bti_put_item(__VA_ARGS__))
#define bt_get(ref, out) BTI_AT_MUST(bti_get_into(ref, out, -1))
#define bt_get_within(ref, seconds, out) BTI_AT_MUST(bti_get_into(ref, out, seconds))
#define bt_argument(task, index, out) bti_argument_into(task, index, out)
#define bt_arguments(...) BTI_ARGUMENTS(__VA_ARGS__, )
#define BTI_ARGUMENTS(task, ...) bti_arguments_into(task, {__VA_ARGS__})
#define bt_return(...) BTI_RETURN_ITEMS(__VA_ARGS__, )
#define bt_yield(task, ...) bti_yield_item(task, __VA_ARGS__)
#define BTI_RETURN_ITEMS(task, ...) bti_return_items(task, {__VA_ARGS__})

#else
/* --- C ------------------------------------------------------------------------------------------------------------------ */

#define BT_ITEM(x) BTI_VALUE_OF(x)
#define BTI_VALUE_OF(x) \
    _Generic((x), float: bti_of_real, double: bti_of_real, long double: bti_of_real, char *: bti_of_text, const char *: bti_of_text, \
             bt_bytes: bti_of_bytes, bt_array *: bti_of_array, bt_ref *: bti_of_ref, bt_actor *: bti_of_actor, bt_list: bti_of_list,      \
             default: bti_of_integer)(x)
#define BTI_TYPE_AT(out) \
    _Generic((out), float *: BT_REAL, double *: BT_REAL, char **: BT_TEXT_VALUE, const char **: BT_TEXT_VALUE,    \
             bt_bytes *: BT_BYTES, bt_array **: BT_ARRAY_VALUE, bt_actor **: BT_ACTOR_VALUE, void *: BT_NOTHING,  \
             bt_ref **: BT_REFERENCE, bt_list *: BT_LIST_VALUE,                                                   \
             bool *: BT_UNSIGNED, unsigned char *: BT_UNSIGNED, unsigned short *: BT_UNSIGNED,                    \
             unsigned *: BT_UNSIGNED, unsigned long *: BT_UNSIGNED, unsigned long long *: BT_UNSIGNED,            \
             char *: BT_INTEGER, signed char *: BT_INTEGER, short *: BT_INTEGER, int *: BT_INTEGER,               \
             long *: BT_INTEGER, long long *: BT_INTEGER)
#define BTI_BYTES_AT(out) sizeof(*_Generic((out), void * : (char *)NULL, default : (out)))

/* BTI_EACH(m, first, a, b): `m(a) m(b)`, up to 64; BTI_COUNT(first, a, b): 2. */
#define BTI_COUNT(...)                                                                                                 \
    BTI_COUNT_(__VA_ARGS__, 64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43,    \
               42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, \
               16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, )
#define BTI_COUNT_(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, \
                   a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, \
                   a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61, \
                   a62, a63, a64, count, ...)                                                                          \
    count
#define BTI_EACH(m, ...) BTI_CAT(BTI_EACH, BTI_COUNT(__VA_ARGS__))(m, __VA_ARGS__, )
#define BTI_EACH0(m, first, ...)
#define BTI_EACH1(m, first, x, ...) m(x)
#define BTI_EACH2(m, first, x, ...) m(x) BTI_EACH1(m, first, __VA_ARGS__)
#define BTI_EACH3(m, first, x, ...) m(x) BTI_EACH2(m, first, __VA_ARGS__)
#define BTI_EACH4(m, first, x, ...) m(x) BTI_EACH3(m, first, __VA_ARGS__)
#define BTI_EACH5(m, first, x, ...) m(x) BTI_EACH4(m, first, __VA_ARGS__)
#define BTI_EACH6(m, first, x, ...) m(x) BTI_EACH5(m, first, __VA_ARGS__)
#define BTI_EACH7(m, first, x, ...) m(x) BTI_EACH6(m, first, __VA_ARGS__)
#define BTI_EACH8(m, first, x, ...) m(x) BTI_EACH7(m, first, __VA_ARGS__)
#define BTI_EACH9(m, first, x, ...) m(x) BTI_EACH8(m, first, __VA_ARGS__)
#define BTI_EACH10(m, first, x, ...) m(x) BTI_EACH9(m, first, __VA_ARGS__)
#define BTI_EACH11(m, first, x, ...) m(x) BTI_EACH10(m, first, __VA_ARGS__)
#define BTI_EACH12(m, first, x, ...) m(x) BTI_EACH11(m, first, __VA_ARGS__)
#define BTI_EACH13(m, first, x, ...) m(x) BTI_EACH12(m, first, __VA_ARGS__)
#define BTI_EACH14(m, first, x, ...) m(x) BTI_EACH13(m, first, __VA_ARGS__)
#define BTI_EACH15(m, first, x, ...) m(x) BTI_EACH14(m, first, __VA_ARGS__)
#define BTI_EACH16(m, first, x, ...) m(x) BTI_EACH15(m, first, __VA_ARGS__)
#define BTI_EACH17(m, first, x, ...) m(x) BTI_EACH16(m, first, __VA_ARGS__)
#define BTI_EACH18(m, first, x, ...) m(x) BTI_EACH17(m, first, __VA_ARGS__)
#define BTI_EACH19(m, first, x, ...) m(x) BTI_EACH18(m, first, __VA_ARGS__)
#define BTI_EACH20(m, first, x, ...) m(x) BTI_EACH19(m, first, __VA_ARGS__)
#define BTI_EACH21(m, first, x, ...) m(x) BTI_EACH20(m, first, __VA_ARGS__)
#define BTI_EACH22(m, first, x, ...) m(x) BTI_EACH21(m, first, __VA_ARGS__)
#define BTI_EACH23(m, first, x, ...) m(x) BTI_EACH22(m, first, __VA_ARGS__)
#define BTI_EACH24(m, first, x, ...) m(x) BTI_EACH23(m, first, __VA_ARGS__)
#define BTI_EACH25(m, first, x, ...) m(x) BTI_EACH24(m, first, __VA_ARGS__)
#define BTI_EACH26(m, first, x, ...) m(x) BTI_EACH25(m, first, __VA_ARGS__)
#define BTI_EACH27(m, first, x, ...) m(x) BTI_EACH26(m, first, __VA_ARGS__)
#define BTI_EACH28(m, first, x, ...) m(x) BTI_EACH27(m, first, __VA_ARGS__)
#define BTI_EACH29(m, first, x, ...) m(x) BTI_EACH28(m, first, __VA_ARGS__)
#define BTI_EACH30(m, first, x, ...) m(x) BTI_EACH29(m, first, __VA_ARGS__)
#define BTI_EACH31(m, first, x, ...) m(x) BTI_EACH30(m, first, __VA_ARGS__)
#define BTI_EACH32(m, first, x, ...) m(x) BTI_EACH31(m, first, __VA_ARGS__)
#define BTI_EACH33(m, first, x, ...) m(x) BTI_EACH32(m, first, __VA_ARGS__)
#define BTI_EACH34(m, first, x, ...) m(x) BTI_EACH33(m, first, __VA_ARGS__)
#define BTI_EACH35(m, first, x, ...) m(x) BTI_EACH34(m, first, __VA_ARGS__)
#define BTI_EACH36(m, first, x, ...) m(x) BTI_EACH35(m, first, __VA_ARGS__)
#define BTI_EACH37(m, first, x, ...) m(x) BTI_EACH36(m, first, __VA_ARGS__)
#define BTI_EACH38(m, first, x, ...) m(x) BTI_EACH37(m, first, __VA_ARGS__)
#define BTI_EACH39(m, first, x, ...) m(x) BTI_EACH38(m, first, __VA_ARGS__)
#define BTI_EACH40(m, first, x, ...) m(x) BTI_EACH39(m, first, __VA_ARGS__)
#define BTI_EACH41(m, first, x, ...) m(x) BTI_EACH40(m, first, __VA_ARGS__)
#define BTI_EACH42(m, first, x, ...) m(x) BTI_EACH41(m, first, __VA_ARGS__)
#define BTI_EACH43(m, first, x, ...) m(x) BTI_EACH42(m, first, __VA_ARGS__)
#define BTI_EACH44(m, first, x, ...) m(x) BTI_EACH43(m, first, __VA_ARGS__)
#define BTI_EACH45(m, first, x, ...) m(x) BTI_EACH44(m, first, __VA_ARGS__)
#define BTI_EACH46(m, first, x, ...) m(x) BTI_EACH45(m, first, __VA_ARGS__)
#define BTI_EACH47(m, first, x, ...) m(x) BTI_EACH46(m, first, __VA_ARGS__)
#define BTI_EACH48(m, first, x, ...) m(x) BTI_EACH47(m, first, __VA_ARGS__)
#define BTI_EACH49(m, first, x, ...) m(x) BTI_EACH48(m, first, __VA_ARGS__)
#define BTI_EACH50(m, first, x, ...) m(x) BTI_EACH49(m, first, __VA_ARGS__)
#define BTI_EACH51(m, first, x, ...) m(x) BTI_EACH50(m, first, __VA_ARGS__)
#define BTI_EACH52(m, first, x, ...) m(x) BTI_EACH51(m, first, __VA_ARGS__)
#define BTI_EACH53(m, first, x, ...) m(x) BTI_EACH52(m, first, __VA_ARGS__)
#define BTI_EACH54(m, first, x, ...) m(x) BTI_EACH53(m, first, __VA_ARGS__)
#define BTI_EACH55(m, first, x, ...) m(x) BTI_EACH54(m, first, __VA_ARGS__)
#define BTI_EACH56(m, first, x, ...) m(x) BTI_EACH55(m, first, __VA_ARGS__)
#define BTI_EACH57(m, first, x, ...) m(x) BTI_EACH56(m, first, __VA_ARGS__)
#define BTI_EACH58(m, first, x, ...) m(x) BTI_EACH57(m, first, __VA_ARGS__)
#define BTI_EACH59(m, first, x, ...) m(x) BTI_EACH58(m, first, __VA_ARGS__)
#define BTI_EACH60(m, first, x, ...) m(x) BTI_EACH59(m, first, __VA_ARGS__)
#define BTI_EACH61(m, first, x, ...) m(x) BTI_EACH60(m, first, __VA_ARGS__)
#define BTI_EACH62(m, first, x, ...) m(x) BTI_EACH61(m, first, __VA_ARGS__)
#define BTI_EACH63(m, first, x, ...) m(x) BTI_EACH62(m, first, __VA_ARGS__)
#define BTI_EACH64(m, first, x, ...) m(x) BTI_EACH63(m, first, __VA_ARGS__)

#define BT_FAILURES(...) (0u BTI_EACH(BTI_FAILURE, , __VA_ARGS__))
#define BTI_FAILURE(status) | 1u << (status)

#define BTI_ITEM(x) BTI_VALUE_OF(x),
#define BTI_VARIABLE(x) {BTI_TYPE_AT(x), BTI_BYTES_AT(x), x},
/* With an extra element at the end, because an array may not be empty. */
#define BTI_ITEMS(...) (const bt_item_value[]){BTI_EACH(BTI_ITEM, __VA_ARGS__){BT_NOTHING, {0}}}, BTI_COUNT(__VA_ARGS__)
#define BTI_VARIABLES(...) \
    (const bti_variable[]){BTI_EACH(BTI_VARIABLE, __VA_ARGS__){BT_NOTHING, 0, NULL}}, BTI_COUNT(__VA_ARGS__)

/* BT_LIST() and BT_LIST(x) both have one macro argument. BTI_LIST_0 tells them apart: BTI_COMMA followed by the argument and `()` expands to a comma
 * only if the argument is empty (or has parentheses itself, the other rows). BTI_IS_MANY(...) is 1 for two arguments and more. */
#define BTI_IS_MANY(...)                                                                                             \
    BTI_COUNT_(, __VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
               0, 0, )
#define BTI_COMMA(...) ,
#define BT_LIST(...) BTI_CAT(BTI_LIST_, BTI_IS_MANY(__VA_ARGS__))(__VA_ARGS__)
#define BTI_LIST_1(...) bti_list_of_items(BTI_ITEMS(, __VA_ARGS__))
#define BTI_LIST_0(x) BTI_LIST_OF(BTI_IS_MANY(BTI_COMMA x), BTI_IS_MANY(x()), BTI_IS_MANY(BTI_COMMA x()))(x)
#define BTI_LIST_OF(a, b, c) BTI_LIST_OF_(a, b, c)
#define BTI_LIST_OF_(a, b, c) BTI_LIST_IF_##a##b##c
#define BTI_LIST_IF_001(x) bti_list_of_items(NULL, 0)
#define BTI_LIST_IF_000(x) BTI_LIST_1(x)
#define BTI_LIST_IF_100(x) BTI_LIST_1(x)
#define BTI_LIST_IF_101(x) BTI_LIST_1(x)
#define BTI_LIST_IF_010(x) BTI_LIST_1(x)
#define BTI_LIST_IF_011(x) BTI_LIST_1(x)
#define BTI_LIST_IF_110(x) BTI_LIST_1(x)
#define BTI_LIST_IF_111(x) BTI_LIST_1(x)
#define bt_list_of(x, count) \
    _Generic((x), bt_ref **: bti_list_of_refs, bt_ref *const *: bti_list_of_refs, bt_actor **: bti_list_of_actors, \
             bt_actor *const *: bti_list_of_actors, bt_item_value *: bti_list_of_items,                           \
             const bt_item_value *: bti_list_of_items)(x, count)
#define bt_list_get(list, index, out) BTI_AT_MUST(bti_list_get(list, index, BTI_TYPE_AT(out), BTI_BYTES_AT(out), out))

#define bt_remote(...) BTI_AT(bt_ref *, bti_remote(BTI_ENTRY(__VA_ARGS__), NULL, BTI_ITEMS(__VA_ARGS__)))
#define bt_remote_with(options, ...) \
    BTI_AT(bt_ref *, bti_remote(BTI_ENTRY(__VA_ARGS__), options, BTI_ITEMS(__VA_ARGS__)))
/* `bt_actor_new(counter_new, 5)`, `bt_method(actor, counter_add, 1)`; with options as for bt_remote_with. */
#define bt_actor_new(...) BTI_AT(bt_actor *, bti_actor(BTI_ENTRY(__VA_ARGS__), NULL, BTI_ITEMS(__VA_ARGS__)))
#define bt_actor_new_with(options, ...) \
    BTI_AT(bt_actor *, bti_actor(BTI_ENTRY(__VA_ARGS__), options, BTI_ITEMS(__VA_ARGS__)))
#define bt_method(actor, ...) BTI_AT(bt_ref *, bti_method(actor, BTI_ENTRY(__VA_ARGS__), NULL, BTI_ITEMS(__VA_ARGS__)))
#define bt_method_with(options, actor, ...) \
    BTI_AT(bt_ref *, bti_method(actor, BTI_ENTRY(__VA_ARGS__), options, BTI_ITEMS(__VA_ARGS__)))
#define bt_pool_submit(pool, ...) BTI_AT_MUST(bti_pool_submit(pool, BTI_ENTRY(__VA_ARGS__), BTI_ITEMS(__VA_ARGS__)))
#define bt_put(x) BTI_AT(bt_ref *, bti_put(&(const bt_item_value[]){BTI_VALUE_OF(x)}[0]))
#define bt_get(ref, out) BTI_AT_MUST(bti_get(ref, BTI_TYPE_AT(out), BTI_BYTES_AT(out), out, -1))
#define bt_get_within(ref, seconds, out) BTI_AT_MUST(bti_get(ref, BTI_TYPE_AT(out), BTI_BYTES_AT(out), out, seconds))
#define bt_argument(task, index, out) bti_argument(task, index, BTI_TYPE_AT(out), BTI_BYTES_AT(out), out)
#define bt_arguments(...) bti_arguments(BTI_FIRST(__VA_ARGS__, ), BTI_VARIABLES(__VA_ARGS__))
#define BTI_FIRST(first, ...) first
#define bt_yield(task, x) bti_yield(task, &(const bt_item_value[]){BTI_VALUE_OF(x)}[0])
#define bt_return(...) bti_return(BTI_FIRST(__VA_ARGS__, ), BTI_ITEMS(__VA_ARGS__))
#endif

#endif
