/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * status_reply.c -- answers to those who only ask (agent/status_query.h)
 *
 * The application does not hear of a question: its connection request is rejected with the
 * answer, before it becomes an event.  That happens when the application reads the event queue of
 * its passive endpoint, as with every connection request.
 */
#include "objects/eq.h"

#include <string.h>

#include "agent/status_query.h"
#include "base/log.h"
#include "base/setting.h"
#include "objects/domain.h"

#define NUM_COUNTERS (sizeof(struct fi_pmemverbs_counters) / sizeof(uint64_t))
#define NUM_VALUES (PMV_STATUS_COUNTERS + NUM_COUNTERS)

_Static_assert(NUM_VALUES <= PMV_STATUS_MOST, "values");

/* collect -- what all domains of a fabric offer, and have counted */
static void collect(struct pmv_fabric *fabric, uint64_t values[NUM_VALUES])
{
	struct fi_pmemverbs_counters sum = {0};
	struct pmv_domain *domain;

	memset(values, 0, NUM_VALUES * sizeof(*values));
	values[PMV_STATUS_VERSION] = pmv_prov.version;
	values[PMV_STATUS_AGENT] = pmv_setting.agent;
	values[PMV_STATUS_RELAXED] = pmv_setting.relaxed;
	values[PMV_STATUS_DDIO] = pmv_setting_fills_caches();
	values[PMV_STATUS_DECLARED] = pmv_setting.domain_declared ? 1U + pmv_setting.domain : 0;
	values[PMV_STATUS_COMMIT_ALL] = pmv_setting.commit_all;
	pthread_mutex_lock(&fabric->domains_lock);
	LIST_FOREACH(domain, &fabric->domains, next)
	{
		values[PMV_STATUS_DOMAINS]++;
		for (size_t i = 0; i <= PMV_WSP; i++)
			values[PMV_STATUS_REGIONS + i] +=
				(uint64_t) atomic_load(&domain->agent.kinds[i]);
		pmv_tally_read(domain, &sum);
	}
	pthread_mutex_unlock(&fabric->domains_lock);
	memcpy(values + PMV_STATUS_COUNTERS, &sum, sizeof(sum));
}

bool pmv_status_reply(struct pmv_event *event)
{
	struct fi_eq_cm_entry *request = &event->cm;
	const size_t len = event->len > sizeof(*request) ? event->len - sizeof(*request) : 0;
	uint64_t values[NUM_VALUES];
	uint8_t page, answer[PMV_STATUS_REPLY_SIZE];
	struct pmv_pep *pep;
	bool known;
	int ret;

	if (event->event != FI_CONNREQ || !request->info || !request->fid ||
	    !pmv_status_query_decode(request->data, len, &known, &page))
		return false;
	/* It is the core's, whose context is ours. */
	pep = pmv_container_of(request->fid->context, struct pmv_pep, pep_fid.fid);
	if (known && pmv_setting.answers)
		collect(pep->fabric, values);
	ret = fi_reject(pep->core_fid, request->info->handle, answer,
			pmv_status_reply_encode(answer,
						known && pmv_setting.answers ? values : NULL,
						NUM_VALUES, page));
	if (ret)
		PMV_WARN(EP_CTRL, "a question could not be answered: %s\n", fi_strerror(-ret));
	fi_freeinfo(request->info);
	event->len = 0;
	return true;
}
