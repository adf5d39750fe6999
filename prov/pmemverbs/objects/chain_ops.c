/* SPDX-License-Identifier: BSD-2-Clause */
/* chain_ops.c -- FI_PMEMVERBS_CHAIN_OPS: chains of an endpoint, and lists of buffers in a region */
#include "objects/ep.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/setting.h"
#include "commit/chain_request.h"
#include "commit/ordering.h"
#include "commit/submit.h"

/* Flags of steps as they are sent; the others follow from what there is. */
#define STEP_FLAGS ((uint64_t) PMV_CHAIN_EXPECT_SCRATCH * 2 - 1)
#define FROM (PMV_CHAIN_FROM_SCRATCH | PMV_CHAIN_FROM_MEMORY)

/* Chains */

/* core_key -- of one of the peer's; -FI_EINVAL, -FI_EKEYREJECTED */
static int core_key(const struct pmv_initiator *ini, uint64_t key, uint32_t *core)
{
	const struct fi_rma_iov at = {.key = key};
	uint64_t known = pmv_initiator_core_key(key);

	if (known > UINT32_MAX)
		return -FI_EINVAL;
	*core = (uint32_t) known;
	return (int) pmv_ordering_check_keys(ini, &at, 1);
}

static bool has_operand(const struct fi_pmemverbs_step *step)
{
	return step->kind != FI_PMEMVERBS_STEP_READ && step->kind != FI_PMEMVERBS_STEP_FREE;
}

/* has_all -- that it needs of the application's memory */
static bool has_all(const struct fi_pmemverbs_step *step)
{
	bool cas = step->kind == FI_PMEMVERBS_STEP_CAS;

	return (!has_operand(step) || (step->flags & FROM) || !step->len || step->operand) &&
	       (!cas || (step->flags & PMV_CHAIN_EXPECT_SCRATCH) || step->expected) &&
	       (cas || (!step->compare_mask && !step->swap_mask));
}

static int describe_place(const struct pmv_initiator *ini, const struct fi_pmemverbs_step *step,
			  struct pmv_chain_step *sent)
{
	int ret = core_key(ini, step->key, &sent->head.key);

	sent->head.addr = step->addr;
	if (step->kind == FI_PMEMVERBS_STEP_ALLOCATE || step->kind == FI_PMEMVERBS_STEP_FREE)
		sent->head.to_key = step->list;
	else if (!ret && (step->flags & PMV_CHAIN_INDIRECT))
		ret = core_key(ini, step->to_key, &sent->head.to_key);
	if (!ret && (step->flags & PMV_CHAIN_FROM_MEMORY))
		ret = core_key(ini, step->from_key, &sent->from_key);
	sent->from_addr = step->from_addr;
	return ret;
}

/*
 * describe_result -- where the target is to write a large one: to memory of this domain that it may
 * write, and that is one piece
 */
static int describe_result(const struct pmv_domain *domain, const struct fi_pmemverbs_step *step,
			   struct pmv_chain_step *sent)
{
	const struct pmv_mr *mr;
	uintptr_t at = (uintptr_t) step->result, start;

	if (!step->result_mr)
		return 0;
	mr = pmv_container_of(step->result_mr, struct pmv_mr, mr_fid);
	if (step->result_mr->fid.ops != &pmv_mr_fi_ops || mr->domain != domain || !mr->writable)
		goto refuse;
	start = (uintptr_t) mr->memory.iov_base;
	if (fi_mr_key(mr->core_fid) > UINT32_MAX || at < start || step->len > mr->memory.iov_len ||
	    at - start > mr->memory.iov_len - step->len)
		goto refuse;
	sent->head.flags |= PMV_CHAIN_LARGE;
	sent->result_addr = domain->engine.virt_addr ? at : at - start;
	sent->result_key = (uint32_t) fi_mr_key(mr->core_fid);
	return 0;

refuse:
	PMV_WARN(EP_DATA,
		 "a chain is refused: the result of a step must lie in its result_mr, which "
		 "has FI_REMOTE_WRITE and is one piece of memory\n");
	return -FI_EINVAL;
}

static int describe_step(const struct pmv_ep *ep, const struct fi_pmemverbs_step *step,
			 struct pmv_chain_step *sent)
{
	uint64_t flags = step->flags;
	int ret;

	if (step->len > (step->result_mr ? PMV_CHAIN_LARGE_ROOM : PMV_REPLY_ROOM))
		return -FI_EMSGSIZE;
	if ((flags & ~STEP_FLAGS) || step->kind > UINT8_MAX || step->compare > UINT8_MAX ||
	    (step->to | step->from | step->expect | step->at) >= FI_PMEMVERBS_CHAIN_WORDS ||
	    !has_all(step))
		return -FI_EINVAL;
	*sent = (struct pmv_chain_step){
		.head =
			{
				.kind = (uint8_t) step->kind,
				.compare = (uint8_t) step->compare,
				.flags = (uint16_t) (flags |
						     (step->compare_mask ? PMV_CHAIN_MASK_COMPARE
									 : 0) |
						     (step->swap_mask ? PMV_CHAIN_MASK_SWAP : 0)),
				.len = step->len & PMV_REPLY_MOST_DONE,
				.to = step->to & 3,
				.from = step->from & 3,
				.expect = step->expect & 3,
				.at = step->at & 3,
			},
		.expected = flags & PMV_CHAIN_EXPECT_SCRATCH ? NULL : step->expected,
		.operand = has_operand(step) && !(flags & FROM) ? step->operand : NULL,
		.compare_mask = step->compare_mask,
		.swap_mask = step->swap_mask,
	};
	ret = describe_place(&ep->initiator, step, sent);
	return ret ? ret : describe_result(ep->domain, step, sent);
}

static ssize_t post(struct fid_ep *fid, struct fi_pmemverbs_step *steps, size_t count,
		    void *context, uint64_t flags)
{
	struct pmv_ep *ep = pmv_to_ep(fid);
	const struct pmv_submission submission = {
		.what = FI_RMA | FI_WRITE, .context = context, .flags = flags};
	struct pmv_chain_request *request;
	struct pmv_chain chain;
	int ret = 0;

	if (flags & ~FI_COMPLETION)
		return -FI_EBADFLAGS;
	if (!count || count > PMV_CHAIN_STEPS)
		return -FI_EINVAL;
	chain.count = (unsigned int) count;
	chain.reply = 0;
	for (unsigned int i = 0; i < count && !ret; i++)
		ret = describe_step(ep, &steps[i], &chain.steps[i]);
	if (!ret)
		ret = pmv_chain_request_new(steps, &chain, &request);
	return ret ? ret : pmv_submit_chain(&ep->initiator, &submission, request);
}

/* Lists of buffers */

struct list {
	struct fi_pmemverbs_list list;
	struct pmv_domain *domain;
	struct pmv_free_list *free;
};

static struct list *to_list(struct fi_pmemverbs_list *list)
{
	return pmv_container_of(list, struct list, list);
}

static struct pmv_chains *chains_of(const struct list *list)
{
	return &list->domain->agent.regions.chains;
}

static int open_free_list(struct list *list, const struct pmv_region *region, size_t offset)
{
	const struct pmv_free_list attr = {
		.key = region->attr.key,
		.serial = region->serial,
		.start = region->attr.start + offset,
		.size = list->list.size,
		.count = list->list.count,
	};

	list->free = pmv_free_list_open(chains_of(list), &attr);
	if (!list->free)
		return -FI_ENOMEM;
	list->list.number = list->free->number;
	list->list.addr = attr.start;
	atomic_fetch_add(&list->domain->users, 1);
	return 0;
}

static int list_open(struct fid_mr *fid, size_t offset, size_t size, size_t count,
		     struct fi_pmemverbs_list **result)
{
	struct pmv_mr *mr = pmv_container_of(fid, struct pmv_mr, mr_fid);
	const struct pmv_region *region;
	struct list *list;
	int ret;

	if (fid->fid.ops != &pmv_mr_fi_ops || !result || !size || !count)
		return -FI_EINVAL;
	region = mr->region;
	if (!region || !(region->attr.use & PMV_REGION_REMOTE) ||
	    pmv_setting.agent == PMV_AGENT_OFF) {
		PMV_WARN(MR, "no list of buffers can be made in a region without "
			     "FI_REMOTE_WRITE, in a domain without FI_RMA_PMEM, or without an "
			     "agent\n");
		return -FI_EOPNOTSUPP;
	}
	if (offset > region->len || count > (region->len - offset) / size)
		return -FI_EINVAL;
	list = calloc(1, sizeof(*list));
	if (!list)
		return -FI_ENOMEM;
	list->domain = mr->domain;
	list->list.key = mr->mr_fid.key;
	list->list.size = size;
	list->list.count = count;
	ret = open_free_list(list, region, offset);
	if (ret)
		free(list);
	else
		*result = &list->list;
	return ret;
}

static int list_close(struct fi_pmemverbs_list *closed)
{
	struct list *list = to_list(closed);

	pmv_free_list_close(chains_of(list), list->free);
	atomic_fetch_sub(&list->domain->users, 1);
	free(list);
	return 0;
}

static int list_put(struct fi_pmemverbs_list *put, uint64_t addr)
{
	struct list *list = to_list(put);
	struct pmv_chains *chains = chains_of(list);
	uint64_t at = addr - put->addr;
	bool done;

	if (at % put->size || at / put->size >= put->count)
		return -FI_EINVAL;
	pthread_mutex_lock(&chains->lock);
	done = pmv_free_list_put(chains, list->free, addr);
	pthread_mutex_unlock(&chains->lock);
	return done ? 0 : -FI_EALREADY;
}

static size_t list_num_free(struct fi_pmemverbs_list *asked)
{
	struct list *list = to_list(asked);
	size_t num_free;

	pthread_mutex_lock(&chains_of(list)->lock);
	num_free = list->free->num_free;
	pthread_mutex_unlock(&chains_of(list)->lock);
	return num_free;
}

static struct fi_pmemverbs_chain_ops chain_ops = {
	.size = sizeof(struct fi_pmemverbs_chain_ops),
	.post = post,
	.list_open = list_open,
	.list_close = list_close,
	.list_put = list_put,
	.list_num_free = list_num_free,
};

int pmv_chain_ops_open(const struct pmv_domain *domain, uint64_t flags, void **ops)
{
	if (flags)
		return -FI_EBADFLAGS;
	if (domain->hooks || pmv_setting.commit_all) {
		PMV_WARN(EP_CTRL, "chains are not available with FI_EP_RDM, nor with "
				  "FI_PMEMVERBS_COMMIT=all\n");
		return -FI_EOPNOTSUPP;
	}
	*ops = &chain_ops;
	return 0;
}
