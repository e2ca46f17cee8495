/* Writes zip archives as NumPy does: the local headers have zip64 sizes, whatever the sizes are. */
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/str.h"
#include "file/zip.h"

enum { VERSION64 = 45, DATE = 0x21 /* 1980-01-01 */, UTF8_NAME = 0x800 };

struct bti_zip_writer {
    bti_writer *writer;
    uint64_t at; /* bytes written */
    bti_str directory;
    uint64_t count;
    /* the member that is being written */
    bti_zip_member member;
    const char *name;
    z_stream stream; /* when it is deflated */
};

static void add_number(bti_str *text, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) bti_str_add_bytes(text, &(char){(char)(value >> 8 * i)}, 1);
}

static bt_status write_text(bti_zip_writer *zip, bti_str *text) {
    bt_status status = text->failed ? bti_no_memory() : bti_writer_add(zip->writer, text->text, text->length);
    if (status == BT_OK) zip->at += text->length;
    bti_str_free(text);
    return status;
}

/* What the local header and the directory say of a member alike: from the version to the length of the name. */
static void add_common(bti_str *text, const bti_zip_member *m, uint64_t stored, uint64_t bytes, size_t name_length) {
    add_number(text, VERSION64, 2);
    add_number(text, UTF8_NAME, 2);
    add_number(text, m->method, 2);
    add_number(text, 0, 2); /* time */
    add_number(text, DATE, 2);
    add_number(text, m->crc, 4);
    add_number(text, stored, 4);
    add_number(text, bytes, 4);
    add_number(text, name_length, 2);
}

static void add_local_header(bti_str *text, const bti_zip_member *m, const char *name) {
    bti_str_add_bytes(text, "PK\3\4", 4);
    add_common(text, m, UINT32_MAX, UINT32_MAX, strlen(name));
    add_number(text, 20, 2); /* bytes of the zip64 sizes */
    bti_str_add(text, name);
    add_number(text, 1, 2);
    add_number(text, 16, 2);
    add_number(text, m->bytes, 8);
    add_number(text, m->stored, 8);
}

static void add_entry(bti_str *text, const bti_zip_member *m, const char *name) {
    const uint64_t values[] = {m->bytes, m->stored, m->header};
    uint64_t field[3];
    int large = 0;
    for (int i = 0; i < 3; i++) large += values[i] >= UINT32_MAX;
    for (int i = 0; i < 3; i++) field[i] = values[i] >= UINT32_MAX ? UINT32_MAX : values[i];
    bti_str_add_bytes(text, "PK\1\2", 4);
    add_number(text, 3 << 8 | VERSION64, 2); /* made on Unix */
    add_common(text, m, field[1], field[0], strlen(name));
    add_number(text, large ? 4 + 8 * large : 0, 2);
    add_number(text, 0, 2);                    /* comment */
    add_number(text, 0, 2);                    /* volume */
    add_number(text, 0, 2);                    /* internal attributes */
    add_number(text, (uint64_t)0600 << 16, 4); /* mode */
    add_number(text, field[2], 4);
    bti_str_add(text, name);
    if (!large) return;
    add_number(text, 1, 2);
    add_number(text, 8 * large, 2);
    for (int i = 0; i < 3; i++)
        if (field[i] == UINT32_MAX) add_number(text, values[i], 8);
}

bti_zip_writer *bti_zip_writer_new(bti_writer *writer) {
    bti_zip_writer *zip = bti_calloc(1, sizeof *zip);
    if (zip) zip->writer = writer;
    return zip;
}

/* Has the right sizes once the member ends. */
bt_status bti_zip_writer_begin(bti_zip_writer *zip, const char *name, bool deflated) {
    zip->name = name;
    zip->member = (bti_zip_member){.header = zip->at, .method = deflated ? Z_DEFLATED : 0};
    zip->stream = (z_stream){0};
    if (deflated &&
        deflateInit2(&zip->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return bti_no_memory();
    bti_str text = {0};
    add_local_header(&text, &zip->member, name);
    return write_text(zip, &text);
}

static bt_status write_data(bti_zip_writer *zip, const void *data, size_t bytes) {
    BTI_TRY(bti_writer_add(zip->writer, data, bytes));
    zip->at += bytes;
    zip->member.stored += bytes;
    return BT_OK;
}

/* At most 2^30 bytes at once. */
static bt_status deflate_part(bti_zip_writer *zip, const void *data, size_t bytes, int flush) {
    unsigned char output[16384];
    zip->stream.next_in = (unsigned char *)(uintptr_t)data;
    zip->stream.avail_in = (uInt)bytes;
    do {
        zip->stream.next_out = output;
        zip->stream.avail_out = sizeof output;
        (void)deflate(&zip->stream, flush);
        BTI_TRY(write_data(zip, output, sizeof output - zip->stream.avail_out));
    } while (!zip->stream.avail_out);
    return BT_OK;
}

bt_status bti_zip_writer_add(bti_zip_writer *zip, const void *data, size_t bytes) {
    if (!bytes) return BT_OK;
    zip->member.crc = (uint32_t)crc32_z(zip->member.crc, data, bytes);
    zip->member.bytes += bytes;
    if (!zip->member.method) return write_data(zip, data, bytes);
    const char *from = data;
    while (bytes) {
        size_t part = bytes < 1u << 30 ? bytes : 1u << 30;
        BTI_TRY(deflate_part(zip, from, part, Z_NO_FLUSH));
        from += part;
        bytes -= part;
    }
    return BT_OK;
}

bt_status bti_zip_writer_end(bti_zip_writer *zip) {
    if (zip->member.method) BTI_TRY(deflate_part(zip, NULL, 0, Z_FINISH));
    bti_str header = {0};
    add_local_header(&header, &zip->member, zip->name);
    bt_status status = header.failed ? bti_no_memory()
                                     : bti_writer_change(zip->writer, zip->member.header, header.text, header.length);
    bti_str_free(&header);
    add_entry(&zip->directory, &zip->member, zip->name);
    zip->count++;
    if (zip->member.method) deflateEnd(&zip->stream);
    zip->member.method = 0;
    return status;
}

static bt_status write_directory(bti_zip_writer *zip) {
    uint64_t begin = zip->at, bytes = zip->directory.length, count = zip->count;
    if (zip->directory.failed) return bti_no_memory();
    BTI_TRY(bti_writer_add(zip->writer, bti_str_text(&zip->directory), zip->directory.length));
    bti_str text = {0};
    if (count >= UINT16_MAX || begin >= UINT32_MAX || bytes >= UINT32_MAX) {
        bti_str_add_bytes(&text, "PK\6\6", 4);
        add_number(&text, 44, 8); /* bytes that follow */
        add_number(&text, 3 << 8 | VERSION64, 2);
        add_number(&text, VERSION64, 2);
        add_number(&text, 0, 8); /* volumes */
        add_number(&text, count, 8);
        add_number(&text, count, 8);
        add_number(&text, bytes, 8);
        add_number(&text, begin, 8);
        bti_str_add_bytes(&text, "PK\6\7", 4);
        add_number(&text, 0, 4);
        add_number(&text, begin + bytes, 8);
        add_number(&text, 1, 4);
    }
    bti_str_add_bytes(&text, "PK\5\6", 4);
    add_number(&text, 0, 4); /* volumes */
    add_number(&text, count < UINT16_MAX ? count : UINT16_MAX, 2);
    add_number(&text, count < UINT16_MAX ? count : UINT16_MAX, 2);
    add_number(&text, bytes < UINT32_MAX ? bytes : UINT32_MAX, 4);
    add_number(&text, begin < UINT32_MAX ? begin : UINT32_MAX, 4);
    add_number(&text, 0, 2); /* comment */
    return write_text(zip, &text);
}

bt_status bti_zip_writer_finish(bti_zip_writer *zip, bt_status status) {
    if (zip->member.method) deflateEnd(&zip->stream); /* of a member that did not end */
    if (status == BT_OK) status = write_directory(zip);
    bti_str_free(&zip->directory);
    bti_free(zip);
    return status;
}
