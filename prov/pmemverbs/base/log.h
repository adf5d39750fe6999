/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h -- the provider's name and its log */
#ifndef PMV_LOG_H
#define PMV_LOG_H

#include <stdatomic.h>

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#define PMV_NAME "pmemverbs"

/* What libfabric knows of this provider; provider.c fills in the functions. */
extern struct fi_provider pmv_prov;

#define PMV_WARN(subsys, ...) FI_WARN(&pmv_prov, FI_LOG_##subsys, __VA_ARGS__)
#define PMV_INFO(subsys, ...) FI_INFO(&pmv_prov, FI_LOG_##subsys, __VA_ARGS__)

/*
 * PMV_ALERT -- a warning that a set-up is less durable than it looks
 *
 * Without FI_LOG_LEVEL libfabric prints no warnings; then it goes to stderr.  There, the
 * same text is not repeated, and each place prints at most PMV_MOST_ALERTS texts.
 */
#define PMV_ALERT(subsys, ...)                                                                     \
	do {                                                                                       \
		static struct pmv_alerts alerts_;                                                  \
		pmv_log_alert(&alerts_, FI_LOG_##subsys, __func__, __LINE__, __VA_ARGS__);         \
	} while (0)

#define PMV_MOST_ALERTS 8

/* What one place in the code has printed. */
struct pmv_alerts {
	atomic_uint count;
	atomic_ullong last; /* a hash of the text */
};

void pmv_log_alert(struct pmv_alerts *alerts, enum fi_log_subsys subsys, const char *func, int line,
		   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif /* PMV_LOG_H */
