# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the report on all benchmarks; %D% is this directory

EXTRA_DIST += %D%/report %D%/methods.sh %D%/sections.sh %D%/machine.sh
EXTRA_DIST += %D%/report-page %D%/page-tables.sh %D%/page-sections.sh %D%/page-hints.sh
EXTRA_DIST += %D%/report.css %D%/clients.awk %D%/rpc.awk %D%/stores %D%/stores.awk %D%/table.awk %D%/waiting.awk
