# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the example program; %D% is this directory

bin_PROGRAMS += fi_pmem_demo
fi_pmem_demo_SOURCES = %D%/fi_pmem_demo.c %D%/demo_log.h %D%/demo_log.c
fi_pmem_demo_LDADD = $(LIBFABRIC_LIBS)
