/* SPDX-License-Identifier: BSD-2-Clause */
/* link.c -- an endpoint on the fake device */
#include "link.h"

#include <arpa/inet.h>

#include "pmemrdma/fabric.h"
#include "pmemrdma/getinfo.h"

struct fi_info *link_hints(void)
{
	struct fi_info *hints;

	fake.own++;
	hints = fi_allocinfo();
	hints->fabric_attr->prov_name = strdup("pmemrdma");
	hints->mode = FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	fake.own--;
	return hints;
}

static int open_objects(struct link *link, size_t cq_size)
{
	struct fi_cq_attr cq_attr = {
		.size = cq_size, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
	int ret = pmr_fabric_open(link->info->fabric_attr, &link->fabric, NULL);

	if (!ret)
		ret = fi_domain(link->fabric, link->info, &link->domain, NULL);
	if (!ret)
		ret = fi_eq_open(link->fabric, NULL, &link->eq, NULL);
	if (!ret)
		ret = fi_cq_open(link->domain, &cq_attr, &link->cq, NULL);
	if (!ret)
		ret = fi_mr_reg(link->domain, link->buf, sizeof(link->buf), FI_WRITE | FI_READ, 0,
				0, 0, &link->mr, NULL);
	if (!ret)
		ret = fi_endpoint(link->domain, link->info, &link->ep, link);
	return ret;
}

/* read_event -- the next one has to be this; or its error, or that of the call */
static int read_event(struct link *link, uint32_t wanted)
{
	struct fi_eq_err_entry err = {0};
	struct fi_eq_cm_entry entry;
	uint32_t event;
	ssize_t ret = fi_eq_read(link->eq, &event, &entry, sizeof(entry), 0);

	if (ret == -FI_EAVAIL) {
		cr_assert_eq(fi_eq_readerr(link->eq, &err, 0), (ssize_t) sizeof(err));
		return -err.err;
	}
	if (ret < 0)
		return (int) ret;
	cr_assert_eq(event, wanted);
	cr_assert_eq(entry.fid, &link->ep->fid);
	return 0;
}

static int connect_it(struct link *link)
{
	int ret;

	if (link->holds)
		link_lists(link)->hold(link->ep);
	ret = fi_connect(link->ep, link->info->dest_addr, "hello", 5);
	if (ret)
		return ret;
	/* The way is known, and it is called. */
	ret = read_event(link, 0);
	if (ret != -FI_EAGAIN)
		return ret;
	fake_event(fake.id, RDMA_CM_EVENT_CONNECT_RESPONSE,
		   "\x02"
		   "ab\0\0\0",
		   6);
	return read_event(link, FI_CONNECTED);
}

int link_open(struct link *link, size_t tx_size, size_t cq_size, uint64_t cq_flags)
{
	struct fi_info *hints = link_hints();
	int ret;

	hints->tx_attr->size = tx_size;
	hints->rx_attr->size = 8;
	ret = pmr_getinfo(FI_VERSION(1, 17), "10.9.9.9", "1234", 0, hints, &link->info);
	fi_freeinfo(hints);
	if (!ret)
		ret = open_objects(link, cq_size);
	if (!ret)
		ret = fi_ep_bind(link->ep, &link->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(link->ep, &link->cq->fid, FI_TRANSMIT | FI_RECV | cq_flags);
	if (!ret)
		ret = fi_enable(link->ep);
	return ret ? ret : connect_it(link);
}

int link_close_all(struct fid *const *fids, size_t count)
{
	int told = 0;

	for (size_t i = 0; i < count; i++) {
		int ret = fids[i] ? fi_close(fids[i]) : 0;

		if (!ret)
			continue;
		told = ret;
		cr_assert_eq(fi_close(fids[i]), 0);
	}
	return told;
}

int link_close(struct link *link)
{
	struct fid *const all[] = {
		link->ep ? &link->ep->fid : NULL,         link->mr ? &link->mr->fid : NULL,
		link->cq ? &link->cq->fid : NULL,         link->eq ? &link->eq->fid : NULL,
		link->domain ? &link->domain->fid : NULL, link->fabric ? &link->fabric->fid : NULL,
	};
	int told = link_close_all(all, sizeof(all) / sizeof(all[0]));

	fi_freeinfo(link->info);
	cr_assert_eq(fake.live, 0, "%d objects are left", fake.live);
	return told;
}

ssize_t link_write(struct link *link, size_t len, uint64_t flags, void *context)
{
	void *desc = fi_mr_desc(link->mr);
	const struct iovec iov = {.iov_base = link->buf, .iov_len = len};
	const struct fi_rma_iov to = {.addr = 0x1000, .len = len, .key = 9};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = context,
		.data = 77,
	};

	return fi_writemsg(link->ep, &msg, flags);
}

const struct pmemrdma_request *link_pair(struct link *link)
{
	static struct pmemrdma_request list[2];
	static struct iovec iov;
	static void *desc;

	iov = (struct iovec){.iov_base = link->buf, .iov_len = 8};
	desc = fi_mr_desc(link->mr);
	list[0] = (struct pmemrdma_request){
		.kind = PMEMRDMA_WRITE,
		.iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = 0x1000,
		.key = 9,
		.context = CONTEXT(1),
	};
	list[1] = list[0];
	list[1].kind = PMEMRDMA_READ;
	list[1].flags = FI_COMPLETION;
	list[1].addr = 0x1008;
	list[1].context = CONTEXT(2);
	return list;
}

const struct pmemrdma_post_ops *link_lists(struct link *link)
{
	struct pmemrdma_post_ops *ops;

	cr_assert_eq(fi_open_ops(&link->ep->fid, PMEMRDMA_POST_OPS_V3, 0, (void **) &ops, NULL), 0);
	return ops;
}
