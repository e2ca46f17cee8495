/* Small files as text. */
#ifndef BTI_BASE_FILE_TEXT_H
#define BTI_BASE_FILE_TEXT_H

#include <fcntl.h>
#include <unistd.h>

/* The beginning of a file as text, at most size - 1 bytes; made for the files of /proc and /sys. Returns the length; 0, and "", when it cannot
 * be read or is empty. */
static inline size_t bti_file_text(const char *path, char *text, size_t size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    for (ssize_t got; file >= 0 && (got = read(file, text + length, size - 1 - length)) > 0;) length += (size_t)got;
    if (file >= 0) close(file);
    text[length] = '\0';
    return length;
}

#endif
