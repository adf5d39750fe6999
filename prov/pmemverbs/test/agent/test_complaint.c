/* SPDX-License-Identifier: BSD-2-Clause */
/* test_complaint.c -- how often peers are complained of, and that they are named */
#include "agent/complaint.h"

#include <arpa/inet.h>
#include <string.h>

#include <criterion/criterion.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "agent/link.h"
#include "engine/engine.h"

#define SECOND INT64_C(1000000000)

static const void *peer_addr; /* NULL: the core does not know it any more */
static size_t peer_len;

static int getpeer(struct fid_ep *ep, void *addr, size_t *len)
{
	(void) ep;
	if (!peer_addr)
		return -FI_ENOTCONN;
	memcpy(addr, peer_addr, peer_len < *len ? peer_len : *len);
	*len = peer_len;
	return 0;
}

static struct fi_ops_cm cm = {.size = sizeof(struct fi_ops_cm), .getpeer = getpeer};
static struct fid_ep core_ep = {.cm = &cm};
static const struct pmv_engine_ep engine = {.fid = &core_ep};
static const struct pmv_link from_peer = {.engine = &engine};

static void expect_name(const void *addr, size_t len, const char *name)
{
	struct pmv_complaints complaints = {0};
	struct pmv_complaint complaint;

	peer_addr = addr;
	peer_len = len;
	cr_assert(pmv_complaint_make(&complaints, &from_peer, 1, &complaint));
	cr_expect_str_eq(complaint.peer, name);
	cr_expect_str_eq(complaint.left_out, "");
}

Test(complaint, names_the_peer)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(4711)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(12)};
	struct sockaddr other = {.sa_family = AF_UNIX};

	inet_pton(AF_INET, "192.0.2.1", &in.sin_addr);
	inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr);
	expect_name(&in, sizeof(in), "192.0.2.1:4711");
	expect_name(&in6, sizeof(in6), "[2001:db8::1]:12");
	expect_name(&other, sizeof(other), "of unknown address");
	expect_name(NULL, 0, "of unknown address");
}

Test(complaint, is_made_once_a_second_and_counts_the_others)
{
	struct pmv_complaints complaints = {0};
	struct pmv_complaint complaint;
	int made = 0;

	peer_addr = NULL;
	for (int i = 0; i < 3000; i++)
		made += pmv_complaint_make(&complaints, &from_peer, SECOND + i, &complaint);
	cr_expect_eq(made, 1);
	cr_assert(pmv_complaint_make(&complaints, &from_peer, 2 * SECOND, &complaint));
	cr_expect_str_eq(complaint.left_out, " (2999 messages about peers were left out before)");
	cr_assert(pmv_complaint_make(&complaints, &from_peer, 3 * SECOND, &complaint));
	cr_expect_str_eq(complaint.left_out, "");
}
