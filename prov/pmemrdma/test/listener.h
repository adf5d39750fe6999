/* SPDX-License-Identifier: BSD-2-Clause */
/* listener.h -- a passive endpoint on the fake device */
#ifndef PMR_TEST_LISTENER_H
#define PMR_TEST_LISTENER_H

#include "link.h"

struct listener {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *pep;
};

/* listener_open -- it listens at FAKE_ADDR, port 99: 0, or the error of the first call that fails
 */
int listener_open(struct listener *listener);

/* listener_close -- as link_close */
int listener_close(struct listener *listener);

#endif /* PMR_TEST_LISTENER_H */
