/* SPDX-License-Identifier: BSD-2-Clause */
/* log.c -- alerts are shown where libfabric shows no warnings */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "config.h"

struct fi_provider pmv_prov = {
	.name = PMV_NAME,
	.version = FI_VERSION(PMV_VERSION_MAJOR, PMV_VERSION_MINOR),
};

/* hash -- of a text, never 0 */
static unsigned long long hash(const char *text)
{
	unsigned long long value = 5381;

	for (; *text; text++)
		value = value * 33 + (unsigned char) *text;
	return value | 1;
}

void pmv_log_alert(struct pmv_alerts *alerts, enum fi_log_subsys subsys, const char *func, int line,
		   const char *fmt, ...)
{
	unsigned long long text_hash;
	char text[768];
	va_list args;
	unsigned int n;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	text_hash = hash(text);
	if (atomic_exchange(&alerts->last, text_hash) == text_hash)
		return;
	if (fi_log_enabled(&pmv_prov, FI_LOG_WARN, subsys)) {
		fi_log(&pmv_prov, FI_LOG_WARN, subsys, func, line, "%s", text);
		return;
	}
	n = atomic_fetch_add(&alerts->count, 1);
	if (n < PMV_MOST_ALERTS)
		fprintf(stderr, PMV_NAME ": %s", text);
	if (n == PMV_MOST_ALERTS)
		fprintf(stderr, PMV_NAME ": more of these are shown with FI_LOG_LEVEL=warn\n");
}
