/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_data.c -- a committed write puts its bytes where they belong, and no
 * others, however it is made
 */
#include <string.h>

#include "functional.h"

static int getinfo(struct fx *fx)
{
	const struct fi_info *info = fx->target->node.info;

	if (expect(fx, info->caps & FI_RMA_PMEM, "caps without FI_RMA_PMEM"))
		return -1;
	if (!is_pmemverbs(fx))
		return 0;
	if (expect(fx, info->caps & FI_FENCE, "caps without FI_FENCE") ||
	    expect(fx, info->domain_attr->mr_key_size == 8, "mr_key_size is %zu",
		   info->domain_attr->mr_key_size))
		return -1;
	return expect(fx, info->domain_attr->mr_mode & FI_MR_PROV_KEY,
		      "mr_mode without FI_MR_PROV_KEY");
}

static int offered(struct fx *fx, uint64_t caps)
{
	struct node_attr attr = {.caps = caps, .threading = FI_THREAD_SAFE};
	struct fi_info *info = NULL;
	int ret;

	ret = fabric_offered(fx->opts, &attr, &info);
	fi_freeinfo(info);
	return ret;
}

static int getinfo_directions(struct fx *fx)
{
	static const uint64_t directions[] = {
		FI_WRITE,
		FI_REMOTE_WRITE,
		FI_READ | FI_WRITE,
		FI_REMOTE_READ | FI_REMOTE_WRITE,
	};
	size_t i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(directions); i++) {
		ret = offered(fx, FI_MSG | FI_RMA | FI_RMA_PMEM | directions[i]);
		if (expect(fx, !ret, "FI_RMA_PMEM with %s: %s",
			   fi_tostr(&directions[i], FI_TYPE_CAPS), fi_strerror(-ret)))
			return -1;
	}
	return 0;
}

static int getinfo_needs_rma(struct fx *fx)
{
	int ret;

	if (!is_pmemverbs(fx))
		return skipped(fx, "provider is not pmemverbs");
	ret = offered(fx, FI_MSG | FI_RMA_PMEM);
	return expect(fx, ret == -FI_ENODATA, "FI_RMA_PMEM without FI_RMA: %s", fi_strerror(-ret));
}

/* fi_getinfo promises that a passive endpoint in the hints comes back. */
static int getinfo_passive_ep(struct fx *fx)
{
	const struct node *node = &fx->target->node;
	struct fi_info *hints = fi_dupinfo(node->info);
	struct fi_info *info = NULL;
	struct fid_pep *pep = NULL;
	int ret = hints ? fi_passive_ep(node->fabric, hints, &pep, NULL) : -FI_ENOMEM;

	if (!ret) {
		hints->handle = &pep->fid;
		ret = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0,
				 hints, &info);
	}
	ret = expect(fx, !ret, "a passive endpoint in the hints: %s", fi_strerror(-ret)) ||
	      expect(fx, info && info->handle == &pep->fid, "another handle came back");
	fi_freeinfo(info);
	fi_freeinfo(hints);
	if (pep)
		fi_close(&pep->fid);
	return ret ? -1 : 0;
}

/* commit_everywhere -- at the very start, at odd places, at the very end */
static int commit_everywhere(struct fx *fx, struct link *link, struct remote *remote, size_t len)
{
	size_t last = remote->len - len;
	size_t offsets[] = {0, 1, 63, 4093, last - 1, last};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		if (commit(link, remote, offsets[i], len, 0) || remote_same(fx, remote))
			return -1;
	}
	return 0;
}

static int sizes_of(struct fx *fx, struct link *link, struct remote *remote)
{
	static const size_t sizes[] = {1, 2, 7, 8, 63, 64, 65, 4096, 65536, 1 << 20};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (sizes[i] + 8192 <= remote->len && commit_everywhere(fx, link, remote, sizes[i]))
			return -1;
	}
	return 0;
}

static int sizes(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, (1 << 20) + 8192) : NULL;

	return remote ? sizes_of(fx, link, remote) : -1;
}

/* A region that neither starts nor ends on a page or cache line */
static int sizes_unaligned_region(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote;

	if (!link)
		return -1;
	remote = fx_remote_skewed(fx, fx->target, 65536 + 8192 + 11, FI_REMOTE_WRITE, FI_RMA_PMEM,
				  SKEW);
	return remote ? sizes_of(fx, link, remote) : -1;
}

static int one_byte_region(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote;

	if (!link)
		return -1;
	remote = fx_remote_skewed(fx, fx->target, 1, FI_REMOTE_WRITE, FI_RMA_PMEM, SKEW);
	if (!remote)
		return -1;
	return commit(link, remote, 0, 1, 0) || remote_same(fx, remote) ? -1 : 0;
}

static int zero_bytes_at(struct fx *fx, size_t offset)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	int i;

	if (!remote)
		return -1;
	for (i = 0; i < 10; i++) {
		if (plain_at(link, PLAIN_WRITEMSG, remote, 100 * i, 100, NULL) ||
		    plain_at(link, PLAIN_WRITEMSG, remote, 65536 - 8 - 8 * i, 8, NULL) ||
		    commit(link, remote, offset, 0, 0) || remote_same(fx, remote))
			return -1;
	}
	return 0;
}

/* A commit without data is there for what was written before */
static int zero_bytes(struct fx *fx)
{
	return zero_bytes_at(fx, 4096);
}

/* The end of a region is a place for zero bytes, but not for a byte that flushes */
static int zero_bytes_at_end(struct fx *fx)
{
	return zero_bytes_at(fx, 65536);
}

static int zero_bytes_first(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;

	if (!remote)
		return -1;
	return commit(link, remote, 0, 0, 0) || commit(link, remote, 4096, 0, 0) ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

static int post_without_iov(struct link *link, struct remote *remote, struct op *op)
{
	struct fi_rma_iov rma_iov = {remote->addr, 0, remote->key};
	struct fi_msg_rma msg = {.rma_iov = &rma_iov, .rma_iov_count = 1, .context = op};
	ssize_t ret = fi_writemsg(link->conn.ep, &msg, COMMIT);

	return ret ? failed_call(link->fx, "fi_writemsg", ret) : 0;
}

/* No bytes can also be spelled as no local buffers */
static int zero_iovs(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	struct op *op;

	if (!remote)
		return -1;
	op = op_new(fx);
	return plain_at(link, PLAIN_WRITE, remote, 5, 1000, NULL) ||
			       post_without_iov(link, remote, op) || await(link, op) ||
			       remote_same(fx, remote)
		       ? -1
		       : 0;
}

static int several_iovs(struct fx *fx)
{
	size_t limit = fx->target->node.info->tx_attr->iov_limit;
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .flags = COMMIT};
	struct op *op;

	if (!remote)
		return -1;
	if (limit < 2)
		return skipped(fx, "iov_limit is %zu", limit);
	for (write.iovs = 2; write.iovs <= limit && write.iovs <= 8; write.iovs++) {
		write.offset += 77;
		write.len = 1000 * write.iovs + 3;
		if (write_at(link, &write, &op) || await(link, op) || remote_same(fx, remote))
			return -1;
		write.offset += write.len;
	}
	return 0;
}

static int inject(struct fx *fx)
{
	size_t limit = fx->target->node.info->tx_attr->inject_size;
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 65536) : NULL;
	struct write write = {.remote = remote, .flags = COMMIT | FI_INJECT};
	struct op *ops[100];
	size_t i;

	if (!remote)
		return -1;
	if (!limit)
		return skipped(fx, "inject_size is 0");
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		write.len = i % 2 ? limit : i % limit + 1;
		if (write_at(link, &write, &ops[i]))
			return -1;
		write.offset += write.len;
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (await(link, ops[i]))
			return -1;
	}
	return remote_same(fx, remote);
}

/* An injected write needs no registered memory: there is no descriptor */
static int inject_without_descriptor(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4096) : NULL;
	unsigned char bytes[8];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct fi_rma_iov rma_iov;
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &rma_iov, .rma_iov_count = 1};
	struct op *op;
	ssize_t ret;

	if (!remote)
		return -1;
	msg.context = op = op_new(fx);
	rma_iov = (struct fi_rma_iov){remote->addr + 24, sizeof(bytes), remote->key};
	pattern_fill(bytes, sizeof(bytes), 77, 24);
	remote_expect(remote, 24, sizeof(bytes), 77);
	ret = fi_writemsg(link->conn.ep, &msg, COMMIT | FI_INJECT);
	memset(bytes, 0, sizeof(bytes));
	if (ret)
		return failed_call(fx, "fi_writemsg", ret);
	return await(link, op) || remote_same(fx, remote) ? -1 : 0;
}

/* plain_writes -- some writes of a kind, where they are not looked for */
static int plain_writes(struct link *link, struct remote *remote, enum plain kind, size_t max)
{
	size_t i;

	for (i = 0; i < 5; i++) {
		if (plain_at(link, kind, remote, kind * 16384 + i * 3001, max - i, NULL))
			return -1;
	}
	return 0;
}

/* A commit also covers what the calls wrote that can't commit themselves */
static int plain_then_commit(struct fx *fx)
{
	size_t inject = fx->target->node.info->tx_attr->inject_size;
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, PLAIN_KINDS * 16384) : NULL;
	enum plain kind;
	size_t max;

	if (!remote)
		return -1;
	for (kind = 0; kind < PLAIN_KINDS; kind++) {
		max = plain_has_context(kind) ? 3000 : inject;
		if (max < 5)
			continue;
		if (plain_writes(link, remote, kind, max) ||
		    commit(link, remote, remote->len - 8, 8, 0) || remote_same(fx, remote))
			return -1;
	}
	return 0;
}

/* The same without a look between the kinds, and with one commit for all */
static int plain_large_then_commit(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *remote = link ? pmem_region(fx, 4 << 20) : NULL;
	size_t i;

	if (!remote)
		return -1;
	for (i = 0; i < 3; i++) {
		if (plain_at(link, PLAIN_WRITE, remote, (i << 20) + 5, 1 << 20, NULL))
			return -1;
	}
	return commit(link, remote, 0, 1, 0) || remote_same(fx, remote) ? -1 : 0;
}

static int two_regions(struct fx *fx)
{
	struct link *link = fx_link(fx, NULL, NULL);
	struct remote *a = link ? pmem_region(fx, 16384) : NULL;
	struct remote *b = a ? pmem_region(fx, 16384) : NULL;
	int i;

	if (!b)
		return -1;
	for (i = 0; i < 20; i++) {
		if (commit(link, a, i * 64, 64, 0) || commit(link, b, i * 100, 64, 0))
			return -1;
	}
	return remote_same(fx, a) || remote_same(fx, b) ? -1 : 0;
}

const struct test_case data_cases[] = {
	{"getinfo", getinfo},
	{"getinfo_directions", getinfo_directions},
	{"getinfo_needs_rma", getinfo_needs_rma},
	{"getinfo_passive_ep", getinfo_passive_ep},
	{"sizes", sizes},
	{"sizes_unaligned_region", sizes_unaligned_region},
	{"one_byte_region", one_byte_region},
	{"zero_bytes", zero_bytes},
	{"zero_bytes_at_end", zero_bytes_at_end},
	{"zero_bytes_first", zero_bytes_first},
	{"zero_iovs", zero_iovs},
	{"several_iovs", several_iovs},
	{"inject", inject},
	{"inject_without_descriptor", inject_without_descriptor},
	{"plain_then_commit", plain_then_commit},
	{"plain_large_then_commit", plain_large_then_commit},
	{"two_regions", two_regions},
	{NULL, NULL},
};
