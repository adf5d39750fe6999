/* SPDX-License-Identifier: BSD-2-Clause */
/* design_fetch.c -- the server keeps its replies, and the client fetches them: RFP */
#include "design.h"

/* What is fetched at first: a frame with a short reply.  The rest of a longer one is fetched
 * then. */
#define FIRST 256U

/* fetch -- the next reply, from here on */
static int fetch(struct link *link, size_t from, size_t len)
{
	char *frame = (char *) link_reply(link, link->next);

	return link_fetch(link, frame + from, len, link_remote(link, frame + from));
}

static struct frame *rfp_take_reply(struct link *link)
{
	struct frame *frame = link_reply(link, link->next);
	size_t max = link->port->net->layout.reply_len, first = max < FIRST ? max : FIRST, had;
	int ret;

	if (link->fetching && !link->fetched)
		return NULL;
	had = link->fetching ? link->fetch_len : 0;
	link->fetching = false;
	if (had && frame->number == link->next && frame->len >= sizeof(*frame) &&
	    frame_total(frame) <= max) {
		if (had >= frame_total(frame)) {
			link->next++;
			link->fetch_len = 0;
			return frame;
		}
		ret = fetch(link, first, frame_total(frame) - first);
		link->fetch_len = frame_total(frame);
	} else {
		ret = fetch(link, 0, first);
		link->fetch_len = first;
	}
	if (ret)
		link->port->failed = true;
	return NULL;
}

/* rfp_reply -- sealed is enough */
static int rfp_reply(struct link *link, struct frame *frame, bool more)
{
	(void) link;
	(void) frame;
	(void) more;
	return 0;
}

const struct design design_rfp = {
	.name = "rfp",
	.request = write_request,
	.take_reply = rfp_take_reply,
	.take_request = poll_request,
	.reply = rfp_reply,
};
