/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inquiry.h -- what a process that listens tells who asks, byte by byte
 *
 * A question is a connection request whose private data is nothing but this:
 *
 *    0  14 bytes  "pmemverbs asks"
 *   14  u8        version (1)
 *   15  u8        the page of the answer that is wanted: 0, 1, ...
 *
 * The listening side rejects the request, and its answer is the private data of that:
 *
 *    0  u32       magic
 *    4  u8        version (1)
 *    5  u8        the page; 255: it does not answer (only with FI_PMEMVERBS_ANSWER=on)
 *    6  u8        how many pages there are
 *    7  u8        how many values are on this one
 *    8  values    u64 each, little-endian
 *
 * libfabric's verbs provider has room for 55 bytes, so an answer has several pages.  Each is a
 * connection request of its own, and nobody remembers the ones before it.  The values are those of
 * enum pmv_inquiry_value, in their order.  Later versions may append some.
 */
#ifndef PMV_INQUIRY_H
#define PMV_INQUIRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/setting.h"

#define PMV_QUESTION_SIZE 16
#define PMV_PAGE_VALUES 5
#define PMV_PAGE_SIZE (8 + PMV_PAGE_VALUES * sizeof(uint64_t))
#define PMV_PAGE_REFUSED 255

/* The values are sent: never renumber. */
enum pmv_inquiry_value {
	PMV_TOLD_VERSION,    /* of the provider: FI_VERSION(major, minor) */
	PMV_TOLD_AGENT,      /* enum pmv_agent_mode */
	PMV_TOLD_RELAXED,    /* FI_PMEMVERBS_ORDERING=relaxed */
	PMV_TOLD_DDIO,       /* inbound data may be in its caches, as its keys say */
	PMV_TOLD_DECLARED,   /* 0, or 1 + the domain that FI_PMEMVERBS_DOMAIN declares */
	PMV_TOLD_COMMIT_ALL, /* FI_PMEMVERBS_COMMIT=all */
	PMV_TOLD_DOMAINS,    /* open now */
	PMV_TOLD_REGIONS,    /* registered for commits now, by enum pmv_persist */
	PMV_TOLD_COUNTERS = PMV_TOLD_REGIONS + PMV_WSP + 1, /* struct fi_pmemverbs_counters */
};

/* More than any version tells. */
#define PMV_TOLD_MOST 128

void pmv_question_encode(uint8_t buf[PMV_QUESTION_SIZE], uint8_t page);

/* pmv_question_decode -- false: it is none; *known: its version is ours */
bool pmv_question_decode(const void *cm_data, size_t len, bool *known, uint8_t *page);

/*
 * pmv_page_encode -- a page of so many values; there is none behind the last.  values NULL: it
 * is refused.  Returns the length.
 */
size_t pmv_page_encode(uint8_t buf[PMV_PAGE_SIZE], const uint64_t *values, size_t count,
		       uint8_t page);

struct pmv_page {
	bool refused;
	uint8_t pages;
	uint8_t count;
	uint64_t values[PMV_PAGE_VALUES];
};

/* pmv_page_decode -- the answer to a question for a page; false: it is none that is known */
bool pmv_page_decode(const void *data, size_t len, uint8_t page, struct pmv_page *answer);

#endif /* PMV_INQUIRY_H */
