/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tally.h -- the counters of a domain (fi_ext_pmemverbs.h)
 *
 * Nothing is counted for the whole domain on the way of an operation.  An endpoint counts its
 * commits, its mailbox the messages, and the agent what it does.  All that is added up when
 * somebody asks.  An endpoint that is closed leaves what it has counted behind.
 *
 * tally.lock is taken before all locks of agents and endpoints, and domains_lock before it.
 */
#ifndef PMV_TALLY_H
#define PMV_TALLY_H

#include <rdma/fi_ext_pmemverbs.h>

struct pmv_domain;
struct pmv_ep;
struct pmv_fabric;

extern struct fi_pmemverbs_counters_ops pmv_tally_ops;

/* pmv_tally_begin, pmv_tally_end -- a domain is open from now on, or will be closed */
void pmv_tally_begin(struct pmv_domain *domain);
void pmv_tally_end(struct pmv_domain *domain);

/* pmv_tally_join, pmv_tally_leave -- an endpoint of the domain, which counts nothing more */
void pmv_tally_join(struct pmv_ep *ep);
void pmv_tally_leave(struct pmv_ep *ep);

/* pmv_tally_read -- add what a domain has counted */
void pmv_tally_read(struct pmv_domain *domain, struct fi_pmemverbs_counters *sum);

#endif /* PMV_TALLY_H */
