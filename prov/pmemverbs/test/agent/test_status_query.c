/* SPDX-License-Identifier: BSD-2-Clause */
/* test_status_query.c -- questions and answers as they travel; hostile ones */
#include "agent/status_query.h"

#include <string.h>

#include <criterion/criterion.h>

#define VALUES PMV_STATUS_MOST

Test(page, carries_values)
{
	uint64_t values[PMV_STATUS_REPLY_VALUES * 2 + 1];
	uint8_t buf[PMV_STATUS_REPLY_SIZE];
	struct pmv_status_reply page;

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		values[i] = UINT64_C(0x0102030405060708) * (i + 1);
	for (uint8_t n = 0; n < 3; n++) {
		size_t len =
			pmv_status_reply_encode(buf, values, 2 * PMV_STATUS_REPLY_VALUES + 1, n);

		cr_assert_leq(len, 55);
		cr_assert(pmv_status_reply_decode(buf, len, n, &page));
		cr_expect_not(page.refused);
		cr_expect_eq(page.pages, 3);
		cr_expect_eq(page.count, n < 2 ? PMV_STATUS_REPLY_VALUES : 1);
		cr_expect_arr_eq(page.values, values + n * PMV_STATUS_REPLY_VALUES,
				 page.count * sizeof(*values));
		/* A transport may pad it. */
		memset(buf + len, 0, sizeof(buf) - len);
		cr_expect(pmv_status_reply_decode(buf, sizeof(buf), n, &page));
		cr_expect_not(pmv_status_reply_decode(buf, len, n + 1, &page), "another page");
	}
	cr_expect_not(
		pmv_status_reply_decode(buf, pmv_status_reply_encode(buf, values, 11, 3), 3, &page),
		"there is none");
}

Test(page, says_that_it_is_refused)
{
	uint8_t buf[PMV_STATUS_REPLY_SIZE];
	struct pmv_status_reply page;
	size_t len = pmv_status_reply_encode(buf, NULL, 0, 0);

	cr_assert(pmv_status_reply_decode(buf, len, 0, &page));
	cr_expect(page.refused);
	cr_expect_eq(page.count, 0);
}

/* Whoever answers may send anything: all lengths, and each byte changed. */
Test(page, is_not_trusted)
{
	uint64_t values[VALUES] = {1};
	uint8_t buf[PMV_STATUS_REPLY_SIZE], bad[PMV_STATUS_REPLY_SIZE], longer[4096];
	size_t len = pmv_status_reply_encode(buf, values, VALUES, 0);
	struct pmv_status_reply page;

	for (size_t cut = 0; cut < len; cut++)
		cr_expect_not(pmv_status_reply_decode(buf, cut, 0, &page), "%zu bytes", cut);
	for (size_t at = 0; at < 8; at++) {
		for (unsigned int byte = 0; byte < 256; byte++) {
			memcpy(bad, buf, len);
			bad[at] = (uint8_t) byte;
			if (!pmv_status_reply_decode(bad, len, 0, &page))
				continue;
			cr_expect(page.refused || byte == buf[at] || at == 6, "byte %zu: %u", at,
				  byte);
			cr_expect_leq(page.count, PMV_STATUS_REPLY_VALUES);
			cr_expect_leq(page.pages * PMV_STATUS_REPLY_VALUES, PMV_STATUS_MOST);
		}
	}
	/* More values than there is room for, in a long answer. */
	memset(longer, 1, sizeof(longer));
	memcpy(longer, buf, 8);
	for (unsigned int count = PMV_STATUS_REPLY_VALUES + 1; count < 256; count++) {
		longer[7] = (uint8_t) count;
		cr_expect_not(pmv_status_reply_decode(longer, sizeof(longer), 0, &page), "%u",
			      count);
	}
	/* Only the last page may be short. */
	memcpy(bad, buf, len);
	bad[7] = 1;
	cr_expect_not(pmv_status_reply_decode(bad, len, 0, &page));
}

Test(question, is_nothing_else)
{
	uint8_t buf[PMV_STATUS_QUERY_SIZE + 1] = {0}, page = 0;
	bool known = false;

	pmv_status_query_encode(buf, 7);
	cr_expect(pmv_status_query_decode(buf, PMV_STATUS_QUERY_SIZE, &known, &page));
	cr_expect(known);
	cr_expect_eq(page, 7);
	for (size_t len = 0; len <= sizeof(buf); len++)
		cr_expect_eq(pmv_status_query_decode(buf, len, &known, &page),
			     len == PMV_STATUS_QUERY_SIZE);
	/* A later version is a question, too. */
	buf[14]++;
	cr_expect(pmv_status_query_decode(buf, PMV_STATUS_QUERY_SIZE, &known, &page));
	cr_expect_not(known);
	for (size_t at = 0; at < 14; at++) {
		pmv_status_query_encode(buf, 7);
		buf[at] ^= 1;
		cr_expect_not(pmv_status_query_decode(buf, PMV_STATUS_QUERY_SIZE, &known, &page));
	}
}
