/* SPDX-License-Identifier: BSD-2-Clause */
/* links.c -- connections of the cases of the functional program: see functional.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"

#define LOCAL_SIZE ((size_t) 4 << 20)

static int create_local(struct link *link, const struct link_attr *attr)
{
	size_t size = attr->local_size ? attr->local_size : LOCAL_SIZE;
	int ret;

	if (memory_map(&link->memory, NULL, size))
		return failed(link->fx, "no memory");
	ret = region_register(&link->target->node, &link->local, link->memory.base, size,
			      FI_READ | FI_WRITE | FI_SEND | FI_RECV, 0);
	return ret ? failed_call(link->fx, "fi_mr_reg", ret) : 0;
}

static int create_conn(struct link *link, const struct link_attr *attr)
{
	struct node *node = &link->target->node;
	struct fi_info *info = fi_dupinfo(node->info);
	const int passes = 1;
	int ret;

	if (!info)
		return failed(link->fx, "no memory");
	info->tx_attr->op_flags = attr->op_flags;
	ret = conn_create(&link->conn, node, info, &attr->conn);
	fi_freeinfo(info);
	if (!ret && attr->unordered)
		ret = fi_setopt(&link->conn.ep->fid, FI_OPT_ENDPOINT, FI_OPT_PMEMVERBS_WRITES_PASS,
				&passes, sizeof(passes));
	return ret ? failed_call(link->fx, "creating an endpoint", ret) : 0;
}

/* connect_link -- the target accepts meanwhile */
static int connect_link(struct link *link, const struct link_attr *attr)
{
	struct control_msg msg = {
		.command = CTL_ACCEPT,
		.arg = {attr->accept, attr->kind ? attr->kind->id : 0},
	};
	char data[CM_DATA_MAX];
	int mine, theirs;

	if (target_begin(link->target, &msg, NULL))
		return -1;
	mine = conn_connect(&link->conn, NULL, 0, NULL);
	theirs = target_finish(link->target, &msg, data, sizeof(data));
	if (theirs == -FI_ENOSYS && attr->accept & ACCEPT_SRX)
		return skipped(link->fx, "no shared receive contexts");
	if (theirs)
		return failed_call(link->fx, "accepting at the target", theirs);
	if (mine)
		return failed_call(link->fx, "connecting", mine);
	link->id = msg.arg[0];
	link->target->has_domain = true;
	return 0;
}

static const struct link_attr usual_link = {
	.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
};

struct link *fx_unconnected(struct fx *fx, struct target_proc *target, const struct link_attr *attr)
{
	struct link *link;

	if (fx->nlinks == MAX_LINKS) {
		failed(fx, "too many connections in one case");
		return NULL;
	}
	if (!attr)
		attr = &usual_link;
	link = &fx->links[fx->nlinks++];
	*link = (struct link){
		.fx = fx,
		.target = target ? target : fx->target,
		.format = attr->conn.format,
	};
	return create_conn(link, attr) || create_local(link, attr) ? NULL : link;
}

struct link *fx_link(struct fx *fx, struct target_proc *target, const struct link_attr *attr)
{
	struct link *link = fx_unconnected(fx, target, attr);

	return link && !connect_link(link, attr ? attr : &usual_link) ? link : NULL;
}

void link_close(struct link *link)
{
	if (link->conn.ep)
		fi_shutdown(link->conn.ep, 0);
	conn_close(&link->conn);
	region_close(&link->local);
	memory_unmap(&link->memory);
}

int query_key(struct fx *fx, struct link *link, uint64_t key, struct fi_pmemverbs_region *region)
{
	struct fid_domain *domain = link->target->node.domain;
	struct fi_pmemverbs_ops *ops;
	int ret;

	ret = fi_open_ops(&domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL);
	if (ret)
		return failed_call(fx, "fi_open_ops", ret);
	ret = ops->query_key(link->conn.ep, key, region);
	return ret ? failed_call(fx, "query_key", ret) : 0;
}

int query_messages(struct fx *fx, struct link *link, struct fi_pmemverbs_region *region)
{
	struct fid_domain *domain = link->target->node.domain;
	struct fi_pmemverbs_ops *ops;
	int ret = fi_open_ops(&domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL);

	if (ret)
		return failed_call(fx, "fi_open_ops", ret);
	ret = ops->query_messages(link->conn.ep, region);
	return ret ? failed_call(fx, "query_messages", ret) : 0;
}

bool by_agent(struct link *link, const struct remote *remote)
{
	struct fi_pmemverbs_region region;

	return is_pmemverbs(link->fx) && !query_key(link->fx, link, remote->key, &region) &&
	       region.method == FI_PMEMVERBS_AGENT;
}

/* served_environment -- files are synced where the run is about them, else lines are flushed */
static const char *const *served_environment(void)
{
	static const char *const page[] = {"FI_PMEMVERBS_DOMAIN=page", "FI_PMEMVERBS_AGENT=thread",
					   NULL};
	static const char *const dmp[] = {"FI_PMEMVERBS_DOMAIN=dmp", "FI_PMEMVERBS_DDIO=on",
					  "FI_PMEMVERBS_AGENT=thread", NULL};
	const char *domain = getenv("FI_PMEMVERBS_DOMAIN");

	return domain && !strcmp(domain, "page") ? page : dmp;
}

struct link *served_link(struct fx *fx, const struct link_attr *attr)
{
	struct target_attr target_attr = {.environment = served_environment()};
	struct target_proc *target;

	if (!is_pmemverbs(fx)) {
		skipped(fx, "the agent is pmemverbs' own");
		return NULL;
	}
	target = fx_target(fx, &target_attr);
	return target ? fx_link(fx, target, attr) : NULL;
}

struct remote *served_region(struct link *link, size_t len)
{
	return fx_remote(link->fx, link->target, len, FI_REMOTE_WRITE, FI_RMA_PMEM);
}

void *source(struct link *link, size_t len, uint64_t seed, size_t offset)
{
	unsigned char *buf;

	if (len > link->local.len - link->used)
		link->used = 0;
	buf = (unsigned char *) link->local.buf + link->used;
	link->used += len;
	pattern_fill(buf, len, seed, offset);
	return buf;
}
