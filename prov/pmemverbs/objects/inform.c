/* SPDX-License-Identifier: BSD-2-Clause */
/* inform.c -- answers to those who only ask; inform.h says when */
#include "objects/inform.h"

#include <string.h>

#include "agent/inquiry.h"
#include "base/log.h"
#include "base/setting.h"
#include "objects/domain.h"
#include "objects/eq.h"
#include "objects/tally.h"

#define NUM_COUNTERS (sizeof(struct fi_pmemverbs_counters) / sizeof(uint64_t))
#define NUM_VALUES (PMV_TOLD_COUNTERS + NUM_COUNTERS)

_Static_assert(NUM_VALUES <= PMV_TOLD_MOST, "values");

static void add_domain(struct pmv_domain *domain, uint64_t *values,
		       struct fi_pmemverbs_counters *sum)
{
	values[PMV_TOLD_DOMAINS]++;
	for (size_t i = 0; i <= PMV_WSP; i++)
		values[PMV_TOLD_REGIONS + i] += (uint64_t) atomic_load(&domain->agent.kinds[i]);
	pmv_tally_read(domain, sum);
}

/* collect -- what all domains of a fabric offer, and have counted */
static void collect(struct pmv_fabric *fabric, uint64_t values[NUM_VALUES])
{
	struct fi_pmemverbs_counters sum = {0};
	struct pmv_domain *domain;

	memset(values, 0, NUM_VALUES * sizeof(*values));
	values[PMV_TOLD_VERSION] = pmv_prov.version;
	values[PMV_TOLD_AGENT] = pmv_setting.agent;
	values[PMV_TOLD_RELAXED] = pmv_setting.relaxed;
	values[PMV_TOLD_DDIO] = pmv_setting_fills_caches();
	values[PMV_TOLD_DECLARED] = pmv_setting.domain_declared ? 1U + pmv_setting.domain : 0;
	values[PMV_TOLD_COMMIT_ALL] = pmv_setting.commit_all;
	pthread_mutex_lock(&fabric->domains_lock);
	LIST_FOREACH(domain, &fabric->domains, next)
	add_domain(domain, values, &sum);
	pthread_mutex_unlock(&fabric->domains_lock);
	memcpy(values + PMV_TOLD_COUNTERS, &sum, sizeof(sum));
}

bool pmv_inform(struct pmv_event *event)
{
	struct fi_eq_cm_entry *request = &event->cm;
	const size_t len = event->len > sizeof(*request) ? event->len - sizeof(*request) : 0;
	uint64_t values[NUM_VALUES];
	uint8_t page, answer[PMV_PAGE_SIZE];
	struct pmv_pep *pep;
	bool known;
	int ret;

	if (event->event != FI_CONNREQ || !request->info || !request->fid ||
	    !pmv_question_decode(request->data, len, &known, &page))
		return false;
	/* It is the core's, whose context is ours. */
	pep = pmv_container_of(request->fid->context, struct pmv_pep, pep_fid.fid);
	if (known && pmv_setting.answers)
		collect(pep->fabric, values);
	ret = fi_reject(pep->core_fid, request->info->handle, answer,
			pmv_page_encode(answer, known && pmv_setting.answers ? values : NULL,
					NUM_VALUES, page));
	if (ret)
		PMV_WARN(EP_CTRL, "a question could not be answered: %s\n", fi_strerror(-ret));
	fi_freeinfo(request->info);
	event->len = 0;
	return true;
}
