/* SPDX-License-Identifier: BSD-2-Clause */
/* test_pep.c -- passive endpoints: a request that the application rejects */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "objects/eq.h"
#include "objects/handshake.h"
#include "objects/unwrap.h"
#include "test/support/rig.h"

union event {
	struct fi_eq_cm_entry cm;
	char room[256];
};

/* Who has sent it. */
static const struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = 0x1234};

/* request -- one with a handshake and no more comes to the application: its handle */
static struct fid *request(struct fid_eq *eq, struct fid_pep *pep)
{
	union event event = {.cm = {.fid = pmv_unwrap_fid(&pep->fid)}};
	struct fid *handle = (struct fid *) 0x4a4d1e;
	uint32_t what = 0;

	event.cm.info = fi_allocinfo();
	event.cm.info->handle = handle;
	event.cm.info->dest_addr = malloc(sizeof(there));
	event.cm.info->dest_addrlen = sizeof(there);
	memcpy(event.cm.info->dest_addr, &there, sizeof(there));
	pmv_handshake_encode(event.cm.data, &(struct pmv_handshake){.known = true});
	fake_raise(pmv_to_eq(eq)->core_fid, FI_CONNREQ, &event,
		   sizeof(event.cm) + PMV_HANDSHAKE_SIZE);
	cr_assert_eq(fi_eq_read(eq, &what, &event, sizeof(event), 0), (ssize_t) sizeof(event.cm));
	cr_assert_eq(what, FI_CONNREQ);
	cr_assert_eq(event.cm.info->handle, handle);
	fi_freeinfo(event.cm.info);
	return handle;
}

Test(pep, rejects_with_the_applications_data_and_keeps_nothing)
{
	struct rig *rig = rig_open(NULL);
	struct sockaddr_in other = there;
	struct fid_pep *pep;
	struct fid_eq *eq;
	struct fid *handle;

	accepted(pmv_eq_open(&rig->fabric.fabric_fid, &(struct fi_eq_attr){.size = 8}, &eq, NULL));
	accepted(pmv_pep_open(&rig->fabric.fabric_fid, rig->info, &pep, NULL));
	accepted(fi_pep_bind(pep, &eq->fid, 0));
	handle = request(eq, pep);
	cr_assert_not(LIST_EMPTY(&rig->fabric.handshakes));
	cr_expect(pmv_handshake_is_kept(&rig->fabric, (const struct sockaddr *) &there));
	other.sin_port++;
	cr_expect_not(pmv_handshake_is_kept(&rig->fabric, (struct sockaddr *) &other));
	accepted(fi_reject(pep, handle, "full", 5));
	cr_expect(LIST_EMPTY(&rig->fabric.handshakes));
	cr_expect_not(pmv_handshake_is_kept(&rig->fabric, (const struct sockaddr *) &there));
	cr_expect_eq(rig->fake.rejections, 1);
	cr_expect_eq(rig->fake.rejected, handle);
	cr_assert_eq(rig->fake.rejected_len, 5);
	cr_expect_str_eq((char *) rig->fake.rejected_with, "full");
	accepted(fi_close(&pep->fid));
	accepted(fi_close(&eq->fid));
	rig_close(rig);
}
