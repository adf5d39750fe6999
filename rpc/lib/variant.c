/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * variant.c -- who makes the entries durable: the sender, or the receiver
 *
 * The provider chooses the method from what the server's memory is, and says which one it is.
 * Nothing here changes that: who wants another one has to say at the server what its memory is.
 * That may be less than it is, which costs time, but not more: README.md has the table.
 */
#include <stddef.h>
#include <stdio.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "client.h"

static const char *const domains[] = {"none", "page", "dmp", "mhp", "wsp"};

static bool sends(const struct pmemrpc_client *client)
{
	return client->attr.transport == PMEMRPC_SEND;
}

/*
 * ask -- what the provider would do with an entry.  -FI_ENOSYS: another provider, which says
 * nothing. Another error: what the server says of its memory says nothing here
 */
static int ask(struct pmemrpc_client *client, struct fi_pmemverbs_region *region)
{
	struct fi_pmemverbs_ops *ops;
	int ret = fi_open_ops(&client->link.domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL);

	if (ret)
		return -FI_ENOSYS;
	/* An older provider does not know of messages. */
	if (sends(client) && ops->size < offsetof(struct fi_pmemverbs_ops, query_messages) +
						 sizeof(ops->query_messages))
		return -FI_ENOSYS;
	return sends(client) ? ops->query_messages(client->link.ep, region)
			     : ops->query_key(client->link.ep, client->ring_mr_key, region);
}

static const char *means(enum fi_pmemverbs_method method)
{
	switch (method) {
	case FI_PMEMVERBS_WRITE:
		return "its NIC's buffers persist";
	case FI_PMEMVERBS_READ:
		return "a READ flushes";
	case FI_PMEMVERBS_FLUSH:
		return "RDMA FLUSH makes it durable";
	default:
		return "the agent flushes";
	}
}

/* refuse_sender -- only the server's processor makes it durable there */
static int refuse_sender(struct pmemrpc_client *client, const struct fi_pmemverbs_region *region)
{
	const char *why = "inbound data stays in its caches (if not, FI_PMEMVERBS_DDIO=off says so "
			  "there)";

	if (region->domain == FI_PMEMVERBS_PAGE)
		why = "only msync at the server does that for a file";
	else if (region->relaxed)
		why = "the path may reorder them (FI_PMEMVERBS_ORDERING=relaxed)";
	return explain(&client->error, -FI_EOPNOTSUPP,
		       "a flush by the sender makes no entries durable in the server's memory "
		       "(%s): %s",
		       domains[region->domain], why);
}

/* check -- is it what was asked for? */
static int check(struct pmemrpc_client *client, const struct fi_pmemverbs_region *region)
{
	bool receiver = region->method == FI_PMEMVERBS_AGENT;

	if (region->method == FI_PMEMVERBS_REFUSED)
		return explain(&client->error, -FI_EOPNOTSUPP,
			       "entries can't be %s so that they are durable: %s",
			       sends(client) ? "sent" : "written",
			       region->relaxed && sends(client)
				       ? "the path may reorder them (FI_PMEMVERBS_ORDERING=relaxed)"
				       : "the server's memory needs the agent, which is switched "
					 "off there "
					 "(FI_PMEMVERBS_AGENT), or is of another version");
	if (client->attr.flush == PMEMRPC_FLUSH_ANY)
		return 0;
	if (region->domain == FI_PMEMVERBS_NONE)
		return explain(&client->error, -FI_EOPNOTSUPP,
			       "nothing in the server's memory is durable "
			       "(FI_PMEMVERBS_DOMAIN=none)");
	if (receiver && client->attr.flush == PMEMRPC_FLUSH_SENDER)
		return refuse_sender(client, region);
	if (!receiver && client->attr.flush == PMEMRPC_FLUSH_RECEIVER)
		return explain(&client->error, -FI_EOPNOTSUPP,
			       "the server's memory (%s) does not need its agent; with "
			       "FI_PMEMVERBS_DOMAIN=dmp FI_PMEMVERBS_DDIO=on there, it is asked",
			       domains[region->domain]);
	return 0;
}

int rpc_variant_find(struct pmemrpc_client *client)
{
	struct fi_pmemverbs_region region;
	int ret = ask(client, &region);

	client->flush = PMEMRPC_FLUSH_ANY;
	client->in_order = !ret && !region.relaxed;
	/* It would refuse each commit, on this connection and on the next one. */
	if (ret && ret != -FI_ENOSYS)
		return explain(&client->error, -FI_EOPNOTSUPP,
			       "entries can't be written so that they are durable: the server's "
			       "provider is not pmemverbs, or it is another version (%s)",
			       fi_strerror(-ret));
	if (ret && (sends(client) || client->attr.flush != PMEMRPC_FLUSH_ANY))
		return explain(&client->error, -FI_EOPNOTSUPP,
			       "entries can't be sent, nor can it be said who flushes them: that "
			       "needs pmemverbs at both ends");
	if (ret) {
		snprintf(client->variant, sizeof(client->variant),
			 "entries are written; the provider does not say who flushes them");
		return 0;
	}
	ret = check(client, &region);
	if (ret)
		return ret;
	client->flush =
		region.method == FI_PMEMVERBS_AGENT ? PMEMRPC_FLUSH_RECEIVER : PMEMRPC_FLUSH_SENDER;
	snprintf(client->variant, sizeof(client->variant),
		 "%s%sflush: entries are %s; memory %s%s: %s", sends(client) ? "s" : "w",
		 client->flush == PMEMRPC_FLUSH_RECEIVER ? "r" : "",
		 sends(client) ? "sent" : "written", domains[region.domain],
		 region.domain == FI_PMEMVERBS_DMP && region.ddio ? ", DDIO on" : "",
		 means(region.method));
	return 0;
}

const char *pmemrpc_variant(const struct pmemrpc_client *client)
{
	return client->variant;
}

void rpc_variant_commits(const struct pmemrpc_client *client, uint64_t *by_sender,
			 uint64_t *by_receiver)
{
	struct fi_pmemverbs_counters counters = {0};
	struct fi_pmemverbs_counters_ops *ops;

	*by_sender = client->by_sender;
	*by_receiver = client->by_receiver;
	if (!client->link.domain || fi_open_ops(&client->link.domain->fid,
						FI_PMEMVERBS_COUNTERS_OPS, 0, (void **) &ops, NULL))
		return;
	ops->read(client->link.domain, &counters, sizeof(counters));
	*by_sender += counters.commits_write + counters.commits_read;
	*by_receiver += counters.commits_agent;
}

void rpc_variant_end(struct pmemrpc_client *client)
{
	rpc_variant_commits(client, &client->by_sender, &client->by_receiver);
}
