/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * send.c -- entries that are sent
 *
 * The server has a receive in each cell that is free, in the order of the cells.  A client
 * has no more calls without replies than there are cells, and a cell is free again before the reply
 * to its call is sent: so each message finds its cell, and nobody has to name it.
 */
#include "client.h"

int rpc_send_entry(struct pmemrpc_client *client, struct rpc_posted *posted)
{
	void *desc = fi_mr_desc(client->mirror_mr);
	struct iovec iov = {
		.iov_base = client->ring.base + posted->place.position % client->ring.size,
		.iov_len = RPC_WORD + RPC_BODY_HEAD + posted->argument_len,
	};
	struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .context = posted};
	ssize_t ret = fi_sendmsg(client->link.ep, &msg,
				 posted->plain ? 0 : FI_COMPLETION | FI_COMMIT_COMPLETE);

	if (ret && ret != -FI_EAGAIN)
		explain_call(&client->error, "fi_sendmsg", ret);
	posted->pieces = !ret;
	posted->pending = !ret && !posted->plain;
	return (int) ret;
}
