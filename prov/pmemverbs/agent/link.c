/* SPDX-License-Identifier: BSD-2-Clause */
/* link.c -- blocks of memory, and what is posted to the peer's; link.h says what for */
#include "agent/link.h"

#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "base/inline.h"
#include "base/setting.h"
#include "engine/engine.h"
#include "progress/op.h"

/* The block, the flush page behind it, and on the next page the outbox. */
#define OUTBOX_AT                                                                                  \
	((PMV_FLUSH_AT + PMV_FLUSH_SIZE + PMV_BLOCK_ALIGN - 1) & ~(size_t) (PMV_BLOCK_ALIGN - 1))
#define OUTBOX_SIZE (PMV_BLOCK_SIZE + PMV_MESSAGE_SIZE)
#define MAPPING_SIZE (OUTBOX_AT + OUTBOX_SIZE)

/*
 * register_parts -- each with only the rights that it needs: peers of the domain must neither
 * read other peers' data in a block nor change what is sent from an outbox
 */
static int register_parts(struct pmv_link *link)
{
	struct pmv_engine *engine = link->engine->engine;
	const struct {
		uint8_t *at;
		size_t len;
		uint64_t access;
		struct fid_mr **mr;
	} parts[] = {
		{link->block, PMV_BLOCK_SIZE, FI_REMOTE_WRITE, &link->mr},
		{link->block + PMV_FLUSH_AT, PMV_FLUSH_SIZE, FI_REMOTE_READ, &link->flush_mr},
		{link->outbox, OUTBOX_SIZE, FI_WRITE, &link->out_mr},
	};
	int ret = 0;

	for (int i = 0; i < 3 && !ret; i++) {
		bool wanted = parts[i].mr != &link->out_mr || engine->scratch_mr;

		/* One may be left of an attempt that failed. */
		if (wanted && !*parts[i].mr)
			ret = pmv_engine_register(engine, parts[i].at, parts[i].len,
						  parts[i].access, parts[i].mr);
	}
	link->desc = link->out_mr ? fi_mr_desc(link->out_mr) : NULL;
	return ret;
}

int pmv_link_close(struct pmv_link *link)
{
	struct fid_mr **const mrs[] = {&link->mr, &link->flush_mr, &link->out_mr};

	link->opened = false;
	for (int i = 0; i < 3; i++) {
		int ret = *mrs[i] ? fi_close(&(*mrs[i])->fid) : 0;

		/* Its memory has to stay, too. */
		if (ret)
			return ret;
		*mrs[i] = NULL;
	}
	if (link->block)
		pmv_engine_unmap(link->engine->engine, link->block, MAPPING_SIZE);
	link->block = NULL;
	return 0;
}

/* map_block -- if it is not left of an attempt that failed */
static int map_block(struct pmv_link *link)
{
	void *block;

	if (link->block)
		return 0;
	block = pmv_engine_map(link->engine->engine, MAPPING_SIZE);
	if (!block)
		return -FI_ENOMEM;
	link->block = block;
	link->outbox = link->block + OUTBOX_AT;
	return 0;
}

int pmv_link_open(struct pmv_link *link)
{
	int ret;

	link->quiet = pmv_engine_can(link->engine->engine, PMV_ENGINE_QUIET);
	if (getrandom(&link->secret, sizeof(link->secret), 0) != sizeof(link->secret))
		return -FI_EOTHER;
	link->secret &= PMV_SECRET_MASK;
	ret = map_block(link);
	if (ret)
		return ret;
	ret = register_parts(link);
	/* What can't be closed now is closed with the endpoint. */
	if (ret)
		pmv_link_close(link);
	else
		link->opened = true;
	return ret;
}

void pmv_link_make_hints(struct pmv_link *link)
{
	struct pmv_seal seal = pmv_seal(link->secret, link->peer.secret, PMV_SEALED_HINT);

	link->hint = pmv_hint_make(link->peer.key, false, &seal);
	link->asking_hint = pmv_hint_make(link->peer.key, true, &seal);
	pmv_hint_find_peer(link->hints, link->engine->fid, link->peer.port, &link->hint_peer);
}

bool pmv_link_listens(const struct pmv_link *link)
{
	return pmv_setting.agent == PMV_AGENT_THREAD && atomic_load(&link->hints->fd) >= 0;
}

PMV_ALWAYS_INLINE ssize_t write_to(const struct pmv_link *link, const struct iovec *iov, void *desc,
				   const struct fi_rma_iov *to, struct pmv_op *op, uint64_t flags)
{
	const struct fi_msg_rma msg = {
		.msg_iov = iov,
		.desc = desc ? &desc : NULL,
		.iov_count = 1,
		.rma_iov = to,
		.rma_iov_count = 1,
		.context = op ? (void *) op : pmv_op_none(link->owner->pool),
	};

	return link->engine->ops->write(link->engine, &msg, (op ? FI_COMPLETION : 0) | flags);
}

ssize_t pmv_link_write(const struct pmv_link *link, const struct iovec *iov, void *desc,
		       const struct fi_rma_iov *to, struct pmv_op *op, uint64_t flags)
{
	return write_to(link, iov, desc, to, op, flags);
}

ssize_t pmv_link_post(const struct pmv_link *link, uint8_t *from, size_t at, size_t len,
		      struct pmv_op *op, uint64_t flags)
{
	const struct iovec iov = {from, len};
	const struct fi_rma_iov to = {link->peer.addr + at, len, link->peer.key};

	return write_to(link, &iov, link->desc, &to, op, flags);
}

void pmv_link_hint(const struct pmv_link *link, bool ask)
{
	const struct pmv_hint *hint = ask ? &link->asking_hint : &link->hint;

	pmv_hint_send(link->hints, &link->hint_peer, hint, sizeof(*hint));
}
