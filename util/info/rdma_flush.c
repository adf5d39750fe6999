/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_flush.c -- can peers of these devices have data made durable by RDMA FLUSH?
 *
 * A device that has it takes the right to it when memory is registered, or the kernel refuses this
 * memory for it, which is not persistent.  One that has it not says so.
 */
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "config.h"
#include "info.h"
#include "pmemrdma/pmemrdma_post.h"

static char page[4096] __attribute__((aligned(4096)));

/* try -- 0 or a negative fi_errno, of the call that *call names */
static int try(const struct fi_info *offer, const char **call)
{
	struct fid_fabric *fabric = NULL;
	struct fid_domain *domain = NULL;
	struct fid_mr *mr = NULL;
	struct iovec iov = {page, sizeof(page)};
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE | FI_REMOTE_READ};
	int ret;

	*call = "fi_fabric";
	ret = fi_fabric(offer->fabric_attr, &fabric, NULL);
	if (!ret) {
		*call = "fi_domain";
		ret = fi_domain(fabric, (struct fi_info *) offer, &domain, NULL);
	}
	if (!ret) {
		*call = "fi_mr_regattr";
		ret = fi_mr_regattr(domain, &attr, PMEMRDMA_MR_FLUSH, &mr);
	}
	if (mr)
		fi_close(&mr->fid);
	if (domain)
		fi_close(&domain->fid);
	if (fabric)
		fi_close(&fabric->fid);
	return ret;
}

void info_flush_bit(struct info_bit *flush, int ret, const char *call)
{
	bool registers = !strcmp(call, "fi_mr_regattr");

	flush->state = !registers ? INFO_UNKNOWN : ret == -FI_EOPNOTSUPP ? INFO_OFF : INFO_ON;
	if (!registers)
		snprintf(flush->from, sizeof(flush->from), "%s: %s", call, fi_strerror(-ret));
	else if (flush->state == INFO_ON)
		snprintf(flush->from, sizeof(flush->from), "what registering memory says");
	else if (!HAVE_DECL_IBV_WR_FLUSH)
		snprintf(flush->from, sizeof(flush->from),
			 "this build: its libibverbs has none, rdma-core 45 and later have it");
	else
		snprintf(
			flush->from, sizeof(flush->from),
			"what registering memory says: the NIC, its driver or the kernel has none");
}

void info_rdma_flush(struct info *info, struct fi_info *(*ask)(const struct pmv_core *core))
{
	for (size_t i = 0; i < info->num_devices; i++) {
		struct info_device *device = &info->devices[i];
		struct fi_info *list, *offer;
		const char *call;
		int ret;

		if (!device->offered || !device->core->posts_lists)
			continue;
		list = ask(device->core);
		for (offer = list; offer && strcmp(offer->domain_attr->name, device->name);)
			offer = offer->next;
		if (offer) {
			ret = try(offer, &call);
			info_flush_bit(&device->flush, ret, call);
		}
		fi_freeinfo(list);
	}
}
