/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.c -- one connection by libfabric; link.h says what for
 *
 * How the provider is found, and what is said of failures, is util/connection's.  The connection
 * itself is not: there it is made and closed by one thread that waits for it, and failures to close
 * are printed.  Here a server waits for all at once, and a library prints nothing.
 */
#include "link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../../util/connection/connection.h"

int64_t rpc_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

int64_t rpc_now_ms(void)
{
	return rpc_now_ns() / 1000000;
}

int rpc_find_provider(const char *provider, bool server, const char *node, const char *service,
		      unsigned int window, struct fi_info **info, struct connection_error *error)
{
	const struct node_attr attr = {.provider = provider,
				       .host = server ? NULL : node,
				       .source = server ? node : NULL,
				       .port = service,
				       .caps = FI_MSG | FI_RMA | FI_RMA_PMEM | FI_FENCE,
				       .receives = window};
	int ret = node_offered(&attr, info);

	return ret ? explain_offer(error, provider ? provider : "pmemverbs", node, ret) : 0;
}

/*
 * open_domain -- a side that lends no persistent memory opens its domain for none: the provider
 * would run a thread there, as messages might be committed, and that thread would be woken with
 * this side by whatever comes
 */
static int open_domain(struct rpc_link *link, struct fid_fabric *fabric, bool lends)
{
	struct fi_info *info = lends ? NULL : fi_dupinfo(link->info);
	int ret;

	if (info) {
		info->caps &= ~FI_RMA_PMEM;
		info->tx_attr->caps &= ~FI_RMA_PMEM;
		info->rx_attr->caps &= ~FI_RMA_PMEM;
	}
	ret = fi_domain(fabric, info ? info : link->info, &link->domain, NULL);
	fi_freeinfo(info);
	return ret;
}

int rpc_link_open(struct rpc_link *link, struct fid_fabric *fabric, struct fid_eq *eq,
		  struct fi_info *info, bool lends, struct connection_error *error)
{
	/*
	 * Room for everything that this side or its peer can have under way.  With FI_CQ_FORMAT_MSG
	 * verbs does not flag FI_REMOTE_CQ_DATA.
	 */
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA,
				  .wait_obj = FI_WAIT_FD,
				  .size = info->tx_attr->size + 2 * info->rx_attr->size};
	int ret;

	*link = (struct rpc_link){.info = info, .error = error};
	ret = open_domain(link, fabric, lends);
	if (ret)
		return explain_call(error, "fi_domain", ret);
	ret = fi_cq_open(link->domain, &attr, &link->cq, NULL);
	if (ret)
		return explain_call(error, "fi_cq_open", ret);
	ret = fi_endpoint(link->domain, info, &link->ep, NULL);
	if (ret)
		return explain_call(error, "fi_endpoint", ret);
	ret = fi_ep_bind(link->ep, &eq->fid, 0);
	/* Only what asks for it has a completion: data of long calls don't. */
	if (!ret)
		ret = fi_ep_bind(link->ep, &link->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION);
	if (!ret)
		ret = fi_ep_bind(link->ep, &link->cq->fid, FI_RECV);
	if (!ret)
		ret = fi_enable(link->ep);
	return ret ? explain_call(error, "fi_enable", ret) : 0;
}

int rpc_link_register(struct rpc_link *link, void *base, size_t len, uint64_t access,
		      uint64_t flags, struct fid_mr **mr)
{
	int ret = fi_mr_reg(link->domain, base, len, access, 0, 0, flags, mr, NULL);

	return ret ? explain_call(link->error, "fi_mr_reg", ret) : 0;
}

int rpc_buffer_receive(struct rpc_buffer *buffer)
{
	struct rpc_buffers *set = buffer->set;
	ssize_t ret = fi_recv(set->link->ep, buffer->data, set->len, fi_mr_desc(set->mr),
			      FI_ADDR_UNSPEC, buffer);

	return ret ? explain_call(set->link->error, "fi_recv", ret) : 0;
}

int rpc_buffers_open(struct rpc_buffers *set, struct rpc_link *link, unsigned int receives,
		     unsigned int sends, size_t len)
{
	unsigned int count = receives + sends;
	int ret = 0;

	len = rpc_buffer_len(len);
	*set = (struct rpc_buffers){.link = link,
				    .receives = receives,
				    .sends = sends,
				    .share = sends > 1 ? sends / 2 : 1,
				    .len = len};
	set->buffers = calloc(count, sizeof(*set->buffers));
	set->memory =
		mmap(NULL, count * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (set->memory == MAP_FAILED)
		set->memory = NULL;
	if (!set->buffers || !set->memory)
		return explain_call(link->error, "buffers", -FI_ENOMEM);
	ret = rpc_link_register(link, set->memory, count * len, FI_SEND | FI_RECV, 0, &set->mr);
	for (unsigned int i = 0; !ret && i < count; i++) {
		set->buffers[i] = (struct rpc_buffer){.kind = i < receives ? RPC_RECEIVE : RPC_SEND,
						      .set = set,
						      .data = set->memory + i * len};
		if (i < receives)
			ret = rpc_buffer_receive(&set->buffers[i]);
	}
	return ret;
}

int rpc_buffers_lend(struct rpc_buffers *set, struct rpc_link *link, void *memory,
		     unsigned int receives, size_t len)
{
	*set = (struct rpc_buffers){
		.link = link, .memory = memory, .lent = true, .receives = receives, .len = len};
	set->buffers = calloc(receives, sizeof(*set->buffers));
	if (!set->buffers)
		return explain_call(link->error, "buffers", -FI_ENOMEM);
	for (unsigned int i = 0; i < receives; i++)
		set->buffers[i] = (struct rpc_buffer){
			.kind = RPC_RECEIVE, .set = set, .data = set->memory + i * len};
	return rpc_link_register(link, memory, receives * len, FI_RECV, FI_RMA_PMEM, &set->mr);
}

void rpc_buffers_close(struct rpc_buffers *set)
{
	if (set->mr)
		fi_close(&set->mr->fid);
	if (set->memory && !set->lent)
		munmap(set->memory, (set->receives + set->sends) * set->len);
	free(set->buffers);
	*set = (struct rpc_buffers){0};
}

struct rpc_buffer *rpc_buffers_unused(struct rpc_buffers *set)
{
	if (set->sent - set->done == set->sends)
		return NULL;
	return &set->buffers[set->receives + set->sent % set->sends];
}

/* tells -- has the next send a completion? */
static bool tells(const struct rpc_buffers *set)
{
	return (set->sent + 1) % set->share == 0;
}

int rpc_buffer_send(struct rpc_buffer *buffer, size_t len)
{
	struct rpc_buffers *set = buffer->set;
	struct iovec iov = {.iov_base = buffer->data, .iov_len = len};
	void *desc = fi_mr_desc(set->mr);
	struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .context = buffer};
	ssize_t ret = fi_sendmsg(set->link->ep, &msg, tells(set) ? FI_COMPLETION : 0);

	set->sent += !ret;
	if (ret && ret != -FI_EAGAIN)
		explain_call(set->link->error, "fi_sendmsg", ret);
	return (int) ret;
}

void rpc_buffer_sent(const struct rpc_buffer *buffer)
{
	struct rpc_buffers *set = buffer->set;
	uint64_t number = (uint64_t) (buffer - set->buffers) - set->receives;

	/* It was the first one since then that has this buffer and a completion. */
	while (set->done < set->sent && set->done % set->sends != number)
		set->done++;
	set->done += set->done < set->sent;
}

void rpc_link_end(struct rpc_link *link)
{
	if (link->ep) {
		fi_shutdown(link->ep, 0);
		fi_close(&link->ep->fid);
	}
	link->ep = NULL;
}

void rpc_link_close(struct rpc_link *link)
{
	rpc_link_end(link);
	if (link->cq)
		fi_close(&link->cq->fid);
	if (link->domain)
		fi_close(&link->domain->fid);
	*link = (struct rpc_link){0};
}
