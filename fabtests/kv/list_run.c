/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * list_run.c -- runs `push` of docs/programming.md, for the step docs: both ends are this process
 *
 * It is linked with the text in the documentation, and so is no program of the build.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_ext_pmemverbs.h>

#include "../../util/connection/connection.h"

#define SIZE 4096
#define ELEMENTS_AT 64
#define ELEMENT 64
#define ELEMENTS 4
#define PORT "9229"
#define TIMEOUT_MS 60000

struct element {
	uint64_t next;
	char text[ELEMENT - sizeof(uint64_t)];
};

int push(struct fi_pmemverbs_chain_ops *ops, struct fid_ep *ep, struct fid_cq *cq, uint64_t key,
	 uint32_t list, uint64_t head_addr, uint64_t *head, const char *text, uint64_t *buffer);

/* One of the two ends. */
struct end {
	struct node node;
	struct conn conn;
	struct region region;
};

struct lists {
	struct end target, initiator;
	struct fi_pmemverbs_chain_ops *ops; /* the initiator's */
	struct fi_pmemverbs_chain_ops *target_ops;
	struct fi_pmemverbs_list *list;
	char *memory; /* begins with the list's head */
};

static const struct conn_attr conn_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait = FI_WAIT_UNSPEC};

/* await_event -- at one end; the other one's have to be read, too, while the connection is made */
static int await_event(struct end *one, struct end *other, uint32_t wanted, struct cm_event *event)
{
	int64_t deadline = connection_now_ms() + TIMEOUT_MS;
	struct cm_event others;
	int ret = 0;

	while (!ret && connection_now_ms() < deadline) {
		ret = node_event(&other->node, &others, 1);
		if (ret >= 0)
			ret = node_event(&one->node, event, 1);
	}
	return ret > 0 && event->event == wanted && !event->err ? 0 : -FI_ECONNABORTED;
}

static int connect_ends(struct end *target, struct end *initiator)
{
	struct node_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
		.port = PORT,
		.timeout_ms = TIMEOUT_MS,
	};
	struct cm_event event;
	int ret = node_listen(&target->node, &attr);

	attr.host = "127.0.0.1";
	if (!ret)
		ret = node_open(&initiator->node, &attr);
	if (!ret)
		ret = conn_create(&initiator->conn, &initiator->node, initiator->node.info,
				  &conn_attr);
	if (!ret)
		ret = fi_connect(initiator->conn.ep, initiator->node.info->dest_addr, NULL, 0);
	if (!ret)
		ret = await_event(target, initiator, FI_CONNREQ, &event);
	if (!ret)
		ret = node_domain(&target->node, event.entry.info);
	if (!ret)
		ret = conn_create(&target->conn, &target->node, event.entry.info, &conn_attr);
	if (!ret)
		ret = fi_accept(target->conn.ep, NULL, 0);
	return ret ? ret : await_event(initiator, target, FI_CONNECTED, &event);
}

static int make_list(struct lists *lists)
{
	struct end *target = &lists->target;
	int ret;

	lists->memory =
		mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (lists->memory == MAP_FAILED)
		return -FI_ENOMEM;
	ret = region_register(&target->node, &target->region, lists->memory, SIZE,
			      FI_REMOTE_READ | FI_REMOTE_WRITE, FI_RMA_PMEM);
	if (!ret)
		ret = fi_open_ops(&target->node.domain->fid, FI_PMEMVERBS_CHAIN_OPS, 0,
				  (void **) &lists->target_ops, NULL);
	if (!ret)
		ret = lists->target_ops->list_open(target->region.mr, ELEMENTS_AT, ELEMENT,
						   ELEMENTS, &lists->list);
	for (uint64_t i = 0; !ret && i < ELEMENTS; i++)
		ret = lists->target_ops->list_put(lists->list, lists->list->addr + i * ELEMENT);
	return ret ? ret
		   : fi_open_ops(&lists->initiator.conn.ep->fid, FI_PMEMVERBS_CHAIN_OPS, 0,
				 (void **) &lists->ops, NULL);
}

/* push_one -- the call that the documentation shows, as its text says */
static int push_one(struct lists *lists, uint64_t *head, const char *text)
{
	struct conn *conn = &lists->initiator.conn;
	const struct region *region = &lists->target.region;
	uint64_t buffer;
	int ret;

	do {
		ret = push(lists->ops, conn->ep, conn->txcq, region->key, lists->list->number,
			   region->addr, head, text, &buffer);
	} while (ret == -FI_EAGAIN);
	return ret;
}

static int expect(int is, int wanted, const char *what)
{
	if (is != wanted)
		fprintf(stderr, "%s: %d instead of %d\n", what, is, wanted);
	return is == wanted ? 0 : -FI_EIO;
}

/* has -- the elements from the head on */
static int has(const struct lists *lists, const char *const *texts, int count)
{
	const uint64_t start = lists->target.region.addr;
	const struct element *element;
	uint64_t at = *(const uint64_t *) lists->memory;

	for (int i = 0; i < count; i++) {
		element = (const struct element *) (lists->memory + (at - start));
		if (!at || strcmp(element->text, texts[i]))
			return expect(i, count, "elements in the list");
		printf("%s\n", element->text);
		at = element->next;
	}
	return expect(at != 0, 0, "more elements");
}

static int run(struct lists *lists)
{
	static const char *const texts[] = {"three", "two", "one"};
	uint64_t head = 0, stale = 0, last;
	int ret = connect_ends(&lists->target, &lists->initiator);

	if (!ret)
		ret = make_list(lists);
	if (!ret)
		ret = expect(push_one(lists, &head, "one"), 0, "the first push");
	/* Somebody else was faster: the buffer is lost here, and the right head is known now. */
	if (!ret)
		ret = expect(push_one(lists, &stale, "not this"), 1, "a push in front of nothing");
	if (!ret)
		ret = expect(stale == head, 1, "the head that is told");
	if (!ret)
		ret = expect(push_one(lists, &head, "two"), 0, "the second push");
	if (!ret)
		ret = expect(push_one(lists, &head, "three"), 0, "the third push");
	last = head;
	if (!ret)
		ret = expect(push_one(lists, &head, "four"), -FI_ENOSPC, "a push without a buffer");
	if (!ret)
		ret = expect(head == last, 1, "the head after that");
	return ret ? ret : has(lists, texts, 3);
}

int main(void)
{
	struct lists lists = {0};

	return run(&lists) ? 1 : 0;
}
