/* Lines for people: to the sink that the program set, else to standard error. */
#ifndef BTI_BASE_LOG_H
#define BTI_BASE_LOG_H

void bti_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Each line of the text as a line of its own. */
void bti_log_lines(const char *lines);

#endif
