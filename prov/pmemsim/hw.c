/* SPDX-License-Identifier: BSD-2-Clause */
/* hw.c -- requests on their way; hw.h says how the model is used, README.md what it assumes */
#include "hw.h"

#include <stdlib.h>
#include <string.h>

#include "hw_impl.h"
#include "testcore/fid.h"

/* Building */

struct hw *hw_new(const struct hw_rules *rules)
{
	struct hw *hw = testcore_need(calloc(1, sizeof(*hw)));

	hw->rules = *rules;
	return hw;
}

void hw_request_free(struct hw_request *request)
{
	free(request->payload);
	free(request);
}

void hw_free(struct hw *hw)
{
	for (unsigned int i = 0; i < hw->num_ports; i++) {
		for (unsigned int j = 0; j < hw->ports[i]->count; j++)
			hw_request_free(hw->ports[i]->queue[j]);
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
		free(memory->written);
		free(memory->is_written);
	}
	free(hw);
}

struct hw_port *hw_port(struct hw *hw, unsigned int device, unsigned int room)
{
	struct hw_port *port = testcore_need(calloc(1, sizeof(*port)));

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

/* Posting */

/* port_changed -- what is in its queue, and how many */
static void port_changed(struct hw *hw, struct hw_port *port)
{
	hw_changed(hw, &port->posted,
		   (size_t) ((char *) &port->queue[port->count] - (char *) &port->posted));
	hw_changed(hw, &port->completed, sizeof(port->completed));
}

bool hw_post(struct hw *hw, struct hw_port *port, const struct hw_request *request,
	     const char *payload)
{
	struct hw_request *copy;

	if (port->posted == port->room || port->count == HW_MAX_QUEUE)
		return false;
	copy = testcore_need(malloc(sizeof(*copy)));
	*copy = *request;
	copy->stage = HW_QUEUED;
	if (request->len || request->kind == HW_ATOMIC) {
		copy->payload =
			testcore_need(calloc(1, request->kind == HW_ATOMIC ? 16 : request->len));
		if (payload)
			memcpy(copy->payload, payload, request->len);
	}
	port->queue[port->count++] = copy;
	port->posted++;
	port_changed(hw, port);
	return true;
}

void hw_receives_changed(struct hw *hw, struct hw_port *port)
{
	hw_changed(hw, &port->num_receives, sizeof(port->num_receives));
	hw_changed(hw, port->receives, port->num_receives * sizeof(port->receives[0]));
}

bool hw_receive(struct hw *hw, struct hw_port *port, const struct hw_receive *receive)
{
	if (port->num_receives == HW_MAX_QUEUE)
		return false;
	port->receives[port->num_receives++] = *receive;
	hw_receives_changed(hw, port);
	return true;
}

void hw_retire(struct hw *hw, struct hw_port *port)
{
	unsigned int kept = 0, completed = port->completed;

	port_changed(hw, port);

	for (unsigned int i = 0; i < port->count; i++) {
		struct hw_request *request = port->queue[i];

		if (i < completed && request->stage == HW_DONE &&
		    (!request->notifies || request->noticed)) {
			port->completed--;
			hw_request_free(request);
		} else {
			port->queue[kept++] = request;
		}
	}
	for (unsigned int i = kept; i < port->count; i++)
		port->queue[i] = NULL;
	port->count = kept;
}

void hw_retire_all(struct hw *hw)
{
	for (unsigned int i = 0; i < hw->num_ports; i++)
		hw_retire(hw, hw->ports[i]);
}

/* Pieces */

static unsigned int count_pieces(const struct hw *hw, const char *target, size_t len)
{
	uintptr_t granule = hw->rules.granule;
	uintptr_t first = (uintptr_t) target / granule;
	uintptr_t last = ((uintptr_t) target + len - 1) / granule;

	return len ? (unsigned int) (last - first + 1) : 0;
}

void hw_get_piece(const struct hw *hw, const struct hw_request *request, unsigned int piece,
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

void hw_set_target(const struct hw *hw, struct hw_request *request, char *target, size_t len)
{
	request->target = target;
	request->len = len;
	request->pieces = count_pieces(hw, target, len);
	if (request->pieces > 64)
		abort();
	request->left = request->pieces == 64 ? UINT64_MAX : (UINT64_C(1) << request->pieces) - 1;
}

/* left_changed -- the list of what is in the I/O controller, of so many requests at most */
static void left_changed(struct hw *hw, unsigned int count)
{
	hw_changed(hw, &hw->num_left, sizeof(hw->num_left));
	hw_changed(hw, hw->left, count * sizeof(hw->left[0]));
	hw_changed(hw, hw->left_device, count * sizeof(hw->left_device[0]));
}

void hw_enter(struct hw *hw, struct hw_request *request, unsigned int device)
{
	request->stage = HW_LEFT;
	hw_changed(hw, request, sizeof(*request));
	if (!request->left) {
		request->stage = HW_DONE;
		return;
	}
	if (hw->num_left == HW_MAX_QUEUE * 2)
		abort();
	hw->left[hw->num_left] = request;
	hw->left_device[hw->num_left++] = device;
	left_changed(hw, hw->num_left);
}

static void finish_landing(struct hw *hw, struct hw_request *request)
{
	unsigned int kept = 0;

	request->stage = HW_DONE;
	left_changed(hw, hw->num_left);
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

void hw_land(struct hw *hw, struct hw_request *request, unsigned int piece)
{
	size_t offset, len;

	hw_get_piece(hw, request, piece, &offset, &len);
	hw_place(hw, request->target + offset, request->payload + offset, len);
	request->left &= ~(UINT64_C(1) << piece);
	hw_changed(hw, request, sizeof(*request));
	if (!request->left)
		finish_landing(hw, request);
}

void hw_push(struct hw *hw, unsigned int device, const char *addr, size_t len)
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
			hw_get_piece(hw, request, piece, &offset, &piece_len);
			if (!hw->rules.relaxed ||
			    hw_overlap(request->target + offset, piece_len, addr, len))
				hw_land(hw, request, piece);
		}
		/* If all of it is visible the next one has its place. */
		if (i < hw->num_left && hw->left[i] == request)
			i++;
	}
	hw_push_buffers(hw, addr, len);
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
		hw_get_piece(hw, request, piece, &offset, &piece_len);
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

			if (in_buffer.stage != HW_ARRIVED || !hw_is_posted(&in_buffer))
				continue;
			if (in_buffer.kind == HW_SEND) {
				const struct hw_receive *next = &port->peer->receives[receive++];

				if (receive > port->peer->num_receives)
					break;
				hw_set_target(hw, &in_buffer, next->buf,
					      in_buffer.len < next->len ? in_buffer.len
									: next->len);
			} else {
				hw_set_target(hw, &in_buffer, in_buffer.target, in_buffer.len);
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
