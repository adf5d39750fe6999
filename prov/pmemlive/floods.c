/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * floods.c -- writes to so many places that the next commit has more messages than a mailbox has
 * slots: it waits for acknowledgements before it is sent as a whole
 */
#include "world.h"

#include <stdlib.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/setting.h"
#include "memory/dirty.h"
#include "testcore/fid.h"

#define REGIONS 22
#define FAR 512
#define SIZE ((size_t) PMV_DIRTY_RANGES * FAR)

static char *memory;
static struct fid_mr *mrs[REGIONS];

void floods_open(void)
{
	if (!world.floods)
		return;
	memory = testcore_need(calloc(1, SIZE));
	pmv_setting.domain = PMV_DMP;
	for (int i = 0; i < REGIONS; i++)
		sure(fi_mr_reg(world.target.domain, memory, SIZE, FI_REMOTE_WRITE, 0, 0, FI_PMEM,
			       &mrs[i], NULL),
		     "a region of many");
}

void floods_close(void)
{
	for (int i = 0; world.floods && i < REGIONS; i++)
		sure(fi_close(&mrs[i]->fid), "to close a region of many");
	free(memory);
}

/* write_to -- false: the connection takes no more */
static bool write_to(struct conn *conn, struct fid_mr *mr, uint64_t at)
{
	ssize_t ret;

	do {
		if (!conns_enter(conn))
			return false;
		ret = fi_inject_write(conn->ep, world.source, 8, 0, (uintptr_t) memory + at,
				      fi_mr_key(mr));
		conns_leave(conn);
		if (ret == -FI_EAGAIN)
			ops_let_pass(conn->party);
	} while (ret == -FI_EAGAIN && !messages_are_stuck(conn));
	return !ret;
}

void floods_come(struct conn *conn)
{
	for (int i = 0; i < REGIONS; i++) {
		for (uint64_t at = 0; at < SIZE; at += FAR) {
			if (!write_to(conn, mrs[i], at))
				return;
		}
	}
}
