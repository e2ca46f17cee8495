// Tasks that call tasks: a merge sort whose halves are sorted by other tasks, down to pieces that are not worth a call. A task that waits
// for its children lends them its CPU, so two CPUs are enough for a tree of any depth.
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 200000, SMALL = 20000 };

static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void merge(const int *a, size_t a_count, const int *b, size_t b_count, int *into) {
    while (a_count || b_count) {
        int from_a = !b_count || (a_count && *a <= *b);
        *into++ = from_a ? *a : *b;
        if (from_a)
            a++, a_count--;
        else
            b++, b_count--;
    }
}

static bt_status sort(bt_task *task);
BT_REMOTE(sort); // declared before the body: the function calls itself

static bt_status sort(bt_task *task) {
    bt_bytes numbers, low, high;
    bt_status status = bt_arguments(task, &numbers);
    size_t count = numbers.size / sizeof(int), half = count / 2;
    int *sorted = status == BT_OK ? malloc(numbers.size) : NULL;
    if (!sorted) return status != BT_OK ? status : bt_task_fail(task, BT_RESOURCE_EXHAUSTED, "no memory");
    if (count <= SMALL) {
        for (size_t i = 0; i < count; i++) sorted[i] = ((const int *)numbers.data)[i];
        qsort(sorted, count, sizeof *sorted, compare);
    } else {
        low = (bt_bytes){numbers.data, half * sizeof(int)};
        high = (bt_bytes){(const int *)numbers.data + half, (count - half) * sizeof(int)};
        bt_ref *first = bt_remote(sort, low), *second = bt_remote(sort, high);
        status = bt_get(first, &low);
        if (status == BT_OK) status = bt_get(second, &high);
        if (status == BT_OK) merge(low.data, half, high.data, count - half, sorted);
    }
    bt_bytes result = {sorted, numbers.size};
    if (status == BT_OK) status = bt_return(task, result);
    free(sorted);
    return status;
}

int main(void) {
    if (bt_runtime_init(.num_cpus = 2) != BT_OK) return puts(bt_error_text()), 1;
    static int numbers[COUNT];
    unsigned state = 1;
    for (int i = 0; i < COUNT; i++) numbers[i] = (int)((state = state * 1103515245 + 12345) >> 8);
    BT_SCOPE {
        bt_bytes all = {numbers, sizeof numbers}, sorted;
        if (bt_get(bt_remote(sort, all), &sorted) != BT_OK) return puts(bt_error_text()), 1;
        const int *result = sorted.data;
        int right = sorted.size == sizeof numbers;
        for (int i = 1; i < COUNT && right; i++) right = result[i - 1] <= result[i];
        printf("%zu numbers: %s\n", sorted.size / sizeof(int), right ? "sorted" : "not sorted");
    }
    return bt_runtime_shutdown();
}
