# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- appends to a remote log; %D% is this directory

bin_PROGRAMS += fi_pmem_remotelog
fi_pmem_remotelog_SOURCES = %D%/fi_pmem_remotelog.c \
	%D%/log.c \
	%D%/remotelog.h \
	%D%/target.c
fi_pmem_remotelog_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/prov/pmemverbs
fi_pmem_remotelog_CFLAGS = $(AM_CFLAGS) $(SODIUM_CFLAGS) -pthread
fi_pmem_remotelog_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(SODIUM_LIBS)

EXTRA_DIST += %D%/remotelog
