#include "base/files.h"

#include <string.h>
#include <sys/resource.h>

bt_status bti_files_refuse(const char *what, int error) {
    struct rlimit limit;
    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: %s", what, strerror(error));
    return bti_fail(BT_RESOURCE_EXHAUSTED, "%s: %s: the limit RLIMIT_NOFILE (ulimit -n) is %llu", what, strerror(error),
                    (unsigned long long)limit.rlim_cur);
}
