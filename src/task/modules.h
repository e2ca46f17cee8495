/* Functions by module and name. */
#ifndef BTI_TASK_MODULES_H
#define BTI_TASK_MODULES_H

#include <berth/task.h>

#include "base/error.h"

/* A function of a module ("" is the program), which is opened if it is not yet; NOT_FOUND names both. */
bt_status bti_module_find(const char *module, const char *name, const bt_remote_entry **entry);
enum { BTI_KEY_END = 2 * 16 + 1 }; /* of a key, after the path */
/* For engines that bring modules to other machines: the hash of the module's bytes (XXH3, 64 bits); false: the key is the program's. */
bool bti_module_content(const char *key, uint64_t *content);
/* In a process that runs calls: says that the file at `path` has these bytes. Calls of functions of that module use this file if it is not
 * where the program opened it. FAILED_PRECONDITION: the file has other bytes; NOT_FOUND: it cannot be read. Any thread. */
bt_status bti_module_provide(uint64_t content, const char *path);
/* In a process that is another program: opens the program at `path`, made such that it can be (ray/program.py). Its functions are the program's. */
bt_status bti_module_open_program(const char *path);
/* The path of a module, for people: entries and calls know it by a key. */
const char *bti_module_path(const char *key, char *path, size_t size);

#endif
