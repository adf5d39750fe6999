/* SPDX-License-Identifier: BSD-2-Clause */
/* status_query.c -- queries and replies; status_query.h has the formats */
#include "agent/status_query.h"

#include <string.h>

#define STATUS_VERSION 1
#define REPLY_MAGIC UINT32_C(0xf51a7e11)

/* A query without the page that it asks for. */
static const uint8_t query[PMV_STATUS_QUERY_SIZE - 1] = "pmemverbs asks\1";

#define QUERY_VERSION_AT 14

struct wire_page {
	uint32_t magic;
	uint8_t version;
	uint8_t page;
	uint8_t pages;
	uint8_t count;
	uint64_t values[PMV_STATUS_REPLY_VALUES];
} __attribute__((packed));

_Static_assert(sizeof(struct wire_page) == PMV_STATUS_REPLY_SIZE, "page");
_Static_assert(PMV_STATUS_REPLY_SIZE <= 55, "verbs has no room for more");

void pmv_status_query_encode(uint8_t buf[PMV_STATUS_QUERY_SIZE], uint8_t page)
{
	memcpy(buf, query, sizeof(query));
	buf[sizeof(query)] = page;
}

bool pmv_status_query_decode(const void *cm_data, size_t len, bool *known, uint8_t *page)
{
	const uint8_t *data = cm_data;

	if (len != PMV_STATUS_QUERY_SIZE)
		return false;
	*known = data[QUERY_VERSION_AT] == query[QUERY_VERSION_AT];
	*page = data[sizeof(query)];
	return !memcmp(data, query, QUERY_VERSION_AT);
}

size_t pmv_status_reply_encode(uint8_t buf[PMV_STATUS_REPLY_SIZE], const uint64_t *values,
			       size_t count, uint8_t page)
{
	struct wire_page wire = {
		.magic = REPLY_MAGIC,
		.version = STATUS_VERSION,
		.page = values ? page : PMV_STATUS_REPLY_REFUSED,
		.pages = values ? (uint8_t) ((count + PMV_STATUS_REPLY_VALUES - 1) /
					     PMV_STATUS_REPLY_VALUES)
				: 0,
	};
	size_t first = (size_t) page * PMV_STATUS_REPLY_VALUES, len;

	if (values && first < count) {
		wire.count = (uint8_t) (count - first < PMV_STATUS_REPLY_VALUES
						? count - first
						: PMV_STATUS_REPLY_VALUES);
		memcpy(wire.values, values + first, wire.count * sizeof(uint64_t));
	}
	len = offsetof(struct wire_page, values) + wire.count * sizeof(uint64_t);
	memcpy(buf, &wire, len);
	return len;
}

bool pmv_status_reply_decode(const void *data, size_t len, uint8_t page,
			     struct pmv_status_reply *reply)
{
	const size_t header = offsetof(struct wire_page, values);
	struct wire_page wire = {0};

	*reply = (struct pmv_status_reply){0};
	if (len < header)
		return false;
	memcpy(&wire, data, header);
	/* A core may hand over more than was sent. */
	if (wire.magic != REPLY_MAGIC || wire.version != STATUS_VERSION ||
	    wire.count > PMV_STATUS_REPLY_VALUES || len < header + wire.count * sizeof(uint64_t))
		return false;
	reply->refused = wire.page == PMV_STATUS_REPLY_REFUSED;
	if (reply->refused)
		return true;
	/* All pages but the last are full. */
	if (wire.page != page || page >= wire.pages ||
	    wire.pages > PMV_STATUS_MOST / PMV_STATUS_REPLY_VALUES ||
	    (page + 1 < wire.pages ? wire.count < PMV_STATUS_REPLY_VALUES : !wire.count))
		return false;
	reply->pages = wire.pages;
	reply->count = wire.count;
	memcpy(reply->values, (const uint8_t *) data + header, wire.count * sizeof(uint64_t));
	return true;
}
