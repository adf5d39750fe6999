/* SPDX-License-Identifier: BSD-2-Clause */
/* cp_lent.c -- what a client can do with the memory that a target lends it for a put */
#include "cp_lent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "../../util/cp/link.h"
#include "../../util/cp/pack.h"
#include "../../util/cp/proto.h"

int cp_lent_answer(struct cp_link *link, struct cp_message *message)
{
	int64_t end = connection_now_ms() + TIMEOUT_MS;
	int ret = 0;

	/* Other completions come, too. */
	while (!ret && connection_now_ms() < end)
		ret = cp_link_receive(link, message, 100);
	return ret > 0;
}

/* transfer -- bytes of the link's data to or from what the target has lent */
static int transfer(struct cp_link *link, const struct cp_message *lent, size_t len, bool write)
{
	struct cp_op op = {0};
	struct iovec iov = {.iov_base = link->data, .iov_len = len};
	struct fi_rma_iov rma_iov = {.addr = lent->addr, .len = len, .key = lent->key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &link->region.desc,
		.iov_count = 1,
		.rma_iov = &rma_iov,
		.rma_iov_count = 1,
		.context = &op,
	};
	int ret = write ? (int) fi_writemsg(link->conn.ep, &msg, FI_COMPLETION | FI_COMMIT)
			: (int) fi_readmsg(link->conn.ep, &msg, FI_COMPLETION);

	while (!ret && !op.done)
		ret = cp_link_poll(link, TIMEOUT_MS);
	return ret;
}

/* leave -- a part that is as an interrupted copy leaves it */
static int leave(struct cp_link *link, const struct cp_message *lent)
{
	struct cp_state state = {.magic = CP_STATE_MAGIC,
				 .sequence = 1,
				 .size = SIZE,
				 .mtime = 1,
				 .committed = CP_STATE_PAGE};
	size_t all = cp_state_at(SIZE) + CP_STATE_PAGE;

	memset(link->data, 0, all);
	strcpy(link->data, "a secret");
	cp_digest(link->data, state.committed, state.digest);
	cp_state_encode((void *) (link->data + cp_state_at(SIZE) + CP_STATE_PLACE), &state);
	return transfer(link, lent, all, true);
}

/* see -- what is there already; whether it may be read is the provider's affair */
static int see(struct cp_link *link, const struct cp_message *lent)
{
	struct cp_message message = {.type = CP_FINISH};
	int seen = 0;

	memset(link->data, 0, SIZE);
	if (!transfer(link, lent, SIZE, false)) {
		for (size_t i = 0; i < SIZE; i++)
			seen |= link->data[i];
	}
	for (size_t i = 0; i < CP_DIGEST; i++)
		seen |= lent->digest[i];
	/* What it refuses tells nothing either. */
	if (cp_link_send(link, &message, TIMEOUT_MS) || !cp_lent_answer(link, &message) ||
	    message.status != EBADMSG)
		return 1;
	for (size_t i = 0; i < CP_DIGEST; i++)
		seen |= message.digest[i];
	return seen || lent->committed;
}

static int hold(struct cp_link *link)
{
	puts("it is lent");
	fflush(stdout);
	while (!cp_link_send(link, &(struct cp_message){.type = CP_ALIVE}, TIMEOUT_MS))
		usleep(500000);
	return 1;
}

bool cp_lent_is_way(const char *how)
{
	return !strcmp(how, "leaves") || !strcmp(how, "sees") || !strcmp(how, "holds");
}

int cp_lent_try(const struct node *node, const char *how, const char *name)
{
	struct cp_message message = {.type = CP_PUT, .size = SIZE, .mtime = 1}, lent;
	struct cp_link link;
	int bad = cp_link_open(&link, node, node->info, cp_state_at(SIZE) + CP_STATE_PAGE) ||
		  cp_link_connect(&link);

	snprintf(message.text, sizeof(message.text), "%s", name);
	bad = bad || cp_link_send(&link, &message, TIMEOUT_MS) || !cp_lent_answer(&link, &lent) ||
	      lent.status;
	if (!bad)
		bad = !strcmp(how, "leaves") ? leave(&link, &lent)
		      : !strcmp(how, "sees") ? see(&link, &lent)
					     : hold(&link);
	cp_link_close(&link);
	return bad;
}
