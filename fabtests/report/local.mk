# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the report on all benchmarks; %D% is this directory

EXTRA_DIST += %D%/report %D%/report-page %D%/report.css %D%/rpc.awk %D%/table.awk %D%/waiting.awk
