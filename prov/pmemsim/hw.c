/* SPDX-License-Identifier: BSD-2-Clause */
/* hw.c -- a model of the hardware; hw.h says how it is used, README.md what it assumes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw.h"

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

/* Building */

struct hw *hw_new(const struct hw_rules *rules)
{
	struct hw *hw = need(calloc(1, sizeof(*hw)));

	hw->rules = *rules;
	return hw;
}

static void request_free(struct hw_request *request)
{
	free(request->payload);
	free(request);
}

void hw_free(struct hw *hw)
{
	for (unsigned int i = 0; i < hw->num_ports; i++) {
		for (unsigned int j = 0; j < hw->ports[i]->count; j++)
			request_free(hw->ports[i]->queue[j]);
		free(hw->ports[i]);
	}
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		struct hw_memory *memory = &hw->memories[i];

		free(memory->durable);
		free(memory->pending);
		free(memory->is_buffered);
		free(memory->is_pending);
		free(memory->placed);
		free(memory->touched);
	}
	free(hw);
}

struct hw_port *hw_port(struct hw *hw, unsigned int device, unsigned int room)
{
	struct hw_port *port = need(calloc(1, sizeof(*port)));

	if (hw->num_ports == HW_MAX_PORTS || room > HW_MAX_QUEUE)
		abort();
	port->number = hw->num_ports;
	port->device = device;
	port->room = room;
	hw->ports[hw->num_ports++] = port;
	return port;
}

void hw_connect(struct hw_port *one, struct hw_port *other)
{
	one->peer = other;
	other->peer = one;
}

struct hw_memory *hw_memory(struct hw *hw, char *base, size_t len, enum hw_domain domain)
{
	struct hw_memory *memory = &hw->memories[hw->num_memories++];

	if (hw->num_memories > HW_MAX_MEMORIES || len % HW_LINE || (uintptr_t) base % HW_LINE)
		abort();
	*memory = (struct hw_memory){.base = base, .len = len, .domain = domain};
	if (domain != HW_DMP && domain != HW_PAGED)
		return memory;
	memory->durable = need(malloc(len));
	memcpy(memory->durable, base, len);
	memory->pending = need(calloc(1, len));
	memory->is_buffered = need(calloc(1, len / HW_LINE));
	memory->is_pending = need(calloc(len / HW_LINE, sizeof(uint64_t)));
	if (domain == HW_PAGED) {
		memory->placed = need(malloc(len));
		memcpy(memory->placed, base, len);
		memory->touched = need(calloc(1, (len + HW_PAGE - 1) / HW_PAGE));
	}
	return memory;
}

struct hw_memory *hw_memory_of(struct hw *hw, const char *addr)
{
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		struct hw_memory *memory = &hw->memories[i];

		if (addr >= memory->base && addr < memory->base + memory->len)
			return memory;
	}
	return NULL;
}

static void changed(struct hw *hw, const void *addr, size_t len)
{
	if (hw->changed)
		hw->changed(addr, len);
}

/* Pieces */

static bool is_posted(const struct hw_request *request)
{
	return request->kind == HW_WRITE || request->kind == HW_SEND;
}

static unsigned int count_pieces(const struct hw *hw, const char *target, size_t len)
{
	uintptr_t granule = hw->rules.granule;
	uintptr_t first = (uintptr_t) target / granule;
	uintptr_t last = ((uintptr_t) target + len - 1) / granule;

	return len ? (unsigned int) (last - first + 1) : 0;
}

static void get_piece(const struct hw *hw, const struct hw_request *request, unsigned int piece,
		      size_t *offset, size_t *len)
{
	uintptr_t granule = hw->rules.granule;
	uintptr_t start = (uintptr_t) request->target;
	uintptr_t from = (start / granule + piece) * granule;
	uintptr_t to = from + granule;

	if (from < start)
		from = start;
	if (to > start + request->len)
		to = start + request->len;
	*offset = from - start;
	*len = to - from;
}

/* set_target -- where it goes; all of it is still to become visible there */
static void set_target(const struct hw *hw, struct hw_request *request, char *target, size_t len)
{
	request->target = target;
	request->len = len;
	request->pieces = count_pieces(hw, target, len);
	if (request->pieces > 64)
		abort();
	request->left = request->pieces == 64 ? UINT64_MAX : (UINT64_C(1) << request->pieces) - 1;
}

/* is_pending -- a byte is on its way out of the processor */
static bool is_pending(const struct hw_memory *memory, size_t offset)
{
	return memory->is_pending[offset / HW_LINE] >> offset % HW_LINE & 1;
}

/* set_out -- bytes leave the processor as they are, until the fence at the latest */
static void set_out(struct hw *hw, struct hw_memory *memory, size_t offset, size_t len)
{
	size_t first = offset / HW_LINE, last = (offset + len - 1) / HW_LINE;

	memcpy(memory->pending + offset, memory->base + offset, len);
	changed(hw, memory->pending + offset, len);
	for (size_t i = offset; i < offset + len; i++)
		memory->is_pending[i / HW_LINE] |= UINT64_C(1) << i % HW_LINE;
	changed(hw, &memory->is_pending[first], (last - first + 1) * sizeof(uint64_t));
}

/* place -- bytes become visible, and in the memory controller if they bypass the cache */
static void place(struct hw *hw, char *to, const char *from, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, to);

	memcpy(to, from, len);
	changed(hw, to, len);
	if (!memory)
		return;
	if (memory->domain == HW_PAGED) {
		memcpy(memory->placed + (to - memory->base), from, len);
		changed(hw, memory->placed + (to - memory->base), len);
	}
	if (memory->domain != HW_DMP || hw->rules.ddio)
		return;
	if (hw->rules.buffered) {
		memory->is_buffered[(to - memory->base) / HW_LINE] = 1;
		changed(hw, &memory->is_buffered[(to - memory->base) / HW_LINE], 1);
		return;
	}
	memcpy(memory->durable + (to - memory->base), from, len);
	changed(hw, memory->durable + (to - memory->base), len);
	/* What is on its way out merges with it. */
	for (size_t i = to - memory->base; i < (size_t) (to - memory->base) + len; i++) {
		if (is_pending(memory, i))
			memory->pending[i] = memory->base[i];
	}
	changed(hw, memory->pending + (to - memory->base), len);
}

/* retire -- forget requests that are done at both ends */
static void retire(struct hw_port *port)
{
	unsigned int kept = 0, completed = port->completed;

	for (unsigned int i = 0; i < port->count; i++) {
		struct hw_request *request = port->queue[i];

		if (i < completed && request->stage == HW_DONE &&
		    (!request->notifies || request->noticed)) {
			port->completed--;
			request_free(request);
		} else {
			port->queue[kept++] = request;
		}
	}
	for (unsigned int i = kept; i < port->count; i++)
		port->queue[i] = NULL;
	port->count = kept;
}

static void retire_all(struct hw *hw)
{
	for (unsigned int i = 0; i < hw->num_ports; i++)
		retire(hw->ports[i]);
}

static void enter(struct hw *hw, struct hw_request *request, unsigned int device)
{
	request->stage = HW_LEFT;
	if (!request->left) {
		request->stage = HW_DONE;
		return;
	}
	if (hw->num_left == HW_MAX_QUEUE * 2)
		abort();
	hw->left[hw->num_left] = request;
	hw->left_device[hw->num_left++] = device;
}

static void finish_landing(struct hw *hw, struct hw_request *request)
{
	unsigned int kept = 0;

	request->stage = HW_DONE;
	for (unsigned int i = 0; i < hw->num_left; i++) {
		if (hw->left[i] == request)
			continue;
		hw->left[kept] = hw->left[i];
		hw->left_device[kept++] = hw->left_device[i];
	}
	for (unsigned int i = kept; i < hw->num_left; i++) {
		hw->left[i] = NULL;
		hw->left_device[i] = 0;
	}
	hw->num_left = kept;
}

static void land(struct hw *hw, struct hw_request *request, unsigned int piece)
{
	size_t offset, len;

	get_piece(hw, request, piece, &offset, &len);
	place(hw, request->target + offset, request->payload + offset, len);
	request->left &= ~(UINT64_C(1) << piece);
	if (!request->left)
		finish_landing(hw, request);
}

static bool overlap(const char *a, size_t a_len, const char *b, size_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

static void evict(struct hw *hw, struct hw_memory *memory, size_t line);

/* push_buffers -- to the memory controller; without an order only what overlaps */
static void push_buffers(struct hw *hw, const char *addr, size_t len)
{
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		struct hw_memory *memory = &hw->memories[i];

		for (size_t line = 0; memory->is_buffered && line < memory->len / HW_LINE; line++) {
			if (memory->is_buffered[line] &&
			    (!hw->rules.relaxed ||
			     overlap(memory->base + line * HW_LINE, HW_LINE, addr, len)))
				evict(hw, memory, line);
		}
	}
}

/*
 * push -- a PCIe read of that range returns: what the device wrote before it is
 * visible; without an order only as far as it overlaps
 */
static void push(struct hw *hw, unsigned int device, const char *addr, size_t len)
{
	unsigned int i = 0;

	while (i < hw->num_left) {
		struct hw_request *request = hw->left[i];

		if (hw->left_device[i] != device) {
			i++;
			continue;
		}
		for (unsigned int piece = 0; piece < request->pieces; piece++) {
			size_t offset, piece_len;

			if (!(request->left & (UINT64_C(1) << piece)))
				continue;
			get_piece(hw, request, piece, &offset, &piece_len);
			if (!hw->rules.relaxed ||
			    overlap(request->target + offset, piece_len, addr, len))
				land(hw, request, piece);
		}
		/* If all of it is visible the next one has its place. */
		if (i < hw->num_left && hw->left[i] == request)
			i++;
	}
	push_buffers(hw, addr, len);
}

/* Posting */

bool hw_post(struct hw_port *port, const struct hw_request *request, const char *payload)
{
	struct hw_request *copy;

	if (port->posted == port->room || port->count == HW_MAX_QUEUE)
		return false;
	copy = need(malloc(sizeof(*copy)));
	*copy = *request;
	copy->stage = HW_QUEUED;
	if (request->len || request->kind == HW_ATOMIC) {
		copy->payload = need(calloc(1, request->kind == HW_ATOMIC ? 16 : request->len));
		if (payload)
			memcpy(copy->payload, payload, request->len);
	}
	port->queue[port->count++] = copy;
	port->posted++;
	return true;
}

bool hw_receive(struct hw_port *port, const struct hw_receive *receive)
{
	if (port->num_receives == HW_MAX_QUEUE)
		return false;
	port->receives[port->num_receives++] = *receive;
	return true;
}

/* What may happen */

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

/* is_held -- by the fence: an earlier non-posted request has not been answered */
static bool is_held(const struct hw_port *port, unsigned int index)
{
	if (!port->queue[index]->fence)
		return false;
	for (unsigned int i = 0; i < index; i++) {
		if (!is_posted(port->queue[i]) && !port->queue[i]->responded)
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
		if (is_posted(port->queue[i]) && port->queue[i]->stage < HW_LEFT)
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
		if (!hw->rules.relaxed && is_posted(earlier) && earlier->stage < HW_DONE)
			return false;
	}
	return true;
}

static bool may_complete(const struct hw *hw, const struct hw_port *port, unsigned int index)
{
	const struct hw_request *request = port->queue[index];

	if (!is_posted(request))
		return request->responded;
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

static void port_steps(const struct hw *hw, const struct hw_port *port, struct list *list)
{
	bool all_arrived = true;

	for (unsigned int i = 0; i < port->count; i++) {
		const struct hw_request *request = port->queue[i];

		switch (request->stage) {
		case HW_QUEUED:
			if (all_arrived && !port->dead && !is_held(port, i))
				may(list, HW_ARRIVE, port->number, i, 0);
			all_arrived = false;
			break;
		case HW_ARRIVED:
			if (is_posted(request) ? may_leave(port, i) : may_execute(hw, port, i))
				may(list, is_posted(request) ? HW_LEAVE : HW_EXECUTE, port->number,
				    i, 0);
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

/* page_len -- the last page of a region may be cut short */
static size_t page_len(const struct hw_memory *memory, size_t page)
{
	size_t left = memory->len - page * HW_PAGE;

	return left < HW_PAGE ? left : HW_PAGE;
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
	       memcmp(memory->base + at, memory->durable + at, page_len(memory, page));
}

/*
 * may_drain -- what was flushed or stored past the cache may leave before the
 * fence; if the cache holds nothing else of the line, that is an eviction
 */
static bool may_drain(const struct hw_memory *memory, size_t line)
{
	for (size_t i = line * HW_LINE; memory->is_pending[line] && i < (line + 1) * HW_LINE; i++) {
		char drained = is_pending(memory, i) ? memory->pending[i] : memory->durable[i];

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
			if (request->stage == HW_ARRIVED && !is_posted(request))
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

/* Taking steps */

static void leave(struct hw *hw, struct hw_port *port, struct hw_request *request)
{
	struct hw_port *peer = port->peer;

	if (request->kind == HW_SEND) {
		const struct hw_receive *receive = &peer->receives[0];
		size_t len = request->len < receive->len ? request->len : receive->len;

		request->receive_context = receive->context;
		request->receive_quiet = receive->quiet;
		set_target(hw, request, receive->buf, len);
		peer->num_receives--;
		memmove(&peer->receives[0], &peer->receives[1],
			peer->num_receives * sizeof(peer->receives[0]));
		memset(&peer->receives[peer->num_receives], 0, sizeof(peer->receives[0]));
	} else {
		set_target(hw, request, request->target, request->len);
	}
	enter(hw, request, peer->device);
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

/* An atomic takes two steps; only other atomics of the NIC keep out of their midst. */
static void execute(struct hw *hw, struct hw_port *port, struct hw_request *request)
{
	unsigned int device = port->peer->device;

	if (request->fetched) {
		request->responded = true;
		set_target(hw, request, request->target, sizeof(uint64_t));
		enter(hw, request, device);
		return;
	}
	/* No bytes, no PCIe read. */
	if (request->len)
		push(hw, device, request->target, request->len);
	if (request->kind == HW_ATOMIC) {
		fetch(request);
		return;
	}
	if (request->len)
		memcpy(request->payload, request->target, request->len);
	request->responded = true;
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
		changed(hw, request->result, request->len);
	if (request->reported)
		hw->complete(port, &(struct hw_event){.what = request->what,
						      .context = request->context});
	retire(port);
}

static void notice(struct hw *hw, struct hw_port *port, struct hw_request *request)
{
	request->noticed = true;
	if (!request->receive_quiet)
		hw->complete(port->peer, &(struct hw_event){
						 .receive = true,
						 .what = request->what,
						 .imm = request->imm,
						 .len = request->len,
						 .context = request->receive_context,
					 });
	retire(port);
}

/*
 * A prefix of what was posted has arrived, and goes on by itself; the rest never
 * will.  What has not completed completes with an error.
 */
static void lose_queue(struct hw *hw, struct hw_port *port)
{
	unsigned int kept = 0;
	bool first = true;

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
			request_free(request);
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
	retire_all(hw);
}

void hw_port_close(struct hw *hw, struct hw_port *port)
{
	if (!port->dead)
		hw_kill(hw, port);
}

static void write_back(struct hw *hw, struct hw_memory *memory, size_t offset, size_t len)
{
	memcpy(memory->durable + offset, memory->base + offset, len);
	changed(hw, memory->durable + offset, len);
}

/* settle -- nothing of a line is on its way out any more */
static void settle(struct hw *hw, struct hw_memory *memory, size_t line)
{
	memory->is_pending[line] = 0;
	changed(hw, &memory->is_pending[line], sizeof(uint64_t));
	memset(memory->pending + line * HW_LINE, 0, HW_LINE);
	changed(hw, memory->pending + line * HW_LINE, HW_LINE);
}

static void evict(struct hw *hw, struct hw_memory *memory, size_t line)
{
	write_back(hw, memory, line * HW_LINE, HW_LINE);
	memory->is_buffered[line] = 0;
	changed(hw, &memory->is_buffered[line], 1);
	settle(hw, memory, line);
}

/* drain -- no more of a line than was on its way out, as it was when it set out */
static void drain(struct hw *hw, struct hw_memory *memory, size_t line)
{
	for (size_t i = line * HW_LINE; i < (line + 1) * HW_LINE; i++) {
		if (is_pending(memory, i))
			memory->durable[i] = memory->pending[i];
	}
	changed(hw, memory->durable + line * HW_LINE, HW_LINE);
	settle(hw, memory, line);
}

/* clean -- the page is on the medium, and the kernel knows of nothing else to do */
static void clean(struct hw *hw, struct hw_memory *memory, size_t page)
{
	size_t offset = page * HW_PAGE, len = page_len(memory, page);

	write_back(hw, memory, offset, len);
	memcpy(memory->placed + offset, memory->base + offset, len);
	changed(hw, memory->placed + offset, len);
	memory->touched[page] = 0;
	changed(hw, &memory->touched[page], 1);
}

void hw_take(struct hw *hw, struct hw_step step)
{
	struct hw_port *port =
		step.kind < HW_EVICT || step.kind == HW_DIE ? hw->ports[step.at] : NULL;
	struct hw_request *request = port && step.kind != HW_DIE ? port->queue[step.index] : NULL;

	switch ((enum hw_step_kind) step.kind) {
	case HW_ARRIVE:
		request->stage = HW_ARRIVED;
		if (request->err)
			hw_kill(hw, port);
		break;
	case HW_LEAVE:
		leave(hw, port, request);
		retire(port);
		break;
	case HW_EXECUTE:
		execute(hw, port, request);
		retire_all(hw);
		break;
	case HW_LAND:
		land(hw, request, step.piece);
		retire(port);
		break;
	case HW_NOTICE:
		notice(hw, port, request);
		break;
	case HW_EVICT:
		evict(hw, &hw->memories[step.at], step.index);
		break;
	case HW_DRAIN:
		drain(hw, &hw->memories[step.at], step.index);
		break;
	case HW_WRITEBACK:
		clean(hw, &hw->memories[step.at], step.index);
		break;
	case HW_DIE:
		hw_kill(hw, port);
		break;
	}
}

/* The target's processor */

void hw_flush(struct hw *hw, const void *addr, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, addr);
	size_t offset, first, last;

	if (!memory || memory->domain != HW_DMP || !len)
		return;
	offset = (const char *) addr - memory->base;
	first = offset / HW_LINE;
	last = (offset + len - 1) / HW_LINE;
	set_out(hw, memory, first * HW_LINE, (last - first + 1) * HW_LINE);
}

void hw_drain(struct hw *hw)
{
	for (unsigned int i = 0; i < hw->num_memories; i++) {
		struct hw_memory *memory = &hw->memories[i];

		if (memory->domain != HW_DMP)
			continue;
		for (size_t line = 0; line < memory->len / HW_LINE; line++) {
			if (memory->is_pending[line])
				drain(hw, memory, line);
		}
	}
}

void hw_touch(struct hw *hw, void *addr, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, addr);
	size_t offset;

	if (!memory || memory->domain != HW_PAGED || !len)
		return;
	offset = (char *) addr - memory->base;
	for (size_t page = offset / HW_PAGE; page <= (offset + len - 1) / HW_PAGE; page++) {
		memory->touched[page] = 1;
		changed(hw, &memory->touched[page], 1);
	}
}

/*
 * store -- past the caches: visible at once, and on its way until the fence; what
 * else the line holds is not.  A page gets dirty.
 */
void hw_store(struct hw *hw, void *to, const void *from, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, to);

	memcpy(to, from, len);
	changed(hw, to, len);
	if (memory && memory->domain == HW_DMP && len)
		set_out(hw, memory, (char *) to - memory->base, len);
	hw_touch(hw, to, len);
}

/* sync -- pages that the kernel knows to be dirty, because they were touched or stored to */
void hw_sync(struct hw *hw, void *addr, size_t len)
{
	struct hw_memory *memory = hw_memory_of(hw, addr);
	size_t offset;

	if (!memory || memory->domain != HW_PAGED || !len)
		return;
	offset = (char *) addr - memory->base;
	for (size_t page = offset / HW_PAGE; page <= (offset + len - 1) / HW_PAGE; page++) {
		size_t at = page * HW_PAGE;

		if (memory->touched[page] ||
		    memcmp(memory->base + at, memory->placed + at, page_len(memory, page)))
			clean(hw, memory, page);
	}
}

/* Power failure */

/* apply -- what of a request is in the image's range and not visible yet */
static void apply(const struct hw *hw, const struct hw_request *request, const char *addr,
		  size_t len, char *image)
{
	for (unsigned int piece = 0; piece < request->pieces; piece++) {
		size_t offset, piece_len;

		if (!(request->left & (UINT64_C(1) << piece)))
			continue;
		get_piece(hw, request, piece, &offset, &piece_len);
		for (size_t i = 0; i < piece_len; i++) {
			const char *to = request->target + offset + i;

			if (to >= addr && to < addr + len)
				image[to - addr] = request->payload[offset + i];
		}
	}
}

/* The NIC's buffers and the I/O controller persist, too, and are emptied in their order. */
static void apply_buffers(struct hw *hw, const char *addr, size_t len, char *image)
{
	for (unsigned int i = 0; i < hw->num_left; i++)
		apply(hw, hw->left[i], addr, len, image);
	for (unsigned int i = 0; i < hw->num_ports; i++) {
		struct hw_port *port = hw->ports[i];
		unsigned int receive = 0;

		for (unsigned int j = 0; j < port->count; j++) {
			struct hw_request in_buffer = *port->queue[j];

			if (in_buffer.stage != HW_ARRIVED || !is_posted(&in_buffer))
				continue;
			if (in_buffer.kind == HW_SEND) {
				const struct hw_receive *next = &port->peer->receives[receive++];

				if (receive > port->peer->num_receives)
					break;
				set_target(hw, &in_buffer, next->buf,
					   in_buffer.len < next->len ? in_buffer.len : next->len);
			} else {
				set_target(hw, &in_buffer, in_buffer.target, in_buffer.len);
			}
			apply(hw, &in_buffer, addr, len, image);
		}
	}
}

void hw_image(struct hw *hw, const char *addr, size_t len, char *image)
{
	const struct hw_memory *memory = hw_memory_of(hw, addr);

	if (memory && memory->durable) {
		memcpy(image, memory->durable + (addr - memory->base), len);
		return;
	}
	memcpy(image, addr, len);
	if (memory && memory->domain == HW_WSP)
		apply_buffers(hw, addr, len, image);
}

/* Words */

static void describe_request(const struct hw_port *port, const struct hw_request *request,
			     char *buf, size_t len)
{
	static const char *const kinds[] = {[HW_WRITE] = "WRITE",
					    [HW_SEND] = "SEND",
					    [HW_READ] = "READ",
					    [HW_ATOMIC] = "ATOMIC"};
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
		snprintf(buf, len, "%s %s", request,
			 port->queue[step.index]->fetched ? "stores" : "is carried out");
		break;
	case HW_LAND:
		get_piece(hw, port->queue[step.index], step.piece, &offset, &piece_len);
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
