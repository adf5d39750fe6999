/* SPDX-License-Identifier: BSD-2-Clause */
/* hw_take.c -- what a step does */
#include "hw.h"

#include <stdlib.h>
#include <string.h>

#include "hw_impl.h"

static void leave(struct hw *hw, struct hw_port *port, struct hw_request *request)
{
	struct hw_port *peer = port->peer;

	if (request->kind == HW_SEND) {
		const struct hw_receive *receive = &peer->receives[0];
		size_t len = request->len < receive->len ? request->len : receive->len;

		request->receive_context = receive->context;
		request->receive_quiet = receive->quiet;
		hw_set_target(hw, request, receive->buf, len);
		hw_receives_changed(hw, peer);
		peer->num_receives--;
		memmove(&peer->receives[0], &peer->receives[1],
			peer->num_receives * sizeof(peer->receives[0]));
		memset(&peer->receives[peer->num_receives], 0, sizeof(peer->receives[0]));
	} else {
		hw_set_target(hw, request, request->target, request->len);
	}
	hw_enter(hw, request, peer->device);
}

/* fetch -- what an atomic returns, and what it will store */
static void fetch(struct hw_request *request)
{
	uint64_t old, operand;

	memcpy(&old, request->target, sizeof(old));
	memcpy(&operand, request->payload, sizeof(operand));
	if (request->update)
		operand = request->update(old, operand, request->compare);
	memcpy(request->payload, &operand, sizeof(operand));
	memcpy(request->payload + 8, &old, sizeof(old));
	request->fetched = true;
}

/* persist -- of what is visible there, whatever holds it */
static void persist(struct hw *hw, const char *addr, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, addr);
	size_t offset;

	if (!memory || memory->domain != HW_DMP || !len)
		return;
	offset = (size_t) (addr - memory->base);
	for (size_t line = offset / HW_LINE; line <= (offset + len - 1) / HW_LINE; line++)
		hw_evict(hw, memory, line);
}

/* An atomic takes two steps; only other atomics of the NIC keep out of their midst. */
static void execute(struct hw *hw, struct hw_port *port, struct hw_request *request, bool lost)
{
	unsigned int device = port->peer->device;

	hw_changed(hw, request, sizeof(*request));
	request->lost = lost;
	if (request->fetched || request->kind == HW_ATOMIC_WRITE) {
		request->responded = !lost;
		hw_set_target(hw, request, request->target, sizeof(uint64_t));
		hw_enter(hw, request, device);
		return;
	}
	/* No bytes, no PCIe read. */
	if (request->len)
		hw_push(hw, device, request->target, request->len);
	if (request->kind == HW_ATOMIC) {
		fetch(request);
		hw_changed(hw, request->payload, 2 * sizeof(uint64_t));
		return;
	}
	if (request->kind == HW_FLUSH && request->persists)
		persist(hw, request->target, request->len);
	if (request->len && request->kind == HW_READ) {
		memcpy(request->payload, request->target, request->len);
		hw_changed(hw, request->payload, request->len);
	}
	request->responded = !lost;
	request->stage = HW_DONE;
}

void hw_complete(struct hw *hw, struct hw_port *port)
{
	struct hw_request *request = port->queue[port->completed++];

	port->posted--;
	if (request->result && request->responded && request->len)
		memcpy(request->result, request->payload + (request->kind == HW_ATOMIC ? 8 : 0),
		       request->len);
	if (request->result)
		hw_changed(hw, request->result, request->len);
	if (request->reported)
		hw->complete(port, &(struct hw_event){.what = request->what,
						      .context = request->context});
	hw_retire(hw, port);
}

static void notice(struct hw *hw, struct hw_port *port, struct hw_request *request)
{
	request->noticed = true;
	hw_changed(hw, request, sizeof(*request));
	if (!request->receive_quiet)
		hw->complete(port->peer, &(struct hw_event){
						 .receive = true,
						 .what = request->what,
						 .imm = request->imm,
						 .len = request->len,
						 .context = request->receive_context,
					 });
	hw_retire(hw, port);
}

/*
 * A prefix of what was posted has arrived, and goes on by itself; the rest never
 * will.  What has not completed completes with an error.
 */
static void lose_queue(struct hw *hw, struct hw_port *port)
{
	unsigned int kept = 0;
	bool first = true;

	hw_changed(hw, port, sizeof(*port));
	for (unsigned int i = port->completed; i < port->count; i++) {
		struct hw_request *request = port->queue[i];

		port->posted--;
		if (!request->quiet)
			hw->complete(port, &(struct hw_event){.what = request->what,
							      .context = request->context,
							      .err = first ? 5 : 125});
		first = false;
	}
	for (unsigned int i = 0; i < port->count; i++) {
		struct hw_request *request = port->queue[i];

		if (request->stage == HW_QUEUED)
			hw_request_free(request);
		else
			port->queue[kept++] = request;
	}
	for (unsigned int i = kept; i < port->count; i++)
		port->queue[i] = NULL;
	port->count = port->completed = kept;
	port->dead = true;
}

void hw_kill(struct hw *hw, struct hw_port *port)
{
	lose_queue(hw, port);
	if (port->peer && !port->peer->dead)
		lose_queue(hw, port->peer);
	hw_retire_all(hw);
}

void hw_port_close(struct hw *hw, struct hw_port *port)
{
	if (!port->dead)
		hw_kill(hw, port);
}

void hw_take(struct hw *hw, struct hw_step step)
{
	struct hw_port *port =
		step.kind < HW_EVICT || step.kind == HW_DIE ? hw->ports[step.at] : NULL;
	struct hw_request *request = port && step.kind != HW_DIE ? port->queue[step.index] : NULL;

	switch ((enum hw_step_kind) step.kind) {
	case HW_ARRIVE:
		request->stage = HW_ARRIVED;
		hw_changed(hw, request, sizeof(*request));
		if (request->err)
			hw_kill(hw, port);
		break;
	case HW_LEAVE:
		leave(hw, port, request);
		hw_retire(hw, port);
		break;
	case HW_EXECUTE:
		execute(hw, port, request, step.piece);
		hw_retire_all(hw);
		break;
	case HW_REPEAT:
		request->responded = true;
		hw_changed(hw, request, sizeof(*request));
		hw_retire(hw, port);
		break;
	case HW_LAND:
		hw_land(hw, request, step.piece);
		hw_retire(hw, port);
		break;
	case HW_NOTICE:
		notice(hw, port, request);
		break;
	case HW_EVICT:
		hw_evict(hw, &hw->memories[step.at], step.index);
		break;
	case HW_DRAIN:
		hw_drain_line(hw, &hw->memories[step.at], step.index);
		break;
	case HW_WRITEBACK:
		hw_clean(hw, &hw->memories[step.at], step.index);
		break;
	case HW_DIE:
		hw_kill(hw, port);
		break;
	}
}
