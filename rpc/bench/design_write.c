/* SPDX-License-Identifier: BSD-2-Clause */
/* design_write.c -- requests and replies by writes: FaRM, Octopus, L5, ScaleRPC */
#include <string.h>

#include "design.h"

int write_request(struct link *link, struct frame *frame, bool more)
{
	(void) more;
	return link_write(link, frame, frame_total(frame), link_remote(link, frame));
}

int write_reply(struct link *link, struct frame *frame, bool more)
{
	return write_request(link, frame, more);
}

struct frame *poll_request(struct link *link)
{
	struct frame *frame = link_request(link, link->next);

	if (!link_arrived(frame, link->next, link->port->net->layout.request_len))
		return NULL;
	link->next++;
	return frame;
}

struct frame *poll_reply(struct link *link)
{
	struct frame *frame = link_reply(link, link->next);

	if (!link_arrived(frame, link->next, link->port->net->layout.reply_len))
		return NULL;
	link->next++;
	return frame;
}

const struct design design_farm = {
	.name = "farm",
	.request = write_request,
	.take_reply = poll_reply,
	.take_request = poll_request,
	.reply = write_reply,
};

/* ---- Octopus: the immediate says from whom a request is, so nobody looks for it ---- */

static int octopus_request(struct link *link, struct frame *frame, bool more)
{
	(void) more;
	return link_write_data(link, frame, frame_total(frame), link_remote(link, frame),
			       link->self);
}

static struct frame *octopus_take_request(struct link *link)
{
	if (!link->notified)
		return NULL;
	link->notified--;
	return link_request(link, link->next++);
}

static int octopus_release(struct link *link)
{
	return link->server ? link_receive(link, 1) : 0;
}

const struct design design_octopus = {
	.name = "octopus",
	.server_sleeps = true,
	.request = octopus_request,
	.take_reply = poll_reply,
	.take_request = octopus_take_request,
	.reply = write_reply,
	.release = octopus_release,
};

/* ---- L5: a second write sets a flag; those of all clients lie together ---- */

static int l5_request(struct link *link, struct frame *frame, bool more)
{
	unsigned int slot = frame->number % link->port->net->layout.slots;
	int ret = write_request(link, frame, more);

	return ret ? ret : link_set_flag(link, link->remote_flags + slot);
}

static int l5_reply(struct link *link, struct frame *frame, bool more)
{
	const struct layout *layout = &link->port->net->layout;
	unsigned int slot = frame->number % layout->slots;
	int ret = write_reply(link, frame, more);

	return ret ? ret : link_set_flag(link, link->remote_area + layout->flags + slot);
}

/* take_flag -- of the frame that comes next */
static bool take_flag(struct link *link, volatile uint8_t *flags)
{
	volatile uint8_t *flag = &flags[link->next % link->port->net->layout.slots];

	if (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		return false;
	*flag = 0;
	link->next++;
	return true;
}

static struct frame *l5_take_request(struct link *link)
{
	return take_flag(link, link->flags) ? link_request(link, link->next - 1) : NULL;
}

static struct frame *l5_take_reply(struct link *link)
{
	uint8_t *flags = (uint8_t *) link->area + link->port->net->layout.flags;

	return take_flag(link, flags) ? link_reply(link, link->next - 1) : NULL;
}

/* l5_look -- libc's memchr looks at many bytes at a time, as L5 does */
static bool l5_look(struct port *port, const volatile uint8_t *flags, size_t len)
{
	(void) port;
	return memchr((const void *) (uintptr_t) flags, 1, len);
}

const struct design design_l5 = {
	.name = "l5",
	.request = l5_request,
	.take_reply = l5_take_reply,
	.look = l5_look,
	.take_request = l5_take_request,
	.reply = l5_reply,
};

/* ---- ScaleRPC: FaRM's way, and a warm-up between ---- */

/* The paper: "one warm-up phase with 100 process phases". */
#define PHASES 101U

/* scalerpc_request -- in the warm-up only where it is; the server fetches it */
static int scalerpc_request(struct link *link, struct frame *frame, bool more)
{
	(void) more;
	if (frame->number % PHASES != 1)
		return write_request(link, frame, more);
	return link_write(link, frame, sizeof(*frame), link_remote(link, frame));
}

static struct frame *scalerpc_take_request(struct link *link)
{
	struct frame *frame = link_request(link, link->next);
	size_t max = link->port->net->layout.request_len;

	if (link->next % PHASES != 1)
		return poll_request(link);
	if (link->fetching)
		return link->fetched ? (link->fetching = false, link->next++, frame) : NULL;
	/* The number is there: of the end only the server's READ knows. */
	if (__atomic_load_n(&frame->number, __ATOMIC_ACQUIRE) != link->next ||
	    frame->len < sizeof(*frame) || frame_total(frame) > max)
		return NULL;
	if (link_fetch(link, frame, frame_total(frame), link_remote(link, frame)))
		link->gone = true;
	return NULL;
}

const struct design design_scalerpc = {
	.name = "scalerpc",
	.request = scalerpc_request,
	.take_reply = poll_reply,
	.take_request = scalerpc_take_request,
	.reply = write_reply,
};
