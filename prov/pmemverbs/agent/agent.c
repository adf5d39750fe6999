/* SPDX-License-Identifier: BSD-2-Clause */
/* agent.c -- what the agent works for; agent.h has the rules */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "objects/ep.h"
#include "base/setting.h"
#include "agent/service.h"
#include "agent/writeback.h"

/* Opening and closing */

static int open_fds(struct pmv_agent *agent)
{
	struct epoll_event event = {.events = EPOLLIN};

	agent->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	agent->edges_fd = epoll_create1(EPOLL_CLOEXEC);
	if (agent->kick_fd >= 0 && agent->edges_fd >= 0 &&
	    !epoll_ctl(agent->edges_fd, EPOLL_CTL_ADD, agent->kick_fd, &event))
		return 0;
	return -errno;
}

static void close_fds(struct pmv_agent *agent)
{
	if (agent->kick_fd >= 0)
		close(agent->kick_fd);
	if (agent->edges_fd >= 0)
		close(agent->edges_fd);
}

int pmv_agent_init(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;
	int ret;

	agent->batch = calloc(1, sizeof(*agent->batch));
	if (!agent->batch)
		return -FI_ENOMEM;
	ret = open_fds(agent);
	if (ret) {
		close_fds(agent);
		free(agent->batch);
		return ret;
	}
	agent->mailboxes_tail = &agent->mailboxes;
	/* Where software moves the data the kernel sees it. */
	agent->batch->touch = !domain->engine.core->cpu_placed;
	atomic_init(&agent->node, -1);
	pthread_mutex_init(&agent->serving, NULL);
	pthread_mutex_init(&agent->lock, NULL);
	pthread_cond_init(&agent->unpinned, NULL);
	pmv_regions_init(&agent->regions);
	return 0;
}

void pmv_agent_destroy(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;

	pmv_agent_stop(agent);
	pmv_regions_destroy(&agent->regions);
	pthread_cond_destroy(&agent->unpinned);
	pthread_mutex_destroy(&agent->lock);
	pthread_mutex_destroy(&agent->serving);
	close_fds(agent);
	free(agent->batch);
	free(agent->fds);
}

/* Endpoints */

/*
 * is_wanted -- may the peer ask for anything?  Of regions that are closed by now, too;
 * and where the path reorders, of any region.
 */
static bool is_wanted(const struct pmv_agent *agent, const struct pmv_mailbox *mailbox)
{
	return atomic_load(&agent->was_wanted) || pmv_setting.relaxed || mailbox->peer.relaxed;
}

int pmv_agent_promise(struct pmv_ep *ep)
{
	struct pmv_agent *agent = &ep->domain->agent;
	int ret = 0;

	if (pmv_setting.agent != PMV_AGENT_THREAD || !ep->domain->keyed)
		return 0;
	pthread_mutex_lock(&agent->lock);
	if (!ep->mailbox.promised && is_wanted(agent, &ep->mailbox))
		ret = pmv_agent_start(ep->domain);
	if (!ret && !ep->mailbox.promised) {
		ep->mailbox.promised = true;
		agent->promises++;
	}
	pthread_mutex_unlock(&agent->lock);
	return ret;
}

int pmv_agent_attach(struct pmv_ep *ep)
{
	struct pmv_agent *agent = &ep->domain->agent;
	struct pmv_mailbox *mailbox = &ep->mailbox;
	int ret = 0;

	pthread_mutex_lock(&agent->lock);
	if (!mailbox->attached && !mailbox->closing && mailbox->block && mailbox->connected) {
		if (!mailbox->work)
			mailbox->work = malloc(sizeof(*mailbox->work));
		if (!mailbox->work)
			ret = -FI_ENOMEM;
		else if (is_wanted(agent, mailbox))
			ret = pmv_agent_start(ep->domain);
		if (!ret) {
			mailbox->attached = true;
			mailbox->next = agent->mailboxes;
			agent->mailboxes = mailbox;
			if (!mailbox->next)
				agent->mailboxes_tail = &mailbox->next;
		}
	}
	pthread_mutex_unlock(&agent->lock);
	pmv_agent_kick(agent);
	return ret;
}

void pmv_agent_detach(struct pmv_ep *ep, bool closing)
{
	struct pmv_agent *agent = &ep->domain->agent;

	pthread_mutex_lock(&agent->lock);
	for (struct pmv_mailbox **at = &agent->mailboxes; *at; at = &(*at)->next) {
		if (*at == &ep->mailbox) {
			*at = ep->mailbox.next;
			if (!*at)
				agent->mailboxes_tail = at;
			break;
		}
	}
	ep->mailbox.attached = false;
	ep->mailbox.closing = closing;
	pthread_mutex_unlock(&agent->lock);
}

void pmv_agent_forget(struct pmv_ep *ep)
{
	struct pmv_agent *agent = &ep->domain->agent;
	struct pmv_mailbox *mailbox = &ep->mailbox;

	pthread_mutex_lock(&agent->lock);
	pmv_service_forget(agent, mailbox);
	free(mailbox->work);
	mailbox->work = NULL;
	if (mailbox->promised)
		agent->promises--;
	mailbox->promised = false;
	pthread_mutex_unlock(&agent->lock);
}

void pmv_agent_leave(struct pmv_cq *cq)
{
	struct pmv_agent *agent = &cq->domain->agent;

	pthread_mutex_lock(&agent->lock);
	while (cq->pinned)
		pthread_cond_wait(&agent->unpinned, &agent->lock);
	pthread_mutex_unlock(&agent->lock);
}

/* Memory */

int pmv_agent_want(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;
	int ret = 0;

	pthread_mutex_lock(&agent->lock);
	if (agent->promises || agent->mailboxes)
		ret = pmv_agent_start(domain);
	if (!ret)
		atomic_fetch_add(&agent->wanted, 1);
	atomic_store(&agent->was_wanted, true);
	pthread_mutex_unlock(&agent->lock);
	return ret;
}

void pmv_agent_unwant(struct pmv_domain *domain)
{
	atomic_fetch_sub(&domain->agent.wanted, 1);
}

int pmv_agent_add_region(struct pmv_domain *domain, const struct pmv_region_attr *attr, int node,
			 struct pmv_region **region)
{
	struct pmv_agent *agent = &domain->agent;
	int ret = pmv_agent_want(domain);

	if (ret)
		return ret;
	*region = pmv_region_add(&agent->regions, attr);
	if (!*region) {
		pmv_agent_unwant(domain);
		return -FI_ENOMEM;
	}
	if (node >= 0)
		atomic_store(&agent->node, node);
	if (attr->needs_agent && !atomic_fetch_add(&agent->needed, 1))
		pmv_agent_kick(agent);
	return 0;
}

void pmv_agent_remove_region(struct pmv_domain *domain, struct pmv_region *region)
{
	if (region->needs_agent)
		atomic_fetch_sub(&domain->agent.needed, 1);
	pmv_region_remove(&domain->agent.regions, region);
	pmv_agent_unwant(domain);
}

/* Calls */

void pmv_agent_progress(struct pmv_domain *domain)
{
	struct pmv_agent *agent = &domain->agent;

	if (pmv_setting.agent != PMV_AGENT_PROGRESS || pthread_mutex_trylock(&agent->serving))
		return;
	pmv_service_round(domain);
	pthread_mutex_unlock(&agent->serving);
}

bool pmv_agent_needs_calls(struct pmv_domain *domain)
{
	return pmv_setting.agent == PMV_AGENT_PROGRESS && atomic_load(&domain->agent.wanted) > 0;
}
