/* SPDX-License-Identifier: BSD-2-Clause */
/* test_info.h -- what test_info.c and test_info_layer.c share */
#ifndef TEST_INFO_H
#define TEST_INFO_H

#include <criterion/criterion.h>
#include <string.h>

#include <rdma/fi_endpoint.h>

#include <rdma/fi_ext_pmemverbs.h>
#include "objects/domain.h"
#include "objects/unwrap.h"
#include "engine/info.h"
#include "base/log.h"
#include "base/setting.h"

#define OWN (FI_PMEM | FI_FENCE | FI_RMA_EVENT)
static const struct pmv_core core = {.name = "fake"};

static inline struct fi_info *new_info(void)
{
	struct fi_info *info = fi_allocinfo();

	cr_assert_not_null(info);
	return info;
}

/* Hints of an application that wants durable writes. */
static inline struct fi_info *new_hints(uint64_t caps)
{
	struct fi_info *info = new_info();

	info->caps = caps;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_LOCAL;
	return info;
}

/* What a core offers: everything, and some of its own. */
static inline struct fi_info *new_offer(void)
{
	struct fi_info *info = new_info();

	info->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_TAGGED | FI_READ | FI_WRITE | FI_SEND |
		     FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
	info->tx_attr->caps =
		FI_MSG | FI_RMA | FI_ATOMIC | FI_TAGGED | FI_READ | FI_WRITE | FI_SEND;
	info->rx_attr->caps =
		FI_MSG | FI_RMA | FI_TAGGED | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
	info->tx_attr->size = 400;
	info->rx_attr->size = 300;
	info->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	info->domain_attr->mr_key_size = 4;
	info->domain_attr->threading = FI_THREAD_SAFE;
	return info;
}

#endif /* TEST_INFO_H */
