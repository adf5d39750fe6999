# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- what processes tell of themselves; %D% is this directory

bin_PROGRAMS += fi_pmem_top
fi_pmem_top_SOURCES = %D%/fi_pmem_top.c \
	%D%/gather.c %D%/gather.h \
	%D%/merge.c %D%/merge.h \
	%D%/table.c %D%/table.h \
	util/number.h
