/* SPDX-License-Identifier: BSD-2-Clause */
/* hw_steps.c -- which steps the rules allow now, and what they are in words */
#include "hw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw_impl.h"

struct list {
	struct hw_step *steps;
	size_t count;
};

static void may(struct list *list, enum hw_step_kind kind, unsigned int at, unsigned int index,
		unsigned int piece)
{
	if (list->count == HW_MAX_STEPS)
		abort();
	list->steps[list->count++] = (struct hw_step){.kind = (uint8_t) kind,
						      .at = (uint8_t) at,
						      .index = (uint16_t) index,
						      .piece = (uint16_t) piece};
}

/* is_held -- by the fence: an earlier READ or atomic has not been answered */
static bool is_held(const struct hw_port *port, unsigned int index)
{
	if (!port->queue[index]->fence)
		return false;
	for (unsigned int i = 0; i < index; i++) {
		enum hw_kind kind = port->queue[i]->kind;

		if ((kind == HW_READ || kind == HW_ATOMIC) && !port->queue[i]->responded)
			return true;
	}
	return false;
}

/*
 * may_leave -- of a posted request: behind all earlier posted ones; it may pass
 * non-posted ones.  A message needs a receive.
 */
static bool may_leave(const struct hw_port *port, unsigned int index)
{
	if (port->queue[index]->kind == HW_SEND && !port->peer->num_receives)
		return false;
	for (unsigned int i = 0; i < index; i++) {
		if (hw_is_posted(port->queue[i]) && port->queue[i]->stage < HW_LEFT)
			return false;
	}
	return true;
}

/* is_between -- an atomic has read and not stored yet */
static bool is_between(const struct hw_request *request)
{
	return request->fetched && request->stage == HW_ARRIVED;
}

/* is_locked -- a NIC carries out one atomic at a time */
static bool is_locked(const struct hw *hw, unsigned int device)
{
	for (unsigned int i = 0; i < hw->num_ports; i++) {
		const struct hw_port *port = hw->ports[i];

		for (unsigned int j = 0; j < port->count; j++) {
			if (port->peer->device == device && is_between(port->queue[j]))
				return true;
		}
	}
	return false;
}

/* may_execute -- of a non-posted request: behind all others */
static bool may_execute(const struct hw *hw, const struct hw_port *port, unsigned int index)
{
	const struct hw_request *request = port->queue[index];

	if (request->kind == HW_ATOMIC && !request->fetched && is_locked(hw, port->peer->device))
		return false;
	for (unsigned int i = 0; i < index; i++) {
		if (port->queue[i]->stage < HW_LEFT)
			return false;
	}
	return true;
}

/* may_repeat -- the answer that was lost: the target knows it as long as its slot is not reused */
static bool may_repeat(const struct hw *hw, const struct hw_port *port, unsigned int index)
{
	unsigned int since = 0;

	if (!port->queue[index]->lost || port->queue[index]->responded || port->dead)
		return false;
	for (unsigned int i = index + 1; i < port->count; i++)
		since += !hw_is_posted(port->queue[i]) && port->queue[i]->stage > HW_ARRIVED;
	return since < hw->rules.slots;
}

/*
 * may_notice -- entries are in the order of their requests, and behind the data:
 * also behind that of earlier requests, unless there is no order among writes
 */
static bool may_notice(const struct hw *hw, const struct hw_port *port, unsigned int index)
{
	for (unsigned int i = 0; i < index; i++) {
		const struct hw_request *earlier = port->queue[i];

		if (earlier->notifies && !earlier->noticed)
			return false;
		if (!hw->rules.relaxed && hw_is_posted(earlier) && earlier->stage < HW_DONE)
			return false;
	}
	return true;
}

/* is_placed -- with all before it: whoever acknowledges that carries requests out in order */
static bool is_placed(const struct hw_port *port, unsigned int index)
{
	for (unsigned int i = 0; i <= index; i++) {
		if (port->queue[i]->stage < HW_DONE)
			return false;
	}
	return true;
}

static bool may_complete(const struct hw *hw, const struct hw_port *port, unsigned int index)
{
	const struct hw_request *request = port->queue[index];

	if (!hw_is_posted(request))
		return request->responded;
	if (request->delivered)
		return is_placed(port, index);
	/* Completions come in order: whatever a fence waits for has its answer by then. */
	return hw->rules.local || request->stage >= HW_ARRIVED;
}

size_t hw_completable(struct hw *hw, struct hw_port *port)
{
	unsigned int index = port->completed;

	while (!port->dead && index < port->count && may_complete(hw, port, index))
		index++;
	return index - port->completed;
}

static void arrived_steps(const struct hw *hw, const struct hw_port *port, unsigned int index,
			  struct list *list)
{
	const struct hw_request *request = port->queue[index];

	if (hw_is_posted(request)) {
		if (may_leave(port, index))
			may(list, HW_LEAVE, port->number, index, 0);
		return;
	}
	if (!may_execute(hw, port, index))
		return;
	may(list, HW_EXECUTE, port->number, index, 0);
	if (hw->rules.slots && hw_is_extended(request))
		may(list, HW_EXECUTE, port->number, index, 1);
}

static void port_steps(const struct hw *hw, const struct hw_port *port, struct list *list)
{
	bool all_arrived = true;

	for (unsigned int i = 0; i < port->count; i++) {
		const struct hw_request *request = port->queue[i];

		if (may_repeat(hw, port, i))
			may(list, HW_REPEAT, port->number, i, 0);
		switch (request->stage) {
		case HW_QUEUED:
			if (all_arrived && !port->dead && !is_held(port, i))
				may(list, HW_ARRIVE, port->number, i, 0);
			all_arrived = false;
			break;
		case HW_ARRIVED:
			arrived_steps(hw, port, i, list);
			break;
		case HW_DONE:
			if (request->notifies && !request->noticed && may_notice(hw, port, i))
				may(list, HW_NOTICE, port->number, i, 0);
			break;
		case HW_LEFT:
			break;
		}
	}
	if (hw->may_die && !port->dead && port->peer && port->number < port->peer->number)
		may(list, HW_DIE, port->number, 0, 0);
}

/* A request is known by its port and its place there. */
static void find(const struct hw *hw, const struct hw_request *request, unsigned int *at,
		 unsigned int *index)
{
	for (*at = 0; *at < hw->num_ports; ++*at) {
		for (*index = 0; *index < hw->ports[*at]->count; ++*index) {
			if (hw->ports[*at]->queue[*index] == request)
				return;
		}
	}
	abort();
}

static void landing_steps(const struct hw *hw, struct list *list)
{
	uint64_t blocked = 0; /* a bit for each device */

	for (unsigned int i = 0; i < hw->num_left; i++) {
		const struct hw_request *request = hw->left[i];
		uint64_t device = UINT64_C(1) << hw->left_device[i];
		unsigned int at, index;

		if (!hw->rules.relaxed && (blocked & device))
			continue;
		blocked |= device;
		find(hw, request, &at, &index);
		for (unsigned int piece = 0; piece < request->pieces; piece++) {
			if (request->left & (UINT64_C(1) << piece))
				may(list, HW_LAND, at, index, piece);
		}
	}
}

/*
 * may_write_back -- it makes a difference: to the file, or to what the kernel
 * knows.  A page that it takes for dirty may be written before there is anything
 * new in it, and is taken for clean then.
 */
static bool may_write_back(const struct hw_memory *memory, size_t page)
{
	size_t at = page * HW_PAGE;

	return memory->touched[page] ||
	       memcmp(memory->base + at, memory->durable + at, hw_page_len(memory, page));
}

/*
 * may_drain -- what was flushed or stored past the cache may leave before the
 * fence; if the cache holds nothing else of the line, that is an eviction
 */
static bool may_drain(const struct hw_memory *memory, size_t line)
{
	for (size_t i = line * HW_LINE; memory->is_pending[line] && i < (line + 1) * HW_LINE; i++) {
		char drained = hw_is_pending(memory, i) ? memory->pending[i] : memory->durable[i];

		if (drained != memory->base[i])
			return true;
	}
	return false;
}

static void memory_steps(const struct hw *hw, unsigned int at, struct list *list)
{
	const struct hw_memory *memory = &hw->memories[at];

	if (memory->domain == HW_DMP) {
		for (size_t line = 0; line < memory->len / HW_LINE; line++) {
			if (memcmp(memory->base + line * HW_LINE, memory->durable + line * HW_LINE,
				   HW_LINE))
				may(list, HW_EVICT, at, line, 0);
			if (may_drain(memory, line))
				may(list, HW_DRAIN, at, line, 0);
		}
	} else if (memory->domain == HW_PAGED) {
		for (size_t page = 0; page * HW_PAGE < memory->len; page++) {
			if (may_write_back(memory, page))
				may(list, HW_WRITEBACK, at, page, 0);
		}
	}
}

size_t hw_steps(struct hw *hw, struct hw_step *steps)
{
	struct list list = {.steps = steps};

	for (unsigned int i = 0; i < hw->num_ports; i++)
		port_steps(hw, hw->ports[i], &list);
	landing_steps(hw, &list);
	for (unsigned int i = 0; i < hw->num_memories; i++)
		memory_steps(hw, i, &list);
	return list.count;
}

/* keeps_buffers -- a request that has arrived survives, one that has not does not */
static bool keeps_buffers(const struct hw *hw)
{
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		if (hw->memories[i].domain == HW_WSP)
			return true;
	}
	return false;
}

/* has_rival -- does another connection use the same NIC? */
static bool has_rival(const struct hw *hw, const struct hw_port *port)
{
	for (unsigned int i = 0; i < hw->num_ports; i++) {
		const struct hw_port *other = hw->ports[i];

		if (other != port && other->peer->device == port->peer->device)
			return true;
	}
	return false;
}

/*
 * Arriving enables steps and disables none; only a lost connection, or a power
 * failure that leaves the NIC's buffers, tells when it was.  Leaving the NIC, too,
 * if nothing pushes what has left: no earlier READ, no other connection.
 */
bool hw_free_step(struct hw *hw, struct hw_step *step)
{
	for (unsigned int i = 0; i < hw->num_ports; i++) {
		const struct hw_port *port = hw->ports[i];

		for (unsigned int j = 0; j < port->count; j++) {
			const struct hw_request *request = port->queue[j];

			if (request->stage == HW_QUEUED && !hw->may_die && !keeps_buffers(hw) &&
			    !port->dead && !request->err && !is_held(port, j)) {
				*step = (struct hw_step){HW_ARRIVE, (uint8_t) i, (uint16_t) j, 0};
				return true;
			}
			if (request->stage == HW_QUEUED)
				break;
			if (request->stage == HW_ARRIVED && !hw_is_posted(request))
				break;
			if (request->stage == HW_ARRIVED && may_leave(port, j) &&
			    !has_rival(hw, port)) {
				*step = (struct hw_step){HW_LEAVE, (uint8_t) i, (uint16_t) j, 0};
				return true;
			}
		}
	}
	return false;
}

/* Words */

static void describe_request(const struct hw_port *port, const struct hw_request *request,
			     char *buf, size_t len)
{
	static const char *const kinds[] = {
		[HW_WRITE] = "WRITE",   [HW_SEND] = "SEND",   [HW_READ] = "READ",
		[HW_ATOMIC] = "ATOMIC", [HW_FLUSH] = "FLUSH", [HW_ATOMIC_WRITE] = "ATOMIC WRITE"};
	char of[32] = "";

	if (request->note)
		snprintf(of, sizeof(of), " of operation %d", request->note);
	snprintf(buf, len, "%s%s of %zu bytes%s%s (connection %u%s)",
		 request->fence ? "fenced " : "", kinds[request->kind], request->len,
		 request->notifies && request->kind != HW_SEND ? " with immediate" : "", of,
		 port->number < port->peer->number ? port->number : port->peer->number,
		 port->number < port->peer->number ? "" : ", back");
}

void hw_describe(struct hw *hw, struct hw_step step, char *buf, size_t len)
{
	const struct hw_port *port = hw->ports[step.at];
	char request[128] = "";
	size_t offset, piece_len;

	if (step.kind <= HW_NOTICE)
		describe_request(port, port->queue[step.index], request, sizeof(request));
	switch ((enum hw_step_kind) step.kind) {
	case HW_ARRIVE:
		snprintf(buf, len, "%s arrives in the buffer of the other NIC", request);
		break;
	case HW_LEAVE:
		snprintf(buf, len, "%s leaves the NIC for the I/O controller", request);
		break;
	case HW_EXECUTE:
		snprintf(buf, len, "%s %s%s", request,
			 port->queue[step.index]->fetched ? "stores" : "is carried out",
			 step.piece ? ", and its answer is lost" : "");
		break;
	case HW_REPEAT:
		snprintf(buf, len, "%s is answered again", request);
		break;
	case HW_LAND:
		hw_get_piece(hw, port->queue[step.index], step.piece, &offset, &piece_len);
		snprintf(buf, len, "%s: bytes %zu to %zu reach %s", request, offset,
			 offset + piece_len - 1,
			 hw->rules.ddio ? "the cache" : "the memory controller");
		break;
	case HW_NOTICE:
		snprintf(buf, len, "%s: the target's CQ gets its entry", request);
		break;
	case HW_EVICT:
		snprintf(buf, len, "line %u of region %u is evicted from the cache", step.index,
			 step.at);
		break;
	case HW_DRAIN:
		snprintf(buf, len,
			 "what was flushed or stored of line %u of region %u leaves the processor",
			 step.index, step.at);
		break;
	case HW_WRITEBACK:
		snprintf(buf, len, "the kernel writes page %u of region %u to the file", step.index,
			 step.at);
		break;
	case HW_DIE:
		snprintf(buf, len, "connection %u is lost", step.at);
		break;
	}
}
