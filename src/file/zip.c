#include "file/zip.h"

#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "base/str.h"

enum { LOCAL_BYTES = 30, ENTRY_BYTES = 46, END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56 };
enum { DEFLATE_MOST = 1032 }; /* bytes of content that one deflated byte can stand for */

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0) value = value << 8 | at[bytes];
    return value;
}

/* --- the directory --------------------------------------------------------------------------------------------------- */

typedef struct directory {
    uint64_t begin, bytes, count;
} directory;

/* The offset of the record that ends the archive. A comment of up to 65535 bytes may follow it. */
static bt_status find_end(const bti_file *file, unsigned char end[END_BYTES], uint64_t *offset) {
    size_t tail_bytes = file->size < END_BYTES + 65535 ? (size_t)file->size : END_BYTES + 65535;
    unsigned char *tail = bti_alloc(tail_bytes);
    if (!tail) return bti_no_memory();
    bt_status status = bti_file_read(file, file->size - tail_bytes, tail, tail_bytes);
    bool found = false;
    for (size_t at = tail_bytes; status == BT_OK && !found && at-- > 0;) {
        if (tail_bytes - at < END_BYTES || memcmp(tail + at, "PK\5\6", 4)) continue;
        if (number(tail + at + 20, 2) != tail_bytes - at - END_BYTES) continue;
        memcpy(end, tail + at, END_BYTES);
        *offset = file->size - tail_bytes + at;
        found = true;
    }
    bti_free(tail);
    if (status == BT_OK && !found)
        status = bti_file_damaged(file, file->size, "a zip archive without the record that ends it: the file was cut");
    return status;
}

/* Takes the place of the directory from the zip64 record that the locator before `end` points to; *found: there is one. */
static bt_status read_end64(const bti_file *file, uint64_t end, directory *d, bool *found) {
    unsigned char locator[LOCATOR_BYTES], record[END64_BYTES];
    *found = false;
    if (end < LOCATOR_BYTES) return BT_OK;
    BTI_TRY(bti_file_read(file, end - LOCATOR_BYTES, locator, sizeof locator));
    if (memcmp(locator, "PK\6\7", 4)) return BT_OK;
    uint64_t at = number(locator + 8, 8);
    if (at > end - LOCATOR_BYTES || end - LOCATOR_BYTES - at < END64_BYTES)
        return bti_file_damaged(file, end - LOCATOR_BYTES, "its zip64 record is not within the file");
    BTI_TRY(bti_file_read(file, at, record, sizeof record));
    if (memcmp(record, "PK\6\6", 4)) return bti_file_damaged(file, at, "no zip64 record");
    if (number(record + 16, 4) || number(record + 20, 4) || number(record + 24, 8) != number(record + 32, 8))
        return bti_file_damaged(file, at, "the archive is one of several volumes");
    *d = (directory){number(record + 48, 8), number(record + 40, 8), number(record + 32, 8)};
    *found = true;
    return BT_OK;
}

static bt_status find_directory(const bti_file *file, directory *d) {
    unsigned char end[END_BYTES];
    uint64_t offset = 0;
    bool is64;
    BTI_TRY(find_end(file, end, &offset));
    BTI_TRY(read_end64(file, offset, d, &is64));
    if (!is64) {
        if (number(end + 4, 2) || number(end + 6, 2) || number(end + 8, 2) != number(end + 10, 2))
            return bti_file_damaged(file, offset, "the archive is one of several volumes");
        *d = (directory){number(end + 16, 4), number(end + 12, 4), number(end + 10, 2)};
    }
    if (d->begin > offset || d->bytes > offset - d->begin)
        return bti_file_damaged(file, offset, "its directory is not within the file");
    if (d->count > d->bytes / ENTRY_BYTES)
        return bti_file_damaged(file, offset, "%llu members do not fit a directory of %llu bytes",
                                (unsigned long long)d->count, (unsigned long long)d->bytes);
    return BT_OK;
}

/* The zip64 values of an entry stand for those of its fields that are all ones, in this order. */
static bool take_extra64(const unsigned char *extra, size_t bytes, bti_zip_member *m) {
    uint64_t *fields[] = {&m->bytes, &m->stored, &m->header};
    const unsigned char *values = NULL;
    size_t left = 0;
    while (bytes >= 4) {
        size_t length = (size_t)number(extra + 2, 2);
        if (length > bytes - 4) break; /* other fields may be anything */
        if (number(extra, 2) == 1) values = extra + 4, left = length;
        extra += 4 + length;
        bytes -= 4 + length;
    }
    for (int i = 0; i < 3; i++) {
        if (*fields[i] != UINT32_MAX) continue;
        if (left < 8) return false;
        *fields[i] = number(values, 8);
        values += 8;
        left -= 8;
    }
    return true;
}

static bt_status take_member(bti_zip *zip, int i, const unsigned char *entry, uint64_t place, char **texts) {
    bti_zip_member *m = &zip->members[i];
    size_t name = (size_t)number(entry + 28, 2), extra = (size_t)number(entry + 30, 2);
    *m = (bti_zip_member){number(entry + 42, 4),           number(entry + 20, 4),
                          number(entry + 24, 4),           (uint32_t)number(entry + 16, 4),
                          (uint16_t)number(entry + 10, 2), (uint16_t)number(entry + 8, 2)};
    if (memchr(entry + ENTRY_BYTES, 0, name))
        return bti_file_damaged(zip->file, place, "the name of a member has a byte of 0");
    memcpy(*texts, entry + ENTRY_BYTES, name);
    zip->names.names[i] = *texts;
    *texts += name + 1;
    if (!take_extra64(entry + ENTRY_BYTES + name, extra, m))
        return bti_file_damaged(zip->file, place, "member \"%s\" lacks its zip64 sizes",
                                bti_quote(zip->names.names[i]).text);
    if (m->header > zip->data_limit || m->stored > zip->data_limit - m->header)
        return bti_file_damaged(zip->file, place, "member \"%s\" is not within the file",
                                bti_quote(zip->names.names[i]).text);
    return BT_OK;
}

static bt_status take_members(bti_zip *zip, const directory *d, const unsigned char *bytes) {
    char *texts = zip->texts;
    uint64_t at = 0;
    for (int i = 0; i < (int)d->count; i++) {
        const unsigned char *entry = bytes + at;
        uint64_t place = d->begin + at;
        if (d->bytes - at < ENTRY_BYTES || memcmp(entry, "PK\1\2", 4))
            return bti_file_damaged(zip->file, place, "no entry of the directory, which is to have %llu",
                                    (unsigned long long)d->count);
        at += ENTRY_BYTES + number(entry + 28, 2) + number(entry + 30, 2) + number(entry + 32, 2);
        if (at > d->bytes) return bti_file_damaged(zip->file, place, "an entry that reaches past the directory");
        BTI_TRY(take_member(zip, i, entry, place, &texts));
    }
    const char *twice = bti_names_sort(&zip->names);
    return twice ? bti_file_damaged(zip->file, d->begin, "two members have the name \"%s\"", bti_quote(twice).text)
                 : BT_OK;
}

bt_status bti_zip_open(bti_zip *zip, const bti_file *file) {
    directory d = {0};
    *zip = (bti_zip){.file = file};
    BTI_TRY(find_directory(file, &d));
    zip->data_limit = d.begin;
    if (d.count > INT32_MAX / 2 || d.bytes > SIZE_MAX / 2) return bti_no_memory();
    zip->members = bti_calloc((size_t)d.count + 1, sizeof *zip->members);
    zip->texts = bti_calloc((size_t)d.bytes + 1, 1); /* names are shorter than their entries */
    unsigned char *bytes = bti_alloc((size_t)d.bytes);
    bt_status status = BT_OK;
    if (!bti_names_make(&zip->names, (int)d.count) || !zip->members || !zip->texts || !bytes) status = bti_no_memory();
    if (status == BT_OK) status = bti_file_read(file, d.begin, bytes, (size_t)d.bytes);
    if (status == BT_OK) status = take_members(zip, &d, bytes);
    bti_free(bytes);
    return status;
}

void bti_zip_close(bti_zip *zip) {
    bti_names_free(&zip->names);
    bti_free(zip->members);
    bti_free(zip->texts);
    *zip = (bti_zip){0};
}

/* --- contents -------------------------------------------------------------------------------------------------------- */

/* Where the member's data begin. */
static bt_status find_data(const bti_zip *zip, int member, uint64_t *begin) {
    const bti_zip_member *m = &zip->members[member];
    unsigned char local[LOCAL_BYTES];
    const char *name = zip->names.names[member];
    if (m->flags & 1)
        return bti_fail(BT_UNIMPLEMENTED, "%s: member \"%s\" is encrypted", zip->file->path, bti_quote(name).text);
    if (m->method != 0 && m->method != Z_DEFLATED)
        return bti_fail(BT_UNIMPLEMENTED,
                        "%s: member \"%s\" is compressed by method %d; known are stored (0) and deflated (8)",
                        zip->file->path, bti_quote(name).text, m->method);
    BTI_TRY(bti_file_read(zip->file, m->header, local, sizeof local));
    if (memcmp(local, "PK\3\4", 4))
        return bti_file_damaged(zip->file, m->header, "no header of member \"%s\"", bti_quote(name).text);
    *begin = m->header + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
    if (*begin > zip->data_limit || m->stored > zip->data_limit - *begin)
        return bti_file_damaged(zip->file, m->header, "the data of member \"%s\" are not within the file",
                                bti_quote(name).text);
    if (m->method == 0 ? m->stored != m->bytes : m->bytes / DEFLATE_MOST > m->stored)
        return bti_file_damaged(zip->file, m->header, "member \"%s\": %llu bytes cannot be made of %llu",
                                bti_quote(name).text, (unsigned long long)m->bytes, (unsigned long long)m->stored);
    return BT_OK;
}

typedef struct inflater {
    const bti_zip *zip;
    const char *name;
    uint64_t at, end; /* what is left to read of the file */
    z_stream stream;
    unsigned char input[16384];
} inflater;

static bt_status inflate_some(inflater *in, void *data, size_t bytes) {
    unsigned char *to = data;
    while (bytes) {
        if (!in->stream.avail_in && in->at < in->end) {
            size_t part = in->end - in->at < sizeof in->input ? (size_t)(in->end - in->at) : sizeof in->input;
            BTI_TRY(bti_file_read(in->zip->file, in->at, in->input, part));
            in->at += part;
            in->stream.next_in = in->input;
            in->stream.avail_in = (uInt)part;
        }
        uInt room = bytes < 1u << 30 ? (uInt)bytes : 1u << 30;
        in->stream.next_out = to;
        in->stream.avail_out = room;
        int code = inflate(&in->stream, Z_NO_FLUSH);
        size_t made = room - in->stream.avail_out;
        to += made;
        bytes -= made;
        if (code == Z_MEM_ERROR) return bti_no_memory();
        if (bytes && code != Z_OK)
            return bti_file_damaged(in->zip->file, in->at - in->stream.avail_in, "member \"%s\" %s",
                                    bti_quote(in->name).text,
                                    code == Z_STREAM_END || code == Z_BUF_ERROR ? "ends early" : "cannot be inflated");
    }
    return BT_OK;
}

static bt_status read_deflated(const bti_zip *zip, int member, uint64_t place, uint64_t begin, void *data,
                               size_t bytes) {
    inflater *in = bti_calloc(1, sizeof *in);
    if (!in || inflateInit2(&in->stream, -MAX_WBITS) != Z_OK) {
        bti_free(in);
        return bti_no_memory();
    }
    in->zip = zip;
    in->name = zip->names.names[member];
    in->at = place;
    in->end = place + zip->members[member].stored;
    bt_status status = BT_OK;
    unsigned char skipped[4096];
    for (uint64_t left = begin; left && status == BT_OK;) {
        size_t part = left < sizeof skipped ? (size_t)left : sizeof skipped;
        status = inflate_some(in, skipped, part);
        left -= part;
    }
    if (status == BT_OK) status = inflate_some(in, data, bytes);
    inflateEnd(&in->stream);
    bti_free(in);
    return status;
}

static uint32_t checksum(const unsigned char *data, size_t bytes) { return (uint32_t)crc32_z(0, data, bytes); }

bt_status bti_zip_read(const bti_zip *zip, int member, uint64_t begin, void *data, size_t bytes) {
    const bti_zip_member *m = &zip->members[member];
    uint64_t place = 0;
    BTI_TRY(find_data(zip, member, &place));
    if (begin > m->bytes || bytes > m->bytes - begin)
        return bti_file_damaged(zip->file, m->header, "member \"%s\" has %llu bytes, and more were to be read",
                                bti_quote(zip->names.names[member]).text, (unsigned long long)m->bytes);
    BTI_TRY(m->method == 0 ? bti_file_read(zip->file, place + begin, data, bytes)
                           : read_deflated(zip, member, place, begin, data, bytes));
    if (bytes == m->bytes && checksum(data, bytes) != m->crc)
        return bti_file_damaged(zip->file, place, "the data of member \"%s\" do not fit their checksum",
                                bti_quote(zip->names.names[member]).text);
    return BT_OK;
}

bt_status bti_zip_extract(const bti_zip *zip, int member, bti_file *content) {
    const bti_zip_member *m = &zip->members[member];
    bti_str path = {0};
    uint64_t place = 0;
    *content = (bti_file){.fd = -1};
    BTI_TRY(find_data(zip, member, &place)); /* before memory is allocated */
    bti_str_addf(&path, "%s: %s", zip->file->path, bti_quote(zip->names.names[member]).text);
    content->path = bti_str_take(&path);
    content->memory = bti_alloc((size_t)m->bytes);
    content->size = m->bytes;
    if (!content->path || !content->memory) {
        bti_file_close(content);
        return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory: %llu bytes of member \"%s\"",
                        (unsigned long long)m->bytes, bti_quote(zip->names.names[member]).text);
    }
    bt_status status = bti_zip_read(zip, member, 0, content->memory, (size_t)m->bytes);
    if (status != BT_OK) bti_file_close(content);
    return status;
}
