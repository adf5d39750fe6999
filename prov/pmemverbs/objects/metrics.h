/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metrics.h -- what a process tells of itself in Prometheus' text format (FI_PMEMVERBS_METRICS)
 *
 * fi_pmemverbs_metrics(7) has each metric.  They are counters of all domains that the process ever
 * had, and histograms.  A domain that is closed leaves its counters behind, so none ever falls.
 */
#ifndef PMV_METRICS_H
#define PMV_METRICS_H

#include <stdio.h>

struct pmv_domain;

/*
 * pmv_metrics_join -- a domain was opened; the first one opens the socket, if there is to be one
 * pmv_metrics_leave -- it is about to be closed, and has no endpoint any more
 */
void pmv_metrics_join(struct pmv_domain *domain);
void pmv_metrics_leave(struct pmv_domain *domain);

/* pmv_metrics_write -- all of them */
void pmv_metrics_write(FILE *text);

#endif /* PMV_METRICS_H */
