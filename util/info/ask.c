/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ask.c -- questions to a process that listens (agent/status_query.h)
 *
 * The question is a connection request, made with the core alone.  What comes back may come from
 * anybody.
 */
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "engine/info.h"
#include "info.h"

/* What one core needs for its questions. */
struct asker {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	int timeout_ms;
	char *why; /* of INFO_TEXT */
};

/* fail -- say why there is no answer */
__attribute__((format(printf, 2, 3))) static bool fail(struct asker *asker, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(asker->why, INFO_TEXT, fmt, args);
	va_end(args);
	return false;
}

static void close_fid(struct fid *fid)
{
	if (fid)
		fi_close(fid);
}

static void close_all(struct asker *asker)
{
	close_fid(asker->cq ? &asker->cq->fid : NULL);
	close_fid(asker->domain ? &asker->domain->fid : NULL);
	close_fid(asker->eq ? &asker->eq->fid : NULL);
	close_fid(asker->fabric ? &asker->fabric->fid : NULL);
	if (asker->info)
		fi_freeinfo(asker->info);
}

static bool find_way(struct asker *asker, const struct pmv_core *core, const char *host,
		     const char *port)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return fail(asker, "no memory");
	hints->caps = FI_MSG | pmv_core_wants(core);
	hints->mode = FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(core->name);
	ret = fi_getinfo(FI_VERSION(1, 17), host, port, PMV_INFO_HIDDEN, hints, &asker->info);
	fi_freeinfo(hints);
	return !ret || fail(asker, "%s knows no way to it: %s", core->name, fi_strerror(-ret));
}

static bool open_all(struct asker *asker)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
	struct fi_info *info = asker->info;
	int ret = fi_fabric(info->fabric_attr, &asker->fabric, NULL);

	if (!ret)
		ret = fi_eq_open(asker->fabric, &eq_attr, &asker->eq, NULL);
	if (!ret)
		ret = fi_domain(asker->fabric, info, &asker->domain, NULL);
	if (!ret)
		ret = fi_cq_open(asker->domain, &cq_attr, &asker->cq, NULL);
	return !ret || fail(asker, "%s: %s", info->fabric_attr->prov_name, fi_strerror(-ret));
}

/* connect_ep -- the endpoint that asks, or NULL */
static struct fid_ep *connect_ep(struct asker *asker, uint8_t page)
{
	uint8_t question[PMV_STATUS_QUERY_SIZE];
	struct fid_ep *ep = NULL;
	int ret = fi_endpoint(asker->domain, asker->info, &ep, NULL);

	pmv_status_query_encode(question, page);
	if (!ret)
		ret = fi_ep_bind(ep, &asker->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(ep, &asker->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_enable(ep);
	if (!ret)
		ret = fi_connect(ep, asker->info->dest_addr, question, sizeof(question));
	if (!ret)
		return ep;
	fail(asker, "%s: %s", asker->info->fabric_attr->prov_name, fi_strerror(-ret));
	close_fid(ep ? &ep->fid : NULL);
	return NULL;
}

static bool take_error(struct asker *asker, uint8_t page, struct pmv_status_reply *answer)
{
	char data[512];
	struct fi_eq_err_entry error = {.err_data = data, .err_data_size = sizeof(data)};
	ssize_t ret = fi_eq_readerr(asker->eq, &error, 0);

	if (ret < 0)
		return fail(asker, "%s", fi_strerror((int) -ret));
	if (error.err == FI_ECONNREFUSED && error.err_data_size &&
	    pmv_status_reply_decode(error.err_data, error.err_data_size, page, answer))
		return true;
	if (error.err == FI_ECONNREFUSED && error.err_data_size)
		return fail(asker,
			    "it answers in another way: it does not use pmemverbs, or another "
			    "version");
	if (error.err == FI_ECONNREFUSED)
		return fail(asker, "nobody listens there, or not with this transport, or without "
				   "pmemverbs");
	return fail(asker, "%s", fi_strerror(error.err));
}

/* wait_for -- the rejection with the answer */
static bool wait_for(struct asker *asker, uint8_t page, struct pmv_status_reply *answer)
{
	union {
		struct fi_eq_cm_entry entry;
		char room[sizeof(struct fi_eq_cm_entry) + 512];
	} event;
	int64_t end = pmv_clock_ms() + asker->timeout_ms;

	for (;;) {
		int64_t left = end - pmv_clock_ms();
		uint32_t what = 0;
		ssize_t ret = fi_eq_sread(asker->eq, &what, &event, sizeof(event),
					  left > 0 ? (int) left : 0, 0);

		if (ret == -FI_EAVAIL)
			return take_error(asker, page, answer);
		if (ret > 0 && what == FI_CONNECTED)
			return fail(asker, "it accepts the connection: it does not use pmemverbs");
		if (ret < 0 && ret != -FI_EAGAIN && ret != -FI_EINTR)
			return fail(asker, "%s", fi_strerror((int) -ret));
		if (left <= 0)
			return fail(asker,
				    "no answer in %d s: the target's application does not read its "
				    "event queue, or it is no program of libfabric",
				    asker->timeout_ms / 1000);
	}
}

static bool ask_page(struct asker *asker, uint8_t page, struct pmv_status_reply *answer)
{
	struct fid_ep *ep = connect_ep(asker, page);
	bool ok = ep && wait_for(asker, page, answer);

	close_fid(ep ? &ep->fid : NULL);
	return ok;
}

/* ask_pages -- all of them; the target may have restarted meanwhile, as another version */
static bool ask_pages(struct asker *asker, struct info_answer *answer)
{
	struct pmv_status_reply page = {.pages = 1};
	uint8_t pages = 0;

	for (uint8_t n = 0; n < page.pages; n++) {
		if (!ask_page(asker, n, &page))
			return false;
		answer->refused = page.refused;
		if (page.refused)
			return true;
		if (n && page.pages != pages)
			return fail(asker, "the target has changed meanwhile: try again");
		pages = page.pages;
		memcpy(answer->values + answer->count, page.values,
		       page.count * sizeof(*page.values));
		answer->count += page.count;
	}
	return true;
}

bool info_ask(const char *host, const char *port, int timeout_ms, struct info_answer *answer)
{
	const struct pmv_core *core;
	struct addrinfo *found;
	int unknown = getaddrinfo(host, port, NULL, &found);
	bool ok = false;

	*answer = (struct info_answer){.why = "no core provider is chosen (FI_PMEMVERBS_CORE)"};
	if (unknown) {
		snprintf(answer->why, sizeof(answer->why), "there is no such host: %s",
			 gai_strerror(unknown));
		return false;
	}
	freeaddrinfo(found);
	for (size_t n = 0; !ok && (core = pmv_core_next(n)); n++) {
		struct asker asker = {.timeout_ms = timeout_ms, .why = answer->why};

		answer->count = 0;
		ok = find_way(&asker, core, host, port) && open_all(&asker) &&
		     ask_pages(&asker, answer);
		answer->core = core->name;
		if (ok)
			answer->transport = pmv_core_transport(core, asker.info);
		close_all(&asker);
	}
	return ok;
}
