/* SPDX-License-Identifier: BSD-2-Clause */
/* design_message.c -- requests and replies by messages: DaRPC, FaSST */
#include "design.h"

static int send_frame(struct link *link, struct frame *frame, bool more)
{
	(void) more;
	return link_send(link, frame, false);
}

/* send_list -- FaSST rings the doorbell once for a list */
static int send_list(struct link *link, struct frame *frame, bool more)
{
	return link_send(link, frame, more);
}

/* take -- messages come in order, so the next one has the next number */
static struct frame *take(struct link *link)
{
	if (link->num_taken == link->num_arrived)
		return NULL;
	link->next++;
	return link->arrived[link->num_taken++ % link->port->net->layout.receives];
}

static int receive_each(struct link *link)
{
	link->spent++;
	return link_receive(link, 1);
}

/* receive_list -- FaSST posts receives by the list, too */
static int receive_list(struct link *link)
{
	link->spent++;
	return link_receive(link, link->port->net->layout.slots);
}

const struct design design_darpc = {
	.name = "darpc",
	.messages = true,
	.server_sleeps = true,
	.client_sleeps = true,
	.request = send_frame,
	.take_reply = take,
	.take_request = take,
	.reply = send_frame,
	.release = receive_each,
};

const struct design design_fasst = {
	.name = "fasst",
	.messages = true,
	.server_sleeps = true,
	.client_sleeps = true,
	.frame_max = 4096, /* a datagram is not longer than the path's MTU */
	.request = send_list,
	.take_reply = take,
	.take_request = take,
	.reply = send_list,
	.release = receive_list,
};
