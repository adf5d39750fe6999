/* SPDX-License-Identifier: BSD-2-Clause */
/* pack.c -- writing and reading packs; pack.h has the format */
#include "pack.h"

#include <endian.h>
#include <string.h>

#include <xxhash.h>

_Static_assert(sizeof(struct cp_record) == 48, "no padding");

static size_t rounded(uint64_t len)
{
	return (len + 7) / 8 * 8;
}

static void swap(struct cp_record *record)
{
	record->kind = htole32(record->kind);
	record->mode = htole32(record->mode);
	record->size = htole64(record->size);
	record->mtime = htole64(record->mtime);
	record->name_len = htole32(record->name_len);
	record->has_data = htole32(record->has_data);
}

char *cp_pack_place(const struct cp_pack *pack, const char *name, uint64_t size)
{
	size_t front = sizeof(struct cp_record) + rounded(strlen(name));

	if (size > pack->len || front + rounded(size) > pack->len - pack->used)
		return NULL;
	return pack->memory + pack->used + front;
}

void cp_pack_add(struct cp_pack *pack, const struct cp_record *record, const char *name)
{
	struct cp_record wire = *record;
	char *at = pack->memory + pack->used;

	wire.name_len = (uint32_t) strlen(name);
	pack->used += sizeof(wire) + rounded(wire.name_len);
	if (record->has_data)
		pack->used += rounded(record->size);
	memcpy(at + sizeof(wire), name, wire.name_len);
	swap(&wire);
	memcpy(at, &wire, sizeof(wire));
}

int cp_pack_next(struct cp_pack *pack, struct cp_record *record, char name[CP_TEXT],
		 const char **data)
{
	size_t left = pack->len - pack->used;
	char *at = pack->memory + pack->used;

	if (left < sizeof(*record))
		return -1;
	memcpy(record, at, sizeof(*record));
	swap(record);
	left -= sizeof(*record);
	if (record->name_len >= CP_TEXT || rounded(record->name_len) > left ||
	    record->kind < CP_FILE || record->kind > CP_UNREAD)
		return -1;
	memcpy(name, at + sizeof(*record), record->name_len);
	name[record->name_len] = 0;
	left -= rounded(record->name_len);
	*data = at + sizeof(*record) + rounded(record->name_len);
	if (record->has_data && (record->size > left || rounded(record->size) > left))
		return -1;
	pack->used += sizeof(*record) + rounded(record->name_len);
	if (record->has_data)
		pack->used += rounded(record->size);
	return 0;
}

void cp_digest(const void *data, size_t len, uint8_t *digest)
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, len));
	memcpy(digest, canonical.digest, CP_DIGEST);
}
