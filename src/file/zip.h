/* Zip archives (PKWARE's APPNOTE.TXT): members that are stored or deflated, also of 4 GiB and more (zip64). Refused: encryption,
 * other methods, archives in several volumes or behind other bytes. */
#ifndef BTI_FILE_ZIP_H
#define BTI_FILE_ZIP_H

#include "file/io.h"
#include "file/names.h"

typedef struct bti_zip_member {
    uint64_t header; /* where its local header begins */
    uint64_t stored; /* bytes in the archive */
    uint64_t bytes;  /* of the content */
    uint32_t crc;
    uint16_t method, flags;
} bti_zip_member;

typedef struct bti_zip {
    const bti_file *file;
    bti_names names; /* of the members, in the order of the directory */
    bti_zip_member *members;
    char *texts;         /* of the names */
    uint64_t data_limit; /* where the directory begins */
} bti_zip;

/* Reads the directory. *zip is to be closed, also after an error; zeros are a closed one. `file` must stay open until then. */
bt_status bti_zip_open(bti_zip *zip, const bti_file *file);
void bti_zip_close(bti_zip *zip);
/* Bytes [begin, begin + bytes) of a member's content; if that is all of it, its checksum is compared. Any thread. */
bt_status bti_zip_read(const bti_zip *zip, int member, uint64_t begin, void *data, size_t bytes);
/* All of the content as a file in memory, which the caller closes; its errors name archive and member. Any thread. */
bt_status bti_zip_extract(const bti_zip *zip, int member, bti_file *content);

/* --- writing -------------------------------------------------------------------------------------------------------- */

typedef struct bti_zip_writer bti_zip_writer;
/* Members are added to the writer's file, which must be empty. bti_zip_writer_finish writes the directory if all went well; it ends
 * the zip writer in any case, and leaves the file's to be committed or discarded. NULL: out of memory. */
bti_zip_writer *bti_zip_writer_new(bti_writer *writer);
bt_status bti_zip_writer_begin(bti_zip_writer *zip, const char *name, bool deflated);
bt_status bti_zip_writer_add(bti_zip_writer *zip, const void *data, size_t bytes);
bt_status bti_zip_writer_end(bti_zip_writer *zip); /* of the member */
bt_status bti_zip_writer_finish(bti_zip_writer *zip, bt_status status);

#endif
