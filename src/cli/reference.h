/* The pages of the reference that are part of the command. */
#ifndef BTI_CLI_REFERENCE_H
#define BTI_CLI_REFERENCE_H

/* The prototypes, descriptions and examples of all pages, one after the other; free() it. NULL: memory is short. */
char *cli_pages_text(void);

#endif
