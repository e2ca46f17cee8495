#include "cli/demo_small.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"

int demo_small_model(char **argv, const demo_options *chosen, const char *name, demo_save_and_load *save_and_load) {
    char folder[1024], path[1100];
    if (chosen->save) return save_and_load(argv, chosen->save, chosen->quiet);
    if (!cli_temporary_folder(folder, sizeof folder)) return cli_failure(argv, folder);
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    int code = save_and_load(argv, path, chosen->quiet);
    unlink(path);
    rmdir(folder);
    return code;
}
