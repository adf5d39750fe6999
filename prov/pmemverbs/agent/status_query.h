/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * status_query.h -- what a process that listens tells whoever asks, byte by byte
 *
 * A query is a connection request whose private data is nothing but this:
 *
 *    0  14 bytes  "pmemverbs asks"
 *   14  u8        version (1)
 *   15  u8        the page of the reply that is wanted: 0, 1, ...
 *
 * The listening side rejects the request, and its reply is the private data of that:
 *
 *    0  u32       magic
 *    4  u8        version (1)
 *    5  u8        the page; 255: it does not reply (only with FI_PMEMVERBS_ANSWER=on)
 *    6  u8        how many pages there are
 *    7  u8        how many values are on this one
 *    8  values    u64 each, little-endian
 *
 * libfabric's verbs provider has room for 55 bytes, so a reply has several pages.  For each there
 * is a query, and nobody remembers the ones before it.  The values are those of enum
 * pmv_status_value, in their order.  Later versions may append some.
 */
#ifndef PMV_STATUS_QUERY_H
#define PMV_STATUS_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/setting.h"

#define PMV_STATUS_QUERY_SIZE 16
#define PMV_STATUS_REPLY_VALUES 5
#define PMV_STATUS_REPLY_SIZE (8 + PMV_STATUS_REPLY_VALUES * sizeof(uint64_t))
#define PMV_STATUS_REPLY_REFUSED 255

/* The values are sent: never renumber. */
enum pmv_status_value {
	PMV_STATUS_VERSION,    /* of the provider: FI_VERSION(major, minor) */
	PMV_STATUS_AGENT,      /* enum pmv_agent_mode */
	PMV_STATUS_RELAXED,    /* FI_PMEMVERBS_ORDERING=relaxed */
	PMV_STATUS_DDIO,       /* inbound data may be in its caches, as its keys say */
	PMV_STATUS_DECLARED,   /* 0, or 1 + the domain that FI_PMEMVERBS_DOMAIN declares */
	PMV_STATUS_COMMIT_ALL, /* FI_PMEMVERBS_COMMIT=all */
	PMV_STATUS_DOMAINS,    /* open now */
	PMV_STATUS_REGIONS,    /* registered for commits now, by enum pmv_persist */
	PMV_STATUS_COUNTERS = PMV_STATUS_REGIONS + PMV_WSP + 1, /* struct fi_pmemverbs_counters */
};

/* More than any version tells. */
#define PMV_STATUS_MOST 128

void pmv_status_query_encode(uint8_t buf[PMV_STATUS_QUERY_SIZE], uint8_t page);

/* pmv_status_query_decode -- false: it is none; *known: its version is ours */
bool pmv_status_query_decode(const void *cm_data, size_t len, bool *known, uint8_t *page);

/*
 * pmv_status_reply_encode -- a page of so many values; there is none behind the last.  values NULL:
 * it is refused.  Returns the length.
 */
size_t pmv_status_reply_encode(uint8_t buf[PMV_STATUS_REPLY_SIZE], const uint64_t *values,
			       size_t count, uint8_t page);

struct pmv_status_reply {
	bool refused;
	uint8_t pages;
	uint8_t count;
	uint64_t values[PMV_STATUS_REPLY_VALUES];
};

/* pmv_status_reply_decode -- the reply to a query for a page; false: it is none that is known */
bool pmv_status_reply_decode(const void *data, size_t len, uint8_t page,
			     struct pmv_status_reply *reply);

#endif /* PMV_STATUS_QUERY_H */
