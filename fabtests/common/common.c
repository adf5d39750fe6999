/* SPDX-License-Identifier: BSD-2-Clause */
/* common.c -- what the programs on libfabric share: connections as the options say */
#include "common.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "stats.h"

#define LOOKS 50
#define NAP_NS 20000

uint64_t deadline_in(unsigned long seconds)
{
	return now_ns() + seconds * 1000000000ULL;
}

void rest(bool found)
{
	static const struct timespec nap = {.tv_nsec = NAP_NS};
	static _Thread_local unsigned int looks;

	looks = found ? 0 : looks + 1;
	if (looks < LOOKS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

bool is_core(const struct options *opts)
{
	return strcmp(opts->provider, "pmemverbs") != 0;
}

int report(const char *call, ssize_t ret)
{
	return explain(NULL, (int) ret, "%s: %s (%zd)", call, fi_strerror((int) -ret), ret);
}

static struct node_attr with_options(const struct options *opts, const struct node_attr *attr)
{
	struct node_attr full = *attr;

	full.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
	full.provider = opts->provider;
	full.fabric = opts->fabric;
	full.domain = opts->domain;
	full.host = opts->dst_addr;
	full.source = opts->src_addr;
	full.timeout_ms = opts->timeout * 1000;
	return full;
}

int fabric_listen(struct node *node, const struct options *opts, const struct node_attr *attr)
{
	struct node_attr full = with_options(opts, attr);
	int ret = node_listen(node, &full);

	if (!ret && strcmp(attr->port, "0"))
		options_ready(attr->port);
	return ret;
}

int fabric_open(struct node *node, const struct options *opts, const struct node_attr *attr)
{
	struct node_attr full = with_options(opts, attr);

	return node_open(node, &full);
}

int fabric_offered(const struct options *opts, const struct node_attr *attr, struct fi_info **info)
{
	struct node_attr full = with_options(opts, attr);

	return node_offered(&full, info);
}
