/* SPDX-License-Identifier: BSD-2-Clause */
/* listener.c -- a passive endpoint on the fake device */
#include "listener.h"

#include "pmemrdma/fabric.h"
#include "pmemrdma/getinfo.h"

int listener_open(struct listener *listener)
{
	struct fi_info *hints = link_hints();
	int ret =
		pmr_getinfo(FI_VERSION(1, 17), FAKE_ADDR, "99", FI_SOURCE, hints, &listener->info);

	fi_freeinfo(hints);
	if (!ret)
		ret = pmr_fabric_open(listener->info->fabric_attr, &listener->fabric, NULL);
	if (!ret)
		ret = fi_eq_open(listener->fabric, NULL, &listener->eq, NULL);
	if (!ret)
		ret = fi_passive_ep(listener->fabric, listener->info, &listener->pep, NULL);
	if (ret)
		return ret;
	cr_assert_eq(fi_listen(listener->pep), -FI_ENOEQ);
	ret = fi_pep_bind(listener->pep, &listener->eq->fid, 0);
	return ret ? ret : fi_listen(listener->pep);
}

int listener_close(struct listener *listener)
{
	struct fid *const all[] = {
		listener->pep ? &listener->pep->fid : NULL,
		listener->eq ? &listener->eq->fid : NULL,
		listener->fabric ? &listener->fabric->fid : NULL,
	};
	int told = link_close_all(all, sizeof(all) / sizeof(all[0]));

	fi_freeinfo(listener->info);
	cr_assert_eq(fake.live, 0, "%d objects are left", fake.live);
	return told;
}
