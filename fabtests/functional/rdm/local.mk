# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the functional program for FI_EP_RDM; %D% is this directory

bin_PROGRAMS += fi_pmem_rdm_functional
fi_pmem_rdm_functional_SOURCES = \
	%D%/cases_atomic.c \
	%D%/cases_calls.c \
	%D%/cases_fence.c \
	%D%/cases_gone.c \
	%D%/cases_libraries.c \
	%D%/cases_loss.c \
	%D%/cases_messages.c \
	%D%/cases_write.c \
	%D%/client.c \
	%D%/fi_pmem_rdm_functional.c \
	%D%/libraries.c \
	%D%/rdm_functional.h \
	%D%/server.c \
	%D%/side.c \
	prov/pmemverbs/base/setting.h
fi_pmem_rdm_functional_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/prov/pmemverbs
fi_pmem_rdm_functional_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS)

noinst_PROGRAMS += rdm_lost_source
rdm_lost_source_SOURCES = \
	%D%/libraries.c \
	%D%/lost_source.c \
	%D%/rdm_functional.h \
	%D%/side.c \
	prov/pmemverbs/base/setting.h
rdm_lost_source_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/prov/pmemverbs
rdm_lost_source_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS)
