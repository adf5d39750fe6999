/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_peer.c -- a peer that keeps to no rules; raw_peer.h says how it is used */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "raw_peer.h"
#include "../common/stats.h"

#define SILENCE_MS 30

static const char *core_name(struct fx *fx, struct link *link)
{
	struct fid_domain *domain = link->target->node.domain;
	struct fi_pmemverbs_ops *ops;

	if (fi_open_ops(&domain->fid, FI_PMEMVERBS_OPS, 0, (void **) &ops, NULL)) {
		failed(fx, "no query of the core's name");
		return NULL;
	}
	return ops->core_name(domain);
}

void raw_leave(struct raw *raw)
{
	if (raw->conn.ep)
		fi_shutdown(raw->conn.ep, 0);
	conn_close(&raw->conn);
	region_close(&raw->region);
	if (raw->block)
		memory_unmap(&raw->memory);
	raw->block = NULL;
	if (raw->node.fabric)
		node_close(&raw->node);
}

void raw_close(struct raw *raw)
{
	struct control_msg msg = {.command = CTL_CLOSE, .arg = {raw->id}};

	raw_leave(raw);
	if (raw->id != UINT64_MAX)
		target_call(raw->target, &msg, NULL, 0);
}

int raw_open(struct fx *fx, struct raw *raw, struct link *beside)
{
	struct conn_attr conn_attr = {.format = FI_CQ_FORMAT_DATA};
	struct node_attr attr = {.caps = FI_MSG | FI_RMA, .threading = FI_THREAD_SAFE};
	char port[16];
	int ret;

	memset(raw, 0, sizeof(*raw));
	raw->fx = fx;
	raw->id = UINT64_MAX;
	raw->secret = 0x5eed;
	raw->target = beside->target;
	raw->opts = *fx->opts;
	raw->opts.provider = core_name(fx, beside);
	if (!raw->opts.provider)
		return -1;
	/* the address that the other connection was made to */
	snprintf(port, sizeof(port), "%u", beside->target->port);
	attr.port = port;
	ret = fabric_open(&raw->node, &raw->opts, &attr);
	if (ret)
		return failed_call(fx, "opening the core provider", ret);
	if (memory_map(&raw->memory, NULL, 2 * (size_t) PMV_BLOCK_SIZE))
		return failed(fx, "no memory");
	raw->block = raw->memory.base;
	ret = conn_create(&raw->conn, &raw->node, raw->node.info, &conn_attr);
	if (!ret)
		ret = region_register(&raw->node, &raw->region, raw->block,
				      2 * (size_t) PMV_BLOCK_SIZE,
				      FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0);
	return ret ? failed_call(fx, "making the peer's endpoint", ret) : 0;
}

size_t raw_hello(struct raw *raw, uint8_t handshake[PMV_HANDSHAKE_SIZE])
{
	struct pmv_handshake mine = {
		.addr = raw->region.addr,
		.key = (uint32_t) raw->region.key,
		.flush_key = (uint32_t) raw->region.key,
		.secret = raw->secret,
	};

	pmv_handshake_encode(handshake, &mine);
	return PMV_HANDSHAKE_SIZE;
}

int raw_connect(struct raw *raw, const void *handshake, size_t len)
{
	struct control_msg msg = {.command = CTL_ACCEPT};
	struct cm_event event = {0};
	char data[CM_DATA_MAX];
	int mine, theirs;

	if (target_begin(raw->target, &msg, NULL))
		return -1;
	mine = conn_connect(&raw->conn, handshake, len, &event);
	theirs = target_finish(raw->target, &msg, data, sizeof(data));
	if (!theirs)
		raw->id = msg.arg[0];
	if (theirs || mine)
		return failed_call(raw->fx, "connecting the hostile peer", theirs ? theirs : mine);
	/* the target's application has no data of its own */
	pmv_handshake_decode(event.entry.data, PMV_HANDSHAKE_SIZE, &raw->theirs);
	raw->message_out = pmv_seal(raw->secret, raw->theirs.secret, PMV_SEALED_MESSAGE);
	raw->ack_in = pmv_seal(raw->theirs.secret, raw->secret, PMV_SEALED_ACK);
	return 0;
}

int raw_greet(struct raw *raw)
{
	uint8_t handshake[PMV_HANDSHAKE_SIZE];
	size_t len = raw_hello(raw, handshake);

	return raw_connect(raw, handshake, len) ||
			       expect(raw->fx, raw->theirs.agent, "the target says of no agent")
		       ? -1
		       : 0;
}

void raw_reap(struct raw *raw)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error;
	ssize_t ret;

	while ((ret = fi_cq_read(raw->conn.txcq, &entry, 1)) != -FI_EAGAIN) {
		if (ret == 1) {
			raw->under_way--;
		} else if (ret == -FI_EAVAIL && cq_error(raw->conn.txcq, &error)) {
			raw->under_way--;
			raw->is_broken = true;
		} else {
			return;
		}
	}
	sched_yield();
}

int raw_settle(struct raw *raw)
{
	while (raw->under_way) {
		raw_reap(raw);
		if (is_late(raw->fx))
			return failed(raw->fx, "the hostile peer's writes do not complete");
	}
	return 0;
}

bool raw_is_ended(struct raw *raw)
{
	struct cm_event event;

	/* A write that is under way may never fail over Soft-RoCE: the event tells. */
	do {
		raw_reap(raw);
		if (node_event(&raw->node, &event, 0) == 1 && event.event == FI_SHUTDOWN)
			return true;
	} while (!is_late(raw->fx));
	return false;
}

int raw_write_to(struct raw *raw, uint64_t addr, uint32_t key, size_t at, size_t len)
{
	ssize_t ret;

	while (!raw->is_broken) {
		ret = fi_write(raw->conn.ep, raw->block + PMV_BLOCK_SIZE + at, len,
			       raw->region.desc, 0, addr, key, NULL);
		if (!ret) {
			raw->under_way++;
			return 0;
		}
		if (ret != -FI_EAGAIN)
			return failed_call(raw->fx, "the hostile peer's fi_write", ret);
		raw_reap(raw);
		if (is_late(raw->fx))
			return failed(raw->fx, "the hostile peer's queue stays full");
	}
	return failed(raw->fx, "the hostile peer's connection is lost");
}

int raw_write(struct raw *raw, size_t at, size_t len)
{
	return raw_write_to(raw, raw->theirs.addr + at, raw->theirs.key, at, len);
}

bool raw_read(struct raw *raw, uint64_t addr, uint32_t key, size_t len)
{
	ssize_t ret;

	do {
		ret = fi_read(raw->conn.ep, raw->block, len, raw->region.desc, 0, addr, key, NULL);
		raw_reap(raw);
	} while (ret == -FI_EAGAIN && !raw->is_broken && !is_late(raw->fx));
	if (ret)
		return false;
	raw->under_way++;
	return !raw_settle(raw) && !raw->is_broken;
}

uint8_t *raw_slot(struct raw *raw, uint64_t number)
{
	return raw->block + PMV_BLOCK_SIZE + number % PMV_SLOTS * PMV_MESSAGE_SIZE;
}

int raw_put(struct raw *raw, uint64_t number, const uint8_t *bytes, size_t len)
{
	memcpy(raw_slot(raw, number), bytes, len);
	return raw_write(raw, number % PMV_SLOTS * PMV_MESSAGE_SIZE, len) || raw_settle(raw) ? -1
											     : 0;
}

void raw_seal(const struct raw *raw, uint8_t *bytes, size_t len)
{
	reseal(bytes, len, &raw->message_out);
}

bool raw_take_ack(struct raw *raw, unsigned int ms, struct pmv_ack *ack)
{
	uint64_t number = raw->acks + 1, end = now_ns() + ms * 1000000ULL;
	const uint8_t *slot = raw->block + pmv_ack_at(number);

	do {
		raw_reap(raw);
		if (pmv_ack_decode(slot, number, &raw->ack_in, ack)) {
			raw->acks = number;
			return true;
		}
	} while (now_ns() < end && !raw->is_broken);
	return false;
}

int raw_stays_silent(struct raw *raw, const char *what)
{
	struct pmv_ack ack;

	if (!raw_take_ack(raw, SILENCE_MS, &ack))
		return 0;
	return failed(raw->fx, "%s: the agent has acknowledged message %llu, fault %d", what,
		      (unsigned long long) ack.done, ack.fault);
}

int raw_answers(struct raw *raw, const char *what, uint64_t number, enum pmv_fault fault)
{
	struct pmv_ack ack;

	if (!raw_take_ack(raw, RAW_ANSWER_MS, &ack))
		return failed(raw->fx, "%s: the agent does not answer", what);
	return expect(raw->fx, ack.done == number && ack.fault == fault,
		      "%s: the agent has answered to message %llu instead of %llu, fault %d "
		      "instead of %d",
		      what, (unsigned long long) ack.done, (unsigned long long) number, ack.fault,
		      fault);
}

int raw_send(struct raw *raw, struct pmv_flush_message *message)
{
	uint8_t bytes[PMV_MESSAGE_SIZE];
	size_t len;

	message->envelope.number = ++raw->sent;
	len = message_encode(bytes, message, &raw->message_out);
	return raw_put(raw, message->envelope.number, bytes, len);
}
