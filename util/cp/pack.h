/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pack.h -- many small files as one piece of memory: a record for each, its name, and its data
 *
 * A record is a struct cp_record with little-endian numbers, the name without a 0 at its
 * end, and (has_data) the data.  Each of the three begins at a multiple of eight.
 */
#ifndef CP_PACK_H
#define CP_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "proto.h"

/* The room that a target lends has so many slots of so many bytes. */
#define CP_PACK_BYTES ((size_t) 4 << 20)
#define CP_PACK_SLOTS 2
#define CP_PACK_ROOM (CP_PACK_SLOTS * CP_PACK_BYTES)
/* Larger files are put, or got, each by itself. */
#define CP_SMALL ((uint64_t) 1 << 20)
/* The most records of an offer: each has a character of the answer's text. */
#define CP_OFFERS (CP_TEXT - 24)
/* The most records of a pack with data: a target has all their files open. */
#define CP_STORES 256
/* Directories that are nested deeper are not copied. */
#define CP_DEPTH 64

enum cp_kind {
	CP_FILE = 1,
	CP_DIRECTORY,
	CP_DIRECTORY_END, /* nothing more goes there: it gets its time, and its permissions */
	CP_LEFT_OUT,      /* in lists: there is something that is not copied */
	CP_UNREAD, /* in lists: not all of that directory could be read; "": of what is listed */
};

struct cp_record {
	uint32_t kind;
	uint32_t mode;
	uint64_t size;
	uint64_t mtime;
	uint32_t name_len;
	uint32_t has_data;
	uint8_t digest[CP_DIGEST];
};

struct cp_pack {
	char *memory;
	size_t len;  /* of what may be used or, when it is read, of what is there */
	size_t used; /* or was read */
};

/* cp_pack_place -- where the data of a record with that name have to be, or NULL: no room */
char *cp_pack_place(const struct cp_pack *pack, const char *name, uint64_t size);

/* cp_pack_add -- after cp_pack_place; what is said of the name's length is not looked at */
void cp_pack_add(struct cp_pack *pack, const struct cp_record *record, const char *name);

/*
 * cp_pack_next -- the next record: 0, or -1 if there is none that makes sense.  The peer may write
 * to that memory meanwhile: what is checked is a copy.
 */
int cp_pack_next(struct cp_pack *pack, struct cp_record *record, char name[CP_TEXT],
		 const char **data);

/* cp_digest -- of so many bytes */
void cp_digest(const void *data, size_t len, uint8_t *digest);

#endif /* CP_PACK_H */
